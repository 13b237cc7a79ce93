//! The parts of a socket: what is done with each is in the part's own type, which borrows the
//! socket for as long as that takes.

use crate::accept_queue::AcceptQueue;
use crate::addresses::Addresses;
use crate::connect::Connector;
use crate::datagram::Datagrams;
use crate::halves::Halves;
use crate::holds::Socket;
use crate::options::SocketOptions;
use crate::pair_end::PairEnd;
use crate::pending_error::PendingError;
use crate::queries::Queries;
use crate::stream::{Forwarding, Keeping, PeekOffset, ReceiveStream, SendStream, UrgentData};

impl Socket {
    /// Its address, and its peer's.
    #[inline]
    pub fn addresses(&self) -> Addresses<'_> {
        Addresses::of(self)
    }

    /// What its program has set for it.
    #[inline]
    pub fn options(&self) -> SocketOptions<'_> {
        SocketOptions::of(self)
    }

    /// What the engine alone knows of it.
    #[inline]
    pub fn queries(&self) -> Queries<'_> {
        Queries::of(self)
    }

    /// Those of its halves that have ended.
    #[inline]
    pub fn halves(&self) -> Halves<'_> {
        Halves::of(self)
    }

    /// What went wrong on it, and was not told yet.
    #[inline]
    pub fn pending_error(&self) -> PendingError<'_> {
        PendingError::of(self)
    }

    /// It, as one end of a connection within the engine.
    #[inline]
    pub fn pair_end(&self) -> PairEnd<'_> {
        PairEnd::of(self)
    }

    /// Its way to a peer.
    #[inline]
    pub fn connector(&self) -> Connector<'_> {
        Connector::of(self)
    }

    /// The connections that wait for it to accept them.
    #[inline]
    pub fn accept_queue(&self) -> AcceptQueue<'_> {
        AcceptQueue::of(self)
    }

    /// The datagrams that it sends and has received.
    #[inline]
    pub fn datagrams(&self) -> Datagrams<'_> {
        Datagrams::of(self)
    }

    /// What it sends.
    #[inline]
    pub fn send_stream(&self) -> SendStream<'_> {
        SendStream::of(self)
    }

    /// What it has received.
    #[inline]
    pub fn receive_stream(&self) -> ReceiveStream<'_> {
        ReceiveStream::of(self)
    }

    /// The urgent byte of what it has received.
    #[inline]
    pub fn urgent_data(&self) -> UrgentData<'_> {
        UrgentData::of(self)
    }

    /// Where calls that only look at what it has received begin (SO_PEEK_OFF).
    #[inline]
    pub fn peek_offset(&self) -> PeekOffset<'_> {
        PeekOffset::of(self)
    }

    /// What of the received bytes is kept where it lies.
    #[inline]
    pub fn keeping(&self) -> Keeping<'_> {
        Keeping::of(self)
    }

    /// What it has received, on its way into the send stream of `sink`.
    #[inline]
    pub fn forwarding<'a>(&'a self, sink: &'a Self) -> Forwarding<'a> {
        Forwarding::between(self, sink)
    }
}
