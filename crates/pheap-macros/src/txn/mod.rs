//! `#[txn]`: find the form, open the transaction if the function asks for it, rewrite the stores.

mod form;
mod group;
mod guess;
mod place;
mod rewrite;
mod scope;

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote};
use syn::visit::{self, Visit};
use syn::{AttrStyle, Expr, ItemFn, LitStr, Path, ReturnType, Stmt, TypeImplTrait};

use crate::hygienic;
use form::Form;
use scope::Names;

pub(crate) fn txn(args: TokenStream, item: TokenStream) -> TokenStream {
    let mut function = match form::parse(item.clone()) {
        Ok(function) => function,
        Err(error) => {
            let error = error.to_compile_error();
            return quote!(#error #item);
        }
    };
    match expand(args, &mut function) {
        Ok(()) => function.into_token_stream(),
        Err(error) => stub(&function, &error),
    }
}

/// The error, and a function that has no others: its callers compile, and its body is not there to miss a `tx`.
fn stub(function: &ItemFn, error: &syn::Error) -> TokenStream {
    let error = error.to_compile_error();
    let ItemFn { attrs, vis, sig, .. } = function;
    let attrs = attrs.iter().filter(|attr| matches!(attr.style, AttrStyle::Outer));
    hygienic! {
        #error
        #(#attrs)*
        #[allow(unused)]
        #vis #sig { ::core::panic!("this function did not compile") }
    }
}

fn expand(args: TokenStream, function: &mut ItemFn) -> syn::Result<()> {
    let krate = Crate::parse(args)?;
    let form = Form::of(&function.sig)?;
    let (txs, pointers) = form.names(&function.sig);
    guess::check(txs, pointers, &function.block)?;
    match form {
        Form::Joins(names) => rewrite::rewrite(&krate, Names::new(names), &mut function.block),
        Form::Opens(root) => {
            let tx = Ident::new(form::TX, Span::call_site());
            rewrite::rewrite(&krate, Names::new([tx.clone()]), &mut function.block);
            let body = &function.block;
            // Said again for the closure, so that `?` and `Err(..)` know their type at once. `impl Trait` cannot be said twice.
            let output = (!mentions_impl_trait(&function.sig.output)).then_some(&function.sig.output);
            let krate = krate.at(root.span());
            let call = hygienic!(at root.span() => #krate::Root::try_txn(#root, |#tx, #root| #output #body));
            function.block.stmts = vec![Stmt::Expr(Expr::Verbatim(call), None)];
        }
    }
    Ok(())
}

/// The path to `pheap`.
struct Crate(TokenStream);

impl Crate {
    /// `crate = "path"`, or nothing.
    fn parse(args: TokenStream) -> syn::Result<Self> {
        let mut krate = quote!(::pheap);
        let parser = syn::meta::parser(|meta| {
            if !meta.path.is_ident("crate") {
                return Err(meta.error("unknown argument: `#[txn]` takes `crate = \"path\"` only"));
            }
            krate = meta.value()?.parse::<LitStr>()?.parse::<Path>()?.into_token_stream();
            Ok(())
        });
        syn::parse::Parser::parse2(parser, args)?;
        Ok(Crate(krate))
    }

    /// The path as if it stood at `span`: errors about a call are shown from where its path starts.
    fn at(&self, span: Span) -> TokenStream {
        let span = Span::mixed_site().located_at(span);
        let tokens = self.0.clone().into_iter();
        tokens
            .map(|mut token| {
                token.set_span(span);
                token
            })
            .collect()
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
