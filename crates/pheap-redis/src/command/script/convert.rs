//! Converts replies of commands to values of Lua, and values that scripts return to replies.

use mlua::{Lua, LuaString, Result, Table, Value};

use crate::resp::Reply;

/// Maximum nesting of a value that a script returns. Deeper values are replaced by an error.
const DEEPEST: usize = 1000;

/// Names of the fields by which a table of a script stands for a reply that is no array. Kept as strings of
/// Lua.
pub(super) struct Names {
    err: LuaString,
    ok: LuaString,
    double: LuaString,
    big_number: LuaString,
    verbatim_string: LuaString,
    map: LuaString,
    set: LuaString,
}

impl Names {
    pub(super) fn new(lua: &Lua) -> Result<Names> {
        let name = |text: &str| lua.create_string(text);
        Ok(Names {
            err: name("err")?,
            ok: name("ok")?,
            double: name("double")?,
            big_number: name("big_number")?,
            verbatim_string: name("verbatim_string")?,
            map: name("map")?,
            set: name("set")?,
        })
    }
}

/// Parser of a complete reply.
pub(super) struct ReplyParser<'a> {
    rest: &'a [u8],
}

impl<'a> ReplyParser<'a> {
    pub(super) fn new(reply: &'a [u8]) -> ReplyParser<'a> {
        ReplyParser { rest: reply }
    }

    /// Returns the type of the next reply, and the rest of its line.
    fn line(&mut self) -> (u8, &'a [u8]) {
        let end = self.rest.windows(2).position(|two| two == b"\r\n").unwrap_or(self.rest.len());
        let (line, rest) = self.rest.split_at(end);
        self.rest = rest.get(2..).unwrap_or_default();
        line.split_first().map_or((b'_', &[]), |(kind, line)| (*kind, line))
    }

    fn bytes(&mut self, len: &[u8]) -> Option<&'a [u8]> {
        let len = usize::try_from(number(len)).ok()?;
        let bytes = &self.rest[..len];
        self.rest = &self.rest[len + 2..];
        Some(bytes)
    }

    /// Returns the next reply as a value of Lua.
    pub(super) fn value(&mut self, lua: &Lua, names: &Names) -> Result<Value> {
        let with = |name: &LuaString, value: Value| -> Result<Value> {
            let table = lua.create_table_with_capacity(0, 1)?;
            table.raw_set(name, value)?;
            Ok(Value::Table(table))
        };
        let string = |text: &[u8]| lua.create_string(text).map(Value::String);
        let (kind, line) = self.line();
        Ok(match kind {
            b':' => Value::Number(number(line) as f64),
            b'$' => match self.bytes(line) {
                Some(bytes) => string(bytes)?,
                None => Value::Boolean(false),
            },
            b'+' => with(&names.ok, string(line)?)?,
            b'-' => Value::Table(error(lua, names, line)?),
            b'*' | b'>' if line.starts_with(b"-") => Value::Boolean(false),
            b'*' | b'>' => {
                let len = number(line) as usize;
                let table = lua.create_table_with_capacity(len, 0)?;
                for i in 1..=len {
                    table.raw_set(i, self.value(lua, names)?)?;
                }
                Value::Table(table)
            }
            b'%' => {
                let map = lua.create_table()?;
                for _ in 0..number(line) {
                    let key = self.value(lua, names)?;
                    map.raw_set(key, self.value(lua, names)?)?;
                }
                with(&names.map, Value::Table(map))?
            }
            b'~' => {
                let set = lua.create_table()?;
                for _ in 0..number(line) {
                    set.raw_set(self.value(lua, names)?, true)?;
                }
                with(&names.set, Value::Table(set))?
            }
            b',' => {
                let number = std::str::from_utf8(line).ok().and_then(|text| text.parse().ok());
                with(&names.double, Value::Number(number.unwrap_or(f64::NAN)))?
            }
            b'#' => Value::Boolean(line == b"t"),
            b'(' => with(&names.big_number, string(line)?)?,
            b'=' => {
                let (format, text) = self.bytes(line).unwrap_or_default().split_at(3);
                let table = lua.create_table_with_capacity(0, 2)?;
                table.raw_set("format", string(format)?)?;
                table.raw_set("string", string(&text[1..])?)?;
                with(&names.verbatim_string, Value::Table(table))?
            }
            _ => Value::Nil,
        })
    }
}

fn number(text: &[u8]) -> i64 {
    crate::text::words::int(text).unwrap_or(-1)
}

/// Returns an error as scripts see it. Puts the code `ERR` in front of a text without spaces.
pub(super) fn error(lua: &Lua, names: &Names, text: &[u8]) -> Result<Table> {
    let table = lua.create_table_with_capacity(0, 2)?;
    if text.contains(&b' ') {
        table.raw_set(&names.err, lua.create_string(text)?)?;
    } else {
        table.raw_set(&names.err, lua.create_string([b"ERR ", text].concat())?)?;
    }
    table.raw_set("ignore_error_stats_update", true)?;
    Ok(table)
}

/// The number of bytes that may still be written from values of a script. The script cannot be killed while
/// its values are written, and tables that share parts may be exponentially larger when written.
pub(super) struct Budget(usize);

impl Budget {
    pub(super) fn new() -> Budget {
        Budget(1 << 30)
    }

    /// Uses up bytes that are written or moved.
    fn bytes(&mut self, len: usize) -> Result<()> {
        let left = self.0.checked_sub(len);
        self.0 = left.ok_or_else(|| mlua::Error::runtime("the result is too large"))?;
        Ok(())
    }

    /// Uses up as many bytes as take about the time of writing a value.
    pub(super) fn value(&mut self, value: &Value) -> Result<()> {
        self.bytes(match value {
            Value::Table(_) => 512,
            Value::String(text) => 128 + text.as_bytes().len(),
            _ => 128,
        })
    }
}

/// Writes the value that a script has returned. `resp3` is whether the script has selected RESP3. It decides
/// how booleans are written.
pub(super) fn reply(value: &Value, names: &Names, resp3: bool, out: &mut Reply) -> Result<()> {
    nested(value, names, resp3, DEEPEST, &mut Budget::new(), out)
}

fn nested(
    value: &Value,
    names: &Names,
    resp3: bool,
    deepest: usize,
    budget: &mut Budget,
    out: &mut Reply,
) -> Result<()> {
    budget.value(value)?;
    let start = out.len();
    if deepest == 0 {
        out.error("ERR reached lua stack limit");
        return Ok(());
    }
    let mut deeper = |value: &Value, out: &mut Reply| nested(value, names, resp3, deepest - 1, budget, out);
    match value {
        Value::String(text) => out.bulk(&text.as_bytes()),
        Value::Integer(number) => out.int(*number),
        Value::Number(number) => out.int(whole(*number)),
        Value::Boolean(is_so) if resp3 => out.boolean(*is_so),
        Value::Boolean(true) => out.int(1),
        Value::Table(table) => {
            if let Value::String(text) = table.raw_get(&names.err)? {
                write_error(&text.as_bytes(), out);
            } else if let Value::String(text) = table.raw_get(&names.ok)? {
                out.line(b'+', &text.as_bytes());
            } else if let Some(number) = float(&table.raw_get(&names.double)?) {
                out.double(number);
            } else if let Value::String(text) = table.raw_get(&names.big_number)? {
                let one_line = |byte: &u8| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte };
                let digits: Vec<u8> = text.as_bytes().iter().map(one_line).collect();
                if out.is_resp3() { out.line(b'(', &digits) } else { out.bulk(&digits) }
            } else if let Some((format, text)) = verbatim(&table.raw_get(&names.verbatim_string)?)? {
                // As in Redis: the format ends at a zero byte, and is cut or padded to three bytes.
                let format = format.as_bytes();
                let mut format: Vec<u8> = format.iter().copied().take_while(|byte| *byte != 0).collect();
                format.resize(3, b' ');
                out.verbatim(format, text.as_bytes());
            } else if let Value::Table(map) = table.raw_get(&names.map)? {
                let (begun, mut pairs) = (out.defer_len(), 0);
                map.for_each(|key: Value, value: Value| {
                    pairs += 1;
                    deeper(&key, out)?;
                    deeper(&value, out)
                })?;
                out.end_map(begun, pairs);
            } else if let Value::Table(set) = table.raw_get(&names.set)? {
                let (begun, mut len) = (out.defer_len(), 0);
                set.for_each(|member: Value, _: Value| {
                    len += 1;
                    deeper(&member, out)
                })?;
                out.end_set(begun, len);
            } else {
                let (begun, mut len) = (out.defer_len(), 0);
                loop {
                    match table.raw_get(len + 1)? {
                        Value::Nil => break,
                        value => deeper(&value, out)?,
                    }
                    len += 1;
                }
                out.end_array(begun, len);
            }
        }
        _ => out.null(),
    }
    if value.is_table() {
        // Inserting the head of the collection has moved its elements, so their bytes are used up again.
        budget.bytes(out.len() - start)?;
    }
    Ok(())
}

fn float(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => Some(*number),
        Value::Integer(number) => Some(*number as f64),
        _ => None,
    }
}

fn verbatim(value: &Value) -> Result<Option<(LuaString, LuaString)>> {
    let Value::Table(table) = value else { return Ok(None) };
    match (table.raw_get("format")?, table.raw_get("string")?) {
        (Value::String(format), Value::String(text)) => Ok(Some((format, text))),
        _ => Ok(None),
    }
}

/// Writes an error, without the line ends at its end.
pub(super) fn write_error(text: &[u8], out: &mut Reply) {
    let end = text.iter().rposition(|byte| !matches!(byte, b'\r' | b'\n')).map_or(0, |at| at + 1);
    out.line(b'-', &text[..end]);
}

/// Formats a number as an argument of a command, like C's `%.17g`.
pub(super) fn show(number: f64, text: &mut Vec<u8>) {
    if number == number.trunc() && number.abs() < 1e17 {
        let mut digits = [0; 20];
        if number == 0.0 && number.is_sign_negative() {
            text.push(b'-');
        }
        return text.extend_from_slice(crate::text::words::decimal(number as i64, &mut digits));
    }
    text.extend_from_slice(crate::text::words::show_float(number).as_bytes());
}

/// Truncates a number to an integer. Numbers out of range become `i64::MIN`, as in Redis on x86-64.
fn whole(number: f64) -> i64 {
    if number < i64::MAX as f64 { number as i64 } else { i64::MIN }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_c_shows_them() {
        for (number, shown) in [
            (9007199254740991.0, "9007199254740991"),
            (0.1, "0.10000000000000001"),
            (-1.5, "-1.5"),
            (1e17, "1e+17"),
            (1e16, "10000000000000000"),
            (1.25e-5, "1.2500000000000001e-05"),
            (0.0001, "0.0001"),
            (1e300, "1.0000000000000001e+300"),
            (f64::INFINITY, "inf"),
        ] {
            let mut text = Vec::new();
            show(number, &mut text);
            assert_eq!(String::from_utf8(text).unwrap(), shown);
        }
    }

    #[test]
    fn reply_round_trip() {
        let lua = Lua::new();
        let names = Names::new(&lua).unwrap();
        for bytes in [
            "+OK\r\n",
            "-ERR no\r\n",
            ":-7\r\n",
            "$2\r\n\r\n\r\n",
            "*2\r\n$1\r\na\r\n*1\r\n:1\r\n",
            "%1\r\n$1\r\na\r\n:1\r\n",
            "~1\r\n$1\r\na\r\n",
            ",1.5\r\n",
            "#t\r\n",
            "_\r\n",
            "(123456789012345678901234567890\r\n",
            "=8\r\ntxt:text\r\n",
        ] {
            let value = ReplyParser::new(bytes.as_bytes()).value(&lua, &names).unwrap();
            let mut out = Reply::new(true);
            reply(&value, &names, true, &mut out).unwrap();
            assert_eq!(String::from_utf8(out.take()).unwrap(), bytes);
        }
    }
}
