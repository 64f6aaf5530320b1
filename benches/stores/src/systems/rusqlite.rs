use super::{CACHE, Key, Session, Store, Values, missing, value_of};
use crate::Result;
use ::rusqlite::{Connection, OptionalExtension as _, TransactionBehavior, params};
use std::path::{Path, PathBuf};
use std::time::Duration;

const UPDATE: &str = "UPDATE \"values\" SET value = ?2 WHERE key = ?1";
const INSERT: &str = "INSERT INTO entries VALUES (?1, ?2)";
const GET: &str = "SELECT value FROM entries WHERE key = ?1";

/// A connection for each thread.
pub(crate) struct Sqlite {
    path: PathBuf,
    sync: bool,
}

impl Sqlite {
    pub(crate) fn open(dir: &Path, sync: bool) -> Result<Sqlite> {
        let store = Sqlite { path: dir.join("bench.sqlite"), sync };
        store.connect()?.execute_batch(
            "CREATE TABLE IF NOT EXISTS \"values\" (key INTEGER PRIMARY KEY, value INTEGER NOT NULL);
             CREATE TABLE IF NOT EXISTS entries (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;",
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
        connection.pragma_update(None, "cache_size", -(CACHE as i64 >> 10))?;
        Ok(connection)
    }
}

impl Store for Sqlite {
    fn preload(&self, values: Values) -> Result<()> {
        let mut connection = self.connect()?;
        let txn = connection.transaction()?;
        {
            let mut insert = txn.prepare("INSERT INTO \"values\" VALUES (?1, 0)")?;
            for key in values.keys() {
                insert.execute([key as i64])?;
            }
        }
        Ok(txn.commit()?)
    }

    fn session<'s>(&'s self, values: Values, thread: usize) -> Result<Box<dyn Session + 's>> {
        Ok(Box::new(InSqlite { connection: self.connect()?, values, thread }))
    }

    fn settle(&self) -> Result<()> {
        let connection = self.connect()?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        Ok(connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?)
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

struct InSqlite {
    connection: Connection,
    values: Values,
    thread: usize,
}

impl Session for InSqlite {
    fn update(&mut self, index: u64, value: u64) -> Result<()> {
        let key = self.values.key(self.thread, index) as i64;
        let rows = self.connection.prepare_cached(UPDATE)?.execute([key, value as i64])?;
        if rows == 1 { Ok(()) } else { Err(missing()) }
    }

    fn value(&mut self, index: u64) -> Result<u64> {
        let key = self.values.key(self.thread, index) as i64;
        let mut select = self.connection.prepare_cached("SELECT value FROM \"values\" WHERE key = ?1")?;
        let value: Option<i64> = select.query_row([key], |row| row.get(0)).optional()?;
        Ok(value.ok_or_else(missing)? as u64)
    }

    fn insert(&mut self, keys: &[Key]) -> Result<()> {
        let txn = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        {
            let mut insert = txn.prepare_cached(INSERT)?;
            for key in keys {
                insert.execute(params![key, value_of(key)])?;
            }
        }
        Ok(txn.commit()?)
    }

    fn get(&mut self, keys: &[Key], see: &mut dyn FnMut(&Key, &[u8])) -> Result<()> {
        let select = |connection: &Connection, see: &mut dyn FnMut(&Key, &[u8])| -> Result<()> {
            let mut select = connection.prepare_cached(GET)?;
            for key in keys {
                let mut rows = select.query([key])?;
                see(key, rows.next()?.ok_or_else(missing)?.get_ref(0)?.as_blob()?);
            }
            Ok(())
        };
        if keys.len() == 1 {
            return select(&self.connection, see); // a statement is a transaction by itself
        }
        let txn = self.connection.transaction()?;
        select(&txn, see)?;
        Ok(txn.commit()?)
    }
}
