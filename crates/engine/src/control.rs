//! What an engine reports of itself: the questions and answers of the control
//! socket, which `longshore stat` and `longshore ss` show.
//!
//! The protocol is one line of JSON for each question and one for each answer,
//! over a Unix stream socket. Fields are added over time; a reader takes what
//! is missing as zero and passes over what it does not know.

mod client;
mod server;

pub use client::Asker;
pub use server::{ControlError, ControlServer};

use longshore_hostif::Moved;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The most rows that one answer to [`ControlRequest::Ss`] holds, so that an
/// engine with many connections is not held up by one question.
pub const ROWS_AT_ONCE: u32 = 256;

/// A question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "cmd", rename_all = "lowercase")]
pub enum ControlRequest {
    /// The totals.
    Stat,
    /// The sockets.
    Ss {
        /// Where to go on: 0 at first, then what [`SsReply::next`] says.
        #[serde(default)]
        from: u32,
    },
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "lowercase")]
pub enum ControlReply {
    /// To [`ControlRequest::Stat`].
    Stat(Box<StatReply>),
    /// To [`ControlRequest::Ss`].
    Ss(SsReply),
    /// The question was not understood.
    Error {
        /// What is wrong with it.
        message: String,
    },
}

/// Named counts, in the order of their names.
pub type Counts = BTreeMap<String, u64>;

/// Totals of an engine since it started.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StatReply {
    /// Version of the program.
    pub version: String,
    /// Version of the host/adapter interface.
    pub abi: u32,
    /// The engine's process.
    pub pid: u32,
    /// Milliseconds since it started.
    pub uptime_ms: u64,
    /// Its addresses and prefix lengths, as `10.77.0.2/24`.
    pub addresses: Vec<String>,
    /// Its gateways, at most one for each version of IP.
    pub gateways: Vec<String>,
    /// The stack that has the loopback addresses: `engine` or `kernel`.
    pub loopback: String,
    /// What keeps its process from doing more than it needs; empty if nobody has said.
    pub sandbox: String,
    /// Its port.
    pub port: PortStat,
    /// Frames lost and packets refused, by reason.
    pub drops: Counts,
    /// What crossed between the programs and the engine.
    pub crossings: CrossingsStat,
    /// TCP's counts: segments, retransmissions, fast-path hits, and so on.
    pub tcp: Counts,
    /// The counts of IP, ICMP, ARP and UDP.
    pub net: Counts,
    /// The engine's own: loop rounds, sleeps, cut-through bytes, cache hits.
    pub engine: Counts,
    /// Sessions, each with its arena.
    pub sessions: Vec<SessionStat>,
}

/// A port and what it carried.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PortStat {
    /// What it is, as `tap:longshore0`.
    pub name: String,
    /// Largest IP packet, in bytes.
    pub mtu: u32,
    /// From the wire.
    pub rx: TrafficStat,
    /// To the wire.
    pub tx: TrafficStat,
    /// How often the wire had no room.
    pub tx_full: u64,
}

/// Traffic in one direction of a port.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TrafficStat {
    /// Frames; one that holds many segments counts once.
    pub frames: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Of the frames, those that hold many segments.
    pub gso_frames: u64,
    /// System calls made.
    pub calls: u64,
}

/// Crossings in both directions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CrossingsStat {
    /// From program to engine.
    pub to_adapter: CrossingStat,
    /// From engine to program.
    pub to_host: CrossingStat,
}

/// Crossings in one direction, as [`longshore_hostif::Crossings`] counts them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CrossingStat {
    /// Moves of contiguous bytes.
    pub transfers: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Descriptors.
    pub descriptors: u64,
    /// Times the other side was woken: an engine by its doorbell.
    pub wakeups: u64,
    /// Of the transfers and bytes, those of each class.
    pub classes: ClassesStat,
}

/// What crossed in one direction, by what it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClassesStat {
    /// Descriptors, with the slots of immediate data behind them.
    pub descriptor: MovedStat,
    /// Payload, but for what crossed as immediate data.
    pub payload: MovedStat,
    /// Words of blocks, directories, mailboxes and the header.
    pub control: MovedStat,
    /// Bytes of payload that crossed as immediate data, in descriptors and their slots.
    pub immediate: u64,
}

/// Moves of one class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MovedStat {
    /// Moves of contiguous bytes.
    pub transfers: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Words of 8 bytes that they fill, each move by itself.
    pub words: u64,
}

impl From<Moved> for MovedStat {
    fn from(moved: Moved) -> Self {
        MovedStat {
            transfers: moved.transfers,
            bytes: moved.bytes,
            words: moved.words,
        }
    }
}

impl ClassesStat {
    /// The classes, each by its name.
    #[must_use]
    pub fn named(&self) -> [(&'static str, MovedStat); 3] {
        [
            ("descriptor", self.descriptor),
            ("payload", self.payload),
            ("control", self.control),
        ]
    }
}

impl MovedStat {
    fn add(&mut self, other: &MovedStat) {
        self.transfers += other.transfers;
        self.bytes += other.bytes;
        self.words += other.words;
    }
}

impl From<&longshore_hostif::Crossings> for ClassesStat {
    fn from(c: &longshore_hostif::Crossings) -> Self {
        ClassesStat {
            descriptor: c.descriptors.moved().into(),
            payload: c.payload.into(),
            control: c.control.into(),
            immediate: c.descriptors.immediate,
        }
    }
}

impl From<&longshore_hostif::Crossings> for CrossingStat {
    fn from(c: &longshore_hostif::Crossings) -> Self {
        let all = c.moved();
        CrossingStat {
            transfers: all.transfers,
            bytes: all.bytes,
            descriptors: c.descriptors.count,
            wakeups: c.wakeups,
            classes: c.into(),
        }
    }
}

impl From<&longshore_hostif::Meter> for CrossingsStat {
    fn from(m: &longshore_hostif::Meter) -> Self {
        CrossingsStat {
            to_adapter: (&m.to_adapter).into(),
            to_host: (&m.to_host).into(),
        }
    }
}

impl CrossingStat {
    /// Adds another count to this one.
    pub fn add(&mut self, other: &CrossingStat) {
        self.transfers += other.transfers;
        self.bytes += other.bytes;
        self.descriptors += other.descriptors;
        self.wakeups += other.wakeups;
        let (classes, others) = (&mut self.classes, &other.classes);
        classes.descriptor.add(&others.descriptor);
        classes.payload.add(&others.payload);
        classes.control.add(&others.control);
        classes.immediate += others.immediate;
    }
}

/// A session and its arena.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionStat {
    /// The engine's number for it.
    pub id: u32,
    /// The user it belongs to.
    pub uid: u32,
    /// Processes attached.
    pub processes: u32,
    /// Sockets in use.
    pub sockets: u32,
    /// Sockets that the arena has room for.
    pub sockets_max: u32,
    /// Send chunks in use.
    pub snd_chunks: u32,
    /// Send chunks there are.
    pub snd_chunks_max: u32,
    /// Receive chunks in use.
    pub rcv_chunks: u32,
    /// Receive chunks there are.
    pub rcv_chunks_max: u32,
    /// What crossed for it.
    pub crossings: CrossingsStat,
}

/// Some of the sockets.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SsReply {
    /// One row for each socket.
    pub rows: Vec<SsRow>,
    /// Where to go on, if there are more.
    pub next: Option<u32>,
}

/// A socket.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SsRow {
    /// `tcp` or `udp`.
    pub proto: String,
    /// Its state by the names of `ss`: `ESTAB`, `LISTEN`, `TIME-WAIT`, ...
    pub state: String,
    /// Its address and port.
    pub local: String,
    /// The other end's; `*:*` if there is none.
    pub peer: String,
    /// Bytes received and not read; on a listener, connections not accepted.
    pub recv_q: u64,
    /// Bytes sent and not acknowledged; on a listener, the backlog's limit.
    pub send_q: u64,
    /// The session it belongs to.
    pub session: u32,
    /// Processes that hold it.
    pub pids: Vec<u32>,
    /// The timer that runs, as `ss -o` names it (`on`, `keepalive`, `timewait`,
    /// `persist`), and the milliseconds until it fires.
    pub timer: Option<(String, u64)>,
    /// How often that was done already which the timer is to repeat.
    pub timer_repeats: u32,
    /// What TCP knows of the connection.
    pub tcp: Option<TcpStat>,
    /// What crossed for it.
    pub crossings: CrossingsStat,
}

/// What TCP knows of a connection, by the names of `ss -i`. Times in
/// microseconds, sizes in bytes. A plain record: its fields are the keys of the JSON that the
/// control socket and `longshore ss --json` say.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TcpStat {
    /// The congestion control's name.
    pub congestion: String,
    /// Timestamps are in use (RFC 7323).
    pub timestamps: bool,
    /// Selective acknowledgments are in use (RFC 2018).
    pub sack: bool,
    /// Window scale shifts, the peer's and ours, if in use.
    pub window_scale: Option<(u8, u8)>,
    /// Retransmission timeout.
    pub rto_us: u64,
    /// Smoothed round-trip time; 0 before the first measurement.
    pub rtt_us: u64,
    /// Its variation.
    pub rttvar_us: u64,
    /// Largest segment that is sent.
    pub mss: u32,
    /// Path MTU.
    pub pmtu: u32,
    /// Congestion window.
    pub cwnd: u64,
    /// Slow start threshold, once there is one.
    pub ssthresh: Option<u64>,
    /// Bytes sent, retransmissions included.
    pub bytes_sent: u64,
    /// Bytes sent again.
    pub bytes_retransmitted: u64,
    /// Bytes acknowledged.
    pub bytes_acked: u64,
    /// Bytes received in order.
    pub bytes_received: u64,
    /// Segments sent.
    pub segs_out: u64,
    /// Segments received.
    pub segs_in: u64,
    /// Segments sent again.
    pub retransmissions: u64,
    /// Bytes on their way.
    pub in_flight: u64,
    /// The peer's window.
    pub snd_wnd: u64,
    /// Our window.
    pub rcv_wnd: u64,
    /// Milliseconds since data was sent.
    pub last_snd_ms: Option<u64>,
    /// Milliseconds since data was received.
    pub last_rcv_ms: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_short_lines() {
        let parse = |s| serde_json::from_str::<ControlRequest>(s).ok();
        assert_eq!(parse(r#"{"cmd":"stat"}"#), Some(ControlRequest::Stat));
        assert_eq!(
            parse(r#"{"cmd":"ss"}"#),
            Some(ControlRequest::Ss { from: 0 })
        );
        assert_eq!(
            parse(r#"{"cmd":"ss","from":7}"#),
            Some(ControlRequest::Ss { from: 7 })
        );
        assert_eq!(parse(r#"{"cmd":"stop"}"#), None);
    }

    #[test]
    fn each_count_of_two_crossings_adds_up_with_its_like() {
        let moved = |n: u64| MovedStat {
            transfers: n,
            bytes: 10 * n,
            words: 100 * n,
        };
        let stat = |n: u64| CrossingStat {
            transfers: 2 * n,
            bytes: 3 * n,
            descriptors: 4 * n,
            wakeups: 5 * n,
            classes: ClassesStat {
                descriptor: moved(6 * n),
                payload: moved(7 * n),
                control: moved(8 * n),
                immediate: 9 * n,
            },
        };
        let mut sum = stat(1);
        sum.add(&stat(2));
        assert_eq!(sum, stat(3));
    }

    #[test]
    fn what_a_meter_has_counted_is_told_by_class_and_in_all() {
        use longshore_hostif::{Crossings, Descriptors, Meter};
        let moved = |transfers, bytes, words| Moved {
            transfers,
            bytes,
            words,
        };
        let to_adapter = Crossings {
            descriptors: Descriptors {
                transfers: 1,
                count: 2,
                bytes: 30,
                immediate: 4,
            },
            payload: moved(5, 600, 77),
            control: moved(7, 8_000, 1_003),
            wakeups: 9,
        };
        let stat = CrossingsStat::from(&Meter {
            to_adapter,
            to_host: Crossings::default(),
        });
        assert_eq!(stat.to_host, CrossingStat::default());
        let stat = stat.to_adapter;
        assert_eq!((stat.transfers, stat.bytes), (13, 8_630));
        assert_eq!((stat.descriptors, stat.wakeups), (2, 9));
        let moved = |transfers, bytes, words| MovedStat {
            transfers,
            bytes,
            words,
        };
        let classes = [
            ("descriptor", moved(1, 30, 4)),
            ("payload", moved(5, 600, 77)),
            ("control", moved(7, 8_000, 1_003)),
        ];
        assert_eq!(stat.classes.named(), classes);
        assert_eq!(stat.classes.immediate, 4);
    }

    #[test]
    fn answers_of_other_versions_are_read() {
        let older = r#"{"answer":"stat","pid":7,"new_field":[1]}"#;
        match serde_json::from_str(older).unwrap() {
            ControlReply::Stat(stat) => {
                assert_eq!(stat.pid, 7);
                assert_eq!(stat.port, PortStat::default());
            }
            other => panic!("{other:?}"),
        }
    }
}
