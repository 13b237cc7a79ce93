//! Bytes that tests write, by which it shows where they belong.

/// How many follow each other before they repeat: no power of two, so that none is the same as
/// its neighbour in another chunk.
const PERIOD: u64 = 251;

/// A period from any of its bytes on begins in the first half of it.
const TWICE: [u8; 2 * PERIOD as usize] = {
    let (mut twice, mut at) = ([0; 2 * PERIOD as usize], 0);
    while at < twice.len() {
        twice[at] = (at % PERIOD as usize) as u8;
        at += 1;
    }
    twice
};

/// `len` bytes, the first of which is that at `from`. They are made by copies: under Miri a step
/// for each byte takes longer than what is tested.
pub(crate) fn pattern_from(from: u64, len: usize) -> Vec<u8> {
    let first = (from % PERIOD) as usize;
    let piece = &TWICE[first..first + PERIOD as usize];
    let mut bytes = piece.repeat(len.div_ceil(piece.len()));
    bytes.truncate(len);
    bytes
}

/// `len` bytes from the first on.
pub(crate) fn pattern(len: usize) -> Vec<u8> {
    pattern_from(0, len)
}

#[test]
fn a_byte_is_the_same_wherever_a_pattern_begins() {
    let whole = pattern(2000);
    assert!(
        (0..)
            .zip(&whole)
            .all(|(at, byte)| *byte == (at % 251) as u8)
    );
    for (from, len) in [(0, 0), (1, 1), (250, 300), (251, 1), (1999, 1), (600, 1400)] {
        assert_eq!(pattern_from(from as u64, len), whole[from..from + len]);
    }
}
