//! Options as Redis has them, files that a Redis has left, and files that the server must not replace.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::common::{Client, Server, converse, free_port};

const BINARY: &str = env!("CARGO_BIN_EXE_pheap-redis");

/// Runs a server that must refuse to start. Returns its message.
fn refused(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), told.starts_with("pheap-redis: ")), (Some(1), true), "{told}");
    told
}

/// Writes a file.
fn file(folder: &Path, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

/// Writes an RDB file in which `key` is `value`.
fn rdb(folder: &Path, name: &str) -> PathBuf {
    file(folder, name, b"REDIS0010\xfe\x00\x00\x03key\x05value\xff\0\0\0\0\0\0\0\0")
}

/// Returns the content of a file, or nothing if it cannot be read.
fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

#[test]
fn copies_replace_only_copies() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().display().to_string();
    let server = Server::start(
        folder.path(),
        &["--dir", &dir, "--enable-protected-configs", "yes", "--dbfilename", "dump.rdb"],
    );
    let client = &mut server.client();
    let dump = rdb(folder.path(), "dump.rdb");
    let before = std::fs::read(&dump).unwrap();
    for command in ["SAVE", "BGSAVE"] {
        let told = client.ask(command);
        assert!(
            told.contains("is an RDB file") && told.contains("set `dbfilename` to another name"),
            "{told}"
        );
    }
    assert_eq!(std::fs::read(&dump).unwrap(), before);
    // Another name, as the message advises.
    converse(
        client,
        &[("CONFIG SET dbfilename copy", "OK"), ("SAVE", "OK"), ("SET a 1", "OK"), ("SAVE", "OK")],
    );
    // A file may have the name of an unfinished copy.
    let letter = file(folder.path(), "copy.new", "a letter");
    assert!(client.ask("SAVE").contains("copy.new is no heap, so it is not replaced"));
    assert_eq!(text(&letter), "a letter");
    std::fs::remove_file(&letter).unwrap();
    assert_eq!(client.ask("SAVE"), "OK");
    // The heap itself, a link to it, and the heap of another server.
    std::os::unix::fs::symlink(folder.path().join("heap"), folder.path().join("link")).unwrap();
    let other = tempfile::tempdir().unwrap();
    let _other = Server::start(other.path(), &[]);
    std::fs::hard_link(other.path().join("heap"), folder.path().join("other")).unwrap();
    for name in ["heap", "link", "other"] {
        assert_eq!(client.ask(&format!("CONFIG SET dbfilename {name}")), "OK");
        let told = client.ask("SAVE");
        assert!(told.contains("is a heap that is open"), "{told}");
    }
    assert!(client.ask("CONFIG SET dbfilename ../copy").contains("in the folder `dir`"));
    drop(server);
    let server = Server::start(folder.path(), &[]);
    let protected =
        "-ERR CONFIG SET failed (possibly related to argument 'dbfilename') - can't set protected config";
    converse(&mut server.client(), &[("GET a", "1"), ("CONFIG SET dbfilename copy", protected)]);
}

#[test]
fn nothing_else_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let heap = folder.path().join("heap");
    let (letter, pid) = (file(folder.path(), "letter", "dear"), file(folder.path(), "pid", "dear"));
    let port = free_port();
    let process = Server::spawn(folder.path(), port, &["--pidfile", pid.to_str().unwrap()]);
    let mut server = Server::wait_for(process, port);
    assert_eq!(text(&pid), "dear");
    let client = &mut server.client();
    assert_eq!(client.ask("SET a 1"), "OK");
    client.send("SHUTDOWN");
    client.read_to_end();
    server.process().wait().unwrap();
    let export = |name: &str| {
        let mut command = Command::new(BINARY);
        command.arg("--heap").arg(&heap).arg("--export").arg(folder.path().join(name));
        command
    };
    assert!(refused(&mut export("letter")).contains("letter is there already, and is not replaced"));
    let unfinished = file(folder.path(), "new.rdb.new", "dear");
    assert!(refused(&mut export("new.rdb")).contains("new.rdb.new is there already"));
    assert_eq!((text(&letter), text(&unfinished)), ("dear".into(), "dear".into()));
    std::fs::remove_file(&unfinished).unwrap();
    assert!(export("new.rdb").status().unwrap().success() && !unfinished.exists());
    assert!(refused(&mut export("new.rdb")).contains("is there already"));
}

#[test]
fn the_log_is_not_appended_to_a_heap() {
    let folder = tempfile::tempdir().unwrap();
    let heap = folder.path().join("dump.heap");
    pheap::Heap::open(&heap).unwrap().close().unwrap();
    let before = std::fs::metadata(&heap).unwrap().len();
    let arguments = ["--logfile", heap.to_str().unwrap()];
    let told = refused(&mut Server::command(folder.path(), free_port(), &arguments));
    assert!(told.contains("dump.heap: it belongs to a heap; set `logfile` to"), "{told}");
    assert_eq!(std::fs::metadata(&heap).unwrap().len(), before);
}

#[test]
fn the_log_may_be_a_pipe() {
    let (folder, port) = (tempfile::tempdir().unwrap(), free_port());
    let mut command = Server::command(folder.path(), port, &["--logfile", "/dev/stdout"]);
    let server = Server::wait_for(command.stdout(Stdio::piped()).spawn().unwrap(), port);
    assert_eq!(server.client().ask("PING"), "PONG");
}

#[test]
fn what_redis_has_left_is_seen_and_imported() {
    let folder = tempfile::tempdir().unwrap();
    let (dump, log) = (rdb(folder.path(), "dump.rdb"), folder.path().join("log"));
    let dir = folder.path().display().to_string();
    let start = |arguments: &[&str]| {
        let port = free_port();
        let all =
            [&["--dir", &dir, "--dbfilename", "dump.rdb", "--logfile", log.to_str().unwrap()], arguments]
                .concat();
        let mut command = Server::command(folder.path(), port, &all);
        (command.stderr(Stdio::piped()).spawn().unwrap(), port)
    };
    let said = |(mut process, port): (Child, u16)| {
        let mut stderr = process.stderr.take().unwrap();
        let server = Server::wait_for(process, port);
        let key = server.client().ask("GET key");
        drop(server);
        let mut told = String::new();
        std::io::Read::read_to_string(&mut stderr, &mut told).unwrap();
        (key, told)
    };
    let (key, told) = said(start(&[]));
    assert_eq!(key, "nil");
    for told in [told, text(&log)] {
        assert!(told.contains("dump.rdb has data of a Redis, which are not served"), "{told}");
    }
    // `--import auto`, as the message advises. The second time, there is nothing to do.
    for _ in 0..2 {
        assert_eq!(said(start(&["--import", "auto"])).0, "value");
    }
    assert!(dump.exists() && !said(start(&[])).1.contains("dump.rdb has data"));
    // The log of a Redis may be newer than its RDB file.
    for name in ["heap", "heap.wal"] {
        std::fs::remove_file(folder.path().join(name)).unwrap();
    }
    std::fs::create_dir(folder.path().join("appendonlydir")).unwrap();
    file(folder.path(), "appendonlydir/appendonly.aof.1.incr.aof", "");
    let output = start(&["--import", "auto"]).0.wait_with_output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && told.contains("appendonlydir is the log (AOF) of a Redis"), "{told}");
    assert!(told.contains("`--appendonly no`"), "{told}");
    assert!(said(start(&[])).1.contains("appendonlydir is the log (AOF) of a Redis"));
    assert_eq!(said(start(&["--import", "auto", "--appendonly", "no"])).0, "value");
}

#[test]
fn options_that_would_leave_the_door_open_refuse_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let inside = file(folder.path(), "inside.conf", "port 1\n\nuser default on >secret ~* &* +@all\n");
    let include = format!("include {}", inside.display());
    for (line, why) in [
        ("user default off", "redis.conf, line 2: user: this server has no users except `default`"),
        (
            "rename-command FLUSHALL \"\"",
            "redis.conf, line 2: rename-command: this server cannot rename or disable commands",
        ),
        ("requirepas secret", "redis.conf, line 2: requirepas: there is no such option"),
        (include.as_str(), "inside.conf, line 3: user: this server has no users except `default`"),
    ] {
        let conf = file(folder.path(), "redis.conf", format!("# mine\n{line}\n"));
        let told = refused(Command::new(BINARY).arg(conf).arg("--dir").arg(folder.path()));
        assert!(told.contains(why), "{told}");
    }
    let heap = ["--heap", "/dev/null/none"];
    for (arguments, why) in [
        (&["--aclfile", "users.acl"][..], "command line: aclfile: this server has no users except `default`"),
        (&["--port", "1", "--set", "port 2"], "gives `port` two values"),
        (&["--threads", "2", "--io-threads", "3"], "gives `io-threads` two values"),
        (&["--replicaof", "a", "1", "--import", "auto"], "give one of them"),
    ] {
        let told = refused(Command::new(BINARY).args(heap).args(arguments));
        assert!(told.contains(why), "{told}");
    }
    assert!(!folder.path().join("dump.heap").exists());
}

#[test]
fn started_as_redis_is() {
    let folder = tempfile::tempdir().unwrap();
    let (dir, port) = (folder.path().display().to_string(), free_port());
    let secret = file(folder.path(), "secret.conf", "requirepass secret\n");
    let start = |arguments: &[&str], input: &str| {
        let mut command = Command::new(BINARY);
        command
            .args(arguments)
            .args(["--port", &port.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null());
        if arguments.contains(&"--bind") {
            command.arg("-");
        }
        let mut process = command.spawn().unwrap();
        process.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        Server::wait_for(process, port)
    };
    let ask = |server: &Server, lines: &[(&str, &str)]| converse(&mut server.client(), lines);
    // Options as in Docker images.
    let server = start(&["--save", "60", "1", "--loglevel", "warning", "--dir", &dir], "");
    ask(
        &server,
        &[
            ("CONFIG GET save", "[save 60 1]"),
            ("CONFIG GET loglevel", "[loglevel warning]"),
            ("SET a 1", "OK"),
        ],
    );
    drop(server);
    let server = start(
        &[
            "--save",
            "",
            "--appendonly",
            "yes",
            "--requirepass",
            "x",
            "--bind",
            "127.0.0.1",
            "-::1",
            "--dir",
            &dir,
        ],
        "requirepass y\nmaxclients 77\n",
    );
    let lines = [("GET a", "-NOAUTH Authentication required."), ("AUTH x", "OK"), ("GET a", "1")];
    ask(&server, &lines);
    ask(&server, &[("AUTH x", "OK"), ("CONFIG GET maxclients", "[maxclients 77]")]);
    drop(server);
    // `CONFIG REWRITE` changes the configuration file.
    let text_before = format!("include {}\nport 1\n", secret.display());
    let conf = file(folder.path(), "redis.conf", &text_before);
    let server =
        start(&[conf.to_str().unwrap(), "--dir", &dir, "--supervised", "systemd", "--daemonize", "no"], "");
    ask(
        &server,
        &[("PING", "-NOAUTH Authentication required."), ("AUTH secret", "OK"), ("CONFIG REWRITE", "OK")],
    );
    assert!(
        text(&conf).starts_with(&format!("include {}\nport {port}\n", secret.display())),
        "{}",
        text(&conf)
    );
}

/// The server starts with the unchanged file of Debian's package, if the test can read it.
#[test]
fn the_file_of_debian() {
    let folder = tempfile::tempdir().unwrap();
    let (log, port) = (folder.path().join("log"), free_port());
    if std::fs::read("/etc/redis/redis.conf").is_err() {
        return; // The file is absent, or only its owner may read it.
    }
    let in_folder = |name: &str| folder.path().join(name).display().to_string();
    let mut command = Command::new(BINARY);
    command
        .args(["/etc/redis/redis.conf", "--port", &port.to_string(), "--dir", &in_folder("")])
        .args(["--logfile", &in_folder("log"), "--pidfile", &in_folder("none/pid")])
        .stderr(Stdio::piped());
    let mut process = command.spawn().unwrap();
    let mut stderr = process.stderr.take().unwrap();
    let server = Server::wait_for(process, port);
    let mut client: Client = server.client();
    converse(&mut client, &[("SET a 1", "OK"), ("CONFIG GET appendfsync", "[appendfsync everysec]")]);
    drop(server);
    let mut told = String::new();
    std::io::Read::read_to_string(&mut stderr, &mut told).unwrap();
    for told in [told, text(&log)] {
        for sentence in [
            "`daemonize yes` does nothing",
            "with `appendfsync everysec`, a power failure may lose",
            "these options do nothing here: ",
            "always-show-logo",
            "the server runs without a pidfile; set `pidfile` to another path",
        ] {
            assert_eq!(told.matches(sentence).count(), 1, "{sentence}: {told}");
        }
    }
}

#[test]
fn memory_that_does_not_outlive_power_takes_consent() {
    // The build is mostly on a disk, with neither DAX nor tmpfs.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let heap = pheap::Heap::open(folder.path().join("probe")).unwrap();
    let is_disk = heap.info().offered == Some(pheap::Durability::Wal);
    heap.close().unwrap();
    if is_disk {
        let told = refused(&mut Server::command(folder.path(), free_port(), &["--durability", "pmem"]));
        assert!(told.contains("neither DAX nor tmpfs") && told.contains("`--without-dax`"), "{told}");
        assert!(!folder.path().join("heap").exists());
    }
    let server = Server::start(folder.path(), &["--durability", "pmem", "--without-dax"]);
    assert_eq!(server.client().ask("SET a 1"), "OK");
}
