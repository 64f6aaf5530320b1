//! What the derive writes: invocations of `macro_rules!` of pheap, which contain all that is `unsafe`, and check what they are given.

use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::{format_ident, quote};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{ConstParam, GenericParam, TypeParam};

use super::parse::{Field, History, Input, Shape, Variant};
use super::{brand, exchange, key};
use crate::hygienic;

pub(super) fn expand(input: &Input<'_>) -> TokenStream {
    let persist = match &input.shape {
        Shape::Struct(fields) => struct_impl(input, fields),
        Shape::Enum(variants) => {
            let tag = input.repr.int.as_ref().expect("validated: an enum has a primitive repr");
            enum_impl(input, tag, variants)
        }
        Shape::Union(_) => unreachable!("validated: not a union"),
    };
    let check = check(input);
    let key = input.options.key.map(|_| key::impl_key(input));
    let exchange = exchange::expand(input);
    // In pheap itself, which denies `unsafe` where it is not listed. Elsewhere it would be in the way of a `forbid`.
    let allow = (input.options.krate.to_string() == "crate").then(|| quote!(#[allow(unsafe_code)]));
    hygienic! {
        #allow
        const _: () = {
            #persist
            #key
            #exchange
            #check
        };
    }
}

/// Errors, and impls that are never used: without them each use of the type would be an error of its own. (But with a
/// bound that cannot be said of the type at another brand, the impls are.)
pub(super) fn stub(input: &Input<'_>, errors: &syn::Error) -> TokenStream {
    let errors = errors.to_compile_error();
    if !brand::unclear(input).is_empty() {
        return errors;
    }
    let (krate, header) = (&input.options.krate, header(input));
    hygienic! {
        #errors
        const _: () = { #krate::__private::persist_nothing! { #header } };
    }
}

fn struct_impl(input: &Input<'_>, fields: &[Field<'_>]) -> TokenStream {
    let (krate, header, id) = (&input.options.krate, header(input), id(input));
    let repr = if input.repr.transparent.is_some() { quote!(transparent) } else { quote!(C) };
    let align = align(input);
    let (gaps, fields) = described(fields, 0);
    hygienic! {
        #krate::__private::persist_struct! { #header, #id repr #repr #align #gaps { #fields } }
    }
}

fn enum_impl(input: &Input<'_>, tag: &Ident, variants: &[Variant<'_>]) -> TokenStream {
    let (krate, header, id) = (&input.options.krate, header(input), id(input));
    let align = align(input);
    let mut described_before = 0;
    let variants = variants.iter().zip(discriminants(variants)).map(|(variant, (start, steps))| {
        let (name, label) = (variant.name, variant.name.unraw().to_string());
        let (gaps, fields) = described(&variant.fields, described_before);
        described_before += variant.fields.len();
        let History { was, since, removed, .. } = &variant.history;
        let since = Literal::u32_unsuffixed(*since);
        hygienic!(#name as #label was [#(#was)*] since #since removed [#(#removed)*] = (#start) + #steps, #gaps { #fields })
    });
    hygienic! {
        #krate::__private::persist_enum! { #header, #id repr #tag #align { #(#variants)* } }
    }
}

/// The discriminant of each variant, counted as the language counts: from the last one that is written out.
pub(super) fn discriminants(variants: &[Variant<'_>]) -> Vec<(TokenStream, Literal)> {
    let mut last = quote!(0);
    let mut since = 0;
    let next = |variant: &Variant<'_>| {
        if let Some(value) = variant.discriminant {
            last = quote!(#value);
            since = 0;
        }
        since += 1;
        (last.clone(), Literal::u32_unsuffixed(since - 1))
    };
    variants.iter().map(next).collect()
}

/// What is implemented, for whom: the generics of the impl, the type, its parameters, and the clause.
fn header(input: &Input<'_>) -> TokenStream {
    let name = input.name;
    let generics = brand::generics(input);
    let (impl_generics, _, where_clause) = generics.split_for_impl();
    let at = brand::lifetime();
    let brands = input.generics.lifetimes().map(|param| {
        let brand = &param.lifetime;
        quote!(#brand #at)
    });
    let parameters = input.generics.params.iter().filter_map(|param| match param {
        GenericParam::Lifetime(_) => None,
        GenericParam::Type(TypeParam { ident, .. }) => Some(quote!((type #ident))),
        GenericParam::Const(ConstParam { ident, .. }) => Some(quote!((const #ident))),
    });
    hygienic!([#impl_generics] #name [#(#brands)*] [#(#parameters)*] where [#where_clause])
}

/// The stable id, and those before. What is reserved for `pheap` itself is private there: nobody else can
/// use it.
fn id(input: &Input<'_>) -> TokenStream {
    let id = &input.options.id;
    let of = if input.options.own { quote!(own) } else { quote!(new) };
    let (was, removed) = (&input.options.was, &input.options.removed);
    hygienic!(id #of #id was [#(#was)*] removed [#(#removed)*])
}

/// What a field was earlier.
fn history(History { was, since, default, .. }: &History) -> TokenStream {
    let since = Literal::u32_unsuffixed(*since);
    hygienic!(was [#(#was)*] since #since default [#default])
}

/// The alignment that was asked for.
fn align(input: &Input<'_>) -> Literal {
    Literal::u64_unsuffixed(input.repr.align)
}

/// How many gaps there are beside the fields, and the fields. Those of variants before these have names of
/// their own.
fn described(fields: &[Field<'_>], before: usize) -> (Literal, TokenStream) {
    let gaps = Literal::usize_unsuffixed(fields.len() + 1);
    let fields = fields.iter().enumerate().map(|(i, field)| {
        let (member, ty, label) = (&field.member, field.ty, field.name());
        let index = Literal::usize_unsuffixed(i);
        // Where the type is not what it was, that is what to point to.
        let binding = format_ident!("__field{}", before + i, span = Span::mixed_site().located_at(ty.span()));
        let history = history(&field.history);
        hygienic!(#index #member: #ty as #label #history #binding)
    });
    (gaps, quote!(#(#fields)*))
}

/// Evaluates `PADDED` at the definition, if it can be: a type with parameters is checked where it is used.
fn check(input: &Input<'_>) -> Option<TokenStream> {
    let generics = input.generics;
    if generics.type_params().next().is_some() || generics.const_params().next().is_some() {
        return None;
    }
    let (krate, name) = (&input.options.krate, input.name);
    let lifetimes = generics.lifetimes().map(|_| quote!('static));
    Some(hygienic! {
        const _: #krate::__private::core::primitive::bool = <#name<#(#lifetimes),*> as #krate::Persist>::PADDED;
    })
}
