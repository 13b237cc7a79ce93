//! The relay of datagrams behind `--expose PORT:PORT/udp`.
//!
//! It runs in a thread of its own, beside that of streams. Each client outside has a socket
//! of its own on the engine, so that answers find their way back; one that has been idle for
//! a while is closed. What finds no room is dropped, as datagrams are.

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, connect, recv, recvfrom, send,
    sendto, socket_with,
};
use std::collections::HashMap;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// A client is forgotten after this long without a datagram either way, as connection
/// tracking has it for UDP that was answered.
const IDLE: Duration = Duration::from_secs(120);
/// How often that is looked at.
const LOOK: Duration = Duration::from_secs(5);
/// Clients at once; a new one takes the place of the one that has been idle for longest.
const MOST_CLIENTS: usize = 1024;
/// Datagrams taken from one socket before the next is looked at.
const AT_ONCE: usize = 64;
/// The longest datagram.
const LONGEST: usize = 65_535;
/// Events taken at once.
const EVENTS: usize = 64;
/// Events of clients are marked by their slot, those of listening sockets from here on.
const LISTENERS: u64 = 1 << 40;

/// A client outside.
#[derive(Debug)]
struct Client {
    /// By which of the listening sockets, and from where it sends.
    name: (usize, SocketAddr),
    /// Connected to the program.
    inside: OwnedFd,
    last_seen: Instant,
}

/// Sockets that are bound outside, and the clients that came by them.
#[derive(Debug)]
pub(crate) struct DatagramRelay {
    epoll: OwnedFd,
    outside: Vec<(OwnedFd, SocketAddr)>,
    clients: Vec<Option<Client>>,
    slots: HashMap<(usize, SocketAddr), usize>,
    bytes: Vec<u8>,
}

impl DatagramRelay {
    /// Relays what comes to each socket to an address on the engine.
    pub(crate) fn new(outside: Vec<(OwnedFd, SocketAddr)>) -> Result<Self, Errno> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for (mark, (fd, _)) in (LISTENERS..).zip(&outside) {
            epoll::add(&epoll, fd, EventData::new_u64(mark), EventFlags::IN)?;
        }
        Ok(DatagramRelay {
            epoll,
            outside,
            clients: Vec::new(),
            slots: HashMap::new(),
            bytes: vec![0; LONGEST],
        })
    }

    /// Serves for ever, or until the event loop itself fails.
    pub(crate) fn run(&mut self) -> Errno {
        let mut looked = Instant::now();
        loop {
            if let Err(errno) = self.turn() {
                return errno;
            }
            if looked.elapsed() >= LOOK {
                looked = Instant::now();
                self.forget_idle();
            }
        }
    }

    fn turn(&mut self) -> Result<(), Errno> {
        let mut events = [MaybeUninit::<epoll::Event>::uninit(); EVENTS];
        let pause = rustix::time::Timespec {
            tv_sec: LOOK.as_secs() as i64,
            tv_nsec: 0,
        };
        let pause = (!self.slots.is_empty()).then_some(&pause);
        let ready = match epoll::wait(&self.epoll, &mut events, pause) {
            Ok((ready, _)) => ready,
            Err(Errno::INTR) => return Ok(()),
            Err(errno) => return Err(errno),
        };
        for event in ready.iter() {
            match event.data.u64() {
                mark if mark >= LISTENERS => self.pass_in((mark - LISTENERS) as usize),
                slot => self.pass_out(slot as usize),
            }
        }
        Ok(())
    }

    fn pass_in(&mut self, listener: usize) {
        for _ in 0..AT_ONCE {
            let Some((fd, _)) = self.outside.get(listener) else {
                return;
            };
            let got = recvfrom(fd, &mut self.bytes[..], RecvFlags::empty());
            let Ok((len, _, Some(from))) = got else {
                return;
            };
            let Ok(from) = SocketAddr::try_from(from) else {
                continue;
            };
            let Some(slot) = self.client((listener, from)) else {
                continue;
            };
            if let Some(client) = &mut self.clients[slot] {
                client.last_seen = Instant::now();
                // One that finds no room is dropped; a refusal is the client's to find out.
                let _ = send(&client.inside, &self.bytes[..len], SendFlags::NOSIGNAL);
            }
        }
    }

    fn pass_out(&mut self, slot: usize) {
        for _ in 0..AT_ONCE {
            let Some(client) = self.clients.get_mut(slot).and_then(Option::as_mut) else {
                return;
            };
            match recv(&client.inside, &mut self.bytes[..], RecvFlags::empty()) {
                Ok((len, _)) => {
                    client.last_seen = Instant::now();
                    let (listener, to) = client.name;
                    if let Some((fd, _)) = self.outside.get(listener) {
                        let _ = sendto(fd, &self.bytes[..len], SendFlags::NOSIGNAL, &to);
                    }
                }
                // The program's port is closed; it may open.
                Err(Errno::CONNREFUSED | Errno::INTR) => {}
                Err(_) => return,
            }
        }
    }

    /// The slot of a client, which is made if it is new; `None` if there is no descriptor
    /// for it.
    fn client(&mut self, name: (usize, SocketAddr)) -> Option<usize> {
        if let Some(slot) = self.slots.get(&name) {
            return Some(*slot);
        }
        if self.slots.len() >= MOST_CLIENTS {
            let all = self.clients.iter().flatten();
            let oldest = all.min_by_key(|c| c.last_seen).map(|c| c.name)?;
            self.forget(oldest);
        }
        let inside = dial(self.outside.get(name.0)?.1).ok()?;
        let free = self.clients.iter().position(Option::is_none);
        let slot = free.unwrap_or_else(|| {
            self.clients.push(None);
            self.clients.len() - 1
        });
        let mark = EventData::new_u64(slot as u64);
        epoll::add(&self.epoll, &inside, mark, EventFlags::IN).ok()?;
        self.clients[slot] = Some(Client {
            name,
            inside,
            last_seen: Instant::now(),
        });
        self.slots.insert(name, slot);
        Some(slot)
    }

    fn forget(&mut self, name: (usize, SocketAddr)) {
        if let Some(slot) = self.slots.remove(&name) {
            // Closing the descriptor takes it out of the epoll instance.
            self.clients[slot] = None;
        }
    }

    fn forget_idle(&mut self) {
        let idle = |c: &&Client| c.last_seen.elapsed() >= IDLE;
        let all = self.clients.iter().flatten();
        let names: Vec<_> = all.filter(idle).map(|c| c.name).collect();
        for name in names {
            self.forget(name);
        }
    }
}

/// A socket that is connected to an address on the engine.
fn dial(target: SocketAddr) -> Result<OwnedFd, Errno> {
    let family = match target {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = socket_with(family, SocketType::DGRAM, flags, None)?;
    connect(&fd, &target)?;
    Ok(fd)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::thread;

    fn socket() -> UdpSocket {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let timeout = Some(Duration::from_secs(60));
        socket.set_read_timeout(timeout).unwrap();
        socket
    }

    /// A relay to `target`; its address.
    fn relay_to(target: SocketAddr) -> SocketAddr {
        let outside = socket();
        outside.set_nonblocking(true).unwrap();
        let address = outside.local_addr().unwrap();
        let pairs = vec![(OwnedFd::from(outside), target)];
        thread::spawn(move || DatagramRelay::new(pairs).unwrap().run());
        address
    }

    #[test]
    fn each_client_gets_its_own_answers() {
        let program = socket();
        let relay = relay_to(program.local_addr().unwrap());
        let clients = [socket(), socket()];
        let mut bytes = [0; LONGEST];
        let mut seen = Vec::new();
        for (i, client) in clients.iter().enumerate() {
            for length in [1, 1400, 20_000] {
                let sent = vec![i as u8 + 1; length];
                client.send_to(&sent, relay).unwrap();
                let (len, from) = program.recv_from(&mut bytes).unwrap();
                assert_eq!(bytes[..len], sent);
                seen.push(from);
                program.send_to(&bytes[..len / 2], from).unwrap();
                let (len, by) = client.recv_from(&mut bytes).unwrap();
                assert_eq!((&bytes[..len], by), (&sent[..length / 2], relay));
            }
        }
        seen.dedup();
        assert_eq!(
            seen.len(),
            clients.len(),
            "one socket inside for each client"
        );
    }

    #[test]
    fn the_longest_idle_client_makes_room() {
        let program = socket();
        let outside = socket();
        outside.set_nonblocking(true).unwrap();
        let pairs = vec![(OwnedFd::from(outside), program.local_addr().unwrap())];
        let mut relay = DatagramRelay::new(pairs).unwrap();
        let name = |port: u16| (0, SocketAddr::from(([127, 0, 0, 1], port)));
        for port in 1..=2 {
            relay.client(name(port)).unwrap();
        }
        let first = relay.slots[&name(1)];
        assert_eq!(relay.client(name(1)), Some(first));
        relay.clients[first].as_mut().unwrap().last_seen -= IDLE;
        relay.forget_idle();
        assert!(!relay.slots.contains_key(&name(1)) && relay.slots.contains_key(&name(2)));
        assert_eq!(relay.client(name(3)), Some(first), "a slot is used again");
    }
}
