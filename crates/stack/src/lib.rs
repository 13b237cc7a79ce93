//! The stack of a whole host: what packets and requests mean.
//!
//! [`Stack`] is composed of parts, each of which owns its fields: the sockets with what is
//! to be done for them, the tables that find the socket of a packet, the link with its
//! neighbors and routes, fragments, limits, settings. It has the calls of whoever runs it, in the
//! order that it says, and which of the parts below comes after which; each of these is a type of
//! its own, with all of its methods, that borrows the fields which it needs:
//!
//! | type | file | what it decides |
//! | --- | --- | --- |
//! | `PacketInput` | `input`, `input6` | what a frame brings for those above IP |
//! | `TcpInput` | `tcp_input` | what a segment does that was not predicted |
//! | `UdpInput`, `DatagramOutput` | `udp_input`, `datagram` | where a datagram goes; which are sent |
//! | `IcmpErrors` | `icmp` | whom an ICMP error is about, and whether it is believed |
//! | `Handshakes` | `handshake`, `passive`, `cookies` | how connections that come in are made |
//! | `Admission` | `admission`, `pair` | which of them, and of our own, are let in to listeners |
//! | `Endings` | `endings` | how sockets end |
//! | `Requests`, `Setup`, `Binding` | `requests`, `binding` | what comes of what programs ask |
//! | `Timeouts` | `timeouts` | what is due |
//! | `Flush` | `flush` | what is sent and told at the end of a turn |
//! | `Transfers` | `transfers`, `pair`, `forward` | what moves from one socket to another |
//! | `Responder` | `responder` | what answers packets of no socket |
//! | [`Lifecycle`], [`LateBinds`] | `stack/lifecycle`, `stack/late_binds` | what becomes of sessions and of what their processes hold; of binds that wait |
//! | `Containment` | `stack/containment` | what is taken out after a panic |
//!
//! The files in turn:
//!
//! | file | what it has |
//! | --- | --- |
//! | `endpoints`, `sockets`, `socket`, `slab`, `timers`, `timeouts` | the sockets, and what is to be done for which |
//! | `sessions`, `session`, `account`, `turns` | whose sockets they are, which of them are looked at in a turn, how many there may be, and each user's share of a turn |
//! | `stack/in_place`, `stack/fast_input` | packets in, as they nearly always are |
//! | `input`, `input6`, `fragments`, `icmp`, `tcp_input`, `udp_input`, `datagram` | packets in, whatever they are |
//! | `passive`, `handshake`, `half_open`, `admission`, `accept_queue`, `accepted`, `unaccepted`, `cookies`, `fast_open`, `audience` | connections that come in, and who is told of them |
//! | `responder` | what is answered to packets of no socket: resets, SYN-ACKs, cookies, echoes, errors |
//! | `answer_limit`, `syn_drop` | how much of that is answered and when, and how many SYNs the port lets through |
//! | `requests`, `request_error` | what programs ask, how sockets are opened and connected, and why that is refused |
//! | `binding` | what sockets are bound to, and from which addresses they connect |
//! | `endings`, `orphans` | how sockets end, and what becomes of those that no process holds |
//! | `stack`, `stack/served`, `stack/parts` | [`Stack`], which part a request or a packet is for, and what each borrows |
//! | `at_work`, `stack/containment` | whose work is done, and what becomes of a session whose work has led to a panic |
//! | `flush`, `socket/report`, `socket/put_edges` | what a turn has touched: sent and reported, each user its share |
//! | `transfers`, `forward`, `forwards` | bytes that go from one socket to another |
//! | `pair`, `pair_end` | connections between two of our own sockets |
//! | `fast_output` | packets out, as they nearly always are |
//! | `output`, `address_pair`, `link` | packets out: headers, routes, neighbors; addresses from servers and routers; a link that has come back |
//! | `socket/kind`, `socket/bound` | what of a socket depends on its kind, and what it is bound to |
//! | `socket/errors`, `error_queue` | ICMP errors, as they are reported to programs |
//! | `socket/sent`, `send_stamps` | when what was sent left, as it is reported beside them |
//! | `groups`, `source_filters` | multicast and broadcasts, and from which sources a socket receives a group |
//! | `socket/buffers`, `memory_pressure`, `returns`, `quiet` | how much a connection may hold, what if there is no more, and chunks of send streams that go back |
//! | `demux` | the tables that find the socket of a packet |
//! | `access`, `host`, `settings`, `published` | what the operator has chosen, and what programs read of it |
//! | `counters`, `info`, `status` | what a run costs, and how sockets stand |
//! | `endpoints/check`, `violation` | whether the parts agree with each other |
//! | `bytes` | writing to headers |
//!
//! Modules use each other in no circle (`scripts/check-boundaries.sh` sees to it): types stand
//! below the handlers. These are methods of the part that they change, or of a small type that
//! borrows the parts which they need and returns what is left to be done; [`Stack`] has those that
//! say what comes after what, and they may call each other.
//!
//! Time, the key of its secrets and the settings of the machine are given to it.
//! What the operator should be told is left in [`Counters::notices`]. The stack reads
//! no clock, waits for nothing and starts nothing.

#![forbid(unsafe_code)]
// No number from the wire or from a program may make an index panic.
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

mod accept_queue;
mod accepted;
mod access;
mod account;
mod address_pair;
mod admission;
mod answer_limit;
mod at_work;
mod audience;
#[cfg(feature = "bench")]
pub mod bench;
mod binding;
mod bulk_senders;
mod bytes;
mod cookies;
mod counters;
mod datagram;
mod demux;
mod endings;
mod endpoints;
mod error_queue;
mod fast_open;
mod fast_output;
mod fetched;
mod flush;
mod forward;
mod forwards;
mod fragments;
mod groups;
mod half_open;
mod handshake;
mod host;
mod icmp;
mod info;
mod input;
mod input6;
mod link;
mod local_ports;
mod memory_pressure;
mod messages;
mod orphans;
mod output;
mod pair;
mod pair_end;
mod passive;
mod port_set;
mod published;
mod quiet;
mod reported;
mod request_error;
mod requests;
mod responder;
mod returns;
mod secrets;
mod send_stamps;
mod session;
mod sessions;
mod settings;
mod slab;
mod socket;
mod sockets;
mod source_filters;
mod stack;
mod status;
mod syn_drop;
mod tcp_input;

#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
mod timeouts;
mod timers;
mod transfers;
mod turns;
mod udp_input;
mod unaccepted;
mod violation;

pub use access::{Access, BadRule, LowPorts, Rule, Rules, Transport};
pub use account::Account;
pub use counters::{Counters, EngineDrop, Notice};
pub use endpoints::Endpoints;
pub use half_open::HALF_OPEN_BYTES;
pub use host::{Defaults, Host};
pub use link::Interface;
pub use link::automatic::{Automatic, MissingAddress};
pub use link::routing::AddressError;
pub use local_ports::{LocalPorts, ReservedPorts};
pub use messages::TimedRule;
pub use orphans::Undelivered;
pub use requests::{From, LateBind};
pub use secrets::Secrets;
pub use session::Session;
pub use sessions::Sessions;
pub use settings::Settings;
pub use stack::in_place::Received;
pub use stack::{LateBinds, Lifecycle, Stack};
pub use status::{HalfOpenStatus, SOCKET_BYTES, SocketStatus, Status, WaitStatus};
pub use turns::{Of, Spent};
pub use violation::Violation;
