//! Helpers for the command lines of the benchmarks.

use crate::scratch;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Arg, Parser, ValueEnum};
use pheap::Durability;

/// Returns the arguments of a benchmark. `cargo test --benches` gives none of its options: then this runs
/// `smoke_test`, or lists no tests, and returns `None`.
///
/// # Errors
/// The error of the smoke test.
pub fn arguments<A: Parser, E>(smoke_test: impl FnOnce() -> Result<(), E>) -> Result<Option<A>, E> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let mut command = A::command();
    command.build(); // adds `--help`
    let is_option = |word: &String| {
        let option = word.split('=').next().and_then(|option| option.strip_prefix("--"));
        word == "-h"
            || option.is_some() && command.get_arguments().map(Arg::get_long).any(|long| long == option)
    };
    if words.iter().any(is_option) && !words.iter().any(|word| word == "--test") {
        return Ok(Some(A::parse()));
    }
    if !words.iter().any(|word| word == "--list") {
        smoke_test()?;
    }
    Ok(None)
}

/// Returns a parser of durabilities with these names.
pub fn durability(names: impl Into<PossibleValuesParser>) -> impl TypedValueParser<Value = Durability> {
    names.into().map(|name| scratch::named(&name).expect("it is one of the names"))
}

/// Returns the name of a value on the command line.
pub fn name(value: &impl ValueEnum) -> String {
    value.to_possible_value().expect("each value has a name").get_name().to_owned()
}
