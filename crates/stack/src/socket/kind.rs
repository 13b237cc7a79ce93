//! What a socket is, and what of it depends on that alone: where its streams stand, and what its
//! host was told of them.
//!
//! A caller that needs one kind alone takes it out of the [`Kind`] itself.

use super::{Connection, Datagram, Listening};
use crate::pair_end::Pair;
use crate::reported::Reported;
use longshore_hostif::adapter::ReceiveStream;
use longshore_hostif::{Edges, FileExtent, SocketKind};
use longshore_tcp::Instant;
use std::net::SocketAddr;

/// What it is.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "connections are what a table is full of; a box would put a pointer into the state"
)]
pub(crate) enum Kind {
    /// Opened, and perhaps bound.
    Idle(SocketKind),
    /// A TCP connection.
    Stream(Connection),
    /// One end of a connection between two of our own.
    Pair(Pair),
    /// A TCP listener.
    Listener(Listening),
    /// A UDP socket.
    Datagram(Datagram),
}

impl Kind {
    /// What its program opened it as.
    pub(crate) fn opened_as(&self) -> SocketKind {
        match self {
            Self::Idle(kind) => *kind,
            Self::Datagram(_) => SocketKind::Datagram,
            Self::Stream(_) | Self::Pair(_) | Self::Listener(_) => SocketKind::Stream,
        }
    }

    /// It is a UDP socket for good, if it may become one or is one.
    pub(crate) fn become_datagram(&mut self) -> Option<&mut Datagram> {
        if matches!(self, Self::Idle(SocketKind::Datagram)) {
            *self = Self::Datagram(Datagram::default());
        }
        match self {
            Self::Datagram(d) => Some(d),
            _ => None,
        }
    }

    /// The peer that it, a UDP socket, has chosen.
    pub(crate) fn datagram_peer(&self) -> Option<SocketAddr> {
        match self {
            Self::Datagram(d) => d.peer,
            _ => None,
        }
    }

    /// The address that its program has bound it to, a UDP socket, while it has no port.
    pub(crate) fn without_port(&self) -> Option<SocketAddr> {
        match self {
            Self::Datagram(d) => d.without_port.map(|ip| SocketAddr::new(ip, 0)),
            _ => None,
        }
    }

    /// Whether it has failed to connect.
    pub(crate) fn has_failed(&self) -> bool {
        match self {
            Self::Stream(c) => c.is_over && !c.was_made,
            Self::Pair(p) => p.connecting && p.dead.is_some() && p.flow.is_none(),
            _ => false,
        }
    }

    /// When there is something to do for it.
    #[inline]
    pub(super) fn deadline(&self) -> Instant {
        match self {
            Self::Stream(c) => c.deadline(),
            Self::Datagram(d) => d.report_due.unwrap_or(Instant::NEVER),
            Self::Pair(p) => p.deadline().unwrap_or(Instant::NEVER),
            Self::Listener(l) => l.audience.deadline(),
            Self::Idle(_) => Instant::NEVER,
        }
    }

    // ---- What is received. ----

    /// Whether it is a connection that is over: nothing comes or goes any more.
    pub(crate) fn is_over(&self) -> bool {
        match self {
            Self::Stream(c) => c.is_over,
            Self::Pair(p) => p.is_over(),
            Self::Idle(_) | Self::Listener(_) | Self::Datagram(_) => false,
        }
    }

    /// What it receives lies in.
    pub(crate) fn receive_stream(&self) -> Option<&ReceiveStream> {
        match self {
            Self::Stream(c) => Some(&c.rcv),
            Self::Pair(p) => Some(p.rcv.stream()),
            Self::Listener(l) => Some(&l.rcv),
            Self::Datagram(d) => d.rcv.as_ref(),
            Self::Idle(_) => None,
        }
    }

    /// As `receive_stream`, to be told of.
    #[inline]
    pub(crate) fn receive_stream_mut(&mut self) -> Option<&mut ReceiveStream> {
        match self {
            Self::Stream(c) => Some(&mut c.rcv),
            Self::Pair(p) => Some(p.rcv.stream_mut()),
            Self::Listener(l) => Some(&mut l.rcv),
            Self::Datagram(d) => d.rcv.as_mut(),
            Self::Idle(_) => None,
        }
    }

    /// How far its receive stream reaches, and how far it counts as read.
    pub(crate) fn received(&self) -> Option<(u64, u64)> {
        match self {
            Self::Stream(c) => Some((c.tcb.rcv_consumed(), c.tcb.rcv_edge())),
            Self::Pair(p) => Some((p.rcv.consumed(), p.rcv.edge())),
            _ => None,
        }
    }

    // ---- What is written. ----

    /// What a SYN of its that waits for data can take of them; 0 if none waits.
    pub(crate) fn syn_room(&self) -> u64 {
        match self {
            Self::Stream(c) => u64::from(c.tcb.syn_room()),
            _ => 0,
        }
    }

    /// How far its host has written, as far as is known here.
    pub(crate) fn snd_edge(&self) -> u64 {
        match self {
            Self::Stream(c) => c.tcb.snd_edge(),
            Self::Pair(p) => p.snd.edge(),
            Self::Datagram(d) => d.snd_edge,
            Self::Listener(_) | Self::Idle(_) => 0,
        }
    }

    /// What the host has written up to `edge` ends with bytes of a file.
    pub(crate) fn note_extent(&mut self, extent: &FileExtent, edge: u64) {
        if let Self::Stream(c) = self {
            c.fetched.note_range(extent, edge);
        }
    }

    /// What the host has written up to `edge` ends with an urgent byte.
    pub(crate) fn set_urgent(&mut self, edge: u64) {
        match self {
            Self::Stream(c) => c.tcb.send_stream().set_urgent(edge),
            Self::Pair(p) => p.snd.set_urgent(edge),
            _ => {}
        }
    }

    /// What the host has written up to `edge` ends with a record; whether that could be noted.
    /// Between two of our own no segments are, and nothing is to be kept apart.
    #[cold]
    pub(crate) fn end_record(&mut self, edge: u64) -> bool {
        match self {
            Self::Stream(c) => c.tcb.send_stream().end_record(edge),
            _ => true,
        }
    }

    /// What its host was told, and how far that has written, if all of it is done with.
    pub(crate) fn finished(&mut self) -> Option<(&mut Reported, u64)> {
        let (reported, done, edge) = match self {
            Self::Stream(c) => (&mut c.reported, c.tcb.snd_acked(), c.tcb.snd_edge()),
            Self::Pair(p) => (&mut p.reported, p.snd.done(), p.snd.edge()),
            Self::Datagram(d) => (&mut d.reported, d.snd_done, d.snd_edge),
            Self::Listener(_) | Self::Idle(_) => return None,
        };
        (done == edge).then_some((reported, edge))
    }

    // ---- What its host is told. ----

    /// Where its streams stand.
    pub(crate) fn edges(&self) -> Edges {
        match self {
            Self::Stream(c) => c.edges(),
            Self::Pair(p) => Edges {
                rcv_edge: p.rcv.edge(),
                snd_acked: p.snd.done(),
                flags: p.flags(),
                errno: p.dead.unwrap_or(0),
                rcv_urgent: p.rcv.urgent(),
            },
            Self::Listener(l) => Edges {
                rcv_edge: l.rcv_edge,
                ..Edges::default()
            },
            Self::Datagram(d) => Edges {
                rcv_edge: d.rcv_edge,
                snd_acked: d.snd_done,
                ..Edges::default()
            },
            Self::Idle(_) => Edges::default(),
        }
    }

    /// What its host was told, if it has a send stream.
    pub(super) fn reported(&self) -> Option<&Reported> {
        match self {
            Self::Stream(c) => Some(&c.reported),
            Self::Pair(p) => Some(&p.reported),
            Self::Datagram(d) => Some(&d.reported),
            Self::Listener(_) | Self::Idle(_) => None,
        }
    }

    /// It is to be looked at again at `at`, or not.
    pub(crate) fn look_again(&mut self, at: Instant) {
        match self {
            Self::Stream(c) => c.report_due = at,
            Self::Pair(p) => p.waits.set_report_due(at),
            Self::Datagram(d) => d.report_due = (!at.is_never()).then_some(at),
            Self::Listener(_) | Self::Idle(_) => {}
        }
    }
}
