//! `DUMP`, `RESTORE`, `MIGRATE` and RDB files: to Redis and back. Some tests need an installed Redis (Debian:
//! `redis-server`).

use std::path::Path;
use std::process::Command;

use crate::common::redis::Redis;
use crate::common::{Client, Server, converse};

/// The dump of `hello` by Redis 7.0.15.
const HELLO: &str = r#""\x00\x05hello\x0a\x00cr\xdfve4 \x0a""#;

/// The dump of a list by Redis 7.0.15. The list begins with `a 1 -5 300`.
const LIST: &str = r#""\x12\x01\x02\xc3!<\x12<\x00\x00\x00\x06\x00\x81a\x02\x01\x01\xdf\xfb\x02\xc1,\x02\x9ex\xe0\x14\x00\x02\x1f\xf4\xff\x80\x00\x02\x7f\x09\xff\x0a\x00g\xaeN\x03\xb3\x01GC""#;

#[test]
fn restored() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--durability", "process"]);
    let client = &mut server.client();
    let restore = |rest: &str| format!("restore k {rest}");
    let busy = "-BUSYKEY Target key name already exists.";
    converse(
        client,
        &[
            (&restore(&format!("0 {HELLO}")), "OK"),
            ("get k", "hello"),
            ("ttl k", "-1"),
            // The options are checked first, then the key, the time, the payload.
            (&restore("x x bad"), "-ERR syntax error"),
            (&restore("x x"), busy),
            (&restore("x x replace"), "-ERR value is not an integer or out of range"),
            (&restore("-1 x replace"), "-ERR Invalid TTL value, must be >= 0"),
            (&restore("0 x replace"), "-ERR DUMP payload version or checksum are wrong"),
            (&restore("0 x idletime -1"), "-ERR Invalid IDLETIME value, must be >= 0"),
            (&restore("0 x idletime x"), "-ERR value is not an integer or out of range"),
            (&restore("0 x idletime"), "-ERR syntax error"),
            (&restore("0 x freq 256"), "-ERR Invalid FREQ value, must be >= 0 and <= 255"),
            (&restore("0 x freq 1 idletime 1"), "-ERR syntax error"),
            (&restore("0 x idletime 1 freq 1"), "-ERR syntax error"),
            // An unknown type, with the right checksum.
            (
                &restore(r#"0 "\x08\x01\x0a\x00\x7f\xf6\x89\x8f\x77\xf4\xdf\xe4" replace"#),
                "-ERR Bad data format",
            ),
            ("restore", "-ERR wrong number of arguments for 'restore' command"),
            ("get k", "hello"),
            (&restore(&format!("0 {LIST} idletime 5 replace")), "OK"),
            ("lrange k 0 4", &format!("[a 1 -5 300 {}]", "x".repeat(30))),
            (&restore(&format!("100000 {HELLO} replace freq 5")), "OK"),
            ("expire k 1000", "1"),
            (&restore(&format!("99999999999999 {HELLO} absttl replace")), "OK"),
            ("pexpiretime k", "99999999999999"),
            // The deadline has passed: the old value is gone, and there is no new one.
            (&restore(&format!("1 {HELLO} absttl replace")), "OK"),
            ("exists k", "0"),
            (&restore(&format!("1 {HELLO} absttl")), "OK"),
            ("exists k", "0"),
            ("dump k", "nil"),
            (&format!("restore-asking k 0 {HELLO}"), "OK"),
        ],
    );
    drop(server);
    let server = Server::start(folder.path(), &["--durability", "process"]);
    assert_eq!(server.client().ask("get k"), "hello");
}

/// Returns the elements of a reply that is an array of strings without spaces.
fn elements(reply: &str) -> Vec<&str> {
    reply[1..reply.len() - 1].split_whitespace().collect()
}

/// Describes all keys of databases 0 to 15, one line each, and then the libraries of functions.
fn contents(port: u16) -> Vec<String> {
    let (mut client, mut all) = (Client::connect(port).unwrap(), Vec::new());
    for db in 0..16 {
        client.ask(&format!("select {db}"));
        let keys = client.ask("keys *");
        let mut keys = elements(&keys);
        keys.sort_unstable();
        for key in keys {
            let (kind, expires) =
                (client.ask(&format!("type {key}")), client.ask(&format!("pexpiretime {key}")));
            let value = match kind.as_str() {
                "string" => client.ask(&format!("get {key}")),
                "list" => client.ask(&format!("lrange {key} 0 -1")),
                "zset" => client.ask(&format!("zrange {key} 0 -1 withscores")),
                "set" => sorted(&client.ask(&format!("smembers {key}")), 1),
                "hash" => sorted(&client.ask(&format!("hgetall {key}")), 2),
                "stream" => {
                    let info = client.ask(&format!("xinfo stream {key} full count 0"));
                    // The numbers of nodes in memory do not matter.
                    let (start, rest) = info.split_once(" radix-tree-keys ").unwrap();
                    let (_, end) = rest.split_once(" last-generated-id ").unwrap();
                    format!("{start} {end}")
                }
                _ => panic!("{key} is a {kind}"),
            };
            all.push(format!("{db} {key} {kind} {expires} {value}"));
        }
    }
    all.push(client.ask("function list withcode"));
    all
}

/// Returns the elements of a reply, sorted in groups of `size`.
fn sorted(reply: &str, size: usize) -> String {
    let elements = elements(reply);
    let mut parts: Vec<&[&str]> = elements.chunks(size).collect();
    parts.sort_unstable();
    parts.concat().join(" ")
}

/// Writes values of all types, small and large ones, and a library.
fn fill(client: &mut Client) {
    let (mut lines, repeated) = (Vec::new(), "abc".repeat(1000));
    for i in 0..3000 {
        lines.push(format!("set key:{i} value:{i}"));
    }
    for (i, number) in [0, 127, 128, -129, 40_000, -3_000_000_000_i64, i64::MAX].iter().enumerate() {
        lines.push(format!("set number:{i} {number}"));
        lines.push(format!("rpush numbers {number}"));
    }
    lines.push(format!("set repeated {repeated}"));
    lines.push(format!("rpush long {repeated} x {repeated}{repeated}{repeated}{repeated}"));
    lines.push("pexpireat key:1 99999999999999".to_owned());
    lines.push("pexpireat key:2 1".to_owned());
    for i in 0..600 {
        lines.push(format!("rpush list {i} element:{i}"));
        lines.push(format!("sadd set member:{i}"));
        lines.push(format!("sadd numberset {}", i * 1000));
        lines.push(format!("hset hash field:{i} {i}"));
        lines.push(format!("zadd zset {}.5 member:{i}", 100 - i));
        let fields = if i % 7 == 0 { "other".to_owned() } else { format!("a {i} b") };
        lines.push(format!("xadd stream {}-{} {fields} v{i}", i / 3 + 1, i % 3));
    }
    let small = [
        "zadd zset inf most -inf least 0.1 tenth",
        "zadd small 1 a 2.5 b",
        "hset smallhash a 1 b two",
        "sadd smallset 1 -5 70000",
        "xdel stream 1-1 100-0 200-2",
        "xgroup create stream g1 0",
        "xgroup create stream g2 150-1 entriesread 7",
        "xreadgroup group g1 alice count 5 streams stream >",
        "xreadgroup group g1 bob count 3 streams stream >",
        "xack stream g1 1-2 2-1",
        "xgroup createconsumer stream g1 idle",
        "xadd emptied 5-5 a b",
        "xdel emptied 5-5",
        "select 9",
        "set key:1 other",
        "expire key:1 100000",
        "select 15",
        "lpush l a",
        r##"function load "#!lua name=lib\nredis.register_function('f', function() return 1 end)""##,
    ];
    lines.extend(small.map(str::to_owned));
    lines.iter().for_each(|line| client.send(line));
    for line in &lines {
        let reply = client.reply();
        assert!(!reply.starts_with('-'), "{line}: {reply}");
    }
}

/// Runs the program to its end. Returns its standard output, or its standard error if it fails.
fn run(arguments: &[&str], heap: &Path, file: &Path) -> Result<String, String> {
    let mut program = Command::new(env!("CARGO_BIN_EXE_pheap-redis"));
    let output = program.args(arguments).arg(file).arg("--heap").arg(heap).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

#[test]
fn to_redis_and_back() {
    let [ours, theirs, again] = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let process = ["--durability", "process"];
    let server = Server::start(ours.path(), &process);
    fill(&mut server.client());
    let expected = contents(server.port());
    assert!(expected.len() > 3000);
    drop(server);
    let file = theirs.path().join("dump.rdb");
    let export = ["--durability", "process", "--export"];
    let said = run(&export, &ours.path().join("heap"), &file).unwrap();
    assert!(said.contains(&format!("{} keys", expected.len() - 1)), "{said}");
    let redis = Redis::start(theirs.path());
    assert_eq!(contents(redis.port()), expected);
    // Redis writes some of the values in other forms.
    std::fs::remove_file(&file).unwrap();
    assert_eq!(Client::connect(redis.port()).unwrap().ask("save"), "OK");
    drop(redis);
    let import = ["--durability", "process", "--import", file.to_str().unwrap()];
    let server = Server::start(again.path(), &import);
    assert_eq!(contents(server.port()), expected);
    assert_eq!(server.client().ask("fcall f 0"), "1");
    drop(server);
    let server = Server::start(again.path(), &process);
    assert_eq!(contents(server.port()), expected);
    drop(server);
    // An import into a heap that has keys is refused.
    let refused =
        run(&["--durability", "process", "--port", "0", "--import"], &again.path().join("heap"), &file);
    assert!(refused.unwrap_err().contains("there are keys or functions in the heap already"));
}

#[test]
fn migrated_to_redis_and_back() {
    let [ours, theirs] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let server = Server::start(ours.path(), &["--durability", "process", "--threads", "2"]);
    let redis = Redis::start(theirs.path());
    let (mut client, mut other) = (server.client(), Client::connect(redis.port()).unwrap());
    fill(&mut client);
    let at = format!("127.0.0.1 {}", redis.port());
    let keys = "list numbers set numberset hash zset stream emptied repeated long number:5";
    client.ask("select 0");
    let of_server = |port| {
        let wanted = |line: &String| keys.split(' ').any(|key| line[1..].starts_with(&format!(" {key} ")));
        // Without the number of the database, which has one digit here.
        contents(port).into_iter().filter(wanted).map(|line| line[1..].to_owned()).collect::<Vec<_>>()
    };
    let expected = of_server(server.port());
    assert_eq!(expected.len(), 11);
    converse(
        &mut client,
        &[
            ("migrate 127.0.0.1 1 none 3 500", "NOKEY"),
            ("migrate 127.0.0.1 1 list 3 500 what", "-ERR syntax error"),
            ("migrate 127.0.0.1 1 list 3 500 auth", "-ERR syntax error"),
            ("migrate 127.0.0.1 1 list 3 x", "-ERR value is not an integer or out of range"),
            (
                "migrate 127.0.0.1 1 list 3 500 keys list",
                "-ERR When using MIGRATE KEYS option, the key argument must be set to the empty string",
            ),
            ("migrate 127.0.0.1 1 list 3 500", "-IOERR error or timeout writing to target instance"),
            ("exists list", "1"),
            (&format!("migrate {at} \"\" 3 60000 copy keys none {keys}"), "OK"),
            ("exists list", "1"),
        ],
    );
    assert_eq!(of_server(redis.port()), expected);
    let busy = "-ERR Target instance replied with error: BUSYKEY Target key name already exists.";
    converse(
        &mut client,
        &[
            (&format!("migrate {at} list 3 60000"), busy),
            ("llen list", "1200"),
            ("pexpireat zset 99999999999999", "1"),
            (&format!("migrate {at} \"\" 3 60000 keys list key:3 zset key:4"), busy),
            ("exists list key:3 zset key:4", "2"),
            (&format!("migrate {at} \"\" 3 60000 replace keys {keys}"), "OK"),
            ("exists list set zset stream", "0"),
            (
                &format!("migrate {at} key:5 99 60000"),
                "-ERR Target instance replied with error: ERR DB index is out of range",
            ),
            ("exists key:5", "1"),
        ],
    );
    other.ask("select 3");
    assert_eq!(other.ask("get key:3"), "value:3");
    // `MIGRATE` sends the time that remains, so the new deadline is later by the time of the transfer.
    let expires: i64 = other.ask("pexpiretime zset").parse().unwrap();
    assert!((99_999_999_999_999..100_000_000_100_000).contains(&expires), "{expires}");
    assert_eq!(other.ask("persist zset"), "1");
    // Back, to a server that wants a password.
    assert_eq!(client.ask("config set requirepass secret"), "OK");
    let back = format!("migrate 127.0.0.1 {} \"\" 0 60000", server.port());
    converse(
        &mut other,
        &[
            (
                &format!("{back} auth wrong keys {keys}"),
                "-ERR Target instance replied with error: WRONGPASS invalid username-password pair or user is disabled.",
            ),
            (&format!("{back} auth2 default secret keys {keys}"), "OK"),
        ],
    );
    assert_eq!(client.ask("config set requirepass \"\""), "OK");
    assert_eq!(of_server(server.port()), expected);
    // A server that says nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let asked = format!("migrate 127.0.0.1 {port} list 0 200");
    assert_eq!(client.ask(&asked), "-IOERR error or timeout reading to target instance");
    assert_eq!(client.ask("llen list"), "1200");
}

#[test]
fn what_cannot_be_imported_leaves_no_heap() {
    let folder = tempfile::tempdir().unwrap();
    let (heap, file) = (folder.path().join("heap"), folder.path().join("file"));
    let import = ["--durability", "process", "--port", "0", "--import"];
    let says = |why: &str| {
        let said = run(&import, &heap, &file).unwrap_err();
        assert!(said.contains(why), "{said}");
    };
    says("cannot be read");
    std::fs::write(&file, "no such file").unwrap();
    says("it does not begin as an RDB file does");
    std::fs::write(&file, "REDIS0011\u{1}").unwrap();
    says("it has version 11 of the format");
    // Up to here, no key was imported.
    std::fs::write(&file, b"REDIS0010\xfe\x00\x00\x01a\x01b\x00\x01a\x01c\xff\0\0\0\0\0\0\0\0").unwrap();
    says("the file has key 'a' of database 0 twice");
    says("if there is one, and import again");
    let said = run(&["--durability", "process", "--export"], &heap, &file).unwrap_err();
    assert!(said.contains("if there is one, and import again"), "{said}");
    std::fs::remove_file(&heap).unwrap();
    std::fs::write(&file, b"REDIS0010\xfe\x10\x00\x01a\x01b\xff\0\0\0\0\0\0\0\0").unwrap();
    says("the file has keys in database 16, and this server has databases 0 to 15");
    let none = folder.path().join("none");
    assert!(run(&["--export"], &none, &file).unwrap_err().contains("there is no heap"));
    assert!(!none.exists());
}
