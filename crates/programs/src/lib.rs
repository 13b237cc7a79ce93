//! Classification of executable files, and the reasons why the shim cannot be loaded into
//! one. `cli` checks the program that it is to run, and `preload` each one that a program
//! executes; both read the file themselves. Nothing here allocates memory: the caller may
//! be a child of a process with threads.

pub mod instructions;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

use std::fmt;

/// The length of a file's front part that is examined, bytes.
pub const HEAD: usize = 4096;
/// How many `#!` lines are followed, as the kernel does.
pub const INTERPRETERS: usize = 4;

/// The ELF machine of the programs into which the library can be loaded: EM_X86_64, or EM_AARCH64.
const MACHINE: u16 = if cfg!(target_arch = "x86_64") {
    62
} else {
    183
};

/// Whether the kernel can bring system calls that a program makes without libc to the shim, on this
/// architecture.
pub const OWN_CALLS_ARE_SERVED: bool = cfg!(target_arch = "x86_64");

/// The variable that says where a program's calls without libc go.
pub const OWN_CALLS_VARIABLE: &str = "LONGSHORE_OWN_CALLS";
/// Its value if they are to stay with the kernel.
pub const OWN_CALLS_TO_KERNEL: &str = "kernel";
/// Its value if they are to go to the shim, whether the program seems to make any or not.
pub const OWN_CALLS_TO_LONGSHORE: &str = "longshore";

/// Why a program will use the kernel's sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Obstacle {
    /// The loader ignores LD_PRELOAD for setuid and similar programs.
    SetId,
    /// A static program, without a loader.
    Static,
    /// The library is of another architecture.
    OtherArchitecture,
    /// The library is loaded, and its functions are not called. As the two that follow, only where
    /// calls without libc [are not served](OWN_CALLS_ARE_SERVED).
    Go,
    /// The library is loaded, and its socket functions are not called.
    RawCalls,
    /// The library is loaded, and functions of sockets may be called that are not its own.
    AnyCalls,
    /// The library is loaded, and what goes through the program's rings of io_uring passes it by.
    Rings,
    /// The library is built for another libc: the loader rejects it.
    Musl,
}

impl Obstacle {
    /// Why the program cannot be started at all with the library, if it cannot.
    pub fn refusal(self) -> Option<&'static str> {
        (self == Self::Musl).then_some(
            "it is linked with musl, and Longshore's library with glibc, so the loader would not \
             start it; a build for glibc can be run",
        )
    }
}

/// What follows the program's name.
impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match self {
            Self::SetId => "runs with the rights of its owner or group (setuid, setgid)",
            Self::Static => "is statically linked",
            Self::OtherArchitecture => "is for another architecture",
            Self::Go => "is written in Go",
            Self::RawCalls => "makes socket calls without libc",
            Self::AnyCalls => "makes system calls without libc, maybe those of sockets",
            Self::Rings => "sets up io_uring by system calls of its own",
            Self::Musl => "is linked with musl",
        };
        let so = match self {
            Self::Go => "whose programs make their system calls without libc",
            Self::RawCalls => "as Zig's standard library does, and Rust's rustix",
            Self::AnyCalls => "as unoptimised builds with Rust's rustix do",
            Self::Rings => "as liburing does that is linked into a program",
            Self::Musl => {
                "whose loader would not start it with Longshore's library, and it goes without"
            }
            _ => "so the loader does not put Longshore into it",
        };
        let then = match self {
            Self::Rings => ": what it does by a ring does not reach Longshore's sockets",
            Self::AnyCalls => ": connections that it makes so stay with the kernel",
            _ => ": its connections stay with the kernel",
        };
        write!(f, "{why}, {so}{then}")
    }
}

/// Whether executing a file with this mode and these owners grants privileges: for root,
/// setuid root changes nothing.
pub fn gives_rights(mode: u32, user: u32, group: u32, as_root: bool) -> bool {
    let set_uid = mode & 0o4000 != 0 && !(as_root && user == 0);
    let set_gid = mode & 0o2010 == 0o2010 && !(as_root && group == 0);
    set_uid || set_gid
}

/// The words of a `#!` line: the interpreter and its argument. `None` if there is no such
/// line.
pub fn script(head: &[u8]) -> Option<impl Iterator<Item = &[u8]>> {
    let line = head.strip_prefix(b"#!")?.split(|b| *b == b'\n').next()?;
    Some(line.split(|b| b" \t".contains(b)).filter(|w| !w.is_empty()))
}

/// The kind of an ELF file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Elf {
    /// Dynamic, of no special kind.
    Dynamic,
    /// Dynamic, linked by Go's linker.
    Go,
    /// Dynamic, with musl's loader.
    Musl,
    /// Static, without a loader.
    Static,
    /// For another architecture.
    OtherArchitecture,
}

impl Elf {
    /// The reason why the library cannot be used with such a program, if there is one.
    pub fn obstacle(self) -> Option<Obstacle> {
        match self {
            Self::Dynamic => None,
            Self::Go => (!OWN_CALLS_ARE_SERVED).then_some(Obstacle::Go),
            Self::Musl => Some(Obstacle::Musl),
            Self::Static => Some(Obstacle::Static),
            Self::OtherArchitecture => Some(Obstacle::OtherArchitecture),
        }
    }
}

/// The kind of an ELF file; `None` if it is not one, or its headers are beyond `head`.
pub fn elf(head: &[u8]) -> Option<Elf> {
    const INTERPRETER: u32 = 3;
    const NOTES: u32 = 4;
    const MUSL: &[u8] = b"/ld-musl-";
    const CLASS_64: u8 = 2;
    if !head.starts_with(b"\x7fELF") {
        return None;
    }
    let u16_at = |at: usize| Some(u16::from_le_bytes(*head.get(at..)?.first_chunk()?));
    if *head.get(4)? != CLASS_64 || u16_at(18)? != MACHINE {
        return Some(Elf::OtherArchitecture);
    }
    let u64_at = |at: usize| {
        let bytes = *head.get(at..)?.first_chunk()?;
        usize::try_from(u64::from_le_bytes(bytes)).ok()
    };
    let table = u64_at(32)?;
    let (size, count) = (usize::from(u16_at(54)?), usize::from(u16_at(56)?));
    let (mut is_dynamic, mut is_go, mut is_musl) = (false, false, false);
    for i in 0..count {
        let at = table.checked_add(i * size)?;
        let kind = u32::from_le_bytes(*head.get(at..)?.first_chunk()?);
        is_dynamic |= kind == INTERPRETER;
        let (from, len) = (u64_at(at + 8)?, u64_at(at + 32)?);
        if kind == INTERPRETER {
            let path = from.checked_add(len).and_then(|to| head.get(from..to));
            is_musl |= path.is_some_and(|p| p.windows(MUSL.len()).any(|w| w == MUSL));
        }
        if kind == NOTES {
            // Linkers put them after the headers; they are not searched for further on.
            let notes = from.checked_add(len).and_then(|to| head.get(from..to));
            is_go |= notes.is_some_and(has_note_of_go);
        }
    }
    Some(match (is_dynamic, is_go) {
        (false, _) => Elf::Static,
        (true, _) if is_musl => Elf::Musl,
        (true, false) => Elf::Dynamic,
        (true, true) => Elf::Go,
    })
}

/// Whether one of these notes is that of Go's linker.
#[must_use]
pub fn has_note_of_go(mut notes: &[u8]) -> bool {
    const HEADER: usize = 12;
    let padded = |len: u32| len.next_multiple_of(4) as usize;
    while let Some(header) = notes.first_chunk::<HEADER>() {
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| header[at + i]));
        let (name, description) = (word(0), word(4));
        if name > HEAD as u32 || description > HEAD as u32 {
            return false;
        }
        if notes[HEADER..].starts_with(b"Go\0\0") && name == 4 {
            return true;
        }
        let whole = HEADER + padded(name) + padded(description);
        notes = notes.get(whole..).unwrap_or_default();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::with_notes;

    #[test]
    fn notes_that_lie_about_their_lengths_are_none() {
        let go = [&[4, 0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0][..], b"Go\0\0id\0\0"].concat();
        assert_eq!(elf(&with_notes(&go)), Some(Elf::Go));
        assert_eq!(elf(&with_notes(&[0xff; 12])), Some(Elf::Dynamic));
        assert_eq!(elf(&with_notes(&go[..14])), Some(Elf::Dynamic));
    }

    #[test]
    fn any_file_is_survived() {
        for head in [
            &b"\x7fELF"[..],
            b"\x7fELF\x02\x01",
            b"#!",
            b"#!\n",
            b"#! env",
            b"",
        ] {
            let _ = (elf(head), script(head).map(Iterator::count));
        }
        let mut head = vec![0xff; 64];
        head[..5].copy_from_slice(b"\x7fELF\x02");
        head[18..20].copy_from_slice(&MACHINE.to_le_bytes());
        assert_eq!(elf(&head), None);
    }

    #[test]
    fn rights_are_given_by_set_id_alone_and_by_root_not_to_root() {
        assert!(gives_rights(0o104755, 0, 0, false) && gives_rights(0o104755, 5, 0, true));
        assert!(gives_rights(0o102755, 0, 5, false));
        assert!(!gives_rights(0o104755, 0, 0, true) && !gives_rights(0o100755, 0, 0, false));
        // Set-group-id without the right to execute is for locks.
        assert!(!gives_rights(0o102644, 0, 5, false));
    }
}
