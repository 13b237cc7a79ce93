//! What each session may have, as the command line and the configuration say it, and the
//! memory that this comes to.

use longshore_hostif::{CHUNK, DIRECTORY, Geometry};
use serde::{Deserialize, Serialize};

/// What each session may have.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct SessionLimits {
    pub(crate) processes: u32,
    pub(crate) sockets: u32,
    pub(crate) send_mib: u32,
    pub(crate) receive_mib: u32,
}

impl Default for SessionLimits {
    fn default() -> Self {
        SessionLimits {
            processes: Geometry::DEFAULT.channels,
            sockets: Geometry::DEFAULT.sockets,
            send_mib: mib(Geometry::DEFAULT.snd_chunks),
            receive_mib: mib(Geometry::DEFAULT.rcv_chunks),
        }
    }
}

/// MiB that so many chunks are.
pub(crate) fn mib(chunks: u32) -> u32 {
    ((u64::from(chunks) * CHUNK as u64) >> 20) as u32
}

/// MiB for data received, at least: the engine keeps what the largest window could bring
/// free before it takes anything, and that is half of this.
const LEAST_RECEIVE: u32 = 2 * ((DIRECTORY * CHUNK) >> 20) as u32;

/// The option of `longshore run` that says what a key of the configuration does.
pub(crate) fn option_of(key: &str) -> &str {
    match key {
        "session.processes" => "--max-processes",
        "session.sockets" => "--max-sockets",
        "session.send_mib" => "--send-memory",
        "session.receive_mib" => "--receive-memory",
        other => other,
    }
}

/// Rounds limits up to what the arena's layout takes.
pub(crate) fn geometry(limits: &SessionLimits) -> Result<Geometry, (&'static str, String)> {
    let within = |key, value: u32, least: u32, most: u32| match value {
        v if v < least => Err((key, format!("must be at least {least}"))),
        v if v > most => Err((key, format!("{v} is more than {most}"))),
        v => Ok(v),
    };
    let chunks = |mib: u32| mib * ((1 << 20) / CHUNK as u32);
    let most_mib = (1 << 20) / chunks(1);
    let geometry = Geometry {
        channels: within("session.processes", limits.processes, 1, 1024)?.next_multiple_of(64),
        waiters: Geometry::DEFAULT.waiters,
        sockets: within("session.sockets", limits.sockets, 1, 1 << 20)?.next_multiple_of(64),
        snd_chunks: chunks(within("session.send_mib", limits.send_mib, 1, most_mib)?),
        rcv_chunks: chunks(within(
            "session.receive_mib",
            limits.receive_mib,
            LEAST_RECEIVE,
            most_mib,
        )?),
        workers: 1,
    };
    debug_assert!(geometry.is_valid(), "{geometry:?}");
    Ok(geometry)
}
