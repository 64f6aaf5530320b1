//! Neighbouring assignments share one log entry and one fence.

use proc_macro2::TokenStream;
use syn::visit::{self, Visit};
use syn::{Expr, Stmt};

use super::Crate;
use super::place::{Place, Step};
use super::rewrite::is_assignment;
use super::scope::Names;
use crate::hygienic;

/// A run of assignments whose places are all known before the first of them.
pub(super) struct Group<'a> {
    places: Vec<Place<'a>>,
}

impl<'a> Group<'a> {
    /// The group at the start of `statements`, if there are at least two assignments in it.
    pub(super) fn at_start(statements: &'a [Stmt], names: &Names) -> Option<Self> {
        let mut places: Vec<Place<'a>> = Vec::new();
        for statement in statements {
            let Some((place, value)) = member(statement, names) else { break };
            // One transaction only: each has a log of its own.
            if places.first().is_some_and(|first| first.tx != place.tx || rebinds(value)) {
                break;
            }
            places.push(place);
        }
        (places.len() > 1).then_some(Group { places })
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// Logs all places at once. This belongs inside of the first assignment, behind its right side: a `&T` that was read
    /// before may be used there for the last time, as it may in the plain code.
    pub(super) fn announcement(&self, krate: &Crate) -> TokenStream {
        let tx = self.places[0].tx;
        let mut places: Vec<_> = self.places.iter().map(|place| place.announced(krate)).collect();
        let last = places.pop();
        let krate = krate.at(tx.span());
        hygienic!(at tx.span() => #krate::__private::place_group! { (#tx) { #(#places;)* } { #last } })
    }
}

/// The place and the right side of an assignment that can be in a group.
fn member<'a>(statement: &'a Stmt, names: &Names) -> Option<(Place<'a>, &'a Expr)> {
    let Stmt::Expr(assignment, _) = statement else { return None };
    let (left, right) = match assignment {
        Expr::Assign(assign) => (&*assign.left, &*assign.right),
        Expr::Binary(binary) if is_assignment(&binary.op) => (&*binary.left, &*binary.right),
        _ => return None,
    };
    let place = Place::parse(left, names)?;
    // `#[cfg]` may take the statement away.
    if !place.attrs.is_empty() {
        return None;
    }
    let is_fixed = is_fixed(place.key)
        && place.steps.iter().all(|step| match step {
            Step::Field(_) => true,
            Step::Element(index) => is_fixed(index),
        });
    is_fixed.then_some((place, right))
}

/// Whether an assignment to some *object* cannot change what the expression means: a variable or a literal, but not `tx[a].next`.
fn is_fixed(expr: &Expr) -> bool {
    match expr {
        Expr::Lit(_) => true,
        Expr::Path(path) => path.path.get_ident().is_some(),
        _ => false,
    }
}

/// Whether evaluating `expr` may change a *variable*, such as the key of a later assignment. What cannot be seen (a macro) counts.
fn rebinds(expr: &Expr) -> bool {
    struct Finder(bool);
    impl<'a> Visit<'a> for Finder {
        fn visit_expr(&mut self, expr: &'a Expr) {
            self.0 |= match expr {
                Expr::Assign(_) | Expr::Macro(_) => true,
                Expr::Binary(binary) => is_assignment(&binary.op),
                Expr::Reference(reference) => reference.mutability.is_some(),
                _ => false,
            };
            visit::visit_expr(self, expr);
        }

        fn visit_stmt_macro(&mut self, _: &'a syn::StmtMacro) {
            self.0 = true;
        }
    }
    let mut finder = Finder(false);
    finder.visit_expr(expr);
    finder.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use syn::{Block, parse_quote};

    /// Asserts the lengths of the groups at the start of what remains, going through the statements from the top.
    #[track_caller]
    fn assert_groups(statements: &str, expected: &[usize]) {
        let block: Block = syn::parse_str(&format!("{{ {statements} }}")).unwrap();
        let names = Names::new([parse_quote!(tx), parse_quote!(other)]);
        let mut rest = block.stmts.as_slice();
        let mut lengths = Vec::new();
        while !rest.is_empty() {
            let len = Group::at_start(rest, &names).map_or(1, |group| group.len());
            lengths.push(len);
            rest = &rest[len..];
        }
        assert_eq!(lengths, expected, "{statements}");
    }

    #[test]
    fn neighbours_share_a_group() {
        assert_groups("tx[a].x = 1; tx[b].y.z += 2; tx[c][i].0[7] = f(tx)?", &[3]);
    }

    #[test]
    fn one_assignment_is_no_group() {
        assert_groups("tx[a].x = 1; f(); tx[a].y = 2;", &[1, 1, 1]);
    }

    #[test]
    fn a_key_that_an_assignment_may_change_ends_a_group() {
        assert_groups("tx[a].x = 1; tx[a].y = 2; tx[tx[a].next].x = 3;", &[2, 1]);
        assert_groups("tx[a].v[tx[a].i] = 1; tx[a].y = 2;", &[1, 1]);
        assert_groups("tx[self.a].x = 1; tx[a].y = 2;", &[1, 1]);
    }

    #[test]
    fn a_variable_that_changes_ends_a_group() {
        assert_groups("tx[a].x = { b = c; 1 }; tx[b].y = 2;", &[2]);
        assert_groups("tx[a].x = 1; tx[b].y = { c = d; 2 }; tx[c].z = 3;", &[1, 2]);
        assert_groups("tx[a].x = 1; tx[b].y = f(&mut c); tx[c].z = 3;", &[1, 2]);
        assert_groups("tx[a].x = 1; tx[b].y = m!(c);", &[1, 1]);
    }

    #[test]
    fn transactions_and_attributes_separate() {
        assert_groups("tx[a].x = 1; other[a].x = 2; other[a].y = 3;", &[1, 2]);
        assert_groups("tx[a].x = 1; #[cfg(unix)] tx[a].y = 2;", &[1, 1]);
        assert_groups("mine[a].x = 1; mine[a].y = 2;", &[1, 1]);
    }
}
