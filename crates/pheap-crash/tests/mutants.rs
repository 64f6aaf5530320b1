//! Tries some of the mutants, so that the code that tries all of them keeps working:
//! `cargo run -p pheap-crash -- mutate`. The test is alone in its process, because mutants of locks apply to
//! the whole process.

use std::path::Path;
use std::slice;
use std::time::Duration;

use pheap_crash::mutate::child::{Child, Verdict};
use pheap_crash::mutate::explore_all;
use pheap_crash::mutate::hints::{self, Hints};
use pheap_crash::mutate::programs::Case;
use pheap_crash::mutate::source::Source;

/// Tries one in `every` of the recorded mutants, with the program that noticed it. `runner` is the program
/// `pheap-crash`. Returns how many mutants were tried.
///
/// # Errors
/// If a mutant is not noticed any more, or a program cannot be tried.
fn sample(runner: &Path, every: usize) -> Result<usize, String> {
    let source = Source::read();
    let mut tried = 0;
    for (name, text) in Hints::read().iter().step_by(every) {
        let case: Case = text.parse()?;
        let found = explore_all(slice::from_ref(&case))?;
        let mutants = found.iter().flat_map(|(&site, reached)| reached.mutants(site));
        // If the line is not there any more, the next run of all mutants with `--save` forgets it.
        let named = mutants.filter(|mutant| hints::name(&source, mutant) == *name);
        for mutant in named.take(1) {
            tried += 1;
            let budget = Duration::from_secs(10);
            let child = Child::start(runner, mutant, slice::from_ref(&case), &[0], budget)?;
            if let (_, Verdict::Survived(_)) = child.wait()? {
                return Err(format!("{mutant} was noticed by `{case}`, and is not any more"));
            }
        }
    }
    Ok(tried)
}

#[test]
fn mutants_are_noticed() {
    let runner = Path::new(env!("CARGO_BIN_EXE_pheap-crash"));
    match sample(runner, 15) {
        Ok(tried) => assert!(tried >= 8, "only {tried} mutants were tried"),
        Err(error) => panic!("{error}"),
    }
}
