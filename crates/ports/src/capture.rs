//! The tracer: wraps any port and writes every frame that passes, in both directions, to
//! a pcapng file that Wireshark and tcpdump read.
//!
//! Frames are recorded as they pass the port: a segment that is still to be segmented is
//! one long record. Partial checksums are completed in the record. If writing fails, the
//! capture ends, which is told to whoever has asked for it, and the port continues.

use std::fmt;
use std::fs::File;
use std::io::{BufWriter, IoSliceMut, Write};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::{DataLink, PcapError};

use crate::pass_on::pass_on_to;
use crate::segment::finish_checksum;
use crate::{
    Capabilities, LinkKind, MAX_FRAME, Port, PortCounters, PortError, RxChecksum, RxMeta, TxFrame,
};

/// Direction bits of the packet block's flags (pcapng, section 4.3.1).
const INBOUND: u32 = 1;
const OUTBOUND: u32 = 2;

/// The clock of the tracer: time since 1970, UTC.
pub type Clock = Box<dyn FnMut() -> Duration + Send>;

/// What is done when recording has ended early.
type Told = Box<dyn FnOnce(&str) + Send>;

/// Why a capture could not be started, or ended early.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The file cannot be created.
    #[error("cannot create the capture file {path}: {source}")]
    Create {
        /// Its path.
        path: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The file cannot be written.
    #[error("cannot write the capture: {0}")]
    Write(PcapError),
}

/// A port whose frames are recorded.
pub struct CapturePort<P, W: Write> {
    inner: P,
    /// Its capabilities, as they are with capturing.
    shown: Capabilities,
    /// `None` once writing has failed.
    writer: Option<PcapNgWriter<BufWriter<W>>>,
    failed: Option<PcapError>,
    /// Not yet called.
    told: Option<Told>,
    clock: Clock,
    snap_len: usize,
    recorded: u64,
    scratch: Vec<u8>,
}

/// The capabilities with capturing: payload is looked at here, and what is recorded are frames
/// that whoever reads them knows.
fn shown(under: &Capabilities) -> Capabilities {
    Capabilities {
        passes_payload: false,
        big_tcp: None,
        ..*under
    }
}

impl<P: fmt::Debug, W: Write> fmt::Debug for CapturePort<P, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CapturePort")
            .field("inner", &self.inner)
            .field("recorded", &self.recorded)
            .field("failed", &self.failed)
            .finish_non_exhaustive()
    }
}

impl<P: Port> CapturePort<P, File> {
    /// Records to a file, which is replaced if it exists, with the system's clock. Up to
    /// `snap_len` bytes of each frame are kept; all if `None`.
    ///
    /// # Errors
    /// [`CaptureError`].
    pub fn to_file(inner: P, path: &Path, snap_len: Option<usize>) -> Result<Self, CaptureError> {
        let file = File::create(path).map_err(|source| CaptureError::Create {
            path: path.display().to_string(),
            source,
        })?;
        let clock = || {
            SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default()
        };
        Self::new(inner, file, snap_len, Box::new(clock))
    }
}

impl<P: Port, W: Write> CapturePort<P, W> {
    /// Records to `output`, with a clock of the caller's.
    ///
    /// # Errors
    /// [`CaptureError::Write`].
    pub fn new(
        inner: P,
        output: W,
        snap_len: Option<usize>,
        clock: Clock,
    ) -> Result<Self, CaptureError> {
        let snap_len = snap_len.unwrap_or(MAX_FRAME).clamp(1, MAX_FRAME);
        let interface = InterfaceDescriptionBlock {
            linktype: match inner.capabilities().link {
                LinkKind::Ethernet { .. } => DataLink::ETHERNET,
                LinkKind::Ip => DataLink::RAW,
            },
            snaplen: snap_len as u32,
            // Time stamps in units of 10^-9 seconds.
            options: vec![InterfaceDescriptionOption::IfTsResol(9)],
        };
        let mut writer = PcapNgWriter::new(BufWriter::with_capacity(1 << 18, output))
            .map_err(CaptureError::Write)?;
        writer
            .write_pcapng_block(interface)
            .map_err(CaptureError::Write)?;
        Ok(CapturePort {
            shown: shown(inner.capabilities()),
            inner,
            writer: Some(writer),
            failed: None,
            told: None,
            clock,
            snap_len,
            recorded: 0,
            scratch: Vec::new(),
        })
    }

    /// The number of recorded frames.
    pub fn recorded(&self) -> u64 {
        self.recorded
    }

    /// Why recording has ended, if it has.
    pub fn failed(&self) -> Option<&PcapError> {
        self.failed.as_ref()
    }

    /// The port below.
    pub fn inner(&self) -> &P {
        &self.inner
    }

    /// Has `tell` called with the reason, once, if recording ends early.
    #[must_use]
    pub fn on_failure(mut self, tell: impl FnOnce(&str) + Send + 'static) -> Self {
        self.told = Some(Box::new(tell));
        self
    }

    fn give_up(&mut self, error: PcapError) {
        if let Some(tell) = self.told.take() {
            match &error {
                PcapError::IoError(why) => tell(&why.to_string()),
                other => tell(&other.to_string()),
            }
        }
        self.failed = Some(error);
        self.writer = None;
    }

    /// Writes the frame in `scratch`.
    fn record(&mut self, direction: u32) {
        let Some(writer) = &mut self.writer else {
            return;
        };
        let kept = self.scratch.len().min(self.snap_len);
        let block = EnhancedPacketBlock {
            interface_id: 0,
            timestamp: (self.clock)(),
            original_len: self.scratch.len() as u32,
            data: self.scratch[..kept].into(),
            options: vec![EnhancedPacketOption::Flags(direction)],
        };
        match writer.write_pcapng_block(block) {
            Ok(_) => self.recorded += 1,
            Err(error) => self.give_up(error),
        }
    }
}

impl<P: Port, W: Write + Send> Port for CapturePort<P, W> {
    fn capabilities(&self) -> &Capabilities {
        &self.shown
    }

    fn recv_scatter(&mut self, parts: &mut [IoSliceMut<'_>]) -> Result<Option<RxMeta>, PortError> {
        let got = self.inner.recv_scatter(parts)?;
        if let (Some(meta), Some(_)) = (got, &self.writer) {
            self.scratch.clear();
            for part in parts.iter() {
                let left = meta.len - self.scratch.len();
                self.scratch
                    .extend_from_slice(&part[..left.min(part.len())]);
            }
            if let RxChecksum::Partial { start, offset } = meta.checksum {
                // A field outside the frame is recorded unchanged.
                let _ = finish_checksum(&mut self.scratch, start, offset);
            }
            self.record(INBOUND);
        }
        Ok(got)
    }

    fn send(&mut self, frame: &TxFrame<'_>) -> Result<(), PortError> {
        self.inner.send(frame)?;
        if self.writer.is_some() {
            self.scratch.clear();
            self.scratch.extend_from_slice(frame.headers);
            for piece in frame.payload {
                self.scratch.extend_from_slice(piece);
            }
            if let Some(c) = frame.checksum {
                // The port below has accepted the frame, so the field is inside it.
                let _ = finish_checksum(&mut self.scratch, c.start, c.offset);
            }
            self.record(OUTBOUND);
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), PortError> {
        if let Some(writer) = &mut self.writer
            && let Err(error) = writer.get_mut().flush()
        {
            self.give_up(PcapError::IoError(error));
        }
        self.inner.flush()
    }

    pass_on_to!(inner);

    fn take_link_events(&mut self) -> bool {
        let changed = self.inner.take_link_events();
        self.shown = shown(self.inner.capabilities());
        changed
    }

    fn counters(&self) -> &PortCounters {
        self.inner.counters()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{MemoryConfig, pair};
    use crate::{TxChecksum, segment};
    use pcap_file::pcapng::{Block, PcapNgReader};
    use std::io::IoSlice;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn ticking() -> Clock {
        let mut now = Duration::from_secs(1_700_000_000);
        Box::new(move || {
            now += Duration::from_nanos(1001);
            now
        })
    }

    #[test]
    fn both_directions_are_recorded_as_another_reader_sees_them() {
        let (a, mut b) = pair(&MemoryConfig::default());
        let file = Shared::default();
        let mut a = CapturePort::new(a, file.clone(), None, ticking()).unwrap();
        let payload = [3u8; 101];
        a.send(&TxFrame {
            headers: &[0; 54],
            payload: &[IoSlice::new(&payload)],
            checksum: Some(TxChecksum {
                start: 34,
                offset: 16,
            }),
            gso: None,
        })
        .unwrap();
        b.send(&TxFrame::whole(&[7; 60])).unwrap();
        let (mut head, mut body) = ([0; 20], [0; 200]);
        let mut parts = [IoSliceMut::new(&mut head), IoSliceMut::new(&mut body)];
        a.recv_scatter(&mut parts).unwrap().unwrap();
        a.flush().unwrap();
        assert_eq!(a.recorded(), 2);

        let bytes = file.0.lock().unwrap().clone();
        let mut reader = PcapNgReader::new(bytes.as_slice()).unwrap();
        let mut packets = Vec::new();
        while let Some(block) = reader.next_block() {
            if let Block::EnhancedPacket(p) = block.unwrap().into_owned() {
                packets.push(p);
            }
        }
        let mut sent = [vec![0; 54], payload.to_vec()].concat();
        segment::finish_checksum(&mut sent, 34, 16).unwrap();
        assert_eq!(*packets[0].data, *sent);
        assert_eq!(packets[0].options, [EnhancedPacketOption::Flags(2)]);
        assert_eq!(*packets[1].data, [7; 60]);
        assert_eq!(packets[1].options, [EnhancedPacketOption::Flags(1)]);
        let gap = packets[1].timestamp - packets[0].timestamp;
        assert_eq!(gap, Duration::from_nanos(1001));
    }

    #[test]
    fn long_frames_are_cut_to_the_snap_length() {
        let (a, _b) = pair(&MemoryConfig::default());
        let file = Shared::default();
        let mut a = CapturePort::new(a, file.clone(), Some(64), ticking()).unwrap();
        a.send(&TxFrame::whole(&[1; 1000])).unwrap();
        a.flush().unwrap();
        assert!(file.0.lock().unwrap().len() < 300);
    }

    struct Broken(u32);

    impl Write for Broken {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            if self.0 == 0 {
                return Err(std::io::ErrorKind::StorageFull.into());
            }
            self.0 -= 1;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_full_disk_ends_the_capture_and_not_the_port() {
        let (a, mut b) = pair(&MemoryConfig::default());
        let (told, reasons) = std::sync::mpsc::channel();
        let mut a = CapturePort::new(a, Broken(1), None, ticking())
            .unwrap()
            .on_failure(move |why| told.send(why.to_owned()).unwrap());
        for _ in 0..3 {
            a.send(&TxFrame::whole(&[1; 60])).unwrap();
            a.flush().unwrap();
            b.recv(&mut [0; 100]).unwrap().unwrap();
        }
        a.send(&TxFrame::whole(&[1; 60])).unwrap();
        a.flush().unwrap();
        assert!(a.failed().is_some());
        let reasons: Vec<String> = reasons.try_iter().collect();
        let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
        assert_eq!(reasons, [full.to_string()]);
        assert!(b.recv(&mut [0; 100]).unwrap().is_some());
    }
}
