//! Children of this process, which inherit its heaps.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::threads::says_asleep;

/// Longest time for a child.
pub const LONG: Duration = Duration::from_secs(60);

/// Time between two looks at the threads of a child. It should be longer than any timed sleep of pheap's
/// threads.
const ASLEEP: Duration = Duration::from_secs(7);

/// Exit status of a successful child: neither 0 nor the 101 of a program that panicked.
const WELL: i32 = 42;

/// Forks a child, which has only the calling thread. Returns its number; in the child it returns 0, and the
/// child must [`end`].
///
/// # Panics
/// If this process cannot fork.
pub fn split() -> libc::pid_t {
    // SAFETY: the child has only this thread, so it must not wait for a lock that another thread held at this
    // moment. The tests make a few calls of pheap there, whose behaviour in a child is being tested, and then
    // call [`end`].
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "no more processes");
    child
}

/// Starts a child that runs `f`. Returns its number.
pub fn fork(f: impl FnOnce() -> bool) -> libc::pid_t {
    let child = split();
    if child == 0 {
        end(catch_unwind(AssertUnwindSafe(f)).unwrap_or(false));
    }
    child
}

/// Ends a child.
pub fn end(well: bool) -> ! {
    // SAFETY: `_exit` takes any status, and ends this process at once.
    unsafe { libc::_exit(if well { WELL } else { 1 }) }
}

/// Ends a child. If all was `well`, first drops a value that it only has a reference to, such as the last
/// handle of a heap. If that panics, the child does not end well.
pub fn end_without<T>(value: &T, well: bool) -> ! {
    // SAFETY: `value` is a valid reference. This process has one thread and ends here, so the value is
    // neither used nor dropped again.
    let drops = || drop(unsafe { std::ptr::read(value) });
    end(well && catch_unwind(AssertUnwindSafe(drops)).is_ok())
}

/// Waits for a child. Kills it if it seems to wait for ever: at two looks all its threads slept, and none had
/// run in between, or [`LONG`] is over.
///
/// # Errors
/// If the child was killed for that, or does not [`end`] well.
pub fn ended(child: libc::pid_t) -> Result<(), String> {
    let (mut status, start) = (0, Instant::now());
    let (mut looked, mut asleep, mut is_stuck) = (start, None, false);
    // SAFETY: `status` is a live variable that the call may write to. For a number that is no child it
    // returns an error.
    while unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } == 0 {
        if looked.elapsed() > ASLEEP {
            let before = std::mem::replace(&mut asleep, all_asleep(child));
            looked = Instant::now();
            is_stuck = asleep.is_some() && asleep == before;
        }
        if is_stuck || start.elapsed() > LONG {
            eprintln!("{}", kill_stuck(child));
            // SAFETY: `status` is a live variable that the call may write to.
            unsafe { libc::waitpid(child, &raw mut status, 0) };
            return Err("a child waits for ever".to_owned());
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    let well = libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == WELL;
    if well { Ok(()) } else { Err(format!("a child has ended with {status:#x}")) }
}

/// Returns the run times of all threads of a process if all of them sleep.
fn all_asleep(process: libc::pid_t) -> Option<Vec<String>> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).ok()?;
    let asleep = threads.map(|thread| {
        let thread = thread.ok()?.path();
        let stat = fs::read_to_string(thread.join("stat")).ok()?;
        says_asleep(&stat).then(|| fs::read_to_string(thread.join("schedstat")).ok())?
    });
    asleep.collect()
}

/// Kills a process that waits for ever. Returns the state of each thread, as reported by the kernel, and by a
/// debugger if there is one.
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
    // SAFETY: the call has no pointers. `process` is a child that was not waited for, so its number belongs
    // to no other process.
    unsafe { libc::kill(process, libc::SIGKILL) };
    doing
}

/// Runs `f` in a child.
///
/// # Errors
/// If the child does not end after `f`, or `f` returns false.
pub fn in_child(f: impl FnOnce() -> bool) -> Result<(), String> {
    ended(fork(f))
}
