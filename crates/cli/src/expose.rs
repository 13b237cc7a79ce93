//! The relay behind `--expose`: takes connections to ports of the kernel and
//! passes them on to the program's, byte for byte, both ways.
//!
//! The listening sockets are made where the launcher is, so that the world
//! reaches them; the relay runs in a thread of the engine's process, so that it
//! reaches the engine. One thread serves all connections. It holds memory only
//! for bytes that one side has sent and the other does not take yet, and does
//! not read on while there are any.

pub(crate) mod datagrams;
mod proxy;

use crate::errors::Error;
use crate::expose_order::{Expose, Outside, Passes, Proxy};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, Shutdown, SocketFlags, SocketType, accept_with, connect, shutdown, socket_with,
    sockopt,
};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};

/// Bytes read at once.
const PIECE: usize = 256 * 1024;
/// Connections that wait to be accepted, on each port.
const BACKLOG: i32 = 256;
/// Events taken at once.
const EVENTS: usize = 64;

/// Makes the socket outside of an exposed port.
pub(crate) fn listen(expose: &Expose) -> Result<OwnedFd, Error> {
    let mut made = bind(expose.listen.address(), expose.passes);
    if let (Outside::Everywhere(port), Err(Errno::AFNOSUPPORT | Errno::ADDRNOTAVAIL)) =
        (expose.listen, &made)
    {
        // A kernel without IPv6.
        made = bind((Ipv4Addr::UNSPECIFIED, port).into(), expose.passes);
    }
    made.map_err(|errno| Error::Expose {
        listen: expose.listen,
        source: errno.into(),
    })
}

/// A socket that does not block, and listens if it is for streams. One for the wildcard of IPv6 is
/// for IPv4, too, whatever net.ipv6.bindv6only says.
fn bind(address: SocketAddr, passes: Passes) -> Result<OwnedFd, Errno> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let kind = match passes {
        Passes::Streams(_) => SocketType::STREAM,
        Passes::Datagrams => SocketType::DGRAM,
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, kind, flags, None)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, false)?;
    }
    if kind == SocketType::STREAM {
        sockopt::set_socket_reuseaddr(&socket, true)?;
    }
    rustix::net::bind(&socket, &address)?;
    if kind == SocketType::STREAM {
        rustix::net::listen(&socket, BACKLOG)?;
    }
    Ok(socket)
}

/// One direction of a connection.
#[derive(Debug, Default)]
struct Flow {
    /// Read and not yet written.
    kept: Vec<u8>,
    written: usize,
    /// The source has sent its last byte.
    ended: bool,
    /// And the target was sent that end.
    sent_end: bool,
}

/// Something went wrong with a connection; both sides are to be reset.
struct Broken;

impl Flow {
    fn is_clear(&self) -> bool {
        self.kept.is_empty()
    }

    /// Moves what can be moved.
    fn pump(&mut self, from: &OwnedFd, to: &OwnedFd, piece: &mut [u8]) -> Result<(), Broken> {
        loop {
            if !self.push(to)? {
                return Ok(());
            }
            if self.ended {
                if !self.sent_end {
                    self.sent_end = true;
                    // A target that is gone says so by itself.
                    let _ = shutdown(to, Shutdown::Write);
                }
                return Ok(());
            }
            match rustix::io::read(from, &mut *piece) {
                Ok(0) => self.ended = true,
                Ok(n) => self.write_through(to, &piece[..n])?,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(()),
                Err(_) => return Err(Broken),
            }
        }
    }

    /// Writes what is kept. False if some is left.
    fn push(&mut self, to: &OwnedFd) -> Result<bool, Broken> {
        while self.written < self.kept.len() {
            match write(to, &self.kept[self.written..])? {
                0 => return Ok(false),
                n => self.written += n,
            }
        }
        // An idle connection holds no memory.
        self.kept = Vec::new();
        self.written = 0;
        Ok(true)
    }

    /// Writes fresh bytes, keeping those that find no room.
    fn write_through(&mut self, to: &OwnedFd, bytes: &[u8]) -> Result<(), Broken> {
        let mut rest = bytes;
        while !rest.is_empty() {
            match write(to, rest)? {
                0 => break,
                n => rest = &rest[n..],
            }
        }
        self.kept.extend_from_slice(rest);
        Ok(())
    }
}

/// Writes; 0 if there is no room now.
fn write(to: &OwnedFd, bytes: &[u8]) -> Result<usize, Broken> {
    loop {
        match rustix::net::send(to, bytes, rustix::net::SendFlags::NOSIGNAL) {
            Ok(n) => return Ok(n),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(0),
            Err(_) => return Err(Broken),
        }
    }
}

#[derive(Debug)]
struct Connection {
    /// The client outside, and the program on the engine.
    ends: [OwnedFd; 2],
    connected: bool,
    /// From the client, and from the program.
    flows: [Flow; 2],
    /// What each end is in the epoll instance for; empty if it is not.
    watched: [EventFlags; 2],
}

impl Connection {
    fn relay(&mut self, piece: &mut [u8]) -> Result<(), Broken> {
        let [client, program] = &self.ends;
        if !self.connected {
            match sockopt::socket_error(program) {
                Ok(Ok(())) if rustix::net::getpeername(program).is_ok() => self.connected = true,
                Ok(Ok(())) => return Ok(()),
                _ => return Err(Broken),
            }
        }
        self.flows[0].pump(client, program, piece)?;
        self.flows[1].pump(program, client, piece)
    }

    fn is_done(&self) -> bool {
        self.flows.iter().all(|flow| flow.sent_end)
    }

    /// What end `i` is to wake us for.
    fn interest(&self, i: usize) -> EventFlags {
        if !self.connected {
            return if i == 1 {
                EventFlags::OUT
            } else {
                EventFlags::empty()
            };
        }
        let (out, back) = (&self.flows[i], &self.flows[1 - i]);
        let mut flags = EventFlags::empty();
        flags.set(EventFlags::IN, out.is_clear() && !out.ended);
        flags.set(EventFlags::OUT, !back.is_clear());
        flags
    }

    /// Brings the epoll instance up to date. An end that is to wake us for
    /// nothing is taken out: it would still wake us, for having hung up, again
    /// and again. False if the instance takes no more.
    fn watch(&mut self, epoll: &OwnedFd, slot: usize) -> bool {
        for i in 0..2 {
            let (now, wanted) = (self.watched[i], self.interest(i));
            if now == wanted {
                continue;
            }
            let (end, mark) = (
                &self.ends[i],
                EventData::new_u64(2 * slot as u64 + i as u64),
            );
            let done = match (now.is_empty(), wanted.is_empty()) {
                (true, _) => epoll::add(epoll, end, mark, wanted),
                (false, true) => epoll::delete(epoll, end),
                (false, false) => epoll::modify(epoll, end, mark, wanted),
            };
            if done.is_err() {
                return false;
            }
            self.watched[i] = wanted;
        }
        true
    }

    /// Makes both ends see a reset.
    fn reset(&self) {
        for end in &self.ends {
            let _ = sockopt::set_socket_linger(end, Some(std::time::Duration::ZERO));
        }
    }
}

/// A listening socket, and where what comes by it goes.
#[derive(Debug)]
pub(crate) struct Leads {
    pub(crate) listener: OwnedFd,
    pub(crate) target: SocketAddr,
    /// How the program learns of each client.
    pub(crate) proxy: Option<Proxy>,
}

/// Listening sockets, and the connections that came over them.
#[derive(Debug)]
pub(crate) struct Relay {
    epoll: OwnedFd,
    listeners: Vec<Leads>,
    connections: Vec<Option<Connection>>,
    free: Vec<usize>,
    /// No descriptors were left: no more is accepted until one is closed, or a
    /// second has passed.
    full: bool,
    piece: Vec<u8>,
}

/// Events of connections are marked 2 * slot + end, of listeners from here on.
const LISTENERS: u64 = 1 << 40;

impl Relay {
    /// Relays each listening socket to an address on the engine.
    pub(crate) fn new(listeners: Vec<Leads>) -> Result<Self, Errno> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for (i, leads) in (LISTENERS..).zip(&listeners) {
            epoll::add(
                &epoll,
                &leads.listener,
                EventData::new_u64(i),
                EventFlags::IN,
            )?;
        }
        Ok(Relay {
            epoll,
            listeners,
            connections: Vec::new(),
            free: Vec::new(),
            full: false,
            piece: vec![0; PIECE],
        })
    }

    /// Serves for ever, or until the event loop itself fails.
    pub(crate) fn run(&mut self) -> Errno {
        loop {
            if let Err(errno) = self.turn() {
                return errno;
            }
        }
    }

    /// Waits for something to do and does it.
    fn turn(&mut self) -> Result<(), Errno> {
        let mut events = [MaybeUninit::<epoll::Event>::uninit(); EVENTS];
        let second = rustix::time::Timespec {
            tv_sec: 1,
            tv_nsec: 0,
        };
        let timeout = self.full.then_some(&second);
        let ready = match epoll::wait(&self.epoll, &mut events, timeout) {
            Ok((ready, _)) => ready,
            Err(Errno::INTR) => return Ok(()),
            Err(errno) => return Err(errno),
        };
        if self.full && ready.is_empty() {
            self.set_full(false);
        }
        for event in ready.iter() {
            let mark = event.data.u64();
            if mark >= LISTENERS {
                self.accept((mark - LISTENERS) as usize);
            } else {
                // Errors and hang-ups show in the calls that follow.
                self.relay((mark / 2) as usize);
            }
        }
        Ok(())
    }

    fn accept(&mut self, listener: usize) {
        let Some(leads) = self.listeners.get(listener) else {
            return;
        };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let client = match accept_with(&leads.listener, flags) {
            Ok(client) => client,
            Err(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS) => {
                self.set_full(true);
                return;
            }
            Err(_) => return,
        };
        let program = match dial(leads.target) {
            Ok(program) => program,
            Err(errno) => {
                let _ = sockopt::set_socket_linger(&client, Some(std::time::Duration::ZERO));
                self.set_full(matches!(errno, Errno::MFILE | Errno::NFILE));
                return;
            }
        };
        let _ = sockopt::set_tcp_nodelay(&client, true);
        let header = match leads.proxy.map(|version| introduction(version, &client)) {
            None => Vec::new(),
            Some(Ok(header)) => header,
            // It is gone again.
            Some(Err(_)) => return,
        };
        let mut connection = Connection {
            ends: [client, program],
            connected: false,
            flows: [
                Flow {
                    kept: header,
                    ..Flow::default()
                },
                Flow::default(),
            ],
            watched: [EventFlags::empty(); 2],
        };
        let slot = self.free.pop().unwrap_or_else(|| {
            self.connections.push(None);
            self.connections.len() - 1
        });
        if connection.watch(&self.epoll, slot) {
            self.connections[slot] = Some(connection);
        } else {
            connection.reset();
            self.free.push(slot);
        }
    }

    fn relay(&mut self, slot: usize) {
        let Some(connection) = self.connections.get_mut(slot).and_then(Option::as_mut) else {
            return;
        };
        let result = connection.relay(&mut self.piece);
        if result.is_err() {
            connection.reset();
        }
        if result.is_err() || connection.is_done() || !connection.watch(&self.epoll, slot) {
            self.connections[slot] = None;
            self.free.push(slot);
            self.set_full(false);
        }
    }

    /// Stops or resumes accepting.
    fn set_full(&mut self, full: bool) {
        if self.full == full {
            return;
        }
        self.full = full;
        let flags = if full {
            EventFlags::empty()
        } else {
            EventFlags::IN
        };
        for (i, leads) in (LISTENERS..).zip(&self.listeners) {
            let fd = &leads.listener;
            let _ = epoll::modify(&self.epoll, fd, EventData::new_u64(i), flags);
        }
    }
}

/// What announces a client to the program, before its first byte.
fn introduction(version: Proxy, client: &OwnedFd) -> Result<Vec<u8>, Errno> {
    let inet = |address| SocketAddr::try_from(address).map_err(|_| Errno::AFNOSUPPORT);
    let from = inet(rustix::net::getpeername(client)?.ok_or(Errno::NOTCONN)?)?;
    let at = inet(rustix::net::getsockname(client)?)?;
    Ok(proxy::header(version, from, at))
}

/// Starts to connect to an address on the engine.
fn dial(target: SocketAddr) -> Result<OwnedFd, Errno> {
    let family = match target {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = socket_with(family, SocketType::STREAM, flags, None)?;
    let _ = sockopt::set_tcp_nodelay(&fd, true);
    match connect(fd.as_fd(), &target) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(fd),
        Err(errno) => Err(errno),
    }
}

#[cfg(test)]
mod tests;
