//! Which names mean a transaction, where.

use proc_macro2::Ident;
use syn::visit::{self, Visit};
use syn::{Expr, Pat, PatIdent};

/// The names in scope that mean a transaction.
#[derive(Clone)]
pub(super) struct Names(Vec<Ident>);

impl Names {
    pub(super) fn new(names: impl IntoIterator<Item = Ident>) -> Self {
        Names(names.into_iter().collect())
    }

    /// The first of them.
    pub(super) fn first(&self) -> Option<&Ident> {
        self.0.first()
    }

    /// The transaction that the expression is, if it is just its name.
    pub(super) fn find<'a>(&self, expr: &'a Expr) -> Option<&'a Ident> {
        match expr {
            Expr::Path(path) => path.path.get_ident().filter(|name| self.0.contains(name)),
            Expr::Group(group) => self.find(&group.expr),
            _ => None,
        }
    }

    /// Forgets the names that the pattern gives to something else.
    pub(super) fn shadow(&mut self, pattern: &Pat) {
        let mut bound = Bound(Vec::new());
        bound.visit_pat(pattern);
        self.0.retain(|name| !bound.0.contains(&name));
    }

    /// Forgets the names that `if let` and `while let` conditions bind.
    pub(super) fn shadow_by_condition(&mut self, condition: &Expr) {
        struct Lets<'a>(&'a mut Names);
        impl<'ast> Visit<'ast> for Lets<'_> {
            fn visit_expr_let(&mut self, expr: &'ast syn::ExprLet) {
                self.0.shadow(&expr.pat);
            }
        }
        // Only `&&` and parentheses can be around such a `let`; what else is visited binds nothing that matters more than speed.
        Lets(self).visit_expr(condition);
    }
}

struct Bound<'a>(Vec<&'a Ident>);

impl<'a> Visit<'a> for Bound<'a> {
    fn visit_pat_ident(&mut self, pattern: &'a PatIdent) {
        self.0.push(&pattern.ident);
        visit::visit_pat_ident(self, pattern);
    }
}
