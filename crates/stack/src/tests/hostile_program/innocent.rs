//! The program beside the hostile one, and its peer: what it sends and receives is its own.

use super::super::off_path::accepted;
use super::super::single::{Sent, Single};
use super::super::streams;
use super::{MESSAGE, OURS};
use longshore_hostif::{EdgeFlags, Request, SocketId};
use longshore_wire::tcp::TcpFlags;

/// A connection of the innocent program, and how far it is in both directions.
pub(super) struct Innocent {
    socket: SocketId,
    pub(super) next: longshore_wire::tcp::TcpHeader,
    sent: u64,
    received: u64,
}

impl Innocent {
    pub(super) fn new(single: &mut Single) -> Self {
        let listener = single.listen();
        single.turn();
        let next = single.connect(0);
        single.turn();
        let socket = accepted(single, listener, 0);
        Self {
            socket,
            next,
            sent: 0,
            received: 0,
        }
    }

    /// A message each way.
    pub(super) fn exchange(&mut self, single: &mut Single) {
        let message = [OURS; MESSAGE];
        single.segment(&self.next, &message);
        self.received += MESSAGE as u64;
        self.next.seq = self.next.seq.add(MESSAGE as u32);
        let edge = streams::append(&single.arena, self.socket.index, self.sent, &message);
        single.ask(
            0,
            &Request::Edges {
                socket: self.socket,
                snd_edge: edge,
                rcv_consumed: self.received - MESSAGE as u64,
                flags: EdgeFlags::PUSH,
                immediate: 0,
            },
        );
        single.turn();
        single.discard_completions();
        let mut got = [0; MESSAGE];
        let from = self.received - MESSAGE as u64;
        streams::copy_out(&single.arena, self.socket.index, from, &mut got);
        assert_eq!(got, message);
        self.sent = edge;
    }

    /// What has left is looked at: all it sent, and none of it for others.
    pub(super) fn look(&mut self, sent: &[Sent]) {
        let first = self.next.ack;
        for segment in sent {
            if segment.header.src_port != 80 || segment.header.dst_port != self.next.src_port {
                // A byte by itself is one of those that the other has strewn about.
                let mut runs = segment.payload.windows(8);
                assert!(!runs.any(|run| run == [OURS; 8]), "{:?}", segment.header);
                continue;
            }
            let ours = segment.payload.iter().filter(|b| **b == OURS).count();
            assert_eq!(ours, segment.payload.len());
            assert!(!segment.header.flags.contains(TcpFlags::RST));
            if segment.header.seq == self.next.ack {
                self.next.ack = self.next.ack.add(ours as u32);
            }
        }
        assert_eq!(self.next.ack, first.add(MESSAGE as u32));
    }
}
