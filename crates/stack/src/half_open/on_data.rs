//! Accepting on data: what only completes a handshake is put aside, and looked at when more
//! comes of the peer or a time is over. So the record of a connection crosses with the first
//! data of it, and a program that waits for connections is woken when there is something to
//! read. Unlike TCP_DEFER_ACCEPT, which drops that segment and has the SYN-ACK retransmitted,
//! this takes milliseconds, and the peer sees nothing of it.
//!
//! Owns what is kept of such a segment, and the steps of [`Stack`] that put it aside and take it
//! up again, which `half_open` calls. A listener's program says so by an option, or the operator
//! for a port.

use crate::Stack;
use crate::demux::Found;
use crate::half_open::HalfOpens;
use crate::socket::Options;
use longshore_tcp::{Ecn, Instant, Segment};
use longshore_wire::tcp::{TcpFlags, TcpHeader};

/// Where a half-open connection stands that is accepted on data.
#[derive(Debug)]
pub(super) enum OnData {
    /// Its handshake is not complete.
    NotYet,
    /// It is, but for this.
    Held(Box<Held>),
    /// It was held, and what was put aside was looked at.
    Over,
}

/// The last segment of a handshake.
#[derive(Debug)]
pub(super) struct Held {
    header: TcpHeader,
    ecn: Ecn,
    /// When it came: times are measured from then.
    came: Instant,
    /// When it is looked at though nothing else has come.
    until: Instant,
}

impl OnData {
    /// Until when one is held.
    pub(super) fn until(&self) -> Option<Instant> {
        match self {
            Self::Held(held) => Some(held.until),
            Self::NotYet | Self::Over => None,
        }
    }
}

impl HalfOpens {
    /// Puts aside what completes a handshake, until then.
    fn hold(&mut self, key: u32, segment: &Segment<'_>, now: Instant, until: Instant) {
        let Some(half) = self.slab.get_mut(key) else {
            return;
        };
        half.on_data = OnData::Held(Box::new(Held {
            header: segment.header.clone(),
            ecn: segment.ecn,
            came: now,
            until,
        }));
        self.wheel.set(&mut half.alarm, key, until);
    }

    /// Takes up again what was put aside, if anything was.
    fn take_held(&mut self, key: u32) -> Option<Box<Held>> {
        let half = self.slab.get_mut(key)?;
        half.on_data.until()?;
        let held = std::mem::replace(&mut half.on_data, OnData::Over);
        let deadline = half.deadline();
        self.wheel.set(&mut half.alarm, key, deadline);
        match held {
            OnData::Held(held) => Some(held),
            OnData::NotYet | OnData::Over => None,
        }
    }
}

impl Stack {
    /// Whether a segment for a half-open connection is put aside.
    pub(super) fn is_held_for_data(&mut self, key: u32, segment: &Segment<'_>) -> bool {
        let Some(half) = self.half_open.get(key) else {
            return false;
        };
        let until = match &half.on_data {
            OnData::Over => return false,
            OnData::Held(held) => Some(held.until),
            OnData::NotYet => None,
        };
        if !half.record.is_only_completed_by(segment) {
            return false;
        }
        let (local, _) = half.flow.sides();
        let listener = self.half_open.listener_of(half);
        let Some(socket) = listener.and_then(|key| self.sockets.get(key)) else {
            return false;
        };
        let within_ms = self.accepts_on_data(local.port(), &socket.options);
        if within_ms == 0 {
            return false;
        }
        let now = self.now;
        let until = until.unwrap_or(now.after_us(1000 * u64::from(within_ms)));
        self.half_open.hold(key, segment, now, until);
        true
    }

    /// For how many milliseconds the connections of a listener with these options, at this port,
    /// wait for data before they are handed over all the same; 0 if they do not.
    pub(crate) fn accepts_on_data(&self, port: u16, options: &Options) -> u32 {
        match options.accept_on_data_ms {
            0 => {
                let of_port = self.settings.accept_on_data.get(&port);
                of_port.copied().unwrap_or(0)
            }
            said => said.into(),
        }
    }

    /// If something was put aside of a half-open connection, and this segment of it brings
    /// more, that is looked at first; the connection that it is then.
    pub(super) fn end_hold_before(&mut self, key: u32, segment: &Segment<'_>) -> Option<u32> {
        let half = self.half_open.get(key)?;
        half.on_data.until()?;
        let flags = segment.header.flags;
        let brings_more = segment.payload_len != 0 || flags.contains(TcpFlags::FIN);
        if !brings_more || flags.intersects(TcpFlags::RST | TcpFlags::SYN) {
            return None;
        }
        let flow = half.flow;
        self.end_hold(key);
        match self.demux.peek(&flow) {
            Some(Found::Socket(connection)) => Some(connection),
            _ => None,
        }
    }

    /// Looks at what was put aside of a half-open connection; `false` if nothing was. If it
    /// must not be established now, it is as if that had been lost.
    pub(super) fn end_hold(&mut self, key: u32) -> bool {
        let Some(held) = self.half_open.take_held(key) else {
            return false;
        };
        let Some((local, remote)) = self.half_open.get(key).map(|half| half.flow.sides()) else {
            return true;
        };
        let segment = Segment {
            ecn: held.ecn,
            ..Segment::new(&held.header, 0)
        };
        if !self.is_held_back(key, &segment) {
            let response = self.advance(key, &segment, &[], held.came);
            self.respond(response, local, remote, &segment, &[]);
        }
        true
    }
}
