//! The two forms of functions with `#[txn]`: a function joins a transaction or opens one.

use super::scope::ScopedNames;
use super::tokens::{is_word, list};
use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use syn::parse::{ParseStream, Parser};
use syn::spanned::Spanned;
use syn::{Attribute, Error, FnArg, Pat, Result, ReturnType, Signature, Type, Visibility};

/// The name of the transaction in a function that opens one.
pub(super) const TX: &str = "tx";

const FORMS: &str = "`#[txn]` needs a function with a parameter `tx: &mut Txn<'_>`, to join the caller's transaction, \
                     or one with a parameter `name: &Root<T>`, to open a transaction on that root";

pub(super) enum Form {
    /// The function has parameters of type `&mut Txn`, with these names.
    Joins(Vec<Ident>),
    /// The function has one parameter of type `&Root<T>`, with this name.
    Opens(Ident),
}

/// A function with a parsed signature and an unparsed body.
pub(super) struct Function {
    /// The tokens of the attributes, the visibility and the signature.
    pub(super) head: TokenStream,
    pub(super) sig: Signature,
    /// The body, with its braces.
    pub(super) body: Group,
}

pub(super) fn parse(item: TokenStream) -> Result<Function> {
    let mut head = list(item);
    let body = head.pop();
    let is_function = || head.iter().chain(&body).any(|token| is_word(token, "fn"));
    let Some(body) = body.clone().and_then(braces) else {
        let span = head.first().or(body.as_ref()).map_or_else(Span::call_site, TokenTree::span);
        return Err(Error::new(
            span,
            if is_function() { "`#[txn]` needs a function with a body" } else { FORMS },
        ));
    };
    let head: TokenStream = head.iter().cloned().collect();
    let signature = |input: ParseStream<'_>| {
        input.call(Attribute::parse_outer)?;
        input.parse::<Visibility>()?;
        input.parse()
    };
    match signature.parse2(head.clone()) {
        Ok(sig) => Ok(Function { head, sig, body }),
        // If the item is a function, its head has a syntax error, for which syn has the better message.
        Err(error) => Err(if is_function() { error } else { Error::new(error.span(), FORMS) }),
    }
}

/// Returns the braces at a token. If the token is an invisible group, which an argument of a macro becomes,
/// returns the braces at the end of the group.
fn braces(token: TokenTree) -> Option<Group> {
    match token {
        TokenTree::Group(group) => match group.delimiter() {
            Delimiter::Brace => Some(group),
            Delimiter::None => group.stream().into_iter().last().and_then(braces),
            _ => None,
        },
        _ => None,
    }
}

impl Form {
    pub(super) fn of(sig: &Signature) -> Result<Form> {
        plain(sig)?;
        let joins = parameters(sig, is_txn)?;
        if !joins.is_empty() {
            return Ok(Form::Joins(joins.into_iter().cloned().collect()));
        }
        match parameters(sig, is_root)?.as_slice() {
            [] => Err(neither(sig)),
            [root] => {
                opens(sig, root)?;
                Ok(Form::Opens((*root).clone()))
            }
            [_, second, ..] => Err(Error::new(
                second.span(),
                "`#[txn]` opens one root: for an atomic change of several, write \
                 `pheap::txn((&a, &b), |((ta, a), (tb, b))| ..)` in the body instead",
            )),
        }
    }
}

impl Form {
    /// Returns the names of the transactions in the body, and the names of the pointers.
    pub(super) fn names(&self, sig: &Signature) -> (ScopedNames, ScopedNames) {
        let pointers = sig.inputs.iter().filter_map(|input| match input {
            FnArg::Typed(input) if is_pointer(&input.ty) => match &*input.pat {
                Pat::Ident(name) => Some(name.ident.clone()),
                _ => None,
            },
            _ => None,
        });
        match self {
            Form::Joins(names) => (ScopedNames::new(names.iter().cloned()), ScopedNames::new(pointers)),
            Form::Opens(root) => {
                let tx = Ident::new(TX, Span::call_site());
                (ScopedNames::new([tx]), ScopedNames::new(pointers.chain([root.clone()])))
            }
        }
    }
}

/// Returns whether a type is written as `P<'r, T>`.
fn is_pointer(ty: &Type) -> bool {
    match ty {
        Type::Path(ty) => {
            ty.path.segments.last().is_some_and(|last| last.ident == "P" && !last.arguments.is_none())
        }
        _ => false,
    }
}

/// Returns the error for a function of neither form. `#[txn]` knows types only by their names, so if a
/// parameter may have an alias of `Root<T>` or `Txn`, the message says what to write.
fn neither(sig: &Signature) -> Error {
    let aliased = sig.inputs.iter().find_map(|input| match input {
        FnArg::Typed(input) => match (&*input.pat, &*input.ty) {
            (Pat::Ident(name), Type::Reference(reference)) => match &*reference.elem {
                Type::Path(ty) => Some((&name.ident, reference, ty)),
                _ => None,
            },
            _ => None,
        },
        FnArg::Receiver(_) => None,
    });
    let Some((name, reference, ty)) = aliased else { return Error::new(sig.ident.span(), FORMS) };
    let alias = &ty.path.segments.last().expect("a path has one").ident;
    if alias == "Txn" || alias == "Root" || alias.to_string().starts_with(|c: char| c.is_lowercase()) {
        return Error::new(sig.ident.span(), FORMS);
    }
    let written = if reference.mutability.is_some() { "&mut Txn<'_>" } else { "&Root<T>" };
    let of = if reference.mutability.is_some() { "`Txn`" } else { "`Root<T>`" };
    Error::new(
        reference.span(),
        format_args!(
            "{FORMS}; the macro does not see through aliases, so if `{alias}` is an alias of {of}, use \
             `{name}: {written}` here"
        ),
    )
}

/// Refuses `const`, `async` and `extern` functions. The messages say why.
fn plain(sig: &Signature) -> Result<()> {
    let (span, kind, why) = if let Some(token) = sig.constness {
        (token.span, "const", "a transaction runs at run time")
    } else if let Some(token) = sig.asyncness {
        (token.span, "async", "a transaction holds a lock that must not be held across `.await`")
    } else if let Some(abi) = &sig.abi {
        (abi.extern_token.span, "extern", "only Rust can pass a `Txn` or a `Root`")
    } else {
        return Ok(());
    };
    Err(Error::new(span, format_args!("`#[txn]` cannot be used on {kind} functions: {why}")))
}

fn opens(sig: &Signature, root: &Ident) -> Result<()> {
    if matches!(sig.output, ReturnType::Default) {
        return Err(Error::new(
            sig.ident.span(),
            format_args!("a transaction can fail: let `{}` return `pheap::Result<()>`", sig.ident),
        ));
    }
    for input in &sig.inputs {
        if let FnArg::Typed(input) = input
            && let Pat::Ident(name) = &*input.pat
            && name.ident == TX
        {
            return Err(Error::new(
                name.ident.span(),
                format_args!(
                    "`tx` is the transaction that `#[txn]` opens on `{root}`: give this parameter another name"
                ),
            ));
        }
    }
    Ok(())
}

/// Returns the names of the parameters for whose type `is` returns true. Fails if such a parameter has a
/// pattern instead of a name.
fn parameters(sig: &Signature, is: fn(&Type) -> bool) -> Result<Vec<&Ident>> {
    let typed = sig.inputs.iter().filter_map(|input| match input {
        FnArg::Typed(input) if is(&input.ty) => Some(input),
        _ => None,
    });
    typed
        .map(|input| match &*input.pat {
            Pat::Ident(name) => Ok(&name.ident),
            pattern => Err(Error::new(
                pattern.span(),
                "`#[txn]` needs a plain name for this parameter, not a pattern",
            )),
        })
        .collect()
}

fn is_txn(ty: &Type) -> bool {
    is_reference_to(ty, true, "Txn")
}

fn is_root(ty: &Type) -> bool {
    is_reference_to(ty, false, "Root")
}

fn is_reference_to(ty: &Type, mutable: bool, name: &str) -> bool {
    match ty {
        Type::Paren(ty) => is_reference_to(&ty.elem, mutable, name),
        Type::Group(ty) => is_reference_to(&ty.elem, mutable, name),
        Type::Reference(reference) if reference.mutability.is_some() == mutable => match &*reference.elem {
            Type::Path(ty) => ty.path.segments.last().is_some_and(|last| last.ident == name),
            _ => false,
        },
        _ => false,
    }
}
