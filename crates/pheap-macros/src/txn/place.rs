//! A place that can be made crash-safe by itself: `tx[key].field.0[index]`.

use proc_macro2::{Ident, Literal, TokenStream};
use syn::spanned::Spanned;
use syn::{Attribute, Expr, Lit, Member};

use super::Crate;
use super::scope::Names;
use crate::hygienic;

pub(super) struct Place<'a> {
    pub(super) tx: &'a Ident,
    pub(super) key: &'a Expr,
    pub(super) steps: Vec<Step<'a>>,
    /// The attributes of a statement are here: `syn` gives them to what the statement starts with.
    pub(super) attrs: Vec<&'a Attribute>,
}

/// One step from an object to a part of it.
pub(super) enum Step<'a> {
    Field(&'a Member),
    Element(&'a Expr),
}

impl<'a> Place<'a> {
    /// The place that `expr` names, if it starts at one of the transactions in `names`.
    pub(super) fn parse(expr: &'a Expr, names: &Names) -> Option<Self> {
        match expr {
            Expr::Paren(expr) => Place::parse(&expr.expr, names)?.with(&expr.attrs, None),
            Expr::Group(expr) => Place::parse(&expr.expr, names)?.with(&expr.attrs, None),
            Expr::Field(expr) => {
                Place::parse(&expr.base, names)?.with(&expr.attrs, Some(Step::Field(&expr.member)))
            }
            Expr::Index(expr) => match names.find(&expr.expr) {
                Some(tx) => {
                    let place = Place { tx, key: &expr.index, steps: Vec::new(), attrs: Vec::new() };
                    place.with(&expr.attrs, None)
                }
                None if may_be_usize(&expr.index) => {
                    Place::parse(&expr.expr, names)?.with(&expr.attrs, Some(Step::Element(&expr.index)))
                }
                None => None,
            },
            _ => None,
        }
    }

    fn with(mut self, attrs: &'a [Attribute], step: Option<Step<'a>>) -> Option<Self> {
        self.attrs.extend(attrs);
        self.steps.extend(step);
        Some(self)
    }

    /// The same place, crash-safe from here on. `first` is run when the right side of the assignment has been evaluated, and
    /// before anything else.
    pub(super) fn logged(&self, krate: &Crate, first: Option<&TokenStream>) -> Expr {
        let (krate, place) = (krate.at(self.tx.span()), self.described(&TokenStream::new()));
        Expr::Verbatim(hygienic!(at self.tx.span() => *{
            #first
            #krate::__private::place! { #place }
        }))
    }

    /// A statement that notes the place for the log.
    pub(super) fn announced(&self, krate: &Crate) -> TokenStream {
        let question = hygienic!(at self.tx.span() => ?);
        let (krate, place) = (krate.at(self.tx.span()), self.described(&question));
        hygienic!(at self.tx.span() => #krate::__private::place_ahead! { #place })
    }

    /// For the macros of pheap: the transaction, the key, the indices, and the steps, in which the number of an index stands for it. `element` stands behind each
    /// of these.
    fn described(&self, element: &TokenStream) -> TokenStream {
        let (tx, key) = (self.tx, self.key);
        let mut indices = TokenStream::new();
        let mut steps = TokenStream::new();
        let mut number = 0;
        for step in &self.steps {
            match step {
                Step::Field(member) => steps.extend(hygienic!(at member.span() => .#member)),
                Step::Element(index) => {
                    let which = Literal::usize_unsuffixed(number);
                    indices.extend(hygienic!(at index.span() => #index,));
                    steps.extend(hygienic!(at index.span() => [#which #element]));
                    number += 1;
                }
            }
        }
        hygienic!(at tx.span() => (#tx) (#key) [#indices] #steps)
    }
}

/// Whether `[index]` may select one element. What surely does not is left to the type's own `IndexMut`.
fn may_be_usize(index: &Expr) -> bool {
    match index {
        Expr::Range(_) | Expr::Tuple(_) | Expr::Array(_) | Expr::Struct(_) | Expr::Reference(_) => false,
        Expr::Lit(lit) => matches!(lit.lit, Lit::Int(_)),
        _ => true,
    }
}
