//! Scripts that exploit defects of servers which run Lua. Known defects have their CVE numbers.

use std::time::{Duration, Instant};

use crate::common::{Client, Server};

/// A server, and a client of it.
fn start(folder: &tempfile::TempDir) -> (Server, Client) {
    let server = Server::start(folder.path(), &["--durability", "process"]);
    let client = server.client();
    (server, client)
}

/// Sends a command of any bytes, and returns the reply.
fn ask(client: &mut Client, words: &[&[u8]]) -> String {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    client.try_send(&bytes);
    client.reply()
}

/// Runs a script, and returns the reply.
fn eval(client: &mut Client, script: impl AsRef<[u8]>) -> String {
    ask(client, &[b"eval", script.as_ref(), b"0"])
}

/// Runs scripts on a new server. The reply to each must contain a text.
fn all_say(scripts: &[(&str, &str)]) {
    let folder = tempfile::tempdir().unwrap();
    let (_server, mut client) = start(&folder);
    for (script, expected) in scripts {
        let reply = eval(&mut client, script);
        assert!(reply.contains(expected), "{script}: {}", reply.chars().take(300).collect::<String>());
    }
    assert_eq!(client.ask("ping"), "PONG");
}

/// CVE-2025-46817: the number of results of `unpack` overflowed.
#[test]
fn unpack_has_limits() {
    let many = "too many results to unpack";
    all_say(&[
        ("return {pcall(unpack, {1}, 0, 2147483647)}", many),
        ("return {pcall(unpack, {1}, -2147483648, 2147483647)}", many),
        ("return {pcall(unpack, {1, 2, 3}, -2147483647, 1)}", many),
        ("return unpack({1}, 1, 2147483647)", many),
        ("return unpack({1}, 0, 2147483647)", many),
        ("return {unpack({1}, -1, 2147483646)}", many),
        ("return {unpack({1}, 1, 1e9)}", many),
        ("return #{unpack({1}, 2147483647, 2147483647)}", "0"),
        ("return #{unpack({}, 1, -2147483648)}", "0"),
        ("local t = {} for i = 1, 7000 do t[i] = i end return select('#', unpack(t))", "7000"),
    ]);
}

/// CVE-2025-49844: the parser held no reference to the name of the text, so the collector could free it.
#[test]
fn names_of_texts_are_kept() {
    let script = "
        for i = 1, 300 do
            local n = 0
            local function piece()
                n = n + 1
                collectgarbage()
                local waste = {}
                for k = 1, 50 do waste[k] = ('w'):rep(30) .. k .. '/' .. i end
                return n < 4 and ' local x' .. n .. ' = ' .. n or n == 4 and ' x x' or nil
            end
            local f, problem = load(piece, '=' .. ('name'):rep(5) .. i)
            local expected = ('name'):rep(5) .. i .. ':1: '
            if f or problem:sub(1, #expected) ~= expected then return tostring(problem) end
            local g, other = loadstring(('local y = 1 '):rep(200) .. 'y y', '=a\\0' .. i)
            if g or other:sub(1, 4) ~= 'a:1:' then return other end
        end
        return 'kept'";
    all_say(&[(script, "kept")]);
}

/// CVE-2025-46819: the signs of a long bracket were counted in an `int`.
#[test]
fn long_brackets() {
    all_say(&[
        ("local s = ('='):rep(1e6) return #loadstring('return [' .. s .. '[abc]' .. s .. ']')()", "3"),
        ("return tostring(loadstring('return [' .. ('='):rep(1e6)))", "nil"),
        (
            "local s = ('='):rep(1e6) return tostring(loadstring('return [=' .. s .. '[abc]' .. s .. ']'))",
            "nil",
        ),
        ("return tostring(loadstring('--[' .. ('='):rep(1e6)))", ""),
        ("return tostring(loadstring('return [='))", "nil"),
    ]);
}

/// CVE-2025-46818: a script could change the metatable of all strings, and so the scripts of others.
#[test]
fn metatables_of_basic_types_are_fixed() {
    let read_only = "Attempt to modify a readonly table";
    all_say(&[
        ("getmetatable('').__index = function() return 1 end", read_only),
        ("getmetatable('').__index.upper = 1", read_only),
        ("rawset(getmetatable(''), '__index', 1)", read_only),
        ("rawset(getmetatable('').__index, 'upper', 1)", read_only),
        ("setmetatable('', {})", "table expected"),
        ("getmetatable(_G).__index = 1", read_only),
        ("setmetatable(getmetatable(''), {})", read_only),
        (
            "return tostring(getmetatable(1)) .. tostring(getmetatable(nil)) .. tostring(getmetatable(true))",
            "nilnilnil",
        ),
        ("return tostring(getmetatable(next)) .. tostring(getmetatable(coroutine.create(next)))", "nilnil"),
        ("return ('abc'):upper()", "ABC"),
    ]);
}

/// CVE-2022-24735: a script could change functions that the scripts of others call.
#[test]
fn libraries_are_fixed() {
    let read_only = "Attempt to modify a readonly table";
    for name in ["string", "table", "math", "coroutine", "redis", "bit", "cjson", "cmsgpack", "struct", "_G"]
    {
        all_say(&[
            (&format!("{name}.x = 1"), read_only),
            (&format!("rawset({name}, 'x', 1)"), read_only),
            (&format!("setmetatable({name}, {{}})"), read_only),
            (&format!("table.insert({name}, 1)"), read_only),
            (
                &format!(
                    "return tostring(rawget({name}, 'x')) .. tostring(next(getmetatable({name}) or {{}}))"
                ),
                "nil",
            ),
        ]);
    }
    all_say(&[
        // LuaJIT's `table.move` ignores metatables.
        ("return tostring(table.move) .. tostring(coroutine.isyieldable)", "nilnil"),
        ("return tostring(pcall(loadstring('x = 1')))", "false"),
        ("return tostring(pcall(load(function() end)))", "true"),
        ("return tostring(pcall(function() getfenv(1).x = 1 end))", "false"),
    ]);
}

/// CVE-2022-0543: libraries that reach out of the server must be absent. CVE-2024-46981: a script must not be
/// able to have code run by the garbage collector, not even when all scripts are removed.
#[test]
fn nothing_reaches_out() {
    let script = "
        local found = {}
        for _, name in ipairs{'io', 'os', 'package', 'require', 'module', 'debug', 'dofile', 'loadfile',
            'print', 'getfenv', 'setfenv', 'newproxy', 'jit', 'ffi', 'bit32', 'utf8'} do
            if rawget(_G, name) ~= nil then found[#found + 1] = name end
        end
        return table.concat(found, ' ') .. '.'";
    all_say(&[(script, ".")]);
    let folder = tempfile::tempdir().unwrap();
    let (_server, mut client) = start(&folder);
    for _ in 0..20 {
        let script =
            "local t = {} for i = 1, 1e4 do t[i] = setmetatable({}, {__gc = function() error('x') end}) end";
        assert_eq!(eval(&mut client, script), "nil");
        assert_eq!(client.ask("script flush"), "OK");
        assert_eq!(client.ask("script flush async"), "OK");
    }
    assert_eq!(client.ask("ping"), "PONG");
}

/// CVE-2015-4335: scripts could run compiled code, which Lua does not check.
#[test]
fn compiled_code_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (_server, mut client) = start(&folder);
    let refused = [
        "loadstring(d)",
        "loadstring('\\239\\187\\191' .. d)",
        "loadstring('#\\n' .. d)",
        "loadstring(d, 'x', 'b')",
        "load(d)",
        "load(d, 'x', 'b')",
        "load(function() local x = d d = nil return x end)",
        "load(function() local x = d d = nil return x end, 'x', 'b')",
        "load(function() n = n + 1 return n <= #d and d:sub(n, n) or nil end)",
    ];
    for code in refused {
        let script = format!(
            "local d, n = string.dump(function() return 1 end), 0
             return type(select(2, pcall(function() return {code} end)))"
        );
        let reply = eval(&mut client, &script);
        assert!(["nil", "string"].contains(&&*reply), "{code}: {reply:?}");
    }
    for script in [&b"\x1bLJ\x02\n"[..], b"\x1bLuaQ", b"\xef\xbb\xbf\x1bLJ\x02", b"#\n\x1bLJ\x02"] {
        assert!(eval(&mut client, script).starts_with("-ERR Error compiling script"));
    }
}

/// CVE-2024-31449: `bit.tohex` negated the number of digits in an `int`. CVE-2018-11219: sizes in formats of
/// `struct` overflowed.
#[test]
fn arguments_at_the_ends_of_their_types() {
    all_say(&[
        ("return bit.tohex(65535, -2147483648)", "0000FFFF"),
        ("return bit.tohex(65535, 2147483647)", "0000ffff"),
        ("return bit.tohex(65535, 0) .. '.'", "."),
        ("return pcall(struct.pack, '>I2147483648', 1) and 1 or 0", "0"),
        ("return pcall(struct.unpack, 'bc2147483647', 'abc') and 1 or 0", "0"),
        ("return pcall(string.rep, 'x', -2147483648) and 1 or 0", "1"),
        ("return ('abc'):sub(-2147483648, 2147483647)", "abc"),
        ("return {('abc'):byte(-2147483648, 2147483647)}", "[97 98 99]"),
        ("return pcall(string.rep, ('x'):rep(1e6), 1e9) and 1 or 0", "0"),
        // CVE-2024-25176, of LuaJIT: many digits overflowed a buffer.
        ("return #string.format('%99.99f', 1e308)", "409"),
        ("return pcall(string.format, '%7.99a', 0.1) and 1 or 0", "1"),
        ("return pcall(string.format, '%999d', 1) and 1 or 0", "0"),
    ]);
}

/// CVE-2021-32626, CVE-2018-11218: deep nesting overflowed a stack.
#[test]
fn nesting_has_limits() {
    all_say(&[
        ("return cjson.decode(('['):rep(1e5))", "nest"),
        ("local t = {} for i = 1, 1e5 do t = {t} end return cjson.encode(t)", "nest"),
        ("local t = {} for i = 1, 1e5 do t = {t} end return #cmsgpack.pack(t)", ""),
        ("return cmsgpack.unpack(('\\145'):rep(1e5))", "-ERR"),
        ("return tostring(loadstring('return ' .. ('('):rep(1e5)))", "nil"),
        ("return tostring(loadstring('return ' .. ('{'):rep(1e5)))", "nil"),
        ("return tostring(loadstring(('do '):rep(1e5)))", "nil"),
        ("return tostring(loadstring('return ' .. ('-'):rep(1e5) .. '1'))", ""),
        ("return tostring(loadstring('return ' .. ('not '):rep(1e5) .. '1'))", "nil"),
        ("return tostring(loadstring('return ' .. ('a^'):rep(1e5) .. '1'))", "nil"),
        ("return tostring(loadstring('return ' .. ('a..'):rep(1e5) .. '1'))", "nil"),
        ("return tostring(loadstring('x' .. ('.x'):rep(1e5) .. '()'))", ""),
        ("return tostring(loadstring(('function() '):rep(1e5)))", "nil"),
        ("local function f() return f() + 1 end f()", "stack overflow"),
        ("table.insert({}, 1e18, 1)", "position out of bounds"),
        ("table.insert({}, -2147483648, 1)", "position out of bounds"),
        ("table.insert({}, 0/0, 1)", "position out of bounds"),
        ("local t = {1, 3} table.insert(t, 2, 2) table.insert(t, 4) return table.concat(t)", "1234"),
        ("local t = setmetatable({}, {}) getmetatable(t).__index = t return t.x", "loop"),
        (
            "local t = setmetatable({}, {}) getmetatable(t).__index = function(t, k) return t[k] end return \
             t.x",
            "stack",
        ),
    ]);
    let folder = tempfile::tempdir().unwrap();
    let (_server, mut client) = start(&folder);
    client.send("eval \"local t = {} for i = 1, 1e5 do t = {t} end return t\" 0");
    assert!(client.reply().contains("ERR reached lua stack limit"));
    assert!(client.ask("eval \"return {double=0/0}\" 0").ends_with("nan"));
    assert_eq!(client.ask("ping"), "PONG");
}

/// LuaJIT does not limit how deep C functions that call Lua are nested, so the server must.
#[test]
fn calls_through_c_have_limits() {
    let too_deep = "C stack overflow";
    all_say(&[
        ("local function f() return (('a'):gsub('a', f)) end f()", too_deep),
        ("local t = setmetatable({}, {}) getmetatable(t).__index = function() return (('a'):gsub('a', t)) end
          return t.a", too_deep),
        ("local function f() return coroutine.wrap(f)() end f()", too_deep),
        ("local function f() return select(2, coroutine.resume(coroutine.create(f))) end return \
         f()", too_deep),
        ("local function f() table.sort({1, 2, 3}, function(a, b) f() return a < b end) end f()", too_deep),
        ("local mt = {} mt.__lt = function() table.sort{setmetatable({}, mt), setmetatable({}, mt)} end
          mt.__lt()", too_deep),
        ("local t = setmetatable({}, {}) getmetatable(t).__tostring = function() return ('%s'):format(t) end
          return tostring(t)", too_deep),
        // This function is in Rust, and does not call `__tostring` of its argument.
        ("local t = setmetatable({}, {}) getmetatable(t).__tostring = function() return cjson.encode(1) end
          cjson.encode_invalid_numbers(t)", "invalid option 'table'"),
        // The parser, 180 levels deep in each of about 200 nested texts.
        ("local n = 0
          local function f()
              n = n + 1
              if n >= 300 then return n end
              local k = 0
              load(function()
                  k = k + 1
                  if k == 2 then f() end
                  local parts = {'return ' .. ('('):rep(180), '1', (')'):rep(180)}
                  return parts[k]
              end)
          end
          f() return n", "20"),
        ("local function f() return load(f) end return type(f())", "function"),
        ("local function f() pcall(string.gsub, 'a', 'a', f) end return {pcall(f)}", "[1]"),
        // Many calls are allowed if they are not nested.
        ("local n = 0 for i = 1, 1000 do pcall(string.gsub, 'a', 'a', function() n = n + 1 error('x') end) end
          return n", "1000"),
        ("local function f() return select(2, pcall(f)) end return f()", too_deep),
        ("local function f() local ok, problem = xpcall(f, tostring) return problem end return f()", too_deep),
        ("local function f() xpcall(error, f) end f() return 'end'", "end"),
        ("local function nest()
              local function f(k) if k == 0 then coroutine.wrap(nest)() end pcall(f, k - 1) end f(4000)
          end
          nest() return 'end'", "end"),
        ("local function nest()
              local function f(k)
                  if k == 0 then coroutine.wrap(nest)() end
                  xpcall(function() f(k - 1) end, tostring)
              end
              f(2000)
          end
          nest() return 'end'", "end"),
        // After a failed call of `pcall` itself, the depth is as before.
        ("for i = 1, 1000 do pcall(pcall) xpcall(error, error) end return {pcall(pcall, type, 1)}", "[1 1 number]"),
        ("local n = 0 for i = 1, 1000 do pcall(coroutine.wrap(function() n = n + 1 error('x') end)) end
          return n", "1000"),
        ("local all = {} for i = 1, 1000 do all[i] = coroutine.wrap(function() coroutine.yield() return i \
         end) all[i]() end
          local n = 0 for i = 1, 1000 do n = n + all[i]() end return n", "500500"),
        ("local function f(n) if n == 0 then return 'end' end return coroutine.wrap(f)(n - 1) end return \
         f(150)", "end"),
        // The depth stays right if a coroutine goes on at another depth than it began.
        ("local made
          local function down(n)
              if n == 0 then return made() end
              return (('a'):gsub('a', function() return down(n - 1) end))
          end
          made = coroutine.wrap(function()
              pcall(coroutine.yield)
              local function f() return (('a'):gsub('a', f)) end f()
          end)
          made() return down(150)", too_deep),
    ]);
}

/// CVE-2014-5461: a call of a function with many parameters overflowed Lua's stack.
#[test]
fn functions_of_many_parameters() {
    let parameters: Vec<String> = (0..100).map(|i| format!("p{i}")).collect();
    let parameters = parameters.join(", ");
    for depth in [1, 10, 20, 50, 100, 180] {
        let script = format!(
            "local function g({parameters}, ...) return p1 end
             local function r(n) if n == 0 then return tostring(g()) end local x = r(n - 1) return x end
             for i = 1, 2000 do coroutine.wrap(function() r({depth} + i % 50) g() end)() end
             local function s(n) g() return s(n + 1) + 1 end
             return tostring(pcall(s, 1))"
        );
        all_say(&[(&script, "false")]);
    }
}

/// LuaJIT matches patterns by recursion, so their complexity is limited.
#[test]
fn patterns_have_limits() {
    let too_complex = "pattern too complex";
    all_say(&[
        ("return ('a'):rep(3e5):find(('a?'):rep(1e5) .. 'b')", too_complex),
        ("return ('a'):rep(3e5):find(('a-'):rep(1e5) .. 'b')", too_complex),
        ("return ('a'):rep(3e5):match(('a*'):rep(1e5) .. 'b')", too_complex),
        ("return (('a'):rep(3e5):gsub(('a?'):rep(1e5) .. 'b', ''))", too_complex),
        ("for x in ('a'):rep(3e5):gmatch(('a?'):rep(1e5) .. 'b') do end", too_complex),
        ("return ('a'):rep(3e5):find(('('):rep(1e5))", "too many captures"),
        ("return ('a'):find(('['):rep(1e5))", "malformed pattern"),
        // A long pattern without repetitions is allowed, and so are a few repetitions.
        ("return ('b' .. ('a'):rep(1e5)):find(('a'):rep(1e5) .. '$')", "2"),
        ("return ('a'):rep(3e5):find('.*.*.*$')", "1"),
    ]);
}

/// CVE-2022-24736: a text that is no Lua could end the server.
#[test]
fn texts_that_are_no_lua() {
    let folder = tempfile::tempdir().unwrap();
    let (_server, mut client) = start(&folder);
    let starts =
        ["return ", "local a = ", "for i = ", "if ", "function ", "x = {", "goto ", "repeat until ", "("];
    let ends = [
        "nil and nil",
        "1 or ",
        "...",
        "[[",
        "]]",
        "--[[",
        "'\\",
        "0x",
        "1e",
        "a.b:",
        "{[",
        ":: ::",
        "\0",
        "\u{ff}",
        "-",
    ];
    for start in starts {
        for end in ends {
            for script in
                [format!("{start}{end}"), format!("{end}{start}"), format!("{start}{end} {start}{end}")]
            {
                ask(&mut client, &[b"script", b"load", script.as_bytes()]);
            }
        }
    }
    assert_eq!(client.ask("ping"), "PONG");
}

/// CVE-2025-67733: if an error of a script contained a line end, the rest became a reply of its own.
#[test]
fn replies_are_one_each() {
    let folder = tempfile::tempdir().unwrap();
    let (_server, mut client) = start(&folder);
    let texts = ["x\\0\\r\\n+INJECTED", "x\\r\\n+INJECTED", "\\0", "x\\n\\n"];
    for text in texts {
        for script in [
            format!("return redis.error_reply('{text}')"),
            format!("return redis.status_reply('{text}')"),
            format!("return {{err = '{text}'}}"),
            format!("return {{ok = '{text}'}}"),
            format!("error('{text}')"),
            format!("error({{err = '{text}'}})"),
            format!("return redis.pcall('{text}')"),
            format!("return redis.call('get', 'a', '{text}')"),
            text.to_owned(),
        ] {
            eval(&mut client, script);
            assert_eq!(client.ask("ping"), "PONG");
        }
    }
}

/// The reply has the length that its head says, whatever the format of a verbatim string is.
#[test]
fn formats_are_three_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let (_server, mut client) = start(&folder);
    client.ask("hello 3");
    for format in ["txt", "", "a", "abcdef", "a\\0b", "\\200\\200\\200", "a\\200b\\200"] {
        let script =
            format!("return {{verbatim_string = {{format = '{format}', string = 'x\\r\\n+INJECTED'}}}}");
        assert_eq!(eval(&mut client, script), "x\r\n+INJECTED\r\n", "{format}");
        assert_eq!(client.ask("ping"), "PONG");
    }
}

/// Code that runs after an error of a script can be killed, too, and does not write then. Metamethods of an
/// error are not called.
#[test]
fn scripts_in_errors_are_killed() {
    let no_end = "function() while true do end end";
    all_say(&[
        (&format!("error(setmetatable({{}}, {{__index = {no_end}}}))"), "(null)"),
        (&format!("error(setmetatable({{}}, {{__newindex = {no_end}}}))"), "(null)"),
        ("return {xpcall(error, function() return 1, 2 end)}", "[nil 1]"),
        ("return {xpcall(error, error)}", "[nil error in error handling]"),
    ]);
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--durability", "process", "--set", "busy-reply-threshold 20"];
    let server = Server::start(folder.path(), &arguments);
    let (mut slow, mut other) = (server.client(), server.client());
    for script in [
        format!("xpcall({no_end}, {no_end})"),
        format!("xpcall(function() error('x') end, {no_end})"),
        format!("xpcall(error, function() coroutine.wrap({no_end})() end)"),
        format!("xpcall({no_end}, function() redis.call('set', KEYS[1], 1) end)"),
        format!("xpcall({no_end}, function() redis.call('get', 'x1') redis.call('set', 'x2', 1) end)"),
    ] {
        slow.send(&format!("eval \"{script}\" 1 k"));
        while !other.ask("ping").starts_with("-BUSY") {}
        assert_eq!(other.ask("script kill"), "OK");
        let reply = slow.reply();
        assert!(reply.starts_with("-ERR Script killed by user"), "{script}: {reply}");
        assert_eq!(other.ask("dbsize"), "0", "{script}");
    }
}

/// A small table can have an enormous result, because it contains one table many times over.
#[test]
fn results_have_limits() {
    let too_large = "the result is too large";
    let wide = "local t = {} for i = 1, 7 do local u = {} for k = 1, 100 do u[k] = t end t = u end";
    let deep = "local t = {('x'):rep(1e6)} for i = 1, 60 do t = {t, t} end";
    all_say(&[
        (&format!("{deep} return t"), too_large),
        (&format!("{wide} return cjson.encode(t)"), too_large),
        (&format!("{wide} return cmsgpack.pack(t)"), too_large),
        ("local t = {} for i = 1, 1e5 do t[i] = {i} end return #cjson.encode(t)", "788896"),
    ]);
}

/// The hook of the server runs once in so many instructions of a script. Slow commands between two of its
/// runs must not delay other clients for long.
#[test]
fn slow_commands_of_scripts_are_interrupted() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--durability", "process", "--set", "busy-reply-threshold 20"];
    let server = Server::start(folder.path(), &arguments);
    let (mut slow, mut other) = (server.client(), server.client());
    other.ask("setrange k 50000000 x");
    let begun = Instant::now();
    slow.send("eval \"while true do redis.call('bitcount', KEYS[1]) end\" 1 k");
    while !other.ask("ping").starts_with("-BUSY") {}
    assert!(begun.elapsed() < Duration::from_secs(20));
    assert_eq!(other.ask("script kill"), "OK");
    assert!(slow.reply().starts_with("-ERR Script killed by user"));
}

/// A library whose text ends in one thread, and not in another, must not hold the other one for long.
#[test]
fn loads_in_other_threads_have_limits() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--durability", "process", "--threads", "2"]);
    let (mut one, mut two) = (server.client(), server.client());
    for i in 0..8 {
        // Addresses differ between threads, so the loop may run in one of them only.
        let text = format!(
            "#!lua name=l{i}\nlocal place = ('%p'):format({{}}) if place:byte(-{}) % 2 == 0 then while true do end \
             end redis.register_function('f{i}', function() return 1 end)",
            2 + i % 6
        );
        let loaded = ask(&mut one, &[b"function", b"load", text.as_bytes()]);
        let begun = Instant::now();
        for client in [&mut one, &mut two] {
            let reply = client.ask(&format!("fcall f{i} 0"));
            let is_known =
                ["1", "-ERR Error registering functions: ERR FUNCTION LOAD timeout"].contains(&&*reply);
            assert!(is_known || loaded.starts_with('-'), "{reply}");
        }
        assert!(begun.elapsed() < Duration::from_secs(20));
    }
}

/// If few bytes of a string were hashed, a script with many strings that differ elsewhere would be slow.
#[test]
fn similar_strings_are_hashed_well() {
    let folder = tempfile::tempdir().unwrap();
    let (_server, mut client) = start(&folder);
    let mut took = |strings: &str| {
        let script = format!(
            "local n, t = 0, {{}} for i = 1, 4e4 do t[{strings}] = i end for _ in pairs(t) do n = n + 1 end \
             return n"
        );
        let start = Instant::now();
        assert_eq!(eval(&mut client, script), "40000");
        start.elapsed()
    };
    let different = took("i .. ('x'):rep(1000)").max(Duration::from_millis(20));
    for at in [1, 7, 100, 333, 500, 994, 1000] {
        let similar = took(&format!("('x'):rep({at}) .. i .. ('x'):rep(1000 - {at})"));
        assert!(similar < 20 * different, "at {at}: {similar:?}, others {different:?}");
    }
}
