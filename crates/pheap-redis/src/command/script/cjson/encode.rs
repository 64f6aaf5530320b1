//! Converts values of Lua to JSON.

use mlua::{Table, Value};

use super::{Choices, DEFAULT, Invalid};
use crate::command::script::convert::Budget;
use crate::command::script::native::{LibraryResult, text};
use crate::text::words::general;

/// Writer of JSON.
pub(super) struct Encoder<'e> {
    choices: Choices,
    budget: Budget,
    out: &'e mut Vec<u8>,
}

impl<'e> Encoder<'e> {
    pub(super) fn new(choices: Choices, out: &'e mut Vec<u8>) -> Self {
        Encoder { choices, budget: Budget::new(), out }
    }

    /// Writes a value that is nested in `depth` tables.
    pub(super) fn value(&mut self, value: &Value, depth: i64) -> LibraryResult<()> {
        self.budget.value(value).map_err(text)?;
        match value {
            Value::Nil | Value::LightUserData(_) if *value == Value::Nil || *value == Value::NULL => {
                self.out.extend_from_slice(b"null");
            }
            Value::Boolean(is_so) => self.out.extend_from_slice(if *is_so { b"true" } else { b"false" }),
            Value::Integer(number) => self.number(*number as f64)?,
            Value::Number(number) => self.number(*number)?,
            Value::String(text) => self.string(&text.as_bytes()),
            Value::Table(table) => return self.table(table, depth + 1),
            other => return Err(format!("Cannot serialise {}: type not supported", other.type_name())),
        }
        Ok(())
    }

    fn number(&mut self, number: f64) -> LibraryResult<()> {
        if !number.is_finite() {
            match self.choices.encode_invalid {
                Invalid::Error => return Err("Cannot serialise number: must not be NaN or Inf".into()),
                Invalid::Null => self.out.extend_from_slice(b"null"),
                Invalid::Written => {
                    let word = if number.is_nan() {
                        "nan"
                    } else if number > 0.0 {
                        "inf"
                    } else {
                        "-inf"
                    };
                    self.out.extend_from_slice(word.as_bytes());
                }
            }
            return Ok(());
        }
        self.out.extend_from_slice(general(number, self.choices.precision as usize).as_bytes());
        Ok(())
    }

    fn string(&mut self, text: &[u8]) {
        self.out.push(b'"');
        for &byte in text {
            let short = match byte {
                b'"' => b'"',
                b'\\' => b'\\',
                b'/' => b'/',
                8 => b'b',
                b'\t' => b't',
                b'\n' => b'n',
                12 => b'f',
                b'\r' => b'r',
                0..32 | 127 => {
                    self.out.extend_from_slice(format!("\\u{byte:04x}").as_bytes());
                    continue;
                }
                _ => {
                    self.out.push(byte);
                    continue;
                }
            };
            self.out.extend_from_slice(&[b'\\', short]);
        }
        self.out.push(b'"');
    }

    /// Returns the length of the array as which a table is to be written. `None` means that the table is to
    /// be written as an object. Fails for an array with too many gaps, unless `sparse_to_object` is set.
    fn array_len(&self, table: &Table) -> LibraryResult<Option<usize>> {
        let (mut most, mut len, mut is_array) = (0, 0, true);
        let look = |key: Value, _: Value| {
            match key {
                Value::Integer(index) if index > 0 => most = most.max(index),
                Value::Number(index) if index > 0.0 && index == index.floor() => {
                    most = most.max(index as i64)
                }
                _ => is_array = false,
            }
            len += 1;
            Ok(())
        };
        table.for_each(look).map_err(text)?;
        if !is_array || most == 0 {
            return Ok(None);
        }
        let Choices { sparse_ratio: ratio, sparse_safe: safe, .. } = self.choices;
        if ratio > 0 && most > safe && most > ratio.saturating_mul(len) {
            if !self.choices.sparse_to_object {
                return Err("Cannot serialise table: excessively sparse array".into());
            }
            return Ok(None);
        }
        Ok(Some(most as usize))
    }

    fn table(&mut self, table: &Table, depth: i64) -> LibraryResult<()> {
        // A script may lower the default limit and not raise it: deeper tables could overflow the stack of
        // this thread.
        if depth > self.choices.encode_depth.min(DEFAULT.encode_depth) {
            return Err(format!("Cannot serialise, excessive nesting ({depth})"));
        }
        if let Some(len) = self.array_len(table)? {
            self.out.push(b'[');
            for i in 1..=len {
                if i > 1 {
                    self.out.push(b',');
                }
                self.value(&table.raw_get(i).map_err(text)?, depth)?;
            }
            self.out.push(b']');
            return Ok(());
        }
        self.out.push(b'{');
        let (mut is_first, mut problem) = (true, None);
        let result = table.for_each(|key: Value, value: Value| {
            if !std::mem::take(&mut is_first) {
                self.out.push(b',');
            }
            self.pair(&key, &value, depth).map_err(|text| {
                problem = Some(text);
                mlua::Error::runtime("")
            })
        });
        if let Some(problem) = problem {
            return Err(problem);
        }
        result.map_err(text)?;
        self.out.push(b'}');
        Ok(())
    }

    fn pair(&mut self, key: &Value, value: &Value, depth: i64) -> LibraryResult<()> {
        match key {
            Value::String(text) => self.string(&text.as_bytes()),
            Value::Number(_) | Value::Integer(_) => {
                self.out.push(b'"');
                self.value(key, depth)?;
                self.out.push(b'"');
            }
            other => {
                let kind = other.type_name();
                return Err(format!("Cannot serialise {kind}: table key must be a number or string"));
            }
        }
        self.out.push(b':');
        self.value(value, depth)
    }
}
