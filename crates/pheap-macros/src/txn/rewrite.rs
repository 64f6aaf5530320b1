//! Walks a body and rewrites its assignments.

use proc_macro2::TokenStream;
use syn::visit_mut::{self, VisitMut};
use syn::{Arm, Attribute, BinOp, Block, Expr, ExprClosure, ExprForLoop, ExprIf, ExprWhile, Item, Stmt};

use super::Crate;
use super::group::Group;
use super::place::Place;
use super::scope::Names;

/// Rewrites the assignments to places of the transactions in `names`.
///
/// A rewrite that is wrong (say, a macro has given a name to something else) is a type error, never an unsound program: what is
/// emitted calls macros of pheap, which are safe whatever they are given.
pub(super) fn rewrite(krate: &Crate, names: Names, body: &mut Block) {
    Rewriter { krate, names, first: None }.visit_block_mut(body);
}

pub(super) fn is_assignment(op: &BinOp) -> bool {
    use BinOp::*;
    matches!(
        op,
        AddAssign(_)
            | SubAssign(_)
            | MulAssign(_)
            | DivAssign(_)
            | RemAssign(_)
            | BitXorAssign(_)
            | BitAndAssign(_)
            | BitOrAssign(_)
            | ShlAssign(_)
            | ShrAssign(_)
    )
}

struct Rewriter<'a> {
    krate: &'a Crate,
    names: Names,
    /// What the statement that comes next has to do for its group.
    first: Option<TokenStream>,
}

impl Rewriter<'_> {
    /// Runs `visit`, and forgets which names it has hidden.
    fn scoped(&mut self, visit: impl FnOnce(&mut Self)) {
        let names = self.names.clone();
        visit(self);
        self.names = names;
    }

    fn rewrite_left(&self, attrs: &mut Vec<Attribute>, left: &mut Expr, first: Option<TokenStream>) {
        if let Some(place) = Place::parse(left, &self.names) {
            attrs.extend(place.attrs.iter().copied().cloned());
            *left = place.logged(self.krate, first.as_ref());
        }
    }
}

impl VisitMut for Rewriter<'_> {
    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        let first = self.first.take();
        visit_mut::visit_expr_mut(self, expr);
        match expr {
            Expr::Assign(assign) => self.rewrite_left(&mut assign.attrs, &mut assign.left, first),
            Expr::Binary(binary) if is_assignment(&binary.op) => {
                self.rewrite_left(&mut binary.attrs, &mut binary.left, first);
            }
            _ => {}
        }
    }

    fn visit_block_mut(&mut self, block: &mut Block) {
        self.scoped(|this| {
            let mut grouped = 0;
            for i in 0..block.stmts.len() {
                if i >= grouped
                    && let Some(group) = Group::at_start(&block.stmts[i..], &this.names)
                {
                    grouped = i + group.len();
                    this.first = Some(group.announcement(this.krate));
                }
                let statement = &mut block.stmts[i];
                this.visit_stmt_mut(statement);
                if let Stmt::Local(local) = statement {
                    this.names.shadow(&local.pat);
                }
            }
        });
    }

    fn visit_expr_closure_mut(&mut self, closure: &mut ExprClosure) {
        self.scoped(|this| {
            closure.inputs.iter().for_each(|input| this.names.shadow(input));
            this.visit_expr_mut(&mut closure.body);
        });
    }

    fn visit_arm_mut(&mut self, arm: &mut Arm) {
        self.scoped(|this| {
            this.names.shadow(&arm.pat);
            visit_mut::visit_arm_mut(this, arm);
        });
    }

    fn visit_expr_for_loop_mut(&mut self, expr: &mut ExprForLoop) {
        self.visit_expr_mut(&mut expr.expr);
        self.scoped(|this| {
            this.names.shadow(&expr.pat);
            this.visit_block_mut(&mut expr.body);
        });
    }

    fn visit_expr_if_mut(&mut self, expr: &mut ExprIf) {
        self.visit_expr_mut(&mut expr.cond);
        self.scoped(|this| {
            this.names.shadow_by_condition(&expr.cond);
            this.visit_block_mut(&mut expr.then_branch);
        });
        if let Some((_, otherwise)) = &mut expr.else_branch {
            self.visit_expr_mut(otherwise);
        }
    }

    fn visit_expr_while_mut(&mut self, expr: &mut ExprWhile) {
        self.visit_expr_mut(&mut expr.cond);
        self.scoped(|this| {
            this.names.shadow_by_condition(&expr.cond);
            this.visit_block_mut(&mut expr.body);
        });
    }

    /// A nested item has names of its own.
    fn visit_item_mut(&mut self, _: &mut Item) {}
}
