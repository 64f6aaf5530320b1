//! Other processes: this test program again, to run one test in another role; and examples.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

const ROLE: &str = "PHEAP_TEST_ROLE";
const PLACE: &str = "PHEAP_TEST_PATH";

/// Returns the role of this process and its path, if [`child`] started it.
pub fn role() -> Option<(String, PathBuf)> {
    Some((std::env::var(ROLE).ok()?, PathBuf::from(std::env::var_os(PLACE)?)))
}

/// Returns the command that runs the test `test` in this role.
///
/// # Panics
/// If the test does not exist, or this program cannot be run.
pub fn child(test: &str, role: &str, path: &Path) -> Command {
    let this = || Command::new(std::env::current_exe().expect("a path"));
    // Without the test, the program would do nothing and succeed.
    let listed = this().args([test, "--exact", "--list"]).output().expect("the names of the tests").stdout;
    assert!(String::from_utf8_lossy(&listed).contains(": test"), "there is no test {test}");
    let mut command = this();
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]);
    command.env(ROLE, role).env(PLACE, path).stdout(Stdio::null());
    command
}

/// Runs a child to its end.
///
/// # Panics
/// If the test does not exist, or the child cannot be started.
pub fn run(test: &str, role: &str, path: &Path) -> ExitStatus {
    child(test, role, path).status().expect("the test program can be started")
}

/// Runs a child that must end by [`die`].
///
/// # Panics
/// If the child ends otherwise than by `SIGKILL`, or as [`run`].
pub fn run_killed(test: &str, role: &str, path: &Path) {
    let status = run(test, role, path);
    assert_eq!(status.signal(), Some(libc::SIGKILL), "{role}: {status}");
}

/// Runs a child that must succeed.
///
/// # Panics
/// If the child fails, or as [`run`].
pub fn run_well(test: &str, role: &str, path: &Path) {
    let status = run(test, role, path);
    assert!(status.success(), "{role}: {status}");
}

/// Runs a child, and ends it with `kill -9` when `is_enough` returns true. Calls `is_enough` about once a
/// millisecond.
///
/// # Panics
/// If the test does not exist, or the child cannot be started or ends before.
pub fn run_until(test: &str, role: &str, path: &Path, is_enough: impl FnMut() -> bool) {
    let mut child = child(test, role, path).spawn().expect("the test program can be started");
    wait_until(&mut child, is_enough);
    child.kill().expect("a signal");
    child.wait().expect("a child");
}

/// Waits until `is_so` returns true. Panics if the child ends before.
fn wait_until(child: &mut Child, mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        assert!(child.try_wait().expect("a child").is_none(), "the child has ended");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Mounts a tmpfs that only the calling thread sees, and the threads and processes that it starts afterwards.
/// Returns false (and prints a note) if that is not possible.
///
/// # Panics
/// If the path has a zero byte.
pub fn mount_tmpfs(path: &Path, options: &std::ffi::CStr) -> bool {
    let target = std::ffi::CString::new(path.as_os_str().as_encoded_bytes()).expect("no zeros");
    // SAFETY: the strings and null pointers are valid arguments of these calls, and the strings live until
    // they return. Other processes do not see the mount.
    let mounted = unsafe {
        libc::unshare(libc::CLONE_NEWNS) == 0
            && libc::mount(
                std::ptr::null(),
                c"/".as_ptr(),
                std::ptr::null(),
                libc::MS_REC | libc::MS_PRIVATE,
                std::ptr::null(),
            ) == 0
            && libc::mount(c"none".as_ptr(), target.as_ptr(), c"tmpfs".as_ptr(), 0, options.as_ptr().cast())
                == 0
    };
    if !mounted {
        eprintln!("skipped: cannot mount a tmpfs here: {}", std::io::Error::last_os_error());
    }
    mounted
}

/// Kills this process with `kill -9`.
pub fn die() -> ! {
    // SAFETY: the call has no pointers; it sends a signal to this process.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    loop {
        std::thread::park();
    }
}

/// Reports, in a child, that it is ready. Then waits until its parent closes the pipe.
///
/// # Panics
/// If the file that reports it cannot be written.
pub fn ready_and_wait(path: &Path) {
    std::fs::write(path.with_extension("ready"), "").expect("a file");
    let _ = std::io::read_to_string(std::io::stdin());
}

/// Starts a child, and waits until it is ready. [`release`] lets it go on.
///
/// # Panics
/// If the test does not exist, or the child cannot be started, ends before it is ready, or is not ready
/// within a minute.
pub fn start(test: &str, role: &str, path: &Path) -> Child {
    let mut child =
        child(test, role, path).stdin(Stdio::piped()).spawn().expect("the test program can be started");
    let (ready, since) = (path.with_extension("ready"), Instant::now());
    wait_until(&mut child, || {
        assert!(since.elapsed() < Duration::from_secs(60), "the child does not get ready");
        ready.exists()
    });
    std::fs::remove_file(ready).expect("it was there");
    child
}

/// Lets a child of [`start`] go on, and waits for its end.
///
/// # Panics
/// If the child fails.
pub fn release(mut child: Child) {
    drop(child.stdin.take());
    assert!(child.wait().expect("a child").success());
}

/// Returns the program of an example. If there is none beside these tests, builds it, with their profile:
/// `dev` or `release`.
///
/// # Panics
/// If the example cannot be built.
pub fn example(name: &str) -> PathBuf {
    static BUILD: Mutex<()> = Mutex::new(());
    // target/<profile>/deps/<this test>
    let test = std::env::current_exe().unwrap();
    let profile = test.parent().unwrap().parent().unwrap();
    let program = profile.join("examples").join(name);
    let _one_at_a_time = BUILD.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if !program.exists() {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "--package", "pheap-examples", "--example", name]);
        cargo.arg("--target-dir").arg(profile.parent().unwrap());
        if profile.ends_with("release") {
            cargo.arg("--release");
        }
        let status = cargo
            .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
            .status()
            .expect("cargo can be run");
        assert!(status.success(), "cannot build the example {name:?}");
    }
    program
}
