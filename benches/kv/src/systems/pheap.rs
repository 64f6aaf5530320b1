use super::{Reader, Room, Session, Store};
use crate::Result;
use pheap_kv::{Batch, Durability, Options, SyncPolicy};
use std::ops::{Bound, ControlFlow};
use std::path::{Path, PathBuf};

pub(crate) struct Pheap {
    store: pheap_kv::Store,
    path: PathBuf,
    options: Options,
}

impl Pheap {
    pub(crate) fn open(dir: &Path, sync: bool, pmem: bool, room: Room) -> Result<Pheap> {
        let durability = if pmem { Durability::Pmem } else { Durability::Wal };
        let policy = if sync { SyncPolicy::EveryCommit } else { SyncPolicy::OnDemand };
        let options = Options::new().durability(durability).sync_policy(policy);
        // Changed pages are private memory until they are written. Pages that are only read belong to the
        // kernel.
        let options = options.heap(|heap| heap.memory_limit(room.cache as u64).log_limit(room.log));
        let path = dir.join("bench.kv");
        Ok(Pheap { store: options.clone().open(&path)?, path, options })
    }
}

impl Store for Pheap {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(InPheap { store: &self.store, batch: Batch::new() }))
    }

    fn settle(&self) -> Result<()> {
        Ok(self.store.sync()?)
    }

    fn len(&self) -> Result<u64> {
        Ok(self.store.stats()?.entries)
    }

    fn compact(&mut self) -> Result<bool> {
        let path = self.path.with_extension("compact");
        let store = self.store.compact_to(&path, self.options.clone())?;
        std::mem::replace(&mut self.store, store).close()?;
        std::fs::remove_file(std::mem::replace(&mut self.path, path))?;
        Ok(true)
    }

    fn written(&self) -> Option<u64> {
        Some(self.store.stats().ok()?.bytes_written())
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.store.close()?)
    }
}

struct InPheap<'s> {
    store: &'s pheap_kv::Store,
    batch: Batch,
}

impl Reader for InPheap<'_> {
    fn get(&mut self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<()> {
        self.store.get_with(key, see)?;
        Ok(())
    }

    fn scan(&mut self, from: &[u8], most: usize, see: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        let mut left = most;
        Ok(self.store.for_each::<[u8]>((Bound::Included(from), Bound::Unbounded), |key, value| {
            see(key, value);
            left -= 1;
            if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?)
    }
}

impl Session for InPheap<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.store.put(key, value)?)
    }

    fn load(&mut self, entries: &mut dyn Iterator<Item = (&[u8], &[u8])>) -> Result<()> {
        self.batch.clear();
        for (key, value) in entries {
            self.batch.put(self.store, key, value)?;
        }
        Ok(self.store.write(&self.batch)?)
    }

    fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.store.delete(key)?;
        Ok(())
    }

    fn delete_all(&mut self, keys: &mut dyn Iterator<Item = &[u8]>) -> Result<()> {
        self.batch.clear();
        for key in keys {
            self.batch.delete(self.store, key)?;
        }
        Ok(self.store.write(&self.batch)?)
    }

    fn reader(&self) -> Result<Box<dyn Reader + '_>> {
        Ok(Box::new(InPheap { store: self.store, batch: Batch::new() }))
    }
}
