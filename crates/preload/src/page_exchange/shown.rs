//! The ranges of the program's memory that show what was received, and of which bytes of
//! which stream: numbers alone, no memory is touched here.

use std::ops::Range;

/// A stretch of the program's memory that shows bytes of a receive stream where they lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    /// Its address.
    pub(super) at: usize,
    /// Bytes, whole pages.
    pub(super) len: usize,
    /// The byte of the stream that is its first.
    pub(super) from: u64,
    /// Where in the file that is shared with the engine it lies.
    pub(super) place: u64,
}

impl Piece {
    /// Its addresses.
    pub(super) fn range(&self) -> Range<usize> {
        self.at..self.at + self.len
    }

    /// The part of it at these addresses, of which there are some in it.
    pub(super) fn part(&self, range: Range<usize>) -> Self {
        let skipped = (range.start - self.at) as u64;
        Self {
            at: range.start,
            len: range.len(),
            from: self.from + skipped,
            place: self.place + skipped,
        }
    }
}

/// What of both is in both.
pub(super) fn overlap(one: &Range<usize>, other: &Range<usize>) -> Option<Range<usize>> {
    let both = one.start.max(other.start)..one.end.min(other.end);
    (!both.is_empty()).then_some(both)
}

/// What of one is before and behind the other, where there is any.
fn outside(one: &Range<usize>, other: &Range<usize>) -> impl Iterator<Item = Range<usize>> + use<> {
    let before = one.start..one.end.min(other.start).max(one.start);
    let behind = one.start.max(other.end).min(one.end)..one.end;
    let parts = [before, behind].into_iter();
    parts.filter(|part| !part.is_empty())
}

/// The pieces that show bytes of one stream.
#[derive(Debug, Default)]
pub(super) struct Shown(Vec<Piece>);

impl Shown {
    /// One more.
    pub(super) fn add(&mut self, piece: Piece) {
        self.0.push(piece);
    }

    /// All of them.
    pub(super) fn pieces(&self) -> &[Piece] {
        &self.0
    }

    /// The parts that are at these addresses.
    pub(super) fn at(&self, range: &Range<usize>) -> impl Iterator<Item = Piece> {
        let parts = self.0.iter();
        parts.filter_map(|piece| Some(piece.part(overlap(&piece.range(), range)?)))
    }

    /// What is at these addresses shows something else now.
    pub(super) fn cut(&mut self, range: &Range<usize>) {
        if self.at(range).next().is_none() {
            return;
        }
        let left = |piece: &Piece| {
            let piece = *piece;
            outside(&piece.range(), range).map(move |part| piece.part(part))
        };
        self.0 = self.0.iter().flat_map(left).collect();
    }

    /// The first byte of the stream, before `end`, that is shown anywhere; `end` if none is.
    pub(super) fn first_byte(&self, end: u64) -> u64 {
        let all = self.0.iter().map(|piece| piece.from);
        all.min().unwrap_or(end).min(end)
    }
}

/// Stretches of memory that do not overlap, in order.
#[derive(Debug, Default)]
pub(super) struct Stretches(Vec<Range<usize>>);

impl Stretches {
    /// How many they are.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds one, which becomes one with those that it overlaps or touches.
    pub(super) fn add(&mut self, mut new: Range<usize>) {
        self.0.retain(|old| {
            let apart = old.end < new.start || new.end < old.start;
            if !apart {
                new = new.start.min(old.start)..new.end.max(old.end);
            }
            apart
        });
        let at = self.0.partition_point(|old| old.start < new.start);
        self.0.insert(at, new);
    }

    /// What of `range` is in them.
    pub(super) fn within(&self, range: &Range<usize>) -> Vec<Range<usize>> {
        let all = self.0.iter();
        all.filter_map(|one| overlap(one, range)).collect()
    }

    /// Takes `range` out.
    pub(super) fn remove(&mut self, range: &Range<usize>) {
        if self.within(range).is_empty() {
            return;
        }
        self.0 = self.0.iter().flat_map(|one| outside(one, range)).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: usize = 4096;

    fn piece(page: usize, pages: usize, from: u64) -> Piece {
        Piece {
            at: page * PAGE,
            len: pages * PAGE,
            from,
            place: 1 << 20 | from,
        }
    }

    fn pages(first: usize, end: usize) -> Range<usize> {
        first * PAGE..end * PAGE
    }

    #[test]
    fn what_is_covered_is_cut_out() {
        let whole = piece(10, 10, 0);
        for (cut, left) in [
            (pages(0, 10), vec![(10, 20)]),
            (pages(20, 30), vec![(10, 20)]),
            (pages(0, 30), vec![]),
            (pages(10, 20), vec![]),
            (pages(5, 15), vec![(15, 20)]),
            (pages(15, 25), vec![(10, 15)]),
            (pages(12, 14), vec![(10, 12), (14, 20)]),
        ] {
            let mut shown = Shown(vec![whole]);
            shown.cut(&cut);
            let expected: Vec<Piece> = left
                .iter()
                .map(|(a, b)| piece(*a, b - a, ((a - 10) * PAGE) as u64))
                .map(|p| Piece {
                    place: (1 << 20) + p.from,
                    ..p
                })
                .collect();
            assert_eq!(shown.pieces(), expected, "{cut:?}");
        }
    }

    #[test]
    fn what_is_not_shown_any_more_can_be_given_back() {
        let mut shown = Shown(vec![piece(10, 4, 0), piece(20, 4, 4 * PAGE as u64)]);
        let end = 8 * PAGE as u64;
        assert_eq!(shown.first_byte(end), 0);
        shown.cut(&pages(20, 24));
        assert_eq!(shown.first_byte(end), 0);
        shown.cut(&pages(9, 11));
        assert_eq!(shown.first_byte(end), PAGE as u64);
        shown.cut(&pages(0, 100));
        assert_eq!(shown.first_byte(end), end);
    }

    #[test]
    fn stretches_that_touch_are_one() {
        let mut all = Stretches::default();
        all.add(pages(10, 12));
        all.add(pages(20, 22));
        all.add(pages(12, 14));
        assert_eq!(all.0, [pages(10, 14), pages(20, 22)]);
        all.add(pages(13, 21));
        assert_eq!(all.0, [pages(10, 22)]);
        all.remove(&pages(11, 13));
        assert_eq!(all.0, [pages(10, 11), pages(13, 22)]);
        assert_eq!(all.within(&pages(0, 15)), [pages(10, 11), pages(13, 15)]);
        all.remove(&pages(0, 100));
        assert_eq!(all.len(), 0);
    }
}
