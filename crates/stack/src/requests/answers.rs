//! What programs are answered: by a completion, by their channel's mailbox, or in a socket's block.
//!
//! The sessions have it, since each answer goes to a channel of one; `requests` says what.

use super::{From, LateBind};
use crate::account::SocketShare;
use crate::counters::Counters;
use crate::request_error::RequestError;
use crate::sessions::Sessions;
use longshore_hostif::{Address, Completion, EdgeFlags, Edges, Request, SocketId};

impl Sessions {
    /// Answers a request to bind that the process may not make.
    #[cold]
    pub fn refuse_bind(&mut self, from: From, request: &Request) {
        self.answer(from, request, Err(RequestError::NotPermitted));
    }

    /// A late request for a socket that is gone is no fault; but a thread that waits for an answer
    /// gets one.
    #[cold]
    pub(crate) fn refuse_unknown(&mut self, from: From, request: &Request) {
        let why = match self.account_of(from.session) {
            Some(account) if account.is_out_of_sockets() => RequestError::TooManySockets,
            _ => RequestError::NoSocket,
        };
        self.answer(from, request, Err(why));
    }

    /// The address remains in use.
    pub fn give_bind_up(&mut self, late: &LateBind) {
        let in_use = Err(RequestError::AddressInUse);
        self.answer_owed(late.from, &late.request, in_use);
    }

    /// A session has said what makes no sense.
    pub fn count_bad(&mut self, session: u32) {
        if let Some(s) = self.get_mut(session) {
            s.host.meter.note_bad_descriptor();
        }
    }

    /// A request is answered later in this turn, or in another: there must be room for it.
    pub(super) fn owe(&mut self, from: From) {
        if let Some(s) = self.get_mut(from.session) {
            s.host.channels.owe_answer(from.channel);
        }
    }

    /// The answer that was owed.
    pub(super) fn answer_owed(
        &mut self,
        from: From,
        request: &Request,
        answer: Result<(u64, Address), RequestError>,
    ) {
        if let Some(s) = self.get_mut(from.session) {
            s.host.channels.pay_answer(from.channel);
        }
        self.answer(from, request, answer);
    }

    /// Answers a request, if it is one that is answered.
    pub(crate) fn answer(
        &mut self,
        from: From,
        request: &Request,
        answer: Result<(u64, Address), RequestError>,
    ) {
        let Some((tag, waiter)) = request.asked() else {
            return;
        };
        let (errno, value, address) = match answer {
            Ok((value, address)) => (0, value, address),
            Err(e) => (e.errno(), 0, Address::NONE),
        };
        if let Some(s) = self.get_mut(from.session) {
            s.host.put_answer(
                from.channel,
                &Completion::Done {
                    socket: request.socket(),
                    tag,
                    errno,
                    value,
                    address,
                },
            );
            s.host.wakeups.note_waiter(waiter, request.socket());
        }
    }

    /// Writes an answer to the mailbox of the process that has asked; its length.
    pub(super) fn answer_at_length(&self, from: From, bytes: &[u8]) -> Result<usize, RequestError> {
        let session = self.get(from.session);
        let host = &session.ok_or(RequestError::NoSocket)?.host;
        Ok(host.write_mailbox(from.channel, bytes))
    }

    /// The owner of a socket, which stands where these edges are, gets signals from now on, or none
    /// any more.
    pub(super) fn set_owner(&mut self, session: u32, socket: SocketId, edges: Edges) {
        if let Some(s) = self.get_mut(session) {
            s.host.owners().set(socket, edges);
        }
    }

    /// Counts one socket more among those of a session's user; `None` if that may have no
    /// more, which is counted.
    pub(crate) fn take_socket_share(
        &mut self,
        session: u32,
        counters: &mut Counters,
    ) -> Option<Option<SocketShare>> {
        let share = match self.get(session) {
            Some(s) => s.take_socket_share(),
            None => Some(None),
        };
        counters.sessions.sockets_refused += u64::from(share.is_none());
        share
    }

    /// A socket that its user may not have: dead from the beginning.
    #[cold]
    pub(super) fn refuse_socket(&mut self, from: From, id: SocketId, counters: &mut Counters) {
        counters.sessions.sockets_refused += 1;
        if let Some(s) = self.get_mut(from.session) {
            let edges = Edges {
                flags: EdgeFlags::DEAD,
                errno: RequestError::TooManySockets.errno(),
                ..Edges::default()
            };
            s.host.put_edges(from.channel, id, &edges);
            s.host.wakeups.note_socket(id.index);
        }
    }
}
