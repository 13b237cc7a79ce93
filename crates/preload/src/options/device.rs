//! Which of the engine's interfaces a socket is bound to (SO_BINDTODEVICE, SO_BINDTOIFINDEX).
//!
//! The kernel socket keeps the number. Called where the engine is sent the options of a socket, and
//! where it is decided whose a peer is.

use super::{int, read_back};
use libc::c_int;
use longshore_hostif::Interface;
use longshore_posix::options::known::{DATAGRAM_INTERFACE, INTERFACE};
use longshore_sockets::{Socket, more_bits};
use std::net::SocketAddr;

/// The number of the loopback interface in each network namespace.
pub(crate) const LOOPBACK: u32 = 1;

/// The engine's interface of this number of the kernel's; of its numbers a socket of the engine has
/// that of the loopback and that of the link alone.
fn of_number(number: c_int) -> Interface {
    match number.cast_unsigned() {
        0 => Interface::Any,
        LOOPBACK => Interface::Loopback,
        _ => Interface::Link,
    }
}

/// Notes which interface a socket of the engine is bound to, and says so if the engine is to be sent
/// it: an older one knows no interfaces.
pub(super) fn note(number: c_int, socket: &Socket) -> Option<Interface> {
    let interface = of_number(number);
    socket.clear_more_bits(more_bits::BY_LOOPBACK | more_bits::BY_LINK);
    match interface {
        Interface::Any => {}
        Interface::Loopback => socket.set_more_bits(more_bits::BY_LOOPBACK),
        Interface::Link => socket.set_more_bits(more_bits::BY_LINK),
    }
    let is_known = socket.host().distinguishes_interfaces();
    is_known.then_some(interface)
}

/// Whether what a socket of the engine sends to this address of the engine leaves by another
/// interface than the one that it is bound to. Linux sends it by that one, on which nobody has the
/// address.
pub(crate) fn leads_elsewhere(socket: &Socket, to: SocketAddr) -> bool {
    let bits = socket.more_bits();
    is_on_other(
        to,
        bits & more_bits::BY_LOOPBACK != 0,
        bits & more_bits::BY_LINK != 0,
    )
}

/// As `leads_elsewhere`, of a socket that is undecided, with these options set.
pub(crate) fn leads_elsewhere_undecided(fd: c_int, set: u32, stream: bool, to: SocketAddr) -> bool {
    let known = if stream {
        INTERFACE
    } else {
        DATAGRAM_INTERFACE
    };
    let mut bytes = [0; 16];
    if set & 1 << known.bit == 0 || read_back(fd, &known, &mut bytes).is_none() {
        return false;
    }
    let interface = of_number(int(&bytes));
    is_on_other(
        to,
        interface == Interface::Loopback,
        interface == Interface::Link,
    )
}

fn is_on_other(to: SocketAddr, by_loopback: bool, by_link: bool) -> bool {
    if to.ip().to_canonical().is_loopback() {
        by_link
    } else {
        by_loopback
    }
}
