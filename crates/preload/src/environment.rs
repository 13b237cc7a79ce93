//! The variables by which a program is on Longshore: remembered when it starts, whatever it
//! does to its environment then, and given to each program that it executes, with whatever
//! environment. So a daemon that empties its environment, `env -i` or `su -` stay in their
//! session. A program that is not to be: `LONGSHORE_ENGINE=` (empty) in its environment.
//!
//! What is made here for `exec` takes no memory of malloc's: it may be the child of a
//! process with several threads that calls.

use crate::cancel::held;
use crate::mapping::Mapping;
use crate::user::{Out, Strings, StringsVariable, Text};
use longshore_hostif::attach::{ENGINE_VARIABLE, SESSION_VARIABLE};
use longshore_hostif::warning::{Destination, WARNINGS_VARIABLE};
use longshore_hostif::zero_copy::{ZERO_COPY_VARIABLE, ZeroCopy};
use longshore_sockets::ReservationName;
use rustix::mm::MapFlags;
use rustix::thread::gettid;
use std::ffi::{CStr, CString, OsString};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

const PRELOAD_VARIABLE: &str = "LD_PRELOAD";
/// Says to the new image that its process holds sockets for which it may have no
/// descriptors, so that it lets go of them; and in which reservation, if it has to tell
/// the engine.
const HELD_VARIABLE: &str = "LONGSHORE_HELD";
const HELD: &CStr = c"LONGSHORE_HELD=1";
/// Bytes of the longest, with a null.
const HELD_BYTES: usize = HELD_VARIABLE.len() + 1 + ReservationName::MOST_BYTES + 1;

/// What was in the environment when the program started.
#[derive(Debug)]
pub(crate) struct Remembered {
    /// Where the engine is.
    pub(crate) engine: OsString,
    /// The session's token.
    pub(crate) session: String,
    /// Where the launcher receives messages, if there is one.
    pub(crate) warnings: Option<Destination>,
    /// Whether what it receives is shown to it where it lies.
    pub(crate) zero_copy: ZeroCopy,
    /// Whether valgrind runs the program: it has libraries of its own preloaded.
    pub(crate) is_in_valgrind: bool,
    engine_entry: CString,
    session_entry: CString,
    warnings_entry: Option<CString>,
    zero_copy_entry: Option<CString>,
    preload_entry: CString,
    /// The path of this library, as the loader was given it.
    library: CString,
}

static REMEMBERED: OnceLock<Option<Remembered>> = OnceLock::new();

/// The thread that reads the environment, while it does.
static READER: AtomicI32 = AtomicI32::new(0);

unsafe extern "C" {
    safe static environ: StringsVariable;
}

/// Whether it is known what the environment was when the program started. Libraries that
/// come before libc (sanitizers, allocators) call before it has one, and while it is read: what
/// they have in place of `malloc` and `memcpy` gets ready when it is first called.
pub(crate) fn is_known() -> bool {
    REMEMBERED.get().is_some() || !environ.get().is_null() && !reads_now()
}

/// Whether this thread is reading it.
fn reads_now() -> bool {
    let reader = READER.load(Relaxed);
    reader != 0 && reader == gettid().as_raw_nonzero().get()
}

/// The variables, if the program is on Longshore, as far as that [is known](is_known). The
/// first call that knows it has to be before the program begins.
pub(crate) fn remembered() -> Option<&'static Remembered> {
    if let Some(known) = REMEMBERED.get() {
        return known.as_ref();
    }
    if !is_known() {
        return None;
    }
    let known = REMEMBERED.get_or_init(|| {
        READER.store(gettid().as_raw_nonzero().get(), Relaxed);
        let variables = read();
        READER.store(0, Relaxed);
        variables
    });
    known.as_ref()
}

fn read() -> Option<Remembered> {
    let engine = std::env::var_os(ENGINE_VARIABLE).filter(|engine| !engine.is_empty())?;
    let session = std::env::var(SESSION_VARIABLE).ok()?;
    let warnings = std::env::var(WARNINGS_VARIABLE).ok();
    let zero_copy = std::env::var(ZERO_COPY_VARIABLE).ok();
    let preloaded = std::env::var_os(PRELOAD_VARIABLE).unwrap_or_default();
    // `longshore run` puts it first.
    let library = preloaded.as_bytes().split(|b| b" :".contains(b)).next();
    let entry = |name: &str, value: &[u8]| {
        CString::new([name.as_bytes(), b"=", value].concat()).unwrap_or_default()
    };
    Some(Remembered {
        engine_entry: entry(ENGINE_VARIABLE, engine.as_bytes()),
        session_entry: entry(SESSION_VARIABLE, session.as_bytes()),
        warnings_entry: warnings
            .as_ref()
            .map(|value| entry(WARNINGS_VARIABLE, value.as_bytes())),
        warnings: warnings.and_then(|value| Destination::decode(&value)),
        zero_copy_entry: zero_copy
            .as_ref()
            .map(|value| entry(ZERO_COPY_VARIABLE, value.as_bytes())),
        zero_copy: zero_copy
            .and_then(|value| value.parse().ok())
            .unwrap_or_default(),
        is_in_valgrind: contains(preloaded.as_bytes(), b"/vgpreload_"),
        preload_entry: entry(PRELOAD_VARIABLE, preloaded.as_bytes()),
        library: CString::new(library.unwrap_or_default()).unwrap_or_default(),
        engine,
        session,
    })
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|at| at == part)
}

/// The value of a variable in an environment.
fn find<'a>(list: Strings<'a>, name: &str) -> Option<&'a CStr> {
    list.iter().find_map(|entry| {
        let entry = entry.to_bytes_with_nul();
        let value = entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
        CStr::from_bytes_with_nul(value).ok()
    })
}

fn preloads(value: &CStr, library: &CStr) -> bool {
    let mut words = value.to_bytes().split(|b| b" :".contains(b));
    words.any(|word| word == library.to_bytes())
}

/// Whether a program that is executed with this environment is not to be on Longshore.
pub(crate) fn leaves(list: Strings<'_>) -> bool {
    find(list, ENGINE_VARIABLE).is_some_and(CStr::is_empty)
}

/// Memory for a list of strings, with room for the text of one, that is not malloc's.
struct Block {
    memory: Mapping,
    strings: usize,
}

impl Block {
    /// Room for so many strings, and for so many bytes of text.
    fn new(strings: usize, text: usize) -> Option<Self> {
        let bytes = strings * size_of::<Text<'_>>() + text;
        let memory = Mapping::new(bytes, MapFlags::PRIVATE).ok()?;
        Some(Self { memory, strings })
    }

    /// The list, of nulls where nothing was put, and the text.
    fn parts(&mut self) -> (&mut [Text<'_>], &mut [u8]) {
        let list_len = self.strings * size_of::<Text<'_>>();
        let (list, text) = self.memory.bytes_mut().split_at_mut(list_len);
        // It began as zeros, which are strings that are null.
        let list = Out::from(list).cast().slice_mut(self.strings);
        (list, text)
    }
}

/// What of our variables an environment lacks.
struct Lacks {
    /// The engine and the session.
    names: bool,
    /// This library.
    library: bool,
    /// What is held; what the environment says of that is of another process.
    held: bool,
}

/// What the process of a new image holds that it may have no descriptors for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holds {
    /// Nothing.
    Nothing,
    /// Sockets.
    Sockets,
    /// Sockets, in a reservation of which the engine does not know whom it is for.
    Reserved(ReservationName),
}

impl Holds {
    /// The entry that says so, in `text` if need be.
    fn entry(self, text: &mut [u8]) -> Option<&CStr> {
        let name = match self {
            Self::Nothing => return None,
            Self::Sockets => return Some(HELD),
            Self::Reserved(name) => name,
        };
        let mut rest = &mut *text;
        let written = write!(rest, "{HELD_VARIABLE}={name}\0");
        written.ok()?;
        CStr::from_bytes_until_nul(text).ok()
    }

    /// What the value of the variable says.
    fn read(value: &str) -> Self {
        value.parse().map_or(Self::Sockets, Self::Reserved)
    }
}

/// What was said to this image, at its start. The program and what it executes do not see it.
pub(crate) fn take_holds() -> Holds {
    let Some(value) = std::env::var_os(HELD_VARIABLE) else {
        return Holds::Nothing;
    };
    // SAFETY: the program has not begun, so nobody else uses its environment.
    unsafe { std::env::remove_var(HELD_VARIABLE) };
    value.to_str().map_or(Holds::Sockets, Holds::read)
}

/// An environment for `exec`, given back when this goes.
pub(crate) struct Carried<'a> {
    list: Strings<'a>,
    block: Option<Block>,
}

impl<'a> Carried<'a> {
    /// `list` with what is missing, or without this library for a program that its loader does not
    /// start with that; the program's own if nothing is to be changed, or there is no memory.
    pub(crate) fn new(list: Strings<'a>, holds: Holds, takes_library: bool) -> Self {
        let block = if takes_library {
            Self::fill(list, holds)
        } else {
            remembered().and_then(|ours| without(list, &ours.library))
        };
        Self { list, block }
    }

    fn fill(list: Strings<'a>, holds: Holds) -> Option<Block> {
        Self::filled(remembered()?, list, holds)
    }

    fn filled(ours: &'static Remembered, list: Strings<'a>, holds: Holds) -> Option<Block> {
        if leaves(list) {
            return None;
        }
        let is_named = [ENGINE_VARIABLE, SESSION_VARIABLE]
            .iter()
            .all(|name| find(list, name).is_some());
        let preload = find(list, PRELOAD_VARIABLE);
        let lacks = Lacks {
            names: !is_named,
            library: !preload.is_some_and(|p| preloads(p, &ours.library)),
            held: holds != Holds::Nothing,
        };
        if !lacks.names && !lacks.library && !lacks.held {
            return None;
        }
        // In another session the name would be of another reservation.
        let holds = match holds {
            Holds::Reserved(_) if is_named && !ours.are_in(list) => Holds::Sockets,
            holds => holds,
        };
        // What LD_PRELOAD becomes.
        let joined =
            ours.preload_entry.as_bytes().len() + preload.map_or(0, |p| p.count_bytes()) + 2;
        // Six of ours, and the null.
        let mut block = Block::new(list.iter().count() + 7, joined + HELD_BYTES)?;
        let (strings, text) = block.parts();
        let (held, text) = text.split_at_mut(HELD_BYTES);
        let loaded = match preload.filter(|p| !p.is_empty()) {
            _ if !lacks.library => None,
            None => Some(ours.preload_entry.as_c_str()),
            Some(theirs) => Some(ours.before(theirs, text)?),
        };
        let kept = list.iter().filter(|entry| !lacks.replaces(entry));
        let named = ours.names().filter(|_| lacks.names);
        let all = kept.chain(named).chain(loaded).chain(holds.entry(held));
        for (place, entry) in strings.iter_mut().zip(all) {
            *place = Text::from(entry);
        }
        Some(block)
    }

    /// The environment.
    pub(crate) fn list(&mut self) -> Strings<'_> {
        let filled = self.block.as_mut().and_then(|b| Strings::of(b.parts().0));
        filled.unwrap_or(self.list)
    }
}

/// Whether an entry of an environment is of this variable.
fn is_of(entry: &CStr, name: &str) -> bool {
    let rest = entry.to_bytes().strip_prefix(name.as_bytes());
    rest.is_some_and(|rest| rest.starts_with(b"="))
}

/// The environment without `library` among what is preloaded; `None` if it is not there.
fn without(list: Strings<'_>, library: &CStr) -> Option<Block> {
    let preload = find(list, PRELOAD_VARIABLE).filter(|p| preloads(p, library))?;
    let length = PRELOAD_VARIABLE.len() + 2 + preload.count_bytes();
    let mut block = Block::new(list.iter().count() + 1, length)?;
    let (strings, text) = block.parts();
    let mut others = 0;
    let mut put = |piece: &[u8]| {
        // There is room for all of them.
        if let Some(place) = text.get_mut(others..others + piece.len()) {
            place.copy_from_slice(piece);
            others += piece.len();
        }
    };
    put(PRELOAD_VARIABLE.as_bytes());
    let words = preload.to_bytes().split(|b| b" :".contains(b));
    let words = words.filter(|word| !word.is_empty() && *word != library.to_bytes());
    let mut before = b"=";
    for word in words {
        put(before);
        put(word);
        before = b":";
    }
    let left = CStr::from_bytes_until_nul(text).ok();
    let left = left.filter(|left| is_of(left, PRELOAD_VARIABLE));
    let kept = list.iter().filter(|entry| !is_of(entry, PRELOAD_VARIABLE));
    for (place, entry) in strings.iter_mut().zip(kept.chain(left)) {
        *place = Text::from(entry);
    }
    Some(block)
}

impl Lacks {
    /// Whether an entry is left out for one of ours.
    fn replaces(&self, entry: &CStr) -> bool {
        let is = |name: &str| is_of(entry, name);
        let names = [
            ENGINE_VARIABLE,
            SESSION_VARIABLE,
            WARNINGS_VARIABLE,
            ZERO_COPY_VARIABLE,
        ];
        self.library && is(PRELOAD_VARIABLE)
            || self.names && names.into_iter().any(is)
            || self.held && is(HELD_VARIABLE)
    }
}

impl Remembered {
    /// Whether an environment names this engine and session.
    fn are_in(&self, list: Strings<'_>) -> bool {
        let is = |name, value: &[u8]| find(list, name).is_some_and(|v| v.to_bytes() == value);
        is(ENGINE_VARIABLE, self.engine.as_bytes()) && is(SESSION_VARIABLE, self.session.as_bytes())
    }

    /// The variables that name the session.
    fn names(&self) -> impl Iterator<Item = &CStr> {
        let both = [&self.engine_entry, &self.session_entry].into_iter();
        let others = [&self.warnings_entry, &self.zero_copy_entry];
        let others = others.into_iter().flatten();
        both.chain(others).map(CString::as_c_str)
    }

    /// LD_PRELOAD with this library before what else is preloaded.
    fn before<'a>(&self, theirs: &CStr, text: &'a mut [u8]) -> Option<&'a CStr> {
        let pieces = [
            b"LD_PRELOAD=".as_slice(),
            self.library.to_bytes(),
            b":",
            theirs.to_bytes_with_nul(),
        ];
        let mut at = 0;
        for piece in pieces {
            text.get_mut(at..at + piece.len())?.copy_from_slice(piece);
            at += piece.len();
        }
        CStr::from_bytes_with_nul(&text[..at]).ok()
    }
}

/// The program's environment.
pub(crate) fn own() -> Strings<'static> {
    environ.get()
}

/// Whether a program that is executed with this one's environment is on Longshore.
pub(crate) fn is_carried() -> bool {
    Carried::new(own(), Holds::Nothing, true).block.is_none()
}

/// Runs what executes a program with the environment of this one, carried on. Until it is
/// over, other threads see the variables, too.
pub(crate) fn with_own<T>(work: impl FnOnce() -> T) -> T {
    let mut carried = Carried::new(own(), Holds::Nothing, true);
    environ.with(carried.list(), || held(work))
}

#[cfg(test)]
mod tests;
