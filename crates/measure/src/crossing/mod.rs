//! What a program's network traffic moves between host and adapter: counted where Longshore
//! is the adapter, and computed for others from the same packets of the same run.
//!
//! What it owns: servers of files as workloads ([`web`]) with their client (`http`), servers that
//! other clients load ([`load`]), any other program ([`program`]), the frames of a run ([`frames`])
//! and conventional adapters that are shown them ([`Replay`]), the 2005 paper's figures
//! ([`PAPER`]), what a bus and an adapter would reach ([`Prediction`]) and whether the modelled bus
//! agrees ([`check`]), and how all this is shown ([`show`], [`plot`]). `longshore measure` calls
//! it. What crosses is counted by the engine; the models of buses and adapters are those of `bus`.

pub mod check;
mod error;
pub mod frames;
mod http;
pub mod load;
mod paper;
pub mod plot;
mod predict;
pub mod program;
mod replay;
mod rss;
pub(crate) mod running;
pub mod show;
pub mod web;

pub use error::CrossingError;
pub use http::Mode;
pub use paper::{Column, PAPER, Paper};
pub use predict::{Part, Prediction, over_generations};
pub use replay::{Offload, Replay};
pub use running::Counts;

use longshore_bus::{AnyBus, Driver, Queues, Signals, Tally, Traffic};
use serde::Serialize;

/// What is assumed of bus and adapters.
#[derive(Debug, Clone, Copy)]
pub struct Model {
    /// The bus.
    pub bus: AnyBus,
    /// How the conventional adapter and its driver talk.
    pub driver: Driver,
    /// Queues of the conventional adapter that has several.
    pub queues: Queues,
    /// What waking the other side costs where Longshore is the adapter.
    pub signals: Signals,
}

/// An adapter, by its name in `--json`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Adapter {
    /// Longshore's engine.
    #[serde(rename = "longshore")]
    Longshore,
    /// A conventional one.
    #[serde(rename = "e1000")]
    E1000,
    /// One that cuts what is sent.
    #[serde(rename = "e1000-tso")]
    Segmenting,
    /// One that also puts together what is received.
    #[serde(rename = "e1000-tso-lro")]
    Coalescing,
    /// One that also has several queues, each of which prefetches descriptors.
    #[serde(rename = "e1000-tso-lro-queues")]
    Queues,
}

impl Adapter {
    /// All of them, conventional ones in the order of [`Offload::ALL`].
    pub const ALL: [Adapter; 5] = [
        Adapter::Longshore,
        Adapter::E1000,
        Adapter::Segmenting,
        Adapter::Coalescing,
        Adapter::Queues,
    ];

    /// What each moved: Longshore, and conventional ones in the order of [`Offload::ALL`].
    #[must_use]
    pub(crate) fn with(longshore: Traffic, conventional: [Traffic; 4]) -> [(Adapter, Traffic); 5] {
        let [plain, segmenting, coalescing, queues] = conventional;
        let moved = [longshore, plain, segmenting, coalescing, queues];
        std::array::from_fn(|place| (Adapter::ALL[place], moved[place]))
    }

    /// Its name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Adapter::Longshore => "longshore",
            Adapter::E1000 => "e1000",
            Adapter::Segmenting => "e1000-tso",
            Adapter::Coalescing => "e1000-tso-lro",
            Adapter::Queues => "e1000-tso-lro-queues",
        }
    }
}

/// What one adapter moved for one fetch.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// Which.
    pub adapter: Adapter,
    /// The server that served it.
    pub workload: web::WebServer,
    /// Bytes of the file.
    pub size: u64,
    /// Whether its connection was kept.
    pub mode: Mode,
    /// To the host.
    pub receive: Moved,
    /// To the adapter.
    pub send: Moved,
    /// How exactly it repeats, where the engine has counted it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeated: Option<web::Repeated>,
}

/// What moved in one direction; see [`Tally`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Moved {
    /// Moves of contiguous bytes.
    pub transfers: u64,
    /// Bytes.
    pub bytes: u64,
    /// Cycles of the bus.
    pub cycles: u64,
    /// Reads that were waited for.
    pub round_trips: u64,
}

impl From<Tally> for Moved {
    fn from(tally: Tally) -> Self {
        Moved {
            transfers: tally.transfers,
            bytes: tally.bytes,
            cycles: tally.cycles,
            round_trips: tally.round_trips,
        }
    }
}
