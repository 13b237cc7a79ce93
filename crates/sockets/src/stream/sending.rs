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
    }
}

impl Sending {
    pub(super) fn more(more: bool) -> Self {
        if more { Self::MORE } else { Self::empty() }
    }
}
