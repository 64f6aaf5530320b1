//! Which program has noticed which mutant, when that was last looked for: the one to begin with. Nothing more than a hint: it saves minutes.
//!
//! Mutants are known by the text of their line here, for lines move.

use std::collections::BTreeMap;
use std::path::PathBuf;

use pheap::sim::mutant::Mutant;

use super::source::Source;

/// Programs by mutant.
#[derive(Debug, Default)]
pub struct Hints {
    programs: BTreeMap<String, String>,
}

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/mutate/hints.tsv")
}

/// What a mutant is called here.
pub fn name(source: &Source, mutant: &Mutant) -> String {
    let site = mutant.site;
    let (text, number) = source.text(site.file, site.line);
    format!("{}\t{}\t{}\t{number}\t{text}", mutant.mutation, site.kind, site.file)
}

impl Hints {
    /// Reads them. There are none if that fails.
    pub fn read() -> Hints {
        let text = std::fs::read_to_string(path()).unwrap_or_default();
        let programs = text.lines().filter_map(|line| line.rsplit_once('\t'));
        Hints { programs: programs.map(|(name, program)| (name.to_owned(), program.to_owned())).collect() }
    }

    /// Writes them.
    ///
    /// # Errors
    /// If that fails.
    pub fn write(&self) -> Result<(), String> {
        let text: String =
            self.programs.iter().map(|(name, program)| format!("{name}\t{program}\n")).collect();
        std::fs::write(path(), text).map_err(|e| format!("{}: {e}", path().display()))
    }

    /// All of them: what mutants are called, and programs.
    pub fn iter(&self) -> impl Iterator<Item = (&String, &String)> {
        self.programs.iter()
    }

    /// The program that has noticed a mutant.
    pub fn of(&self, source: &Source, mutant: &Mutant) -> Option<&str> {
        self.programs.get(&name(source, mutant)).map(String::as_str)
    }

    /// Notes what has noticed a mutant.
    pub fn add(&mut self, source: &Source, mutant: &Mutant, program: &str) {
        self.programs.insert(name(source, mutant), program.to_owned());
    }

    /// Forgets what had noticed a mutant.
    pub fn forget(&mut self, source: &Source, mutant: &Mutant) {
        self.programs.remove(&name(source, mutant));
    }

    /// Forgets mutants that are not there any more.
    pub fn keep(&mut self, source: &Source, mutants: &[Mutant]) {
        let names: Vec<String> = mutants.iter().map(|mutant| name(source, mutant)).collect();
        self.programs.retain(|name, _| names.contains(name));
    }
}
