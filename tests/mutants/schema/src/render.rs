//! Writes a source file with its points in it, and knows of what is written which mutant it is.

use crate::point::{Id, Piece, Point, Span};

/// A file with mutants in it.
#[derive(Debug, Default)]
pub struct Rendered {
    /// The new text, in which everything is on the line where it was.
    pub text: String,
    /// Where each mutant's own words are.
    pub mutants: Vec<(Span, Id)>,
    /// Where each point is, with all of its mutants.
    pub points: Vec<(Span, Vec<Id>)>,
}

/// Writes `source` with the live ones of `points`, of which one may lie in another but not
/// across its edge. Of those with the same span, the first is outside.
pub fn render(
    source: &str,
    points: &[Point],
    live: &dyn Fn(Id) -> bool,
    stays_const: &dyn Fn(usize) -> bool,
) -> Rendered {
    let mut order: Vec<&Point> = points.iter().collect();
    // An empty span is before what begins there.
    order.sort_by_key(|point| {
        (
            point.span.start,
            !point.span.is_empty(),
            std::cmp::Reverse(point.span.end),
        )
    });
    let mut writer = Writer {
        source,
        live,
        stays_const,
        out: Rendered::default(),
    };
    writer.source(0..source.len(), &order);
    writer.out
}

struct Writer<'a> {
    source: &'a str,
    live: &'a dyn Fn(Id) -> bool,
    stays_const: &'a dyn Fn(usize) -> bool,
    out: Rendered,
}

impl Writer<'_> {
    /// Writes a range of the source; of `points`, sorted, those that lie in it.
    fn source(&mut self, span: Span, points: &[&Point]) {
        let mut at = span.start;
        let mut next = 0;
        while let Some(point) = points.get(next) {
            next += 1;
            if point.span.start < at || point.span.end > span.end {
                continue;
            }
            // Those of the points behind it that lie in it.
            let inner = points[next..]
                .iter()
                .take_while(|other| other.span.start < point.span.end)
                .count();
            let Some(pieces) = point.pieces(self.live, self.stays_const) else {
                continue;
            };
            self.out.text.push_str(&self.source[at..point.span.start]);
            self.point(point, pieces, &points[next..next + inner]);
            next += inner;
            at = point.span.end;
        }
        self.out.text.push_str(&self.source[at..span.end]);
    }

    fn point(&mut self, point: &Point, pieces: Vec<Piece>, inner: &[&Point]) {
        let start = self.out.text.len();
        for piece in pieces {
            match piece {
                Piece::Text(text) => self.out.text.push_str(&text),
                Piece::Mutant(id, text) => {
                    let start = self.out.text.len();
                    self.out.text.push_str(&text);
                    self.out.mutants.push((start..self.out.text.len(), id));
                }
                Piece::Source(span) => self.source(span, inner),
            }
        }
        let lines = |text: &str| text.bytes().filter(|byte| *byte == b'\n').count();
        let missing =
            lines(&self.source[point.span.clone()]).saturating_sub(lines(&self.out.text[start..]));
        self.out.text.extend(std::iter::repeat_n('\n', missing));
        self.out
            .points
            .push((start..self.out.text.len(), point.mutants()));
    }
}

impl Rendered {
    /// The mutants that an error at this range of the text is of: those whose own words it
    /// touches, or else all of the smallest point around it.
    pub fn blamed(&self, error: &Span) -> Vec<Id> {
        let touches =
            |span: &Span| span.start < error.end.max(error.start + 1) && error.start < span.end;
        let own: Vec<Id> = self
            .mutants
            .iter()
            .filter(|(span, _)| touches(span))
            .map(|(_, id)| *id)
            .collect();
        // One expression that is an error has one mutant's words in it; a larger one is not
        // an error because of each of the many that lie in it.
        let point = self
            .points
            .iter()
            .filter(|(span, _)| span.start <= error.start && error.end <= span.end)
            .min_by_key(|(span, _)| span.len());
        match point {
            Some((_, mutants)) => {
                let of_point: Vec<Id> = own.into_iter().filter(|id| mutants.contains(id)).collect();
                if of_point.is_empty() {
                    mutants.clone()
                } else {
                    of_point
                }
            }
            None => own,
        }
    }
}

#[cfg(test)]
mod tests;
