//! The port beside the kernel: a packet socket on an interface that the kernel keeps
//! using.
//!
//! The engine uses the interface's own hardware address and answers only for its own IP
//! addresses: a socket filter drops everything else. The kernel still processes every
//! packet, so it must not own these addresses, or must be configured to drop packets for
//! them (docs/ports.md).
//!
//! A frame costs one system call in each direction, as on a TAP. Rings would not help:
//! TPACKET_V3 cannot carry the virtio-net header, and each slot of a TPACKET_V2 ring must
//! hold the longest frame, 64 KiB, which the kernel then copies into it in interrupt
//! context; with segmentation and coalescing a call moves up to that much anyway. Frames
//! pass the interface's queueing discipline like the kernel's own, so that tools on the
//! interface see them.
//!
//! `config` opens the socket, `filter` builds its filter, `sys` has the system calls
//! without a safe wrapper.

mod config;
mod filter;
mod sys;

pub use config::{MIN_MTU, PacketConfig, PacketError};
pub use filter::MAX_ADDRESSES;

use crate::check::check;
use crate::interface::{Link, LinkEvents};
use crate::vnet::{self, HEADER_LEN, ReadOn, Receive};
use crate::{
    Capabilities, InterfaceName, LinkKind, Port, PortCounters, PortError, RECV_ROOM, RecvBuffer,
    RxMeta, SharedRooms, TxFrame,
};
use config::Interface;
use rustix::io::Errno;
use std::io::IoSliceMut;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Number of calls without a frame after which the kernel is asked for lost frames.
const ASK_LOST_EVERY: u32 = 64;

/// A packet socket on an interface.
#[derive(Debug)]
pub struct PacketPort {
    fd: OwnedFd,
    /// For ioctls about the interface.
    control: OwnedFd,
    link_events: LinkEvents,
    link: Link,
    name: InterfaceName,
    /// Held so that no other engine uses our addresses.
    _claims: Vec<OwnedFd>,
    /// The interface that the socket is bound to.
    index: Option<i32>,
    uso: bool,
    /// The inputs of the filter: addresses with their prefixes, whether DHCP is accepted,
    /// and groups.
    addresses: Vec<(IpAddr, u8)>,
    dhcp: bool,
    /// One SYN in `1 << syn_shift` passes.
    syn_shift: u8,
    groups: Vec<IpAddr>,
    /// The multicast hardware addresses that the interface is to accept, each once, in their order.
    stations: Vec<[u8; 6]>,
    capabilities: Capabilities,
    counters: PortCounters,
    /// Calls without a frame since the kernel was last asked for lost frames.
    idle_calls: u32,
    /// Why the interface could not be used when it was last checked, and whether that has
    /// not been reported yet.
    refused: Option<PacketError>,
    is_unreported: bool,
}

impl PacketPort {
    /// Opens a port on an interface, or on one that does not exist yet.
    ///
    /// # Errors
    /// [`PacketError`].
    pub fn open(config: &PacketConfig) -> Result<Self, PacketError> {
        let opened = config::open(config)?;
        let interface = opened.interface.unwrap_or(Interface::PRESUMED);
        let mut port = PacketPort {
            fd: opened.fd,
            control: opened.control,
            link_events: opened.link_events,
            link: Link::new(
                libc::IFF_UP | libc::IFF_RUNNING,
                opened.interface.map(|interface| interface.flags),
            ),
            name: config.name,
            _claims: opened.claims,
            index: None,
            uso: opened.uso,
            addresses: config.addresses.clone(),
            dhcp: false,
            syn_shift: 0,
            groups: Vec::new(),
            stations: stations(&config.addresses, &[]),
            capabilities: interface.capabilities(opened.uso),
            counters: PortCounters::default(),
            idle_calls: 0,
            refused: None,
            is_unreported: false,
        };
        if opened.interface.is_some() {
            port.attach(interface).map_err(|errno| PacketError::Os {
                action: format!("bind a packet socket to {}", port.name),
                errno,
            })?;
        }
        Ok(port)
    }

    /// The interface's name.
    pub fn name(&self) -> InterfaceName {
        self.name
    }

    /// Binds the socket to the interface, if it is not bound yet.
    fn attach(&mut self, interface: Interface) -> Result<(), Errno> {
        if self.index == Some(interface.index) {
            return Ok(());
        }
        sys::bind(self.fd.as_fd(), interface.index)?;
        if let LinkKind::Ethernet { .. } = interface.link {
            for station in &self.stations {
                // Once, if it was here before.
                let _ = sys::leave(self.fd.as_fd(), interface.index, *station);
                self.join(interface.index, *station);
            }
        }
        self.index = Some(interface.index);
        Ok(())
    }

    /// Makes the interface accept the frames of a group.
    fn join(&self, index: i32, station: [u8; 6]) {
        // An interface without a multicast filter accepts all anyway.
        let _ = sys::join(self.fd.as_fd(), index, station);
    }

    /// The frames of these groups are to be accepted, and of no others.
    fn change_stations(&mut self, wanted: Vec<[u8; 6]>) {
        let before = std::mem::replace(&mut self.stations, wanted);
        let (Some(index), LinkKind::Ethernet { .. }) = (self.index, self.capabilities.link) else {
            return;
        };
        for station in &before {
            if self.stations.binary_search(station).is_err() {
                let _ = sys::leave(self.fd.as_fd(), index, *station);
            }
        }
        for station in &self.stations {
            if before.binary_search(station).is_err() {
                self.join(index, *station);
            }
        }
    }

    /// Updates the filter and the groups.
    fn refilter(&mut self) -> Result<(), PortError> {
        let program = filter::program(&self.addresses, &self.groups, self.dhcp, self.syn_shift);
        sys::attach_filter(self.fd.as_fd(), &program).map_err(|errno| PortError::Os {
            operation: "setting the filter of the packet socket",
            errno,
        })?;
        self.change_stations(stations(&self.addresses, &self.groups));
        Ok(())
    }

    /// The interface was checked: it exists and is `refused`, or it does not exist or is
    /// usable.
    fn note_refusal(&mut self, refused: Option<&PacketError>) {
        let lasting = refused.filter(|error| {
            matches!(
                error,
                PacketError::BadMtu { .. }
                    | PacketError::LinkType { .. }
                    | PacketError::Loopback { .. }
            )
        });
        if lasting != self.refused.as_ref() {
            self.refused = lasting.cloned();
            self.is_unreported = self.refused.is_some();
        }
    }

    fn write_failed(&mut self, errno: Errno, len: usize) -> Result<(), PortError> {
        match errno {
            Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM => {
                self.counters.tx_full += 1;
                Err(PortError::Full)
            }
            // A link without carrier drops frames.
            Errno::NETDOWN | Errno::NXIO | Errno::NODEV => {
                self.counters.drops.link_down += 1;
                Ok(())
            }
            Errno::MSGSIZE => Err(PortError::TooLong {
                len,
                limit: self.capabilities.max_frame_len(),
            }),
            Errno::INVAL => Err(PortError::BadOffload {
                reason: "the kernel does not take this frame with this offload",
            }),
            Errno::FAULT => Err(PortError::Unreadable),
            errno => Err(PortError::Os {
                operation: "writing a frame",
                errno,
            }),
        }
    }
}

impl Receive for PacketPort {
    fn source(&mut self) -> (&OwnedFd, &mut PortCounters) {
        (&self.fd, &mut self.counters)
    }

    fn accept(&mut self, header: &[u8; HEADER_LEN], got: usize, room: usize) -> Option<RxMeta> {
        let least = self.capabilities.link_header_len() + 1;
        vnet::accept(header, got, room, least, &mut self.counters)
    }

    fn read_failed(&mut self, errno: Errno) -> Result<ReadOn, PortError> {
        match errno {
            Errno::INTR => Ok(ReadOn::Again),
            // Segments of a kind that the header cannot describe; dropped.
            Errno::INVAL => {
                self.counters.drops.rx_bad_offload += 1;
                Ok(ReadOn::Again)
            }
            Errno::AGAIN => {
                self.idle_calls += 1;
                if self.idle_calls >= ASK_LOST_EVERY {
                    self.idle_calls = 0;
                    self.counters.drops.rx_overrun += sys::lost(&self.fd);
                }
                Ok(ReadOn::Nothing)
            }
            // The interface is down or was removed; this is reported once, and a
            // notification shows when it is back.
            Errno::NETDOWN | Errno::NXIO | Errno::NODEV => Ok(ReadOn::Nothing),
            errno => Err(PortError::Os {
                operation: "reading a frame",
                errno,
            }),
        }
    }
}

/// The multicast hardware addresses of these groups, and of the solicited-node groups of
/// these addresses: each once, in their order.
fn stations(addresses: &[(IpAddr, u8)], groups: &[IpAddr]) -> Vec<[u8; 6]> {
    let mut all = groups.to_vec();
    for (address, _) in addresses {
        if let IpAddr::V6(address) = address {
            all.push(filter::solicited_node(*address).into());
        }
    }
    if !all.is_empty() {
        all.push(filter::ALL_NODES.into());
        all.push(filter::ALL_SYSTEMS.into());
    }
    let station = |group: IpAddr| match group {
        // RFC 1112 section 6.4.
        IpAddr::V4(group) => {
            let [_, a, b, c] = group.octets();
            [1, 0, 0x5e, a & 0x7f, b, c]
        }
        // RFC 2464 section 7.
        IpAddr::V6(group) => {
            let [.., a, b, c, d] = group.octets();
            [0x33, 0x33, a, b, c, d]
        }
    };
    let mut all: Vec<[u8; 6]> = all.into_iter().map(station).collect();
    all.sort_unstable();
    all.dedup();
    all
}

impl Port for PacketPort {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn recv_scatter(&mut self, parts: &mut [IoSliceMut<'_>]) -> Result<Option<RxMeta>, PortError> {
        vnet::check_parts(parts)?;
        let room: usize = parts.iter().map(|part| part.len()).sum();
        self.recv_by(room, |fd| vnet::read(fd, parts))
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
        self.recv_by(RECV_ROOM, |fd| {
            vnet::read_in_place(fd, buffer, header_len, rooms)
        })
    }

    fn send(&mut self, frame: &TxFrame<'_>) -> Result<(), PortError> {
        let len = check(&self.capabilities, frame)?;
        if self.index.is_none() {
            self.counters.drops.link_down += 1;
            return Ok(());
        }
        let header = vnet::encode(frame);
        loop {
            self.counters.tx_calls += 1;
            return match vnet::write(&self.fd, &header, frame) {
                Ok(_) => {
                    self.counters.sent(len, frame.gso.is_some());
                    Ok(())
                }
                Err(Errno::INTR) => continue,
                Err(errno) => self.write_failed(errno, len),
            };
        }
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.fd.as_fd())
    }

    fn link_events_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.link_events.fd())
    }

    fn take_link_events(&mut self) -> bool {
        if !self.link_events.drain(self.index, &mut self.link) {
            return false;
        }
        let found = Interface::find(self.control.as_fd(), &self.name);
        self.note_refusal(found.as_ref().err());
        let attached = found.ok().filter(|found| self.attach(*found).is_ok());
        self.link.observe(attached.map(|interface| interface.flags));
        let Some(interface) = attached else {
            // It was removed, cannot be used, or changed during the check, for which
            // there will be a notification.
            self.index = None;
            return false;
        };
        let now = interface.capabilities(self.uso);
        let changed = now != self.capabilities;
        self.capabilities = now;
        changed
    }

    fn link_has_returned(&mut self) -> bool {
        self.link.take_returned()
    }

    fn set_addresses(&mut self, addresses: &[(IpAddr, u8)], dhcp: bool) -> Result<(), PortError> {
        let shown = &addresses[..addresses.len().min(MAX_ADDRESSES)];
        self.addresses = shown.to_vec();
        self.dhcp = dhcp;
        self.refilter()
    }

    fn set_groups(&mut self, groups: &[IpAddr]) -> Result<(), PortError> {
        self.groups = groups.to_vec();
        self.refilter()
    }

    fn drop_syns(&mut self, shift: u8) -> Result<bool, PortError> {
        self.syn_shift = shift;
        self.refilter()?;
        Ok(true)
    }

    fn is_attached(&self) -> bool {
        self.index.is_some()
    }

    fn take_refusal(&mut self) -> Option<String> {
        let is_unreported = std::mem::take(&mut self.is_unreported);
        let refused = self.refused.as_ref().filter(|_| is_unreported)?;
        Some(format!(
            "{refused}: nothing is sent or received there until that is changed"
        ))
    }

    fn counters(&self) -> &PortCounters {
        &self.counters
    }
}
