//! Tests for which commits replies wait. The log of most of these servers is synced only on request, unless
//! the test changes `appendfsync`.

use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::*;
use crate::clients::Profile;
use crate::command::{self, Keys};
use crate::config::Config;
use crate::data::{Settings, Store};

struct NoClients;

impl Meanwhile for NoClients {
    fn serve_others(&mut self) {}
}

struct Client {
    server: Server,
    session: Session,
    counted: Counted,
}

fn session() -> Session {
    Session::new(Arc::new(Profile::nobody()), true)
}

impl Client {
    fn new(path: &Path, settings: Settings) -> Client {
        Client::of(path, settings, 1)
    }

    fn of(path: &Path, settings: Settings, shards: u32) -> Client {
        let store = Store::open(path, settings, shards).unwrap();
        let server = Server::new(store, Config::default(), Vec::new(), command::all_commands().count());
        Client { server, session: session(), counted: Vec::new() }
    }

    /// Runs commands, and returns their commits that are not durable: the replies wait for them with
    /// `appendfsync always`, the default.
    fn run(&mut self, commands: &[&str]) -> Vec<Commit> {
        run(&self.server, &mut self.session, &mut self.counted, commands)
    }
}

fn run(server: &Server, session: &mut Session, counted: &mut Counted, commands: &[&str]) -> Vec<Commit> {
    let (mut reply, mut effects, mut commits) = (Reply::new(false), Effects::default(), Vec::new());
    let mut input = Input::default();
    commands.iter().for_each(|command| input.append(format!("{command}\r\n").as_bytes()));
    let output = Output { reply: &mut reply, effects: &mut effects, commits: &mut commits, counted };
    let (clock, meanwhile) = (Instant::now(), &mut NoClients);
    let mut execution = Execution { server, session, output, thread: 0, clock, meanwhile };
    while !matches!(execution.run(&mut input), Stop::Nothing) {}
    assert!(!reply.take().starts_with(b"-"), "{commands:?}");
    commits.retain(|commit| !commit.is_durable());
    commits
}

#[test]
fn a_read_waits_for_writes_to_its_keys() {
    let folder = tempfile::tempdir().unwrap();
    let mut client = Client::new(&folder.path().join("heap"), Settings::QUIET_LOG);
    let [set] = &client.run(&["set a 1"])[..] else { panic!("it waits for its transaction") };
    for read in
        ["get a", "mget b a", "exists a", "type a", "object encoding a", "dbsize", "keys *", "randomkey"]
    {
        assert_eq!(client.run(&[read]).len(), 1, "{read}");
    }
    for read in ["get b", "mget b c", "exists b", "ttl c", "ping", "config get appendfsync"] {
        assert!(client.run(&[read]).is_empty(), "{read}");
    }
    set.wait().unwrap();
    client.server.unsynced.uncount(&mut client.counted);
    for (number, write) in
        ["set b 2", "expire b 100", "rename b c", "lpush l 1 2", "del l"].iter().enumerate()
    {
        let key = if number < 2 {
            "b"
        } else if number == 2 {
            "c"
        } else {
            "l"
        };
        let written = client.run(&[write]);
        assert_eq!((written.len(), client.run(&[&format!("type {key}")]).len()), (1, 1), "{write}");
        assert!(client.run(&["get a"]).is_empty(), "{write}");
        written[0].wait().unwrap();
        client.server.unsynced.uncount(&mut client.counted);
        assert!(client.run(&[&format!("type {key}")]).is_empty());
    }
}

/// The keys of `FLUSHALL`, `EVAL` and `SWAPDB` are unknown, so every read waits for these writes.
#[test]
fn a_read_waits_for_writes_that_may_be_to_any_key() {
    let folder = tempfile::tempdir().unwrap();
    let mut client = Client::new(&folder.path().join("heap"), Settings::QUIET_LOG);
    for write in ["flushall", "eval \"return redis.call('set', 'x', 'y')\" 0", "swapdb 0 1"] {
        client.run(&["set a 1"]);
        let Some(last) = client.run(&[write]).pop() else { panic!("{write}") };
        // Drops the record of the first write, whose key is known.
        client.counted.remove(0);
        assert_eq!(client.run(&["get b"]).len(), 1, "{write}");
        last.wait().unwrap();
        client.counted.clear();
        client.server.unsynced = Default::default();
        assert!(client.run(&["get b"]).is_empty());
    }
    // The queued writes of a transaction count like single writes.
    client.run(&["multi", "set a 2", "exec"]);
    assert_eq!((client.run(&["get a"]).len(), client.run(&["get b"]).len()), (1, 0));
}

/// All commits are in front of the last one, so a reply that waits for the last one waits for all.
#[test]
fn a_reply_waits_for_all_that_comes_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut client = Client::new(&folder.path().join("heap"), Settings::QUIET_LOG);
    let commits = client.run(&["set a 1", "get b", "get a", "set b 2", "get a"]);
    assert!(commits.len() >= 3 && commits.iter().all(|commit| commit.is_before(commits.last().unwrap())));
}

/// A read is not counted as a write, and single reads wait only for writes to their keys. `EXEC` waits for
/// all writes to its shards.
#[test]
fn reads_of_several_shards_are_reads() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("heap");
    let mut client = Client::of(&path, Settings::QUIET_LOG, 16);
    let places = |keys: &[&str]| {
        keys.iter().map(|key| client.server.store.shard_of(key.as_bytes())).collect::<Vec<_>>()
    };
    let [a, b, c] = places(&["a", "b", "c"])[..] else { panic!("three") };
    assert!(a != b && b != c && a != c);
    client.run(&["set a 1"]);
    for read in ["mget b c", "exists c b", "sunion b c"] {
        assert!(client.run(&[read]).is_empty(), "{read}");
    }
    assert_eq!(client.run(&["mget a b"]).len(), 1);
    assert_eq!(client.run(&["multi", "get b", "mget b c", "exec"]).len(), 1);
    assert_eq!(client.counted.len(), 1);
    assert!(client.run(&["get b"]).is_empty());
}

/// The reply of `EXEC` reveals a write to the watched key, whose shard may be outside the queued commands'
/// shards.
#[test]
fn who_is_told_that_a_watched_key_has_changed_waits_for_that() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("heap");
    let mut client = Client::of(&path, Settings::QUIET_LOG, 16);
    assert!(client.server.store.shard_of(b"a") != client.server.store.shard_of(b"b"));
    for queued in ["set b 1", "get b", "get a", "ping"] {
        for write in ["set a 1", "flushall", "eval \"return redis.call('set', 'a', 'y')\" 0"] {
            assert!(client.run(&["watch a", "multi", queued]).is_empty());
            let (mut other, mut counted) = (session(), Vec::new());
            let written = run(&client.server, &mut other, &mut counted, &[write]);
            let told = client.run(&["exec"]);
            let (Some(written), Some(told)) = (written.last(), told.last()) else {
                panic!("{queued} and {write}: it waits for nothing")
            };
            assert!(written.is_before(told), "{queued} and {write}");
            written.wait().unwrap();
            client.counted.clear();
            client.server.unsynced = Default::default();
        }
    }
}

/// Each of two transactions writes the key that the other one watches, so exactly one must fail.
#[test]
fn of_two_who_watch_what_the_other_one_writes_one_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("heap");
    let Client { server, .. } = Client::of(&path, Settings::QUIET_LOG, 16);
    assert!(server.store.shard_of(b"a") != server.store.shard_of(b"b"));
    let both = std::sync::Barrier::new(2);
    let once = |watched: &str, written: &str| {
        let (mut session, mut counted) = (session(), Vec::new());
        let (watch, read) = (format!("watch {watched}"), format!("get {written}"));
        let set = format!("set {written} 1");
        let mut commands = vec![&watch[..], "multi"];
        commands.extend(std::iter::repeat_n(&read[..], 200));
        commands.push(&set);
        run(&server, &mut session, &mut counted, &commands);
        both.wait();
        run(&server, &mut session, &mut counted, &["exec"]);
        both.wait();
    };
    for _ in 0..300 {
        run(&server, &mut session(), &mut Vec::new(), &["del a b"]);
        std::thread::scope(|scope| {
            scope.spawn(|| once("a", "b"));
            once("b", "a");
        });
        let there = |key: &str| {
            let shard = server.store.root(server.store.shard_of(key.as_bytes()));
            shard
                .read_deferred(|view, root| {
                    view[view[root].dbs.at(view, 0)].get(view, key.as_bytes(), now()).is_some()
                })
                .unwrap()
                .0
        };
        assert!(there("a") != there("b"), "both of them, or none");
    }
}

/// If no reply waits, a write is counted only until its thread's turn ends, durable or not. The change of
/// `appendfsync` to `always` must therefore sync the write.
#[test]
fn what_was_written_while_no_reply_waited_is_synced_when_they_begin_to() {
    let folder = tempfile::tempdir().unwrap();
    let mut client = Client::new(&folder.path().join("heap"), Settings::QUIET_LOG);
    client.run(&["config set appendfsync no"]);
    let [set] = &client.run(&["set a 1"])[..] else { panic!("nobody has synced it") };
    client.run(&["config set appendfsync always"]);
    assert!(set.is_durable());
    // `CONFIG SET` in a transaction must sync earlier writes, too.
    client.run(&["config set appendfsync everysec"]);
    let [set] = &client.run(&["set a 2"])[..] else { panic!("nobody has synced it") };
    client.run(&["multi", "set b 1", "config set appendfsync always", "get a", "exec"]);
    assert!(set.is_durable() && client.run(&["get b"]).len() == 1);
}

/// Each client sets one option and must not undo the change of the other one.
#[test]
fn two_who_change_options_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let Client { server, .. } = Client::new(&folder.path().join("heap"), Settings::QUIET_LOG);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut session = session();
            for number in (1..).take_while(|_| !is_over.load(Relaxed)) {
                run(
                    &server,
                    &mut session,
                    &mut Vec::new(),
                    &[&format!("config set slowlog-max-len {number}")],
                );
            }
        });
        let mut session = session();
        for policy in ["always", "no"].iter().cycle().take(2000) {
            run(&server, &mut session, &mut Vec::new(), &[&format!("config set appendfsync {policy}")]);
            let said = server.config.read().text("appendfsync") == "always";
            if said != (*policy == "always") || server.options.always.load(Relaxed) != said {
                is_over.store(true, Relaxed);
                panic!("{policy}: it says that it waits: {said}");
            }
        }
        is_over.store(true, Relaxed);
    });
}

/// `MIGRATE` sends a key only when it is durable here.
#[test]
fn what_migrates_is_durable() {
    let folder = tempfile::tempdir().unwrap();
    let mut client = Client::new(&folder.path().join("heap"), Settings::QUIET_LOG);
    let [set] = &client.run(&["set a 1"])[..] else { panic!("nobody has synced it") };
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let was_durable = std::thread::scope(|scope| {
        let target = scope.spawn(|| {
            let mut stream = listener.accept().unwrap().0;
            stream.read_exact(&mut [0; 100][..1]).unwrap();
            let was_durable = set.is_durable();
            stream.write_all(b"+OK\r\n+OK\r\n").unwrap();
            was_durable
        });
        client.run(&[&format!("migrate 127.0.0.1 {port} a 0 5000")]);
        target.join().unwrap()
    });
    assert!(was_durable);
}

/// Only the first command changes anything. The others may run in transactions, too, and must not be counted.
#[test]
fn what_changes_nothing_is_not_counted() {
    let folder = tempfile::tempdir().unwrap();
    let mut client = Client::new(&folder.path().join("heap"), Settings::QUIET_LOG);
    client.run(&["set a 1", "info keyspace", "function list", "function dump"]);
    assert_eq!(client.counted.len(), 1);
    assert!(client.run(&["get b"]).is_empty());
}

/// Commands that touch keys and change nothing, without the flag `READONLY`, must not count as writes.
#[test]
fn these_change_nothing_though_their_flags_do_not_say_so() {
    let has_keys = |known: &KnownCommand| !matches!(known.keys, Keys::None);
    let looks = |known: &KnownCommand| !known.may_write() && !known.flags.has(Flags::READONLY);
    let names: Vec<_> = command::all_commands()
        .filter(|known| has_keys(known) && looks(known))
        .map(|known| known.name)
        .collect();
    assert_eq!(names, ["debug", "info", "function|dump", "function|list"]);
}

#[test]
fn no_write_is_counted_without_a_log() {
    let folder = tempfile::tempdir().unwrap();
    for (number, settings) in [Settings::Process, Settings::Pmem].into_iter().enumerate() {
        let mut client = Client::new(&folder.path().join(format!("heap {number}")), settings);
        assert!(client.run(&["set a 1", "get a"]).is_empty() && client.counted.is_empty());
    }
}
