//! The variables by which a program is on Longshore: remembered when it starts, whatever it
//! does to its environment then, and given to each program that it executes, with whatever
//! environment. So a daemon that empties its environment, `env -i` or `su -` stay in their
//! session. A program that is not to be: `LONGSHORE_ENGINE=` (empty) in its environment.
//!
//! What is made here for `exec` takes no memory of malloc's: it may be the child of a
//! process with several threads that calls.

use crate::cancel::held;
use libc::c_char;
use longshore_hostif::attach::{ENGINE_VARIABLE, SESSION_VARIABLE};
use longshore_hostif::warning::{Destination, WARNINGS_VARIABLE};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::ffi::{CStr, CString, OsString};
use std::sync::OnceLock;

const PRELOAD_VARIABLE: &str = "LD_PRELOAD";
/// Says to the new image that its process holds sockets for which it may have no
/// descriptors, so that it lets go of them.
pub(crate) const HELD_VARIABLE: &str = "LONGSHORE_HELD";
const HELD: &CStr = c"LONGSHORE_HELD=1";

unsafe extern "C" {
    static mut environ: *const *const c_char;
}

/// What was in the environment when the program started.
#[derive(Debug)]
pub(crate) struct Remembered {
    /// Where the engine is.
    pub(crate) engine: OsString,
    /// The session's token.
    pub(crate) session: String,
    /// Where the launcher hears what there is to say, if there is one.
    pub(crate) warnings: Option<Destination>,
    engine_entry: CString,
    session_entry: CString,
    warnings_entry: Option<CString>,
    preload_entry: CString,
    /// The path of this library, as the loader was given it.
    library: CString,
}

/// The variables, if the program is on Longshore. The first call has to be before the
/// program begins.
pub(crate) fn remembered() -> Option<&'static Remembered> {
    static REMEMBERED: OnceLock<Option<Remembered>> = OnceLock::new();
    REMEMBERED.get_or_init(read).as_ref()
}

fn read() -> Option<Remembered> {
    use std::os::unix::ffi::OsStrExt;
    let engine = std::env::var_os(ENGINE_VARIABLE).filter(|engine| !engine.is_empty())?;
    let session = std::env::var(SESSION_VARIABLE).ok()?;
    let warnings = std::env::var(WARNINGS_VARIABLE).ok();
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
        preload_entry: entry(PRELOAD_VARIABLE, preloaded.as_bytes()),
        library: CString::new(library.unwrap_or_default()).unwrap_or_default(),
        engine,
        session,
    })
}

/// The value of a variable in an environment, or null.
///
/// # Safety
/// `list` is null or ends with a null.
unsafe fn find(list: *const *const c_char, name: &str) -> Option<&'static CStr> {
    let mut at = list;
    // SAFETY: the caller's promise.
    while let Some(entry) = unsafe { at.as_ref() }.filter(|e| !e.is_null()) {
        // SAFETY: as above: C strings.
        let entry = unsafe { CStr::from_ptr(*entry) };
        let bytes = entry.to_bytes();
        if bytes.len() > name.len()
            && bytes.starts_with(name.as_bytes())
            && bytes[name.len()] == b'='
        {
            return CStr::from_bytes_with_nul(&entry.to_bytes_with_nul()[name.len() + 1..]).ok();
        }
        // SAFETY: as above.
        at = unsafe { at.add(1) };
    }
    None
}

fn preloads(value: &CStr, library: &CStr) -> bool {
    let mut words = value.to_bytes().split(|b| b" :".contains(b));
    words.any(|word| word == library.to_bytes())
}

/// Whether a program that is executed with this environment is not to be on Longshore.
///
/// # Safety
/// `list` is null or an environment as `execve` takes it.
pub(crate) unsafe fn leaves(list: *const *const c_char) -> bool {
    // SAFETY: the caller's promise.
    unsafe { find(list, ENGINE_VARIABLE) }.is_some_and(CStr::is_empty)
}

/// An environment for `exec`, given back when this goes.
pub(crate) struct Carried {
    list: *const *const c_char,
    memory: Option<(*mut std::ffi::c_void, usize)>,
}

impl Carried {
    /// `list` with what is missing; the program's own if nothing is.
    ///
    /// # Safety
    /// `list` is null or an environment as `execve` takes it.
    pub(crate) unsafe fn new(list: *const *const c_char, holds: bool) -> Self {
        let as_it_is = Self { list, memory: None };
        let Some(ours) = remembered() else {
            return as_it_is;
        };
        // SAFETY: the caller's promise.
        let (engine, session, preload) = unsafe {
            (
                find(list, ENGINE_VARIABLE),
                find(list, SESSION_VARIABLE),
                find(list, PRELOAD_VARIABLE),
            )
        };
        if engine.is_some_and(CStr::is_empty) {
            return as_it_is;
        }
        let is_named = engine.is_some() && session.is_some();
        let is_loaded = preload.is_some_and(|p| preloads(p, &ours.library));
        if is_named && is_loaded && !holds {
            return as_it_is;
        }
        let mut count = 0;
        // SAFETY: as above.
        while !list.is_null() && unsafe { !(*list.add(count)).is_null() } {
            count += 1;
        }
        // Pointers, then what LD_PRELOAD becomes.
        let joined =
            ours.preload_entry.as_bytes().len() + preload.map_or(0, |p| p.count_bytes()) + 2;
        let bytes = (count + 6) * size_of::<usize>() + joined;
        // SAFETY: new memory of our own.
        let memory = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )
        };
        let Ok(memory) = memory else {
            return as_it_is;
        };
        let new = memory.cast::<*const c_char>();
        let mut filled = 0;
        let mut push = |entry: *const c_char| {
            // SAFETY: there is room for all that were counted, and six more.
            unsafe { new.add(filled).write(entry) };
            filled += 1;
        };
        for i in 0..count {
            // SAFETY: counted above.
            let entry = unsafe { *list.add(i) };
            // SAFETY: a C string of the caller's.
            let bytes = unsafe { CStr::from_ptr(entry) }.to_bytes();
            let replaced = !is_loaded && bytes.starts_with(b"LD_PRELOAD=")
                || !is_named
                    && (bytes.starts_with(b"LONGSHORE_ENGINE=")
                        || bytes.starts_with(b"LONGSHORE_SESSION=")
                        || bytes.starts_with(b"LONGSHORE_WARNINGS="));
            if !replaced {
                push(entry);
            }
        }
        if !is_named {
            push(ours.engine_entry.as_ptr());
            push(ours.session_entry.as_ptr());
            if let Some(warnings) = &ours.warnings_entry {
                push(warnings.as_ptr());
            }
        }
        if !is_loaded {
            match preload.filter(|p| !p.is_empty()) {
                None => push(ours.preload_entry.as_ptr()),
                Some(theirs) => {
                    // SAFETY: the memory has room for this behind the pointers.
                    let text = unsafe { new.add(count + 6).cast::<u8>() };
                    let pieces = [
                        b"LD_PRELOAD=".as_slice(),
                        ours.library.to_bytes(),
                        b":",
                        theirs.to_bytes_with_nul(),
                    ];
                    let mut at = 0;
                    for piece in pieces {
                        // SAFETY: as above.
                        unsafe { text.add(at).copy_from(piece.as_ptr(), piece.len()) };
                        at += piece.len();
                    }
                    push(text.cast());
                }
            }
        }
        if holds {
            push(HELD.as_ptr());
        }
        Self {
            list: new,
            memory: Some((memory, bytes)),
        }
    }

    /// The environment.
    pub(crate) fn as_ptr(&self) -> *const *const c_char {
        self.list
    }
}

impl Drop for Carried {
    fn drop(&mut self) {
        if let Some((at, bytes)) = self.memory {
            // SAFETY: our own, and nobody has it any more.
            let _ = unsafe { munmap(at, bytes) };
        }
    }
}

/// The program's environment.
pub(crate) fn own() -> *const *const c_char {
    // SAFETY: libc's variable.
    unsafe { environ }
}

/// Whether a program that is executed with this one's environment is on Longshore.
pub(crate) fn is_carried() -> bool {
    // SAFETY: libc's environment.
    unsafe { Carried::new(own(), false) }.memory.is_none()
}

/// Runs what executes a program with the environment of this one, carried on. Until it is
/// over, other threads see the variables, too.
pub(crate) fn with_own<T>(work: impl FnOnce() -> T) -> T {
    let before = own();
    // SAFETY: libc's environment.
    let carried = unsafe { Carried::new(before, false) };
    // SAFETY: libc's variable, put back before the list goes.
    unsafe { environ = carried.as_ptr() };
    let result = held(work);
    // SAFETY: as above.
    unsafe {
        if std::ptr::eq(environ, carried.as_ptr()) {
            environ = before;
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_found_by_their_whole_name() {
        let list = [
            c"AB=1".as_ptr(),
            c"A=2".as_ptr(),
            c"B=".as_ptr(),
            std::ptr::null(),
        ];
        // SAFETY: a list as exec takes it.
        let value = |name| unsafe { find(list.as_ptr(), name) };
        assert_eq!(value("A"), Some(c"2"));
        assert_eq!(value("B"), Some(c""));
        assert_eq!(value("C"), None);
        assert!(preloads(c"/a.so:/b.so", c"/b.so") && !preloads(c"/a.so", c"/b.so"));
    }
}
