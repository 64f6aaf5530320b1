//! How far this server has followed a master: in a root of its own, which is part of each transaction that runs what the master has sent. So after a crash at any moment, the data and the
//! position are those of the same moment, and the server goes on behind the last command that it has, neither leaving one out nor running one twice.

use pheap::{P, Txn, View};

use super::db::{Change, Db};
use super::value::Value;

const LEFT: &[u8] = b"left";
const PARTIAL: &[u8] = b"partial";
const ID: &[u8] = b"id";
const OFFSET: &[u8] = b"offset";
const DB: &[u8] = b"db";

/// How far a master's stream was followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// What the master calls its history: 40 hexadecimal digits.
    pub id: String,
    /// Bytes of the stream whose commands are in the heap.
    pub offset: u64,
    /// The database that the next command is about.
    pub db: usize,
}

/// How far this server has followed a master.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Progress {
    /// The master that it has followed until it was promoted: `host port`.
    pub left: Option<String>,
    /// The data of a master have begun to come, and what is there is only a part of them.
    pub is_partial: bool,
    /// How far it has followed. None: not at all, or what is there has changed since.
    pub position: Option<Position>,
}

impl Progress {
    /// What is in the root.
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

    /// Puts this in the root.
    ///
    /// # Errors
    /// If there is no memory for it.
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
    /// Puts this in the root.
    ///
    /// # Errors
    /// If there is no memory for it.
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
