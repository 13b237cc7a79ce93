//! Running a script against a stack.
//!
//! Owns [`Stack`] and [`run`], and with it the mapping of a script's positions to
//! sequence numbers: the peer's count from [`PEER_ISS`], the stack's from the SYN that it
//! sent; before that they are the numbers themselves.

use crate::{Call, Direction, Line, Packet, Position, Script, Step};
use longshore_wire::SeqNumber;
use longshore_wire::tcp::{SackBlocks, TcpFlags, TcpHeader, TcpOptions, Timestamps};
use std::time::Duration;

/// The sequence number of the peer's SYN, chosen so that its stream soon wraps.
pub const PEER_ISS: u32 = u32::MAX - 150;

/// The peer's window where a script specifies none.
const PEER_WINDOW: u16 = 30_000;

/// A TCP under test, with one connection.
pub trait Stack {
    /// How late a segment may be that is expected at once.
    const TIMEOUT: Duration;
    /// How long no segment may arrive to count as silence.
    const SILENCE: Duration;
    /// How early a segment may be, for clocks with ticks.
    const EARLY: Duration;

    /// The time since the start.
    fn now(&self) -> Duration;
    /// Advances time.
    fn pass(&mut self, time: Duration);
    /// A segment arrives. The stack fills in the ports.
    fn arrives(&mut self, header: &TcpHeader, payload_len: u32);
    /// The next segment that it sends, after waiting for at most this long.
    fn sends(&mut self, wait: Duration) -> Option<Sent>;
    /// The program makes a call; returns its result: a number, the name of an error, or
    /// of a state.
    fn call(&mut self, call: Call) -> String;
}

/// A segment sent by the stack.
#[derive(Debug, Clone)]
pub struct Sent {
    /// Its header.
    pub header: TcpHeader,
    /// Bytes of payload.
    pub payload_len: u32,
}

/// Runs `script` against `stack`; `begin` returns the script that leads into a state.
///
/// # Errors
/// The first line that fails, and what happened instead.
pub fn run<S: Stack>(
    script: &Script,
    begin: &dyn Fn(&str) -> Result<Script, String>,
    stack: &mut S,
) -> Result<(), String> {
    let mut run = Run {
        stack,
        iss: 0,
        edge: 0,
        echo: 0,
        clock: script.timestamps,
    };
    run.script(script, begin)?;
    match run.stack.sends(S::SILENCE) {
        None => Ok(()),
        Some(sent) => Err(format!("at the end, the stack sends {}", run.tell(&sent))),
    }
}

struct Run<'s, S> {
    stack: &'s mut S,
    /// The sequence number of the stack's SYN.
    iss: u32,
    /// The right edge of the window that it advertised last, as a position.
    edge: i64,
    /// The last value of its timestamp clock.
    echo: u32,
    /// The peer's clock, if it sends timestamps.
    clock: Option<u32>,
}

impl<S: Stack> Run<'_, S> {
    fn script(
        &mut self,
        script: &Script,
        begin: &dyn Fn(&str) -> Result<Script, String>,
    ) -> Result<(), String> {
        if let Some(state) = &script.begin {
            self.script(&begin(state)?, begin)
                .map_err(|what| format!("on the way to {state}: {what}"))?;
        }
        for line in &script.lines {
            self.line(line)
                .map_err(|what| format!("line {}: `{}`: {what}", line.number, line.text))?;
        }
        Ok(())
    }

    fn line(&mut self, line: &Line) -> Result<(), String> {
        match &line.step {
            Step::Segment(Direction::In, packet) => {
                self.stack.pass(line.pause);
                let header = self.header(packet);
                self.stack.arrives(&header, packet.len);
                Ok(())
            }
            Step::Segment(Direction::Out, packet) => self.awaits(packet, line.pause),
            Step::Silence => match self.stack.sends(line.pause + S::SILENCE) {
                None => Ok(()),
                Some(sent) => Err(format!("the stack sends {}", self.tell(&sent))),
            },
            Step::Call(call, answer) => {
                self.stack.pass(line.pause);
                let got = self.stack.call(*call);
                if got == *answer {
                    Ok(())
                } else {
                    Err(format!("the answer is {got}"))
                }
            }
        }
    }

    fn awaits(&mut self, packet: &Packet, after: Duration) -> Result<(), String> {
        let start = self.stack.now();
        let Some(sent) = self.stack.sends(after + S::TIMEOUT) else {
            return Err("nothing is sent".into());
        };
        let waited = self.stack.now() - start;
        let h = &sent.header;
        if h.flags.contains(TcpFlags::SYN) {
            self.iss = h.seq.0;
        }
        if h.flags.contains(TcpFlags::ACK) && !h.flags.contains(TcpFlags::RST) {
            self.edge = self.peer_position(h.ack) + i64::from(h.window);
        }
        if let Some(timestamps) = h.options.timestamps {
            self.echo = timestamps.val;
        }
        if !self.matches(packet, &sent) {
            return Err(format!("the stack sends {}", self.tell(&sent)));
        }
        if waited + S::EARLY < after {
            return Err(format!("that comes after {waited:?}"));
        }
        Ok(())
    }

    /// The peer's segment.
    fn header(&self, packet: &Packet) -> TcpHeader {
        let options = &packet.options;
        let mut sack = SackBlocks::EMPTY;
        for &(left, right) in &options.sack {
            sack.push(self.our_number(left), self.our_number(right));
        }
        TcpHeader {
            src_port: 0,
            dst_port: 0,
            seq: SeqNumber(PEER_ISS.wrapping_add(self.resolve(packet.start) as u32)),
            ack: match packet.ack {
                Some(position) => self.our_number(self.resolve(position)),
                None => SeqNumber(0),
            },
            flags: packet.flags,
            window: packet.window.unwrap_or(PEER_WINDOW),
            urgent: packet.urgent.unwrap_or(0),
            options: TcpOptions {
                mss: options.mss,
                window_scale: options.window_scale,
                sack_permitted: options.sack_permitted,
                sack,
                timestamps: options.timestamp.or(self.clock).map(|val| Timestamps {
                    val,
                    echo: if packet.ack.is_some() { self.echo } else { 0 },
                }),
                ..TcpOptions::default()
            },
        }
    }

    fn matches(&self, packet: &Packet, sent: &Sent) -> bool {
        let h = &sent.header;
        let has = &h.options;
        let wants = &packet.options;
        let blocks = has
            .sack
            .iter()
            .map(|(left, right)| (self.peer_position(left), self.peer_position(right)));
        // PSH depends on the program's writes, which these scripts do not test.
        let unpushed = |flags: TcpFlags| flags & !TcpFlags::PSH;
        unpushed(h.flags) == unpushed(packet.flags)
            && self.our_position(h.seq) == self.resolve(packet.start)
            && sent.payload_len == packet.len
            && packet
                .ack
                .is_none_or(|ack| self.peer_position(h.ack) == self.resolve(ack))
            && packet.window.is_none_or(|window| h.window == window)
            && packet.urgent.is_none_or(|urgent| h.urgent == urgent)
            && wants.mss.is_none_or(|mss| has.mss == Some(mss))
            && wants
                .window_scale
                .is_none_or(|scale| has.window_scale == Some(scale))
            && (!wants.sack_permitted || has.sack_permitted)
            && wants
                .timestamp
                .is_none_or(|echo| has.timestamps.is_some_and(|ts| ts.echo == echo))
            && (wants.sack.is_empty() || wants.sack.iter().copied().eq(blocks))
    }

    fn resolve(&self, position: Position) -> i64 {
        match position {
            Position::At(position) => position,
            Position::Edge(distance) => self.edge + distance,
        }
    }

    fn our_number(&self, position: i64) -> SeqNumber {
        SeqNumber(self.iss.wrapping_add(position as u32))
    }

    fn our_position(&self, number: SeqNumber) -> i64 {
        i64::from(number.0.wrapping_sub(self.iss) as i32)
    }

    fn peer_position(&self, number: SeqNumber) -> i64 {
        i64::from(number.0.wrapping_sub(PEER_ISS) as i32)
    }

    /// A segment of the stack, in the notation of scripts.
    fn tell(&self, sent: &Sent) -> String {
        let h = &sent.header;
        let start = self.our_position(h.seq);
        let end = start + i64::from(sent.payload_len);
        let ack = match h.flags.contains(TcpFlags::ACK) {
            true => format!(" ack {}", self.peer_position(h.ack)),
            false => String::new(),
        };
        format!(
            "{:?} {start}:{end}({}){ack} win {} urg {} {:?}",
            h.flags, sent.payload_len, h.window, h.urgent, h.options
        )
    }
}
