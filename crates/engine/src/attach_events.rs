//! What the loop does with the events of the thread that attaches programs.
//!
//! That thread (`attach`) talks to programs and queues what they want; here sessions and channels
//! are made, children registered and eventfds given out. `sleep` calls it when the queue's
//! doorbell has rung.

use crate::attach::{Connection, Event, Membership};
use crate::lifetime::Lifetime;
use crate::maintenance::Maintenance;
use crate::session::Session;
use crate::sleep::Source;
use longshore_hostif::adapter::OfferedFile;
use longshore_hostif::agent::Peer;
use longshore_hostif::attach::{Message, Refusal, SessionOptions, Token};
use longshore_hostif::{SocketId, Versions};
use longshore_stack::Session as Half;
use longshore_tcp::Congestion;
use std::os::fd::AsFd;

/// Does what programs want of their sessions.
pub(crate) struct Attaching<'a> {
    pub(crate) maintenance: Maintenance<'a>,
    pub(crate) lifetime: &'a mut Lifetime,
}

impl Attaching<'_> {
    /// Does what a program, or the thread that attaches them, wants.
    pub(crate) fn handle(&mut self, event: Event) {
        match event {
            Event::New(session, wanted, connection) => {
                let token = session.0.token;
                let answer = match self.open_session(*session, wanted, &connection) {
                    Ok(()) => Message::Session(token),
                    Err(why) => Message::Refused(why),
                };
                connection.answer(&answer, &[]);
            }
            Event::Join(token, versions, peer, connection) => {
                if let Err(why) = self.join(token, &versions, peer, &connection) {
                    connection.answer(&Message::Refused(why), &[]);
                }
            }
            Event::Child(token, channel, peer, connection) => {
                let answer = match self.register_child(token, channel, peer, &connection) {
                    Ok(()) => Message::Known,
                    Err(why) => Message::Refused(why),
                };
                connection.answer(&answer, &[]);
            }
            Event::Eventfd(waiter, ask, connection) => self.make_eventfd(waiter, ask, &connection),
            Event::Owner(socket, signals, ask, connection) => {
                self.make_owner(socket, signals, ask, &connection);
            }
            Event::File(file, ask, connection) => self.take_file(*file, ask, &connection),
            Event::Gone(connection) => self.lose_launcher(connection),
            Event::Overdrawn(serial) => {
                if let Some(key) = self
                    .maintenance
                    .programs
                    .sessions
                    .find(|s| s.serial == serial)
                {
                    self.maintenance.end_session(key);
                }
            }
        }
    }

    /// Gives a program the eventfd of a waiter.
    fn make_eventfd(&mut self, waiter: u32, ask: u64, connection: &Connection) {
        let session = self.session_of(connection);
        let made = session.and_then(|(s, half)| s.make_eventfd(half, waiter));
        match made {
            Some(fd) => connection.answer(&Message::Eventfd { waiter, ask }, &[fd]),
            None => connection.answer(&Message::Refused(Refusal::NoResources), &[]),
        }
    }

    /// Gives a program what raises the signals of a socket's owner.
    fn make_owner(&mut self, socket: SocketId, signals: u32, ask: u64, connection: &Connection) {
        let Some((s, half)) = self.session_of(connection) else {
            return connection.answer(&Message::Refused(Refusal::NoResources), &[]);
        };
        let raises = s.make_owner(half, socket, signals);
        let answer = Message::Owner {
            socket,
            signals,
            ask,
        };
        connection.answer(&answer, &raises);
    }

    /// Takes a file of which a program sends ranges, if its session has room for it.
    fn take_file(&mut self, file: OfferedFile, ask: u64, connection: &Connection) {
        let now = self.maintenance.stack.now().0;
        let lent = match self.session_of(connection) {
            Some((_, half)) => half.host.send.lend_file(file, now),
            None => Err(file),
        };
        match lent {
            Ok(()) => connection.answer(&Message::File { ask }, &[]),
            Err(file) => {
                self.maintenance.disposal.take(file);
                connection.answer(&Message::Refused(Refusal::NoResources), &[]);
            }
        }
    }

    /// A connection is closed: if it was that of a launcher, all sessions that were asked for over
    /// it end with their processes.
    fn lose_launcher(&mut self, connection: u64) {
        let is_its = |s: &Session| s.launcher == Some(connection);
        let now = self.maintenance.stack.now();
        let programs = &mut self.maintenance.programs;
        for key in programs.sessions.find_all(is_its) {
            if let Some(s) = programs.sessions.get_mut(key) {
                s.launcher = None;
                s.launched = false;
                s.has_changed = true;
            }
            programs.look_over_now(key, now);
        }
    }

    /// A session, and its sockets in the stack.
    fn pair_mut(&mut self, key: u32) -> Option<(&mut Session, &mut Half)> {
        self.maintenance
            .programs
            .pair_mut(self.maintenance.stack, key)
    }

    /// The session that a connection belongs to, if that is not over.
    fn session_of(&mut self, connection: &Connection) -> Option<(&mut Session, &mut Half)> {
        let Membership { key, serial } = connection.membership()?;
        self.pair_mut(key).filter(|(s, _)| s.serial == serial)
    }

    fn open_session(
        &mut self,
        (session, mut half): (Session, Half),
        wanted: SessionOptions,
        connection: &Connection,
    ) -> Result<(), Refusal> {
        if self.lifetime.is_draining() {
            return Err(Refusal::Draining);
        }
        if self
            .maintenance
            .programs
            .sessions
            .find(|s| s.excludes(&session))
            .is_some()
        {
            return Err(Refusal::HasSession);
        }
        let choice = wanted.congestion.map(usize::from);
        half.congestion = choice.and_then(|place| Congestion::ALL.get(place).copied());
        let key = self
            .maintenance
            .stack
            .lifecycle()
            .open_session(half, wanted.kernel_too);
        let doorbell = session.doorbell.as_fd();
        if self
            .maintenance
            .sleeper
            .watch(doorbell, Source::Doorbell(key))
            .is_err()
        {
            self.maintenance.stack.lifecycle().close_session(key);
            return Err(Refusal::NoResources);
        }
        self.maintenance.programs.sessions.insert(key, session);
        connection.allow_silence();
        self.lifetime.note_session();
        Ok(())
    }

    /// The session of this token that is for processes of user `uid`: that of a user whom all can
    /// trust before one of its own, which may be there first.
    fn key_of_token(&self, token: Token, uid: u32) -> Result<u32, Refusal> {
        let of = |is_for: fn(&Session, u32) -> bool| {
            let sessions = &self.maintenance.programs.sessions;
            sessions.find(|s| s.token == token && !s.is_over && is_for(s, uid))
        };
        let found = of(|s, _| s.is_for_all()).or_else(|| of(|s, uid| s.uid == uid));
        found.ok_or(Refusal::UnknownSession)
    }

    fn join(
        &mut self,
        token: Token,
        versions: &Versions,
        peer: Peer,
        connection: &Connection,
    ) -> Result<(), Refusal> {
        let key = self.key_of_token(token, connection.user.uid)?;
        let half = self.maintenance.stack.endpoints.sessions.get(key);
        if !half.is_some_and(|half| versions.include(&half.host.agreed())) {
            return Err(Refusal::Version);
        }
        // Its parent may have claimed a channel for it.
        self.maintenance.requests().take_in(key);
        let session = self
            .maintenance
            .programs
            .sessions
            .get(key)
            .ok_or(Refusal::UnknownSession)?;
        let known = session.processes.channel_of(peer.pid);
        if let Some(channel) = known {
            self.maintenance.requests().take_last(key, channel);
        }
        let (session, half) = self.pair_mut(key).ok_or(Refusal::UnknownSession)?;
        let channel = session.attach(half, peer).ok_or(Refusal::NoChannel)?;
        let serial = session.serial;
        connection.join(Membership { key, serial });
        let welcome = Message::Welcome(u32::from(channel), *half.host.geometry());
        let fds = [half.host.memory_fd(), session.doorbell.as_fd()];
        connection.answer(&welcome, &fds);
        if known.is_none() {
            let now = self.maintenance.stack.now();
            self.maintenance.programs.watch(key, channel, now);
        }
        // It has just begun, and will ask for more.
        self.maintenance.sleeper.expect_requests();
        Ok(())
    }

    fn register_child(
        &mut self,
        token: Token,
        channel: u32,
        peer: Peer,
        connection: &Connection,
    ) -> Result<(), Refusal> {
        let key = self.key_of_token(token, connection.user.uid)?;
        let s = self
            .maintenance
            .programs
            .sessions
            .get_mut(key)
            .ok_or(Refusal::UnknownSession)?;
        if !s.processes.register_child(channel, peer) {
            return Err(Refusal::NoChannel);
        }
        // It may have claimed its channel before that was noticed here.
        self.maintenance.requests().take_of(key, channel);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
