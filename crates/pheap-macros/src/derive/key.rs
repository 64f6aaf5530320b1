//! `#[persist(key)]`: a type that is a key of maps, looked up by a value of the type.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::Member;

use super::expand::discriminants;
use super::parse::{Field, Input, Shape};
use crate::hygienic;

pub(super) fn impl_key(input: &Input<'_>) -> TokenStream {
    let (krate, name) = (&input.options.krate, input.name);
    let hash = match &input.shape {
        Shape::Struct(fields) => {
            let (pattern, hash) = hash_fields(input, fields);
            hygienic! {
                let Self #pattern = __query;
                #hash
            }
        }
        Shape::Enum(variants) => {
            let tag = input.repr.int.as_ref().expect("validated: an enum has a primitive repr");
            let arms = variants.iter().zip(discriminants(variants)).map(|(variant, (start, steps))| {
                let (name, (pattern, hash)) = (variant.name, hash_fields(input, &variant.fields));
                let primitive = hygienic!(#krate::__private::core::primitive);
                hygienic! {
                    Self::#name #pattern => {
                        __hasher.write(&const {
                            let __start: #primitive::#tag = #start;
                            (__start.wrapping_add(#steps) as #primitive::i128).to_le_bytes()
                        });
                        #hash
                    }
                }
            });
            hygienic! {
                match __query {
                    #(#arms)*
                }
            }
        }
        Shape::Union(_) => unreachable!("validated: not a union"),
    };
    hygienic! {
        #krate::__private::persist_key! { #name }

        #[automatically_derived]
        impl<'__r> #krate::collections::HashKey<'__r> for #name {
            #[inline]
            fn hash(__query: &Self, __hasher: &mut #krate::collections::KeyHasher) {
                #hash
            }
        }

        #[automatically_derived]
        impl<'__r> #krate::collections::OrdKey<'__r> for #name {}
    }
}

/// Returns a pattern that binds the fields, and statements that hash them in order.
fn hash_fields(input: &Input<'_>, fields: &[Field<'_>]) -> (TokenStream, TokenStream) {
    let krate = &input.options.krate;
    let members: Vec<&Member> = fields.iter().map(|field| &field.member).collect();
    let names: Vec<_> = (0..fields.len()).map(|i| format_ident!("__field{i}")).collect();
    let types = fields.iter().map(|field| field.ty);
    let hash = hygienic!(#(<#types as #krate::collections::HashKey<'__r>>::hash(#names, __hasher);)*);
    (quote!({ #(#members: #names),* }), hash)
}
