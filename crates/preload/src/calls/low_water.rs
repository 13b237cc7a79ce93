//! How much a receiving call on a stream waits for: SO_RCVLOWAT and MSG_WAITALL. `recv` calls it
//! where that is more than one byte.
//!
//! A call with a mark takes nothing before so much is there. (Linux takes what it finds and
//! waits for the rest, but is not woken before the mark is reached anew; whoever receives sees
//! the same bytes.) Only what it is woken for it takes though it is less: while memory is
//! short, reading is what helps.

use super::{Way, is_nonblocking, noted_nonblocking, wait_limit};
use crate::owner::Interruption;
use crate::user::In;
use libc::c_int;
use longshore_sockets::{Look, Ready, Socket, SocketError, WaitLimit};

/// What a receiving call wants of a stream.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    /// The bytes with which it is done, 1 at the least.
    pub(super) least: usize,
    /// It takes nothing before they are there.
    pub(super) at_once: bool,
    /// It leaves what it finds (MSG_PEEK).
    pub(super) keeps: bool,
}

impl Wanted {
    /// What a call with these `flags` and room for `total` bytes wants; `None` if any will do.
    pub(super) fn of(socket: &Socket, flags: c_int, total: usize) -> Option<Self> {
        let keeps = flags & libc::MSG_PEEK != 0;
        let waits_for_all = flags & libc::MSG_WAITALL != 0;
        let least = if waits_for_all {
            total
        } else {
            usize::try_from(socket.options().low_water()).map_or(total, |mark| mark.min(total))
        };
        (least > 1).then_some(Self {
            least,
            at_once: keeps || !waits_for_all,
            keeps,
        })
    }
}

/// Receives by `take`, which is told how much it has taken so far, until there is what is
/// wanted, or no more, or urgent data: an error counts only if it is the first thing that
/// happens, and is left for the next call otherwise. All of it has the time of one call.
pub(super) fn receive(
    fd: c_int,
    socket: &Socket,
    flags: c_int,
    wanted: Wanted,
    mut take: impl FnMut(usize) -> Result<usize, SocketError>,
) -> Result<usize, SocketError> {
    let mut waits = Waits {
        limit: wait_limit(socket, Way::In),
        has_begun: false,
    };
    let (mut got, mut is_over) = (0, false);
    while got < wanted.least && !is_over {
        let ended = match wait(fd, socket, flags, &mut waits, wanted, got) {
            Ok(()) => None,
            // What is there is given all the same.
            Err(
                e @ (SocketError::WouldBlock
                | SocketError::TimedOut
                | SocketError::Interrupted
                | SocketError::Restarts),
            ) => Some(e),
            Err(e) if got != 0 => {
                socket.pending_error().leave(e);
                break;
            }
            Err(e) => return Err(e),
        };
        if got != 0 && socket.receive_stream().readable_bytes() == 0 {
            break;
        }
        match take(got) {
            Ok(0) => break,
            Ok(n) => got += n,
            Err(e) if got != 0 => {
                socket.pending_error().leave(e);
                break;
            }
            // Another thread was faster.
            Err(SocketError::WouldBlock) if ended.is_none() => continue,
            Err(e) => return Err(ended.unwrap_or(e)),
        }
        is_over = ended.is_some() || wanted.keeps || socket.urgent_data().is_at_mark();
    }
    Ok(got)
}

/// How a call waits.
struct Waits {
    /// For how long, all in all.
    limit: WaitLimit,
    /// It has begun to: it goes on then, whatever becomes of O_NONBLOCK meanwhile.
    has_begun: bool,
}

/// Waits until a call that has taken `got` bytes may take more, if it may wait.
fn wait(
    fd: c_int,
    socket: &Socket,
    flags: c_int,
    waits: &mut Waits,
    wanted: Wanted,
    got: usize,
) -> Result<(), SocketError> {
    let must_not = flags & libc::MSG_DONTWAIT != 0;
    let looks = !must_not && (waits.has_begun || !noted_nonblocking(socket));
    let raised = |signal| socket.urgent_data().raised(signal);
    let mut interruption = None::<Interruption>;
    let mut look = |look| {
        if may_take(socket, wanted, got, look)? {
            return Ok(());
        }
        let Some(begun) = &mut interruption else {
            interruption = Some(Interruption::begin(raised));
            return Err(SocketError::WouldBlock);
        };
        if begun.has_come(raised, In::null(), true) {
            return Err(SocketError::Interrupted);
        }
        Err(SocketError::WouldBlock)
    };
    match look(Look::ByItself) {
        Err(SocketError::WouldBlock) if !must_not => {}
        other => return other,
    }
    if looks && socket.look_again(|| look(Look::ByItself))?.is_some() {
        return Ok(());
    }
    if !waits.has_begun && is_nonblocking(fd) {
        return Err(SocketError::WouldBlock);
    }
    waits.has_begun = true;
    let limit = WaitLimit {
        looked: looks,
        ..waits.limit
    };
    socket.wait_by_looks(None, limit, look)
}

/// Whether a call that has taken `got` bytes may take what is there, or is to see that there
/// will be no more.
fn may_take(socket: &Socket, wanted: Wanted, got: usize, look: Look) -> Result<bool, SocketError> {
    let is_over = || {
        let ready = socket.readiness();
        ready.intersects(Ready::RDHUP | Ready::HUP | Ready::ERR) || socket.host().is_gone()
    };
    let behind = match socket.peek_offset().get() {
        Some(offset) if wanted.keeps => offset as usize,
        _ => 0,
    };
    let least = if wanted.at_once {
        (wanted.least - got).saturating_add(behind)
    } else {
        1
    };
    socket.host().messages().catch_up();
    if got != 0 && socket.receive_stream().readable_bytes() == 0 {
        // An error is not looked for: it is the next call's.
        return Ok(is_over());
    }
    let found = socket.receive_stream().peek()?;
    Ok(found.len() >= least
        || found.is_empty()
        || found.stops_at_mark()
        || (look == Look::Woken && !wanted.keeps)
        || is_over())
}
