//! The content and the operations in a heap.

use std::panic::AssertUnwindSafe;
use std::path::Path;

use pheap::{Error, Heap, Options, P, Persist, Result, Root, Txn, View, txn};

use crate::ops::{ELEMENTS, Model, ModelShard, Op, SHARDS};

/// Content of the roots "shard 0", "shard 1", …
#[derive(Persist, Default)]
#[repr(C)]
struct Shard<'r> {
    array: Option<P<'r, [u64]>>,
    list: Option<P<'r, Node<'r>>>,
    len: u32,
    bytes: [u8; 29],
    text: Option<P<'r, str>>,
    last: Last,
}

#[derive(Persist)]
#[repr(C)]
struct Node<'r> {
    value: u32,
    next: Option<P<'r, Node<'r>>>,
}

#[derive(Persist, Default, Clone, Copy, PartialEq, Debug)]
#[repr(u8)]
pub(crate) enum Last {
    #[default]
    Nothing,
    Short(u16),
    Long {
        first: u32,
        value: u64,
    },
}

/// Content of the roots "extra 0", "extra 1", … These roots come and go.
#[derive(Persist)]
#[repr(C)]
struct Extra<'r> {
    born: u64,
    values: P<'r, [u64]>,
}

/// An open heap, and its shards.
pub(crate) struct Store {
    heap: Heap,
    shards: Vec<Root<Shard<'static>>>,
    options: Options,
}

impl Store {
    pub(crate) fn open(options: &Options, path: &Path) -> Result<Store> {
        let heap = options.open(path)?;
        let shards = (0..SHARDS).map(|i| heap.root(&format!("shard {i}"))).collect::<Result<_>>()?;
        Ok(Store { heap, shards, options: options.clone() })
    }

    pub(crate) fn run(self, op: &Op, number: u64) -> Result<Store> {
        match op {
            Op::Abort(op) => match self.on_shards(op, || Err(Error::abort("as planned"))) {
                Err(Error::Aborted(_)) => {}
                other => panic!("{other:?}"),
            },
            Op::Panic(op) => {
                let end = || std::panic::resume_unwind(Box::new("as planned"));
                let result = std::panic::catch_unwind(AssertUnwindSafe(|| self.on_shards(op, end)));
                assert_eq!(result.unwrap_err().downcast_ref(), Some(&"as planned"));
            }
            Op::Toggle { name, len, value } => match self.heap.remove_root(name) {
                Err(Error::NoSuchRoot(_)) => {
                    self.heap.root_or::<Extra>(name, |tx| {
                        Ok(Extra { born: number, values: tx.alloc_slice(*len, |_| *value)? })
                    })?;
                }
                result => result?,
            },
            Op::Rename { old, new } => match self.heap.rename_root(old, new) {
                Err(Error::NoSuchRoot(_) | Error::RootExists(_)) => {}
                result => result?,
            },
            Op::Reopen => {
                let Store { heap, shards, options } = self;
                let path = heap.path().expect("it is a file").to_owned();
                heap.close()?;
                let store = Store::open(&options, &path)?;
                // The old handles belong to the heap that was closed.
                assert!(shards.iter().all(|shard| matches!(shard.read(|_, _| ()), Err(Error::Closed))));
                return Ok(store);
            }
            op => self.on_shards(op, || Ok(()))?,
        }
        Ok(self)
    }

    /// Does an operation on shards. Calls `end` last in the transaction, before the commit.
    fn on_shards(&self, op: &Op, end: impl FnOnce() -> Result<()>) -> Result<()> {
        match op {
            Op::Short { shard, .. }
            | Op::Push { shard, .. }
            | Op::Fill { shard, .. }
            | Op::Increment { shard }
            | Op::Cut { shard, .. }
            | Op::Renew { shard, .. } => {
                self.shards[*shard].txn(|tx, shard| on_one(tx, shard, op).and_then(|()| end()))
            }
            Op::Move { from, to, value } => {
                pheap::txn((&self.shards[*from], &self.shards[*to]), |((tf, from), (tt, to))| {
                    let array = array(tt, to)?;
                    let first = array.at(tt, 0);
                    tt[first] = *value;
                    if let Some(moved) = pop(tf, from) {
                        push(tt, to, moved)?;
                    }
                    end()
                })
            }
            Op::All { long, value } => pheap::txn(&self.shards, |mut shards| {
                for i in 0..shards.len() {
                    shards.with(i, |tx, shard| -> Result<()> {
                        let array = array(tx, shard)?;
                        let element = array.at(tx, i);
                        tx[element] = *value;
                        if i == *long {
                            tx.slice_mut(array, 1..).fill(*value);
                        }
                        Ok(())
                    })?;
                }
                end()
            }),
            _ => unreachable!("not on shards: {op:?}"),
        }
    }
}

#[txn]
fn on_one<'r>(tx: &mut Txn<'r>, shard: P<'r, Shard<'r>>, op: &Op) -> Result<()> {
    match op {
        Op::Short { element, byte, value, .. } => {
            let array = array(tx, shard)?;
            tx[array][*element] ^= *value;
            tx[shard].bytes[*byte] = *value as u8;
            tx[shard].last = Last::Short(*value as u16);
        }
        Op::Push { values, .. } => {
            for &value in values {
                push(tx, shard, value)?;
            }
        }
        Op::Fill { range, value, .. } => {
            let array = array(tx, shard)?;
            tx.slice_mut(array, range.clone()).fill(*value);
            tx[shard].last = Last::Long { first: range.start as u32, value: *value };
        }
        Op::Increment { .. } => {
            let mut next = tx[shard].list;
            for _ in 0..tx[shard].len {
                let node = next.expect("the list is as long as it says");
                next = tx[node].next;
                tx[node].value = tx[node].value.wrapping_add(1);
            }
            assert!(next.is_none(), "the list is longer than it says");
        }
        Op::Cut { text, .. } => {
            for _ in 0..tx[shard].len.div_ceil(2) {
                pop(tx, shard);
            }
            tx[shard].text = Some(tx.alloc_str(text)?);
        }
        Op::Renew { value, .. } => {
            let array = tx.alloc_slice(ELEMENTS, |i| value.wrapping_mul(i as u64))?;
            tx[shard].array = Some(array);
        }
        _ => unreachable!("not on one shard: {op:?}"),
    }
    Ok(())
}

/// Returns the array of a shard, which is made when it is first used.
fn array<'r>(tx: &mut Txn<'r>, shard: P<'r, Shard<'r>>) -> Result<P<'r, [u64]>> {
    if let Some(array) = tx[shard].array {
        return Ok(array);
    }
    let array = tx.alloc_slice(ELEMENTS, |_| 0)?;
    tx[shard].array = Some(array);
    Ok(array)
}

#[txn]
fn push<'r>(tx: &mut Txn<'r>, shard: P<'r, Shard<'r>>, value: u32) -> Result<()> {
    let node = tx.alloc(Node { value, next: tx[shard].list })?;
    tx[shard].list = Some(node);
    tx[shard].len += 1;
    Ok(())
}

#[txn]
fn pop<'r>(tx: &mut Txn<'r>, shard: P<'r, Shard<'r>>) -> Option<u32> {
    let node = tx[shard].list?;
    tx[shard].list = tx[node].next;
    tx[shard].len -= 1;
    Some(tx[node].value)
}

/// Returns the whole content of a heap. Shards that no process has created yet count as new ones.
pub(crate) fn content(heap: &Heap) -> Result<Model> {
    let mut model = Model::new();
    for info in heap.roots() {
        match info.name.strip_prefix("shard ") {
            Some(number) => {
                let shard: Root<Shard> = heap.existing_root(&info.name)?;
                model.shards[number.parse::<usize>().unwrap()] = shard.read(shard_content)?;
            }
            None => {
                let extra: Root<Extra> = heap.existing_root(&info.name)?;
                let content = extra.read(|view, e| (view[e].born, view[view[e].values].to_vec()))?;
                model.extras.insert(info.name, content);
            }
        }
    }
    Ok(model)
}

fn shard_content<'r>(view: &View<'r>, shard: P<'r, Shard<'r>>) -> ModelShard {
    let Shard { array, list, len, bytes, text, last } = &view[shard];
    let mut list: Vec<u32> = std::iter::successors(*list, |&node| view[node].next)
        .map(|node| view[node].value)
        .take(*len as usize + 1) // a torn list may have a cycle
        .collect();
    list.reverse();
    assert_eq!(list.len(), *len as usize);
    ModelShard {
        array: array.map_or_else(|| vec![0; ELEMENTS], |array| view[array].to_vec()),
        list,
        bytes: bytes.to_vec(),
        text: text.map_or_else(String::new, |text| view[text].to_owned()),
        last: *last,
    }
}
