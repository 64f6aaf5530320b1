//! System calls that a heap makes are refused, one in each run, from the beginning or from some moment on:
//! there is an error, or the heap does without the call. No process dies or waits for ever, and nothing is
//! lost.
#![allow(clippy::unit_arg)] // `Ok(tx[p] = 1)` is a transaction in one line

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use pheap::collections::PHashMap;
use pheap::{Durability, Heap, Options, P, Persist, Result, Root, SyncPolicy};
use pheap_testkit::*;

const TEST: &str = "refused::system_calls_that_are_refused";
/// A process that takes longer counts as one that does not end.
const LONG: Duration = Duration::from_secs(120);

/// Which calls with a number are refused.
#[derive(Clone, Copy)]
enum Of {
    All,
    /// Those about addresses at which heaps are mapped.
    Heaps,
}

/// The calls, with numbers of errors that each may have.
const CALLS: [(&str, libc::c_long, Of, &[libc::c_int]); 32] = {
    use Of::{All, Heaps};
    const RULES: &[libc::c_int] = &[libc::ENOSYS, libc::EPERM];
    const FILES: &[libc::c_int] = &[libc::ENOSYS, libc::EPERM, libc::EIO, libc::ENOSPC];
    const MEMORY: &[libc::c_int] = &[libc::EPERM, libc::ENOMEM];
    [
        ("fallocate", libc::SYS_fallocate, All, FILES),
        ("ftruncate", libc::SYS_ftruncate, All, FILES),
        ("fdatasync", libc::SYS_fdatasync, All, FILES),
        ("fsync", libc::SYS_fsync, All, FILES),
        ("sync_file_range", libc::SYS_sync_file_range, All, FILES),
        ("pwrite64", libc::SYS_pwrite64, All, FILES),
        ("pread64", libc::SYS_pread64, All, &[libc::EPERM, libc::EIO]),
        ("lseek", libc::SYS_lseek, All, &[libc::EPERM, libc::EINVAL, libc::EIO]),
        ("fadvise64", libc::SYS_fadvise64, All, RULES),
        ("openat", libc::SYS_openat, All, &[libc::EPERM, libc::EACCES, libc::EMFILE, libc::ENOSPC]),
        ("linkat", libc::SYS_linkat, All, FILES),
        ("unlinkat", libc::SYS_unlinkat, All, FILES),
        ("unlink", libc::SYS_unlink, All, FILES),
        ("renameat2", libc::SYS_renameat2, All, FILES),
        ("rename", libc::SYS_rename, All, FILES),
        ("readlink", libc::SYS_readlink, All, RULES),
        ("fchmod", libc::SYS_fchmod, All, FILES),
        ("flock", libc::SYS_flock, All, &[libc::ENOSYS, libc::EPERM, libc::ENOLCK]),
        ("statx", libc::SYS_statx, All, &[libc::ENOSYS, libc::EPERM, libc::EACCES]),
        ("newfstatat", libc::SYS_newfstatat, All, RULES),
        ("fstatfs", libc::SYS_fstatfs, All, RULES),
        ("memfd_create", libc::SYS_memfd_create, All, &[libc::ENOSYS, libc::EPERM, libc::ENOMEM]),
        ("eventfd2", libc::SYS_eventfd2, All, RULES),
        ("membarrier", libc::SYS_membarrier, All, RULES),
        ("getrandom", libc::SYS_getrandom, All, RULES),
        ("prlimit64", libc::SYS_prlimit64, All, RULES),
        ("sysinfo", libc::SYS_sysinfo, All, RULES),
        ("sched_getaffinity", libc::SYS_sched_getaffinity, All, RULES),
        // With these errors, `pthread_create` does not try `clone` instead.
        ("clone3", libc::SYS_clone3, All, &[libc::EPERM, libc::EAGAIN]),
        ("mmap", libc::SYS_mmap, Heaps, MEMORY),
        ("mprotect", libc::SYS_mprotect, Heaps, MEMORY),
        ("madvise", libc::SYS_madvise, Heaps, &[libc::EPERM, libc::EINVAL]),
    ]
};

/// Has the kernel refuse a call to all threads of this process.
fn refuse((_, call, of, _): (&str, libc::c_long, Of, &[libc::c_int]), error: libc::c_int) {
    let load = |at| libc::sock_filter { code: 0x20, jt: 0, jf: 0, k: at };
    let jump = |code, k, jt, jf| libc::sock_filter { code, jt, jf, k };
    let end = |k| libc::sock_filter { code: 0x06, jt: 0, jf: 0, k };
    let [is, is_at_least] = [0x15, 0x35];
    let (allow, fail) = (end(libc::SECCOMP_RET_ALLOW), end(libc::SECCOMP_RET_ERRNO | error as u32));
    let filter = match of {
        Of::All => vec![load(0), jump(is, call as u32, 0, 1), fail, allow],
        // The upper half of the first argument: see `PLACES` in `os/mapping.rs`.
        Of::Heaps => vec![
            load(0),
            jump(is, call as u32, 0, 4),
            load(20),
            jump(is_at_least, 0x1000, 0, 2),
            jump(is_at_least, 0x5000, 1, 0),
            fail,
            allow,
        ],
    };
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
    // SAFETY: plain system calls, in a separate process, with a filter that lives.
    let refused = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                libc::SECCOMP_FILTER_FLAG_TSYNC,
                &raw const program,
            ) == 0
    };
    if !refused {
        eprintln!("skipped: no system call can be refused here: {}", std::io::Error::last_os_error());
        std::process::exit(0);
    }
}

#[derive(Persist, Default)]
#[repr(C)]
struct Data<'r> {
    count: u64,
    map: PHashMap<'r, u64, u64>,
    big: Option<P<'r, [u64]>>,
}

fn options(durability: Durability) -> Options {
    small().durability(durability).log_limit(1 << 20).memory_limit(1 << 20)
}

fn step(root: &Root<Data>) -> Result<()> {
    root.txn(|tx, d| {
        let next = tx[d].count + 1;
        pheap::field!(d.map).insert(tx, next, next * 3)?;
        if next.is_multiple_of(64) {
            let big = tx.alloc_slice(40_000 + next as usize, |i| i as u64)?;
            tx[d].big = Some(big);
        }
        Ok(tx[d].count = next)
    })
}

/// Asserts that the heap has what its transactions have made: all that were acknowledged, and no more than
/// were begun.
fn check(heap: &Heap, acknowledged: u64, begun: u64) {
    assert!(heap.check().unwrap().is_clean());
    let root: Root<Data> = heap.root("data").unwrap();
    let seen = root.read(|view, d| {
        let data = &view[d];
        assert!(data.map.iter(view).all(|(key, value)| *value == key * 3 && *key <= data.count));
        assert_eq!(data.map.len() as u64, data.count);
        data.count
    });
    let seen = seen.unwrap();
    assert!((acknowledged..=begun).contains(&seen), "{seen} of {acknowledged} to {begun} transactions");
}

/// Most of what a program does with a heap. Unless the heap cannot be opened, says on stdout how many
/// transactions were acknowledged, and how many begun.
fn work(durability: Durability, path: &Path, refuse_now: impl FnOnce()) {
    let say = |what: &str, result: Result<()>| {
        if let Err(error) = result {
            eprintln!("    {what}: {error}");
        }
    };
    let (mut done, mut begun) = (0, 0);
    let mut steps = |root: &Root<Data>| {
        (0..100).try_for_each(|_| {
            begun += 1;
            step(root)?;
            Ok(done += 1)
        })
    };
    let heap = match options(durability).open(path) {
        Ok(heap) => heap,
        Err(error) => return say("open", Err(error)),
    };
    let root: Root<Data> = match heap.root("data") {
        Ok(root) => root,
        Err(error) => return say("root", Err(error)),
    };
    say("steps", steps(&root));
    refuse_now();
    say("steps, then", steps(&root));
    say("deferred", root.txn_deferred(|tx, d| Ok(tx[d].big = None)).and_then(|(_, commit)| commit.wait()));
    say("checkpoint", heap.checkpoint());
    say("policy", heap.set_sync_policy(SyncPolicy::OnDemand));
    say("more steps", steps(&root));
    say("policy", heap.set_sync_policy(SyncPolicy::EveryCommit));
    say("collect", heap.collect());
    say("backup", heap.backup(path.with_extension("copy")));
    say("stream", heap.backup_to(Vec::new()));
    say("follow", options(durability).follower(true).open(path).map(drop));
    say("other", options(durability).open(path.with_extension("other")).map(drop));
    say("wait", heap.wait_ready());
    say("last steps", steps(&root));
    println!("\nacknowledged {done} {begun}");
    drop(root);
    say("close", heap.close());
    say("read", options(durability).read_only(true).open(path).map(drop));
}

/// Runs a role to its end. Returns how many transactions were acknowledged, and how many were begun; 0 and
/// the largest number if the role did not say that.
fn run_role(role: &str, path: &Path) -> (u64, u64) {
    let mut command: Command = child(TEST, role, path);
    let said = path.with_extension("said");
    command.stdout(fs::File::create(&said).unwrap()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let started = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if started.elapsed() > LONG {
            let doing = forks::kill_stuck(child.id() as libc::pid_t);
            panic!("{role}: it does not end\n{doing}");
        }
        thread::sleep(Duration::from_millis(2));
    }
    let ended = child.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{role}: {}\n{errors}", ended.status);
    if std::env::var_os("PHEAP_SHOW_ERRORS").is_some() {
        eprintln!("{role}\n{errors}");
    }
    let said = fs::read_to_string(said).unwrap();
    let Some(numbers) = said.lines().find_map(|line| line.strip_prefix("acknowledged ")) else {
        return (0, u64::MAX);
    };
    let mut numbers = numbers.split(' ').map(|number| number.parse().unwrap());
    (numbers.next().unwrap(), numbers.next().unwrap())
}

fn durability(name: &str) -> Durability {
    if name == "wal" { Durability::Wal } else { Durability::Process }
}

/// A heap that was killed: its file, and its log.
struct Killed {
    durability: Durability,
    heap: Vec<u8>,
    log: Option<Vec<u8>>,
}

/// One call, one error: a new heap, one that was killed, and one that is open when the call is refused first.
fn cell(folder: &Path, killed: &[Killed], number: usize, error: libc::c_int) {
    let name = CALLS[number].0;
    for Killed { durability: of, heap: bytes, log } in killed {
        let durability_name = if *of == Durability::Wal { "wal" } else { "process" };
        for when in ["new", "killed", "open"] {
            let path = folder.join(format!("{durability_name}-{name}-{error}-{when}"));
            if when == "killed" {
                fs::write(&path, bytes).unwrap();
                log.iter().for_each(|log| fs::write(log_of(&path), log).unwrap());
            }
            let role = format!("{durability_name} {when} {number} {error}");
            let (acknowledged, begun) = run_role(&role, &path);
            let before = if when == "killed" { KILLED } else { 0 };
            let heap = options(*of).verify(true).open(&path);
            let heap = heap.unwrap_or_else(|error| panic!("{role}: {error}"));
            check(&heap, before + acknowledged, begun.saturating_add(before));
            heap.close().unwrap();
        }
    }
}

/// Transactions of a heap that was killed.
const KILLED: u64 = 100;

#[test]
fn system_calls_that_are_refused() {
    if let Some((role, path)) = role() {
        let words: Vec<&str> = role.split(' ').collect();
        let durability = durability(words[0]);
        if words[1] == "leave" {
            let heap = options(durability).open(&path).unwrap();
            let root: Root<Data> = heap.root("data").unwrap();
            (0..KILLED).for_each(|_| step(&root).unwrap());
            die();
        }
        let refuse = || refuse(CALLS[words[2].parse::<usize>().unwrap()], words[3].parse().unwrap());
        if words[1] != "open" {
            refuse();
            return work(durability, &path, || {});
        }
        return work(durability, &path, refuse);
    }
    let dir = tempdir();
    let killed = ["wal", "process"].map(|name| {
        let path = dir.path().join(name);
        run_killed(TEST, &format!("{name} leave"), &path);
        Killed { durability: durability(name), heap: as_killed(&path), log: fs::read(log_of(&path)).ok() }
    });
    let cells = CALLS.iter().enumerate();
    let tried =
        |errors: &'static [libc::c_int]| if is_thorough() { errors } else { &errors[errors.len() - 1..] };
    let cells =
        cells.flat_map(|(number, (.., errors))| tried(errors).iter().map(move |&error| (number, error)));
    let cells = Mutex::new(cells.collect::<Vec<_>>().into_iter());
    let next = || cells.lock().unwrap().next();
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some((number, error)) = next() {
                    cell(dir.path(), &killed, number, error);
                }
            });
        }
    });
}
