//! Two sockets of one program that are connected to each other, for the tests of what goes on
//! between them.

use super::off_path::{GEOMETRY, accepted};
use super::single::Single;
use super::streams::copy_out;
use longshore_hostif::{Completion, EdgeFlags, Edges, OptionName, Request, SocketId, SocketKind};

/// Two sockets of one program that are connected to each other.
pub(in crate::tests) struct Own {
    pub(in crate::tests) single: Single,
    pub(in crate::tests) client: SocketId,
    pub(in crate::tests) server: SocketId,
}

impl Own {
    pub(in crate::tests) fn new() -> Self {
        Self::with(&[], &[])
    }

    /// With these options of the listener, and of the client.
    pub(in crate::tests) fn with(
        listener_has: &[(OptionName, u64)],
        client_has: &[(OptionName, u64)],
    ) -> Self {
        let mut single = Single::new(GEOMETRY, 1);
        let listener = single.listen();
        for (name, value) in listener_has {
            single.set(listener, *name, *value);
        }
        single.turn();
        let client = single.open(SocketKind::Stream);
        for (name, value) in client_has {
            single.set(client, *name, *value);
        }
        single.connect_to_own(client);
        single.turn();
        let server = accepted(&mut single, listener, 0);
        single.edges(listener, 64, EdgeFlags::empty());
        single.turn();
        single.discard_completions();
        Self {
            single,
            client,
            server,
        }
    }

    /// What each end was told since it was last asked, the last.
    pub(in crate::tests) fn reported(&mut self) -> (Option<Edges>, Option<Edges>) {
        let reported = self.single.reported();
        (
            last_of(&reported, self.client),
            last_of(&reported, self.server),
        )
    }

    /// An end's program says so of its streams.
    pub(in crate::tests) fn says(
        &mut self,
        socket: SocketId,
        snd_edge: u64,
        rcv_consumed: u64,
        flags: EdgeFlags,
    ) {
        self.single.says(socket, snd_edge, rcv_consumed, flags);
        self.single.turn();
    }

    pub(in crate::tests) fn writes(&mut self, socket: SocketId, from: u64, bytes: &[u8]) -> u64 {
        let edge = self.single.write(socket, from, bytes);
        self.single.turn();
        edge
    }

    /// An end's program closes, having written and read so far.
    pub(in crate::tests) fn closes(
        &mut self,
        socket: SocketId,
        edges: (u64, u64),
        linger: Option<u32>,
    ) {
        let (snd_edge, rcv_consumed) = edges;
        self.single.ask(
            0,
            &Request::Close {
                socket,
                snd_edge,
                rcv_consumed,
                linger,
            },
        );
        self.single.turn();
    }

    pub(in crate::tests) fn reads(&self, socket: SocketId, at: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        copy_out(&self.single.arena, socket.index, at, &mut bytes);
        bytes
    }

    pub(in crate::tests) fn sockets(&self) -> usize {
        self.single.stack.endpoints.sockets.len()
    }
}

/// Where a socket's streams stand, by what was told of it last.
pub(in crate::tests) fn last_of(reported: &[Completion], of: SocketId) -> Option<Edges> {
    reported
        .iter()
        .rev()
        .find_map(|completion| match completion {
            Completion::Edges { socket, edges } if *socket == of => Some(*edges),
            _ => None,
        })
}

pub(in crate::tests) fn flags(edges: Option<Edges>) -> EdgeFlags {
    edges.map_or(EdgeFlags::empty(), |edges| edges.flags)
}
