//! The bound ports of one protocol as a list for each, of which every question goes through all:
//! what [`Ports`](super::super::Ports) is compared with.

use super::super::bound::{Bound, Reuse};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// A socket that is bound, and connected or not.
#[derive(Debug, Clone, Copy)]
pub(super) struct Socket {
    pub(super) key: u32,
    pub(super) bound: Bound,
    pub(super) peer: Option<SocketAddr>,
    /// How many were connected before it was.
    connected: u64,
}

/// Those of each port, in the order in which they were bound.
#[derive(Debug, Default)]
pub(super) struct Linear {
    bound: BTreeMap<u16, Vec<Socket>>,
    /// The addresses on which connections hold their ports.
    held: Vec<(u16, IpAddr, Reuse)>,
    connects: u64,
}

impl Linear {
    pub(super) fn of(&self, port: u16) -> &[Socket] {
        self.bound.get(&port).map_or(&[], Vec::as_slice)
    }

    /// Whether what is bound to the port as `key` is as only datagram sockets are, and as only streams.
    pub(super) fn kinds(&self, port: u16, key: u32) -> (bool, bool) {
        let is = |is_so: fn(&Socket) -> bool| {
            let mut own = self.of(port).iter();
            own.any(|s| s.key == key && is_so(s))
        };
        (is(|s| s.peer.is_some()), is(|s| s.bound.listening))
    }

    fn others(&self, port: u16, key: u32) -> impl Iterator<Item = &Bound> {
        let others = self.of(port).iter().filter(move |s| s.key != key);
        others.map(|s| &s.bound)
    }

    pub(super) fn may_bind(&self, port: u16, new: &Bound, key: u32, over_v4: bool) -> bool {
        let is_any_v4 = over_v4 && new.address == Ipv4Addr::UNSPECIFIED;
        let is_over = |b: &Bound| is_any_v4 && b.is_moved && b.address.is_ipv6() && !b.v6_only;
        let allowed = |b: &Bound| {
            (b.reuse_port && new.reuse_port && b.user == new.user)
                || (b.reuse_address && new.reuse_address && !b.listening)
        };
        let holds = |address: IpAddr, of: Reuse| {
            let may_share = (of.address && new.reuse_address) || (of.port && new.reuse_port);
            let at = Bound::new(address, of, true, 0);
            let overlaps = new.overlaps(&Bound {
                interface: new.interface,
                ..at
            });
            !may_share && (overlaps || (of.over_v4 && is_any_v4))
        };
        self.others(port, key)
            .all(|b| !(b.overlaps(new) || is_over(b)) || allowed(b))
            && !self
                .held
                .iter()
                .any(|(of, ip, reuse)| *of == port && holds(*ip, *reuse))
    }

    pub(super) fn bind(&mut self, port: u16, key: u32, bound: Bound, reuse: Reuse) -> bool {
        let may_bind = self.may_bind(port, &bound, key, reuse.over_v4);
        if may_bind {
            self.release(port, key);
            let new = Socket {
                key,
                bound,
                peer: None,
                connected: 0,
            };
            self.bound.entry(port).or_default().push(new);
        }
        may_bind
    }

    pub(super) fn listen(&mut self, port: u16, key: u32) -> bool {
        let mut own = self.of(port).iter().filter(|s| s.key == key);
        let Some(me) = own.next().map(|s| s.bound) else {
            return false;
        };
        let clashes = |b: &Bound| {
            let shared = b.reuse_port && me.reuse_port && b.user == me.user;
            b.listening && !shared && b.overlaps(&me)
        };
        let clash = self.others(port, key).any(clashes);
        if !clash {
            self.change(port, key, |s| s.bound.listening = true);
        }
        !clash
    }

    pub(super) fn change(&mut self, port: u16, key: u32, change: impl Fn(&mut Socket)) {
        let all = self.bound.get_mut(&port).into_iter().flatten();
        all.filter(|s| s.key == key).for_each(change);
    }

    pub(super) fn connect(&mut self, port: u16, key: u32, peer: SocketAddr) {
        self.connects += 1;
        let connected = self.connects;
        self.change(port, key, |s| {
            (s.peer, s.connected) = (Some(peer), connected);
        });
    }

    pub(super) fn move_to(&mut self, port: u16, key: u32, ip: IpAddr) {
        let all = self.bound.entry(port).or_default();
        // The sort is stable.
        all.sort_by_key(|s| s.key == key && s.bound.address != ip);
        self.change(port, key, |s| {
            (s.bound.address, s.bound.is_moved) = (ip, !ip.is_unspecified());
        });
    }

    pub(super) fn hand_on(&mut self, port: u16, from: u32, to: u32) {
        if from != to && self.of(port).iter().any(|s| s.key == from) {
            self.release(port, to);
        }
        self.change(port, from, |s| {
            (s.key, s.bound.listening) = (to, false);
        });
    }

    pub(super) fn release(&mut self, port: u16, key: u32) {
        let all = self.bound.entry(port).or_default();
        all.retain(|s| s.key != key);
    }

    pub(super) fn retain_all_but(&mut self, key: u32) {
        let all = self.bound.values_mut();
        all.for_each(|all| all.retain(|s| s.key != key));
        self.held.clear();
    }

    pub(super) fn hold(&mut self, port: u16, ip: IpAddr, reuse: Reuse) {
        self.held.push((port, ip, reuse));
    }

    /// The `nth` of those that hold the port does so no more.
    pub(super) fn let_go(&mut self, port: u16, nth: usize) -> Option<(IpAddr, Reuse)> {
        let of = |(_, (of, ..)): &(usize, &(u16, IpAddr, Reuse))| *of == port;
        let at = self.held.iter().enumerate().filter(of).nth(nth)?.0;
        let (_, ip, reuse) = self.held.remove(at);
        Some((ip, reuse))
    }

    pub(super) fn is_held(&self, port: u16) -> bool {
        self.held.iter().any(|(of, ..)| *of == port)
    }

    /// All that may be chosen to have what comes to a listener at `local`.
    pub(super) fn listeners(&self, local: SocketAddr) -> Vec<u32> {
        let fit = |s: &&Socket| s.bound.listening && s.bound.takes(local.ip());
        let fit: Vec<_> = self.of(local.port()).iter().filter(fit).collect();
        let best = fit.iter().map(|s| s.bound.rank(local.ip())).max();
        let group = fit
            .iter()
            .filter(|s| Some(s.bound.rank(local.ip())) == best);
        group.map(|s| s.key).collect()
    }

    /// All that may be chosen to have a datagram from `remote` to `local`.
    pub(super) fn datagram(&self, local: SocketAddr, remote: SocketAddr) -> Vec<u32> {
        let users = self.of(local.port());
        let (mut connected, mut last) = (None::<&Socket>, None::<&Socket>);
        let rank = |s: &Socket| s.bound.rank(local.ip());
        for user in users.iter().filter(|s| s.bound.takes(local.ip())) {
            match user.peer {
                Some(peer) if peer != remote => {}
                Some(_) if connected.is_some_and(|last| last.connected > user.connected) => {}
                Some(_) => connected = Some(user),
                None if last.is_some_and(|last| rank(last) > rank(user)) => {}
                None => last = Some(user),
            }
        }
        let last = match (connected, last) {
            (None, Some(last)) if last.bound.reuse_port => last,
            (connected, last) => return connected.or(last).map(|s| s.key).into_iter().collect(),
        };
        let like = |s: &&Socket| s.bound.is_grouped_with(&last.bound) && s.peer.is_none();
        users.iter().filter(like).map(|s| s.key).collect()
    }

    /// All that have what is sent from `remote` to a group.
    pub(super) fn receivers(&self, local: SocketAddr, remote: SocketAddr) -> Vec<u32> {
        let users = self.of(local.port()).iter();
        let fit = users.filter(|s| s.bound.takes(local.ip()));
        let fit = fit.filter(|s| s.peer.is_none_or(|peer| peer == remote));
        fit.map(|s| s.key).collect()
    }

    /// Whether one who has the port, other than `key`, has SO_REUSEPORT with `new` and overlaps it.
    pub(super) fn has_alike(&self, port: u16, new: &Bound, key: u32) -> bool {
        let mut others = self.others(port, key);
        others.any(|b| b.reuse_port && b.user == new.user && b.overlaps(new))
    }

    /// Of the versions of IP that `new` is for, whether one leaves nothing of the port to others.
    pub(super) fn has_exclusive(&self, port: u16, ip: IpAddr) -> bool {
        let mut users = self.of(port).iter().map(|s| &s.bound);
        users.any(|b| b.is_exclusive() && b.address.is_ipv4() == ip.is_ipv4())
    }
}
