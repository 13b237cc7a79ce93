//! The parts of a file that are shown, with their addresses, and what is left of a range besides.
//! `sending` asks.

use crate::page_exchange::regions::{File, Regions};
use crate::page_exchange::shown::{Piece, Shown, Stretches};
use std::ops::Range;

/// Whether a piece shows some of this part of the file.
pub(super) fn is_of(piece: &Piece, range: &Range<u64>) -> bool {
    piece.place < range.end && range.start < piece.place + piece.len as u64
}

pub(super) fn is_shown(shown: &Shown, range: &Range<u64>) -> bool {
    shown.pieces().iter().any(|piece| is_of(piece, range))
}

/// The addresses of a piece at which the file still is mapped as it was, and may be read.
pub(super) fn still_shown(regions: &Regions, file: File, piece: &Piece) -> Vec<Range<usize>> {
    let range = piece.range();
    let parts = regions.within(&range);
    let still = parts.filter(|(region, part)| {
        let place = piece.place + (part.start - piece.at) as u64;
        region.is_readable() && region.shows(file, part.start, place)
    });
    still.map(|(_, part)| part).collect()
}

/// What of `range` is in none of these pieces.
pub(super) fn others(range: &Range<usize>, pieces: &[Piece]) -> Vec<Range<usize>> {
    let taken: Vec<_> = pieces.iter().map(Piece::range).collect();
    others_of(range, &taken)
}

/// What of `range` is in none of these.
pub(super) fn others_of(range: &Range<usize>, taken: &[Range<usize>]) -> Vec<Range<usize>> {
    let mut rest = Stretches::default();
    rest.add(range.clone());
    taken.iter().for_each(|one| rest.remove(one));
    rest.within(range)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_between_pieces_is_found() {
        let found = |taken: &[Range<usize>]| {
            let rest = others_of(&(10..20), taken).into_iter();
            rest.map(|r| (r.start, r.end)).collect::<Vec<_>>()
        };
        assert_eq!(found(&[]), [(10, 20)]);
        let taken = [0..5, 12..14, 16..17, 19..30];
        assert_eq!(found(&taken), [(10, 12), (14, 16), (17, 19)]);
        assert_eq!(found(&taken[3..]), [(10, 19)]);
        assert_eq!(found(&[0..12, 12..30]), []);
        assert_eq!(found(&[5..10, 20..22]), [(10, 20)]);
        assert_eq!(found(&[10..12, 18..20]), [(12, 18)]);
    }
}
