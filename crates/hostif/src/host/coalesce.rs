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
    pub(super) fn tells_accepted(&self) -> bool {
        self.accepted.is_some() || self.flags.contains(EdgeFlags::ACCEPTED)
    }

    /// Whether it is told in three words, in a session whose descriptors have lengths.
    pub(super) fn is_near(&self) -> bool {
        are_near(self.snd_edge, self.rcv_consumed)
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

    /// The same of a listener's, by which `connection` was accepted.
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
mod tests {
    use super::*;

    const SOCKET: SocketId = SocketId {
        index: 1,
        generation: 2,
    };

    const OTHER: SocketId = SocketId {
        index: 2,
        generation: 2,
    };

    fn edges(snd_edge: u64, rcv_consumed: u64, flags: EdgeFlags) -> Request {
        Request::Edges {
            socket: SOCKET,
            snd_edge,
            rcv_consumed,
            flags,
            immediate: 0,
        }
    }

    fn both(first: Request, then: Request) -> Option<Request> {
        coalesce(&Moved::of(&first).unwrap(), &then, 5, true)
    }

    #[test]
    fn where_a_record_ends_is_not_lost() {
        use EdgeFlags as F;
        let ends = F::PUSH | F::RECORD_END;
        let record = edges(20, 7, ends);
        assert_eq!(both(edges(10, 7, F::PUSH), record), Some(record));
        assert_eq!(
            both(record, edges(20, 9, F::empty())),
            Some(edges(20, 9, ends))
        );
        assert_eq!(both(record, edges(30, 7, F::PUSH)), None);
        assert_eq!(both(edges(30, 7, F::PUSH), record), None, "told late");
        assert_eq!(both(record, record), Some(record));
    }

    #[test]
    fn edges_add_up() {
        use EdgeFlags as F;
        let none = F::empty();
        assert_eq!(
            both(edges(10, 7, F::PUSH), edges(20, 5, F::PUSH)),
            Some(edges(20, 7, F::PUSH))
        );
        assert_eq!(
            both(edges(10, 7, F::MORE), edges(20, 7, F::MORE)),
            Some(edges(20, 7, F::MORE))
        );
        assert_eq!(
            both(edges(10, 7, F::MORE), edges(20, 7, F::PUSH)),
            Some(edges(20, 7, F::PUSH))
        );
        // What was only read changes nothing of what waits.
        assert_eq!(
            both(edges(10, 7, F::MORE), edges(10, 9, none)),
            Some(edges(10, 9, F::MORE))
        );
        assert_eq!(
            both(edges(10, 7, F::MORE), edges(10, 7, F::PUSH)),
            Some(edges(10, 7, F::PUSH))
        );
        // The cork goes in, something is written, and it is out again.
        let cork = F::MORE | F::CORK;
        for (first, then, expected) in [
            (edges(10, 7, none), edges(10, 7, cork), edges(10, 7, cork)),
            (edges(10, 7, cork), edges(20, 7, cork), edges(20, 7, cork)),
            (edges(20, 7, cork), edges(20, 9, none), edges(20, 9, cork)),
            (
                edges(20, 7, cork),
                edges(20, 7, F::PUSH),
                edges(20, 7, F::PUSH),
            ),
        ] {
            assert_eq!(both(first, then), Some(expected));
        }
        let shut = F::SHUT_WR | F::LINGERS;
        assert_eq!(
            both(edges(10, 7, F::PUSH), edges(10, 7, shut)),
            Some(edges(10, 7, F::PUSH | shut))
        );
    }

    /// A listener's shutdown resets what is not known to have been accepted by then.
    #[test]
    fn what_was_accepted_is_told_before_its_listener_is_shut_down() {
        use EdgeFlags as F;
        let shut = edges(0, 128, F::SHUT_RD);
        let accepted = edges(0, 64, F::empty());
        assert_eq!(both(accepted, shut), None);
        let first = Moved::of(&accepted).unwrap().accepting(OTHER);
        assert_eq!(coalesce(&first, &shut, 0, true), None);
        // A connection that has written is no listener.
        let written = edges(10, 7, F::PUSH);
        let shut = edges(10, 7, F::PUSH | F::SHUT_RD);
        assert_eq!(both(written, shut), Some(shut));
    }

    /// Edges with so much immediate data.
    fn with(snd_edge: u64, immediate: u16, flags: EdgeFlags) -> Request {
        Request::Edges {
            socket: SOCKET,
            snd_edge,
            rcv_consumed: 0,
            flags,
            immediate,
        }
    }

    #[test]
    fn immediate_data_is_that_of_both_where_it_is_in_one_piece() {
        use EdgeFlags as F;
        let of_both = |first: Request, then: Request| match both(first, then) {
            Some(Request::Edges { immediate, .. }) => Some(immediate),
            Some(_) => panic!("edges are edges"),
            None => None,
        };
        let most = MAX_IMMEDIATE as u16;
        let none = F::empty();
        let first = with(110, 10, F::PUSH);
        assert_eq!(of_both(first, with(130, 20, F::PUSH)), Some(30));
        assert_eq!(of_both(first, with(131, 20, F::PUSH)), Some(0), "a gap");
        assert_eq!(
            of_both(first, with(110 + u64::from(most), most, F::PUSH)),
            Some(0)
        );
        assert_eq!(of_both(first, with(110, 0, none)), Some(10), "it reads");
        assert_eq!(of_both(first, with(110, 0, F::SHUT_WR)), Some(10));
        assert_eq!(of_both(first, with(90, 5, F::PUSH)), Some(10), "an old one");
        assert_eq!(of_both(first, with(9000, 0, F::PUSH)), None, "much follows");
        assert_eq!(
            of_both(with(110, 0, F::PUSH), with(120, 10, F::PUSH)),
            Some(0)
        );
        assert_eq!(
            of_both(with(110, 0, none), with(120, 10, F::PUSH)),
            Some(10)
        );
        let corked = F::MORE | F::CORK;
        let (set, then) = (with(5, 0, corked), with(15, 10, corked));
        assert_eq!(of_both(set, then), Some(10), "it wrote nothing");
    }

    /// Edges that append bytes of a file.
    fn sends(snd_edge: u64, (file, offset, len): (u16, u32, u32), flags: EdgeFlags) -> Request {
        Request::SendFile {
            socket: SOCKET,
            snd_edge,
            rcv_consumed: 0,
            flags,
            extent: FileExtent { file, offset, len },
        }
    }

    #[test]
    fn bytes_of_a_file_go_on_with_the_next_ones_of_it_and_nothing_else() {
        use EdgeFlags as F;
        let first = sends(1100, (3, 500, 100), F::PUSH);
        let next = sends(1300, (3, 600, 200), F::PUSH);
        assert_eq!(both(first, next), Some(sends(1300, (3, 500, 300), F::PUSH)));
        for other in [
            sends(1300, (4, 600, 200), F::PUSH),
            sends(1300, (3, 601, 200), F::PUSH),
            sends(1301, (3, 600, 200), F::PUSH),
            sends(1300, (3, 600, 0), F::PUSH),
            edges(1300, 0, F::PUSH),
            with(1300, 200, F::PUSH),
        ] {
            assert_eq!(both(first, other), None);
        }
        // What is copied before, not with its descriptor, goes with it; what says no more, too.
        assert_eq!(both(edges(1000, 0, F::PUSH), first), Some(first));
        assert_eq!(both(with(1000, 20, F::PUSH), first), None);
        let uncorked = sends(1100, (3, 500, 100), F::PUSH | F::SHUT_WR);
        let corked = sends(1100, (3, 500, 100), F::MORE | F::CORK);
        assert_eq!(
            both(corked, edges(1100, 0, F::PUSH | F::SHUT_WR)),
            Some(uncorked)
        );
        assert_eq!(both(first, sends(900, (9, 0, 64), F::PUSH)), Some(first));
        assert_eq!(
            both(edges(0, 0, F::ACCEPTED), first),
            None,
            "no room for both"
        );
        let far = edges(1100, 1 << 48, F::empty());
        assert_eq!(both(first, far), None);
    }

    #[test]
    fn a_close_goes_with_bytes_of_a_file_if_all_is_said() {
        use EdgeFlags as F;
        let close = |snd_edge, linger| Request::Close {
            socket: SOCKET,
            snd_edge,
            rcv_consumed: 0,
            linger,
        };
        let first = sends(1100, (3, 500, 100), F::PUSH);
        let closed = sends(1100, (3, 500, 100), F::PUSH | F::CLOSE);
        assert_eq!(both(first, close(1100, None)), Some(closed));
        assert_eq!(both(first, close(1101, None)), None);
        assert_eq!(both(first, close(1100, Some(1))), None);
    }

    #[test]
    fn a_close_goes_with_immediate_data_if_all_is_said() {
        use EdgeFlags as F;
        let first = with(110, 10, F::PUSH);
        let close = Request::Close {
            socket: SOCKET,
            snd_edge: 110,
            rcv_consumed: 0,
            linger: None,
        };
        let closed = with(110, 10, F::PUSH | F::CLOSE);
        assert_eq!(both(first, close), Some(closed));
        assert_eq!(
            coalesce(&Moved::of(&first).unwrap(), &close, 5, false),
            None
        );
        // Not where more was written, it lingers, another half is shut down, or it is far.
        let (written, lingering) = (
            Request::Close {
                socket: SOCKET,
                snd_edge: 111,
                rcv_consumed: 0,
                linger: None,
            },
            Request::Close {
                socket: SOCKET,
                snd_edge: 110,
                rcv_consumed: 0,
                linger: Some(1),
            },
        );
        assert_eq!([both(first, written), both(first, lingering)], [None; 2]);
        assert_eq!(both(with(110, 10, F::PUSH | F::SHUT_RD), close), None);
        let far = Request::Close {
            socket: SOCKET,
            snd_edge: 110,
            rcv_consumed: 1 << 48,
            linger: None,
        };
        assert_eq!(both(first, far), None);
    }

    #[test]
    fn what_goes_at_once_is_not_held_by_what_waits() {
        let first = edges(10, 0, EdgeFlags::PUSH);
        for then in [
            edges(20, 0, EdgeFlags::MORE),
            edges(10, 0, EdgeFlags::MORE | EdgeFlags::CORK),
            edges(20, 0, EdgeFlags::PUSH | EdgeFlags::CORK),
        ] {
            assert_eq!(both(first, then), None);
        }
        let corked = EdgeFlags::PUSH | EdgeFlags::CORK;
        let then = edges(20, 0, EdgeFlags::MORE | EdgeFlags::CORK);
        assert_eq!(both(edges(10, 0, corked), then), None);
        assert_eq!(
            both(edges(10, 0, corked), edges(20, 0, corked)),
            Some(edges(20, 0, corked))
        );
    }

    #[test]
    fn others_stay_apart() {
        let other = SocketId {
            index: 3,
            generation: 2,
        };
        let (first, subscribe) = (
            edges(10, 0, EdgeFlags::PUSH),
            Request::Subscribe { socket: SOCKET },
        );
        assert_eq!(both(first, subscribe), None);
        assert!(Moved::of(&subscribe).is_none());
        let then = Request::Edges {
            socket: other,
            snd_edge: 20,
            rcv_consumed: 0,
            flags: EdgeFlags::PUSH,
            immediate: 0,
        };
        assert_eq!(both(first, then), None);
        let late = edges(20, 0, EdgeFlags::PUSH);
        assert_eq!(both(edges(10, 0, EdgeFlags::SHUT_WR), late), None);
    }

    #[test]
    fn a_close_takes_with_it_what_was_written_and_read() {
        let close = |snd_edge, rcv_consumed, linger| Request::Close {
            socket: SOCKET,
            snd_edge,
            rcv_consumed,
            linger,
        };
        for linger in [None, Some(0), Some(3)] {
            assert_eq!(
                both(edges(10, 7, EdgeFlags::MORE), close(20, 3, linger)),
                Some(close(20, 7, linger))
            );
        }
        let shut = edges(10, 7, EdgeFlags::SHUT_WR);
        assert_eq!(both(shut, close(10, 7, None)), None);
    }
}
