//! Writes JSON as a stream, to any depth.

use std::io::{Result, Write};

/// Maximal number of indented levels. Without a limit, deep lists would be mostly blanks.
const MAX_INDENT: usize = 32;

/// An object or array that was begun and not ended yet.
#[derive(Clone, Copy)]
struct JsonLevel {
    end: char,
    empty: bool,
    /// Whether each member is on a separate line.
    lines: bool,
}

/// Writes one JSON value, piece by piece.
pub struct Writer<'w> {
    out: &'w mut dyn Write,
    open: Vec<JsonLevel>,
    compact: bool,
    /// Whether a key was written last, so that its value comes next.
    after_key: bool,
}

impl<'w> Writer<'w> {
    pub fn new(out: &'w mut dyn Write, compact: bool) -> Writer<'w> {
        Writer { out, open: Vec::new(), compact, after_key: false }
    }

    /// Begins an object or array. If `lines` is set, each member is on a separate line, unless the writer is
    /// compact.
    pub fn begin(&mut self, brackets: [char; 2], lines: bool) -> Result<()> {
        self.separate()?;
        write!(self.out, "{}", brackets[0])?;
        self.open.push(JsonLevel { end: brackets[1], empty: true, lines: lines && !self.compact });
        Ok(())
    }

    pub fn end(&mut self) -> Result<()> {
        let level = self.open.pop().expect("something is open");
        if level.lines && !level.empty {
            self.new_line()?;
        }
        write!(self.out, "{}", level.end)
    }

    pub fn key(&mut self, key: &str) -> Result<()> {
        self.separate()?;
        serde_json::to_writer(&mut *self.out, key)?;
        self.out.write_all(if self.compact { b":" } else { b": " })?;
        self.after_key = true;
        Ok(())
    }

    pub fn text(&mut self, text: &str) -> Result<()> {
        self.separate()?;
        Ok(serde_json::to_writer(&mut *self.out, text)?)
    }

    /// Writes a number, `true`, `false` or `null`.
    pub fn plain(&mut self, value: impl std::fmt::Display) -> Result<()> {
        self.separate()?;
        write!(self.out, "{value}")
    }

    /// Writes the separator before a key or value.
    fn separate(&mut self) -> Result<()> {
        if std::mem::take(&mut self.after_key) {
            return Ok(());
        }
        let Some(level) = self.open.last_mut() else { return Ok(()) };
        let (first, lines) = (std::mem::replace(&mut level.empty, false), level.lines);
        if !first {
            self.out.write_all(if lines || self.compact { b"," } else { b", " })?;
        }
        if lines { self.new_line() } else { Ok(()) }
    }

    fn new_line(&mut self) -> Result<()> {
        let level = self.open.len().min(MAX_INDENT);
        write!(self.out, "\n{:1$}", "", level * 2)
    }
}
