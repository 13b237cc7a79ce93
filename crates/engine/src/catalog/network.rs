//! What is counted of packets: TCP's segments and connections, UDP's datagrams.

use super::{Counter, counter, segments_in};

/// The sections `tcp` and `net`.
pub(super) const COUNTERS: &[Counter] = &[
    counter(
        "tcp",
        "segments_in",
        "segments",
        "TCP segments received; each of the segments that a port has put together counts as \
         one with its whole",
        segments_in,
    ),
    counter(
        "tcp",
        "data_segments_in",
        "segments",
        "those among segments_in that brought payload",
        |e| e.stack.counters.prediction.data + e.stack.counters.prediction.missed_data,
    ),
    counter(
        "tcp",
        "predicted_data",
        "segments",
        "segments with payload that header prediction took: the fast path",
        |e| e.stack.counters.prediction.data,
    ),
    counter(
        "tcp",
        "received_in_place",
        "segments",
        "those among predicted_data whose payload the port has read straight to where the \
         program takes it",
        |e| e.stack.counters.prediction.in_place,
    ),
    counter(
        "tcp",
        "in_place_missed",
        "frames",
        "frames that were expected to be the next segment of a connection and were not, so that \
         their bytes were copied back from where its payload would have been",
        |e| e.stack.counters.prediction.in_place_missed,
    ),
    counter(
        "tcp",
        "predicted_acks",
        "segments",
        "acknowledgments without payload that header prediction took",
        |e| e.stack.counters.prediction.acks,
    ),
    counter(
        "tcp",
        "unpredicted",
        "segments",
        "segments that went the whole way of RFC 9293 section 3.10.7",
        |e| e.stack.counters.prediction.missed,
    ),
    counter(
        "tcp",
        "segments_out",
        "segments",
        "TCP segments sent, repeated ones and bare acknowledgments included; one that the port \
         cuts into many counts once",
        |e| e.stack.counters.tcp.segments_out,
    ),
    counter(
        "tcp",
        "longer_segments_out",
        "64 KiB",
        "how many times 64 KiB of payload were in segments that are longer than an IP packet can \
         be, as the local kernel takes them (BIG TCP)",
        |e| e.stack.counters.tcp.longer_segments_out,
    ),
    counter(
        "tcp",
        "retransmissions",
        "segments",
        "those among segments_out that were sent before",
        |e| e.stack.counters.tcp.retransmissions,
    ),
    counter(
        "tcp",
        "resets_out",
        "segments",
        "resets sent in answer to segments that belong to no connection",
        |e| e.stack.counters.tcp.resets_out,
    ),
    counter(
        "tcp",
        "active_opens",
        "connections",
        "connections begun by connect",
        |e| e.stack.counters.tcp.active_opens,
    ),
    counter(
        "tcp",
        "passive_opens",
        "connections",
        "connections that listeners have taken",
        |e| e.stack.counters.tcp.passive_opens,
    ),
    counter(
        "tcp",
        "fast_opens",
        "connections",
        "those among passive_opens whose SYN brought data that were taken (RFC 7413)",
        |e| e.stack.counters.tcp.fast_opens,
    ),
    counter(
        "tcp",
        "syns_dropped_at_port",
        "segments",
        "SYNs that the port dropped in a flood, before its queue; estimated from those that it \
         let through",
        |e| e.stack.status().syns_dropped_at_port(),
    ),
    counter(
        "tcp",
        "syn_cookies_sent",
        "segments",
        "SYNs answered by a SYN cookie (RFC 4987)",
        |e| e.stack.counters.tcp.cookies_sent,
    ),
    counter(
        "tcp",
        "syn_cookies_taken",
        "segments",
        "SYN cookies that came back and made a connection",
        |e| e.stack.counters.tcp.cookies_taken,
    ),
    counter(
        "tcp",
        "windows_narrowed",
        "times",
        "the window of a connection was narrowed, as its session had less than 16 MiB free for \
         what it receives (`session.receive_mib` is its limit)",
        |e| e.stack.counters.tcp.windows_narrowed,
    ),
    counter(
        "tcp",
        "half_open",
        "connections",
        "connections in SYN-RECEIVED now, of all listeners",
        |e| e.stack.status().half_open_count() as u64,
    ),
    counter(
        "tcp",
        "time_wait",
        "connections",
        "connections in TIME-WAIT now",
        |e| e.stack.status().wait_count() as u64,
    ),
    counter(
        "net",
        "datagrams_in",
        "datagrams",
        "UDP datagrams given to sockets",
        |e| e.stack.counters.datagrams.received,
    ),
    counter(
        "net",
        "datagrams_out",
        "datagrams",
        "UDP datagrams sent",
        |e| e.stack.counters.datagrams.sent,
    ),
];
