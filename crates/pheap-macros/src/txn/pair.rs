//! Pairs of neighbouring assignments to different objects or elements, which can share one log entry and one
//! fence.

use proc_macro2::{Delimiter, Spacing, TokenTree};

use super::place::{PlaceExpr, assignment};
use super::scope::ScopedNames;
use super::tokens::{is_group, is_punct, is_word, list, until};

/// Two neighbouring assignments whose places are known before the first of them runs.
pub(super) struct AssignmentPair {
    /// Number of tokens of both assignments.
    pub(super) tokens: usize,
    /// Whether both places have the same key, and so are in one object.
    pub(super) is_one_object: bool,
    /// The second place. The first assignment notes this place for the log after it has evaluated its right
    /// side. So the right side may contain the last use of a `&T` that was read before, as in the plain code.
    /// If the first assignment is a `+=` that calls `AddAssign`, it notes the place before it evaluates the
    /// right side. In that case, the right side uses no `&mut` to a variable.
    pub(super) other: PlaceExpr,
}

impl AssignmentPair {
    /// Returns the pair at the start of `tokens`.
    pub(super) fn at_start(tokens: &[TokenTree], names: &ScopedNames) -> Option<AssignmentPair> {
        let (first, operator, right_side, len) = fixed(tokens, names)?;
        if operator > 1 && (rebinds(right_side) || calls(right_side)) {
            return None;
        }
        let (other, _, right_side, other_len) = fixed(&tokens[len..], names)?;
        // Both assignments must belong to one `Txn`: a place is noted for the log of the `Txn` that is
        // borrowed. Within one element, the places are close together, so two assignments gain little from a
        // pair.
        if first.tx != other.tx || rebinds(right_side) || first.is_beside(&other) {
            return None;
        }
        Some(AssignmentPair { tokens: len + other_len, is_one_object: first.has_key_of(&other), other })
    }
}

/// Returns the place of the assignment at the start of `tokens` if it is known in advance. Also returns the
/// length of the operator, the right side, and the number of tokens including the semicolon.
fn fixed<'a>(
    tokens: &'a [TokenTree],
    names: &ScopedNames,
) -> Option<(PlaceExpr, usize, &'a [TokenTree], usize)> {
    let (place, len) = PlaceExpr::at_start(tokens, names)?;
    let operator = assignment(&tokens[len..]).filter(|_| place.is_fixed())?;
    let right_side = until(&tokens[len + operator..], |token| is_punct(token, ';'));
    Some((place, operator, right_side, tokens.len().min(len + operator + right_side.len() + 1)))
}

/// Returns whether evaluating the expression may change a *variable*, such as the key of the second
/// assignment. A call of a macro counts, because its expansion is unknown.
fn rebinds(expr: &[TokenTree]) -> bool {
    (0..expr.len()).any(|i| match &expr[i..] {
        [TokenTree::Group(group), ..] => rebinds(&list(group.stream())),
        [TokenTree::Ident(_), not, TokenTree::Group(_), ..] => is_punct(not, '!'),
        [and, word, ..] if is_punct(and, '&') && is_word(word, "mut") => true,
        rest => {
            // Ignores the second half of `==` or `<=`.
            let is_begun =
                matches!(expr[..i].last(), Some(TokenTree::Punct(one)) if one.spacing() == Spacing::Joint);
            !is_begun && assignment(rest).is_some()
        }
    })
}

/// Returns whether evaluating the expression may use a `&mut` to a *variable* that was made before: in a
/// call, in a block, by `*up`, or by `.await`. Names, fields, elements and operators between them do not. (An
/// operator of a type that contains such a `&mut` could use it; this is overlooked.)
fn calls(expr: &[TokenTree]) -> bool {
    (0..expr.len()).any(|i| match (expr[..i].last(), &expr[i]) {
        (before, TokenTree::Group(group)) => {
            let is_called = match before {
                Some(TokenTree::Ident(_) | TokenTree::Group(_)) => true,
                Some(before) => is_punct(before, '>'), // the end of `::<T>` in `f::<T>(x)`
                None => false,
            };
            is_called && is_group(&expr[i], Delimiter::Parenthesis)
                || is_group(&expr[i], Delimiter::Brace)
                || calls(&list(group.stream()))
        }
        (None | Some(TokenTree::Punct(_)), token) if is_punct(token, '*') => true,
        (_, token) => is_word(token, "await"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proc_macro2::{Ident, Span, TokenStream};

    /// Goes through the statements from the top. Asserts the number of statements in each step: 2 for a pair,
    /// otherwise 1.
    #[track_caller]
    fn assert_pairs(statements: &str, expected: &[usize]) {
        let tokens: Vec<TokenTree> = statements.parse::<TokenStream>().unwrap().into_iter().collect();
        let names = ScopedNames::new(["tx", "other"].map(|name| Ident::new(name, Span::call_site())));
        let is_end = |token: &TokenTree| matches!(token, TokenTree::Punct(punct) if punct.as_char() == ';');
        let mut rest = tokens.as_slice();
        let mut lengths = Vec::new();
        while !rest.is_empty() {
            let one = rest.iter().position(is_end).map_or(rest.len(), |end| end + 1);
            let len = AssignmentPair::at_start(rest, &names).map_or(one, |pair| pair.tokens);
            lengths.push(rest[..len].split_inclusive(is_end).count());
            rest = &rest[len..];
        }
        assert_eq!(lengths, expected, "{statements}");
    }

    #[test]
    fn neighbours_are_a_pair() {
        assert_pairs("tx[a].x = 1; tx[b].y.z += 2; tx[c][i].0[7] = f(tx)?", &[2, 1]);
        assert_pairs("tx[a].x = 1; tx[a].y = 2; tx[b].x = a == b; tx[c].x <<= 3;", &[1, 2, 1]);
        assert_pairs("tx[a].v[i] = x; tx[a].v[j] = y;", &[2]);
    }

    #[test]
    fn one_object_is_no_pair() {
        assert_pairs("tx[a].x = 1; f(); tx[b].y = 2;", &[1, 1, 1]);
        assert_pairs("tx[a].x = 1; tx[a].y.z = 2; tx[a].0 = 3;", &[1, 1, 1]);
        assert_pairs("tx[a].v[i].0 = x; tx[a].v[i].1 = y;", &[1, 1]);
    }

    #[test]
    fn a_key_that_an_assignment_may_change_ends_a_pair() {
        assert_pairs("tx[a].x = 1; tx[b].y = 2; tx[tx[a].next].x = 3;", &[2, 1]);
        assert_pairs("tx[b].v[tx[a].i] = 1; tx[a].y = 2;", &[1, 1]);
        assert_pairs("tx[self.a].x = 1; tx[b].y = 2;", &[1, 1]);
    }

    #[test]
    fn a_variable_that_changes_ends_a_pair() {
        assert_pairs("tx[a].x = { b = c; 1 }; tx[b].y = 2;", &[2]);
        assert_pairs("tx[b].y = { c = d; 2 }; tx[c].z = 3;", &[2]);
        assert_pairs("tx[a].x = 1; tx[b].y = { b = d; 2 }; tx[c].z = 3;", &[1, 2]);
        assert_pairs("tx[a].x = 1; tx[b].y = { b += d; 2 };", &[1, 1]);
        assert_pairs("tx[a].x = 1; tx[b].y = f(&mut b);", &[1, 1]);
        assert_pairs("tx[a].x = 1; tx[b].y = m!(c);", &[1, 1]);
        assert_pairs("tx[a].x = 1; tx[b].y = c <= d && e != f && matches(0..=9);", &[2]);
    }

    #[test]
    fn a_right_side_that_may_come_last_calls_nothing() {
        assert_pairs("tx[a].x -= d * c.mass[k] * -(mag + tx[c].y) as f64; tx[b].y += 1;", &[2]);
        assert_pairs("tx[a].x = f(up); tx[b].y = 2; tx[a].x = *up; tx[b].y = 2;", &[2, 2]);
        for right_side in [
            "f(up)",
            "1 + up.f()",
            "(f)(up)",
            "f::<T>(up)",
            "v[f(up)]",
            "*up",
            "2 * *up",
            "(*up)",
            "m!(up)",
            "{ up }",
            "up.await",
            "&mut b",
        ] {
            assert_pairs(&format!("tx[a].x += {right_side}; tx[b].y = 2;"), &[1, 1]);
        }
    }

    #[test]
    fn transactions_and_attributes_separate() {
        assert_pairs("tx[a].x = 1; other[a].x = 2; other[b].y = 3;", &[1, 2]);
        assert_pairs("tx[a].x = 1; #[cfg(unix)] tx[b].y = 2;", &[1, 1]);
        assert_pairs("mine[a].x = 1; mine[b].y = 2;", &[1, 1]);
    }
}
