//! Macros for the tests of pheap. They do what macros of another crate could do.

use std::collections::HashMap;
use std::sync::Mutex;

use proc_macro::{Group, TokenStream, TokenTree};

/// Replaces each identifier `word` of the item by other words: `#[replace(word, other words)]`.
#[proc_macro_attribute]
pub fn replace(args: TokenStream, item: TokenStream) -> TokenStream {
    let mut args = args.into_iter();
    let word = args.next().expect("`#[replace]` needs a word").to_string();
    let others: TokenStream = args.skip(1).collect();
    replaced(item, &word, &others)
}

/// Expands to `these` at the n-th expansion with this name, and to `others` at each other one: `nth!(name n
/// {these} {others})`. Expansions count from 0, in each run of the compiler.
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
