use super::{Key, MAP, Session, Store, Values, missing, value_of};
use crate::Result;
use ::heed::byteorder::BigEndian;
use ::heed::types::{Bytes, U64};
use ::heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions};
use std::path::Path;

pub(crate) struct Heed {
    env: Env,
    values: Database<'static, U64<BigEndian>, U64<BigEndian>>,
    entries: Database<'static, Bytes, Bytes>,
}

impl Heed {
    pub(crate) fn open(dir: &Path, sync: bool) -> Result<Heed> {
        let mut options = EnvOpenOptions::new();
        options.map_size(MAP).max_dbs(2);
        if !sync {
            // SAFETY: if the machine goes down, the files are not looked at any more.
            unsafe { options.flags(EnvFlags::NO_SYNC) };
        }
        // SAFETY: nobody else has the files of this benchmark.
        let env = unsafe { options.open(dir)? };
        let databases = env.create_databases_and_commit(env.write_txn()?, |create, txn| -> Result<_> {
            let values = create.create_database(txn, Some("values"))?;
            Ok(CommitOrAbort::<_, ()>::Commit((values, create.create_database(txn, Some("entries"))?)))
        });
        let (values, entries) = databases?.unwrap_commit();
        Ok(Heed { env, values, entries })
    }
}

impl Store for Heed {
    fn preload(&self, values: Values) -> Result<()> {
        let mut txn = self.env.write_txn()?;
        for key in values.keys() {
            self.values.put(&mut txn, &key, &0)?;
        }
        Ok(txn.commit()?)
    }

    fn session<'s>(&'s self, values: Values, thread: usize) -> Result<Box<dyn Session + 's>> {
        Ok(Box::new(InHeed { store: self, values, thread }))
    }

    fn settle(&self) -> Result<()> {
        Ok(self.env.force_sync()?)
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.env.prepare_for_closing().wait();
        Ok(())
    }
}

struct InHeed<'s> {
    store: &'s Heed,
    values: Values,
    thread: usize,
}

impl Session for InHeed<'_> {
    fn update(&mut self, index: u64, value: u64) -> Result<()> {
        let mut txn = self.store.env.write_txn()?;
        self.store.values.put(&mut txn, &self.values.key(self.thread, index), &value)?;
        Ok(txn.commit()?)
    }

    fn value(&mut self, index: u64) -> Result<u64> {
        let txn = self.store.env.read_txn()?;
        self.store.values.get(&txn, &self.values.key(self.thread, index))?.ok_or_else(missing)
    }

    fn insert(&mut self, keys: &[Key]) -> Result<()> {
        let mut txn = self.store.env.write_txn()?;
        for key in keys {
            self.store.entries.put(&mut txn, key, &value_of(key))?;
        }
        Ok(txn.commit()?)
    }

    fn get(&mut self, keys: &[Key], see: &mut dyn FnMut(&Key, &[u8])) -> Result<()> {
        let txn = self.store.env.read_txn()?;
        for key in keys {
            see(key, self.store.entries.get(&txn, key)?.ok_or_else(missing)?);
        }
        Ok(())
    }
}
