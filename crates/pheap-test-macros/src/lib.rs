//! An attribute macro for the tests of pheap: what some other crate's may do to a type.

use proc_macro::{Group, TokenStream, TokenTree};

/// `#[replace(word, other words)]` writes other words for each `word` in the item.
#[proc_macro_attribute]
pub fn replace(args: TokenStream, item: TokenStream) -> TokenStream {
    let mut args = args.into_iter();
    let word = args.next().expect("`#[replace]` needs a word").to_string();
    let others: TokenStream = args.skip(1).collect();
    replaced(item, &word, &others)
}

fn replaced(item: TokenStream, word: &str, others: &TokenStream) -> TokenStream {
    let replaced = |token| match token {
        TokenTree::Ident(ident) if ident.to_string() == word => others.clone(),
        TokenTree::Group(group) => {
            let mut inner = Group::new(group.delimiter(), replaced(group.stream(), word, others));
            inner.set_span(group.span());
            TokenTree::from(inner).into()
        }
        other => other.into(),
    };
    item.into_iter().flat_map(replaced).collect()
}
