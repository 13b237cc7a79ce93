//! What conventional adapters would have moved for the frames of a run.

use crate::crossing::frames::{Flow, Frame, Segment};
use crate::crossing::rss;
use longshore_bus::{AnyBus, ConventionalAdapter, Driver, MultiQueueAdapter, Queues, Traffic};
use std::collections::HashMap;

/// What a conventional adapter does for its host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offload {
    /// Frames as they are on the wire.
    None,
    /// It cuts what the host sends in one piece of up to 64 KB.
    Segmentation,
    /// It also puts together what it receives.
    Coalescing,
    /// It also has several queues, each of which prefetches descriptors.
    Queues,
}

impl Offload {
    /// All of them, each with the one before it.
    pub const ALL: [Offload; 4] = [
        Offload::None,
        Offload::Segmentation,
        Offload::Coalescing,
        Offload::Queues,
    ];
}

/// The longest IP packet, which bounds what is sent or received in one piece, in bytes.
const LONGEST: u64 = 65_535;
/// The payload of a program lies in pages; none of its pieces goes over the end of one.
const PAGE: u64 = 4096;

/// An adapter by its rings.
#[derive(Debug)]
enum Rings {
    /// One to receive, one to transmit.
    One(ConventionalAdapter),
    /// Several of both.
    Several(MultiQueueAdapter),
}

/// An adapter, and of each of its queues the frame that may become longer.
#[derive(Debug)]
struct Column {
    offload: Offload,
    rings: Rings,
    open: Vec<Option<Frame>>,
}

/// Adapters that are shown the frames of a run.
#[derive(Debug)]
pub struct Replay {
    bus: AnyBus,
    /// The longest IP packet on the wire, in bytes.
    mtu: u64,
    columns: [Column; 4],
    /// Where the stream of each flow began.
    begins: HashMap<Flow, u32>,
}

impl Replay {
    /// Adapters on `bus` with `driver`, one for each of [`Offload::ALL`]; the last has `queues`. An
    /// adapter that cuts what is sent has a descriptor for each piece of it.
    #[must_use]
    pub fn new(bus: AnyBus, driver: Driver, queues: Queues, mtu: u64) -> Self {
        let columns = Offload::ALL.map(|offload| {
            let driver = Driver {
                descriptor_per_piece: offload != Offload::None,
                ..driver
            };
            let rings = match offload {
                Offload::Queues => Rings::Several(MultiQueueAdapter::new(&bus, driver, queues)),
                _ => Rings::One(ConventionalAdapter::new(driver)),
            };
            Column {
                offload,
                open: vec![None; rings.count()],
                rings,
            }
        });
        Replay {
            bus,
            mtu,
            columns,
            begins: HashMap::new(),
        }
    }

    /// A frame passes.
    pub fn frame(&mut self, frame: &Frame) {
        if let Some(segment) = frame.segment {
            if segment.syn {
                self.begins
                    .insert(segment.flow, segment.seq.wrapping_add(1));
            } else {
                self.begins.entry(segment.flow).or_insert(segment.seq);
            }
        }
        for on_wire in cut(frame, self.mtu) {
            for column in &mut self.columns {
                column.frame(&on_wire, &self.bus, &self.begins);
            }
        }
    }

    /// What each has moved since this was asked last, in the order of [`Offload::ALL`].
    pub fn take(&mut self) -> [Traffic; 4] {
        let (bus, begins) = (&self.bus, &self.begins);
        self.columns.each_mut().map(|column| {
            for queue in 0..column.open.len() {
                column.close(queue, bus, begins);
            }
            column.rings.take()
        })
    }
}

impl Rings {
    /// How many queues there are.
    fn count(&self) -> usize {
        match self {
            Rings::One(_) => 1,
            Rings::Several(adapter) => adapter.queues(),
        }
    }

    fn receive(&mut self, bus: &AnyBus, queue: usize, bytes: u64) {
        match self {
            Rings::One(adapter) => adapter.receive(bus, bytes),
            Rings::Several(adapter) => adapter.receive(bus, queue, bytes),
        }
    }

    fn send(&mut self, bus: &AnyBus, queue: usize, pieces: &[u64]) {
        match self {
            Rings::One(adapter) => adapter.send(bus, pieces),
            Rings::Several(adapter) => adapter.send(bus, queue, pieces),
        }
    }

    fn take(&mut self) -> Traffic {
        match self {
            Rings::One(adapter) => adapter.take(),
            Rings::Several(adapter) => adapter.take(),
        }
    }
}

impl Column {
    /// Puts the frame behind the open one of its queue, if the adapter would; else moves that one,
    /// and the new one too if nothing can come behind it.
    fn frame(&mut self, frame: &Frame, bus: &AnyBus, begins: &HashMap<Flow, u32>) {
        let queue = rss::queue_of(frame, self.open.len());
        let open = &mut self.open[queue];
        if let Some(longer) = open.as_ref().and_then(|open| joined(open, frame)) {
            *open = Some(longer);
            return;
        }
        self.close(queue, bus, begins);
        let offloaded = match self.offload {
            Offload::None => false,
            Offload::Segmentation => frame.leaves,
            Offload::Coalescing | Offload::Queues => true,
        };
        if offloaded && frame.segment.is_some_and(|segment| segment.payload > 0) {
            self.open[queue] = Some(*frame);
        } else {
            self.moves(frame, queue, bus, begins);
        }
    }

    /// Moves the open frame of a queue, if there is one.
    fn close(&mut self, queue: usize, bus: &AnyBus, begins: &HashMap<Flow, u32>) {
        if let Some(frame) = self.open[queue].take() {
            self.moves(&frame, queue, bus, begins);
        }
    }

    fn moves(&mut self, frame: &Frame, queue: usize, bus: &AnyBus, begins: &HashMap<Flow, u32>) {
        let rings = &mut self.rings;
        if !frame.leaves {
            rings.receive(bus, queue, frame.bytes);
            return;
        }
        match &frame.segment {
            Some(segment) if segment.payload > 0 => {
                let begin = begins.get(&segment.flow).copied().unwrap_or(segment.seq);
                let offset = u64::from(segment.seq.wrapping_sub(begin));
                rings.send(bus, queue, &pieces(segment, offset));
            }
            _ => rings.send(bus, queue, &[frame.bytes]),
        }
    }
}

/// Where a segment lies in the host's memory: headers, and its payload, which begins at
/// `offset` of its stream, page by page.
fn pieces(segment: &Segment, offset: u64) -> Vec<u64> {
    let mut pieces = vec![segment.headers];
    let (mut at, end) = (offset, offset + segment.payload);
    while at < end {
        let next = (at / PAGE + 1) * PAGE;
        pieces.push(next.min(end) - at);
        at = next.min(end);
    }
    pieces
}

/// Both frames as one, if the second goes on where the first ends, in the same direction of
/// the same connection.
fn joined(first: &Frame, second: &Frame) -> Option<Frame> {
    let (a, b) = (first.segment?, second.segment?);
    let follows = a.seq.wrapping_add(u32::try_from(a.payload).ok()?) == b.seq;
    let fits = first.bytes + b.payload <= LONGEST;
    let same = first.leaves == second.leaves && a.flow == b.flow && a.headers == b.headers;
    (same && follows && fits && b.payload > 0 && !b.syn).then(|| Frame {
        bytes: first.bytes + b.payload,
        segment: Some(Segment {
            payload: a.payload + b.payload,
            ..a
        }),
        ..*first
    })
}

/// The frames that a frame is on the wire, which carries packets of at most `mtu` bytes.
fn cut(frame: &Frame, mtu: u64) -> Vec<Frame> {
    const LINK: u64 = longshore_wire::ethernet::HEADER_LEN as u64;
    let whole = vec![*frame];
    let Some(segment) = frame.segment else {
        return whole;
    };
    let most = (mtu + LINK).saturating_sub(segment.headers);
    if segment.payload <= most || most == 0 {
        return whole;
    }
    let starts = (0..segment.payload).step_by(usize::try_from(most).unwrap_or(usize::MAX));
    let one = |start: u64| {
        let payload = most.min(segment.payload - start);
        Frame {
            bytes: segment.headers + payload,
            segment: Some(Segment {
                seq: segment.seq.wrapping_add(start as u32),
                payload,
                ..segment
            }),
            ..*frame
        }
    };
    starts.map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use longshore_bus::PciX;

    const PCIX: fn() -> AnyBus = || AnyBus::PciX(PciX::default());

    fn replay() -> Replay {
        let mut replay = Replay::new(PCIX(), Driver::e1000(), Queues::default(), 1500);
        // The first batches of empty buffers.
        replay.take();
        replay
    }

    fn frame(leaves: bool, seq: u32, headers: u64, payload: u64) -> Frame {
        let ends = [
            ("10.0.0.1".parse().unwrap(), 80),
            ("10.0.0.2".parse().unwrap(), 9000),
        ];
        Frame {
            leaves,
            bytes: headers + payload,
            segment: Some(Segment {
                flow: if leaves { ends } else { [ends[1], ends[0]] },
                seq,
                syn: headers == 74,
                headers,
                payload,
            }),
        }
    }

    /// The paper's fetch of 1 KB: the frames whose sizes give its receive column, and what a
    /// server sends for them.
    #[test]
    fn the_papers_1_kb() {
        let mut replay = replay();
        for (leaves, seq, headers, payload) in [
            (false, 100, 74, 0),
            (true, 500, 74, 0),
            (false, 101, 66, 0),
            (false, 101, 66, 38),
            (true, 501, 66, 0),
            (true, 501, 66, 1024 + 212),
            (false, 139, 66, 0),
            (true, 1737, 66, 0),
            (false, 139, 66, 0),
            (false, 139, 66, 0),
        ] {
            replay.frame(&frame(leaves, seq, headers, payload));
        }
        let [plain, segmenting, coalescing, queues] = replay.take();
        let received = plain.receive;
        assert_eq!(
            (received.transfers, received.bytes, received.cycles),
            (12, 538, 119)
        );
        // Table 4 has 9, 1,572 and 237: a response header of 212 bytes fits it.
        let sent = plain.send;
        assert_eq!((sent.transfers, sent.bytes), (9, 1572));
        assert!(sent.cycles.abs_diff(237) <= 2, "{}", sent.cycles);
        // Six of a queue's eight buffers are used. To transmit, three batches of 128 bytes: for the
        // SYN, for the acknowledgment with the answer's two descriptors, and for the FIN.
        assert_eq!(queues.receive, plain.receive);
        assert_eq!(
            (
                queues.send.transfers,
                queues.send.bytes,
                queues.send.round_trips
            ),
            (3 + 5, 3 * 128 + 1572 - 4 * 16, 3 + 4)
        );
        // There is nothing to be put together.
        assert_eq!(segmenting.send.transfers, plain.send.transfers);
        assert_eq!(coalescing.receive, plain.receive);
    }

    #[test]
    fn segments_that_follow_each_other_are_one_where_the_adapter_cuts_or_joins_them() {
        for leaves in [true, false] {
            let mut replay = replay();
            for i in 0..10 {
                replay.frame(&frame(leaves, 1 + i * 1448, 66, 1448));
            }
            // One that is sent in the other direction ends the row.
            replay.frame(&frame(!leaves, 1, 66, 0));
            replay.frame(&frame(leaves, 1 + 14_480, 66, 1448));
            let moved = replay
                .take()
                .map(|t| if leaves { t.send } else { t.receive });
            let bytes = moved.map(|tally| tally.bytes);
            if leaves {
                // 11 frames, 11 descriptors, 11 payloads of which 3 go over a page's end.
                assert_eq!(moved[0].transfers, 11 + 11 + 11 + 3);
                // Descriptor, headers and 4 pages; descriptor, headers, payload.
                assert_eq!(moved[1].transfers, 6 + 3);
                assert_eq!(moved[2], moved[1]);
                // Five descriptors and two, each a batch of eight: of two for the pages of the
                // long one, which were read together as well.
                assert_eq!(moved[3].transfers, moved[1].transfers);
                assert_eq!(bytes[3] - bytes[1], 2 * 128 - (5 + 2) * 16);
            } else {
                assert_eq!(moved.map(|t| t.transfers), [22, 22, 4, 4]);
                assert_eq!(bytes[1] - bytes[2], 9 * (66 + 16));
            }
            assert!(bytes[0] >= bytes[1] && bytes[1] >= bytes[2]);
        }
    }

    #[test]
    fn neither_a_gap_nor_64_kb_are_joined() {
        let count = |frames: &[Frame]| {
            let mut replay = replay();
            frames.iter().for_each(|f| replay.frame(f));
            replay.take()[2].receive.transfers
        };
        let first = frame(false, 1, 66, 1000);
        assert_eq!(count(&[first, frame(false, 1001, 66, 5)]), 2);
        assert_eq!(count(&[first, frame(false, 1002, 66, 5)]), 4);
        assert_eq!(count(&[first, first]), 4);
        let many: Vec<_> = (0..46)
            .map(|i| frame(false, 1 + i * 1448, 66, 1448))
            .collect();
        assert_eq!(count(&many[..45]), 2);
        assert_eq!(count(&many), 4);
    }

    #[test]
    fn a_frame_that_the_port_cuts_is_cut() {
        let long = frame(true, 1, 66, 65_000);
        let on_wire = cut(&long, 1500);
        assert_eq!(on_wire.len(), 45);
        assert_eq!(on_wire[0].bytes, 1514);
        assert_eq!(on_wire[44].segment.unwrap().seq, 1 + 44 * 1448);
        assert_eq!(on_wire.iter().map(|f| f.bytes - 66).sum::<u64>(), 65_000);
        assert_eq!(cut(&frame(true, 1, 66, 1448), 1500).len(), 1);
        assert_eq!(cut(&long, 50), [long]);
    }

    #[test]
    fn payload_lies_in_pages() {
        let segment = |payload| frame(true, 1, 66, payload).segment.unwrap();
        assert_eq!(pieces(&segment(100), 0), [66, 100]);
        assert_eq!(pieces(&segment(100), 4000), [66, 96, 4]);
        assert_eq!(pieces(&segment(9000), 4095), [66, 1, 4096, 4096, 807]);
    }
}
