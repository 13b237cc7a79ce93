//! Asking engines: the client's side of the control socket.

use crate::args::ShowArguments;
use crate::errors::{Error, report};
use crate::runtime_dir::{control_socket_of, control_sockets};
use longshore_engine::control::{ControlReply, ControlRequest, SsRow, StatReply};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// An engine answers at once, or something is wrong with it.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The longest answer that is read, in bytes.
const LONGEST: u64 = 64 << 20;

/// A connection to an engine.
pub(crate) struct Client {
    path: PathBuf,
    stream: BufReader<UnixStream>,
}

impl Client {
    pub(crate) fn connect(path: &Path) -> Result<Self, Error> {
        let fail = |error: std::io::Error| Error::ControlAnswer {
            path: path.to_owned(),
            why: error.to_string(),
        };
        let stream = UnixStream::connect(path).map_err(|error| match error.kind() {
            std::io::ErrorKind::PermissionDenied => Error::NotPermitted(path.to_owned()),
            _ => fail(error),
        })?;
        stream.set_read_timeout(Some(TIMEOUT)).map_err(fail)?;
        stream.set_write_timeout(Some(TIMEOUT)).map_err(fail)?;
        Ok(Client {
            path: path.to_owned(),
            stream: BufReader::new(stream),
        })
    }

    /// The control socket.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn fail(&self, why: impl ToString) -> Error {
        Error::ControlAnswer {
            path: self.path.clone(),
            why: why.to_string(),
        }
    }

    /// Why reading or writing has failed.
    fn broken(&self, error: &std::io::Error) -> Error {
        match error.kind() {
            std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => Error::ControlSilent {
                path: self.path.clone(),
                seconds: TIMEOUT.as_secs(),
            },
            _ => self.fail(error),
        }
    }

    fn refused(&self, why: String) -> Error {
        Error::ControlRefused {
            path: self.path.clone(),
            why,
        }
    }

    fn ask(&mut self, request: ControlRequest) -> Result<ControlReply, Error> {
        let mut question = serde_json::to_vec(&request).map_err(|error| self.fail(error))?;
        question.push(b'\n');
        match self.stream.get_mut().write_all(&question) {
            // It has turned us away, and says why.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
            sent => sent.map_err(|error| self.broken(&error))?,
        }
        let mut line = Vec::new();
        let got = (&mut self.stream)
            .take(LONGEST)
            .read_until(b'\n', &mut line);
        got.map_err(|error| self.broken(&error))?;
        if !line.ends_with(b"\n") {
            return Err(self.fail("it closed the connection"));
        }
        serde_json::from_slice(&line).map_err(|error| self.fail(error))
    }

    /// The engine's totals.
    pub(crate) fn stat(&mut self) -> Result<StatReply, Error> {
        match self.ask(ControlRequest::Stat)? {
            ControlReply::Stat(stat) => Ok(*stat),
            ControlReply::Error { message } => Err(self.refused(message)),
            ControlReply::Ss(_) => Err(self.fail("it answers another question")),
        }
    }

    /// All of the engine's sockets.
    pub(crate) fn ss(&mut self) -> Result<Vec<SsRow>, Error> {
        let (mut rows, mut from) = (Vec::new(), 0);
        loop {
            match self.ask(ControlRequest::Ss { from })? {
                ControlReply::Ss(some) => {
                    rows.extend(some.rows);
                    match some.next {
                        // An engine that sends us in circles is not followed.
                        Some(next) if next > from => from = next,
                        _ => return Ok(rows),
                    }
                }
                ControlReply::Error { message } => return Err(self.refused(message)),
                ControlReply::Stat(_) => return Err(self.fail("it answers another question")),
            }
        }
    }
}

/// The control socket of an engine that the user named. A private engine's directory is
/// called after its launcher, and `stat` shows the engine's own pid: which it is, each engine
/// says itself.
fn named(engine: &Path) -> Result<PathBuf, Error> {
    let missing = match control_socket_of(engine) {
        Err(error @ Error::NotAnEngine(_)) => error,
        found_or_refused => return found_or_refused,
    };
    let Some(pid) = engine.to_str().and_then(|text| text.parse::<u32>().ok()) else {
        return Err(missing);
    };
    let is_it = |path: &PathBuf| {
        let stat = Client::connect(path).and_then(|mut client| client.stat());
        stat.is_ok_and(|stat| stat.pid == pid)
    };
    control_sockets().into_iter().find(is_it).ok_or(missing)
}

/// Asks the engines that the user named, or all that run; what each answers. Of those that were
/// not named, one that has just ended is passed over, and one that is there and shows nothing is
/// reported where no other answers; one that is silent in any case.
pub(crate) fn ask_all<T>(
    arguments: &ShowArguments,
    ask: impl Fn(&mut Client) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    let ask = |path: &Path| Client::connect(path).and_then(|mut client| ask(&mut client));
    if !arguments.engine.is_empty() {
        let named = arguments.engine.iter().map(|engine| named(engine));
        return named.map(|socket| ask(&socket?)).collect();
    }
    let (mut answers, mut silent, mut refused) = (Vec::new(), Vec::new(), None);
    for path in control_sockets() {
        match ask(&path) {
            Ok(answer) => answers.push(answer),
            Err(error @ Error::ControlSilent { .. }) => silent.push(error),
            Err(error @ Error::ControlRefused { .. }) => refused = refused.or(Some(error)),
            Err(_) => {}
        }
    }
    if answers.is_empty() {
        return Err(silent.pop().or(refused).unwrap_or(Error::NoEngine));
    }
    silent.iter().for_each(report);
    Ok(answers)
}
