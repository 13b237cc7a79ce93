//! What a caller says of the bytes that it writes (the flags of `sendmsg`).

bitflags::bitflags! {
    /// What is said of bytes that are written.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct Sending: u8 {
        /// More follows at once: they wait for it (MSG_MORE).
        const MORE = 1;
        /// The last of them is urgent (MSG_OOB).
        const URGENT = 2;
        /// They end a record: no segment has them and what follows (MSG_EOR).
        const RECORD_END = 4;
        /// It is to be told when all of them have left and were acknowledged, as the socket's
        /// program has asked (SO_TIMESTAMPING).
        const STAMPED = 8;
        /// The same of so many of them as there is room for.
        const STAMPED_IN_PART = 24;
    }
}

impl Sending {
    pub(super) fn more(more: bool) -> Self {
        if more { Self::MORE } else { Self::empty() }
    }
}
