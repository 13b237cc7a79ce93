//! The program to be run: where it is, whether it can be run, and whether
//! Longshore's library will get into it.

use crate::errors::Error;
use crate::raw_calls;
use rustix::fs::Access;
use rustix::process::Signal;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How many `#!` lines are followed, as the kernel does.
const INTERPRETERS: usize = 4;
/// As much of a file as is read to judge it.
const HEAD: u64 = 4096;

/// Why a file cannot even be looked at.
const CLOSED: &str = "a directory on the way to it is closed to you";

/// Finds a program as a shell does: by its path if it has a slash, else in
/// `path` (the value of `$PATH`).
pub(crate) fn find(program: &OsStr, path: Option<&OsStr>) -> Result<PathBuf, Error> {
    let name = || program.to_string_lossy().into_owned();
    if program.as_bytes().contains(&b'/') {
        return check(Path::new(program)).map_err(|why| match why {
            None => Error::ProgramNotFound { program: name() },
            Some(why) => Error::ProgramNotExecutable {
                program: name(),
                why: why.to_owned(),
            },
        });
    }
    let mut refused = None;
    // A closed directory in $PATH is passed over, as shells do.
    let path = path.unwrap_or(OsStr::new("/usr/local/bin:/usr/bin:/bin"));
    for directory in std::env::split_paths(path) {
        match check(&directory.join(program)) {
            Ok(found) => return Ok(found),
            Err(None | Some(CLOSED)) => {}
            Err(Some(why)) => refused = Some(why),
        }
    }
    Err(match refused {
        Some(why) => Error::ProgramNotExecutable {
            program: name(),
            why: why.to_owned(),
        },
        None => Error::ProgramNotFound { program: name() },
    })
}

/// Whether a file is there (`None` if not) and can be executed (why not).
fn check(path: &Path) -> Result<PathBuf, Option<&'static str>> {
    let meta = std::fs::metadata(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::PermissionDenied => Some(CLOSED),
        _ => None,
    })?;
    if meta.is_dir() {
        return Err(Some("it is a directory"));
    }
    rustix::fs::access(path, Access::EXEC_OK)
        .map_err(|_| Some("it is not marked executable for you"))?;
    Ok(path.to_owned())
}

/// Has a command end by SIGKILL when this process does: it stands for its program, to
/// which it passes on all signals, but that one is never seen. What the program has
/// put in the background is not meant.
pub(crate) fn die_with_us(command: &mut Command) {
    let parent = rustix::process::getpid();
    let bind = move || {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        // It may have been before that.
        match rustix::process::getppid() {
            Some(now) if now == parent => Ok(()),
            _ => Err(std::io::Error::from_raw_os_error(libc::ESRCH)),
        }
    };
    // SAFETY: between fork and exec only prctl and getppid are called, which are
    // async-signal-safe; nothing is allocated.
    unsafe { command.pre_exec(bind) };
}

/// Why a program will keep to the kernel's sockets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// The loader ignores LD_PRELOAD for those.
    SetId(PathBuf),
    /// There is no loader.
    Static(PathBuf),
    /// The library is of another architecture.
    OtherArchitecture(PathBuf),
    /// The library gets in, and is not called.
    Go(PathBuf),
    /// The same of its socket calls.
    RawCalls(PathBuf),
    /// The library is made for another libc: the loader refuses it.
    Musl(PathBuf),
}

impl Obstacle {
    /// Why the program cannot even be run with the library, if it cannot.
    pub(crate) fn refusal(&self) -> Option<String> {
        matches!(self, Obstacle::Musl(_)).then(|| {
            "it is linked with musl, and Longshore's library with glibc, so the loader would not \
             start it; a build for glibc can be run"
                .to_owned()
        })
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (path, why) = match self {
            Obstacle::SetId(p) => (
                p,
                "runs with the rights of its owner or group (setuid, setgid)",
            ),
            Obstacle::Static(p) => (p, "is statically linked"),
            Obstacle::OtherArchitecture(p) => (p, "is for another architecture"),
            Obstacle::Go(p) => (p, "is written in Go"),
            Obstacle::RawCalls(p) => (p, "makes socket calls without libc"),
            Obstacle::Musl(p) => (p, "is linked with musl"),
        };
        let so = match self {
            Obstacle::Go(_) => "whose programs make their system calls without libc",
            Obstacle::RawCalls(_) => "as Zig's standard library does, and Rust's rustix",
            _ => "so the loader does not put Longshore into it",
        };
        write!(
            f,
            "{} {why}, {so}: its connections stay with the kernel",
            path.display()
        )
    }
}

/// Looks for what keeps the library out of a program, through the
/// interpreters of scripts. A file that cannot be read is taken to be fine.
pub(crate) fn obstacle(program: &Path) -> Option<Obstacle> {
    let mut path = program.to_owned();
    for _ in 0..=INTERPRETERS {
        let meta = std::fs::metadata(&path).ok()?;
        let root = rustix::process::geteuid().is_root();
        // For root, setuid root changes nothing.
        let set_uid = meta.mode() & 0o4000 != 0 && !(root && meta.uid() == 0);
        let set_gid = meta.mode() & 0o2010 == 0o2010 && !(root && meta.gid() == 0);
        if set_uid || set_gid {
            return Some(Obstacle::SetId(path));
        }
        let mut head = Vec::new();
        let file = std::fs::File::open(&path).ok()?;
        file.take(HEAD).read_to_end(&mut head).ok()?;
        if let Some(interpreter) = interpreter(&head) {
            path = interpreter;
            continue;
        }
        return match elf(&head)? {
            Elf::Dynamic => raw_calls::has_socket_calls(&path).then_some(Obstacle::RawCalls(path)),
            Elf::Musl => Some(Obstacle::Musl(path)),
            Elf::Go => Some(Obstacle::Go(path)),
            Elf::Static => Some(Obstacle::Static(path)),
            Elf::OtherArchitecture => Some(Obstacle::OtherArchitecture(path)),
        };
    }
    None
}

/// The interpreter of a `#!` line; `env`'s argument in place of `env`.
fn interpreter(head: &[u8]) -> Option<PathBuf> {
    let line = head.strip_prefix(b"#!")?.split(|b| *b == b'\n').next()?;
    let mut words = line.split(|b| b" \t".contains(b)).filter(|w| !w.is_empty());
    let first = PathBuf::from(OsString::from_vec(words.next()?.to_vec()));
    if first.file_name() == Some(OsStr::new("env")) {
        let program = words.find(|w| !w.starts_with(b"-") && !w.contains(&b'='))?;
        return find(
            OsStr::from_bytes(program),
            std::env::var_os("PATH").as_deref(),
        )
        .ok();
    }
    Some(first)
}

#[derive(Debug, PartialEq, Eq)]
enum Elf {
    Dynamic,
    /// Dynamic, and of Go's linker.
    Go,
    /// Dynamic, with musl's loader.
    Musl,
    Static,
    OtherArchitecture,
}

/// What an ELF file is; `None` if it is none, or its headers lie beyond `head`.
fn elf(head: &[u8]) -> Option<Elf> {
    const INTERPRETER: u32 = 3;
    const NOTES: u32 = 4;
    const MUSL: &[u8] = b"/ld-musl-";
    const CLASS_64: u8 = 2;
    const MACHINE: u16 = if cfg!(target_arch = "x86_64") {
        62
    } else {
        183
    };
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
            // Linkers put them behind the headers; further on they are not looked for.
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

/// Whether one of these notes is what Go's linker leaves in all that it makes.
fn has_note_of_go(mut notes: &[u8]) -> bool {
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
    use std::os::unix::fs::PermissionsExt;

    fn file(dir: &Path, name: &str, contents: &[u8], mode: u32) -> PathBuf {
        let path = dir.join(name);
        std::fs::write(&path, contents).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    #[test]
    fn programs_are_found_as_a_shell_finds_them() {
        let dir = tempfile::tempdir().unwrap();
        let (one, two) = (dir.path().join("1"), dir.path().join("2"));
        std::fs::create_dir(&one).unwrap();
        std::fs::create_dir(&two).unwrap();
        file(&one, "both", b"", 0o644);
        let wanted = file(&two, "both", b"", 0o755);
        file(&one, "closed", b"", 0o644);
        let path = std::env::join_paths([&one, &two]).unwrap();
        let find = |name: &str| find(OsStr::new(name), Some(&path));
        assert_eq!(find("both").unwrap(), wanted);
        assert_eq!(find("none").unwrap_err().code(), 127);
        assert_eq!(find("closed").unwrap_err().code(), 126);
        assert_eq!(find("/no/such/file").unwrap_err().code(), 127);
        assert_eq!(find(one.to_str().unwrap()).unwrap_err().code(), 126);
    }

    #[test]
    fn ordinary_programs_have_no_obstacle() {
        for program in ["/bin/sh", "/usr/bin/env", "/bin/cat"] {
            assert_eq!(obstacle(Path::new(program)), None);
        }
    }

    #[test]
    fn static_and_foreign_programs_are_told() {
        let dir = tempfile::tempdir().unwrap();
        let mut elf = std::fs::read("/bin/sh").unwrap();
        let foreign = {
            let mut elf = elf.clone();
            elf[4] = 1;
            file(dir.path(), "foreign", &elf, 0o755)
        };
        let table = usize::from(elf[32]);
        let count = usize::from(elf[56]);
        for i in 0..count {
            if elf[table + i * 56] == 3 {
                elf[table + i * 56] = 0;
            }
        }
        let fixed = file(dir.path(), "static", &elf, 0o755);
        assert_eq!(
            obstacle(&foreign),
            Some(Obstacle::OtherArchitecture(foreign))
        );
        assert_eq!(obstacle(&fixed), Some(Obstacle::Static(fixed.clone())));
        let script = format!("#! {} -x\n", fixed.display());
        let script = file(dir.path(), "script", script.as_bytes(), 0o755);
        assert_eq!(obstacle(&script), Some(Obstacle::Static(fixed)));
    }

    /// A dynamic executable with these notes.
    fn with_notes(notes: &[u8]) -> Vec<u8> {
        let mut elf = std::fs::read("/bin/sh").unwrap()[..64].to_vec();
        elf[32..40].copy_from_slice(&64u64.to_le_bytes());
        elf[54..58].copy_from_slice(&[56, 0, 2, 0]);
        let mut interpreter = [0; 56];
        interpreter[0] = 3;
        let mut noted = [0; 56];
        noted[0] = 4;
        noted[8..16].copy_from_slice(&176u64.to_le_bytes());
        noted[32..40].copy_from_slice(&(notes.len() as u64).to_le_bytes());
        [&elf, &interpreter[..], &noted, notes].concat()
    }

    #[test]
    fn programs_of_go_are_told() {
        let dir = tempfile::tempdir().unwrap();
        let gnu = [&[4, 0, 0, 0, 3, 0, 0, 0, 3, 0, 0, 0][..], b"GNU\0abc\0"].concat();
        let go = [&[4, 0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0][..], b"Go\0\0id\0\0"].concat();
        let both = file(
            dir.path(),
            "go",
            &with_notes(&[&gnu[..], &go].concat()),
            0o755,
        );
        let told = obstacle(&both).unwrap();
        assert_eq!(told, Obstacle::Go(both));
        assert!(told.to_string().contains("Go"), "{told}");
        let plain = file(dir.path(), "plain", &with_notes(&gnu), 0o755);
        assert_eq!(obstacle(&plain), None);
        // Notes that lie about their lengths.
        assert_eq!(elf(&with_notes(&[0xff; 12])), Some(Elf::Dynamic));
        assert_eq!(elf(&with_notes(&go[..14])), Some(Elf::Dynamic));
    }

    #[test]
    fn programs_of_musl_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let mut elf = with_notes(b"");
        let path = b"/lib/ld-musl-x86_64.so.1\0";
        elf[64 + 8..64 + 16].copy_from_slice(&176u64.to_le_bytes());
        elf[64 + 32..64 + 40].copy_from_slice(&(path.len() as u64).to_le_bytes());
        elf.extend(path);
        let path = file(dir.path(), "musl", &elf, 0o755);
        let told = obstacle(&path).unwrap();
        assert_eq!(told, Obstacle::Musl(path));
        assert!(told.refusal().unwrap().contains("musl"));
    }

    #[test]
    fn programs_with_calls_of_their_own_are_told() {
        let dir = tempfile::tempdir().unwrap();
        let mut elf = std::fs::read("/bin/sh").unwrap();
        for number in [41, 42] {
            elf.extend([0xb8, number, 0, 0, 0, 0x0f, 0x05]);
        }
        let path = file(dir.path(), "raw", &elf, 0o755);
        let told = obstacle(&path).unwrap();
        assert_eq!(told, Obstacle::RawCalls(path));
        assert!(told.refusal().is_none() && told.to_string().contains("without libc"));
    }

    #[test]
    fn set_id_programs_are_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = file(dir.path(), "suid", b"#!/bin/sh\n", 0o755);
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&path, Some(1), Some(1)).unwrap();
        }
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o4755)).unwrap();
        assert_eq!(obstacle(&path), Some(Obstacle::SetId(path.clone())));
        assert!(obstacle(&path).unwrap().to_string().contains("setuid"));
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
            let _ = (elf(head), interpreter(head));
        }
        let mut head = vec![0xff; 64];
        head[..5].copy_from_slice(b"\x7fELF\x02");
        head[18..20].copy_from_slice(&62u16.to_le_bytes());
        assert_eq!(elf(&head), None);
    }
}
