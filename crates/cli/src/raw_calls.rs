//! Whether a program makes socket calls of its own, without libc, where the shim does not
//! see them: programs of Zig do, and those of Rust whose libraries use rustix (async-io,
//! smol). Or whether it sets up io_uring so, as one does into which liburing is linked. Called by `program`, for what `longshore run` says before it starts one.
//!
//! Such code loads the call's number and enters the kernel a few instructions later. It
//! takes a program that makes a socket so, and connects or binds one so, to be one of them:
//! of the usual programs of a Linux system none looks like that, unless it has a libc of its
//! own inside.

use longshore_programs::Obstacle;
use longshore_programs::instructions::{self, ENTERS};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Larger programs are not looked through: it would take longer than to start them.
const LARGEST: u64 = 64 << 20;
/// Bytes that are looked at together, of which the last come again.
const PIECE: usize = 1 << 20;
/// Bytes of code in which the number of a call is loaded before it.
const BEFORE: usize = 48;

/// Numbers of system calls of this architecture.
const SOCKET: u32 = libc::SYS_socket as u32;
const CONNECT: u32 = libc::SYS_connect as u32;
const BIND: u32 = libc::SYS_bind as u32;
const IO_URING_SETUP: u32 = libc::SYS_io_uring_setup as u32;

/// The calls that were found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Found {
    makes: bool,
    uses: bool,
    sets_up: bool,
}

impl Found {
    fn has_sockets(self) -> bool {
        self.makes && self.uses
    }

    /// What comes of them.
    fn obstacle(self) -> Option<Obstacle> {
        if self.has_sockets() {
            return Some(Obstacle::RawCalls);
        }
        self.sets_up.then_some(Obstacle::Rings)
    }
}

/// What the program at `path` does so, if it does. One that cannot be read is taken not to.
pub(crate) fn obstacle(path: &Path) -> Option<Obstacle> {
    let file = File::open(path).ok()?;
    if file.metadata().map_or(u64::MAX, |m| m.len()) > LARGEST {
        return None;
    }
    search(file)
}

fn search(mut code: impl Read) -> Option<Obstacle> {
    let mut piece = vec![0; PIECE];
    let (mut filled, mut found) = (0, Found::default());
    loop {
        let got = code.read(&mut piece[filled..]).ok()?;
        filled += got;
        if filled == PIECE || got == 0 {
            look_at(&piece[..filled], &mut found);
            if found.has_sockets() || got == 0 {
                return found.obstacle();
            }
            let kept = BEFORE + ENTERS.len();
            piece.copy_within(filled - kept.., 0);
            filled = kept;
        }
    }
}

fn look_at(code: &[u8], found: &mut Found) {
    for (at, bytes) in code.windows(ENTERS.len()).enumerate() {
        if bytes != ENTERS {
            continue;
        }
        let before = &code[at.saturating_sub(BEFORE)..at];
        found.makes |= loads(before, SOCKET);
        found.uses |= loads(before, CONNECT) || loads(before, BIND);
        found.sets_up |= loads(before, IO_URING_SETUP);
    }
}

/// Whether code loads this number for a call.
fn loads(code: &[u8], number: u32) -> bool {
    let has = |bytes: &[u8]| code.windows(bytes.len()).any(|w| w == bytes);
    instructions::loads(number).iter().any(|one| has(one))
        || pushes(number).is_some_and(|two| has(&two))
}

/// `push NUMBER; pop rax`, which is for one that is small enough.
#[cfg(target_arch = "x86_64")]
fn pushes(number: u32) -> Option<[u8; 3]> {
    (number <= 0x7f).then_some([0x6a, number as u8, 0x58])
}

/// There is no shorter way for a small number.
#[cfg(target_arch = "aarch64")]
fn pushes(_: u32) -> Option<[u8; 3]> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use longshore_programs::testing::system_call as call;

    #[test]
    fn code_that_makes_and_uses_sockets_is_found_wherever_it_is() {
        for gap in [0, 1000, PIECE - 12, PIECE - 5, 3 * PIECE + 7] {
            let code = [vec![0x90; gap], call(SOCKET), vec![0x90; gap], call(BIND)].concat();
            assert_eq!(search(&code[..]), Some(Obstacle::RawCalls), "{gap}");
        }
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn small_numbers_may_be_pushed() {
        let pushed = [
            0x6a,
            SOCKET as u8,
            0x58,
            0x0f,
            0x05,
            0x6a,
            CONNECT as u8,
            0x58,
            0x0f,
            0x05,
        ];
        assert_eq!(search(&pushed[..]), Some(Obstacle::RawCalls));
        // The lowest byte alone of a larger one.
        let rings = IO_URING_SETUP as u8;
        assert_eq!(search(&[0x6a, rings, 0x58, 0x0f, 0x05][..]), None);
    }

    #[test]
    #[cfg(target_arch = "aarch64")]
    fn numbers_may_be_loaded_as_64_bits() {
        let call = |number: u32| [0xd280_0008 | number << 5, 0xd400_0001].map(u32::to_le_bytes);
        let code = [call(SOCKET), call(BIND)].concat().concat();
        assert_eq!(search(&code[..]), Some(Obstacle::RawCalls));
        // To another register.
        let other = |number: u32| [0xd280_0009 | number << 5, 0xd400_0001].map(u32::to_le_bytes);
        assert_eq!(
            search(&[other(SOCKET), other(BIND)].concat().concat()[..]),
            None
        );
    }

    #[test]
    fn code_that_sets_up_rings_is_found_and_sockets_matter_more() {
        let rings = call(IO_URING_SETUP);
        let apart = [vec![0x90; PIECE + 7], rings.clone(), vec![0x90; PIECE]].concat();
        for code in [&rings, &apart, &[rings.clone(), call(SOCKET)].concat()] {
            assert_eq!(search(&code[..]), Some(Obstacle::Rings));
        }
        let both = [rings, call(SOCKET), call(CONNECT)].concat();
        assert_eq!(search(&both[..]), Some(Obstacle::RawCalls));
    }

    #[test]
    fn other_code_is_not() {
        assert_eq!(search(&call(SOCKET)[..]), None);
        assert_eq!(search(&[call(CONNECT), call(BIND)].concat()[..]), None);
        // The numbers, and a call that they are not for.
        let number = &call(SOCKET)[..call(SOCKET).len() - ENTERS.len()];
        let apart = [number, &[0x90; BEFORE], &ENTERS, &call(BIND)].concat();
        assert_eq!(search(&apart[..]), None);
        assert_eq!(search(&[][..]), None);
    }

    #[test]
    fn programs_of_the_system_are_not() {
        for program in ["/bin/sh", "/usr/bin/env", "/bin/cat"] {
            assert_eq!(obstacle(Path::new(program)), None, "{program}");
        }
    }
}
