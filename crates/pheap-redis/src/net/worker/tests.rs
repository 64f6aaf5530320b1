//! Tests of a thread that serves clients, turn by turn.

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
use crate::scripts::SlowScript;

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
        let server = Server::new(store, Config::default(), threads, command::all_commands().count());
        Setup { folder: Some(folder), server, worker }
    }
}

fn connect(turn: &mut WorkerState<'_>) -> UnixStream {
    let (here, there) = UnixStream::pair().unwrap();
    there.set_nonblocking(true).unwrap();
    turn.connect(Stream::Unix(mio::net::UnixStream::from_std(there)));
    here
}

/// Runs a command as another thread would.
fn elsewhere(server: &Server, command: &str) -> (Effects, Vec<pheap::Commit>) {
    let (mut reply, mut effects, mut input) = (Reply::new(false), Effects::default(), Input::default());
    let (mut commits, mut counted) = (Vec::new(), Vec::new());
    let output =
        Output { reply: &mut reply, effects: &mut effects, commits: &mut commits, counted: &mut counted };
    input.append(command.as_bytes());
    let mut session = Session::new(Arc::new(Profile::nobody()), true);
    let (session, clock, meanwhile) = (&mut session, Instant::now(), &mut NoClients);
    Execution { server, session, output, thread: 1, clock, meanwhile }.run(&mut input);
    assert!(!reply.take().starts_with(b"-"), "{command}");
    (effects, commits)
}

struct NoClients;

impl Meanwhile for NoClients {
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
        turn.poll_and_serve(&mut events, TICK).unwrap();
    }
    // The test syncs the log, because it is synced only on demand.
    server.store.heap().sync().unwrap();
    // The thread gets the next message when it reads no more commands.
    let signals = elsewhere(server, "RPUSH list value\r\n").0.signals.into_iter().collect();
    turn.mailbox.post(Message::Wake(Wakeup { signals, ..Wakeup::default() }));
    turn.finish(&mut events).unwrap();
    drop(turn);
    let mut told = String::new();
    client.shutdown(Shutdown::Write).unwrap();
    client.read_to_string(&mut told).unwrap();
    assert_eq!(told, "*2\r\n$4\r\nlist\r\n$5\r\nvalue\r\n");
}

/// Takes turns until the client has received bytes or the end of the stream. Returns the bytes.
fn told(turn: &mut WorkerState<'_>, client: &mut UnixStream) -> String {
    client.set_nonblocking(true).unwrap();
    let (mut events, mut buffer) = (Events::with_capacity(8), [0; 100]);
    loop {
        turn.poll_and_serve(&mut events, Duration::from_millis(1)).unwrap();
        match client.read(&mut buffer) {
            Ok(len) => return String::from_utf8_lossy(&buffer[..len]).into_owned(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// Calls `f` with a client of a server whose next sync fails.
fn with_failing_disk(f: impl FnOnce(&mut WorkerState<'_>, &mut UnixStream)) {
    let Setup { folder, server, worker } = Setup::new();
    let mut turn = worker.into_turn(&server, 0, Vec::new());
    let mut client = connect(&mut turn);
    elsewhere(&server, "RPUSH list value\r\n");
    // The next sync finds that the files of the heap are gone.
    folder.unwrap().close().unwrap();
    f(&mut turn, &mut client);
}

#[test]
fn a_reply_waits_for_writes_that_had_none() {
    with_failing_disk(|turn, client| {
        client.write_all(b"CLIENT REPLY SKIP\r\nSET a 1\r\n").unwrap();
        while turn.server.stats.dirty.load(Relaxed) == 0 {
            turn.poll_and_serve(&mut Events::with_capacity(8), TICK).unwrap();
        }
        // The server may have closed the connection already.
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
    // A client that looks at its key again also gets no reply before the state that it has seen is durable.
    let Setup { folder: _folder, server, worker } = Setup::new();
    let mut turn = worker.into_turn(&server, 0, Vec::new());
    let mut client = connect(&mut turn);
    client.write_all(b"BLPOP list 0\r\n").unwrap();
    while server.stats.blocked.load(Relaxed) == 0 {
        turn.poll_and_serve(&mut Events::with_capacity(8), TICK).unwrap();
    }
    let signals = elsewhere(&server, "RPUSH list value\r\n").0.signals.into_iter().collect();
    let popped = elsewhere(&server, "LPOP list\r\n").1;
    turn.mailbox.post(Message::Wake(Wakeup { signals, ..Wakeup::default() }));
    // The message has the effect of a timeout.
    let client_id = *turn.connections.keys().next().unwrap();
    turn.mailbox.post(Message::Unblock { client: client_id, with_error: false });
    assert_eq!(told(&mut turn, &mut client), "*-1\r\n");
    assert!(popped[0].is_durable());
}

/// Several writes to a key in one transaction signal the key once.
#[test]
fn a_key_is_looked_at_once() {
    let Setup { folder: _folder, server, worker } = Setup::new();
    let mut turn = worker.into_turn(&server, 0, Vec::new());
    let mut client = connect(&mut turn);
    client.write_all(b"BLPOP list 0\r\n").unwrap();
    while server.stats.blocked.load(Relaxed) == 0 {
        turn.poll_and_serve(&mut Events::with_capacity(8), TICK).unwrap();
    }
    let writes = "LPUSH list 1\r\nLPUSH list 2\r\nLPUSH list 3\r\n";
    let script = "EVAL \"for i = 1, 100 do redis.call('rpush', KEYS[1], i) end\" 1 list\r\n";
    for command in [format!("MULTI\r\n{writes}EXEC\r\n"), script.to_owned()] {
        assert_eq!(elsewhere(&server, &command).0.signals.len(), 1, "{command}");
    }
}

/// If a slow script keeps a waiting client from looking at its key again, the reply still waits for the
/// commits that the client has seen before.
#[test]
fn what_a_client_has_seen_counts_although_it_could_not_look_again() {
    let Setup { folder, server, worker } = Setup::new();
    server.gates.enable(); // as if there were another thread
    let mut turn = worker.into_turn(&server, 0, Vec::new());
    let mut client = connect(&mut turn);
    client.write_all(b"BLPOP list 0\r\n").unwrap();
    while server.stats.blocked.load(Relaxed) == 0 {
        turn.poll_and_serve(&mut Events::with_capacity(8), TICK).unwrap();
    }
    server.store.heap().sync().unwrap();
    let signals: VecDeque<_> = elsewhere(&server, "RPUSH list value\r\n").0.signals.into_iter().collect();
    elsewhere(&server, "LPOP list\r\n");
    // The next sync finds that the files of the heap are gone.
    folder.unwrap().close().unwrap();
    turn.wake_waiters(Wakeup { signals: signals.clone(), ..Wakeup::default() });
    server.scripts.begin_slow(Arc::new(SlowScript {
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
    // The message has the effect of a timeout.
    let client_id = *turn.connections.keys().next().unwrap();
    turn.mailbox.post(Message::Unblock { client: client_id, with_error: false });
    assert_eq!(told(&mut turn, &mut client), "");
}

/// Takes turns until this number of clients wait for keys.
fn until_blocked(turn: &mut WorkerState<'_>, clients: usize) {
    while turn.server.stats.blocked.load(Relaxed) != clients {
        turn.poll_and_serve(&mut Events::with_capacity(8), TICK).unwrap();
    }
}

#[test]
fn who_has_gone_takes_nothing_from_a_list() {
    let Setup { folder: _folder, server, worker } = Setup::new();
    let mut turn = worker.into_turn(&server, 0, Vec::new());
    let (mut gone, mut pusher) = (connect(&mut turn), connect(&mut turn));
    gone.write_all(b"BLPOP list 0\r\n").unwrap();
    until_blocked(&mut turn, 1);
    // Both events should come to the thread in one turn, in this order.
    drop(gone);
    pusher.write_all(b"RPUSH list value\r\n").unwrap();
    assert_eq!(told(&mut turn, &mut pusher), ":1\r\n");
    pusher.write_all(b"LLEN list\r\n").unwrap();
    assert_eq!(told(&mut turn, &mut pusher), ":1\r\n");
}

/// Makes a client that listens to the events of a key.
fn listen(turn: &mut WorkerState<'_>, appendfsync: &str, key: &str) -> UnixStream {
    let mut listener = connect(turn);
    let config = format!("CONFIG SET notify-keyspace-events KA appendfsync {appendfsync}\r\n");
    listener.write_all(config.as_bytes()).unwrap();
    assert_eq!(told(turn, &mut listener), "+OK\r\n");
    listener.write_all(format!("SUBSCRIBE __keyspace@0__:{key}\r\n").as_bytes()).unwrap();
    assert!(told(turn, &mut listener).contains("subscribe"));
    listener
}

/// Waits until the listener has received all these events, and checks that they came in this order.
fn are_announced(turn: &mut WorkerState<'_>, listener: &mut UnixStream, events: &[&str]) {
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
        // Both commands should come to the thread in one turn, in this order.
        taker.write_all(b"BLPOP list 0\r\n").unwrap();
        pusher.write_all(b"RPUSH list value\r\n").unwrap();
        are_announced(&mut turn, &mut listener, &["rpush", "lpop"]);
    }
}

/// Writes of several turns may wait for the disk at the same time.
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
                turn.poll_and_serve(&mut Events::with_capacity(8), Duration::ZERO).unwrap();
            }
        }
        // The last write is announced although its client has disconnected.
        drop(std::mem::replace(&mut other, connect(&mut turn)));
        are_announced(&mut turn, &mut listener, &["set", "incrby", "append", "del"]);
    }
}

/// When the publisher has its reply, the published message was posted, and so were all earlier messages.
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
        turn.poll_and_serve(&mut Events::with_capacity(8), Duration::ZERO).unwrap();
        let is_told = other.read(&mut [0; 100]).is_ok();
        assert!(!is_told || turn.messages.is_empty());
        are_announced(&mut turn, &mut listener, &["news"]);
        while !turn.messages.is_empty() || !turn.not_durable.is_empty() {
            turn.poll_and_serve(&mut Events::with_capacity(8), Duration::ZERO).unwrap();
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
