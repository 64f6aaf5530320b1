//! Clients that change the same keys, under invariants: no money is made or lost, no element of a queue is
//! taken out twice, no entry of a stream is delivered twice, and the counter never falls below a number that
//! a client has seen.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use pheap_testkit::Rng;

use super::wire::{Reply, Wire, Words, words};

pub(super) const ACCOUNTS: usize = 12;
pub(super) const QUEUES: usize = 4;
pub(super) const MONEY: i64 = 100;
pub(super) const EXPIRING: usize = 6;

/// What all clients that share the database know together.
#[derive(Default)]
pub(crate) struct Ledger {
    pub(super) pushed: BTreeSet<String>,
    pub(super) popped: BTreeSet<String>,
    /// Number of clients that have hung up while they waited for an element. Each may have got one.
    pub(super) hung_up: usize,
    pub(super) counted: i64,
    /// The greatest value of the counter in a reply.
    pub(super) seen: i64,
    /// The greatest value of the counter in a message of the channel.
    pub(super) heard: i64,
    pub(super) added: BTreeMap<String, String>,
    pub(super) delivered: BTreeMap<String, String>,
    pub(super) done: BTreeSet<String>,
}

/// A client that shares its database.
pub(crate) struct Sharer {
    pub(super) number: usize,
    next: u64,
    /// The server's clock may differ by so many milliseconds.
    clocks_differ: u128,
    /// The client's own keys, with values and deadlines (milliseconds since 1970), or `None` if deleted.
    pub(super) expiring: BTreeMap<String, Option<(String, u128)>>,
    pub(super) flight: Flight,
}

/// The effects of the step that was sent and is not acknowledged.
#[derive(Default, Debug)]
pub(super) struct Flight {
    pub(super) push: Vec<String>,
    pub(super) pops: usize,
    pub(super) counts: i64,
    pub(super) add: Option<String>,
    pub(super) reads: bool,
    pub(super) done: Vec<String>,
    pub(super) expiring: Option<(String, Option<(String, u128)>)>,
}

pub(super) fn now() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis()
}

fn account(rng: &mut Rng) -> String {
    format!("account:{}", rng.below(ACCOUNTS))
}

fn queue(rng: &mut Rng) -> String {
    format!("queue:{}", rng.below(QUEUES))
}

pub(super) fn accounts() -> String {
    (0..ACCOUNTS).map(|number| format!(" account:{number}")).collect()
}

pub(super) fn sum(balances: &[Reply]) -> i64 {
    balances.iter().map(Reply::int).sum()
}

/// Returns an `EVAL`.
fn script(text: &str, keys: &[&str], arguments: &[&str]) -> Words {
    let count = keys.len().to_string();
    ["EVAL", text, &count].iter().chain(keys).chain(arguments).map(|word| (*word).to_owned()).collect()
}

/// Creates the accounts and the stream's group.
pub(crate) fn prepare(wire: &mut Wire) -> io::Result<()> {
    let all: String = (0..ACCOUNTS).map(|number| format!(" account:{number} {MONEY}")).collect();
    assert_eq!(wire.ask(&words(&format!("MSET{all}")))?, Reply::ok());
    assert_eq!(wire.ask(&words("XGROUP CREATE stream group 0 MKSTREAM"))?, Reply::ok());
    Ok(())
}

impl Sharer {
    pub(crate) fn new(number: usize, clocks_differ: Duration) -> Sharer {
        Sharer {
            number,
            next: 0,
            clocks_differ: clocks_differ.as_millis(),
            expiring: BTreeMap::new(),
            flight: Flight::default(),
        }
    }

    /// Does random steps until a connection fails. Calls `done` after each.
    pub(crate) fn run(
        &mut self,
        connect: &dyn Fn() -> io::Result<Wire>,
        ledger: &Mutex<Ledger>,
        rng: &mut Rng,
        done: &dyn Fn(),
    ) -> io::Result<()> {
        let (wire, second) = (&mut connect()?, &mut connect()?);
        wire.ask(&words(&format!("DEL handed:{}", self.number)))?;
        loop {
            match rng.below(17) {
                0..3 => self.transfer(wire, rng)?,
                3 => self.look(wire, rng)?,
                4 | 5 => self.count(wire, ledger, rng)?,
                6..8 => self.push(wire, ledger, rng)?,
                8..10 => self.pop(wire, ledger, rng)?,
                10 => hand_on(wire, rng)?,
                11..13 => self.stream(wire, ledger, rng)?,
                13 => hand_over(wire, second, self.number, rng)?,
                14 if rng.chance(40) => self.hang_up(connect, ledger, rng)?,
                _ => self.expiring(wire, rng)?,
            }
            self.flight = Flight::default();
            done();
        }
    }

    /// Moves money between two random accounts.
    fn transfer(&mut self, wire: &mut Wire, rng: &mut Rng) -> io::Result<()> {
        let (from, to, amount) = (account(rng), account(rng), rng.below(20));
        match rng.below(3) {
            0 => {
                let lines = [
                    "MULTI".to_owned(),
                    format!("DECRBY {from} {amount}"),
                    format!("INCRBY {to} {amount}"),
                    "EXEC".to_owned(),
                ];
                wire.send(&lines.map(|line| words(&line)))?;
                (0..3).try_for_each(|_| wire.reply().map(drop))?;
                assert_eq!(wire.reply()?.list().len(), 2);
            }
            1 => {
                let text =
                    "redis.call('DECRBY', KEYS[1], ARGV[1]) return redis.call('INCRBY', KEYS[2], ARGV[1])";
                wire.ask(&script(text, &[&from, &to], &[&amount.to_string()]))?.int();
            }
            _ if from != to => {
                wire.send(&[words(&format!("WATCH {from} {to}")), words(&format!("MGET {from} {to}"))])?;
                wire.reply()?;
                let both = wire.reply()?;
                let (a, b) = (both.list()[0].int() - amount as i64, both.list()[1].int() + amount as i64);
                let lines = [
                    "MULTI".to_owned(),
                    format!("SET {from} {a}"),
                    format!("SET {to} {b}"),
                    "EXEC".to_owned(),
                ];
                wire.send(&lines.map(|line| words(&line)))?;
                (0..3).try_for_each(|_| wire.reply().map(drop))?;
                // Another client may have changed a watched account.
                assert!(matches!(wire.reply()?.list().len(), 0 | 2));
            }
            _ => {}
        }
        Ok(())
    }

    /// Checks the sum of all accounts.
    fn look(&mut self, wire: &mut Wire, rng: &mut Rng) -> io::Result<()> {
        let all = accounts();
        let found = match rng.below(3) {
            0 => sum(wire.ask(&words(&format!("MGET{all}")))?.list()),
            1 => {
                let mut lines = vec!["MULTI".to_owned()];
                lines.extend(all.trim_start().split(' ').map(|name| format!("GET {name}")));
                lines.push("EXEC".to_owned());
                let lines: Vec<_> = lines.iter().map(|line| words(line)).collect();
                wire.send(&lines)?;
                (0..=ACCOUNTS).try_for_each(|_| wire.reply().map(drop))?;
                sum(wire.reply()?.list())
            }
            _ => {
                let text = "local sum = 0 for i = 0, 11 do sum = sum + redis.call('GET', 'account:' .. i) end return sum";
                wire.ask(&script(text, &[], &[]))?.int()
            }
        };
        assert_eq!(found, MONEY * ACCOUNTS as i64, "the sum of all accounts");
        Ok(())
    }

    /// Increments or reads the counter.
    fn count(&mut self, wire: &mut Wire, ledger: &Mutex<Ledger>, rng: &mut Rng) -> io::Result<()> {
        let number = match rng.below(3) {
            0 => wire.ask(&words("GET counter"))?.int(),
            1 => {
                self.flight.counts = 1;
                let number = wire.ask(&words("INCR counter"))?.int();
                ledger.lock().counted += 1;
                number
            }
            _ => {
                self.flight.counts = 1;
                let text =
                    "local n = redis.call('INCR', KEYS[1]) redis.call('PUBLISH', 'counted', n) return n";
                let number = wire.ask(&script(text, &["counter"], &[]))?.int();
                ledger.lock().counted += 1;
                number
            }
        };
        let mut ledger = ledger.lock();
        ledger.seen = ledger.seen.max(number);
        Ok(())
    }

    fn element(&mut self) -> String {
        self.next += 1;
        format!("{}-{}", self.number, self.next)
    }

    fn push(&mut self, wire: &mut Wire, ledger: &Mutex<Ledger>, rng: &mut Rng) -> io::Result<()> {
        self.flight.push = (0..1 + rng.below(3)).map(|_| self.element()).collect();
        let elements = self.flight.push.join(" ");
        let (queue, other) = (queue(rng), queue(rng));
        match rng.below(4) {
            0 => wire.ask(&words(&format!("RPUSH {queue} {elements}")))?,
            1 => wire.ask(&words(&format!("LPUSH {queue} {elements}")))?,
            2 => {
                let text = "for i = 1, #ARGV do redis.call('RPUSH', KEYS[1 + i % 2], ARGV[i]) end return 1";
                let arguments: Vec<_> = self.flight.push.iter().map(String::as_str).collect();
                wire.ask(&script(text, &[&queue, &other], &arguments))?
            }
            _ => {
                let lines = ["MULTI", &format!("RPUSH {queue} {elements}"), "INCR pushes", "EXEC"].map(words);
                wire.send(&lines)?;
                (0..3).try_for_each(|_| wire.reply().map(drop))?;
                let reply = wire.reply()?;
                reply.list()[0].clone()
            }
        }
        .int();
        ledger.lock().pushed.extend(self.flight.push.drain(..));
        Ok(())
    }

    fn pop(&mut self, wire: &mut Wire, ledger: &Mutex<Ledger>, rng: &mut Rng) -> io::Result<()> {
        self.flight.pops = 1;
        let (a, b) = (queue(rng), queue(rng));
        let line = match rng.below(8) {
            0 => format!("LPOP {a} 1"),
            1 => format!("BLPOP {a} {b} 0.03"),
            2 => format!("BRPOP {a} {b} 0.03"),
            3 | 4 => format!("BLPOP {a} 0.03"),
            5 => format!("BLMPOP 0.03 2 {a} {b} RIGHT"),
            6 => {
                let mut pushed = Vec::new();
                // Pushes and waits in one pipeline, perhaps for the same queue.
                self.flight.push = vec![self.element()];
                let lines = [
                    format!("RPUSH {a} {}", self.flight.push[0]),
                    format!("BLPOP {b} 0.03"),
                    "PING".to_owned(),
                ];
                wire.send(&lines.map(|line| words(&line)))?;
                wire.reply()?.int();
                pushed.append(&mut self.flight.push);
                ledger.lock().pushed.extend(pushed);
                let reply = wire.reply()?;
                popped(ledger, reply.list().last());
                self.flight.pops = 0;
                assert_eq!(wire.reply()?, Reply::Text("PONG".into()));
                return Ok(());
            }
            _ => {
                let lines = ["MULTI", &format!("BRPOP {a} 1"), "INCR pops", "EXEC"].map(words);
                wire.send(&lines)?;
                (0..3).try_for_each(|_| wire.reply().map(drop))?;
                let reply = wire.reply()?;
                popped(ledger, reply.list()[0].list().last());
                return Ok(());
            }
        };
        match wire.ask(&words(&line))?.list() {
            [] => {}
            // The queue, and the elements.
            [_, Reply::List(elements)] => popped(ledger, elements.first()),
            list => popped(ledger, list.last()),
        }
        Ok(())
    }

    /// Sends `BLPOP` on another connection, and closes it.
    fn hang_up(
        &mut self,
        connect: &dyn Fn() -> io::Result<Wire>,
        ledger: &Mutex<Ledger>,
        rng: &mut Rng,
    ) -> io::Result<()> {
        let mut other = connect()?;
        ledger.lock().hung_up += 1;
        other.send(&[words(&format!("BLPOP {} 0", queue(rng)))])
    }

    fn stream(&mut self, wire: &mut Wire, ledger: &Mutex<Ledger>, rng: &mut Rng) -> io::Result<()> {
        let consumer = self.number.to_string();
        match rng.below(3) {
            0 => {
                let value = self.element();
                self.flight.add = Some(value.clone());
                let id = wire.ask(&words(&format!("XADD stream * f {value}")))?.text().to_owned();
                ledger.lock().added.insert(id, value);
            }
            1 => {
                self.flight.reads = true;
                let block = if rng.chance(128) { "" } else { "BLOCK 20 " };
                let line = format!("XREADGROUP GROUP group {consumer} COUNT 2 {block}STREAMS stream >");
                let reply = wire.ask(&words(&line))?;
                let mut ledger = ledger.lock();
                for entry in reply.list().first().map_or(&[][..], |stream| stream.list()[1].list()) {
                    let id = entry.list()[0].text().to_owned();
                    let before = ledger.delivered.insert(id.clone(), consumer.clone());
                    assert_eq!(before, None, "{id} was delivered before");
                }
            }
            _ => {
                let mine = {
                    let ledger = ledger.lock();
                    let mine = ledger
                        .delivered
                        .iter()
                        .filter(|(id, to)| **to == consumer && !ledger.done.contains(*id));
                    mine.map(|(id, _)| id.clone()).take(1 + rng.below(3)).collect::<Vec<_>>()
                };
                if !mine.is_empty() {
                    self.flight.done.clone_from(&mine);
                    let count = wire.ask(&words(&format!("XACK stream group {}", mine.join(" "))))?.int();
                    assert_eq!(count, mine.len() as i64, "{mine:?} were delivered");
                    ledger.lock().done.extend(mine);
                }
            }
        }
        Ok(())
    }

    /// Sets, deletes or reads a key with a deadline. It must be there before its deadline, and not after it.
    fn expiring(&mut self, wire: &mut Wire, rng: &mut Rng) -> io::Result<()> {
        let key = format!("expiring:{}:{}", self.number, rng.below(EXPIRING));
        match rng.below(4) {
            0 | 1 => {
                let at_most = if rng.chance(128) { 50 } else { 100_000 };
                let deadline = now() + rng.below(at_most) as u128;
                let value = self.element();
                self.flight.expiring = Some((key.clone(), Some((value.clone(), deadline))));
                let reply = wire.ask(&words(&format!("SET {key} {value} PXAT {deadline}")))?;
                assert_eq!(reply, Reply::ok());
                self.expiring.insert(key, Some((value, deadline)));
            }
            2 => {
                self.flight.expiring = Some((key.clone(), None));
                wire.ask(&words(&format!("DEL {key}")))?.int();
                self.expiring.insert(key, None);
            }
            _ => {
                let before = now();
                let value = wire.ask(&words(&format!("GET {key}")))?;
                let expected = self.expiring.get(&key).cloned().flatten();
                self.is_right(&key, &value, &expected, before).unwrap();
            }
        }
        Ok(())
    }

    /// Checks the value of a key that was read between `before` and now. `expected` is the right value, if
    /// any, with its deadline. If the deadline is within that time, the value may be there or not. The clocks
    /// of this client and the server may differ by `clocks_differ`.
    pub(super) fn is_right(
        &self,
        key: &str,
        value: &Reply,
        expected: &Option<(String, u128)>,
        before: u128,
    ) -> Result<(), String> {
        let is_right = match expected {
            None => *value == Reply::Nil,
            Some((text, deadline)) => {
                let may_be_there =
                    before <= *deadline + self.clocks_differ && *value == Reply::Text(text.clone());
                may_be_there || now() + self.clocks_differ >= *deadline && *value == Reply::Nil
            }
        };
        is_right.then_some(()).ok_or_else(|| {
            format!("{key} is {value:?} between {before} and {}, it should be {expected:?}", now())
        })
    }
}

/// Waits on a second connection for an element that the first one then adds. The wait must succeed.
fn hand_over(wire: &mut Wire, second: &mut Wire, number: usize, rng: &mut Rng) -> io::Result<()> {
    let key = format!("handed:{number}");
    // The server must not need 60 seconds.
    let (waits, gives) = match rng.below(4) {
        0 => (format!("BLPOP nothing {key} 60"), format!("RPUSH {key} x")),
        1 => (format!("BLMPOP 60 2 nothing {key} LEFT"), format!("LPUSH {key} x")),
        2 => (format!("BZPOPMIN {key} nothing 60"), format!("ZADD {key} 1 x")),
        _ => (format!("BLMOVE {key} {key} LEFT RIGHT 60"), format!("RPUSH {key} x")),
    };
    second.send(&[words(&waits)])?;
    let count = match rng.below(3) {
        0 => wire.ask(&words(&gives))?,
        1 => {
            let command: Vec<_> = gives.split(' ').collect();
            let text = "return redis.call(ARGV[1], KEYS[1], unpack(ARGV, 2))";
            let arguments: Vec<_> = [&command[..1], &command[2..]].concat();
            wire.ask(&script(text, &[&key], &arguments))?
        }
        _ => {
            wire.send(&["MULTI", "INCR given", &gives, "EXEC"].map(words))?;
            (0..3).try_for_each(|_| wire.reply().map(drop))?;
            wire.reply()?.list()[1].clone()
        }
    };
    assert_eq!(count, Reply::Int(1), "{gives}");
    let reply = second.reply()?;
    assert_ne!(reply, Reply::Nil, "{waits} has waited in vain");
    wire.ask(&words(&format!("DEL {key}")))?;
    Ok(())
}

/// Moves an element between two random queues, if there is one.
fn hand_on(wire: &mut Wire, rng: &mut Rng) -> io::Result<()> {
    let (a, b) = (queue(rng), queue(rng));
    let command = match rng.below(3) {
        0 => words(&format!("BLMOVE {a} {b} LEFT RIGHT 0.03")),
        1 => words(&format!("BRPOPLPUSH {a} {b} 0.03")),
        _ => {
            let text = "local e = redis.call('LPOP', KEYS[1]) if e then redis.call('RPUSH', KEYS[2], e) end return e";
            script(text, &[&a, &b], &[])
        }
    };
    match wire.ask(&command)? {
        Reply::Nil | Reply::Text(_) => Ok(()),
        other => panic!("{command:?}: {other:?}"),
    }
}

fn popped(ledger: &Mutex<Ledger>, element: Option<&Reply>) {
    match element {
        None | Some(Reply::Nil) => {}
        Some(element) => {
            let text = element.text().to_owned();
            assert!(ledger.lock().popped.insert(text), "{element:?} was popped twice");
        }
    }
}

/// Listens until the connection fails, and notes the greatest number heard.
pub(crate) fn listen(wire: &mut Wire, ledger: &Mutex<Ledger>) -> io::Result<()> {
    wire.send(&[words("SUBSCRIBE counted")])?;
    loop {
        let message = wire.reply()?;
        if message.list()[0].text() == "message" {
            let number = message.list()[2].int();
            let mut ledger = ledger.lock();
            ledger.heard = ledger.heard.max(number);
        }
    }
}
