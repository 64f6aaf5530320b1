//! `cjson`: tables as JSON, and back. Strings may be any bytes.

use std::cell::RefCell;
use std::rc::Rc;

use mlua::{Lua, Result, Table, Value, Variadic};

use super::native::{Given, add, bad, string, text};

/// What scripts may choose. It stays until they choose again.
#[derive(Debug, Clone, Copy)]
struct Choices {
    sparse_to_object: bool,
    sparse_ratio: i64,
    sparse_safe: i64,
    encode_depth: i64,
    decode_depth: i64,
    /// Digits of a number.
    precision: i64,
    keep_buffer: bool,
    encode_invalid: Invalid,
    decode_invalid: bool,
}

/// What becomes of numbers that JSON does not have.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Invalid {
    Error,
    Written,
    Null,
}

const DEFAULT: Choices = Choices {
    sparse_to_object: false,
    sparse_ratio: 2,
    sparse_safe: 10,
    encode_depth: 1000,
    decode_depth: 1000,
    precision: 14,
    keep_buffer: true,
    encode_invalid: Invalid::Error,
    decode_invalid: true,
};

pub(super) fn library(lua: &Lua) -> Result<Table> {
    let library = lua.create_table()?;
    let choices = Rc::new(RefCell::new(DEFAULT));
    let with = choices.clone();
    add(lua, &library, "encode", move |lua, arguments: Variadic<Value>| {
        let [value] = &arguments[..] else {
            return Err(bad("encode", 1, "expected 1 argument"));
        };
        let mut out = Vec::new();
        Encoder { choices: *with.borrow(), out: &mut out }.value(value, 0)?;
        lua.create_string(out).map_err(text)
    })?;
    let with = choices.clone();
    add(lua, &library, "decode", move |lua, arguments: Variadic<Value>| {
        let [value] = &arguments[..] else {
            return Err(bad("decode", 1, "expected 1 argument"));
        };
        let json = string(lua, "decode", 1, value.clone())?;
        let json = json.as_bytes();
        if json.len() >= 2 && json[..2].contains(&0) {
            return Err("JSON parser does not support UTF-16 or UTF-32".into());
        }
        let mut decoder = Decoder { lua, json: &json, at: 0, depth: 0, choices: *with.borrow() };
        let value = decoder.value()?;
        match decoder.token()? {
            (_, Token::End) => Ok(value),
            (at, found) => Err(expected("the end", &found, at)),
        }
    })?;
    choosers(lua, &library, &choices)?;
    add(lua, &library, "new", |lua, ()| self::library(lua).map_err(text))?;
    library.set("null", Value::NULL)?;
    library.set("_NAME", "cjson")?;
    library.set("_VERSION", "2.1.0")?;
    Ok(library)
}

/// A number that was chosen, within limits; or the one there is.
fn choose(
    lua: &Lua,
    (name, at): (&str, usize),
    chosen: Option<&Value>,
    is: i64,
    (least, most): (i64, i64),
) -> Given<i64> {
    let Some(chosen) = chosen.filter(|value| !value.is_nil()) else { return Ok(is) };
    let number = lua.coerce_number(chosen.clone()).map_err(text)?.map(|number| number as i64);
    number
        .filter(|number| (least..=most).contains(number))
        .ok_or_else(|| bad(name, at, format_args!("expected integer between {least} and {most}")))
}

/// The functions by which scripts choose. Each gives what is the case then.
fn choosers(lua: &Lua, library: &Table, choices: &Rc<RefCell<Choices>>) -> Result<()> {
    let limit = i64::from(i32::MAX);
    let with = choices.clone();
    add(lua, library, "encode_sparse_array", move |lua, chosen: Variadic<Value>| {
        const NAME: &str = "encode_sparse_array";
        let mut with = with.borrow_mut();
        if let Some(convert) = chosen.first().filter(|value| !value.is_nil()) {
            with.sparse_to_object = *convert != Value::Boolean(false);
        }
        with.sparse_ratio = choose(lua, (NAME, 2), chosen.get(1), with.sparse_ratio, (0, limit))?;
        with.sparse_safe = choose(lua, (NAME, 3), chosen.get(2), with.sparse_safe, (0, limit))?;
        Ok((with.sparse_to_object, with.sparse_ratio, with.sparse_safe))
    })?;
    let numbers: [(&'static str, fn(&mut Choices) -> &mut i64, i64, i64); 3] = [
        ("encode_max_depth", |with| &mut with.encode_depth, 1, limit),
        ("decode_max_depth", |with| &mut with.decode_depth, 1, limit),
        ("encode_number_precision", |with| &mut with.precision, 1, 14),
    ];
    for (name, field, least, most) in numbers {
        let with = choices.clone();
        add(lua, library, name, move |lua, chosen: Variadic<Value>| {
            let (mut with, field) = (with.borrow_mut(), field);
            let field = field(&mut with);
            *field = choose(lua, (name, 1), chosen.first(), *field, (least, most))?;
            Ok(*field)
        })?;
    }
    let with = choices.clone();
    add(lua, library, "encode_keep_buffer", move |_, chosen: Option<bool>| {
        // There is no buffer that is kept, so nothing depends on it.
        let mut with = with.borrow_mut();
        with.keep_buffer = chosen.unwrap_or(with.keep_buffer);
        Ok(with.keep_buffer)
    })?;
    let with = choices.clone();
    add(lua, library, "encode_invalid_numbers", move |lua, chosen: Variadic<Value>| {
        let mut with = with.borrow_mut();
        with.encode_invalid = match chosen.first() {
            None | Some(Value::Nil) => with.encode_invalid,
            Some(Value::Boolean(false)) => Invalid::Error,
            Some(Value::Boolean(true)) => Invalid::Written,
            Some(Value::String(word)) if word.as_bytes() == *b"null" => Invalid::Null,
            Some(other) => {
                let option = other.to_string().unwrap_or_default();
                return Err(bad("encode_invalid_numbers", 1, format_args!("invalid option '{option}'")));
            }
        };
        match with.encode_invalid {
            Invalid::Null => lua.create_string("null").map(Value::String).map_err(text),
            other => Ok(Value::Boolean(other == Invalid::Written)),
        }
    })?;
    let with = choices.clone();
    add(lua, library, "decode_invalid_numbers", move |_, chosen: Option<bool>| {
        let mut with = with.borrow_mut();
        with.decode_invalid = chosen.unwrap_or(with.decode_invalid);
        Ok(with.decode_invalid)
    })?;
    Ok(())
}

struct Encoder<'e> {
    choices: Choices,
    out: &'e mut Vec<u8>,
}

impl Encoder<'_> {
    fn value(&mut self, value: &Value, depth: i64) -> Given<()> {
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

    fn number(&mut self, number: f64) -> Given<()> {
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
        self.out
            .extend_from_slice(super::convert::general(number, self.choices.precision as usize).as_bytes());
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

    /// The length of a table that is an array. None: it is none.
    fn array_len(&self, table: &Table) -> Given<Option<usize>> {
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

    fn table(&mut self, table: &Table, depth: i64) -> Given<()> {
        // Deeper than that, this program's own stack would not last.
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

    fn pair(&mut self, key: &Value, value: &Value, depth: i64) -> Given<()> {
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

#[derive(Debug)]
enum Token {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    Text(Vec<u8>),
    Number(f64),
    Boolean(bool),
    Null,
    Colon,
    Comma,
    End,
    Wrong(&'static str),
}

impl Token {
    fn name(&self) -> &'static str {
        match self {
            Token::ObjectBegin => "T_OBJ_BEGIN",
            Token::ObjectEnd => "T_OBJ_END",
            Token::ArrayBegin => "T_ARR_BEGIN",
            Token::ArrayEnd => "T_ARR_END",
            Token::Text(_) => "T_STRING",
            Token::Number(_) => "T_NUMBER",
            Token::Boolean(_) => "T_BOOLEAN",
            Token::Null => "T_NULL",
            Token::Colon => "T_COLON",
            Token::Comma => "T_COMMA",
            Token::End => "T_END",
            Token::Wrong(what) => what,
        }
    }
}

fn expected(what: &str, found: &Token, at: usize) -> String {
    format!("Expected {what} but found {} at character {}", found.name(), at + 1)
}

struct Decoder<'d> {
    lua: &'d Lua,
    json: &'d [u8],
    at: usize,
    depth: i64,
    choices: Choices,
}

impl Decoder<'_> {
    fn value(&mut self) -> Given<Value> {
        let (at, token) = self.token()?;
        self.value_from(at, token)
    }

    fn value_from(&mut self, at: usize, token: Token) -> Given<Value> {
        Ok(match token {
            Token::Text(bytes) => Value::String(self.lua.create_string(bytes).map_err(text)?),
            Token::Number(number) => Value::Number(number),
            Token::Boolean(is_so) => Value::Boolean(is_so),
            Token::Null => Value::NULL,
            Token::ObjectBegin => self.deeper(Decoder::object)?,
            Token::ArrayBegin => self.deeper(Decoder::array)?,
            other => return Err(expected("value", &other, at)),
        })
    }

    fn deeper(&mut self, f: impl FnOnce(&mut Self) -> Given<Value>) -> Given<Value> {
        self.depth += 1;
        // Deeper than that, this program's own stack would not last.
        if self.depth > self.choices.decode_depth.min(DEFAULT.decode_depth) {
            return Err(format!(
                "Found too many nested data structures ({}) at character {}",
                self.depth, self.at
            ));
        }
        let value = f(self)?;
        self.depth -= 1;
        Ok(value)
    }

    fn object(&mut self) -> Given<Value> {
        let table = self.lua.create_table().map_err(text)?;
        let (mut at, mut token) = self.token()?;
        if matches!(token, Token::ObjectEnd) {
            return Ok(Value::Table(table));
        }
        loop {
            let Token::Text(key) = token else { return Err(expected("object key string", &token, at)) };
            match self.token()? {
                (_, Token::Colon) => {}
                (at, found) => return Err(expected("colon", &found, at)),
            }
            let value = self.value()?;
            let key = self.lua.create_string(key).map_err(text)?;
            table.raw_set(key, value).map_err(text)?;
            match self.token()? {
                (_, Token::ObjectEnd) => return Ok(Value::Table(table)),
                (_, Token::Comma) => (at, token) = self.token()?,
                (at, found) => return Err(expected("comma or object end", &found, at)),
            }
        }
    }

    fn array(&mut self) -> Given<Value> {
        let table = self.lua.create_table().map_err(text)?;
        let (mut at, mut token) = self.token()?;
        if matches!(token, Token::ArrayEnd) {
            return Ok(Value::Table(table));
        }
        for i in 1.. {
            let value = self.value_from(at, token)?;
            table.raw_set(i, value).map_err(text)?;
            match self.token()? {
                (_, Token::ArrayEnd) => break,
                (_, Token::Comma) => (at, token) = self.token()?,
                (at, found) => return Err(expected("comma or array end", &found, at)),
            }
        }
        Ok(Value::Table(table))
    }

    /// The next token, and where it begins.
    fn token(&mut self) -> Given<(usize, Token)> {
        while self.json.get(self.at).is_some_and(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
        let at = self.at;
        let rest = &self.json[at..];
        let Some(&first) = rest.first() else { return Ok((at, Token::End)) };
        let single = match first {
            b'{' => Some(Token::ObjectBegin),
            b'}' => Some(Token::ObjectEnd),
            b'[' => Some(Token::ArrayBegin),
            b']' => Some(Token::ArrayEnd),
            b':' => Some(Token::Colon),
            b',' => Some(Token::Comma),
            _ => None,
        };
        if let Some(token) = single {
            self.at += 1;
            return Ok((at, token));
        }
        if first == b'"' {
            let token = self.text();
            // What is wrong is not always at the beginning.
            let at = if matches!(token, Token::Wrong(_)) { self.at } else { at };
            return Ok((at, token));
        }
        for (word, token) in
            [("true", Token::Boolean(true)), ("false", Token::Boolean(false)), ("null", Token::Null)]
        {
            if rest.starts_with(word.as_bytes()) {
                self.at += word.len();
                return Ok((at, token));
            }
        }
        Ok((at, self.number()))
    }

    fn number(&mut self) -> Token {
        let rest = &self.json[self.at..];
        let digits = rest.strip_prefix(b"-").or_else(|| rest.strip_prefix(b"+")).unwrap_or(rest);
        let is_number = digits.len() < rest.len() || digits[0].is_ascii_digit();
        let is_strict =
            matches!(digits, [b'0'..=b'9', ..]) && !matches!(digits, [b'0', b'x' | b'X' | b'0'..=b'9', ..]);
        if !is_strict && !self.choices.decode_invalid {
            return Token::Wrong(if is_number { "invalid number" } else { "invalid token" });
        }
        let sign = if rest[0] == b'-' { -1.0 } else { 1.0 };
        let before = rest.len() - digits.len();
        let lower = digits[..digits.len().min(8)].to_ascii_lowercase();
        for (word, number) in [("infinity", f64::INFINITY), ("inf", f64::INFINITY), ("nan", f64::NAN)] {
            if lower.starts_with(word.as_bytes()) {
                self.at += before + word.len();
                return Token::Number(sign * number);
            }
        }
        if lower.starts_with(b"0x") {
            let hex = digits[2..].iter().take_while(|byte| byte.is_ascii_hexdigit());
            let (value, len) = hex.fold((0.0, 0), |(value, len), &digit| {
                (value * 16.0 + f64::from((digit as char).to_digit(16).unwrap_or(0)), len + 1)
            });
            if len > 0 {
                self.at += before + 2 + len;
                return Token::Number(sign * value);
            }
        }
        if !is_number {
            return Token::Wrong("invalid token");
        }
        let len = float_len(digits);
        let number = std::str::from_utf8(&digits[..len]).ok().and_then(|text| text.parse::<f64>().ok());
        let Some(number) = number else { return Token::Wrong("invalid number") };
        self.at += before + len;
        Token::Number(sign * number)
    }

    fn text(&mut self) -> Token {
        let mut bytes = Vec::new();
        self.at += 1;
        loop {
            let Some(&byte) = self.json.get(self.at) else { return Token::Wrong("unexpected end of string") };
            self.at += 1;
            match byte {
                b'"' => return Token::Text(bytes),
                b'\\' => {
                    let escape = self.json.get(self.at).copied().unwrap_or(0);
                    let at = self.at - 1;
                    self.at += 1;
                    bytes.push(match escape {
                        b'"' | b'\\' | b'/' => escape,
                        b'b' => 8,
                        b'f' => 12,
                        b'n' => b'\n',
                        b'r' => b'\r',
                        b't' => b'\t',
                        b'u' => match self.code_point() {
                            Some(point) => {
                                bytes.extend_from_slice(point.encode_utf8(&mut [0; 4]).as_bytes());
                                continue;
                            }
                            None => return self.wrong_at(at, "invalid unicode escape code"),
                        },
                        _ => return self.wrong_at(at, "invalid escape code"),
                    });
                }
                _ => bytes.push(byte),
            }
        }
    }

    fn wrong_at(&mut self, at: usize, what: &'static str) -> Token {
        self.at = at;
        Token::Wrong(what)
    }

    fn code_unit(&mut self) -> Option<u32> {
        let digits = self.json.get(self.at..self.at + 4)?;
        let unit =
            digits.iter().try_fold(0, |unit, &digit| Some(unit << 4 | (digit as char).to_digit(16)?))?;
        self.at += 4;
        Some(unit)
    }

    /// What follows `\u`: one unit, or a pair of them.
    fn code_point(&mut self) -> Option<char> {
        let unit = self.code_unit()?;
        if !(0xd800..0xe000).contains(&unit) {
            return char::from_u32(unit);
        }
        if unit >= 0xdc00 || !self.json[self.at..].starts_with(b"\\u") {
            return None;
        }
        self.at += 2;
        let low = self.code_unit().filter(|low| (0xdc00..0xe000).contains(low))?;
        char::from_u32(0x10000 + ((unit & 0x3ff) << 10) + (low & 0x3ff))
    }
}

/// The length of the number in decimal notation with which a text begins.
fn float_len(text: &[u8]) -> usize {
    let digits = |from: usize| text[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mut len = digits(0);
    if text.get(len) == Some(&b'.') {
        len += 1 + digits(len + 1);
    }
    if len > 0 && matches!(text.get(len), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(text.get(len + 1), Some(b'+' | b'-')));
        match digits((len + 1 + sign).min(text.len())) {
            0 => {}
            exponent => len += 1 + sign + exponent,
        }
    }
    len
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(json: &str) -> Given<String> {
        let lua = Lua::new();
        let mut decoder = Decoder { lua: &lua, json: json.as_bytes(), at: 0, depth: 0, choices: DEFAULT };
        let value = decoder.value()?;
        let mut out = Vec::new();
        Encoder { choices: DEFAULT, out: &mut out }.value(&value, 0)?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn there_and_back() {
        for (json, again) in [
            (" [1, -2.5e3, 0.1, true , null] ", "[1,-2500,0.1,true,null]"),
            (r#""a\/\u00e9\ud83d\ude00\n""#, "\"a\\/é😀\\n\""),
            ("{}", "{}"),
            ("[]", "{}"),
            (r#"{"a":{"b":[1]}}"#, r#"{"a":{"b":[1]}}"#),
            ("0x10", "16"),
        ] {
            assert_eq!(decode(json).unwrap(), again, "{json}");
        }
    }

    #[test]
    fn what_is_wrong() {
        for (json, problem) in [
            ("", "Expected value but found T_END at character 1"),
            ("[1,]", "Expected value but found T_ARR_END at character 4"),
            ("{1:2}", "Expected object key string but found T_NUMBER at character 2"),
            ("{\"a\" 2}", "Expected colon but found T_NUMBER at character 6"),
            ("\"a", "Expected value but found unexpected end of string at character 3"),
            (r#""\x""#, "Expected value but found invalid escape code at character 2"),
            (r#""\ud800""#, "Expected value but found invalid unicode escape code at character 2"),
            ("what", "Expected value but found invalid token at character 1"),
            ("nan", "Cannot serialise number: must not be NaN or Inf"),
        ] {
            assert_eq!(decode(json).unwrap_err(), problem, "{json}");
        }
        assert!(decode(&"[".repeat(2000)).unwrap_err().starts_with("Found too many nested"));
    }
}
