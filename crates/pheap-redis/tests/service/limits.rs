//! The memory that the server keeps for a client has limits.

use crate::common::{Client, Server, converse};

/// Returns the names of the connected clients that have one.
fn names(client: &mut Client) -> Vec<String> {
    let list = client.ask("CLIENT LIST");
    let words = list.split_whitespace().filter_map(|word| word.strip_prefix("name="));
    words.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

fn named(server: &Server, name: &str) -> Client {
    let mut client = server.client();
    assert_eq!(client.ask(&format!("CLIENT SETNAME {name}")), "OK");
    client
}

fn start(folder: &tempfile::TempDir) -> Server {
    Server::start(folder.path(), &["--durability", "process", "--threads", "2"])
}

#[test]
fn what_is_not_answered() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(&folder);
    let mut other = server.client();
    let too_small = "-ERR CONFIG SET failed (possibly related to argument 'client-query-buffer-limit') - argument must be between 1048576 and 9223372036854775807 inclusive";
    converse(
        &mut other,
        &[
            ("CONFIG SET client-query-buffer-limit 1000", too_small),
            ("CONFIG SET client-query-buffer-limit 1mb", "OK"),
        ],
    );
    let pings = b"PING\r\n".repeat(1 << 18);
    // A client that waits for a key, a client whose request has no end, a client whose transaction has none,
    // and a paused client.
    let mut waits = named(&server, "waits");
    waits.send("BLPOP nothing 0");
    waits.try_send(&pings);
    waits.read_to_end();
    let mut endless = named(&server, "endless");
    endless.try_send(b"*2\r\n$4\r\nECHO\r\n$100000000\r\n");
    endless.try_send(&vec![b'x'; 2 << 20]);
    endless.read_to_end();
    let mut queues = named(&server, "queues");
    queues.try_send(b"MULTI\r\n");
    for _ in 0..20 {
        queues.try_send(format!("*2\r\n$4\r\nECHO\r\n$100000\r\n{}\r\n", "x".repeat(100_000)).as_bytes());
    }
    queues.read_to_end();
    assert_eq!(other.ask("CLIENT PAUSE 100000000 WRITE"), "OK");
    let mut paused = server.client();
    paused.try_send(&b"SET key value\r\n".repeat(1 << 17));
    paused.read_to_end();
    assert_eq!(other.ask("CLIENT UNPAUSE"), "OK");
    // Commands within the limit are answered, however many they are.
    let mut normal = named(&server, "normal");
    normal.try_send(&pings[..600_000]);
    (0..100_000).for_each(|_| assert_eq!(normal.reply(), "PONG"));
    assert_eq!(names(&mut other), ["normal"]);
}

#[test]
fn what_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(&folder);
    let mut other = named(&server, "other");
    let (set, get) = ("CONFIG SET client-output-buffer-limit", "CONFIG GET client-output-buffer-limit");
    assert_eq!(other.ask(&format!("{set} \"normal 10mb 0 0 pubsub 1mb 0 0\"")), "OK");
    assert_eq!(
        other.ask(get),
        "[client-output-buffer-limit normal 10485760 0 0 slave 268435456 67108864 60 pubsub 1048576 0 0]"
    );
    // Two clients that subscribe to a channel. The limit for a client with `MONITOR` is that of a normal
    // client.
    for name in ["listens", "too"] {
        let mut listens = named(&server, name);
        listens.ask("SUBSCRIBE news");
        let message = "x".repeat(60_000);
        // Many messages are needed: the system has buffers, too.
        while names(&mut other).contains(&name.to_owned()) {
            other.ask(&format!("PUBLISH news {message}"));
        }
        listens.read_to_end();
    }
    let mut monitors = named(&server, "monitors");
    monitors.ask("MONITOR");
    while names(&mut other).contains(&"monitors".to_owned()) {
        other.ask(&format!("ECHO {}", "x".repeat(60_000)));
    }
    // Replies of an enormous length.
    other.ask("SADD set a b c");
    other.ask("HSET hash a b c d");
    other.ask("ZADD sorted 1 a");
    let most = i64::MAX / 2;
    for command in ["SRANDMEMBER set", "HRANDFIELD hash", "ZRANDMEMBER sorted"] {
        let mut greedy = server.client();
        greedy.send(&format!("{command} -{most}"));
        assert!(greedy.read_to_end().is_empty());
    }
    // A great number of replies. Commands behind the limit are not run.
    other.ask(&format!("SET long {}", "x".repeat(60_000)));
    let mut greedy = server.client();
    greedy.try_send((["GET long\r\n"; 10_000].concat() + "SET later 1\r\n").as_bytes());
    greedy.read_to_end();
    assert_eq!(other.ask("EXISTS later"), "0");
    // Replies of one command, and of one transaction, whose writes are run.
    let values = " long".repeat(1000);
    for lines in
        [format!("MGET{values}"), format!("MULTI\r\n{}SET later 1\r\nEXEC", "GET long\r\n".repeat(1000))]
    {
        let mut greedy = server.client();
        greedy.try_send(format!("{lines}\r\n").as_bytes());
        assert!(greedy.read_to_end().len() < 12 << 20);
    }
    assert_eq!(other.ask("EXISTS later"), "1");
    // A soft limit with 0 seconds counts at once.
    assert_eq!(other.ask(&format!("{set} \"pubsub 0 1 0\"")), "OK");
    let mut listens = named(&server, "listens");
    listens.ask("SUBSCRIBE news");
    while names(&mut other).contains(&"listens".to_owned()) {
        other.ask(&format!("PUBLISH news {}", "x".repeat(60_000)));
    }
    assert_eq!(names(&mut other), ["other"]);
}

#[test]
fn what_all_clients_need() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(&folder);
    let mut other = named(&server, "other");
    converse(&mut other, &[("CONFIG SET maxmemory-clients 1mb", "OK")]);
    // Sends a request without its end. Returns when the server has more than so many bytes of it, or has
    // disconnected the client.
    let mut fill = |client: &mut Client, name: &str, bytes: usize| {
        client.try_send(b"*2\r\n$4\r\nECHO\r\n$100000000\r\n");
        client.try_send(&vec![b'x'; bytes]);
        loop {
            let list = other.ask("CLIENT LIST");
            let line = list.lines().find(|line| line.contains(&format!(" name={name} ")));
            let Some(line) = line else { return };
            let qbuf = line.split_whitespace().find_map(|word| word.strip_prefix("qbuf=")).unwrap();
            if qbuf.parse::<usize>().unwrap() > bytes {
                return;
            }
        }
    };
    let mut spared = named(&server, "spared");
    assert_eq!(spared.ask("CLIENT NO-EVICT ON"), "OK");
    fill(&mut spared, "spared", 1_500_000);
    let mut large = named(&server, "large");
    fill(&mut large, "large", 600_000);
    let mut small = [named(&server, "small"), named(&server, "smaller")];
    fill(&mut small[0], "small", 300_000);
    fill(&mut small[1], "smaller", 250_000);
    large.read_to_end();
    assert_eq!(names(&mut other), ["other", "spared", "small", "smaller"]);
    assert!(other.ask("INFO stats").contains("evicted_clients:1\r"));
    // One client exceeds the limit by replies that it does not read. Later commands are not run.
    other.ask(&format!("SET long {}", "x".repeat(60_000)));
    let mut greedy = server.client();
    greedy.try_send((["GET long\r\n"; 1000].concat() + "SET later 1\r\n").as_bytes());
    greedy.read_to_end();
    assert_eq!(other.ask("EXISTS later"), "0");
    assert!(other.ask("INFO stats").contains("evicted_clients:2\r"));
    assert_eq!(names(&mut other), ["other", "spared", "small", "smaller"]);
}
