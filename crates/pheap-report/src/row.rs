//! Output of the benchmarks: one JSON object on each line. `benches/README.md` describes it.

use crate::run::Part;
use serde::Deserialize;

/// One line. Unknown fields are ignored, so benchmarks may add some.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub(crate) struct Row {
    pub(crate) system: String,
    pub(crate) bench: String,
    #[serde(default)]
    pub(crate) variant: String,
    #[serde(default)]
    pub(crate) n: u64,
    #[serde(default = "one")]
    pub(crate) threads: u64,
    pub(crate) seconds: f64,
    min: Option<f64>,
    max: Option<f64>,
    /// Number of runs. `seconds` is their median.
    #[serde(default = "one")]
    pub(crate) reps: u64,
    /// Number of objects that a transaction changes.
    pub(crate) k: Option<f64>,
    /// Operations per second of a store.
    pub(crate) per_second: Option<f64>,
    /// Whether a store waits for the disk at each commit.
    pub(crate) syncs_each_commit: Option<bool>,
    disk: Option<String>,
}

fn one() -> u64 {
    1
}

/// The sizes that rows must have in common to be compared.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Size {
    pub(crate) n: u64,
    pub(crate) threads: u64,
    pub(crate) k: Option<u64>,
}

impl Row {
    /// Parses a line.
    pub(crate) fn parse(line: &str) -> Result<Row, serde_json::Error> {
        let mut row: Row = serde_json::from_str(line)?;
        // `pmem:k8` is `pmem` with eight objects.
        let number = |part: &&str| part.strip_prefix('k').and_then(|k| k.parse().ok());
        if let Some(part) = row.variant.split(':').find(|part| number(part).is_some()) {
            row.k = number(&part);
            row.variant = row.variant.split(':').filter(|other| *other != part).collect::<Vec<_>>().join(":");
        }
        Ok(row)
    }

    /// Returns the part of the report whose program prints such rows.
    pub(crate) fn part(&self) -> Part {
        match self.bench.as_str() {
            "update8_sync" | "update8_nosync" | "insert_sync" | "insert_nosync" | "get" | "open_get"
            | "read8" => Part::Stores,
            "compile_time" => Part::Compile,
            _ => Part::Paper,
        }
    }

    pub(crate) fn size(&self) -> Size {
        Size { n: self.n, threads: self.threads, k: self.k.map(|k| k.round() as u64) }
    }

    /// Returns the time of the fastest run, in seconds.
    pub(crate) fn min(&self) -> f64 {
        self.min.unwrap_or(self.seconds)
    }

    /// Returns the time of the slowest run, in seconds.
    pub(crate) fn max(&self) -> f64 {
        self.max.unwrap_or(self.seconds)
    }

    /// Returns whether `part` is a part of the variant, between colons.
    pub(crate) fn has(&self, part: &str) -> bool {
        self.variant.split(':').any(|other| other == part)
    }

    /// Returns whether the run did not wait for a disk, although it should have.
    pub(crate) fn disk_too_fast(&self) -> bool {
        self.disk.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"{"system":"pheap","bench":"txn_objects","variant":"pmem:k8:undo","n":1000,"threads":1,
        "seconds":0.5,"min":0.4,"max":0.75,"reps":7,"fences":3,"what_comes_next":[1,{}]}"#;

    #[test]
    fn a_row_is_read() {
        let row = Row::parse(LINE).unwrap();
        assert_eq!((row.system.as_str(), row.bench.as_str()), ("pheap", "txn_objects"));
        assert_eq!(
            (row.variant.as_str(), row.size()),
            ("pmem:undo", Size { n: 1000, threads: 1, k: Some(8) })
        );
        assert_eq!((row.seconds, row.min(), row.max(), row.reps), (0.5, 0.4, 0.75, 7));
        assert!(row.has("undo") && !row.has("und"));
    }

    #[test]
    fn only_what_is_needed_has_to_be_there() {
        let row = Row::parse(r#"{"system":"pmdk","bench":"sps","seconds":2}"#).unwrap();
        assert_eq!((row.variant.as_str(), row.threads, row.min(), row.max()), ("", 1, 2.0, 2.0));
        assert!(Row::parse(r#"{"system":"pmdk","bench":"sps"}"#).is_err());
    }

    #[test]
    fn a_word_that_begins_with_k_is_no_number() {
        let row = Row::parse(r#"{"system":"pheap","bench":"txn_objects","variant":"pmem:kept","seconds":1}"#)
            .unwrap();
        assert_eq!((row.variant.as_str(), row.k), ("pmem:kept", None));
    }
}
