use super::{Reader, Session, Store};
use crate::Result;
use ::rusqlite::{Connection, TransactionBehavior, params};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Each thread has a connection.
pub(crate) struct Sqlite {
    path: PathBuf,
    sync: bool,
    cache: usize,
}

impl Sqlite {
    pub(crate) fn open(dir: &Path, sync: bool, cache: usize) -> Result<Sqlite> {
        let store = Sqlite { path: dir.join("bench.sqlite"), sync, cache };
        store.connect()?.execute_batch(
            "CREATE TABLE IF NOT EXISTS entries (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;",
        )?;
        Ok(store)
    }

    fn connect(&self) -> Result<Connection> {
        let connection = Connection::open(&self.path)?;
        connection.busy_timeout(Duration::from_secs(600))?;
        let mode: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
        if mode != "wal" {
            return Err(format!("SQLite's journal is {mode}").into());
        }
        connection.pragma_update(None, "synchronous", if self.sync { "FULL" } else { "OFF" })?;
        connection.pragma_update(None, "cache_size", -(self.cache as i64 >> 10))?;
        // Each connection has a cache. Together they may use as much memory as one store.
        connection.pragma_update(None, "soft_heap_limit", self.cache as i64)?;
        Ok(connection)
    }
}

impl Store for Sqlite {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(InSqlite(self.connect()?)))
    }

    fn settle(&self) -> Result<()> {
        let connection = self.connect()?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        Ok(connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?)
    }

    fn len(&self) -> Result<u64> {
        let len: i64 = self.connect()?.query_row("SELECT count(*) FROM entries", [], |row| row.get(0))?;
        Ok(len as u64)
    }

    fn compact(&mut self) -> Result<bool> {
        self.connect()?.execute_batch("VACUUM;")?;
        self.settle()?;
        Ok(true)
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

struct InSqlite(Connection);

const PUT: &str = "INSERT OR REPLACE INTO entries VALUES (?1, ?2)";
const DELETE: &str = "DELETE FROM entries WHERE key = ?1";

/// A read transaction.
struct InTxn<'s>(::rusqlite::Transaction<'s>);

impl Reader for InTxn<'_> {
    fn get(&mut self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<()> {
        get(&self.0, key, see)
    }

    fn scan(&mut self, from: &[u8], most: usize, see: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        scan(&self.0, from, most, see)
    }
}

impl Reader for InSqlite {
    fn get(&mut self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<()> {
        get(&self.0, key, see)
    }

    fn scan(&mut self, from: &[u8], most: usize, see: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        scan(&self.0, from, most, see)
    }
}

fn get(connection: &Connection, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<()> {
    let mut select = connection.prepare_cached("SELECT value FROM entries WHERE key = ?1")?;
    let mut rows = select.query([key])?;
    if let Some(row) = rows.next()? {
        see(row.get_ref(0)?.as_blob()?);
    }
    Ok(())
}

fn scan(connection: &Connection, from: &[u8], most: usize, see: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
    let mut select =
        connection.prepare_cached("SELECT key, value FROM entries WHERE key >= ?1 ORDER BY key LIMIT ?2")?;
    let mut rows = select.query(params![from, most as i64])?;
    while let Some(row) = rows.next()? {
        see(row.get_ref(0)?.as_blob()?, row.get_ref(1)?.as_blob()?);
    }
    Ok(())
}

impl Session for InSqlite {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.0.prepare_cached(PUT)?.execute(params![key, value])?;
        Ok(())
    }

    fn load(&mut self, entries: &mut dyn Iterator<Item = (&[u8], &[u8])>) -> Result<()> {
        let txn = self.0.transaction_with_behavior(TransactionBehavior::Immediate)?;
        {
            let mut put = txn.prepare_cached(PUT)?;
            for (key, value) in entries {
                put.execute(params![key, value])?;
            }
        }
        Ok(txn.commit()?)
    }

    fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.0.prepare_cached(DELETE)?.execute([key])?;
        Ok(())
    }

    fn delete_all(&mut self, keys: &mut dyn Iterator<Item = &[u8]>) -> Result<()> {
        let txn = self.0.transaction_with_behavior(TransactionBehavior::Immediate)?;
        {
            let mut delete = txn.prepare_cached(DELETE)?;
            for key in keys {
                delete.execute([key])?;
            }
        }
        Ok(txn.commit()?)
    }

    fn reader(&self) -> Result<Box<dyn Reader + '_>> {
        Ok(Box::new(InTxn(self.0.unchecked_transaction()?)))
    }
}
