use super::{MAP, Reader, Session, Store};
use crate::Result;
use ::heed::types::Bytes;
use ::heed::{
    CommitOrAbort, CompactionOption, Database, Env, EnvFlags, EnvOpenOptions, RoTxn, RwTxn, WithTls,
};
use std::ops::Bound;
use std::path::Path;

type Entries = Database<'static, Bytes, Bytes>;

pub(crate) struct Heed {
    env: Env,
    entries: Entries,
    sync: bool,
}

/// Name of the data file.
const DATA: &str = "data.mdb";

impl Heed {
    pub(crate) fn open(dir: &Path, sync: bool) -> Result<Heed> {
        let mut options = EnvOpenOptions::new();
        options.map_size(MAP).max_dbs(1);
        if !sync {
            // SAFETY: without syncs, a crash of the machine can damage the files. They are temporary and not
            // opened after one.
            unsafe { options.flags(EnvFlags::NO_SYNC) };
        }
        // SAFETY: the directory is a temporary one of this benchmark, so no other process changes its files.
        let env = unsafe { options.open(dir)? };
        let entries = env.create_databases_and_commit(env.write_txn()?, |create, txn| -> Result<_> {
            Ok(CommitOrAbort::<_, ()>::Commit(create.create_database(txn, Some("entries"))?))
        })?;
        Ok(Heed { env, entries: entries.unwrap_commit(), sync })
    }

    fn write(&self, f: impl FnOnce(&mut RwTxn<'_>, &Entries) -> Result<()>) -> Result<()> {
        let mut txn = self.env.write_txn()?;
        f(&mut txn, &self.entries)?;
        Ok(txn.commit()?)
    }
}

impl Store for Heed {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(InHeed(self)))
    }

    fn settle(&self) -> Result<()> {
        Ok(self.env.force_sync()?)
    }

    fn len(&self) -> Result<u64> {
        let txn = self.env.read_txn()?;
        Ok(self.entries.len(&txn)?)
    }

    fn compact(&mut self) -> Result<bool> {
        let dir = self.env.path().join("compact");
        std::fs::create_dir(&dir)?;
        self.env.copy_to_path(dir.join(DATA), CompactionOption::Enabled)?;
        let store = Heed::open(&dir, self.sync)?;
        let old = std::mem::replace(self, store).env;
        let path = old.path().join(DATA);
        old.prepare_for_closing().wait();
        std::fs::remove_file(path)?;
        Ok(true)
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.env.prepare_for_closing().wait();
        Ok(())
    }
}

struct InHeed<'s>(&'s Heed);

/// A read transaction.
struct InTxn<'s> {
    entries: Entries,
    txn: RoTxn<'s, WithTls>,
}

impl Heed {
    fn read(&self) -> Result<InTxn<'_>> {
        Ok(InTxn { entries: self.entries, txn: self.env.read_txn()? })
    }
}

impl Reader for InHeed<'_> {
    fn get(&mut self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<()> {
        self.0.read()?.get(key, see)
    }

    fn scan(&mut self, from: &[u8], most: usize, see: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        self.0.read()?.scan(from, most, see)
    }
}

impl Reader for InTxn<'_> {
    fn get(&mut self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<()> {
        if let Some(value) = self.entries.get(&self.txn, key)? {
            see(value);
        }
        Ok(())
    }

    fn scan(&mut self, from: &[u8], most: usize, see: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        let range = (Bound::Included(from), Bound::Unbounded);
        for entry in self.entries.range(&self.txn, &range)?.take(most) {
            let (key, value) = entry?;
            see(key, value);
        }
        Ok(())
    }
}

impl Session for InHeed<'_> {
    fn load(&mut self, all: &mut dyn Iterator<Item = (&[u8], &[u8])>) -> Result<()> {
        self.0.write(|txn, entries| {
            for (key, value) in all {
                entries.put(txn, key, value)?;
            }
            Ok(())
        })
    }

    fn delete_all(&mut self, keys: &mut dyn Iterator<Item = &[u8]>) -> Result<()> {
        self.0.write(|txn, entries| {
            for key in keys {
                entries.delete(txn, key)?;
            }
            Ok(())
        })
    }

    fn reader(&self) -> Result<Box<dyn Reader + '_>> {
        Ok(Box::new(self.0.read()?))
    }
}
