//! An observer of what crosses, slow and independent of the meter: it compares a session's
//! memory before and after, and knows of it what the inventory of the interface says.
//!
//! Owns [`Observer`]. A machine that is observed shows it its memory after each turn of the
//! stack and after each step of the program. It holds for each of the two that nothing was
//! written that is the other's, and adds up what crossed to the host.

use longshore_hostif::inventory::{Metered, Place, Sides, place_of};
use longshore_hostif::{
    Arena, CHUNK, Completion, Crossings, DESCRIPTOR_BYTES, Descriptors, HostSession, Moved, RING,
    Request, SocketBlock, SocketId,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

const PAGE: usize = 4096;

/// What was seen to cross.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// Descriptors to the adapter, and to the host.
    pub(super) to_adapter: Descriptors,
    pub(super) to_host: Descriptors,
    /// Words that were told beside the latter.
    pub(super) control: Moved,
    /// Records of ranges in send streams that no descriptor told of.
    pub(super) records: Moved,
}

impl Seen {
    /// What of the descriptors was some socket's.
    fn add_descriptors(&mut self, other: &Self) {
        self.to_adapter.add(&other.to_adapter);
        self.to_host.add(&other.to_host);
    }
}

/// A descriptor in slot `at` of its ring, with so many slots and bytes of payload behind its
/// own, of a batch that begins in slot `first`. Its bytes are counted elsewhere.
fn descriptor(at: u32, first: u32, slots: u32, immediate: u64) -> Descriptors {
    // What goes on at the ring's beginning is another piece.
    let begins =
        (at..=at + slots).filter(|slot| *slot == first || slot.is_multiple_of(RING as u32));
    Descriptors {
        transfers: begins.count() as u64,
        count: 1,
        bytes: 0,
        immediate,
    }
}

/// The words of a request and its immediate data, and the bytes of that, as the document has them.
fn words_of_request(message: &[u64; 8]) -> (u64, u64) {
    let (words, immediate) = match message[0] & 0xff {
        16 | 17 => (3, message[2] >> 48),
        5 => (4, message[0] >> 32),
        18 => (4, 0),
        2 | 4 | 6 | 13 => (5, 0),
        1 | 3 | 8 => (3, 0),
        7 | 11 => (4, 0),
        15 => (7, 0),
        9 | 10 | 12 | 14 => (2, 0),
        other => panic!("a request of kind {other}"),
    };
    (words + immediate.div_ceil(8), immediate)
}

/// Sees what is written to the memory of a session.
pub(super) struct Observer {
    arena: Arc<Arena>,
    /// Where the pages begin that are compared: all but payload, which is added up by the
    /// edges, and the rings of channels that nobody has.
    pages: Vec<usize>,
    before: Vec<u8>,
    now: Vec<u8>,
    /// Where the rings of completions begin, and how many were published of each channel.
    rings: usize,
    published: BTreeMap<usize, u32>,
    pub(super) seen: Seen,
    /// Where it is said how many requests there are and whether they were claimed, where the first
    /// request slot is, and how many were seen, modulo 2^32.
    requests: usize,
    first_slot: usize,
    requested: u32,
    /// How far the streams of each socket reached, as its host said and as it was told.
    edges: BTreeMap<(u32, u32), (u64, u64)>,
    /// What of the descriptors was about each socket.
    by_socket: BTreeMap<(u32, u32), Seen>,
    /// Words that crossed and were not counted, by the names of their parts and their own.
    pub(super) uncounted: BTreeSet<(&'static str, &'static str)>,
}

impl Observer {
    /// Of what crosses from now on; `before` is what went to the host until now: routes, and
    /// what sockets begin with.
    pub(super) fn new(arena: Arc<Arena>, before: Crossings) -> Self {
        let payload = arena.snd_place(0, 0, 0).unwrap();
        let is_used = |at: &usize| match place_of(arena.geometry(), *at) {
            Some(place) if place.word.metered == Metered::Descriptor => place.index < RING,
            _ => true,
        };
        let is_ring = |at: &usize| {
            place_of(arena.geometry(), *at).is_some_and(|place| place.part == "completion")
        };
        let is_requests = |at: &usize| {
            place_of(arena.geometry(), *at).is_some_and(|place| {
                let word = (place.part, place.word.name, place.word.written);
                word == ("channel control", "published", Sides::HOST | Sides::ADAPTER)
            })
        };
        let requests = (0..payload).step_by(8).find(is_requests);
        let rings = (0..payload).step_by(PAGE).find(is_ring);
        let mut observer = Self {
            requests: requests.expect("each channel has the word"),
            rings: rings.expect("rings begin on pages of their own"),
            published: BTreeMap::new(),
            pages: (0..payload).step_by(PAGE).filter(is_used).collect(),
            before: vec![0; payload],
            now: vec![0; payload],
            first_slot: (0..payload)
                .step_by(DESCRIPTOR_BYTES)
                .find(|at| place_of(arena.geometry(), *at).is_some_and(|p| p.part == "request"))
                .unwrap(),
            requested: HostSession::of(&arena).requested(0),
            arena,
            seen: Seen {
                control: before.control,
                ..Seen::default()
            },
            edges: BTreeMap::new(),
            by_socket: BTreeMap::new(),
            uncounted: BTreeSet::new(),
        };
        observer.read();
        std::mem::swap(&mut observer.before, &mut observer.now);
        observer
    }

    fn read(&mut self) {
        for at in &self.pages {
            let page = &mut self.now[*at..at + PAGE];
            self.arena.memory().read(*at, page);
        }
    }

    /// The words that are others than when it was asked last, each once.
    fn written(&mut self) -> Vec<Place> {
        self.read();
        let mut all: Vec<Place> = Vec::new();
        for page in &self.pages {
            let others = (*page..page + PAGE).filter(|at| self.before[*at] != self.now[*at]);
            for at in others {
                let place = place_of(self.arena.geometry(), at);
                let place = place.expect("nobody writes between the words");
                if all.last().is_none_or(|last| last.begins != place.begins) {
                    all.push(place);
                }
            }
        }
        std::mem::swap(&mut self.before, &mut self.now);
        all
    }

    /// The message that is in a slot now.
    fn message(&self, slot: usize) -> [u64; 8] {
        let slot = &self.before[slot..slot + DESCRIPTOR_BYTES];
        std::array::from_fn(|i| {
            let word: [u8; 8] = std::array::from_fn(|at| slot[i * 8 + at]);
            u64::from_ne_bytes(word)
        })
    }

    fn reach(&mut self, socket: SocketId, sent: u64, received: u64) {
        let reached = self.edges.entry((socket.index, socket.generation));
        let (snd, rcv) = reached.or_default();
        (*snd, *rcv) = ((*snd).max(sent), (*rcv).max(received));
    }

    /// Bytes that the streams have carried to the adapter, and to the host.
    pub(super) fn payload(&self) -> (u64, u64) {
        let all = self.edges.values();
        all.fold((0, 0), |sum, (snd, rcv)| (sum.0 + snd, sum.1 + rcv))
    }

    /// The program has had a step.
    pub(super) fn note_step(&mut self) {
        for place in self.written() {
            assert!(place.word.written.contains(Sides::HOST), "{place:?}");
        }
    }

    /// Descriptors were seen that are about a socket.
    fn note_descriptors(&mut self, socket: SocketId, seen: &Seen) {
        self.seen.add_descriptors(seen);
        let name = (socket.index, socket.generation);
        self.by_socket
            .entry(name)
            .or_default()
            .add_descriptors(seen);
    }

    /// The descriptors that were about a socket.
    pub(super) fn of_socket(&self, socket: SocketId) -> Seen {
        let seen = self.by_socket.get(&(socket.index, socket.generation));
        seen.copied().unwrap_or_default()
    }

    /// The stack has taken all requests that there are, or none as they are not yet to be fetched.
    fn note_requests(&mut self) {
        let word: [u8; 8] = *self.before[self.requests..].first_chunk().unwrap();
        let is_claimed = u64::from_ne_bytes(word) >> 32 & 1 != 0;
        if !is_claimed {
            return;
        }
        let published = HostSession::of(&self.arena).requested(0);
        let first = self.requested;
        while self.requested != published {
            let at = self.requested;
            let slot = at as usize % RING;
            let message = self.message(self.first_slot + slot * DESCRIPTOR_BYTES);
            let request = Request::decode(&message).unwrap();
            self.note_records(&request);
            if let Request::Edges {
                socket, snd_edge, ..
            }
            | Request::SendFile {
                socket, snd_edge, ..
            }
            | Request::Forward {
                socket, snd_edge, ..
            }
            | Request::Close {
                socket, snd_edge, ..
            } = request
            {
                self.reach(socket, snd_edge, 0);
            }
            let (words, immediate) = words_of_request(&message);
            let slots = words.div_ceil(8) as u32;
            self.requested = at.wrapping_add(slots);
            let mut to_adapter = descriptor(at, first, slots - 1, immediate);
            // All slots that were published, but for the end of the last.
            to_adapter.bytes = match self.requested == published {
                true => 8 * words,
                false => 64 * u64::from(slots),
            };
            let seen = Seen {
                to_adapter,
                ..Seen::default()
            };
            self.note_descriptors(request.socket(), &seen);
        }
    }

    /// A request has a send stream go on: which records of ranges have to be read for that.
    fn note_records(&mut self, request: &Request) {
        let (socket, edge, reported) = match *request {
            Request::Edges {
                socket, snd_edge, ..
            } => (socket, snd_edge, 0),
            Request::SendFile {
                socket,
                snd_edge,
                extent,
                ..
            } => (socket, snd_edge, extent.len),
            _ => return,
        };
        let known = self.edges.get(&(socket.index, socket.generation));
        let from = known.map_or(0, |(sent, _)| *sent);
        let unknown = from..edge - u64::from(reported);
        let records = self.records(socket.index, from..edge);
        let count = records.iter().filter(|at| unknown.contains(at)).count() as u64;
        self.seen.records.add(&Moved::equal(count, 24));
    }

    /// Where the ranges begin that the chunks of a send stream have records of, as the document has
    /// them.
    fn records(&self, index: u32, stream: std::ops::Range<u64>) -> Vec<u64> {
        let chunk_len = CHUNK as u64;
        let mut found = Vec::new();
        for number in stream.start / chunk_len..stream.end.div_ceil(chunk_len) {
            let directory = self.arena.snd_directory(index);
            let entry = directory.entry(number).load(Ordering::Relaxed);
            let mut place = (entry >> 31 != 0).then_some((entry >> 19 & 0xfff) as usize * 16);
            while let Some(at) = place {
                let mut record = [0; 24];
                let at = self.arena.snd_place(entry & 0x7_ffff, at, 24).unwrap();
                self.arena.memory().read(at, &mut record);
                let word = |at: usize| u32::from_le_bytes(*record[at..].first_chunk().unwrap());
                found.push(number * chunk_len + u64::from(word(0)));
                place = (word(8) != 0).then_some(word(8) as usize);
            }
        }
        found.retain(|at| stream.contains(at));
        found
    }

    /// Completions were published: all from the last that was known on.
    fn note_completions(&mut self, published: &Place) {
        let word = self.before[published.begins..].first_chunk();
        let end = u64::from_ne_bytes(*word.unwrap()) as u32;
        let channel = published.index;
        let first = self.published.insert(channel, end).unwrap_or(0);
        let (mut at, mut unwritten) = (first, 0);
        while at != end {
            let slot = channel * RING + at as usize % RING;
            let message = self.message(self.rings + slot * DESCRIPTOR_BYTES);
            let (words, len) = self.note_completion(&message);
            let slots = words.div_ceil(8) as u32 - 1;
            let socket = SocketId {
                index: message[1] as u32,
                generation: (message[1] >> 32) as u32,
            };
            let mut to_host = descriptor(at, first, slots, len);
            // What is written side by side begins anew with the ring.
            let goes_on = at != first && !at.is_multiple_of(RING as u32);
            to_host.bytes = 8 * words + if goes_on { unwritten } else { 0 };
            unwritten = 64 * (1 + u64::from(slots)) - 8 * words;
            let seen = Seen {
                to_host,
                ..Seen::default()
            };
            self.note_descriptors(socket, &seen);
            at = at.wrapping_add(1 + slots);
        }
    }

    /// A completion; how many words it has and how many bytes of payload are in it, as the document
    /// has it.
    fn note_completion(&mut self, message: &[u64; 8]) -> (u64, u64) {
        if message[0] & 0xff == 68 {
            let len = message[2] >> 32 & 0x7ff;
            let socket = SocketId {
                index: message[1] as u32,
                generation: (message[1] >> 32) as u32,
            };
            self.reach(socket, 0, message[0] >> 16);
            return ((24 + len).div_ceil(8), len);
        }
        if let Completion::Edges { socket, edges } = Completion::decode(message).unwrap() {
            self.reach(socket, 0, edges.rcv_edge);
        }
        let words = match message[0] & 0xff {
            65 => 7,
            66 => 6,
            67 => 1,
            69 | 70 => 3,
            other => panic!("a completion of kind {other}"),
        };
        (words, 0)
    }

    /// The stack has had a turn.
    pub(super) fn note_turn(&mut self) {
        let all = self.written();
        self.note_requests();
        // A block that is begun is written whole, at once.
        let begun: BTreeSet<usize> = all
            .iter()
            .filter(|place| (place.part, place.word.name) == ("socket block", "generation"))
            .map(|place| place.index)
            .collect();
        let blocks = begun.len();
        let bytes = size_of::<SocketBlock>() as u64;
        self.seen.control.add(&Moved::equal(blocks as u64, bytes));
        for place in all {
            let word = place.word;
            assert!(word.written.contains(Sides::ADAPTER), "{place:?}");
            if place.part == "socket block" && begun.contains(&place.index) {
                continue;
            }
            match word.metered {
                Metered::Descriptor => {}
                Metered::Transfer => {
                    self.seen.control.add(&Moved::one(word.len as u64));
                }
                Metered::Along if word.name == "published" && word.written == Sides::ADAPTER => {
                    self.note_completions(&place);
                }
                Metered::Along => {}
                Metered::Nowhere => {
                    self.uncounted.insert((place.part, word.name));
                }
                Metered::Payload | Metered::Inside | Metered::Before => {
                    panic!("it does not cross: {place:?}")
                }
            }
        }
    }
}
