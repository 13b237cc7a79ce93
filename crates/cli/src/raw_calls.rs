//! Whether a program makes calls of its own, without libc, that the shim does not see: those of
//! sockets, as programs of Zig do, and of Rust whose libraries use rustix (async-io, smol), or
//! those that set up io_uring, as one does into which liburing is linked. Called by `program`, for
//! what `longshore run` says before it starts one. Where such calls are brought to the shim it
//! is silent; the shim says so where that fails.

use longshore_programs::instructions::{OVERLAP, OwnCalls};
use longshore_programs::{OWN_CALLS_ARE_SERVED, Obstacle};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Larger programs are not looked through: it would take longer than to start them.
const LARGEST: u64 = 64 << 20;
/// Bytes that are looked at together, of which the last come again.
const PIECE: usize = 1 << 20;

/// What the program at `path` does so, if it does. One that cannot be read is taken not to.
pub(crate) fn obstacle(path: &Path) -> Option<Obstacle> {
    if OWN_CALLS_ARE_SERVED {
        return None;
    }
    let file = File::open(path).ok()?;
    if file.metadata().map_or(u64::MAX, |m| m.len()) > LARGEST {
        return None;
    }
    search(file)
}

fn search(mut code: impl Read) -> Option<Obstacle> {
    let mut piece = vec![0; PIECE];
    let (mut filled, mut calls) = (0, OwnCalls::default());
    loop {
        let got = code.read(&mut piece[filled..]).ok()?;
        filled += got;
        if filled == PIECE || got == 0 {
            calls.look_at(&piece[..filled]);
            if got == 0 {
                return calls.obstacle();
            }
            piece.copy_within(filled - OVERLAP.., 0);
            filled = OVERLAP;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longshore_programs::testing::system_call as call;

    #[test]
    fn code_is_looked_through_whole() {
        let (socket, bind) = (call(libc::SYS_socket as u32), call(libc::SYS_bind as u32));
        for gap in [0, 1000, PIECE - 12, PIECE - 5, 3 * PIECE + 7] {
            let gap = vec![0x90; gap / 4 * 4];
            let code = [&gap[..], &socket, &gap, &bind].concat();
            assert_eq!(search(&code[..]), Some(Obstacle::RawCalls), "{}", gap.len());
        }
        let rings = call(libc::SYS_io_uring_setup as u32);
        assert_eq!(
            search(&[&socket[..], &rings].concat()[..]),
            Some(Obstacle::Rings)
        );
        assert_eq!(search(&socket[..]), None);
    }

    #[test]
    fn programs_of_the_system_make_none() {
        for program in ["/bin/sh", "/usr/bin/env", "/bin/cat"] {
            assert_eq!(search(File::open(program).unwrap()), None, "{program}");
        }
    }
}
