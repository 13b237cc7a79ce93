//! A place of the source where the code can be changed, and how it is written there with
//! each change behind its switch.
//!
//! Operands stand where they stood and are written once, so that what nests does not grow,
//! and all lines stay.

use std::ops::Range;

/// The number of a mutant, in the whole crate.
pub type Id = u32;
/// Bytes of the source.
pub type Span = Range<usize>;

/// A place, and the mutants that it may have.
#[derive(Debug)]
pub struct Point {
    /// What is rewritten.
    pub span: Span,
    /// How.
    pub shape: Shape,
}

/// What stands at a place.
#[derive(Debug)]
pub enum Shape {
    /// A comparison: its operands are looked at where they are.
    Compare(Binary),
    /// An operator that takes its operands.
    Arithmetic(Binary),
    /// An assignment that computes.
    Compound(Binary),
    /// `&&` and `||`, each of which may become the other.
    Logic { binary: Binary },
    /// `!` and `-`, which may go.
    Unary {
        inner: Span,
        op: &'static str,
        mutant: Id,
    },
    /// The arm of a match: gone, or its guard always true, or never.
    Arm {
        pattern_end: usize,
        guard: Option<(Span, Id, Id)>,
        delete: Option<Id>,
    },
    /// A statement that may be left out.
    Delete { mutant: Id },
    /// A function's body (the span is empty, behind its brace), with what it may return at once.
    Body { values: Vec<(Id, String)> },
    /// The word `const` before a function whose mutants are chosen when it runs.
    Const { function: usize },
}

/// Two operands and what may stand between them.
#[derive(Debug)]
pub struct Binary {
    /// The first operand.
    pub left: Span,
    /// The second one.
    pub right: Span,
    /// What stands there.
    pub op: &'static str,
    /// What may.
    pub others: Vec<(Id, &'static str)>,
}

/// A piece of the new text.
pub enum Piece {
    /// As it is here.
    Text(String),
    /// What is there for a mutant alone.
    Mutant(Id, String),
    /// What the source has there, with its own points.
    Source(Span),
}

use Piece::{Mutant, Source, Text};

fn text(words: impl Into<String>) -> Piece {
    Text(words.into())
}

fn on(mutant: Id) -> String {
    format!("::mutant_switch::on({mutant})")
}

impl Point {
    /// The mutants of this place.
    pub fn mutants(&self) -> Vec<Id> {
        match &self.shape {
            Shape::Compare(binary)
            | Shape::Arithmetic(binary)
            | Shape::Compound(binary)
            | Shape::Logic { binary } => binary.others.iter().map(|(id, _)| *id).collect(),
            Shape::Unary { mutant, .. } | Shape::Delete { mutant } => vec![*mutant],
            Shape::Arm { guard, delete, .. } => guard
                .iter()
                .flat_map(|(_, yes, no)| [*yes, *no])
                .chain(*delete)
                .collect(),
            Shape::Body { values } => values.iter().map(|(id, _)| *id).collect(),
            Shape::Const { .. } => vec![],
        }
    }

    /// The new text, with those mutants that are `live`; none if there is nothing to change.
    pub fn pieces(
        &self,
        live: &dyn Fn(Id) -> bool,
        stays_const: &dyn Fn(usize) -> bool,
    ) -> Option<Vec<Piece>> {
        if let Shape::Const { function } = self.shape {
            return (!stays_const(function)).then(Vec::new);
        }
        if !self.mutants().into_iter().any(live) {
            return None;
        }
        Some(match &self.shape {
            Shape::Compare(binary) => {
                let mut pieces = vec![
                    text("(match (&("),
                    Source(binary.left.clone()),
                    text("), &("),
                    Source(binary.right.clone()),
                ];
                pieces.push(text(")) { (l, r) => "));
                pieces.extend(binary.choices(live, "*l", "*r"));
                pieces.push(text("})"));
                pieces
            }
            Shape::Arithmetic(binary) => {
                let mut pieces = vec![
                    text("(match ("),
                    Source(binary.left.clone()),
                    text(", "),
                    Source(binary.right.clone()),
                ];
                pieces.push(text(") { (l, r) => "));
                pieces.extend(binary.choices(live, "l", "r"));
                pieces.push(text("})"));
                pieces
            }
            Shape::Compound(binary) => binary.compound(live),
            // By De Morgan, with all three turned round: each operand is still asked once, and
            // the second one only where the first does not decide.
            Shape::Logic { binary } => {
                let (mutant, _) = binary.others[0];
                let turned = || Mutant(mutant, format!(") ^ {})", on(mutant)));
                vec![
                    text("(((("),
                    Source(binary.left.clone()),
                    turned(),
                    text(format!(" {} ((", binary.op)),
                    Source(binary.right.clone()),
                    turned(),
                    turned(),
                ]
            }
            Shape::Unary { inner, op, mutant } => vec![
                text("(match ("),
                Source(inner.clone()),
                text(") { v => if "),
                text(on(*mutant)),
                Mutant(*mutant, " { v }".into()),
                text(format!(" else {{ {op}v }} }})")),
            ],
            Shape::Arm {
                pattern_end,
                guard,
                delete,
            } => self.arm(*pattern_end, guard, *delete, live),
            Shape::Delete { mutant } => vec![
                Mutant(*mutant, format!("if !{} {{ ", on(*mutant))),
                Source(self.span.clone()),
                text(" }"),
            ],
            Shape::Body { values } => values
                .iter()
                .filter(|(id, _)| live(*id))
                .map(|(id, value)| Mutant(*id, format!(" if {} {{ return {value}; }}", on(*id))))
                .collect(),
            Shape::Const { .. } => vec![],
        })
    }

    fn arm(
        &self,
        pattern_end: usize,
        guard: &Option<(Span, Id, Id)>,
        delete: Option<Id>,
        live: &dyn Fn(Id) -> bool,
    ) -> Vec<Piece> {
        let mut pieces = vec![Source(self.span.start..pattern_end), text(" if ")];
        if let Some(id) = delete.filter(|id| live(*id)) {
            pieces.push(Mutant(id, format!("!{}", on(id))));
            if guard.is_some() {
                pieces.push(text(" && "));
            }
        }
        if let Some((span, yes, no)) = guard {
            for (id, begin) in [(*yes, ""), (*no, "!")] {
                if live(id) {
                    let join = if begin.is_empty() { "||" } else { "&&" };
                    pieces.push(Mutant(id, format!("({begin}{} {join} ", on(id))));
                }
            }
            pieces.extend([text("("), Source(span.clone()), text(")")]);
            pieces.extend([yes, no].iter().filter(|id| live(***id)).map(|_| text(")")));
        }
        pieces
    }
}

impl Binary {
    /// What there is in place of `left op right`, one mutant after the other.
    fn choices(&self, live: &dyn Fn(Id) -> bool, left: &str, right: &str) -> Vec<Piece> {
        let mut pieces = vec![];
        for (id, other) in self.others.iter().filter(|(id, _)| live(*id)) {
            pieces.push(text(format!("if {} {{ ", on(*id))));
            pieces.push(Mutant(*id, format!("{left} {other} {right}")));
            pieces.push(text(" } else "));
        }
        pieces.push(text(format!("{{ {left} {} {right} }}", self.op)));
        pieces
    }

    /// The right side is computed first, as it is for numbers; the place on the left is
    /// written once for each operator.
    fn compound(&self, live: &dyn Fn(Id) -> bool) -> Vec<Piece> {
        let mut pieces = vec![
            text("(match ("),
            Source(self.right.clone()),
            text(") { r => "),
        ];
        for (id, other) in self.others.iter().filter(|(id, _)| live(*id)) {
            pieces.push(text(format!("if {} {{ ", on(*id))));
            pieces.push(Source(self.left.clone()));
            pieces.push(Mutant(*id, format!(" {other} r")));
            pieces.push(text(" } else "));
        }
        pieces.extend([
            text("{ "),
            Source(self.left.clone()),
            text(format!(" {} r }} }})", self.op)),
        ]);
        pieces
    }
}
