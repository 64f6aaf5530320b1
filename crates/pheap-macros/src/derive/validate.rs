//! The rules for a type that derives `Persist`. Each message says how to follow the rule.

use quote::ToTokens;
use syn::spanned::Spanned;
use syn::visit::Visit;
use syn::{Attribute, GenericParam, Lifetime};

use super::brand;
use super::parse::{Field, Input, Shape};
use crate::errors::Errors;

pub(super) fn validate(input: &Input<'_>, errors: &mut Errors) {
    match &input.shape {
        Shape::Struct(fields) => {
            struct_repr(input, errors);
            fields.iter().for_each(|field| self::field(input, field, errors));
            earlier_names(fields, &input.options.removed, errors);
        }
        Shape::Enum(variants) => {
            enum_repr(input, errors);
            for variant in variants {
                variant.fields.iter().for_each(|field| self::field(input, field, errors));
                earlier_names(&variant.fields, &variant.history.removed, errors);
            }
        }
        // Other errors about a union would not help the user.
        Shape::Union(span) => {
            return errors.at(
                *span,
                "a union cannot live in a persistent heap, because the heap must know which bytes are \
                 pointers: use an enum with `#[repr(u8)]`",
            );
        }
    }
    generics(input, errors);
    if let Some(span) = input.options.key
        && !input.generics.params.is_empty()
    {
        errors.at(
            span,
            "`#[persist(key)]` needs a type without parameters: implement `pheap::collections::MapKey` for \
             this type, or use a key type of pheap, such as `P<str>`",
        );
    }
    // The compiler cannot distinguish the bounds at any brand from the bound of `Import`, which is for one
    // brand.
    if let Some(span) = input.options.serde
        && input.generics.type_params().next().is_some()
        && !brand::bounds(input).is_empty()
    {
        errors.at(
            span,
            "`#[persist(serde)]` needs type parameters without bounds: move the bounds from the type to the \
             functions and impls that need them",
        );
    }
}

fn struct_repr(input: &Input<'_>, errors: &mut Errors) {
    let Input { name, repr, .. } = input;
    if let Some(span) = repr.packed {
        errors.at(
            span,
            "a packed type cannot live in a persistent heap, because its fields cannot be borrowed: \
             remove `packed`, and order the fields by size to save space",
        );
    } else if repr.c.is_none() && repr.transparent.is_none() {
        errors.at(
            name.span(),
            format_args!(
                "`{name}` needs a fixed layout, since the file outlives this build: add `#[repr(C)]` to the struct"
            ),
        );
    }
}

fn enum_repr(input: &Input<'_>, errors: &mut Errors) {
    let Input { name, repr, .. } = input;
    match (&repr.int, repr.c) {
        (Some(int), _) if int == "usize" || int == "isize" => errors.at(
            int.span(),
            format_args!(
                "the size of `{int}` depends on the machine: use a fixed width, such as `#[repr(u8)]`"
            ),
        ),
        (Some(int), Some(c)) => errors
            .at(c, format_args!("one `repr` is enough for the layout of an enum: remove `C`, keep `{int}`")),
        (Some(_), None) => {}
        (None, Some(c)) => errors.at(
            c,
            "the size of a `repr(C)` enum depends on the platform: use a fixed width, such as `#[repr(u8)]`",
        ),
        (None, None) => errors.at(
            name.span(),
            format_args!(
                "`{name}` needs a fixed layout, since the file outlives this build: add `#[repr(u8)]` \
                 (or a wider integer) to the enum"
            ),
        ),
    }
}

/// Checks that no name identifies two fields. A heap finds a field by its present name and its earlier names.
fn earlier_names(fields: &[Field<'_>], removed: &[String], errors: &mut Errors) {
    let names: Vec<String> = fields.iter().map(Field::name).collect();
    let had = |i: usize| {
        let (names, was) = (&names, &fields[i].history.was);
        (0..names.len()).filter(move |&other| other != i && was.contains(&names[other]))
    };
    for (i, field) in fields.iter().enumerate() {
        let is_of_this = |name: &&String| **name == names[i] || field.history.was.contains(name);
        if let Some(name) = removed.iter().find(is_of_this) {
            errors.at(
                field.member.span(),
                format_args!(
                    "`removed = \"{name}\"` would remove the content of this field from heaps that have it: \
                     give this field a name that no field has had"
                ),
            );
        }
        let (mut todo, mut seen) = (had(i).collect::<Vec<_>>(), Vec::new());
        while let Some(other) = todo.pop() {
            if !seen.contains(&other) {
                seen.push(other);
                todo.extend(had(other));
            }
        }
        if seen.contains(&i) {
            errors.at(
                field.member.span(),
                "fields that swap their names cannot be told apart in a heap, because it has the same names \
                 before and after: give them names that none of them has had",
            );
        }
    }
}

fn field(input: &Input<'_>, field: &Field<'_>, errors: &mut Errors) {
    if let Some((span, adapter)) = &field.adapter {
        let ty = field.ty.to_token_stream().to_string().replace(' ', "");
        errors.at(
            *span,
            format_args!(
                "a derive cannot change the type of a field, so `with` would store `{ty}` as it is: use \
                 `Stored<{ty}, {adapter}>` as its type, which the adapter converts"
            ),
        );
    }
    if field.history.default.is_some() && field.history.since == 1 {
        errors.at(
            field.member.span(),
            "`default` is what older objects get for a new field, so it needs `since`: `#[persist(since = 2, \
             default = ..)]`",
        );
    }
    StaticBrand { input, errors }.visit_type(field.ty);
}

/// Reports `'static` as a brand. `P<'static, T>` compiles, but no transaction has that brand, so no program
/// could set the pointer. Without this check the user would get a borrow error at another place.
struct StaticBrand<'a> {
    input: &'a Input<'a>,
    errors: &'a mut Errors,
}

impl Visit<'_> for StaticBrand<'_> {
    fn visit_lifetime(&mut self, lifetime: &Lifetime) {
        if lifetime.ident == "static" {
            let name = self.input.name;
            let brand = match self.input.generics.lifetimes().next() {
                Some(brand) => format!("write `{}`", brand.lifetime),
                None => format!("write `struct {name}<'r>`, and `'r` here"),
            };
            self.errors.at(
                lifetime.span(),
                format_args!(
                    "no transaction has the brand `'static`, so this pointer could never be set: {brand}"
                ),
            );
        }
    }

    // A `'static` in a plain reference, a function pointer or a trait object needs no message: the type
    // itself is an error.
    fn visit_type_reference(&mut self, _: &syn::TypeReference) {}
    fn visit_type_fn_ptr(&mut self, _: &syn::TypeFnPtr) {}
    fn visit_type_trait_object(&mut self, _: &syn::TypeTraitObject) {}
}

fn no_options(attrs: &[Attribute], errors: &mut Errors) {
    for attr in attrs.iter().filter(|attr| attr.path().is_ident("persist")) {
        errors
            .add(syn::Error::new_spanned(attr, "`#[persist(..)]` belongs on the type, not on a part of it"));
    }
}

fn generics(input: &Input<'_>, errors: &mut Errors) {
    for lifetime in input.generics.lifetimes().skip(1) {
        errors.at(
            lifetime.lifetime.span(),
            format_args!(
                "a persistent type has one lifetime, the brand of its transaction: use `{}` for all pointers",
                input.generics.lifetimes().next().map_or("'r".to_owned(), |first| first.lifetime.to_string()),
            ),
        );
    }
    for path in brand::unclear(input) {
        let written = path.to_token_stream().to_string().replace(' ', "");
        let (parameter, item) = written.split_once("::").unwrap_or_default();
        errors.at(
            path.span(),
            format_args!(
                "a bound must hold for every brand, and `{written}` is ambiguous for `{parameter}` with \
                 another brand: write `<{parameter} as Trait>::{item}`, with the trait that declares `{item}`"
            ),
        );
    }
    for param in &input.generics.params {
        let attrs = match param {
            GenericParam::Lifetime(param) => &param.attrs,
            GenericParam::Type(param) => &param.attrs,
            GenericParam::Const(param) => &param.attrs,
        };
        no_options(attrs, errors);
    }
}
