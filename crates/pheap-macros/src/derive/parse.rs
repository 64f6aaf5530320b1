//! The input of the derive: the attributes and the shape of the type, with spans for messages.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::meta::ParseNestedMeta;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{
    Attribute, Data, DeriveInput, Expr, ExprLit, Generics, Lit, LitInt, LitStr, Member, Meta, Path, Token,
    Type,
};

use crate::errors::Errors;

pub(super) struct Input<'a> {
    pub(super) name: &'a Ident,
    pub(super) generics: &'a Generics,
    pub(super) repr: Repr,
    pub(super) options: Options,
    pub(super) shape: Shape<'a>,
    /// The fields or variants as the user has written them.
    pub(super) data: &'a Data,
}

pub(super) enum Shape<'a> {
    Struct(Vec<Field<'a>>),
    Enum(Vec<Variant<'a>>),
    Union(Span),
}

pub(super) struct Variant<'a> {
    pub(super) name: &'a Ident,
    pub(super) discriminant: Option<&'a Expr>,
    pub(super) fields: Vec<Field<'a>>,
    pub(super) history: History,
}

pub(super) struct Field<'a> {
    pub(super) member: Member,
    pub(super) ty: &'a Type,
    pub(super) history: History,
    /// The adapter in `with = ..`, and the span of `with`. That key is an error here, but users know it from
    /// serde.
    pub(super) adapter: Option<(Span, String)>,
}

/// The history of a field or variant in earlier versions of the program.
pub(super) struct History {
    pub(super) was: Vec<String>,
    /// The version of the type that added the field or variant; 1 for the first version.
    pub(super) since: u32,
    /// The value of the field in older objects. Only fields have one.
    pub(super) default: Option<Expr>,
    /// The names of fields that were removed from the variant. Only variants have them.
    pub(super) removed: Vec<String>,
}

/// The `#[repr(..)]` hints that matter to the derive, each with its span.
pub(super) struct Repr {
    pub(super) c: Option<Span>,
    pub(super) transparent: Option<Span>,
    pub(super) packed: Option<Span>,
    pub(super) int: Option<Ident>,
    /// The largest `align(..)`; 1 if there is none.
    pub(super) align: u64,
}

/// The `#[persist(..)]` attributes of the type.
pub(super) struct Options {
    /// Path to the `pheap` crate.
    pub(super) krate: TokenStream,
    /// The stable id of the type.
    pub(super) id: String,
    /// Earlier ids of the type.
    pub(super) was: Vec<String>,
    /// Names of fields that were removed from the type.
    pub(super) removed: Vec<String>,
    /// Whether the type is one of pheap's own, which may have an id that begins with `pheap::`.
    pub(super) own: bool,
    /// The span of `key`, if the type is a key.
    pub(super) key: Option<Span>,
    /// The span of `serde`, if the type can be exported and imported.
    pub(super) serde: Option<Span>,
}

impl<'a> Input<'a> {
    pub(super) fn parse(input: &'a DeriveInput, errors: &mut Errors) -> Self {
        Input {
            name: &input.ident,
            generics: &input.generics,
            repr: Repr::parse(&input.attrs, errors),
            options: Options::parse(input, errors),
            shape: match &input.data {
                Data::Struct(data) => Shape::Struct(fields(&data.fields, errors)),
                Data::Enum(data) => {
                    Shape::Enum(data.variants.iter().map(|variant| Variant::parse(variant, errors)).collect())
                }
                Data::Union(data) => Shape::Union(data.union_token.span),
            },
            data: &input.data,
        }
    }
}

impl<'a> Variant<'a> {
    fn parse(variant: &'a syn::Variant, errors: &mut Errors) -> Self {
        Variant {
            name: &variant.ident,
            discriminant: variant.discriminant.as_ref().map(|(_, value)| value),
            fields: fields(&variant.fields, errors),
            history: History::parse(&variant.attrs, None, errors),
        }
    }
}

fn fields<'a>(fields: &'a syn::Fields, errors: &mut Errors) -> Vec<Field<'a>> {
    let parse = |(member, field): (Member, &'a syn::Field)| {
        let mut adapter = None;
        let history = History::parse(&field.attrs, Some(&mut adapter), errors);
        Field { member, ty: &field.ty, history, adapter }
    };
    fields.members().zip(fields).map(parse).collect()
}

impl History {
    /// Parses the attributes of a field or variant. `adapter` is `None` for a variant, which has no adapter.
    fn parse(
        attrs: &[Attribute],
        mut adapter: Option<&mut Option<(Span, String)>>,
        errors: &mut Errors,
    ) -> Self {
        let (mut was, mut removed, mut since, mut default) = (Vec::new(), Vec::new(), None, None);
        for attr in attrs.iter().filter(|attr| attr.path().is_ident("persist")) {
            let parsed = attr.parse_nested_meta(|meta| {
                if meta.path.is_ident("was") {
                    was.push(earlier_name(&meta)?);
                    Ok(())
                } else if meta.path.is_ident("since") {
                    let version = meta.value()?.parse::<LitInt>()?;
                    match version.base10_parse()? {
                        0 | 1 => Err(syn::Error::new(
                            version.span(),
                            "`since` is 2 or more: leave it out for a part of the first version",
                        )),
                        number => set(&mut since, &meta.path, number),
                    }
                } else if meta.path.is_ident("default") && adapter.is_some() {
                    set(&mut default, &meta.path, meta.value()?.parse::<Expr>()?)
                } else if meta.path.is_ident("removed") && adapter.is_none() {
                    removed.push(earlier_name(&meta)?);
                    Ok(())
                } else if let Some(adapter) = adapter.as_deref_mut().filter(|_| meta.path.is_ident("with")) {
                    let value = match meta.value()?.parse()? {
                        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => text.value(),
                        other => other.to_token_stream().to_string().replace(' ', ""),
                    };
                    *adapter = Some((meta.path.span(), value));
                    Ok(())
                } else {
                    Err(meta.error(
                        "unknown key: `#[persist(..)]` on a field or variant takes `was = \"old name\"`, `since = 2`, on a field `default = ..`, on a variant `removed = \"field\"`; other keys belong on the type",
                    ))
                }
            });
            if let Err(error) = parsed {
                errors.add(error);
            }
        }
        History { was, since: since.unwrap_or(1), default, removed }
    }
}

/// Parses the earlier name in `was = ".."` or `removed = ".."`.
fn earlier_name(meta: &ParseNestedMeta<'_>) -> syn::Result<String> {
    let value = meta.value()?.parse::<LitStr>()?;
    if value.value().is_empty() {
        return Err(syn::Error::new(value.span(), "this must be the earlier name, which is not empty"));
    }
    Ok(value.value())
}

impl Field<'_> {
    /// Returns the name of the field in the description of the type, such as `next` or `0`.
    pub(super) fn name(&self) -> String {
        match &self.member {
            Member::Named(name) => name.unraw().to_string(),
            Member::Unnamed(index) => index.index.to_string(),
        }
    }
}

impl Repr {
    fn parse(attrs: &[Attribute], errors: &mut Errors) -> Self {
        let mut repr = Repr { c: None, transparent: None, packed: None, int: None, align: 1 };
        for attr in attrs.iter().filter(|attr| attr.path().is_ident("repr")) {
            match attr.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated) {
                Ok(hints) => hints.iter().for_each(|hint| repr.add(hint)),
                Err(error) => errors.add(error),
            }
        }
        repr
    }

    fn add(&mut self, hint: &Meta) {
        let Some(name) = hint.path().get_ident() else { return };
        match name.to_string().as_str() {
            "C" => self.c = Some(name.span()),
            "transparent" => self.transparent = Some(name.span()),
            "packed" => self.packed = Some(name.span()),
            "u8" | "u16" | "u32" | "u64" | "u128" | "usize" | "i8" | "i16" | "i32" | "i64" | "i128"
            | "isize" => {
                self.int = Some(name.clone());
            }
            // If the alignment is no number, rustc reports it.
            "align" => {
                let align = hint.require_list().and_then(|list| list.parse_args::<LitInt>());
                if let Ok(Ok(align)) = align.map(|align| align.base10_parse()) {
                    self.align = self.align.max(align);
                }
            }
            // rustc checks other hints.
            _ => {}
        }
    }
}

impl Options {
    fn parse(input: &DeriveInput, errors: &mut Errors) -> Self {
        let mut krate = None;
        let mut id = None;
        let mut was = Vec::new();
        let mut removed = Vec::new();
        let mut own = None;
        let mut key = None;
        let mut serde = None;
        for attr in input.attrs.iter().filter(|attr| attr.path().is_ident("persist")) {
            let parsed = attr.parse_nested_meta(|meta| {
                if meta.path.is_ident("crate") {
                    set(&mut krate, &meta.path, meta.value()?.parse::<LitStr>()?.parse::<Path>()?)
                } else if meta.path.is_ident("id") {
                    let value = meta.value()?.parse::<LitStr>()?;
                    if value.value().is_empty() {
                        return Err(syn::Error::new(value.span(), "the id of a type must not be empty"));
                    }
                    set(&mut id, &meta.path, value.value())
                } else if meta.path.is_ident("was") {
                    let name = earlier_name(&meta)?;
                    if name.starts_with("pheap::") {
                        return Err(meta.error(
                            "a type of pheap cannot become another type, because unsafe code relies on its \
                             properties: `was` takes an earlier name of this type",
                        ));
                    }
                    was.push(name);
                    Ok(())
                } else if meta.path.is_ident("removed") {
                    removed.push(earlier_name(&meta)?);
                    Ok(())
                } else if meta.path.is_ident("key") {
                    set(&mut key, &meta.path, meta.path.span())
                } else if meta.path.is_ident("own") {
                    set(&mut own, &meta.path, ())
                } else if meta.path.is_ident("serde") {
                    set(&mut serde, &meta.path, meta.path.span())
                } else {
                    Err(meta.error(
                        "unknown key: `#[persist(..)]` takes `id = \"name\"`, `was = \"old name\"`, `removed = \"field\"`, `crate = \"path\"`, `key` and `serde`",
                    ))
                }
            });
            if let Err(error) = parsed {
                errors.add(error);
            }
        }
        Options {
            krate: krate.map_or_else(|| quote!(::pheap), Path::into_token_stream),
            id: id.unwrap_or_else(|| input.ident.unraw().to_string()),
            was,
            removed,
            own: own.is_some(),
            key,
            serde,
        }
    }
}

fn set<T>(slot: &mut Option<T>, key: &Path, value: T) -> syn::Result<()> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(syn::Error::new(key.span(), "this key is given twice")),
    }
}
