//! Opens heap files that were damaged, and files that are not heaps.
//!
//! Opening must return a heap or an error. It must not panic, hang, or raise a signal. If it returns an
//! error, or the heap is opened read-only, the files do not change. If a heap opens, it can be listed,
//! closed, and (if not read-only) opened again. Changes before that may fail, but with errors only.
//!
//! With `Options::verify`, any byte may be damaged. Then a heap that opens is sound: it can be read
//! completely, checked, changed, collected, closed and verified again. Without `Options::verify`, opening
//! trusts objects and the log entries about them. Then only metadata are damaged, and old objects are never
//! read. (See "Trust" in the design.)

#![no_main]

use std::fs;
use std::path::Path;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use pheap::{Error, Heap, Root};
use pheap_fuzz::{Durable, Files, assert_sound};
use tempfile::TempDir;

mod content;
mod image;
mod mutation;
mod seal;
mod templates;

use content::{Known, Slices};
use image::{HEAP, Image, LOG};
use mutation::{Damage, Mutation};

/// One input of the fuzzer.
#[derive(Arbitrary, Debug)]
struct Input {
    /// Index of the template that is damaged.
    template: u8,
    mutations: Vec<Mutation>,
    /// Whether checksums are corrected after the damage, so that the checks behind them are reached.
    reseal: bool,
    verify: bool,
    read_only: bool,
    /// Whether the heap is opened at another address than it was made for.
    elsewhere: bool,
    durability: Durable,
    after: Vec<After>,
    /// Bytes of the heap and its log, instead of a template. Used only with `verify`.
    bytes: Option<(Vec<u8>, Vec<u8>)>,
}

/// An address that heaps do not use by default.
const ELSEWHERE: u64 = 84 << 40;

/// An operation on a heap that has opened.
#[derive(Arbitrary, Debug)]
enum After {
    Create(u8, u16),
    Rename(u8, u8),
    Remove(u8),
    /// Looks up a root with each type.
    Existing(u8),
    Stats,
    /// Runs a transaction on a root, if the heap was verified.
    Change(u8, u8),
    Collect,
    Checkpoint,
    Backup,
}

fuzz_target!(|input: Input| run(&input));

fn run(input: &Input) {
    let templates = templates::all();
    let damage = Damage { all: input.verify, templates };
    let mut image = match &input.bytes {
        Some((heap, log)) if input.verify => Image::unknown(heap.clone(), log.clone()),
        _ => templates[usize::from(input.template) % templates.len()].clone(),
    };
    for mutation in input.mutations.iter().take(8) {
        let _ = image.apply(&damage, mutation);
    }
    if input.reseal {
        image.reseal(input.verify);
    }
    let (dir, files) = write(&image);
    let mut how = input.durability.of(templates::options()).read_only(input.read_only).verify(input.verify);
    if input.elsewhere {
        how = how.base(ELSEWHERE);
    }
    let heap = match how.open(files.heap()) {
        Ok(heap) => heap,
        Err(error) => {
            assert!(same(&files, &image), "the files were changed before the error: {error}");
            return;
        }
    };
    let before = if input.verify { examine(&heap) } else { Vec::new() };
    for after in input.after.iter().take(8) {
        change(&heap, after, dir.path(), input.verify);
    }
    let roots = heap.roots();
    let content = if input.verify { examine(&heap) } else { Vec::new() };
    if input.read_only {
        assert!(before == content, "a read-only heap has changed");
    }
    heap.close().expect("an open heap can be closed");
    if input.read_only {
        assert!(same(&files, &image), "a read-only heap has changed its files");
        return;
    }
    let again = how.open(files.heap()).expect("what was open can be opened again");
    assert_eq!(again.roots(), roots);
    if input.verify {
        assert!(examine(&again) == content, "the heap holds something else when it is opened again");
    }
}

/// Writes both files of an image into a separate folder.
fn write(image: &Image) -> (TempDir, Files) {
    let dir = pheap_fuzz::scratch();
    let files = Files::new(dir.path().join("heap"));
    let [log, heap] = files.both();
    fs::write(heap, &image.files[HEAP]).expect("the file can be written");
    if !image.files[LOG].is_empty() {
        fs::write(log, &image.files[LOG]).expect("the log can be written");
    }
    (dir, files)
}

/// Returns whether the files equal the image.
fn same(files: &Files, image: &Image) -> bool {
    let [log, heap] = files.read();
    heap == image.files[HEAP] && log == image.files[LOG]
}

/// Checks a verified heap, and reads all roots of known types. Returns the names of all roots, with hashes of
/// their content.
fn examine(heap: &Heap) -> Vec<(String, Option<u64>)> {
    assert_sound(heap);
    let roots = heap.roots().into_iter().map(|root| root.name);
    roots
        .map(|name| {
            let read = Known::find(heap, &name).map(|root| root.read().expect("a root can be read"));
            (name, read)
        })
        .collect()
}

/// Does an operation. Errors are allowed: the heap may be full, read-only, or damaged.
fn change(heap: &Heap, after: &After, dir: &Path, verified: bool) {
    let names: Vec<String> = heap.roots().into_iter().map(|root| root.name).collect();
    let name = |which: u8| usize::from(which).checked_rem(names.len()).map(|i| names[i].as_str());
    match *after {
        After::Create(new, words) => create(heap, &format!("new {}", new % 4), words.into()),
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
                let _ = Known::find(heap, name);
            }
        }
        After::Stats => drop((heap.stats(), heap.info(), heap.types())),
        After::Change(which, by) if verified => {
            if let Some(root) = name(which).and_then(|name| Known::find(heap, name)) {
                let _ = root.change(by);
            }
        }
        After::Change(..) => {}
        After::Collect if verified => drop(heap.wait_ready().and_then(|()| heap.collect())),
        After::Collect => {}
        After::Checkpoint => drop(heap.checkpoint()),
        After::Backup => drop(heap.backup(dir.join("backup"))),
    }
}

/// Creates a root and uses it, or uses an existing one of this name and type.
fn create(heap: &Heap, name: &str, words: u64) {
    let new = heap.root_or::<Slices>(name, |tx| Slices::new(tx, words));
    let Ok(root): Result<Root<Slices>, Error> = new else { return };
    let changed = root.txn(|tx, slices| {
        Slices::fill(slices, tx, 7);
        Ok(())
    });
    let sum = root.read(|view, slices| Slices::sum(slices, view));
    if changed.is_ok() {
        assert!(sum.is_ok_and(|sum| sum % 7 == 0));
    }
}
