//! Runs the same steps on Redis and on this server, with two clients of each.

use std::collections::BTreeSet;
use std::io::{BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::differences;
use super::generate::{Command, DATABASES, Step};
use super::value::{Norm, Value};

/// Redis and this server.
pub(crate) struct Pair {
    /// Connections by server (Redis, then this server) and client.
    clients: [[Connection; 2]; 2],
    /// By client: the commands queued in its transaction, if it has begun one.
    queued: [Option<Vec<Command>>; 2],
}

/// Replies that differ where they may not.
#[derive(Debug)]
pub(crate) struct Difference {
    pub(crate) command: Command,
    pub(crate) redis: Value,
    pub(crate) pheap: Value,
}

impl Difference {
    /// A word to group differences by: the first of the command, or the fourth of an `EVAL`, which is the
    /// called command or a key.
    pub(crate) fn kind(&self) -> Vec<u8> {
        let at = if self.command.words[0].eq_ignore_ascii_case(b"eval") { 3 } else { 0 };
        self.command.words.get(at).cloned().unwrap_or_default()
    }
}

struct Connection(BufReader<TcpStream>);

impl Connection {
    fn new(port: u16) -> Connection {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        // A read fails if the server is silent for so long.
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.set_nodelay(true).unwrap();
        Connection(BufReader::new(stream))
    }

    fn send<W: AsRef<[u8]>>(&mut self, words: &[W]) {
        let mut out = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            out.extend_from_slice(format!("${}\r\n", word.as_ref().len()).as_bytes());
            out.extend_from_slice(word.as_ref());
            out.extend_from_slice(b"\r\n");
        }
        self.0.get_mut().write_all(&out).unwrap();
    }

    fn reply(&mut self, words: &[impl AsRef<[u8]>]) -> Value {
        Value::read(&mut self.0).unwrap_or_else(|error| {
            let words: Vec<_> = words.iter().map(|word| word.as_ref().escape_ascii().to_string()).collect();
            panic!("{error}, when {words:?} should be answered")
        })
    }

    fn ask<W: AsRef<[u8]>>(&mut self, words: &[W]) -> Value {
        self.send(words);
        self.reply(words)
    }
}

impl Pair {
    /// Connects to the servers at these ports.
    pub(crate) fn new(redis: u16, pheap: u16) -> Pair {
        let clients = [redis, pheap].map(|port| [Connection::new(port), Connection::new(port)]);
        let mut pair = Pair { clients, queued: Default::default() };
        // Limits the length of strings, so that no command needs much memory.
        let [redis, pheap] = pair.ask(0, &["config", "set", "proto-max-bulk-len", "1mb"]);
        assert_eq!((format!("{redis:?}"), format!("{pheap:?}")), ("+OK".to_owned(), "+OK".to_owned()));
        pair
    }

    fn ask<W: AsRef<[u8]>>(&mut self, client: usize, words: &[W]) -> [Value; 2] {
        for server in &mut self.clients {
            server[client].send(words);
        }
        let [redis, pheap] = &mut self.clients;
        [redis[client].reply(words), pheap[client].reply(words)]
    }

    /// Resets the connections, and removes all keys and functions.
    fn reset(&mut self, resp3: bool) {
        for client in 0..2 {
            self.queued[client] = None;
            self.ask(client, &["reset"]);
            self.ask(client, &["hello", if resp3 { "3" } else { "2" }]);
        }
        for words in [&["flushall"][..], &["function", "flush"]] {
            let [redis, pheap] = self.ask(0, words);
            assert_eq!(redis, pheap);
        }
    }

    /// Resets both servers, runs these steps, and compares the databases in the end. Returns the first
    /// difference, and the number of steps that were run.
    pub(crate) fn run(&mut self, resp3: bool, steps: &[Step]) -> Option<(usize, Difference)> {
        self.reset(resp3);
        for (done, step) in steps.iter().enumerate() {
            for command in &step.commands {
                if let Some(difference) = self.command(step.client, command) {
                    return Some((done + 1, difference));
                }
            }
        }
        self.contents().map(|difference| (steps.len(), difference))
    }

    fn command(&mut self, client: usize, command: &Command) -> Option<Difference> {
        if command.waits && self.queued[client].is_none() {
            return None;
        }
        let [mut redis, mut pheap] = self.ask(client, &command.words);
        if command.norm == Norm::Scan && !redis.is_error() && !pheap.is_error() {
            [redis, pheap] = self.scanned(client, command, [redis, pheap]);
        }
        let line = |value: &Value, line| *value == Value::Line(String::from(line));
        if let Some(queued) = &mut self.queued[client]
            && line(&redis, "+QUEUED")
            && line(&pheap, "+QUEUED")
        {
            queued.push(command.clone());
            return None;
        }
        match &command.norm {
            Norm::Begin if line(&redis, "+OK") => self.queued[client] = Some(Vec::new()),
            Norm::End => {
                let queued = self.queued[client].take().unwrap_or_default();
                let (of_redis, of_pheap) = (redis.elements(), pheap.elements());
                if of_redis.len() == queued.len() && of_pheap.len() == queued.len() {
                    let replies = of_redis.iter().zip(of_pheap);
                    return queued.iter().zip(replies).find_map(|(command, (a, b))| different(command, a, b));
                }
            }
            Norm::Dump => {
                if let (Some(redis), Some(pheap)) = (redis.bytes(), pheap.bytes()) {
                    return self.restored(client, command, [pheap, redis]);
                }
            }
            _ => {}
        }
        different(command, &redis, &pheap)
    }

    /// Repeats the command until the cursor is 0. Returns all elements, sorted and without duplicates; or a
    /// reply that is no page.
    fn scanned(&mut self, client: usize, command: &Command, replies: [Value; 2]) -> [Value; 2] {
        let mut servers = self.clients.iter_mut();
        replies.map(|mut reply| {
            let connection = &mut servers.next().expect("there are two")[client];
            let cursor_at = if command.words[0].eq_ignore_ascii_case(b"scan") { 1 } else { 2 };
            // Fields come with their values, members of sorted sets with their scores.
            let with =
                [&b"hscan"[..], b"zscan"].iter().any(|name| command.words[0].eq_ignore_ascii_case(name));
            let mut all = BTreeSet::new();
            let mut words = command.words.clone();
            loop {
                let [cursor, elements] = reply.elements() else { return reply };
                let cursor = cursor.bytes().expect("it is a cursor").to_vec();
                all.extend(elements.elements().chunks(1 + usize::from(with)).map(<[Value]>::to_vec));
                if cursor == b"0" {
                    return Value::Array('*', all.into_iter().flatten().collect());
                }
                words[cursor_at] = cursor;
                reply = connection.ask(&words);
            }
        })
    }

    /// Restores the dump of each server on the other one, and compares the restored keys.
    fn restored(&mut self, client: usize, command: &Command, dumps: [&[u8]; 2]) -> Option<Difference> {
        let key = &b"restored"[..];
        let mut dumps = dumps.into_iter();
        let words = self.clients.each_mut().map(|server| {
            let dump = dumps.next().expect("there are two");
            server[client].ask(&[b"restore", key, b"0", dump, b"replace"])
        });
        if words.iter().any(Value::is_error) {
            let [redis, pheap] = words;
            return Some(Difference { command: command.clone(), redis, pheap });
        }
        self.value(client, key)
    }

    /// Ends open transactions, and compares all keys of the databases in use.
    fn contents(&mut self) -> Option<Difference> {
        // An open transaction would only queue the questions.
        for client in 0..2 {
            self.ask(client, &["discard"]);
        }
        for db in 0..DATABASES {
            self.ask(0, &["select", &db.to_string()]);
            let command = Command::new(&["keys", "*"], Norm::Any);
            let [redis, pheap] = self.ask(0, &command.words);
            if let Some(difference) = different(&command, &redis, &pheap) {
                return Some(difference);
            }
            for key in redis.elements() {
                let key = key.bytes().expect("keys are strings");
                if let Some(difference) = self.value(0, key) {
                    return Some(difference);
                }
            }
        }
        None
    }

    /// Compares the type, the remaining time and the value of a key.
    fn value(&mut self, client: usize, key: &[u8]) -> Option<Difference> {
        let kind = Command::new(&[b"type", key], Norm::Exact);
        let [redis, _] = self.ask(client, &kind.words);
        let Value::Line(kind_of) = redis else { return None };
        let mut questions = vec![kind, Command::new(&[b"pttl", key], Norm::Near)];
        let (words, norm): (&[&[u8]], Norm) = match kind_of.as_str() {
            "+string" => (&[b"get", key], Norm::Exact),
            "+list" => (&[b"lrange", key, b"0", b"-1"], Norm::Exact),
            "+set" => (&[b"smembers", key], Norm::Any),
            "+hash" => (&[b"hgetall", key], Norm::Pairs),
            "+zset" => (&[b"zrange", key, b"0", b"-1", b"withscores"], Norm::Exact),
            "+stream" => (&[b"xinfo", b"stream", key, b"full"], Norm::Clock),
            _ => (&[b"exists", key], Norm::Exact),
        };
        questions.push(Command::new(words, norm));
        questions.iter().find_map(|question| self.command(client, question))
    }
}

fn different(command: &Command, redis: &Value, pheap: &Value) -> Option<Difference> {
    let may_be =
        command.norm.equal(redis, pheap) || differences::reason(&command.words, redis, pheap).is_some();
    let (redis, pheap) = (redis.clone(), pheap.clone());
    (!may_be).then(|| Difference { command: command.clone(), redis, pheap })
}
