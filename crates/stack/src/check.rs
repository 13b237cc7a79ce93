//! What must be true of a stack between two turns, whatever programs and peers do.
//!
//! [`Stack::check`] looks at everything, so it is for tests, simulations and fuzzing, which
//! call it after each turn.

use super::Stack;
use super::demux::Found;
use super::socket::{Connection, Kind, Socket};
use super::sockets::Sockets;
use longshore_hostif::NONE;

/// What is not as it must be, and of which socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Violation {
    /// The socket's key.
    pub key: u32,
    /// What is wrong with it.
    pub what: &'static str,
}

pub(super) fn holds(is_true: bool, key: u32, what: &'static str) -> Result<(), Violation> {
    if is_true {
        Ok(())
    } else {
        Err(Violation { key, what })
    }
}

impl Stack {
    /// Whether the parts agree with each other.
    ///
    /// # Errors
    /// The first [`Violation`] that is found.
    pub fn check(&self) -> Result<(), Violation> {
        self.sockets.check()?;
        self.sessions.check()?;
        for (key, socket) in self.sockets.iter() {
            self.check_socket(key, socket)?;
        }
        for (of, session) in self.sessions.iter() {
            let mine = |s: &Socket| s.has_block() && s.session == of;
            let count = self.sockets.iter().filter(|(_, s)| mine(s)).count();
            holds(
                session.sockets() == count,
                NONE,
                "a session miscounts its sockets",
            )?;
        }
        Ok(())
    }

    fn check_socket(&self, key: u32, socket: &Socket) -> Result<(), Violation> {
        if socket.has_block() {
            let session = self.sessions.get(socket.session);
            let found = session.and_then(|s| s.key(socket.id.index));
            holds(found == Some(key), key, "its session does not know it")?;
        }
        match &socket.kind {
            Kind::Stream(c) => self.check_connection(key, socket, c),
            Kind::Pair(p) if p.dead.is_none() && !p.connecting && p.other != key => {
                let other = self.sockets.get(p.other).map(|s| &s.kind);
                let is_other = p.other == NONE || matches!(other, Some(Kind::Pair(_)));
                holds(is_other, key, "its other end is none")
            }
            Kind::Listener(l) => {
                for child in &l.children {
                    let child = self.sockets.get(*child).map(|s| &s.kind);
                    let is_its = matches!(child, Some(Kind::Stream(c)) if c.listener == Some(key));
                    holds(is_its, key, "a half-open connection is not its own")?;
                }
                holds(l.rcv_consumed <= l.rcv_edge, key, "more accepted than came")
            }
            Kind::Datagram(d) => {
                holds(d.rcv_consumed <= d.rcv_edge, key, "more read than came")?;
                holds(d.snd_done <= d.snd_edge, key, "more sent than written")
            }
            Kind::Pair(_) | Kind::Idle(_) => Ok(()),
        }
    }

    fn check_connection(&self, key: u32, socket: &Socket, c: &Connection) -> Result<(), Violation> {
        if let Err(violation) = c.tcb.check() {
            panic!("connection {key}: {violation:?}");
        }
        holds(socket.local.is_some(), key, "it has no local address")?;
        if !c.retired {
            let found = self.demux.peek(&c.flow);
            let is_found = found == Some(Found::Socket(key));
            holds(is_found, key, "its segments do not find it")?;
        }
        if let Some(listener) = c.listener
            && !socket.has_block()
        {
            let listener = self.sockets.get(listener).map(|s| &s.kind);
            let is_child = matches!(listener, Some(Kind::Listener(l)) if l.children.contains(&key));
            holds(is_child, key, "its listener does not count it")?;
        }
        let is_told = c.told.rcv_edge <= c.tcb.rcv_edge();
        holds(is_told, key, "more was told than came")?;
        holds(
            c.told.snd_acked <= c.tcb.snd_acked(),
            key,
            "more was told than acknowledged",
        )
    }
}

impl Sockets {
    /// Whether each is on the lists that it says it is on, and its timer is set.
    fn check(&self) -> Result<(), Violation> {
        let mut listed: Vec<u32> = self.dirty.clone();
        listed.sort_unstable();
        let unique = listed.windows(2).all(|pair| pair[0] != pair[1]);
        holds(unique, NONE, "a socket is on the list of the turn twice")?;
        for (key, socket) in self.iter() {
            let is_listed = listed.binary_search(&key).is_ok();
            let waits = !self.waiting_sessions.is_empty();
            holds(
                !is_listed || socket.dirty,
                key,
                "it is listed and does not know",
            )?;
            holds(is_listed || waits || !socket.dirty, key, "it is not listed")?;
            if !socket.dirty {
                let is_armed = socket.alarm.is_sound();
                holds(is_armed, key, "no timer goes off in time")?;
            }
        }
        Ok(())
    }
}
