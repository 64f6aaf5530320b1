//! Children of this process: what they find of its heaps.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::threads::says_asleep;

/// How long a child may take.
pub const LONG: Duration = Duration::from_secs(60);

/// Longer than any thread of pheap waits without looking whether it must go on.
const ASLEEP: Duration = Duration::from_secs(7);

/// The status of a child in which all was well: not that of a process that ends by itself.
const WELL: i32 = 42;

/// Makes a child of this process, which has this thread only. Its number; 0 in the child, which must [`end`].
///
/// # Panics
/// If there are too many processes.
pub fn split() -> libc::pid_t {
    // SAFETY: the child waits for no lock that another thread may have held at this moment: it runs a few calls of pheap, of which that is what is to be
    // found out, and then ends without running anything of its parent's.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "no more processes");
    child
}

/// Starts a child that runs `f`; its number.
pub fn fork(f: impl FnOnce() -> bool) -> libc::pid_t {
    let child = split();
    if child == 0 {
        end(catch_unwind(AssertUnwindSafe(f)).unwrap_or(false));
    }
    child
}

/// Ends a child.
pub fn end(well: bool) -> ! {
    // SAFETY: ends this process at once.
    unsafe { libc::_exit(if well { WELL } else { 1 }) }
}

/// Ends a child when it has dropped a value that it has a reference to: the last handle of something that is locked.
pub fn end_without<T>(value: &T, well: bool) -> ! {
    // SAFETY: this process, which has one thread, ends here, so nobody uses or drops the value again.
    let drops = || drop(unsafe { std::ptr::read(value) });
    end(well && catch_unwind(AssertUnwindSafe(drops)).is_ok())
}

/// Waits for a child, which is killed if it waits for ever.
///
/// # Errors
/// If it does, or if it does not [`end`] well.
pub fn ended(child: libc::pid_t) -> Result<(), String> {
    let (mut status, start) = (0, Instant::now());
    let (mut looked, mut asleep, mut is_stuck) = (start, None, false);
    // SAFETY: writes to a variable that lives; of a number that is no child's, it says so.
    while unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } == 0 {
        if looked.elapsed() > ASLEEP {
            let before = std::mem::replace(&mut asleep, all_asleep(child));
            looked = Instant::now();
            is_stuck = asleep.is_some() && asleep == before;
        }
        if is_stuck || start.elapsed() > LONG {
            eprintln!("{}", kill_stuck(child));
            // SAFETY: writes to a variable that lives.
            unsafe { libc::waitpid(child, &raw mut status, 0) };
            return Err("a child waits for ever".to_owned());
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    let well = libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == WELL;
    if well { Ok(()) } else { Err(format!("a child has ended with {status:#x}")) }
}

/// If all threads of a process sleep: how long each of them has run so far.
fn all_asleep(process: libc::pid_t) -> Option<Vec<String>> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).ok()?;
    let asleep = threads.map(|thread| {
        let thread = thread.ok()?.path();
        let stat = fs::read_to_string(thread.join("stat")).ok()?;
        says_asleep(&stat).then(|| fs::read_to_string(thread.join("schedstat")).ok())?
    });
    asleep.collect()
}

/// Kills a process that waits for ever. What each of its threads is doing, in the words of the kernel and of a debugger, if there is one.
pub fn kill_stuck(process: libc::pid_t) -> String {
    let mut doing = String::new();
    for thread in fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten() {
        let of_thread = |what| fs::read_to_string(thread.path().join(what)).unwrap_or_default();
        doing += &["comm", "wchan", "syscall", "stack"].map(of_thread).join("\n");
    }
    let mut debugger = Command::new("gdb");
    debugger.args(["-batch", "-ex", "thread apply all backtrace 40", "-p", &process.to_string()]);
    if let Ok(said) = debugger.stdin(Stdio::null()).output() {
        doing += &String::from_utf8_lossy(&said.stdout);
    }
    // SAFETY: a signal to a process that does not end by itself, so its number is nobody else's.
    unsafe { libc::kill(process, libc::SIGKILL) };
    doing
}

/// Runs `f` in a child.
///
/// # Errors
/// If it ends in another way than by `f`, or not at all, or if `f` says so.
pub fn in_child(f: impl FnOnce() -> bool) -> Result<(), String> {
    ended(fork(f))
}
