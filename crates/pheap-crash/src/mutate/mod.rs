//! The mutation score. One mutant at a time leaves out or delays a flush, fence, log entry, write, sync,
//! checksum test or lock. Some program must then fail. A mutant that no program notices shows a hole in the
//! tests, unless the source argues that it is harmless.
//!
//! 1. Each [program](programs) runs without a mutant, to find the sites that it reaches. A site of the
//!    [`source`] that no program reaches counts as a mutant that survives, too.
//! 2. For each mutant, the programs that reach its site are explored until one fails or the time is over.
//!    They are tried in the order of their [rank](Case::rank) and time. This happens in a
//!    [separate process](child), because a mutant may hang or crash. A program that failed is explored again
//!    without the mutant: it must not fail then.
//! 3. A mutant that survives needs an argument in the source, in a comment above the line:
//!    `SURVIVES drop: …`, or `SURVIVES delay: …`; `SURVIVES unreached: …` for a site that no program reaches.
//!
//! | file | |
//! |---|---|
//! | [`programs`] | the programs that are tried |
//! | [`damage`] | heaps with a wrong bit |
//! | [`situations`] | other threads, other heaps |
//! | [`hints`] | the program to begin with |
//! | [`source`] | sites and arguments in the source |
//! | [`child`] | the search for a program that fails, and its process |
//! | [`score`] | the results |

pub mod child;
pub mod damage;
pub mod hints;
pub mod programs;
pub mod score;
pub mod situations;
pub mod source;

use crate::report::Said;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::{Duration, Instant};

use pheap::sim::mutant::{Kind, Mutant, Mutation, Site, note_locks, note_sites, sites};

use child::{Child, Verdict};
use hints::Hints;
use programs::{Case, Effort};
use score::Score;
use source::Source;

use crate::Explorer;

/// What to do.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// Only sites whose kind, file and line contain one of these: "txn/commit.rs:10", "fence".
    #[arg(long, value_name = "TEXT", value_delimiter = ',')]
    only: Vec<String>,
    /// How long to look for a program that notices a mutant.
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    budget: u64,
    /// How many mutants to try at a time.
    #[arg(long, value_name = "N", default_value_t = 1)]
    jobs: usize,
    /// Note which program has noticed which mutant, to begin with it the next time.
    #[arg(long)]
    save: bool,
    /// Try this mutant, with the programs on the standard input; for the runner itself.
    #[arg(long, hide = true, value_name = "MUTANT")]
    child: Option<Mutant>,
}

/// A site that programs reach.
#[derive(Debug, Clone)]
pub struct Reached {
    /// Whether the request of the site can be delayed. Set for locks, too, which have no such mutant.
    pub delays: bool,
    /// Numbers of the programs that reach it, in the order in which they are tried.
    pub cases: Vec<usize>,
}

impl Reached {
    /// Returns the mutants of the site.
    pub fn mutants(&self, site: Site) -> impl Iterator<Item = Mutant> {
        // A lock can only be left out.
        let delays = self.delays && site.kind != Kind::Lock;
        let mutations = [Some(Mutation::Drop), delays.then_some(Mutation::Delay)];
        mutations.into_iter().flatten().map(move |mutation| Mutant { site, mutation })
    }
}

/// Runs each program without a mutant. Returns the sites that it reaches.
///
/// # Errors
/// The failure of a program that fails without a mutant, or if an initial heap cannot be made.
pub fn explore_all(cases: &[Case]) -> Result<BTreeMap<Site, Reached>, String> {
    let explorer = Explorer::new(Effort::Quick.limits())?;
    let mut found: BTreeMap<Site, Reached> = BTreeMap::new();
    let mut order: Vec<(u8, Duration, usize)> = Vec::new();
    let mut reached_by: Vec<BTreeMap<Site, pheap::sim::mutant::Reach>> = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        let explore = case.prepare(Effort::Quick, &explorer)?;
        let started = Instant::now();
        let locks = matches!(case, Case::Contention(_));
        note_sites(!locks);
        note_locks(locks);
        let result = explore();
        reached_by.push(sites());
        note_sites(false);
        note_locks(false);
        result.map_err(|failure| format!("without any mutant, {failure}"))?;
        let time = started.elapsed();
        order.push((case.rank(time), time, number));
    }
    order.sort_unstable();
    for (_, _, number) in order {
        for (&site, reach) in &reached_by[number] {
            let reached = found.entry(site).or_insert_with(|| Reached { delays: false, cases: Vec::new() });
            reached.delays |= reach.delays;
            reached.cases.push(number);
        }
    }
    Ok(found)
}

/// Tries the mutants that `args` select, and prints the results. Returns whether each surviving mutant has an
/// argument.
///
/// # Errors
/// If a program fails without a mutant, a program or process cannot be started, or the hints cannot be
/// written.
///
/// # Panics
/// If the source cannot be read.
pub fn run(args: &Args) -> Result<bool, String> {
    if let Some(mutant) = args.child {
        child::be(mutant, Duration::from_secs(args.budget));
        return Ok(true);
    }
    let started = Instant::now();
    let runner = std::env::current_exe().said()?;
    let (cases, source) = (programs::all()?, Source::read());
    let reached = explore_all(&cases)?;
    let seconds = started.elapsed().as_secs_f64();
    println!("{} programs reach {} sites ({seconds:.0} s)", cases.len(), reached.len());
    let wanted =
        |site: &Site| args.only.is_empty() || args.only.iter().any(|text| site.to_string().contains(text));
    let all: Vec<Mutant> = reached.iter().flat_map(|(&site, reached)| reached.mutants(site)).collect();
    let mut score = Score::new(&source);
    let mut hints = Hints::read();
    hints.keep(&source, &all);
    let numbers: HashMap<String, usize> = cases.iter().map(Case::to_string).zip(0..).collect();
    let budget = Duration::from_secs(args.budget);
    let mut waiting = all.into_iter().filter(|mutant| wanted(&mutant.site));
    let mut running: VecDeque<Child> = VecDeque::new();
    loop {
        while running.len() < args.jobs.max(1)
            && let Some(mutant) = waiting.next()
        {
            // The program that notices one mutant of a site often notices the other.
            let both = [mutant.mutation, mutant.mutation.other()];
            let both = both.map(|mutation| hints.of(&source, &Mutant { mutation, ..mutant }));
            let hint = both.into_iter().flatten().filter_map(|program| numbers.get(program));
            let which: Vec<usize> = hint.chain(&reached[&mutant.site].cases).copied().collect();
            running.push_back(Child::start(&runner, mutant, &cases, &which, budget)?);
        }
        // In order, so that the output is ordered.
        let Some(child) = running.pop_front() else { break };
        let (mutant, verdict) = child.wait()?;
        match &verdict {
            Verdict::Killed { program, .. } => hints.add(&source, &mutant, program),
            Verdict::Survived(_) => hints.forget(&source, &mutant),
        }
        score.add(mutant, verdict);
    }
    if args.save {
        hints.write()?;
    }
    for line in &source.sites {
        let is_reached = reached.keys().any(|reached| line.is(reached));
        if !is_reached && line.kinds.iter().any(|&kind| wanted(&line.of(kind))) {
            score.add_unreached(line);
        }
    }
    println!("{}", score.json(started.elapsed()));
    Ok(score.is_good())
}
