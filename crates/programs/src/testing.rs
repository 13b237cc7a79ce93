//! Executable files for tests, of this crate and of those that look at programs.

/// A dynamic executable with these notes.
///
/// # Panics
/// If the machine has no `/bin/sh` whose header it could begin with.
#[must_use]
pub fn with_notes(notes: &[u8]) -> Vec<u8> {
    let mut elf = std::fs::read("/bin/sh").expect("a shell")[..64].to_vec();
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
