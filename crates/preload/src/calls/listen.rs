//! `listen`.

use crate::calls::bind::bind_on_engine;
use crate::calls::{anew, answer, borrow, last_error};
use crate::fds::{self, Entry};
use crate::signals::within;
use crate::{decide, options, real};
use libc::c_int;
use longshore_sockets::{Socket, SocketError, host_bits};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

/// How long `accept` on the kernel's half of a blocking listener waits if
/// another process was faster. Any time will do; we wait by ourselves.
const KERNEL_ACCEPT_TIMEOUT: Duration = Duration::from_millis(1);

/// `listen(2)`. A socket that is bound to the wildcard listens on the kernel
/// as well.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn listen(fd: c_int, backlog: c_int) -> c_int {
    within(|| match fds::get(fd) {
        Entry::Undecided(undecided) if undecided.stream => answer(|| {
            // Nobody has bound it: a port of the engine's choice.
            let any = if undecided.v6 {
                SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0))
            } else {
                SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0))
            };
            listen_on(fd, &bind_on_engine(fd, undecided, any)?, backlog)
        }),
        Entry::Engine(_) => match fds::engine(fd) {
            Some(socket) => answer(|| listen_on(fd, &anew::to_listen(fd, socket)?, backlog)),
            None => real::listen(fd, backlog),
        },
        _ => real::listen(fd, backlog),
    })
}

fn listen_on(fd: c_int, socket: &Socket, backlog: c_int) -> Result<c_int, SocketError> {
    if socket.is_datagram() {
        return Err(crate::calls::refused(libc::EOPNOTSUPP));
    }
    // As Linux has it: a negative backlog is as large as can be.
    socket
        .accept_queue()
        .listen(u32::try_from(backlog).unwrap_or(u32::MAX))?;
    if socket.has_kernel_side() {
        if real::listen(fd, backlog) == 0 {
            if options::set_by_program(socket) & 1 << options::RECEIVE_TIMEOUT.bit == 0
                && set_socket_timeout(borrow(fd), Timeout::Recv, Some(KERNEL_ACCEPT_TIMEOUT))
                    .is_ok()
            {
                socket.set_host_bits(host_bits::OUR_TIMEOUT);
            }
        } else {
            let port = socket.addresses().local().map_or(0, |a| a.port());
            decide::port_is_the_engines_alone(port, last_error().errno());
            socket.clear_host_bits(host_bits::KERNEL_TOO);
        }
    }
    Ok(0)
}
