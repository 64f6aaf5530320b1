//! The operations, and the model that they are done to.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::store::Last;
use pheap_testkit::Rng;

/// Number of elements of a shard's array. So many that a change of all of them makes a transaction long.
pub(crate) const ELEMENTS: usize = 1500;
pub(crate) const SHARDS: usize = 3;

/// The content of a heap, as plain Rust.
#[derive(Clone, Default, PartialEq, Debug)]
pub(crate) struct Model {
    pub(crate) shards: [ModelShard; SHARDS],
    pub(crate) extras: BTreeMap<String, (u64, Vec<u64>)>,
}

#[derive(Clone, Default, PartialEq, Debug)]
pub(crate) struct ModelShard {
    pub(crate) array: Vec<u64>,
    /// Newest last.
    pub(crate) list: Vec<u32>,
    pub(crate) bytes: Vec<u8>,
    pub(crate) text: String,
    pub(crate) last: Last,
}

/// One operation: one transaction, or one change of the set of roots.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// Changes a few words of one shard.
    Short { shard: usize, element: usize, byte: usize, value: u64 },
    /// Adds nodes in front of a list.
    Push { shard: usize, values: Vec<u32> },
    /// Fills a part of an array, perhaps one that is too long for the path of short transactions.
    Fill { shard: usize, range: Range<usize>, value: u64 },
    /// Changes all nodes of a list, which may be many small objects.
    Increment { shard: usize },
    /// Removes the newer half of a list, and replaces the text.
    Cut { shard: usize, text: String },
    /// Replaces the array by a new one.
    Renew { shard: usize, value: u64 },
    /// Moves the newest value from one shard to another, in one transaction.
    Move { from: usize, to: usize, value: u64 },
    /// Changes all shards, in one transaction that is long for one of them.
    All { long: usize, value: u64 },
    /// Another operation, which is rolled back before its commit.
    Abort(Box<Op>),
    /// Another operation, which panics before its commit.
    Panic(Box<Op>),
    /// Creates a root, or removes it if it is there.
    Toggle { name: String, len: usize, value: u64 },
    /// Renames a root, if there is one of the old name and none of the new one.
    Rename { old: String, new: String },
    /// Closes the heap and opens it again.
    Reopen,
}

impl Op {
    /// Returns operation `number` of the run with this seed.
    pub(crate) fn new(seed: u64, number: u64) -> Op {
        let mut rng = Rng::from_seed(seed ^ number.wrapping_mul(0x517c_c1b7_2722_0a95));
        let extra = |rng: &mut Rng| format!("extra {}", rng.scaled(4));
        match rng.scaled(200) {
            0 => Op::Reopen,
            1..8 => {
                Op::Toggle { name: extra(&mut rng), len: rng.scaled(300) as usize, value: rng.next_u64() }
            }
            8..12 => Op::Rename { old: extra(&mut rng), new: extra(&mut rng) },
            12..30 => Op::Abort(Box::new(Op::on_shards(&mut rng))),
            30 => Op::Panic(Box::new(Op::on_shards(&mut rng))),
            _ => Op::on_shards(&mut rng),
        }
    }

    fn on_shards(rng: &mut Rng) -> Op {
        let shard = rng.scaled(SHARDS as u64) as usize;
        let other = (shard + 1 + rng.scaled(SHARDS as u64 - 1) as usize) % SHARDS;
        let value = rng.next_u64();
        match rng.scaled(40) {
            0..12 => {
                let (element, byte) = (rng.scaled(ELEMENTS as u64) as usize, rng.scaled(29) as usize);
                Op::Short { shard, element, byte, value }
            }
            12..18 => {
                Op::Push { shard, values: (0..=rng.scaled(12)).map(|_| rng.next_u64() as u32).collect() }
            }
            18..24 => {
                let start = rng.scaled(ELEMENTS as u64) as usize;
                let most = if rng.scaled(2) == 0 { 20 } else { ELEMENTS as u64 };
                let end = (start + rng.scaled(most) as usize).min(ELEMENTS);
                Op::Fill { shard, range: start..end, value }
            }
            24 | 25 => Op::Increment { shard },
            26 => Op::Cut { shard, text: "ßtext ".repeat(rng.scaled(30) as usize) },
            27 | 28 => Op::Renew { shard, value },
            29..38 => Op::Move { from: shard, to: other, value },
            _ => Op::All { long: shard, value },
        }
    }
}

/// The effects of operations on the model.
impl Model {
    pub(crate) fn new() -> Model {
        let shard = ModelShard { array: vec![0; ELEMENTS], bytes: vec![0; 29], ..ModelShard::default() };
        Model { shards: std::array::from_fn(|_| shard.clone()), extras: BTreeMap::new() }
    }

    pub(crate) fn run(&mut self, op: &Op, number: u64) {
        match op {
            Op::Short { shard, element, byte, value } => {
                let shard = &mut self.shards[*shard];
                shard.array[*element] ^= value;
                shard.bytes[*byte] = *value as u8;
                shard.last = Last::Short(*value as u16);
            }
            Op::Push { shard, values } => self.shards[*shard].list.extend(values),
            Op::Fill { shard, range, value } => {
                let shard = &mut self.shards[*shard];
                shard.array[range.clone()].fill(*value);
                shard.last = Last::Long { first: range.start as u32, value: *value };
            }
            Op::Increment { shard } => {
                self.shards[*shard].list.iter_mut().for_each(|value| *value = value.wrapping_add(1));
            }
            Op::Cut { shard, text } => {
                let shard = &mut self.shards[*shard];
                let cut = shard.list.len() / 2;
                shard.list.truncate(cut);
                shard.text.clone_from(text);
            }
            Op::Renew { shard, value } => {
                self.shards[*shard].array = (0..ELEMENTS as u64).map(|i| value.wrapping_mul(i)).collect();
            }
            Op::Move { from, to, value } => {
                if let Some(moved) = self.shards[*from].list.pop() {
                    self.shards[*to].list.push(moved);
                }
                self.shards[*to].array[0] = *value;
            }
            Op::All { long, value } => {
                for (i, shard) in self.shards.iter_mut().enumerate() {
                    shard.array[i] = *value;
                }
                self.shards[*long].array[1..].fill(*value);
            }
            Op::Abort(_) | Op::Panic(_) | Op::Reopen => {}
            Op::Toggle { name, len, value } => {
                if self.extras.remove(name).is_none() {
                    self.extras.insert(name.clone(), (number, vec![*value; *len]));
                }
            }
            Op::Rename { old, new } => {
                if !self.extras.contains_key(new)
                    && let Some(extra) = self.extras.remove(old)
                {
                    self.extras.insert(new.clone(), extra);
                }
            }
        }
    }
}
