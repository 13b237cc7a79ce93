//! Software offload: stands on a port that lacks segmentation or checksum
//! completion and does them, so that everything above may rely on both.

use std::io::IoSliceMut;

use crate::check::check;
use crate::frames::FrameQueue;
use crate::segment::Segmenter;
use crate::{Capabilities, Port, PortCounters, PortError, RxMeta, TxFrame};

/// A port that segments and completes checksums, whatever the one below can do.
#[derive(Debug)]
pub struct SoftOffload<P> {
    inner: P,
    capabilities: Capabilities,
    counters: PortCounters,
    /// Segments that the port below had no room for.
    backlog: FrameQueue,
    scratch: Vec<u8>,
}

/// What a port can do with us on it.
fn completed(under: &Capabilities) -> Capabilities {
    Capabilities {
        tx_checksum: true,
        tso4: true,
        tso6: true,
        uso: true,
        max_gso_bytes: 65_535 + under.link_header_len(),
        ..*under
    }
}

impl<P: Port> SoftOffload<P> {
    /// Stands on `inner`.
    pub fn new(inner: P) -> Self {
        SoftOffload {
            capabilities: completed(inner.capabilities()),
            inner,
            counters: PortCounters::default(),
            backlog: FrameQueue::default(),
            scratch: Vec::new(),
        }
    }

    /// The port below.
    pub fn inner(&self) -> &P {
        &self.inner
    }

    fn inner_does(&self, frame: &TxFrame<'_>) -> bool {
        let under = self.inner.capabilities();
        frame.gso.is_none_or(|gso| under.segments(gso.kind))
            && (frame.checksum.is_none() || under.tx_checksum)
    }

    /// Hands the backlog to the port below. False if it took not all.
    fn push_out(&mut self) -> Result<bool, PortError> {
        while let Some(frame) = self.backlog.front() {
            match self.inner.send(&TxFrame::whole(&frame.bytes)) {
                Ok(()) => {}
                Err(PortError::Full) => return Ok(false),
                Err(error) => return Err(error),
            }
            if let Some(frame) = self.backlog.pop() {
                self.backlog.recycle(frame);
            }
        }
        Ok(true)
    }

    fn send_cut(&mut self, frame: &TxFrame<'_>) -> Result<(), PortError> {
        let mut segments =
            Segmenter::new(frame, self.capabilities.link).map_err(|_| PortError::BadOffload {
                reason: "the headers are not what the frame claims",
            })?;
        let mut first = true;
        while segments.next_into(&mut self.scratch) {
            let sent = if self.backlog.is_empty() {
                self.inner.send(&TxFrame::whole(&self.scratch))
            } else {
                Err(PortError::Full)
            };
            match sent {
                Ok(()) => {}
                // Nothing has gone yet, so the caller can keep it all.
                Err(PortError::Full) if first => return Err(PortError::Full),
                Err(PortError::Full) => {
                    let mut later = self.backlog.take_empty();
                    later.copy_whole(&self.scratch);
                    self.backlog.push(later);
                }
                Err(error) => return Err(error),
            }
            first = false;
        }
        Ok(())
    }
}

impl<P: Port> Port for SoftOffload<P> {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn recv_scatter(&mut self, parts: &mut [IoSliceMut<'_>]) -> Result<Option<RxMeta>, PortError> {
        let got = self.inner.recv_scatter(parts)?;
        if let Some(meta) = got {
            self.counters.received(meta.len, meta.gso.is_some());
        }
        Ok(got)
    }

    fn send(&mut self, frame: &TxFrame<'_>) -> Result<(), PortError> {
        let len = check(&self.capabilities, frame)?;
        let sent = match self.push_out()? {
            false => Err(PortError::Full),
            true if self.inner_does(frame) => self.inner.send(frame),
            true => self.send_cut(frame),
        };
        match sent {
            Ok(()) => self.counters.sent(len, frame.gso.is_some()),
            Err(PortError::Full) => self.counters.tx_full += 1,
            Err(_) => {}
        }
        sent
    }

    fn flush(&mut self) -> Result<(), PortError> {
        self.push_out()?;
        self.inner.flush()
    }

    fn fd(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        self.inner.fd()
    }

    fn news_fd(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        self.inner.news_fd()
    }

    fn is_attached(&self) -> bool {
        self.inner.is_attached()
    }

    fn take_news(&mut self) -> bool {
        let changed = self.inner.take_news();
        self.capabilities = completed(self.inner.capabilities());
        changed
    }

    fn link_has_returned(&mut self) -> bool {
        self.inner.link_has_returned()
    }

    fn counters(&self) -> &PortCounters {
        &self.counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{MemoryConfig, pair};
    use crate::{GsoKind, TxChecksum, TxGso};

    #[test]
    fn a_plain_port_gets_finished_segments_and_pushes_back() {
        let (a, mut b) = pair(&MemoryConfig {
            offloads: false,
            depth: 4,
            ethernet: false,
            ..Default::default()
        });
        let mut a = SoftOffload::new(a);
        let mut f = vec![0x45, 0, 0, 0, 0, 1, 0x40, 0, 64, 17, 0, 0];
        f.extend([10, 0, 0, 1, 10, 0, 0, 2, 0, 7, 0, 9, 0, 0, 0, 0]);
        f.extend((0..10_000u32).map(|i| i as u8));
        let frame = TxFrame {
            checksum: Some(TxChecksum {
                start: 20,
                offset: 6,
            }),
            gso: Some(TxGso {
                kind: GsoKind::Udp,
                size: 1000,
                header_len: 28,
            }),
            ..TxFrame::whole(&f)
        };
        a.send(&frame).unwrap();
        assert_eq!(a.send(&frame), Err(PortError::Full));
        let mut buf = [0; 2000];
        let mut got = Vec::new();
        while let Some(meta) = b.recv(&mut buf).unwrap() {
            got.extend_from_slice(&buf[28..meta.len]);
            let _ = a.flush();
        }
        assert_eq!(got, f[28..]);
        a.send(&frame).unwrap();
        assert_eq!(a.counters().tx_gso_frames, 2);
    }
}
