use super::{CACHE, Key, Session, Store, Value, Values, missing, value_of};
use crate::Result;
use ::redb::{Database, Durability, ReadableDatabase as _, TableDefinition, WriteTransaction};
use std::path::Path;

const VALUES: TableDefinition<u64, u64> = TableDefinition::new("values");
const ENTRIES: TableDefinition<&Key, &Value> = TableDefinition::new("entries");

pub(crate) struct Redb {
    db: Database,
    durability: Durability,
}

impl Redb {
    pub(crate) fn open(dir: &Path, sync: bool) -> Result<Redb> {
        let db = Database::builder().set_cache_size(CACHE).create(dir.join("bench.redb"))?;
        Ok(Redb { db, durability: if sync { Durability::Immediate } else { Durability::None } })
    }

    fn begin(&self, durability: Durability) -> Result<WriteTransaction> {
        let mut txn = self.db.begin_write()?;
        txn.set_durability(durability)?;
        Ok(txn)
    }
}

impl Store for Redb {
    fn preload(&self, values: Values) -> Result<()> {
        let txn = self.begin(Durability::Immediate)?;
        {
            let mut table = txn.open_table(VALUES)?;
            for key in values.keys() {
                table.insert(key, 0)?;
            }
        }
        Ok(txn.commit()?)
    }

    fn session<'s>(&'s self, values: Values, thread: usize) -> Result<Box<dyn Session + 's>> {
        Ok(Box::new(InRedb { store: self, values, thread }))
    }

    fn settle(&self) -> Result<()> {
        Ok(self.begin(Durability::Immediate)?.commit()?)
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.db.close()?)
    }
}

struct InRedb<'s> {
    store: &'s Redb,
    values: Values,
    thread: usize,
}

impl Session for InRedb<'_> {
    fn update(&mut self, index: u64, value: u64) -> Result<()> {
        let txn = self.store.begin(self.store.durability)?;
        txn.open_table(VALUES)?.insert(self.values.key(self.thread, index), value)?;
        Ok(txn.commit()?)
    }

    fn value(&mut self, index: u64) -> Result<u64> {
        let table = self.store.db.begin_read()?.open_table(VALUES)?;
        let value = table.get(self.values.key(self.thread, index))?;
        Ok(value.ok_or_else(missing)?.value())
    }

    fn insert(&mut self, keys: &[Key]) -> Result<()> {
        let txn = self.store.begin(self.store.durability)?;
        {
            let mut table = txn.open_table(ENTRIES)?;
            for key in keys {
                table.insert(key, &value_of(key))?;
            }
        }
        Ok(txn.commit()?)
    }

    fn get(&mut self, keys: &[Key], see: &mut dyn FnMut(&Key, &[u8])) -> Result<()> {
        let table = self.store.db.begin_read()?.open_table(ENTRIES)?;
        for key in keys {
            see(key, table.get(key)?.ok_or_else(missing)?.value());
        }
        Ok(())
    }
}
