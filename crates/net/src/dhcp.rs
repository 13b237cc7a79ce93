//! A DHCP client (RFC 2131) with conflict detection (RFC 5227).
//!
//! Owns [`Client`], the state machine. The engine passes it replies of servers and ARP
//! packets, calls [`Client::poll`] until it returns `None`, and again at
//! [`Client::deadline`].
//!
//! ```text
//!        offer              ack              silence            T1          T2
//! Init ---------> Request ---------> Probe ------------> Bound ---> Renew ----> Rebind
//!   ^  <--------- nak, silence         | somebody has it   ^ <-ack--- |    <-ack-- |
//!   |  <----------------- decline -----+                   +----------+------------+
//!   +------------------------------ nak, end of the lease, conflict ---------------+
//! ```

use crate::Instant;
use crate::random::Random;
use core::net::Ipv4Addr;
use longshore_wire::MacAddr;
use longshore_wire::arp::ArpPacket;
use longshore_wire::dhcp::{
    Kind, MAX_CLIENT_ID, MAX_REQUEST_LEN, MAX_ROUTES, Reply, Request, StaticRoute,
};

mod lease;
pub use lease::Lease;

/// The first retransmission interval; it doubles up to the longest (RFC 2131 section
/// 4.1).
const FIRST_WAIT_MS: u64 = 4_000;
const LONGEST_WAIT_MS: u64 = 64_000;
/// Intervals are randomised by up to this in either direction (the same section).
const SPREAD_MS: u64 = 1_000;
/// Requests for an offer before the client starts over (section 4.4.1 leaves the number
/// to us).
const REQUESTS: u8 = 4;
/// Minimum interval between requests for renewal (section 4.4.5).
const LEAST_RENEWAL_MS: u64 = 60_000;
/// Delay after a conflict before the client starts over (section 3.1.5).
const AFTER_DECLINE_MS: u64 = 10_000;
/// Delay before a request is repeated that could not be sent because the server's
/// hardware address is being resolved.
const UNSENT_MS: u64 = 1_000;
/// Number of ARP probes for the address (RFC 5227's PROBE_NUM), and the time to wait for
/// an answer to each. The RFC waits for 4 to 7 s in all; we wait less because programs
/// are waiting.
const PROBES: u8 = 3;
const PROBE_WAIT_MS: u64 = 200;
/// Number and interval of announcements of the address (RFC 5227 section 1.1).
const ANNOUNCEMENTS: u8 = 2;
const ANNOUNCE_EVERY_MS: u64 = 2_000;
/// After two conflicts within this time, the address is given up (RFC 5227's
/// DEFEND_INTERVAL).
const DEFEND_MS: u64 = 10_000;

/// A message to be sent, in a datagram from [`CLIENT_PORT`] to [`SERVER_PORT`].
///
/// [`CLIENT_PORT`]: longshore_wire::dhcp::CLIENT_PORT
/// [`SERVER_PORT`]: longshore_wire::dhcp::SERVER_PORT
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message {
    /// Our address, or 0.0.0.0 if there is none yet.
    pub source: Ipv4Addr,
    /// A server's address, or the broadcast address.
    pub destination: Ipv4Addr,
    bytes: [u8; MAX_REQUEST_LEN],
    len: usize,
}

impl Message {
    /// The datagram's payload.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

/// An action for the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(
    clippy::large_enum_variant,
    reason = "there are two of them at most, and they come a few times an hour"
)]
pub enum Action {
    /// Send this.
    Send(Message),
    /// Send an ARP probe for this address (RFC 5227 section 2.1.1).
    Probe(Ipv4Addr),
    /// Send an ARP announcement for this address.
    Announce(Ipv4Addr),
    /// Configure this lease, which replaces the previous one.
    Configured(Lease),
    /// The address is no longer ours.
    Lost,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Looking for servers; `tries` DISCOVERs have been sent.
    Init { tries: u8 },
    /// Requesting an offer; `tries` REQUESTs have been sent.
    Request { tries: u8 },
    /// Probing for conflicts over the offered address; `sent` ARP probes have been sent.
    Probe { sent: u8 },
    /// We have a lease; it was announced `announced` times.
    Bound { announced: u8 },
    /// Requesting renewal from the lease's server.
    Renew,
    /// Requesting renewal from all servers.
    Rebind,
    /// We have a lease, and the link has returned: servers were asked `tries` times
    /// whether it is valid there (RFC 2131 section 3.2, INIT-REBOOT and REBOOTING).
    Reboot { tries: u8 },
}

/// The client.
#[derive(Debug, Clone)]
pub struct Client {
    mac: MacAddr,
    id: [u8; MAX_CLIENT_ID],
    id_len: usize,
    state: State,
    /// When the state's next action is due.
    due: Instant,
    /// The offer, or the lease.
    lease: Option<Lease>,
    /// The lease is in use.
    configured: bool,
    xid: u32,
    /// When this transaction began, for the `secs` field.
    began: Instant,
    /// When the request for the lease was sent: its time counts from then (RFC 2131
    /// section 4.4.5).
    asked: Instant,
    /// When the last request was sent.
    asking: Instant,
    /// When a conflict was last answered, in Bound.
    defended: Option<Instant>,
    /// Pending actions, which `poll` returns first.
    next: [Option<Action>; 2],
    random: Random,
}

impl Client {
    /// Starts at `now`. `id` is the client identifier, up to [`MAX_CLIENT_ID`] bytes,
    /// always the same (RFC 4361); `seed` is random.
    #[must_use]
    pub fn new(mac: MacAddr, id: &[u8], seed: u64, now: Instant) -> Self {
        let id_len = id.len().min(MAX_CLIENT_ID);
        let mut bytes = [0; MAX_CLIENT_ID];
        for (to, from) in bytes.iter_mut().zip(id) {
            *to = *from;
        }
        let mut client = Self {
            mac,
            id: bytes,
            id_len,
            state: State::Init { tries: 0 },
            due: now,
            lease: None,
            configured: false,
            xid: 0,
            began: now,
            asked: now,
            asking: now,
            defended: None,
            next: [None; 2],
            random: Random::new(seed),
        };
        client.begin(now, 0);
        client
    }

    /// Our address or the one being probed, for conflict detection.
    #[must_use]
    pub fn address(&self) -> Option<Ipv4Addr> {
        let held = !matches!(self.state, State::Init { .. } | State::Request { .. });
        self.lease.filter(|_| held).map(|l| l.address)
    }

    /// When [`poll`](Self::poll) has an action.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        if self.next[0].is_some() {
            Instant(0)
        } else {
            self.due
        }
    }

    /// The next action; `None` if there is none at present.
    pub fn poll(&mut self, now: Instant) -> Option<Action> {
        if let Some(action) = self.next[0].take() {
            self.next.swap(0, 1);
            return Some(action);
        }
        if now < self.due {
            return None;
        }
        match self.state {
            State::Init { tries } => {
                self.state = State::Init {
                    tries: tries.saturating_add(1),
                };
                self.due = self.after_backoff(now, tries);
                Some(self.message(Kind::Discover, now))
            }
            State::Request { tries } if tries < REQUESTS => Some(self.request(now, tries)),
            State::Request { .. } => {
                self.begin(now, 0);
                self.poll(now)
            }
            State::Probe { sent } if sent < PROBES => {
                self.state = State::Probe { sent: sent + 1 };
                self.due = now.after_ms(PROBE_WAIT_MS);
                self.lease.map(|l| Action::Probe(l.address))
            }
            State::Probe { .. } => {
                self.configured = true;
                self.defended = None;
                self.state = State::Bound { announced: 0 };
                self.due = now;
                self.lease.map(Action::Configured)
            }
            State::Bound { announced } if announced < ANNOUNCEMENTS => {
                self.bound(now, announced + 1);
                self.lease.map(|l| Action::Announce(l.address))
            }
            State::Reboot { .. } if self.lease.is_none_or(|l| now >= l.ends_at(self.asked)) => {
                self.lose(now, 0);
                self.poll(now)
            }
            State::Reboot { tries } if tries < REQUESTS => Some(self.verify_lease(now, tries)),
            State::Reboot { .. } => {
                // No server has objected (RFC 2131 section 3.2 point 4).
                self.resume_bound(now);
                self.poll(now)
            }
            State::Bound { .. } | State::Renew | State::Rebind => self.keep(now),
        }
    }

    /// The link carries frames again, and may be another network: verifies our address
    /// while it stays in use; without an address, starts over at once.
    pub fn link_returned(&mut self, now: Instant) {
        match self.state {
            State::Init { .. } | State::Request { .. } | State::Probe { .. } => self.begin(now, 0),
            State::Bound { .. } | State::Renew | State::Rebind | State::Reboot { .. } => {
                self.xid = self.random.draw() as u32;
                self.state = State::Reboot { tries: 0 };
                (self.due, self.began) = (now, now);
            }
        }
    }

    /// Handles a reply from a server.
    pub fn handle_reply(&mut self, reply: &Reply, now: Instant) {
        if reply.xid != self.xid || reply.client != self.mac {
            return;
        }
        match (self.state, reply.kind) {
            (State::Init { tries: 1.. }, Kind::Offer) => {
                if let Some(lease) = Lease::of(reply) {
                    self.lease = Some(lease);
                    self.state = State::Request { tries: 0 };
                    self.due = now;
                }
            }
            (State::Request { tries: 1.. }, Kind::Ack) if self.is_from_ours(reply) => {
                if let Some(lease) = Lease::of(reply) {
                    self.lease = Some(lease);
                    self.asked = self.asking;
                    self.state = State::Probe { sent: 0 };
                    self.due = now;
                }
            }
            (State::Request { tries: 1.. }, Kind::Nak) if self.is_from_ours(reply) => {
                self.begin(now, SPREAD_MS);
            }
            (State::Renew | State::Rebind, Kind::Ack) => self.renewed(reply, now),
            (State::Reboot { tries: 1.. }, Kind::Ack) => {
                self.renewed(reply, now);
                if let State::Bound { .. } = self.state {
                    self.resume_bound(now);
                }
            }
            (State::Renew | State::Rebind | State::Reboot { tries: 1.. }, Kind::Nak) => {
                self.lose(now, 0);
            }
            _ => {}
        }
    }

    /// Handles an ARP packet: detects whether its sender has our address, or is probing
    /// for it at the same time (RFC 5227 sections 2.1.1 and 2.4).
    pub fn handle_arp(&mut self, packet: &ArpPacket, now: Instant) {
        let Some(ours) = self.address() else { return };
        if packet.sender_mac == self.mac {
            return;
        }
        let claims = packet.sender_ip == ours;
        let probes = packet.sender_ip.is_unspecified() && packet.target_ip == ours;
        match self.state {
            State::Probe { .. } if claims || probes => self.decline(now),
            State::Probe { .. } => {}
            _ if claims => {
                let recently = |at: Instant| now < at.after_ms(DEFEND_MS);
                if self.defended.is_some_and(recently) {
                    return self.decline(now);
                }
                self.defended = Some(now);
                self.queue_action(Action::Announce(ours));
            }
            _ => {}
        }
    }

    /// The last message could not be sent: the server's hardware address is being
    /// resolved.
    pub fn not_sent(&mut self, now: Instant) {
        if self.state == State::Renew {
            self.due = now.after_ms(UNSENT_MS);
        }
    }

    /// Gives up the address; returns the message for the server, if there is one.
    #[must_use]
    pub fn release(&mut self, now: Instant) -> Option<Message> {
        let message = self.message(Kind::Release, now);
        let ours = core::mem::take(&mut self.configured);
        match message {
            Action::Send(message) if ours => Some(message),
            _ => None,
        }
    }

    /// Whether a reply is from the server whose offer we requested.
    fn is_from_ours(&self, reply: &Reply) -> bool {
        self.lease.is_some_and(|l| l.server == reply.server)
    }

    /// Starts to look for a server, after about `wait` milliseconds.
    fn begin(&mut self, now: Instant, wait: u64) {
        self.xid = self.random.draw() as u32;
        self.lease = None;
        self.configured = false;
        self.state = State::Init { tries: 0 };
        self.due = now.after_ms(wait);
        self.began = self.due;
    }

    /// Requests the offered address.
    fn request(&mut self, now: Instant, tries: u8) -> Action {
        self.state = State::Request { tries: tries + 1 };
        self.due = self.after_backoff(now, tries);
        self.asking = now;
        self.message(Kind::Request, now)
    }

    /// Asks all servers whether our lease is valid on this link.
    fn verify_lease(&mut self, now: Instant, tries: u8) -> Action {
        self.state = State::Reboot { tries: tries + 1 };
        let end = self.lease.map_or(now, |l| l.ends_at(self.asked));
        self.due = self.after_backoff(now, tries).min(end);
        self.asking = now;
        self.message(Kind::Request, now)
    }

    /// Our address stays in use, and is announced on the link, which may be another.
    fn resume_bound(&mut self, now: Instant) {
        self.state = State::Bound { announced: 0 };
        self.due = now;
    }

    /// Waits until the lease is to be renewed.
    fn bound(&mut self, now: Instant, announced: u8) {
        self.state = State::Bound { announced };
        let renew = self.lease.map_or(now, |l| l.renew_at(self.asked));
        self.due = if announced < ANNOUNCEMENTS {
            renew.min(now.after_ms(ANNOUNCE_EVERY_MS))
        } else {
            renew
        };
    }

    /// Requests renewal, or gives the address up at the lease's end.
    fn keep(&mut self, now: Instant) -> Option<Action> {
        let lease = self.lease?;
        let (rebind, end) = (lease.rebind_at(self.asked), lease.ends_at(self.asked));
        if now >= end {
            self.lose(now, 0);
            return self.poll(now);
        }
        if let State::Bound { .. } = self.state {
            self.xid = self.random.draw() as u32;
            self.began = now;
        }
        let (state, until) = if now < rebind {
            (State::Renew, rebind)
        } else {
            (State::Rebind, end)
        };
        self.state = state;
        // RFC 2131 section 4.4.5: after half of the time that is left.
        let half = until.0.saturating_sub(now.0) / 2000;
        self.due = until.min(now.after_ms(half.max(LEAST_RENEWAL_MS)));
        self.asking = now;
        Some(self.message(Kind::Request, now))
    }

    /// A server has extended the lease.
    fn renewed(&mut self, reply: &Reply, now: Instant) {
        let before = self.lease;
        let Some(lease) = Lease::of(reply) else {
            return;
        };
        if before.is_some_and(|b| b.address != lease.address) {
            // It is not the address that we asked for: not a valid answer.
            return;
        }
        self.lease = Some(lease);
        self.asked = self.asking;
        self.bound(now, ANNOUNCEMENTS);
        if before.is_none_or(|b| !b.configures_like(&lease)) {
            self.queue_action(Action::Configured(lease));
        }
    }

    /// The address is lost; the client starts over.
    fn lose(&mut self, now: Instant, wait: u64) {
        let was = self.configured;
        self.begin(now, wait);
        if was {
            self.queue_action(Action::Lost);
        }
    }

    /// Another host has the offered address.
    fn decline(&mut self, now: Instant) {
        let message = self.message(Kind::Decline, now);
        self.lose(now, AFTER_DECLINE_MS);
        self.queue_action(message);
    }

    fn queue_action(&mut self, action: Action) {
        if let Some(place) = self.next.iter_mut().find(|a| a.is_none()) {
            *place = Some(action);
        }
    }

    fn message(&self, kind: Kind, now: Instant) -> Action {
        let lease = self.lease;
        let asks = kind == Kind::Request && matches!(self.state, State::Reboot { .. });
        let holds = !asks
            && matches!(
                self.state,
                State::Bound { .. } | State::Renew | State::Rebind | State::Reboot { .. }
            );
        let ours = lease.map(|l| l.address).filter(|_| holds);
        let source = ours
            .filter(|_| kind != Kind::Decline)
            .unwrap_or(Ipv4Addr::UNSPECIFIED);
        let server = lease.map(|l| l.server);
        // RFC 2131 tables 4 and 5.
        let selecting = kind == Kind::Request && !holds;
        let named = (selecting && !asks) || matches!(kind, Kind::Decline | Kind::Release);
        let wanted = selecting || kind == Kind::Decline;
        let request = Request {
            kind,
            xid: self.xid,
            seconds: (now.0.saturating_sub(self.began.0) / 1_000_000).min(65_535) as u16,
            client: self.mac,
            in_use: source,
            wanted: lease.map(|l| l.address).filter(|_| wanted),
            server: server.filter(|_| named),
            client_id: self.id.get(..self.id_len).unwrap_or_default(),
        };
        let mut bytes = [0; MAX_REQUEST_LEN];
        let len = request.emit(&mut bytes);
        let to_server = self.state == State::Renew || kind == Kind::Release;
        Action::Send(Message {
            source,
            destination: server.filter(|_| to_server).unwrap_or(Ipv4Addr::BROADCAST),
            bytes,
            len,
        })
    }

    /// When a message that was sent `tries` times before is retransmitted.
    fn after_backoff(&mut self, now: Instant, tries: u8) -> Instant {
        let wait = (FIRST_WAIT_MS << tries.min(8)).min(LONGEST_WAIT_MS);
        now.after_ms(wait - SPREAD_MS + self.random.draw() % (2 * SPREAD_MS))
    }
}

#[cfg(test)]
mod tests;
