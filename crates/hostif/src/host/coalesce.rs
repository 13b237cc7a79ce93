//! Two requests of one socket that follow each other, said as one: what a program writes and
//! reads in several calls, and that it closes the socket then, takes one descriptor as long as
//! the adapter has not fetched the first. What crosses with its descriptor keeps it, if more
//! follows that is read where it lies: the header of a response, before a file.
//!
//! Owns [`coalesce`], which [`HostChannel`](super::HostChannel) calls.

use crate::abi::{EdgeFlags, FileExtent, MAX_IMMEDIATE, Request, SocketId, are_near};

/// A move of edges, to which more can be added.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moved {
    pub(super) socket: SocketId,
    pub(super) snd_edge: u64,
    rcv_consumed: u64,
    flags: EdgeFlags,
    /// Bytes of immediate data that it has.
    pub(super) immediate: u16,
    /// Bytes of a file that what it wrote ends with.
    extent: Option<FileExtent>,
    /// Of a listener's that says nothing but that a connection was accepted: which.
    pub(super) accepted: Option<SocketId>,
}

impl Moved {
    /// Whether it says besides that the socket is closed: then no more is said of it.
    pub(super) fn closes(&self) -> bool {
        self.flags.contains(EdgeFlags::CLOSE)
    }

    /// Whether it tells that a connection was accepted, alone or besides.
    pub(super) fn reports_accepted(&self) -> bool {
        self.accepted.is_some() || self.flags.contains(EdgeFlags::ACCEPTED)
    }

    /// Whether it is told in three words, in a session whose descriptors have lengths.
    pub(super) fn is_near(&self) -> bool {
        are_near(self.snd_edge, self.rcv_consumed)
    }

    /// Whether both may be said at once, by the socket that `then` is about.
    #[inline]
    pub(super) fn may_go_on(&self, then: &Request) -> bool {
        self.accepted.is_some() || then.socket() == self.socket
    }

    /// That of a request, if it is one.
    pub(super) fn of(request: &Request) -> Option<Self> {
        match *request {
            Request::Edges {
                socket,
                snd_edge,
                rcv_consumed,
                flags,
                immediate,
            } => Some(Self {
                socket,
                snd_edge,
                rcv_consumed,
                flags,
                immediate,
                extent: None,
                accepted: None,
            }),
            Request::SendFile {
                socket,
                snd_edge,
                rcv_consumed,
                flags,
                extent,
            } => Some(Self {
                socket,
                snd_edge,
                rcv_consumed,
                flags,
                immediate: 0,
                extent: Some(extent),
                accepted: None,
            }),
            _ => None,
        }
    }

    /// This move as a listener's, by which `connection` was accepted.
    pub(super) fn accepting(self, connection: SocketId) -> Self {
        let accepted = self.flags.is_empty().then_some(connection);
        Self { accepted, ..self }
    }

    /// How much of what was written up to `edge` is immediate data of both, if `then` has
    /// `immediate` bytes of it: what goes on in the ring where the first ends. What was
    /// written in another way is not there, and then all is read where it lies.
    fn immediate_with(&self, edge: u64, immediate: u16, acknowledged: u64) -> u16 {
        if edge <= self.snd_edge {
            return self.immediate;
        }
        let both = self.immediate.saturating_add(immediate);
        let may_write = self.flags.intersects(SAID) && self.snd_edge > acknowledged;
        let wrote = self.immediate != 0 || may_write;
        let goes_on = immediate != 0 && edge - self.snd_edge == u64::from(immediate);
        match (wrote, goes_on) {
            (false, _) => immediate,
            (true, true) if self.immediate != 0 && usize::from(both) <= MAX_IMMEDIATE => both,
            (true, _) => 0,
        }
    }

    /// Which bytes of a file the writes of both end with, if any. As an error: that both cannot be
    /// said at once.
    fn extent_with(&self, then: &Self) -> Result<Option<FileExtent>, ()> {
        if then.snd_edge <= self.snd_edge {
            return Ok(self.extent);
        }
        match (self.extent, then.extent) {
            (None, any) => Ok(any),
            (Some(first), Some(extent)) if then.snd_edge - self.snd_edge == extent.len.into() => {
                first.joined_with(&extent).map(Some).ok_or(())
            }
            (Some(_), _) => Err(()),
        }
    }

    /// One request that says this and the edges `then` after it, of the same socket.
    fn with_edges(&self, then: &Self, acknowledged: u64) -> Option<Request> {
        if then.socket != self.socket || !self.takes(then) {
            return None;
        }
        let extent = self.extent_with(then).ok()?;
        let is_said = then.snd_edge > self.snd_edge || then.flags.intersects(SAID);
        let said = if is_said { then.flags } else { self.flags } & SAID;
        let both = Self {
            socket: self.socket,
            snd_edge: then.snd_edge.max(self.snd_edge),
            rcv_consumed: then.rcv_consumed.max(self.rcv_consumed),
            flags: said | (self.flags | then.flags).difference(SAID),
            immediate: self.immediate_with(then.snd_edge, then.immediate, acknowledged),
            extent,
            accepted: None,
        };
        both.request()
    }

    /// The request that says it, if there is one.
    fn request(&self) -> Option<Request> {
        let Self {
            socket,
            snd_edge,
            rcv_consumed,
            flags,
            immediate,
            ..
        } = *self;
        let Some(extent) = self.extent else {
            return Some(Request::Edges {
                socket,
                snd_edge,
                rcv_consumed,
                flags,
                immediate,
            });
        };
        let can_say = self.is_near() && immediate == 0 && !flags.contains(EdgeFlags::ACCEPTED);
        can_say.then_some(Request::SendFile {
            socket,
            snd_edge,
            rcv_consumed,
            flags,
            extent,
        })
    }

    /// Whether nothing is lost or late if the edges `then` of its socket are said with it.
    fn takes(&self, then: &Self) -> bool {
        let writes = then.snd_edge > self.snd_edge;
        // What was to go at once does not wait for what comes after it, and what is pushed
        // in a cork stays so.
        let waits = then.flags.contains(EdgeFlags::MORE)
            || then.flags.contains(EdgeFlags::CORK) && !self.flags.contains(EdgeFlags::CORK);
        if waits && self.flags.contains(EdgeFlags::PUSH) {
            return false;
        }
        // What crosses with its descriptor need not be read where it lies for what follows.
        if writes && self.immediate != 0 && then.immediate == 0 {
            return false;
        }
        // What was accepted before its listener is shut down is told before, as that resets
        // what waits then. Nothing was written to a listener.
        if then.flags.contains(EdgeFlags::SHUT_RD) && then.snd_edge == 0 {
            return false;
        }
        // A half that was shut down sends nothing more, and where a record ends is told.
        let ends = EdgeFlags::SHUT_WR | EdgeFlags::RECORD_END;
        if writes && self.flags.intersects(ends) {
            return false;
        }
        then.snd_edge >= self.snd_edge || !then.flags.contains(EdgeFlags::RECORD_END)
    }

    /// One request that says this and `close` after it, of the same socket, in a session whose
    /// descriptors have lengths, or not.
    fn with_close(&self, close: &Request, has_lengths: bool) -> Option<Request> {
        let Request::Close {
            socket,
            snd_edge,
            rcv_consumed,
            linger,
        } = *close
        else {
            return None;
        };
        // Closing shuts down what was not, but does not do what else is asked.
        let is_accepted = self.flags.contains(EdgeFlags::ACCEPTED);
        let may_say = SAID.union(EdgeFlags::ACCEPTED).contains(self.flags);
        if socket != self.socket || !may_say {
            return None;
        }
        let rcv_consumed = rcv_consumed.max(self.rcv_consumed);
        let crosses_along = self.immediate != 0 || self.extent.is_some();
        if !crosses_along && !is_accepted {
            return Some(Request::Close {
                socket,
                snd_edge: snd_edge.max(self.snd_edge),
                rcv_consumed,
                linger,
            });
        }
        // What it has as immediate data crosses with it, and the close, too, if all is said.
        let is_said = linger.is_none() && (!crosses_along || snd_edge <= self.snd_edge);
        let both = Self {
            snd_edge: snd_edge.max(self.snd_edge),
            rcv_consumed,
            flags: self.flags | EdgeFlags::CLOSE,
            ..*self
        };
        both.request()
            .filter(|_| has_lengths && is_said && both.is_near())
    }
}

/// Whether what was written goes at once: what is said of that last counts.
const SAID: EdgeFlags = EdgeFlags::PUSH
    .union(EdgeFlags::MORE)
    .union(EdgeFlags::CORK);

/// Edges of the connection that `first` accepts, or that it is closed: they say that it was
/// accepted, in place of the listener's.
fn coalesce_accepted(first: &Moved, then: &Request) -> Option<Request> {
    let (snd_edge, rcv_consumed, flags, immediate) = match *then {
        Request::Edges {
            snd_edge,
            rcv_consumed,
            flags,
            immediate,
            ..
        } => (snd_edge, rcv_consumed, flags, immediate),
        Request::Close {
            snd_edge,
            rcv_consumed,
            linger: None,
            ..
        } => (snd_edge, rcv_consumed, EdgeFlags::CLOSE, 0),
        _ => return None,
    };
    let is_of_it = first.accepted == Some(then.socket()) && are_near(snd_edge, rcv_consumed);
    is_of_it.then_some(Request::Edges {
        socket: then.socket(),
        snd_edge,
        rcv_consumed,
        flags: flags | EdgeFlags::ACCEPTED,
        immediate,
    })
}

/// One request that says what `first` and `then` say after each other, if there is one, where
/// the send stream is known to be `acknowledged` so far, in a session whose descriptors have
/// lengths, or not.
pub(super) fn coalesce(
    first: &Moved,
    then: &Request,
    acknowledged: u64,
    has_lengths: bool,
) -> Option<Request> {
    if first.accepted.is_some()
        && let Some(both) = coalesce_accepted(first, then)
    {
        return Some(both);
    }
    match then {
        Request::Edges { .. } | Request::SendFile { .. } => {
            first.with_edges(&Moved::of(then)?, acknowledged)
        }
        Request::Close { .. } => first.with_close(then, has_lengths),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
