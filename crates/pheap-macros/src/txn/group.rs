//! Neighbouring assignments to different objects share one log entry and one fence.

use proc_macro2::{Spacing, TokenTree};
use quote::quote_spanned;

use super::Crate;
use super::place::{Announcement, Place, assignment};
use super::scope::Names;
use super::tokens::{is_punct, is_word, list, until};
use crate::hygienic_at;

/// A run of assignments whose places are all known before the first of them.
pub(super) struct Run {
    /// How many tokens it has.
    pub(super) tokens: usize,
    places: Vec<Place>,
}

impl Run {
    /// The run at the start of `tokens`, if there are at least two objects or elements in it.
    pub(super) fn at_start(tokens: &[TokenTree], names: &Names) -> Option<Run> {
        let mut run = Run { tokens: 0, places: Vec::new() };
        while let Some((place, len)) = Place::at_start(&tokens[run.tokens..], names)
            && place.is_fixed()
        {
            let rest = &tokens[run.tokens + len..];
            let Some(operator) = assignment(rest) else { break };
            let end = until(rest, |token| is_punct(token, ';')).len();
            // One transaction only: each has a log of its own.
            if run.places.first().is_some_and(|first| first.tx != place.tx || rebinds(&rest[operator..end])) {
                break;
            }
            run.places.push(place);
            // With its semicolon.
            run.tokens = (run.tokens + len + end + 1).min(tokens.len());
        }
        // In one object they share what is logged without being told: whoever comes back to a block logs all of it.
        let (first, others) = run.places.split_first()?;
        others.iter().any(|place| !place.is_beside(first)).then_some(run)
    }

    /// Logs the places at once. This belongs inside of the first assignment, behind its right side: a `&T` that was read
    /// before may be used there for the last time, as it may in the plain code.
    pub(super) fn announcement(&self, krate: &Crate) -> Announcement {
        if let [first, other] = &self.places[..] {
            return Announcement::Pair {
                is_one_object: first.has_key_of(other),
                other: other.announced(krate),
            };
        }
        let tx = &self.places[0].tx;
        let mut places: Vec<_> = self.places.iter().map(|place| place.announced(krate)).collect();
        let last = places.pop();
        let at = hygienic_at(tx.span());
        let krate = krate.at(at);
        Announcement::Group(
            quote_spanned!(at=> #krate::__private::place_group! { (#tx) { #(#places;)* } { #last } }),
        )
    }
}

/// Whether evaluating the expression may change a *variable*, such as the key of a later assignment. What cannot be seen (a macro) counts.
fn rebinds(expr: &[TokenTree]) -> bool {
    (0..expr.len()).any(|i| match &expr[i..] {
        [TokenTree::Group(group), ..] => rebinds(&list(group.stream())),
        [TokenTree::Ident(_), not, TokenTree::Group(_), ..] => is_punct(not, '!'),
        [and, word, ..] if is_punct(and, '&') && is_word(word, "mut") => true,
        rest => {
            // Not the second half of `==` or `<=`.
            let is_begun =
                matches!(expr[..i].last(), Some(TokenTree::Punct(one)) if one.spacing() == Spacing::Joint);
            !is_begun && assignment(rest).is_some()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proc_macro2::{Ident, Span, TokenStream};

    /// Asserts how many statements are in the runs at the start of what remains, going through them from the top.
    #[track_caller]
    fn assert_runs(statements: &str, expected: &[usize]) {
        let tokens: Vec<TokenTree> = statements.parse::<TokenStream>().unwrap().into_iter().collect();
        let names = Names::new(["tx", "other"].map(|name| Ident::new(name, Span::call_site())));
        let is_end = |token: &TokenTree| matches!(token, TokenTree::Punct(punct) if punct.as_char() == ';');
        let mut rest = tokens.as_slice();
        let mut lengths = Vec::new();
        while !rest.is_empty() {
            let one = rest.iter().position(is_end).map_or(rest.len(), |end| end + 1);
            let len = Run::at_start(rest, &names).map_or(one, |run| run.tokens);
            lengths.push(rest[..len].split_inclusive(is_end).count());
            rest = &rest[len..];
        }
        assert_eq!(lengths, expected, "{statements}");
    }

    #[test]
    fn neighbours_are_a_run() {
        assert_runs("tx[a].x = 1; tx[b].y.z += 2; tx[c][i].0[7] = f(tx)?", &[3]);
        assert_runs("tx[a].x = 1; tx[a].y = 2; tx[b].x = a == b; tx[c].x <<= 3;", &[4]);
        assert_runs("tx[a].v[i] = x; tx[a].v[j] = y;", &[2]);
    }

    #[test]
    fn one_object_is_no_run() {
        assert_runs("tx[a].x = 1; f(); tx[b].y = 2;", &[1, 1, 1]);
        assert_runs("tx[a].x = 1; tx[a].y.z = 2; tx[a].0 = 3;", &[1, 1, 1]);
        assert_runs("tx[a].v[i].0 = x; tx[a].v[i].1 = y;", &[1, 1]);
    }

    #[test]
    fn a_key_that_an_assignment_may_change_ends_a_run() {
        assert_runs("tx[a].x = 1; tx[b].y = 2; tx[tx[a].next].x = 3;", &[2, 1]);
        assert_runs("tx[b].v[tx[a].i] = 1; tx[a].y = 2;", &[1, 1]);
        assert_runs("tx[self.a].x = 1; tx[b].y = 2;", &[1, 1]);
    }

    #[test]
    fn a_variable_that_changes_ends_a_run() {
        assert_runs("tx[a].x = { b = c; 1 }; tx[b].y = 2;", &[2]);
        assert_runs("tx[a].x = 1; tx[b].y = { c = d; 2 }; tx[c].z = 3;", &[1, 2]);
        assert_runs("tx[a].x = 1; tx[b].y = { c += d; 2 }; tx[c].z = 3;", &[1, 2]);
        assert_runs("tx[a].x = 1; tx[b].y = f(&mut c); tx[c].z = 3;", &[1, 2]);
        assert_runs("tx[a].x = 1; tx[b].y = m!(c);", &[1, 1]);
        assert_runs("tx[a].x = 1; tx[b].y = c <= d && e != f && matches(0..=9);", &[2]);
    }

    #[test]
    fn transactions_and_attributes_separate() {
        assert_runs("tx[a].x = 1; other[a].x = 2; other[b].y = 3;", &[1, 2]);
        assert_runs("tx[a].x = 1; #[cfg(unix)] tx[b].y = 2;", &[1, 1]);
        assert_runs("mine[a].x = 1; mine[b].y = 2;", &[1, 1]);
    }
}
