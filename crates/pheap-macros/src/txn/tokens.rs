//! What a token is.

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

/// The name that a token is, by itself or as what a macro was given.
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

/// What is in front of the first token that ends it, or everything.
pub(super) fn until(tokens: &[TokenTree], ends: impl Fn(&TokenTree) -> bool) -> &[TokenTree] {
    &tokens[..tokens.iter().position(ends).unwrap_or(tokens.len())]
}
