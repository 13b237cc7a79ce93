//! Finds the points of a source file.
//!
//! Not changed: what is there for tests, `unsafe fn`, what the compiler computes (constants,
//! types, patterns), and what stands in macros.

use crate::cfg;
use crate::point::{Binary, Id, Point, Shape, Span};
use crate::values;
use std::collections::BTreeSet;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{
    Arm, Attribute, BinOp, Block, Expr, ExprBinary, ExprUnary, Pat, Safety, Signature, Stmt, UnOp,
};

/// One change of the code.
#[derive(Clone, Debug)]
pub struct Mutant {
    /// What is done, and in which function: without the file.
    pub what: String,
    /// Line and column of the source, from 1.
    pub place: (usize, usize),
    /// Which function of the file it is in.
    pub function: usize,
}

/// A module in a file of its own: its name, the inline modules around it, `#[path]`.
pub type Submodule = Vec<String>;

/// What a file has.
#[derive(Debug, Default)]
pub struct Found {
    /// Where it can be changed.
    pub points: Vec<Point>,
    /// The changes, by number from the first one of the file.
    pub mutants: Vec<Mutant>,
    /// Its functions' names, and whether each is `const`.
    pub functions: Vec<(String, bool)>,
    /// The files that it names.
    pub submodules: Vec<Submodule>,
}

/// Finds all of a file. Its first mutant has the number `first`; calls of functions of these
/// names are not left out.
pub fn find(source: &str, first: Id, kept_calls: &BTreeSet<String>) -> syn::Result<Found> {
    let file = syn::parse_file(source)?;
    let mut finder = Finder {
        source,
        first,
        kept_calls,
        scope: vec![],
        modules: vec![],
        function: None,
        found: Found::default(),
    };
    if cfg::holds(&file.attrs) {
        finder.visit_file(&file);
    }
    Ok(finder.found)
}

struct Finder<'a> {
    source: &'a str,
    first: Id,
    kept_calls: &'a BTreeSet<String>,
    /// Modules of the file, types, traits and functions around what is visited.
    scope: Vec<String>,
    modules: Vec<String>,
    /// The innermost function, by its number.
    function: Option<usize>,
    found: Found,
}

impl Finder<'_> {
    fn words(&self, of: &impl Spanned) -> String {
        let text = self.source.get(of.span().byte_range()).unwrap_or_default();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// A change in the function that is being visited.
    fn mutant(&mut self, at: proc_macro2::Span, what: &str) -> Id {
        let what = format!("{what} in {}", self.scope.join("::"));
        self.named(at, what)
    }

    fn named(&mut self, at: proc_macro2::Span, what: String) -> Id {
        let (line, column) = (at.start().line, at.start().column + 1);
        let function = self.function.unwrap_or(0);
        self.found.mutants.push(Mutant {
            what,
            place: (line, column),
            function,
        });
        self.first + (self.found.mutants.len() - 1) as Id
    }

    fn point(&mut self, span: Span, shape: Shape) {
        self.found.points.push(Point { span, shape });
    }

    fn scoped(&mut self, name: String, visit: impl FnOnce(&mut Self)) {
        self.scope.push(name);
        visit(self);
        self.scope.pop();
    }

    fn function(&mut self, attributes: &[Attribute], signature: &Signature, block: &Block) {
        if !cfg::holds(attributes) || matches!(signature.safety, Safety::Unsafe(_)) {
            return;
        }
        let outer = self.function.replace(self.found.functions.len());
        self.found
            .functions
            .push((signature.ident.to_string(), signature.constness.is_some()));
        self.scoped(signature.ident.to_string(), |finder| {
            if let Some(word) = &signature.constness {
                let function = finder.function.unwrap_or(0);
                finder.point(word.span.byte_range(), Shape::Const { function });
            }
            finder.body(signature, block);
            let alone =
                block.stmts.len() == 1 && matches!(signature.output, syn::ReturnType::Default);
            if alone {
                // To leave it out would be to replace the body.
                visit::visit_stmt(finder, &block.stmts[0]);
            } else {
                finder.visit_block(block);
            }
        });
        self.function = outer;
    }

    fn body(&mut self, signature: &Signature, block: &Block) {
        // A default is what it is.
        if block.stmts.is_empty() || signature.ident == "default" || signature.ident == "main" {
            return;
        }
        let whole = match block.stmts.as_slice() {
            [only] => self.words(only),
            _ => String::new(),
        };
        let name = self.scope.join("::");
        let output = match &signature.output {
            syn::ReturnType::Default => String::new(),
            syn::ReturnType::Type(_, of) => format!(" -> {}", self.words(&**of)),
        };
        let at = block.stmts[0].span();
        let values: Vec<(Id, String)> = values::of_return(&signature.output)
            .into_iter()
            .filter(|value| *value != whole)
            .map(|value| {
                (
                    self.named(at, format!("replace {name}{output} with {value}")),
                    value,
                )
            })
            .collect();
        let start = block.brace_token.span.open().byte_range().end;
        self.point(start..start, Shape::Body { values });
    }

    fn binary(
        &mut self,
        node: &ExprBinary,
        op: &'static str,
        others: &[&'static str],
        shape: fn(Binary) -> Shape,
    ) {
        let at = node.op.span();
        let others = others
            .iter()
            .map(|other| {
                (
                    self.mutant(at, &format!("replace {op} with {other}")),
                    *other,
                )
            })
            .collect();
        let (left, right) = (
            node.left.span().byte_range(),
            node.right.span().byte_range(),
        );
        self.point(
            node.span().byte_range(),
            shape(Binary {
                left,
                right,
                op,
                others,
            }),
        );
    }

    /// Whether a statement is a call that may be left out, and of what.
    fn call(&self, expression: &Expr) -> Option<String> {
        let name = match expression {
            Expr::Call(call) => match &*call.func {
                Expr::Path(path) => path.path.segments.last()?.ident.to_string(),
                _ => return None,
            },
            Expr::MethodCall(call) => call.method.to_string(),
            Expr::Try(tried) => return self.call(&tried.expr),
            _ => return None,
        };
        (!self.kept_calls.contains(&name)).then_some(name)
    }
}

/// Whether an operand of `&&` is a `let`, which binds names for what follows.
fn binds(operand: &Expr) -> bool {
    match operand {
        Expr::Let(_) => true,
        Expr::Binary(binary) if matches!(binary.op, BinOp::And(_)) => {
            binds(&binary.left) || binds(&binary.right)
        }
        _ => false,
    }
}

/// Whether this names flags of a set, one or several: `Flags::A`, `Flags::A | Flags::B`.
fn are_flags(expression: &Expr) -> bool {
    match expression {
        Expr::Path(path) => {
            let name = path.path.segments.last().map(|last| last.ident.to_string());
            path.path.segments.len() > 1 && name.is_some_and(|name| name == name.to_uppercase())
        }
        Expr::Binary(binary) if matches!(binary.op, BinOp::BitOr(_)) => {
            are_flags(&binary.left) && are_flags(&binary.right)
        }
        Expr::Paren(inner) => are_flags(&inner.expr),
        _ => false,
    }
}

fn attributes(expression: &Expr) -> &[Attribute] {
    match expression {
        Expr::Block(inner) => &inner.attrs,
        Expr::Unsafe(inner) => &inner.attrs,
        Expr::If(inner) => &inner.attrs,
        Expr::Match(inner) => &inner.attrs,
        Expr::Call(inner) => &inner.attrs,
        Expr::MethodCall(inner) => &inner.attrs,
        Expr::Return(inner) => &inner.attrs,
        Expr::Assign(inner) => &inner.attrs,
        Expr::Binary(inner) => &inner.attrs,
        _ => &[],
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !cfg::holds(&item.attrs) {
            return;
        }
        let name = item.ident.to_string();
        self.modules.push(name.clone());
        if item.content.is_some() {
            self.scoped(name, |finder| visit::visit_item_mod(finder, item));
        } else {
            self.found.submodules.push(self.modules.clone());
        }
        self.modules.pop();
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if !cfg::holds(&item.attrs) {
            return;
        }
        let of = self.words(&*item.self_ty);
        let name = match &item.trait_ {
            Some((path, _)) => format!("<impl {} for {of}>", self.words(path)),
            None => of,
        };
        self.scoped(name, |finder| visit::visit_item_impl(finder, item));
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        if cfg::holds(&item.attrs) {
            self.scoped(item.ident.to_string(), |finder| {
                visit::visit_item_trait(finder, item)
            });
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&item.attrs, &item.sig, &item.block);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(&item.attrs, &item.sig, &item.block);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.function(&item.attrs, &item.sig, block);
        }
    }

    // What the compiler computes.
    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_trait_item_const(&mut self, _: &'ast syn::TraitItemConst) {}
    fn visit_item_enum(&mut self, _: &'ast syn::ItemEnum) {}
    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}
    fn visit_type(&mut self, _: &'ast syn::Type) {}
    fn visit_generic_argument(&mut self, _: &'ast syn::GenericArgument) {}
    fn visit_attribute(&mut self, _: &'ast Attribute) {}
    fn visit_pat(&mut self, _: &'ast Pat) {}

    fn visit_expr_repeat(&mut self, node: &'ast syn::ExprRepeat) {
        self.visit_expr(&node.expr);
    }

    fn visit_stmt(&mut self, statement: &'ast Stmt) {
        let there = match statement {
            Stmt::Local(local) => cfg::holds(&local.attrs),
            Stmt::Expr(expression, _) => cfg::holds(attributes(expression)),
            Stmt::Item(_) | Stmt::Macro(_) => true,
        };
        if !there {
            return;
        }
        if let Stmt::Expr(expression, Some(_)) = statement
            && attributes(expression).is_empty()
            && let Some(name) = self.call(expression)
        {
            let mutant = self.mutant(statement.span(), &format!("delete call of {name}"));
            self.point(statement.span().byte_range(), Shape::Delete { mutant });
        }
        visit::visit_stmt(self, statement);
    }

    fn visit_expr_binary(&mut self, node: &'ast ExprBinary) {
        use BinOp::*;
        use Shape::{Arithmetic, Compare, Compound};
        let logic = |binary| Shape::Logic { binary };
        match node.op {
            And(_) if binds(&node.left) || binds(&node.right) => {}
            And(_) => self.binary(node, "&&", &["||"], logic),
            Or(_) => self.binary(node, "||", &["&&"], logic),
            Eq(_) => self.binary(node, "==", &["!="], Compare),
            Ne(_) => self.binary(node, "!=", &["=="], Compare),
            Lt(_) => self.binary(node, "<", &["==", ">", "<="], Compare),
            Gt(_) => self.binary(node, ">", &["==", "<", ">="], Compare),
            Le(_) => self.binary(node, "<=", &[">", "<"], Compare),
            Ge(_) => self.binary(node, ">=", &["<", ">"], Compare),
            Add(_) => self.binary(node, "+", &["-", "*"], Arithmetic),
            Sub(_) => self.binary(node, "-", &["+", "/"], Arithmetic),
            Mul(_) => self.binary(node, "*", &["+", "/"], Arithmetic),
            Div(_) => self.binary(node, "/", &["%", "*"], Arithmetic),
            Rem(_) => self.binary(node, "%", &["/", "+"], Arithmetic),
            Shl(_) => self.binary(node, "<<", &[">>"], Arithmetic),
            Shr(_) => self.binary(node, ">>", &["<<"], Arithmetic),
            BitAnd(_) => self.binary(node, "&", &["|", "^"], Arithmetic),
            // What has no bit in common is the same by either.
            BitOr(_) if are_flags(&node.left) && are_flags(&node.right) => {
                self.binary(node, "|", &["&"], Arithmetic);
            }
            BitOr(_) => self.binary(node, "|", &["&", "^"], Arithmetic),
            BitXor(_) => self.binary(node, "^", &["|", "&"], Arithmetic),
            AddAssign(_) => self.binary(node, "+=", &["-=", "*="], Compound),
            SubAssign(_) => self.binary(node, "-=", &["+=", "/="], Compound),
            MulAssign(_) => self.binary(node, "*=", &["+=", "/="], Compound),
            DivAssign(_) => self.binary(node, "/=", &["%=", "*="], Compound),
            RemAssign(_) => self.binary(node, "%=", &["/=", "+="], Compound),
            ShlAssign(_) => self.binary(node, "<<=", &[">>="], Compound),
            ShrAssign(_) => self.binary(node, ">>=", &["<<="], Compound),
            BitAndAssign(_) => self.binary(node, "&=", &["|=", "^="], Compound),
            BitOrAssign(_) => self.binary(node, "|=", &["&=", "^="], Compound),
            BitXorAssign(_) => self.binary(node, "^=", &["|=", "&="], Compound),
            _ => {}
        }
        visit::visit_expr_binary(self, node);
    }

    fn visit_expr_unary(&mut self, node: &'ast ExprUnary) {
        let op = match node.op {
            UnOp::Not(_) => "!",
            UnOp::Neg(_) => "-",
            _ => "",
        };
        if !op.is_empty() {
            let mutant = self.mutant(node.span(), &format!("delete {op}"));
            self.point(
                node.span().byte_range(),
                Shape::Unary {
                    inner: node.expr.span().byte_range(),
                    op,
                    mutant,
                },
            );
        }
        visit::visit_expr_unary(self, node);
    }

    fn visit_expr_match(&mut self, node: &'ast syn::ExprMatch) {
        let wild = |arm: &Arm| matches!(arm.pat, Pat::Wild(_)) && cfg::holds(&arm.attrs);
        let others_serve = node.arms.iter().any(wild);
        self.visit_expr(&node.expr);
        for arm in node.arms.iter().filter(|arm| cfg::holds(&arm.attrs)) {
            self.arm(arm, others_serve && !wild(arm));
            self.visit_expr(&arm.body);
        }
    }
}

impl Finder<'_> {
    fn arm(&mut self, arm: &Arm, may_go: bool) {
        let (pattern, guard) = match &arm.pat {
            Pat::Guard(guarded) => (&*guarded.pat, Some(&*guarded.guard)),
            pattern => (pattern, None),
        };
        let whole = arm.pat.span().byte_range();
        let delete = may_go.then(|| {
            let name = self.words(pattern);
            self.mutant(pattern.span(), &format!("delete match arm {name}"))
        });
        let plain = guard.filter(|guard| !binds(guard));
        let guards = plain.map(|guard| {
            let name = self.words(guard);
            let mut forced = |to| {
                self.mutant(
                    guard.span(),
                    &format!("replace match guard {name} with {to}"),
                )
            };
            (guard.span().byte_range(), forced("true"), forced("false"))
        });
        // A guard that binds stays as it is, with its arm.
        if guard.is_none() || plain.is_some() {
            let shape = Shape::Arm {
                pattern_end: pattern.span().byte_range().end,
                guard: guards,
                delete,
            };
            self.point(whole, shape);
        }
        if let Some(guard) = guard {
            self.visit_expr(guard);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_a_set_have_no_bit_in_common() {
        let is = |text: &str| are_flags(&syn::parse_str(text).unwrap());
        assert!(is("Flags::A"));
        assert!(is("tcp::Flags::A_B | (Flags::C | Self::D)"));
        assert!(!is("Flags::A | other"));
        assert!(!is("Flags::all()"));
        assert!(!is("Phase::Open"));
        assert!(!is("MASK"));
        let mutants = |text: &str| -> Vec<String> {
            let source = format!("fn f(a: F) -> F {{ g(); {text} }}");
            let found = find(&source, 0, &BTreeSet::new()).unwrap();
            let all = found.mutants.into_iter().map(|mutant| mutant.what);
            all.filter(|what| what.starts_with("replace |")).collect()
        };
        assert_eq!(mutants("F::A | F::B"), ["replace | with & in f"]);
        assert_eq!(mutants("a | F::B").len(), 2);
    }
}
