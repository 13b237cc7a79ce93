//! `--messages`: how the messages of the connections end that programs accept at a port, so that
//! they are woken once for each.

use crate::values::{LONGEST_MS, milliseconds, once_each};
use longshore_engine::{
    Delimiter, LONGEST_DELIMITER, LengthPrefix, MessageRule, TimedRule, WIDEST_LENGTH,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::{self, Display, Write};
use std::str::FromStr;

/// Milliseconds for which the end of a message is waited for, if nothing is said of it.
const WITHIN: u32 = 100;

/// How the messages end that come to a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct MessageOrder {
    port: u16,
    timed: TimedRule,
}

impl MessageOrder {
    /// How the engine is configured by all of them.
    pub(crate) fn by_port(all: &[Self]) -> Result<BTreeMap<u16, TimedRule>, BadMessages> {
        once_each(all.iter().map(|order| (order.port, order.timed))).map_err(BadMessages::Twice)
    }
}

/// No end of messages is written so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadMessages {
    #[error(
        "`{0}` does not say how messages end; write PORT=delimiter:BYTES[,TIME], as \
         80=delimiter:\\r\\n\\r\\n,100ms, or \
         PORT=length:WIDTH[@OFFSET][,le][,adjust:N][,max:N][,TIME], as 5432=length:4@1,adjust:-4"
    )]
    Form(String),
    #[error("`{0}` is no port")]
    Port(String),
    #[error("a delimiter has 1 to {LONGEST_DELIMITER} bytes, and `{0}` has {1}")]
    Delimiter(String, usize),
    #[error("`{0}` has a \\ that is none of \\r, \\n, \\t, \\\\ and \\xNN")]
    Escape(String),
    #[error("a length has 1 to {WIDEST_LENGTH} bytes and an offset of at most 255; `{0}` does not")]
    Length(String),
    #[error("`{0}` is no time from 1ms to {longest}s; write it as 100ms or 2s", longest = LONGEST_MS / 1000)]
    Time(String),
    #[error("port {0} has two rules for its messages")]
    Twice(u16),
}

/// What stands for bytes that cannot be typed is replaced by them.
fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, behind @ ..] = rest {
        (rest, _) = match (first, behind) {
            (b'\\', [b'r', after @ ..]) => (after, bytes.push(b'\r')),
            (b'\\', [b'n', after @ ..]) => (after, bytes.push(b'\n')),
            (b'\\', [b't', after @ ..]) => (after, bytes.push(b'\t')),
            (b'\\', [b'\\', after @ ..]) => (after, bytes.push(b'\\')),
            (b'\\', [b'x', high, low, after @ ..]) => {
                let digit = |digit: u8| char::from(digit).to_digit(16);
                (after, bytes.push((digit(*high)? << 4 | digit(*low)?) as u8))
            }
            (b'\\', _) => return None,
            (byte, _) => (behind, bytes.push(*byte)),
        };
    }
    Some(bytes)
}

/// The reverse of that, without a comma.
fn escape(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        let _ = match byte {
            b'\r' => text.write_str("\\r"),
            b'\n' => text.write_str("\\n"),
            b'\t' => text.write_str("\\t"),
            b'\\' => text.write_str("\\\\"),
            b',' | 0..=0x20 | 0x7f.. => write!(text, "\\x{byte:02x}"),
            plain => text.write_char(char::from(*plain)),
        };
    }
    text
}

fn delimiter(text: &str) -> Result<MessageRule, BadMessages> {
    let bytes = unescape(text).ok_or_else(|| BadMessages::Escape(text.to_owned()))?;
    let delimiter = Delimiter::new(&bytes);
    let bad = || BadMessages::Delimiter(text.to_owned(), bytes.len());
    Ok(MessageRule::Delimiter(delimiter.ok_or_else(bad)?))
}

fn length(text: &str) -> Result<LengthPrefix, BadMessages> {
    let bad = || BadMessages::Length(text.to_owned());
    let (width, offset) = text.split_once('@').unwrap_or((text, "0"));
    let width = width.parse().map_err(|_| bad())?;
    if !(1..=WIDEST_LENGTH).contains(&width) {
        return Err(bad());
    }
    Ok(LengthPrefix {
        offset: offset.parse().map_err(|_| bad())?,
        width,
        is_little_endian: false,
        adjustment: 0,
        maximum: u32::MAX,
    })
}

impl FromStr for MessageOrder {
    type Err = BadMessages;

    fn from_str(text: &str) -> Result<Self, BadMessages> {
        let bad = || BadMessages::Form(text.to_owned());
        let (port, said) = text.split_once('=').ok_or_else(bad)?;
        let bad_port = || BadMessages::Port(port.to_owned());
        let port = port.parse().ok().filter(|port| *port != 0);
        let port = port.ok_or_else(bad_port)?;
        let mut parts = said.split(',').peekable();
        let (kind, rule) = parts
            .next()
            .and_then(|p| p.split_once(':'))
            .ok_or_else(bad)?;
        let rule = match kind {
            "delimiter" => delimiter(rule)?,
            "length" => {
                let mut prefix = length(rule)?;
                while let Some(part) = parts.peek() {
                    match part.split_once(':') {
                        None if *part == "le" => prefix.is_little_endian = true,
                        Some(("adjust", n)) => prefix.adjustment = n.parse().map_err(|_| bad())?,
                        Some(("max", n)) => prefix.maximum = n.parse().map_err(|_| bad())?,
                        _ => break,
                    }
                    parts.next();
                }
                MessageRule::Length(prefix)
            }
            _ => return Err(bad()),
        };
        let time =
            |text: &str| milliseconds(text).ok_or_else(|| BadMessages::Time(text.to_owned()));
        let within_ms = parts.next().map_or(Ok(WITHIN), time)?;
        let timed = TimedRule { rule, within_ms };
        match parts.next() {
            Some(_) => Err(bad()),
            None => Ok(Self { port, timed }),
        }
    }
}

impl Display for MessageOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}=", self.port)?;
        match &self.timed.rule {
            MessageRule::Delimiter(delimiter) => {
                write!(f, "delimiter:{}", escape(delimiter.bytes()))?;
            }
            MessageRule::Length(prefix) => {
                write!(f, "length:{}@{}", prefix.width, prefix.offset)?;
                f.write_str(if prefix.is_little_endian { ",le" } else { "" })?;
                write!(f, ",adjust:{},max:{}", prefix.adjustment, prefix.maximum)?;
            }
        }
        write!(f, ",{}ms", self.timed.within_ms)
    }
}

impl TryFrom<String> for MessageOrder {
    type Error = BadMessages;

    fn try_from(text: String) -> Result<Self, BadMessages> {
        text.parse()
    }
}

impl From<MessageOrder> for String {
    fn from(order: MessageOrder) -> Self {
        order.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_of_messages_is_written_as_it_is_read() {
        for (text, whole) in [
            (r"80=delimiter:\r\n\r\n", r"80=delimiter:\r\n\r\n,100ms"),
            (r"1=delimiter:a\x2c\\,2s", r"1=delimiter:a\x2c\\,2000ms"),
            (r"1=delimiter:\x0a\x09,1ms", r"1=delimiter:\n\t,1ms"),
            ("53=length:2", "53=length:2@0,adjust:0,max:4294967295,100ms"),
            (
                "5432=length:4@1,adjust:-4,max:9,60s",
                "5432=length:4@1,adjust:-4,max:9,60000ms",
            ),
            (
                "9=length:8,le,5ms",
                "9=length:8@0,le,adjust:0,max:4294967295,5ms",
            ),
        ] {
            let order: MessageOrder = text.parse().unwrap();
            assert_eq!(order.to_string(), whole);
            assert_eq!(whole.parse(), Ok(order));
        }
        let blank: MessageOrder = r"80=delimiter:\r\n\r\n".parse().unwrap();
        let rule = MessageRule::Delimiter(Delimiter::new(b"\r\n\r\n").unwrap());
        assert_eq!(blank.timed.rule, rule);
    }

    #[test]
    fn what_does_not_say_how_messages_end_is_refused_by_what_is_wrong() {
        let refused = |text: &str| text.parse::<MessageOrder>().unwrap_err();
        for text in [
            "",
            "80",
            "80=",
            "80=lines",
            "80=lines:x",
            "80=length:2,adjust:x",
            "80=length:2,1s,le",
            "80=delimiter:x,1s,1s",
        ] {
            assert_eq!(refused(text), BadMessages::Form(text.to_owned()));
        }
        for port in ["", "0", "65536", "x"] {
            let text = format!("{port}=length:2");
            assert_eq!(refused(&text), BadMessages::Port(port.to_owned()));
        }
        assert_eq!(
            refused("1=delimiter:"),
            BadMessages::Delimiter(String::new(), 0)
        );
        let eight = "12345678".to_owned();
        assert_eq!(
            refused("1=delimiter:12345678"),
            BadMessages::Delimiter(eight, 8)
        );
        for bytes in ["\\", "\\q", "\\x1", "\\xzz"] {
            let text = format!("1=delimiter:{bytes}");
            assert_eq!(refused(&text), BadMessages::Escape(bytes.to_owned()));
        }
        for length in ["", "0", "9", "2@256", "2@", "-1"] {
            let text = format!("1=length:{length}");
            assert_eq!(refused(&text), BadMessages::Length(length.to_owned()));
        }
        for time in ["", "5", "0ms", "61s", "1us", "99999999999999999999s"] {
            let text = format!("1=length:2,{time}");
            assert_eq!(refused(&text), BadMessages::Time(time.to_owned()));
        }
    }

    #[test]
    fn a_port_has_one_rule() {
        let [one, other, again] =
            ["1=length:2", "2=length:2", r"1=delimiter:\n"].map(|text| text.parse().unwrap());
        assert_eq!(MessageOrder::by_port(&[one, other]).unwrap().len(), 2);
        let twice = MessageOrder::by_port(&[one, other, again]);
        assert_eq!(twice.unwrap_err(), BadMessages::Twice(1));
    }
}
