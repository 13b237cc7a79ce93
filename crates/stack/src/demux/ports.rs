//! The bound ports of one protocol: which sockets may share one, which is found, which port is
//! free.
//!
//! Owns [`Ports`]. `binding` and the sockets' own parts say what is bound, moved, connected and
//! released; each packet that belongs to no connection is looked up (`look_up`). As many sockets
//! may have one port as there can be: what is compared is what they have in common (`class`), and
//! those that are connected are found by their peers (`table`).

mod bound;
mod class;
mod in_order;
mod look_up;
mod port;
mod table;

pub(crate) use bound::Reuse;
pub(crate) use look_up::Receivers;

use super::automatic::Automatic;
use super::held::HeldPorts;
use crate::demux::flow::Keyed;
use crate::port_set::PortSet;
use crate::secrets::KeyedHash;
use bound::Bound;
use longshore_hostif::Interface;
use port::Port;
use std::hash::BuildHasher;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use table::{Table, User};

/// The bound ports of one protocol.
#[derive(Debug)]
pub(crate) struct Ports {
    bound: Table,
    held: HeldPorts,
    /// The ports of these two, for those who look for one that nobody has.
    are_bound: PortSet,
    are_held: PortSet,
    /// Those that have a user who leaves nothing to others, of IPv4 and of IPv6.
    are_exclusive: [PortSet; 2],
    /// The ports for those who ask for none in particular.
    pub(super) automatic: Automatic,
    /// See [`Defaults::autobind_reuse`](crate::Defaults::autobind_reuse).
    pub(crate) autobind_reuse: bool,
    secret: KeyedHash,
}

/// In how many ways sockets may be bound to one port: by the flags of their users there are some
/// hundred, and each that comes may be compared with all.
const MOST_WAYS: usize = 1_024;

/// How many ways of being bound, and ports, are compared with one that looks for a port to share, which takes
/// a fifth of a millisecond; besides, ports of which it is known that nobody shares them are passed over.
const MOST_COMPARED: usize = 4_096;

impl Ports {
    /// A socket that was `bound` to the wildcard is bound to the address from which it connects from
    /// then on, as Linux has it.
    pub(crate) fn stay_at(&mut self, key: u32, bound: Option<SocketAddr>, local: SocketAddr) {
        if bound.is_some_and(|bound| bound.ip().is_unspecified()) {
            self.move_to(local, key);
        }
    }

    /// Nothing is bound; `secret` chooses ports that nobody has asked for.
    pub(crate) fn new(secret: KeyedHash) -> Self {
        Self {
            bound: Table::new(&Keyed::of(&secret)),
            held: HeldPorts::default(),
            are_bound: PortSet::default(),
            are_held: PortSet::default(),
            are_exclusive: Default::default(),
            automatic: Automatic::default(),
            autobind_reuse: false,
            secret,
        }
    }

    /// Binds `key`, of a program of `user`, to `address`, or says that the address is in
    /// use. Linux's rules: with SO_REUSEADDR on both and neither listening, or
    /// SO_REUSEPORT on both and both of one user, a port may be shared; with a connection
    /// that nobody has bound, whoever it was.
    pub(crate) fn bind(
        &mut self,
        address: SocketAddr,
        key: u32,
        reuse: Reuse,
        v6_only: bool,
        user: u32,
    ) -> bool {
        let (port, new) = (
            address.port(),
            Bound::new(address.ip(), reuse, v6_only, user),
        );
        if !self.may_bind(port, &new, key, reuse.over_v4) {
            return false;
        }
        self.bound.bind(port, key, new);
        self.are_bound.set(port, true);
        self.note_exclusive(port);
        true
    }

    /// The users of a port have changed, or what they leave to others.
    fn note_exclusive(&mut self, port: u16) {
        let to_any = self.bound.port(port).into_iter().flat_map(Port::to_any);
        let (mut v4, mut v6) = (false, false);
        for bound in to_any.filter(|b| b.is_exclusive()) {
            v4 |= bound.address.is_ipv4() || !bound.v6_only;
            v6 |= bound.address.is_ipv6();
        }
        let [of_v4, of_v6] = &mut self.are_exclusive;
        of_v4.set(port, v4);
        of_v6.set(port, v6);
    }

    /// Whether it is known without comparing that nobody leaves a port to `new`.
    fn is_exclusive(&self, port: u16, new: &Bound) -> bool {
        let [of_v4, of_v6] = &self.are_exclusive;
        let wants_v4 = new.address.is_ipv4() || new.address.is_unspecified() && !new.v6_only;
        wants_v4 && of_v4.contains(port) || new.address.is_ipv6() && of_v6.contains(port)
    }

    /// Whether those who have this port leave `new`, which is to be that of `key`, the address that it
    /// wants.
    fn may_bind(&self, port: u16, new: &Bound, key: u32, over_v4: bool) -> bool {
        let is_any_v4 = over_v4 && new.address == Ipv4Addr::UNSPECIFIED;
        let mut held = self.held.near(port, new.address);
        if held.any(|(address, of)| new.is_refused_by_held(address, of, is_any_v4)) {
            return false;
        }
        let Some(users) = self.bound.port(port) else {
            return true;
        };
        (users.ways() < MOST_WAYS || users.has_way(new))
            && !self.has_other(port, new, key, |b| b.refuses(new, is_any_v4))
    }

    /// Whether this is so of one, other than `key`, that has the port and may get the same packets as
    /// `new`.
    fn has_other(&self, port: u16, new: &Bound, key: u32, is_so: impl Fn(&Bound) -> bool) -> bool {
        let me = self.bound.user(port, key).map(|user| &user.bound);
        let users = self.bound.port(port);
        users.is_some_and(|users| users.has_other(new, me, is_so))
    }

    /// Marks `key` as listening; `false` if another listens there already and
    /// they may not share the port.
    pub(crate) fn listen(&mut self, address: SocketAddr, key: u32) -> bool {
        let port = address.port();
        let Some(User { bound: me, .. }) = self.bound.user(port, key).copied() else {
            return false;
        };
        if self.has_other(port, &me, key, |b| b.listens_alone(&me)) {
            return false;
        }
        self.change(port, key, |user| user.bound.listening = true);
        true
    }

    /// `key` listens no more, and stays bound.
    pub(crate) fn stop_listening(&mut self, port: u16, key: u32) {
        self.change(port, key, |user| user.bound.listening = false);
    }

    /// Something of what is bound to the port as `key` changes.
    fn change(&mut self, port: u16, key: u32, change: impl FnOnce(&mut User)) {
        self.bound.change(port, key, change);
        self.note_exclusive(port);
    }

    /// What is bound to the port as `from` is `to` from now on, and does not listen; to which
    /// address. `None` if `from` is not bound to it.
    pub(crate) fn hand_on(&mut self, port: u16, from: u32, to: u32) -> Option<SocketAddr> {
        let bound = self.bound.hand_on(port, from, to)?;
        Some(SocketAddr::new(bound.address, port))
    }

    /// What is bound to the port as `key` is bound at this address from now on, as the last if it was
    /// at another.
    pub(crate) fn move_to(&mut self, at: SocketAddr, key: u32) {
        self.bound.move_to(at, key);
        self.note_exclusive(at.port());
    }

    /// What is bound to the port as `key` receives by this interface from now on.
    pub(crate) fn set_interface(&mut self, port: u16, key: u32, interface: Interface) {
        self.change(port, key, |user| user.bound.interface = interface);
    }

    /// What is bound to the port as `key`, a datagram socket, is connected to `peer` from now on, as the
    /// last of those that are.
    pub(crate) fn connect(&mut self, port: u16, key: u32, peer: SocketAddr) {
        self.bound.connect(port, key, peer);
    }

    /// It is connected no more, and among the others at its address where it was.
    pub(crate) fn disconnect(&mut self, port: u16, key: u32) {
        self.bound.change(port, key, |user| user.peer = None);
    }

    /// Gives the port back.
    pub(crate) fn release(&mut self, port: u16, key: u32) {
        self.bound.leave(port, key);
        self.are_bound.set(port, self.bound.port(port).is_some());
        self.note_exclusive(port);
    }

    /// The sockets that have bound a port, and to whom they are connected.
    pub(crate) fn users(&self) -> impl Iterator<Item = (u32, Option<SocketAddr>)> + '_ {
        self.bound.users()
    }

    /// Keeps what is bound of sockets that are there; no connection holds a port.
    pub(super) fn retain(&mut self, is_there: impl Fn(u32) -> bool) {
        self.held = HeldPorts::default();
        (self.are_held, self.are_bound) = (PortSet::default(), PortSet::default());
        self.are_exclusive = Default::default();
        self.bound.retain(is_there);
        let ports: Vec<_> = self.bound.ports().collect();
        for port in ports {
            self.are_bound.set(port, true);
            self.note_exclusive(port);
        }
    }

    /// A connection from `local`, which nobody has bound, holds its port.
    pub(crate) fn hold(&mut self, local: SocketAddr, reuse: Reuse) {
        self.held.hold(local, reuse);
        self.are_held.set(local.port(), true);
    }

    /// It does no more.
    pub(crate) fn let_go(&mut self, local: SocketAddr, reuse: Reuse) {
        self.held.let_go(local, reuse);
        if !self.held.has(local.port()) {
            self.are_held.set(local.port(), false);
        }
    }

    /// Whether nobody has bound this port.
    pub(crate) fn is_free(&self, port: u16) -> bool {
        !self.are_bound.contains(port)
    }

    /// A port that nobody has, no connection either: the first from a random one onwards
    /// (RFC 6056 section 3.3.1; what is random is a keyed hash of `seed`).
    pub(crate) fn pick(&self, seed: impl std::hash::Hash) -> Option<u16> {
        self.first_free(self.secret.hash_one(seed), &self.are_held)
    }

    /// Where there is none that nobody has: a port at which those who have it leave `ip` to `key`, to
    /// be bound there. Looked for at as many as [`MOST_COMPARED`] allows.
    pub(crate) fn pick_shared(
        &self,
        seed: impl std::hash::Hash,
        ip: IpAddr,
        key: u32,
        reuse: Reuse,
        v6_only: bool,
        user: u32,
    ) -> Option<u16> {
        let new = Bound::new(ip, reuse, v6_only, user);
        self.find_shared(seed, &new, |port| {
            self.may_bind(port, &new, key, reuse.over_v4)
        })
    }

    /// As `pick_shared`, of a stream, for which what lets streams share a port counts where a program
    /// names the port. Unless [`autobind_reuse`](Self::autobind_reuse) is on: then SO_REUSEADDR counts
    /// here, too, but, as Linux has it, not between sockets of one user that have SO_REUSEPORT besides.
    pub(crate) fn pick_shared_by_streams(
        &self,
        seed: impl std::hash::Hash,
        ip: IpAddr,
        key: u32,
        reuse: Reuse,
        v6_only: bool,
        user: u32,
    ) -> Option<u16> {
        let sharing = Reuse {
            address: reuse.address && self.autobind_reuse,
            ..reuse.of_none()
        };
        let new = Bound::new(ip, sharing, v6_only, user);
        let is_alike = |b: &Bound| reuse.port && b.reuse_port && b.user == user && b.overlaps(&new);
        self.find_shared(seed, &new, |port| {
            self.may_bind(port, &new, key, reuse.over_v4)
                && !self.has_other(port, &new, key, is_alike)
        })
    }

    /// The first of the ports from that of `seed` onwards that fits `new`.
    fn find_shared(
        &self,
        seed: impl std::hash::Hash,
        new: &Bound,
        fits: impl Fn(u16) -> bool,
    ) -> Option<u16> {
        let mut compared = 0;
        let candidates = self.automatic.all_from(self.secret.hash_one(seed));
        let mut shared = candidates.filter(|port| !self.is_exclusive(*port, new));
        shared.find_map(|port| {
            let users = self.bound.port(port);
            compared += 1 + users.map_or(0, |users| users.compared_with(new));
            if compared > MOST_COMPARED {
                return Some(None);
            }
            fits(port).then_some(Some(port))
        })?
    }

    /// A port that nobody has bound and that is not in `taken`, from that of `seed` onwards.
    pub(super) fn first_free(&self, seed: u64, taken: &PortSet) -> Option<u16> {
        self.automatic.first_free(seed, [&self.are_bound, taken])
    }
}

#[cfg(test)]
mod tests;
