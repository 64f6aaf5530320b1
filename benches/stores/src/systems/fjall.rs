use super::{CACHE, Key, Session, Store, Values, missing, value_of};
use crate::Result;
use ::fjall::{Database, Keyspace, KeyspaceCreateOptions, OwnedWriteBatch, PersistMode, Readable as _};
use std::path::Path;

pub(crate) struct Fjall {
    db: Database,
    values: Keyspace,
    entries: Keyspace,
    /// How a commit is persisted.
    persist: PersistMode,
}

impl Fjall {
    pub(crate) fn open(dir: &Path, sync: bool) -> Result<Fjall> {
        let db = Database::builder(dir).cache_size(CACHE as u64).open()?;
        let values = db.keyspace("values", KeyspaceCreateOptions::default)?;
        let entries = db.keyspace("entries", KeyspaceCreateOptions::default)?;
        let persist = if sync { PersistMode::SyncData } else { PersistMode::Buffer };
        Ok(Fjall { db, values, entries, persist })
    }

    fn batch(&self) -> OwnedWriteBatch {
        self.db.batch().durability(Some(self.persist))
    }
}

impl Store for Fjall {
    fn preload(&self, values: Values) -> Result<()> {
        for key in values.keys() {
            self.values.insert(key.to_be_bytes(), 0u64.to_le_bytes())?;
        }
        self.settle()
    }

    fn session<'s>(&'s self, values: Values, thread: usize) -> Result<Box<dyn Session + 's>> {
        Ok(Box::new(InFjall { store: self, values, thread }))
    }

    fn settle(&self) -> Result<()> {
        Ok(self.db.persist(PersistMode::SyncAll)?)
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

struct InFjall<'s> {
    store: &'s Fjall,
    values: Values,
    thread: usize,
}

impl Session for InFjall<'_> {
    fn update(&mut self, index: u64, value: u64) -> Result<()> {
        let (key, value) = (self.values.key(self.thread, index).to_be_bytes(), value.to_le_bytes());
        if matches!(self.store.persist, PersistMode::Buffer) {
            return Ok(self.store.values.insert(key, value)?); // is a transaction by itself
        }
        let mut batch = self.store.batch();
        batch.insert(&self.store.values, key, value);
        Ok(batch.commit()?)
    }

    fn value(&mut self, index: u64) -> Result<u64> {
        let value = self.store.values.get(self.values.key(self.thread, index).to_be_bytes())?;
        Ok(u64::from_le_bytes(value.ok_or_else(missing)?[..].try_into()?))
    }

    fn insert(&mut self, keys: &[Key]) -> Result<()> {
        let mut batch = self.store.batch();
        for key in keys {
            batch.insert(&self.store.entries, &key[..], &value_of(key)[..]);
        }
        Ok(batch.commit()?)
    }

    fn get(&mut self, keys: &[Key], see: &mut dyn FnMut(&Key, &[u8])) -> Result<()> {
        if let [key] = keys {
            see(key, &self.store.entries.get(key)?.ok_or_else(missing)?);
            return Ok(());
        }
        let snapshot = self.store.db.snapshot();
        for key in keys {
            see(key, &snapshot.get(&self.store.entries, key)?.ok_or_else(missing)?);
        }
        Ok(())
    }
}
