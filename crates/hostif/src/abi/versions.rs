//! Which versions of the interface a side speaks, and what of each: how two releases agree.
//!
//! Every message of the handshake carries its sender's [`Versions`]. A session has one version
//! and one set of features for its whole life ([`Agreed`]), the newest that its launcher and
//! the engine both have; a program joins it if it speaks that. So programs of one release go
//! on under the engine of the next, as long as that still speaks theirs.

use super::file_range::{LEAST_LONG_RANGE, LEAST_RANGE};

/// The newest version of layout and descriptors that this release speaks.
pub const ABI_VERSION: u32 = 25;
/// The oldest one.
pub const OLDEST_ABI_VERSION: u32 = 11;
/// The first that has completions with payload ([`Data`](super::Data)).
pub(crate) const DATA_SINCE: u16 = 12;
/// The first whose requests may be held back ([`Hurry::HeldBack`](super::Hurry)).
pub(crate) const HELD_BACK_SINCE: u16 = 13;
/// The first that has ranges of files of less than 4 KiB.
const SHORT_RANGES_SINCE: u16 = 13;
/// The first in which an attempt to connect can be cancelled ([`Request::Cancel`]).
///
/// [`Request::Cancel`]: super::Request::Cancel
const CANCEL_SINCE: u16 = 14;
/// The first in which the adapter knows how much a program waits for
/// ([`OptionName::ReceiveLowWater`](super::OptionName)).
const LOW_WATER_SINCE: u16 = 14;
/// The first in which the adapter knows how a program's messages end
/// ([`OptionName::ReceiveMessages`](super::OptionName)).
const MESSAGES_SINCE: u16 = 15;
/// The first in which it knows for how long a program waits for the end of one
/// ([`OptionName::ReceiveMessagesWithin`](super::OptionName)).
const MESSAGES_WITHIN_SINCE: u16 = 16;
/// The first whose listeners are told of connections that have data
/// ([`OptionName::AcceptOnData`](super::OptionName)).
const ACCEPT_ON_DATA_SINCE: u16 = 17;
/// The first with edges in three words, and whose requests say where the last of them ends.
pub(crate) const LENGTHS_SINCE: u16 = 18;
/// The first whose edges may say that their connection was accepted
/// ([`EdgeFlags::ACCEPTED`](super::EdgeFlags)).
pub(crate) const ACCEPTED_SINCE: u16 = 19;
/// The first with answers in three words.
pub(crate) const SHORT_DONE_SINCE: u16 = 19;
/// The first whose descriptors say which bytes of a file they append
/// ([`Request::SendFile`](super::Request::SendFile)).
const RANGES_TOLD_SINCE: u16 = 20;
/// The first in which a socket may take the port of another
/// ([`OptionName::PortOf`](super::OptionName)).
const PORT_OF_SINCE: u16 = 21;
/// The first in which the adapter is told of datagrams that were refused for their length
/// ([`Request::TooLong`](super::Request::TooLong)).
const TOO_LONG_SINCE: u16 = 22;
/// The first in which a socket has one setting for the groups of each version of IP
/// ([`OptionName::GroupAll6`](super::OptionName)).
const GROUP_ALL6_SINCE: u16 = 22;
/// The first in which the adapter knows which interface a socket is bound to
/// ([`OptionName::Interface`](super::OptionName)).
const INTERFACE_SINCE: u16 = 23;

/// The first in which it is said when what a program has sent left
/// ([`OptionName::StampSent`](super::OptionName)).
const SENT_STAMPS_SINCE: u16 = 23;
/// The first in which a socket receives a group from some sources alone
/// ([`Request::Sources`](super::Request::Sources)).
const SOURCES_SINCE: u16 = 24;
/// The first in which a datagram may be sent without a checksum
/// ([`DatagramRecord::unsummed`](super::DatagramRecord)).
const UNSUMMED_SINCE: u16 = 24;
/// The first in which a socket may be bound to an address alone
/// ([`OptionName::AddressAlone`](super::OptionName)).
const ADDRESS_ALONE_SINCE: u16 = 25;

bitflags::bitflags! {
    /// What a side has beyond its version, each a bit that both sides must have. Bits that a
    /// side does not know are those of a later release.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct Features: u16 {
        /// Programs may hand files over, and send ranges of them.
        const FILES = 1;
        /// What one socket of a session sends to another, that may read where it was written.
        const LENT_CHUNKS = 2;
        /// What one socket of a session has received, another may send where it lies.
        const FORWARDS = 4;
        /// Payload may cross with its descriptor, in both directions.
        const IMMEDIATE_DATA = 8;
        /// The same where both ends of a connection are of the session, and of what is lent.
        const FORWARDS_WITHIN = 16;
        /// A socket's name says which worker of the engine has it ([`Naming`](super::Naming)),
        /// and there may be several.
        const WORKERS = 32;
        const _ = !0;
    }
}

/// What one side speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Versions {
    /// The oldest version, not above `newest`.
    pub oldest: u16,
    /// The newest.
    pub newest: u16,
    /// What it has besides.
    pub features: Features,
}

/// What a session's two sides speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Agreed {
    /// The version.
    pub version: u16,
    /// What both have besides.
    pub features: Features,
}

impl Agreed {
    /// What two sides of this release speak, without what an adapter may refuse.
    pub const OURS: Self = Self {
        version: Versions::OURS.newest,
        features: Features::LENT_CHUNKS
            .union(Features::IMMEDIATE_DATA)
            .union(Features::WORKERS),
    };

    /// What two sides speak where the engine has so many workers: what lies in the memory of one
    /// worker's sockets is not for another to send, and files are one worker's.
    #[must_use]
    pub fn with_workers(self, workers: u32) -> Self {
        let features = match workers {
            1 => self.features,
            _ => self.features - Self::OF_ONE_WORKER,
        };
        Self { features, ..self }
    }

    /// Whether a session of so many workers can speak this.
    #[must_use]
    pub fn can_have_workers(&self, workers: u32) -> bool {
        workers == 1
            || (self.features.contains(Features::WORKERS)
                && !self.features.intersects(Self::OF_ONE_WORKER))
    }

    /// Whether an attempt to connect can be cancelled ([`Request::Cancel`](super::Request)).
    #[must_use]
    pub fn can_cancel(&self) -> bool {
        self.version >= CANCEL_SINCE
    }

    /// Whether the adapter takes how much a program waits for.
    #[must_use]
    pub fn supports_low_water(&self) -> bool {
        self.version >= LOW_WATER_SINCE
    }

    /// Whether the adapter takes how a program's messages end.
    #[must_use]
    pub fn supports_messages(&self) -> bool {
        self.version >= MESSAGES_SINCE
    }

    /// Whether the adapter takes how long a program waits for the end of one.
    #[must_use]
    pub fn supports_message_time(&self) -> bool {
        self.version >= MESSAGES_WITHIN_SINCE
    }

    /// Whether the adapter tells a listener of its connections when they have data, if it is
    /// asked to.
    #[must_use]
    pub fn supports_accept_on_data(&self) -> bool {
        self.version >= ACCEPT_ON_DATA_SINCE
    }

    /// Whether a socket may take the port of another.
    #[must_use]
    pub fn can_take_ports(&self) -> bool {
        self.version >= PORT_OF_SINCE
    }

    /// Whether the adapter keeps reports of datagrams that were refused for their length.
    #[must_use]
    pub fn reports_too_long(&self) -> bool {
        self.version >= TOO_LONG_SINCE
    }

    /// Whether a socket has one setting for the groups of each version of IP.
    #[must_use]
    pub fn distinguishes_groups(&self) -> bool {
        self.version >= GROUP_ALL6_SINCE
    }

    /// Whether the adapter says when what was sent left, and was acknowledged.
    #[must_use]
    pub fn stamps_sent(&self) -> bool {
        self.version >= SENT_STAMPS_SINCE
    }

    /// Whether a socket may receive a group from some sources alone.
    #[must_use]
    pub fn distinguishes_sources(&self) -> bool {
        self.version >= SOURCES_SINCE
    }

    /// Whether a datagram may be sent without a checksum.
    #[must_use]
    pub fn sends_unsummed(&self) -> bool {
        self.version >= UNSUMMED_SINCE
    }

    /// Whether a socket may be bound to an address alone, without a port.
    #[must_use]
    pub fn binds_addresses_alone(&self) -> bool {
        self.version >= ADDRESS_ALONE_SINCE
    }

    /// Whether a socket may be bound to one of the adapter's interfaces.
    #[must_use]
    pub fn distinguishes_interfaces(&self) -> bool {
        self.version >= INTERFACE_SINCE
    }

    /// Bytes of the shortest range of a file.
    #[must_use]
    pub fn least_range(&self) -> usize {
        if self.version < SHORT_RANGES_SINCE {
            LEAST_LONG_RANGE
        } else {
            LEAST_RANGE
        }
    }

    /// Whether descriptors say which bytes of a file they append.
    pub(crate) fn knows_ranges(&self) -> bool {
        self.version >= RANGES_TOLD_SINCE
    }

    /// What a session has only if one worker has all of its sockets.
    const OF_ONE_WORKER: Features = Features::FILES
        .union(Features::FORWARDS)
        .union(Features::FORWARDS_WITHIN)
        .union(Features::LENT_CHUNKS);
}

impl Versions {
    /// What this release speaks.
    pub const OURS: Self = Self {
        oldest: OLDEST_ABI_VERSION as u16,
        newest: ABI_VERSION as u16,
        features: Features::FILES
            .union(Features::LENT_CHUNKS)
            .union(Features::FORWARDS)
            .union(Features::IMMEDIATE_DATA)
            .union(Features::FORWARDS_WITHIN)
            .union(Features::WORKERS),
    };

    /// What both sides speak: the newest version that both have, and all features that both
    /// have. `None` if they have no version in common.
    #[must_use]
    pub fn agree(&self, other: &Self) -> Option<Agreed> {
        let version = self.newest.min(other.newest);
        let has_it = |side: &Self| side.oldest <= version;
        (has_it(self) && has_it(other)).then_some(Agreed {
            version,
            features: self.features & other.features,
        })
    }

    /// Whether one that speaks this can take part in a session of these.
    #[must_use]
    pub fn include(&self, agreed: &Agreed) -> bool {
        (self.oldest..=self.newest).contains(&agreed.version)
            && self.features.contains(agreed.features)
    }

    /// In the upper 48 bits of a word: features, newest, oldest. A release that had one
    /// version alone reads the last two as a number that is not its own.
    pub(super) fn encode(&self) -> u64 {
        u64::from(self.features.bits()) << 16
            | u64::from(self.newest) << 32
            | u64::from(self.oldest) << 48
    }

    /// Reads that; a release of one version alone has written no oldest.
    pub(super) fn decode(word: u64) -> Self {
        let (newest, oldest) = ((word >> 32) as u16, (word >> 48) as u16);
        Self {
            oldest: if oldest == 0 { newest } else { oldest },
            newest,
            features: Features::from_bits_retain((word >> 16) as u16),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn versions(oldest: u16, newest: u16, features: u16) -> Versions {
        Versions {
            oldest,
            newest,
            features: Features::from_bits_retain(features),
        }
    }

    #[test]
    fn the_newest_of_both_is_spoken_with_what_both_have() {
        let agreed = |a: Versions, b: Versions| {
            assert_eq!(a.agree(&b), b.agree(&a));
            a.agree(&b)
                .map(|agreed| (agreed.version, agreed.features.bits()))
        };
        assert_eq!(agreed(versions(9, 9, 0), versions(9, 10, 1)), Some((9, 0)));
        assert_eq!(
            agreed(versions(9, 12, 6), versions(10, 11, 3)),
            Some((11, 2))
        );
        assert_eq!(agreed(versions(9, 9, 0), versions(10, 11, 0)), None);
    }

    #[test]
    fn whoever_joins_has_to_speak_what_the_session_does() {
        let (old, new) = (versions(9, 9, 1), versions(9, 10, 3));
        let of_new = new.agree(&new).unwrap();
        assert!(new.include(&of_new) && !old.include(&of_new));
        let of_both = old.agree(&new).unwrap();
        assert!(new.include(&of_both) && old.include(&of_both));
        assert!(!versions(9, 9, 0).include(&of_both), "it lacks a feature");
    }

    #[test]
    fn versions_come_back_and_those_of_one_alone_are_read() {
        let ours = versions(9, 10, 5);
        assert_eq!(Versions::decode(ours.encode()), ours);
        assert_eq!(Versions::decode(8 << 32), versions(8, 8, 0));
        assert_eq!(Versions::OURS.agree(&versions(8, 8, 0)), None);
    }

    #[test]
    fn what_the_adapter_takes_is_known_by_its_version() {
        type Takes = fn(&Agreed) -> bool;
        let takes: [(Takes, u16); 13] = [
            (Agreed::can_cancel, 14),
            (Agreed::supports_low_water, 14),
            (Agreed::supports_messages, 15),
            (Agreed::supports_message_time, 16),
            (Agreed::supports_accept_on_data, 17),
            (Agreed::can_take_ports, 21),
            (Agreed::reports_too_long, 22),
            (Agreed::distinguishes_groups, 22),
            (Agreed::distinguishes_interfaces, 23),
            (Agreed::stamps_sent, 23),
            (Agreed::distinguishes_sources, 24),
            (Agreed::sends_unsummed, 24),
            (Agreed::binds_addresses_alone, 25),
        ];
        for version in 11..=25 {
            let agreed = Agreed {
                version,
                ..Agreed::OURS
            };
            for (takes, since) in takes {
                assert_eq!(takes(&agreed), version >= since, "{version}, {since}");
            }
        }
    }
}
