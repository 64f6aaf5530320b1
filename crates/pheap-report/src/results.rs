//! The file of results. It has the lines of the benchmarks. A line before those of a run describes the
//! machine and the time of the run.

use crate::Result;
use crate::row::Row;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Description of a run.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub(crate) struct Meta {
    /// Date and time in UTC.
    pub(crate) date: String,
    pub(crate) commit: String,
    /// Whether files differed from the commit.
    pub(crate) dirty: bool,
    pub(crate) quick: bool,
    pub(crate) cpu: String,
    pub(crate) cores: u64,
    pub(crate) memory_bytes: u64,
    pub(crate) kernel: String,
    /// File systems of the heaps and of the stores.
    pub(crate) medium: String,
    pub(crate) rustc: String,
}

#[derive(Deserialize, Serialize)]
struct MetaLine {
    meta: Meta,
}

/// Lines of one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Section {
    /// Description of the run. `None` if it is unknown.
    pub(crate) meta: Option<Meta>,
    lines: Vec<String>,
    pub(crate) rows: Vec<Row>,
}

impl Section {
    pub(crate) fn new(meta: Meta) -> Section {
        Section { meta: Some(meta), ..Section::default() }
    }

    /// Adds a line of a benchmark.
    pub(crate) fn push(&mut self, line: &str) -> Result<()> {
        self.rows.push(Row::parse(line).map_err(|error| format!("{error}, in the line {line}"))?);
        self.lines.push(line.to_owned());
        Ok(())
    }

    /// Returns the lines of the section as in the file.
    pub(crate) fn text(&self) -> String {
        let meta = self.meta.as_ref().map(|meta| {
            serde_json::to_string(&MetaLine { meta: meta.clone() })
                .expect("strings and numbers can be written")
        });
        meta.iter().chain(&self.lines).map(|line| format!("{line}\n")).collect()
    }
}

/// All sections of a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Results {
    pub(crate) sections: Vec<Section>,
}

impl Results {
    pub(crate) fn parse(text: &str) -> Result<Results> {
        let mut results = Results::default();
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            if let Ok(MetaLine { meta }) = serde_json::from_str(line) {
                results.sections.push(Section::new(meta));
                continue;
            }
            if results.sections.is_empty() {
                results.sections.push(Section::default());
            }
            if let Some(section) = results.sections.last_mut() {
                section.push(line)?;
            }
        }
        Ok(results)
    }

    pub(crate) fn read(path: &Path) -> Result<Results> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Results::parse(&text).map_err(|error| format!("{}: {error}", path.display()).into())
    }

    pub(crate) fn text(&self) -> String {
        self.sections.iter().map(Section::text).collect()
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = &Row> + Clone {
        self.sections.iter().flat_map(|section| &section.rows)
    }

    /// Adds new rows, and removes older rows of the same benchmarks.
    pub(crate) fn replace_by(&mut self, new: Section) {
        let measured_now = |row: &Row| new.rows.iter().any(|other| other.bench == row.bench);
        for section in &mut self.sections {
            let keep: Vec<bool> = section.rows.iter().map(|row| !measured_now(row)).collect();
            let mut kept = keep.iter();
            section.lines.retain(|_| *kept.next().unwrap_or(&true));
            let mut kept = keep.iter();
            section.rows.retain(|_| *kept.next().unwrap_or(&true));
        }
        self.sections.push(new);
        self.sections.retain(|section| !section.rows.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{"meta":{"date":"2026-01-02 03:04","commit":"abc","dirty":true,"quick":false,"cpu":"a","cores":2,"memory_bytes":9,"kernel":"6.1","medium":"tmpfs","rustc":"1.95"}}
{"system":"pheap","bench":"sps","variant":"pmem","n":10,"seconds":1.5}
{"system":"pmdk","bench":"txn_empty","variant":"tx","n":10,"seconds":2,"later":[1]}
"#;

    #[test]
    fn what_is_read_is_written_again() {
        let results = Results::parse(TEXT).unwrap();
        assert_eq!(results.text(), TEXT);
        assert_eq!(results.sections[0].meta.as_ref().unwrap().cores, 2);
        assert_eq!(results.rows().count(), 2);
    }

    #[test]
    fn lines_of_unknown_origin_have_no_metadata() {
        let results = Results::parse(TEXT.split_once('\n').unwrap().1).unwrap();
        assert_eq!(results.sections[0].meta, None);
        assert!(Results::parse("{}").unwrap_err().to_string().contains("missing field"));
    }

    #[test]
    fn new_rows_replace_those_of_the_same_benchmarks() {
        let mut results = Results::parse(TEXT).unwrap();
        let mut new = Section::new(Meta { commit: "def".into(), ..Meta::default() });
        new.push(r#"{"system":"pheap","bench":"sps","seconds":1}"#).unwrap();
        results.replace_by(new);
        let rows: Vec<_> = results.rows().map(|row| (row.bench.as_str(), row.seconds)).collect();
        assert_eq!(rows, [("txn_empty", 2.0), ("sps", 1.0)]);
        assert_eq!(Results::parse(&results.text()).unwrap(), results);
    }
}
