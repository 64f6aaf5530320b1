//! The example `kv`: the output of its commands, and imports, which take effect as a whole or not at all.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use pheap_testkit::Rng;

type Entries = BTreeMap<String, String>;

/// The example, on one heap file.
struct Kv {
    dir: tempfile::TempDir,
    program: PathBuf,
}

impl Kv {
    fn new() -> Kv {
        Kv { dir: tempfile::tempdir().unwrap(), program: pheap_testkit::example("kv") }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("--heap").arg(self.path("kv.pheap")).args(args);
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("the example can be run")
    }

    /// Runs a command that must succeed, and print this.
    #[track_caller]
    fn prints(&self, args: &[&str], expected: &str) {
        let output = self.run(args);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert_eq!(text(&output.stdout), expected, "{args:?}");
    }

    /// Runs a command that must end with this status, print nothing, and give this reason.
    #[track_caller]
    fn fails(&self, args: &[&str], status: i32, why: &str) {
        let output = self.run(args);
        assert_eq!(output.status.code(), Some(status), "{output:?}");
        assert_eq!(text(&output.stdout), "", "{args:?}");
        assert!(text(&output.stderr).contains(why), "{output:?}");
    }

    fn export(&self) -> Entries {
        let output = self.run(&["export"]);
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).expect("JSON")
    }

    /// Runs a command with this as standard input.
    fn with_input(&self, args: &[&str], input: &str) -> Output {
        let mut child = self.spawn_with_input(args);
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    }

    fn spawn_with_input(&self, args: &[&str]) -> std::process::Child {
        let mut command = self.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("the example can be run")
    }

    fn write(&self, name: &str, entries: &Entries) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, serde_json::to_vec(entries).unwrap()).unwrap();
        path
    }
}

#[track_caller]
fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("the output is text")
}

fn arg(path: &Path) -> &str {
    path.to_str().expect("the folder has a plain name")
}

/// Returns entries with numbered keys. Each value is `value` and the number.
fn entries(count: usize, value: &str) -> Entries {
    (0..count).map(|i| (format!("key {i}"), format!("{value}{i}"))).collect()
}

#[test]
fn what_the_commands_answer() {
    let kv = Kv::new();
    kv.fails(&["get", "apple"], 2, "there is no store");
    kv.fails(&["del", "apple"], 2, "there is no store");
    assert!(!kv.path("kv.pheap").exists());

    for (key, value) in [("pear", "green"), ("apple", "red"), ("apricot", "orange"), ("größe", "\"1\"\n")] {
        kv.prints(&["set", key, value], "");
    }
    kv.prints(&["get", "apple"], "red\n");
    kv.prints(&["get", "größe"], "\"1\"\n\n");
    kv.prints(&["set", "apple", "yellow"], "");
    kv.prints(&["get", "apple"], "yellow\n");
    kv.prints(&["count"], "4\n");
    kv.fails(&["get", "app"], 1, "there is no key \"app\"");

    kv.prints(&["scan", "--limit", "3"], "apple\tyellow\napricot\torange\ngröße\t\"1\"\n\n");
    kv.prints(&["scan", "apr", "--to", "b"], "apricot\torange\n");
    kv.prints(&["scan", "--prefix", "ap"], "apple\tyellow\napricot\torange\n");
    kv.prints(&["scan", "applf", "--prefix", "ap"], "apricot\torange\n");
    kv.prints(&["scan", "b", "--prefix", "ap"], "");
    kv.prints(&["scan", "pear"], "pear\tgreen\n");
    kv.prints(&["scan", "z", "--to", "a"], "");
    kv.prints(&["scan", "--limit", "0"], "");

    let stats = kv.run(&["stats"]);
    assert!(text(&stats.stdout).starts_with("keys                  4\n"), "{stats:?}");

    let output = kv.run(&["del", "pear", "fig", "apple"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stderr), "there is no key \"fig\"\n");
    kv.prints(&["count"], "2\n");
    kv.prints(&["del", "apricot", "größe"], "");
    kv.prints(&["export"], "{}\n");
    kv.prints(&["scan"], "");
}

#[test]
fn an_export_is_what_was_imported() {
    let kv = Kv::new();
    let mut all = entries(3000, "one ");
    all.insert("\u{0}\"\\\n\t".to_owned(), String::new());
    all.insert(String::new(), "the empty key".to_owned());
    let file = kv.write("one.json", &all);
    let output = kv.run(&["import", arg(&file)]);
    assert_eq!(text(&output.stderr), "imported 3002 entries, 3002 of them new\n", "{output:?}");
    assert_eq!(kv.export(), all);

    // An import adds to the entries that are there.
    let more = entries(3100, "two ");
    let output = kv.with_input(&["import", "-"], &serde_json::to_string(&more).unwrap());
    assert_eq!(text(&output.stderr), "imported 3100 entries, 100 of them new\n", "{output:?}");
    all.extend(more);
    let copy = kv.path("copy.json");
    kv.prints(&["export", arg(&copy)], "");
    assert_eq!(serde_json::from_slice::<Entries>(&fs::read(copy).unwrap()).unwrap(), all);
    let keys = kv.run(&["scan", "key", "--to", "kez", "--prefix", "key 29"]);
    let expected: String = all
        .iter()
        .filter(|(key, _)| key.starts_with("key 29"))
        .map(|(key, value)| format!("{key}\t{value}\n"))
        .collect();
    assert_eq!(text(&keys.stdout), expected);
}

#[test]
fn what_is_no_json_object_of_strings_is_refused() {
    let kv = Kv::new();
    kv.prints(&["set", "a", "1"], "");
    for input in [
        "",
        "[]",
        "{\"b\": 1}",
        "{\"b\": \"2\", \"c\": null}",
        "{\"b\": \"2\"",
        "{\"b\": \"2\"} x",
        "{\"b\": \"1\", \"b\": \"2\"}",
    ] {
        let output = kv.with_input(&["import", "-"], input);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(text(&output.stderr).contains("Nothing was imported"), "{output:?}");
    }
    kv.fails(&["import", "/does/not/exist.json"], 2, "cannot read /does/not/exist.json");
    kv.fails(&["export", "/does/not/exist.json"], 2, "cannot write /does/not/exist.json");
    fs::write(kv.path("text"), "not a heap").unwrap();
    kv.fails(&["count", "--heap", arg(&kv.path("text"))], 2, "is not a pheap file; choose another path");
    kv.prints(&["scan"], "a\t1\n");
}

#[test]
fn a_heap_of_another_program_is_not_taken_for_a_store() {
    let kv = Kv::new();
    let path = kv.path("kv.pheap");
    let heap = pheap::Heap::open(&path).unwrap();
    kv.fails(&["set", "a", "1"], 2, "is open in another process; close it there first");
    let root = heap.root::<u64>("other").unwrap();
    drop(root);
    heap.close().unwrap();
    kv.fails(&["get", "a"], 2, "is a heap of another program");
    // A heap without roots, as after a kill before the store is created.
    let heap = pheap::Heap::open(&path).unwrap();
    heap.remove_root("other").unwrap();
    heap.close().unwrap();
    kv.fails(&["get", "a"], 1, "there is no key");
    kv.prints(&["count"], "0\n");
}

#[test]
fn a_killed_import_has_not_begun() {
    let kv = Kv::new();
    kv.prints(&["import", arg(&kv.write("old.json", &entries(2000, "old ")))], "");
    let before = kv.export();
    let new = entries(2500, "new ");
    let file = kv.write("new.json", &new);
    for after in [0, 1, 10, 600, 1100, 1999, 2001, 2499] {
        let output = kv.run(&["import", arg(&file), "--kill-after", &after.to_string()]);
        assert_eq!(output.status.signal(), Some(9), "{output:?}");
        assert_eq!(kv.export(), before, "after {after}"); // read-only: the file stays as it is
    }
    kv.prints(&["import", arg(&file)], "");
    assert_eq!(kv.export(), new);
}

#[test]
fn killed_at_any_moment_imports_are_whole() {
    let kv = Kv::new();
    kv.prints(&["set", "key 0", "first 0"], "");
    let rng = &mut Rng::from_seed(7);
    let mut newest = kv.export();
    for round in 0..12 {
        // More keys each time, so all versions differ.
        let next = entries(300 * (round + 1), &format!("round {round} "));
        let json = serde_json::to_string(&next).unwrap();
        let mut child = kv.spawn_with_input(&["import", "-"]);
        let mut input = child.stdin.take().unwrap();
        // Most rounds send all of the input. How far the import comes before the kill is random.
        let sent = if rng.scaled(4) == 0 { json.len() / 2 } else { json.len() };
        input.write_all(&json.as_bytes()[..sent]).unwrap();
        if sent == json.len() {
            drop(input);
            for _ in 0..rng.scaled(40) {
                let _ = kv.run(&["--version"]); // lets some time pass
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let now = kv.export();
        if now != newest {
            assert!(sent == json.len() && now == next, "round {round}: {} entries", now.len());
            newest = now;
        }
    }
}

#[test]
fn readers_do_not_exclude_each_other() {
    let kv = Kv::new();
    let all = entries(20_000, "a value that takes some time to print, because there are so many of them: ");
    kv.prints(&["import", arg(&kv.write("all.json", &all))], "");
    // Nobody reads the output of these commands yet. It is too long for a pipe, so they cannot end.
    let readers: Vec<_> = (0..3).map(|_| kv.spawn_with_input(&["export"])).collect();
    kv.prints(&["count"], "20000\n");
    kv.prints(&["get", "key 19999"], &format!("{}\n", all["key 19999"]));
    for reader in readers {
        let output = reader.wait_with_output().unwrap();
        assert!(output.status.success());
        assert!(serde_json::from_slice::<Entries>(&output.stdout).unwrap() == all);
    }
    kv.prints(&["set", "key 0", "changed"], ""); // after all readers have ended
}
