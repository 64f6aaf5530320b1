//! Opens heap files whose metadata were damaged.
//!
//! Opening must end in a heap or in an error: no panic, no signal, no hang. After an error, and after a read-only opening, the file
//! is what it was. A heap that did open can be listed, changed and closed, and opens again.
//!
//! Objects are never damaged, and those of the damaged heap are never read: opening believes them. (See "Trust" in the design.)

#![no_main]

use std::fs;
use std::path::Path;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use pheap::{Error, Options, Root};

mod image;
mod templates;

use image::Mutation;
use templates::{List, Other, options};

/// One input of the fuzzer.
#[derive(Arbitrary, Debug)]
struct Input {
    /// Which file is damaged.
    template: u8,
    mutations: Vec<Mutation>,
    /// Whether checksums are made good again, so that the checks behind them are reached. (Not those of log entries.)
    reseal: bool,
    read_only: bool,
    /// Whether it is opened at another address than it was made for.
    elsewhere: bool,
    after: Vec<After>,
}

/// Where neither heaps nor sanitizers are by themselves.
const ELSEWHERE: u64 = 84 << 40;

/// What is done with a heap that did open.
#[derive(Arbitrary, Debug)]
enum After {
    Create(u8, u16),
    Rename(u8, u8),
    Remove(u8),
    /// Looks at the types of a root.
    Existing(u8),
    Stats,
}

fuzz_target!(|input: Input| run(&input));

fn run(input: &Input) {
    let template = templates::get(input.template);
    let mut image = template.clone();
    for mutation in input.mutations.iter().take(8) {
        image.apply(mutation);
    }
    if input.reseal {
        image.reseal();
    }
    let dir = pheap_fuzz::scratch();
    let path = dir.path().join("heap");
    fs::write(&path, image.bytes()).expect("the file can be written");

    let mut how = options().read_only(input.read_only);
    if input.elsewhere {
        how = how.base(ELSEWHERE);
    }
    let heap = match how.open(&path) {
        Ok(heap) => heap,
        Err(error) => {
            assert!(same(&path, image.bytes()), "the file was changed before the error: {error}");
            return;
        }
    };
    for after in input.after.iter().take(8) {
        let names: Vec<String> = heap.roots().into_iter().map(|root| root.name).collect();
        let name = |which: u8| usize::from(which).checked_rem(names.len()).map(|i| names[i].as_str());
        // Errors are fine: the heap may be full, read-only, or not what it seems.
        match *after {
            After::Create(new, words) => create(&heap, &format!("new {}", new % 4), words.into()),
            After::Rename(from, to) => {
                if let Some(from) = name(from) {
                    let _ = heap.rename_root(from, &format!("renamed {}", to % 4));
                }
            }
            After::Remove(which) => {
                if let Some(name) = name(which) {
                    let _ = heap.remove_root(name);
                }
            }
            After::Existing(which) => {
                if let Some(name) = name(which) {
                    let _ = (heap.existing_root::<List>(name), heap.existing_root::<Other>(name));
                }
            }
            After::Stats => drop(heap.stats()),
        }
    }
    let roots = heap.roots();
    heap.close().expect("an open heap can be closed");
    if input.read_only {
        assert!(same(&path, image.bytes()), "a read-only heap has changed its file");
        return;
    }
    let again = options().open(&path).expect("what was open can be opened again");
    assert_eq!(again.roots(), roots);
}

/// Makes a root and uses it.
fn create(heap: &pheap::Heap, name: &str, words: u64) {
    let new = heap.root_or::<Other>(name, |tx| Other::new(tx, words));
    let Ok(root): Result<Root<Other>, Error> = new else { return };
    let changed = root.txn(|tx, other| Other::fill(other, tx, 7));
    let sum = root.read(|view, other| Other::sum(other, view));
    if changed.is_ok() {
        assert!(sum.is_ok_and(|sum| sum % 7 == 0));
    }
}

fn same(path: &Path, bytes: &[u8]) -> bool {
    fs::read(path).expect("the file can be read") == bytes
}

/// How the templates are opened, too.
fn small(options: Options) -> Options {
    options.arena_size(32 << 10).reserve(1 << 26).max_size(1 << 20)
}
