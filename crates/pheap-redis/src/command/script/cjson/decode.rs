//! Converts JSON to values of Lua.

use mlua::{Lua, Value};

use super::{Choices, DEFAULT};
use crate::command::script::native::{LibraryResult, text};

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

/// Parser of JSON.
pub(super) struct Decoder<'d> {
    lua: &'d Lua,
    json: &'d [u8],
    at: usize,
    depth: i64,
    choices: Choices,
}

impl<'d> Decoder<'d> {
    pub(super) fn new(lua: &'d Lua, json: &'d [u8], choices: Choices) -> Self {
        Decoder { lua, json, at: 0, depth: 0, choices }
    }

    /// Parses the whole text, and returns its value.
    pub(super) fn all(mut self) -> LibraryResult<Value> {
        let value = self.value()?;
        match self.token()? {
            (_, Token::End) => Ok(value),
            (at, found) => Err(expected("the end", &found, at)),
        }
    }

    fn value(&mut self) -> LibraryResult<Value> {
        let (at, token) = self.token()?;
        self.value_from(at, token)
    }

    fn value_from(&mut self, at: usize, token: Token) -> LibraryResult<Value> {
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

    fn deeper(&mut self, f: impl FnOnce(&mut Self) -> LibraryResult<Value>) -> LibraryResult<Value> {
        self.depth += 1;
        // A script may lower the default limit and not raise it: deeper values could overflow the stack of
        // this thread.
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

    fn object(&mut self) -> LibraryResult<Value> {
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

    fn array(&mut self) -> LibraryResult<Value> {
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

    /// Returns the next token, and its position, or that of the error in it.
    fn token(&mut self) -> LibraryResult<(usize, Token)> {
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
            // The error may be in the middle of the string.
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

    /// Parses the digits after `\u`: one code unit, or a surrogate pair.
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

/// Returns the length of the decimal number at the start of a text.
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
