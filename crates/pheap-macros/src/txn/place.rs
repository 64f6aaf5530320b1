//! Places that a transaction can make crash-safe separately: `tx[key].field.0[index]`.

use std::iter;

use proc_macro2::{Delimiter, Group, Ident, Literal, Spacing, Span, TokenStream, TokenTree};

use quote::quote_spanned;
use syn::Lit;

use super::PheapPath;
use super::pair::AssignmentPair;
use super::scope::ScopedNames;
use super::tokens::{is_group, is_punct, list, name_of};

pub(super) struct PlaceExpr {
    pub(super) tx: Ident,
    pub(super) key: TokenStream,
    pub(super) steps: Vec<PlaceProjection>,
}

/// A step from an object to a part of it.
pub(super) enum PlaceProjection {
    /// The name or the number of a field.
    Field(TokenTree),
    /// The index of an element.
    Element(TokenStream),
}

impl PlaceExpr {
    /// Returns the place at the start of `tokens`, and its number of tokens, if it begins with a transaction
    /// in `names`.
    pub(super) fn at_start(tokens: &[TokenTree], names: &ScopedNames) -> Option<(PlaceExpr, usize)> {
        let (mut place, mut len) = match tokens {
            [name, TokenTree::Group(key), ..] if key.delimiter() == Delimiter::Bracket => {
                let tx = name_of(name).filter(|tx| names.has(&tx.to_string()))?;
                (PlaceExpr { tx, key: key.stream(), steps: Vec::new() }, 2)
            }
            // A place in parentheses, such as `(tx[p].x)`, or in the invisible group around an argument of a
            // macro.
            [TokenTree::Group(group), ..] if is_transparent(group) => {
                (PlaceExpr::all_of(group.stream(), names)?, 1)
            }
            _ => return None,
        };
        loop {
            len += match &tokens[len..] {
                [dot, TokenTree::Ident(name), ..] if is_punct(dot, '.') && name != "await" => {
                    place.steps.push(PlaceProjection::Field(name.clone().into()));
                    2
                }
                [dot, TokenTree::Literal(number), ..] if is_punct(dot, '.') => {
                    place.steps.extend(fields_of(number));
                    2
                }
                [TokenTree::Group(index), ..]
                    if index.delimiter() == Delimiter::Bracket && may_be_usize(index.stream()) =>
                {
                    place.steps.push(PlaceProjection::Element(index.stream()));
                    1
                }
                _ => return Some((place, len)),
            };
        }
    }

    /// Returns the place that these tokens are, if they contain nothing else.
    pub(super) fn all_of(tokens: TokenStream, names: &ScopedNames) -> Option<PlaceExpr> {
        let tokens = list(tokens);
        let (place, len) = PlaceExpr::at_start(&tokens, names)?;
        (len == tokens.len()).then_some(place)
    }

    /// Iterates over the key and the indices, in the order of their evaluation.
    fn chosen_by(&self) -> impl Iterator<Item = &TokenStream> {
        let indices = self.steps.iter().filter_map(|step| match step {
            PlaceProjection::Element(index) => Some(index),
            PlaceProjection::Field(_) => None,
        });
        iter::once(&self.key).chain(indices)
    }

    /// Replaces the key and each index for which `new` returns tokens.
    pub(super) fn replace(&mut self, new: impl Fn(&TokenStream) -> Option<TokenStream>) {
        let indices = self.steps.iter_mut().filter_map(|step| match step {
            PlaceProjection::Element(index) => Some(index),
            PlaceProjection::Field(_) => None,
        });
        for tokens in iter::once(&mut self.key).chain(indices) {
            if let Some(new) = new(tokens) {
                *tokens = new;
            }
        }
    }

    /// Returns whether assignments to *objects* cannot change which place this is. This holds if the key and
    /// the indices are variables or literals, and not `tx[a].next`.
    pub(super) fn is_fixed(&self) -> bool {
        self.chosen_by().all(|expr| {
            let mut tokens = expr.clone().into_iter();
            match (tokens.next(), tokens.next()) {
                (Some(token), None) => matches!(token, TokenTree::Literal(_)) || name_of(&token).is_some(),
                _ => false,
            }
        })
    }

    /// Returns whether both places are in one object or one element, because their keys and indices have the
    /// same text.
    pub(super) fn is_beside(&self, other: &PlaceExpr) -> bool {
        let texts = |place: &PlaceExpr| place.chosen_by().map(|expr| expr.to_string()).collect::<Vec<_>>();
        texts(self) == texts(other)
    }

    /// Returns whether both places are in one object, because their keys have the same text.
    pub(super) fn has_key_of(&self, other: &PlaceExpr) -> bool {
        self.key.to_string() == other.key.to_string()
    }

    /// Returns code for the place that makes it crash-safe first.
    ///
    /// The call of the macro has the span of the user's code. So a panic in it, or in the assignment, points
    /// to the user's code and not to the attribute.
    pub(super) fn logged(&self, krate: &PheapPath, pair: Option<&AssignmentPair>) -> TokenStream {
        let at = self.tx.span();
        let (krate, place) = (krate.at(at), self.described(at));
        let how = pair.map(|AssignmentPair { is_one_object, other, .. }| {
            let other = other.described(at);
            quote_spanned!(at=> pair #is_one_object { #krate::__private::place_ahead! { #other } })
        });
        quote_spanned!(at=> *#krate::__private::place! { #how #place })
    }

    /// Returns the arguments for the macros of pheap: the steps, the transaction, and the key.
    fn described(&self, at: Span) -> TokenStream {
        let (tx, key) = (&self.tx, &self.key);
        let steps = self.steps.iter().map(|step| match step {
            PlaceProjection::Field(member) => quote_spanned!(at=> .#member),
            PlaceProjection::Element(index) => {
                let at = span_of(index).unwrap_or(at);
                quote_spanned!(at=> [#index])
            }
        });
        quote_spanned!(at=> { #(#steps)* } #tx (#key))
    }
}

/// Returns the number of tokens of the assignment operator (`=`, `+=`, …) at the start of `tokens`.
pub(super) fn assignment(tokens: &[TokenTree]) -> Option<usize> {
    // The first characters of punctuation, as long as they are joined.
    let mut operator = [' '; 3];
    for (char, token) in operator.iter_mut().zip(tokens) {
        let TokenTree::Punct(punct) = token else { break };
        *char = punct.as_char();
        if punct.spacing() == Spacing::Alone {
            break;
        }
    }
    match operator {
        ['=', '=' | '>', _] => None,
        ['=', ..] => Some(1),
        ['+' | '-' | '*' | '/' | '%' | '^' | '&' | '|', '=', _] => Some(2),
        ['<', '<', '='] | ['>', '>', '='] => Some(3),
        _ => None,
    }
}

/// Returns whether the group only encloses an expression: in parentheses, or invisibly.
fn is_transparent(group: &Group) -> bool {
    matches!(group.delimiter(), Delimiter::Parenthesis | Delimiter::None)
}

/// Returns the fields in a number token: `0`, or the `0.1` of `pair.0.1`, which is one token.
fn fields_of(number: &Literal) -> impl Iterator<Item = PlaceProjection> {
    let (text, span) = (number.to_string(), number.span());
    let field = move |digits: &str| {
        let number = digits.parse().ok().map(Literal::usize_unsuffixed);
        // If the digits are no number, the token is no field either, and the compiler reports that.
        let mut token = TokenTree::from(number.unwrap_or_else(|| Literal::string(digits)));
        token.set_span(span);
        PlaceProjection::Field(token)
    };
    text.split('.').map(field).collect::<Vec<_>>().into_iter()
}

/// Returns whether `[index]` may select one element of an array or slice. If it cannot, the `IndexMut` of the
/// type applies.
fn may_be_usize(index: TokenStream) -> bool {
    let tokens = list(index);
    let is_range = tokens.windows(2).any(|pair| is_punct(&pair[0], '.') && is_punct(&pair[1], '.'));
    !is_range
        && match &tokens[..] {
            [] => false,
            [first, ..] if is_punct(first, '&') => false,
            [TokenTree::Literal(number)] => matches!(Lit::new(number.clone()), Lit::Int(_)),
            [TokenTree::Group(group)] => match group.delimiter() {
                Delimiter::None => may_be_usize(group.stream()),
                Delimiter::Parenthesis => !list(group.stream()).iter().any(|token| is_punct(token, ',')),
                Delimiter::Bracket => false,
                Delimiter::Brace => true,
            },
            // The value of a struct, `Point { x, y }`, is no index of a slice.
            [.., TokenTree::Ident(name), fields] if is_group(fields, Delimiter::Brace) => {
                !name.to_string().starts_with(char::is_uppercase)
            }
            _ => true,
        }
}

fn span_of(tokens: &TokenStream) -> Option<Span> {
    tokens.clone().into_iter().next().map(|token| token.span())
}
