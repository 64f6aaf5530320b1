//! Runs the benchmarks, or reads their results, and makes charts and tables of them: `docs/benchmarks`.

mod benches;
mod charts;
mod choose;
mod compile;
mod kv;
mod machine;
mod numbers;
mod report;
mod results;
mod row;
mod run;
mod targets;

use charts::{CHARTS, Chart};
use choose::Rows;
use clap::{Parser, ValueEnum as _};
use results::Results;
use run::Part;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Runs pheap's benchmarks and makes charts and tables of them.
///
/// Runs `cargo bench --bench paper`, `cargo bench --bench stores` and measures what `#[txn]` adds to a build.
/// Nothing else should run on the machine meanwhile. With `--from`, nothing is run unless `--only` asks for
/// it; what is run replaces rows of the same benchmarks.
#[derive(Parser, Debug)]
#[command(bin_name = "cargo run --release -p pheap-report --")]
struct Args {
    /// Small sizes and few repetitions
    #[arg(long)]
    quick: bool,
    /// Reads results from these files
    #[arg(long, value_name = "FILE.jsonl", num_args = 1..)]
    from: Vec<PathBuf>,
    /// Only draws the charts, and fills in the tables, of key-value stores, `kv.md`, from this file
    #[arg(long, value_name = "FILE.jsonl", conflicts_with_all = ["quick", "from", "only", "save", "dir", "disk"])]
    kv: Option<PathBuf>,
    /// Runs only these parts
    #[arg(long, value_name = "PART", value_delimiter = ',')]
    only: Vec<Part>,
    /// Where charts, tables and results go [default: docs/benchmarks of the repository]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Also writes each result to this file at once
    #[arg(long, value_name = "FILE.jsonl")]
    save: Option<PathBuf>,
    /// Where heap files go while they are measured [default: /dev/shm]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Where the files of stores go, a real disk [default: the target directory]
    #[arg(long, value_name = "DIR")]
    disk: Option<PathBuf>,
}

fn main() -> ExitCode {
    match report(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn report(args: &Args) -> Result<()> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
    let out = args.out.clone().unwrap_or_else(|| repository.join("docs/benchmarks"));
    if let Some(file) = &args.kv {
        kv::write(file, &out)?;
        eprintln!("written to {}", out.display());
        return Ok(());
    }
    let mut results = Results::default();
    for file in &args.from {
        results.sections.extend(Results::read(file)?.sections);
    }
    let parts = match args.only.as_slice() {
        [] if args.from.is_empty() => Part::value_variants().to_vec(),
        only => only.to_vec(),
    };
    if !parts.is_empty() {
        let before = Results::read(&out.join(RESULTS)).unwrap_or_default();
        let run = run::Run {
            repository: &repository,
            quick: args.quick,
            dir: args.dir.as_deref(),
            disk: args.disk.as_deref(),
            save: args.save.as_deref(),
            before: &before,
        };
        results.replace_by(run.measure(&parts)?);
    }
    write(&results, &out)?;
    eprintln!("written to {}", out.display());
    Ok(())
}

const RESULTS: &str = "results.jsonl";

/// Writes the results, the charts and the page.
fn write(results: &Results, out: &Path) -> Result<()> {
    fs::create_dir_all(out).map_err(|error| format!("{}: {error}", out.display()))?;
    fs::write(out.join(RESULTS), results.text())?;
    let rows: Vec<_> = results.rows().collect();
    let mut drawn: Vec<&Chart> = Vec::new();
    for chart in &CHARTS {
        let file = out.join(format!("{}.svg", chart.file));
        match charts::draw(chart, Rows(&rows))? {
            Some(svg) => {
                fs::write(file, svg)?;
                drawn.push(chart);
            }
            // Remove an old chart: it would seem to belong to these results.
            None => match fs::remove_file(file) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
                _ => {}
            },
        }
    }
    let page = out.join("README.md");
    let text = match fs::read_to_string(&page) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => report::TEMPLATE.to_owned(),
        text => text?,
    };
    Ok(fs::write(page, report::page(&text, results, &drawn)?)?)
}
