//! Functions of C with any number of arguments, which Rust has not: each makes a `va_list`
//! of them and goes on in one that takes such a list, which is a pointer there: on x86-64 since it
//! is an array, on AArch64 since it is a structure that is too large for registers.

use crate::user::{Argument, In};

/// Makes a `va_list` of variadic arguments, as the ABI has it, and goes on in the function that
/// takes one behind the named arguments. `$named` is how many of those there are, all of them
/// integers.
#[cfg(target_arch = "x86_64")]
macro_rules! variadic {
    (2, $to:path) => {
        variadic!("16", "rdx", $to)
    };
    (3, $to:path) => {
        variadic!("24", "rcx", $to)
    };
    // How many bytes the named arguments take of the registers, and the register for the list.
    ($named:literal, $list:literal, $to:path) => {
        core::arch::naked_asm!(
            ".cfi_startproc",
            // 24 bytes for the list, 8 unused, 176 for the registers, and 8 so
            // that the stack is aligned for the call.
            "sub rsp, 216",
            // A cancelled thread unwinds through here.
            ".cfi_adjust_cfa_offset 216",
            "mov [rsp + 48], rdx",
            "mov [rsp + 56], rcx",
            "mov [rsp + 64], r8",
            "mov [rsp + 72], r9",
            // Whether there are any floating-point arguments.
            "test al, al",
            "je 2f",
            "movaps [rsp + 80], xmm0",
            "movaps [rsp + 96], xmm1",
            "movaps [rsp + 112], xmm2",
            "movaps [rsp + 128], xmm3",
            "movaps [rsp + 144], xmm4",
            "movaps [rsp + 160], xmm5",
            "movaps [rsp + 176], xmm6",
            "movaps [rsp + 192], xmm7",
            "2:",
            concat!("mov dword ptr [rsp], ", $named),
            "mov dword ptr [rsp + 4], 48",
            "lea rax, [rsp + 224]",
            "mov [rsp + 8], rax",
            "lea rax, [rsp + 32]",
            "mov [rsp + 16], rax",
            concat!("mov ", $list, ", rsp"),
            "call {to}",
            "add rsp, 216",
            ".cfi_adjust_cfa_offset -216",
            "ret",
            ".cfi_endproc",
            to = sym $to,
        )
    };
}
/// Makes a `va_list` of variadic arguments, as the ABI has it, and goes on in the function that
/// takes one behind the named arguments. `$named` is how many of those there are, all of them
/// integers.
#[cfg(target_arch = "aarch64")]
macro_rules! variadic {
    (2, $to:path) => {
        variadic!("48", "x2", $to)
    };
    (3, $to:path) => {
        variadic!("40", "x3", $to)
    };
    // How many bytes the registers have behind the named arguments, and the register for the list.
    ($left:literal, $list:literal, $to:path) => {
        core::arch::naked_asm!(
            ".cfi_startproc",
            // 16 bytes for who has called, 32 for the list, 64 for the general registers, 128 for
            // those of floating-point numbers.
            "stp x29, x30, [sp, #-240]!",
            // A cancelled thread unwinds through here.
            ".cfi_def_cfa_offset 240",
            ".cfi_offset w29, -240",
            ".cfi_offset w30, -232",
            "stp x2, x3, [sp, #64]",
            "stp x4, x5, [sp, #80]",
            "stp x6, x7, [sp, #96]",
            "stp q0, q1, [sp, #112]",
            "stp q2, q3, [sp, #144]",
            "stp q4, q5, [sp, #176]",
            "stp q6, q7, [sp, #208]",
            // On the stack; the ends of both kinds of registers; how far before those ends the
            // arguments begin.
            "add x9, sp, #240",
            "add x10, sp, #112",
            "stp x9, x10, [sp, #16]",
            "str x9, [sp, #32]",
            concat!("mov w9, #-", $left),
            "mov w10, #-128",
            "stp w9, w10, [sp, #40]",
            concat!("add ", $list, ", sp, #16"),
            "bl {to}",
            "ldp x29, x30, [sp], #240",
            ".cfi_def_cfa_offset 0",
            ".cfi_restore w29",
            ".cfi_restore w30",
            "ret",
            ".cfi_endproc",
            to = sym $to,
        )
    };
}
pub(crate) use variadic;

/// A `va_list` of which integers alone are taken.
#[cfg(target_arch = "x86_64")]
#[repr(C)]
pub(crate) struct List<'a> {
    /// Bytes from the beginning of what was saved of the registers.
    general: u32,
    floating: u32,
    on_stack: In<'a, Argument<'a>>,
    in_registers: In<'a, Argument<'a>>,
}

#[cfg(target_arch = "x86_64")]
impl<'a> List<'a> {
    /// The next argument in a register, if there is another.
    fn next_in_register(&mut self) -> Option<In<'a, Argument<'a>>> {
        const IN_REGISTERS: u32 = 6 * EACH as u32;
        let at = self.general;
        if at >= IN_REGISTERS {
            return None;
        }
        self.general += EACH as u32;
        Some(self.in_registers.add(at as usize / EACH))
    }
}

/// A `va_list` of which integers alone are taken.
#[cfg(target_arch = "aarch64")]
#[repr(C)]
pub(crate) struct List<'a> {
    on_stack: In<'a, Argument<'a>>,
    /// Behind what was saved of the registers.
    general_end: In<'a, Argument<'a>>,
    floating_end: In<'a, Argument<'a>>,
    /// Bytes from there: less than 0 as long as there are any.
    general: i32,
    floating: i32,
}

#[cfg(target_arch = "aarch64")]
impl<'a> List<'a> {
    /// The next argument in a register, if there is another.
    fn next_in_register(&mut self) -> Option<In<'a, Argument<'a>>> {
        let at = self.general;
        if at >= 0 {
            return None;
        }
        self.general += EACH as i32;
        let before = at.unsigned_abs() as usize / EACH;
        Some(self.general_end.back(before))
    }
}

/// Bytes of an argument.
const EACH: usize = size_of::<Argument<'_>>();

impl<'a> List<'a> {
    /// The next argument, which is there.
    pub(crate) fn next(&mut self) -> Option<Argument<'a>> {
        let at = self.next_in_register().unwrap_or_else(|| {
            let at = self.on_stack;
            self.on_stack = at.add(1);
            at
        });
        at.get()
    }
}
