//! A place that can be made crash-safe by itself: `tx[key].field.0[index]`.

use proc_macro2::{Ident, Span, TokenStream};
use quote::format_ident;
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
    ///
    /// The key and the indices get names in the order in which Rust would evaluate them, but before the transaction is borrowed.
    pub(super) fn logged(&self, krate: &Crate, first: Option<&TokenStream>) -> Expr {
        let Parts { tx, bindings, key, object, place } = self.parts(krate, |array, index| {
            let krate = krate.at(index.span());
            hygienic!(at index.span() => (*#krate::__private::element(&raw mut #array, #index)))
        });
        let krate = krate.at(tx.span());
        Expr::Verbatim(hygienic!(at tx.span() => *{
            #first
            #bindings
            let #object = #krate::Txn::__object(#tx, #key);
            // SAFETY: the place is made of fields and `element` only: an address within the object, and no code of the user's.
            unsafe { #krate::Txn::__place(#tx, #object, &raw mut #place) }
        }))
    }

    /// A statement that notes the place for the log.
    pub(super) fn announced(&self, krate: &Crate) -> TokenStream {
        // An index out of bounds must panic where it stands, after the stores in front of it: here it announces nothing.
        let Parts { tx, bindings, key, object, place } = self.parts(krate, |array, index| {
            let krate = krate.at(index.span());
            hygienic!(at index.span() => (*#krate::__private::element_checked(&raw mut #array, #index)?))
        });
        let krate = krate.at(tx.span());
        let place = hygienic!(at tx.span() => ::core::option::Option::Some(&raw mut #place));
        // A closure for `?` only.
        let place = match self.has_elements() {
            true => hygienic!(at tx.span() => (|| #place)()),
            false => place,
        };
        hygienic!(at tx.span() => {
            #bindings
            let #object = #krate::Txn::__object(#tx, #key);
            // SAFETY: as in `logged`.
            unsafe { #krate::Txn::__ahead(#tx, #place); }
        })
    }

    fn has_elements(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::Element(_)))
    }

    fn parts(&self, krate: &Crate, element: impl Fn(&TokenStream, &Ident) -> TokenStream) -> Parts<'_> {
        let key = self.key;
        // The place of the user's expression in the source is where an error about its type belongs.
        let key_name = Ident::new("__key", Span::mixed_site().located_at(key.span()));
        let object = Ident::new("__object", Span::mixed_site());
        let krate = krate.at(key.span());
        let mut bindings = hygienic!(at key.span() => let #key_name: #krate::P<'_, _> = #key;);
        let mut place = hygienic!(at self.tx.span() => (*#object));
        for (i, step) in self.steps.iter().enumerate() {
            place = match step {
                Step::Field(member) => hygienic!(at member.span() => #place.#member),
                Step::Element(index) => {
                    let name =
                        format_ident!("__index{i}", span = Span::mixed_site().located_at(index.span()));
                    bindings
                        .extend(hygienic!(at index.span() => let #name: ::core::primitive::usize = #index;));
                    element(&place, &name)
                }
            };
        }
        Parts { tx: self.tx, bindings, key: key_name, object, place }
    }
}

struct Parts<'a> {
    tx: &'a Ident,
    /// `let key = ..; let index0 = ..;`
    bindings: TokenStream,
    key: Ident,
    /// The name of the raw pointer to the object ...
    object: Ident,
    /// ... and the place, seen from there.
    place: TokenStream,
}

/// Whether `[index]` may select one element. What surely does not is left to the type's own `IndexMut`.
fn may_be_usize(index: &Expr) -> bool {
    match index {
        Expr::Range(_) | Expr::Tuple(_) | Expr::Array(_) | Expr::Struct(_) | Expr::Reference(_) => false,
        Expr::Lit(lit) => matches!(lit.lit, Lit::Int(_)),
        _ => true,
    }
}
