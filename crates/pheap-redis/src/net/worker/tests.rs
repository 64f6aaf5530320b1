//! Tests: what a thread does, step by step.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering::Relaxed;

use super::*;
use crate::clients::Profile;
use crate::clients::client::Session;
use crate::clients::waiting::Wakeup;
use crate::command::{self, Effects};
use crate::config::Config;
use crate::connections::stream::Stream;
use crate::data::{Settings, Store};
use crate::execute::{Execution, Output};
use crate::resp::input::Input;
use crate::scripts::Slow;

/// A server with one thread.
struct Setup {
    folder: Option<tempfile::TempDir>,
    server: Server,
    worker: Worker,
}

impl Setup {
    fn new() -> Setup {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("heap"), Settings::QUIET_LOG, 1).unwrap();
        let worker = Worker::new().unwrap();
        let threads = vec![worker.mailbox()];
        let server = Server::new(store, Config::default(), threads, command::all().count());
        Setup { folder: Some(folder), server, worker }
    }
}

fn connect(turn: &mut Turn<'_>) -> UnixStream {
    let (here, there) = UnixStream::pair().unwrap();
    there.set_nonblocking(true).unwrap();
    turn.connect(Stream::Unix(mio::net::UnixStream::from_std(there)));
    here
}

/// What another thread has done.
fn elsewhere(server: &Server, command: &str) -> (Effects, Vec<pheap::Commit>) {
    let (mut reply, mut effects, mut input) = (Reply::new(false), Effects::default(), Input::default());
    let (mut commits, mut counted) = (Vec::new(), Vec::new());
    let output =
        Output { reply: &mut reply, effects: &mut effects, commits: &mut commits, counted: &mut counted };
    input.append(command.as_bytes());
    let mut session = Session::new(Arc::new(Profile::nobody()), true);
    let (session, clock, meanwhile) = (&mut session, Instant::now(), &mut Nobody);
    Execution { server, session, output, thread: 1, clock, meanwhile }.run(&mut input);
    assert!(!reply.take().starts_with(b"-"), "{command}");
    (effects, commits)
}

struct Nobody;

impl Meanwhile for Nobody {
    fn serve_others(&mut self) {}
}

#[test]
fn who_waits_for_a_key_is_answered_while_the_server_ends() {
    let Setup { server, worker, .. } = &mut Setup::new();
    let (worker, server) = (std::mem::replace(worker, Worker::new().unwrap()), &*server);
    let (mut turn, mut events) = (worker.into_turn(server, 0, Vec::new()), Events::with_capacity(8));
    let mut client = connect(&mut turn);
    client.write_all(b"BLPOP list 0\r\n").unwrap();
    while server.stats.blocked.load(Relaxed) == 0 {
        turn.turn(&mut events, TICK).unwrap();
    }
    // Nobody else asks for a sync.
    server.store.heap().sync().unwrap();
    // This thread hears of it when it runs no commands any more.
    let signals = elsewhere(server, "RPUSH list value\r\n").0.signals.into_iter().collect();
    turn.mailbox.post(Message::Wake(Wakeup { signals, ..Wakeup::default() }));
    turn.finish(&mut events).unwrap();
    drop(turn);
    let mut told = String::new();
    client.shutdown(Shutdown::Write).unwrap();
    client.read_to_string(&mut told).unwrap();
    assert_eq!(told, "*2\r\n$4\r\nlist\r\n$5\r\nvalue\r\n");
}

/// Takes turns until a client is told something, or that it is told no more. What it is told.
fn told(turn: &mut Turn<'_>, client: &mut UnixStream) -> String {
    client.set_nonblocking(true).unwrap();
    let (mut events, mut buffer) = (Events::with_capacity(8), [0; 100]);
    loop {
        turn.turn(&mut events, Duration::from_millis(1)).unwrap();
        match client.read(&mut buffer) {
            Ok(len) => return String::from_utf8_lossy(&buffer[..len]).into_owned(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// Lets `f` have a server whose disk fails when it is first asked for a sync, and a client of it.
fn with_failing_disk(f: impl FnOnce(&mut Turn<'_>, &mut UnixStream)) {
    let Setup { folder, server, worker } = Setup::new();
    let mut turn = worker.into_turn(&server, 0, Vec::new());
    let mut client = connect(&mut turn);
    elsewhere(&server, "RPUSH list value\r\n");
    // Who syncs finds that the heap is gone.
    folder.unwrap().close().unwrap();
    f(&mut turn, &mut client);
}

#[test]
fn a_reply_waits_for_writes_that_had_none() {
    with_failing_disk(|turn, client| {
        client.write_all(b"CLIENT REPLY SKIP\r\nSET a 1\r\n").unwrap();
        while turn.server.stats.dirty.load(Relaxed) == 0 {
            turn.turn(&mut Events::with_capacity(8), TICK).unwrap();
        }
        // It is closed at once, or when it has said this.
        let _ = client.write_all(b"PING\r\n");
        assert_eq!(told(turn, client), "");
    });
}

#[test]
fn that_nothing_came_is_told_when_that_is_durable() {
    with_failing_disk(|turn, client| {
        elsewhere(turn.server, "LPOP list\r\n");
        client.write_all(b"BLPOP list 0.001\r\n").unwrap();
        assert_eq!(told(turn, client), "");
    });
    // Also what it sees when it looks again.
    let Setup { folder: _folder, server, worker } = Setup::new();
    let mut turn = worker.into_turn(&server, 0, Vec::new());
    let mut client = connect(&mut turn);
    client.write_all(b"BLPOP list 0\r\n").unwrap();
    while server.stats.blocked.load(Relaxed) == 0 {
        turn.turn(&mut Events::with_capacity(8), TICK).unwrap();
    }
    let signals = elsewhere(&server, "RPUSH list value\r\n").0.signals.into_iter().collect();
    let popped = elsewhere(&server, "LPOP list\r\n").1;
    turn.mailbox.post(Message::Wake(Wakeup { signals, ..Wakeup::default() }));
    // As if its time had come.
    let client_id = *turn.connections.keys().next().unwrap();
    turn.mailbox.post(Message::Unblock { client: client_id, with_error: false });
    assert_eq!(told(&mut turn, &mut client), "*-1\r\n");
    assert!(popped[0].is_durable());
}

/// A key that is written to often makes a client that waits for it look once.
#[test]
fn a_key_is_looked_at_once() {
    let Setup { folder: _folder, server, worker } = Setup::new();
    let mut turn = worker.into_turn(&server, 0, Vec::new());
    let mut client = connect(&mut turn);
    client.write_all(b"BLPOP list 0\r\n").unwrap();
    while server.stats.blocked.load(Relaxed) == 0 {
        turn.turn(&mut Events::with_capacity(8), TICK).unwrap();
    }
    let writes = "LPUSH list 1\r\nLPUSH list 2\r\nLPUSH list 3\r\n";
    let script = "EVAL \"for i = 1, 100 do redis.call('rpush', KEYS[1], i) end\" 1 list\r\n";
    for command in [format!("MULTI\r\n{writes}EXEC\r\n"), script.to_owned()] {
        assert_eq!(elsewhere(&server, &command).0.signals.len(), 1, "{command}");
    }
}

/// A look that a slow script keeps a client from is none, and the one before it is still what it is told of.
#[test]
fn what_a_client_has_seen_counts_although_it_could_not_look_again() {
    let Setup { folder, server, worker } = Setup::new();
    server.gates.begin(); // as if there were another thread
    let mut turn = worker.into_turn(&server, 0, Vec::new());
    let mut client = connect(&mut turn);
    client.write_all(b"BLPOP list 0\r\n").unwrap();
    while server.stats.blocked.load(Relaxed) == 0 {
        turn.turn(&mut Events::with_capacity(8), TICK).unwrap();
    }
    server.store.heap().sync().unwrap();
    let signals: VecDeque<_> = elsewhere(&server, "RPUSH list value\r\n").0.signals.into_iter().collect();
    elsewhere(&server, "LPOP list\r\n");
    // Who syncs finds that the heap is gone.
    folder.unwrap().close().unwrap();
    turn.wake_waiters(Wakeup { signals: signals.clone(), ..Wakeup::default() });
    server.scripts.begin_slow(Arc::new(Slow {
        is_eval: true,
        is_of_master: false,
        name: String::new(),
        command: Vec::new(),
        started: Instant::now(),
        has_written: false.into(),
        is_killed: false.into(),
    }));
    let _script = server.gates.pass([0], true, &server.scripts).unwrap();
    turn.wake_waiters(Wakeup { signals, ..Wakeup::default() });
    // As if its time had come.
    let client_id = *turn.connections.keys().next().unwrap();
    turn.mailbox.post(Message::Unblock { client: client_id, with_error: false });
    assert_eq!(told(&mut turn, &mut client), "");
}

/// Takes turns until so many clients wait for keys.
fn until_blocked(turn: &mut Turn<'_>, clients: usize) {
    while turn.server.stats.blocked.load(Relaxed) != clients {
        turn.turn(&mut Events::with_capacity(8), TICK).unwrap();
    }
}

#[test]
fn who_has_gone_takes_nothing_from_a_list() {
    let Setup { folder: _folder, server, worker } = Setup::new();
    let mut turn = worker.into_turn(&server, 0, Vec::new());
    let (mut gone, mut pusher) = (connect(&mut turn), connect(&mut turn));
    gone.write_all(b"BLPOP list 0\r\n").unwrap();
    until_blocked(&mut turn, 1);
    // Both come to the thread in one turn, in this order.
    drop(gone);
    pusher.write_all(b"RPUSH list value\r\n").unwrap();
    assert_eq!(told(&mut turn, &mut pusher), ":1\r\n");
    pusher.write_all(b"LLEN list\r\n").unwrap();
    assert_eq!(told(&mut turn, &mut pusher), ":1\r\n");
}

/// Who is told what happens to a key.
fn listen(turn: &mut Turn<'_>, appendfsync: &str, key: &str) -> UnixStream {
    let mut listener = connect(turn);
    let config = format!("CONFIG SET notify-keyspace-events KA appendfsync {appendfsync}\r\n");
    listener.write_all(config.as_bytes()).unwrap();
    assert_eq!(told(turn, &mut listener), "+OK\r\n");
    listener.write_all(format!("SUBSCRIBE __keyspace@0__:{key}\r\n").as_bytes()).unwrap();
    assert!(told(turn, &mut listener).contains("subscribe"));
    listener
}

/// These happen, and the listener is told so in this order.
fn are_announced(turn: &mut Turn<'_>, listener: &mut UnixStream, events: &[&str]) {
    let mut announced = String::new();
    while !events.iter().all(|event| announced.contains(event)) {
        announced += &told(turn, listener);
    }
    assert!(events.is_sorted_by_key(|event| announced.find(event)), "{announced}");
}

#[test]
fn what_a_client_takes_is_announced_after_it_was_put_there() {
    for appendfsync in ["no", "always"] {
        let Setup { folder: _folder, server, worker } = Setup::new();
        let mut turn = worker.into_turn(&server, 0, Vec::new());
        let (mut taker, mut pusher) = (connect(&mut turn), connect(&mut turn));
        let mut listener = listen(&mut turn, appendfsync, "list");
        // Both come to the thread in one turn, in this order.
        taker.write_all(b"BLPOP list 0\r\n").unwrap();
        pusher.write_all(b"RPUSH list value\r\n").unwrap();
        are_announced(&mut turn, &mut listener, &["rpush", "lpop"]);
    }
}

/// Several things that clients have done, in turns, wait for the disk at the same time.
#[test]
fn what_was_done_is_announced_in_this_order() {
    let Setup { folder: _folder, server, worker } = Setup::new();
    let mut turn = worker.into_turn(&server, 0, Vec::new());
    let mut listener = listen(&mut turn, "always", "key");
    let (one, mut other) = (connect(&mut turn), connect(&mut turn));
    for _ in 0..20 {
        for (mut client, command) in
            [(&one, "SET key 1"), (&other, "INCR key"), (&one, "APPEND key 2"), (&other, "DEL key")]
        {
            client.write_all(format!("{command}\r\n").as_bytes()).unwrap();
            let before = server.stats.dirty.load(Relaxed);
            while server.stats.dirty.load(Relaxed) == before {
                turn.turn(&mut Events::with_capacity(8), Duration::ZERO).unwrap();
            }
        }
        // Who has done something last, and is gone, has done it all the same.
        drop(std::mem::replace(&mut other, connect(&mut turn)));
        are_announced(&mut turn, &mut listener, &["set", "incrby", "append", "del"]);
    }
}

/// Who is told that something was published may rely on it that it is sent before whatever comes then.
#[test]
fn what_is_published_is_sent_before_that_is_told() {
    let Setup { folder: _folder, server, worker } = Setup::new();
    let mut turn = worker.into_turn(&server, 0, Vec::new());
    let mut listener = listen(&mut turn, "always", "key");
    listener.write_all(b"SUBSCRIBE channel\r\n").unwrap();
    assert!(told(&mut turn, &mut listener).contains("subscribe"));
    let (mut one, mut other) = (connect(&mut turn), connect(&mut turn));
    other.set_nonblocking(true).unwrap();
    for _ in 0..20 {
        one.write_all(b"SET key 1\r\n").unwrap();
        other.write_all(b"PUBLISH channel news\r\n").unwrap();
        turn.turn(&mut Events::with_capacity(8), Duration::ZERO).unwrap();
        let is_told = other.read(&mut [0; 100]).is_ok();
        assert!(!is_told || turn.messages.is_empty());
        are_announced(&mut turn, &mut listener, &["news"]);
        while !turn.messages.is_empty() || !turn.not_durable.is_empty() {
            turn.turn(&mut Events::with_capacity(8), Duration::ZERO).unwrap();
        }
        let _ = other.read(&mut [0; 100]);
    }
}

#[test]
fn what_expires_is_announced_at_once() {
    let Setup { folder: _folder, server, worker } = Setup::new();
    let mut turn = worker.into_turn(&server, 0, Vec::new());
    let mut listener = listen(&mut turn, "no", "key");
    let mut client = connect(&mut turn);
    client.write_all(b"SET key 1 PX 1\r\n").unwrap();
    are_announced(&mut turn, &mut listener, &["set"]);
    while server.stats.expired.load(Relaxed) == 0 {
        turn.tick();
    }
    assert!(turn.messages.is_empty());
    are_announced(&mut turn, &mut listener, &["expired"]);
}
