//! The same benchmark on SQLite: a connection for each thread, prepared statements, and a write-ahead log.

mod check;
mod load;
mod transactions;

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;

use crate::Result;
use crate::drive::{Session, System};
use crate::requests::Size;

pub use check::check;
pub use load::load;

/// Memory for the pages of each connection, in KiB.
const CACHE_KIB: i64 = 512 << 10;

pub struct Database {
    path: PathBuf,
    synchronous: &'static str,
    size: Size,
}

impl Database {
    pub fn open(path: &Path, synchronous: &'static str) -> Result<Database> {
        let connection = connect(path, synchronous)?;
        let count = |sql| connection.query_row(sql, [], |row| row.get(0));
        let size = Size {
            warehouses: count("SELECT max(w_id) FROM warehouse")?,
            items: count("SELECT max(i_id) FROM item")?,
            customers: count("SELECT max(c_id) FROM customer WHERE c_w_id = 1 AND c_d_id = 1")?,
        };
        Ok(Database { path: path.to_owned(), synchronous, size })
    }
}

impl System for Database {
    fn size(&self) -> Size {
        self.size
    }

    fn session(&self) -> Result<Session<'_>> {
        let mut connection = connect(&self.path, self.synchronous)?;
        Ok(Box::new(move |request| Ok((transactions::run(&mut connection, request)?, None))))
    }
}

fn connect(path: &Path, synchronous: &str) -> Result<Connection> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(Duration::from_secs(600))?;
    connection.set_prepared_statement_cache_capacity(64);
    let mode: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    if mode != "wal" {
        return Err(format!("SQLite's journal is {mode}").into());
    }
    connection.pragma_update(None, "synchronous", synchronous)?;
    connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
    Ok(connection)
}
