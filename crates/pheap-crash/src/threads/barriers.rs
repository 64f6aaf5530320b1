//! Leaves out protections that threads rely on where they meet, one at a time. The program that is named with
//! a mistake must notice it.

use std::collections::BTreeMap;
use std::time::Instant;

use pheap::sim::mutant::{Kind, Mutant, Mutation, Site};
use pheap::sim::{Bug, Mistake};

use super::explore::{Exploration, Limits, Seed};
use super::program::{PROGRAMS, Program};
use crate::mutate::source::Source;

const NOTHING: Seed = Seed { mistake: None, bug: None, mutant: None, notes: false };

/// A mistake, and a program that must notice it.
pub type Barrier = (Seed, &'static str);

const fn mistake(mistake: Mistake, program: &'static str) -> Barrier {
    (Seed { mistake: Some(mistake), ..NOTHING }, program)
}

const fn bug(bug: Bug, program: &'static str) -> Barrier {
    (Seed { bug: Some(bug), ..NOTHING }, program)
}

/// The mistakes, with the programs that must notice them.
pub const BARRIERS: &[Barrier] = &[
    mistake(Mistake::NoHeavyFence, "an owner and a writer"),
    mistake(Mistake::NoHeavyFence, "an owner and a reader"),
    mistake(Mistake::NoHeavyFence, "a writer and an owner that reads"),
    mistake(Mistake::NoSecondLook, "an owner and a writer"),
    mistake(Mistake::NoSecondLook, "an owner and a reader"),
    mistake(Mistake::NoSecondLook, "a writer and an owner that reads"),
    mistake(Mistake::OwnerLeavesQuietly, "an owner and a writer"),
    mistake(Mistake::SleepersUncounted, "reader"),
    mistake(Mistake::WaitUnseen, "two writers"),
    mistake(Mistake::PublishBeforeSync, "two writers, logged"),
    mistake(Mistake::TwoLeaders, "two writers, logged"),
    bug(Bug::ReuseBeforeRemoval, "removed, and its pages used"),
    bug(Bug::RecordPerRoot, "both beside one"),
    bug(Bug::TellAtOnce, "removed beside its user, logged"),
];

/// Returns the first failure of a program with a mistake, if there is one, and the number of schedules until
/// then.
///
/// # Errors
/// If the program does not exist, or its initial heap cannot be made.
pub fn notice(seed: Seed, program: &str, limits: Limits) -> Result<Option<(u64, String)>, String> {
    let program = PROGRAMS.iter().find(|other| other.name == program).ok_or("there is no such program")?;
    let mut exploration = Exploration::new(*program, limits, seed)?;
    let failure = exploration.explore().err();
    Ok(failure.map(|failure| (exploration.totals().schedules, failure.to_string())))
}

/// Returns the flushes, fences, log entries, writes and syncs that the programs come to in a few schedules,
/// each with these programs. Returns an error if a program fails.
fn sites(limits: Limits) -> Result<BTreeMap<Site, Vec<&'static Program>>, String> {
    let mut reached: BTreeMap<Site, Vec<&Program>> = BTreeMap::new();
    for program in PROGRAMS {
        let seed = Seed { notes: true, ..NOTHING };
        let limits = Limits { preemptions: 1, schedules: 12, ..limits };
        let mut exploration = Exploration::new(*program, limits, seed)?;
        exploration.explore().map_err(|failure| failure.to_string())?;
        let is_barrier = |site: &Site| !matches!(site.kind, Kind::Checksum | Kind::Lock);
        for site in exploration.sites().into_iter().filter(is_barrier) {
            reached.entry(site).or_default().push(program);
        }
    }
    Ok(reached)
}

/// Leaves out one protection at a time: those of [`BARRIERS`], then a site of the source. Prints the results.
/// Returns whether each of [`BARRIERS`] was noticed. Sites need not be noticed: [`mutate`](crate::mutate)
/// tests them, too.
///
/// # Errors
/// If a program fails without a mistake, or its initial heap cannot be made.
pub fn run(limits: Limits) -> Result<bool, String> {
    let mut all = true;
    for &(seed, program) in BARRIERS {
        let begun = Instant::now();
        let noticed = notice(seed, program, limits)?;
        let (mistake, bug) = (seed.mistake.map(|it| format!("{it:?}")), seed.bug.map(|it| format!("{it:?}")));
        let what = mistake.or(bug).unwrap_or_default();
        match &noticed {
            Some((schedules, failure)) => {
                println!("{what}: `{program}`, {schedules} schedules, {:.1?}\n{failure}", begun.elapsed());
            }
            None => println!("{what}: `{program}` DOES NOT NOTICE ({:.1?})", begun.elapsed()),
        }
        all &= noticed.is_some();
    }
    let source = Source::read();
    let (mut noticed, mut argued, mut missed) = (0, 0, 0);
    for (site, programs) in sites(limits)? {
        let mutant = Some(Mutant { site, mutation: Mutation::Drop });
        let mut found = None;
        for program in &programs {
            // Few schedules are enough for most: a missing log write, for example, shows in most orders.
            let limits = Limits { preemptions: 1, schedules: 300, ..limits };
            if let Some((schedules, _)) = notice(Seed { mutant, ..NOTHING }, program.name, limits)? {
                found = Some((program.name, schedules));
                break;
            }
        }
        let argument = source.argument(site.file, site.line, site.kind, "drop");
        match (found, argument) {
            (Some((program, schedules)), _) => {
                noticed += 1;
                println!("drop {site}: `{program}`, {schedules} schedules");
            }
            (None, Some(argument)) => {
                argued += 1;
                println!("drop {site}: survives: {argument}");
            }
            (None, None) => {
                missed += 1;
                println!("drop {site}: NOT NOTICED by {} programs", programs.len());
            }
        }
    }
    println!(
        "{noticed} flushes, fences, entries, writes and syncs noticed, {argued} argued, {missed} missed"
    );
    Ok(all)
}
