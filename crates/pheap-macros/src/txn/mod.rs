//! `#[txn]`: determines the form of a function, opens the transaction if necessary, and rewrites the stores.

mod form;
mod guess;
mod pair;
mod place;
mod rewrite;
mod scope;
mod tokens;

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote, quote_spanned};
use syn::visit::{self, Visit};
use syn::{LitStr, Path, ReturnType, TypeImplTrait};

use crate::{hygienic, hygienic_at};
use form::{Form, Function};
use tokens::is_punct;

pub(crate) fn txn(args: TokenStream, item: TokenStream) -> TokenStream {
    let function = match form::parse(item.clone()) {
        Ok(function) => function,
        Err(error) => {
            let error = error.to_compile_error();
            return quote!(#error #item);
        }
    };
    match body(args, &function) {
        Ok(body) => {
            let head = function.head;
            quote!(#head #body)
        }
        Err(error) => stub(&function, &error),
    }
}

/// Returns the error, and a function with the same head that panics. So callers of the function compile, and
/// its original body, which may lack a `tx`, causes no more errors.
fn stub(function: &Function, error: &syn::Error) -> TokenStream {
    let error = error.to_compile_error();
    let head = &function.head;
    hygienic! {
        #error
        #[allow(unused)]
        #head { ::core::panic!("this function did not compile") }
    }
}

/// Returns the new body of the function: with rewritten stores, and within a transaction if the function
/// opens one.
fn body(args: TokenStream, function: &Function) -> syn::Result<TokenTree> {
    let krate = PheapPath::parse(args)?;
    let form = Form::of(&function.sig)?;
    let (txs, pointers) = form.names(&function.sig);
    let within_braces = |tokens| {
        let mut group = Group::new(Delimiter::Brace, tokens);
        group.set_span(function.body.span());
        TokenTree::from(group)
    };
    let (attributes, statements) = split(function.body.stream());
    let statements = rewrite::rewrite(&krate, &txs, &pointers, statements)?;
    Ok(within_braces(match form {
        Form::Joins(_) => quote!(#attributes #statements),
        Form::Opens(root) => {
            let tx = Ident::new(form::TX, Span::call_site());
            let body = within_braces(statements);
            // Repeats the return type for the closure, so that the compiler knows the types of `?` and
            // `Err(..)`. An `impl Trait` cannot be repeated.
            let output = (!mentions_impl_trait(&function.sig.output)).then_some(&function.sig.output);
            let at = hygienic_at(root.span());
            let krate = krate.at(at);
            let call = quote_spanned!(at=> #krate::Root::try_txn(#root, |#tx, #root| #output #body));
            quote!(#attributes #call)
        }
    }))
}

/// Splits a body into its attributes (`#![allow(..)]`), which belong to the function, and its statements.
fn split(body: TokenStream) -> (TokenStream, TokenStream) {
    let mut tokens: Vec<TokenTree> = body.into_iter().collect();
    let mut len = 0;
    while let [hash, not, TokenTree::Group(_), ..] = &tokens[len..]
        && is_punct(hash, '#')
        && is_punct(not, '!')
    {
        len += 3;
    }
    let statements = tokens.split_off(len).into_iter().collect();
    (tokens.into_iter().collect(), statements)
}

/// The path to `pheap` in the expansion.
struct PheapPath(Vec<TokenTree>);

impl PheapPath {
    /// Parses the arguments of `#[txn]`: `crate = "path"`, or none.
    fn parse(args: TokenStream) -> syn::Result<Self> {
        let mut krate = quote!(::pheap);
        if args.is_empty() {
            return Ok(PheapPath(tokens::list(krate)));
        }
        let parser = syn::meta::parser(|meta| {
            if !meta.path.is_ident("crate") {
                return Err(meta.error("unknown argument: `#[txn]` takes `crate = \"path\"` only"));
            }
            krate = meta.value()?.parse::<LitStr>()?.parse::<Path>()?.into_token_stream();
            Ok(())
        });
        syn::parse::Parser::parse2(parser, args)?;
        Ok(PheapPath(tokens::list(krate)))
    }

    /// Returns the path with `span`, which must come from [`hygienic_at`]. Errors about a call point to the
    /// start of its path.
    fn at(&self, span: Span) -> SpannedPath<'_> {
        SpannedPath { krate: self, span }
    }
}

/// The path to `pheap`, with a span for its tokens.
struct SpannedPath<'a> {
    krate: &'a PheapPath,
    span: Span,
}

impl ToTokens for SpannedPath<'_> {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        tokens.extend(self.krate.0.iter().map(|token| {
            let mut token = token.clone();
            token.set_span(self.span);
            token
        }));
    }
}

fn mentions_impl_trait(output: &ReturnType) -> bool {
    struct Finder(bool);
    impl Visit<'_> for Finder {
        fn visit_type_impl_trait(&mut self, _: &TypeImplTrait) {
            self.0 = true;
        }
    }
    let mut finder = Finder(false);
    visit::visit_return_type(&mut finder, output);
    finder.0
}
