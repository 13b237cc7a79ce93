//! `exec`: the new image finds the sockets that it inherited, when the shim is
//! loaded into it.

use crate::calls::{borrow, fork};
use crate::fds;
use crate::state::{self, Mode};
use crate::{calls, decide, environment};
use rustix::net::sockopt::{socket_domain, socket_type};
use rustix::net::{AddressFamily, SocketType};
use std::os::fd::RawFd;

/// Descriptors to look at where /proc is not there.
const FIRST: RawFd = 1024;

#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = at_start;

extern "C" fn at_start() {
    let _ = std::panic::catch_unwind(|| {
        if state::is_off() {
            return;
        }
        fork::install();
        let holds = std::env::var_os(environment::HELD_VARIABLE).is_some();
        if holds {
            // SAFETY: the program has not begun, so nobody else uses its environment.
            unsafe { std::env::remove_var(environment::HELD_VARIABLE) };
        }
        let inherited: Vec<RawFd> = open_descriptors().filter(|fd| is_inet(*fd)).collect();
        if inherited.is_empty() && !holds {
            return;
        }
        if let Mode::On(host) = state::mode() {
            for fd in inherited {
                if !decide::inherit(host, fd) && is_new(fd) {
                    undecided(fd);
                }
            }
            host.drop_unused();
            calls::stdio::at_start();
        }
    });
}

/// The numbers of all open descriptors.
fn open_descriptors() -> Box<dyn Iterator<Item = RawFd>> {
    let listed: Option<Vec<RawFd>> = std::fs::read_dir("/proc/self/fd").ok().map(|dir| {
        let names = dir.filter_map(|e| e.ok()?.file_name().to_str()?.parse().ok());
        names.collect()
    });
    match listed {
        Some(fds) => Box::new(fds.into_iter()),
        None => Box::new(0..FIRST),
    }
}

fn is_inet(fd: RawFd) -> bool {
    let inet = socket_domain(borrow(fd))
        .is_ok_and(|d| d == AddressFamily::INET || d == AddressFamily::INET6);
    inet && socket_type(borrow(fd)).is_ok_and(|t| t == SocketType::STREAM || t == SocketType::DGRAM)
}

/// Whether nobody has bound or connected a socket.
fn is_new(fd: RawFd) -> bool {
    let port = rustix::net::getsockname(borrow(fd))
        .ok()
        .and_then(|a| std::net::SocketAddr::try_from(a).ok())
        .map(|a| a.port());
    port == Some(0) && rustix::net::getpeername(borrow(fd)).is_err()
}

fn undecided(fd: RawFd) {
    let v6 = socket_domain(borrow(fd)).is_ok_and(|d| d == AddressFamily::INET6);
    let domain = if v6 { libc::AF_INET6 } else { libc::AF_INET };
    let stream = socket_type(borrow(fd)).is_ok_and(|t| t == SocketType::STREAM);
    fds::put(
        fd,
        fds::Entry::Undecided(calls::socket::undecided(domain, stream)),
    );
}
