//! Files of heaps that were in use. A killed program's file can be opened again; a copy of such a file is
//! refused, unless the caller vouches for it with `Options::restored`.
#![allow(clippy::unit_arg)] // `Ok(tx[p] = 1)` is a transaction in one line

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::Command;

use pheap::{Durability, Error, Options, P, Persist, Result, Root};
use pheap_testkit::*;

const KINDS: [Durability; 3] = [Durability::Process, Durability::Pmem, Durability::Wal];

/// Numbers that are equal, far apart.
#[derive(Persist, Default)]
#[repr(C)]
struct Numbers<'r> {
    all: Option<P<'r, [u64]>>,
}

const MANY: usize = 40_000;

fn set(root: &Root<Numbers<'static>>, to: u64) -> Result<()> {
    root.txn(|tx, numbers| match tx[numbers].all {
        Some(all) => Ok(tx.slice_mut(all, ..).fill(to)),
        None => Ok(tx[numbers].all = Some(tx.alloc_slice(MANY, |_| to)?)),
    })
}

/// The number, if all are equal.
fn get(root: &Root<Numbers<'static>>) -> Result<Option<u64>> {
    root.read(|view, numbers| {
        let all = &view[view[numbers].all.unwrap()];
        all.iter().all(|n| *n == all[0]).then_some(all[0])
    })
}

fn of(kind: Durability) -> Options {
    small().durability(kind)
}

/// As `cp` does it.
fn copy(from: &Path, to: &Path) {
    fs::copy(from, to).unwrap();
    if log_of(from).exists() {
        fs::copy(log_of(from), log_of(to)).unwrap();
    }
}

fn both_files(path: &Path) -> (Vec<u8>, Option<Vec<u8>>) {
    (fs::read(path).unwrap(), fs::read(log_of(path)).ok())
}

/// The file has half of the bytes from before a transaction, and half from after it. If it could be opened,
/// some of the numbers would be the old ones, without an error.
#[test]
fn a_copy_of_a_heap_in_use_is_refused() -> Result<()> {
    for kind in KINDS {
        let dir = tempdir();
        let (path, torn) = (dir.path().join("x"), dir.path().join("torn"));
        let heap = of(kind).open(&path)?;
        let root = heap.root("numbers")?;
        set(&root, 1)?;
        heap.checkpoint()?;
        fs::copy(&path, &torn).unwrap();
        set(&root, 2)?;
        heap.checkpoint()?;
        let half = MIB as usize / 8;
        let bytes = fs::read(&path).unwrap();
        let file = File::options().write(true).open(&torn).unwrap();
        file.write_all_at(&bytes[half..], half as u64).unwrap();
        if kind == Durability::Wal {
            fs::copy(log_of(&path), log_of(&torn)).unwrap();
        }
        let before = both_files(&torn);
        for options in [of(kind), of(kind).read_only(true), of(kind).verify(true), of(Durability::Auto)] {
            let error = options.open(&torn).expect_err("it may be torn");
            assert!(matches!(&error, Error::Copied { path } if *path == torn), "{kind:?}: {error}");
            let advice = ["Heap::backup", "Options::restored(true)"];
            assert!(advice.iter().all(|what| error.to_string().contains(what)), "{error}");
        }
        assert!(before == both_files(&torn), "it was touched");
        // What the message says, first.
        let backup = dir.path().join("backup");
        heap.backup(&backup)?;
        assert_eq!(get(&of(kind).open(&backup)?.existing_root("numbers")?)?, Some(2));
        assert_eq!(get(&root)?, Some(2));
    }
    Ok(())
}

/// The second advice of the message, for a copy of a heap that no process changed while it was copied.
#[test]
fn a_copy_that_somebody_answers_for_is_opened() -> Result<()> {
    const TEST: &str = "copies::a_copy_that_somebody_answers_for_is_opened";
    if let Some((role, path)) = role() {
        let kind = KINDS.into_iter().find(|kind| format!("{kind:?}") == role).unwrap();
        let heap = of(kind).open(path)?;
        let root = heap.root("numbers")?;
        set(&root, 1)?;
        set(&root, 2)?;
        die();
    }
    for kind in KINDS {
        let dir = tempdir();
        let (path, restored) = (dir.path().join("x"), dir.path().join("restored"));
        run_killed(TEST, &format!("{kind:?}"), &path);
        copy(&path, &restored);
        let before = both_files(&restored);
        assert!(matches!(of(kind).open(&restored), Err(Error::Copied { .. })));
        let reader = of(kind).read_only(true).restored(true).open(&restored)?;
        assert_eq!(get(&reader.existing_root("numbers")?)?, Some(2));
        drop(reader);
        assert!(before == both_files(&restored), "only read");
        let heap = of(kind).restored(true).open(&restored)?;
        let root = heap.existing_root("numbers")?;
        assert_eq!(get(&root)?, Some(2), "{kind:?}");
        set(&root, 3)?;
        // It is at home there now: as after a kill, in the same file.
        let now = both_files(&restored);
        drop(root);
        heap.close()?;
        fs::write(&restored, &now.0).unwrap();
        if let Some(log) = &now.1 {
            fs::write(log_of(&restored), log).unwrap();
        }
        assert_eq!(get(&of(kind).open(&restored)?.existing_root("numbers")?)?, Some(3));
        // And the original goes on as if nothing had been.
        assert_eq!(get(&of(kind).open(&path)?.existing_root("numbers")?)?, Some(2), "{kind:?}");
    }
    Ok(())
}

/// Put back in the place of the original, which is gone: perhaps with the same inode.
#[test]
fn a_copy_is_one_where_the_original_was() -> Result<()> {
    let dir = tempdir();
    let (path, copy) = (dir.path().join("x"), dir.path().join("copy"));
    let heap = small().open(&path)?;
    set(&heap.root("numbers")?, 1)?;
    let bytes = fs::read(&path).unwrap();
    let known = word(&bytes, newest_slot(&bytes) + 24 * 8) != 0;
    heap.close()?;
    for _ in 0..10 {
        fs::write(&copy, &bytes).unwrap();
        fs::remove_file(&path).unwrap();
        fs::copy(&copy, &path).unwrap();
        let opened = small().read_only(true).open(&path);
        assert!(matches!(opened, Err(Error::Copied { .. })) || !known);
        fs::remove_file(&copy).unwrap();
    }
    Ok(())
}

/// All of it is looked at before anything is written.
#[test]
fn a_copy_that_is_damaged_is_not_opened() -> Result<()> {
    let dir = tempdir();
    let (path, damaged) = (dir.path().join("x"), dir.path().join("damaged"));
    let heap = small().pin_undo(true).open(&path)?; // so that no record in the log makes it good again
    let root: Root<Option<P<u64>>> = heap.root("pointer")?;
    root.txn(|tx, p| Ok(tx[p] = Some(tx.alloc(0x1234_5678_9abc_u64)?)))?;
    let pointer = heap.inspect("pointer", |object| object.offset()).unwrap() as usize;
    let mut bytes = fs::read(&path).unwrap();
    drop(root);
    heap.close()?;
    // To where nothing is, as if the page there had been copied too early.
    let nowhere = base_of(&bytes) + 900_000;
    set_word(&mut bytes, pointer, nowhere);
    fs::write(&damaged, &bytes).unwrap();
    assert!(matches!(small().open(&damaged), Err(Error::Copied { .. })));
    let error = small().restored(true).open(&damaged).expect_err("it is damaged");
    assert!(matches!(error, Error::Corrupt { .. }), "{error}");
    assert!(fs::read(&damaged).unwrap() == bytes, "it was touched");
    Ok(())
}

/// Other names of the same file, and closed heaps wherever they come from.
#[test]
fn what_is_no_copy_of_a_heap_in_use_opens() -> Result<()> {
    const TEST: &str = "copies::what_is_no_copy_of_a_heap_in_use_opens";
    if let Some((_, path)) = role() {
        let heap = small().open(path)?;
        set(&heap.root("numbers")?, 7)?;
        die();
    }
    let dir = tempdir();
    let names = ["x", "renamed", "linked", "symlink", "copy"].map(|name| dir.path().join(name));
    let [path, renamed, linked, symlink, closed] = &names;
    let holds = |path: &Path| -> Result<()> {
        assert_eq!(get(&small().read_only(true).open(path)?.existing_root("numbers")?)?, Some(7));
        Ok(())
    };
    run_killed(TEST, "writer", path);
    fs::rename(path, renamed).unwrap();
    fs::hard_link(renamed, linked).unwrap();
    std::os::unix::fs::symlink(linked, symlink).unwrap();
    [renamed, linked, symlink].into_iter().try_for_each(|path| holds(path))?;
    fs::remove_file(renamed).unwrap();
    let heap = small().open(linked)?;
    assert_eq!(get(&heap.existing_root("numbers")?)?, Some(7));
    heap.close()?;
    copy(linked, closed);
    holds(closed)?;
    small().open(closed)?.close()
}

/// The same file system on another device after the machine went down, and one whose numbers are not known.
#[test]
fn a_heap_that_a_crash_has_left_is_never_taken_for_a_copy() -> Result<()> {
    for kind in [Durability::Pmem, Durability::Wal] {
        let dir = tempdir();
        let path = dir.path().join("x");
        let heap = of(kind).open(&path)?;
        let root = heap.root("numbers")?;
        set(&root, 5)?;
        let (image, log) = both_files(&path);
        drop(root);
        heap.close()?;
        // In place, so that the inode is the same.
        let opens = |patches: &[(usize, u64)]| {
            let mut bytes = image.clone();
            let slot = newest_slot(&bytes);
            patches.iter().for_each(|&(word, value)| patch_header(&mut bytes, slot, word, value));
            fs::write(&path, &bytes).unwrap();
            if let Some(log) = &log {
                fs::write(log_of(&path), log).unwrap();
            }
            let heap = of(kind).open(&path)?;
            assert_eq!(get(&heap.existing_root("numbers")?)?, Some(5));
            heap.close()
        };
        let inode = fs::metadata(&path).unwrap().ino();
        let slot = newest_slot(&image);
        let known = word(&image, slot + 22 * 8);
        assert!(known == inode || known == 0);
        opens(&[])?;
        opens(&[(14, 4711), (21, 0x1234)])?; // another boot, in which the device is called something else
        opens(&[(21, 0), (22, 0), (23, 0), (24, 0)])?; // nothing is known
        if known != 0 {
            assert!(matches!(opens(&[(14, 4711), (22, inode + 1)]), Err(Error::Copied { .. })));
        }
        for number in [23, 24] {
            if word(&image, slot + number * 8) != 0 {
                assert!(matches!(opens(&[(14, 4711), (number, 99)]), Err(Error::Copied { .. })));
            }
        }
    }
    Ok(())
}

// --- boots -------------------------------------------------------------------------------------------------

/// Runs a child after these shell commands have changed its mounts. Returns `None` if that is not permitted
/// here.
fn in_namespace(test: &str, mounts: &str, role: &str, path: &Path) -> Option<bool> {
    let plain = child(test, role, path);
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", &format!("{mounts} || exit 99; exec \"$0\" \"$@\"")]);
    command.arg(plain.get_program()).args(plain.get_args());
    command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = command.output().ok()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.code() == Some(99) || text.contains("unshare failed") {
        return None;
    }
    eprintln!("{role}: {text}");
    Some(output.status.success())
}

/// Ends such a child successfully, and at once. Otherwise a sanitizer would look for leaks at the end of the
/// program, and fail: it needs `/proc` for that, and also to read its own options.
fn end_well() -> ! {
    // SAFETY: nothing of this process is needed any more.
    unsafe { libc::_exit(0) }
}

/// Where `/proc` is not mounted, pheap cannot know whether the machine has been down.
#[test]
fn an_unknown_boot_is_not_this_one() -> Result<()> {
    const TEST: &str = "copies::an_unknown_boot_is_not_this_one";
    if let Some((role, path)) = role() {
        let options = small();
        match role.as_str() {
            "make" => {
                let heap = options.open(&path)?;
                set(&heap.root("numbers")?, 3)?;
                std::mem::forget(heap);
            }
            "opens" => assert_eq!(get(&options.open(&path)?.existing_root("numbers")?)?, Some(3)),
            "torn" => assert!(matches!(options.open(&path), Err(Error::NotClosed))),
            "unknown" => {
                let error = options.open(&path).expect_err("it may be torn");
                assert!(matches!(error, Error::BootUnknown { .. }), "{error}");
                assert!(error.to_string().contains("Options::verify(true)"), "{error}");
                let error = options.read_only(true).open(&path).expect_err("nor to be read");
                assert!(matches!(error, Error::BootUnknown { .. }), "{error}");
            }
            // The advice.
            "verified" => {
                let heap = options.verify(true).open(&path)?;
                assert_eq!(get(&heap.existing_root("numbers")?)?, Some(3));
                heap.close()?;
            }
            other => panic!("{other}"),
        }
        end_well();
    }
    let here = |dir: &Path| {
        let id = dir.join("id");
        fs::write(&id, "11111111-2222-3333-4444-555555555555\n").unwrap();
        let other = format!("mount --bind {} /proc/sys/kernel/random/boot_id", id.display());
        let none = "mount -t tmpfs none /proc".to_owned();
        ("true".to_owned(), other, none)
    };
    // On a disk, where a machine that goes down leaves files.
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = dir.path().join("x");
    let (same, other, none) = here(dir.path());
    for (made, opened, role) in [
        (&same, &same, "opens"),
        (&same, &other, "torn"),
        (&other, &same, "torn"),
        (&none, &none, "unknown"),
        (&none, &same, "unknown"),
        (&same, &none, "unknown"),
    ] {
        let _ = fs::remove_file(&path);
        let Some(well) = in_namespace(TEST, made, "make", &path) else {
            println!("skipped: nothing can be mounted here");
            return Ok(());
        };
        assert!(well, "{made}: make");
        let run = |role| assert_eq!(in_namespace(TEST, opened, role, &path), Some(true), "{opened}: {role}");
        run(role);
        if role != "opens" {
            run("verified");
        }
    }
    Ok(())
}

/// A file in a tmpfs has never seen another boot.
#[test]
fn a_tmpfs_knows_its_boot() -> Result<()> {
    const TEST: &str = "copies::a_tmpfs_knows_its_boot";
    if let Some((role, path)) = role() {
        let heap = small().open(path)?;
        let root = heap.root("numbers")?;
        if role == "make" {
            set(&root, 3)?;
            std::mem::forget((heap, root));
        } else {
            assert_eq!(get(&root)?, Some(3));
        }
        end_well();
    }
    let Ok(dir) = tempfile::tempdir_in("/dev/shm") else { return Ok(()) };
    let path = dir.path().join("x");
    let none = "mount -t tmpfs none /proc";
    if in_namespace(TEST, none, "make", &path).is_none() {
        println!("skipped: nothing can be mounted here");
        return Ok(());
    }
    let bytes = fs::read(&path).unwrap();
    if word(&bytes, newest_slot(&bytes) + 23 * 8) == 0 {
        println!("skipped: this kernel does not name its tmpfs");
        return Ok(());
    }
    // Saved to a disk and brought back after the machine was down.
    let copy = dir.path().join("copy");
    copy_as_killed(&path, &copy);
    assert_eq!(in_namespace(TEST, none, "open", &copy), Some(false));
    assert_eq!(in_namespace(TEST, none, "open", &path), Some(true));
    Ok(())
}
