//! Damaged heaps: the program ends with one of its exit statuses, and says why if it fails.

use std::fs;

use pheap_testkit::Rng;

use crate::heap::{Place, pheap};

/// Commands that look at a heap.
const LOOKS: &[(&str, &[&str])] = &[
    ("dump", &["shop", "--compact"]),
    ("dump", &["shop.jobs", "--format", "csv"]),
    ("get", &["shop.jobs[*].name"]),
    ("graph", &["--format", "svg"]),
    ("report", &[]),
    ("check", &[]),
];

#[track_caller]
fn look(path: &std::path::Path, what: &str) {
    for (command, more) in LOOKS {
        let output = pheap(command, path, more);
        let code = output.status.code();
        assert!(matches!(code, Some(0..=2)), "{what}: {command} ended with {:?}: {output:?}", output.status);
        assert!(code != Some(2) || !output.stderr.is_empty(), "{what}: {command} says nothing");
    }
}

/// Compares a heap with a good one.
#[track_caller]
fn compare(good: &std::path::Path, path: &std::path::Path, what: &str) {
    let output = pheap("diff", good, &[path.to_str().unwrap()]);
    assert!(matches!(output.status.code(), Some(0..=2)), "{what}: {output:?}");
}

#[test]
fn a_heap_that_is_cut_off_is_looked_at() {
    let place = Place::with(100);
    let bytes = fs::read(&place.heap).unwrap();
    let cut = place.path("cut");
    for len in [0, 1, 511, 4096, 8192, 12288, 65536, bytes.len() / 2, bytes.len() - 4096, bytes.len() - 1] {
        fs::write(&cut, &bytes[..len]).unwrap();
        look(&cut, &format!("{len} bytes"));
    }
}

#[test]
fn a_heap_whose_bytes_have_changed_is_looked_at() {
    let place = Place::with(100);
    let bytes = fs::read(&place.heap).unwrap();
    let damaged = place.path("damaged");
    // Words other than zero, behind the first two pages.
    let words: Vec<usize> = (8192..bytes.len() - 8)
        .step_by(8)
        .filter(|&at| bytes[at..at + 8].iter().any(|&byte| byte != 0))
        .collect();
    for seed in 0..60 {
        let mut random = Rng::new(&[seed]);
        let mut changed = bytes.clone();
        for _ in 0..1 + seed % 4 {
            let at = words[random.below(words.len())];
            match random.below(3) {
                // Another word of the heap, which may be a pointer to something else.
                0 => {
                    let from = words[random.below(words.len())];
                    changed.copy_within(from..from + 8, at);
                }
                1 => changed[at + random.below(8)] ^= 1 << random.below(8),
                _ => changed[at..at + 8].fill(random.below(256) as u8),
            }
        }
        fs::write(&damaged, &changed).unwrap();
        look(&damaged, &format!("seed {seed}"));
        compare(&place.heap, &damaged, &format!("seed {seed}"));
    }
}
