//! What the engine has dropped and done, by name. Always on; each count is one
//! addition.

use longshore_net::groups::Full;
use longshore_wire::WireError;

longshore_wire::drop_reasons! {
    /// Why the engine itself did not take a packet, beside the reasons of
    /// `tcp` and `net`.
    pub enum EngineDrop;
    /// Addressed to another station on the link.
    NotOurMac = "not_our_mac",
    /// A protocol that the engine does not speak.
    UnknownEtherType = "unknown_ether_type",
    /// An IP protocol that the engine does not speak.
    UnknownProtocol = "unknown_ip_protocol",
    /// The transport checksum is wrong.
    BadTransportChecksum = "bad_transport_checksum",
    /// A malformed transport header.
    BadTransportHeader = "bad_transport_header",
    /// Nobody has this UDP port.
    NoUdpSocket = "no_udp_socket",
    /// The UDP socket's buffer is full.
    UdpBufferFull = "udp_buffer_full",
    /// A datagram to a group or to everybody has not come to all sockets of its port: these are more than
    /// are looked at.
    GroupReceivers = "udp_too_many_receivers",
    /// An ICMP error about nothing that a socket has sent, or has in flight.
    IcmpAboutNothing = "icmp_about_nothing_sent",
    /// The socket keeps as many error reports as it may.
    ErrorQueueFull = "error_queue_full",
    /// A datagram was to be cut into more than the 128 that there may be.
    TooManySegments = "udp_too_many_segments",
    /// The session's memory is full.
    ArenaFull = "arena_full",
    /// A connection has come, and the user of its listener has as many sockets as it may.
    UserSockets = "user_has_no_socket_left",
    /// The connection would be established, but the session has no socket left.
    NoSocketLeft = "no_socket_left",
    /// It belongs to no connection and asks for an answer, while the port has more than the
    /// engine can take.
    UnsolicitedUnanswered = "unsolicited_unanswered",
    /// The next hop's hardware address is not known.
    Unresolved = "neighbor_unresolved",
    /// Too many packets wait for the next hop's hardware address: the oldest.
    NeighborQueueFull = "neighbor_queue_full",
    /// No route to the destination.
    NoRoute = "no_route",
    /// A datagram longer than its path takes, which its program does not want cut.
    TooLong = "too_long_to_be_whole",
    /// The port did not take it.
    PortRefused = "port_refused",
    /// The end of a record (MSG_EOR): as many as are kept of a connection are not
    /// acknowledged, and segments may have bytes from both its sides.
    RecordEndsFull = "too_many_record_ends",
    /// The program's send stream does not hold what it said.
    BadStream = "bad_send_stream",
    /// The rules of the configuration (`[access]`) do not let this peer reach this port, or
    /// this program this destination.
    AccessDenied = "access_denied",
    /// Another station has one of our IPv6 addresses, which is given up.
    DuplicateAddress = "duplicate_address",
    /// A message from a DHCP server that cannot be read.
    BadDhcp = "bad_dhcp_message",
    /// A router told of resolvers (RFC 8106), which programs have from elsewhere.
    RouterDns = "router_dns_ignored",
}

/// What the operator should know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notice {
    /// A session is short of memory for what comes for it, for the first time.
    ArenaFull {
        /// The session's key.
        session: u32,
    },
    /// More SYNs come than can be read.
    SynFlood,
    /// A panic came out of a session's work, which ended the session.
    Panic {
        /// The session's key.
        session: u32,
    },
    /// A panic came out of the work for a half-open connection, which is forgotten.
    PanicAtHalfOpen,
}

/// Segments by whether header prediction took them.
#[derive(Debug, Clone, Default)]
pub struct Prediction {
    /// Those that it took, with payload.
    pub data: u64,
    /// And without.
    pub acks: u64,
    /// Those that it did not take.
    pub missed: u64,
    /// Those among them that brought payload for a connection.
    pub missed_data: u64,
    /// Of `data`, those whose payload the port has put where it belongs.
    pub in_place: u64,
    /// Frames of which it has put bytes there that belong elsewhere.
    pub in_place_missed: u64,
}

/// What TCP has sent and opened.
#[derive(Debug, Clone, Default)]
pub struct TcpCounters {
    /// Segments sent; one that the port cuts counts once.
    pub segments_out: u64,
    /// How many times 64 KiB are in those with a longer payload ([`longshore_frames::BigTcp`]).
    pub longer_segments_out: u64,
    /// Those among them that were sent before.
    pub retransmissions: u64,
    /// Resets sent in answer to segments of no connection.
    pub resets_out: u64,
    /// Connections begun by connect.
    pub active_opens: u64,
    /// Connections that listeners have taken.
    pub passive_opens: u64,
    /// Those whose SYN brought data that were taken.
    pub fast_opens: u64,
    /// SYNs answered by a cookie.
    pub cookies_sent: u64,
    /// Cookies that came back.
    pub cookies_taken: u64,
    /// Windows that were narrowed since their session was short of memory.
    pub windows_narrowed: u64,
}

/// UDP datagrams.
#[derive(Debug, Clone, Default)]
pub struct DatagramCounters {
    /// Taken.
    pub received: u64,
    /// Sent.
    pub sent: u64,
    /// What sending them cost, as users' shares of output have it.
    pub output: u64,
}

/// The loop that calls the stack.
#[derive(Debug, Clone, Default)]
pub struct LoopCounters {
    /// Its turns.
    pub turns: u64,
    /// Its sleeps.
    pub sleeps: u64,
    /// Times that it was kept from its processor and raised its priority.
    pub precedence: u64,
    /// Times that it went to its program's processor.
    pub placements: u64,
}

/// Bytes that went from one of its own sockets to another.
#[derive(Debug, Clone, Default)]
pub struct OwnBytes {
    /// Passed between two sockets without a packet.
    pub cut_through: u64,
    /// Of those, bytes that were read where they had been written.
    pub lent: u64,
    /// Bytes that one socket has received and another sends where they lie.
    pub forwarded: u64,
}

/// What was put off.
#[derive(Debug, Clone, Default)]
pub struct WaitCounters {
    /// Turns in which requests waited, since their session, or its user, had had its share.
    pub requests: u64,
    /// Sockets that waited with what they had to send.
    pub output: u64,
    /// Turns in which sleepers waited.
    pub wakeups: u64,
    /// Times that nobody was woken for bytes that are fewer than their program waits for.
    pub below_low_water: u64,
}

/// What sessions and their processes were refused, or have broken.
#[derive(Debug, Clone, Default)]
pub struct SessionCounters {
    /// Sockets refused because their user has as many as it may.
    pub sockets_refused: u64,
    /// Times that a channel was left alone because its process takes no answers.
    pub stalled_channels: u64,
    /// Channels of processes that broke their rings.
    pub broken_channels: u64,
    /// Sessions, and half-open connections whose listener was over, that were ended since the
    /// work for them led to a panic.
    pub contained_panics: u64,
}

/// Groups that sockets were not let join, and sources that they were not let list.
#[derive(Debug, Clone, Default)]
pub struct GroupCounters {
    /// The link has as many as it may.
    pub all: u64,
    /// The session has.
    pub session: u64,
    /// The user has.
    pub user: u64,
}

impl GroupCounters {
    pub(crate) fn count(&mut self, full: Full) {
        *match full {
            Full::Link => &mut self.all,
            Full::Session => &mut self.session,
            Full::User => &mut self.user,
        } += 1;
    }
}

/// What was dropped, by the reasons of each crate.
#[derive(Debug, Clone)]
struct Drops {
    engine: [u64; EngineDrop::COUNT],
    wire: [u64; WireError::COUNT],
    tcp: [u64; longshore_tcp::DropReason::COUNT],
    net: [u64; longshore_net::DropReason::COUNT],
}

/// Counters of the engine. `catalog` in the engine has the names, units and meanings of those that
/// are not drops.
#[derive(Debug, Clone)]
pub struct Counters {
    drops: Drops,
    /// Segments by whether header prediction took them.
    pub prediction: Prediction,
    /// What TCP has sent and opened.
    pub tcp: TcpCounters,
    /// UDP datagrams.
    pub datagrams: DatagramCounters,
    /// The loop that calls the stack.
    pub event_loop: LoopCounters,
    /// Bytes that went from one of its own sockets to another.
    pub own_bytes: OwnBytes,
    /// What was put off.
    pub waits: WaitCounters,
    /// What sessions and their processes were refused, or have broken.
    pub sessions: SessionCounters,
    /// Groups that sockets were not let join.
    pub groups: GroupCounters,
    /// What the operator is to be told beside the counts; the loop takes it.
    pub notices: Vec<Notice>,
}

/// Counts `many` more for the reason with this index.
#[inline]
fn count(counts: &mut [u64], index: usize, many: u64) {
    if let Some(n) = counts.get_mut(index) {
        *n += many;
    }
}

fn counted(counts: &[u64], index: usize) -> u64 {
    counts.get(index).copied().unwrap_or(0)
}

impl Counters {
    pub(crate) fn new() -> Self {
        Self {
            drops: Drops {
                engine: [0; EngineDrop::COUNT],
                wire: [0; WireError::COUNT],
                tcp: [0; longshore_tcp::DropReason::COUNT],
                net: [0; longshore_net::DropReason::COUNT],
            },
            prediction: Prediction::default(),
            tcp: TcpCounters::default(),
            datagrams: DatagramCounters::default(),
            event_loop: LoopCounters::default(),
            own_bytes: OwnBytes::default(),
            waits: WaitCounters::default(),
            sessions: SessionCounters::default(),
            groups: GroupCounters::default(),
            notices: Vec::new(),
        }
    }

    #[cold]
    pub(crate) fn drop(&mut self, reason: EngineDrop) {
        count(&mut self.drops.engine, reason as usize, 1);
    }

    /// So many at once.
    pub(crate) fn drop_many(&mut self, reason: EngineDrop, many: u64) {
        count(&mut self.drops.engine, reason as usize, many);
    }

    #[cold]
    pub(crate) fn drop_wire(&mut self, reason: WireError) {
        count(&mut self.drops.wire, reason as usize, 1);
    }

    #[cold]
    pub(crate) fn drop_tcp(&mut self, reason: longshore_tcp::DropReason) {
        count(&mut self.drops.tcp, reason.index(), 1);
    }

    #[cold]
    pub(crate) fn drop_net(&mut self, reason: longshore_net::DropReason) {
        count(&mut self.drops.net, reason.index(), 1);
    }

    /// All drops that happened, by name.
    pub fn drops(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let engine = EngineDrop::ALL
            .iter()
            .map(|r| (r.name(), counted(&self.drops.engine, *r as usize)));
        let wire = WireError::ALL
            .iter()
            .map(|r| (r.name(), counted(&self.drops.wire, *r as usize)));
        let tcp = longshore_tcp::DropReason::ALL
            .iter()
            .map(|r| (r.name(), counted(&self.drops.tcp, r.index())));
        let net = longshore_net::DropReason::ALL
            .iter()
            .map(|r| (r.name(), counted(&self.drops.net, r.index())));
        engine
            .chain(wire)
            .chain(tcp)
            .chain(net)
            .filter(|(_, n)| *n != 0)
    }
}
