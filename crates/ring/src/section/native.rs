//! A thread's section where a handler reaches it, and a system call of which it is known how
//! far a thread has come in it: both are assembly, one for each architecture.
//!
//! The section is reached without a call, because the loader's mechanism for other thread-local
//! variables may allocate memory.

use super::Section;

std::arch::global_asm!(
    ".pushsection .tbss.longshore_section,\"awT\",%nobits",
    ".balign 8",
    ".globl longshore_section",
    ".hidden longshore_section",
    ".type longshore_section,%object",
    ".size longshore_section,{size}",
    "longshore_section:",
    ".zero {size}",
    ".popsection",
    size = const size_of::<Section>(),
);

/// The function `longshore_interruptible` of these instructions, with what is named in it.
macro_rules! interruptible {
    ($($instruction:literal)*) => {
        std::arch::global_asm!(
            ".pushsection .text.longshore_interruptible,\"ax\",%progbits",
            ".balign 16",
            ".globl longshore_interruptible",
            ".hidden longshore_interruptible",
            ".globl longshore_interruptible_begin",
            ".hidden longshore_interruptible_begin",
            ".globl longshore_interruptible_end",
            ".hidden longshore_interruptible_end",
            ".globl longshore_interruptible_past",
            ".hidden longshore_interruptible_past",
            ".type longshore_interruptible,%function",
            "longshore_interruptible:",
            ".cfi_startproc",
            $($instruction,)*
            ".cfi_endproc",
            ".size longshore_interruptible, . - longshore_interruptible",
            ".popsection",
        );
    };
}

#[cfg(target_arch = "x86_64")]
interruptible! {
    "mov r11, rdi"
    "mov rax, rsi"
    "mov rcx, rdx"
    "mov rdi, [rcx]"
    "mov rsi, [rcx + 8]"
    "mov rdx, [rcx + 16]"
    "mov r10, [rcx + 24]"
    "mov r8, [rcx + 32]"
    "mov r9, [rcx + 40]"
    "longshore_interruptible_begin:"
    "cmp dword ptr [r11], 0"
    "jne longshore_interruptible_past"
    "syscall"
    "longshore_interruptible_end:"
    "ret"
    "longshore_interruptible_past:"
    "mov rax, -4"
    "ret"
}

#[cfg(target_arch = "aarch64")]
interruptible! {
    "mov x9, x0"
    "mov x8, x1"
    "mov x10, x2"
    "ldp x0, x1, [x10]"
    "ldp x2, x3, [x10, #16]"
    "ldp x4, x5, [x10, #32]"
    "longshore_interruptible_begin:"
    "ldr w11, [x9]"
    "cbnz w11, longshore_interruptible_past"
    "svc #0"
    "longshore_interruptible_end:"
    "ret"
    "longshore_interruptible_past:"
    "mov x0, #-4"
    "ret"
}

unsafe extern "C" {
    fn longshore_interruptible(word: *const u32, number: i64, arguments: *const usize) -> isize;
    static longshore_interruptible_begin: u8;
    static longshore_interruptible_end: u8;
    static longshore_interruptible_past: u8;
}

#[cfg(target_arch = "x86_64")]
#[inline]
pub(super) fn own() -> *const Section {
    let at: *const Section;
    // SAFETY: reads where the variable of this thread is; it is as long as the thread.
    unsafe {
        std::arch::asm!(
            "mov {at}, qword ptr [rip + longshore_section@GOTTPOFF]",
            "add {at}, qword ptr fs:[0]",
            at = out(reg) at,
            options(pure, nomem, nostack),
        );
    }
    at
}

#[cfg(target_arch = "aarch64")]
#[inline]
pub(super) fn own() -> *const Section {
    let at: *const Section;
    // SAFETY: reads where the variable of this thread is; it is as long as the thread.
    unsafe {
        std::arch::asm!(
            "mrs {thread}, tpidr_el0",
            "adrp {at}, :gottprel:longshore_section",
            "ldr {at}, [{at}, :gottprel_lo12:longshore_section]",
            "add {at}, {at}, {thread}",
            at = out(reg) at,
            thread = out(reg) _,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    at
}

pub(super) unsafe fn call(word: *const u32, number: i64, arguments: &[usize; 6]) -> isize {
    // SAFETY: the caller's promise.
    unsafe { longshore_interruptible(word, number, arguments.as_ptr()) }
}

pub(super) fn past_call(at: usize) -> Option<usize> {
    let begin = (&raw const longshore_interruptible_begin).addr();
    let end = (&raw const longshore_interruptible_end).addr();
    let past = (&raw const longshore_interruptible_past).addr();
    (begin..end).contains(&at).then_some(past)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the last look at the word on up to the call itself, which may be restarted.
    #[test]
    fn a_thread_that_is_about_to_call_goes_on_after_the_call() {
        let begin = (&raw const longshore_interruptible_begin).addr();
        let end = (&raw const longshore_interruptible_end).addr();
        let past = (&raw const longshore_interruptible_past).addr();
        for at in [begin, end - 1] {
            assert_eq!(crate::past_call(at), Some(past));
        }
        for at in [0, begin - 1, end, past] {
            assert_eq!(crate::past_call(at), None);
        }
    }
}
