//! What the engine has dropped and done, by name. Always on; each count is one
//! addition.

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

/// Counters of the engine. `catalog` has the names, units and meanings of those that are
/// not drops.
#[derive(Debug, Clone)]
pub struct Counters {
    engine: [u64; EngineDrop::COUNT],
    wire: [u64; WireError::COUNT],
    tcp: [u64; longshore_tcp::DropReason::COUNT],
    net: [u64; longshore_net::DropReason::COUNT],
    /// Segments that header prediction took, with payload.
    pub predicted_data: u64,
    /// And without.
    pub predicted_acks: u64,
    /// Those that it did not take.
    pub unpredicted: u64,
    /// Those among them that brought payload for a connection.
    pub unpredicted_data: u64,
    /// TCP segments sent; one that the port cuts counts once.
    pub segments_out: u64,
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
    /// Sockets refused because their user has as many as it may.
    pub sockets_refused: u64,
    /// UDP datagrams taken.
    pub datagrams_in: u64,
    /// UDP datagrams sent.
    pub datagrams_out: u64,
    /// What that cost, as users' shares of output have it.
    pub datagram_output: u64,
    /// Turns of the loop.
    pub turns: u64,
    /// Sleeps of the loop.
    pub sleeps: u64,
    /// Times that the loop was kept from its processor and raised its priority.
    pub precedence: u64,
    /// Bytes passed between two of its own sockets without a packet.
    pub cut_through_bytes: u64,
    /// Of those, bytes that were read where they had been written.
    pub lent_bytes: u64,
    /// Bytes that one socket has received and another sends where they lie.
    pub forwarded_bytes: u64,
    /// Turns in which requests waited, since their session, or its user, had had its share.
    pub request_waits: u64,
    /// Sockets that waited with what they had to send.
    pub output_waits: u64,
    /// Times that nobody was woken for bytes that are fewer than their program waits for.
    pub below_low_water: u64,
    /// Turns in which sleepers waited.
    pub wakeup_waits: u64,
    /// Times that a channel was left alone because its process takes no answers.
    pub stalled_channels: u64,
    /// Channels of processes that broke their rings.
    pub broken_channels: u64,
    /// Sessions, and half-open connections whose listener was over, that were ended since the
    /// work for them led to a panic.
    pub contained_panics: u64,
}

impl Counters {
    pub(crate) fn new() -> Self {
        Self {
            engine: [0; EngineDrop::COUNT],
            wire: [0; WireError::COUNT],
            tcp: [0; longshore_tcp::DropReason::COUNT],
            net: [0; longshore_net::DropReason::COUNT],
            predicted_data: 0,
            predicted_acks: 0,
            unpredicted: 0,
            unpredicted_data: 0,
            segments_out: 0,
            retransmissions: 0,
            resets_out: 0,
            active_opens: 0,
            passive_opens: 0,
            fast_opens: 0,
            cookies_sent: 0,
            cookies_taken: 0,
            sockets_refused: 0,
            datagrams_in: 0,
            datagrams_out: 0,
            datagram_output: 0,
            turns: 0,
            sleeps: 0,
            precedence: 0,
            cut_through_bytes: 0,
            lent_bytes: 0,
            forwarded_bytes: 0,
            request_waits: 0,
            output_waits: 0,
            below_low_water: 0,
            wakeup_waits: 0,
            stalled_channels: 0,
            broken_channels: 0,
            contained_panics: 0,
        }
    }

    #[cold]
    pub(crate) fn drop(&mut self, reason: EngineDrop) {
        self.engine[reason as usize] += 1;
    }

    /// So many at once.
    pub(crate) fn drop_many(&mut self, reason: EngineDrop, count: u64) {
        self.engine[reason as usize] += count;
    }

    #[cold]
    pub(crate) fn drop_wire(&mut self, reason: WireError) {
        self.wire[reason as usize] += 1;
    }

    #[cold]
    pub(crate) fn drop_tcp(&mut self, reason: longshore_tcp::DropReason) {
        self.tcp[reason.index()] += 1;
    }

    #[cold]
    pub(crate) fn drop_net(&mut self, reason: longshore_net::DropReason) {
        self.net[reason.index()] += 1;
    }

    /// All drops that happened, by name.
    pub fn drops(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let engine = EngineDrop::ALL
            .iter()
            .map(|r| (r.name(), self.engine[*r as usize]));
        let wire = WireError::ALL
            .iter()
            .map(|r| (r.name(), self.wire[*r as usize]));
        let tcp = longshore_tcp::DropReason::ALL
            .iter()
            .map(|r| (r.name(), self.tcp[r.index()]));
        let net = longshore_net::DropReason::ALL
            .iter()
            .map(|r| (r.name(), self.net[r.index()]));
        engine
            .chain(wire)
            .chain(tcp)
            .chain(net)
            .filter(|(_, n)| *n != 0)
    }
}
