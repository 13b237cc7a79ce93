//! A client that asks a server for files as the 2005 paper's did, one at a time.

use crate::crossing::error::CrossingError;
use serde::Serialize;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Bytes of a request, as the paper's: its frame had 104 bytes, 66 of them headers.
const REQUEST: usize = 38;
/// The server is given up after this time without a byte.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Whether connections are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Mode {
    /// A connection for each request, closed by the server.
    #[serde(rename = "close")]
    Close,
    /// One connection for all.
    #[serde(rename = "keep-alive")]
    KeepAlive,
}

impl Mode {
    /// Both.
    pub const ALL: [Mode; 2] = [Mode::Close, Mode::KeepAlive];

    /// Its name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Mode::Close => "close",
            Mode::KeepAlive => "keep-alive",
        }
    }
}

/// A client.
#[derive(Debug)]
pub(crate) struct Client {
    server: SocketAddr,
    mode: Mode,
    connection: Option<TcpStream>,
}

impl Client {
    pub(crate) fn new(server: SocketAddr, mode: Mode) -> Self {
        Client {
            server,
            mode,
            connection: None,
        }
    }

    /// Asks for the file of this name, which must be as `expected`.
    pub(crate) fn fetch(&mut self, name: &str, expected: &[u8]) -> Result<(), CrossingError> {
        let request = request(name, self.mode);
        let bad = |why: String| CrossingError::Answer {
            request: format!("/{name}"),
            why,
        };
        let io = |error: std::io::Error| bad(error.to_string());
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => {
                let connection = TcpStream::connect_timeout(&self.server, TIMEOUT).map_err(io)?;
                connection.set_read_timeout(Some(TIMEOUT)).map_err(io)?;
                connection
            }
        };
        connection.write_all(&request).map_err(io)?;
        let body = read_answer(&mut connection, self.mode).map_err(io)?;
        if body != expected {
            return Err(bad(format!(
                "{} bytes that are not the file's {}",
                body.len(),
                expected.len()
            )));
        }
        if self.mode == Mode::KeepAlive {
            self.connection = Some(connection);
        }
        Ok(())
    }
}

/// A request, of 38 bytes if the name is not too long for it.
fn request(name: &str, mode: Mode) -> Vec<u8> {
    // By HTTP/1.0 the server closes, by 1.1 it does not.
    let version = match mode {
        Mode::Close => "1.0",
        Mode::KeepAlive => "1.1",
    };
    let mut request = format!("GET /{name} HTTP/{version}\r\nHost: ");
    let room = REQUEST.saturating_sub(request.len() + 4).max(1);
    request.push_str(&"h".repeat(room));
    request.push_str("\r\n\r\n");
    request.into_bytes()
}

/// The body of an answer that says that all is well; where the connection is not kept, the
/// server must have closed it behind.
fn read_answer(connection: &mut impl Read, mode: Mode) -> std::io::Result<Vec<u8>> {
    let invalid = |why: &str| std::io::Error::new(std::io::ErrorKind::InvalidData, why.to_owned());
    let mut answer = Vec::new();
    let mut room = vec![0; 1 << 18];
    let (mut header, mut whole) = (0, usize::MAX);
    while answer.len() < whole || mode == Mode::Close {
        let read = connection.read(&mut room)?;
        if read == 0 {
            break;
        }
        answer.extend_from_slice(&room[..read]);
        if header == 0
            && let Some(end) = answer.windows(4).position(|w| w == b"\r\n\r\n")
        {
            header = end + 4;
            let text = String::from_utf8_lossy(&answer[..end]).to_lowercase();
            if !text.starts_with("http/1.1 200 ") && !text.starts_with("http/1.0 200 ") {
                return Err(invalid(text.lines().next().unwrap_or_default()));
            }
            let length = text
                .lines()
                .find_map(|line| line.strip_prefix("content-length:"))
                .and_then(|length| length.trim().parse::<usize>().ok());
            whole = header + length.ok_or_else(|| invalid("no length"))?;
        }
    }
    if answer.len() != whole {
        return Err(invalid("its length is not what it says"));
    }
    answer.drain(..header);
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_as_long_as_the_papers() {
        for mode in Mode::ALL {
            for name in ["1k", "64k", "512k"] {
                let request = request(name, mode);
                assert_eq!(
                    request.len(),
                    REQUEST,
                    "{}",
                    String::from_utf8_lossy(&request)
                );
                assert!(request.ends_with(b"h\r\n\r\n"));
            }
        }
        assert!(request(&"n".repeat(50), Mode::Close).ends_with(b"Host: h\r\n\r\n"));
    }

    /// Gives what it has in pieces of three bytes.
    struct Slowly<'a>(&'a [u8]);

    impl Read for Slowly<'_> {
        fn read(&mut self, room: &mut [u8]) -> std::io::Result<usize> {
            let some = self.0.len().min(3);
            self.0.read(&mut room[..some])
        }
    }

    fn answer(text: &str, mode: Mode) -> std::io::Result<Vec<u8>> {
        read_answer(&mut Slowly(text.as_bytes()), mode)
    }

    #[test]
    fn answers_are_read_to_their_end() {
        let good = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
        for mode in Mode::ALL {
            assert_eq!(answer(good, mode).unwrap(), b"hello");
            assert!(answer(&good[..good.len() - 1], mode).is_err());
        }
        assert!(answer(&format!("{good}!"), Mode::Close).is_err());
        for bad in [
            "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 200 OK\r\n\r\nhello",
            "",
        ] {
            assert!(answer(bad, Mode::KeepAlive).is_err(), "{bad}");
        }
    }
}
