//! Executable files for tests, of this crate and of those that look at programs.

use crate::MACHINE;

/// A dynamic executable of this architecture with these notes.
#[must_use]
pub fn with_notes(notes: &[u8]) -> Vec<u8> {
    let mut elf = vec![0; 64];
    // 64 bits, little-endian, version 1; position-independent.
    elf[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    elf[16] = 3;
    elf[18..20].copy_from_slice(&MACHINE.to_le_bytes());
    elf[32..40].copy_from_slice(&64u64.to_le_bytes());
    elf[54..58].copy_from_slice(&[56, 0, 2, 0]);
    let mut interpreter = [0; 56];
    interpreter[0] = 3;
    let mut noted = [0; 56];
    noted[0] = 4;
    noted[8..16].copy_from_slice(&176u64.to_le_bytes());
    noted[32..40].copy_from_slice(&(notes.len() as u64).to_le_bytes());
    [&elf, &interpreter[..], &noted, notes].concat()
}

/// Code of this architecture that makes the system call of this number, with another instruction
/// between the number and the call.
#[cfg(target_arch = "x86_64")]
#[must_use]
pub fn system_call(number: u32) -> Vec<u8> {
    let [a, b, c, d] = number.to_le_bytes();
    // mov eax, NUMBER; xor esi, esi; syscall
    vec![0xb8, a, b, c, d, 0x31, 0xf6, 0x0f, 0x05]
}

/// Code of this architecture that makes the system call of this number, with another instruction
/// between the number and the call.
#[cfg(target_arch = "aarch64")]
#[must_use]
pub fn system_call(number: u32) -> Vec<u8> {
    // mov w8, NUMBER; mov x1, xzr; svc #0
    let code = [0x5280_0008 | number << 5, 0xaa1f_03e1, 0xd400_0001];
    code.into_iter().flat_map(u32::to_le_bytes).collect()
}
