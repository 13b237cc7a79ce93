//! How code of this architecture makes a system call without libc: what is looked for in programs.
//!
//! Used by the launcher, which looks for calls of sockets before it starts a program, and by the
//! shim, which looks for waits in its own.

/// The instruction that enters the kernel: `syscall`.
#[cfg(target_arch = "x86_64")]
pub const ENTERS: [u8; 2] = [0x0f, 0x05];
/// The instruction that enters the kernel: `svc #0`.
#[cfg(target_arch = "aarch64")]
pub const ENTERS: [u8; 4] = 0xd400_0001_u32.to_le_bytes();

/// The instructions that load the number of a system call for it: `mov eax, NUMBER`.
#[cfg(target_arch = "x86_64")]
#[must_use]
pub const fn loads(number: u32) -> [[u8; 5]; 1] {
    let [a, b, c, d] = number.to_le_bytes();
    [[0xb8, a, b, c, d]]
}
/// The instructions that load the number of a system call for it: `mov w8, NUMBER`, and
/// `mov x8, NUMBER`.
#[cfg(target_arch = "aarch64")]
#[must_use]
pub const fn loads(number: u32) -> [[u8; 4]; 2] {
    let to_8 = number << 5 | 8;
    [
        (0x5280_0000 | to_8).to_le_bytes(),
        (0xd280_0000 | to_8).to_le_bytes(),
    ]
}
