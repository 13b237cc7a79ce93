//! What the bare generator does at each of its TCP ports, and the bytes that it sends there.
//!
//! Owns the bytes, which are made once: sending is a stretch of them, wherever in its stream a
//! connection is. The generator calls it for each segment.

use std::fmt;
use std::str::FromStr;

/// What is done with what comes to a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// Sends without end.
    Source,
    /// Takes all that comes, and says how much that was: eight bytes, the greatest first.
    Sink,
    /// Sends back as many bytes as came.
    Echo,
    /// Answers each HTTP request by so many bytes of content.
    Http {
        /// Bytes of content.
        content: usize,
        /// Each answer is its connection's last, and says so (RFC 9112, 9.6).
        closes: bool,
    },
    /// Answers each command of the Redis protocol by a string of so many bytes.
    RedisString {
        /// Bytes of the string.
        bytes: usize,
    },
    /// Answers each command of the Redis protocol by "OK".
    RedisOk,
}

/// Why a word names no service.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "{0:?} is none of source, sink, echo, http:BYTES, http-close:BYTES, redis-string:BYTES and redis-ok"
)]
pub struct NoService(String);

impl FromStr for Service {
    type Err = NoService;

    fn from_str(word: &str) -> Result<Self, NoService> {
        let (name, bytes) = match word.split_once(':') {
            Some((name, bytes)) => (name, bytes.parse().ok()),
            None => (word, None),
        };
        match (name, bytes) {
            ("source", None) => Ok(Service::Source),
            ("sink", None) => Ok(Service::Sink),
            ("echo", None) => Ok(Service::Echo),
            ("redis-ok", None) => Ok(Service::RedisOk),
            ("http" | "http-close", Some(content)) => Ok(Service::Http {
                content,
                closes: name == "http-close",
            }),
            ("redis-string", Some(bytes)) => Ok(Service::RedisString { bytes }),
            _ => Err(NoService(word.to_owned())),
        }
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Service::Source => f.write_str("source"),
            Service::Sink => f.write_str("sink"),
            Service::Echo => f.write_str("echo"),
            Service::Http { content, closes } => {
                let close = if *closes { "-close" } else { "" };
                write!(f, "http{close}:{content}")
            }
            Service::RedisString { bytes } => write!(f, "redis-string:{bytes}"),
            Service::RedisOk => f.write_str("redis-ok"),
        }
    }
}

/// A port at which something is served.
#[derive(Debug)]
pub(super) struct Served {
    pub(super) port: u16,
    pub(super) service: Service,
    /// One answer after the other, so many that a segment can begin anywhere in the first.
    bytes: Vec<u8>,
    /// Length of one answer.
    answer: usize,
}

/// The byte that each request has once, and which is how requests are counted: the first of GET,
/// and that which begins a command. Keys and values of the programs that ask do not have it.
const OF_HTTP: u8 = b'G';
const OF_REDIS: u8 = b'*';

impl Served {
    /// For segments of at most `longest` bytes of payload.
    pub(super) fn new(port: u16, service: Service, longest: usize) -> Self {
        let answer = match service {
            Service::Source | Service::Echo | Service::Sink => vec![b'b'; 1],
            Service::Http { content, closes } => {
                let close = if closes { "Connection: close\r\n" } else { "" };
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {content}\r\n{close}\r\n");
                let content = std::iter::repeat_n(b'b', content);
                head.into_bytes().into_iter().chain(content).collect()
            }
            Service::RedisString { bytes } => {
                let string = "b".repeat(bytes);
                format!("${bytes}\r\n{string}\r\n").into_bytes()
            }
            Service::RedisOk => b"+OK\r\n".to_vec(),
        };
        let len = answer.len();
        Served {
            port,
            service,
            bytes: answer.into_iter().cycle().take(len + longest).collect(),
            answer: len,
        }
    }

    /// Bytes that are to be sent for a payload that came.
    pub(super) fn answers_to(&self, payload: &[u8]) -> usize {
        let times = |mark: u8| payload.iter().filter(|byte| **byte == mark).count();
        match self.service {
            Service::Source | Service::Sink => 0,
            Service::Echo => payload.len(),
            Service::Http { .. } => self.answer * times(OF_HTTP),
            Service::RedisString { .. } | Service::RedisOk => self.answer * times(OF_REDIS),
        }
    }

    /// Whether an answer is the connection's last.
    pub(super) fn closes(&self) -> bool {
        matches!(self.service, Service::Http { closes: true, .. })
    }

    /// `len` bytes of the stream, of which `sent` are sent already.
    pub(super) fn stretch(&self, sent: u64, len: usize) -> &[u8] {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "less than an answer's length"
        )]
        let at = (sent % self.answer as u64) as usize;
        &self.bytes[at..at + len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(content: usize, closes: bool) -> Service {
        Service::Http { content, closes }
    }

    #[test]
    fn words_name_services_and_services_say_their_words() {
        for word in [
            "source",
            "sink",
            "echo",
            "http:1024",
            "http-close:7",
            "redis-string:3",
            "redis-ok",
        ] {
            assert_eq!(word.parse::<Service>().unwrap().to_string(), word);
        }
        for word in [
            "",
            "http",
            "http:",
            "http:x",
            "http-open:1",
            "sink:1",
            "finger",
        ] {
            assert_eq!(
                word.parse::<Service>(),
                Err(NoService(word.to_owned())),
                "{word}"
            );
        }
    }

    #[test]
    fn each_request_has_an_answer() {
        let http = Served::new(80, answers(10, false), 100);
        let one = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nbbbbbbbbbb";
        let request = b"GET /file HTTP/1.1\r\nHost: 10.77.0.2\r\n\r\n";
        assert_eq!(http.answers_to(request), one.len());
        assert!(!http.closes());
        assert_eq!(http.stretch(0, one.len()), one);
        let closing = Served::new(80, answers(2, true), 100);
        let one = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nbb";
        assert!(closing.closes());
        assert_eq!(closing.answers_to(request), one.len());
        assert_eq!(closing.stretch(0, one.len()), one);

        let redis = Served::new(6379, Service::RedisString { bytes: 3 }, 100);
        let command = b"*2\r\n$3\r\nGET\r\n$16\r\nkey:__rand_int__\r\n";
        assert_eq!(redis.answers_to(&command.repeat(16)), 16 * 9);
        assert_eq!(redis.stretch(9 * 5 + 4, 9), b"bbb\r\n$3\r\n");
        assert!(!redis.closes());
        let ok = Served::new(6379, Service::RedisOk, 100);
        assert_eq!(ok.answers_to(command), 5);
        assert_eq!(ok.stretch(5, 5), b"+OK\r\n");
    }

    #[test]
    fn a_segment_can_begin_anywhere_in_an_answer() {
        let longest = 50;
        let http = Served::new(80, answers(70, false), longest);
        let answer = http.answer as u64;
        let all: Vec<u8> = (0..2 * answer)
            .flat_map(|at| http.stretch(at, 1).to_vec())
            .collect();
        for at in 0..answer {
            let from = at as usize;
            assert_eq!(http.stretch(at, longest), &all[from..from + longest]);
        }
    }
}
