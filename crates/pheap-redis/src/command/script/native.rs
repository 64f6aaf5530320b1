//! Functions for `sandbox.lua`, and libraries that are not part of Lua.

use std::cell::RefCell;
use std::rc::Rc;

use mlua::{FromLuaMulti, IntoLua, IntoLuaMulti, Lua, LuaString, MultiValue, Result, Table, Value};

use super::engine::{EngineState, error_message};
use super::random::Random;
use super::{bit, cjson, cmsgpack, structs};
use crate::REDIS_VERSION;
use crate::scripts::{ScriptFlags, sha1};

/// Result of a function of a library. The error is its text.
pub(super) type LibraryResult<R> = std::result::Result<R, String>;

/// Adds a function to a library.
pub(super) fn add_function<A: FromLuaMulti + 'static, R: IntoLuaMulti>(
    lua: &Lua,
    library: &Table,
    name: &'static str,
    f: impl Fn(&Lua, A) -> LibraryResult<R> + 'static,
) -> Result<()> {
    let function = lua.create_function(move |lua, arguments: MultiValue| {
        let results = match A::from_lua_multi(arguments, lua) {
            Ok(arguments) => f(lua, arguments),
            Err(error) => Err(format!("bad argument to '{name}' ({})", error_message(&error))),
        };
        results.map_err(|text| {
            let place = lua.inspect_stack(1, |frame| {
                let source = frame.source().short_src?.into_owned();
                Some(format!("{source}:{}: ", frame.current_line()?))
            });
            mlua::Error::RuntimeError(place.flatten().unwrap_or_default() + &text)
        })
    })?;
    library.raw_set(name, function)
}

/// Returns an argument as a string. A number is converted.
pub(super) fn string_argument(lua: &Lua, name: &str, at: usize, value: Value) -> LibraryResult<LuaString> {
    let found = if value.is_nil() { "no value" } else { value.type_name() };
    lua.coerce_string(value)
        .map_err(text)?
        .ok_or_else(|| bad_argument(name, at, format_args!("string expected, got {found}")))
}

/// Returns the error text for an invalid argument.
pub(super) fn bad_argument(name: &str, at: usize, why: impl std::fmt::Display) -> String {
    format!("bad argument #{at} to '{name}' ({why})")
}

/// Returns the text of an error of Lua.
pub(super) fn text(error: mlua::Error) -> String {
    error_message(&error)
}

/// Returns the table of all functions and libraries that `sandbox.lua` gets.
pub(super) fn native_table(lua: &Lua, state: &Rc<EngineState>) -> Result<Table> {
    let natives = lua.create_table()?;
    let aborted = state.clone();
    natives.set("is_aborted", lua.create_function(move |_, ()| Ok(aborted.is_aborted.get()))?)?;
    natives.set("translate", lua.create_function(error_to_lua)?)?;
    natives.set("where", lua.create_function(|lua, ()| Ok(script_location(lua)))?)?;
    let hex = |lua: &Lua, text: LuaString| lua.create_string(sha1(&text.as_bytes()));
    natives.set("sha1hex", lua.create_function(hex)?)?;
    let log = move |_: &Lua, (level, text): (i64, LuaString)| {
        let text = text.to_string_lossy();
        match level {
            0 => tracing::trace!("script: {text}"),
            1 => tracing::debug!("script: {text}"),
            2 => tracing::info!("script: {text}"),
            _ => tracing::warn!("script: {text}"),
        }
        Ok(())
    };
    natives.set("log", lua.create_function(log)?)?;
    let is_flag = |_: &Lua, name: LuaString| Ok(ScriptFlags::parse(&name.as_bytes()).is_some());
    natives.set("is_flag", lua.create_function(is_flag)?)?;
    let is_name = |_: &Lua, name: LuaString| Ok(crate::scripts::libraries::is_name(&name.as_bytes()));
    natives.set("is_name", lua.create_function(is_name)?)?;
    natives.set("version", REDIS_VERSION)?;
    let number = REDIS_VERSION.split('.').fold(0, |all: i64, part| all << 8 | part.parse().unwrap_or(0));
    natives.set("version_num", number)?;
    let random = Rc::new(RefCell::new(Random::new()));
    let seeded = random.clone();
    add_function(lua, &natives, "random", move |_, limits: MultiValue| random.borrow_mut().within(&limits))?;
    add_function(lua, &natives, "randomseed", move |lua, seed: Value| {
        let seed = lua.coerce_number(seed).map_err(text)?.ok_or("bad argument #1 to 'randomseed'")?;
        seeded.borrow_mut().seed(seed as i64);
        Ok(())
    })?;
    let libraries = lua.create_table()?;
    libraries.set("bit", bit::library(lua)?)?;
    libraries.set("cjson", cjson::library(lua)?)?;
    libraries.set("cmsgpack", cmsgpack::library(lua)?)?;
    libraries.set("struct", structs::library(lua)?)?;
    natives.set("libraries", libraries)?;
    Ok(natives)
}

/// An error of a command that a script has called.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct CommandError(pub(super) String);

/// Converts an error that Rust has raised to the value that scripts see: a table for an error of a command,
/// otherwise a text.
fn error_to_lua(lua: &Lua, problem: Value) -> Result<Value> {
    let Value::Error(error) = problem else { return Ok(problem) };
    if let Some(CommandError(text)) = error.downcast_ref() {
        let table = lua.create_table()?;
        table.raw_set("err", text.as_str())?;
        table.raw_set("ignore_error_stats_update", true)?;
        return Ok(Value::Table(table));
    }
    error_message(&error).into_lua(lua)
}

/// Returns the source and the line of the innermost frame of a script or library on the stack, if there is
/// one among the 63 innermost callers.
fn script_location(lua: &Lua) -> (Option<String>, Option<usize>) {
    for level in 1..64 {
        let found = lua.inspect_stack(level, |frame| {
            let source = frame.source().source?.into_owned();
            source.starts_with("@user_").then_some((source, frame.current_line()?))
        });
        match found {
            None => break,
            Some(Some((source, line))) => return (Some(source), Some(line)),
            Some(None) => {}
        }
    }
    (None, None)
}
