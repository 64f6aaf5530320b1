//! The impls.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote};
use syn::ext::IdentExt;

use super::layout::{Fields, mirrors};
use super::parse::{Input, Shape, Variant};
use super::{brand, exchange, key};
use crate::hygienic;

pub(super) fn expand(input: &Input<'_>) -> TokenStream {
    let body = match &input.shape {
        Shape::Struct(fields) => struct_body(input, &Fields::of_struct(input, fields)),
        Shape::Enum(variants) => {
            let tag = input.repr.int.as_ref().expect("validated: an enum has a primitive repr");
            enum_body(input, tag, variants)
        }
        Shape::Union(_) => unreachable!("validated: not a union"),
    };
    let mirrors = mirrors(&input.shape);
    let check = check(input);
    let persist = impl_persist(input, &body);
    let not_deref = impl_not_deref(input);
    let key = input.options.key.map(|_| key::impl_key(input));
    let exchange = exchange::expand(input);
    hygienic! {
        const _: () = {
            #mirrors
            #persist
            #key
            #not_deref
            #exchange
            #check
        };
    }
}

/// Errors, and impls that are never used: without them each use of the type would be an error of its own.
pub(super) fn stub(input: &Input<'_>, errors: &syn::Error) -> TokenStream {
    let errors = errors.to_compile_error();
    let never = hygienic!(::core::panic!("this type did not compile"));
    let persist = impl_persist(
        input,
        &Body { padded: quote!(false), pointers: quote!(false), desc: never, zero: quote!() },
    );
    hygienic! {
        #errors
        const _: () = { #persist };
    }
}

/// What differs between structs and enums.
struct Body {
    /// The value of `PADDED`.
    padded: TokenStream,
    /// The value of `POINTERS`.
    pointers: TokenStream,
    /// The body of `desc`.
    desc: TokenStream,
    /// The body of `zero_padding`, in terms of `this`.
    zero: TokenStream,
}

/// The parameter of `zero_padding`.
fn this() -> Ident {
    Ident::new("__this", Span::mixed_site())
}

fn struct_body(input: &Input<'_>, fields: &Fields<'_>) -> Body {
    let krate = &input.options.krate;
    let described = fields.describe(input);
    let this = this();
    let base = Ident::new("__base", Span::mixed_site());
    let zero = fields.zero(krate, &base);
    Body {
        padded: padded(input, &fields.padded(krate)),
        pointers: fields.pointers(krate),
        desc: desc(input, &hygienic!(#krate::__private::Kind::Struct { fields: #described })),
        zero: hygienic! {
            let #base = #this.cast::<u8>();
            // SAFETY: `this` points to a valid value, by the contract of `zero_padding`; gaps and fields lie within it.
            unsafe { #zero }
        },
    }
}

fn enum_body(input: &Input<'_>, tag: &Ident, variants: &[Variant<'_>]) -> Body {
    let krate = &input.options.krate;
    let this = this();
    let base = Ident::new("__base", Span::mixed_site());
    let layouts: Vec<_> = variants.iter().map(|variant| Fields::of_variant(tag, &variant.fields)).collect();

    let described =
        variants.iter().zip(&layouts).zip(discriminants(tag, variants)).map(|((variant, layout), tag)| {
            let name = variant.name.unraw().to_string();
            let fields = layout.describe(input);
            hygienic!(#krate::__private::Variant { name: #name, tag: #tag, fields: #fields })
        });
    let prim = format_ident!("{}", tag.to_string().to_uppercase());
    let kind = hygienic!(#krate::__private::Kind::Enum {
        tag: #krate::__private::Prim::#prim,
        variants: &[#(#described),*],
    });

    let names = variants.iter().map(|variant| variant.name);
    let zero = layouts.iter().map(|layout| layout.zero(krate, &base));
    let padded = layouts.iter().map(|layout| layout.padded(krate));
    let pointers = layouts.iter().map(|layout| layout.pointers(krate));
    Body {
        padded: self::padded(input, &hygienic!(false #(|| #padded)*)),
        pointers: hygienic!(false #(|| #pointers)*),
        desc: desc(input, &kind),
        zero: hygienic! {
            let #base = #this.cast::<u8>();
            // SAFETY: as for a struct, for the fields of the variant that the value is of. The reference serves to find that out.
            match unsafe { &*#this } {
                #(Self::#names { .. } => unsafe { #zero },)*
                _ => {}
            }
        },
    }
}

/// The discriminant of each variant as an `i128`, counted as the language counts: from the last one that is written out.
pub(super) fn discriminants(tag: &Ident, variants: &[Variant<'_>]) -> Vec<TokenStream> {
    let mut last = quote!(0);
    let mut since: u32 = 0;
    let next = |variant: &Variant<'_>| {
        if let Some(value) = variant.discriminant {
            last = quote!(#value);
            since = 0;
        }
        let (start, steps) = (&last, syn::LitInt::new(&since.to_string(), Span::mixed_site()));
        since += 1;
        // The `const` gives the expression the type it has in the enum: `!0` depends on it.
        hygienic!({
            const __START: #tag = #start;
            __START.wrapping_add(#steps) as i128
        })
    };
    variants.iter().map(next).collect()
}

fn desc(input: &Input<'_>, kind: &TokenStream) -> TokenStream {
    let krate = &input.options.krate;
    let id = &input.options.id;
    // What is reserved for `pheap` itself is private there: nobody else can use it.
    let id = match input.options.own {
        true => hygienic!(#krate::__private::Name::own(#id)),
        false => hygienic!(#krate::__private::Name::new(#id)),
    };
    let args = input.generics.type_params().map(|param| &param.ident);
    // `PADDED` is mentioned for its assertion: nothing lives in a heap without its description.
    hygienic!(const {
        let _: bool = <Self as #krate::Persist>::PADDED;
        &#krate::__private::Desc {
            name: #id,
            args: &[#(<#args as #krate::Persist>::desc),*],
            size: ::core::mem::size_of::<Self>(),
            align: ::core::mem::align_of::<Self>(),
            kind: #kind,
        }
    })
}

/// The value of `PADDED`, and what must hold before it has one.
///
/// The assertion is here because the fields are known to be `Persist` where this constant has a value: `Drop` is then the type's
/// own, and a `String` is reported once, as the field that it is.
fn padded(input: &Input<'_>, padded: &TokenStream) -> TokenStream {
    let message =
        format!("nothing in a persistent heap is ever dropped: remove the `Drop` of `{}`", input.name);
    hygienic!({
        ::core::assert!(!::core::mem::needs_drop::<Self>(), #message);
        #padded
    })
}

/// Evaluates `PADDED` at the definition, if it can be: a type with parameters is checked where it is used.
fn check(input: &Input<'_>) -> Option<TokenStream> {
    let generics = input.generics;
    if generics.type_params().next().is_some() || generics.const_params().next().is_some() {
        return None;
    }
    let (krate, name) = (&input.options.krate, input.name);
    let lifetimes = generics.lifetimes().map(|_| quote!('static));
    Some(hygienic!(const _: bool = <#name<#(#lifetimes),*> as #krate::Persist>::PADDED;))
}

fn impl_persist(input: &Input<'_>, body: &Body) -> TokenStream {
    let krate = &input.options.krate;
    let name = input.name;
    let this = this();
    let Body { padded, pointers, desc, zero } = body;
    let generics = brand::generics(input);
    let (impl_generics, _, where_clause) = generics.split_for_impl();
    let (_, arguments, _) = input.generics.split_for_impl();
    let (at, at_arguments) = (brand::lifetime(), brand::arguments(input));
    hygienic! {
        #[automatically_derived]
        #[allow(deprecated)]
        // SAFETY: what the trait asks for was validated, or is asserted in the bodies: layout (`repr`), fields, brand, no drop glue.
        unsafe impl #impl_generics #krate::Persist for #name #arguments #where_clause {
            type At<#at> = #name #at_arguments;

            const PADDED: bool = #padded;

            const POINTERS: bool = #pointers;

            fn desc() -> &'static #krate::__private::Desc {
                #desc
            }

            #[inline]
            unsafe fn zero_padding(#this: *mut Self) {
                #zero
            }
        }
    }
}

/// A second impl for every `Deref` type is in `pheap`, so that a user's `Deref` is a conflict: `tx[p].a.b = v` under `#[txn]` must
/// not find a `DerefMut` on its way.
fn impl_not_deref(input: &Input<'_>) -> TokenStream {
    let krate = &input.options.krate;
    let name = input.name;
    let generics = brand::generics(input);
    let (impl_generics, _, where_clause) = generics.split_for_impl();
    let (_, arguments, _) = input.generics.split_for_impl();
    hygienic! {
        #[automatically_derived]
        impl #impl_generics #krate::__private::NotDeref for #name #arguments #where_clause {}
    }
}
