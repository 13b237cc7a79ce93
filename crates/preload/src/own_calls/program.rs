//! The program's own code, and whether it makes, or may make, calls of sockets without libc.

use crate::own_code::OwnFile;
use longshore_programs::{Obstacle, has_note_of_go};
use std::ops::Range;

/// Larger programs are not looked through: it would take longer than to start them.
const LARGEST: usize = 64 << 20;

/// A program that makes such calls, or may.
pub(super) struct Found {
    pub(super) code: Range<usize>,
    /// What keeps it with the kernel, if they are not served.
    pub(super) obstacle: Obstacle,
    /// It has no libc, but for that which this library has brought with it.
    pub(super) is_without_libraries: bool,
}

/// The program, if it makes such calls, or is said to.
pub(super) fn look(is_said: bool) -> Option<Found> {
    let own = OwnFile::find()?;
    let range = own.code.as_ptr_range();
    Some(Found {
        code: range.start.addr()..range.end.addr(),
        obstacle: obstacle(&own).or(is_said.then_some(Obstacle::RawCalls))?,
        is_without_libraries: !own.has_libraries(),
    })
}

fn obstacle(own: &OwnFile) -> Option<Obstacle> {
    if own.notes().any(has_note_of_go) {
        return Some(Obstacle::Go);
    }
    let calls = (own.code.len() <= LARGEST).then(|| own.calls())?;
    let may_be_of_sockets = || calls.makes_any().then_some(Obstacle::AnyCalls);
    calls.obstacle().or_else(may_be_of_sockets)
}
