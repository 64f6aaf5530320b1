//! Which names mean a transaction, where.

use std::borrow::Cow;

use proc_macro2::{Ident, TokenTree};
use syn::visit::{self, Visit};
use syn::{Expr, Pat, PatIdent};

use super::tokens::{list, name_of};

/// The names in scope that mean a transaction.
#[derive(Clone)]
pub(super) struct Names(Vec<String>);

impl Names {
    pub(super) fn new(names: impl IntoIterator<Item = Ident>) -> Self {
        Names(names.into_iter().map(|name| name.to_string()).collect())
    }

    /// The first of them.
    pub(super) fn first(&self) -> Option<&str> {
        self.0.first().map(String::as_str)
    }

    /// Whether there is one only.
    pub(super) fn is_one(&self) -> bool {
        self.0.len() == 1
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|own| own == name)
    }

    /// Whether a token is one of them.
    pub(super) fn is(&self, token: &TokenTree) -> bool {
        name_of(token).is_some_and(|name| self.has(&name.to_string()))
    }

    /// Whether any of them is in the pattern, which may bind it.
    pub(super) fn are_in(&self, pattern: &[TokenTree]) -> bool {
        self.0.iter().any(|name| is_in(name, pattern))
    }

    /// Forgets those that are in the pattern.
    pub(super) fn hide(&mut self, pattern: &[TokenTree]) {
        self.0.retain(|name| !is_in(name, pattern));
    }

    /// The transaction that the expression is, if it is just its name.
    pub(super) fn find<'a>(&self, expr: &'a Expr) -> Option<&'a Ident> {
        match expr {
            Expr::Path(path) => path.path.get_ident().filter(|name| self.has(&name.to_string())),
            Expr::Group(group) => self.find(&group.expr),
            _ => None,
        }
    }

    /// Forgets the names that the pattern gives to something else.
    pub(super) fn shadow(&mut self, pattern: &Pat) {
        let mut bound = Bound(Vec::new());
        bound.visit_pat(pattern);
        self.0.retain(|name| !bound.0.iter().any(|bound| **bound == **name));
    }
}

fn is_in(name: &str, pattern: &[TokenTree]) -> bool {
    pattern.iter().any(|token| match token {
        TokenTree::Ident(ident) => ident == name,
        TokenTree::Group(group) => is_in(name, &list(group.stream())),
        _ => false,
    })
}

struct Bound<'a>(Vec<&'a Ident>);

impl<'a> Visit<'a> for Bound<'a> {
    fn visit_pat_ident(&mut self, pattern: &'a PatIdent) {
        self.0.push(&pattern.ident);
        visit::visit_pat_ident(self, pattern);
    }
}

/// What names mean at a place of a body, and what may be done there.
#[derive(Clone)]
pub(super) struct Scope {
    pub(super) txs: Names,
    /// Parameters of the function that are a `P`.
    pub(super) pointers: Names,
    pub(super) at: At,
}

/// Where a part of a body is.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct At {
    /// Whether a loop comes to here again and again.
    pub(super) repeats: bool,
    /// Whether this is in something that may outlive the function's variables: a `move` closure.
    pub(super) moves: bool,
    /// Whether it may be that what stands here is assigned to, although no `=` follows: `(a, b) = ..`.
    pub(super) assigns: bool,
}

impl At {
    /// Whether variables of the function help with what is here.
    pub(super) fn comes_back(self) -> bool {
        self.repeats && !self.moves
    }
}

impl Scope {
    /// The same at another place.
    pub(super) fn moved_to(&self, at: At) -> Cow<'_, Scope> {
        if at == self.at { Cow::Borrowed(self) } else { Cow::Owned(Scope { at, ..self.clone() }) }
    }

    /// Whether any of its names is in the pattern.
    pub(super) fn is_in(&self, pattern: &[TokenTree]) -> bool {
        self.txs.are_in(pattern) || self.pointers.are_in(pattern)
    }

    /// Forgets those that are in the pattern.
    pub(super) fn hide(&mut self, pattern: &[TokenTree]) {
        self.txs.hide(pattern);
        self.pointers.hide(pattern);
    }
}
