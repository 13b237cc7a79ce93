//! Who is bound to which port of one protocol, and who is connected from there to which peer.
//!
//! Owns [`Table`]. `ports` decides who may be bound and says who comes, changes and goes; the look-up
//! of a packet (`look_up`) reads it. No change goes through the other sockets of a port.

use super::bound::Bound;
use super::in_order::{InOrder, Numbered};
use super::port::Port;
use crate::demux::flow::{Flow, Keyed};
use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::net::SocketAddr;

/// A socket that is bound to a port.
#[derive(Debug, Clone, Copy)]
pub(super) struct User {
    pub(super) bound: Bound,
    /// To whom it is connected, a datagram socket.
    pub(super) peer: Option<SocketAddr>,
    /// It has come to its address after all those that have lower ones.
    number: u64,
    /// While it has a peer: it was connected after all those that have lower ones.
    connected: u64,
    /// Its place among those of its class that have no peer.
    place: usize,
}

/// A port, and the key of a socket that is bound to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Holder {
    port: u16,
    key: u32,
}

/// Sockets of one class that are connected to one peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Connected {
    flow: Flow,
    bound: Bound,
}

impl Connected {
    #[inline]
    fn new(port: u16, bound: &Bound, peer: SocketAddr) -> Self {
        Self {
            flow: Flow::new(SocketAddr::new(bound.address, port), peer),
            bound: *bound,
        }
    }
}

/// By the flow: hardly any two classes have the same.
impl Hash for Connected {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.flow.hash(state);
    }
}

/// See the head of the file.
#[derive(Debug)]
pub(super) struct Table {
    ports: HashMap<u16, Port, Keyed>,
    users: HashMap<Holder, User, Keyed>,
    connected: HashMap<Connected, InOrder, Keyed>,
    /// The last number that was given.
    last_number: u64,
}

impl Table {
    /// Nobody is bound; the hash is a secret, so that nobody chooses ports or peers that meet.
    pub(super) fn new(hash: &Keyed) -> Self {
        Self {
            ports: HashMap::with_hasher(hash.clone()),
            users: HashMap::with_hasher(hash.clone()),
            connected: HashMap::with_hasher(hash.clone()),
            last_number: 0,
        }
    }

    /// Those who have this port.
    #[inline]
    pub(super) fn port(&self, port: u16) -> Option<&Port> {
        self.ports.get(&port)
    }

    /// The socket of this key, if it is bound to this port.
    pub(super) fn user(&self, port: u16, key: u32) -> Option<&User> {
        self.users.get(&Holder { port, key })
    }

    /// All sockets that are bound, and to whom they are connected.
    pub(super) fn users(&self) -> impl Iterator<Item = (u32, Option<SocketAddr>)> {
        self.users
            .iter()
            .map(|(holder, user)| (holder.key, user.peer))
    }

    /// The last of those of a class that are connected to `peer`.
    #[inline]
    pub(super) fn last_connected(
        &self,
        port: u16,
        bound: &Bound,
        peer: SocketAddr,
    ) -> Option<Numbered> {
        self.connected
            .get(&Connected::new(port, bound, peer))?
            .last()
    }

    /// As `last_connected`, of those that have lower numbers than this.
    pub(super) fn last_connected_below(
        &self,
        port: u16,
        bound: &Bound,
        peer: SocketAddr,
        number: u64,
    ) -> Option<Numbered> {
        let of_peer = self.connected.get(&Connected::new(port, bound, peer))?;
        of_peer.last_below(number)
    }

    /// How many ports, sockets, and peers of a class there are.
    #[cfg(test)]
    pub(super) fn sizes(&self) -> [usize; 3] {
        [self.ports.len(), self.users.len(), self.connected.len()]
    }

    // ---- Who comes, changes and goes. ----

    /// A socket is bound to the port, after all others, in place of how it has been bound to it.
    pub(super) fn bind(&mut self, port: u16, key: u32, bound: Bound) {
        self.leave(port, key);
        let user = User {
            bound,
            peer: None,
            number: self.take_number(),
            connected: 0,
            place: 0,
        };
        self.enter(port, key, user);
    }

    fn take_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// Something of a socket changes; nothing does if it is not bound to this port.
    pub(super) fn change(&mut self, port: u16, key: u32, change: impl FnOnce(&mut User)) {
        if let Some(mut user) = self.leave(port, key) {
            change(&mut user);
            self.enter(port, key, user);
        }
    }

    /// A socket is at this address from now on. As Linux has it, it comes after all that are there.
    pub(super) fn move_to(&mut self, at: SocketAddr, key: u32) {
        let number = self.take_number();
        self.change(at.port(), key, |user| {
            if user.bound.address != at.ip() {
                user.number = number;
            }
            (user.bound.address, user.bound.is_moved) = (at.ip(), !at.ip().is_unspecified());
        });
    }

    /// A socket is connected to `peer`, after all others that are.
    pub(super) fn connect(&mut self, port: u16, key: u32, peer: SocketAddr) {
        let number = self.take_number();
        self.change(port, key, |user| {
            (user.connected, user.peer) = (number, Some(peer));
        });
    }

    /// What is bound to the port as `from` is `to` from now on; how it is.
    pub(super) fn hand_on(&mut self, port: u16, from: u32, to: u32) -> Option<Bound> {
        let mut user = self.leave(port, from)?;
        self.leave(port, to);
        user.bound.listening = false;
        self.enter(port, to, user);
        Some(user.bound)
    }

    /// Forgets all sockets but those that are there. What there is of others is made anew, since a
    /// change may have been left half done.
    pub(super) fn retain(&mut self, is_there: impl Fn(u32) -> bool) {
        let users = std::mem::replace(
            &mut self.users,
            HashMap::with_hasher(self.ports.hasher().clone()),
        );
        self.ports.clear();
        self.connected.clear();
        for (holder, user) in users {
            if is_there(holder.key) {
                self.enter(holder.port, holder.key, user);
            }
        }
    }

    /// The ports that somebody has.
    pub(super) fn ports(&self) -> impl Iterator<Item = u16> {
        self.ports.keys().copied()
    }

    fn enter(&mut self, port: u16, key: u32, mut user: User) {
        let hash = self.users.hasher();
        let of = self.ports.entry(port);
        let of = of.or_insert_with(|| Port::new(hash.clone()));
        let Some(class) = of.enter(&user.bound) else {
            return;
        };
        if let Some(peer) = user.peer {
            let name = Connected::new(port, &user.bound, peer);
            let of_peer = self.connected.entry(name).or_default();
            of_peer.insert(user.connected, key);
        } else {
            user.place = class.unconnected.insert(user.number, key);
        }
        self.users.insert(Holder { port, key }, user);
    }

    /// A socket has the port no more; how it had it.
    pub(super) fn leave(&mut self, port: u16, key: u32) -> Option<User> {
        let user = self.users.remove(&Holder { port, key })?;
        if let Some(peer) = user.peer {
            self.part_from(&Connected::new(port, &user.bound, peer), user.connected);
        } else {
            self.take_from_class(port, &user);
        }
        if let Some(of) = self.ports.get_mut(&port) {
            of.leave(&user.bound);
            if of.is_empty() {
                self.ports.remove(&port);
            }
        }
        Some(user)
    }

    fn part_from(&mut self, name: &Connected, number: u64) {
        if let Some(of_peer) = self.connected.get_mut(name) {
            of_peer.remove(number);
            if of_peer.is_empty() {
                self.connected.remove(name);
            }
        }
    }

    fn take_from_class(&mut self, port: u16, user: &User) {
        let of = self.ports.get_mut(&port);
        let Some(class) = of.and_then(|of| of.class_mut(&user.bound)) else {
            return;
        };
        let moved = class.unconnected.remove(user.number, user.place);
        let moved = moved.and_then(|key| self.users.get_mut(&Holder { port, key }));
        if let Some(moved) = moved {
            moved.place = user.place;
        }
    }
}
