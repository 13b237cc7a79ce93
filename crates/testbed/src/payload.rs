//! Distinguishable payload, and its SHA-256.

use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;

/// An endless stream of bytes that depends on a seed and never repeats within
/// any file of a test, so a lost, duplicated or shifted piece changes the hash.
#[derive(Debug, Clone)]
pub struct Bytes {
    state: u64,
}

impl Bytes {
    /// The stream of this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Bytes { state: seed }
    }

    /// Fills `out` with what comes next. Pieces of 8 bytes, so that the stream
    /// is the same however it is cut, as long as cuts are multiples of 8.
    pub fn fill(&mut self, out: &mut [u8]) {
        for piece in out.chunks_mut(8) {
            // splitmix64 (Steele, Lea, Flood 2014).
            self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = self.state;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^= z >> 31;
            piece.copy_from_slice(&z.to_le_bytes()[..piece.len()]);
        }
    }

    /// The first `length` bytes of this seed's stream.
    #[must_use]
    pub fn take(seed: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        Bytes::new(seed).fill(&mut bytes);
        bytes
    }
}

/// Writes a file of `length` bytes and gives its SHA-256.
///
/// # Errors
/// Those of the file.
pub fn write_file(path: &Path, seed: u64, length: u64) -> io::Result<String> {
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let mut hash = Sha256::new();
    let mut bytes = Bytes::new(seed);
    let mut piece = vec![0; 1 << 20];
    let mut left = length;
    while left > 0 {
        let n = usize::try_from(left).map_or(piece.len(), |l| l.min(piece.len()));
        bytes.fill(&mut piece[..n]);
        hash.update(&piece[..n]);
        file.write_all(&piece[..n])?;
        left -= n as u64;
    }
    file.flush()?;
    Ok(hex(&hash.finalize()))
}

/// The SHA-256 of everything that `from` has to give, and how much that was.
///
/// # Errors
/// Those of the source.
pub fn sha256_of(mut from: impl Read) -> io::Result<(String, u64)> {
    let mut hash = Sha256::new();
    let mut piece = vec![0; 1 << 20];
    let mut length = 0;
    loop {
        let n = from.read(&mut piece)?;
        if n == 0 {
            return Ok((hex(&hash.finalize()), length));
        }
        hash.update(&piece[..n]);
        length += n as u64;
    }
}

/// The SHA-256 of a file.
///
/// # Errors
/// Those of the file.
pub fn sha256_of_file(path: &Path) -> io::Result<String> {
    Ok(sha256_of(File::open(path)?)?.0)
}

/// Bytes in hexadecimal.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
