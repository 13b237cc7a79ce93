//! The names of reservations, by which a child that its parent cannot name to the engine says
//! which of them is for it.

use std::fmt;
use std::str::FromStr;

/// A reservation of a session, as text: its channel and its number, `3.17`. Anybody may have
/// written it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReservationName {
    pub(super) channel: u32,
    pub(super) number: u32,
}

impl ReservationName {
    /// Bytes of the longest.
    pub const MOST_BYTES: usize = 2 * (u32::MAX.ilog10() as usize + 1) + 1;
}

/// A text is no name of a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no name of a reservation: it has a channel and a number, as 3.17")]
pub struct UnknownReservation;

impl fmt::Display for ReservationName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.channel, self.number)
    }
}

impl FromStr for ReservationName {
    type Err = UnknownReservation;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = |digits: &str| {
            // `parse` takes a sign, too.
            let all = digits.bytes().all(|byte| byte.is_ascii_digit());
            let number = all.then(|| digits.parse().ok()).flatten();
            number.ok_or(UnknownReservation)
        };
        let (channel, stamp) = text.split_once('.').ok_or(UnknownReservation)?;
        Ok(Self {
            channel: number(channel)?,
            number: number(stamp)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_what_was_written() {
        for (channel, number) in [(3, 17), (0, 0), (u32::MAX, u32::MAX)] {
            let name = ReservationName { channel, number };
            let text = name.to_string();
            assert_eq!(text, format!("{channel}.{number}"));
            assert!(text.len() <= ReservationName::MOST_BYTES);
            assert_eq!(text.parse(), Ok(name));
        }
        let longest = ReservationName {
            channel: u32::MAX,
            number: u32::MAX,
        };
        assert_eq!(longest.to_string().len(), ReservationName::MOST_BYTES);
    }

    #[test]
    fn nonsense_is_no_name() {
        for text in [
            "",
            "1",
            ".",
            "3.",
            ".17",
            "3.17.1",
            "3,17",
            "-3.17",
            "3.+17",
            " 3.17",
            "3.17 ",
            "x.17",
            "4294967296.1",
            "1.4294967296",
        ] {
            let name = text.parse::<ReservationName>();
            assert_eq!(name, Err(UnknownReservation), "{text:?}");
        }
    }
}
