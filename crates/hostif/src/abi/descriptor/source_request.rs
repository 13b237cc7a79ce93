//! What a program asks of the sources of a group, in a [`Request::Sources`](super::Request::Sources).

/// What is asked of the sources that a socket receives of a group (RFC 3678; interface version 24).
///
/// A list takes as many requests as it has sources: each is proposed with the number of its place in
/// the list, and what then sets the list has there how many they are. The group has in each of them
/// the number of the list, by which lists of several threads are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum SourceRequest {
    /// The source is received no longer (MCAST_LEAVE_SOURCE_GROUP).
    Leave = 0,
    /// The source is received, too; the group is joined if it was not (MCAST_JOIN_SOURCE_GROUP).
    Join = 1,
    /// The source is received again (MCAST_UNBLOCK_SOURCE).
    Unblock = 2,
    /// The source is received no longer, and all others are (MCAST_BLOCK_SOURCE).
    Block = 3,
    /// The next source of a list that is to be set.
    Propose = 4,
    /// The sources proposed are received, and no others (MCAST_MSFILTER): without any, the group is
    /// left.
    Include = 5,
    /// All sources are received but those proposed.
    Exclude = 6,
    /// Which sources are received: the answer has the source whose place in the list is the number
    /// asked for, if there is one, as its address; its value is 1 if the sources listed are
    /// those that are received, or else 0, and from bit 8 on how many there are.
    Ask = 7,
}

impl SourceRequest {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Leave,
        Self::Join,
        Self::Unblock,
        Self::Block,
        Self::Propose,
        Self::Include,
        Self::Exclude,
        Self::Ask,
    ];

    pub(super) fn from_raw(raw: u8) -> Option<Self> {
        Self::ALL.get(usize::from(raw)).copied()
    }
}
