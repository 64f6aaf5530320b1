//! Macros for the tests of pheap: what those of some other crate may do to a type.

use std::collections::HashMap;
use std::sync::Mutex;

use proc_macro::{Group, TokenStream, TokenTree};

/// `#[replace(word, other words)]` writes other words for each `word` in the item.
#[proc_macro_attribute]
pub fn replace(args: TokenStream, item: TokenStream) -> TokenStream {
    let mut args = args.into_iter();
    let word = args.next().expect("`#[replace]` needs a word").to_string();
    let others: TokenStream = args.skip(1).collect();
    replaced(item, &word, &others)
}

/// `nth!(name n {these} {others})` is `these` at the n-th place where it is expanded, from 0, and `others` at
/// each other one. Each name counts for itself.
#[proc_macro]
pub fn nth(input: TokenStream) -> TokenStream {
    static EXPANDED: Mutex<Option<HashMap<String, usize>>> = Mutex::new(None);
    let input: Vec<TokenTree> = input.into_iter().collect();
    let [TokenTree::Ident(name), TokenTree::Literal(n), TokenTree::Group(these), TokenTree::Group(others)] =
        &*input
    else {
        panic!("`nth!(name n {{these}} {{others}})`")
    };
    let mut expanded = EXPANDED.lock().unwrap();
    let before = expanded.get_or_insert_default().entry(name.to_string()).or_insert(0);
    *before += 1;
    let is_nth = (*before - 1).to_string() == n.to_string();
    if is_nth { these } else { others }.stream()
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
