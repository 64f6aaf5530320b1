//! The place in the data where an import has failed: `items[3].prices["net"]`.

use std::fmt;

/// The step from a value to one of its parts.
pub(super) enum PathStep {
    Name(&'static str),
    Index(usize),
    /// The key of an entry of a map.
    Key(String),
}

/// The steps of a path, from the innermost to the outermost: they are recorded while the error is returned
/// outwards.
#[derive(Default)]
pub(super) struct ValuePath(Vec<PathStep>);

impl ValuePath {
    #[cold]
    pub(super) fn push(&mut self, step: PathStep) {
        self.0.push(step);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for ValuePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, step) in self.0.iter().rev().enumerate() {
            match step {
                PathStep::Name(name) if i == 0 => f.write_str(name)?,
                PathStep::Name(name) => write!(f, ".{name}")?,
                PathStep::Key(key) => write!(f, "[{key}]")?,
                PathStep::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}
