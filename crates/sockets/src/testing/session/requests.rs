//! What programs ask of the tests' engine, and how it answers.

use super::super::{ADDRESS, SILENT_PORT};
use super::peers::{Kind, Peer};
use super::{FIRST_PORT, Session};
use longshore_hostif::{Address, EdgeFlags, Numbered, Request, SocketKind, SourceRequest};
use std::net::SocketAddr;
use std::sync::atomic::Ordering;

const ENOENT: u16 = 2;
const EISCONN: u16 = 106;
const ECANCELED: u16 = 125;

impl Session {
    pub(super) fn serve(&mut self, channel: u16, request: &Request) {
        let socket = request.socket();
        if let Request::Open { kind, flags, .. } = *request {
            let mut seen = self.seen.lock().expect("not poisoned");
            seen.reported_flags.remove(&socket.index);
            seen.opened.insert(socket.index, flags);
            drop(seen);
            self.peers
                .insert(socket.index, Peer::new(socket, kind, channel));
            return;
        }
        let missing = self.peers.get(&socket.index).is_none_or(|p| p.id != socket);
        if missing {
            return;
        }
        if let Some((tag, waiter)) = request.asked() {
            let answer = self.answer(channel, request);
            self.done(channel, socket, tag, waiter, answer);
            return;
        }
        match *request {
            Request::Edges {
                snd_edge,
                rcv_consumed,
                flags,
                ..
            }
            | Request::SendFile {
                snd_edge,
                rcv_consumed,
                flags,
                ..
            } => {
                if let Request::SendFile { extent, .. } = *request {
                    self.seen.lock().expect("not poisoned").ranges += u64::from(extent.len);
                }
                self.note_flags(socket.index, flags);
                if flags.contains(EdgeFlags::ACCEPTED) {
                    self.accepted(socket.index);
                }
                self.edges(socket.index, snd_edge, rcv_consumed, flags);
            }
            Request::Urgent {
                snd_edge,
                rcv_consumed,
                ..
            } => {
                self.edges(socket.index, snd_edge, rcv_consumed, EdgeFlags::PUSH);
                self.urgent(socket.index, snd_edge);
            }
            Request::Forward {
                snd_edge,
                rcv_consumed,
                flags,
                source,
                from,
                to,
                ..
            } => {
                self.note_flags(socket.index, flags);
                self.forward((socket.index, snd_edge), source.index, from..to);
                self.edges(socket.index, snd_edge, rcv_consumed, flags);
            }
            Request::Close {
                snd_edge,
                rcv_consumed,
                linger,
                ..
            } => {
                let end = match linger {
                    Some(0) => EdgeFlags::empty(),
                    _ => EdgeFlags::SHUT_WR,
                };
                self.edges(socket.index, snd_edge, rcv_consumed, end);
                let peer = self.peer(socket.index);
                peer.orphan = true;
                peer.resets = linger == Some(0);
                self.refuse_waiting(socket.index);
            }
            Request::SetOption { name, value, .. } => {
                let mut seen = self.seen.lock().expect("not poisoned");
                seen.options.push((socket.index, name, value));
            }
            Request::Subscribe { .. } => self.peer(socket.index).subscribe(channel),
            Request::Unsubscribe { .. } => {
                let peer = self.peer(socket.index);
                peer.subscribers.retain(|c| *c != channel);
            }
            // What opens a socket and what is answered was seen to above.
            _ => {}
        }
    }

    /// What was said of a socket is kept for the test.
    fn note_flags(&self, index: u32, flags: EdgeFlags) {
        let mut seen = self.seen.lock().expect("not poisoned");
        *seen
            .reported_flags
            .entry(index)
            .or_insert(EdgeFlags::empty()) |= flags;
    }

    /// What a request is answered by.
    fn answer(&mut self, channel: u16, request: &Request) -> Result<(u64, Address), u16> {
        let index = request.socket().index;
        let nothing = Ok((0, Address::NONE));
        match *request {
            Request::Bind { local, .. } => self.bind(index, local),
            Request::Listen { .. } => {
                let given = self.bind_if_unbound(index)?;
                self.peer(index).kind = Kind::Listener;
                Ok((0, given.map_or(Address::NONE, Address::from)))
            }
            Request::Connect { peer, .. } => self.connect(index, peer),
            Request::Query { .. } => {
                let answer = self.behavior.answer.lock().expect("not poisoned").clone();
                let info = answer.unwrap_or_else(|| (0..104).collect());
                let worker = self.worker_of(request.socket()) as u32;
                let ring = self.arena.geometry().ring(channel.into(), worker);
                let control = self.arena.control(ring);
                Ok((control.write_mailbox(&info) as u64, Address::NONE))
            }
            Request::Cancel { .. } => self.cancel(index),
            Request::Sources {
                group,
                source,
                change,
                ..
            } => Ok(self.sources(group, source, change)),
            // Its wire has no groups, and it sends no signals.
            _ => nothing,
        }
    }

    /// Notes what is asked of the sources of a group, and says of them what the test wants it to.
    fn sources(&self, group: Numbered, source: Numbered, how: SourceRequest) -> (u64, Address) {
        let mut seen = self.seen.lock().expect("not poisoned");
        seen.sources.push((group, source, how));
        let (_, place) = source.get();
        let said = self.behavior.sources.lock().expect("not poisoned");
        let (included, list) = &*said;
        let found = list.get(usize::from(place));
        let address = found.map_or(Address::NONE, |ip| SocketAddr::new(*ip, 0).into());
        (u64::from(*included) | (list.len() as u64) << 8, address)
    }

    pub(super) fn peer(&mut self, index: u32) -> &mut Peer {
        self.peers.get_mut(&index).expect("looked up before")
    }

    fn bind(&mut self, index: u32, local: Address) -> Result<(u64, Address), u16> {
        let mut local = local.get().ok_or(22u16)?;
        let kind = self.peer(index).protocol;
        if local.port() == 0 {
            if !self.behavior.gives_no_port.load(Ordering::Relaxed) {
                local.set_port(self.pick_port(kind));
            }
        } else if self.by_port(kind, local.port()).is_some() {
            return Err(98);
        }
        self.peer(index).local = Some(local);
        Ok((0, local.into()))
    }

    /// Binds a socket that is not bound; the address that it has then, if it was not.
    fn bind_if_unbound(&mut self, index: u32) -> Result<Option<SocketAddr>, u16> {
        if self.peer(index).local.is_some() {
            return Ok(None);
        }
        let any = SocketAddr::new(ADDRESS.parse().expect("an address"), 0);
        self.bind(index, any.into())?;
        Ok(self.peer(index).local)
    }

    /// The next port that nobody has, of those that are given out.
    fn pick_port(&mut self, kind: SocketKind) -> u16 {
        loop {
            self.next_port = self.next_port.checked_add(1).unwrap_or(FIRST_PORT);
            if self.by_port(kind, self.next_port).is_none() {
                return self.next_port;
            }
        }
    }

    pub(super) fn by_port(&self, kind: SocketKind, port: u16) -> Option<u32> {
        let found = self.peers.iter().find(|(_, p)| {
            p.protocol == kind
                && !p.orphan
                && !matches!(p.kind, Kind::Stream { .. })
                && p.local.is_some_and(|l| l.port() == port)
        });
        found.map(|(index, _)| *index)
    }

    fn connect(&mut self, index: u32, to: Address) -> Result<(u64, Address), u16> {
        let to = match to.get() {
            Some(to) => to,
            None => {
                self.peer(index).remote = None;
                return Ok((0, Address::NONE));
            }
        };
        if matches!(self.peer(index).kind, Kind::Stream { .. }) {
            return Err(EISCONN);
        }
        self.peer(index).revive();
        self.bind_if_unbound(index)?;
        let peer = self.peer(index);
        peer.remote = Some(to);
        let local = peer.local.expect("bound above");
        if peer.protocol == SocketKind::Stream && to.port() != SILENT_PORT {
            self.meet(index, local, to);
        }
        let early_room = self.behavior.early_room.load(Ordering::Relaxed);
        Ok((early_room.into(), local.into()))
    }

    /// Ends an attempt to connect that nobody has answered, and tells of it first.
    fn cancel(&mut self, index: u32) -> Result<(u64, Address), u16> {
        let peer = self.peer(index);
        if peer.remote.is_none() || !matches!(peer.kind, Kind::Idle) {
            return Err(ENOENT);
        }
        peer.remote = None;
        peer.die(ECANCELED);
        self.report(index);
        Ok((0, Address::NONE))
    }
}
