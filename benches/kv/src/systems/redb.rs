use super::{Reader, Session, Store};
use crate::Result;
use ::redb::{
    Database, Durability, ReadableDatabase as _, ReadableTableMetadata as _, TableDefinition, TableError,
    WriteTransaction,
};
use std::path::Path;

const ENTRIES: TableDefinition<&[u8], &[u8]> = TableDefinition::new("entries");

pub(crate) struct Redb {
    db: Database,
    durability: Durability,
}

impl Redb {
    pub(crate) fn open(dir: &Path, sync: bool, cache: usize) -> Result<Redb> {
        let db = Database::builder().set_cache_size(cache).create(dir.join("bench.redb"))?;
        let store = Redb { db, durability: if sync { Durability::Immediate } else { Durability::None } };
        if store.table().is_err() {
            let txn = store.begin(Durability::Immediate)?;
            txn.open_table(ENTRIES)?;
            txn.commit()?;
        }
        Ok(store)
    }

    fn begin(&self, durability: Durability) -> Result<WriteTransaction> {
        let mut txn = self.db.begin_write()?;
        txn.set_durability(durability)?;
        Ok(txn)
    }

    fn write(&self, f: impl FnOnce(&mut ::redb::Table<'_, &[u8], &[u8]>) -> Result<()>) -> Result<()> {
        let txn = self.begin(self.durability)?;
        f(&mut txn.open_table(ENTRIES)?)?;
        Ok(txn.commit()?)
    }

    fn table(&self) -> Result<::redb::ReadOnlyTable<&'static [u8], &'static [u8]>> {
        let table: std::result::Result<_, TableError> = self.db.begin_read()?.open_table(ENTRIES);
        Ok(table?)
    }
}

impl Store for Redb {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(InRedb(self)))
    }

    fn settle(&self) -> Result<()> {
        Ok(self.begin(Durability::Immediate)?.commit()?)
    }

    fn len(&self) -> Result<u64> {
        Ok(self.table()?.len()?)
    }

    fn compact(&mut self) -> Result<bool> {
        self.db.compact()?;
        Ok(true)
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.db.close()?)
    }
}

struct InRedb<'s>(&'s Redb);

/// A read transaction.
struct InTable(::redb::ReadOnlyTable<&'static [u8], &'static [u8]>);

impl Reader for InRedb<'_> {
    fn get(&mut self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<()> {
        InTable(self.0.table()?).get(key, see)
    }

    fn scan(&mut self, from: &[u8], most: usize, see: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        InTable(self.0.table()?).scan(from, most, see)
    }
}

impl Reader for InTable {
    fn get(&mut self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<()> {
        if let Some(value) = self.0.get(key)? {
            see(value.value());
        }
        Ok(())
    }

    fn scan(&mut self, from: &[u8], most: usize, see: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        for entry in self.0.range(from..)?.take(most) {
            let (key, value) = entry?;
            see(key.value(), value.value());
        }
        Ok(())
    }
}

impl Session for InRedb<'_> {
    fn load(&mut self, entries: &mut dyn Iterator<Item = (&[u8], &[u8])>) -> Result<()> {
        self.0.write(|table| {
            for (key, value) in entries {
                table.insert(key, value)?;
            }
            Ok(())
        })
    }

    fn delete_all(&mut self, keys: &mut dyn Iterator<Item = &[u8]>) -> Result<()> {
        self.0.write(|table| {
            for key in keys {
                table.remove(key)?;
            }
            Ok(())
        })
    }

    fn reader(&self) -> Result<Box<dyn Reader + '_>> {
        Ok(Box::new(InTable(self.0.table()?)))
    }
}
