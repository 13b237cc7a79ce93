//! A socket's option is set: on its connection or listener, on what it receives, and where its
//! host sees it.

use crate::Stack;
use crate::messages::{Messages, TimedRule};
use crate::socket::Kind;
use longshore_hostif::{MessageRule, OptionName, SocketId};

impl Stack {
    /// Sets an option of a socket, as its program asks.
    pub(super) fn set_option(&mut self, key: u32, name: OptionName, value: u64) {
        let Some(socket) = self.sockets.get_mut(key) else {
            return;
        };
        if name == OptionName::PortOf {
            return self.take_port(key, SocketId::decode(value));
        }
        socket.options.set(name, value);
        self.set_message_rule(key, name, value);
        self.show_option(key, name);
        if matches!(name, OptionName::ReceiveErrors | OptionName::ReceiveErrors6) && value == 0 {
            self.forget_errors(key);
            return;
        }
        let now = self.now;
        let Some(socket) = self.sockets.get_mut(key) else {
            return;
        };
        let options = socket.options;
        match &mut socket.kind {
            Kind::Stream(c) => {
                options.apply(name, &mut c.tcb, now);
                if name == OptionName::ReceiveBuffer {
                    self.apply_receive_buffer(key);
                }
            }
            Kind::Listener(l) => {
                l.listener.set_defer_accept(options.defer_accept_s);
                l.fast_open.set_limit(options.fast_open);
            }
            Kind::Pair(p) if name == OptionName::Cork => p.cork.set(options.tcp.delay.cork),
            Kind::Pair(_) if name == OptionName::SendBuffer => return self.apply_reading(key),
            Kind::Pair(_) | Kind::Datagram(_) | Kind::Idle(_) => return,
        }
        self.sockets.touch(key);
    }

    /// The rule by which what a socket receives is cut into messages, or the time that a piece
    /// of one waits.
    fn set_message_rule(&mut self, key: u32, name: OptionName, value: u64) {
        let Some(socket) = self.sockets.get_mut(key) else {
            return;
        };
        if name == OptionName::ReceiveMessages {
            let host = self.sessions.get(socket.session).map(|s| &s.host);
            // From where its program has read on.
            let noted = host.and_then(|host| host.edges_noted(socket.id));
            let begin = |rule| {
                let rule = TimedRule { rule, within_ms: 0 };
                Box::new(Messages::new(rule, noted.map_or(0, |(_, read)| read)))
            };
            socket.messages = MessageRule::decode(value).map(begin);
        }
        if name == OptionName::ReceiveMessagesWithin
            && let Some(messages) = &mut socket.messages
        {
            messages.set_within(u32::try_from(value).unwrap_or(u32::MAX));
        }
    }

    /// What the host sees of an option that has changed.
    fn show_option(&mut self, key: u32, name: OptionName) {
        let Some(socket) = self.sockets.get(key).filter(|socket| socket.has_block()) else {
            return;
        };
        let (session, index) = (socket.session, socket.id.index);
        match name {
            // What was too little may be enough.
            OptionName::ReceiveLowWater
            | OptionName::ReceiveMessages
            | OptionName::ReceiveMessagesWithin => {
                if let Some(s) = self.sessions.get_mut(session) {
                    s.host.wake_for(index);
                }
            }
            // Tuning may have overtaken the host's own note of it.
            OptionName::SendBuffer => {
                if let Some(s) = self.sessions.get(session) {
                    s.host.set_send_limit(index, socket.options.send_buffer);
                }
            }
            _ => {}
        }
    }
}
