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
/// Bytes of code behind it that are looked at.
const AFTER: usize = 4;
/// Bytes of code that belong together: what is looked through in pieces is to have so many of the
/// piece before.
pub const OVERLAP: usize = BEFORE + ENTERS.len() + AFTER - 1;

/// Where code enters the kernel: what stands before each place, and behind it. Such instructions
/// are rare, and so the search is for them.
fn calls(code: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    memmem::find_iter(code, &ENTERS).map(|at| {
        let behind = &code[at + ENTERS.len()..];
        let before = &code[at.saturating_sub(BEFORE)..at];
        (before, &behind[..behind.len().min(AFTER)])
    })
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

/// Whether code makes whatever call it is told, as a function of an unoptimised build does, from
/// whose caller the number comes: that is loaded from the stack, nothing but moves follows, and
/// what the kernel answers goes to the stack.
#[cfg(target_arch = "x86_64")]
fn makes_what_it_is_told(before: &[u8], behind: &[u8]) -> bool {
    let is_stored = Move::at(behind).is_some_and(|m| m.opcode == STORE && m.is_of_rax_and_stack());
    is_stored
        && (0..before.len()).any(|start| {
            // What is before one without a prefix may be the prefix.
            let is_whole =
                before[start] & 0xf0 == 0x40 || start == 0 || before[start - 1] & 0xf0 != 0x40;
            let mut code = &before[start..];
            let first = Move::at(code).filter(|_| is_whole);
            if !first.is_some_and(|m| m.opcode == LOAD && m.is_of_rax_and_stack()) {
                return false;
            }
            while let Some(rest) = Move::at(code).and_then(|m| code.get(m.len..)) {
                code = rest;
            }
            code.is_empty()
        })
}

/// Unoptimised code is not known on this processor.
#[cfg(target_arch = "aarch64")]
fn makes_what_it_is_told(_: &[u8], _: &[u8]) -> bool {
    false
}

/// The opcode of `mov` to a register.
#[cfg(target_arch = "x86_64")]
const LOAD: u8 = 0x8b;
/// The opcode of `mov` from a register.
#[cfg(target_arch = "x86_64")]
const STORE: u8 = 0x89;

/// A `mov` between a register and another or memory.
#[cfg(target_arch = "x86_64")]
struct Move {
    /// Its prefix of a register above the eighth or of 64 bits, or 0.
    rex: u8,
    opcode: u8,
    /// The byte that names register and memory, and that behind it, which names a base where the
    /// first does not.
    modrm: [u8; 2],
    /// Its bytes.
    len: usize,
}

#[cfg(target_arch = "x86_64")]
impl Move {
    /// The one with which this begins, if it does. Its displacement may not be there any more.
    fn at(code: &[u8]) -> Option<Self> {
        let rex = code.first().copied().filter(|byte| byte & 0xf0 == 0x40);
        let code = code.get(rex.iter().len()..)?;
        let [opcode, modrm] = *code.first_chunk()?;
        if opcode != LOAD && opcode != STORE {
            return None;
        }
        let (mode, base) = (modrm >> 6, modrm & 7);
        let index = usize::from(mode != 3 && base == 4);
        let displacement = match mode {
            1 => 1,
            2 => 4,
            0 if base == 5 => 4,
            _ => 0,
        };
        Some(Self {
            rex: rex.unwrap_or(0),
            opcode,
            modrm: [modrm, code.get(2).copied().unwrap_or(0)],
            len: rex.iter().len() + 2 + index + displacement,
        })
    }

    /// Whether it is of rax, or eax, and of memory at so much from rsp or rbp.
    fn is_of_rax_and_stack(&self) -> bool {
        const BY_RSP: u8 = 0x24;
        let [modrm, next] = self.modrm;
        let (mode, register, base) = (modrm >> 6, modrm >> 3 & 7, modrm & 7);
        let extends = self.rex & 0b0101 != 0;
        let is_by_stack = match (mode, base) {
            (0..=2, 4) => next == BY_RSP,
            (1 | 2, 5) => true,
            _ => false,
        };
        register == 0 && !extends && is_by_stack
    }
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
    makes_any: bool,
}

impl OwnCalls {
    /// Looks through the program's code, or through a piece of it.
    pub fn look_at(&mut self, code: &[u8]) {
        let [socket, connect, bind] = SOCKET_CALLS;
        for (before, behind) in calls(code) {
            self.makes_any |= makes_what_it_is_told(before, behind);
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

    /// Whether a function of it makes whatever call it is told: sockets may be among them, or not.
    #[must_use]
    pub fn makes_any(self) -> bool {
        self.makes_any
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
        calls(code).any(|(before, _)| loads(before, number))
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

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn a_function_of_an_unoptimised_build_makes_any_call() {
        let makes_any = |code: &[&[u8]]| {
            let mut calls = OwnCalls::default();
            calls.look_at(&code.concat());
            calls.makes_any()
        };
        // mov 0x30(%rsp), %rax; -0x28(%rbp); 0x130(%rsp); (%rsp)
        let loads: [&[u8]; 4] = [
            &[0x48, 0x8b, 0x44, 0x24, 0x30],
            &[0x48, 0x8b, 0x45, 0xd8],
            &[0x48, 0x8b, 0x84, 0x24, 0x30, 1, 0, 0],
            &[0x48, 0x8b, 0x04, 0x24],
        ];
        // mov 0x20(%rsp), %rsi; mov -0x100(%rbp), %r10; mov %rax, %rdx
        let moves: &[u8] = &[
            0x48, 0x8b, 0x74, 0x24, 0x20, 0x4c, 0x8b, 0x95, 0, 0xff, 0xff, 0xff, 0x48, 0x89, 0xc2,
        ];
        // mov %rax, 0x30(%rsp); mov %rax, -8(%rbp)
        let stores: [&[u8]; 2] = [&[0x48, 0x89, 0x44, 0x24, 0x30], &[0x48, 0x89, 0x45, 0xf8]];
        for load in loads {
            for store in stores {
                assert!(makes_any(&[load, &ENTERS, store]));
                assert!(makes_any(&[&[0x90], load, moves, &ENTERS, store]));
                // Something else happens in between, or the answer is not put away.
                assert!(!makes_any(&[load, &[0x90], moves, &ENTERS, store]));
                assert!(!makes_any(&[load, &ENTERS, &[0xc3]]));
                assert!(!makes_any(&[load, &ENTERS]));
            }
        }
        // The number is in a register: mov %rdi, %rax; or it is of another: mov 8(%rsp), %rcx; and
        // %r8; or somewhere else: mov 8(%rdi), %rax; mov 8(%r12), %rax; mov 8(%rip), %rax;
        // mov 8(%rax, %rcx, 8), %rax.
        for other in [
            &[0x48, 0x89, 0xf8][..],
            &[0x48, 0x8b, 0x4c, 0x24, 8],
            &[0x4c, 0x8b, 0x44, 0x24, 8],
            &[0x48, 0x8b, 0x47, 8],
            &[0x49, 0x8b, 0x44, 0x24, 8],
            &[0x48, 0x8b, 0x05, 8, 0, 0, 0],
            &[0x48, 0x8b, 0x44, 0xc8, 8],
        ] {
            assert!(!makes_any(&[other, &ENTERS, stores[0]]), "{other:x?}");
        }
        assert!(!makes_any(&[loads[0], &ENTERS, &[0x48, 0x89, 0xc3, 0x90]]));
        assert!(!makes_any(&[&call(41), stores[0]]));
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
