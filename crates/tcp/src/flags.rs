//! What holds of a connection, and what it owes, in one word.
//!
//! Owns [`Flags`], which `tcb.rs` keeps for each connection and everything else reads.

use crate::codec::saved_flags;

bitflags::bitflags! {
    /// What holds of a connection, and what it owes.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub(crate) struct Flags: u32 {
        /// Timestamps were agreed (RFC 7323 section 3.2).
        const TIMESTAMPS = 1;
        /// Window scaling was agreed (RFC 7323 section 2.2).
        const SCALING = 1 << 2;
        /// The open was ours.
        const ACTIVE = 1 << 3;
        /// No program holds it any more.
        const ORPHAN = 1 << 5;
        /// The receiving half is shut down: once the sending half is too, payload is
        /// answered by a reset.
        const RCV_SHUT = 1 << 6;
        /// An acknowledgment is owed, and not to be delayed.
        const ACK_NOW = 1 << 7;
        /// An acknowledgment is owed; the delay timer may run.
        const ACK_OWED = 1 << 8;
        /// A SYN, or SYN-ACK, is to be (re)sent.
        const SYN_DUE = 1 << 9;
        /// A RST is to be sent.
        const RST_DUE = 1 << 10;
        /// A probe that provokes an acknowledgment is to be sent (persist,
        /// keepalive).
        const PROBE_DUE = 1 << 11;
        /// The SWS, Nagle or cork hold on a small segment is lifted once.
        const FORCE_SMALL = 1 << 12;
        /// Both sides take turns (Linux's pingpong): acknowledgments wait for data
        /// to ride on.
        const INTERACTIVE = 1 << 13;
        /// The RST must carry an ACK.
        const RST_ACK = 1 << 15;
        /// The SYN was sent more than once.
        const SYN_REPEATED = 1 << 16;
        /// A duplicate range is to be reported (RFC 2883).
        const DSACK = 1 << 17;
        /// What goes out is paced or may be marked, or the rate of delivery is
        /// measured: the common path leaves it to the other.
        const CAREFUL = 1 << 18;
        /// The peer's window alone holds data back (`accounting/busy.rs`).
        const WINDOW_LIMITED = 1 << 19;
        /// Something written waits with nothing in flight (`accounting/busy.rs`).
        const WAITING = 1 << 20;
        /// There is urgent data that is not acknowledged: headers say where it ends.
        const URGENT = 1 << 21;
        /// The user timeout in force is what the peer advised, not what the user set.
        const ADVISED_TIMEOUT = 1 << 22;
        /// The peer is to be told of the user timeout (RFC 5482).
        const TELL_TIMEOUT = 1 << 23;
        /// The send buffer alone holds the user up (`accounting/busy.rs`).
        const BUFFER_LIMITED = 1 << 24;
        /// What a timeout has found is not repaired yet (`accounting/busy.rs`).
        const REPAIRS_TIMEOUT = 1 << 25;
        /// There is no memory for payload: none is taken, and the window is told as closed.
        const NO_ROOM = 1 << 26;
    }
}

saved_flags!(Flags: u32);

impl Flags {
    /// Everything that `poll_transmit` would act on.
    pub(crate) const OWED: Flags = Flags::ACK_NOW
        .union(Flags::ACK_OWED)
        .union(Flags::SYN_DUE)
        .union(Flags::RST_DUE)
        .union(Flags::PROBE_DUE)
        .union(Flags::FORCE_SMALL);

    /// What `poll_transmit` acts on even if there is no data.
    pub(crate) const OWED_NOW: Flags = Flags::ACK_NOW
        .union(Flags::SYN_DUE)
        .union(Flags::RST_DUE)
        .union(Flags::PROBE_DUE);
}
