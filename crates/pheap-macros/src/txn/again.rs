//! Pointers that a function is given, and comes back to in a loop: what it has found of their objects is kept in a variable each, an inline cache.
//!
//! Not for pointers that a loop itself binds: most of these lead to another object each time, and a guess that is wrong costs more than one that is right saves.

use std::cell::{OnceCell, RefCell};

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use quote::quote_spanned;

use super::Crate;
use super::place::{Place, assignment};
use super::scope::Names;
use super::tokens::{is_group, is_punct, is_word, list, name_of, until};
use crate::hygienic_at;

/// The variables of a function.
pub(super) struct Again<'a> {
    krate: &'a Crate,
    body: &'a TokenStream,
    /// Whether a pattern somewhere in the body borrows what it binds, perhaps mutably. Looked for when that matters.
    borrows_by_pattern: OnceCell<bool>,
    /// Names of pointers that have a variable.
    pointers: RefCell<Vec<String>>,
}

impl<'a> Again<'a> {
    pub(super) fn new(krate: &'a Crate, body: &'a TokenStream) -> Self {
        let (borrows_by_pattern, pointers) = Default::default();
        Again { krate, body, borrows_by_pattern, pointers }
    }

    /// The variable for the key of a place, if that is one of these pointers.
    pub(super) fn variable(&self, key: &TokenStream, pointers: &Names) -> Option<Ident> {
        let mut key = key.clone().into_iter();
        let (name, None) = (name_of(&key.next()?)?, key.next()) else { return None };
        let name = name.to_string();
        if !pointers.has(&name) {
            return None;
        }
        let variable = variable(&name);
        let mut known = self.pointers.borrow_mut();
        if !known.contains(&name) {
            known.push(name);
        }
        Some(variable)
    }

    /// What the `tx[pointer]` of a place becomes that is only read: an expression that stands for the object.
    ///
    /// `before` and `after` are the tokens around the place; `is_bare` says that these are all within parentheses that may as well not be there.
    pub(super) fn read(
        &self,
        place: &Place,
        pointers: &Names,
        before: &[TokenTree],
        after: &[TokenTree],
        is_bare: bool,
    ) -> Option<TokenStream> {
        let is_all = is_bare && before.is_empty() && after.is_empty();
        if is_all || !may_be_in_front(before) || !ends_value(after) || self.borrows_by_pattern() {
            return None;
        }
        let variable = self.variable(&place.key, pointers)?;
        let (tx, key) = (&place.tx, &place.key);
        let at = hygienic_at(tx.span());
        let krate = self.krate.at(at);
        let object = quote_spanned!(at=> *#krate::Txn::__read_again(&*#tx, #variable, #key));
        let mut object = Group::new(Delimiter::Parenthesis, object);
        // What panics in a larger expression stands where that begins. All of an expression seems to be in parentheses
        // for nothing if they seem to be the user's.
        let goes_on = |next: &TokenTree| !is_punct(next, ',') && !is_punct(next, ';');
        let is_part = !place.steps.is_empty() || after.first().is_some_and(goes_on);
        object.set_span(if is_part { tx.span() } else { at });
        Some(TokenTree::from(object).into())
    }

    fn borrows_by_pattern(&self) -> bool {
        fn may_borrow(tokens: TokenStream) -> bool {
            let tokens = list(tokens);
            (0..tokens.len()).any(|i| match &tokens[i..] {
                [TokenTree::Ident(word), ..] if word == "ref" => true,
                // A macro may stand for any pattern.
                [TokenTree::Ident(word), rest @ ..] if word == "let" => {
                    let pattern = until(rest, |token| is_punct(token, '=') || is_punct(token, ';'));
                    pattern.iter().any(|token| is_punct(token, '!'))
                }
                [TokenTree::Group(group), ..] => may_borrow(group.stream()),
                _ => false,
            })
        }
        *self.borrows_by_pattern.get_or_init(|| may_borrow(self.body.clone()))
    }

    /// Statements that make the variables.
    pub(super) fn declarations(&self) -> TokenStream {
        let at = hygienic_at(Span::call_site());
        let krate = self.krate.at(at);
        let declare = |name: &String| {
            let variable = variable(name);
            quote_spanned!(at=> let #variable = &#krate::__private::Last::nothing();)
        };
        self.pointers.borrow().iter().map(declare).collect()
    }
}

fn variable(pointer: &str) -> Ident {
    Ident::new(&format!("last_{}", pointer.trim_start_matches("r#")), Span::mixed_site())
}

/// Whether a place behind these tokens may be one that is only read: it is not borrowed mutably, and is no field of something else.
fn may_be_in_front(before: &[TokenTree]) -> bool {
    match before {
        [] => true,
        [.., one, last] if is_punct(last, '.') => is_punct(one, '.'),
        [.., TokenTree::Punct(last)] => !['.', '?', '#', '$'].contains(&last.as_char()),
        [.., TokenTree::Ident(word)] => {
            ["return", "if", "while", "in", "else"].iter().any(|known| word == known)
        }
        [.., last] => is_group(last, Delimiter::Brace),
    }
}

/// Whether a value ends in front of these tokens, of which nothing is done but to look at it: no method is called, no pattern is matched, nothing is assigned.
fn ends_value(after: &[TokenTree]) -> bool {
    match after {
        [] => true,
        _ if assignment(after).is_some() => false,
        [one, other, ..] if is_punct(one, '.') || is_punct(one, '!') => {
            is_punct(other, if is_punct(one, '.') { '.' } else { '=' })
        }
        [TokenTree::Punct(next), ..] => ",;+-*/%^&|<>=".contains(next.as_char()),
        [word, ..] => is_word(word, "as"),
    }
}

/// Which tokens of a list a loop repeats.
#[derive(Default)]
pub(super) struct Loops {
    /// Whether what comes next is repeated, and the `{ .. }` that does.
    repeats: bool,
    body_follows: bool,
}

impl Loops {
    /// Goes on to the next token of the list, and says whether it, or what is in it, is repeated. `word` is what it is as a word, `pattern` that of a `for`.
    pub(super) fn next(&mut self, word: &str, token: &TokenTree, pattern: &[TokenTree]) -> bool {
        match word {
            "loop" | "while" => (self.repeats, self.body_follows) = (true, true),
            "for" if !pattern.is_empty() => self.body_follows = true,
            _ if self.body_follows && is_group(token, Delimiter::Brace) => {
                *self = Loops::default();
                return true;
            }
            _ => {}
        }
        self.repeats
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(code: &str) -> Vec<TokenTree> {
        list(code.parse().expect("tokens"))
    }

    #[test]
    fn what_is_borrowed_or_called_is_no_read() {
        for before in ["", "x =", "f(x) +", "a..", "return", "&", "*", "!", "if c {}", "x: "] {
            assert!(may_be_in_front(&tokens(before)), "{before}");
        }
        for before in ["&mut", "&raw mut", "self.", "match", "let", "x?"] {
            assert!(!may_be_in_front(&tokens(before)), "{before}");
        }
        for after in
            ["", "+ 1", "as u64", "== 3", "!= 3", "..= 7", "..x", ", 3", ";", "<= 3", "&& x", ">> 3", "< 3"]
        {
            assert!(ends_value(&tokens(after)), "{after}");
        }
        for after in ["= 3", "+= 3", "<<= 3", ".len()", "{}", "(3)", "[1..]", "?", "else {}"] {
            assert!(!ends_value(&tokens(after)), "{after}");
        }
    }

    #[test]
    fn loops_repeat_their_conditions_and_bodies() {
        let repeated = |code: &str| {
            let mut loops = Loops::default();
            let tokens = tokens(code);
            let which = tokens.iter().enumerate().map(|(i, token)| {
                let word = if let TokenTree::Ident(word) = token { word.to_string() } else { String::new() };
                let is_for = word == "for" && tokens[i..].iter().any(|token| is_word(token, "in"));
                loops.next(&word, token, if is_for { &tokens[i + 1..i + 2] } else { &[] })
            });
            which.map(u8::from).collect::<Vec<_>>()
        };
        assert_eq!(repeated("a; while b { c } d"), [0, 0, 1, 1, 1, 0]);
        assert_eq!(repeated("for a in b { c } d"), [0, 0, 0, 0, 1, 0]);
        assert_eq!(repeated("loop { c } d {}"), [1, 1, 0, 0]);
        assert_eq!(repeated("impl A for B { }"), [0; 5]);
    }
}
