//! A program that makes its system calls without libc (rustix), for `tests/own_calls.rs`:
//! `own_calls serve ADDRESS` sends what it receives back, with a thread for each of several epoll
//! sets; `own_calls ask ADDRESS COUNT BYTES` sends so many bytes on so many connections at once,
//! and exits 0 if they have come back.

use rustix::event::epoll;
use rustix::io::{Errno, read, write};
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::process::ExitCode;
use std::thread;

/// Threads that serve, each with an epoll set in which the listener is.
const THREADS: usize = 3;
const PIECE: usize = 32 << 10;

fn socket() -> Result<OwnedFd, Errno> {
    net::socket_with(
        AddressFamily::INET,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )
}

fn serve(address: SocketAddr) -> Result<(), Errno> {
    let listener = socket()?;
    sockopt::set_socket_reuseaddr(&listener, true)?;
    net::bind(&listener, &address)?;
    net::listen(&listener, 64)?;
    rustix::io::ioctl_fionbio(&listener, true)?;
    thread::scope(|scope| {
        let servers = [(); THREADS].map(|()| scope.spawn(|| serve_in_one_set(&listener)));
        servers
            .into_iter()
            .try_for_each(|s| s.join().unwrap_or(Err(Errno::IO)))
    })
}

fn serve_in_one_set(listener: &OwnedFd) -> Result<(), Errno> {
    let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let add = |fd: &OwnedFd| {
        let name = epoll::EventData::new_u64(fd.as_raw_fd() as u64);
        epoll::add(&set, fd, name, epoll::EventFlags::IN)
    };
    add(listener)?;
    let mut connections: Vec<OwnedFd> = Vec::new();
    let mut events = Vec::with_capacity(16);
    loop {
        events.clear();
        epoll::wait(&set, rustix::buffer::spare_capacity(&mut events), None)?;
        for event in &events {
            let fd = event.data.u64() as i32;
            if fd == listener.as_raw_fd() {
                match net::accept_with(listener, SocketFlags::CLOEXEC) {
                    Ok(connection) => {
                        add(&connection)?;
                        connections.push(connection);
                    }
                    // Another thread was quicker.
                    Err(Errno::AGAIN) => {}
                    Err(e) => return Err(e),
                }
                continue;
            }
            let Some(at) = connections.iter().position(|c| c.as_raw_fd() == fd) else {
                continue;
            };
            if !send_back(&connections[at])? {
                connections.swap_remove(at);
            }
        }
    }
}

/// Sends a piece back; `false` at the end.
fn send_back(connection: &OwnedFd) -> Result<bool, Errno> {
    let mut piece = [0; PIECE];
    let (got, _) = net::recv(connection, &mut piece, RecvFlags::empty())?;
    let mut rest = &piece[..got];
    while !rest.is_empty() {
        rest = &rest[net::send(connection, rest, SendFlags::NOSIGNAL)?..];
    }
    Ok(got != 0)
}

fn ask(address: SocketAddr, connections: u8, bytes: usize) -> Result<bool, Errno> {
    thread::scope(|scope| {
        let all = (0..connections).map(|i| scope.spawn(move || ask_once(address, i, bytes)));
        let all: Vec<_> = all.collect();
        let mut is_right = true;
        for one in all {
            is_right &= one.join().unwrap_or(Err(Errno::IO))?;
        }
        Ok(is_right)
    })
}

/// The byte at a place of what a connection sends.
fn byte(connection: u8, at: usize) -> u8 {
    (at.wrapping_mul(2_654_435_761) >> 16) as u8 ^ connection
}

fn ask_once(address: SocketAddr, number: u8, bytes: usize) -> Result<bool, Errno> {
    let connection = socket()?;
    net::connect(&connection, &address)?;
    let receive = |to: BorrowedFd<'_>| {
        let (mut piece, mut at, mut is_right) = ([0; PIECE], 0, true);
        loop {
            let got = read(to, &mut piece)?;
            if got == 0 {
                return Ok(is_right && at == bytes);
            }
            is_right &= (0..got).all(|i| piece[i] == byte(number, at + i));
            at += got;
        }
    };
    use std::os::fd::AsFd;
    thread::scope(|scope| {
        let received = scope.spawn(|| receive(connection.as_fd()));
        let all: Vec<u8> = (0..bytes).map(|at| byte(number, at)).collect();
        let mut rest = &all[..];
        while !rest.is_empty() {
            rest = &rest[write(&connection, rest)?..];
        }
        net::shutdown(&connection, net::Shutdown::Write)?;
        received.join().unwrap_or(Err(Errno::IO))
    })
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let words: Vec<&str> = arguments.iter().skip(1).map(String::as_str).collect();
    let address = |text: &str| {
        text.parse::<SocketAddr>()
            .expect("an address with its port")
    };
    let done = match words[..] {
        ["serve", at] => serve(address(at)).map(|()| true),
        ["ask", at, connections, bytes] => ask(
            address(at),
            connections.parse().expect("a number"),
            bytes.parse().expect("a number"),
        ),
        _ => {
            eprintln!("usage: own_calls serve ADDRESS | ask ADDRESS COUNT BYTES");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("other bytes came back");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("{}: {error}", words[0]);
            ExitCode::FAILURE
        }
    }
}
