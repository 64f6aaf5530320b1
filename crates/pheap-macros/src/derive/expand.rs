//! The expansion of the derive: calls of `macro_rules!` macros of pheap, which contain all unsafe code of the
//! expansion and check their input, and safe impls of other traits.

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
    // Allows unsafe code in pheap itself, which denies it except at listed places. In another crate, `allow`
    // would be an error under `forbid(unsafe_code)`.
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

/// Returns the errors, and an impl of `Persist` that does nothing. Without the impl, each use of the type
/// would be another error. (If a bound cannot be written for the type at another brand, the impl would be an
/// error, so there is none.)
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
        hygienic!(
            #name as #label was [#(#was)*] since #since removed [#(#removed)*] = (#start) + #steps,
            #gaps { #fields }
        )
    });
    hygienic! {
        #krate::__private::persist_enum! { #header, #id repr #tag #align { #(#variants)* } }
    }
}

/// Returns the discriminant of each variant, as the language counts: the last explicit value, and the number
/// of variants since.
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

/// Returns the header of the impl, as arguments for the macros of pheap: its generics, the type, the type's
/// parameters, and the where clause.
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

/// Returns the stable id and the earlier ids of the type, as arguments for the macros of pheap. With `own`,
/// the expansion calls a private function of `pheap`, so other crates cannot use the ids that are reserved
/// for `pheap`.
fn id(input: &Input<'_>) -> TokenStream {
    let id = &input.options.id;
    let of = if input.options.own { quote!(own) } else { quote!(new) };
    let (was, removed) = (&input.options.was, &input.options.removed);
    hygienic!(id #of #id was [#(#was)*] removed [#(#removed)*])
}

/// Returns the history of a field, as an argument for the macros of pheap.
fn history(History { was, since, default, .. }: &History) -> TokenStream {
    let since = Literal::u32_unsuffixed(*since);
    hygienic!(was [#(#was)*] since #since default [#default])
}

/// Returns the alignment of the `repr`; 1 if it has none.
fn align(input: &Input<'_>) -> Literal {
    Literal::u64_unsuffixed(input.repr.align)
}

/// Returns the number of gaps before, between and behind the fields, and the fields, as arguments for the
/// macros of pheap. `before` is the number of fields of earlier variants, so that each field gets a distinct
/// variable.
fn described(fields: &[Field<'_>], before: usize) -> (Literal, TokenStream) {
    let gaps = Literal::usize_unsuffixed(fields.len() + 1);
    let fields = fields.iter().enumerate().map(|(i, field)| {
        let (member, ty, label) = (&field.member, field.ty, field.name());
        let index = Literal::usize_unsuffixed(i);
        // If the type of a field has changed since the derive, the compiler's error points to that type.
        let binding = format_ident!("__field{}", before + i, span = Span::mixed_site().located_at(ty.span()));
        let history = history(&field.history);
        hygienic!(#index #member: #ty as #label #history #binding)
    });
    (gaps, quote!(#(#fields)*))
}

/// Evaluates `PADDED` at the definition, so that its errors appear there. A type with type or const
/// parameters is checked where it is used.
fn check(input: &Input<'_>) -> Option<TokenStream> {
    let generics = input.generics;
    if generics.type_params().next().is_some() || generics.const_params().next().is_some() {
        return None;
    }
    let (krate, name) = (&input.options.krate, input.name);
    let lifetimes = generics.lifetimes().map(|_| quote!('static));
    Some(hygienic! {
        const _: #krate::__private::core::primitive::bool =
            <#name<#(#lifetimes),*> as #krate::Persist>::PADDED;
    })
}
