//! Runs the program on heaps of this test. The test knows their types, and the program does not.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use pheap::{Durability, Heap, Options, P, Persist, Result, Root, Txn};
use serde_json::{Value, json};

/// A word index.
#[derive(Persist)]
#[repr(C)]
struct Index<'r> {
    buckets: P<'r, [Option<P<'r, Word<'r>>>]>,
    files: Option<P<'r, File<'r>>>,
}

#[derive(Persist)]
#[repr(C)]
struct Word<'r> {
    text: P<'r, str>,
    times: u64,
    uses: [Use<'r>; 2],
    next: Option<P<'r, Word<'r>>>,
}

#[derive(Persist, Clone, Copy)]
#[repr(C)]
struct Use<'r> {
    file: Option<P<'r, File<'r>>>,
    line: u32,
}

#[derive(Persist)]
#[repr(C)]
struct File<'r> {
    name: P<'r, str>,
    state: State,
    next: Option<P<'r, File<'r>>>,
}

#[derive(Persist, Clone, Copy)]
#[repr(u32)]
#[allow(dead_code)] // read by the program only
enum State {
    UpTo(u32),
    Complete,
}

const TIMES: u64 = 0x1234_5678_9abc_def0;

fn options() -> Options {
    Options::new().arena_size(1 << 20).reserve(1 << 30).durability(Durability::Process)
}

fn index<'r>(tx: &mut Txn<'r>) -> Result<Index<'r>> {
    let file = |name: &str, state, next| tx.alloc(File { name: tx.alloc_str(name)?, state, next });
    let b = file("b.md", State::Complete, None)?;
    let a = file("a \"quoted\" name", State::UpTo(3), Some(b))?;
    let nowhere = Use { file: None, line: 0 };
    let word =
        |text: &str, times, uses, next| tx.alloc(Word { text: tx.alloc_str(text)?, times, uses, next });
    let heap = word("heap", TIMES, [Use { file: Some(a), line: 7 }, nowhere], None)?;
    let crash =
        word("größe", 2, [Use { file: Some(a), line: 1 }, Use { file: Some(b), line: 2 }], Some(heap))?;
    Ok(Index { buckets: tx.alloc_slice(3, |i| (i == 1).then_some(crash))?, files: Some(a) })
}

/// A folder for heaps.
struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        Place { dir: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn with_index() -> (Place, PathBuf) {
        let place = Place::new();
        let path = place.path("index.pheap");
        let heap = options().open(&path).unwrap();
        heap.root_or::<Index>("index", index).unwrap();
        heap.close().unwrap();
        (place, path)
    }
}

fn pheap(command: &str, file: &Path, more: &[&str]) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_pheap"));
    program.arg(command).arg(file).args(more).output().expect("the program can be run")
}

#[track_caller]
fn ends_with(output: &Output, status: i32) -> String {
    assert_eq!(output.status.code(), Some(status), "{output:?}");
    let text = if status == 2 { &output.stderr } else { &output.stdout };
    String::from_utf8(text.clone()).unwrap()
}

fn text(command: &str, file: &Path, more: &[&str]) -> String {
    ends_with(&pheap(command, file, more), 0)
}

fn json(command: &str, file: &Path, more: &[&str]) -> Value {
    serde_json::from_str(&text(command, file, more)).expect("the output is JSON")
}

fn offset(object: &Value) -> &str {
    object["$id"].as_str().expect("it has an $id")
}

#[test]
fn a_dump_is_the_heap() {
    let (_place, path) = Place::with_index();
    let all = json("dump", &path, &["index"]);
    let (files, words) = (&all["files"], &all["buckets"]);
    let reference = |object: &Value| json!({ "$ref": offset(object) });
    let (a, b) = (reference(files), reference(&files["next"]));
    assert_eq!(
        *files,
        json!({
            "$id": offset(files), "name": "a \"quoted\" name", "state": { "UpTo": { "0": 3 } },
            "next": { "$id": offset(&files["next"]), "name": "b.md", "state": "Complete", "next": null },
        })
    );
    let nowhere = json!({ "file": null, "line": 0 });
    let crash = json!({
        "text": "größe", "times": 2, "uses": [{ "file": a, "line": 1 }, { "file": b, "line": 2 }],
        "next": { "text": "heap", "times": TIMES, "uses": [{ "file": a, "line": 7 }, nowhere], "next": null },
    });
    assert_eq!(*words, json!([null, crash, null]));
    // The name of the only root may be left out, and blanks mean nothing.
    assert_eq!(json("dump", &path, &["--compact"]), all);
    assert_eq!(text("dump", &path, &["--compact"]).lines().count(), 1);
}

#[test]
fn a_dump_ends_somewhere() {
    let (_place, path) = Place::with_index();
    let none = json("dump", &path, &["--depth", "0"]);
    assert!(none["buckets"]["$ref"].is_string() && none["files"]["$ref"].is_string());
    let one = json("dump", &path, &["--depth", "1"]);
    // Strings are printed at any distance. The second file is too far away, so it is only a reference.
    assert_eq!(one["files"]["name"], "a \"quoted\" name");
    assert!(one["files"]["next"]["$ref"].is_string() && one["files"].get("$id").is_none());
    assert!(one["buckets"][1]["$ref"].is_string());
    let items = json("dump", &path, &["--items", "1"]);
    assert_eq!(items["buckets"], json!([null, { "$more": 2 }]));
}

#[derive(Persist)]
#[repr(C)]
struct Everything<'r> {
    small: i8,
    large: u128,
    negative: i128,
    exact: u64,
    float: f32,
    double: [f64; 4],
    flags: [bool; 2],
    letter: char,
    nothing: (),
    empty: P<'r, str>,
    matrix: [[u16; 2]; 2],
    /// Into the slice, and to itself.
    second: P<'r, Ring<'r>>,
    rings: P<'r, [Ring<'r>]>,
    number: P<'r, u64>,
    same: P<'r, u64>,
}

#[derive(Persist, Clone, Copy)]
#[repr(C)]
struct Ring<'r> {
    next: Option<P<'r, Ring<'r>>>,
}

#[test]
fn values_of_all_kinds_are_printed() -> Result<()> {
    let place = Place::new();
    let path = place.path("x");
    let heap = options().open(&path)?;
    heap.root_or::<Everything>("all", |tx| {
        let rings = tx.alloc_slice(2, |_| Ring { next: None })?;
        let last = rings.at(tx, 1);
        tx[last].next = Some(last);
        let number = tx.alloc(5u64)?;
        Ok(Everything {
            small: -1,
            large: u128::MAX,
            negative: i128::MIN,
            exact: u64::MAX,
            float: 0.1,
            double: [f64::NAN, f64::INFINITY, f64::MIN_POSITIVE, -0.0],
            flags: [true, false],
            letter: '\u{7f}',
            nothing: (),
            empty: tx.alloc_str("")?,
            matrix: [[1, 2], [3, 4]],
            second: rings.at(tx, 1),
            rings,
            number,
            same: number,
        })
    })?;
    heap.close()?;
    let all = json("dump", &path, &[]);
    let text = text("dump", &path, &[]);
    for exact in [
        "340282366920938463463374607431768211455",
        "-170141183460469231731687303715884105728",
        "18446744073709551615",
    ] {
        assert!(text.contains(exact), "{exact} is not in {text}");
    }
    assert_eq!((&all["small"], &all["float"], &all["nothing"]), (&json!(-1), &json!(0.1), &json!(null)));
    assert_eq!(all["double"], json!(["NaN", "inf", f64::MIN_POSITIVE, -0.0]));
    assert_eq!(all["flags"], json!([true, false]));
    assert_eq!((&all["letter"], &all["empty"]), (&json!("\u{7f}"), &json!("")));
    assert_eq!(all["matrix"], json!([[1, 2], [3, 4]]));
    let ring = offset(&all["second"]);
    assert_eq!(all["second"], json!({ "$id": ring, "next": { "$ref": ring } }));
    assert_eq!(all["rings"], json!([{ "next": null }, { "next": { "$ref": ring } }]));
    assert_eq!(all["number"], json!({ "$id": offset(&all["number"]), "$value": 5 }));
    assert_eq!(all["same"], json!({ "$ref": offset(&all["number"]) }));
    Ok(())
}

/// No stack overflows, neither in the check nor in the dump.
#[test]
fn lists_may_be_long() -> Result<()> {
    const LEN: usize = 200_000;
    let place = Place::new();
    let path = place.path("x");
    let heap = options().open(&path)?;
    let list: Root<Option<P<Ring>>> = heap.root("list")?;
    list.txn(|tx, list| {
        for _ in 0..LEN {
            let ring = tx.alloc(Ring { next: tx[list] })?;
            tx[list] = Some(ring);
        }
        Ok(())
    })?;
    heap.close()?;
    let dump = text("dump", &path, &["list", "--depth", &LEN.to_string(), "--compact"]);
    assert_eq!(dump.matches("{\"next\":").count(), LEN);
    assert!(dump.contains("{\"next\":null}}}}") && dump.matches('}').count() == LEN);
    assert!(text("check", &path, &[]).contains("200001 objects"));
    Ok(())
}

#[test]
fn tables_say_what_there_is() {
    let (place, path) = Place::with_index();
    let info = json("info", &path, &["--json"]);
    assert!(["wal", "pmem", "process"].iter().any(|offered| info["offered"] == *offered));
    assert_eq!((&info["format"], &info["state"], &info["roots"]), (&json!(3), &json!("closed"), &json!(1)));
    assert_eq!(info["file_bytes"], fs::metadata(&path).unwrap().len());
    assert!(text("info", &path, &[]).contains("1048576 bytes (1.0 MiB)"));

    assert_eq!(json("roots", &path, &["--json"]), json!([{ "name": "index", "type": "Index" }]));
    assert_eq!(text("roots", &path, &[]), "index  Index\n");

    let types = json("types", &path, &["--json"]);
    let word = types.as_array().unwrap().iter().find(|ty| ty["name"] == "Word").unwrap();
    assert_eq!((&word["size"], &word["align"]), (&json!(56), &json!(8)));
    let layout = word["layout"].as_str().unwrap();
    assert!(layout.starts_with("Word { text: P<str> @0, times: u64 @8,"), "{layout}");
    assert!(text("types", &path, &[]).contains(layout));

    let other = place.path("other");
    mod later {
        use pheap::{P, Persist};
        #[derive(Persist)]
        #[repr(C)]
        pub(crate) struct Index<'r> {
            pub(crate) words: Option<P<'r, Word<'r>>>,
        }
        #[derive(Persist)]
        #[repr(C)]
        pub(crate) struct Word<'r> {
            text: P<'r, str>,
        }
    }
    options()
        .open(&other)
        .unwrap()
        .root_or::<later::Index>("index", |_| Ok(later::Index { words: None }))
        .unwrap();
    let diff = text("types", &path, &["--diff", other.to_str().unwrap()]);
    let lines: Vec<&str> = diff.lines().collect();
    assert!(lines.contains(&format!("-  {layout}").as_str()), "{diff}");
    assert!(lines.iter().any(|line| line.starts_with("+  Word { text: P<str> @0 }, 8 bytes")), "{diff}");
    assert!(lines.iter().any(|line| line.starts_with("-  File {")) && !diff.contains("str {"), "{diff}");
    let differences = json("types", &path, &["--json", "--diff", other.to_str().unwrap()]);
    assert_eq!(differences[2]["name"], "Word");
    let copy = place.path("copy");
    fs::copy(&path, &copy).unwrap();
    assert_eq!(text("types", &path, &["--diff", copy.to_str().unwrap()]), "");

    let stats = json("stats", &path, &["--json"]);
    let of = |name: &str| {
        let usage = stats["usage"].as_array().unwrap();
        let of_type = usage.iter().find(|usage| usage["type"] == name).unwrap();
        (of_type["objects"].as_u64().unwrap(), of_type["bytes"].as_u64().unwrap())
    };
    assert_eq!((of("Word"), of("File"), of("Index")), ((2, 112), (2, 48), (1, 16)));
    assert_eq!((of("str").0, &stats["objects"]), (4, &json!(10)));
    assert!(
        text("stats", &path, &[])
            .lines()
            .any(|line| line.split_whitespace().eq(["index", "Word", "2", "112", "4096"]))
    );
}

#[test]
fn a_flipped_pointer_is_found() {
    let (place, path) = Place::with_index();
    assert!(text("check", &path, &[]).contains("1 root: clean"));
    let clean = json("check", &path, &["--json"]);
    assert_eq!((&clean["clean"], &clean["roots"], &clean["problems"]), (&json!(true), &json!(1), &json!([])));

    let mut bytes = fs::read(&path).unwrap();
    // The last one: there may be others in logs.
    let times = bytes.windows(8).rposition(|word| word == TIMES.to_le_bytes()).unwrap();
    let file = times + 8; // the first of its uses
    bytes[file + 4] ^= 0x40;
    let damaged = place.path("damaged");
    fs::write(&damaged, &bytes).unwrap();
    let report = ends_with(&pheap("check", &damaged, &[]), 1);
    assert!(report.contains("1 problem") && report.contains("`Word.uses[0].file`"), "{report}");
    let report: Value = serde_json::from_str(&ends_with(&pheap("check", &damaged, &["--json"]), 1)).unwrap();
    assert_eq!((&report["clean"], report["problems"].as_array().unwrap().len()), (&json!(false), 1));
    // The dump shows the invalid pointer, and everything else.
    let dump: Value = serde_json::from_str(&ends_with(&pheap("dump", &damaged, &[]), 1)).unwrap();
    let found = &dump["buckets"][1]["next"]["uses"][0]["file"]["$invalid"];
    assert!(found.as_str().unwrap().contains("outside of the heap"), "{found}");
    assert_eq!(dump["files"]["next"]["name"], "b.md");
    ends_with(&pheap("stats", &damaged, &[]), 1);
    assert!(options().verify(true).open(&damaged).is_err());

    // A heap that cannot be opened is not clean either.
    fs::write(&damaged, &bytes[..bytes.len() - 1]).unwrap();
    assert!(ends_with(&pheap("check", &damaged, &[]), 1).contains("truncated"));
}

#[test]
fn garbage_is_collected() -> Result<()> {
    let (place, path) = Place::with_index();
    let heap = options().open(&path)?;
    let root: Root<Index> = heap.existing_root("index")?;
    root.txn(|tx, _| {
        for _ in 0..1000 {
            tx.alloc_slice(100, |i| i as u64)?; // to which nothing refers
        }
        Ok(())
    })?;
    drop(root);
    heap.close()?;
    let dump = text("dump", &path, &[]);
    let done = json("collect", &path, &["--json"]);
    assert_eq!((&done["freed_objects"], &done["live_objects"]), (&json!(1000), &json!(10)), "{done}");
    assert!(
        done["free_bytes"].as_u64() > done["free_bytes_before"].as_u64().map(|bytes| bytes + 800_000),
        "{done}"
    );
    assert!(text("collect", &path, &[]).starts_with("freed       0 objects"));
    assert_eq!(text("dump", &path, &[]), dump);
    assert!(text("check", &path, &[]).ends_with("clean\n"));
    // `collect` makes no heap of an empty file, and changes no damaged heap.
    let empty = place.path("empty");
    fs::write(&empty, "").unwrap();
    ends_with(&pheap("collect", &empty, &[]), 2);
    assert!(fs::read(&empty).unwrap().is_empty());
    let mut bytes = fs::read(&path).unwrap();
    let times = bytes.windows(8).rposition(|word| word == TIMES.to_le_bytes()).unwrap();
    bytes[times + 8 + 4] ^= 0x40;
    fs::write(&empty, &bytes).unwrap();
    assert!(ends_with(&pheap("collect", &empty, &[]), 2).contains("corrupt"));
    assert!(fs::read(&empty).unwrap() == bytes);
    Ok(())
}

/// Commands that only read do not change the file of a closed heap, nor that of a heap that was not closed.
#[test]
fn files_are_not_changed() -> Result<()> {
    let (place, closed) = Place::with_index();
    let (open, crashed) = (place.path("open"), place.path("crashed"));
    let heap: Heap = options().open(&open)?;
    let root = heap.root_or::<Index>("index", index)?;
    root.txn(|tx, index| {
        tx[index].files = None;
        Ok(())
    })?;
    fs::copy(&open, &crashed).unwrap();
    // No transaction ran during the copy, but the program cannot know that.
    let nothing = place.path("nothing");
    for (command, more) in [
        ("info", vec![]),
        ("dump", vec!["index"]),
        ("backup", vec![nothing.to_str().unwrap()]),
        ("collect", vec![]),
    ] {
        let message = ends_with(&pheap(command, &crashed, &more), 2);
        assert!(
            message.contains("a copy of a heap that was in use") && message.contains("--restored"),
            "{message}"
        );
    }
    let found = pheap("check", &crashed, &[]);
    assert_eq!(found.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&found.stdout).contains("a copy of a heap that was in use"));
    for (path, state) in [(&closed, "closed"), (&crashed, "process")] {
        let before = (fs::read(path).unwrap(), fs::metadata(path).unwrap().modified().unwrap());
        assert_eq!(json("info", path, &["--json", "--restored"])["state"], state);
        for (command, more) in [
            ("info", vec![]),
            ("roots", vec![]),
            ("types", vec![]),
            ("check", vec![]),
            ("stats", vec![]),
            ("dump", vec!["index"]),
            ("backup", vec![place.path(state).to_str().unwrap()]),
        ] {
            text(command, path, &[more, vec!["--restored"]].concat());
            let after = (fs::read(path).unwrap(), fs::metadata(path).unwrap().modified().unwrap());
            assert!(before == after, "{command} has changed the heap");
        }
    }
    let copy = json("dump", &place.path("process"), &[]);
    assert_eq!(copy["files"], json!(null), "the log is in the copy");
    assert_eq!(json("info", &place.path("process"), &["--json"])["state"], "closed");
    Ok(())
}

#[test]
fn a_heap_in_use_is_looked_at() -> Result<()> {
    let (place, path) = Place::with_index();
    let heap = options().durability(Durability::Wal).open(&path)?;
    heap.root_or::<u64>("second", |_| Ok(7))?;
    let info = json("info", &path, &["--json"]);
    assert_eq!((&info["state"], &info["followed"], &info["roots"]), (&json!("wal"), &json!(true), &json!(2)));
    assert!(text("info", &path, &[]).contains("in use with `Durability::Wal`"));
    assert_eq!(text("dump", &path, &["second"]), "7\n");
    assert_eq!(json("stats", &path, &["--json"])["objects"], 11);
    assert!(text("check", &path, &[]).contains("2 roots: clean"));
    let copy = place.path("copy");
    text("backup", &path, &[copy.to_str().unwrap()]);
    heap.close()?;
    for more in [&["second"][..], &["second", "--follow"]] {
        assert_eq!([&copy, &path].map(|path| text("dump", path, more)), ["7\n"; 2]);
    }
    Ok(())
}

#[test]
fn a_stream_is_restored() -> Result<()> {
    let (place, path) = Place::with_index();
    let stream = place.path("stream");
    fs::write(&stream, pheap("backup", &path, &["-"]).stdout).unwrap();
    let restore = |from: &str, to: &Path| {
        let input = fs::File::open(&stream).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_pheap"));
        command.arg("restore").arg(from).arg(to).stdin(input).output().unwrap()
    };
    for (from, to) in [("-", "one"), (stream.to_str().unwrap(), "two")] {
        let to = place.path(to);
        let output = restore(from, &to);
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        assert_eq!(text("dump", &to, &[]), text("dump", &path, &[]));
    }
    assert!(ends_with(&restore("-", &path), 2).contains("exists"));
    fs::write(&stream, "hello").unwrap();
    let message = ends_with(&restore("-", &place.path("three")), 2);
    assert!(message.contains("reading a backup") && !place.path("three").exists(), "{message}");
    Ok(())
}

#[test]
fn shells_complete_commands() {
    for (shell, line) in
        [("bash", "complete -F _pheap"), ("zsh", "#compdef pheap"), ("fish", "complete -c pheap")]
    {
        let output = Command::new(env!("CARGO_BIN_EXE_pheap")).args(["completions", shell]).output().unwrap();
        let script = ends_with(&output, 0);
        assert!(
            script.contains(line)
                && ["--items", "-l items"].iter().any(|option| script.contains(option))
                && script.contains("report"),
            "{shell}"
        );
    }
}

#[test]
fn what_cannot_be_done_is_said() -> Result<()> {
    let (place, path) = Place::with_index();
    let says = |output: Output, what: &str| {
        let message = ends_with(&output, 2);
        assert!(
            message.starts_with("pheap: ") && message.contains(what) && output.stdout.is_empty(),
            "{message}"
        );
    };
    says(pheap("info", &place.path("nothing here"), &[]), "No such file");
    says(pheap("dump", &path, &["other"]), "there is no root \"other\"; there are \"index\"");
    let text_file = place.path("text");
    fs::write(&text_file, "hello").unwrap();
    for command in ["info", "check", "dump"] {
        says(pheap(command, &text_file, &[]), "is not a pheap file");
    }
    says(pheap("info", text_file.parent().unwrap(), &[]), "is a directory");
    says(pheap("backup", &path, &[text_file.to_str().unwrap()]), "exists");
    assert_eq!(fs::read(&text_file).unwrap(), b"hello");

    let heap = options().open(&path)?;
    says(pheap("roots", &path, &[]), "only the program that has it open can read it");
    says(pheap("collect", &path, &[]), "is open in another process");
    heap.root::<u64>("second")?;
    heap.close()?;
    says(pheap("dump", &path, &[]), "the path must begin with a root: \"index\", \"second\"");
    assert_eq!(text("dump", &path, &["second"]), "0\n");

    let none = Command::new(env!("CARGO_BIN_EXE_pheap")).arg("dance").output().unwrap();
    assert_eq!(none.status.code(), Some(2));
    let version = Command::new(env!("CARGO_BIN_EXE_pheap")).arg("--version").output().unwrap();
    assert_eq!(ends_with(&version, 0), format!("pheap {}\n", env!("CARGO_PKG_VERSION")));
    Ok(())
}
