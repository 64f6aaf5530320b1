//! Scripts and functions.

use std::time::Instant;

use crate::common::{Client, LIMITED, Server, converse};

/// A library of two functions.
const LIBRARY: &str = "function load \"#!lua name=lib\\nlocal n = 0 \
     redis.register_function('add', function(keys, args) return redis.call('incrby', keys[1], args[1]) end) \
     redis.register_function{function_name='hello', flags={'no-writes'}, callback=function() return 'hello' end}\"";

/// Asks until the reply is as wanted, and returns it.
fn ask_until(client: &mut Client, line: &str, is_it: impl Fn(&str) -> bool) -> String {
    let start = Instant::now();
    loop {
        let reply = client.ask(line);
        if is_it(&reply) {
            return reply;
        }
        assert!(start.elapsed().as_secs() < 120, "{line} is answered {reply}");
    }
}

fn until_busy(client: &mut Client) {
    ask_until(client, "ping", |reply| reply.starts_with("-BUSY"));
}

fn until_ready(client: &mut Client) {
    ask_until(client, "ping", |reply| reply == "PONG");
}

#[test]
fn what_scripts_do() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--durability", "process", "--threads", "2"]);
    let client = &mut server.client();
    converse(
        client,
        &[
            ("eval \"return {KEYS[1], ARGV[1], 1.9, true, false}\" 1 k a", "[k a 1 1 nil]"),
            // The script uses a key that it did not declare: it is run again with all shards locked, and its
            // effects count once.
            ("eval \"redis.call('incr', KEYS[1]) return redis.call('incr', 'b')\" 1 a", "1"),
            ("eval \"redis.call('incr', KEYS[1]) return redis.call('incr', 'b')\" 1 a", "2"),
            ("mget a b", "[2 2]"),
            // A script cannot catch the error that makes the server run it again.
            ("eval \"pcall(redis.call, 'incr', 'x1') pcall(redis.call, 'incr', 'x2') return 1\" 0", "1"),
            ("mget x1 x2", "[1 1]"),
            // A script with undeclared keys in a transaction of a client.
            ("multi", "OK"),
            ("incr a", "QUEUED"),
            ("eval \"return redis.call('incr', 'c') + redis.call('incr', 'd')\" 0", "QUEUED"),
            ("function stats", "QUEUED"),
            ("exec", "[3 2 [running_script nil engines [LUA [libraries_count 0 functions_count 0]]]]"),
            ("mget a c d", "[3 1 1]"),
            // `SELECT` in a script does not change the client's database.
            ("eval \"return redis.call('select', 5)\" 0", "OK"),
            ("get a", "3"),
            ("eval \"return redis.pcall('multi')\" 0", "-ERR This Redis command is not allowed from script"),
            (
                "eval_ro \"return redis.pcall('set', 'a', 1)\" 0",
                "-ERR Write commands are not allowed from read-only scripts.",
            ),
            (
                "eval \"return redis.pcall('get')\" 0",
                "-ERR Wrong number of args calling Redis command from script",
            ),
        ],
    );
    // The effects of a script before its error stay, as in Redis.
    assert!(
        client.ask("eval \"redis.call('incr', KEYS[1]) error('x', 0)\" 1 a").starts_with("-ERR x script: ")
    );
    assert_eq!(client.ask("get a"), "4");
    // A script cannot change globals and libraries, which other scripts use.
    let changed = "-ERR user_script:1: Attempt to modify a readonly table script: ";
    for script in ["x = 1", "redis.call = 1", "string.rep = 1", "getmetatable('').__index = 1"] {
        let reply = client.ask(&format!("eval \"{script}\" 0"));
        assert!(reply.starts_with(changed), "{script}: {reply}");
    }
    for script in ["rawset(_G, 'x', 1)", "table.insert(math, 1)", "setmetatable(_G, nil)"] {
        let reply = client.ask(&format!("eval \"{script}\" 0"));
        assert!(reply.starts_with("-ERR Attempt to modify"), "{script}: {reply}");
    }
}

#[test]
fn scripts_that_are_known() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--durability", "process", "--threads", "2"]);
    let (one, two) = (&mut server.client(), &mut server.client());
    let sha = one.ask("script load \"return 5\"");
    assert_eq!(one.ask(&format!("evalsha {} 0", sha.to_uppercase())), "5");
    // All threads know the script.
    assert_eq!(two.ask(&format!("evalsha {sha} 0")), "5");
    assert_eq!(two.ask(&format!("script exists {sha} x")), "[1 0]");
    assert_eq!(two.ask("script flush"), "OK");
    assert_eq!(one.ask(&format!("evalsha {sha} 0")), "-NOSCRIPT No matching script. Please use EVAL.");
    // More than the number of values of Lua that Rust can hold.
    for number in 0..10_000 {
        one.send(&format!("eval \"return {number}\" 0"));
    }
    assert!((0..10_000).all(|number| one.reply() == number.to_string()));
}

#[test]
fn a_script_is_whole_after_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    for durability in ["disk", "process"] {
        let folder = folder.path().join(durability);
        std::fs::create_dir(&folder).unwrap();
        let arguments = ["--durability", durability, "--threads", "2", "--set", "busy-reply-threshold 20"];
        let server = Server::start(&folder, &arguments);
        let client = &mut server.client();
        assert_eq!(client.ask("eval \"for i = 1, 9 do redis.call('incr', 'n' .. i) end return 1\" 0"), "1");
        // A script that has written, and is killed with the server.
        let (slow, two) = (&mut server.client(), &mut server.client());
        slow.send("eval \"redis.call('set', KEYS[1], 'no') while true do end\" 1 n1");
        until_busy(client);
        until_busy(two);
        assert!(client.ask("script kill").starts_with("-UNKILLABLE"));
        drop(server);
        let server = Server::start(&folder, &arguments);
        assert_eq!(server.client().ask("mget n1 n5 n9 n10"), "[1 1 1 nil]");
    }
}

#[test]
fn slow_scripts_are_killed() {
    let folder = tempfile::tempdir().unwrap();
    for threads in ["1", "2"] {
        let arguments = ["--durability", "process", "--threads", threads, "--set", "busy-reply-threshold 20"];
        let server = Server::start(folder.path(), &arguments);
        let (slow, one, two) = (&mut server.client(), &mut server.client(), &mut server.client());
        assert!(one.ask("set k v").starts_with("OK"));
        // The script catches all errors that it can. The client has sent another command after it.
        slow.send("eval \"local f = function() while true do redis.call('get', KEYS[1]) end end while true do pcall(f) end\" 1 k");
        slow.send("get k");
        until_busy(one);
        until_busy(two);
        // A client that connects meanwhile.
        let new = &mut server.client();
        until_busy(new);
        converse(
            new,
            &[
                ("multi", "OK"),
                (
                    "get k",
                    "-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
                ),
                ("discard", "OK"),
                ("watch k", "OK"),
                (
                    "shutdown",
                    "-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
                ),
                (
                    "function kill",
                    "-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
                ),
                ("script kill", "OK"),
            ],
        );
        assert!(slow.reply().starts_with("-ERR Script killed by user with SCRIPT KILL..."));
        assert_eq!(slow.reply(), "v");
        until_ready(one);
        assert_eq!(one.ask("script kill"), "-NOTBUSY No scripts in execution right now.");
        // A client that waits for a key that a script writes.
        two.send("blpop l 0");
        ask_until(one, "info", |reply| reply.contains("blocked_clients:1"));
        slow.send("eval \"redis.call('rpush', 'l', 'x') local n = 0 for i = 1, 2e7 do n = n + i end return 'done'\" 0");
        assert_eq!((slow.reply(), two.reply()), ("done".to_owned(), "[l x]".to_owned()));
    }
}

/// A function that needs more shards than its keys name does not run twice.
#[test]
fn variables_of_a_library_change_once_a_call() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--shards", "4"]);
    let mut client = server.client();
    let library = "function load \"#!lua name=count\\nlocal n = 0 \
         redis.register_function('next', function(keys, args) n = n + 1 \
         for _, name in ipairs(args) do redis.call('set', name, n) end return n end)\"";
    assert_eq!(client.ask(library), "count");
    for n in 1..=5 {
        assert_eq!(client.ask("fcall next 0 a b c d e f g h"), n.to_string());
    }
    assert_eq!(client.ask("get h"), "5");
}

#[test]
fn functions_are_there_after_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--durability", "disk", "--threads", "2"];
    for round in 0..3 {
        let server = Server::start(folder.path(), &arguments);
        let (one, two) = (&mut server.client(), &mut server.client());
        if round == 0 {
            assert_eq!(one.ask(LIBRARY), "lib");
            assert_eq!(one.ask(LIBRARY), "-ERR Library 'lib' already exists");
        }
        // By two clients.
        assert_eq!(one.ask("fcall add 1 n 5"), (10 * round + 5).to_string());
        assert_eq!(two.ask("fcall ADD 1 n 5"), (10 * round + 10).to_string());
        converse(
            two,
            &[
                ("fcall_ro hello 0", "hello"),
                ("fcall_ro add 1 n 1", "-ERR Can not execute a script with write flag using *_ro command."),
                ("fcall nothing 0", "-ERR Function not found"),
                (
                    "function list",
                    "[[library_name lib engine LUA functions [[name add description nil flags []] [name hello description nil flags [no-writes]]]]]",
                ),
            ],
        );
        if round == 2 {
            assert_eq!(two.ask("function delete lib"), "OK");
        }
    }
    let server = Server::start(folder.path(), &arguments);
    assert_eq!(server.client().ask("fcall add 1 n 5"), "-ERR Function not found");
}

#[test]
fn a_library_is_not_loaded_by_a_transaction_that_fails() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--durability", "process", LIMITED]);
    let client = &mut server.client();
    let fill = "eval \"for i = 1, 1e6 do redis.call('set', 'k' .. i, string.rep('x', 100000)) end\" 0";
    converse(client, &[("multi", "OK"), (LIBRARY, "QUEUED"), (fill, "QUEUED")]);
    let reply = client.ask("exec");
    assert!(reply.starts_with("-OOM"), "{reply}");
    converse(client, &[("fcall hello 0", "-ERR Function not found"), ("dbsize", "0"), (LIBRARY, "lib")]);
    assert_eq!(client.ask("fcall hello 0"), "hello");
}
