//! The reasons for dropping a segment or a part of one, each enumerated once.
//!
//! Owns [`DropReason`]. Input returns one in its `Disposition`; the engine counts them by
//! [`DropReason::index`] and prints [`DropReason::name`].

longshore_wire::drop_reasons! {
    /// Why a segment, or a part of one, was dropped.
    pub enum DropReason;
    /// The connection is closed.
    Closed = "tcp_closed",
    /// All of it was received before.
    Duplicate = "tcp_duplicate",
    /// It is outside the receive window.
    OutOfWindow = "tcp_out_of_window",
    /// Its end is beyond the receive window and was trimmed.
    BeyondWindow = "tcp_beyond_window",
    /// Its timestamp is older than the last one (RFC 7323 section 5, PAWS).
    Paws = "tcp_paws",
    /// It acknowledges data that was never sent.
    AckUnsent = "tcp_ack_unsent",
    /// It acknowledges data too far back (RFC 5961 section 5).
    AckTooOld = "tcp_ack_too_old",
    /// It has no ACK flag where one is required.
    NoAck = "tcp_no_ack",
    /// A SYN in a synchronized state (RFC 5961 section 4).
    SynInConnection = "tcp_syn_in_connection",
    /// A reset that is in the window but not at RCV.NXT (RFC 5961 section 3).
    RstNotExact = "tcp_rst_not_exact",
    /// A reset outside the window, or without an acceptable ACK in SYN-SENT.
    RstUnacceptable = "tcp_rst_unacceptable",
    /// There is no memory for its payload ([`ReceiveRoom::deny`](crate::ReceiveRoom::deny)).
    NoRoom = "tcp_no_room",
    /// The table of out-of-order ranges is full.
    AssemblerFull = "tcp_assembler_full",
    /// Payload after the peer's FIN.
    AfterFin = "tcp_after_fin",
    /// Payload for a program that has closed; answered by a reset.
    AfterClose = "tcp_after_close",
    /// Payload before the handshake is complete, without a Fast Open cookie.
    EarlyData = "tcp_early_data",
    /// It has neither SYN nor RST nor ACK where one is required.
    NoFlags = "tcp_no_flags",
    /// A segment to a listener that is not a SYN.
    ListenNoSyn = "tcp_listen_no_syn",
    /// The listener's queue of half-open connections is full.
    SynQueueFull = "tcp_syn_queue_full",
    /// The listener's accept queue is full.
    AcceptQueueFull = "tcp_accept_queue_full",
    /// A bare ACK while the listener waits for data (TCP_DEFER_ACCEPT).
    DeferAccept = "tcp_defer_accept",
    /// An old segment for a connection in TIME-WAIT.
    TimeWait = "tcp_time_wait",
    /// An acknowledgment without a valid cookie to a listener that has sent SYN cookies;
    /// answered by a reset.
    BadCookie = "tcp_bad_syn_cookie",
    /// No connection and no listener; answered by a reset unless it is one.
    NoConnection = "tcp_no_connection",
}
