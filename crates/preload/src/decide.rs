//! Whose a socket is. Settled when it is bound, connected or sent from, by the
//! address and by the routes that the engine has published.

use crate::fds::{self, Entry, Undecided};
use crate::lifecycle::give_up;
use crate::log::{Level, once, say};
use crate::options::device;
use crate::results::{borrow, refused};
use crate::user::In;
use crate::{epoll, options, owner, place};
use longshore_hostif::{OpenFlags, Owner, SocketId, SocketKind, SocketState};
use longshore_sockets::{Host, Socket, SocketError, host_bits};
use rustix::fs::fstat;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
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

/// As `owner_of`, of a socket of the engine that is to be connected to `to`.
pub(crate) fn owner_of_peer(fd: RawFd, socket: &Socket, to: SocketAddr) -> Owner {
    match owner_of(socket.host(), to) {
        Owner::Engine if !device::leads_elsewhere(fd, socket, effective(to)) => Owner::Engine,
        _ => Owner::Kernel,
    }
}

/// As `owner_of_peer`, of a socket that is undecided.
pub(crate) fn owner_of_first_peer(
    fd: RawFd,
    host: &Host,
    undecided: Undecided,
    to: SocketAddr,
) -> Owner {
    let (set, stream) = (undecided.options, undecided.stream);
    match owner_of(host, to) {
        Owner::Engine if !device::leads_elsewhere_undecided(fd, set, stream, effective(to)) => {
            Owner::Engine
        }
        _ => Owner::Kernel,
    }
}

/// Whether what a datagram socket with these options set sends to `to` is the kernel's, as the
/// program has chosen an interface of its for groups.
fn is_for_group_of_kernel(fd: RawFd, set: u32, v6: bool, to: SocketAddr) -> bool {
    to.ip().to_canonical().is_multicast() && options::groups_by_kernel(fd, set, v6)
}

/// Whether the kernel or the engine carries what a datagram socket of the engine sends to `to`.
pub(crate) fn owner_of_datagram(fd: RawFd, socket: &Socket, to: SocketAddr) -> Owner {
    let set = options::set_by_program(socket);
    if is_for_group_of_kernel(fd, set, socket.is_v6(), to) {
        Owner::Kernel
    } else {
        owner_of_peer(fd, socket, to)
    }
}

/// As `owner_of_datagram`, of a socket that is undecided.
pub(crate) fn owner_of_first_datagram(
    fd: RawFd,
    host: &Host,
    undecided: Undecided,
    to: SocketAddr,
) -> Owner {
    if is_for_group_of_kernel(fd, undecided.options, undecided.v6, to) {
        Owner::Kernel
    } else {
        owner_of_first_peer(fd, host, undecided, to)
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

/// As `effective`, for one socket: with the wildcard of IPv4, one that has an address of IPv4 means
/// that, and with the wildcard of IPv6, one that is bound to an address of IPv4 the loopback of that.
pub(crate) fn effective_for(socket: &Socket, to: SocketAddr) -> SocketAddr {
    if to.ip() == Ipv6Addr::UNSPECIFIED && socket.addresses().is_bound_to_mapped() {
        return SocketAddr::new(Ipv4Addr::LOCALHOST.into(), to.port());
    }
    if to.ip().to_canonical() == Ipv4Addr::UNSPECIFIED
        && let Some(own) = socket
            .addresses()
            .local()
            .map(|own| own.ip().to_canonical())
        && own.is_ipv4()
        && !(own.is_unspecified() || own.is_multicast() || socket.host().routes().is_broadcast(own))
    {
        return SocketAddr::new(own, to.port());
    }
    effective(to)
}

/// Makes an undecided socket the engine's, with the options that it has.
pub(crate) fn to_engine(fd: RawFd, undecided: Undecided) -> Result<Socket, SocketError> {
    let host = place::attached().ok_or(refused(libc::ENETDOWN))?;
    let options = options::of_undecided(fd, undecided);
    let kind = if undecided.stream {
        SocketKind::Stream
    } else {
        SocketKind::Datagram
    };
    let flags = open_flags(fd, undecided.v6, options);
    // Others find it by its inode, once the engine knows of it.
    let found_by = if undecided.shared { 0 } else { inode(fd) };
    let socket = host.sockets().open(kind, flags, found_by)?;
    socket.set_host_bits(options << host_bits::OPTIONS_SHIFT);
    options::replay(fd, &socket, options)?;
    socket
        .halves()
        .note(undecided.shut_read, undecided.shut_write);
    if undecided.shared {
        host.under_way().await_opened();
        socket.set_inode(inode(fd));
    }
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

/// The address at which the kernel has a socket that is undecided, once it has been given a port
/// there: as a datagram socket is by each send, also one that fails.
pub(crate) fn bound_by_kernel(fd: RawFd) -> Option<SocketAddr> {
    let name = rustix::net::getsockname(borrow(fd)).ok()?;
    SocketAddr::try_from(name).ok().filter(|a| a.port() != 0)
}

/// As `to_engine`, of a datagram socket. If the kernel has a port for it already, the engine gets
/// the same.
pub(crate) fn to_engine_with_port(fd: RawFd, undecided: Undecided) -> Result<Socket, SocketError> {
    let kernel = bound_by_kernel(fd);
    let socket = to_engine(fd, undecided)?;
    if let Some(kernel) = kernel {
        socket.set_host_bits(host_bits::KERNEL_TOO);
        // If another has it on the engine, any port has to do.
        let _ = socket.addresses().bind(kernel);
    }
    Ok(socket)
}

/// The kernel has refused to send from a datagram socket that is undecided, or to connect it. It
/// has given it a port before that, as it does with each of these calls, and the engine is to
/// receive there, too.
pub(crate) fn after_failed_call(fd: RawFd) {
    let errno = crate::results::errno();
    if let Entry::Undecided(undecided) = fds::get(fd)
        && !undecided.stream
        && place::attached().is_some()
        && bound_by_kernel(fd).is_some()
        && let Ok(socket) = to_engine_with_port(fd, undecided)
    {
        note_engine_socket(undecided, &socket);
    }
    crate::results::set_errno(errno);
}

/// What the engine is sent of a socket when it is opened: its version, and those of these options that
/// the kernel's half has.
fn open_flags(fd: RawFd, v6: bool, options: u32) -> OpenFlags {
    let set = |known: &options::Known| options & 1 << known.bit != 0;
    let mut flags = OpenFlags::empty();
    flags.set(OpenFlags::IPV6, v6);
    flags.set(
        OpenFlags::V6ONLY,
        v6 && rustix::net::sockopt::ipv6_v6only(borrow(fd)).unwrap_or(false),
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
pub(crate) fn note_engine_socket(undecided: Undecided, socket: &Socket) {
    epoll::to_engine(undecided, socket);
}

/// Puts a socket of the engine in the place of another under all descriptors that are that one when
/// it is looked at: another thread may be doing the same, or have closed one meanwhile.
fn put_in_place(old: SocketId, new: &Socket) {
    let entry = Entry::Engine(old);
    for (fd, _) in fds::all().filter(|(_, now)| *now == entry) {
        let id = new.clone().into_use();
        if fds::change(fd, entry, Entry::Engine(id)) {
            give_up(entry);
        } else {
            drop(Socket::from_use(new.host(), id));
        }
    }
}

/// All descriptors that are this socket of the engine are something else from now on.
fn take_out(id: SocketId, to: Entry) {
    let entry = Entry::Engine(id);
    for (fd, _) in fds::all().filter(|(_, now)| *now == entry) {
        if fds::change(fd, entry, to) {
            give_up(entry);
        }
    }
}

/// Takes a decision back that came to nothing.
pub(crate) fn undo(undecided: Undecided, id: SocketId) {
    take_out(id, Entry::Undecided(undecided));
}

/// Puts a new socket of the engine in the place of one that is not wanted any
/// more, under all descriptors that it has in this process. With its last use the
/// old one is reset.
pub(crate) fn renew(fd: RawFd, old: &Socket) -> Result<(), SocketError> {
    let (v6, options) = (old.is_v6(), options::set_by_program(old));
    let kernel = old.has_kernel_side();
    let mut flags = open_flags(fd, v6, options);
    // What the kernel's half says of this may be out of date.
    flags.set(OpenFlags::V6ONLY, v6 && old.options().is_v6_only());
    let new = old
        .host()
        .sockets()
        .open(SocketKind::Stream, flags, inode(fd))?;
    new.set_host_bits(options << host_bits::OPTIONS_SHIFT);
    options::give_switches(fd, old);
    options::replay(fd, &new, options)?;
    options::congestion::hand_on(old, &new)?;
    let is_under_way = matches!(
        old.state(),
        SocketState::Connected | SocketState::Connecting | SocketState::Early
    );
    if is_under_way && !old.halves().is_ended_by_both() {
        new.pending_error().set(libc::ECONNRESET);
    } else if let errno @ 1.. = old.pending_error().take() {
        // It is still to be reported.
        new.pending_error().set(errno.cast_signed());
    }
    new.take_places_of(old)?;
    owner::to_engine(fd, &new);
    put_in_place(old.id(), &new);
    if old.host_bits() & host_bits::OUR_TIMEOUT != 0 {
        // The program has not set it.
        let _ = set_socket_timeout(borrow(fd), Timeout::Recv, None);
    }
    if old.is_shared() {
        // Others look for the new one from now on.
        old.host().under_way().await_opened();
    }
    old.abandon();
    if kernel {
        disconnect_kernel_side(fd);
    }
    Ok(())
}

/// What the kernel's half listened for, or was connected to, goes, and it is not shut down any
/// more.
pub(crate) fn disconnect_kernel_side(fd: RawFd) {
    let unspecified = libc::sockaddr {
        sa_family: libc::AF_UNSPEC as libc::sa_family_t,
        sa_data: [0; 14],
    };
    let len = size_of::<libc::sockaddr>() as libc::socklen_t;
    crate::cancel::held(|| crate::real::connect(fd, In::from(&unspecified), len));
}

/// What another process has put in the place of a socket that it has used again, under all
/// descriptors that the old one has here; the old one if that process has closed it.
#[cold]
pub(crate) fn follow(fd: RawFd, old: Socket) -> Socket {
    let host = old.host();
    let found = host.sockets().inherit_inode(inode(fd));
    let Some(new) = found.filter(|new| new.id() != old.id()) else {
        return old;
    };
    if new.take_places_of(&old).is_err() {
        return old;
    }
    put_in_place(old.id(), &new);
    if !new.has_kernel_side() {
        epoll::leave_kernel(&new);
    }
    new
}

/// How often the port of a connection that is taken apart is asked for: once it is there
/// in the next turn, unless another process holds it.
const BIND_TRIES: u32 = 8;

/// As `renew`: the new socket is bound as the program has bound the old one. What the descriptor
/// is now.
pub(crate) fn begin_anew(fd: RawFd, old: Socket) -> Result<Socket, SocketError> {
    let (bound, was) = (old.addresses().bound_port(), old.addresses().local());
    renew(fd, &old)?;
    let new = fds::engine_or_closed(fd)?;
    new.addresses().keep_address_of(&old);
    if bound.is_some() {
        new.options().take_port_of(&old)?;
    }
    // Otherwise the port is free when the last use of the old one has gone.
    drop(old);
    if let Some(local) = bound {
        bind_to_port_of_old(&new, local);
    } else if let Some(was) = was {
        new.addresses().show_local(was);
    }
    Ok(new)
}

/// Binds the new socket to the port of the old one, which the engine gives up at the end
/// of the turn in which it is notified of that.
fn bind_to_port_of_old(new: &Socket, local: SocketAddr) {
    let in_use = SocketError::Refused(rustix::io::Errno::ADDRINUSE);
    for _ in 0..BIND_TRIES {
        if new.addresses().bind(local) != Err(in_use) {
            return;
        }
    }
    once!(
        Warn,
        Resource,
        "another process has the connection: it keeps port {}",
        local.port()
    );
}

/// Whether a socket that is bound to `local` receives by the kernel's interfaces, too.
pub(crate) fn is_for_all(socket: &Socket, local: SocketAddr) -> bool {
    if socket.host().is_alone() {
        return false;
    }
    let ip = local.ip().to_canonical();
    ip.is_unspecified() || ip.is_multicast() || socket.host().routes().is_broadcast(ip)
}

/// Leaves a socket to the kernel, under all descriptors that it has.
pub(crate) fn to_kernel(id: SocketId) {
    take_out(id, Entry::Kernel);
}

/// Leaves an undecided socket to the kernel.
pub(crate) fn leave(fd: RawFd, why: SocketAddr) {
    say(
        Level::Debug,
        format_args!("{why} is the kernel's: so is descriptor {fd}"),
    );
    leave_to_kernel(fd);
}

/// One descriptor of an undecided socket is the kernel's from now on.
pub(crate) fn leave_to_kernel(fd: RawFd) {
    match fds::put(fd, Entry::Kernel) {
        Entry::Undecided(left) => epoll::leave_undecided(fd, left),
        before => give_up(before),
    }
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
    match host.sockets().inherit_inode(inode) {
        Some(socket) => {
            fds::put(fd, Entry::Engine(socket.into_use()));
            true
        }
        None => false,
    }
}

/// What an undecided socket is by now that another process may have decided about: the engine's,
/// of which this process takes hold, or the kernel's.
#[cold]
pub(crate) fn look_for(fd: RawFd, undecided: Undecided) -> Entry {
    let as_it_was = Entry::Undecided(undecided);
    let Some(host) = place::attached() else {
        return as_it_was;
    };
    let found = host.sockets().inherit_inode(inode(fd));
    let Some(socket) = found else {
        // A datagram socket is bound by each send, whoever is to have it.
        if !undecided.stream || bound_by_kernel(fd).is_none() {
            return as_it_was;
        }
        fds::update(fd, undecided, Entry::Kernel);
        epoll::leave_undecided(fd, undecided);
        return Entry::Kernel;
    };
    let now = enter(fd, undecided, &socket);
    if now {
        epoll::to_engine(undecided, &socket);
    }
    Entry::Engine(socket.id())
}
