//! The kernel's TCP as a stack that scripts lead: its socket is ours, and its peer the
//! far side of a TUN device, in a network namespace that belongs to the thread.

mod tun;

use longshore_script::{Call, Sent, Stack};
use longshore_wire::ipv4::{Ipv4Header, protocol};
use longshore_wire::tcp::TcpHeader;
use rustix::fd::AsRawFd;
use rustix::io::Errno;
use rustix::net::sockopt;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, accept_with, bind,
    connect, listen, recv, send, shutdown, socket_with,
};
use std::cell::RefCell;
use std::fs;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};
use tun::Tun;

const OURS: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 2);
const PEER: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 1);
const PEER_PORT: u16 = 9;

/// What a thread keeps from script to script.
struct Bench {
    tun: Tun,
    /// The port of the next script: each has its own, so none meets another's remains.
    port: u16,
}

thread_local! {
    static BENCH: RefCell<Option<Bench>> = const { RefCell::new(None) };
}

/// A listener and one connection, which may come from it.
pub(crate) struct Kernel<'t> {
    tun: &'t Tun,
    port: u16,
    start: Instant,
    listener: Option<OwnedFd>,
    socket: Option<OwnedFd>,
}

impl Kernel<'_> {
    /// Does `work` with a kernel that no script has touched, as far as it can see.
    pub(crate) fn on_this_thread<T>(work: impl FnOnce(Kernel<'_>) -> T) -> T {
        BENCH.with_borrow_mut(|bench| {
            let bench = bench.get_or_insert_with(|| Bench {
                tun: Tun::in_a_namespace_of_its_own(OURS, PEER),
                port: 10_000,
            });
            bench.port += 1;
            work(Kernel {
                tun: &bench.tun,
                port: bench.port,
                start: Instant::now(),
                listener: None,
                socket: None,
            })
        })
    }

    fn socket(&self) -> Result<OwnedFd, Errno> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let fd = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
        bind(&fd, &SocketAddrV4::new(OURS, self.port))?;
        Ok(fd)
    }

    fn held(&self) -> Result<&OwnedFd, Errno> {
        self.socket.as_ref().ok_or(Errno::NOTCONN)
    }

    fn answer(&mut self, call: Call) -> Result<usize, Errno> {
        match call {
            Call::Connect => {
                let fd = self.socket.insert(self.socket()?);
                connect(fd, &SocketAddrV4::new(PEER, PEER_PORT)).map(|()| 0)
            }
            Call::Listen => listen(self.listener.insert(self.socket()?), 10).map(|()| 0),
            Call::Accept => {
                let listener = self.listener.as_ref().ok_or(Errno::INVAL)?;
                self.socket = Some(accept_with(listener, SocketFlags::NONBLOCK)?);
                Ok(0)
            }
            Call::Write(bytes) => send(self.held()?, &vec![7; bytes as usize], SendFlags::NOSIGNAL),
            Call::WriteUrgent(bytes) => {
                let flags = SendFlags::NOSIGNAL | SendFlags::OOB;
                send(self.held()?, &vec![7; bytes as usize], flags)
            }
            Call::ReadUrgent => {
                recv(self.held()?, &mut [0; 1][..], RecvFlags::OOB).map(|got| got.0)
            }
            Call::AtMark => at_mark(self.held()?),
            Call::Read(most) => {
                let mut room = vec![0; most as usize];
                recv(self.held()?, &mut room[..], RecvFlags::empty()).map(|(got, _)| got)
            }
            Call::ShutdownWrite => shutdown(self.held()?, Shutdown::Write).map(|()| 0),
            Call::ShutdownRead => shutdown(self.held()?, Shutdown::Read).map(|()| 0),
            Call::Close => {
                self.release();
                Ok(0)
            }
            Call::Abort => {
                if let Some(fd) = &self.socket {
                    sockopt::set_socket_linger(fd, Some(Duration::ZERO))?;
                }
                self.release();
                Ok(0)
            }
            Call::Error => match sockopt::socket_error(self.held()?)? {
                Ok(()) => Ok(0),
                Err(errno) => Err(errno),
            },
            Call::State => unreachable!("has an answer of another kind"),
        }
    }

    /// Closes the connection, or else the listener.
    fn release(&mut self) {
        if self.socket.take().is_none() {
            self.listener = None;
        }
    }

    /// The state of the connection, or else of the listener, as the kernel lists it.
    fn state(&self) -> &'static str {
        let list = fs::read_to_string("/proc/thread-self/net/tcp").expect("read the list");
        let states: Vec<u8> = list
            .lines()
            .skip(1)
            .filter_map(|line| {
                let mut words = line.split_whitespace().skip(1);
                let (local, _, state) = (words.next()?, words.next()?, words.next()?);
                let port = u16::from_str_radix(local.split_once(':')?.1, 16).ok()?;
                let state = u8::from_str_radix(state, 16).ok()?;
                (port == self.port).then_some(state)
            })
            .collect();
        const LISTEN: u8 = 10;
        let connection = states.iter().find(|state| **state != LISTEN);
        match connection.or(states.first()) {
            None => "CLOSED",
            Some(1) => "ESTABLISHED",
            Some(2) => "SYN-SENT",
            Some(3) => "SYN-RECEIVED",
            Some(4) => "FIN-WAIT-1",
            Some(5) => "FIN-WAIT-2",
            Some(6) => "TIME-WAIT",
            Some(7) => "CLOSED",
            Some(8) => "CLOSE-WAIT",
            Some(9) => "LAST-ACK",
            Some(10) => "LISTEN",
            Some(11) => "CLOSING",
            Some(other) => panic!("the kernel lists state {other}"),
        }
    }
}

impl Stack for Kernel<'_> {
    // The machine may be busy with other tests.
    const TIMEOUT: Duration = Duration::from_millis(500);
    const SILENCE: Duration = Duration::from_millis(20);
    // Its timers have ticks of up to 10 ms.
    const EARLY: Duration = Duration::from_millis(10);

    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn pass(&mut self, time: Duration) {
        std::thread::sleep(time);
    }

    fn arrives(&mut self, header: &TcpHeader, payload_len: u32) {
        let header = TcpHeader {
            src_port: PEER_PORT,
            dst_port: self.port,
            ..header.clone()
        };
        self.tun.send(PEER, OURS, &header, payload_len as usize);
    }

    fn sends(&mut self, wait: Duration) -> Option<Sent> {
        let end = Instant::now() + wait;
        loop {
            let packet = self
                .tun
                .receive(end.saturating_duration_since(Instant::now()))?;
            let Ok((ip, payload)) = Ipv4Header::parse(&packet) else {
                continue;
            };
            let segment = &packet[payload];
            if ip.protocol != protocol::TCP {
                continue;
            }
            let (header, len) = TcpHeader::parse(segment).expect("the kernel sends headers");
            // What an earlier script has left may still speak.
            if header.src_port == self.port {
                return Some(Sent {
                    header,
                    payload_len: (segment.len() - len) as u32,
                });
            }
        }
    }

    fn call(&mut self, call: Call) -> String {
        if call == Call::State {
            return self.state().into();
        }
        match self.answer(call) {
            Ok(number) => number.to_string(),
            Err(errno) => name_of(errno),
        }
    }
}

impl Drop for Kernel<'_> {
    fn drop(&mut self) {
        // Nothing of it is to be repeated into the next script.
        let _ = self.answer(Call::Abort);
    }
}

/// SIOCATMARK.
fn at_mark(socket: &OwnedFd) -> Result<usize, Errno> {
    const SIOCATMARK: libc::c_ulong = 0x8905;
    let mut is: libc::c_int = 0;
    // SAFETY: this request writes an int.
    match unsafe { libc::ioctl(socket.as_raw_fd(), SIOCATMARK, &raw mut is) } {
        0 => Ok(is as usize),
        _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)),
    }
}

fn name_of(errno: Errno) -> String {
    match errno {
        Errno::AGAIN => "EAGAIN".into(),
        Errno::ALREADY => "EALREADY".into(),
        Errno::CONNABORTED => "ECONNABORTED".into(),
        Errno::CONNREFUSED => "ECONNREFUSED".into(),
        Errno::CONNRESET => "ECONNRESET".into(),
        Errno::INPROGRESS => "EINPROGRESS".into(),
        Errno::INVAL => "EINVAL".into(),
        Errno::ISCONN => "EISCONN".into(),
        Errno::NOTCONN => "ENOTCONN".into(),
        Errno::PIPE => "EPIPE".into(),
        Errno::TIMEDOUT => "ETIMEDOUT".into(),
        other => format!("{other:?}"),
    }
}
