//! Threads meet at every lock: with one left out, they would have been inside of it at a time.

use std::time::Instant;

use pheap::sim::mutant::{Kind, Mutant, Mutation, Site, note_locks, set_mutant, sites};
use pheap_crash::contention::programs;

/// Whether the source argues that nobody notices if the lock is left out.
fn survives(site: Site) -> bool {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");
    let text = std::fs::read_to_string(format!("{root}{}", site.file)).expect("a source file");
    let lines: Vec<&str> = text.lines().collect();
    let above = lines[..site.line as usize - 1].iter().rev().map(|line| line.trim());
    above.take_while(|line| line.starts_with("//")).any(|line| line.starts_with("// SURVIVES drop: "))
}

fn is_noticed(site: Site) -> bool {
    let start = Instant::now();
    let noticed = programs().iter().find(|(_, program)| {
        set_mutant(Some(Mutant { site, mutation: Mutation::Drop }));
        program().is_err()
    });
    set_mutant(None);
    println!("{site}: {} ({:.1?})", noticed.map_or("NOBODY NOTICES", |program| program.0), start.elapsed());
    noticed.is_some()
}

#[test]
fn every_lock_counts() {
    note_locks(true);
    for (name, program) in programs() {
        if let Err(why) = program() {
            panic!("{name}, without any mutant: {why}");
        }
    }
    let found: Vec<Site> = sites().into_keys().filter(|site| site.kind == Kind::Lock).collect();
    note_locks(false);
    let argued = found.iter().filter(|&&site| survives(site)).count();
    let missed: Vec<Site> =
        found.iter().copied().filter(|&site| !survives(site) && !is_noticed(site)).collect();
    println!("{} locks, of which {argued} need not be there for the programs' sake", found.len());
    assert!(missed.is_empty(), "{missed:?}");
}
