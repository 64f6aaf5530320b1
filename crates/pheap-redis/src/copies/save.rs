//! Copies the heap while it is in use: `SAVE` and `BGSAVE`. They do not fork. For `BGSAVE`, a new thread
//! makes the copy.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use parking_lot::Mutex;
use pheap::Heap;

use crate::data::files;
use crate::server::{SaveState, Server, now as clock};

/// A copy of the heap that is to be made.
struct Copy {
    heap: Heap,
    path: PathBuf,
    dirty: u64,
    state: Arc<Mutex<SaveState>>,
}

/// Copies the heap to the file `dbfilename` in the folder `dir`.
///
/// # Errors
/// A text that names the failure.
pub fn now(server: &Server) -> Result<(), String> {
    begin(server)?.make()
}

/// Copies the heap in a new thread.
///
/// # Errors
/// A text that names the failure, if the thread did not begin.
pub fn in_background(server: &Server) -> Result<(), String> {
    let copy = begin(server)?;
    let state = copy.state.clone();
    let thread = std::thread::Builder::new().name("save".into()).spawn(move || {
        // The result is ignored: `make` logs a failure, and `INFO` shows it.
        let _ = copy.make();
    });
    thread.map(drop).map_err(|error| {
        state.lock().is_running = false;
        format!("Can't save in background: {error}")
    })
}

fn begin(server: &Server) -> Result<Copy, String> {
    let path = {
        let config = server.config.read();
        Path::new(config.text("dir")).join(config.text("dbfilename"))
    };
    for name in [&path, &files::unfinished(&path)] {
        files::may_become_copy(name)
            .inspect_err(|why| tracing::warn!("copying the heap to {} failed: {why}", path.display()))?;
    }
    let state = server.save.clone();
    if std::mem::replace(&mut state.lock().is_running, true) {
        return Err("Background save already in progress".into());
    }
    Ok(Copy { heap: server.store.heap().clone(), path, dirty: server.stats.dirty.load(Relaxed), state })
}

impl Copy {
    fn make(self) -> Result<(), String> {
        let (path, began) = (self.path.display(), Instant::now());
        tracing::info!("copying the heap to {path}");
        self.state.lock().began = Some(began);
        let result = self.write().map_err(|error| error.to_string());
        match &result {
            Ok(()) => tracing::info!("copied the heap to {path} in {} ms", began.elapsed().as_millis()),
            Err(error) => tracing::warn!("copying the heap to {path} failed: {error}"),
        }
        let mut state = self.state.lock();
        state.is_running = false;
        state.failed = result.is_err();
        (state.began, state.took) = (None, Some(began.elapsed()));
        if result.is_ok() {
            (state.at, state.dirty) = (clock() / 1000, self.dirty);
            state.count += 1;
        }
        result
    }

    /// Writes the copy. The old copy exists until the new one is complete.
    fn write(&self) -> Result<(), Box<dyn std::error::Error>> {
        let new = files::unfinished(&self.path);
        // Another program may have written a file at either path since the check of `begin`. At `new`, an
        // interrupted attempt may have left a heap.
        for name in [&self.path, &new] {
            files::may_become_copy(name)?;
        }
        match std::fs::remove_file(&new) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        self.heap.backup(&new)?;
        files::publish(&new, &self.path)?;
        Ok(())
    }
}
