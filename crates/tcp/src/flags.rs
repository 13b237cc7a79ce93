//! The negotiated options, conditions and pending actions of a connection, in one word.
//!
//! Owns [`Flags`], which is part of the `Tcb` and read by all modules.

use crate::codec::saved_flags;

bitflags::bitflags! {
    /// Negotiated options, conditions and pending actions of a connection.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub(crate) struct Flags: u32 {
        /// Timestamps were agreed (RFC 7323 section 3.2).
        const TIMESTAMPS = 1;
        /// Window scaling was agreed (RFC 7323 section 2.2).
        const SCALING = 1 << 2;
        /// We opened the connection actively.
        const ACTIVE = 1 << 3;
        /// No program holds the connection any more.
        const ORPHAN = 1 << 5;
        /// The receiving half is shut down: once the sending half is too, payload is
        /// answered by a reset.
        const RCV_SHUT = 1 << 6;
        /// An acknowledgment is owed and must not be delayed.
        const ACK_NOW = 1 << 7;
        /// An acknowledgment is owed; the delay timer may run.
        const ACK_OWED = 1 << 8;
        /// A SYN, or SYN-ACK, is to be (re)sent.
        const SYN_DUE = 1 << 9;
        /// A RST is to be sent.
        const RST_DUE = 1 << 10;
        /// A probe that makes the peer acknowledge is to be sent (persist, keepalive).
        const PROBE_DUE = 1 << 11;
        /// The next small segment is sent despite SWS avoidance, Nagle or cork.
        const FORCE_SMALL = 1 << 12;
        /// The connection is interactive (Linux's pingpong mode): acknowledgments wait to
        /// be piggybacked on data.
        const INTERACTIVE = 1 << 13;
        /// The RST must carry an ACK.
        const RST_ACK = 1 << 15;
        /// The SYN was sent more than once.
        const SYN_RETRANSMITTED = 1 << 16;
        /// A duplicate range is to be reported (RFC 2883).
        const DSACK = 1 << 17;
        /// Output is paced or may be ECN-marked, or the delivery rate is measured: the
        /// output fast path must not be used.
        const SLOW_OUTPUT = 1 << 18;
        /// The peer's window is the only limit on sending (`accounting/busy.rs`).
        const WINDOW_LIMITED = 1 << 19;
        /// Written data waits with nothing in flight (`accounting/busy.rs`).
        const WAITING = 1 << 20;
        /// There is unacknowledged urgent data: headers carry the urgent pointer.
        const URGENT = 1 << 21;
        /// The user timeout in force is the peer's advertised one, not one that the user
        /// set.
        const ADVISED_TIMEOUT = 1 << 22;
        /// The user timeout is to be advertised to the peer (RFC 5482).
        const USER_TIMEOUT_DUE = 1 << 23;
        /// The send buffer is the only limit on the user (`accounting/busy.rs`).
        const BUFFER_LIMITED = 1 << 24;
        /// Recovery from a timeout has not finished (`accounting/busy.rs`).
        const TIMEOUT_RECOVERY = 1 << 25;
        /// There is no memory for payload: none is accepted, and the window is advertised
        /// as 0.
        const NO_ROOM = 1 << 26;
        /// Ends of records are kept (MSG_EOR), at which segments end.
        const RECORD_ENDS = 1 << 27;
        /// Our FIN was sent without data.
        const FIN_ALONE = 1 << 28;
        /// Memory for payload is short: the window is as small as
        /// [`ShortWindow`](crate::short_window::ShortWindow) has it.
        const LITTLE_ROOM = 1 << 29;
    }
}

saved_flags!(Flags: u32);

impl Flags {
    /// Memory is short, so the window is not that of the buffer.
    pub(crate) const SHORT_OF_ROOM: Flags = Flags::NO_ROOM.union(Flags::LITTLE_ROOM);

    /// Everything that makes `poll_transmit` send something.
    pub(crate) const OWED: Flags = Flags::ACK_NOW
        .union(Flags::ACK_OWED)
        .union(Flags::SYN_DUE)
        .union(Flags::RST_DUE)
        .union(Flags::PROBE_DUE)
        .union(Flags::FORCE_SMALL);

    /// Everything that makes `poll_transmit` send something even if there is no data.
    pub(crate) const OWED_NOW: Flags = Flags::ACK_NOW
        .union(Flags::SYN_DUE)
        .union(Flags::RST_DUE)
        .union(Flags::PROBE_DUE);
}
