//! The smallest possible durable transaction: a block is written to a file and synced.

use super::{Key, Session, Store, Values};
use crate::Result;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

const BLOCK: usize = 4096;
/// Number of blocks of each file. After the last one, the first is written again.
const BLOCKS: u64 = 4096;

/// Each thread has a file.
pub(crate) struct Floor {
    dir: PathBuf,
}

impl Floor {
    pub(crate) fn open(dir: &Path) -> Floor {
        Floor { dir: dir.to_owned() }
    }

    fn path(&self, thread: usize) -> PathBuf {
        self.dir.join(format!("floor-{thread}"))
    }
}

impl Store for Floor {
    fn preload(&self, values: Values) -> Result<()> {
        for thread in 0..values.threads {
            let file = File::create_new(self.path(thread))?;
            let zeros = vec![0; BLOCK * 256];
            for at in (0..BLOCKS * BLOCK as u64).step_by(zeros.len()) {
                file.write_all_at(&zeros, at)?;
            }
            file.sync_all()?;
        }
        File::open(&self.dir)?.sync_all()?;
        Ok(())
    }

    fn session<'s>(&'s self, _: Values, thread: usize) -> Result<Box<dyn Session + 's>> {
        let file = OpenOptions::new().write(true).open(self.path(thread))?;
        Ok(Box::new(Blocks { file, next: 0, block: vec![0; BLOCK] }))
    }

    fn settle(&self) -> Result<()> {
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

struct Blocks {
    file: File,
    next: u64,
    block: Vec<u8>,
}

impl Session for Blocks {
    fn update(&mut self, _: u64, value: u64) -> Result<()> {
        self.block[..8].copy_from_slice(&value.to_le_bytes());
        self.file.write_all_at(&self.block, self.next % BLOCKS * BLOCK as u64)?;
        self.next += 1;
        self.file.sync_data()?;
        Ok(())
    }

    fn value(&mut self, _: u64) -> Result<u64> {
        Err("the floor is no store".into())
    }

    fn insert(&mut self, _: &[Key]) -> Result<()> {
        Err("the floor is no store".into())
    }

    fn get(&mut self, _: &[Key], _: &mut dyn FnMut(&Key, &[u8])) -> Result<()> {
        Err("the floor is no store".into())
    }
}

/// Returns the time of a write and a sync in this directory, in seconds: the median of a hundred.
pub(crate) fn median_of_syncs(dir: &Path) -> Result<f64> {
    let floor = Floor::open(dir);
    let values = Values { threads: 1, each: 0 };
    floor.preload(values)?;
    let mut session = floor.session(values, 0)?;
    let mut seconds = Vec::new();
    for value in 0..100 {
        let start = Instant::now();
        session.update(0, value)?;
        seconds.push(start.elapsed().as_secs_f64());
    }
    Ok(pheap_suite::measure::median(seconds.into_iter()))
}
