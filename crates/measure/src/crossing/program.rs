//! Any program under Longshore: what it moved from its beginning to its end.

use crate::crossing::error::CrossingError;
use crate::crossing::frames::Capture;
use crate::crossing::replay::Replay;
use crate::crossing::running::{Place, Running, scratch_directory};
use crate::crossing::{Adapter, Model, Moved};
use longshore_bus::{Traffic, crossed};
use serde::Serialize;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, ExitStatus};

/// What one adapter moved for a program.
#[derive(Debug, Clone, Serialize)]
pub struct Total {
    /// Which.
    pub adapter: Adapter,
    /// To the host.
    pub receive: Moved,
    /// To the adapter.
    pub send: Moved,
}

/// A program, and how it is run.
pub struct Order<'a> {
    /// The program `longshore`.
    pub longshore: &'a Path,
    /// Options of `longshore run`.
    pub options: &'a [OsString],
    /// The program and its arguments.
    pub program: &'a [OsString],
    /// Changes how `longshore run` is started.
    pub adjust: &'a dyn Fn(&mut Command),
    /// Called again and again with its pid while it runs.
    pub supervise: &'a dyn Fn(u32),
}

/// Runs a program until it ends. What it prints goes to stderr. Its frames are recorded in the
/// directory for temporary files meanwhile.
///
/// # Errors
/// [`CrossingError`].
pub fn measure(
    order: &Order<'_>,
    model: &Model,
) -> Result<(Vec<Total>, ExitStatus), CrossingError> {
    let directory = scratch_directory()?;
    let place = Place {
        longshore: order.longshore,
        directory: directory.path(),
        captures: true,
    };
    let mut running = Running::in_front(&place, order.options, order.program, order.adjust)?;
    let status = running.wait(order.supervise)?;
    let Ok(counts) = running.last_counts() else {
        // No engine ever ran, and `longshore run` has said why.
        return Ok((Vec::new(), status));
    };
    let mut replay = Replay::new(model.bus, model.driver, model.queues, counts.mtu);
    Capture::open(&place.capture())?.read(|frame| replay.frame(&frame))?;
    let total = |(adapter, traffic): (Adapter, Traffic)| Total {
        adapter,
        receive: traffic.receive.into(),
        send: traffic.send.into(),
    };
    let conventional = replay.take();
    let (to_host, to_adapter) = (&counts.to_host, &counts.to_adapter);
    let longshore = crossed(&model.bus, to_host, to_adapter, model.signals);
    let totals = Adapter::with(longshore, conventional).map(total).into();
    Ok((totals, status))
}
