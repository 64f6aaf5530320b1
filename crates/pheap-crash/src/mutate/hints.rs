//! The program that noticed each mutant when this was last recorded. It is tried first, which saves time.
//!
//! A mutant is identified by its mutation, its kind, its file, and the text of its line, because line numbers
//! change. If a file has equal lines, they are counted.

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

/// Returns the name of a mutant in the file.
pub fn name(source: &Source, mutant: &Mutant) -> String {
    let site = mutant.site;
    let (text, number) = source.text(site.file, site.line);
    format!("{}\t{}\t{}\t{number}\t{text}", mutant.mutation, site.kind, site.file)
}

impl Hints {
    /// Reads the hints. There are none if the file cannot be read.
    pub fn read() -> Hints {
        let text = std::fs::read_to_string(path()).unwrap_or_default();
        let programs = text.lines().filter_map(|line| line.rsplit_once('\t'));
        Hints { programs: programs.map(|(name, program)| (name.to_owned(), program.to_owned())).collect() }
    }

    /// Writes the hints.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self) -> Result<(), String> {
        let text: String =
            self.programs.iter().map(|(name, program)| format!("{name}\t{program}\n")).collect();
        std::fs::write(path(), text).map_err(|e| format!("{}: {e}", path().display()))
    }

    /// Returns the names of mutants and their programs.
    pub fn iter(&self) -> impl Iterator<Item = (&String, &String)> {
        self.programs.iter()
    }

    /// Returns the program that noticed a mutant, if it is recorded.
    pub fn of(&self, source: &Source, mutant: &Mutant) -> Option<&str> {
        self.programs.get(&name(source, mutant)).map(String::as_str)
    }

    /// Records the program that noticed a mutant.
    pub fn add(&mut self, source: &Source, mutant: &Mutant, program: &str) {
        self.programs.insert(name(source, mutant), program.to_owned());
    }

    /// Removes the hint of a mutant.
    pub fn forget(&mut self, source: &Source, mutant: &Mutant) {
        self.programs.remove(&name(source, mutant));
    }

    /// Removes the hints of mutants that are not among `mutants`.
    pub fn keep(&mut self, source: &Source, mutants: &[Mutant]) {
        let names: Vec<String> = mutants.iter().map(|mutant| name(source, mutant)).collect();
        self.programs.retain(|name, _| names.contains(name));
    }
}
