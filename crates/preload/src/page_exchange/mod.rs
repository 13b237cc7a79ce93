//! Receiving and sending without a copy (`longshore run --zero-copy`). Sending is `sending`. What is
//! received: pages of the memory that the engine
//! has placed payload in take the place of the pages of the program's buffer. They are mapped
//! there privately, so the program may write to them, and then has a page of its own (copy on
//! write); what it has not written to stays the engine's page, which must not change as long
//! as the program sees it. So the bytes count as kept ([`KeptBytes`]): the engine is told that
//! they were read only when their place in the program's memory shows something else, as it
//! does when the program receives into the same buffer again. Before that cannot be known any
//! more (a fork, a socket that is closed or shared), or if the window of the peer would close,
//! the pages become the program's own ([`leave_socket`], [`leave_all`]).
//!
//! What a program may do with its memory it may do with such a buffer: `munmap`, `mprotect`,
//! `realloc`; `madvise` and `mremap`, which treat the mapping of a file otherwise than other
//! memory, are taken over for it (`calls::memory`). Only whole pages are exchanged, and only
//! where the process has the memory alone and may read and write it.
//!
//! Owns what is known of such memory. Called by `recv` and its kin, and by all calls after
//! which somebody else could have the pages.

mod cost;
mod memfd;
mod regions;
mod restore;
mod sending;
mod shown;
mod written;

use crate::environment::remembered;
use crate::log::{Level, say};
use crate::pages::page_size;
use crate::signals;
use longshore_hostif::zero_copy::{ZERO_COPY_PAGE, ZeroCopy};
use longshore_sockets::{ForkLock, Host, KeptBytes, Socket, SocketError, is_confined};
use regions::{File, Region, Regions};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap, mprotect};
use sending::Sent;
use shown::{Piece, Shown, Stretches};
use std::io::IoSliceMut;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, OnceLock};

/// Bytes of a page.
pub(crate) const PAGE: usize = ZERO_COPY_PAGE;
/// Part of a socket's receive buffer of which the program sees bytes where they lie, at most: a
/// program may wait for much of the buffer to be filled before it reads on.
const SHARE: u64 = 4;
/// Sockets of which the program sees bytes where they lie, at most.
const MOST_SOCKETS: usize = 64;
/// Stretches of changed memory that are remembered; the kernel has a limit for all that a
/// process maps (65,530).
const MOST_STRETCHES: usize = 1024;

pub(crate) use restore::{
    Stopped, before_fork, begin_anew, empty, end, in_child, leave_all, leave_socket, make_plain,
    stop,
};
pub(crate) use sending::{memory_is_shared, send};

static STATE: LazyLock<ForkLock<State>> = LazyLock::new(ForkLock::default);
/// Whether there is any memory that was changed.
static ANY: AtomicBool = AtomicBool::new(false);

/// What is known of this process's memory.
#[derive(Debug, Default)]
struct State {
    /// Where to ask; `None` before the first time, and in a child.
    regions: Option<Regions>,
    /// The kernel does not answer.
    is_unknown: bool,
    holders: Vec<Holder>,
    /// Where the program's memory is a copy of the engine's or of the file that is sent from, or
    /// was.
    changed: Stretches,
    sent: Sent,
}

/// The bytes of one socket that the program sees where they lie.
#[derive(Debug)]
struct Holder {
    host: &'static Host,
    kept: KeptBytes,
    shown: Shown,
}

/// What was asked for; never with pages of another size, for which the launcher refuses it.
fn mode() -> ZeroCopy {
    let asked_for = remembered().filter(|_| page_size() == PAGE);
    asked_for.map_or(ZeroCopy::Never, |r| r.zero_copy)
}

/// The fewest bytes that are worth it.
fn least() -> usize {
    static LEAST: OnceLock<usize> = OnceLock::new();
    *LEAST.get_or_init(|| match mode() {
        ZeroCopy::Never => usize::MAX,
        ZeroCopy::Always => PAGE,
        ZeroCopy::Auto => cost::least_worth().unwrap_or(usize::MAX),
    })
}

/// Receives into `parts`, without a copy where that can be and pays.
///
/// # Errors
/// As [`ReceiveStream::recv`](longshore_sockets::ReceiveStream::recv).
pub(crate) fn receive(
    socket: &Socket,
    parts: &mut [IoSliceMut<'_>],
    keep: bool,
) -> Result<usize, SocketError> {
    if !keep
        && let [part] = parts
        && part.len() >= PAGE
        && part.as_ptr().addr().is_multiple_of(PAGE)
        && let Some(n) = receive_pages(socket, part)?
    {
        return Ok(n);
    }
    socket.receive_stream().recv(parts, keep)
}

/// Receives into a buffer that begins with a page, by pages; `None` if it is to be copied.
fn receive_pages(socket: &Socket, to: &mut [u8]) -> Result<Option<usize>, SocketError> {
    // What another socket of the engine's has lent is its sender's memory.
    if to.len() < least() || is_confined() || socket.is_within() || !socket.keeping().is_possible()
    {
        return Ok(None);
    }
    let there = socket.receive_stream().peek()?.len().min(to.len());
    if there < least() {
        return Ok(None);
    }
    let past = (socket.receive_stream().read_position() % PAGE as u64) as usize;
    if past == 0 {
        let range = to.as_mut_ptr().addr()..to.as_ptr().addr() + there / PAGE * PAGE;
        return signals::within(|| show(socket, &range));
    }
    // Copied up to where a page begins, so that what comes next can be shown.
    let len = (past + there) / PAGE * PAGE - past;
    let mut part = [IoSliceMut::new(&mut to[..len])];
    socket.receive_stream().recv(&mut part, false).map(Some)
}

/// Has the program's memory at `range`, whole pages, show what comes next in the stream, as
/// much as there is in whole pages.
fn show(socket: &Socket, range: &Range<usize>) -> Result<Option<usize>, SocketError> {
    // A handler that interrupts another call of its thread copies.
    let Ok(mut state) = STATE.enter() else {
        return Ok(None);
    };
    let host = socket.host();
    state.make_room(host);
    if !state.may_change(range) {
        return Ok(None);
    }
    // A call that frees or moves memory looks for this before anything is changed.
    ANY.store(true, Ordering::Relaxed);
    let len = range
        .len()
        .min((socket.receive_stream().limit() / SHARE) as usize);
    let (mut kept, shown) = state.take_holder(socket, &(range.start..range.start + len));
    let (mut new, mut end) = (Vec::new(), range.start);
    let taken = socket.keeping().take(&mut kept, len, |pieces| {
        let begin = end;
        for piece in pieces {
            let len = piece.len() / PAGE * PAGE;
            let place = host.offset_in_shared_file(piece);
            let is_aligned = place.is_multiple_of(PAGE as u64);
            if len == 0 || !is_aligned || map(host.shared_file(), end, len, place).is_err() {
                break;
            }
            new.push((end, len, place));
            end += len;
            if len < piece.len() {
                break;
            }
        }
        Ok(end - begin)
    });
    if let Some(kept) = kept {
        state.holders.push(Holder { host, kept, shown });
        state.note_shown(range.start..end, &new);
    }
    if !matches!(taken, Ok(Some(1..))) {
        state.leave(|holder| holder.kept.socket() == socket.id());
    }
    Ok(taken?.filter(|n| *n != 0))
}

/// Maps `len` bytes of the engine's memory privately at this address of the program's.
fn map(file: BorrowedFd<'_>, at: usize, len: usize, place: u64) -> Result<(), Errno> {
    let how = ProtFlags::READ | ProtFlags::WRITE;
    let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
    let at = ptr::with_exposed_provenance_mut(at);
    // SAFETY: it is part of a buffer that the program wants filled, of memory that it may
    // read and write and has alone.
    unsafe { mmap(at, len, how, flags, file, place) }.map(drop)
}

/// Makes pages of a private mapping the process's own, as writing to each would.
fn make_own(range: &Range<usize>, region: &Region) -> Result<(), Errno> {
    let at = ptr::with_exposed_provenance_mut(range.start);
    let protect = |how| {
        // SAFETY: memory of the program, which has what it had in the end.
        unsafe { mprotect(at, range.len(), how) }
    };
    if !region.is_writable() {
        protect(MprotectFlags::READ | MprotectFlags::WRITE)?;
    }
    let populated = loop {
        // SAFETY: it changes no byte.
        match unsafe { madvise(at, range.len(), Advice::LinuxPopulateWrite) } {
            Err(Errno::INTR | Errno::AGAIN) => {}
            other => break other,
        }
    };
    match (region.is_writable(), region.is_readable()) {
        (true, _) => {}
        (false, true) => protect(MprotectFlags::READ)?,
        (false, false) => protect(MprotectFlags::empty())?,
    }
    populated
}

impl State {
    /// Where to ask what is mapped, if the kernel answers.
    fn regions(&mut self) -> Option<&Regions> {
        if self.regions.is_none() && !self.is_unknown {
            self.regions = Regions::open();
            self.is_unknown = self.regions.is_none();
            if self.is_unknown {
                let why = "zero-copy needs /proc, and Linux 6.11: what is received is copied";
                say(Level::Warn, format_args!("{why}"));
            }
        }
        self.regions.as_ref()
    }

    /// If very much was changed, forgets what the program has unmapped since.
    fn make_room(&mut self, host: &Host) {
        if self.changed.len() >= MOST_STRETCHES
            && let Some(file) = File::of(host.shared_file())
        {
            self.forget_unmapped(file);
        }
    }

    /// Forgets stretches that the program has unmapped or mapped otherwise since.
    #[cold]
    fn forget_unmapped(&mut self, file: File) {
        let ours = self.mapped_within(&(0..usize::MAX), file);
        self.changed = Stretches::default();
        ours.into_iter().for_each(|part| self.changed.add(part));
    }

    /// Whether this memory of the program may be mapped anew.
    fn may_change(&mut self, range: &Range<usize>) -> bool {
        self.changed.len() < MOST_STRETCHES
            && self
                .regions()
                .is_some_and(|regions| regions.are_private_memory(range))
    }

    /// Takes out what is kept of a socket, which is going to be received into `target`, too;
    /// what is kept is in one piece, and no more than its share: else it is given back.
    fn take_holder(
        &mut self,
        socket: &Socket,
        target: &Range<usize>,
    ) -> (Option<KeptBytes>, Shown) {
        let share = (socket.receive_stream().limit() / SHARE) as usize;
        let mine = |holder: &Holder| holder.kept.socket() == socket.id();
        let goes_on = |Holder { kept, shown, .. }: &Holder| {
            // What is received takes the place of some.
            let replaced: usize = shown.at(target).map(|piece| piece.len).sum();
            kept.end() == socket.receive_stream().read_position()
                && kept.len().saturating_sub(replaced) + target.len() <= share
        };
        self.leave(|holder| mine(holder) && !goes_on(holder));
        match self.holders.iter().position(mine) {
            Some(at) => {
                let Holder { kept, shown, .. } = self.holders.remove(at);
                (Some(kept), shown)
            }
            None => (None, Shown::default()),
        }
    }

    /// The memory at `changed` shows the last bytes of what the last holder keeps, in these
    /// pieces: their addresses, lengths, and where in the shared file they lie.
    fn note_shown(&mut self, changed: Range<usize>, pieces: &[(usize, usize, u64)]) {
        for holder in &mut self.holders {
            holder.shown.cut(&changed);
        }
        self.sent.cut(&changed);
        if let Some(Holder { kept, shown, .. }) = self.holders.last_mut() {
            let mut from = kept.end() - changed.len() as u64;
            for &(at, len, place) in pieces {
                shown.add(Piece {
                    at,
                    len,
                    from,
                    place,
                });
                from += len as u64;
            }
        }
        if !changed.is_empty() {
            self.changed.add(changed);
        }
        self.give_back_unseen();
        if self.holders.len() > MOST_SOCKETS {
            let oldest = self.holders[0].kept.socket();
            self.leave(|holder| holder.kept.socket() == oldest);
        }
    }

    /// Gives back what the program sees nowhere any more.
    fn give_back_unseen(&mut self) {
        self.holders.retain_mut(|holder| {
            let seen = holder.shown.first_byte(holder.kept.end());
            let len = (seen - holder.kept.begin()) as usize;
            if len != 0 {
                holder.give_back(len);
            }
            !holder.kept.is_empty()
        });
    }

    /// Makes what the program sees of some sockets its own, and gives the rest back.
    #[cold]
    fn leave(&mut self, which: impl Fn(&Holder) -> bool) {
        let regions = self.regions.as_ref();
        for mut holder in self.holders.extract_if(.., |holder| which(holder)) {
            for piece in holder.shown.pieces() {
                if let Some(Err(e)) = regions.map(|r| own(r, holder.host, piece)) {
                    let what = "what was received without a copy cannot be kept as it is";
                    say(Level::Error, format_args!("{what}: {e}"));
                }
            }
            holder.give_back(holder.kept.len());
        }
    }

    /// Makes all that the program sees of anything its own.
    #[cold]
    fn leave_everything(&mut self) {
        self.leave(|_| true);
        self.leave_sent(|_| true);
    }

    /// This memory is the program's, as all other.
    fn changes_back(&mut self, range: &Range<usize>) {
        self.changed.remove(range);
        for holder in &mut self.holders {
            holder.shown.cut(range);
        }
        self.sent.cut(range);
    }

    /// What of `range` still is the engine's memory or that of the file that is sent from, or a
    /// copy of some of its pages.
    fn mapped_within(&mut self, range: &Range<usize>, file: File) -> Vec<Range<usize>> {
        let changed = self.changed.within(range);
        if changed.is_empty() || self.regions().is_none() {
            return Vec::new();
        }
        let (regions, sent) = (self.regions.as_ref(), &self.sent);
        let within = |part| regions.into_iter().flat_map(move |all| all.within(part));
        let parts = changed.iter().flat_map(within);
        let is_ours = |region: &Region| region.is_private_of(file) || sent.has(region);
        let ours = parts.filter(|(region, _)| is_ours(region));
        ours.map(|(_, part)| part).collect()
    }
}

/// Makes what the program still sees of a piece its own.
fn own(regions: &Regions, host: &Host, piece: &Piece) -> Result<(), Errno> {
    let Some(file) = File::of(host.shared_file()) else {
        return Ok(());
    };
    make_own_of(regions, file, piece)
}

/// Makes what the program still sees of a piece of this file its own.
fn make_own_of(regions: &Regions, file: File, piece: &Piece) -> Result<(), Errno> {
    for (region, part) in regions.within(&piece.range()) {
        let place = piece.place + (part.start - piece.at) as u64;
        if region.shows(file, part.start, place) {
            make_own(&part, &region)?;
        }
    }
    Ok(())
}

impl Holder {
    fn give_back(&mut self, len: usize) {
        if let Some(socket) = self.host.sockets().acquire(self.kept.socket()) {
            let _ = socket.keeping().give_back(&mut self.kept, len);
        }
    }
}

/// Whether any of the program's memory was changed.
#[inline]
pub(crate) fn is_used() -> bool {
    ANY.load(Ordering::Relaxed)
}
