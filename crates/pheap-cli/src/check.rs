//! `pheap check`: checks a heap, and prints the problems that it finds.

use std::io::Write;
use std::path::Path;

use pheap::{Error, Options, Report};
use serde_json::json;

use crate::progress::Progress;
use crate::{Outcome, Result};

/// The result of examining a file.
struct Finding {
    /// The report of the check; `None` if the heap cannot be opened or checked.
    report: Option<Report>,
    /// Problems that the report does not contain.
    problems: Vec<String>,
}

pub fn check(how: &Options, file: &Path, as_json: bool, out: &mut dyn Write) -> Result {
    let Finding { report, problems } = examine(how, file)?;
    let clean = problems.is_empty() && report.as_ref().is_some_and(Report::is_clean);
    if as_json {
        let report = report.unwrap_or_default();
        let problems: Vec<&String> = problems.iter().chain(&report.problems).collect();
        let value = json!({
            "clean": clean,
            "objects": report.objects,
            "bytes": report.bytes,
            "spans": report.spans,
            "roots": report.roots,
            "problems": problems,
            "more_problems": report.more_problems,
        });
        writeln!(out, "{value:#}")?;
    } else {
        problems.iter().try_for_each(|problem| writeln!(out, "{problem}"))?;
        if let Some(report) = report {
            writeln!(out, "{report}")?;
        }
    }
    Ok(Outcome::of(clean))
}

/// Examines a file. Opening the file with `verify` finds all problems that `Heap::check` finds, and lost
/// roots, but the error of the opening is shorter than the report of `Heap::check`. So if the opening finds
/// the heap corrupt, this function returns the report, unless the heap cannot be opened or checked without
/// `verify` either.
fn examine(how: &Options, file: &Path) -> Result<Finding> {
    let reader = how.clone().read_only(true);
    let report = |options: Options| {
        let heap = crate::open(&options, file)?;
        let _spinner = Progress::spinner("checking");
        heap.check()
    };
    let mut problems = Vec::new();
    match report(reader.clone().verify(true).restored(true)) {
        Ok(found) => {
            // All objects are valid, but the heap may not have been closed.
            let what = match crate::open(&reader, file) {
                Err(Error::NotClosed) => {
                    "the heap was in use with `Durability::Process` when the machine went down"
                }
                Err(Error::BootUnknown { .. }) => {
                    "the heap was in use with `Durability::Process`, and perhaps the machine went down"
                }
                Err(Error::Copied { .. }) => "this is a copy of a heap that was in use when it was made",
                _ => return Ok(Finding { report: Some(found), problems }),
            };
            problems
                .push(format!("{what}: all objects are valid, but the most recent transactions may be torn"));
            Ok(Finding { report: Some(found), problems })
        }
        Err(error @ Error::Corrupt { .. }) => match report(reader) {
            Ok(found) => {
                if found.is_clean() {
                    problems.push(error.to_string());
                }
                Ok(Finding { report: Some(found), problems })
            }
            Err(_) => Ok(Finding { report: None, problems: vec![error.to_string()] }),
        },
        Err(error @ Error::Truncated { .. }) => {
            Ok(Finding { report: None, problems: vec![error.to_string()] })
        }
        Err(error) => Err(error.into()),
    }
}
