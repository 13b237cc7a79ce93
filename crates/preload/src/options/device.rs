//! Which of the engine's interfaces a socket is bound to (SO_BINDTODEVICE, SO_BINDTOIFINDEX), and by
//! which of them its datagrams leave (IP_UNICAST_IF, IPV6_UNICAST_IF).
//!
//! The kernel socket keeps the number. Called where the engine is sent the options of a socket, and
//! where it is decided whose a peer is.

use super::{Known, int, read_back, set_by_program};
use libc::c_int;
use longshore_hostif::{Interface, Loopback};
use longshore_posix::options::known::{
    DATAGRAM_INTERFACE, INTERFACE, UNICAST_INTERFACE, UNICAST_INTERFACE6,
};
use longshore_sockets::{Host, Socket, more_bits};
use std::net::{IpAddr, SocketAddr};

/// The number of the loopback interface in each network namespace.
pub(crate) const LOOPBACK: u32 = 1;

/// Whether the engine has the interface of this number: its link, or the loopback, if it has the
/// addresses of that.
pub(crate) fn is_engines(host: &Host, index: u32) -> bool {
    let routes = host.routes();
    index == routes.link_scope()
        || (index == LOOPBACK
            && routes.loopback() == Loopback::Engine
            && host.distinguishes_interfaces())
}

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
/// interface than the one that it is bound to, or that it has chosen for its datagrams. Linux sends it
/// by that one, on which nobody has the address.
pub(crate) fn leads_elsewhere(fd: c_int, socket: &Socket, to: SocketAddr) -> bool {
    let interface = match socket.more_bits() & (more_bits::BY_LOOPBACK | more_bits::BY_LINK) {
        0 if socket.is_datagram() => chosen_for_datagrams(fd, set_by_program(socket), to),
        0 => Interface::Any,
        more_bits::BY_LINK => Interface::Link,
        _ => Interface::Loopback,
    };
    is_on_other(to, interface)
}

/// As `leads_elsewhere`, of a socket that is undecided, with these options set.
pub(crate) fn leads_elsewhere_undecided(fd: c_int, set: u32, stream: bool, to: SocketAddr) -> bool {
    let known = if stream {
        INTERFACE
    } else {
        DATAGRAM_INTERFACE
    };
    let interface = match bound_to(fd, set, &known) {
        Interface::Any if !stream => chosen_for_datagrams(fd, set, to),
        interface => interface,
    };
    is_on_other(to, interface)
}

fn bound_to(fd: c_int, set: u32, known: &Known) -> Interface {
    of_number(value_of(fd, set, known))
}

/// The interface by which datagrams to `to` are to leave, of a socket with these options set.
fn chosen_for_datagrams(fd: c_int, set: u32, to: SocketAddr) -> Interface {
    let known = match to.ip().to_canonical() {
        IpAddr::V4(_) => UNICAST_INTERFACE,
        IpAddr::V6(_) => UNICAST_INTERFACE6,
    };
    // The number is in the network's byte order.
    of_number(c_int::from_be(value_of(fd, set, &known)))
}

/// The number that the kernel socket has for an option, 0 if the program has not set it.
fn value_of(fd: c_int, set: u32, known: &Known) -> c_int {
    let mut bytes = [0; 16];
    if set & 1 << known.bit == 0 || read_back(fd, known, &mut bytes).is_none() {
        return 0;
    }
    int(&bytes)
}

fn is_on_other(to: SocketAddr, interface: Interface) -> bool {
    match interface {
        Interface::Any => false,
        // A group is on each.
        Interface::Loopback => {
            let to = to.ip().to_canonical();
            !to.is_loopback() && !to.is_multicast()
        }
        Interface::Link => to.ip().to_canonical().is_loopback(),
    }
}
