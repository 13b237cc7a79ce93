//! Where a thread goes on that was about to make a system call of its own, and from where it goes
//! back behind that call, with all registers as the kernel would have left them: only the result,
//! rcx and r11 are others.
//!
//! It comes by the handler of SIGSYS, with its registers as they were, but for the instruction and
//! the stack, which is one of ours with a [`Way`] on it.

use super::frame::{Frame, Make, Way};
use crate::user::Out;
use std::arch::x86_64::{__cpuid, __cpuid_count};
use std::mem::offset_of;

/// Bytes for the registers that are not the general ones (XSAVE's area in its standard form).
const AREA: usize = 4096;
/// Of them those that code of ours may change: x87, SSE, AVX and AVX-512.
const PARTS: u32 = 0b1110_0111;
/// Bytes before the header of the area, which XRSTOR wants to be empty where XSAVE puts nothing.
const HEADER: usize = 512;

/// Whether the registers of this processor can be kept in such an area.
pub(super) fn keeps_registers() -> bool {
    const OSXSAVE: u32 = 1 << 27;
    if __cpuid(1).ecx & OSXSAVE == 0 {
        return false;
    }
    let parts = (2..8).filter(|part| PARTS & 1 << part != 0);
    // Their sizes and where they lie; zeros for what this processor has not.
    let ends = parts
        .map(|part| __cpuid_count(0xd, part))
        .map(|at| at.ebx + at.eax);
    ends.max().is_none_or(|end| end as usize <= AREA)
}

/// Where what makes the call is, from the frame on.
const MAKE: usize = offset_of!(Frame, way) + offset_of!(Way, make);

/// For a call that the shim makes.
#[unsafe(naked)]
pub(super) extern "C" fn served() {
    core::arch::naked_asm!(
        ".cfi_startproc
        pushfq
        push r9
        push r8
        push r10
        push rdx
        push rsi
        push rdi
        push rax
        push rbp
        mov rbp, rsp
        # What unwinds goes on where the call was made: the stack is at rbp + 88, the place at rbp + 72.
        .cfi_escape 0x0f, 0x04, 0x76, 0xd8, 0x00, 0x06
        .cfi_escape 0x10, 0x10, 0x03, 0x76, 0xc8, 0x00
        .cfi_escape 0x10, 0x06, 0x02, 0x76, 0x00
        sub rsp, {area}
        and rsp, -64
        xor eax, eax
        mov [rsp + {header}], rax
        mov [rsp + {header} + 8], rax
        mov [rsp + {header} + 16], rax
        mov [rsp + {header} + 24], rax
        mov [rsp + {header} + 32], rax
        mov [rsp + {header} + 40], rax
        mov [rsp + {header} + 48], rax
        mov [rsp + {header} + 56], rax
        mov eax, {parts}
        xor edx, edx
        xsave64 [rsp]
        mov rdi, rbp
        cld
        call [rbp + {make}]
        mov eax, {parts}
        xor edx, edx
        xrstor64 [rsp]
        mov rsp, rbp
        pop rbp
        pop rax
        pop rdi
        pop rsi
        pop rdx
        pop r10
        pop r8
        pop r9
        popfq
        pop rcx
        pop r11
        mov rsp, [rsp]
        mov byte ptr [r11], 0
        jmp rcx
        .cfi_endproc",
        area = const AREA,
        header = const HEADER,
        parts = const PARTS,
        make = const MAKE,
    )
}

/// For any other call, which the kernel makes.
#[unsafe(naked)]
pub(super) extern "C" fn passed() {
    core::arch::naked_asm!(
        ".cfi_startproc
        # As above: the stack is at rsp + 16, the place at rsp.
        .cfi_escape 0x0f, 0x03, 0x77, 0x10, 0x06
        .cfi_escape 0x10, 0x10, 0x02, 0x77, 0x00
        syscall
        pop rcx
        pop r11
        mov rsp, [rsp]
        mov byte ptr [r11], 0
        jmp rcx
        .cfi_endproc"
    )
}

/// For a `clone` of what begins on a stack of its own, with a [`Way`] on that, too: the kernel makes
/// it, and either goes on behind it.
#[unsafe(naked)]
pub(super) extern "C" fn cloned() {
    core::arch::naked_asm!(
        "syscall
        mov rsi, [rsp + 24]
        pop rcx
        pop r11
        mov rsp, [rsp]
        mov byte ptr [r11], 0
        jmp rcx"
    )
}

/// Calls `make` with the stack at `top`.
#[unsafe(naked)]
pub(super) extern "C-unwind" fn call_on(top: usize, make: Make, frame: Out<'_, Frame>) {
    core::arch::naked_asm!(
        ".cfi_startproc
        push rbp
        .cfi_def_cfa_offset 16
        .cfi_offset rbp, -16
        mov rbp, rsp
        .cfi_def_cfa_register rbp
        mov rsp, rdi
        mov rdi, rdx
        call rsi
        mov rsp, rbp
        pop rbp
        ret
        .cfi_endproc"
    )
}

/// For one that does not come back: a handler of the program's that ends by a call of its own.
#[unsafe(naked)]
pub(super) extern "C" fn bare() {
    core::arch::naked_asm!("syscall", "ud2")
}

/// To where handlers of the program's return. Debuggers know it by these instructions.
#[unsafe(naked)]
pub(super) extern "C" fn restorer() {
    core::arch::naked_asm!("mov rax, {number}", "syscall", number = const libc::SYS_rt_sigreturn)
}

const _: () = assert!(offset_of!(Frame, way) + offset_of!(Way, back) == 72);
const _: () = assert!(offset_of!(Frame, way) + offset_of!(Way, stack) == 88);
const _: () = assert!(offset_of!(Way, stack) == 16);
