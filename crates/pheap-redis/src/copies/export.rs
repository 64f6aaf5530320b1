//! Exports a heap to an RDB file.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::data::files;
use crate::data::{DATABASES, Owned, Store, explained};
use crate::rdb::{self, FileWriter};
use crate::server::now;

/// Why a heap was not exported.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The file cannot be written, or a value is too large for its format.
    #[error(transparent)]
    Write(#[from] rdb::Error),
    /// A file with this name exists.
    #[error("{} is there already, and is not replaced; choose another name, or move it away", .0.display())]
    Exists(PathBuf),
    /// The heap has failed.
    #[error("{}", explained(.0))]
    Heap(#[from] pheap::Error),
}

impl From<std::io::Error> for ExportError {
    fn from(error: std::io::Error) -> ExportError {
        ExportError::Write(rdb::Error::Io(error))
    }
}

/// Writes all libraries and all keys that have not expired to a new RDB file, which gets its name when it is
/// complete. Returns the number of these keys.
///
/// # Errors
/// If that fails, or if a file with this name exists.
pub fn export(store: &Store, path: &Path) -> Result<u64, ExportError> {
    let (mut keys, is_free) = (0, || match path.symlink_metadata() {
        Ok(_) => Err(ExportError::Exists(path.to_owned())),
        Err(_) => Ok(()),
    });
    is_free()?;
    files::replace(path, |file| {
        let mut file = BufWriter::with_capacity(1 << 16, file);
        keys = write(store, &mut file)?;
        file.flush()?;
        // The name may have been taken since the first check.
        is_free()
    })?;
    Ok(keys)
}

fn write(store: &Store, file: impl Write) -> Result<u64, ExportError> {
    let (mut writer, now, mut keys) = (FileWriter::new(file)?, now(), 0);
    let libraries = store.root(store.shards().len());
    libraries.read(|view, root| {
        let mut texts = view[view[root].dbs.at(view, 0)].keys().iter(view);
        texts.try_for_each(|(_, entry)| {
            entry.value.with_bytes(view, |text| writer.library(text)).unwrap_or(Ok(()))
        })
    })??;
    for number in 0..DATABASES {
        let (mut all, mut expiring) = (0, 0);
        for root in store.shards() {
            let sizes = root.read(|view, shard| {
                let db = &view[view[shard].dbs.at(view, number)];
                (db.len() as u64, db.deadlines().len() as u64)
            })?;
            (all, expiring) = (all + sizes.0, expiring + sizes.1);
        }
        if all == 0 {
            continue;
        }
        writer.database(number as u64, all, expiring)?;
        for root in store.shards() {
            keys += root.read(|view, shard| {
                let (db, mut keys) = (&view[view[shard].dbs.at(view, number)], 0);
                for (key, _) in db.keys().iter(view) {
                    // Expired keys are left out.
                    if let Some(value) = db.get(view, key, now) {
                        writer.entry(key, &Owned::of(view, value), db.deadline(view, key))?;
                        keys += 1;
                    }
                }
                Ok::<u64, rdb::Error>(keys)
            })??;
        }
    }
    writer.finish()?;
    Ok(keys)
}
