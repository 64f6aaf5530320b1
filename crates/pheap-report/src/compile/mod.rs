//! The cost of `#[txn]` and `#[derive(Persist)]` in a build: a generated program is built with and without
//! them, and an example with and without `#[txn]`.

mod program;

use crate::Result;
use crate::run::{Sink, lines_of};
use program::{Side, program};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Instant, SystemTime};

/// Number of rows of this part.
pub(crate) const ROWS: u64 = 10;

/// Returns the command for the cargo that runs this program, or the one in the path.
pub(crate) fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// The cargo commands that are measured, as rows name them.
const KINDS: [&str; 2] = ["check", "build"];

/// Size of the programs, and number of builds of each.
struct Plan {
    functions: usize,
    records: usize,
    rounds: usize,
}

const FULL: Plan = Plan { functions: 1000, records: 50, rounds: 4 };
const QUICK: Plan = Plan { functions: 100, records: 5, rounds: 2 };

/// The example that is built: it has one function with the attribute.
const EXAMPLE: &str = "churn";
const EXAMPLE_DEPENDENCIES: &str = "\
clap = { version = \"4\", features = [\"derive\"] }
indicatif = \"0.18\"
tempfile = \"3\"
";

pub(crate) fn measure(repository: &Path, quick: bool, sink: &mut Sink) -> Result<()> {
    let plan = if quick { QUICK } else { FULL };
    let folder = tempfile::tempdir()?;
    let workspace = Workspace::generate(folder.path(), repository, &plan)?;
    for kind in KINDS {
        for group in &workspace.groups {
            // The first crate of a group has all dependencies of the others, with the same features, so no
            // measured build has to build these.
            sink.say(format!("compile: cargo {kind}, dependencies"));
            workspace.build(kind, group.crates[0])?;
            workspace.measure(kind, group, plan.rounds, sink)?;
        }
    }
    workspace.agree()
}

/// Crates that are built in turns, and the `n` of their rows.
struct Group {
    crates: Vec<&'static str>,
    n: usize,
}

const MANIFEST: &str = "\
[workspace]
members = [\"*\"]
exclude = [\"target\"]
resolver = \"3\"
";

struct Workspace {
    path: PathBuf,
    groups: Vec<Group>,
}

impl Workspace {
    fn generate(path: &Path, repository: &Path, plan: &Plan) -> Result<Workspace> {
        let mut workspace = Workspace { path: path.to_owned(), groups: Vec::new() };
        let pheap = format!("pheap = {{ path = {:?} }}\n", repository.join("crates/pheap"));
        let sides = [("annotated", Side::Annotated), ("plain", Side::Plain), ("volatile", Side::Volatile)];
        for (name, side) in sides {
            let dependencies = if side == Side::Volatile { "" } else { pheap.as_str() };
            workspace.add(name, dependencies, &[("main.rs", program(side, plan.functions, plan.records))])?;
        }
        workspace.groups.push(Group { crates: sides.map(|(name, _)| name).to_vec(), n: plan.functions });
        let sources = sources(&repository.join("examples").join(EXAMPLE))?;
        let attributes: usize =
            sources.iter().flat_map(|source| source.1.lines()).filter(|line| is_attribute(line)).count();
        let without = |(name, text): &(String, String)| (name.clone(), without_attribute(text));
        let plain: Vec<(String, String)> = sources.iter().map(without).collect();
        let testkit = format!("pheap-testkit = {{ path = {:?} }}\n", repository.join("crates/pheap-testkit"));
        let examples = format!("pheap-examples = {{ path = {:?} }}\n", repository.join("examples"));
        let all = [pheap.as_str(), EXAMPLE_DEPENDENCIES, &testkit, &examples].concat();
        for (name, sources) in [("example", sources), ("example_plain", plain)] {
            workspace.add(name, &all, &sources)?;
        }
        workspace.groups.push(Group { crates: vec!["example", "example_plain"], n: attributes });
        fs::write(path.join("Cargo.toml"), MANIFEST)?;
        // Uses the versions that the repository is tested with.
        fs::copy(repository.join("Cargo.lock"), path.join("Cargo.lock"))?;
        Ok(workspace)
    }

    fn add(&self, name: &str, dependencies: &str, sources: &[(impl AsRef<str>, String)]) -> Result<()> {
        let source = self.path.join(name).join("src");
        fs::create_dir_all(&source)?;
        fs::write(
            self.path.join(name).join("Cargo.toml"),
            format!("[package]\nname = \"{name}\"\nedition = \"2024\"\n\n[dependencies]\n{dependencies}"),
        )?;
        for (file, text) in sources {
            fs::write(source.join(file.as_ref()), text)?;
        }
        Ok(())
    }

    /// Builds the crates of a group in turns.
    fn measure(&self, kind: &str, group: &Group, rounds: usize, sink: &mut Sink) -> Result<()> {
        let mut times = vec![Vec::new(); group.crates.len()];
        for round in 1..=rounds {
            for (name, times) in group.crates.iter().zip(&mut times) {
                sink.say(format!("compile: cargo {kind}, {name}, {round} of {rounds}"));
                times.push(self.build(kind, name)?);
            }
        }
        for (name, mut times) in group.crates.iter().zip(times) {
            times.sort_by(f64::total_cmp);
            let (low, high) = (times[(times.len() - 1) / 2], times[times.len() / 2]);
            sink.line(&format!(
                r#"{{"system":"compile","bench":"compile_time","variant":"{name}:{kind}","n":{},"threads":1,"seconds":{:.6},"min":{:.6},"max":{:.6},"reps":{}}}"#,
                group.n,
                (low + high) / 2.0,
                times[0],
                times[times.len() - 1],
                times.len()
            ))?;
        }
        Ok(())
    }

    /// Builds a crate whose source has a new modification time. Returns the time in seconds.
    fn build(&self, kind: &str, name: &str) -> Result<f64> {
        let source = File::options().append(true).open(self.path.join(name).join("src/main.rs"))?;
        source.set_modified(SystemTime::now())?;
        let mut command = cargo();
        command
            .current_dir(&self.path)
            .args([kind, "-p", name, "--target-dir"])
            .arg(self.path.join("target"));
        // The source has not changed, so an incremental build would do almost nothing.
        command.env("CARGO_INCREMENTAL", "0");
        let start = Instant::now();
        lines_of(command, |_| Ok(()), |_| {})?;
        Ok(start.elapsed().as_secs_f64())
    }

    /// Returns an error unless all generated programs compute the same.
    fn agree(&self) -> Result<()> {
        let mut first = None;
        for name in &self.groups[0].crates {
            let mut said = Vec::new();
            let take = |line: &str| {
                said.push(line.to_owned());
                Ok(())
            };
            lines_of(Command::new(self.path.join("target/debug").join(name)), take, |_| {})?;
            if *first.get_or_insert_with(|| said.clone()) != said {
                return Err(
                    format!("the generated program {name} computes something else than the first").into()
                );
            }
        }
        Ok(())
    }
}

/// Returns the source files of a folder, sorted by name.
fn sources(folder: &Path) -> Result<Vec<(String, String)>> {
    let mut sources = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        sources.push((entry.file_name().to_string_lossy().into_owned(), fs::read_to_string(entry.path())?));
    }
    sources.sort();
    Ok(sources)
}

fn is_attribute(line: &str) -> bool {
    line.trim_start().starts_with("#[txn]")
}

/// Returns the text without the lines of `#[txn]`.
fn without_attribute(text: &str) -> String {
    text.lines().filter(|line| !is_attribute(line)).map(|line| format!("{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_attribute_is_left_out() {
        assert_eq!(without_attribute("a\n    #[txn] // why\nb\n"), "a\nb\n");
    }
}
