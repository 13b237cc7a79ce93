//! How code of this architecture makes a system call without libc: it loads the call's number and
//! enters the kernel a few instructions later. What is looked for in programs.
//!
//! Used by the launcher, which looks for rings of io_uring before it starts a program, and by the
//! shim, which looks for waits and for calls of sockets in its own.

use crate::Obstacle;
use memchr::memmem;

/// The instruction that enters the kernel: `syscall`.
#[cfg(target_arch = "x86_64")]
pub const ENTERS: [u8; 2] = [0x0f, 0x05];
/// The instruction that enters the kernel: `svc #0`.
#[cfg(target_arch = "aarch64")]
pub const ENTERS: [u8; 4] = 0xd400_0001_u32.to_le_bytes();

/// Bytes of code before it in which the number of the call is loaded.
const BEFORE: usize = 64;
/// Bytes of code that belong together: what is looked through in pieces is to have so many of the
/// piece before.
pub const OVERLAP: usize = BEFORE + ENTERS.len() - 1;

/// Where code enters the kernel: what stands before each place. Such instructions are rare, and so
/// the search is for them.
fn calls(code: &[u8]) -> impl Iterator<Item = &[u8]> {
    memmem::find_iter(code, &ENTERS).map(|at| &code[at.saturating_sub(BEFORE)..at])
}

/// Whether code loads this number to any register, from which it may come to that of the call:
/// `mov REGISTER, NUMBER`, or `push NUMBER` and `pop REGISTER` for one that is small enough.
#[cfg(target_arch = "x86_64")]
fn loads(code: &[u8], number: u32) -> bool {
    let bytes = number.to_le_bytes();
    let moves = |five: &[u8]| (0xb8..=0xbf).contains(&five[0]) && five[1..] == bytes;
    let pops = |byte: u8| (0x58..=0x5f).contains(&byte);
    let pushes = |two: &[u8]| number <= 0x7f && *two == [0x6a, bytes[0]];
    code.windows(5).any(moves)
        || code.windows(3).any(|w| pushes(&w[..2]) && pops(w[2]))
        || code
            .windows(4)
            .any(|w| pushes(&w[..2]) && w[2] == 0x41 && pops(w[3]))
}

/// Whether code loads this number to the register of the call: `mov w8, NUMBER`, or
/// `mov x8, NUMBER`.
#[cfg(target_arch = "aarch64")]
fn loads(code: &[u8], number: u32) -> bool {
    let to_8 = number << 5 | 8;
    let loads = [0x5280_0000 | to_8, 0xd280_0000 | to_8].map(u32::to_le_bytes);
    code.windows(4)
        .any(|four| loads.iter().any(|one| one == four))
}

/// Numbers of system calls: `socket`, `connect`, `bind`.
#[cfg(target_arch = "x86_64")]
const SOCKET_CALLS: [u32; 3] = [41, 42, 49];
/// Numbers of system calls: `socket`, `connect`, `bind`.
#[cfg(target_arch = "aarch64")]
const SOCKET_CALLS: [u32; 3] = [198, 203, 200];
/// The number of `io_uring_setup`.
const IO_URING_SETUP: u32 = 425;
/// The number of `epoll_pwait2`.
const EPOLL_PWAIT2: u32 = 441;

/// What a program was found to call without libc.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OwnCalls {
    makes_sockets: bool,
    uses_sockets: bool,
    sets_up_rings: bool,
    waits: bool,
}

impl OwnCalls {
    /// Looks through the program's code, or through a piece of it.
    pub fn look_at(&mut self, code: &[u8]) {
        let [socket, connect, bind] = SOCKET_CALLS;
        for before in calls(code) {
            self.makes_sockets |= loads(before, socket);
            self.uses_sockets |= loads(before, connect) || loads(before, bind);
            self.sets_up_rings |= loads(before, IO_URING_SETUP);
            self.waits |= loads(before, EPOLL_PWAIT2);
        }
    }

    /// What keeps the program from being served, if nothing brings such calls to the shim. That it
    /// makes a socket, and connects or binds one: of the usual programs of a Linux system none
    /// does, unless it has a libc of its own inside. Or that it sets up rings.
    #[must_use]
    pub fn obstacle(self) -> Option<Obstacle> {
        if self.makes_sockets && self.uses_sockets {
            return Some(Obstacle::RawCalls);
        }
        self.sets_up_rings.then_some(Obstacle::Rings)
    }

    /// Whether it waits in `epoll_pwait2`. Its elder kin are not looked for, as no program could do
    /// without them.
    #[must_use]
    pub fn waits(self) -> bool {
        self.waits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::system_call as call;

    fn makes(code: &[u8], number: u32) -> bool {
        calls(code).any(|before| loads(before, number))
    }

    #[test]
    fn a_program_that_waits_is_known() {
        for (number, waits) in [(EPOLL_PWAIT2, true), (EPOLL_PWAIT2 - 1, false)] {
            let mut calls = OwnCalls::default();
            calls.look_at(&call(number));
            calls.look_at(&[]);
            assert_eq!(calls.waits(), waits);
        }
    }

    #[test]
    fn calls_are_found_wherever_they_are() {
        for number in [1, 41, 200, 441] {
            for before in [0, 1000, 1003] {
                let code = [vec![0x90; before], call(number), vec![0x90; before]].concat();
                assert!(makes(&code, number) && !makes(&code, number + 1));
            }
        }
    }

    #[test]
    fn a_number_is_used_soon_or_not_for_a_call() {
        let whole = call(441);
        let (entering, loading) = (&ENTERS, &whole[..whole.len() - ENTERS.len()]);
        let made = |gap| [loading, &vec![0x90; gap], entering].concat();
        let most = BEFORE - loading.len();
        assert!(makes(&made(most), 441) && makes(&[vec![0x90; 9], made(most)].concat(), 441));
        assert!(!makes(&made(most + 4), 441));
        assert!(!makes(loading, 441));
        assert!(!makes(&[], 441));
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn any_register_may_hold_it() {
        // mov ebx, 41; mov r12d, 41
        for loads in [&[0xbb, 41, 0, 0, 0][..], &[0x41, 0xbc, 41, 0, 0, 0]] {
            assert!(makes(&[loads, &ENTERS].concat(), 41));
        }
        // push 41; pop rax, and pop r8
        assert!(makes(&[0x6a, 41, 0x58, 0x0f, 0x05], 41));
        assert!(makes(&[0x6a, 41, 0x41, 0x58, 0x0f, 0x05], 41));
        assert!(!makes(&[0x6a, 41, 0x90, 0x0f, 0x05], 41));
        // The lowest byte alone of a larger one.
        assert!(!makes(&[0x6a, 425_u16 as u8, 0x58, 0x0f, 0x05], 425));
        // The number is not loaded.
        assert!(!makes(&[0x3d, 41, 0, 0, 0, 0x0f, 0x05], 41));
        assert!(!makes(&[41, 0, 0, 0, 0x0f, 0x05], 41));
    }

    fn found(code: &[Vec<u8>]) -> Option<Obstacle> {
        let mut calls = OwnCalls::default();
        code.iter().for_each(|piece| calls.look_at(piece));
        calls.obstacle()
    }

    #[test]
    fn a_program_of_sockets_makes_them_and_uses_them() {
        let [socket, connect, bind] = SOCKET_CALLS.map(call);
        for used in [connect.clone(), bind.clone()] {
            assert_eq!(
                found(&[socket.clone(), used.clone()]),
                Some(Obstacle::RawCalls)
            );
            assert_eq!(found(&[used, socket.clone()]), Some(Obstacle::RawCalls));
        }
        assert_eq!(found(&[bind, connect]), None);
        assert_eq!(found(&[socket]), None);
    }

    #[test]
    fn sockets_matter_more_than_rings() {
        let ([socket, connect, _], rings) = (SOCKET_CALLS.map(call), call(IO_URING_SETUP));
        assert_eq!(found(std::slice::from_ref(&rings)), Some(Obstacle::Rings));
        assert_eq!(
            found(&[rings.clone(), socket.clone()]),
            Some(Obstacle::Rings)
        );
        assert_eq!(found(&[rings, socket, connect]), Some(Obstacle::RawCalls));
    }
}
