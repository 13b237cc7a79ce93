//! Sockets for programs written for Longshore: blocking calls, and the streams'
//! memory itself.

use crate::Received;
use crate::cancel::Canceller;
use crate::departure::Departure;
use crate::errors::SocketError;
use crate::halves::Half;
use crate::holds::Socket;
use crate::host::Host;
use crate::stream::{Forwarded, Peeked, Reserved};
use crate::wait_limit::WaitLimit;
use longshore_hostif::{AcceptRecord, OpenFlags, SocketKind};
use std::io::{IoSlice, IoSliceMut};
use std::net::SocketAddr;

fn flags_for(address: SocketAddr) -> OpenFlags {
    if address.is_ipv6() {
        OpenFlags::IPV6
    } else {
        OpenFlags::empty()
    }
}

/// A TCP connection.
#[derive(Debug, Clone)]
pub struct Stream(Socket);

impl Stream {
    /// Connects to `peer`.
    ///
    /// # Errors
    /// Why there is no connection.
    pub fn connect(host: &'static Host, peer: SocketAddr) -> Result<Self, SocketError> {
        let socket = host
            .sockets()
            .open(SocketKind::Stream, flags_for(peer), 0)?;
        socket.connector().connect(peer, WaitLimit::ENDLESS)?;
        Ok(Self(socket))
    }

    /// As `connect`, unless another thread cancels it.
    ///
    /// # Errors
    /// As [`Stream::connect`]; [`SocketError::Cancelled`].
    pub fn connect_unless_cancelled(
        host: &'static Host,
        peer: SocketAddr,
        canceller: &Canceller,
    ) -> Result<Self, SocketError> {
        let socket = host
            .sockets()
            .open(SocketKind::Stream, flags_for(peer), 0)?;
        socket.connect_unless_cancelled(canceller, peer, WaitLimit::ENDLESS)?;
        Ok(Self(socket))
    }

    /// The socket, for calls that do not block and for options.
    pub fn socket(&self) -> &Socket {
        &self.0
    }

    /// As [`Stream::write`], unless another thread cancels it while it waits for room.
    ///
    /// # Errors
    /// As [`Stream::write`]; [`SocketError::Cancelled`]: nothing was written.
    pub fn write_unless_cancelled(
        &self,
        bytes: &[u8],
        canceller: &Canceller,
    ) -> Result<usize, SocketError> {
        self.0
            .wait_unless_cancelled(canceller, WaitLimit::ENDLESS, || {
                self.0.send_stream().send(&[IoSlice::new(bytes)], false)
            })
    }

    /// As [`Stream::read`], unless another thread cancels it while it waits.
    ///
    /// # Errors
    /// As [`Stream::read`]; [`SocketError::Cancelled`]: nothing was read.
    pub fn read_unless_cancelled(
        &self,
        to: &mut [u8],
        canceller: &Canceller,
    ) -> Result<usize, SocketError> {
        self.0
            .wait_unless_cancelled(canceller, WaitLimit::ENDLESS, || {
                self.0
                    .receive_stream()
                    .recv(&mut [IoSliceMut::new(to)], false)
            })
    }

    /// Writes some of `bytes`, at least one, waiting for room.
    ///
    /// # Errors
    /// What ended the connection.
    pub fn write(&self, bytes: &[u8]) -> Result<usize, SocketError> {
        self.0.wait(None, WaitLimit::ENDLESS, || {
            self.0.send_stream().send(&[IoSlice::new(bytes)], false)
        })
    }

    /// Writes all of `bytes`.
    ///
    /// # Errors
    /// As [`Stream::write`].
    pub fn write_all(&self, mut bytes: &[u8]) -> Result<(), SocketError> {
        while !bytes.is_empty() {
            let written = self.write(bytes)?;
            bytes = &bytes[written..];
        }
        Ok(())
    }

    /// Reads at least one byte, waiting for it; 0 at the end of the stream.
    ///
    /// # Errors
    /// What ended the connection.
    pub fn read(&self, to: &mut [u8]) -> Result<usize, SocketError> {
        self.0.wait(None, WaitLimit::ENDLESS, || {
            self.0
                .receive_stream()
                .recv(&mut [IoSliceMut::new(to)], false)
        })
    }

    /// Room for at most `max` bytes of the send stream itself, waiting for some.
    ///
    /// # Errors
    /// As [`Stream::write`].
    pub fn reserve(&self, max: usize) -> Result<Reserved<'_>, SocketError> {
        self.0.wait(None, WaitLimit::ENDLESS, || {
            self.0.send_stream().reserve(max)
        })
    }

    /// The bytes that have arrived, where they lie, waiting for some; none at
    /// the end of the stream.
    ///
    /// # Errors
    /// As [`Stream::read`].
    pub fn peek(&self) -> Result<Peeked<'_>, SocketError> {
        self.0
            .wait(None, WaitLimit::ENDLESS, || self.0.receive_stream().peek())
    }

    /// Moves at most `max` bytes that have arrived to the end of `to`'s send stream, waiting for
    /// some and for room: without copying them if that is possible. 0 at the end of the stream.
    /// Nobody else may read this stream meanwhile.
    ///
    /// # Errors
    /// As [`Stream::read`], and as [`Stream::write`] of `to`.
    pub fn forward(&self, to: &Self, max: usize) -> Result<usize, SocketError> {
        if max == 0 || self.peek()?.is_empty() {
            return Ok(0);
        }
        to.0.wait(None, WaitLimit::ENDLESS, || {
            match self.0.forwarding(&to.0).forward(max, false)? {
                Forwarded::Bytes(moved) => Ok(moved),
                Forwarded::Copy(_) => self.0.forwarding(&to.0).copy(max, false),
            }
        })
    }

    /// Ends the sending half: the peer reads to the end of what was written.
    ///
    /// # Errors
    /// ENOTCONN if the connection is gone.
    pub fn finish(&self) -> Result<(), SocketError> {
        self.0.halves().shut_down(Half::Write)
    }
}

/// A TCP listener.
#[derive(Debug, Clone)]
pub struct Listener(Socket);

impl Listener {
    /// Binds to `local` and listens; port 0 asks for one.
    ///
    /// # Errors
    /// EADDRINUSE, EADDRNOTAVAIL.
    pub fn bind(host: &'static Host, local: SocketAddr, backlog: u32) -> Result<Self, SocketError> {
        let flags = flags_for(local) | OpenFlags::REUSE_ADDRESS;
        let socket = host.sockets().open(SocketKind::Stream, flags, 0)?;
        socket.addresses().bind(local)?;
        socket.accept_queue().listen(backlog)?;
        Ok(Self(socket))
    }

    /// The socket.
    pub fn socket(&self) -> &Socket {
        &self.0
    }

    /// Its address.
    pub fn local(&self) -> Option<SocketAddr> {
        self.0.addresses().local()
    }

    /// Accepts a connection, waiting for one.
    ///
    /// # Errors
    /// [`SocketError::EngineGone`].
    pub fn accept(&self) -> Result<(Stream, SocketAddr), SocketError> {
        Self::accepted(self.0.wait(None, WaitLimit::ENDLESS, || {
            self.0.accept_queue().accept_with(|| Ok(()))
        })?)
    }

    /// As `accept`, unless another thread cancels it while it waits.
    ///
    /// # Errors
    /// As [`Listener::accept`]; [`SocketError::Cancelled`]: none was accepted.
    pub fn accept_unless_cancelled(
        &self,
        canceller: &Canceller,
    ) -> Result<(Stream, SocketAddr), SocketError> {
        Self::accepted(
            self.0
                .wait_unless_cancelled(canceller, WaitLimit::ENDLESS, || {
                    self.0.accept_queue().accept_with(|| Ok(()))
                })?,
        )
    }

    fn accepted(
        (socket, record, ()): (Socket, AcceptRecord, ()),
    ) -> Result<(Stream, SocketAddr), SocketError> {
        let peer = record.peer.get().ok_or(SocketError::Broken)?;
        Ok((Stream(socket), peer))
    }
}

/// A UDP socket.
#[derive(Debug, Clone)]
pub struct Datagram(Socket);

impl Datagram {
    /// Binds to `local`; port 0 asks for one.
    ///
    /// # Errors
    /// EADDRINUSE, EADDRNOTAVAIL.
    pub fn bind(host: &'static Host, local: SocketAddr) -> Result<Self, SocketError> {
        let socket = host
            .sockets()
            .open(SocketKind::Datagram, flags_for(local), 0)?;
        socket.addresses().bind(local)?;
        Ok(Self(socket))
    }

    /// The socket.
    pub fn socket(&self) -> &Socket {
        &self.0
    }

    /// Sets the peer.
    ///
    /// # Errors
    /// The engine's reason.
    pub fn connect(&self, peer: SocketAddr) -> Result<(), SocketError> {
        self.0.connector().start(peer)
    }

    /// Sends a datagram, waiting for room.
    ///
    /// # Errors
    /// EMSGSIZE, EDESTADDRREQ.
    pub fn send(&self, bytes: &[u8], to: Option<SocketAddr>) -> Result<usize, SocketError> {
        self.0.wait(None, WaitLimit::ENDLESS, || {
            self.0
                .datagrams()
                .send(&[IoSlice::new(bytes)], to, Departure::default())
        })
    }

    /// Receives a datagram, waiting for one.
    ///
    /// # Errors
    /// What an ICMP message reported.
    pub fn recv(&self, to: &mut [u8]) -> Result<Received, SocketError> {
        self.0.wait(None, WaitLimit::ENDLESS, || {
            self.0.datagrams().recv(&mut [IoSliceMut::new(to)], false)
        })
    }
}
