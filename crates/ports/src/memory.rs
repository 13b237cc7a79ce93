//! The memory wire: two ports of one process, connected by two bounded queues, without
//! system calls. For tests and benchmarks of all layers above.

use std::io::IoSliceMut;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::check::check;
use crate::frames::{FrameQueue, StoredFrame};
use crate::{
    BigTcp, Capabilities, LinkKind, Port, PortCounters, PortError, RecvBuffer, RxMeta, TxFrame,
};

/// The parameters of a memory wire.
#[derive(Debug, Clone, Copy)]
pub struct MemoryConfig {
    /// Largest IP packet in bytes.
    pub mtu: usize,
    /// Whether the wire passes partial checksums and unsegmented frames, as a TAP with
    /// the virtio-net header does, or accepts finished frames only.
    pub offloads: bool,
    /// Frames that each direction holds before `send` returns `Full`.
    pub depth: usize,
    /// Ethernet frames, or bare IP packets.
    pub ethernet: bool,
    /// Longer frames that the wire passes, if it has offloads.
    pub big_tcp: Option<BigTcp>,
}

impl Default for MemoryConfig {
    fn default() -> Self {
        MemoryConfig {
            mtu: 1500,
            offloads: true,
            depth: 256,
            ethernet: true,
            big_tcp: None,
        }
    }
}

/// The hardware address of end 1 or 2 of a memory or simulated wire.
pub(crate) fn mac_of(end: u8) -> [u8; 6] {
    [0x02, b'L', b'S', 0, 0, end]
}

/// One end of a memory wire.
#[derive(Debug)]
pub struct MemoryPort {
    capabilities: Capabilities,
    counters: PortCounters,
    depth: usize,
    incoming: Arc<Lane>,
    outgoing: Arc<Lane>,
}

/// One direction of a wire.
#[derive(Debug, Default)]
struct Lane {
    frames: Mutex<FrameQueue>,
    /// How many frames there are, changed under the lock: a look that finds none takes no lock.
    waiting: AtomicUsize,
}

impl Lane {
    fn lock(&self) -> MutexGuard<'_, FrameQueue> {
        // A queue is consistent between any two statements, so a panic does no harm.
        self.frames.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_waiting(&self, frames: &FrameQueue) {
        self.waiting.store(frames.len(), Ordering::Release);
    }

    fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Acquire)
    }
}

/// A wire's two ends.
pub fn pair(config: &MemoryConfig) -> (MemoryPort, MemoryPort) {
    let (one, two) = (Arc::<Lane>::default(), Arc::<Lane>::default());
    (
        MemoryPort::new(config, 1, one.clone(), two.clone()),
        MemoryPort::new(config, 2, two, one),
    )
}

impl MemoryPort {
    fn new(config: &MemoryConfig, end: u8, incoming: Arc<Lane>, outgoing: Arc<Lane>) -> Self {
        let link = if config.ethernet {
            LinkKind::Ethernet { mac: mac_of(end) }
        } else {
            LinkKind::Ip
        };
        let all = Capabilities {
            link,
            mtu: config.mtu,
            tx_checksum: true,
            passes_payload: false,
            rx_checksum: true,
            tso4: true,
            tso6: true,
            uso: true,
            max_gso_bytes: 65_535 + if config.ethernet { 14 } else { 0 },
            big_tcp: config.big_tcp,
            rx_coalesced: true,
        };
        MemoryPort {
            capabilities: if config.offloads {
                all
            } else {
                all.without_offloads()
            },
            counters: PortCounters::default(),
            depth: config.depth,
            incoming,
            outgoing,
        }
    }

    /// Frames that wait to be received at this end.
    pub fn waiting(&self) -> usize {
        self.incoming.waiting()
    }

    fn other_end_is_gone(&self) -> bool {
        Arc::strong_count(&self.incoming) == 1
    }

    /// Receives the first frame for which `copy` has room. A look that finds nothing, as each
    /// turn's last does, costs no more than that.
    #[inline]
    fn recv_by(
        &mut self,
        copy: impl FnMut(&StoredFrame) -> Option<RxMeta>,
    ) -> Result<Option<RxMeta>, PortError> {
        if self.incoming.waiting() == 0 {
            return self.found_none();
        }
        self.recv_waiting(copy)
    }

    #[inline(never)]
    fn recv_waiting(
        &mut self,
        mut copy: impl FnMut(&StoredFrame) -> Option<RxMeta>,
    ) -> Result<Option<RxMeta>, PortError> {
        loop {
            let mut frames = self.incoming.lock();
            let Some(frame) = frames.pop() else {
                return self.found_none();
            };
            self.incoming.note_waiting(&frames);
            let got = copy(&frame);
            frames.recycle(frame);
            if let Some(meta) = got {
                self.counters.received(meta.len, meta.gso.is_some());
                return Ok(Some(meta));
            }
            self.counters.drops.rx_truncated += 1;
        }
    }

    #[inline]
    fn found_none(&self) -> Result<Option<RxMeta>, PortError> {
        if self.other_end_is_gone() {
            return Err(PortError::Down);
        }
        Ok(None)
    }
}

impl Port for MemoryPort {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn recv_scatter(&mut self, parts: &mut [IoSliceMut<'_>]) -> Result<Option<RxMeta>, PortError> {
        self.recv_by(|frame| frame.scatter(parts))
    }

    fn recv_single(&mut self, buffer: &mut RecvBuffer) -> Result<Option<RxMeta>, PortError> {
        self.recv_by(|frame| frame.copy_to(buffer.room()))
    }

    fn send(&mut self, frame: &TxFrame<'_>) -> Result<(), PortError> {
        let len = check(&self.capabilities, frame)?;
        if self.other_end_is_gone() {
            return Err(PortError::Down);
        }
        let mut queue = self.outgoing.lock();
        if queue.len() >= self.depth {
            self.counters.tx_full += 1;
            return Err(PortError::Full);
        }
        let mut stored = queue.take_empty();
        stored.copy_tx(frame);
        queue.push(stored);
        self.outgoing.note_waiting(&queue);
        self.counters.sent(len, frame.gso.is_some());
        Ok(())
    }

    fn counters(&self) -> &PortCounters {
        &self.counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Gso, GsoKind, RxChecksum, TxChecksum, TxGso};
    use std::io::IoSlice;

    #[test]
    fn frames_arrive_in_order_with_what_was_said_of_them() {
        let (mut a, mut b) = pair(&MemoryConfig::default());
        let payload = [7u8; 4000];
        let frame = TxFrame {
            headers: &[1; 66],
            payload: &[
                IoSlice::new(&payload[..1000]),
                IoSlice::new(&payload[1000..]),
            ],
            checksum: Some(TxChecksum {
                start: 34,
                offset: 16,
            }),
            gso: Some(TxGso {
                kind: GsoKind::Tcp4,
                size: 1448,
                header_len: 66,
            }),
        };
        a.send(&frame).unwrap();
        a.send(&TxFrame::whole(&[9; 60])).unwrap();
        let (mut head, mut body) = ([0; 66], [0; 5000]);
        let mut parts = [IoSliceMut::new(&mut head), IoSliceMut::new(&mut body)];
        let meta = b.recv_scatter(&mut parts).unwrap().unwrap();
        assert_eq!(
            meta,
            RxMeta {
                len: 4066,
                checksum: RxChecksum::Partial {
                    start: 34,
                    offset: 16
                },
                gso: Some(Gso {
                    kind: GsoKind::Tcp4,
                    size: 1448
                }),
            }
        );
        assert_eq!(head, [1; 66]);
        assert_eq!(body[..4000], payload);
        let meta = b.recv(&mut body).unwrap().unwrap();
        assert_eq!((meta.len, body[0]), (60, 9));
        assert_eq!(b.recv(&mut body), Ok(None));
        assert_eq!(b.counters().rx_gso_frames, 1);
        assert_eq!(a.counters().tx_bytes, 4126);
    }

    #[test]
    fn a_full_wire_pushes_back() {
        let (mut a, mut b) = pair(&MemoryConfig {
            depth: 2,
            ..Default::default()
        });
        let frame = TxFrame::whole(&[0; 60]);
        a.send(&frame).unwrap();
        a.send(&frame).unwrap();
        assert_eq!(a.send(&frame), Err(PortError::Full));
        b.recv(&mut [0; 100]).unwrap().unwrap();
        a.send(&frame).unwrap();
        assert_eq!(a.counters().tx_full, 1);
    }

    #[test]
    fn a_wire_without_offloads_takes_finished_frames_alone() {
        let (mut a, _b) = pair(&MemoryConfig {
            offloads: false,
            ..Default::default()
        });
        let frame = TxFrame {
            checksum: Some(TxChecksum {
                start: 34,
                offset: 16,
            }),
            ..TxFrame::whole(&[0; 60])
        };
        assert!(matches!(a.send(&frame), Err(PortError::BadOffload { .. })));
        assert!(matches!(
            a.send(&TxFrame::whole(&[0; 1515])),
            Err(PortError::TooLong { .. })
        ));
        a.send(&TxFrame::whole(&[0; 1514])).unwrap();
    }

    #[test]
    fn frames_come_to_a_buffer_for_one_as_they_come_to_parts() {
        let (mut a, mut b) = pair(&MemoryConfig::default());
        let mut buffer = RecvBuffer::new();
        assert_eq!(b.recv_single(&mut buffer), Ok(None));
        for len in [60, 1514] {
            a.send(&TxFrame::whole(&vec![len as u8; len])).unwrap();
        }
        assert_eq!(b.waiting(), 2);
        for len in [60, 1514] {
            let meta = b.recv_single(&mut buffer).unwrap().unwrap();
            assert_eq!((meta.len, meta.checksum), (len, RxChecksum::Unknown));
            assert_eq!(buffer.frame(meta.len), vec![len as u8; len]);
        }
        assert_eq!((b.waiting(), b.counters().rx_bytes), (0, 1574));
        // What is longer than the room for it is dropped and counted, and the next received.
        for len in [100, 60] {
            a.send(&TxFrame::whole(&vec![1; len])).unwrap();
        }
        assert_eq!(b.recv(&mut [0; 60]).unwrap().unwrap().len, 60);
        assert_eq!(b.counters().drops.rx_truncated, 1);
    }

    #[test]
    fn what_was_sent_before_the_end_left_is_still_received() {
        let (mut a, mut b) = pair(&MemoryConfig::default());
        a.send(&TxFrame::whole(&[0; 60])).unwrap();
        drop(a);
        assert!(b.recv(&mut [0; 100]).unwrap().is_some());
        assert_eq!(b.recv(&mut [0; 100]), Err(PortError::Down));
        assert_eq!(b.send(&TxFrame::whole(&[0; 60])), Err(PortError::Down));
    }
}
