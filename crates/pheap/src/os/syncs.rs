//! Serializes the syncs of an open file, so that none misses an error that another one has got.

use std::io;

use crate::sync::{Mistake, Mutex, MutexGuard, mistake};

/// The syncs of one open file. Linux reports a failed write *once*, to the next caller that syncs. A sync
/// after that one, or at the same time, succeeds, though the data are lost. So there is one sync at a time,
/// and after a failed one all later ones fail.
#[derive(Debug)]
pub(crate) struct Syncs {
    /// The error code of the first failed sync (`EIO` if that had none).
    failed: Mutex<Option<i32>>,
}

impl Syncs {
    pub(crate) fn new() -> Syncs {
        Syncs { failed: Mutex::new(None) }
    }

    /// Syncs the file by calling `sync`, unless an earlier sync has failed.
    ///
    /// # Errors
    /// Those of `sync`, of this call or an earlier one.
    pub(crate) fn sync(&self, sync: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let mut failed = self.failed.lock();
        if let Some(code) = *failed
            && !mistake(Mistake::ForgetFailedSync)
        {
            return Err(io::Error::from_raw_os_error(code));
        }
        let synced =
            if mistake(Mistake::SyncsMeet) { MutexGuard::unlocked(&mut failed, sync) } else { sync() };
        if let Err(e) = &synced {
            *failed = Some(e.raw_os_error().unwrap_or(libc::EIO));
        }
        synced
    }
}

#[cfg(all(test, not(pheap_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_told_to_all_that_come_later() {
        let syncs = Syncs::new();
        syncs.sync(|| Ok(())).unwrap();
        let fails = || Err(io::Error::from_raw_os_error(libc::EDQUOT));
        assert_eq!(syncs.sync(fails).unwrap_err().raw_os_error(), Some(libc::EDQUOT));
        let later = syncs.sync(|| unreachable!("it would be told that all is well"));
        assert_eq!(later.unwrap_err().raw_os_error(), Some(libc::EDQUOT));
    }

    #[test]
    fn a_sync_waits_for_the_one_before() {
        let syncs = Syncs::new();
        std::thread::scope(|scope| {
            let first = syncs.sync(|| {
                let other = scope.spawn(|| syncs.sync(|| Ok(())));
                std::thread::sleep(std::time::Duration::from_millis(20));
                assert!(!other.is_finished());
                Err(io::ErrorKind::Other.into())
            });
            assert!(first.is_err());
        });
        assert!(syncs.sync(|| Ok(())).is_err());
    }
}
