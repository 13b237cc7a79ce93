//! Functions of C with any number of arguments, which Rust has not: each makes a `va_list`
//! of them and goes on in one that takes such a list.

/// Makes a `va_list` of variadic arguments, as the ABI of x86-64 has it, and goes
/// on in the function that takes one. `$named` is how many bytes the arguments
/// before them take of the registers, `$list` the register for the list.
#[cfg(target_arch = "x86_64")]
macro_rules! variadic {
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
#[cfg(target_arch = "x86_64")]
pub(crate) use variadic;
