//! A relay between libc's resolver and a nameserver that the engine reaches: kernel sockets
//! on the loopback, and sockets of the engine beyond. One thread, for as long as one call
//! that resolves names takes.

use crate::address::Native;
use crate::calls::{close, connect, recv, send, socket};
use crate::real;
use crate::user::{In, Out, Zero};
use libc::{c_int, pollfd, sockaddr_in, socklen_t};
use std::net::SocketAddr;
use std::os::fd::RawFd;

/// Queries under way at most; the resolver has one for each kind of address.
const MOST_QUERIES: usize = 16;
/// Of them, those from one socket of the resolver's that wait for an answer.
const MOST_OPEN: usize = 4;
/// Bytes of the largest message.
const LARGEST: usize = 65_537;
/// Bytes of the header of a DNS message, and where its flags are.
const HEADER: usize = 12;
const FLAGS: usize = 2;
const RESPONSE: u8 = 0x80;
const SERVER_FAILURE: u8 = 2;
/// Seconds for which a connection to a nameserver may take.
const CONNECTS_FOR: i64 = 5;

/// What stands for one nameserver.
#[derive(Debug)]
pub(super) struct Line {
    nameserver: SocketAddr,
    datagrams: RawFd,
    listener: RawFd,
    port: u16,
}

fn loopback(port: u16) -> sockaddr_in {
    // SAFETY: an all-zero address is one.
    let mut a: sockaddr_in = Zero::zero();
    a.sin_family = libc::AF_INET as libc::sa_family_t;
    a.sin_port = port.to_be();
    a.sin_addr.s_addr = u32::from(std::net::Ipv4Addr::LOCALHOST).to_be();
    a
}

const ADDRESS_BYTES: socklen_t = size_of::<sockaddr_in>() as socklen_t;

/// A kernel socket at a port of the loopback; 0 is any.
fn bound(kind: c_int, port: u16) -> Option<(RawFd, u16)> {
    let kind = kind | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    let mut at = loopback(port);
    let mut len = ADDRESS_BYTES;
    let fd = real::socket(libc::AF_INET, kind, 0);
    if fd < 0 {
        return None;
    }
    let is_bound = real::bind(fd, In::from(&at).cast(), len) == 0
        && real::getsockname(fd, Out::from(&mut at).cast(), Out::from(&mut len)) == 0;
    if !is_bound {
        real::close(fd);
        return None;
    }
    Some((fd, u16::from_be(at.sin_port)))
}

impl Line {
    /// One for `nameserver`; `None` if the kernel has no port for it.
    pub(super) fn new(nameserver: SocketAddr) -> Option<Self> {
        let (datagrams, port) = bound(libc::SOCK_DGRAM, 0)?;
        // Without it long answers are cut short.
        let listener = bound(libc::SOCK_STREAM, port).map_or(-1, |(fd, _)| fd);
        if listener >= 0 {
            real::listen(listener, 4);
        }
        Some(Self {
            nameserver,
            datagrams,
            listener,
            port,
        })
    }

    /// Where the resolver finds it.
    pub(super) fn address(&self) -> sockaddr_in {
        loopback(self.port)
    }

    /// A socket of the engine that is connected to the nameserver.
    fn dial(&self, kind: c_int) -> Option<RawFd> {
        let domain = match self.nameserver {
            SocketAddr::V4(_) => libc::AF_INET,
            SocketAddr::V6(_) => libc::AF_INET6,
        };
        let to = Native::of_engine(self.nameserver, self.nameserver.is_ipv6());
        let limit = libc::timeval {
            tv_sec: CONNECTS_FOR,
            tv_usec: 0,
        };
        let fd = socket::socket(domain, kind | libc::SOCK_CLOEXEC, 0);
        if fd < 0 {
            return None;
        }
        crate::calls::options::setsockopt(
            fd,
            libc::SOL_SOCKET,
            libc::SO_SNDTIMEO,
            In::from(&limit).cast(),
            size_of_val(&limit) as socklen_t,
        );
        if connect::connect(fd, to.as_in(), to.len) != 0 {
            close::close(fd);
            return None;
        }
        Some(fd)
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        for fd in [self.datagrams, self.listener] {
            if fd >= 0 {
                real::close(fd);
            }
        }
    }
}

/// Queries by datagram from one socket of the resolver's, with the socket that waits for
/// their answers.
struct Query {
    line: usize,
    from: sockaddr_in,
    fd: RawFd,
    /// Those that have none yet, as they were asked.
    open: Vec<Vec<u8>>,
}

impl Query {
    /// Notes that `message` was asked, or asked again.
    fn note(&mut self, message: &[u8]) {
        self.forget(message);
        if self.open.len() < MOST_OPEN {
            self.open.push(message.to_vec());
        }
    }

    /// `message` is an answer, or takes the place of a query: that of its number.
    fn forget(&mut self, message: &[u8]) {
        self.open
            .retain(|asked| asked.get(..FLAGS) != message.get(..FLAGS));
    }
}

/// A connection of the resolver's, and the one to the nameserver.
struct Pair {
    kernel: RawFd,
    engine: RawFd,
}

impl Drop for Query {
    fn drop(&mut self) {
        close::close(self.fd);
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        real::close(self.kernel);
        close::close(self.engine);
    }
}

/// The relay.
pub(super) struct Relay {
    pub(super) lines: Vec<Line>,
    queries: Vec<Query>,
    pairs: Vec<Pair>,
    buffer: Vec<u8>,
}

impl Relay {
    pub(super) fn new(lines: Vec<Line>) -> Self {
        Self {
            lines,
            queries: Vec::new(),
            pairs: Vec::new(),
            buffer: vec![0; LARGEST],
        }
    }

    /// Relays until `stop` is readable.
    pub(super) fn run(mut self, stop: RawFd) {
        loop {
            let mut list = vec![stop];
            list.extend(self.lines.iter().flat_map(|l| [l.datagrams, l.listener]));
            list.extend(self.queries.iter().map(|q| q.fd));
            list.extend(self.pairs.iter().flat_map(|p| [p.kernel, p.engine]));
            let mut list: Vec<pollfd> = list
                .into_iter()
                .map(|fd| pollfd {
                    fd,
                    events: libc::POLLIN,
                    revents: 0,
                })
                .collect();
            let count = list.len() as _;
            let found = crate::calls::poll::poll(Out::from(&mut list[..]), count, -1);
            if found < 0 && crate::calls::errno() != libc::EINTR {
                return;
            }
            let ready = |at: usize| list[at].revents != 0;
            if ready(0) {
                return;
            }
            let (lines, queries) = (self.lines.len(), self.queries.len());
            // From the last: what is taken out moves none that is still to be looked at.
            for i in (0..self.pairs.len()).rev() {
                let at = 1 + 2 * lines + queries + 2 * i;
                if (ready(at) && !self.pass_on(i, true))
                    || (ready(at + 1) && !self.pass_on(i, false))
                {
                    self.pairs.swap_remove(i);
                }
            }
            for i in (0..queries).rev() {
                if ready(1 + 2 * lines + i) {
                    self.answered(i);
                }
            }
            for i in 0..lines {
                if ready(1 + 2 * i) {
                    self.asked(i);
                }
                if ready(2 + 2 * i) {
                    self.connected(i);
                }
            }
        }
    }

    /// Queries have come.
    fn asked(&mut self, line: usize) {
        loop {
            let mut from = loopback(0);
            let mut len = ADDRESS_BYTES;
            let (room, name) = (self.buffer.len(), Out::from(&mut from).cast());
            let socket = self.lines[line].datagrams;
            let at = Out::from(&mut self.buffer[..]).cast();
            let got = real::recvfrom(socket, at, room, 0, name, Out::from(&mut len));
            let Ok(got) = usize::try_from(got) else {
                return;
            };
            let Some(i) = self.query_of(line, from) else {
                self.refuse(line, from, got);
                continue;
            };
            let at = In::from(&self.buffer[..]).cast();
            let sent = send::send(self.queries[i].fd, at, got, 0);
            self.queries[i].note(&self.buffer[..got]);
            if sent < 0 {
                // It may be what came of the query before that says so.
                self.failed(i);
            }
        }
    }

    /// Where the queries from one socket of the resolver's are, if the nameserver can be
    /// asked at all.
    fn query_of(&mut self, line: usize, from: sockaddr_in) -> Option<usize> {
        let is_of = |q: &Query| q.line == line && q.from.sin_port == from.sin_port;
        if let Some(at) = self.queries.iter().position(is_of) {
            return Some(at);
        }
        let fd = self.lines[line].dial(libc::SOCK_DGRAM)?;
        if self.queries.len() == MOST_QUERIES {
            self.queries.remove(0);
        }
        self.queries.push(Query {
            line,
            from,
            fd,
            open: Vec::new(),
        });
        Some(self.queries.len() - 1)
    }

    /// Says of the query in the buffer that the nameserver has failed, so that the resolver
    /// asks the next.
    fn refuse(&mut self, line: usize, to: sockaddr_in, len: usize) {
        if len < HEADER {
            return;
        }
        self.buffer[FLAGS] |= RESPONSE;
        self.buffer[FLAGS + 1] = self.buffer[FLAGS + 1] & 0xf0 | SERVER_FAILURE;
        self.reply(line, to, len);
    }

    fn reply(&self, line: usize, to: sockaddr_in, len: usize) {
        let (at, name) = (In::from(&self.buffer[..]).cast(), In::from(&to).cast());
        real::sendto(self.lines[line].datagrams, at, len, 0, name, ADDRESS_BYTES);
    }

    /// An answer has come, or word that there will be none, as nobody is there: what is open
    /// has failed then, and the resolver asks the next, as one that is told by the kernel does.
    fn answered(&mut self, query: usize) {
        let &Query { line, from, fd, .. } = &self.queries[query];
        let room = self.buffer.len();
        let at = Out::from(&mut self.buffer[..]).cast();
        let got = recv::recv(fd, at, room, libc::MSG_DONTWAIT);
        match usize::try_from(got) {
            Ok(got) => {
                self.queries[query].forget(&self.buffer[..got]);
                self.reply(line, from, got);
            }
            Err(_) if crate::calls::errno() == libc::EAGAIN => {}
            Err(_) => self.failed(query),
        }
    }

    /// What is open of a socket of the resolver's has no answer.
    fn failed(&mut self, query: usize) {
        let query = self.queries.remove(query);
        for asked in &query.open {
            self.buffer[..asked.len()].copy_from_slice(asked);
            self.refuse(query.line, query.from, asked.len());
        }
    }

    /// The resolver wants a connection.
    fn connected(&mut self, line: usize) {
        let listener = self.lines[line].listener;
        let kernel = real::accept4(listener, Out::null(), Out::null(), libc::SOCK_CLOEXEC);
        if kernel < 0 {
            return;
        }
        match self.lines[line].dial(libc::SOCK_STREAM) {
            Some(engine) => self.pairs.push(Pair { kernel, engine }),
            None => drop(real::close(kernel)),
        }
    }

    /// Passes on what one end of a connection has; `false` if it is over.
    fn pass_on(&mut self, pair: usize, from_kernel: bool) -> bool {
        let Pair { kernel, engine } = self.pairs[pair];
        let room = self.buffer.len();
        let at = Out::from(&mut self.buffer[..]).cast();
        let got = if from_kernel {
            real::recv(kernel, at, room, 0)
        } else {
            recv::recv(engine, at, room, 0)
        };
        let Some(got) = usize::try_from(got).ok().filter(|n| *n != 0) else {
            return false;
        };
        let at = In::from(&self.buffer[..got]).cast();
        let sent = if from_kernel {
            send::send(engine, at, got, libc::MSG_NOSIGNAL)
        } else {
            real::send(kernel, at, got, libc::MSG_NOSIGNAL)
        };
        usize::try_from(sent) == Ok(got)
    }
}
