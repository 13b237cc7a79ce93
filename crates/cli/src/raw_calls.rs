//! Whether a program makes socket calls of its own, without libc, where the shim does not
//! see them: programs of Zig do, and those of Rust whose libraries use rustix (async-io,
//! smol). Called by `program`, for what `longshore run` says before it starts one.
//!
//! Such code loads the call's number and enters the kernel a few instructions later. It
//! takes a program that makes a socket so, and connects or binds one so, to be one of them:
//! of the usual programs of a Linux system none looks like that, unless it has a libc of its
//! own inside.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Larger programs are not looked through: it would take longer than to start them.
const LARGEST: u64 = 64 << 20;
/// Bytes that are looked at together, of which the last come again.
const PIECE: usize = 1 << 20;
/// Bytes of code in which the number of a call is loaded before it.
const BEFORE: usize = 48;
/// `syscall`.
const ENTERS: [u8; 2] = [0x0f, 0x05];

/// Numbers of system calls on x86-64.
const SOCKET: u8 = 41;
const CONNECT: u8 = 42;
const BIND: u8 = 49;

/// The socket calls that were found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Found {
    makes: bool,
    uses: bool,
}

/// Whether the program at `path` does. One that cannot be read is taken not to.
pub(crate) fn has_socket_calls(path: &Path) -> bool {
    if cfg!(not(target_arch = "x86_64")) {
        return false;
    }
    let Ok(file) = File::open(path) else {
        return false;
    };
    if file.metadata().map_or(u64::MAX, |m| m.len()) > LARGEST {
        return false;
    }
    search(file)
}

fn search(mut code: impl Read) -> bool {
    let mut piece = vec![0; PIECE];
    let (mut filled, mut found) = (0, Found::default());
    loop {
        let Ok(got) = code.read(&mut piece[filled..]) else {
            return false;
        };
        filled += got;
        if filled == PIECE || got == 0 {
            look_at(&piece[..filled], &mut found);
            if (found.makes && found.uses) || got == 0 {
                return found.makes && found.uses;
            }
            let kept = BEFORE + ENTERS.len();
            piece.copy_within(filled - kept.., 0);
            filled = kept;
        }
    }
}

fn look_at(code: &[u8], found: &mut Found) {
    for (at, two) in code.windows(ENTERS.len()).enumerate() {
        if two != ENTERS {
            continue;
        }
        let before = &code[at.saturating_sub(BEFORE)..at];
        found.makes |= loads(before, SOCKET);
        found.uses |= loads(before, CONNECT) || loads(before, BIND);
    }
}

/// Whether code loads this number for a call: `mov eax, N`, or `push N; pop rax`.
fn loads(code: &[u8], number: u8) -> bool {
    let moves = [0xb8, number, 0, 0, 0];
    let pushes = [0x6a, number, 0x58];
    code.windows(moves.len()).any(|w| w == moves) || code.windows(pushes.len()).any(|w| w == pushes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(number: u8) -> Vec<u8> {
        let mut code = vec![0xb8, number, 0, 0, 0, 0x31, 0xf6];
        code.extend(ENTERS);
        code
    }

    #[test]
    fn code_that_makes_and_uses_sockets_is_found_wherever_it_is() {
        for gap in [0, 1000, PIECE - 12, PIECE - 5, 3 * PIECE + 7] {
            let code = [vec![0x90; gap], call(SOCKET), vec![0x90; gap], call(BIND)].concat();
            assert!(search(&code[..]), "{gap}");
        }
        let pushed = [
            0x6a, SOCKET, 0x58, 0x0f, 0x05, 0x6a, CONNECT, 0x58, 0x0f, 0x05,
        ];
        assert!(search(&pushed[..]));
    }

    #[test]
    fn other_code_is_not() {
        assert!(!search(&call(SOCKET)[..]));
        assert!(!search(&[call(CONNECT), call(BIND)].concat()[..]));
        // The numbers, and a call that they are not for.
        let apart = [&call(SOCKET)[..5], &[0x90; BEFORE], &ENTERS, &call(BIND)].concat();
        assert!(!search(&apart[..]));
        assert!(!search(&[][..]));
    }

    #[test]
    fn programs_of_the_system_are_not() {
        for program in ["/bin/sh", "/usr/bin/env", "/bin/cat"] {
            assert!(!has_socket_calls(Path::new(program)), "{program}");
        }
    }
}
