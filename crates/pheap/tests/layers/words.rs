//! Comments and documents name the thing that they are about, in lines of at most 110 columns.

use std::fs;
use std::path::{Path, PathBuf};

/// Words by which a sentence avoids naming the thing.
const RIDDLES: &[&str] = &[
    "who",
    "whoever",
    "whom",
    "nobody",
    "anybody",
    "somebody",
    "but for",
    "that which",
    "beside",
    "meanwhile",
    "at hand",
    "of its own",
    "is told",
    "what is",
    "what was",
    "what has",
    "what it",
    "what they",
    "what comes",
    "what follows",
    "what goes",
    "as far as",
    "so is",
    "so are",
    "so does",
    "so do",
];

/// Comment lines of a crate, in 1,000, that may have such words: some sentences need one.
const MOST: usize = 15;

const COLUMNS: usize = 110;

/// The workspace. `None` in a package, which has one crate alone.
fn workspace() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.join("docs/design.md").exists().then_some(root)
}

/// The files below a folder whose names end so.
fn files(folder: &Path, ending: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let (path, name) = (entry.path(), entry.file_name());
        if path.is_dir() {
            if !["target", ".git", "fetched"].iter().any(|other| name == *other) {
                files(&path, ending, found);
            }
        } else if path.extension().is_some_and(|extension| extension == ending) {
            found.push(path);
        }
    }
}

fn is_riddle(line: &str) -> bool {
    let (line, is_word) = (line.to_lowercase(), |c: char| c.is_alphanumeric() || c == '_');
    RIDDLES.iter().any(|words| {
        line.match_indices(words)
            .any(|(at, _)| !line[..at].ends_with(is_word) && !line[at + words.len()..].starts_with(is_word))
    })
}

#[test]
fn riddles_are_found() {
    assert!(is_riddle("// Tells whoever waits.") && is_riddle("/// What is left of it."));
    assert!(!is_riddle("// The whole file is whole.") && !is_riddle("// so island"));
}

#[test]
fn comments_name_the_thing() {
    let Some(root) = workspace() else { return };
    for entry in fs::read_dir(root.join("crates")).unwrap() {
        let (folder, mut sources) = (entry.unwrap().path(), Vec::new());
        files(&folder.join("src"), "rs", &mut sources);
        let texts: Vec<String> = sources.iter().map(|path| fs::read_to_string(path).unwrap()).collect();
        let comments =
            || texts.iter().flat_map(|text| text.lines()).filter(|line| line.trim().starts_with("//"));
        let riddles: Vec<&str> = comments().filter(|line| is_riddle(line)).collect();
        let all = comments().count();
        let most = (all * MOST).div_ceil(1_000).max(1);
        assert!(
            riddles.len() <= most,
            "{}: {} of {all}:\n{}",
            folder.display(),
            riddles.len(),
            riddles.join("\n")
        );
    }
}

#[test]
fn lines_are_short() {
    let Some(root) = workspace() else { return };
    let (mut sources, mut pages, mut long) = (Vec::new(), Vec::new(), Vec::new());
    for folder in ["crates", "benches", "examples", "fuzz", "tests"] {
        files(&root.join(folder), "rs", &mut sources);
    }
    files(&root, "md", &mut pages);
    // A program, a table and a link have no place for a break, and rustfmt breaks code. The compiler's
    // messages name lines of `tests/ui`. pheap-report writes sentences of kv.md.
    sources.retain(|path| !path.components().any(|part| part.as_os_str() == "ui"));
    for path in sources.iter().chain(&pages) {
        let mut is_program = false;
        for (line, number) in fs::read_to_string(path).unwrap().lines().zip(1..) {
            let is_page = path.extension().is_some_and(|extension| extension == "md");
            let text = line.trim_start().trim_start_matches(['/', '!']);
            let is_text = if is_page { !line.starts_with("    ") } else { line.trim().starts_with("//") };
            if is_text && text.trim().starts_with("```") {
                is_program = !is_program;
            }
            let may_be_long = !is_text
                || is_program
                || text.trim().starts_with('|')
                || text.contains("](")
                || line.starts_with("No other is faster than pheap-kv");
            if line.chars().count() > COLUMNS && !may_be_long {
                long.push(format!("{}:{number}", path.display()));
            }
        }
    }
    assert!(long.is_empty(), "{} lines have over {COLUMNS} columns:\n{}", long.len(), long.join("\n"));
}
