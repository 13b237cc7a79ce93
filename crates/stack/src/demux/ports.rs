//! The bound ports of one protocol: which sockets may share one, which is found, which port is
//! free.

use super::automatic::Automatic;
use super::held::HeldPorts;
use crate::port_set::PortSet;
use crate::secrets::KeyedHash;
use longshore_hostif::Interface;
use std::collections::HashMap;
use std::hash::BuildHasher;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// A bound port: its users, each with the address it is bound to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Bound {
    address: IpAddr,
    key: u32,
    /// SO_REUSEADDR and SO_REUSEPORT as they were when it was bound.
    reuse_address: bool,
    reuse_port: bool,
    /// IPV6_V6ONLY: the IPv6 wildcard is not IPv4's too.
    v6_only: bool,
    listening: bool,
    /// By which interface what it receives has to come.
    interface: Interface,
    /// It was bound to the wildcard, and connects from this address.
    is_moved: bool,
    /// The user whose program has bound it.
    user: u32,
}

impl Bound {
    /// `key`, of a program of `user`, at an address.
    fn new(address: IpAddr, key: u32, reuse: Reuse, v6_only: bool, user: u32) -> Self {
        Self {
            address,
            key,
            reuse_address: reuse.address,
            reuse_port: reuse.port,
            v6_only,
            listening: false,
            interface: reuse.interface,
            is_moved: false,
            user,
        }
    }

    /// Whether packets to `ip` may be its: of the wildcards, IPv4's is for IPv4, and
    /// IPv6's for both unless it is for IPv6 only.
    fn covers(&self, ip: IpAddr) -> bool {
        self.address == ip
            || (self.address.is_unspecified()
                && if self.address.is_ipv4() {
                    ip.is_ipv4()
                } else {
                    ip.is_ipv6() || !self.v6_only
                })
    }

    /// Whether packets to `ip` are its, by the interface that it is bound to: as Linux has it, what
    /// goes to an address of the host's own comes by the interface that has that address.
    fn takes(&self, ip: IpAddr) -> bool {
        let comes_by_it = match self.interface {
            Interface::Any => true,
            Interface::Loopback => ip.is_loopback(),
            Interface::Link => !ip.is_loopback(),
        };
        comes_by_it && self.covers(ip)
    }

    /// How well a socket that covers `ip` fits it: its own address best, then the wildcard of
    /// its version.
    fn rank(&self, ip: IpAddr) -> u8 {
        match self.address {
            own if own == ip => 2,
            any if any.is_ipv4() == ip.is_ipv4() => 1,
            _ => 0,
        }
    }

    /// Whether both share what comes by SO_REUSEPORT.
    fn is_grouped_with(&self, other: &Self) -> bool {
        let group = |b: &Self| (b.address, b.reuse_port, b.user, b.v6_only, b.interface);
        group(self) == group(other)
    }

    /// Whether it leaves none of its port to others, whoever they are, of the versions of IP that it is
    /// for.
    fn is_exclusive(&self) -> bool {
        let shares = self.reuse_address || self.reuse_port || self.interface != Interface::Any;
        self.address.is_unspecified() && !shares
    }

    /// Whether some packet may be of both.
    fn overlaps(&self, other: &Self) -> bool {
        let is_by_any = self.interface == Interface::Any || other.interface == Interface::Any;
        (is_by_any || self.interface == other.interface)
            && (self.covers(other.address) || other.covers(self.address))
    }
}

/// Which options allow two sockets on one port.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Reuse {
    pub(crate) address: bool,
    pub(crate) port: bool,
    /// Of a connection of IPv6 that holds its port: no socket of IPv4 may be bound to it at the
    /// wildcard either. So Linux has it of one that nobody has bound, unless it is for IPv6 alone.
    /// Of one that is to be bound: it is of IPv4.
    pub(crate) over_v4: bool,
    /// Of one that is to be bound: by which interface what it receives has to come.
    pub(crate) interface: Interface,
}

impl Reuse {
    /// Without those by which a port is shared.
    pub(crate) fn of_none(self) -> Self {
        Self {
            over_v4: self.over_v4,
            ..Self::default()
        }
    }
}

/// The bound ports of one protocol.
#[derive(Debug)]
pub(crate) struct Ports {
    bound: HashMap<u16, Vec<Bound>, KeyedHash>,
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

/// Sockets that may share one port: each that comes is compared with all, and each packet
/// for the port, too.
const MOST_SHARERS: usize = 1024;

/// How many users of ports, and ports, are compared with one that looks for a port to share, which takes
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
            bound: HashMap::with_hasher(secret.clone()),
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
        let new = Bound::new(address.ip(), key, reuse, v6_only, user);
        if !self.may_bind(address.port(), &new, reuse.over_v4) {
            return false;
        }
        let users = self.bound.entry(address.port()).or_default();
        users.retain(|b| b.key != key);
        users.push(new);
        self.are_bound.set(address.port(), true);
        self.note_exclusive(address.port());
        true
    }

    /// The users of a port have changed, or what they leave to others.
    fn note_exclusive(&mut self, port: u16) {
        let users = self.bound.get(&port).into_iter().flatten();
        let (mut v4, mut v6) = (false, false);
        for user in users.filter(|b| b.is_exclusive()) {
            v4 |= user.address.is_ipv4() || !user.v6_only;
            v6 |= user.address.is_ipv6();
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

    /// Whether those who have this port leave `new` the address that it wants.
    fn may_bind(&self, port: u16, new: &Bound, over_v4: bool) -> bool {
        let is_any_v4 = over_v4 && new.address == Ipv4Addr::UNSPECIFIED;
        let holds = |(address, of): (IpAddr, Reuse)| {
            let may_share = (of.address && new.reuse_address) || (of.port && new.reuse_port);
            !may_share && (new.covers(address) || (of.over_v4 && is_any_v4))
        };
        if self.held.of(port).any(holds) {
            return false;
        }
        // As Linux has it, one of IPv6 that was bound to the wildcard keeps that of IPv4 from others
        // while it is connected, unless it is for IPv6 alone.
        let is_over = |b: &Bound| is_any_v4 && b.is_moved && b.address.is_ipv6() && !b.v6_only;
        let allowed = |b: &Bound| {
            (b.reuse_port && new.reuse_port && b.user == new.user)
                || (b.reuse_address && new.reuse_address && !b.listening)
        };
        let users = self.bound.get(&port).map_or(&[][..], Vec::as_slice);
        let mut others = users.iter().filter(|b| b.key != new.key);
        others.clone().count() < MOST_SHARERS
            && others.all(|b| !(b.overlaps(new) || is_over(b)) || allowed(b))
    }

    /// Marks `key` as listening; `false` if another listens there already and
    /// they may not share the port.
    pub(crate) fn listen(&mut self, address: SocketAddr, key: u32) -> bool {
        let Some(users) = self.bound.get_mut(&address.port()) else {
            return false;
        };
        let Some(me) = users.iter().find(|b| b.key == key).copied() else {
            return false;
        };
        let clashes = |b: &Bound| {
            let shared = b.reuse_port && me.reuse_port && b.user == me.user;
            b.key != key && b.listening && !shared && b.overlaps(&me)
        };
        if users.iter().any(clashes) {
            return false;
        }
        users
            .iter_mut()
            .filter(|b| b.key == key)
            .for_each(|b| b.listening = true);
        true
    }

    /// `key` listens no more, and stays bound.
    pub(crate) fn stop_listening(&mut self, port: u16, key: u32) {
        let users = self.bound.get_mut(&port).into_iter().flatten();
        users
            .filter(|b| b.key == key)
            .for_each(|b| b.listening = false);
    }

    /// What is bound to the port as `from` is `to` from now on, and does not listen; to which
    /// address. `None` if `from` is not bound to it.
    pub(crate) fn hand_on(&mut self, port: u16, from: u32, to: u32) -> Option<SocketAddr> {
        let mut users = self.bound.get_mut(&port)?.iter_mut();
        let bound = users.find(|b| b.key == from)?;
        (bound.key, bound.listening) = (to, false);
        Some(SocketAddr::new(bound.address, port))
    }

    /// What is bound to the port as `key` is bound at this address from now on.
    pub(crate) fn move_to(&mut self, at: SocketAddr, key: u32) {
        let users = self.bound.get_mut(&at.port()).into_iter().flatten();
        users.filter(|b| b.key == key).for_each(|b| {
            (b.address, b.is_moved) = (at.ip(), !at.ip().is_unspecified());
        });
        self.note_exclusive(at.port());
    }

    /// What is bound to the port as `key` receives by this interface from now on.
    pub(crate) fn set_interface(&mut self, port: u16, key: u32, interface: Interface) {
        let users = self.bound.get_mut(&port).into_iter().flatten();
        users
            .filter(|b| b.key == key)
            .for_each(|b| b.interface = interface);
        self.note_exclusive(port);
    }

    /// Gives the port back.
    pub(crate) fn release(&mut self, port: u16, key: u32) {
        if let Some(users) = self.bound.get_mut(&port) {
            users.retain(|b| b.key != key);
            if users.is_empty() {
                self.bound.remove(&port);
                self.are_bound.set(port, false);
            }
            self.note_exclusive(port);
        }
    }

    /// The sockets that have bound a port.
    pub(crate) fn users(&self) -> impl Iterator<Item = u32> + '_ {
        self.bound.values().flatten().map(|b| b.key)
    }

    /// Keeps what is bound of sockets that are there; no connection holds a port.
    pub(super) fn retain(&mut self, is_there: impl Fn(u32) -> bool) {
        self.held = HeldPorts::default();
        (self.are_held, self.are_bound) = (PortSet::default(), PortSet::default());
        self.bound.retain(|port, users| {
            users.retain(|b| is_there(b.key));
            if !users.is_empty() {
                self.are_bound.set(*port, true);
            }
            !users.is_empty()
        });
        self.are_exclusive = Default::default();
        let ports: Vec<_> = self.bound.keys().copied().collect();
        ports.into_iter().for_each(|port| self.note_exclusive(port));
    }

    /// A connection from `local`, which nobody has bound, holds its port.
    pub(crate) fn hold(&mut self, local: SocketAddr, reuse: Reuse) {
        self.held.hold(local, reuse);
        self.are_held.set(local.port(), true);
    }

    /// It does no more.
    pub(crate) fn let_go(&mut self, local: SocketAddr, reuse: Reuse) {
        self.held.let_go(local, reuse);
        if self.held.of(local.port()).next().is_none() {
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
        let new = Bound::new(ip, key, reuse, v6_only, user);
        self.find_shared(seed, &new, |port| self.may_bind(port, &new, reuse.over_v4))
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
        let new = Bound::new(ip, key, sharing, v6_only, user);
        let is_alike = |b: &Bound| {
            reuse.port && b.reuse_port && b.user == user && b.key != key && b.overlaps(&new)
        };
        self.find_shared(seed, &new, |port| {
            let mut users = self.bound.get(&port).into_iter().flatten();
            self.may_bind(port, &new, reuse.over_v4) && !users.any(is_alike)
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
            compared += 1 + self.bound.get(&port).map_or(0, Vec::len);
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

    /// The `nth` of the sockets that packets to `local` may be for: with what is sent to
    /// a group, all of them.
    pub(crate) fn nth_at(&self, local: SocketAddr, nth: usize) -> Option<u32> {
        let users = self.bound.get(&local.port())?;
        let fit = users.iter().filter(|b| b.takes(local.ip()));
        fit.map(|b| b.key).nth(nth)
    }

    /// The listener at `local`: the most specific address, then, among those that share it, one
    /// chosen by `spread`.
    pub(crate) fn find_listener(&self, local: SocketAddr, spread: u64) -> Option<u32> {
        let users = self.bound.get(&local.port())?;
        let fit = || users.iter().filter(|b| b.listening && b.takes(local.ip()));
        let best = fit().map(|b| b.rank(local.ip())).max()?;
        let group = || fit().filter(|b| b.rank(local.ip()) == best);
        let chosen = chosen(group().count(), || spread);
        group().nth(chosen).map(|b| b.key)
    }

    /// The datagram socket that has what comes from `remote` to `local`; `peer` tells to whom a
    /// socket is connected. Linux's order: one that is connected to `remote`; then, of those
    /// that are not connected, the most specific address; and of several the last, unless that
    /// has SO_REUSEPORT, when `spread` chooses in its group.
    pub(crate) fn find_datagram(
        &self,
        local: SocketAddr,
        remote: SocketAddr,
        peer: impl Fn(u32) -> Option<SocketAddr>,
        spread: impl FnOnce() -> u64,
    ) -> Option<u32> {
        let users = self.bound.get(&local.port())?;
        let (mut connected, mut last) = (None, None::<&Bound>);
        for user in users.iter().filter(|b| b.takes(local.ip())) {
            match peer(user.key) {
                Some(peer) if peer == remote => connected = Some(user.key),
                Some(_) => {}
                None if last.is_some_and(|l| l.rank(local.ip()) > user.rank(local.ip())) => {}
                None => last = Some(user),
            }
        }
        let last = match (connected, last) {
            (None, Some(last)) if last.reuse_port && users.len() > 1 => last,
            (connected, last) => return connected.or(last.map(|l| l.key)),
        };
        let group = || {
            let like = users.iter().filter(|b| b.is_grouped_with(last));
            like.filter(|b| peer(b.key).is_none())
        };
        let chosen = chosen(group().count(), spread);
        group().nth(chosen).map(|b| b.key)
    }

    /// `key` comes after all others that have its port, as if it had been bound last.
    pub(crate) fn put_last(&mut self, port: u16, key: u32) {
        let Some(users) = self.bound.get_mut(&port) else {
            return;
        };
        if let Some(at) = users.iter().position(|b| b.key == key)
            && let Some(last) = users.get_mut(at..)
        {
            last.rotate_left(1);
        }
    }
}

/// Which of `count` it is.
fn chosen(count: usize, spread: impl FnOnce() -> u64) -> usize {
    if count > 1 {
        (spread() % count as u64) as usize
    } else {
        0
    }
}

#[cfg(test)]
mod tests;
