//! How much an end of a connection between two of our own holds for its host, and when
//! that host is to say what it has read.
//!
//! There is no window, and nothing that probes one: whoever sends waits until the other
//! end's host says that it has read. So it has to say so before the room is used up.

use crate::pair_end::Pair;
use crate::socket::{Kind, Options};
use crate::transfers::Transfers;

/// Bytes that an end holds for its host at least, whatever its SO_RCVBUF: there
/// is no window to be kept small on this path.
const LEAST_ROOM: u64 = 512 * 1024;
/// But no more than this part of the sender's buffer, in sixteenths: less than
/// the third of it that makes a sender writable. So a sender that found its
/// buffer full is writable again when the other end's host has read, and not
/// because bytes have moved behind its back.
const MOST_SIXTEENTHS: u64 = 5;

/// Bytes that an end with these options holds unread of what `sender` sends.
fn whole_room(options: &Options, sender: &Options) -> u64 {
    let most = u64::from(options.receive_buffer).max(LEAST_ROOM);
    most.min(u64::from(sender.send_buffer) * MOST_SIXTEENTHS / 16)
}

impl Pair {
    /// Room for what the other end sends.
    pub(crate) fn room(&self, options: &Options, sender: &Options) -> u64 {
        whole_room(options, sender).saturating_sub(self.rcv.edge() - self.rcv.consumed())
    }
}

impl Transfers<'_> {
    /// The ends of `key`'s connection are there, or the buffer of one is another: the
    /// host of each is to say what it has read when that is a quarter of the room, so
    /// that the other end never waits for what has been read.
    pub(crate) fn apply_reading(&mut self, key: u32) {
        let Some(Kind::Pair(p)) = self.sockets.get(key).map(|s| &s.kind) else {
            return;
        };
        for (reader, sender) in [(key, p.other), (p.other, key)] {
            let Some(sender) = self.sockets.get(sender).map(|s| s.options) else {
                continue;
            };
            let Some(reader) = self.sockets.get_mut(reader) else {
                continue;
            };
            let room = whole_room(&reader.options, &sender).min(u32::MAX.into()) as u32;
            if let Kind::Pair(p) = &mut reader.kind {
                p.room_in_all = room;
            }
            if reader.has_block()
                && let Some(session) = self.sessions.get(reader.session)
            {
                let unreported_limit = (room / 4).max(1);
                session
                    .host
                    .blocks()
                    .set_unreported_limit(reader.id, unreported_limit);
            }
        }
    }
}
