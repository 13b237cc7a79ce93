//! Sending without a copy: the program's pages become a private mapping of a file of the process's
//! own, of which the engine sends ranges, as it does for `sendfile`. That takes one copy, when the
//! pages are exchanged. A program that writes to such a page gets a page of its own (copy on
//! write), and what is under way stays what it was; what is sent again as it is, is sent from the
//! same place of the file, without a copy.
//!
//! A part of the file is used anew when the program's memory does not show it any more and no
//! send stream has bytes of it. Before anybody else could have the pages (a fork, `vmsplice`),
//! and where there is no room, those that the program has not written to become its own.
//!
//! Owns the file, what is shown of it and where, and what of it is under way. Called by `send`
//! and its kin.

mod extents;
mod habits;
mod memory;
mod pieces;
mod writers;

use super::regions::{File, Region};
use super::shown::{Piece, Shown};
use super::written::Written;
use super::{ANY, PAGE, STATE, State, make_own_of, map, mode};
use extents::Extents;
use habits::Habits;
use longshore_hostif::zero_copy::ZeroCopy;
use longshore_sockets::{Appended, Host, Sending, SharedFile, Socket, SocketError, is_confined};
use memory::Memory;
use pieces::{is_of, is_shown, others, others_of, still_shown};
use rustix::fs::{Mode, OFlags, open};
use std::cell::Cell;
use std::io::IoSlice;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;
use writers::Writers;

pub(crate) use writers::memory_is_shared;

/// Parts of a buffer that are sent in turn, from the file or by a copy; one in more is copied.
const MOST_PARTS: usize = 32;
/// Bytes of the longest send of which pages are exchanged.
const MOST_AT_ONCE: usize = memory::SIZE as usize / 4;
/// Sends that are copied after the engine has not taken the file.
const REFUSED_FOR: u32 = 256;
/// The part of the pages that were exchanged to which the program may have written when it sends
/// them again, for that to have been worth it.
const WRITTEN: usize = 4;

/// What the kernel is asked by.
#[derive(Debug)]
struct Kernel {
    written: Written,
    writers: Writers,
}

/// What is known of the memory that is sent.
#[derive(Debug, Default)]
pub(super) struct Sent {
    memory: Option<Memory>,
    kernel: Option<Kernel>,
    /// This process cannot have what it takes.
    is_impossible: bool,
    /// The files of this process, and those of its parents, of which its memory may show pages.
    files: Vec<File>,
    extents: Extents,
    /// Where the program's memory shows which parts of the file; what a piece has in place of
    /// bytes of a stream is without meaning.
    shown: Shown,
    habits: Habits,
    /// Sends that are copied yet.
    refused: u32,
}

/// A part of a buffer that is sent.
#[derive(Debug, PartialEq, Eq)]
struct Part {
    len: usize,
    /// Where in the file it is; `None` if it is to be copied.
    place: Option<u64>,
    /// It was copied to the file just now.
    is_new: bool,
}

/// The fewest bytes that are worth it.
fn least() -> usize {
    static LEAST: OnceLock<usize> = OnceLock::new();
    *LEAST.get_or_init(|| match mode() {
        ZeroCopy::Never => usize::MAX,
        ZeroCopy::Always => PAGE,
        ZeroCopy::Auto => super::cost::least_worth_sending().unwrap_or(usize::MAX),
    })
}

/// Sends what there is room for of `parts`, without a copy where that can be and pays. Notes
/// whether bytes were `copied`, to the stream, or to where the program's memory then shows them.
///
/// # Errors
/// As [`SendStream::send_with`](longshore_sockets::SendStream::send_with).
pub(crate) fn send(
    socket: &Socket,
    parts: &[IoSlice<'_>],
    sending: Sending,
    copied: &Cell<bool>,
) -> Result<usize, SocketError> {
    if let [part] = parts
        && part.len() >= PAGE
        && (least()..=MOST_AT_ONCE).contains(&part.len())
        && !sending.intersects(Sending::URGENT | Sending::RECORD_END | Sending::STAMPED)
        && !is_confined()
        && socket.send_stream().takes_ranges()
        && let Some(n) = send_pages(socket, part, sending, copied)?
    {
        return Ok(n);
    }
    copied.set(true);
    socket.send_stream().send_with(parts, sending)
}

/// Sends one buffer by its pages; `None` if it is to be copied.
fn send_pages(
    socket: &Socket,
    bytes: &[u8],
    sending: Sending,
    copied: &Cell<bool>,
) -> Result<Option<usize>, SocketError> {
    // A handler that interrupts another call of its thread copies.
    let Ok(mut state) = STATE.enter() else {
        return Ok(None);
    };
    let start = bytes.as_ptr().addr();
    let range = start..start + bytes.len();
    let Some(file) = state.begin_send(socket, &range, bytes) else {
        return Ok(None);
    };
    let Some(parts) = state.parts(socket.host(), &range) else {
        return Ok(None);
    };
    if parts.iter().all(|part| part.place.is_none()) {
        return Ok(None);
    }
    if parts.iter().any(|part| part.is_new) {
        copied.set(true);
    }
    match state.send_parts(socket, &file, (bytes, &parts), (sending, copied)) {
        (0, Err(e)) => Err(e),
        (n, _) => Ok(Some(n)),
    }
}

impl State {
    /// Whether a buffer is worth it; then the file, which the engine has.
    fn begin_send(
        &mut self,
        socket: &Socket,
        range: &Range<usize>,
        bytes: &[u8],
    ) -> Option<SharedFile> {
        let sent = &mut self.sent;
        if mode() == ZeroCopy::Auto && !sent.habits.sends_again(range, bytes) {
            return None;
        }
        if sent.refused != 0 {
            sent.refused -= 1;
            return None;
        }
        // A call that frees or moves memory looks for this before anything is changed.
        ANY.store(true, Ordering::Relaxed);
        self.regions()?;
        self.make_room(socket.host());
        let sent = &mut self.sent;
        if !sent.prepare() {
            return None;
        }
        sent.extents.begin_call();
        let file = sent.memory.as_ref()?.share(socket);
        if file.is_none() {
            sent.refused = REFUSED_FOR;
        }
        file
    }

    /// What of a buffer is sent from where. What is not in the file yet and in whole pages comes
    /// to be there. `None` if that is too much in pieces.
    fn parts(&mut self, host: &'static Host, range: &Range<usize>) -> Option<Vec<Part>> {
        let (mut there, shown) = self.unchanged(range)?;
        there
            .iter()
            .for_each(|p| self.sent.extents.use_now(p.place));
        let unchanged: usize = there.iter().map(|piece| piece.len).sum();
        if mode() == ZeroCopy::Auto && (shown - unchanged) > shown / WRITTEN {
            self.sent.habits.was_written_to();
            return None;
        }
        let mut new = Vec::new();
        for rest in others(range, &there) {
            let pages = rest.start.next_multiple_of(PAGE)..rest.end / PAGE * PAGE;
            if pages.start < pages.end
                && let Some(place) = self.exchange(host, &pages)
            {
                new.push(pages.start);
                there.push(Piece {
                    at: pages.start,
                    len: pages.len(),
                    from: 0,
                    place,
                });
            }
        }
        there.sort_by_key(|piece| piece.at);
        let mut parts = Vec::new();
        let mut at = range.start;
        for piece in &there {
            if piece.at > at {
                parts.push(Part::copied(piece.at - at));
            }
            parts.push(Part {
                len: piece.len,
                place: Some(piece.place),
                is_new: new.contains(&piece.at),
            });
            at = piece.range().end;
        }
        if at < range.end {
            parts.push(Part::copied(range.end - at));
        }
        (parts.len() <= MOST_PARTS).then_some(parts)
    }

    /// What of `range` the program's memory still shows of the file, and how much of it was shown
    /// once. `None` if the program has written to it here and there.
    fn unchanged(&self, range: &Range<usize>) -> Option<(Vec<Piece>, usize)> {
        let mut unchanged = Vec::new();
        let mut shown = 0;
        for piece in self.sent.shown.at(range) {
            shown += piece.len;
            unchanged.extend(self.unchanged_of(&piece)?);
        }
        unchanged.sort_by_key(|piece| piece.at);
        Some((unchanged, shown))
    }

    /// What of one piece the program has not changed.
    fn unchanged_of(&self, piece: &Piece) -> Option<Vec<Piece>> {
        let (regions, sent) = (self.regions.as_ref()?, &self.sent);
        let file = sent.memory.as_ref()?.file();
        let Range { start, end } = piece.range();
        let pages = start / PAGE * PAGE..end.next_multiple_of(PAGE);
        let written = sent.kernel.as_ref()?.written.within(&pages)?;
        let still = still_shown(regions, file, piece).into_iter();
        let parts = still.flat_map(|part| others_of(&part, &written));
        Some(parts.map(|part| piece.part(part)).collect())
    }

    /// Puts a copy of these pages of the program's into the file, and has its memory show that;
    /// says where in the file. `None` if they stay what they are.
    fn exchange(&mut self, host: &'static Host, pages: &Range<usize>) -> Option<u64> {
        if pages.len() < least() || !self.may_change(pages) {
            return None;
        }
        let place = self.take(host, pages.len())?;
        let State { sent, .. } = self;
        let (memory, kernel) = (sent.memory.as_mut()?, sent.kernel.as_ref()?);
        memory.fill(&(place..place + pages.len() as u64)).ok()?;
        let held = kernel.writers.hold(pages)?;
        memory.copy(pages, place);
        let mapped = map(memory.fd(), pages.start, pages.len(), place);
        drop(held);
        mapped.ok()?;
        self.changes_back(pages);
        self.changed.add(pages.clone());
        self.sent.shown.add(Piece {
            at: pages.start,
            len: pages.len(),
            from: 0,
            place,
        });
        self.give_back_unseen();
        Some(place)
    }

    /// Takes a part of the file that nobody uses, if need be the one that was sent longest ago.
    fn take(&mut self, host: &'static Host, len: usize) -> Option<u64> {
        // What was acknowledged meanwhile is used anew, while it is in the caches.
        host.messages().catch_up();
        self.sent.give_back(host);
        if let Some(place) = self.sent.extents.take(len, memory::SIZE) {
            return Some(place);
        }
        self.forget_changed();
        loop {
            self.sent.give_back(host);
            if let Some(place) = self.sent.extents.take(len, memory::SIZE) {
                return Some(place);
            }
            let Sent { extents, shown, .. } = &self.sent;
            let oldest = extents.oldest(|range| is_shown(shown, range))?;
            if !self.leave_sent(|piece| is_of(piece, &oldest)) {
                return None;
            }
        }
    }

    /// Forgets what the program's memory does not show any more.
    fn forget_changed(&mut self) {
        let mut still = Shown::default();
        for piece in self.sent.shown.pieces() {
            let unchanged = self.unchanged_of(piece).unwrap_or_else(|| vec![*piece]);
            unchanged.into_iter().for_each(|part| still.add(part));
        }
        self.sent.shown = still;
    }

    /// Makes the program's own what it sees of some parts of the file; whether that was done.
    pub(super) fn leave_sent(&mut self, which: impl Fn(&Piece) -> bool) -> bool {
        let State { regions, sent, .. } = self;
        let Some(file) = sent.memory.as_ref().map(Memory::file) else {
            return true;
        };
        let Some(regions) = regions.as_ref() else {
            return sent.shown.pieces().is_empty();
        };
        let mut left = Shown::default();
        let mut all = true;
        for piece in sent.shown.pieces() {
            if which(piece) && make_own_of(regions, file, piece).is_ok() {
                continue;
            }
            all &= !which(piece);
            left.add(*piece);
        }
        sent.shown = left;
        all
    }

    /// Sends the parts of a buffer in turn, as far as there is room for them.
    fn send_parts(
        &mut self,
        socket: &Socket,
        file: &SharedFile,
        (bytes, parts): (&[u8], &[Part]),
        (sending, copied): (Sending, &Cell<bool>),
    ) -> (usize, Result<(), SocketError>) {
        let mut sent = 0;
        for part in parts {
            let end = sent + part.len;
            while sent < end {
                let left = &bytes[sent..end];
                // The rest follows at once.
                let more = sending
                    | if end < bytes.len() {
                        Sending::MORE
                    } else {
                        Sending::empty()
                    };
                let place = part
                    .place
                    .map(|place| place + (part.len - left.len()) as u64);
                let step = match place {
                    Some(place) => self.append(socket, (file, place), left, (more, copied)),
                    None => {
                        copied.set(true);
                        socket.send_stream().send_with(&[IoSlice::new(left)], more)
                    }
                };
                match step {
                    Ok(n) => sent += n,
                    Err(e) => return (sent, Err(e)),
                }
            }
        }
        (sent, Ok(()))
    }

    /// Sends bytes that are in the file at `place`.
    fn append(
        &mut self,
        socket: &Socket,
        (file, place): (&SharedFile, u64),
        bytes: &[u8],
        (sending, copied): (Sending, &Cell<bool>),
    ) -> Result<usize, SocketError> {
        let host = socket.host();
        let is_acknowledged = |id, end| host.is_acknowledged(id, end);
        let extents = &mut self.sent.extents;
        let copy = if extents.may_send(place, socket.id(), is_acknowledged) {
            let more = sending.contains(Sending::MORE);
            match socket
                .send_stream()
                .append_range(file, place, bytes.len(), more)?
            {
                Appended::Bytes(n) => {
                    extents.note_sent(place, socket.id(), socket.send_stream().write_position());
                    return Ok(n);
                }
                Appended::Copy(n) => n.min(bytes.len()),
            }
        } else {
            bytes.len()
        };
        copied.set(true);
        let rest = copy < bytes.len();
        let more = sending
            | if rest {
                Sending::MORE
            } else {
                Sending::empty()
            };
        socket
            .send_stream()
            .send_with(&[IoSlice::new(&bytes[..copy])], more)
    }
}

impl Part {
    fn copied(len: usize) -> Self {
        Self {
            len,
            place: None,
            is_new: false,
        }
    }
}

impl Memory {
    /// The engine has it, to read it. `None` if it does not take it.
    fn share(&self, socket: &Socket) -> Option<SharedFile> {
        socket.send_stream().share_own_file(self.id(), || {
            let path = format!("/proc/self/fd/{}", self.fd().as_raw_fd());
            open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()
        })
    }
}

impl Sent {
    /// Makes what it takes; whether there is all of it.
    fn prepare(&mut self) -> bool {
        if self.is_impossible {
            return false;
        }
        crate::room::within(|| {
            if self.kernel.is_none() {
                self.kernel = Kernel::open();
            }
            if self.kernel.is_some() && self.memory.is_none() {
                self.memory = Memory::new();
                self.files.extend(self.memory.as_ref().map(Memory::file));
            }
        });
        self.is_impossible = self.kernel.is_none() || self.memory.is_none();
        !self.is_impossible
    }

    /// Whether a region is a private copy of one of its files.
    pub(super) fn has(&self, region: &Region) -> bool {
        self.files.iter().any(|file| region.is_private_of(*file))
    }

    /// Something else takes the place of the program's memory there.
    pub(super) fn cut(&mut self, range: &Range<usize>) {
        self.shown.cut(range);
    }

    /// Gives back the parts of the file that are neither shown nor under way.
    fn give_back(&mut self, host: &'static Host) {
        let Self { extents, shown, .. } = self;
        extents.give_back(
            |range| is_shown(shown, range),
            |id, end| host.is_acknowledged(id, end),
        );
    }

    /// This process is another one now, a child of the one that has the file: it has what its
    /// memory shows, and begins anew.
    pub(super) fn begin_anew(&mut self) {
        if let Some(Kernel { written, writers }) = self.kernel.take() {
            written.close();
            writers.close();
        }
        if let Some(memory) = self.memory.take() {
            memory.close();
        }
        self.extents = Extents::default();
        self.shown = Shown::default();
    }
}

impl Kernel {
    fn open() -> Option<Self> {
        let written = Written::open()?;
        let Some(writers) = Writers::open() else {
            written.close();
            return None;
        };
        Some(Self { written, writers })
    }
}
