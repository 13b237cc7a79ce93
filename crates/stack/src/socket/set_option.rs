//! A socket's option is set: on its connection or listener, on what it receives, and where its
//! host sees it.

use crate::messages::{Messages, TimedRule};
use crate::sessions::Sessions;
use crate::socket::{Kind, Socket, not_sent_of};
use longshore_hostif::{MessageRule, OptionName};
use longshore_tcp::Instant;

/// What is still to be done when an option was set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OptionSet {
    /// Nothing.
    Done,
    /// The socket is to be looked at at the end of the turn.
    Touched,
    /// How much the ends of its connection hold for their hosts has changed.
    Room,
}

impl Socket {
    /// Sets an option, as its program asks. Which port it takes is said otherwise.
    pub(crate) fn set_option(
        &mut self,
        name: OptionName,
        value: u64,
        sessions: &mut Sessions,
        now: Instant,
    ) -> OptionSet {
        self.options.set(name, value);
        self.set_message_rule(name, value, sessions);
        self.show_option(name, sessions);
        if matches!(name, OptionName::ReceiveErrors | OptionName::ReceiveErrors6) && value == 0 {
            self.forget_errors(sessions);
            return OptionSet::Done;
        }
        let options = self.options;
        match &mut self.kind {
            Kind::Stream(c) => {
                options.apply(name, &mut c.tcb, now);
                if matches!(
                    name,
                    OptionName::ReceiveBuffer
                        | OptionName::WindowClamp
                        | OptionName::ReceiveLowWater
                ) {
                    self.apply_widest_window(sessions);
                }
            }
            Kind::Listener(l) => {
                l.listener.set_defer_accept(options.defer_accept_s);
                l.fast_open.set_limit(options.fast_open);
            }
            Kind::Pair(p) if name == OptionName::Cork => p.cork.set(options.tcp.delay.cork),
            Kind::Pair(_)
                if matches!(
                    name,
                    OptionName::SendBuffer
                        | OptionName::ReceiveBuffer
                        | OptionName::ReceiveLowWater
                ) =>
            {
                return OptionSet::Room;
            }
            Kind::Pair(_) | Kind::Datagram(_) | Kind::Idle(_) => return OptionSet::Done,
        }
        OptionSet::Touched
    }

    /// The rule by which what a socket receives is cut into messages, or the time that a piece
    /// of one waits.
    fn set_message_rule(&mut self, name: OptionName, value: u64, sessions: &Sessions) {
        if name == OptionName::ReceiveMessages {
            let host = sessions.get(self.session).map(|s| &s.host);
            // From where its program has read on.
            let noted = host.and_then(|host| host.blocks().edges_noted(self.id));
            let begin = |rule| {
                let rule = TimedRule { rule, within_ms: 0 };
                Box::new(Messages::new(rule, noted.map_or(0, |(_, read)| read)))
            };
            self.messages = MessageRule::decode(value).map(begin);
        }
        if name == OptionName::ReceiveMessagesWithin
            && let Some(messages) = &mut self.messages
        {
            messages.set_within(u32::try_from(value).unwrap_or(u32::MAX));
        }
    }

    /// What the host sees of an option that has changed.
    fn show_option(&self, name: OptionName, sessions: &mut Sessions) {
        if !self.has_block() {
            return;
        }
        let (session, index) = (self.session, self.id.index);
        match name {
            // What was too little may be enough.
            OptionName::ReceiveLowWater
            | OptionName::ReceiveMessages
            | OptionName::ReceiveMessagesWithin => {
                if let Some(s) = sessions.get_mut(session) {
                    s.host.wakeups.note_socket(index);
                }
            }
            // Tuning may have overtaken the host's own note of it.
            OptionName::SendBuffer => {
                if let Some(s) = sessions.get(session) {
                    let blocks = s.host.blocks();
                    blocks.set_send_limit(index, self.options.send_buffer);
                    // Where there is a mark it is said already.
                    if let Kind::Stream(c) = &self.kind
                        && self.options.counts_memory()
                        && self.options.not_sent_mark() == 0
                    {
                        let not_sent = not_sent_of(&self.options, &c.tcb);
                        let _ = blocks.note_sent(self.id, c.tcb.snd_edge(), &not_sent, 0);
                    }
                }
            }
            _ => {}
        }
    }
}
