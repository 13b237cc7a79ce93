//! Programs that are executed and do not get the shim: static ones, Go's, those that run with
//! the rights of their owner. Each is spoken of, so that nobody wonders where its connections
//! are; the launcher shows each once. Called by `execve` and `spawn` before they execute.
//! Takes no memory: the caller may be the child of a process with several threads.

use crate::log::warn_of_program;
use libc::c_int;
use longshore_programs::{HEAD, INTERPRETERS, Obstacle, elf, gives_rights, script};
use rustix::fd::BorrowedFd;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, fstat, openat, statat};
use rustix::io::pread;
use std::ffi::CStr;

/// Bytes of the longest interpreter that the kernel takes.
const LONGEST: usize = 256;

/// Says so if the shim will not get into the program at `path`, seen from `directory`, or
/// into its interpreter; and whether the loader would not start it with the shim. What cannot be
/// read is taken to be fine.
pub(crate) fn look_at(directory: c_int, path: &CStr) -> bool {
    let directory = if directory == libc::AT_FDCWD {
        CWD
    } else {
        crate::calls::borrow(directory)
    };
    if path.is_empty() {
        // The program is the descriptor.
        let judged = fstat(directory).map(|stat| judge(directory, &stat, path, &mut [0; LONGEST]));
        return judged == Ok(Judgement::Rejects);
    }
    let mut next = [0; LONGEST];
    let mut judged = look_at_path(directory, path, &mut next);
    for _ in 0..INTERPRETERS {
        let Ok(interpreter) = CStr::from_bytes_until_nul(&next) else {
            return false;
        };
        if judged != Judgement::Script {
            break;
        }
        let mut then = [0; LONGEST];
        judged = look_at_path(CWD, interpreter, &mut then);
        next = then;
    }
    judged == Judgement::Rejects
}

/// What one file is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Judgement {
    /// A script, whose interpreter is to be looked at.
    Script,
    /// A program whose loader does not start it with the shim.
    Rejects,
    /// Any other.
    Other,
}

/// As `look_at`, of one file. If it is a script, its interpreter is put into `next`.
fn look_at_path(directory: BorrowedFd<'_>, path: &CStr, next: &mut [u8; LONGEST]) -> Judgement {
    let Ok(stat) = statat(directory, path, AtFlags::empty()) else {
        return Judgement::Other;
    };
    let how = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    match openat(directory, path, how, Mode::empty()) {
        Ok(file) => {
            use std::os::fd::AsFd;
            judge(file.as_fd(), &stat, path, next)
        }
        Err(_) => {
            warns_of_rights(&stat, path);
            Judgement::Other
        }
    }
}

fn warns_of_rights(stat: &Stat, path: &CStr) -> bool {
    let as_root = rustix::process::geteuid().is_root();
    let gives = gives_rights(stat.st_mode, stat.st_uid, stat.st_gid, as_root);
    if gives {
        warn_of(path, Obstacle::SetId);
    }
    gives
}

fn judge(file: BorrowedFd<'_>, stat: &Stat, path: &CStr, next: &mut [u8; LONGEST]) -> Judgement {
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile || warns_of_rights(stat, path)
    {
        return Judgement::Other;
    }
    let mut head = [0; HEAD];
    let Ok(len) = pread(file, &mut head[..], 0) else {
        return Judgement::Other;
    };
    let head = &head[..len];
    if let Some(mut words) = script(head) {
        let word = words.next().filter(|word| word.len() < LONGEST);
        let Some(word) = word else {
            return Judgement::Other;
        };
        next[..word.len()].copy_from_slice(word);
        return Judgement::Script;
    }
    let Some(obstacle) = elf(head).and_then(|elf| elf.obstacle()) else {
        return Judgement::Other;
    };
    warn_of(path, obstacle);
    match obstacle.refusal() {
        Some(_) => Judgement::Rejects,
        None => Judgement::Other,
    }
}

fn warn_of(path: &CStr, obstacle: Obstacle) {
    let name = if path.is_empty() {
        b"a program"
    } else {
        path.to_bytes()
    };
    warn_of_program(format_args!("{} {obstacle}", name.escape_ascii()));
}
