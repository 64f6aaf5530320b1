//! A model of a database that only one client changes: its contents, and the replies to commands.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;

use super::wire::{Reply, Wire, Words, words};

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Text(String),
    List(VecDeque<String>),
    Set(BTreeSet<String>),
    Hash(BTreeMap<String, String>),
    Sorted(BTreeMap<String, i64>),
    /// Entries (ID and value), and the last ID that there was.
    Stream(Vec<(u64, String)>, u64),
}

/// A database.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Model(pub(crate) BTreeMap<String, Value>);

const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";

macro_rules! typed {
    ($self:ident, $key:expr, $kind:ident, $or:expr) => {
        match $self.0.entry($key.clone()).or_insert_with(|| Value::$kind($or)) {
            Value::$kind(value) => value,
            _ => return Reply::Error(WRONG_TYPE.into()),
        }
    };
}

impl Model {
    /// Applies a command, and returns the reply. Elements without an order are in ascending order.
    pub(crate) fn apply(&mut self, command: &Words) -> Reply {
        let reply = self.run(command);
        self.0.retain(|_, value| match value {
            Value::Text(_) | Value::Stream(..) => true,
            Value::List(list) => !list.is_empty(),
            Value::Set(set) => !set.is_empty(),
            Value::Hash(hash) => !hash.is_empty(),
            Value::Sorted(sorted) => !sorted.is_empty(),
        });
        reply
    }

    fn run(&mut self, command: &Words) -> Reply {
        let (name, rest) = command.split_first().expect("a command has a name");
        let int = |text: &String| text.parse::<i64>().expect("a number was sent");
        let count = |n: usize| Reply::Int(n as i64);
        match (name.as_str(), rest) {
            ("SET", [key, value]) => {
                self.0.insert(key.clone(), Value::Text(value.clone()));
                Reply::ok()
            }
            ("MSET", pairs) => {
                for pair in pairs.chunks(2) {
                    self.0.insert(pair[0].clone(), Value::Text(pair[1].clone()));
                }
                Reply::ok()
            }
            ("MGET", keys) => Reply::List(keys.iter().map(|key| self.text(key)).collect()),
            ("GET", [key]) => match self.0.get(key) {
                None | Some(Value::Text(_)) => self.text(key),
                _ => Reply::Error(WRONG_TYPE.into()),
            },
            ("GETDEL", [key]) => match self.0.get(key) {
                None => Reply::Nil,
                Some(Value::Text(_)) => {
                    let reply = self.text(key);
                    self.0.remove(key);
                    reply
                }
                _ => Reply::Error(WRONG_TYPE.into()),
            },
            ("APPEND", [key, more]) => {
                let text = typed!(self, key, Text, String::new());
                text.push_str(more);
                count(text.len())
            }
            ("INCRBY", [key, by]) => {
                let text = typed!(self, key, Text, "0".into());
                let number = text.parse::<i64>().ok().filter(|number| number.to_string() == *text);
                let Some(number) = number else {
                    return Reply::Error("ERR value is not an integer or out of range".into());
                };
                let Some(sum) = number.checked_add(int(by)) else {
                    return Reply::Error("ERR increment or decrement would overflow".into());
                };
                *text = sum.to_string();
                Reply::Int(sum)
            }
            ("DEL", keys) => count(keys.iter().filter(|key| self.0.remove(*key).is_some()).count()),
            ("RENAME", [from, to]) => match self.0.remove(from) {
                None => Reply::Error("ERR no such key".into()),
                Some(value) => {
                    self.0.insert(to.clone(), value);
                    Reply::ok()
                }
            },
            ("FLUSHDB", []) => {
                self.0.clear();
                Reply::ok()
            }
            ("RPUSH", [key, elements @ ..]) => {
                let list = typed!(self, key, List, VecDeque::new());
                list.extend(elements.iter().cloned());
                count(list.len())
            }
            ("LPUSH", [key, elements @ ..]) => {
                let list = typed!(self, key, List, VecDeque::new());
                elements.iter().for_each(|element| list.push_front(element.clone()));
                count(list.len())
            }
            ("LPOP", [key]) => {
                typed!(self, key, List, VecDeque::new()).pop_front().map_or(Reply::Nil, Reply::Text)
            }
            ("LTRIM", [key, first, last]) => {
                let list = typed!(self, key, List, VecDeque::new());
                list.truncate(int(last) as usize + 1);
                list.drain(..(int(first) as usize).min(list.len()));
                Reply::ok()
            }
            ("LMOVE", [from, to, ..]) => {
                let Some(element) = typed!(self, from, List, VecDeque::new()).back().cloned() else {
                    return Reply::Nil;
                };
                typed!(self, to, List, VecDeque::new());
                typed!(self, from, List, VecDeque::new()).pop_back();
                typed!(self, to, List, VecDeque::new()).push_front(element.clone());
                Reply::Text(element)
            }
            ("LRANGE", [key, ..]) => Reply::texts(typed!(self, key, List, VecDeque::new()).iter()),
            ("SADD", [key, elements @ ..]) => {
                let set = typed!(self, key, Set, BTreeSet::new());
                count(elements.iter().filter(|element| set.insert((*element).clone())).count())
            }
            ("SREM", [key, elements @ ..]) => {
                let set = typed!(self, key, Set, BTreeSet::new());
                count(elements.iter().filter(|element| set.remove(*element)).count())
            }
            ("SMOVE", [from, to, element]) => {
                if !self.0.contains_key(from) {
                    return Reply::Int(0);
                }
                typed!(self, from, Set, BTreeSet::new());
                typed!(self, to, Set, BTreeSet::new());
                let was_there = typed!(self, from, Set, BTreeSet::new()).remove(element);
                if was_there {
                    typed!(self, to, Set, BTreeSet::new()).insert(element.clone());
                }
                Reply::Int(was_there.into())
            }
            ("SMEMBERS", [key]) => Reply::texts(typed!(self, key, Set, BTreeSet::new()).iter()),
            ("SUNIONSTORE", [to, a, b]) => {
                let mut all = BTreeSet::new();
                for key in [a, b] {
                    all.extend(typed!(self, key, Set, BTreeSet::new()).iter().cloned());
                }
                let reply = count(all.len());
                self.0.insert(to.clone(), Value::Set(all));
                reply
            }
            ("HSET", [key, pairs @ ..]) => {
                let hash = typed!(self, key, Hash, BTreeMap::new());
                count(pairs.chunks(2).filter(|p| hash.insert(p[0].clone(), p[1].clone()).is_none()).count())
            }
            ("HDEL", [key, fields @ ..]) => {
                let hash = typed!(self, key, Hash, BTreeMap::new());
                count(fields.iter().filter(|field| hash.remove(*field).is_some()).count())
            }
            ("HVALS", [key]) => {
                let mut values: Vec<_> = typed!(self, key, Hash, BTreeMap::new()).values().cloned().collect();
                values.sort();
                Reply::texts(values)
            }
            ("ZADD", [key, pairs @ ..]) => {
                let sorted = typed!(self, key, Sorted, BTreeMap::new());
                count(pairs.chunks(2).filter(|p| sorted.insert(p[1].clone(), int(&p[0])).is_none()).count())
            }
            ("ZINCRBY", [key, by, member]) => {
                let score = typed!(self, key, Sorted, BTreeMap::new()).entry(member.clone()).or_default();
                *score += int(by);
                Reply::Text(score.to_string())
            }
            ("ZPOPMIN", [key]) => {
                let sorted = typed!(self, key, Sorted, BTreeMap::new());
                let least = sorted.iter().min_by_key(|(member, score)| (**score, (*member).clone()));
                let Some((member, score)) = least.map(|(member, score)| (member.clone(), *score)) else {
                    return Reply::List(Vec::new());
                };
                sorted.remove(&member);
                Reply::texts([member, score.to_string()])
            }
            ("ZRANGE", [key, ..]) => {
                let mut all: Vec<_> = typed!(self, key, Sorted, BTreeMap::new()).iter().collect();
                all.sort_by_key(|(member, score)| (**score, (*member).clone()));
                Reply::texts(all.into_iter().flat_map(|(member, score)| [member.clone(), score.to_string()]))
            }
            ("XADD", [key, id, _, value]) => {
                let id: u64 = id.parse().expect("a number was sent");
                if let Some(Value::Stream(entries, last)) = self.0.get_mut(key) {
                    if id <= *last {
                        return Reply::Error(
                            "ERR The ID specified in XADD is equal or smaller than the target stream top item"
                                .into(),
                        );
                    }
                    entries.push((id, value.clone()));
                    *last = id;
                } else if self.0.contains_key(key) {
                    return Reply::Error(WRONG_TYPE.into());
                } else {
                    self.0.insert(key.clone(), Value::Stream(vec![(id, value.clone())], id));
                }
                Reply::Text(format!("{id}-0"))
            }
            ("XTRIM", [key, _, most]) => match self.0.get_mut(key) {
                None => Reply::Int(0),
                Some(Value::Stream(entries, _)) => {
                    let too_many = entries.len().saturating_sub(int(most) as usize);
                    entries.drain(..too_many);
                    count(too_many)
                }
                Some(_) => Reply::Error(WRONG_TYPE.into()),
            },
            _ => panic!("the model does not know {command:?}"),
        }
    }

    fn text(&self, key: &String) -> Reply {
        match self.0.get(key) {
            Some(Value::Text(text)) => Reply::Text(text.clone()),
            _ => Reply::Nil,
        }
    }

    /// Reads the selected database of a server.
    pub(crate) fn read(wire: &mut Wire) -> io::Result<Model> {
        let mut model = Model::default();
        for key in wire.ask(&words("KEYS *"))?.strings() {
            let mut ask = |line: &str| wire.ask(&words(line));
            let value = match ask(&format!("TYPE {key}"))?.text() {
                "string" => Value::Text(ask(&format!("GET {key}"))?.text().to_owned()),
                "list" => Value::List(ask(&format!("LRANGE {key} 0 -1"))?.strings().into()),
                "set" => Value::Set(ask(&format!("SMEMBERS {key}"))?.strings().into_iter().collect()),
                "hash" => {
                    let all = ask(&format!("HGETALL {key}"))?.strings();
                    Value::Hash(all.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect())
                }
                "zset" => {
                    let all = ask(&format!("ZRANGE {key} 0 -1 WITHSCORES"))?.strings();
                    let pair = |p: &[String]| (p[0].clone(), p[1].parse().expect("a whole number"));
                    Value::Sorted(all.chunks(2).map(pair).collect())
                }
                "stream" => {
                    let id = |reply: &Reply| {
                        let text = reply.text().strip_suffix("-0").expect("an ID that was given");
                        text.parse::<u64>().expect("a number")
                    };
                    let entry = |entry: &Reply| match entry.list() {
                        [at, fields] => (id(at), fields.strings()[1].clone()),
                        other => panic!("no entry: {other:?}"),
                    };
                    let entries = ask(&format!("XRANGE {key} - +"))?.list().iter().map(entry).collect();
                    let info = ask(&format!("XINFO STREAM {key}"))?;
                    let last = info.list().iter().position(|r| *r == Reply::Text("last-generated-id".into()));
                    Value::Stream(entries, id(&info.list()[last.expect("it is told") + 1]))
                }
                other => panic!("{key} is a {other}"),
            };
            model.0.insert(key, value);
        }
        Ok(model)
    }
}
