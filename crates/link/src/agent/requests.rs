//! What programs ask: taken out of their channels, and handed to `relay`, which sends it on.
//!
//! As long as the link takes no more, nothing more is taken: programs find their rings full,
//! as they do when an engine does not keep up.

use super::Agent;
use super::relay::Moved;
use longshore_hostif::adapter::Next;
use longshore_hostif::{EdgeFlags, OptionName, RING, Request};

/// Requests taken from one channel at a time.
const BATCH: u32 = 256;
/// Completions for which there is to be room before a request is taken.
const ROOM: u32 = 8;
/// EBADF: there is no such socket.
const NO_SOCKET: u16 = 9;

/// The same edges, which do not say that their connection was accepted.
fn without_accepted(mut request: Request) -> Request {
    if let Request::Edges { flags, .. } = &mut request {
        flags.remove(EdgeFlags::ACCEPTED);
    }
    request
}

impl Agent {
    /// Takes what programs ask, as long as the link takes it; whether there was anything.
    pub(super) fn take_requests(&mut self) -> bool {
        let had_unsent = !self.relay.has_sent_all();
        self.relay.send_unsent();
        if !self.relay.may_take() || !self.relay.session.pending.has_any() {
            return had_unsent && self.relay.has_sent_all();
        }
        self.relay.session.pending.begin();
        for word in 0..self.relay.session.pending.words() {
            let mut flags = self.relay.session.pending.take_flags(word);
            while flags != 0 {
                if !self.relay.may_take() {
                    self.relay.session.pending.flag_again(word, flags);
                    return true;
                }
                let channel = (word * 64) as u16 + flags.trailing_zeros() as u16;
                flags &= flags - 1;
                self.take_from(channel);
            }
        }
        true
    }

    /// Takes on children that have claimed channels.
    pub(super) fn take_claims(&mut self) {
        for channel in self.processes.claimed() {
            self.open_claimed(channel);
        }
    }

    fn open_claimed(&mut self, channel: u16) -> bool {
        let is_claimed = self.processes.take_claimed(channel).is_some();
        if is_claimed {
            self.relay.session.open_channel(channel);
            self.watch_process(channel);
        }
        is_claimed
    }

    fn take_from(&mut self, channel: u16) {
        if !self.relay.session.channels.is_open(channel) && !self.open_claimed(channel) {
            return;
        }
        self.relay.report_rest(channel);
        self.take_some(channel, BATCH, ROOM, false);
    }

    /// Takes all that a process published before it ended or became another program.
    pub(super) fn take_last_requests(&mut self, channel: u16) {
        // One descriptor may say two things of its socket.
        self.take_some(channel, 2 * RING as u32, 0, true);
    }

    /// Takes at most `most` requests of a channel, while there is `room`. The `last` ones are
    /// taken though they have to wait.
    fn take_some(&mut self, channel: u16, most: u32, room: u32, last: bool) {
        let mut taken = 0;
        loop {
            if taken == most || !(last || self.relay.may_take()) {
                self.relay.session.pending.flag_channel(channel);
                break;
            }
            let message = match self.relay.session.next_request(channel, room) {
                Next::Request(message, _) => message,
                Next::NoRoom => {
                    self.stalled.push(channel);
                    break;
                }
                Next::Nothing | Next::Broken => break,
            };
            taken += 1;
            let handled = match Request::decode(&message) {
                Ok(request) => self.handle_request(channel, request),
                Err(_) => None,
            };
            if handled.is_none() {
                self.relay.session.meter.note_bad_descriptor();
            }
        }
        if taken != 0 {
            self.relay.session.channels.note_taken(channel);
        }
    }

    /// Does what a process asks; `None` if it makes no sense.
    fn handle_request(&mut self, channel: u16, request: Request) -> Option<()> {
        let id = request.socket();
        if let Request::Open { .. } = request {
            return self.relay.open(channel, request);
        }
        if self.relay.sockets.get(id).is_none() {
            // Late words of a socket that is gone are no fault, but one is answered who waits.
            self.relay.answer(channel, &request, NO_SOCKET);
            return Some(());
        }
        let request = match request {
            Request::Edges { flags, .. } if flags.contains(EdgeFlags::ACCEPTED) => {
                self.relay.take_accepted(channel, id);
                without_accepted(request)
            }
            request => request,
        };
        if let Some(moved) = Moved::of(&request) {
            self.relay.handle_move(channel, id, &moved)?;
            self.relay.send(request);
            return Some(());
        }
        let socket = self.relay.sockets.get(id)?;
        match request {
            // Its bytes travel.
            Request::Forward { .. } | Request::SendFile { .. } => return None,
            Request::Subscribe { .. } => {
                socket.subscribers.add(channel);
                self.relay.session.put_edges(channel, id, &socket.edges);
                self.relay.session.wakeups.note_socket(id.index);
            }
            Request::Unsubscribe { .. } => {
                socket.subscribers.remove(channel);
                self.note_transit(id.index);
            }
            Request::Owner { .. } => {
                let edges = socket.edges;
                self.relay.session.owners().set(id, edges);
                self.relay.answer(channel, &request, 0);
            }
            // What comes over the link is told whether it is enough or not.
            Request::SetOption {
                name:
                    OptionName::ReceiveLowWater
                    | OptionName::ReceiveMessages
                    | OptionName::ReceiveMessagesWithin
                    | OptionName::AcceptOnData,
                ..
            } => {}
            Request::SetOption { name, value, .. } => {
                if name == OptionName::NotSentLowat {
                    socket.low_water = u32::try_from(value).unwrap_or(u32::MAX);
                }
                self.relay.send(request);
            }
            Request::Bind { .. } => {
                // The socket that had the address may have ended.
                self.look_for_ends();
                self.relay.ask(channel, request);
            }
            _ => self.relay.ask(channel, request),
        }
        Some(())
    }
}
