//! The derived type at another brand: `Node<'r, T>` becomes `Node<'__at, <T as Persist>::At<'__at>>`.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote};
use syn::punctuated::Punctuated;
use syn::visit_mut::{self, VisitMut};
use syn::{
    GenericParam, Generics, Lifetime, LifetimeParam, PredicateType, Token, Type, TypeParamBound, TypePath,
    WherePredicate, parse_quote,
};

use super::parse::Input;

/// Returns the lifetime of the other brand. Users do not write `'__at`.
pub(super) fn lifetime() -> Lifetime {
    Lifetime::new("'__at", Span::mixed_site())
}

/// Returns the generic arguments of the type at the other brand, in angle brackets.
fn arguments(input: &Input<'_>, at: &Lifetime) -> TokenStream {
    let arguments = input.generics.params.iter().map(|param| match param {
        GenericParam::Lifetime(_) => at.to_token_stream(),
        GenericParam::Type(param) => parameter(&input.options.krate, &param.ident, at),
        GenericParam::Const(param) => param.ident.to_token_stream(),
    });
    quote!(<#(#arguments),*>)
}

fn parameter(krate: &TokenStream, name: &Ident, at: &Lifetime) -> TokenStream {
    quote!(<#name as #krate::Persist>::At<#at>)
}

/// Returns the generics of the impl. Each type parameter is `Persist`. Each bound that the type declares must
/// also hold at the other brand; otherwise the type at that brand would not be well-formed.
pub(super) fn generics(input: &Input<'_>) -> Generics {
    let krate = &input.options.krate;
    let mut generics = input.generics.clone();
    let predicates = bounds(input);
    generics.type_params_mut().for_each(|param| param.bounds.push(parse_quote!(#krate::Persist)));
    if !predicates.is_empty() {
        // The compiler does not know that a brand replaces an earlier brand. Without these predicates, it
        // would require the bounds at the brand of a brand, and so on without end.
        let (one, at) = (Lifetime::new("'__one", Span::mixed_site()), lifetime());
        let replaces = input.generics.type_params().map(|param| -> WherePredicate {
            let name = &param.ident;
            let value = parameter(krate, name, &at);
            parse_quote!(
                for<#one, #at> <#name as #krate::Persist>::At<#one>: #krate::Persist<At<#at> = #value>
            )
        });
        let clause = generics.make_where_clause();
        clause.predicates.extend(replaces);
        clause.predicates.extend(predicates);
    }
    generics
}

/// Returns the bounds that the type declares, at any brand, except those that `Persist` implies, that do not
/// depend on a brand or a type parameter, or whose paths are [unclear].
pub(super) fn bounds(input: &Input<'_>) -> Vec<WherePredicate> {
    let apart = declared(input.generics).flat_map(apart);
    apart.filter_map(|predicate| at_any_brand(input, predicate)).collect()
}

/// Splits a predicate that has no `for<..>` itself: one predicate gets all bounds without `for<..>`, and each
/// bound with `for<..>` gets a separate one. `T: for<'a> Trait<'a>` becomes `for<'a> T: Trait<'a>`. The
/// reason is that each predicate gets another lifetime, and a `for<..>` cannot contain another one.
fn apart(mut predicate: PredicateType) -> Vec<PredicateType> {
    let bounds = std::mem::take(&mut predicate.bounds);
    let mut all = vec![predicate.clone()];
    for mut bound in bounds {
        match &mut bound {
            TypeParamBound::Trait(own) if own.lifetimes.is_some() && predicate.lifetimes.is_none() => {
                let lifetimes = own.lifetimes.take();
                let bounds = Punctuated::from_iter([bound]);
                all.push(PredicateType { lifetimes, bounds, ..predicate.clone() });
            }
            _ => all[0].bounds.push(bound),
        }
    }
    all
}

/// Returns all bounds of types, from the parameter list and the where clause.
fn declared(generics: &Generics) -> impl Iterator<Item = PredicateType> {
    let inline = generics.type_params().map(|param| {
        let name = &param.ident;
        PredicateType {
            attrs: Vec::new(),
            lifetimes: None,
            bounded_ty: parse_quote!(#name),
            colon_token: Token![:](Span::mixed_site()),
            bounds: param.bounds.clone(),
        }
    });
    let clause = generics.where_clause.iter().flat_map(|clause| &clause.predicates);
    let clause = clause.filter_map(|predicate| match predicate {
        WherePredicate::Type(predicate) => Some(predicate.clone()),
        _ => None,
    });
    inline.chain(clause)
}

fn at_any_brand(input: &Input<'_>, mut predicate: PredicateType) -> Option<WherePredicate> {
    predicate.bounds =
        predicate.bounds.into_iter().filter(|bound| !is_implied(bound)).collect::<Punctuated<_, _>>();
    let mut rebrand = Rebrand { input, at: lifetime(), changed: false, unclear: Vec::new() };
    rebrand.visit_predicate_type_mut(&mut predicate);
    // The validation reports unclear paths.
    if predicate.bounds.is_empty() || !rebrand.changed || !rebrand.unclear.is_empty() {
        return None;
    }
    let at = GenericParam::Lifetime(LifetimeParam::new(lifetime()));
    predicate.lifetimes.get_or_insert_with(|| parse_quote!(for<>)).lifetimes.insert(0, at);
    Some(WherePredicate::Type(predicate))
}

/// Returns the paths of the form `T::Item` in bounds. At another brand, `T` becomes a type that is no
/// parameter, and for such a type the compiler requires the trait's name in the path.
pub(super) fn unclear(input: &Input<'_>) -> Vec<TypePath> {
    let mut rebrand = Rebrand { input, at: lifetime(), changed: false, unclear: Vec::new() };
    for mut predicate in declared(input.generics) {
        if !predicate.bounds.iter().all(is_implied) {
            rebrand.visit_predicate_type_mut(&mut predicate);
        }
    }
    rebrand.unclear
}

/// Returns whether `Persist` implies the bound. The trait declares `At<'r>: Persist`, and `Persist` implies
/// `Sized`.
fn is_implied(bound: &TypeParamBound) -> bool {
    match bound {
        TypeParamBound::Trait(bound) => {
            bound.path.segments.last().is_some_and(|last| last.ident == "Persist" || last.ident == "Sized")
        }
        _ => false,
    }
}

/// Replaces every occurrence of the brand, of the type parameters and of `Self`, except in unclear paths.
struct Rebrand<'a> {
    input: &'a Input<'a>,
    at: Lifetime,
    changed: bool,
    /// Paths of the form `T::Item`.
    unclear: Vec<TypePath>,
}

impl VisitMut for Rebrand<'_> {
    fn visit_lifetime_mut(&mut self, lifetime: &mut Lifetime) {
        if self.input.generics.lifetimes().any(|param| param.lifetime.ident == lifetime.ident) {
            lifetime.ident = self.at.ident.clone();
            self.changed = true;
        }
    }

    fn visit_type_mut(&mut self, ty: &mut Type) {
        if matches!(ty, Type::Path(path) if path.path.is_ident("Self")) {
            self.changed = true;
            let (name, arguments) = (self.input.name, arguments(self.input, &self.at));
            *ty = parse_quote!(#name #arguments);
            return;
        }
        if let Type::Path(path) = ty
            && path.qself.is_none()
            && let Some(first) = path.path.segments.first()
            && self.input.generics.type_params().any(|param| param.ident == first.ident)
        {
            self.changed = true;
            if path.path.segments.len() > 1 {
                return self.unclear.push(path.clone());
            }
            let parameter = parameter(&self.input.options.krate, &first.ident, &self.at);
            *ty = parse_quote!(#parameter);
            return;
        }
        visit_mut::visit_type_mut(self, ty);
    }
}
