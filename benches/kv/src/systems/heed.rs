use super::{MAP, Session, Store};
use crate::Result;
use ::heed::types::Bytes;
use ::heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions, RwTxn};
use std::ops::Bound;
use std::path::Path;

type Entries = Database<'static, Bytes, Bytes>;

pub(crate) struct Heed {
    env: Env,
    entries: Entries,
}

impl Heed {
    pub(crate) fn open(dir: &Path, sync: bool) -> Result<Heed> {
        let mut options = EnvOpenOptions::new();
        options.map_size(MAP).max_dbs(1);
        if !sync {
            // SAFETY: if the machine goes down, the files are not looked at any more.
            unsafe { options.flags(EnvFlags::NO_SYNC) };
        }
        // SAFETY: nobody else has the files of this benchmark.
        let env = unsafe { options.open(dir)? };
        let entries = env.create_databases_and_commit(env.write_txn()?, |create, txn| -> Result<_> {
            Ok(CommitOrAbort::<_, ()>::Commit(create.create_database(txn, Some("entries"))?))
        })?;
        Ok(Heed { env, entries: entries.unwrap_commit() })
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

    fn close(self: Box<Self>) -> Result<()> {
        self.env.prepare_for_closing().wait();
        Ok(())
    }
}

struct InHeed<'s>(&'s Heed);

impl Session for InHeed<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.0.write(|txn, entries| Ok(entries.put(txn, key, value)?))
    }

    fn load(&mut self, all: &[(Vec<u8>, Vec<u8>)]) -> Result<()> {
        self.0
            .write(|txn, entries| Ok(all.iter().try_for_each(|(key, value)| entries.put(txn, key, value))?))
    }

    fn get(&mut self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<()> {
        let txn = self.0.env.read_txn()?;
        if let Some(value) = self.0.entries.get(&txn, key)? {
            see(value);
        }
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.0.write(|txn, entries| Ok(entries.delete(txn, key).map(drop)?))
    }

    fn scan(&mut self, from: &[u8], most: usize, see: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        let txn = self.0.env.read_txn()?;
        let range = (Bound::Included(from), Bound::Unbounded);
        for entry in self.0.entries.range(&txn, &range)?.take(most) {
            let (key, value) = entry?;
            see(key, value);
        }
        Ok(())
    }
}
