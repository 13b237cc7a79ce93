//! The streams of a session, one call each: what a packet takes of the layer of buffers.
//!
//! The benchmark of instructions and `longshore measure path` call them. The host's half is what
//! programs use; it has written what is sent.

use longshore_hostif::adapter::{AdapterSession, MAX_PIECES, ReceiveStream, Subscribers, Use};
use longshore_hostif::{
    Completion, EdgeFlags, Edges, Geometry, HostChannel, OpenFlags, SharedBytes, SocketId,
    SocketKind, host_beside,
};
use longshore_ring::EventfdSignaler;
use std::sync::Arc;

/// A receive stream.
pub struct Placing {
    session: AdapterSession,
    stream: ReceiveStream,
    at: u64,
}

impl Placing {
    /// An empty stream of `session`.
    #[must_use]
    pub fn new(session: AdapterSession) -> Self {
        let mut placing = Self {
            session,
            stream: ReceiveStream::EMPTY,
            at: 0,
        };
        placing.place(&[0; 64]);
        placing
    }

    /// Places `bytes` at the end; true if there was room.
    #[inline(never)]
    pub fn place(&mut self, bytes: &[u8]) -> bool {
        let placed = self
            .stream
            .place(0, self.at, bytes, &mut self.session.receive, 1);
        self.at += bytes.len() as u64;
        placed.is_ok()
    }
}

/// The send stream of a socket to which a program has written.
pub struct Sending {
    session: AdapterSession,
    socket: SocketId,
    /// The process that edges are reported to.
    program: Subscribers,
    channel: HostChannel,
    sent: u64,
    acked: u64,
}

impl Sending {
    /// The channel of the program.
    const CHANNEL: u16 = 0;

    /// A stream of a session of its own, which holds `bytes`, and of which the first `segment`
    /// were sent and acknowledged. `None` if it did not come about.
    #[must_use]
    pub fn new(geometry: Geometry, bytes: &[u8], segment: u64) -> Option<Self> {
        let signaler = Arc::new(EventfdSignaler::for_one());
        let mut session = AdapterSession::create(geometry, signaler).ok()?;
        let host = host_beside(&session);
        session.open_channel(Self::CHANNEL);
        let socket = host
            .open_block(Self::CHANNEL.into(), SocketKind::Stream, OpenFlags::empty())
            .ok()??;
        let written = host.append(socket.index, bytes).ok()?;
        let mut sending = Self {
            session,
            socket,
            program: Subscribers::one(Self::CHANNEL),
            channel: host.channel(Self::CHANNEL.into()),
            sent: 0,
            acked: 0,
        };
        let found = sending.found(segment);
        sending.acknowledge(segment);
        let is_well = written == bytes.len()
            && found == Some(segment)
            && sending.acknowledged() == Some(segment);
        is_well.then_some(sending)
    }

    /// Finds the next `len` bytes that are sent, where they are; in how many pieces.
    #[inline(never)]
    pub fn find(&mut self, len: u64) -> Option<usize> {
        let mut pieces = [SharedBytes::EMPTY; MAX_PIECES];
        let range = self.sent..self.sent + len;
        self.sent += len;
        let streams = &self.session.send;
        let index = self.socket.index;
        streams.gather(index, range, Use::Read, &mut pieces).ok()
    }

    /// As `find`, how many bytes.
    fn found(&mut self, len: u64) -> Option<u64> {
        let mut pieces = [SharedBytes::EMPTY; MAX_PIECES];
        let range = self.sent..self.sent + len;
        self.sent += len;
        let streams = &self.session.send;
        let count = streams.gather(self.socket.index, range, Use::Read, &mut pieces);
        let pieces = pieces.get(..count.ok()?)?;
        Some(pieces.iter().map(|piece| piece.len() as u64).sum())
    }

    /// `len` more bytes are acknowledged: their room is the program's again, which waits for it: that
    /// is reported with what else there is to report.
    #[inline(never)]
    pub fn acknowledge(&mut self, len: u64) {
        self.acked += len;
        let edges = Edges {
            snd_acked: self.acked,
            flags: EdgeFlags::empty(),
            ..Edges::default()
        };
        self.session.put_edges_to(&self.program, self.socket, edges);
    }

    /// How far acknowledgments were reported to the program by now.
    pub fn acknowledged(&mut self) -> Option<u64> {
        self.session.publish();
        let mut acked = None;
        while let Ok(Some(completion)) = self.channel.get() {
            if let Some(Completion::Edges { edges, .. }) = completion {
                acked = Some(edges.snd_acked);
            }
        }
        self.channel.release();
        acked
    }
}
