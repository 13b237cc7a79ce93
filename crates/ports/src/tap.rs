//! The port to the local kernel: a TAP device with the virtio-net header, on which
//! partial checksums and unsegmented frames pass between the two stacks.
//!
//! One frame costs one system call in each direction; a vectored call costs a little
//! more, so short frames are written in one piece. `config` opens and configures the
//! device, `addresses` gives the kernel's side of it its own.

mod addresses;
mod config;
mod error;

pub use addresses::{InterfaceAddress, interface_addresses, overlaps};
pub use config::{Origin, TapConfig, bring_up, is_up, open_driver};
pub use error::{DRIVER, TapError};

use crate::check::check;
use crate::interface::{Link, LinkEvents, sys};
use crate::vnet::{self, HEADER_LEN, ReadOn, Receive};
use crate::{
    BigTcp, Capabilities, InterfaceName, LinkKind, Port, PortCounters, PortError, RECV_ROOM,
    RecvBuffer, RxMeta, SharedRooms, TxFrame,
};
use crate::{bpf, syn_drop};
use rustix::io::Errno;
use std::io::IoSliceMut;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The smallest MTU for the engine: the minimum of IPv4 (RFC 791 section 3.2).
pub const MIN_MTU: usize = 68;
/// The largest MTU that may be requested: an IP packet cannot be longer.
pub const MAX_MTU: usize = 65_535;
/// The kernel reduces a larger MTU to this: on a TAP it counts the link header.
/// [`crate::Capabilities::mtu`] has the result.
pub const KERNEL_MAX_MTU: usize = MAX_MTU - 14;

/// The shortest valid frame: an Ethernet header.
const MIN_FRAME: usize = 14;

/// Frames up to this length, in bytes, are copied into one piece before they are written:
/// copying them costs less than a vectored call.
const SHORT: usize = 512;

/// A TAP device. A device that was created is removed when this is dropped.
#[derive(Debug)]
pub struct Tap {
    fd: OwnedFd,
    /// For ioctls about the interface, and its index.
    control: OwnedFd,
    index: i32,
    /// Notifications about the kernel's end, which may be taken down and up again; `None`
    /// if the system provides none.
    link_events: Option<LinkEvents>,
    link: Link,
    name: InterfaceName,
    capabilities: Capabilities,
    counters: PortCounters,
    /// The header and the short frame that is being sent.
    whole: Vec<u8>,
}

impl Tap {
    /// Opens a device and brings it up.
    ///
    /// # Errors
    /// [`TapError`].
    pub fn open(config: &TapConfig) -> Result<Self, TapError> {
        let opened = config::open(config)?;
        let has = |flag| opened.offloads & flag != 0;
        let offloads = opened.offloads != 0;
        let capabilities = Capabilities {
            link: LinkKind::Ethernet { mac: opened.mac },
            mtu: opened.mtu,
            tx_checksum: offloads,
            passes_payload: offloads,
            rx_checksum: offloads,
            tso4: has(sys::TUN_F_TSO4),
            tso6: has(sys::TUN_F_TSO6),
            uso: has(sys::TUN_F_USO4),
            // The IP header's length field bounds what the kernel passes on.
            max_gso_bytes: if has(sys::TUN_F_TSO4) {
                65_535 + MIN_FRAME
            } else {
                opened.mtu + MIN_FRAME
            },
            big_tcp: opened.big_tcp.map(|to| BigTcp {
                to,
                max_bytes: config::BIG_TCP_BYTES,
            }),
            rx_coalesced: has(sys::TUN_F_TSO4),
        };
        Ok(Tap {
            fd: opened.fd,
            control: opened.control,
            index: opened.index,
            link_events: opened.link_events,
            // Our end is always up: only the kernel's can be down.
            link: Link::new(libc::IFF_UP, Some(opened.flags)),
            name: opened.name,
            capabilities,
            counters: PortCounters::default(),
            whole: Vec::with_capacity(HEADER_LEN + SHORT),
        })
    }

    /// The interface's name.
    pub fn name(&self) -> InterfaceName {
        self.name
    }
}

impl Receive for Tap {
    fn source(&mut self) -> (&OwnedFd, &mut PortCounters) {
        (&self.fd, &mut self.counters)
    }

    fn accept(&mut self, header: &[u8; HEADER_LEN], got: usize, room: usize) -> Option<RxMeta> {
        vnet::accept(header, got, room, MIN_FRAME, &mut self.counters)
    }

    fn read_failed(&mut self, errno: Errno) -> Result<ReadOn, PortError> {
        match errno {
            Errno::INTR => Ok(ReadOn::Again),
            // EFAULT is the driver's error for an interface that is down.
            Errno::AGAIN | Errno::FAULT | Errno::IO => Ok(ReadOn::Nothing),
            Errno::BADFD | Errno::NODEV => Err(PortError::Down),
            errno => Err(PortError::Os {
                operation: "reading a frame",
                errno,
            }),
        }
    }
}

/// Writes a frame with its header; in one piece, assembled in `whole`, if it is at most
/// [`SHORT`].
fn write(
    fd: &OwnedFd,
    header: &[u8; HEADER_LEN],
    frame: &TxFrame<'_>,
    len: usize,
    whole: &mut Vec<u8>,
) -> Result<usize, Errno> {
    if len <= SHORT {
        whole.clear();
        whole.extend_from_slice(header);
        whole.extend_from_slice(frame.headers);
        for piece in frame.payload {
            whole.extend_from_slice(piece);
        }
        return rustix::io::write(fd, whole);
    }
    vnet::write(fd, header, frame)
}

impl Port for Tap {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn recv_single(&mut self, buffer: &mut RecvBuffer) -> Result<Option<RxMeta>, PortError> {
        self.recv_by(RECV_ROOM, |fd| vnet::read_single(fd, buffer))
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
        let header = vnet::encode(frame);
        loop {
            self.counters.tx_calls += 1;
            return match write(&self.fd, &header, frame, len, &mut self.whole) {
                Ok(_) => {
                    self.counters.sent(len, frame.gso.is_some());
                    Ok(())
                }
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM) => {
                    self.counters.tx_full += 1;
                    Err(PortError::Full)
                }
                // The interface is down: a link without carrier drops frames.
                Err(Errno::IO) => {
                    self.counters.drops.link_down += 1;
                    Ok(())
                }
                Err(Errno::INVAL) => Err(PortError::BadOffload {
                    reason: "the kernel does not take this frame with this offload",
                }),
                Err(Errno::FAULT) => Err(PortError::Unreadable),
                Err(Errno::BADFD | Errno::NODEV) => Err(PortError::Down),
                Err(errno) => Err(PortError::Os {
                    operation: "writing a frame",
                    errno,
                }),
            };
        }
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.fd.as_fd())
    }

    fn link_events_fd(&self) -> Option<BorrowedFd<'_>> {
        self.link_events.as_ref().map(LinkEvents::fd)
    }

    fn take_link_events(&mut self) -> bool {
        let Some(link_events) = &self.link_events else {
            return false;
        };
        if link_events.drain(Some(self.index), &mut self.link) {
            let flags = sys::flags(self.control.as_fd(), &self.name).ok();
            self.link.observe(flags);
        }
        false
    }

    fn link_has_returned(&mut self) -> bool {
        self.link.take_returned()
    }

    fn drop_syns(&mut self, shift: u8) -> Result<bool, PortError> {
        let result = if shift == 0 {
            sys::tun_detach_filter(self.fd.as_fd())
        } else {
            let mut program = syn_drop::program(shift);
            program.push(bpf::step(bpf::RETURN, bpf::PASS));
            sys::tun_attach_filter(self.fd.as_fd(), &program)
        };
        result.map(|()| true).map_err(|errno| PortError::Os {
            operation: "setting the filter of the TAP device",
            errno,
        })
    }

    fn counters(&self) -> &PortCounters {
        &self.counters
    }
}
