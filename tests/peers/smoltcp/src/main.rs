//! `source`, `sink` and `echo` of `longshore __program` for smoltcp, a TCP/IP stack that is
//! a library in the program: there is no socket of POSIX, no other process, and no copy between
//! program and stack but that into and out of the socket's buffers. `make peers` runs it.
//!
//! `longshore-peer-smoltcp TAP ADDRESS/PREFIX PROGRAM PORT` serves on a TAP device that has been
//! made before, until it is killed. Packets are as long as the device's MTU allows: smoltcp has
//! no offload of segmentation.

use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Medium, TunTapInterface, wait};
use smoltcp::socket::tcp::{CongestionControl, Socket, SocketBuffer, State};
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, IpCidr};
use std::error::Error;
use std::os::fd::AsRawFd;
use std::str::FromStr;

/// Bytes of each buffer of a socket. As much as a connection of Linux comes to by itself.
const BUFFER: usize = 6 << 20;
/// What one call sends or receives in bulk, as in `longshore __program`.
const PIECE: usize = 128 * 1024;
/// Connections at once: whoever only looked whether we are here may still be closing.
const SOCKETS: usize = 4;

/// What a connection is for.
#[derive(Clone, Copy)]
enum Program {
    /// Sends without end.
    Source,
    /// Reads all that comes, and says at the end how many bytes it was.
    Sink,
    /// Sends back what comes.
    Echo,
}

/// A socket that listens again when its connection has ended.
struct Server {
    handle: SocketHandle,
    program: Program,
    port: u16,
    /// Bytes that have come by this connection.
    received: u64,
}

impl Server {
    fn serve(&mut self, socket: &mut Socket<'_>, piece: &mut [u8]) -> Result<(), Box<dyn Error>> {
        if !socket.is_open() {
            self.received = 0;
            socket.listen(self.port)?;
        }
        match self.program {
            Program::Source => {
                while socket.can_send() {
                    socket.send_slice(piece)?;
                }
            }
            Program::Sink => {
                while socket.can_recv() {
                    self.received += socket.recv_slice(piece)? as u64;
                }
                if socket.state() == State::CloseWait {
                    socket.send_slice(&self.received.to_be_bytes())?;
                }
            }
            Program::Echo => {
                while socket.can_recv() && socket.can_send() {
                    let most = piece
                        .len()
                        .min(socket.send_capacity() - socket.send_queue());
                    let n = socket.recv_slice(&mut piece[..most])?;
                    socket.send_slice(&piece[..n])?;
                }
            }
        }
        // The peer has sent all.
        if socket.state() == State::CloseWait {
            socket.close();
        }
        Ok(())
    }
}

fn socket() -> Socket<'static> {
    let buffer = || SocketBuffer::new(vec![0; BUFFER]);
    let mut socket = Socket::new(buffer(), buffer());
    socket.set_nagle_enabled(false);
    socket.set_congestion_control(CongestionControl::Cubic);
    socket
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [tap, address, program, port] = arguments.as_slice() else {
        return Err("longshore-peer-smoltcp TAP ADDRESS/PREFIX PROGRAM PORT".into());
    };
    let program = match program.as_str() {
        "source" => Program::Source,
        "sink" => Program::Sink,
        "echo" => Program::Echo,
        other => return Err(format!("there is no program {other}").into()),
    };
    let port = port.parse()?;
    let address = IpCidr::from_str(address).map_err(|()| "no address with a prefix")?;

    let mut device = TunTapInterface::new(tap, Medium::Ethernet)?;
    let file = device.as_raw_fd();
    let own = EthernetAddress([0x02, 0, 0, 0, 0, 2]);
    let mut interface = Interface::new(Config::new(own.into()), &mut device, Instant::now());
    interface.update_ip_addrs(|all| {
        // There is room for one in any configuration of the library.
        let _ = all.push(address);
    });
    let mut sockets = SocketSet::new(Vec::new());
    let mut servers: Vec<Server> = (0..SOCKETS)
        .map(|_| Server {
            handle: sockets.add(socket()),
            program,
            port,
            received: 0,
        })
        .collect();
    let mut piece = vec![b's'; PIECE];
    loop {
        interface.poll(Instant::now(), &mut device, &mut sockets);
        for server in &mut servers {
            server.serve(sockets.get_mut(server.handle), &mut piece)?;
        }
        interface.poll(Instant::now(), &mut device, &mut sockets);
        wait(file, interface.poll_delay(Instant::now(), &sockets))?;
    }
}
