//! `struct`: packs numbers and strings as structures of C.

use mlua::{Lua, MultiValue, Result, Table, Value};

use super::native::{LibraryResult, add_function, bad_argument, string_argument, text};

/// Maximum size of an integer, in bytes.
const LONGEST: usize = 32;

/// A format, which is read from the left.
struct Format<'f> {
    rest: &'f [u8],
    is_big: bool,
    align: usize,
    /// Name of the function that reads the format, for errors.
    name: &'static str,
}

/// An item of a format: letter, size, and number of padding bytes before it.
struct FormatItem {
    letter: u8,
    size: usize,
    padding: usize,
}

impl<'f> Format<'f> {
    fn new(name: &'static str, text: &'f [u8]) -> Format<'f> {
        Format { rest: text, is_big: cfg!(target_endian = "big"), align: 1, name }
    }

    fn number(&mut self, default: usize) -> LibraryResult<usize> {
        let digits = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 {
            return Ok(default);
        }
        let (number, rest) = self.rest.split_at(digits);
        self.rest = rest;
        let number = std::str::from_utf8(number).ok().and_then(|number| number.parse::<i32>().ok());
        number.map(|number| number as usize).ok_or_else(|| "integral size overflow".to_owned())
    }

    /// Returns the next item of the format, or `None` at its end. `at` is the position in the data before the
    /// item's padding.
    fn next(&mut self, at: usize) -> LibraryResult<Option<FormatItem>> {
        while let Some((&letter, rest)) = self.rest.split_first() {
            self.rest = rest;
            let size = match letter {
                b'b' | b'B' | b'x' => 1,
                b'h' | b'H' => 2,
                b'f' => 4,
                b'l' | b'L' | b'T' | b'd' => 8,
                b's' => 0,
                b'c' => self.number(1)?,
                b'i' | b'I' => {
                    let size = self.number(4)?;
                    if size > LONGEST {
                        return Err(format!("integral size {size} is larger than limit of {LONGEST}"));
                    }
                    size
                }
                b' ' => continue,
                b'>' | b'<' => {
                    self.is_big = letter == b'>';
                    continue;
                }
                b'!' => {
                    self.align = self.number(8)?;
                    if !self.align.is_power_of_two() {
                        return Err("alignment is not a power of 2".into());
                    }
                    continue;
                }
                other => {
                    let option = char::from(other);
                    return Err(bad_argument(self.name, 1, format_args!("invalid format option '{option}'")));
                }
            };
            let align = if size == 0 || letter == b'c' { 1 } else { size.min(self.align) };
            let padding = if align.is_power_of_two() { at.wrapping_neg() & (align - 1) } else { 0 };
            return Ok(Some(FormatItem { letter, size, padding }));
        }
        Ok(None)
    }

    /// Converts bytes from little endian to the byte order of the format, or back.
    fn order(&self, bytes: &mut [u8]) {
        if self.is_big {
            bytes.reverse();
        }
    }
}

pub(super) fn library(lua: &Lua) -> Result<Table> {
    let library = lua.create_table()?;
    add_function(lua, &library, "pack", |lua, (format, values): (Value, MultiValue)| {
        let format = string_argument(lua, "pack", 1, format)?;
        let bytes = pack(lua, &format.as_bytes(), values)?;
        lua.create_string(bytes).map_err(text)
    })?;
    add_function(lua, &library, "unpack", |lua, (format, data, from): (Value, Value, Option<i64>)| {
        let (format, data) =
            (string_argument(lua, "unpack", 1, format)?, string_argument(lua, "unpack", 2, data)?);
        unpack(lua, &format.as_bytes(), &data.as_bytes(), from.unwrap_or(1))
    })?;
    add_function(lua, &library, "size", |lua, format: Value| {
        let format = string_argument(lua, "size", 1, format)?;
        let format = format.as_bytes();
        let (mut format, mut len) = (Format::new("size", &format), 0_usize);
        while let Some(item) = format.next(len)? {
            match (item.letter, item.size) {
                (b's', _) => return Err(bad_argument("size", 1, "option 's' has no fixed size")),
                (b'c', 0) => return Err(bad_argument("size", 1, "option 'c0' has no fixed size")),
                _ => {}
            }
            len = len.checked_add(item.padding + item.size).ok_or("size overflow")?;
        }
        Ok(len as f64)
    })?;
    Ok(library)
}

fn pack(lua: &Lua, format: &[u8], values: MultiValue) -> LibraryResult<Vec<u8>> {
    let (mut format, mut values, mut out) =
        (Format::new("pack", format), values.into_iter().zip(2..), Vec::new());
    while let Some(item) = format.next(out.len())? {
        out.resize(out.len() + item.padding, 0);
        if item.letter == b'x' {
            out.push(0);
            continue;
        }
        let (value, at) = values.next().unwrap_or((Value::Nil, 2));
        let wrong = |what: &str, value: &Value| {
            bad_argument("pack", at, format_args!("{what} expected, got {}", value.type_name()))
        };
        if matches!(item.letter, b's' | b'c') {
            let string =
                lua.coerce_string(value.clone()).map_err(text)?.ok_or_else(|| wrong("string", &value))?;
            let string = string.as_bytes();
            let len = if item.size == 0 { string.len() } else { item.size };
            let part = string.get(..len).ok_or_else(|| bad_argument("pack", at + 1, "string too short"))?;
            out.extend_from_slice(part);
            if item.letter == b's' {
                out.push(0);
            }
            continue;
        }
        let number =
            lua.coerce_number(value.clone()).map_err(text)?.ok_or_else(|| wrong("number", &value))?;
        let start = out.len();
        match item.letter {
            b'f' => out.extend_from_slice(&(number as f32).to_le_bytes()),
            b'd' => out.extend_from_slice(&number.to_le_bytes()),
            _ => {
                // Negative numbers as two's complement; numbers above the signed range as unsigned ones.
                let whole = if number < 0.0 { number as i64 as u64 } else { number as u64 };
                let fill = if number < 0.0 { 0xff } else { 0 };
                let bytes = whole.to_le_bytes().into_iter().chain(std::iter::repeat(fill));
                out.extend(bytes.take(item.size));
            }
        }
        format.order(&mut out[start..]);
    }
    Ok(out)
}

/// Returns the values from position `from` on (the first byte is 1), and the position after them.
fn unpack(lua: &Lua, format: &[u8], data: &[u8], from: i64) -> LibraryResult<MultiValue> {
    let at = usize::try_from(from).ok().and_then(|from| from.checked_sub(1));
    let mut at = at.ok_or_else(|| bad_argument("unpack", 3, "offset must be 1 or greater"))?;
    let (mut format, mut values) = (Format::new("unpack", format), MultiValue::new());
    let short = || bad_argument("unpack", 2, "data string too short");
    while let Some(mut item) = format.next(at)? {
        at = at.saturating_add(item.padding);
        if (item.letter, item.size) == (b'c', 0) {
            let len = match values.pop_back() {
                Some(Value::Number(len)) if len >= 0.0 => len as usize,
                _ => return Err("format 'c0' needs a previous size".into()),
            };
            item.size = len;
        }
        let rest = data.get(at..).ok_or_else(short)?;
        if item.letter == b's' {
            let len = rest.iter().position(|&byte| byte == 0);
            item.size = len.ok_or("unfinished string in data")?;
        }
        let bytes = rest.get(..item.size).ok_or_else(short)?;
        at += item.size + usize::from(item.letter == b's');
        let mut number = bytes.to_vec();
        format.order(&mut number);
        values.push_back(match item.letter {
            b'x' => continue,
            b's' | b'c' => Value::String(lua.create_string(bytes).map_err(text)?),
            b'f' => Value::Number(number.try_into().map(f32::from_le_bytes).map_err(|_| short())?.into()),
            b'd' => Value::Number(number.try_into().map(f64::from_le_bytes).map_err(|_| short())?),
            letter => Value::Number(whole(&number, letter.is_ascii_lowercase())),
        });
    }
    values.push_back(Value::Number((at + 1) as f64));
    Ok(values)
}

/// Converts the bytes of an integer of any size, the lowest byte first. Bytes above the lowest eight are
/// ignored.
fn whole(bytes: &[u8], is_signed: bool) -> f64 {
    let is_negative = is_signed && bytes.last().is_some_and(|byte| byte & 0x80 != 0);
    let mut all = [if is_negative { 0xff } else { 0 }; 8];
    let len = bytes.len().min(8);
    all[..len].copy_from_slice(&bytes[..len]);
    if is_signed { i64::from_le_bytes(all) as f64 } else { u64::from_le_bytes(all) as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn struct_round_trip() {
        let lua = Lua::new();
        let numbers = |numbers: &[f64]| numbers.iter().map(|&n| Value::Number(n)).collect::<MultiValue>();
        let packed = pack(&lua, b">bHl<i3d", numbers(&[-1.0, 258.0, -2.0, 70_000.0, 0.5])).unwrap();
        assert_eq!(packed[..3], [0xff, 1, 2]);
        let values = unpack(&lua, b">bHl<i3d", &packed, 1).unwrap();
        let expected = numbers(&[-1.0, 258.0, -2.0, 70_000.0, 0.5, (packed.len() + 1) as f64]);
        assert_eq!(values.into_vec(), expected.into_vec());
        assert_eq!(pack(&lua, b"!4bi", numbers(&[1.0, 2.0])).unwrap(), [1, 0, 0, 0, 2, 0, 0, 0]);
    }

    #[test]
    fn invalid_struct_formats_are_refused() {
        let lua = Lua::new();
        let wrong =
            |format: &str, data: &[u8], from| unpack(&lua, format.as_bytes(), data, from).unwrap_err();
        assert!(wrong("d", b"1234567", 1).contains("too short"));
        assert!(wrong("b", b"1", 0).contains("1 or greater"));
        assert!(wrong("b", b"1", i64::MAX).contains("too short"));
        assert!(wrong("s", b"abc", 1).contains("unfinished"));
        assert!(wrong("c0", b"abc", 1).contains("previous size"));
        assert!(wrong("i33", b"abc", 1).contains("limit of 32"));
        assert!(wrong("?", b"abc", 1).contains("invalid format option"));
        assert!(wrong("!3i", b"abc", 1).contains("power of 2"));
        assert!(wrong("bc2147483647", b"abc", 1).contains("too short"));
    }
}
