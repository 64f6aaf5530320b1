//! Finds the assignments in a body, and rewrites them.
//!
//! This file reads tokens, because a parser of expressions would make each build slower. So it sees less than
//! a parser would. The search takes no other code for an assignment, and no other name for a transaction
//! (unless a macro has bound the name to another value). But it may overlook assignments. Overlooked
//! assignments are still correct, because `tx[p]` makes the whole object crash-safe.

use std::borrow::Cow;
use std::cell::Cell;

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

use super::PheapPath;
use super::guess;
use super::pair::AssignmentPair;
use super::place::{PlaceExpr, assignment};
use super::scope::ScopedNames;
use super::tokens::{is_group, is_punct, is_word, list, until};

/// Rewrites the assignments to places of the transactions in `txs`. `pointers` are the names that mean a `P`.
///
/// A wrong rewrite, for instance of a name that a macro has bound to another value, is a type error and never
/// an unsound program. The expansion calls macros of pheap, which are safe for all arguments.
///
/// # Errors
/// Messages about first attempts that do not compile; see [`guess`].
pub(super) fn rewrite(
    krate: &PheapPath,
    txs: &ScopedNames,
    pointers: &ScopedNames,
    body: TokenStream,
) -> syn::Result<TokenStream> {
    let rewriter = Rewriter { krate, txs, pointers, looks_guessed: Cell::new(false) };
    let rewritten = rewriter.content(&body, txs, Delimiter::Brace);
    if rewriter.looks_guessed.get() {
        guess::check(txs, pointers, &body)?;
    }
    Ok(rewritten.unwrap_or(body))
}

struct Rewriter<'a> {
    krate: &'a PheapPath,
    txs: &'a ScopedNames,
    pointers: &'a ScopedNames,
    /// Whether the tokens may contain a first attempt that does not compile.
    looks_guessed: Cell<bool>,
}

impl Rewriter<'_> {
    /// Rewrites the content of a pair of brackets. `txs` are the names that mean a transaction there. Returns
    /// `None` if there is nothing to rewrite, so that the tokens stay unchanged.
    fn content(&self, tokens: &TokenStream, txs: &ScopedNames, delimiter: Delimiter) -> Option<TokenStream> {
        let tokens = list(tokens.clone());
        let mut txs = Cow::Borrowed(txs);
        let mut out = Vec::with_capacity(tokens.len());
        let mut changed = false;
        // The index behind the last pair of assignments.
        let mut pair_end = 0;
        // The index behind the parameters of the last closure.
        let mut parameters_end = 0;
        let mut at = 0;
        while at < tokens.len() {
            let (before, rest) = tokens.split_at(at);
            // Converts the identifier to a string once, because each conversion allocates memory.
            let word = if let TokenTree::Ident(word) = &rest[0] { word.to_string() } else { String::new() };
            let is_body = at == parameters_end;
            let pattern = pattern(&word, before, rest);
            if (word.is_empty() || txs.has(&word))
                && (is_body || begins_expression(before))
                && let Some((mut place, len)) = PlaceExpr::at_start(rest, &txs)
                && assignment(&rest[len..]).is_some()
            {
                // A pair must begin at a statement: a closure or a match arm ends before the next assignment.
                let may_pair = at >= pair_end && begins_statement(before);
                let pair = if may_pair { AssignmentPair::at_start(rest, &txs) } else { None };
                if let Some(pair) = &pair {
                    pair_end = at + pair.tokens;
                }
                place.replace(|tokens| self.content(tokens, &txs, Delimiter::Bracket));
                out.extend(place.logged(self.krate, pair.as_ref()));
                changed = true;
                at += len;
                continue;
            }
            let is_closure = is_punct(&rest[0], '|') && (is_body || begins_closure(before));
            let parameters = if is_closure { parameters(rest) } else { None };
            let (untouched, pattern) = match parameters {
                Some(parameters) => {
                    parameters_end = at + parameters.len() + 2;
                    (parameters.len() + 2, parameters)
                }
                None => (untouched(&word, rest), pattern),
            };
            if txs.are_in(pattern) {
                txs.to_mut().hide(pattern);
            }
            if untouched > 0 {
                at = tokens.len().min(at + untouched);
                out.extend_from_slice(&rest[..at - before.len()]);
                continue;
            }
            if guess::may_begin(&word, rest, delimiter, self.txs, self.pointers) {
                self.looks_guessed.set(true);
            }
            out.push(match &rest[0] {
                TokenTree::Group(group) => {
                    // Brackets within the parentheses of arguments count as arguments, too.
                    let inside =
                        if delimiter == Delimiter::Parenthesis { delimiter } else { group.delimiter() };
                    match self.content(&group.stream(), &txs, inside) {
                        Some(content) => {
                            changed = true;
                            let mut new = Group::new(group.delimiter(), content);
                            new.set_span(group.span());
                            new.into()
                        }
                        None => rest[0].clone(),
                    }
                }
                token => token.clone(),
            });
            at += 1;
        }
        changed.then(|| out.into_iter().collect())
    }
}

/// Returns whether an expression that is not part of a larger one may begin behind these tokens.
fn begins_expression(before: &[TokenTree]) -> bool {
    begins_statement(before)
        || match before {
            [.., equals, more] if is_punct(equals, '=') && is_punct(more, '>') => true,
            [.., last] => is_punct(last, ','),
            [] => true,
        }
}

/// Returns whether a statement may begin behind these tokens.
fn begins_statement(before: &[TokenTree]) -> bool {
    before.last().is_none_or(|last| is_punct(last, ';') || is_group(last, Delimiter::Brace))
}

/// Returns whether a `|` behind these tokens begins a closure. Otherwise it is an operator.
fn begins_closure(before: &[TokenTree]) -> bool {
    match before {
        [] => true,
        [before @ .., hash, attribute] if is_punct(hash, '#') && is_group(attribute, Delimiter::Bracket) => {
            begins_closure(before)
        }
        [.., quote, TokenTree::Ident(_)] if is_punct(quote, '\'') => true, // a label: `break 'label |x| x`
        [.., TokenTree::Ident(word)] => KEYWORDS.iter().any(|keyword| word == keyword),
        [.., TokenTree::Punct(last)] => !matches!(last.as_char(), '|' | '?'),
        [.., last] => is_group(last, Delimiter::Brace),
    }
}

/// Returns the tokens between the `|` at the start and the next `|`. Returns `None` if they contain a `=>`:
/// then they are alternatives of patterns.
fn parameters(rest: &[TokenTree]) -> Option<&[TokenTree]> {
    let parameters = until(&rest[1..], |token| is_punct(token, '|') || is_punct(token, ';'));
    let has_arrow = parameters.windows(2).any(|pair| is_punct(&pair[0], '=') && is_punct(&pair[1], '>'));
    rest.get(parameters.len() + 1).filter(|end| is_punct(end, '|') && !has_arrow).map(|_| parameters)
}

/// Returns the number of tokens at the start that must not change: a nested function, whose names are
/// separate; a call of a macro; or an attribute. `word` is the first token if that is an identifier.
fn untouched(word: &str, rest: &[TokenTree]) -> usize {
    match rest {
        [_, TokenTree::Ident(_), ..] if word == "fn" => {
            // Ignores the braces of a type argument, such as the `{ N }` of `Type<{ N }>`.
            let is_argument = |next: &TokenTree| is_punct(next, '>') || is_punct(next, ',');
            let is_end = |&i: &usize| {
                is_punct(&rest[i], ';')
                    || is_group(&rest[i], Delimiter::Brace) && !rest.get(i + 1).is_some_and(is_argument)
            };
            (0..rest.len()).find(is_end).map_or(rest.len(), |end| end + 1)
        }
        [TokenTree::Ident(_), not, TokenTree::Group(_), ..]
            if is_punct(not, '!') && !KEYWORDS.contains(&word) =>
        {
            3
        }
        [TokenTree::Ident(_), not, TokenTree::Ident(_), TokenTree::Group(_), ..] if is_punct(not, '!') => 4,
        [hash, TokenTree::Group(_), ..] if is_punct(hash, '#') => 2,
        _ => 0,
    }
}

/// Keywords that an expression can follow, so a `!` behind them does not make a call of a macro.
const KEYWORDS: [&str; 9] = ["if", "while", "match", "return", "break", "in", "else", "move", "async"];

/// Returns the pattern that begins behind the first token of `rest` or ends in front of it. `word` is that
/// token if it is an identifier. The names that the pattern binds are hidden up to the end of these tokens.
/// That is all of their scope, and often more (for `for`, `if let` or a match arm), so no other name is
/// rewritten by mistake.
fn pattern<'a>(word: &str, before: &'a [TokenTree], rest: &'a [TokenTree]) -> &'a [TokenTree] {
    match rest {
        [_, rest @ ..] if word == "let" => until(rest, |token| is_punct(token, '=') || is_punct(token, ';')),
        [_, rest @ ..] if word == "for" => {
            let pattern = until(rest, |token| is_word(token, "in"));
            // `impl Trait for Type` and `for<'a>` are no loops.
            if pattern.len() == rest.len() { &[] } else { pattern }
        }
        // The pattern of a match arm, up to its guard.
        [equals, more, ..] if is_punct(equals, '=') && is_punct(more, '>') => {
            until(&before[arm(before)..], |token| is_word(token, "if"))
        }
        _ if word == "if" && ends_pattern(before) => &before[arm(before)..],
        _ => &[],
    }
}

/// Returns whether these tokens end with a pattern, so that an `if` behind them begins a guard. It overlooks
/// a pattern that ends with `}`, because it looks like a statement.
fn ends_pattern(before: &[TokenTree]) -> bool {
    match before {
        // An `if` behind a label begins no guard: `break 'label if c { 1 } else { 2 }`.
        [.., quote, TokenTree::Ident(_)] if is_punct(quote, '\'') => false,
        [.., TokenTree::Ident(word)] => !KEYWORDS.iter().any(|keyword| word == keyword),
        [.., TokenTree::Literal(_)] => true,
        [.., last] => is_group(last, Delimiter::Parenthesis),
        [] => false,
    }
}

/// Returns the index at which the arm begins whose `=>` or guard is behind these tokens.
fn arm(before: &[TokenTree]) -> usize {
    let ends_arm = |i: usize| match &before[i..] {
        [token, ..] if is_punct(token, ',') => true,
        // The `{ .. }` of the previous arm, not of `Point { x, y }`.
        [body, next, ..] => is_group(body, Delimiter::Brace) && !is_punct(next, '|') && !is_word(next, "if"),
        _ => false,
    };
    (0..before.len()).rev().find(|&i| ends_arm(i)).map_or(0, |end| end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proc_macro2::{Ident, Span};
    use quote::quote;

    /// Asserts the number of rewritten assignments in the statements.
    #[track_caller]
    fn assert_places(statements: &str, expected: usize) {
        assert_calls(":: place !", statements, expected);
    }

    /// Asserts the number of occurrences of `of` in the rewritten statements.
    #[track_caller]
    fn assert_calls(of: &str, statements: &str, expected: usize) {
        let names = |name| ScopedNames::new([Ident::new(name, Span::call_site())]);
        let body = statements.parse().expect("tokens");
        let krate = PheapPath(list(quote!(::pheap)));
        let rewritten = rewrite(&krate, &names("tx"), &names("q"), body).expect("no guesses").to_string();
        assert_eq!(rewritten.matches(of).count(), expected, "{statements}\n{rewritten}");
    }

    #[test]
    fn assignments_to_places_are_rewritten() {
        assert_places(
            "tx[a].x = 1; tx[a].x += 1; tx[a].x <<= 1; tx[a] = b; tx[a].0.1[i].y |= 1; (tx[a].x).y = 3",
            6,
        );
        assert_places("if c { tx[a].x = 1 } else { tx[a].x = 2 } tx[a].x = 3; while c { tx[a].x = 4; }", 4);
        assert_places(
            "match c { A => tx[a].x = 1, B if tx[b].y == 2 => { tx[a].x = 2 } C { y } => {} _ => tx[a].x = y | 1 }",
            3,
        );
        assert_places(
            "let set = |x| tx[a].x = x; f(|| tx[a].x = 1, move || { tx[a].x = 2 }); tx[a].x = y | z || w; tx[a].x = 4;",
            5,
        );
        assert_places("tx[{ tx[b].x = 1; b }].x[if c { tx[b].y = 2; 0 } else { 1 }] = 3;", 3);
        assert_places(
            "let x: [Box<dyn Iterator<Item = u8>>; 1] = [y]; unsafe { tx[a].x = 1 } if !(c) { tx[a].x = 1 }",
            2,
        );
        assert_places(
            "match y { A { x } | B { x } => { tx[a].x = x } C => tx[a].x = 1, D | E => tx[a].x = 2, }",
            3,
        );
        assert_places("if let A { x } | B { x } = y { tx[a].x = x } f(c | d);", 1);
        assert_places("tx[a].x = f(tx)? | g(tx)? | h; tx[a].y = 1;", 2);
        assert_places("for i in 0..n { tx[a].x[i] = 1; } let f = fn_of::<fn(u64)>(g); tx[a].x = 1;", 2);
    }

    #[test]
    fn what_only_looks_like_one_is_not() {
        assert_places("tx[a].x == 1; tx[a].x <= 1; tx[a].x >= 1; tx[a].x != 1; tx[a].x; f(tx[a].x << 1)", 0);
        assert_places(
            "*tx[a].x = 1; tx[a].f().x = 1; other.tx[a].x = 1; mine[a].x = 1; tx.x = 1; tx[a]?.x = 1;",
            0,
        );
        assert_places(
            "(tx[a].x, tx[b].x) = (1, 2); tx[a].x[1..2] = y; tx[a].x[(1, 2)] = y; tx[a].x[&k] = y;",
            0,
        );
        assert_places(
            "tx[a].x[\"key\"] = y; tx[a].x[[0, 1]] = y; tx[a].x[At { x, y }] = y; tx[a].x[1.5] = y;",
            0,
        );
        assert_places(
            "m!(tx[a].x = 1); m! { tx[a].x = 1 } fn f(tx: &mut Txn) { tx[a].x = 1; } #[cfg(x)] tx[a].x = 1;",
            0,
        );
    }

    #[test]
    fn a_name_that_means_something_else_is_left_alone() {
        assert_places("tx[a].x = 1; let tx = f(tx); tx[a].x = 2;", 1);
        assert_places("{ let (y, mut tx) = f(); tx[0] = 2; } tx[a].x = 1;", 1);
        assert_places("if let Some(tx) = y { tx[0] = 2; }", 0);
        assert_places("for (i, tx) in list { tx[0] = 2; }", 0);
        assert_places(
            "f(|tx| tx[0] = 1); f(|(a, tx), b| { tx[0] = 1 }); f(|x| |tx| tx[0] = x); tx[a].x = 1",
            1,
        );
        assert_places(
            "match y { Some(tx) => tx[0] = 1, At { tx, .. } if c => { tx[0] = 2 } | tx => tx[0] = 3 }",
            0,
        );
        assert_places("f(|it: &mut dyn Iterator<Item = u8>, tx: &mut [u8]| { tx[0] = 1; })", 0);
        assert_places("f(#[inline] |tx: &mut [u8]| { tx[0] = 1; }); break 'a |tx: &mut [u8]| tx[0] = 1", 0);
        assert_places("f(async |tx: &mut [u8]| { tx[0] = 1; }); f(async move |tx: &mut [u8]| tx[0] = 1)", 0);
        assert_places("fn f(tx: &mut [u8]) -> Sized<{ N }, { M }> { tx[0] = 1; }", 0);
        assert_places(
            "match y { (tx, n) if { tx[0] = 1; n } => {} tx if f(tx[0] = 1) => {} _ if { tx[a].x = 1; c } => {} }",
            0,
        );
        assert_places(
            "f(tx); return if c { tx[a].x = 1 }; 'l: { break 'l if c { tx[a].x = 1 } } x = if c { tx[a].x = 1 };",
            3,
        );
        assert_places(
            "match y { A => { tx[a].x = 1 } B => if c { tx[a].x = 2 } else { tx[a].x = 3 } C => {} }",
            3,
        );
    }

    #[test]
    fn a_pair_begins_at_a_statement() {
        let assert_pairs = |statements, expected| assert_calls("place ! { pair", statements, expected);
        assert_pairs("tx[a].x = 1; tx[b].y = 2;", 1);
        assert_pairs(
            "f(); tx[a].x = 1; tx[b].y = 2; if c { tx[a].x = 1; tx[b].y = 2 } tx[a].x = 1; tx[b].y = 2",
            3,
        );
        // The closure ends before the second assignment.
        assert_pairs("let f = || tx[a].x = 1; tx[b].y = 2;", 0);
        assert_pairs("let f = move |x| tx[a].x = x; tx[b].y = 2; tx[c].z = 3;", 1);
        assert_pairs("let f = |x, y| { tx[a].x = x; tx[b].y = y; };", 1);
    }

    #[test]
    fn what_has_nothing_to_rewrite_stays_as_it_is() {
        let names = ScopedNames::new([Ident::new("tx", Span::call_site())]);
        let krate = PheapPath(list(quote!(::pheap)));
        let body: TokenStream = "let x = tx[a].x; { f(x) }".parse().unwrap();
        let same = rewrite(&krate, &names, &names, body.clone()).unwrap();
        assert_eq!(same.to_string(), body.to_string());
    }
}
