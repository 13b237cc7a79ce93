//! The parser: text to a [`Script`]. `README.md` describes the language for authors.
//!
//! Owns the types of a script. An error is a message that begins with the line's number.

mod packet;
#[cfg(test)]
mod tests;

pub use packet::{Options, Packet, Position, flags};

use std::time::Duration;

/// A parsed script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// Whether the kernel's TCP behaves in the same way.
    pub linux: Linux,
    /// The state whose `begin.script` runs first, if any.
    pub begin: Option<String>,
    /// The initial value of the peer's timestamp clock: every segment of the peer has the
    /// option with this value unless it specifies another.
    pub timestamps: Option<u32>,
    /// The events, in order.
    pub lines: Vec<Line>,
}

/// The expected result with the kernel's TCP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Linux {
    /// The kernel behaves as the script.
    Same,
    /// The kernel differs, for this reason.
    Differs(String),
    /// The script cannot run against the kernel, for this reason.
    NotRun(String),
}

/// One line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Its line number in the file, from 1.
    pub number: usize,
    /// Its text, for messages.
    pub text: String,
    /// The time before it, or, for an expected segment, until it.
    pub pause: Duration,
    /// The event.
    pub step: Step,
}

/// The event of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// The peer's segment arrives (`<`), or the stack sends one (`>`).
    Segment(Direction, Packet),
    /// The stack sends nothing (`> nothing`).
    Silence,
    /// The program makes a call, and gets this result.
    Call(Call, String),
}

/// The sender of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the peer, `<`.
    In,
    /// From the stack, `>`.
    Out,
}

/// A call of the program. Sockets are non-blocking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// An active open to the peer.
    Connect,
    /// A passive open.
    Listen,
    /// Accepts the connection from the listener.
    Accept,
    /// Writes this many bytes.
    Write(u32),
    /// Writes this many bytes, the last of them urgent (MSG_OOB).
    WriteUrgent(u32),
    /// Reads at most this many bytes.
    Read(u32),
    /// Reads the urgent byte (MSG_OOB).
    ReadUrgent,
    /// Whether the read position is at the urgent byte (SIOCATMARK).
    AtMark,
    /// Closes the sending half.
    ShutdownWrite,
    /// Closes the receiving half.
    ShutdownRead,
    /// Closes the descriptor.
    Close,
    /// Closes the descriptor with SO_LINGER of 0 seconds.
    Abort,
    /// SO_ERROR.
    Error,
    /// The connection's state.
    State,
}

impl Script {
    /// Parses a script.
    ///
    /// # Errors
    /// The error, with the line's number.
    pub fn parse(text: &str) -> Result<Script, String> {
        let mut script = Script {
            linux: Linux::Same,
            begin: None,
            timestamps: None,
            lines: Vec::new(),
        };
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or_default().trim();
            if !line.is_empty() {
                script
                    .take_line(number, line)
                    .map_err(|what| format!("line {number}: {what}: {line}"))?;
            }
        }
        Ok(script)
    }

    fn take_line(&mut self, number: usize, line: &str) -> Result<(), String> {
        if let Some(says) = line.strip_prefix("linux:") {
            self.linux = linux(says.trim())?;
            return Ok(());
        }
        if let Some(state) = line.strip_prefix("in ") {
            if self.begin.is_some() || !self.lines.is_empty() {
                return Err("`in STATE` comes once, before everything that happens".into());
            }
            let (state, clock) = match state.split_once(" with ts ") {
                Some((state, clock)) => (state, Some(number_of(clock)?)),
                None => (state, None),
            };
            self.begin = Some(state.trim().to_owned());
            self.timestamps = clock;
            return Ok(());
        }
        let (pause, rest) = pause(line)?;
        self.lines.push(Line {
            number,
            text: line.to_owned(),
            pause,
            step: step(rest)?,
        });
        Ok(())
    }
}

fn linux(says: &str) -> Result<Linux, String> {
    let reason = |rest: &str| {
        let reason = rest.trim_start_matches(',').trim();
        match reason.strip_prefix("because ") {
            Some(why) if !why.trim().is_empty() => Ok(why.to_owned()),
            _ => Err("a reason is missing: `because ...`".to_owned()),
        }
    };
    if let Some(rest) = says.strip_prefix("differs") {
        Ok(Linux::Differs(reason(rest)?))
    } else if let Some(rest) = says.strip_prefix("not run") {
        Ok(Linux::NotRun(reason(rest)?))
    } else {
        Err("it is `linux: differs, because ...` or `linux: not run, because ...`".into())
    }
}

/// `+0.2` in front of a line.
fn pause(line: &str) -> Result<(Duration, &str), String> {
    let Some(rest) = line.strip_prefix('+') else {
        return Ok((Duration::ZERO, line));
    };
    let (seconds, rest) = rest
        .split_once(char::is_whitespace)
        .ok_or("nothing follows the time")?;
    let seconds: f64 = seconds
        .parse()
        .map_err(|_| "that is no number of seconds")?;
    let pause = Duration::try_from_secs_f64(seconds).map_err(|e| e.to_string())?;
    Ok((pause, rest.trim_start()))
}

fn step(line: &str) -> Result<Step, String> {
    if let Some(segment) = line.strip_prefix('<') {
        Ok(Step::Segment(Direction::In, Packet::parse(segment)?))
    } else if let Some(segment) = line.strip_prefix('>') {
        if segment.trim() == "nothing" {
            return Ok(Step::Silence);
        }
        Ok(Step::Segment(Direction::Out, Packet::parse(segment)?))
    } else {
        let (call, answer) = line.split_once('=').ok_or(
            "a line begins with `<`, `>` or the name of a call, and a call has an answer: `= ...`",
        )?;
        Ok(Step::Call(call_of(call.trim())?, answer.trim().to_owned()))
    }
}

fn call_of(text: &str) -> Result<Call, String> {
    let (name, argument) = text
        .strip_suffix(')')
        .and_then(|text| text.split_once('('))
        .ok_or("a call has parentheses")?;
    Ok(match (name, argument) {
        ("connect", "") => Call::Connect,
        ("listen", "") => Call::Listen,
        ("accept", "") => Call::Accept,
        ("write", bytes) => Call::Write(number_of(bytes)?),
        ("write_urgent", bytes) => Call::WriteUrgent(number_of(bytes)?),
        ("read", bytes) => Call::Read(number_of(bytes)?),
        ("read_urgent", "") => Call::ReadUrgent,
        ("at_mark", "") => Call::AtMark,
        ("shutdown", "SHUT_WR") => Call::ShutdownWrite,
        ("shutdown", "SHUT_RD") => Call::ShutdownRead,
        ("close", "") => Call::Close,
        ("abort", "") => Call::Abort,
        ("error", "") => Call::Error,
        ("state", "") => Call::State,
        _ => return Err("there is no such call".into()),
    })
}

fn number_of<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.trim()
        .parse()
        .map_err(|_| format!("`{}` is no number", text.trim()))
}
