//! The names that mean a transaction, or a pointer, in a scope.

use proc_macro2::{Ident, TokenTree};
use syn::visit::{self, Visit};
use syn::{Expr, Pat, PatIdent};

use super::tokens::{list, name_of};

/// The names in scope that mean a transaction, or those that mean a pointer.
#[derive(Clone)]
pub(super) struct ScopedNames(Vec<String>);

impl ScopedNames {
    pub(super) fn new(names: impl IntoIterator<Item = Ident>) -> Self {
        ScopedNames(names.into_iter().map(|name| name.to_string()).collect())
    }

    /// Returns the first of the names that are in scope.
    pub(super) fn first(&self) -> Option<&str> {
        self.0.first().map(String::as_str)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|own| own == name)
    }

    /// Returns whether a token is one of these names.
    pub(super) fn is(&self, token: &TokenTree) -> bool {
        name_of(token).is_some_and(|name| self.has(&name.to_string()))
    }

    /// Returns whether the pattern contains any of the names, and so may bind it.
    pub(super) fn are_in(&self, pattern: &[TokenTree]) -> bool {
        self.0.iter().any(|name| is_in(name, pattern))
    }

    /// Removes the names that the pattern contains.
    pub(super) fn hide(&mut self, pattern: &[TokenTree]) {
        self.0.retain(|name| !is_in(name, pattern));
    }

    /// Returns the identifier of an expression that is just one of the names.
    pub(super) fn find<'a>(&self, expr: &'a Expr) -> Option<&'a Ident> {
        match expr {
            Expr::Path(path) => path.path.get_ident().filter(|name| self.has(&name.to_string())),
            Expr::Group(group) => self.find(&group.expr),
            _ => None,
        }
    }

    /// Removes the names that the pattern binds to other values.
    pub(super) fn shadow(&mut self, pattern: &Pat) {
        let mut bound = PatternBindings(Vec::new());
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

struct PatternBindings<'a>(Vec<&'a Ident>);

impl<'a> Visit<'a> for PatternBindings<'a> {
    fn visit_pat_ident(&mut self, pattern: &'a PatIdent) {
        self.0.push(&pattern.ident);
        visit::visit_pat_ident(self, pattern);
    }
}
