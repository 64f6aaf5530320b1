//! What those need who run a server: its log.

mod common;

use std::path::Path;
use std::time::{Duration, Instant};

use common::{Server, converse, free_port};

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

/// Waits until the log has a line with this. There are no limits of time that a slow machine may miss.
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
    // A client that is closed for its limits.
    assert_eq!(client.ask("CONFIG SET client-query-buffer-limit 1mb"), "OK");
    let mut endless = server.client();
    endless.try_send(b"*2\r\n$4\r\nECHO\r\n$100000000\r\n");
    endless.try_send(&vec![b'x'; 2 << 20]);
    endless.read_to_end();
    assert!(wait_for_line(folder.path(), "client-query-buffer-limit").contains(" WARN "));
    // Copies, whether they succeed or not.
    assert_eq!(client.ask("SAVE"), "OK");
    wait_for_line(folder.path(), "copied the heap to");
    converse(client, &[("CONFIG SET dbfilename absent/copy", "OK")]);
    assert!(client.ask("SAVE").starts_with("-ERR"));
    assert!(wait_for_line(folder.path(), "failed").contains(" WARN "));
    // Scripts.
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
    // The file may be moved away, as those do who keep old ones.
    std::fs::rename(log_path(folder.path()), folder.path().join("old")).unwrap();
    assert_eq!(client.ask("EVAL 'redis.log(redis.LOG_NOTICE, ARGV[1])' 0 four"), "nil");
    wait_for_line(folder.path(), "INFO script: four");
    let old = std::fs::read_to_string(folder.path().join("old")).unwrap();
    assert!(!old.contains("begins") && !old.contains("one") && !old.contains("three"), "{old}");
}
