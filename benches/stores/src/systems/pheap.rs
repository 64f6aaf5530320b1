use super::{Key, Session, Store, Value, Values, missing, value_of};
use crate::Result;
use ::pheap::{Durability, Heap, Options, P, PBTreeMap, Persist, Root, SyncPolicy};
use std::path::Path;

/// The values of one thread, in a separate root.
#[derive(Persist)]
#[repr(C)]
struct Numbers<'r> {
    numbers: P<'r, [u64]>,
}

pub(crate) struct Pheap {
    heap: Heap,
}

impl Pheap {
    pub(crate) fn open(dir: &Path, sync: bool) -> Result<Pheap> {
        let policy = if sync { SyncPolicy::EveryCommit } else { SyncPolicy::OnDemand };
        let options = Options::new().durability(Durability::Wal).sync_policy(policy);
        Ok(Pheap { heap: options.open(dir.join("bench.pheap"))? })
    }

    fn numbers(&self, values: Values, thread: usize) -> Result<Root<Numbers<'static>>> {
        Ok(self.heap.root_or(&format!("numbers of {thread}"), |tx| {
            Ok(Numbers { numbers: tx.alloc_slice(values.each as usize, |_| 0)? })
        })?)
    }
}

impl Store for Pheap {
    fn preload(&self, values: Values) -> Result<()> {
        for thread in 0..values.threads {
            self.numbers(values, thread)?;
        }
        Ok(self.heap.sync()?)
    }

    fn session<'s>(&'s self, values: Values, thread: usize) -> Result<Box<dyn Session + 's>> {
        let numbers = if values.each > 0 { Some(self.numbers(values, thread)?) } else { None };
        let tree = if values.each == 0 { Some(self.heap.root("tree")?) } else { None };
        Ok(Box::new(InPheap { numbers, tree }))
    }

    fn preload_shared(&self, values: u64) -> Result<()> {
        let root: Root<Shared> = self.heap.root("shared")?;
        Ok(root.txn(|tx, map| (0..values).try_for_each(|key| map.insert(tx, &key, 0).map(drop)))?)
    }

    fn shared<'s>(&'s self, _: u64, deferred: bool) -> Result<Box<dyn Session + 's>> {
        Ok(Box::new(InShared { map: self.heap.root("shared")?, deferred }))
    }

    fn settle(&self) -> Result<()> {
        Ok(self.heap.sync()?)
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.heap.close()?)
    }
}

/// Roots have a cost, so a session creates only those that it uses.
struct InPheap {
    numbers: Option<Root<Numbers<'static>>>,
    tree: Option<Root<PBTreeMap<'static, Key, Value>>>,
}

impl InPheap {
    fn numbers(&self) -> Result<&Root<Numbers<'static>>> {
        self.numbers.as_ref().ok_or_else(missing)
    }

    fn tree(&self) -> Result<&Root<PBTreeMap<'static, Key, Value>>> {
        self.tree.as_ref().ok_or_else(missing)
    }
}

impl Session for InPheap {
    fn update(&mut self, index: u64, value: u64) -> Result<()> {
        Ok(self.numbers()?.txn(|tx, p| {
            let number = tx[p].numbers.at(tx, index as usize);
            tx[number] = value;
            Ok(())
        })?)
    }

    fn value(&mut self, index: u64) -> Result<u64> {
        Ok(self.numbers()?.read(|view, p| view[view[p].numbers][index as usize])?)
    }

    fn insert(&mut self, keys: &[Key]) -> Result<()> {
        Ok(self
            .tree()?
            .txn(|tx, tree| keys.iter().try_for_each(|key| tree.insert(tx, key, value_of(key)).map(drop)))?)
    }

    fn get(&mut self, keys: &[Key], see: &mut dyn FnMut(&Key, &[u8])) -> Result<()> {
        self.tree()?.read(|view, tree| {
            for key in keys {
                see(key, tree.get(view, key).ok_or_else(missing)?);
            }
            Ok(())
        })?
    }
}

/// The values that all threads share, in one root.
type Shared = PBTreeMap<'static, u64, u64>;

struct InShared {
    map: Root<Shared>,
    deferred: bool,
}

impl Session for InShared {
    fn update(&mut self, index: u64, value: u64) -> Result<()> {
        Ok(self.map.txn(|tx, map| map.insert(tx, &index, value).map(drop))?)
    }

    fn value(&mut self, index: u64) -> Result<u64> {
        let value = if self.deferred {
            self.map.read_deferred(|view, map| view[map].get(view, &index).copied())?.0
        } else {
            self.map.read(|view, map| view[map].get(view, &index).copied())?
        };
        value.ok_or_else(missing)
    }

    fn insert(&mut self, _: &[Key]) -> Result<()> {
        Err(missing())
    }

    fn get(&mut self, _: &[Key], _: &mut dyn FnMut(&Key, &[u8])) -> Result<()> {
        Err(missing())
    }
}
