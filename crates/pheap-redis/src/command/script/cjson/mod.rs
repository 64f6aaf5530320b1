//! `cjson`: converts tables to JSON, and back. Strings may contain any bytes.

mod decode;
mod encode;

use std::cell::RefCell;
use std::rc::Rc;

use mlua::{Lua, Result, Table, Value, Variadic};

use self::decode::Decoder;
use self::encode::Encoder;
use super::native::{LibraryResult, add_function, bad_argument, string_argument, text};

/// Settings of `cjson`. A script's changes stay for later scripts in the same instance of Lua.
#[derive(Debug, Clone, Copy)]
struct Choices {
    sparse_to_object: bool,
    sparse_ratio: i64,
    sparse_safe: i64,
    encode_depth: i64,
    decode_depth: i64,
    /// Number of significant digits.
    precision: i64,
    keep_buffer: bool,
    encode_invalid: Invalid,
    decode_invalid: bool,
}

/// How NaN and infinities are written, which JSON does not have.
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
    add_function(lua, &library, "encode", move |lua, arguments: Variadic<Value>| {
        let [value] = &arguments[..] else {
            return Err(bad_argument("encode", 1, "expected 1 argument"));
        };
        let mut out = Vec::new();
        Encoder::new(*with.borrow(), &mut out).value(value, 0)?;
        lua.create_string(out).map_err(text)
    })?;
    let with = choices.clone();
    add_function(lua, &library, "decode", move |lua, arguments: Variadic<Value>| {
        let [value] = &arguments[..] else {
            return Err(bad_argument("decode", 1, "expected 1 argument"));
        };
        let json = string_argument(lua, "decode", 1, value.clone())?;
        let json = json.as_bytes();
        if json.len() >= 2 && json[..2].contains(&0) {
            return Err("JSON parser does not support UTF-16 or UTF-32".into());
        }
        Decoder::new(lua, &json, *with.borrow()).all()
    })?;
    choosers(lua, &library, &choices)?;
    add_function(lua, &library, "new", |lua, ()| self::library(lua).map_err(text))?;
    library.set("null", Value::NULL)?;
    library.set("_NAME", "cjson")?;
    library.set("_VERSION", "2.1.0")?;
    Ok(library)
}

/// Returns an argument as a number within limits, or the present value if there is no argument.
fn choose(
    lua: &Lua,
    (name, at): (&str, usize),
    chosen: Option<&Value>,
    is: i64,
    (least, most): (i64, i64),
) -> LibraryResult<i64> {
    let Some(chosen) = chosen.filter(|value| !value.is_nil()) else { return Ok(is) };
    let number = lua.coerce_number(chosen.clone()).map_err(text)?.map(|number| number as i64);
    number
        .filter(|number| (least..=most).contains(number))
        .ok_or_else(|| bad_argument(name, at, format_args!("expected integer between {least} and {most}")))
}

/// Selects a setting that is a number.
type Field = fn(&mut Choices) -> &mut i64;

/// Adds the functions that change settings of `cjson`. Each returns the settings that it may have changed.
fn choosers(lua: &Lua, library: &Table, choices: &Rc<RefCell<Choices>>) -> Result<()> {
    let limit = i64::from(i32::MAX);
    let with = choices.clone();
    add_function(lua, library, "encode_sparse_array", move |lua, chosen: Variadic<Value>| {
        const NAME: &str = "encode_sparse_array";
        let mut with = with.borrow_mut();
        if let Some(convert) = chosen.first().filter(|value| !value.is_nil()) {
            with.sparse_to_object = *convert != Value::Boolean(false);
        }
        with.sparse_ratio = choose(lua, (NAME, 2), chosen.get(1), with.sparse_ratio, (0, limit))?;
        with.sparse_safe = choose(lua, (NAME, 3), chosen.get(2), with.sparse_safe, (0, limit))?;
        Ok((with.sparse_to_object, with.sparse_ratio, with.sparse_safe))
    })?;
    let numbers: [(&'static str, Field, i64, i64); 3] = [
        ("encode_max_depth", |with| &mut with.encode_depth, 1, limit),
        ("decode_max_depth", |with| &mut with.decode_depth, 1, limit),
        ("encode_number_precision", |with| &mut with.precision, 1, 14),
    ];
    for (name, field, least, most) in numbers {
        let with = choices.clone();
        add_function(lua, library, name, move |lua, chosen: Variadic<Value>| {
            let (mut with, field) = (with.borrow_mut(), field);
            let field = field(&mut with);
            *field = choose(lua, (name, 1), chosen.first(), *field, (least, most))?;
            Ok(*field)
        })?;
    }
    let with = choices.clone();
    add_function(lua, library, "encode_keep_buffer", move |_, chosen: Option<bool>| {
        // This setting has no effect: no buffer is kept in either case.
        let mut with = with.borrow_mut();
        with.keep_buffer = chosen.unwrap_or(with.keep_buffer);
        Ok(with.keep_buffer)
    })?;
    let with = choices.clone();
    add_function(lua, library, "encode_invalid_numbers", move |lua, chosen: Variadic<Value>| {
        let mut with = with.borrow_mut();
        with.encode_invalid = match chosen.first() {
            None | Some(Value::Nil) => with.encode_invalid,
            Some(Value::Boolean(false)) => Invalid::Error,
            Some(Value::Boolean(true)) => Invalid::Written,
            Some(Value::String(word)) if word.as_bytes() == *b"null" => Invalid::Null,
            Some(other) => {
                // The value is converted without a call of `__tostring`, which could call `cjson` while the
                // settings are borrowed.
                let option = lua.coerce_string(other.clone()).map_err(text)?;
                let option = option.map_or(other.type_name().to_owned(), |text| text.to_string_lossy());
                return Err(bad_argument(
                    "encode_invalid_numbers",
                    1,
                    format_args!("invalid option '{option}'"),
                ));
            }
        };
        match with.encode_invalid {
            Invalid::Null => lua.create_string("null").map(Value::String).map_err(text),
            other => Ok(Value::Boolean(other == Invalid::Written)),
        }
    })?;
    let with = choices.clone();
    add_function(lua, library, "decode_invalid_numbers", move |_, chosen: Option<bool>| {
        let mut with = with.borrow_mut();
        with.decode_invalid = chosen.unwrap_or(with.decode_invalid);
        Ok(with.decode_invalid)
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripts;

    fn decode(json: &str) -> LibraryResult<String> {
        let lua = Lua::new();
        let value = Decoder::new(&lua, json.as_bytes(), DEFAULT).all()?;
        let mut out = Vec::new();
        Encoder::new(DEFAULT, &mut out).value(&value, 0)?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn json_round_trip() {
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
    fn invalid_json_is_refused() {
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
    }

    #[test]
    fn json_nesting_limit() {
        let problem = scripts::with_stack(|| decode(&"[".repeat(2000)).unwrap_err());
        assert!(problem.starts_with("Found too many nested"), "{problem}");
    }
}
