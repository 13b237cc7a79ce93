//! Whom a packet is for: which of those who have its port.
//!
//! Owns [`Receivers`]. Each packet that belongs to no connection is looked up here, by way of the
//! [`Demux`](crate::demux::Demux)'s [`Ports`]. What that costs depends on the classes that may have the
//! packet, and not on how many sockets these are.

use super::Ports;
use super::class::Class;
use std::net::SocketAddr;

/// How far a walk along those who receive what is sent to a group has come.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Receivers {
    class: usize,
    /// The place of the next of the class that has no peer.
    place: usize,
    /// The next that is connected has a lower number than this.
    below: u64,
}

impl Receivers {
    /// None has been named.
    pub(crate) const START: Self = Self {
        class: 0,
        place: 0,
        below: u64::MAX,
    };
}

impl Ports {
    /// The next of the datagram sockets that what comes from `remote` to `local` may be for: with what
    /// is sent to a group, all of them.
    pub(crate) fn next_receiver(
        &self,
        local: SocketAddr,
        remote: SocketAddr,
        at: &mut Receivers,
    ) -> Option<u32> {
        let port = self.bound.port(local.port())?;
        loop {
            let class = port.near(local.ip()).nth(at.class)?;
            if class.bound.takes(local.ip()) {
                let next = self.next_of_class(class, local.port(), remote, at);
                if next.is_some() {
                    return next;
                }
            }
            *at = Receivers {
                class: at.class + 1,
                ..Receivers::START
            };
        }
    }

    /// The next of one class: first those that have no peer.
    fn next_of_class(
        &self,
        class: &Class,
        port: u16,
        remote: SocketAddr,
        at: &mut Receivers,
    ) -> Option<u32> {
        if let Some(key) = class.unconnected.keys().get(at.place) {
            at.place += 1;
            return Some(*key);
        }
        let of_peer = class.has_connected().then_some(&self.bound)?;
        let (number, key) = of_peer.last_connected_below(port, &class.bound, remote, at.below)?;
        at.below = number;
        Some(key)
    }

    /// The listener at `local`: the most specific address, then, among those that share it, one
    /// chosen by `spread`.
    pub(crate) fn find_listener(&self, local: SocketAddr, spread: u64) -> Option<u32> {
        let port = self.bound.port(local.port())?;
        let fit = || port.taking(local.ip()).filter(|c| c.bound.listening);
        let best = fit().map(|c| c.bound.rank(local.ip())).max()?;
        let group = fit().filter(|c| c.bound.rank(local.ip()) == best);
        one_of(group, || spread)
    }

    /// The datagram socket that has what comes from `remote` to `local`. Linux's order: one that
    /// is connected to `remote`; then, of those that are not connected, the most specific address; and
    /// of several the last, unless that has SO_REUSEPORT, when `spread` chooses in its group.
    pub(crate) fn find_datagram(
        &self,
        local: SocketAddr,
        remote: SocketAddr,
        spread: impl FnOnce() -> u64,
    ) -> Option<u32> {
        let port = self.bound.port(local.port())?;
        let ip = local.ip();
        let (mut connected, mut last) = (None, None::<Candidate<'_>>);
        for class in port.taking(ip) {
            if class.has_connected() {
                let of_class = self
                    .bound
                    .last_connected(local.port(), &class.bound, remote);
                connected = connected.max(of_class);
            }
            let Some((number, key)) = class.unconnected.last() else {
                continue;
            };
            let precedence = (class.bound.rank(ip), number);
            if last
                .as_ref()
                .is_none_or(|last| last.precedence < precedence)
            {
                last = Some(Candidate {
                    precedence,
                    key,
                    class,
                });
            }
        }
        if let Some((_, key)) = connected {
            return Some(key);
        }
        let last = last?;
        let bound = &last.class.bound;
        if !bound.reuse_port {
            return Some(last.key);
        }
        let group = port.near(ip).filter(|c| c.bound.is_grouped_with(bound));
        one_of(group, spread)
    }
}

/// An unconnected socket that may have a datagram.
struct Candidate<'a> {
    /// How well its address fits, and then when it was bound.
    precedence: (u8, u64),
    key: u32,
    class: &'a Class,
}

/// The one of the unconnected sockets of these classes that `spread` chooses.
fn one_of<'a>(
    classes: impl Iterator<Item = &'a Class> + Clone,
    spread: impl FnOnce() -> u64,
) -> Option<u32> {
    let all = classes.clone().map(|class| class.unconnected.keys().len());
    let mut chosen = match all.sum() {
        0 | 1 => 0,
        count => (spread() % count as u64) as usize,
    };
    for class in classes {
        let keys = class.unconnected.keys();
        match keys.get(chosen) {
            Some(key) => return Some(*key),
            None => chosen -= keys.len(),
        }
    }
    None
}
