//! `bit`: operations on 32-bit integers, as in LuaJIT's BitOp.

use mlua::{Lua, Result, Table, Value, Variadic};

use super::native::{LibraryResult, add_function, bad_argument, text};

/// Returns argument `at` of the function `name` as a 32-bit integer, modulo 2^32.
fn bits(lua: &Lua, name: &str, at: usize, value: &Value) -> LibraryResult<u32> {
    let number = lua.coerce_number(value.clone()).map_err(text)?;
    let number = number.ok_or_else(|| {
        let found = if value.is_nil() { "no value" } else { value.type_name() };
        bad_argument(name, at, format_args!("number expected, got {found}"))
    })?;
    // Rounds to the nearest integer, and halves to the even one.
    let whole = number.round_ties_even();
    Ok(whole.rem_euclid(4_294_967_296.0) as u32)
}

type Unary = fn(u32) -> u32;
type Binary = fn(u32, u32) -> u32;

fn signed(bits: u32) -> f64 {
    f64::from(bits as i32)
}

pub(super) fn library(lua: &Lua) -> Result<Table> {
    let library = lua.create_table()?;
    let unary: [(&'static str, Unary); 3] = [("tobit", |x| x), ("bnot", |x| !x), ("bswap", u32::swap_bytes)];
    for (name, f) in unary {
        add_function(lua, &library, name, move |lua, x: Value| Ok(signed(f(bits(lua, name, 1, &x)?))))?;
    }
    let folded: [(&'static str, Binary); 3] =
        [("band", |x, y| x & y), ("bor", |x, y| x | y), ("bxor", |x, y| x ^ y)];
    for (name, f) in folded {
        add_function(lua, &library, name, move |lua, all: Variadic<Value>| {
            let mut result = bits(lua, name, 1, all.first().unwrap_or(&Value::Nil))?;
            for (next, at) in all.iter().zip(1..).skip(1) {
                result = f(result, bits(lua, name, at, next)?);
            }
            Ok(signed(result))
        })?;
    }
    let shifts: [(&'static str, Binary); 5] = [
        ("lshift", |x, n| x << n),
        ("rshift", |x, n| x >> n),
        ("arshift", |x, n| (x as i32 >> n) as u32),
        ("rol", u32::rotate_left),
        ("ror", u32::rotate_right),
    ];
    for (name, f) in shifts {
        add_function(lua, &library, name, move |lua, (x, n): (Value, Value)| {
            Ok(signed(f(bits(lua, name, 1, &x)?, bits(lua, name, 2, &n)? & 31)))
        })?;
    }
    add_function(lua, &library, "tohex", |lua, (x, n): (Value, Value)| {
        let x = bits(lua, "tohex", 1, &x)?;
        let n = if n.is_nil() { 8 } else { bits(lua, "tohex", 2, &n)? as i32 };
        let digits = (n.unsigned_abs() as usize).min(8);
        let hex = if n < 0 { format!("{x:08X}") } else { format!("{x:08x}") };
        Ok(hex[8 - digits..].to_owned())
    })?;
    Ok(library)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_wrap_around() {
        let lua = Lua::new();
        let number = |number: f64| bits(&lua, "", 1, &Value::Number(number)).unwrap();
        assert_eq!(number(4_294_967_295.0), u32::MAX);
        assert_eq!(number(-1.0), u32::MAX);
        assert_eq!(number(4_294_967_296.0 + 5.0), 5);
        assert_eq!((number(0.5), number(1.5)), (0, 2));
        let problem = bits(&lua, "band", 2, &Value::Nil).unwrap_err();
        assert_eq!(problem, "bad argument #2 to 'band' (number expected, got no value)");
    }
}
