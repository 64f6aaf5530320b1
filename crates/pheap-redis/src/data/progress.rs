//! Records how far this server has followed a master. A separate root holds the record. Each transaction that
//! applies commands of the master updates it too. So after a crash, the position in the heap is that of the
//! last command of the master in the heap: the server neither skips a command nor applies one twice.

use pheap::{P, Txn, View};

use super::db::{Change, Db};
use super::value::Value;

const LEFT: &[u8] = b"left";
const PARTIAL: &[u8] = b"partial";
const ID: &[u8] = b"id";
const OFFSET: &[u8] = b"offset";
const DB: &[u8] = b"db";

/// A position in a master's replication stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// The master's replication ID. Redis sends 40 hexadecimal digits.
    pub id: String,
    /// The offset in the stream, in bytes.
    pub offset: u64,
    /// The database that the stream has selected at this position.
    pub db: usize,
}

/// How far this server has followed a master.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Progress {
    /// The address (`host port`) of the master that this server followed until it was promoted.
    pub left: Option<String>,
    /// Whether a transfer of all data of a master has begun, and has neither ended nor been given up with
    /// `REPLICAOF NO ONE`. The heap then has a part of these data.
    pub is_partial: bool,
    /// The position in the stream. None if this server follows no master, or has not loaded all data of one.
    pub position: Option<Position>,
}

impl Progress {
    /// Reads the record from the root's database.
    pub fn read<'r>(view: &View<'r>, db: &Db<'r>) -> Progress {
        let value = |key: &[u8]| db.get(view, key, i64::MIN);
        let text = |key: &[u8]| value(key)?.with_bytes(view, |bytes| String::from_utf8_lossy(bytes).into());
        let number = |key: &[u8]| match value(key) {
            Some(Value::Int(number)) => u64::try_from(number).ok(),
            _ => None,
        };
        let position = || {
            let (id, offset, db) = (text(ID)?, number(OFFSET)?, number(DB)? as usize);
            Some(Position { id, offset, db })
        };
        Progress { left: text(LEFT), is_partial: number(PARTIAL).is_some(), position: position() }
    }

    /// Writes the record to the root's database.
    ///
    /// # Errors
    /// If the heap cannot allocate memory.
    pub fn write<'r>(&self, tx: &mut Txn<'r>, db: P<'r, Db<'r>>) -> pheap::Result<()> {
        let before = Progress::read(tx, &tx[db]);
        if before.left != self.left {
            put_text(tx, db, LEFT, self.left.as_deref())?;
        }
        if self.is_partial {
            db.set(tx, PARTIAL, Value::Int(1))?;
        } else {
            db.remove(tx, PARTIAL);
        }
        match &self.position {
            Some(position) => position.write(tx, db)?,
            None => [ID, OFFSET, DB].iter().for_each(|key| _ = db.remove(tx, key)),
        }
        Ok(())
    }
}

impl Position {
    /// Writes the position to the root's database.
    ///
    /// # Errors
    /// If the heap cannot allocate memory.
    pub fn write<'r>(&self, tx: &mut Txn<'r>, db: P<'r, Db<'r>>) -> pheap::Result<()> {
        let id = tx[db].get(tx, ID, i64::MIN);
        let is_same = id.and_then(|id| id.with_bytes(tx, |bytes| bytes == self.id.as_bytes()));
        if is_same != Some(true) {
            put_text(tx, db, ID, Some(&self.id))?;
        }
        db.set(tx, OFFSET, Value::Int(self.offset.cast_signed()))?;
        db.set(tx, DB, Value::Int(self.db as i64))
    }
}

fn put_text<'r>(tx: &mut Txn<'r>, db: P<'r, Db<'r>>, key: &[u8], text: Option<&str>) -> pheap::Result<()> {
    let Some(text) = text else {
        db.remove(tx, key);
        return Ok(());
    };
    let text = tx.alloc_slice_copy(text.as_bytes())?;
    db.set(tx, key, Value::Bytes(text))
}
