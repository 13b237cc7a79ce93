//! The fault injector: wraps any port and drops, duplicates, corrupts and reorders frames
//! in each direction, from a seed.
//!
//! Frames with several segments are segmented first, in both directions, and checksums
//! completed, so that each segment has its own fault and the receiver detects a flipped
//! bit.

use std::io::IoSliceMut;

use crate::check::check;
use crate::frames::{FrameQueue, StoredFrame};
use crate::impair::Dice;
use crate::pass_on::pass_on_to;
use crate::segment::Segmenter;
use crate::{
    Capabilities, FaultCounts, Faults, Port, PortCounters, PortError, RECV_ROOM, RxMeta, TxFrame,
};

/// How many later frames may overtake a reordered one.
const REORDER_DEPTH: u64 = 3;

/// The faults in each direction.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct FaultConfig {
    /// Towards the wire.
    pub tx: Faults,
    /// From the wire.
    pub rx: Faults,
    /// The seed of the random numbers.
    pub seed: u64,
}

/// A frame held back until this many others have passed.
#[derive(Debug)]
struct Held {
    frame: Box<StoredFrame>,
    passes: u64,
}

#[derive(Debug)]
struct Lane {
    dice: Dice,
    ready: FrameQueue,
    held: Vec<Held>,
}

impl Lane {
    fn new(faults: Faults, seed: u64) -> Self {
        Lane {
            dice: Dice::new(faults, seed),
            ready: FrameQueue::default(),
            held: Vec::new(),
        }
    }

    /// Applies a random fault to a frame; the result becomes ready, or is held back.
    fn admit(&mut self, bytes: &[u8], link: usize) {
        let fate = self.dice.roll(bytes.len(), link);
        if fate.lost {
            return;
        }
        let passes = 1 + self.dice.random.below(REORDER_DEPTH);
        for _ in 0..1 + u32::from(fate.duplicated) {
            let mut frame = self.ready.take_empty();
            frame.copy_whole(bytes);
            fate.corrupt(&mut frame.bytes);
            if fate.late {
                self.held.push(Held { frame, passes });
            } else {
                self.ready.push(frame);
            }
        }
        if !fate.late {
            self.let_pass();
        }
    }

    /// One frame has passed the frames that are held back.
    fn let_pass(&mut self) {
        for held in &mut self.held {
            held.passes -= 1;
        }
        while let Some(at) = self.held.iter().position(|h| h.passes == 0) {
            let held = self.held.remove(at);
            self.ready.push(held.frame);
        }
    }

    /// No more frames arrive for now: releases all that are held back.
    fn release(&mut self) {
        for held in self.held.drain(..) {
            self.ready.push(held.frame);
        }
    }
}

/// A port with faults.
#[derive(Debug)]
pub struct FaultPort<P> {
    inner: P,
    capabilities: Capabilities,
    counters: PortCounters,
    tx: Lane,
    rx: Lane,
    buffer: Vec<u8>,
    scratch: Vec<u8>,
}

/// The capabilities with faults: they apply to single segments, so all frames are
/// segmented here, and none arrive merged.
fn shown(under: &Capabilities) -> Capabilities {
    Capabilities {
        tx_checksum: true,
        passes_payload: false,
        rx_checksum: false,
        tso4: true,
        tso6: true,
        uso: true,
        max_gso_bytes: 65_535 + under.link_header_len(),
        big_tcp: None,
        rx_coalesced: false,
        ..*under
    }
}

impl<P: Port> FaultPort<P> {
    /// Wraps `inner`.
    pub fn new(inner: P, config: &FaultConfig) -> Self {
        let capabilities = shown(inner.capabilities());
        FaultPort {
            inner,
            capabilities,
            counters: PortCounters::default(),
            tx: Lane::new(config.tx, config.seed),
            rx: Lane::new(config.rx, config.seed.wrapping_add(0x5eed)),
            buffer: vec![0; RECV_ROOM],
            scratch: Vec::new(),
        }
    }

    /// The faults so far: towards the wire, and from it.
    pub fn fault_counts(&self) -> (FaultCounts, FaultCounts) {
        (self.tx.dice.counts, self.rx.dice.counts)
    }

    /// The port below.
    pub fn inner(&self) -> &P {
        &self.inner
    }

    /// Passes the ready frames to the port below. False if it did not accept all.
    fn push_out(&mut self) -> Result<bool, PortError> {
        while let Some(frame) = self.tx.ready.front() {
            match self.inner.send(&TxFrame::whole(&frame.bytes)) {
                Ok(()) => {}
                Err(PortError::Full) => return Ok(false),
                Err(error) => return Err(error),
            }
            if let Some(frame) = self.tx.ready.pop() {
                self.tx.ready.recycle(frame);
            }
        }
        Ok(true)
    }

    /// Receives the next frame of the port below and applies faults to its segments.
    /// False if there is none.
    fn pull_in(&mut self) -> Result<bool, PortError> {
        let Some(meta) = self.inner.recv(&mut self.buffer)? else {
            return Ok(false);
        };
        let link = self.capabilities.link_header_len();
        match Segmenter::of_received(&self.buffer, &meta, self.capabilities.link) {
            Ok(mut segments) => {
                while segments.next_into(&mut self.scratch) {
                    self.rx.admit(&self.scratch, link);
                }
            }
            Err(_) => self.counters.drops.rx_bad_offload += 1,
        }
        Ok(true)
    }

    fn count_losses(&mut self) {
        self.counters.drops.injected_loss = self.tx.dice.counts.lost + self.rx.dice.counts.lost;
    }
}

impl<P: Port> Port for FaultPort<P> {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn recv_scatter(&mut self, parts: &mut [IoSliceMut<'_>]) -> Result<Option<RxMeta>, PortError> {
        loop {
            while let Some(frame) = self.rx.ready.pop() {
                let got = frame.scatter(parts);
                self.rx.ready.recycle(frame);
                if let Some(meta) = got {
                    self.counters.received(meta.len, false);
                    return Ok(Some(meta));
                }
                self.counters.drops.rx_truncated += 1;
            }
            if !self.pull_in()? {
                if self.rx.held.is_empty() {
                    return Ok(None);
                }
                self.rx.release();
            }
            self.count_losses();
        }
    }

    fn send(&mut self, frame: &TxFrame<'_>) -> Result<(), PortError> {
        let len = check(&self.capabilities, frame)?;
        if !self.push_out()? {
            self.counters.tx_full += 1;
            return Err(PortError::Full);
        }
        let link = self.capabilities.link_header_len();
        let mut segments =
            Segmenter::new(frame, self.capabilities.link).map_err(|_| PortError::BadOffload {
                reason: "the headers are not what the frame claims",
            })?;
        while segments.next_into(&mut self.scratch) {
            self.tx.admit(&self.scratch, link);
        }
        self.count_losses();
        self.counters.sent(len, frame.gso.is_some());
        // Frames that the port below does not accept now wait for the next call.
        self.push_out().map(|_| ())
    }

    fn flush(&mut self) -> Result<(), PortError> {
        self.tx.release();
        self.push_out()?;
        self.inner.flush()
    }

    pass_on_to!(inner);

    fn take_link_events(&mut self) -> bool {
        let changed = self.inner.take_link_events();
        self.capabilities = shown(self.inner.capabilities());
        changed
    }

    fn counters(&self) -> &PortCounters {
        &self.counters
    }
}

#[cfg(test)]
mod tests;
