//! Where the fields are: the expressions for their offsets, and the gaps between them.

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};
use syn::Type;

use super::brand;
use super::parse::{Field, Input, Shape};
use crate::hygienic;

/// The fields of a struct or of one variant, as they lie in memory.
pub(super) struct Fields<'a> {
    pub(super) fields: &'a [Field<'a>],
    /// Type of the tag in front of the fields of a variant.
    tag: Option<&'a Ident>,
    /// Whether the bytes between the fields are padding. (`repr(transparent)` does not say where its empty fields are, and needs
    /// no padding of its own.)
    gaps: bool,
}

impl<'a> Fields<'a> {
    pub(super) fn of_struct(input: &Input<'a>, fields: &'a [Field<'a>]) -> Self {
        Fields { fields, tag: None, gaps: input.repr.transparent.is_none() }
    }

    pub(super) fn of_variant(tag: &'a Ident, fields: &'a [Field<'a>]) -> Self {
        Fields { fields, tag: Some(tag), gaps: true }
    }

    /// The offset of each field from the start of the value.
    fn offsets(&self) -> Vec<TokenStream> {
        let types: Vec<&Type> = self.fields.iter().map(|field| field.ty).collect();
        let offset = |(i, field): (usize, &Field<'_>)| {
            let Some(tag) = self.tag else {
                let member = &field.member;
                return hygienic!(::core::mem::offset_of!(Self, #member));
            };
            // `offset_of!` of a variant is unstable. The language defines its layout as that of a `repr(C)` struct with the
            // tag in front.
            let mirror = mirror_name(types.len());
            let index = syn::Index::from(i + 1);
            hygienic!(::core::mem::offset_of!(#mirror<#tag, #(#types),*>, #index))
        };
        self.fields.iter().enumerate().map(offset).collect()
    }

    /// `&[Field { .. }, ..]`
    pub(super) fn describe(&self, input: &Input<'_>) -> TokenStream {
        let krate = &input.options.krate;
        let fields = self.fields.iter().zip(self.offsets()).map(|(field, offset)| {
            let name = field.name();
            let ty = field.ty;
            let check = brand::check(input, ty);
            hygienic!(#krate::__private::Field {
                name: #name,
                offset: #offset,
                ty: {
                    #check
                    <#ty as #krate::Persist>::desc
                },
            })
        });
        quote!(&[#(#fields),*])
    }

    /// Whether any byte of the value may be padding.
    pub(super) fn padded(&self, krate: &TokenStream) -> TokenStream {
        let types = self.fields.iter().map(|field| field.ty);
        let parts = self.fields.iter().map(|field| field.ty).map(|ty| quote!(#ty));
        let parts = self.tag.map(|tag| quote!(#tag)).into_iter().chain(parts);
        // Fields do not overlap: there is a gap if, and only if, the parts add up to less than the whole.
        hygienic!(
            ::core::mem::size_of::<Self>() != 0 #(+ ::core::mem::size_of::<#parts>())*
            #(|| <#types as #krate::Persist>::PADDED)*
        )
    }

    /// Whether any field can hold a pointer.
    pub(super) fn pointers(&self, krate: &TokenStream) -> TokenStream {
        let types = self.fields.iter().map(|field| field.ty);
        hygienic!(false #(|| <#types as #krate::Persist>::POINTERS)*)
    }

    /// Statements that zero the gaps, and the padding inside of the fields. `base` is the start of the value.
    pub(super) fn zero(&self, krate: &TokenStream, base: &Ident) -> TokenStream {
        let offsets = self.offsets();
        let ends = self.fields.iter().zip(&offsets).map(|(field, offset)| {
            let ty = field.ty;
            hygienic!(#offset + ::core::mem::size_of::<#ty>())
        });
        let first = match self.tag {
            Some(tag) => hygienic!(::core::mem::size_of::<#tag>()),
            None => quote!(0),
        };
        let size = hygienic!(::core::mem::size_of::<Self>());
        let from = std::iter::once(first).chain(ends);
        let to = offsets.iter().chain([&size]);
        let gaps = self.gaps.then(|| {
            let gaps = from.zip(to).map(|(from, to)| hygienic!(#krate::__private::zero(#base, #from, #to);));
            quote!(#(#gaps)*)
        });
        let types = self.fields.iter().map(|field| field.ty);
        hygienic!(
            #gaps
            #(if <#types as #krate::Persist>::PADDED {
                <#types as #krate::Persist>::zero_padding(#base.add(#offsets).cast::<#types>());
            })*
        )
    }
}

/// A `#[repr(C)]` struct for each number of fields that a variant of the enum has. It is generic over the types of the fields, so
/// that nothing of the enum (its generics, its bounds, what `Self` means) has to be repeated.
pub(super) fn mirrors(shape: &Shape<'_>) -> TokenStream {
    let Shape::Enum(variants) = shape else { return TokenStream::new() };
    let mut counts: Vec<usize> =
        variants.iter().map(|variant| variant.fields.len()).filter(|&n| n > 0).collect();
    counts.sort_unstable();
    counts.dedup();
    let mirrors = counts.into_iter().map(|n| {
        let name = mirror_name(n);
        let types: Vec<_> = (0..n).map(|i| format_ident!("T{i}")).collect();
        hygienic! {
            #[allow(dead_code)]
            #[repr(C)]
            struct #name<Tag, #(#types),*>(Tag, #(#types),*);
        }
    });
    quote!(#(#mirrors)*)
}

fn mirror_name(fields: usize) -> Ident {
    format_ident!("__Variant{fields}")
}
