//! What the hostile program writes to the memory that it shares with the stack: streams as if it
//! kept to the rules, in chunks that it has not taken, and words anywhere.

use super::super::single::Single;
use super::Hostile;
use longshore_hostif::{CHUNK, EdgeFlags, HostSession, LEAST_FORWARD, Request};
use std::sync::atomic::Ordering;

impl Hostile {
    /// Writes to chunks that it has not taken, or what it may, or ranges of a file that is
    /// shorter by now. It takes no lock, since it may have spoiled that.
    pub(super) fn write(&mut self, single: &mut Single) {
        let socket = self.socket();
        let Some(block) = self.arena.get_block(socket.index) else {
            return;
        };
        let edge = block.snd.edge.load(Ordering::Relaxed);
        let len = 1 + self.numbers.below(3 * CHUNK as u64);
        let end = edge.saturating_add(len);
        let host = HostSession::of(&self.arena);
        let file = host.hold_file(self.file.1);
        let mut at = edge;
        while at < end {
            let (number, within) = (at / CHUNK as u64, (at % CHUNK as u64) as usize);
            let part = (CHUNK - within).min((end - at) as usize);
            let chunk = self.numbers.below(70) as u32;
            let entry = self.arena.snd_directory(socket.index).entry(number);
            entry.store(chunk, Ordering::Release);
            if let Some(file) = file.as_ref().filter(|_| self.numbers.below(2) == 0) {
                let offset = self.numbers.below(file.len().max(1));
                let span = (number, within, part);
                let _ = host.ranges(socket.index).write(span, file, offset);
            }
            at += part as u64;
        }
        drop(file);
        block.snd.edge.store(end, Ordering::Release);
        self.ask(
            single,
            &Request::Edges {
                socket,
                snd_edge: end,
                rcv_consumed: 0,
                flags: EdgeFlags::PUSH,
                immediate: 0,
            },
        );
    }

    /// Has one of its connections send what another, or it itself, has received and nobody has
    /// read, as a program does that keeps to the rules; where that is written it has not taken.
    pub(super) fn forward(&mut self, single: &mut Single) {
        let keys = (0..64).filter_map(|index| {
            single
                .stack
                .endpoints
                .sessions
                .socket_of(self.session, index)
        });
        let keys: Vec<u32> = keys.collect();
        if keys.is_empty() {
            return;
        }
        let [source, sink] = [(); 2].map(|()| self.numbers.pick(&keys));
        let read = single
            .stack
            .endpoints
            .sockets
            .get(source)
            .map_or(0, |s| s.read_by_host(&single.stack.endpoints.sessions));
        let socket = |key| single.stack.endpoints.sockets.get(key);
        let (Some(source), Some(sink)) = (socket(source), socket(sink)) else {
            return;
        };
        let (source_id, sink_id, sent) = (source.id, sink.id, sink.kind.snd_edge());
        let edge = source.kind.received().map_or(0, |(_, edge)| edge);
        let len = edge.saturating_sub(read).min(100_000);
        if len < LEAST_FORWARD || len + sent > 1 << 40 {
            return;
        }
        for number in sent / CHUNK as u64..=(sent + len) / CHUNK as u64 {
            let chunk = self.numbers.below(64) as u32;
            let entry = self.arena.snd_directory(sink_id.index).entry(number);
            entry.store(chunk, Ordering::Release);
        }
        let host = HostSession::of(&self.arena);
        let ranges = host.ranges(sink_id.index);
        let _ = ranges.write_forwarded(sent, (source_id.index, read), len as usize);
        self.ask(
            single,
            &Request::Forward {
                socket: sink_id,
                snd_edge: sent + len,
                rcv_consumed: 0,
                flags: EdgeFlags::PUSH,
                source: source_id,
                from: read,
                to: read + len,
            },
        );
    }

    /// Writes to a connection of its own what it can be lent.
    pub(super) fn lend(&mut self, single: &mut Single) {
        let Some(socket) = self.within else { return };
        let key = single
            .stack
            .endpoints
            .sessions
            .socket_of(self.session, socket.index);
        let sent =
            key.and_then(|key| Some(single.stack.endpoints.sockets.get(key)?.kind.snd_edge()));
        let Some(sent) = sent.filter(|sent| *sent < 1 << 40) else {
            return;
        };
        let len = 40_000;
        for number in sent / CHUNK as u64..=(sent + len) / CHUNK as u64 {
            let entry = self.arena.snd_directory(socket.index).entry(number);
            entry.store(self.numbers.below(64) as u32, Ordering::Release);
        }
        self.ask(
            single,
            &Request::Edges {
                socket,
                snd_edge: sent + len,
                rcv_consumed: 0,
                flags: EdgeFlags::PUSH,
                immediate: 0,
            },
        );
    }

    /// Overwrites a word or a few bytes of what it shares, mostly where the stack looks.
    pub(super) fn scribble(&mut self) {
        let base = std::ptr::from_ref(self.arena.header()).addr();
        let of = |place: usize| (place - base) as u64;
        let slab = self.arena.snd_place(0, 0, 1).expect("a chunk") as u64;
        let index = self.numbers.below(6) as u32;
        let entry = self.numbers.below(260);
        let (start, len) = match self.numbers.below(6) {
            0 => (0, 4_096),
            1 => (
                of(std::ptr::from_ref(self.arena.control(0)).addr()),
                64 * 1_024,
            ),
            2 => (of(std::ptr::from_ref(self.arena.block(index)).addr()), 512),
            3 => (
                of(std::ptr::from_ref(self.arena.snd_directory(index).entry(entry)).addr()),
                32,
            ),
            4 => (slab, 4 * CHUNK as u64),
            _ => (0, slab),
        };
        let at = start + self.numbers.below(len / 8) * 8;
        let word = match self.numbers.below(5) {
            0 => u64::MAX,
            1 => self.numbers.below(256),
            2 => self.numbers.below(1 << 32),
            3 => (1 << 31 | self.numbers.below(1 << 31)) << 32 | self.numbers.below(64),
            _ => self.numbers.below(u64::MAX),
        };
        if at as usize + 8 <= self.arena.memory().len() {
            self.arena.memory().write(at as usize, &word.to_ne_bytes());
        }
    }
}
