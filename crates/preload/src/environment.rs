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
use rustix::mm::MapFlags;
use rustix::thread::gettid;
use std::ffi::{CStr, CString, OsString};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

const PRELOAD_VARIABLE: &str = "LD_PRELOAD";
/// Says to the new image that its process holds sockets for which it may have no
/// descriptors, so that it lets go of them.
pub(crate) const HELD_VARIABLE: &str = "LONGSHORE_HELD";
const HELD: &CStr = c"LONGSHORE_HELD=1";

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
    use std::os::unix::ffi::OsStrExt;
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
}

/// An environment for `exec`, given back when this goes.
pub(crate) struct Carried<'a> {
    list: Strings<'a>,
    block: Option<Block>,
}

impl<'a> Carried<'a> {
    /// `list` with what is missing, or without this library for a program that its loader does not
    /// start with that; the program's own if nothing is to be changed, or there is no memory.
    pub(crate) fn new(list: Strings<'a>, holds: bool, takes_library: bool) -> Self {
        let block = if takes_library {
            Self::fill(list, holds)
        } else {
            remembered().and_then(|ours| without(list, &ours.library))
        };
        Self { list, block }
    }

    fn fill(list: Strings<'a>, holds: bool) -> Option<Block> {
        let ours = remembered()?;
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
        };
        if !lacks.names && !lacks.library && !holds {
            return None;
        }
        // What LD_PRELOAD becomes.
        let joined =
            ours.preload_entry.as_bytes().len() + preload.map_or(0, |p| p.count_bytes()) + 2;
        // Six of ours, and the null.
        let mut block = Block::new(list.iter().count() + 7, joined)?;
        let (strings, text) = block.parts();
        let loaded = match preload.filter(|p| !p.is_empty()) {
            _ if !lacks.library => None,
            None => Some(ours.preload_entry.as_c_str()),
            Some(theirs) => Some(ours.before(theirs, text)?),
        };
        let kept = list.iter().filter(|entry| !lacks.replaces(entry));
        let named = ours.names().filter(|_| lacks.names);
        let all = kept.chain(named).chain(loaded).chain(holds.then_some(HELD));
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
        self.library && is(PRELOAD_VARIABLE) || self.names && names.into_iter().any(is)
    }
}

impl Remembered {
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
    Carried::new(own(), false, true).block.is_none()
}

/// Runs what executes a program with the environment of this one, carried on. Until it is
/// over, other threads see the variables, too.
pub(crate) fn with_own<T>(work: impl FnOnce() -> T) -> T {
    let mut carried = Carried::new(own(), false, true);
    environ.with(carried.list(), || held(work))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_found_by_their_whole_name() {
        let list = [c"AB=1", c"A=2", c"B="].map(Text::from);
        let list = [&list[..], &[Text::null()]].concat();
        let list = Strings::of(&list).expect("it ends");
        let value = |name| find(list, name);
        assert_eq!(value("A"), Some(c"2"));
        assert_eq!(value("B"), Some(c""));
        assert_eq!(value("C"), None);
        assert!(preloads(c"/a.so:/b.so", c"/b.so") && !preloads(c"/a.so", c"/b.so"));
    }

    #[test]
    fn of_what_is_preloaded_one_library_is_left_out() {
        let left = |value: &str| {
            let value = CString::new(format!("LD_PRELOAD={value}")).unwrap();
            let list = [c"A=1", value.as_c_str(), c"B=2"].map(Text::from);
            let list = [&list[..], &[Text::null()]].concat();
            let mut block = without(Strings::of(&list).expect("it ends"), c"/ours.so")?;
            let list = Strings::of(block.parts().0).expect("it ends");
            let text = |entry: &CStr| entry.to_str().unwrap().to_owned();
            Some(list.iter().map(text).collect::<Vec<_>>().join(" "))
        };
        assert_eq!(left("/ours.so").as_deref(), Some("A=1 B=2"));
        assert_eq!(
            left("/ours.so:/a.so").as_deref(),
            Some("A=1 B=2 LD_PRELOAD=/a.so")
        );
        assert_eq!(
            left("/a.so /ours.so::/b.so").as_deref(),
            Some("A=1 B=2 LD_PRELOAD=/a.so:/b.so")
        );
        assert_eq!(left("/a.so"), None);
        assert_eq!(left(""), None);
    }
}
