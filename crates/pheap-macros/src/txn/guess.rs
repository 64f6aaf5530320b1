//! Common first attempts that do not compile, and for which the compiler has no helpful message. The names of
//! transactions and pointers are known here, so the message contains the code to write instead.

use proc_macro2::{Delimiter, Group, Ident, TokenStream, TokenTree};
use quote::ToTokens;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{
    Arm, Block, Expr, ExprCall, ExprClosure, ExprField, ExprForLoop, ExprLet, ExprMethodCall, Item, Member,
    Stmt,
};

use super::place::{PlaceExpr, PlaceProjection};
use super::scope::ScopedNames;
use super::tokens::{is_group, is_punct, is_word, list};
use crate::errors::Errors;

/// Returns errors for first attempts in the body. `txs` are the names that mean a transaction in the body,
/// and `pointers` those that mean a `P`.
pub(super) fn check(txs: &ScopedNames, pointers: &ScopedNames, body: &TokenStream) -> syn::Result<()> {
    let braces = TokenTree::from(Group::new(Delimiter::Brace, body.clone()));
    // If the body is not valid Rust, the compiler reports the error.
    let Ok(block) = syn::parse2::<Block>(braces.into()) else { return Ok(()) };
    let mut guesses = Guesses { txs: txs.clone(), pointers: pointers.clone(), errors: Errors::default() };
    guesses.visit_block(&block);
    guesses.errors.into_result()
}

/// Returns whether a first attempt may begin at the start of `tokens`: a field of a pointer, or a `&mut
/// tx[..]` among arguments. `word` is the first token if that is an identifier, and empty otherwise. `within`
/// is the kind of the brackets around the tokens. A body is parsed only if this returns true, because parsing
/// is slow.
pub(super) fn may_begin(
    word: &str,
    tokens: &[TokenTree],
    within: Delimiter,
    txs: &ScopedNames,
    pointers: &ScopedNames,
) -> bool {
    match tokens {
        [and, mutable, name, ..] if is_punct(and, '&') && is_word(mutable, "mut") => {
            within == Delimiter::Parenthesis && txs.is(name)
        }
        [name, dot, _, rest @ ..] if is_punct(dot, '.') => {
            let is_method = rest.first().is_some_and(|next| is_group(next, Delimiter::Parenthesis));
            !is_method && if word.is_empty() { pointers.is(name) } else { pointers.has(word) }
        }
        _ => false,
    }
}

struct Guesses {
    txs: ScopedNames,
    pointers: ScopedNames,
    errors: Errors,
}

impl Guesses {
    /// Runs `visit`. Afterwards restores the names that `visit` has hidden.
    fn scoped(&mut self, visit: impl FnOnce(&mut Self)) {
        let (txs, pointers) = (self.txs.clone(), self.pointers.clone());
        visit(self);
        (self.txs, self.pointers) = (txs, pointers);
    }

    fn shadow(&mut self, pattern: &syn::Pat) {
        self.txs.shadow(pattern);
        self.pointers.shadow(pattern);
    }

    /// For `pointer.field.field`, returns the pointer and the fields.
    fn field_of_pointer<'a>(&self, expr: &'a Expr) -> Option<(&'a Ident, Vec<&'a Member>)> {
        let Expr::Field(ExprField { base, member, .. }) = expr else { return None };
        if let Some(pointer) = self.pointers.find(base) {
            return Some((pointer, vec![member]));
        }
        let (pointer, mut members) = self.field_of_pointer(base)?;
        members.push(member);
        Some((pointer, members))
    }

    /// Returns a name of the transaction for messages.
    fn tx(&self) -> String {
        self.txs.first().unwrap_or("tx").to_owned()
    }

    /// For `&mut tx[key].field`, returns the transaction, and the code of a pointer to the field.
    fn borrowed(&self, expr: &Expr) -> Option<(Ident, String)> {
        let Expr::Reference(reference) = expr else { return None };
        reference.mutability?;
        let place = PlaceExpr::all_of(reference.expr.to_token_stream(), &self.txs)?;
        let (key, fields) = (text(&place.key), fields(&place.steps)?);
        let is_name = matches!(&list(place.key)[..], [TokenTree::Ident(_)]);
        let pointer = match (fields.is_empty(), is_name) {
            (true, _) => key,
            (false, true) => format!("field!({key}{fields})"),
            (false, false) => format!("field!(({key}){fields})"),
        };
        Some((place.tx, pointer))
    }
}

/// Returns the fields as `.field.0`, or `None` if the steps contain an index.
fn fields(steps: &[PlaceProjection]) -> Option<String> {
    let step = |step: &PlaceProjection| match step {
        PlaceProjection::Field(member) => Some(format!(".{}", text(member))),
        PlaceProjection::Element(_) => None,
    };
    steps.iter().map(step).collect()
}

/// Returns code as text, without most of the spaces that the printed form of tokens contains.
fn text(code: &impl ToTokens) -> String {
    let shown = code.to_token_stream().to_string();
    let mut text = shown.replace(" . ", ".").replace(" (", "(").replace(" [", "[").replace(" ;", ";");
    for (spaced, close) in
        [("( ", "("), (" )", ")"), ("[ ", "["), (" ]", "]"), ("& ", "&"), (" ,", ","), (" :: ", "::")]
    {
        text = text.replace(spaced, close);
    }
    text
}

impl<'ast> Visit<'ast> for Guesses {
    fn visit_expr_method_call(&mut self, call: &'ast ExprMethodCall) {
        let method = &call.method;
        if let Some((pointer, members)) = self.field_of_pointer(&call.receiver) {
            let path: String = members.iter().map(|member| format!(".{}", text(member))).collect();
            let takes_tx = call.args.first().is_some_and(|first| self.txs.find(first).is_some());
            let instead = match takes_tx {
                true => format!("use `field!({pointer}{path}).{method}({}, ..)`", self.tx()),
                false => format!("use `{}[{pointer}]{path}.{method}(..)`", self.tx()),
            };
            self.errors.at(
                call.receiver.span(),
                format_args!("`{pointer}` is a pointer, which has no fields: {instead}"),
            );
            return call.args.iter().for_each(|arg| self.visit_expr(arg));
        }
        if let Some(tx) = self.txs.find(&call.receiver)
            && let Some(arg) = call.args.iter().find(|arg| BorrowsMut::is_in(arg, &self.txs))
        {
            self.errors.at(
                arg.span(),
                format_args!(
                    "`{tx}.{method}` borrows `{tx}` before this argument does: use `let value = {}; \
                     {tx}.{method}(value)`",
                    text(arg)
                ),
            );
            return;
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_expr_field(&mut self, field: &'ast ExprField) {
        if let Some(pointer) = self.pointers.find(&field.base) {
            self.errors.at(
                field.span(),
                format_args!(
                    "`{pointer}` is a pointer, which has no fields: use `{}[{pointer}].{}`",
                    self.tx(),
                    text(&field.member)
                ),
            );
        } else {
            visit::visit_expr_field(self, field);
        }
    }

    fn visit_expr_call(&mut self, call: &'ast ExprCall) {
        let is_swap = match &*call.func {
            Expr::Path(path) => path.path.segments.last().is_some_and(|last| last.ident == "swap"),
            _ => false,
        };
        if is_swap
            && let [one, other] = &call.args.iter().collect::<Vec<_>>()[..]
            && let (Some((tx, one)), Some((same, other))) = (self.borrowed(one), self.borrowed(other))
            && tx == same
        {
            self.errors.at(
                call.span(),
                format_args!("a transaction lends one place at a time: use `{tx}.swap({one}, {other})`"),
            );
            return;
        }
        visit::visit_expr_call(self, call);
    }

    fn visit_block(&mut self, block: &'ast Block) {
        self.scoped(|this| {
            for statement in &block.stmts {
                this.visit_stmt(statement);
                match statement {
                    Stmt::Local(local) => this.shadow(&local.pat),
                    // The called macro may bind the names in its arguments to other values.
                    Stmt::Macro(call) => this.pointers.hide(&list(call.mac.tokens.clone())),
                    _ => {}
                }
            }
        });
    }

    fn visit_expr_closure(&mut self, closure: &'ast ExprClosure) {
        self.scoped(|this| {
            closure.inputs.iter().for_each(|input| this.shadow(input));
            this.visit_expr(&closure.body);
        });
    }

    fn visit_arm(&mut self, arm: &'ast Arm) {
        self.scoped(|this| {
            this.shadow(&arm.pat);
            visit::visit_arm(this, arm);
        });
    }

    fn visit_expr_for_loop(&mut self, expr: &'ast ExprForLoop) {
        self.visit_expr(&expr.expr);
        self.scoped(|this| {
            this.shadow(&expr.pat);
            this.visit_block(&expr.body);
        });
    }

    fn visit_expr_if(&mut self, expr: &'ast syn::ExprIf) {
        self.scoped(|this| {
            this.visit_expr(&expr.cond);
            this.visit_block(&expr.then_branch);
        });
        if let Some((_, otherwise)) = &expr.else_branch {
            self.visit_expr(otherwise);
        }
    }

    fn visit_expr_while(&mut self, expr: &'ast syn::ExprWhile) {
        self.scoped(|this| {
            this.visit_expr(&expr.cond);
            this.visit_block(&expr.body);
        });
    }

    /// The names that the pattern binds are in scope in the rest of the condition.
    fn visit_expr_let(&mut self, expr: &'ast ExprLet) {
        self.visit_expr(&expr.expr);
        self.shadow(&expr.pat);
    }

    /// Skips a nested item: its names are separate.
    fn visit_item(&mut self, _: &'ast Item) {}
}

/// Searches an expression for `&mut tx[..]`.
struct BorrowsMut<'a> {
    txs: &'a ScopedNames,
    found: bool,
}

impl BorrowsMut<'_> {
    fn is_in(expr: &Expr, txs: &ScopedNames) -> bool {
        let mut this = BorrowsMut { txs, found: false };
        this.visit_expr(expr);
        this.found
    }
}

impl<'ast> Visit<'ast> for BorrowsMut<'_> {
    fn visit_expr_reference(&mut self, reference: &'ast syn::ExprReference) {
        self.found |= reference.mutability.is_some()
            && PlaceExpr::all_of(reference.expr.to_token_stream(), self.txs).is_some();
        visit::visit_expr_reference(self, reference);
    }

    /// Skips a closure: it borrows only when it is called.
    fn visit_expr_closure(&mut self, _: &'ast ExprClosure) {}
    fn visit_item(&mut self, _: &'ast Item) {}
}

/// Returns the messages about a body.
#[cfg(test)]
fn messages(txs: &[&str], pointers: &[&str], body: &str) -> Vec<String> {
    let names = |names: &[&str]| ScopedNames::new(names.iter().map(|name| quote::format_ident!("{name}")));
    let error = check(&names(txs), &names(pointers), &body.parse().expect("a body")).err();
    error.into_iter().flatten().map(|error| error.to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::messages;

    fn of(body: &str) -> String {
        messages(&["tx"], &["q"], body).join("\n")
    }

    #[test]
    fn pointers_have_no_fields() {
        assert!(of("q.jobs.insert(tx, 5, 6)?;").contains("use `field!(q.jobs).insert(tx, ..)`"));
        assert!(of("q.shop.jobs.insert(tx, 5)?;").contains("use `field!(q.shop.jobs).insert(tx, ..)`"));
        assert!(of("let n = q.name.len();").contains("use `tx[q].name.len(..)`"));
        assert!(of("q.count += 1;").contains("use `tx[q].count`"));
        assert_eq!(
            of("tx[q].count += 1; field!(q.jobs).insert(tx, 5)?; q.push(tx, 3); q.at(3); r.field = 3;"),
            ""
        );
        assert_eq!(of("let q = tx[q]; q.count += 1;"), "");
        assert_eq!(of("for q in list { q.count += 1; } if let Some(q) = x { q.y(); q.z; }"), "");
        assert_eq!(of("bind!(q = tx[q].pair); q.count += 1;"), "");
        assert!(of("{ bind!(q = tx[q].pair); } bind!(r); q.count += 1;").contains("use `tx[q].count`"));
    }

    #[test]
    fn a_condition_binds_names_for_what_is_behind() {
        assert_eq!(of("if let Some(q) = tx[q].pair && q.a > 3 && let Some(r) = q.b { q.c; }"), "");
        assert_eq!(of("while let Some(q) = tx[q].pair && (q.a > 3) { q.c; }"), "");
        assert_eq!(of("match x { Some(q) if q.a > 3 => q.c, _ => y }"), "");
        assert!(of("if x == q.a && let Some(q) = y {}").contains("use `tx[q].a`"));
        assert!(of("if let Some(q) = q.a {}").contains("use `tx[q].a`"));
        assert!(of("if let Some(q) = x && y {} else { q.a; }").contains("use `tx[q].a`"));
    }

    #[test]
    fn places_are_lent_one_at_a_time() {
        assert!(
            of("mem::swap(&mut tx[a].x, &mut tx[b].y.z);")
                .contains("use `tx.swap(field!(a.x), field!(b.y.z))`")
        );
        assert!(of("swap(&mut tx[a], &mut tx[b]);").contains("use `tx.swap(a, b)`"));
        assert!(of("swap(&mut tx[a.f()].x, &mut tx[b]);").contains("use `tx.swap(field!((a.f()).x), b)`"));
        assert_eq!(of("swap(&mut x, &mut tx[b]); tx.swap(a, b);"), "");
    }

    #[test]
    fn what_changes_something_comes_first() {
        let said = of("tx.alloc(take(&mut tx[p]))?;");
        assert!(said.contains("use `let value = take(&mut tx[p]); tx.alloc(value)`"), "{said}");
        assert_eq!(
            of("tx.alloc(tx[p])?; tx.alloc(f(|tx| &mut tx[p]))?; list.push(tx, take(&mut tx[p]))?;"),
            ""
        );
    }
}
