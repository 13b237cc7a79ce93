//! Accepting on data: what only completes a handshake is put aside, and looked at when more
//! comes of the peer or a time is over. So the record of a connection crosses with the first
//! data of it, and a program that waits for connections is woken when there is something to
//! read. Unlike TCP_DEFER_ACCEPT, which drops that segment and has the SYN-ACK retransmitted,
//! this takes milliseconds, and the peer sees nothing of it.
//!
//! Owns what is kept of such a segment, and how it is put aside and taken up again, for which
//! `half_open` calls. A listener's program says so by an option, or the operator
//! for a port.

use crate::half_open::HalfOpens;
use crate::settings::Settings;
use crate::sockets::Sockets;
use longshore_tcp::{Ecn, Instant, Segment};
use longshore_wire::tcp::TcpHeader;

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
pub(crate) struct Held {
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

impl Held {
    /// It, without payload.
    pub(crate) fn segment(&self) -> Segment<'_> {
        Segment {
            ecn: self.ecn,
            ..Segment::new(&self.header, 0)
        }
    }

    /// When it came.
    pub(crate) fn came(&self) -> Instant {
        self.came
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
    pub(crate) fn take_held(&mut self, key: u32) -> Option<Box<Held>> {
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

impl HalfOpens {
    /// Whether a segment for a half-open connection is put aside.
    pub(crate) fn is_held_for_data(
        &mut self,
        key: u32,
        segment: &Segment<'_>,
        sockets: &Sockets,
        settings: &Settings,
        now: Instant,
    ) -> bool {
        let Some(half) = self.get(key) else {
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
        let listener = self.listener_of(half);
        let Some(socket) = listener.and_then(|key| sockets.get(key)) else {
            return false;
        };
        let within_ms = settings.accepts_on_data(local.port(), &socket.options);
        if within_ms == 0 {
            return false;
        }
        let until = until.unwrap_or(now.after_us(1000 * u64::from(within_ms)));
        self.hold(key, segment, now, until);
        true
    }
}
