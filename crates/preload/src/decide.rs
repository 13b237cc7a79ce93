//! Whose a socket is. Settled when it is bound, connected or sent from, by the
//! address and by the routes that the engine has told.

use crate::fds::{self, Entry, Undecided};
use crate::lifecycle::give_up;
use crate::log::{Level, once, say};
use crate::results::{borrow, refused};
use crate::user::In;
use crate::{epoll, options, owner, place};
use longshore_hostif::{OpenFlags, Owner, SocketId, SocketKind, SocketState};
use longshore_sockets::{Host, Socket, SocketError, host_bits};
use rustix::fs::fstat;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::RawFd;

/// The inode of the kernel socket behind a descriptor; 0 if there is none.
pub(crate) fn inode(fd: RawFd) -> u64 {
    fstat(borrow(fd)).map_or(0, |s| s.st_ino)
}

/// Whether the kernel or the engine carries what goes to `to`. The wildcard means this machine, as
/// it does to Linux.
pub(crate) fn owner_of(host: &Host, to: SocketAddr) -> Owner {
    host.routes().owner_of(effective(to))
}

/// Whether the kernel or the engine carries what a datagram socket with these options set
/// sends to `to`.
pub(crate) fn owner_of_datagram(
    fd: RawFd,
    host: &Host,
    set: u32,
    v6: bool,
    to: SocketAddr,
) -> Owner {
    let by_kernel = to.ip().to_canonical().is_multicast() && options::groups_by_kernel(fd, set, v6);
    if by_kernel {
        Owner::Kernel
    } else {
        owner_of(host, to)
    }
}

/// The address that is really meant: loopback for the wildcard, IPv4 for a
/// mapped one.
pub(crate) fn effective(to: SocketAddr) -> SocketAddr {
    let ip = match to.ip().to_canonical() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        // With its scope.
        IpAddr::V6(_) => return to,
        ip => ip,
    };
    SocketAddr::new(ip, to.port())
}

/// Makes an undecided socket the engine's, with the options that it has.
pub(crate) fn to_engine(fd: RawFd, undecided: Undecided) -> Result<Socket, SocketError> {
    let host = place::attached().ok_or(refused(libc::ENETDOWN))?;
    let kind = if undecided.stream {
        SocketKind::Stream
    } else {
        SocketKind::Datagram
    };
    let flags = open_flags(fd, undecided);
    let socket = host.open(kind, flags, inode(fd))?;
    socket.set_host_bits(undecided.options << host_bits::OPTIONS_SHIFT);
    options::replay(fd, &socket, undecided.options)?;
    let mut entered = enter(fd, undecided, &socket);
    if undecided.duplicated {
        for (other, entry) in fds::all() {
            if let Entry::Undecided(u) = entry
                && u.number == undecided.number
            {
                entered |= enter(other, u, &socket);
            }
        }
    }
    if entered {
        owner::to_engine(fd, &socket);
        Ok(socket)
    } else {
        Err(refused(libc::EBADF))
    }
}

fn open_flags(fd: RawFd, undecided: Undecided) -> OpenFlags {
    let set = |known: &options::Known| undecided.options & 1 << known.bit != 0;
    let mut flags = OpenFlags::empty();
    flags.set(OpenFlags::IPV6, undecided.v6);
    flags.set(
        OpenFlags::V6ONLY,
        undecided.v6 && rustix::net::sockopt::ipv6_v6only(borrow(fd)).unwrap_or(false),
    );
    flags.set(
        OpenFlags::REUSE_ADDRESS,
        set(&options::REUSE_ADDRESS)
            && rustix::net::sockopt::socket_reuseaddr(borrow(fd)).unwrap_or(false),
    );
    flags.set(
        OpenFlags::REUSE_PORT,
        set(&options::REUSE_PORT)
            && rustix::net::sockopt::socket_reuseport(borrow(fd)).unwrap_or(false),
    );
    flags
}

fn enter(fd: RawFd, undecided: Undecided, socket: &Socket) -> bool {
    let id = socket.clone().into_use();
    let entered = fds::update(fd, undecided, Entry::Engine(id));
    if !entered {
        drop(Socket::from_use(socket.host(), id));
    }
    entered
}

/// The socket is the engine's for good: whoever waits for it in epoll waits for
/// the engine from now on.
pub(crate) fn note_engine_socket(fd: RawFd, socket: &Socket) {
    epoll::to_engine(fd, socket);
}

/// Takes a decision back that came to nothing.
pub(crate) fn undo(undecided: Undecided, id: SocketId) {
    for (fd, entry) in fds::all() {
        if entry == Entry::Engine(id) {
            let before = fds::put(fd, Entry::Undecided(undecided));
            give_up(fd, before);
        }
    }
}

/// Puts a new socket of the engine in the place of one that is not wanted any
/// more, under all descriptors that it has in this process. With its last use the
/// old one is reset.
pub(crate) fn renew(fd: RawFd, old: &Socket) -> Result<(), SocketError> {
    let undecided = Undecided {
        v6: old.is_v6(),
        stream: true,
        duplicated: false,
        number: 0,
        options: options::set_by_program(old),
    };
    let kernel = old.has_kernel_side();
    let new = old
        .host()
        .open(SocketKind::Stream, open_flags(fd, undecided), inode(fd))?;
    new.set_host_bits(undecided.options << host_bits::OPTIONS_SHIFT);
    options::give_switches(fd, old);
    options::replay(fd, &new, undecided.options)?;
    options::congestion::hand_on(old, &new)?;
    if matches!(
        old.state(),
        SocketState::Connected | SocketState::Connecting | SocketState::Early
    ) {
        new.set_error(libc::ECONNRESET);
    }
    new.take_places_of(old)?;
    owner::to_engine(fd, &new);
    for (other, entry) in fds::all() {
        if entry == Entry::Engine(old.id()) {
            fds::put(other, Entry::Engine(new.clone().into_use()));
            give_up(other, entry);
        }
    }
    old.abandon();
    if kernel {
        // What the kernel's half listened for, or was connected to, goes too.
        let unspecified = libc::sockaddr {
            sa_family: libc::AF_UNSPEC as libc::sa_family_t,
            sa_data: [0; 14],
        };
        let len = size_of::<libc::sockaddr>() as libc::socklen_t;
        crate::cancel::held(|| crate::real::connect(fd, In::from(&unspecified), len));
    }
    Ok(())
}

/// Leaves a socket to the kernel, under all descriptors that it has.
pub(crate) fn to_kernel(id: SocketId) {
    for (fd, entry) in fds::all() {
        if entry == Entry::Engine(id) {
            let before = fds::put(fd, Entry::Kernel);
            give_up(fd, before);
        }
    }
}

/// Leaves an undecided socket to the kernel.
pub(crate) fn leave(fd: RawFd, why: SocketAddr) {
    say(
        Level::Debug,
        format_args!("{why} is the kernel's: so is descriptor {fd}"),
    );
    give_up(fd, fds::put(fd, Entry::Kernel));
}

/// Says that a port could not be had from the kernel too.
pub(crate) fn port_is_the_engines_alone(port: u16, errno: i32) {
    once!(
        Warn,
        KernelPort,
        "port {port} is served on the engine alone: the kernel refused it ({})",
        std::io::Error::from_raw_os_error(errno)
    );
}

/// Finds the engine's socket behind a descriptor that came from elsewhere, and
/// takes hold of it.
pub(crate) fn inherit(host: &'static Host, fd: RawFd) -> bool {
    let inode = inode(fd);
    if inode == 0 || !fds::is_kernels(fd) || !fds::has_room_for(fd) {
        return false;
    }
    let found = host.find_inode(inode).and_then(|id| host.inherit(id));
    match found {
        Some(socket) => {
            fds::put(fd, Entry::Engine(socket.into_use()));
            true
        }
        None => false,
    }
}
