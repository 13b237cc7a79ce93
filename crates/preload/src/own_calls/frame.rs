//! A call that a thread of the program was about to make, and how it goes back.

use crate::kernel::Call;
use crate::user::{Argument, Out};
use libc::{c_int, c_long};

/// Makes a call, whose result it leaves in place of its number.
pub(crate) type Make = extern "C-unwind" fn(Out<'_, Frame>);

/// The registers that a signal shows.
pub(super) type Registers = [i64; 23];

/// How a thread goes back.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct Way {
    /// Behind its call.
    pub(super) back: usize,
    /// The byte that says that the stack of ours is in use, which is cleared.
    pub(super) in_use: usize,
    /// Its own stack.
    pub(super) stack: usize,
    /// Where what `clone` makes begins, which was an argument; 0 with other calls.
    pub(super) new_stack: usize,
    /// What makes the call, if it is not the kernel.
    pub(super) make: usize,
}

/// What `entry::served` puts on the stack: the call, and what is to come back.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Frame {
    rbp: usize,
    /// The call's number, and then what it returns.
    pub(crate) number: c_long,
    /// rdi, rsi, rdx, r10, r8, r9.
    arguments: [usize; 6],
    flags: usize,
    pub(super) way: Way,
}

impl Frame {
    /// The call that a thread is about to make, without a way back.
    pub(super) fn of(registers: &Registers) -> Self {
        let at = |register: c_int| registers[register as usize] as usize;
        let way = Way {
            back: 0,
            in_use: 0,
            stack: 0,
            new_stack: 0,
            make: 0,
        };
        Self {
            rbp: 0,
            number: registers[libc::REG_RAX as usize],
            arguments: [
                libc::REG_RDI,
                libc::REG_RSI,
                libc::REG_RDX,
                libc::REG_R10,
                libc::REG_R8,
                libc::REG_R9,
            ]
            .map(at),
            flags: 0,
            way,
        }
    }

    /// The call.
    pub(crate) fn call(&self) -> Call<'static> {
        Call {
            number: self.number,
            arguments: self.arguments.map(|word| Argument::from(word as u64)),
        }
    }

    /// Where what `clone` makes is to begin; 0 if it has no stack of its own, or another call is made.
    pub(crate) fn new_stack(&self) -> usize {
        match self.number {
            libc::SYS_clone => self.arguments[1],
            _ => 0,
        }
    }
}
