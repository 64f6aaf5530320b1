//! Files that other programs may need: finds out what kind of file has a name, and gives a complete new file
//! its name.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// The first bytes of a heap.
const HEAP: &[u8] = b"\x89PHEAP\r\n";

/// The first bytes of an RDB file.
const RDB: &[u8] = b"REDIS";

/// What kind of file has a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// No file, or a symbolic link that leads to none.
    Nothing,
    /// A heap of any program.
    Heap,
    /// An RDB file, as Redis writes it.
    Rdb,
    /// Anything else, including an empty file, a folder, a device.
    Other,
}

/// Returns what kind of file has this name, by its first bytes.
///
/// # Errors
/// If the file cannot be examined or read.
pub fn file_kind(path: &Path) -> io::Result<FileKind> {
    match std::fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(FileKind::Nothing),
        Err(error) => return Err(error),
        // Only a regular file is opened, because opening a pipe could block forever.
        Ok(found) if !found.is_file() => return Ok(FileKind::Other),
        Ok(_) => {}
    }
    let mut first = Vec::new();
    File::open(path)?.take(HEAP.len() as u64).read_to_end(&mut first)?;
    Ok(match () {
        () if first == HEAP => FileKind::Heap,
        () if first.starts_with(RDB) => FileKind::Rdb,
        () => FileKind::Other,
    })
}

/// Checks that a copy of a heap may take this name: either no file has it, or a heap that no program has
/// locked.
///
/// # Errors
/// A text that names the file, and says why a copy may not take its name.
pub fn may_become_copy(path: &Path) -> Result<(), String> {
    let shown = path.display();
    let failed = |error: io::Error| format!("{shown} cannot be read: {error}");
    let told = match file_kind(path).map_err(failed)? {
        FileKind::Nothing => return Ok(()),
        FileKind::Heap => {
            let file = File::open(path).map_err(failed)?;
            match flock(&file, FlockOperation::NonBlockingLockShared) {
                Err(Errno::WOULDBLOCK) => {
                    return Err(format!(
                        "{shown} is a heap that is open, here or in another program, so it is not replaced; \
                         set `dbfilename` to another name"
                    ));
                }
                // No program has locked the heap. On a file system without locks, it counts as not locked,
                // too.
                _ => return Ok(()),
            }
        }
        FileKind::Rdb => "is an RDB file, as Redis writes it, and no heap",
        FileKind::Other => "is no heap",
    };
    Err(format!(
        "{shown} {told}, so it is not replaced; set `dbfilename` to another name, or move the file away"
    ))
}

/// Returns the path at which a file is written until it is complete: `path` with `.new` appended.
pub fn unfinished(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    path.with_file_name(name)
}

/// Writes a new file in the folder of `path`, and durably renames it to `path` when it is complete.
///
/// # Errors
/// If `write` or the system fails; `AlreadyExists` if another file has the name of the incomplete one. In all
/// these cases the file at `path` is unchanged, unless only the last step, a sync of the folder, has failed.
pub fn replace<E: From<io::Error>>(
    path: &Path,
    write: impl FnOnce(&mut File) -> Result<(), E>,
) -> Result<(), E> {
    let new = unfinished(path);
    let mut file = File::create_new(&new).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => {
            let shown = new.display();
            let told = format!(
                "{shown} is there already, perhaps from an interrupted attempt; delete it, or move it away"
            );
            io::Error::new(ErrorKind::AlreadyExists, told)
        }
        _ => error,
    })?;
    let written =
        write(&mut file).and_then(|()| Ok(file.sync_all()?)).and_then(|()| Ok(publish(&new, path)?));
    if written.is_err() {
        // The incomplete file is removed, because this call made it. If it was renamed already, there is none
        // to remove.
        let _ = std::fs::remove_file(&new);
    }
    written
}

/// Renames a complete file that is synced, and syncs the folder.
///
/// # Errors
/// If the system fails. If only the sync of the folder has failed, the file was renamed.
pub fn publish(new: &Path, path: &Path) -> io::Result<()> {
    std::fs::rename(new, path)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_copy_may_replace() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        may_become_copy(&path).unwrap();
        for (content, expected) in
            [(&b""[..], "is no heap"), (b"REDIS0010\xff", "is an RDB file"), (b"\x89PHEAP", "is no heap")]
        {
            std::fs::write(&path, content).unwrap();
            let told = may_become_copy(&path).unwrap_err();
            assert!(told.contains(expected) && told.contains("`dbfilename`"), "{told}");
        }
        assert!(may_become_copy(folder.path()).unwrap_err().contains("is no heap"));
        std::fs::remove_file(&path).unwrap();
        let heap = pheap::Heap::open(&path).unwrap();
        assert!(may_become_copy(&path).unwrap_err().contains("is a heap that is open"));
        // A symbolic link to the open heap cannot become a copy either.
        let other = folder.path().join("other");
        std::os::unix::fs::symlink(&path, &other).unwrap();
        assert!(may_become_copy(&other).unwrap_err().contains("is a heap that is open"));
        heap.close().unwrap();
        may_become_copy(&path).unwrap();
    }

    #[test]
    fn a_new_file_replaces_only_the_one_that_is_meant() {
        let folder = tempfile::tempdir().unwrap();
        let (path, new) = (folder.path().join("file"), folder.path().join("file.new"));
        let write = |text: &'static str| replace(&path, |file| io::Write::write_all(file, text.as_bytes()));
        write("one").unwrap();
        write("two").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
        assert!(replace(&path, |_| Err::<(), _>(io::Error::other("no"))).is_err() && !new.exists());
        std::fs::write(&new, "somebody's").unwrap();
        assert!(write("three").unwrap_err().to_string().contains("delete it"));
        assert_eq!(
            (std::fs::read(&path).unwrap(), std::fs::read(&new).unwrap()),
            (b"two".into(), b"somebody's".into())
        );
    }
}
