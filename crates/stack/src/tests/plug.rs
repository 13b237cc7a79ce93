//! The port of a machine whose link goes down and comes back, and which verifies checksums of
//! what is received into place.

use longshore_frames::{
    Capabilities, Port, PortCounters, PortError, RecvBuffer, RxChecksum, RxMeta, SharedRooms,
    TxFrame,
};
use longshore_ports::sim::SimPort;
use longshore_wire::checksum::verify_transport;
use longshore_wire::ethernet;
use longshore_wire::ipv4::Ipv4Header;
use std::io::IoSliceMut;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether a machine's link is up; the world's half.
#[derive(Debug, Clone)]
pub(super) struct Link(Arc<AtomicBool>);

impl Link {
    pub(super) fn is_up(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn set(&self, is_up: bool) {
        self.0.store(is_up, Ordering::Relaxed);
    }
}

/// An end of a simulated wire that can be pulled out.
#[derive(Debug)]
pub(super) struct Plug {
    port: SimPort,
    link: Link,
    was_up: bool,
    has_returned: bool,
}

impl Plug {
    pub(super) fn new(port: SimPort) -> (Self, Link) {
        let link = Link(Arc::new(AtomicBool::new(true)));
        let plug = Self {
            port,
            link: link.clone(),
            was_up: true,
            has_returned: false,
        };
        (plug, link)
    }
}

/// Whether this is a frame of IPv4 whose transport checksum is right.
fn is_right(frame: &[u8]) -> bool {
    let packet = frame.get(ethernet::HEADER_LEN..).unwrap_or_default();
    Ipv4Header::parse(packet).is_ok_and(|(ip, range)| {
        let (source, destination) = (ip.source.into(), ip.destination.into());
        !ip.is_fragment() && verify_transport(source, destination, ip.protocol, &packet[range])
    })
}

impl Port for Plug {
    fn capabilities(&self) -> &Capabilities {
        self.port.capabilities()
    }

    fn recv_scatter(&mut self, parts: &mut [IoSliceMut<'_>]) -> Result<Option<RxMeta>, PortError> {
        loop {
            let got = self.port.recv_scatter(parts)?;
            if got.is_none() || self.link.is_up() {
                return Ok(got);
            }
        }
    }

    fn receives_in_place(&self) -> bool {
        true
    }

    fn recv_in_place(
        &mut self,
        buffer: &mut RecvBuffer,
        header_len: usize,
        rooms: &SharedRooms<'_>,
    ) -> Result<Option<RxMeta>, PortError> {
        let Some(mut meta) = self.recv_single(buffer)? else {
            return Ok(None);
        };
        if is_right(buffer.frame(meta.len)) {
            meta.checksum = RxChecksum::Valid;
        }
        let end = meta.len.min(header_len + rooms.len());
        if let Some(gap) = buffer.room().get_mut(header_len..end) {
            rooms.fill(gap);
            gap.fill(0xee);
        }
        Ok(Some(meta))
    }

    fn send(&mut self, frame: &TxFrame<'_>) -> Result<(), PortError> {
        if self.link.is_up() {
            self.port.send(frame)
        } else {
            Ok(())
        }
    }

    fn take_link_events(&mut self) -> bool {
        let is_up = self.link.is_up();
        self.has_returned |= is_up && !self.was_up;
        self.was_up = is_up;
        false
    }

    fn link_has_returned(&mut self) -> bool {
        std::mem::take(&mut self.has_returned)
    }

    fn counters(&self) -> &PortCounters {
        self.port.counters()
    }
}
