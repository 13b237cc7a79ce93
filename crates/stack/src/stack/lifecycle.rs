//! Sessions that begin and end, and sockets that their processes let go of, as the caller of a stack
//! finds them: it deals with processes, of which the stack knows nothing but numbers of channels.

use super::Stack;
use crate::at_work::AtWork;
use crate::orphans::Undelivered;
use crate::session::Session;
use longshore_tcp::Linger;

/// What becomes of sessions and of the sockets that their processes hold.
pub struct Lifecycle<'a> {
    stack: &'a mut Stack,
}

impl Stack {
    /// What becomes of sessions and of the sockets that their processes hold.
    pub fn lifecycle(&mut self) -> Lifecycle<'_> {
        Lifecycle { stack: self }
    }
}

impl Lifecycle<'_> {
    /// A session begins: its programs learn where their connections go, with which congestion
    /// control their sockets begin, and whether the wildcard is to be bound on the kernel,
    /// too, where their launcher has said so. Its key.
    pub fn open_session(&mut self, mut session: Session, kernel_too: Option<bool>) -> u32 {
        if let Some(batching) = self.stack.settings.batching {
            session.host.set_batching(batching);
        }
        session.publish_routes(&self.stack.link, &self.stack.settings);
        session.publish_congestion(self.stack.settings.default_congestion(self.stack.now));
        let kernel_too = kernel_too.unwrap_or(self.stack.settings.kernel_too);
        session.host.header().set_engine_alone(!kernel_too);
        self.stack
            .bulk_run
            .note_session(self.stack.settings.has_one_session);
        self.stack.endpoints.sessions.insert(session)
    }

    /// A session is over. Sockets of it that are left have nobody any more.
    pub fn close_session(&mut self, key: u32) -> Option<Session> {
        let mut session = self.stack.endpoints.sessions.remove(key)?;
        session.host.header().mark_closed();
        self.stack.endpoints.sockets.given_up.forget_session(key);
        let postponed = std::mem::take(&mut session.postponed);
        self.stack.endpoints.sockets.release_postponed(postponed);
        Some(session)
    }

    /// Whether a socket that nobody has any more still has something to deliver. To be asked when
    /// no session is left, so that a socket that has nothing will have nothing: those that were
    /// found to be so are not looked at again, and of the others some are at each call.
    pub fn look_for_undelivered(&mut self) -> Undelivered {
        self.stack.endpoints.sockets.look_for_undelivered()
    }

    /// There is a session again: what has nothing to deliver may have something yet.
    pub fn look_for_undelivered_anew(&mut self) {
        self.stack.endpoints.sockets.look_for_undelivered_anew();
    }

    /// No process holds a socket any more: what was written is still delivered, unless its program
    /// has said that closing it resets its connection (SO_LINGER), as in Linux.
    pub fn close_unheld(&mut self, key: u32) {
        self.work_for(key, |stack| stack.requests().close_unheld(key));
    }

    /// No process holds a socket any more, and what was written is delivered to nobody.
    pub fn reset_unheld(&mut self, key: u32) {
        self.work_for(key, |stack| {
            let mut flush = stack.flushing();
            flush.admission().endings().close(key, Linger::Reset);
            flush.admission().transfers().abort(key);
        });
    }

    /// A process has a socket no longer. Connections that it was given and has not accepted
    /// are told to the others that listen.
    pub fn forget_subscriber(&mut self, key: u32, channel: u16) {
        self.work_for(key, |stack| {
            stack
                .endpoints
                .sockets
                .forget_subscriber(key, channel, stack.now);
        });
    }

    /// Does what is the work of the session of a socket.
    fn work_for(&mut self, key: u32, work: impl FnOnce(&mut Stack)) {
        self.stack.endpoints.sessions.at_work = AtWork::Socket(key);
        work(self.stack);
        self.stack.endpoints.sessions.at_work = AtWork::Nobodys;
    }
}
