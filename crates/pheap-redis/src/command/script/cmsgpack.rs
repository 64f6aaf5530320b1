//! `cmsgpack`: converts values to MessagePack, and back.

use std::io::Read;

use mlua::{Lua, MultiValue, Result, Table, Value};
use rmp::{Marker, decode, encode};

use super::convert::Budget;
use super::native::{LibraryResult, add_function, bad_argument, string_argument, text};

/// Maximum nesting of packed tables. Deeper tables become nil.
const DEEPEST: usize = 16;

/// Maximum nesting of unpacked values.
const DEEPEST_UNPACKED: usize = 1000;

pub(super) fn library(lua: &Lua) -> Result<Table> {
    let library = lua.create_table()?;
    add_function(lua, &library, "pack", |lua, values: MultiValue| {
        if values.is_empty() {
            return Err(bad_argument("pack", 0, "MessagePack pack needs input."));
        }
        let (mut budget, mut out) = (Budget::new(), Vec::new());
        values.iter().try_for_each(|value| pack(value, 0, &mut budget, &mut out).map_err(text))?;
        lua.create_string(out).map_err(text)
    })?;
    add_function(lua, &library, "unpack", |lua, packed: Value| {
        let packed = string_argument(lua, "unpack", 1, packed)?;
        Ok(some(lua, &packed.as_bytes(), None, 0)?.0)
    })?;
    add_function(lua, &library, "unpack_one", |lua, (packed, from): (Value, Option<i64>)| {
        let packed = string_argument(lua, "unpack_one", 1, packed)?;
        limited(lua, &packed.as_bytes(), 1, from.unwrap_or(0))
    })?;
    add_function(lua, &library, "unpack_limit", |lua, (packed, limit, from): (Value, i64, Option<i64>)| {
        let packed = string_argument(lua, "unpack_limit", 1, packed)?;
        limited(lua, &packed.as_bytes(), limit, from.unwrap_or(0))
    })?;
    library.set("_NAME", "cmsgpack")?;
    library.set("_VERSION", "lua-cmsgpack 0.4.0")?;
    library.set("_DESCRIPTION", "MessagePack C implementation for Lua")?;
    Ok(library)
}

/// Asserts that a write to memory has succeeded, as it always does.
fn wrote<E>(result: std::result::Result<impl Sized, E>) {
    debug_assert!(result.is_ok());
}

fn pack(value: &Value, depth: usize, budget: &mut Budget, out: &mut Vec<u8>) -> Result<()> {
    budget.value(value)?;
    match value {
        Value::String(text) => {
            let text = text.as_bytes();
            wrote(encode::write_str_len(out, text.len() as u32));
            out.extend_from_slice(&text);
        }
        Value::Boolean(is_so) => wrote(encode::write_bool(out, *is_so)),
        Value::Integer(number) => wrote(encode::write_sint(out, *number)),
        Value::Number(number) => pack_number(*number, out),
        Value::Table(table) if depth < DEEPEST => return pack_table(table, depth, budget, out),
        _ => wrote(encode::write_nil(out)),
    }
    Ok(())
}

fn pack_number(number: f64, out: &mut Vec<u8>) {
    let is_whole = number == number.trunc()
        && (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&number);
    if is_whole {
        wrote(encode::write_sint(out, number as i64));
    } else if f64::from(number as f32) == number {
        wrote(encode::write_f32(out, number as f32));
    } else {
        wrote(encode::write_f64(out, number));
    }
}

fn pack_table(table: &Table, depth: usize, budget: &mut Budget, out: &mut Vec<u8>) -> Result<()> {
    let (mut len, mut most, mut is_array) = (0u32, 0, true);
    table.for_each(|key: Value, _: Value| {
        len += 1;
        match key {
            Value::Integer(index) if index > 0 => most = most.max(index),
            Value::Number(index) if index > 0.0 && index == index.floor() => most = most.max(index as i64),
            _ => is_array = false,
        }
        Ok(())
    })?;
    if is_array && most == i64::from(len) {
        wrote(encode::write_array_len(out, len));
        return (1..=len).try_for_each(|i| pack(&table.raw_get(i)?, depth + 1, budget, out));
    }
    wrote(encode::write_map_len(out, len));
    table.for_each(|key: Value, value: Value| {
        pack(&key, depth + 1, budget, out)?;
        pack(&value, depth + 1, budget, out)
    })
}

/// Unpacks at most `limit` values from position `from` on (0 is the first byte). The first result is the
/// position after the values, or -1 at the end of the input. If `limit` and `from` are 0, unpacks all values,
/// and returns no position.
fn limited(lua: &Lua, packed: &[u8], limit: i64, from: i64) -> LibraryResult<MultiValue> {
    let (Ok(limit), Ok(start)) = (usize::try_from(limit), usize::try_from(from)) else {
        // As in Redis, the text gives the length of the input as the limit.
        let len = packed.len();
        return Err(format!("Invalid request to unpack with offset of {from} and limit of {len}."));
    };
    if start > packed.len() {
        return Err(format!("Start offset {from} greater than input length {}.", packed.len()));
    }
    let is_all = limit == 0 && start == 0;
    let (mut values, at) = some(lua, packed, (!is_all).then_some(limit), start)?;
    if !is_all {
        let next = if at == packed.len() { -1 } else { at as i64 };
        values.push_front(Value::Integer(next));
    }
    Ok(values)
}

fn some(lua: &Lua, packed: &[u8], limit: Option<usize>, start: usize) -> LibraryResult<(MultiValue, usize)> {
    let (mut rest, mut values) = (&packed[start..], MultiValue::new());
    while !rest.is_empty() && limit.is_none_or(|limit| values.len() < limit) {
        values.push_back(unpack(lua, &mut rest, 0)?);
    }
    Ok((values, packed.len() - rest.len()))
}

fn missing<E>(_: E) -> String {
    "Missing bytes in input.".to_owned()
}

fn unpack(lua: &Lua, rest: &mut &[u8], depth: usize) -> LibraryResult<Value> {
    if depth > DEEPEST_UNPACKED {
        return Err("Too many nested values in input.".into());
    }
    let marker = decode::read_marker(rest).map_err(missing)?;
    let number = |number: f64| Ok(Value::Number(number));
    match marker {
        Marker::Null => Ok(Value::Nil),
        Marker::True => Ok(Value::Boolean(true)),
        Marker::False => Ok(Value::Boolean(false)),
        Marker::FixPos(n) => number(f64::from(n)),
        Marker::FixNeg(n) => number(f64::from(n)),
        Marker::U8 => number(bytes(rest).map(u8::from_be_bytes)?.into()),
        Marker::U16 => number(bytes(rest).map(u16::from_be_bytes)?.into()),
        Marker::U32 => number(bytes(rest).map(u32::from_be_bytes)?.into()),
        Marker::U64 => number(bytes(rest).map(u64::from_be_bytes)? as f64),
        Marker::I8 => number(bytes(rest).map(i8::from_be_bytes)?.into()),
        Marker::I16 => number(bytes(rest).map(i16::from_be_bytes)?.into()),
        Marker::I32 => number(bytes(rest).map(i32::from_be_bytes)?.into()),
        Marker::I64 => number(bytes(rest).map(i64::from_be_bytes)? as f64),
        Marker::F32 => number(bytes(rest).map(f32::from_be_bytes)?.into()),
        Marker::F64 => number(bytes(rest).map(f64::from_be_bytes)?),
        Marker::FixStr(len) => string(lua, len.into(), rest),
        Marker::Str8 | Marker::Bin8 => string(lua, len::<1>(rest)?, rest),
        Marker::Str16 | Marker::Bin16 => string(lua, len::<2>(rest)?, rest),
        Marker::Str32 | Marker::Bin32 => string(lua, len::<4>(rest)?, rest),
        Marker::FixArray(len) => array(lua, len.into(), rest, depth),
        Marker::Array16 => array(lua, len::<2>(rest)?, rest, depth),
        Marker::Array32 => array(lua, len::<4>(rest)?, rest, depth),
        Marker::FixMap(len) => map(lua, len.into(), rest, depth),
        Marker::Map16 => map(lua, len::<2>(rest)?, rest, depth),
        Marker::Map32 => map(lua, len::<4>(rest)?, rest, depth),
        _ => Err("Bad data format in input.".into()),
    }
}

fn bytes<const N: usize>(rest: &mut &[u8]) -> LibraryResult<[u8; N]> {
    let mut bytes = [0; N];
    rest.read_exact(&mut bytes).map_err(missing)?;
    Ok(bytes)
}

/// Reads a length of `N` bytes.
fn len<const N: usize>(rest: &mut &[u8]) -> LibraryResult<u32> {
    Ok(bytes::<N>(rest)?.into_iter().fold(0, |len, byte| len << 8 | u32::from(byte)))
}

fn string(lua: &Lua, len: u32, rest: &mut &[u8]) -> LibraryResult<Value> {
    let (string, after) = rest.split_at_checked(len as usize).ok_or(()).map_err(missing)?;
    *rest = after;
    lua.create_string(string).map(Value::String).map_err(text)
}

fn array(lua: &Lua, len: u32, rest: &mut &[u8], depth: usize) -> LibraryResult<Value> {
    let table = lua.create_table().map_err(text)?;
    for i in 1..=len {
        let value = unpack(lua, rest, depth + 1)?;
        table.raw_set(i, value).map_err(text)?;
    }
    Ok(Value::Table(table))
}

fn map(lua: &Lua, len: u32, rest: &mut &[u8], depth: usize) -> LibraryResult<Value> {
    let table = lua.create_table().map_err(text)?;
    for _ in 0..len {
        let (key, value) = (unpack(lua, rest, depth + 1)?, unpack(lua, rest, depth + 1)?);
        // A key that Lua does not allow is an error.
        table.raw_set(key, value).map_err(text)?;
    }
    Ok(Value::Table(table))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripts;

    #[test]
    fn msgpack_round_trip() {
        let lua = Lua::new();
        let all: Table = lua
            .load("return {0, 127, 128, 65536, 2^40, -1, -33, -2^40, 0.5, 0.1, true, 'text', ('x'):rep(300), {}, {a = {1}}}")
            .eval()
            .unwrap();
        for value in all.sequence_values::<Value>() {
            let (mut once, mut twice) = (Vec::new(), Vec::new());
            pack(&value.unwrap(), 0, &mut Budget::new(), &mut once).unwrap();
            let mut rest = &once[..];
            pack(&unpack(&lua, &mut rest, 0).unwrap(), 0, &mut Budget::new(), &mut twice).unwrap();
            assert!(rest.is_empty() && once == twice);
            assert!(unpack(&lua, &mut &once[..once.len() - 1], 0).is_err());
        }
    }

    #[test]
    fn invalid_msgpack_is_refused() {
        let lua = Lua::new();
        assert_eq!(some(&lua, b"\xc1", None, 0).unwrap_err(), "Bad data format in input.");
        assert!(limited(&lua, b"\x01", 1, 2).unwrap_err().starts_with("Start offset"));
        assert!(limited(&lua, b"\x01", -1, 0).unwrap_err().starts_with("Invalid request"));
    }

    #[test]
    fn msgpack_nesting_limit() {
        let deep = || some(&Lua::new(), &[0x91; 5000], None, 0).unwrap_err();
        assert!(scripts::with_stack(deep).starts_with("Too many nested"));
    }
}
