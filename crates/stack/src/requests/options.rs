//! A process sets an option of a socket: what is more than a value that the socket keeps is done
//! here. `requests` calls it.

use super::Requests;
use crate::counters::EngineDrop;
use crate::socket::OptionSet;
use longshore_hostif::{Interface, OptionName, SocketId};

impl Requests<'_> {
    /// Sets an option of the socket of this key, if there is one.
    pub(super) fn set_option(&mut self, key: u32, name: OptionName, value: u64) {
        match name {
            OptionName::PortOf => self.take_port(key, SocketId::decode(value)),
            OptionName::Interface => {
                self.receive_by(key, Interface::from_raw(value));
                self.keep_option(key, name, value);
            }
            OptionName::SentKeys | OptionName::StampSent => self.ask_for_stamps(key, name, value),
            OptionName::NotSentLowat if value == 0 => {
                let settings = self.setup.settings.host.defaults(self.setup.now);
                let usual = settings.map_or(0, |s| s.not_sent_lowat);
                self.keep_option(key, name, usual.into());
            }
            _ => self.keep_option(key, name, value),
        }
    }

    /// The socket takes over the port of another of its process.
    fn take_port(&mut self, key: u32, of: SocketId) {
        let endpoints = &mut *self.setup.endpoints;
        let (sessions, demux) = (&endpoints.sessions, &mut endpoints.demux);
        endpoints.sockets.take_port(key, of, sessions, demux);
    }

    /// The socket receives by this interface alone from now on (SO_BINDTODEVICE).
    fn receive_by(&mut self, key: u32, interface: Interface) {
        let endpoints = &mut *self.setup.endpoints;
        if let Some(socket) = endpoints.sockets.get_mut(key) {
            let ports = endpoints.demux.ports(socket.kind.opened_as());
            socket.bound.receive_by(interface, key, ports);
        }
    }

    /// The process wants to know when what it sends leaves (SO_TIMESTAMPING).
    fn ask_for_stamps(&mut self, key: u32, name: OptionName, value: u64) {
        if let Some(socket) = self.setup.endpoints.sockets.get_mut(key)
            && !socket.ask_for_stamps(name, value)
        {
            self.setup.counters.drop(EngineDrop::ErrorQueueFull);
        }
    }

    /// Sets an option whose value the socket keeps.
    fn keep_option(&mut self, key: u32, name: OptionName, value: u64) {
        let endpoints = &mut *self.setup.endpoints;
        let Some(socket) = endpoints.sockets.get_mut(key) else {
            return;
        };
        match socket.set_option(name, value, &mut endpoints.sessions, self.setup.now) {
            OptionSet::Done => {}
            OptionSet::Touched => endpoints.sockets.touch(key),
            OptionSet::Room => self.setup.transfers().apply_reading(key),
        }
    }
}
