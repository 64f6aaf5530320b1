//! Helpers to look at tokens.

use proc_macro2::{Delimiter, Ident, TokenStream, TokenTree};

pub(super) fn is_punct(token: &TokenTree, char: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == char)
}

pub(super) fn is_word(token: &TokenTree, word: &str) -> bool {
    matches!(token, TokenTree::Ident(ident) if ident == word)
}

pub(super) fn is_group(token: &TokenTree, delimiter: Delimiter) -> bool {
    matches!(token, TokenTree::Group(group) if group.delimiter() == delimiter)
}

/// Returns the name that a token is. An invisible group, which an argument of a macro becomes, counts as its
/// content.
pub(super) fn name_of(token: &TokenTree) -> Option<Ident> {
    match token {
        TokenTree::Ident(name) => Some(name.clone()),
        TokenTree::Group(group) if group.delimiter() == Delimiter::None => match &list(group.stream())[..] {
            [token] => name_of(token),
            _ => None,
        },
        _ => None,
    }
}

pub(super) fn list(tokens: TokenStream) -> Vec<TokenTree> {
    tokens.into_iter().collect()
}

/// Returns the tokens before the first one for which `ends` returns true, or all tokens.
pub(super) fn until(tokens: &[TokenTree], ends: impl Fn(&TokenTree) -> bool) -> &[TokenTree] {
    &tokens[..tokens.iter().position(ends).unwrap_or(tokens.len())]
}
