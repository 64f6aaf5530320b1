//! The results of the mutants.

use std::time::Duration;

use pheap::sim::mutant::{Mutant, Site};

use super::child::Verdict;
use super::source::{Line, Source};

/// Counters of the mutants so far.
#[derive(Debug)]
pub struct Score<'s> {
    source: &'s Source,
    killed: usize,
    argued: usize,
    survived: usize,
    /// Of the survivors without an argument, the sites that no program reaches.
    unreached: usize,
    last: Option<Site>,
}

impl<'s> Score<'s> {
    /// Makes counters of zero.
    pub fn new(source: &'s Source) -> Score<'s> {
        Score { source, killed: 0, argued: 0, survived: 0, unreached: 0, last: None }
    }

    fn head(&mut self, site: Site) {
        if self.last != Some(site) {
            println!("{site}");
            self.last = Some(site);
        }
    }

    /// Counts a mutant, and prints its result.
    pub fn add(&mut self, mutant: Mutant, verdict: Verdict) {
        let Mutant { site, mutation } = mutant;
        self.head(site);
        match (verdict, self.source.argument(site.file, site.line, site.kind, mutation.name())) {
            (Verdict::Killed { program, why }, argument) => {
                self.killed += 1;
                println!("  {mutation:5}  killed by \"{program}\": {why}");
                if let Some(argument) = argument {
                    println!("         but the source says that it survives: {argument}");
                }
            }
            (Verdict::Survived(_), Some(argument)) => {
                self.argued += 1;
                println!("  {mutation:5}  survives: {argument}");
            }
            (Verdict::Survived(programs), None) => {
                self.survived += 1;
                println!("  {mutation:5}  SURVIVES {programs} programs, and the source does not say why");
            }
        }
    }

    /// Counts the sites of a line that no program reaches, and prints the result.
    pub fn add_unreached(&mut self, line: &Line) {
        for &kind in line.kinds {
            self.head(line.of(kind));
            match self.source.argument(&line.file, line.line, kind, "unreached") {
                Some(argument) => {
                    self.argued += 1;
                    println!("  no program reaches it: {argument}");
                }
                None => {
                    self.survived += 1;
                    self.unreached += 1;
                    println!("  NO PROGRAM REACHES IT, and the source does not say why");
                }
            }
        }
    }

    /// Returns whether each surviving mutant and each unreached site has an argument.
    pub fn is_good(&self) -> bool {
        self.survived == 0
    }

    /// Formats the score as one line of JSON.
    pub fn json(&self, time: Duration) -> String {
        let Score { killed, argued, survived, unreached, .. } = self;
        format!(
            r#"{{"killed":{killed},"total":{},"argued":{argued},"survived":{survived},"unreached":{unreached},"seconds":{:.1}}}"#,
            killed + argued + survived,
            time.as_secs_f64()
        )
    }
}
