//! `#[derive(Persist)]`: parse, validate, expand.

mod brand;
mod exchange;
mod expand;
mod key;
mod parse;
mod validate;

use proc_macro2::TokenStream;
use syn::DeriveInput;

use crate::errors::Errors;

pub(crate) fn derive(input: &DeriveInput) -> TokenStream {
    let mut errors = Errors::default();
    let input = parse::Input::parse(input, &mut errors);
    validate::validate(&input, &mut errors);
    match errors.into_result() {
        Ok(()) => expand::expand(&input),
        Err(errors) => expand::stub(&input, &errors),
    }
}
