//! Which versions of the interface a side speaks, and what of each: how two releases agree.
//!
//! Every message of the handshake carries its sender's [`Versions`]. A session has one version
//! and one set of features for its whole life ([`Agreed`]), the newest that its launcher and
//! the engine both have; a program joins it if it speaks that. So programs of one release go
//! on under the engine of the next, as long as that still speaks theirs.

/// The newest version of layout and descriptors that this release speaks.
pub const ABI_VERSION: u32 = 22;
/// The oldest one.
pub const OLDEST_ABI_VERSION: u32 = 11;
/// The first that has completions with payload ([`Data`](super::Data)).
pub(crate) const DATA_SINCE: u16 = 12;
/// The first whose requests may be held back ([`Hurry::HeldBack`](super::Hurry)).
pub(crate) const HELD_BACK_SINCE: u16 = 13;
/// The first that has ranges of files of less than 4 KiB.
pub(crate) const SHORT_RANGES_SINCE: u16 = 13;
/// The first in which an attempt to connect can be cancelled ([`Request::Cancel`]).
///
/// [`Request::Cancel`]: super::Request::Cancel
pub(crate) const CANCEL_SINCE: u16 = 14;
/// The first in which the adapter knows how much a program waits for
/// ([`OptionName::ReceiveLowWater`](super::OptionName)).
pub(crate) const LOW_WATER_SINCE: u16 = 14;
/// The first in which the adapter knows how a program's messages end
/// ([`OptionName::ReceiveMessages`](super::OptionName)).
pub(crate) const MESSAGES_SINCE: u16 = 15;
/// The first in which it knows for how long a program waits for the end of one
/// ([`OptionName::ReceiveMessagesWithin`](super::OptionName)).
pub(crate) const MESSAGES_WITHIN_SINCE: u16 = 16;
/// The first whose listeners are told of connections that have data
/// ([`OptionName::AcceptOnData`](super::OptionName)).
pub(crate) const ACCEPT_ON_DATA_SINCE: u16 = 17;
/// The first with edges in three words, and whose requests say where the last of them ends.
pub(crate) const LENGTHS_SINCE: u16 = 18;
/// The first whose edges may say that their connection was accepted
/// ([`EdgeFlags::ACCEPTED`](super::EdgeFlags)).
pub(crate) const ACCEPTED_SINCE: u16 = 19;
/// The first with answers in three words.
pub(crate) const SHORT_DONE_SINCE: u16 = 19;
/// The first whose descriptors say which bytes of a file they append
/// ([`Request::SendFile`](super::Request::SendFile)).
pub(crate) const RANGES_TOLD_SINCE: u16 = 20;
/// The first in which a socket may take the port of another
/// ([`OptionName::PortOf`](super::OptionName)).
pub(crate) const PORT_OF_SINCE: u16 = 21;
/// The first in which the adapter is told of datagrams that were refused for their length
/// ([`Request::TooLong`](super::Request::TooLong)).
pub(crate) const TOO_LONG_SINCE: u16 = 22;
/// The first in which a socket has one setting for the groups of each version of IP
/// ([`OptionName::GroupAll6`](super::OptionName)).
pub(crate) const GROUP_ALL6_SINCE: u16 = 22;

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
}
