//! `#[persist(serde)]`: export and import of the type, in the representation of serde's derives.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Data, Fields, Generics, Lifetime, LifetimeParam, Member, Type, parse_quote};

use super::brand;
use super::parse::Input;
use crate::hygienic;

pub(super) fn expand(input: &Input<'_>) -> Option<TokenStream> {
    let at = input.options.serde?;
    let krate = &input.options.krate;
    let derive = ExchangeDerive {
        input,
        serde: quote!(#krate::__private::serde),
        core: quote!(#krate::__private::core),
        brand: brand(input),
    };
    let (export, import) = (derive.export(), derive.import());
    let key = input.options.key.map(|_| derive.key());
    Some(hygienic!(at at => #krate::__private::with_serde! { #export #import #key }))
}

/// Returns the brand of the type, or a new lifetime if the type has none.
fn brand(input: &Input<'_>) -> Lifetime {
    let own = input.generics.lifetimes().next();
    own.map_or_else(|| Lifetime::new("'__r", Span::mixed_site()), |param| param.lifetime.clone())
}

struct ExchangeDerive<'a> {
    input: &'a Input<'a>,
    /// The path to the items of pheap that export and import.
    serde: TokenStream,
    /// The path to the crate `core`.
    core: TokenStream,
    brand: Lifetime,
}

/// The fields of a struct or variant. The lists are in the order of the fields.
struct FieldLists<'a> {
    members: Vec<Member>,
    types: Vec<&'a Type>,
    /// The names of the fields in exported data.
    names: Vec<String>,
    /// A variable for each field. Errors about the variable point to the type of the field.
    bindings: Vec<Ident>,
    form: FieldsForm,
}

enum FieldsForm {
    Unit,
    Newtype,
    Tuple,
    Named,
}

impl<'a> FieldLists<'a> {
    fn of(fields: &'a Fields) -> Self {
        let members: Vec<_> = fields.members().collect();
        let binding = |(i, field): (usize, &syn::Field)| {
            let span = Span::mixed_site().located_at(field.ty.span());
            format_ident!("__field{i}", span = span)
        };
        let name = |member: &Member| match member {
            Member::Named(name) => name.unraw().to_string(),
            Member::Unnamed(index) => index.index.to_string(),
        };
        FieldLists {
            types: fields.iter().map(|field| &field.ty).collect(),
            names: members.iter().map(name).collect(),
            bindings: fields.iter().enumerate().map(binding).collect(),
            form: match fields {
                Fields::Unit => FieldsForm::Unit,
                Fields::Unnamed(_) if members.len() == 1 => FieldsForm::Newtype,
                Fields::Unnamed(_) => FieldsForm::Tuple,
                Fields::Named(_) => FieldsForm::Named,
            },
            members,
        }
    }

    /// Returns `{ x: __field0, y: __field1 }`, as a pattern or an expression.
    fn braced(&self) -> TokenStream {
        let FieldLists { members, bindings, .. } = self;
        quote!({ #(#members: #bindings),* })
    }
}

impl ExchangeDerive<'_> {
    /// Returns the generics of an impl of an exchange trait for all brands. Each type parameter must
    /// implement the trait `which`.
    fn generics(&self, which: &TokenStream) -> Generics {
        let mut generics = brand::generics(self.input);
        let brand = &self.brand;
        if generics.lifetimes().next().is_none() {
            generics.params.insert(0, syn::GenericParam::Lifetime(LifetimeParam::new(brand.clone())));
        }
        let parameters: Vec<_> = self.input.generics.type_params().map(|param| param.ident.clone()).collect();
        if !parameters.is_empty() {
            let clause = generics.make_where_clause();
            clause.predicates.extend(
                parameters.iter().map(|name| -> syn::WherePredicate { parse_quote!(#name: #which<#brand>) }),
            );
        }
        generics
    }

    /// Returns the impl of the trait `which` for all brands, with these items. Each type parameter must
    /// implement the trait `bound`.
    fn implement(&self, which: &TokenStream, bound: &TokenStream, items: &TokenStream) -> TokenStream {
        let (name, brand) = (self.input.name, &self.brand);
        let generics = self.generics(bound);
        let (impl_generics, _, where_clause) = generics.split_for_impl();
        let (_, arguments, _) = self.input.generics.split_for_impl();
        hygienic! {
            #[automatically_derived]
            #[allow(deprecated)]
            impl #impl_generics #which<#brand> for #name #arguments #where_clause { #items }
        }
    }

    fn name(&self) -> String {
        self.input.name.unraw().to_string()
    }

    /// Implements `ExchangeKey`: a key is exported and imported as a value of the type.
    fn key(&self) -> TokenStream {
        let core = &self.core;
        let (serde, brand) = (&self.serde, &self.brand);
        let which = quote!(#serde::ExchangeKey);
        self.implement(
            &which,
            &which,
            &hygienic! {
                type Owned = Self;

                fn export_key<__S: #serde::Serializer>(
                    __query: &Self,
                    __at: #serde::Exporter<'_, #brand>,
                    __serializer: __S,
                ) -> #core::result::Result<__S::Ok, __S::Error> {
                    #serde::Export::export(__query, __at, __serializer)
                }

                fn import_key<'__de, __D: #serde::Deserializer<'__de>>(
                    __into: &mut #serde::Importer<'_, #brand>,
                    __deserializer: __D,
                ) -> #core::result::Result<Self, __D::Error> {
                    #serde::Import::import(__into, __deserializer)
                }
            },
        )
    }

    // --- export ---

    fn export(&self) -> TokenStream {
        let core = &self.core;
        let (serde, brand) = (&self.serde, &self.brand);
        let body = match self.input.data {
            Data::Struct(data) => {
                let parts = FieldLists::of(&data.fields);
                let (pattern, body) = (parts.braced(), self.export_struct(&parts));
                hygienic!(let Self #pattern = self; #body)
            }
            Data::Enum(data) => {
                let arms = data.variants.iter().enumerate().map(|(index, variant)| {
                    let parts = FieldLists::of(&variant.fields);
                    let (name, pattern) = (&variant.ident, parts.braced());
                    let body = self.export_variant(index as u32, name, &parts);
                    hygienic!(Self::#name #pattern => { #body })
                });
                hygienic!(match self { #(#arms)* })
            }
            Data::Union(_) => unreachable!("validated: not a union"),
        };
        let which = quote!(#serde::Export);
        self.implement(
            &which,
            &which,
            &hygienic! {
                fn export<__S: #serde::Serializer>(
                    &self,
                    __at: #serde::Exporter<'_, #brand>,
                    __serializer: __S,
                ) -> #core::result::Result<__S::Ok, __S::Error> {
                    #body
                }
            },
        )
    }

    fn export_struct(&self, parts: &FieldLists<'_>) -> TokenStream {
        let (serde, name, len) = (&self.serde, self.name(), parts.members.len());
        match parts.form {
            FieldsForm::Unit => hygienic!(#serde::Serializer::serialize_unit_struct(__serializer, #name)),
            FieldsForm::Newtype => {
                let field = &parts.bindings[0];
                hygienic!(#serde::export_newtype(__serializer, #name, __at, #field))
            }
            FieldsForm::Tuple => {
                let start = hygienic!(serialize_tuple_struct(__serializer, #name, #len));
                self.export_fields(parts, &start, &quote!(SerializeTupleStruct), &quote!(export_tuple_field))
            }
            FieldsForm::Named => {
                let start = hygienic!(serialize_struct(__serializer, #name, #len));
                self.export_fields(parts, &start, &quote!(SerializeStruct), &quote!(export_field))
            }
        }
    }

    fn export_variant(&self, index: u32, variant: &Ident, parts: &FieldLists<'_>) -> TokenStream {
        let (serde, name, len) = (&self.serde, self.name(), parts.members.len());
        let variant = variant.unraw().to_string();
        let which = hygienic!(__serializer, #name, #index, #variant);
        match parts.form {
            FieldsForm::Unit => hygienic!(#serde::Serializer::serialize_unit_variant(#which)),
            FieldsForm::Newtype => {
                let field = &parts.bindings[0];
                hygienic!(#serde::export_newtype_variant(#which, __at, #field))
            }
            FieldsForm::Tuple => {
                let start = hygienic!(serialize_tuple_variant(#which, #len));
                let field = quote!(export_tuple_variant_field);
                self.export_fields(parts, &start, &quote!(SerializeTupleVariant), &field)
            }
            FieldsForm::Named => {
                let start = hygienic!(serialize_struct_variant(#which, #len));
                let field = quote!(export_variant_field);
                self.export_fields(parts, &start, &quote!(SerializeStructVariant), &field)
            }
        }
    }

    /// Returns code that exports the fields. `start` creates the state, which implements the serialiser trait
    /// `which`, and the function `export` writes a field to that state.
    fn export_fields(
        &self,
        parts: &FieldLists<'_>,
        start: &TokenStream,
        which: &TokenStream,
        export: &TokenStream,
    ) -> TokenStream {
        let serde = &self.serde;
        let names = match parts.form {
            FieldsForm::Named => parts.names.iter().map(|name| quote!(#name,)).collect(),
            _ => vec![TokenStream::new(); parts.names.len()],
        };
        // If the type of a field cannot be exported, the compiler's error points to that type.
        let fields = parts.bindings.iter().zip(names).map(
            |(field, name)| hygienic!(at field.span() => #serde::#export(&mut __state, #name __at, #field)?;),
        );
        hygienic! {
            let mut __state = #serde::Serializer::#start?;
            #(#fields)*
            #serde::#which::end(__state)
        }
    }

    // --- import ---

    fn import(&self) -> TokenStream {
        let core = &self.core;
        let (serde, brand) = (&self.serde, &self.brand);
        let (body, variants) = match self.input.data {
            Data::Struct(data) => (self.import_struct(&FieldLists::of(&data.fields)), None),
            Data::Enum(data) => {
                (hygienic!(#serde::import_enum::<_, Self>(__into, __deserializer)), Some(self.variants(data)))
            }
            Data::Union(_) => unreachable!("validated: not a union"),
        };
        let which = quote!(#serde::Import);
        let import = self.implement(
            &which,
            &which,
            &hygienic! {
                fn import<'__de, __D: #serde::Deserializer<'__de>>(
                    __into: &mut #serde::Importer<'_, #brand>,
                    __deserializer: __D,
                ) -> #core::result::Result<Self, __D::Error> {
                    #body
                }
            },
        );
        quote!(#import #variants)
    }

    fn import_struct(&self, parts: &FieldLists<'_>) -> TokenStream {
        let core = &self.core;
        let (serde, name) = (&self.serde, self.name());
        let value = parts.braced();
        let expecting = match parts.form {
            FieldsForm::Unit => format!("unit struct {name}"),
            FieldsForm::Newtype | FieldsForm::Tuple => format!("tuple struct {name}"),
            FieldsForm::Named => format!("struct {name}"),
        };
        let read = match parts.form {
            FieldsForm::Unit => hygienic!(#serde::import_unit(__deserializer, #name, #expecting)?;),
            FieldsForm::Newtype => {
                let binding = &parts.bindings[0];
                hygienic!(let #binding = #serde::import_newtype(__into, __deserializer, #name, #expecting)?;)
            }
            FieldsForm::Tuple => {
                self.list(parts, &quote!(import_tuple), &hygienic!(__deserializer), &name, &expecting)
            }
            FieldsForm::Named => {
                self.list(parts, &quote!(import_struct), &hygienic!(__deserializer), &name, &expecting)
            }
        };
        hygienic! {
            #read
            #core::result::Result::Ok(Self #value)
        }
    }

    /// Returns `let Part(a, Part(b, ())) = read(into, from, &Shape { .. })?;`, which imports all fields.
    fn list(
        &self,
        parts: &FieldLists<'_>,
        read: &TokenStream,
        from: &TokenStream,
        name: &str,
        expecting: &str,
    ) -> TokenStream {
        let serde = &self.serde;
        let names = &parts.names;
        let pattern = parts
            .bindings
            .iter()
            .rev()
            .fold(quote!(()), |rest, binding| quote!(#serde::Part(#binding, #rest)));
        let types = parts.types.iter().rev().fold(quote!(()), |rest, ty| quote!(#serde::Part<#ty, #rest>));
        hygienic! {
            let #pattern = #serde::#read::<_, #types>(
                __into,
                #from,
                const { &#serde::Shape { name: #name, expecting: #expecting, fields: &[#(#names),*] } },
            )?;
        }
    }

    fn variants(&self, data: &syn::DataEnum) -> TokenStream {
        let core = &self.core;
        let (serde, brand, name) = (&self.serde, &self.brand, self.name());
        let expecting = format!("enum {name}");
        let names = data.variants.iter().map(|variant| variant.ident.unraw().to_string());
        let arms = data.variants.iter().enumerate().map(|(index, variant)| {
            let parts = FieldLists::of(&variant.fields);
            let (variant, value) = (&variant.ident, parts.braced());
            let expecting = format!("variant {name}::{}", variant.unraw());
            let read = match parts.form {
                FieldsForm::Unit => hygienic!(#serde::VariantAccess::unit_variant(__variant)?;),
                FieldsForm::Newtype => {
                    let binding = &parts.bindings[0];
                    hygienic!(let #binding = #serde::import_newtype_variant(__into, __variant)?;)
                }
                FieldsForm::Tuple => {
                    self.list(&parts, &quote!(import_tuple_variant), &hygienic!(__variant), &name, &expecting)
                }
                FieldsForm::Named => self.list(
                    &parts,
                    &quote!(import_struct_variant),
                    &hygienic!(__variant),
                    &name,
                    &expecting,
                ),
            };
            hygienic!(#index => {
                #read
                #core::result::Result::Ok(Self::#variant #value)
            })
        });
        let items = hygienic! {
            const NAME: &'static #core::primitive::str = #name;
            const EXPECTING: &'static #core::primitive::str = #expecting;
            const NAMES: &'static [&'static #core::primitive::str] = &[#(#names),*];

            fn import_variant<'__de, __A: #serde::VariantAccess<'__de>>(
                __index: #core::primitive::usize,
                __into: &mut #serde::Importer<'_, #brand>,
                __variant: __A,
            ) -> #core::result::Result<Self, __A::Error> {
                match __index {
                    #(#arms)*
                    _ => #core::unreachable!("the index of a variant"),
                }
            }
        };
        self.implement(&quote!(#serde::Variants), &quote!(#serde::Import), &items)
    }
}
