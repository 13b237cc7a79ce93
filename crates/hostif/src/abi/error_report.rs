//! An error about something that a program sent, of which an ICMP message tells or the adapter
//! itself, as it crosses in a mailbox
//! ([`Query::Error`](crate::Query::Error)): Linux's `sock_extended_err` with what stands
//! around it.

use super::{Address, MAILBOX_BYTES};
use std::net::{IpAddr, SocketAddr};

/// Bytes before the quoted payload.
pub const ERROR_HEADER: usize = 64;
/// Most bytes of payload that a report quotes.
pub const ERROR_PAYLOAD: usize = MAILBOX_BYTES - ERROR_HEADER;

/// What a [`SentStamp`] says, by the numbers of Linux's `SCM_TSTAMP_*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum SentStampKind {
    /// It has left for the port.
    Sent = 0,
    /// It is about to.
    Scheduled = 1,
    /// The peer has acknowledged all up to there.
    Acknowledged = 2,
}

/// When the last byte of what a program has sent left, or was acknowledged (SO_TIMESTAMPING): such
/// a report is no error, and its [`info`](ErrorReport::info) a [`SentStampKind`]. Interface
/// version 23.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SentStamp {
    /// In nanoseconds since 1970; not 0.
    pub at_ns: u64,
    /// Which byte that was, counted from [`OptionName::SentKeys`](super::OptionName); 0 if they are
    /// not counted.
    pub key: u32,
}

/// A report, without the payload that stands behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorReport {
    /// The errno that it means.
    pub errno: u16,
    /// The ICMP message's type and code.
    pub kind: u8,
    /// As above.
    pub code: u8,
    /// The MTU that would have passed, or where in the header the problem is; 0 without.
    pub info: u32,
    /// Where the packet went that it is about; of a datagram's [`SentStamp`] with its packet, where it
    /// left from.
    pub to: SocketAddr,
    /// Who sent the ICMP message, which is of the same version of IP; none if it was found here
    /// (interface version 22).
    pub offender: Option<IpAddr>,
    /// That it tells of no error; it has no offender then.
    pub stamp: Option<SentStamp>,
}

impl ErrorReport {
    /// The report's bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; ERROR_HEADER] {
        let mut bytes = [0; ERROR_HEADER];
        let first = u64::from(self.errno)
            | u64::from(self.kind) << 16
            | u64::from(self.code) << 24
            | u64::from(self.info) << 32;
        let to = Address::from(self.to).0;
        let offender = self
            .offender
            .map(|ip| Address::from(SocketAddr::new(ip, 0)));
        let mut offender = offender.unwrap_or(Address::NONE).0;
        if let Some(stamp) = self.stamp {
            offender = [0, stamp.key.into(), 0];
        }
        let at_ns = self.stamp.map_or(0, |stamp| stamp.at_ns);
        let words = [first].into_iter().chain(to).chain(offender).chain([at_ns]);
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// Reads a report and the payload behind it. `None` if it is none.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (header, payload) = bytes.split_first_chunk::<ERROR_HEADER>()?;
        let (words, _) = header.as_chunks();
        let word = |i: usize| words.get(i).map_or(0, |word| u64::from_le_bytes(*word));
        let first = word(0);
        let stamp = (word(7) != 0).then(|| SentStamp {
            at_ns: word(7),
            key: word(5) as u32,
        });
        let report = Self {
            errno: first as u16,
            kind: (first >> 16) as u8,
            code: (first >> 24) as u8,
            info: (first >> 32) as u32,
            to: Address([word(1), word(2), word(3)]).get()?,
            offender: match stamp {
                Some(_) => None,
                None => Address([word(4), word(5), word(6)]).get().map(|a| a.ip()),
            },
            stamp,
        };
        Some((report, payload))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn reports_come_back(
            (errno, kind, code, info) in any::<(u16, u8, u8, u32)>(),
            (v6, to, by, port) in any::<(bool, u128, Option<u128>, u16)>(),
            stamp in any::<Option<(std::num::NonZeroU64, u32)>>(),
            payload in proptest::collection::vec(any::<u8>(), 0..=ERROR_PAYLOAD),
        ) {
            let ip = |bits: u128| match v6 {
                true => IpAddr::from(bits.to_be_bytes()),
                false => IpAddr::from((bits as u32).to_be_bytes()),
            };
            let to = SocketAddr::new(ip(to), port);
            let offender = by.map(ip);
            let stamp = stamp.map(|(at_ns, key)| SentStamp { at_ns: at_ns.get(), key });
            let offender = offender.filter(|_| stamp.is_none());
            let report = ErrorReport { errno, kind, code, info, to, offender, stamp };
            let mut bytes = report.encode().to_vec();
            bytes.extend(&payload);
            prop_assert_eq!(ErrorReport::decode(&bytes), Some((report, &payload[..])));
        }

        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..MAILBOX_BYTES)) {
            let _ = ErrorReport::decode(&bytes);
        }
    }
}
