use super::{Reader, Session, Store};
use crate::Result;
use ::fjall::{Database, Guard, Keyspace, KeyspaceCreateOptions, PersistMode, Readable as _, Snapshot};
use std::path::Path;

pub(crate) struct Fjall {
    db: Database,
    entries: Keyspace,
    /// Persistence of a commit.
    persist: PersistMode,
}

impl Fjall {
    pub(crate) fn open(dir: &Path, sync: bool, cache: usize) -> Result<Fjall> {
        let db = Database::builder(dir).cache_size(cache as u64).open()?;
        let entries = db.keyspace("entries", KeyspaceCreateOptions::default)?;
        let persist = if sync { PersistMode::SyncData } else { PersistMode::Buffer };
        Ok(Fjall { db, entries, persist })
    }

    fn write(&self, f: impl FnOnce(&mut ::fjall::OwnedWriteBatch, &Keyspace)) -> Result<()> {
        let mut batch = self.db.batch().durability(Some(self.persist));
        f(&mut batch, &self.entries);
        Ok(batch.commit()?)
    }
}

impl Store for Fjall {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(InFjall(self)))
    }

    fn settle(&self) -> Result<()> {
        Ok(self.db.persist(PersistMode::SyncAll)?)
    }

    fn len(&self) -> Result<u64> {
        Ok(self.entries.len()? as u64)
    }

    fn compact(&mut self) -> Result<bool> {
        Ok(false)
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

struct InFjall<'s>(&'s Fjall);

impl Reader for InFjall<'_> {
    fn get(&mut self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<()> {
        self.0.entries.get(key)?.iter().for_each(|value| see(value));
        Ok(())
    }

    fn scan(&mut self, from: &[u8], most: usize, see: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        show(self.0.entries.range(from..).take(most), see)
    }
}

/// A read transaction.
struct InSnapshot<'s> {
    snapshot: Snapshot,
    entries: &'s Keyspace,
}

impl Reader for InSnapshot<'_> {
    fn get(&mut self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<()> {
        self.snapshot.get(self.entries, key)?.iter().for_each(|value| see(value));
        Ok(())
    }

    fn scan(&mut self, from: &[u8], most: usize, see: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        show(self.snapshot.range(self.entries, from..).take(most), see)
    }
}

fn show(entries: impl Iterator<Item = Guard>, see: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
    for entry in entries {
        let (key, value) = entry.into_inner()?;
        see(&key, &value);
    }
    Ok(())
}

impl Session for InFjall<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if matches!(self.0.persist, PersistMode::Buffer) {
            return Ok(self.0.entries.insert(key, value)?); // this is a transaction in itself
        }
        self.0.write(|batch, entries| batch.insert(entries, key, value))
    }

    fn load(&mut self, all: &mut dyn Iterator<Item = (&[u8], &[u8])>) -> Result<()> {
        self.0.write(|batch, entries| all.for_each(|(key, value)| batch.insert(entries, key, value)))
    }

    fn delete(&mut self, key: &[u8]) -> Result<()> {
        if matches!(self.0.persist, PersistMode::Buffer) {
            return Ok(self.0.entries.remove(key)?);
        }
        self.0.write(|batch, entries| batch.remove(entries, key))
    }

    fn delete_all(&mut self, keys: &mut dyn Iterator<Item = &[u8]>) -> Result<()> {
        self.0.write(|batch, entries| keys.for_each(|key| batch.remove(entries, key)))
    }

    fn reader(&self) -> Result<Box<dyn Reader + '_>> {
        Ok(Box::new(InSnapshot { snapshot: self.0.db.snapshot(), entries: &self.0.entries }))
    }
}
