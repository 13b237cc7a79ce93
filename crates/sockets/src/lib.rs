//! The host library: streams, listeners, datagrams and readiness over the
//! host/adapter interface.
//!
//! What it owns: a process's place in a session ([`Host`]), its sockets
//! ([`Socket`]: all calls on one, none of which blocks, and
//! [`Socket::wait`], which does), sets of sockets to wait for ([`ReadySet`]) and
//! what happens to all of them at a fork. [`Stream`], [`Listener`] and
//! [`Datagram`] put them together for programs written for Longshore; the POSIX
//! shim `preload` uses the parts. Modules use each other in no circle: what a process keeps
//! stands below [`Host`], and all that is done with a socket above [`Socket`].

mod accept_queue;
mod asking;
mod block_words;
mod cancel;
mod connect;
mod datagram;
mod departure;
mod errors;
mod fork;
mod fork_lock;
mod grow_only;
mod holds;
mod hooks;
mod host;
mod join;
mod map;
mod native;
mod options;
mod parts;
mod pause;
mod places;
mod readiness;
mod ready_set;
mod ready_sets;
mod reported_edges;
mod sent_files;
mod sleeper;
mod socket;
mod stream;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod turn;
mod under_way;
mod unfinished;
mod version;
mod wait;
mod wait_limit;
mod wake_eventfd;

pub use accept_queue::AcceptQueue;
pub use block_words::{host_bits, more_bits};
pub use cancel::{CancelOutcome, Canceller};
pub use connect::Connector;
pub use datagram::{Datagrams, Received};
pub use departure::{Departure, LEAST_MTU_V6, MOST_PAYLOAD, MOST_PAYLOAD_V6, any_address};
pub use errors::SocketError;
pub use fork::{Forking, HeldSets, Reservation};
pub use fork_lock::{ForkGuard, ForkLock, OnlyThread};
pub use grow_only::GrowOnly;
pub use holds::Socket;
pub use hooks::Hooks;
pub use host::Host;
pub use join::JoinError;
pub use longshore_ring::{
    Section, forget_thread_id, interruptible, is_confined, past_call, poll_unless_interrupted,
    section,
};
pub use map::Map;
pub use native::{Datagram, Listener, Stream};
pub use pause::pause;
pub use readiness::Ready;
pub use ready_set::{EDGE, ONE_SHOT, ReadySet, Report};
pub use sleeper::Sleeper;
pub use socket::Half;
pub use stream::{
    Appended, Forwarded, Forwarding, Keeping, KeptBytes, MOST_PIECES_IN_PLACE, MOST_PIECES_KEPT,
    MOST_PREPARED, NotForwarded, PeekOffset, Peeked, Prepared, ReceiveStream, Reserved, SendStream,
    Sending, SharedFile, UrgentData,
};
pub use wait::{Also, BLIND_SLEEP, LONGEST_SLEEP, LOOKS_VARIABLE, Look, SPIN_VARIABLE};
pub use wait_limit::{Signals, WaitLimit, deadline_after};
