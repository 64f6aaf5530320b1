//! A client that alone uses its database, so that it knows the content: that of all acknowledged steps, and
//! perhaps of the first ones of the others.

use std::io;

use pheap_testkit::Rng;

use super::model::Model;
use super::wire::{Reply, Wire, Words, words};

/// What a client with a database of its own knows.
#[derive(Default)]
pub(crate) struct Owner {
    pub(crate) model: Model,
    /// Steps that were sent and are not acknowledged.
    in_flight: Vec<Step>,
    last_id: u64,
}

/// Commands that take effect wholly or not at all.
#[derive(Debug, Clone)]
enum Step {
    One(Words),
    Transaction(Vec<Words>),
    Script { commands: Vec<Words>, says_keys: bool },
}

/// Runs the commands in its arguments. Each command is preceded by the number of its words.
const SCRIPT: &str = "local at, count = 1, 0
while at <= #ARGV do
  local command = {}
  for i = 1, tonumber(ARGV[at]) do command[i] = ARGV[at + i] end
  redis.pcall(unpack(command))
  at, count = at + 1 + #command, count + 1
end
return count";

impl Step {
    /// Returns the commands to send.
    fn sent(&self) -> Vec<Words> {
        match self {
            Step::One(command) => vec![command.clone()],
            Step::Transaction(commands) => {
                let mut all = vec![words("MULTI")];
                all.extend(commands.iter().cloned());
                all.push(words("EXEC"));
                all
            }
            Step::Script { commands, says_keys } => {
                let mut keys: Vec<_> = commands.iter().flat_map(keys).collect();
                if !says_keys {
                    keys.clear();
                }
                let mut all = vec!["EVAL".into(), SCRIPT.into(), keys.len().to_string()];
                all.extend(keys);
                for command in commands {
                    all.push(command.len().to_string());
                    all.extend(command.iter().cloned());
                }
                vec![all]
            }
        }
    }

    /// Applies the step to a model, and returns the replies.
    fn apply(&self, model: &mut Model) -> Vec<Reply> {
        match self {
            Step::One(command) => vec![model.apply(command)],
            Step::Transaction(commands) => {
                let mut replies = vec![Reply::ok()];
                replies.resize(commands.len() + 1, Reply::Text("QUEUED".into()));
                replies.push(Reply::List(commands.iter().map(|command| model.apply(command)).collect()));
                replies
            }
            Step::Script { commands, .. } => {
                commands.iter().for_each(|command| _ = model.apply(command));
                vec![Reply::Int(commands.len() as i64)]
            }
        }
    }
}

/// Returns the keys of a command.
fn keys(command: &Words) -> Vec<String> {
    match command[0].as_str() {
        "FLUSHDB" => Vec::new(),
        "MSET" => command[1..].iter().step_by(2).cloned().collect(),
        "MGET" | "DEL" | "SUNIONSTORE" => command[1..].to_vec(),
        "RENAME" | "LMOVE" | "SMOVE" => command[1..3].to_vec(),
        _ => vec![command[1].clone()],
    }
}

/// Sorts the reply if its elements have no order.
fn in_order(sent: &Words, reply: Reply) -> Reply {
    match (sent[0].as_str(), reply) {
        ("SMEMBERS" | "HVALS", Reply::List(mut list)) => {
            list.sort();
            Reply::List(list)
        }
        (_, reply) => reply,
    }
}

impl Owner {
    /// Sends commands and checks the replies, until the connection fails. Calls `done` for each acknowledged
    /// step.
    pub(crate) fn run(&mut self, wire: &mut Wire, rng: &mut Rng, done: &dyn Fn()) -> io::Result<()> {
        loop {
            self.in_flight = (0..1 + rng.below(6)).map(|_| self.step(rng)).collect();
            let sent: Vec<_> = self.in_flight.iter().flat_map(Step::sent).collect();
            wire.send(&sent)?;
            while let Some(step) = self.in_flight.first().cloned() {
                let mut model = self.model.clone();
                for (command, expected) in step.sent().iter().zip(step.apply(&mut model)) {
                    let mut reply = wire.reply()?;
                    if let (Step::Transaction(commands), Reply::List(list)) = (&step, &mut reply) {
                        for (command, reply) in commands.iter().zip(list) {
                            *reply = in_order(command, reply.clone());
                        }
                    }
                    let reply = in_order(command, reply);
                    assert_eq!(reply, expected, "the reply to {command:?}, of {step:?}");
                }
                self.model = model;
                self.in_flight.remove(0);
                done();
            }
        }
    }

    /// Compares the contents of the database, after a restart, with the model.
    pub(crate) fn check(&mut self, wire: &mut Wire) -> io::Result<()> {
        let (found, acknowledged) = (Model::read(wire)?, self.model.clone());
        let in_flight = std::mem::take(&mut self.in_flight);
        for step in &in_flight {
            if found == self.model {
                return Ok(());
            }
            step.apply(&mut self.model);
        }
        let message = || {
            format!(
                "neither what was acknowledged, nor that and some of what was not.\nacknowledged: {acknowledged:#?}\nin flight: {in_flight:#?}\nfound: {found:#?}"
            )
        };
        assert!(found == self.model, "{}", message());
        Ok(())
    }

    fn step(&mut self, rng: &mut Rng) -> Step {
        let mut several = |rng: &mut Rng| (0..1 + rng.below(5)).map(|_| self.command(rng)).collect();
        match rng.below(10) {
            0 | 1 => Step::Transaction(several(rng)),
            2 => Step::Script { commands: several(rng), says_keys: rng.chance(200) },
            _ => Step::One(self.command(rng)),
        }
    }

    fn command(&mut self, rng: &mut Rng) -> Words {
        // Few keys, so that commands meet. Now and then, the key is of any type.
        fn key(rng: &mut Rng, kind: char) -> String {
            let kind = if rng.chance(4) { ['t', 'l', 's', 'h', 'z', 'x'][rng.below(6)] } else { kind };
            format!("{kind}{}", rng.below(4))
        }
        let k = &mut |rng: &mut Rng, kind| key(rng, kind);
        let n = rng.below(100);
        let line = match rng.below(64) {
            0..4 => format!("SET {} {n}", k(rng, 't')),
            4..7 => format!("MSET {} {n} {} {n} {} x", k(rng, 't'), k(rng, 't'), k(rng, 't')),
            7..9 => format!("MGET {} {} {}", k(rng, 't'), k(rng, 't'), k(rng, 't')),
            9 => format!("GET {}", k(rng, 't')),
            10 => format!("GETDEL {}", k(rng, 't')),
            11 => format!("SET {} {}", k(rng, 't'), "long ".repeat(1 + 20 * n).replace(' ', "_")),
            12 => format!("APPEND {} {n}", k(rng, 't')),
            13..17 => format!("INCRBY {} {n}", k(rng, 't')),
            17 => format!("DEL {} {} {}", k(rng, 't'), k(rng, 'l'), k(rng, 'h')),
            18 => format!("DEL {} {} {}", k(rng, 's'), k(rng, 'z'), k(rng, 'x')),
            19 => {
                let kind = ['t', 'l', 's', 'h', 'z'][rng.below(5)];
                format!("RENAME {} {}", k(rng, kind), k(rng, kind))
            }
            20 if rng.chance(64) => "FLUSHDB".into(),
            20..25 => format!("RPUSH {} {n} {}", k(rng, 'l'), n + 1),
            25..28 => format!("LPUSH {} {n} a b", k(rng, 'l')),
            28 => format!("LPOP {}", k(rng, 'l')),
            29 => format!("LTRIM {} 1 {n}", k(rng, 'l')),
            30..33 => format!("LMOVE {} {} RIGHT LEFT", k(rng, 'l'), k(rng, 'l')),
            33 => format!("LRANGE {} 0 -1", k(rng, 'l')),
            34..37 => format!("SADD {} {n} {}", k(rng, 's'), n / 2),
            37 => format!("SREM {} {n} {}", k(rng, 's'), n + 1),
            38..40 => format!("SMOVE {} {} {n}", k(rng, 's'), k(rng, 's')),
            40 => format!("SMEMBERS {}", k(rng, 's')),
            41 => format!("SUNIONSTORE {} {} {}", k(rng, 's'), k(rng, 's'), k(rng, 's')),
            42..46 => format!("HSET {} {n} {} {} y", k(rng, 'h'), n * 7, n + 1),
            46 => format!("HDEL {} {n} {}", k(rng, 'h'), n + 1),
            47 => format!("HVALS {}", k(rng, 'h')),
            48..51 => format!("ZADD {} {n} m{} 7 x", k(rng, 'z'), n % 10),
            51..54 => format!("ZINCRBY {} {n} m{}", k(rng, 'z'), n % 7),
            54 => format!("ZPOPMIN {}", k(rng, 'z')),
            55 => format!("ZRANGE {} 0 -1 WITHSCORES", k(rng, 'z')),
            56..62 => {
                // Now and then, the last ID again.
                self.last_id += u64::from(!rng.chance(8));
                format!("XADD {} {} f {n}", k(rng, 'x'), self.last_id.max(1))
            }
            _ => format!("XTRIM {} MAXLEN {}", k(rng, 'x'), n / 4),
        };
        words(&line)
    }
}
