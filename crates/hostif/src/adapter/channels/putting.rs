//! Putting completions into the ends of channels, and showing them to the processes.

use super::{Channels, end_of};
use crate::abi::{Completion, Data, Edges, SocketId};
use crate::adapter::session_meter::SessionMeter;
use crate::transport::PutError;

impl Channels {
    /// Something is staged for a channel.
    #[inline]
    fn stage(&mut self, channel: u16) {
        if let Some(end) = end_of(&mut self.ends, channel)
            && !std::mem::replace(&mut end.is_staged, true)
        {
            self.staged.push(channel);
        }
    }

    /// Stages an answer for one channel. There is room for it, unless the process does
    /// what none of ours does, and has itself to blame.
    pub(in crate::adapter) fn put_answer(
        &mut self,
        channel: u16,
        answer: &Completion,
        meter: &mut SessionMeter,
    ) {
        let Some(end) = end_of(&mut self.ends, channel) else {
            return;
        };
        match end.channel.put(&self.arena, answer) {
            Ok(crossed) => {
                if let Completion::Done { socket, .. } = answer {
                    meter.count_completion(*socket, &crossed);
                }
                self.stage(channel);
            }
            Err(_) => meter.note_bad_descriptor(),
        }
    }

    /// Stages where a socket's edges are for one channel; whether there was room. If there
    /// was none the socket is noted, and the process told that there is more.
    ///
    /// It is in place, for the one process that has most sockets: the call and its registers
    /// are 20 of the 140 instructions of reporting it.
    #[inline(always)]
    pub(in crate::adapter) fn put_edges(
        &mut self,
        channel: u16,
        socket: SocketId,
        edges: &Edges,
        meter: &mut SessionMeter,
    ) -> bool {
        let Some(end) = end_of(&mut self.ends, channel) else {
            return true;
        };
        match end.channel.put_edges(&self.arena, socket, edges) {
            Ok(crossed) => {
                self.stage(channel);
                meter.count_completion(socket, &crossed);
                true
            }
            Err(PutError::Full) => {
                self.report_later(channel, socket, meter);
                false
            }
            // The process broke its own ring; it is told nothing more.
            Err(PutError::Corrupt(_) | PutError::NoWorker(_)) => {
                meter.note_bad_descriptor();
                true
            }
        }
    }

    /// There was no room to tell a channel of a socket: it is told that there is more.
    #[cold]
    fn report_later(&mut self, channel: u16, socket: SocketId, meter: &mut SessionMeter) {
        let sockets = self.arena.geometry().sockets;
        let Some(end) = end_of(&mut self.ends, channel) else {
            return;
        };
        end.pending.insert(socket.index, sockets as usize);
        let more = end.channel.say_more(&self.arena);
        self.put_off += 1;
        match more {
            Ok(Some(crossed)) => {
                self.stage(channel);
                meter.count_completion(socket, &crossed);
            }
            Ok(None) => {}
            Err(_) => meter.note_bad_descriptor(),
        }
    }

    /// Stages where a socket's edges are together with the newest bytes of its stream, for one
    /// channel: the number of the last message of that, if there was room.
    pub(in crate::adapter) fn put_data(
        &mut self,
        channel: u16,
        data: &Data,
        payload: &[u8],
        meter: &mut SessionMeter,
    ) -> Option<u32> {
        let end = end_of(&mut self.ends, channel)?;
        let put = end.channel.put_data(&self.arena, data, payload);
        let (number, crossed) = put.ok()?;
        meter.count_completion(data.socket, &crossed);
        self.stage(channel);
        Some(number)
    }

    /// The next socket of which the process of `channel` is to be told, as there was no room
    /// before.
    pub fn next_pending(&mut self, channel: u16) -> Option<u32> {
        end_of(&mut self.ends, channel)?.pending.take()
    }

    /// Requests of the process of `channel` are being taken: whether it is to be told of sockets for
    /// which there was no room.
    pub fn has_pending(&mut self, channel: u16) -> bool {
        let Some(end) = end_of(&mut self.ends, channel) else {
            return false;
        };
        end.channel.look_for_room(&self.arena);
        !end.pending.is_empty()
    }

    /// Whether anything is staged.
    #[inline]
    pub(in crate::adapter) fn has_staged(&self) -> bool {
        !self.staged.is_empty()
    }

    /// Shows the processes what is staged.
    #[inline]
    pub(in crate::adapter) fn publish(&mut self) {
        for channel in &self.staged {
            if let Some(end) = end_of(&mut self.ends, *channel) {
                end.is_staged = false;
                end.channel.publish(&self.arena);
            }
        }
        self.staged.clear();
    }
}
