//! For operators of a server: its log, its figures, how it ends, and why it does not start.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{LIMITED, Server, converse, free_port};

/// A server whose log is a file.
fn logged(folder: &Path, arguments: &[&str]) -> Server {
    let logfile = format!("logfile {}", log_path(folder).display());
    let port = free_port();
    let all = [&["--durability", "process", "--set", &logfile], arguments].concat();
    Server::wait_for(Server::spawn(folder, port, &all), port)
}

fn log_path(folder: &Path) -> std::path::PathBuf {
    folder.join("log")
}

fn log(folder: &Path) -> String {
    std::fs::read_to_string(log_path(folder)).unwrap_or_default()
}

/// Waits until the log has a line with this text, and returns the line. Panics after 120 seconds.
fn wait_for_line(folder: &Path, text: &str) -> String {
    let began = Instant::now();
    loop {
        if let Some(line) = log(folder).lines().find(|line| line.contains(text)) {
            return line.to_owned();
        }
        assert!(began.elapsed() < Duration::from_secs(120), "no line with {text:?} in\n{}", log(folder));
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn what_is_logged() {
    let folder = tempfile::tempdir().unwrap();
    let dir = format!("dir {}", folder.path().display());
    let server = logged(folder.path(), &["--threads", "2", "--shards", "4", "--set", &dir]);
    let client = &mut server.client();
    for text in ["begins pid=", "was made in", "durability=Process shards=4", "threads=2"] {
        wait_for_line(folder.path(), text);
    }
    // A client that is disconnected because of a limit.
    assert_eq!(client.ask("CONFIG SET client-query-buffer-limit 1mb"), "OK");
    let mut endless = server.client();
    endless.try_send(b"*2\r\n$4\r\nECHO\r\n$100000000\r\n");
    endless.try_send(&vec![b'x'; 2 << 20]);
    endless.read_to_end();
    assert!(wait_for_line(folder.path(), "client-query-buffer-limit").contains(" WARN "));
    // Copies of the heap, whether they succeed or fail.
    assert_eq!(client.ask("SAVE"), "OK");
    wait_for_line(folder.path(), "copied the heap to");
    std::fs::write(folder.path().join("backup.heap"), "a letter").unwrap();
    assert!(client.ask("SAVE").starts_with("-ERR"));
    assert!(wait_for_line(folder.path(), "failed").contains(" WARN "));
    // Messages of scripts.
    assert_eq!(client.ask("EVAL 'redis.log(redis.LOG_WARNING, \"from a script\")' 0"), "nil");
    wait_for_line(folder.path(), "WARN script: from a script");
    client.send("SHUTDOWN");
    client.read_to_end();
    wait_for_line(folder.path(), "SHUTDOWN");
    wait_for_line(folder.path(), "which was closed in");
    drop(server);
    let _server = logged(folder.path(), &[]);
    wait_for_line(folder.path(), "was opened in");
}

#[test]
fn levels() {
    let folder = tempfile::tempdir().unwrap();
    let server = logged(folder.path(), &["--set", "loglevel warning"]);
    let client = &mut server.client();
    let say = "EVAL 'redis.log(redis.LOG_VERBOSE, ARGV[1])' 0";
    converse(
        client,
        &[
            (&format!("{say} one"), "nil"),
            ("CONFIG SET loglevel verbose", "OK"),
            (&format!("{say} two"), "nil"),
            ("CONFIG SET loglevel notice", "OK"),
            (&format!("{say} three"), "nil"),
            (
                "CONFIG SET loglevel loud",
                "-ERR CONFIG SET failed (possibly related to argument 'loglevel') - argument(s) must be one of the following: debug, verbose, notice, warning",
            ),
            ("CONFIG GET loglevel", "[loglevel notice]"),
        ],
    );
    wait_for_line(folder.path(), "DEBUG script: two");
    // The file may be renamed, as rotation of logs does. The server then creates a new one.
    std::fs::rename(log_path(folder.path()), folder.path().join("old")).unwrap();
    assert_eq!(client.ask("EVAL 'redis.log(redis.LOG_NOTICE, ARGV[1])' 0 four"), "nil");
    wait_for_line(folder.path(), "INFO script: four");
    let old = std::fs::read_to_string(folder.path().join("old")).unwrap();
    assert!(!old.contains("begins") && !old.contains("one") && !old.contains("three"), "{old}");
}

/// Sends a request of HTTP, and returns the answer.
fn get(port: u16, request: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(format!("{request}\r\nHost: x\r\n\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Returns the figures that Prometheus would collect.
fn figures(port: u16) -> BTreeMap<String, f64> {
    let answer = get(port, "GET /metrics HTTP/1.1");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4"), "{head}");
    assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{head}");
    let figure = |line: &str| {
        let (name, value) = line.rsplit_once(' ').unwrap();
        (name.to_owned(), value.parse().unwrap_or_else(|_| panic!("{line}")))
    };
    body.lines().filter(|line| !line.starts_with('#')).map(figure).collect()
}

#[test]
fn figures_for_prometheus() {
    let (folder, port) = (tempfile::tempdir().unwrap(), free_port());
    let address = format!("127.0.0.1:{port}");
    let server = Server::start(folder.path(), &["--threads", "2", "--metrics", &address]);
    let client = &mut server.client();
    converse(
        client,
        &[
            ("set a 1", "OK"),
            ("set b 1 ex 1000", "OK"),
            ("mget a b c", "[1 1 nil]"),
            ("exists a", "1"),
            ("incr a", "2"), // neither a hit nor a miss: it writes
            ("eval 'return redis.call(\"get\", KEYS[1])' 1 nothing", "nil"),
            ("get a b", "-ERR wrong number of arguments for 'get' command"),
            ("select 3", "OK"),
            ("set \"x\" y", "OK"),
        ],
    );
    let found = figures(port);
    for (name, value) in [
        ("redis_up", 1.0),
        ("redis_connected_clients", 1.0),
        ("redis_commands_total{cmd=\"set\"}", 3.0),
        ("redis_commands_rejected_calls_total{cmd=\"get\"}", 1.0),
        ("redis_commands_latencies_usec_bucket{cmd=\"set\",le=\"+Inf\"}", 3.0),
        ("redis_commands_latencies_usec_count{cmd=\"set\"}", 3.0),
        ("redis_commands_processed_total", 9.0),
        ("redis_errors_total{err=\"ERR\"}", 1.0),
        ("redis_keyspace_hits_total", 3.0),
        ("redis_keyspace_misses_total", 2.0),
        ("redis_db_keys{db=\"db0\"}", 2.0),
        ("redis_db_keys_expiring{db=\"db0\"}", 1.0),
        ("redis_db_keys{db=\"db3\"}", 1.0),
        ("redis_db_keys{db=\"db4\"}", 0.0),
        ("pheap_failed", 0.0),
    ] {
        assert_eq!(found.get(name), Some(&value), "{name} of {found:#?}");
    }
    for name in
        ["redis_memory_used_bytes", "pheap_file_bytes", "pheap_log_bytes_total", "pheap_log_syncs_total"]
    {
        assert!(found[name] > 0.0, "{name} is {}", found[name]);
    }
    assert!(get(port, "GET / HTTP/1.0").contains("/metrics"));
    assert!(get(port, "GET /other HTTP/1.0").starts_with("HTTP/1.1 404 "));
    assert!(get(port, "POST /metrics HTTP/1.0").starts_with("HTTP/1.1 400 "));
    assert!(get(port, "nonsense").starts_with("HTTP/1.1 400 "));
    // Clients see the same numbers.
    let info = client.ask("info stats");
    assert!(info.contains("keyspace_hits:3\r\n") && info.contains("keyspace_misses:2\r\n"), "{info}");
    let moved = "-ERR CONFIG SET failed (possibly related to argument 'metrics') - Unable to listen there: a \
                 new address takes effect only at a restart";
    converse(
        client,
        &[("CONFIG SET metrics 127.0.0.1:1", moved), (&format!("CONFIG SET metrics {address}"), "OK")],
    );
    // While a slow script has a shard locked, the numbers of keys are absent, and other figures are there.
    assert_eq!(client.ask("CONFIG SET busy-reply-threshold 1"), "OK");
    client.send("eval 'while true do end' 1 a");
    let other = &mut server.client();
    while !other.ask("ping").starts_with("-BUSY") {}
    let busy = figures(port);
    assert!(busy["redis_commands_processed_total"] > 10.0 && !busy.contains_key("redis_db_keys{db=\"db0\"}"));
    assert_eq!(other.ask("script kill"), "OK");
    assert!(client.reply().contains("Script killed"));
    assert!(figures(port).contains_key("redis_db_keys{db=\"db0\"}"));
    // A connection without a request does not hold up others for ever.
    let _silent = TcpStream::connect(("127.0.0.1", port)).unwrap();
    figures(port);
}

/// Runs a command to its end. Returns whether it succeeded, and its messages on stderr.
fn ends(command: &mut Command) -> (bool, String) {
    let output = command.stdout(Stdio::null()).output().unwrap();
    (output.status.success(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn whether_it_answers() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let ping = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pheap-redis"));
        ends(command.args(["--ping", "--port", &server.port().to_string()]).args(more))
    };
    assert_eq!(ping(&[]), (true, String::new()));
    assert_eq!(server.client().ask("CONFIG SET requirepass secret"), "OK");
    assert_eq!(ping(&[]), (true, String::new()));
    // If the port is given twice, the last one counts.
    let (is_there, told) = ping(&["--port", &free_port().to_string()]);
    assert!(!is_there && told.contains("no answer from 127.0.0.1:"), "{told}");
    let port = format!("port {}", free_port());
    let mut command = Command::new(env!("CARGO_BIN_EXE_pheap-redis"));
    let (is_there, told) = ends(command.args(["--ping", "--set", &port]));
    assert!(!is_there && told.contains("no answer from 127.0.0.1:"), "{told}");
    let (is_there, told) =
        ends(Command::new(env!("CARGO_BIN_EXE_pheap-redis")).args(["--ping", "--port", "0"]));
    assert!(!is_there && told.contains("neither `port` nor `unixsocket`"), "{told}");
    // Another program answers at the port.
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = other.local_addr().unwrap().port().to_string();
    std::thread::scope(|scope| {
        scope.spawn(|| other.accept().unwrap().0.write_all(b"220 mail\r\n").unwrap());
        let (is_there, told) =
            ends(Command::new(env!("CARGO_BIN_EXE_pheap-redis")).args(["--ping", "--port", &port]));
        assert!(!is_there && told.contains("has answered: 220 mail"), "{told}");
    });
}

#[test]
fn what_cannot_be_opened_is_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let heap = folder.path().join("heap");
    let refuses = |expected: &str| {
        let (began, told) =
            ends(&mut Server::command(folder.path(), free_port(), &["--durability", "process"]));
        assert!(!began && told.starts_with("pheap-redis: ") && told.contains(expected), "{told}");
    };
    let refuses_and_keeps = |expected: &str| {
        let before = std::fs::read(&heap).unwrap();
        refuses(expected);
        assert!(std::fs::read(&heap).unwrap() == before, "{expected}: the file has changed");
    };
    std::fs::write(&heap, "a letter\n".repeat(10_000)).unwrap();
    refuses_and_keeps("is not a pheap file; choose another path");
    std::fs::remove_file(&heap).unwrap();
    // A heap of another program.
    let options = pheap::Options::new().durability(pheap::Durability::Process);
    let other = options.open(&heap).unwrap();
    drop(other.root_or::<u64>("counter", |_| Ok(7)).unwrap());
    other.close().unwrap();
    refuses("is a heap of another program; choose another path");
    let other = options.open(&heap).unwrap();
    assert_eq!(other.roots().len(), 1);
    let counter = other.existing_root::<u64>("counter").unwrap();
    assert_eq!(counter.read(|view, counter| view[counter]).unwrap(), 7);
    drop(counter);
    other.close().unwrap();
    std::fs::remove_file(&heap).unwrap();
    // A heap that is in use.
    let mut server = Server::start(folder.path(), &["--durability", "process"]);
    assert_eq!(server.client().ask("set a 1"), "OK");
    let pid = folder.path().join("pid");
    std::fs::write(&pid, "the first one's").unwrap();
    let pidfile = format!("pidfile {}", pid.display());
    let (began, told) = ends(&mut Server::command(folder.path(), free_port(), &["--set", &pidfile]));
    assert!(!began && told.contains("is open in another process"), "{told}");
    assert_eq!(server.client().ask("get a"), "1");
    assert_eq!(std::fs::read_to_string(&pid).unwrap(), "the first one's");
    signal(&mut server, "TERM");
    server.process().wait().unwrap();
    drop(server);
    let good = std::fs::read(&heap).unwrap();
    // The first 256 KiB are damaged; or the file is cut off.
    let mut damaged = good.clone();
    damaged[..256 << 10].iter_mut().for_each(|byte| *byte ^= 0x55);
    std::fs::write(&heap, &damaged).unwrap();
    refuses_and_keeps("is not a pheap file");
    std::fs::write(&heap, &good[..good.len() / 2]).unwrap();
    refuses_and_keeps("is truncated");
    // The undamaged file opens as before.
    std::fs::write(&heap, &good).unwrap();
    let server = Server::start(folder.path(), &["--durability", "process"]);
    assert_eq!(server.client().ask("get a"), "1");
}

#[test]
fn a_full_disk_is_logged_and_reads_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let server = logged(folder.path(), &[LIMITED]);
    let client = &mut server.client();
    let value = "x".repeat(60_000);
    let mut stored = 0;
    let refused = loop {
        match client.ask(&format!("set k:{stored} {value}")) {
            told if told == "OK" => stored += 1,
            told => break told,
        }
    };
    assert!(refused.starts_with("-OOM command not allowed: "), "{refused}");
    assert!(wait_for_line(folder.path(), "a write was refused").contains(" ERROR "));
    assert!((0..stored).all(|i| client.ask(&format!("strlen k:{i}")) == "60000"));
    // Removed values make room once the collector has found them.
    for i in 0..stored / 2 {
        assert_eq!(client.ask(&format!("del k:{i}")), "1");
    }
    let began = Instant::now();
    while client.ask(&format!("set again {value}")) != "OK" {
        assert!(began.elapsed() < Duration::from_secs(120), "there is no room");
    }
}

fn signal(server: &mut Server, name: &str) {
    let kill = format!("kill -{name} {}", server.process().id());
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
}

#[test]
fn a_signal_ends_it_as_it_should() {
    let folder = tempfile::tempdir().unwrap();
    let (pid, told) = (folder.path().join("pid"), folder.path().join("told"));
    let pidfile = format!("pidfile {}", pid.display());
    let manager = UnixDatagram::bind(&told).unwrap();
    let mut acknowledged = 0;
    for (round, name) in ["TERM", "INT", "TERM"].into_iter().enumerate() {
        let port = free_port();
        let logfile = format!("logfile {}", folder.path().join(format!("log{round}")).display());
        let arguments = ["--threads", "2", "--set", &logfile, "--set", &pidfile];
        let mut command = Server::command(folder.path(), port, &arguments);
        let process = command.env("NOTIFY_SOCKET", &told).spawn().unwrap();
        let mut server = Server::wait_for(process, port);
        let next = || {
            let mut bytes = [0; 100];
            let len = manager.recv(&mut bytes).unwrap();
            String::from_utf8(bytes[..len].to_vec()).unwrap()
        };
        assert_eq!(next(), "READY=1");
        assert_eq!(std::fs::read_to_string(&pid).unwrap().trim(), server.process().id().to_string());
        let client = &mut server.client();
        assert_eq!(client.ask("get n"), if round == 0 { "nil".to_owned() } else { acknowledged.to_string() });
        // Two clients that write, and one that waits.
        let mut other = server.client();
        let mut waits = server.client();
        waits.send("blpop nothing 0");
        // One small write, which the server should read wholly or not at all.
        client.try_send(&b"incr n\r\n".repeat(1000));
        other.try_send(&b"incr m\r\n".repeat(1000));
        acknowledged = client.reply().parse::<i64>().unwrap();
        signal(&mut server, name);
        let mut rest = String::new();
        client.rest(&mut rest);
        // All replies are whole. The next round, if there is one, checks that each executed command was
        // answered.
        assert!(rest.is_empty() || rest.ends_with("\r\n"), "{rest:?}");
        acknowledged += rest.lines().count() as i64;
        assert_eq!(next(), "STOPPING=1");
        let status = server.process().wait().unwrap();
        assert_eq!((status.code(), status.signal()), (Some(0), None));
        assert!(!pid.exists());
        let log = std::fs::read_to_string(folder.path().join(format!("log{round}"))).unwrap();
        assert!(log.contains(&format!("SIG{name} ends the server")), "{log}");
        // The heap was closed, and had been closed at the end of the round before, if there was one.
        assert!(log.contains("which was closed in") && !log.contains("was not closed"), "{log}");
    }
}

#[test]
fn a_log_is_as_long_as_it_may_be() {
    let folder = tempfile::tempdir().unwrap();
    // All values together are several times as long as the log may be before it is folded into the heap's
    // file. (A line may have 64 KiB.)
    let server = Server::start(folder.path(), &["--set", "auto-aof-rewrite-min-size 128kb"]);
    let mut client = server.client();
    let value = "x".repeat(32 << 10);
    (0..32).for_each(|i| assert_eq!(client.ask(&format!("SET {i} {value}")), "OK"));
    let info = client.ask("INFO");
    assert!(!info.contains("heap_checkpoints:0"), "{info}");
    assert_eq!(client.ask("CONFIG GET auto-aof-rewrite-min-size"), "[auto-aof-rewrite-min-size 131072]");
}

#[test]
fn nobody_holds_up_the_end() {
    let (folder, port) = (tempfile::tempdir().unwrap(), free_port());
    let metrics = format!("127.0.0.1:{port}");
    let mut server = Server::start(folder.path(), &["--durability", "process", "--metrics", &metrics]);
    // Many connections without a request. To wait for one after the other would take too long.
    let silent: Vec<TcpStream> = (0..100).map(|_| TcpStream::connect(("127.0.0.1", port)).unwrap()).collect();
    let began = Instant::now();
    signal(&mut server, "TERM");
    assert_eq!(server.process().wait().unwrap().code(), Some(0));
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    drop(silent);
    // A client that does not read its replies gets some time to do so. If a signal comes in that time, after
    // a SHUTDOWN, the server still ends with success.
    let mut server = Server::start(folder.path(), &["--durability", "process"]);
    let mut slow = server.client();
    assert_eq!(slow.ask(&format!("SET long {}", "x".repeat(60_000))), "OK");
    slow.try_send(&b"GET long\r\n".repeat(1000));
    let client = &mut server.client();
    while !client.ask("CLIENT LIST").contains("cmd=get") {}
    client.send("SHUTDOWN");
    client.read_to_end();
    signal(&mut server, "TERM");
    assert_eq!(server.process().wait().unwrap().code(), Some(0));
}
