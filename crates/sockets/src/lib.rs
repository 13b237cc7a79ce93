//! The host library: streams, listeners, datagrams and readiness over the
//! host/adapter interface.
//!
//! What it owns: a process's place in a session ([`Host`]), its sockets ([`Socket`], of whose
//! calls none blocks but [`Socket::wait`]), sets of sockets to wait for ([`ReadySet`]) and
//! what happens to all of them at a fork. [`Stream`], [`Listener`] and
//! [`Datagram`] put them together for programs written for Longshore; the POSIX
//! shim `preload` uses the parts. Modules use each other in no circle: what a process keeps
//! stands below [`Host`], and all that is done with a socket above [`Socket`].
//!
//! What a process does with its place in the session is in parts, which [`Host`] gives:
//!
//! | part | what it has | files |
//! | --- | --- | --- |
//! | [`Sockets`] | the sockets that the process holds, and how often | `holds`, `host/held_sockets` |
//! | [`Messages`] | requests, completions, and calls that are answered | `host/messages` |
//! | [`DescriptorRequests`] | eventfds and files that pass by the Unix socket | `descriptor_requests` |
//! | [`Threads`] | how its threads wait and are woken | `wait`, `given_back` |
//! | [`UnderWay`] | what it has sent to other sockets of its engine, and how that is waited for | `under_way`, `host/in_flight` |
//! | [`Reservation`] | a channel for a child | `fork` |
//!
//! What is done with a socket is in the type of the part that it is done with. Each borrows the
//! socket and costs nothing to make; [`Socket`]'s methods that give them are in `parts`.
//!
//! | part | what it has | files |
//! | --- | --- | --- |
//! | [`SendStream`] | bytes that are written, their chunks, ranges of files | `stream/send`, `file`, `prepare`, `in_place`, `stamps` |
//! | [`ReceiveStream`] | bytes that have come, and how far they were read | `stream/recv` |
//! | [`UrgentData`] | the byte that stands apart (MSG_OOB) | `stream/urgent` |
//! | [`PeekOffset`] | where MSG_PEEK begins to look | `stream/peek_offset` |
//! | [`Keeping`] | bytes that are taken and kept where they lie | `stream/kept` |
//! | [`Forwarding`] | what one connection has received on its way into another | `stream/forward` |
//! | [`Datagrams`] | datagrams that come and leave, and groups with their sources | `datagram`, `departure`, `source_filters` |
//! | [`Connector`] | attempts to connect, and a datagram socket's peer | `connect` |
//! | [`AcceptQueue`] | listening, and accepting | `accept_queue` |
//! | [`Halves`] | shutting down | `halves` |
//! | [`Addresses`] | binding, and which addresses are shown and reached | `addresses` |
//! | [`SocketOptions`] | what the program has set | `options` |
//! | [`PendingError`] | what went wrong and was not told | `pending_error` |
//! | [`PairEnd`] | the other end, where that is a socket of this engine | `pair_end` |
//! | [`Queries`] | what the engine alone knows | `queries` |

mod accept_queue;
mod addresses;

mod block_words;
mod cancel;
mod connect;
mod datagram;
mod departure;
mod descriptor_requests;
mod errors;
mod fork;
mod fork_lock;
mod given_back;
mod grow_only;
mod halves;
mod holds;
mod hooks;
mod host;
mod join;
mod map;
mod native;
mod options;
mod pair_end;
mod parts;
mod pause;
mod pending_error;
mod queries;
mod readiness;
mod ready_set;
mod ready_sets;
mod reported_edges;
mod sent_files;
mod sleeper;
mod socket;
mod source_filters;
mod stream;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod turn;
mod under_way;
mod unfinished;
mod wait;
mod wait_limit;
mod wake_eventfd;

pub use accept_queue::AcceptQueue;
pub use addresses::Addresses;
pub use block_words::{host_bits, more_bits};

pub use cancel::{CancelOutcome, Canceller};
pub use connect::Connector;
pub use datagram::{Datagrams, Received};
pub use departure::{Departure, LEAST_MTU_V6, MOST_PAYLOAD, MOST_PAYLOAD_V6, any_address};
pub use descriptor_requests::DescriptorRequests;
pub use errors::SocketError;
pub use fork::{Forking, HeldSets, Reservation, ReservationName, UnknownReservation};
pub use fork_lock::{ForkGuard, ForkLock, OnlyThread};
pub use grow_only::GrowOnly;
pub use halves::{Half, Halves};
pub use holds::{Socket, Sockets};
pub use hooks::Hooks;
pub use host::{Host, Messages};
pub use join::JoinError;
pub use longshore_ring::{
    Section, forget_thread_id, interruptible, is_confined, past_call, poll_unless_interrupted,
    section,
};
pub use map::Map;
pub use native::{Datagram, Listener, Stream};
pub use options::SocketOptions;
pub use pair_end::PairEnd;
pub use pause::pause;
pub use pending_error::PendingError;
pub use queries::Queries;
pub use readiness::Ready;
pub use ready_set::{EDGE, ONE_SHOT, Place, ReadySet, Report};
pub use sleeper::Sleeper;
pub use source_filters::Sources;
pub use stream::{
    Appended, Forwarded, Forwarding, Keeping, KeptBytes, MOST_PIECES_IN_PLACE, MOST_PIECES_KEPT,
    MOST_PREPARED, NotForwarded, PeekOffset, Peeked, Prepared, ReceiveStream, Reserved, SendStream,
    Sending, SharedFile, StampedWhen, UrgentData,
};
pub use under_way::UnderWay;
pub use wait::{Also, BLIND_SLEEP, LONGEST_SLEEP, LOOKS_VARIABLE, Look, SPIN_VARIABLE, Threads};
pub use wait_limit::{Signals, WaitLimit, deadline_after};
