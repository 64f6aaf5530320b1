//! How far an exploration has come, in a file of a few lines of text.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;
use std::{fs, io};

use crate::report::Totals;
use crate::schedule::Place;

/// How far it has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// Of the [schedule](crate::schedule::fingerprint).
    pub fingerprint: u64,
    /// What comes next.
    pub place: Place,
    /// What was done so far.
    pub done: Totals,
    /// How long that took.
    pub time: Duration,
}

impl Progress {
    fn numbers(&self) -> [(&'static str, u64); 8] {
        [
            ("seconds", self.time.as_secs()),
            ("fingerprint", self.fingerprint),
            ("programs", self.done.programs),
            ("points", self.done.points),
            ("images", self.done.images),
            ("failures", self.done.failures),
            ("stage", self.place.stage as u64),
            ("program", self.place.program as u64),
        ]
    }

    /// Reads what [`write`](Self::write) has written; `None` if there is no such file, or it is of another schedule.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn read(path: &Path, fingerprint: u64) -> io::Result<Option<Progress>> {
        let text = match fs::read_to_string(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text?,
        };
        let numbers: HashMap<&str, u64> = text
            .lines()
            .filter_map(|line| line.split_once(' '))
            .filter_map(|(n, v)| Some((n, v.parse().ok()?)))
            .collect();
        let of = |name: &str| numbers.get(name).copied().unwrap_or(0);
        let [programs, points, images, failures] = ["programs", "points", "images", "failures"].map(of);
        let progress = Progress {
            fingerprint: of("fingerprint"),
            place: Place { stage: of("stage") as usize, program: of("program") as usize },
            done: Totals { programs, points, images, failures, ..Totals::default() },
            time: Duration::from_secs(of("seconds")),
        };
        Ok((progress.fingerprint == fingerprint).then_some(progress))
    }

    /// Writes it to a file.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn write(self, path: &Path) -> io::Result<()> {
        let text: String = self.numbers().map(|(name, number)| format!("{name} {number}\n")).concat();
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(path, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_comes_back_for_the_same_schedule() {
        let folder = pheap_testkit::tempdir();
        let path = folder.path().join("new/file");
        let progress = Progress {
            fingerprint: 7,
            place: Place { stage: 2, program: 30 },
            done: Totals { images: 5, points: 4, programs: 3, ..Totals::default() },
            time: Duration::from_secs(9),
        };
        assert_eq!(Progress::read(&path, 7).unwrap(), None);
        progress.write(&path).unwrap();
        assert_eq!(Progress::read(&path, 7).unwrap(), Some(progress));
        assert_eq!(Progress::read(&path, 8).unwrap(), None);
    }
}
