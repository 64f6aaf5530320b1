//! Mutants of locks: with a lock left out, two threads would meet inside of it, which a program notices. And
//! bugs in waiting and forking.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Instant;

use pheap::sim::mutant::{Kind, Mutant, Mutation, Site, note_locks, set_mutant, sites};
use pheap_crash::contention::{programs, seeded};
use pheap_crash::mutate::source::Source;

/// A mutant of a lock applies to the whole process, so only one test runs at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// Returns whether a program notices the mutant that leaves the lock out. Begins with the `likely` programs,
/// which have been at the site.
fn is_noticed(site: Site, likely: &[usize]) -> bool {
    let start = Instant::now();
    let all = programs();
    let order = likely.iter().copied().chain((0..all.len()).filter(|program| !likely.contains(program)));
    let noticed = order.map(|program| all[program]).find(|(_, program)| {
        set_mutant(Some(Mutant { site, mutation: Mutation::Drop }));
        program().is_err()
    });
    set_mutant(None);
    println!("{site}: {} ({:.1?})", noticed.map_or("NOBODY NOTICES", |program| program.0), start.elapsed());
    noticed.is_some()
}

#[test]
fn every_lock_counts() {
    let _alone = ALONE.lock();
    let mut found: BTreeMap<Site, Vec<usize>> = BTreeMap::new();
    for (number, (name, program)) in programs().iter().enumerate() {
        note_locks(true);
        if let Err(why) = program() {
            panic!("{name}, without any mutant: {why}");
        }
        for site in sites().into_keys().filter(|site| site.kind == Kind::Lock) {
            found.entry(site).or_default().push(number);
        }
        note_locks(false);
    }
    let source = Source::read();
    let survives = |site: &Site| source.argument(site.file, site.line, site.kind, "drop").is_some();
    let argued = found.keys().filter(|site| survives(site)).count();
    println!("{} locks, of which {argued} have an argument", found.len());
    // One in so many locks, because all of them take long.
    let every = if std::env::var_os("PHEAP_ALL_LOCKS").is_some() { 1 } else { 24 };
    let missed: Vec<Site> = (found.into_iter().step_by(every))
        // A meeting that is noticed would have happened, so further attempts cannot make a wrong one pass.
        .filter(|(site, likely)| !survives(site) && !(0..3).any(|_| is_noticed(*site, likely)))
        .map(|(site, _)| site)
        .collect();
    assert!(missed.is_empty(), "{missed:?}");
}

#[test]
fn every_bug_in_who_waits_for_whom_is_found() {
    let _alone = ALONE.lock();
    for &(bug, name, program) in seeded() {
        assert_eq!(program(None), Ok(()), "{name}");
        // It depends on the timing whether the bug shows, so this is tried several times.
        let found = (0..10).find_map(|_| program(Some(bug)).err());
        println!("{bug:?}: {found:?}");
        assert!(found.is_some(), "{name} does not notice {bug:?}");
    }
}
