//! What programs wait for, by the low-water marks of their streams: that so much was sent
//! (TCP_NOTSENT_LOWAT), or that so much has come (SO_RCVLOWAT), or a whole message (`messages`).
//! For less no thread is woken, though all is told: a call that looks sees it.
//!
//! Owns [`Marks`], of which `report` asks, for sockets that have one, whether
//! what they tell is what is waited for.

use crate::messages::Messages;
use crate::reported::Reported;
use crate::session::FEW_CHUNKS;
use crate::session::Session;
use crate::socket::{Options, Socket};
use longshore_hostif::adapter::ReceiveStream;
use longshore_hostif::{Edges, NotSent, SMALL_SEND_BUFFER, SocketId, is_writable};
use longshore_tcp::Tcb;

/// The marks of a socket, in bytes; 0 for none.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Marks {
    not_sent: u32,
    receive: u32,
    /// More is not waited for.
    most: u32,
    send_buffer: u32,
    /// The host counts the memory of what the send buffer holds.
    counts_memory: bool,
}

impl Options {
    /// Whether there is a mark.
    #[inline]
    pub(crate) fn have_lowat(&self) -> bool {
        self.not_sent_mark() | self.receive_lowat != 0
    }

    /// Whether the host counts the memory of what the send buffer holds, for which it has to know
    /// how far its stream may be sent, and in which buffers.
    #[inline]
    pub(crate) fn counts_memory(&self) -> bool {
        self.send_fixed && self.send_buffer < SMALL_SEND_BUFFER
    }

    /// The mark of what is not sent, bytes; 0 for none.
    #[inline]
    pub(crate) fn not_sent_mark(&self) -> u32 {
        match self.not_sent_lowat {
            u32::MAX => 0,
            lowat => lowat,
        }
    }

    /// What the host is told of a stream with such a mark that may be sent up to `sendable`, in
    /// buffers of `size_goal` bytes.
    pub(crate) fn not_sent(&self, sendable: u64, size_goal: u32) -> NotSent {
        NotSent {
            sendable,
            size_goal,
            usual: if self.not_sent_fixed {
                0
            } else {
                self.not_sent_lowat
            },
        }
    }
}

/// What the host is told of a connection that has a mark of what is not sent.
pub(crate) fn not_sent_of(options: &Options, tcb: &Tcb) -> NotSent {
    let status = tcb.send_status();
    options.not_sent(status.sendable(), status.size_goal())
}

impl Socket {
    /// Whether the program waits for something of its stream, by a mark or by whole messages, or for
    /// the time at which it is sent.
    #[inline]
    pub(crate) fn has_marks(&self) -> bool {
        let options = &self.options;
        options.have_lowat()
            || options.counts_memory()
            || self.messages.is_some()
            || self.waits_for_stamps()
    }
}

impl Marks {
    /// Those of a socket that may have so many bytes unread. More than half of them is not
    /// waited for, since the peer may send no more than that.
    #[inline]
    pub(crate) fn of(options: &Options, most_unread: u32) -> Self {
        Self {
            not_sent: options.not_sent_mark(),
            receive: options.receive_lowat.min(most_unread / 2),
            most: most_unread / 2,
            send_buffer: options.send_buffer,
            counts_memory: options.counts_memory(),
        }
    }

    /// Notes for the program how far its stream, written up to `written`, may be sent; whether it
    /// waits for that by a mark: a buffer that is full has room when bytes are acknowledged.
    pub(crate) fn has_sent(
        &self,
        s: &Session,
        id: SocketId,
        written: u64,
        not_sent: impl FnOnce() -> NotSent,
    ) -> bool {
        (self.counts_memory || self.not_sent != 0) && {
            let blocks = s.host.blocks();
            blocks.note_sent(id, written, &not_sent(), self.not_sent)
        }
    }

    /// Whether `edges` are less than the program waits for, to which `told` was told before,
    /// and which has written up to `written`: too little has come, or no whole message, and
    /// nobody waits for room. While memory is short, nothing is: what is there is to be read.
    pub(crate) fn is_too_little(
        &self,
        s: &Session,
        id: SocketId,
        (reported, written): (&Reported, u64),
        edges: &Edges,
        messages: Option<(&mut Messages, &ReceiveStream)>,
    ) -> bool {
        if self.receive == 0 && messages.is_none() {
            return false;
        }
        let read = s.host.blocks().edges_noted(id).map_or(0, |(_, read)| read);
        let unread = edges.rcv_edge.saturating_sub(read);
        // Each byte is looked at when it comes, though nobody may wait for it.
        let is_piece = messages.is_some_and(|(messages, stream)| {
            let slab = &s.host.receive;
            messages.are_incomplete([read, edges.rcv_edge], |at, to| {
                stream.copy_out(at, to, slab)
            })
        });
        let is_less = unread < self.receive.into() || is_piece && unread < self.most.into();
        let was_writable = is_writable(written - reported.snd_acked, self.send_buffer.into());
        is_less
            && edges.flags == reported.flags
            && was_writable
            && s.host.receive.available() > FEW_CHUNKS
    }
}
