//! The example `index` keeps its promise: however often it is killed in the middle, the index is the same in
//! the end.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use pheap_testkit::Rng;

/// The example, on one heap file and one folder of text.
struct Index {
    program: PathBuf,
    heap: PathBuf,
    corpus: PathBuf,
}

impl Index {
    fn new(heap: PathBuf, corpus: &Path) -> Index {
        Index { program: pheap_testkit::example("index"), heap, corpus: corpus.to_owned() }
    }

    fn run(&self, flags: &[&str]) -> Output {
        let mut command = Command::new(&self.program);
        command.arg("--heap").arg(&self.heap).args(flags);
        if !flags.contains(&"--query") {
            command.arg(&self.corpus);
        }
        command.output().expect("the example can be run")
    }

    /// Runs the example to its end. Returns its output.
    fn finish(&self, flags: &[&str]) -> String {
        let output = self.run(flags);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("the output is text")
    }

    fn dump(&self) -> String {
        self.finish(&["--dump"])
    }

    /// Runs until the example kills itself, or to its end if fewer words are left. Returns whether it was
    /// killed.
    fn kill_after(&self, words: u64) -> bool {
        let output = self.run(&["--dump", "--kill-after-words", &words.to_string()]);
        let killed = output.status.signal() == Some(9);
        assert!(killed || output.status.success(), "{output:?}");
        killed
    }
}

/// Returns the dump that the index of a folder must have, made without a heap.
fn expected(corpus: &Path) -> String {
    use std::collections::BTreeMap;
    let corpus = corpus.canonicalize().unwrap();
    let mut files = Vec::new();
    collect(&corpus, &mut files);
    let mut words = BTreeMap::<String, BTreeMap<(String, u32), u32>>::new();
    let mut dump = String::new();
    files.sort_by_key(|file| file.as_os_str().to_owned()); // as text: paths sort folder by folder
    for file in files {
        let name = file.to_str().unwrap().to_owned();
        dump += &format!("file {name}\n");
        let text = String::from_utf8_lossy(&fs::read(file).unwrap()).into_owned();
        for (line, number) in text.lines().zip(1..) {
            for word in line.split(|c: char| !c.is_alphanumeric() && c != '_') {
                if word.contains(char::is_alphabetic) {
                    let uses = words.entry(word.to_lowercase()).or_default();
                    *uses.entry((name.clone(), number)).or_default() += 1;
                }
            }
        }
    }
    for (word, uses) in words {
        dump += &format!("{word} {}", uses.values().sum::<u32>());
        for ((name, line), times) in uses {
            dump += &format!(" {name}:{line}x{times}");
        }
        dump += "\n";
    }
    dump
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { collect(&path, files) } else { files.push(path) }
    }
}

/// Compares two dumps. On failure, shows only their first different lines.
#[track_caller]
fn assert_same(a: &str, b: &str) {
    let differs = a.lines().zip(b.lines()).find(|(a, b)| a != b);
    assert!(
        a == b,
        "{} and {} lines; the first that differ: {differs:#?}",
        a.lines().count(),
        b.lines().count()
    );
}

/// Writes text with frequent and rare words, some of them not ASCII. Some files have no lines.
fn write_corpus(folder: &Path, rng: &mut Rng) {
    for file in 0..12 {
        let mut text = String::new();
        for _ in 0..[400, 0, 1, 57, 50, 100][file % 6] {
            for _ in 0..rng.scaled(16) {
                let rank = rng.scaled(40) * rng.scaled(40) * rng.scaled(3);
                text += &format!("{}{rank} ", ["w", "Wort", "größe_", "7", "x_"][rng.scaled(5) as usize]);
            }
            text += ["\n", "\r\n", "\n\n"][rng.scaled(3) as usize];
        }
        let folder = folder.join(["a", "b"][file % 2]);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(format!("text{file}.md")), text).unwrap();
    }
    fs::write(folder.join("not-utf-8.md"), b"one \xff two\xfethree\nfour").unwrap();
}

#[test]
fn an_interrupted_index_ends_up_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let corpus = dir.path().join("corpus");
    write_corpus(&corpus, &mut Rng::from_seed(1));
    let expected = expected(&corpus);
    assert_same(&Index::new(dir.path().join("whole.pheap"), &corpus).dump(), &expected);

    for (number, words) in [5000, 1, 17, 400, 1234, 700, 2500].into_iter().enumerate() {
        let index = Index::new(dir.path().join(format!("{number}.pheap")), &corpus);
        assert!(index.kill_after(words));
        index.kill_after(words);
        assert_same(&index.dump(), &expected);
        assert_same(&index.dump(), &expected); // nothing is left to do, and nothing is done twice
        // From scratch in the same heap, killed until nothing is left to do. A kill within the first
        // transaction of a file makes no progress, so the numbers grow.
        assert_eq!(index.run(&["--fresh", "--kill-after-words", "1"]).status.signal(), Some(9));
        let mut kills = 1;
        while index.kill_after(words + 100 * kills) {
            kills += 1;
        }
        assert_same(&index.dump(), &expected);
    }
}

#[test]
fn the_sources_of_this_project_as_well() {
    // A copy, because an editor may change the sources during the test.
    let dir = tempfile::tempdir().unwrap();
    let corpus = dir.path().join("corpus");
    copy_sources(Path::new(env!("CARGO_MANIFEST_DIR")), &corpus);
    let expected = expected(&corpus);
    assert_same(&Index::new(dir.path().join("whole.pheap"), &corpus).dump(), &expected);
    let index = Index::new(dir.path().join("killed.pheap"), &corpus);
    assert!(index.kill_after(5000), "there are more than 5000 words in the sources");
    for words in [12_000, 3000, 20_000] {
        index.kill_after(words);
    }
    assert_same(&index.dump(), &expected);
}

#[test]
fn changed_and_removed_files_are_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let corpus = dir.path().join("corpus");
    let rng = &mut Rng::from_seed(2);
    write_corpus(&corpus, rng);
    let index = Index::new(dir.path().join("index.pheap"), &corpus);
    assert_same(&index.dump(), &expected(&corpus));
    for round in 0..6 {
        // In odd rounds, the change finds a partly indexed file.
        fs::write(corpus.join("a/new.md"), format!("{}round {round}\n", "filler words\n".repeat(200)))
            .unwrap();
        if round % 2 == 1 {
            assert!(index.kill_after(150));
            fs::write(corpus.join("a/new.md"), "changed again").unwrap();
        }
        let mut files = Vec::new();
        collect(&corpus, &mut files);
        files.sort();
        let victim = &files[rng.scaled(files.len() as u64) as usize];
        let text = fs::read(victim).unwrap();
        match round % 3 {
            0 => fs::remove_file(victim).unwrap(),
            1 => fs::write(victim, [b"a word in front\n", &text[..]].concat()).unwrap(),
            _ => fs::write(victim, &text[..text.len() / 2]).unwrap(),
        }
        index.kill_after(100);
        assert_same(&index.dump(), &expected(&corpus));
    }
}

#[test]
fn a_query_is_answered_without_the_files() {
    let dir = tempfile::tempdir().unwrap();
    let corpus = dir.path().join("corpus");
    fs::create_dir(&corpus).unwrap();
    fs::write(corpus.join("a.md"), "one two\nTwo, two three\n").unwrap();
    fs::write(corpus.join("b.toml"), "two\n").unwrap();
    let index = Index::new(dir.path().join("index.pheap"), &corpus);
    assert!(!index.run(&["--query", "two"]).status.success(), "there is no index yet");
    assert!(!index.heap.exists());
    index.finish(&[]);
    fs::remove_dir_all(&corpus).unwrap();
    for word in ["two", "TWO"] {
        let answer = index.finish(&["--query", word]);
        assert!(answer.contains("used 4 times in 2 files"), "{answer}");
        assert!(answer.contains("a.md: 1, 2\n"), "{answer}");
    }
    assert!(index.finish(&["--query", "four"]).contains("used 0 times"));
}

fn copy_sources(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if name.starts_with('.') || name == "target" {
            continue;
        }
        if path.is_dir() {
            copy_sources(&path, &to.join(name));
        } else if [".rs", ".md", ".toml"].iter().any(|end| name.ends_with(end)) {
            fs::create_dir_all(to).unwrap();
            // An editor may have removed the file since.
            let _ = fs::copy(&path, to.join(name));
        }
    }
}
