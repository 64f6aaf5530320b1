//! How far an exploration has come, in a file of a few lines of text.

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

/// A number of [`Progress`].
enum Field<'p> {
    Long(&'p mut u64),
    Place(&'p mut usize),
}

impl Field<'_> {
    fn set(self, text: &str) {
        match self {
            Field::Long(number) => *number = text.parse().unwrap_or(0),
            Field::Place(number) => *number = text.parse().unwrap_or(0),
        }
    }

    fn get(self) -> u64 {
        match self {
            Field::Long(number) => *number,
            Field::Place(number) => *number as u64,
        }
    }
}

impl Progress {
    fn fields(&mut self) -> [(&'static str, Field<'_>); 7] {
        let Totals { programs, points, images, failures, .. } = &mut self.done;
        [
            ("fingerprint", Field::Long(&mut self.fingerprint)),
            ("programs", Field::Long(programs)),
            ("points", Field::Long(points)),
            ("images", Field::Long(images)),
            ("failures", Field::Long(failures)),
            ("stage", Field::Place(&mut self.place.stage)),
            ("program", Field::Place(&mut self.place.program)),
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
        let mut progress = Progress::default();
        for (name, value) in text.lines().filter_map(|line| line.split_once(' ')) {
            if name == "seconds" {
                progress.time = Duration::from_secs(value.parse().unwrap_or(0));
            }
            for (_, field) in progress.fields().into_iter().filter(|(field, _)| *field == name) {
                field.set(value);
            }
        }
        Ok((progress.fingerprint == fingerprint).then_some(progress))
    }

    /// Writes it to a file.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn write(mut self, path: &Path) -> io::Result<()> {
        let mut text = format!("seconds {}\n", self.time.as_secs());
        self.fields().into_iter().for_each(|(name, field)| text += &format!("{name} {}\n", field.get()));
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
