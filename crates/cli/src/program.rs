//! The program to be run: where it is, whether it can be run, and whether
//! Longshore's library will get into it.

use crate::errors::Error;
use crate::raw_calls;
use longshore_programs::{HEAD, INTERPRETERS, Obstacle, elf, gives_rights};
use rustix::fs::Access;
use rustix::process::Signal;
use std::ffi::OsStr;
use std::fmt;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

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

/// A program that will keep to the kernel's sockets, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lost {
    pub(crate) program: PathBuf,
    pub(crate) obstacle: Obstacle,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.program.display(), self.obstacle)
    }
}

/// Looks for what keeps the library out of a program, through the
/// interpreters of scripts. A file that cannot be read is taken to be fine.
pub(crate) fn obstacle(program: &Path) -> Option<Lost> {
    let mut path = program.to_owned();
    for _ in 0..=INTERPRETERS {
        let lost = |program, obstacle| Some(Lost { program, obstacle });
        let meta = std::fs::metadata(&path).ok()?;
        let as_root = rustix::process::geteuid().is_root();
        if gives_rights(meta.mode(), meta.uid(), meta.gid(), as_root) {
            return lost(path, Obstacle::SetId);
        }
        let mut head = Vec::new();
        let file = std::fs::File::open(&path).ok()?;
        file.take(HEAD as u64).read_to_end(&mut head).ok()?;
        if let Some(interpreter) = interpreter(&head) {
            path = interpreter;
            continue;
        }
        return match elf(&head)?.obstacle() {
            Some(obstacle) => lost(path, obstacle),
            None if is_longshore_itself(&path) => None,
            None => raw_calls::obstacle(&path).and_then(|own| lost(path, own)),
        };
    }
    None
}

/// Whether this program is the one that runs, as where `measure` runs its own programs: those use
/// libc's sockets, and the calls without it are the engine's, and the kernel's.
pub(crate) fn is_longshore_itself(path: &Path) -> bool {
    let id = |path: &Path| std::fs::metadata(path).map(|m| (m.dev(), m.ino()));
    matches!((id(path), id(Path::new("/proc/self/exe"))), (Ok(one), Ok(other)) if one == other)
}

/// The interpreter of a `#!` line; `env`'s argument in place of `env`.
fn interpreter(head: &[u8]) -> Option<PathBuf> {
    let mut words = longshore_programs::script(head)?;
    let first = PathBuf::from(OsStr::from_bytes(words.next()?));
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

#[cfg(test)]
mod tests {
    use super::*;
    use longshore_programs::OWN_CALLS_ARE_SERVED;
    use longshore_programs::testing::{system_call, with_notes};
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

    fn lost(program: &Path, obstacle: Obstacle) -> Option<Lost> {
        let program = program.to_owned();
        Some(Lost { program, obstacle })
    }

    #[test]
    fn ordinary_programs_have_no_obstacle() {
        for program in ["/bin/sh", "/usr/bin/env", "/bin/cat"] {
            assert_eq!(obstacle(Path::new(program)), None);
        }
    }

    #[test]
    fn static_and_foreign_programs_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let mut elf = with_notes(b"");
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
            lost(&foreign, Obstacle::OtherArchitecture)
        );
        assert_eq!(obstacle(&fixed), lost(&fixed, Obstacle::Static));
        let script = format!("#! {} -x\n", fixed.display());
        let script = file(dir.path(), "script", script.as_bytes(), 0o755);
        assert_eq!(obstacle(&script), lost(&fixed, Obstacle::Static));
    }

    #[test]
    fn programs_of_go_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let gnu = [&[4, 0, 0, 0, 3, 0, 0, 0, 3, 0, 0, 0][..], b"GNU\0abc\0"].concat();
        let go = [&[4, 0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0][..], b"Go\0\0id\0\0"].concat();
        let both = file(
            dir.path(),
            "go",
            &with_notes(&[&gnu[..], &go].concat()),
            0o755,
        );
        let found = lost(&both, Obstacle::Go);
        assert_eq!(obstacle(&both), found.filter(|_| !OWN_CALLS_ARE_SERVED));
        let plain = file(dir.path(), "plain", &with_notes(&gnu), 0o755);
        assert_eq!(obstacle(&plain), None);
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
        let found = obstacle(&path).unwrap();
        assert_eq!(Some(found.clone()), lost(&path, Obstacle::Musl));
        assert!(found.obstacle.refusal().unwrap().contains("musl"));
    }

    #[test]
    fn programs_with_calls_of_their_own_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let mut elf = with_notes(b"");
        for number in [libc::SYS_socket, libc::SYS_connect] {
            elf.extend(system_call(number as u32));
        }
        let path = file(dir.path(), "raw", &elf, 0o755);
        let found = lost(&path, Obstacle::RawCalls);
        assert_eq!(obstacle(&path), found.filter(|_| !OWN_CALLS_ARE_SERVED));
    }

    #[test]
    fn this_program_is_known() {
        let own = std::fs::read_link("/proc/self/exe").unwrap();
        assert!(is_longshore_itself(&own));
        assert!(!is_longshore_itself(Path::new("/bin/sh")));
        assert!(!is_longshore_itself(Path::new("/nonexistent")));
    }

    #[test]
    fn set_id_programs_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let path = file(dir.path(), "suid", b"#!/bin/sh\n", 0o755);
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&path, Some(1), Some(1)).unwrap();
        }
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o4755)).unwrap();
        assert_eq!(obstacle(&path), lost(&path, Obstacle::SetId));
        assert!(obstacle(&path).unwrap().to_string().contains("setuid"));
    }
}
