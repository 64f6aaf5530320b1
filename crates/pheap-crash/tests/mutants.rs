//! Some of the mutants are tried, so that nothing of what tries all of them falls into disrepair: `cargo run -p pheap-crash -- mutate`.
//! It has a process of its own: it simulates heaps in threads, at the address that others in the process would have.

use std::path::Path;

use pheap_crash::mutate::sample;

#[test]
fn mutants_are_noticed() {
    let runner = Path::new(env!("CARGO_BIN_EXE_pheap-crash"));
    match sample(runner, 15) {
        Ok(tried) => assert!(tried >= 8, "only {tried} mutants were tried"),
        Err(error) => panic!("{error}"),
    }
}
