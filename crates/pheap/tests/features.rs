//! What is tested is what ships: the feature `sim` adds a simulator, and changes nothing else. So the source must not ask for it anywhere but where that is called.

use std::fs;
use std::path::{Path, PathBuf};

/// Of the simulator itself.
const SIMULATOR: [&str; 5] = ["sim.rs", "sim/", "faults/", "heap/open/simulated.rs", "sync/watched.rs"];
/// It decides whose locks there are: those of the simulator can be watched.
const LOCKS: &str = "sync.rs";

/// The files below a folder.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The conditions of a source: what is in the parentheses, and what they are about, up to its first line.
fn conditions(source: &str) -> impl Iterator<Item = (usize, &str, &str)> {
    let begins = source.match_indices("cfg").filter_map(|(at, _)| {
        let rest = source[at + 3..].trim_start_matches('!');
        let is_word = !source[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        (is_word && rest.starts_with('(')).then_some((at, source.len() - rest.len()))
    });
    begins.map(|(at, open)| {
        let mut depth = 0;
        let close = source[open..].find(|c| {
            depth += i32::from(c == '(') - i32::from(c == ')');
            depth == 0
        });
        let close = open + close.expect("a condition ends");
        let mut item = source[close..].lines().skip(1).map(str::trim);
        let item = item.find(|line| !line.starts_with("#[") && !line.starts_with("//")).unwrap_or("");
        (at, &source[at..=close], item)
    })
}

/// What is wrong with a condition.
fn objection(file: &str, condition: &str, item: &str) -> Option<&'static str> {
    if !condition.contains("feature = \"sim\"") {
        return None;
    }
    let is_visible =
        |item: &str| item.trim_start_matches("pub").trim_start_matches("(crate)").trim().to_owned();
    let item = is_visible(item);
    if condition.starts_with("cfg!") {
        Some(
            "logic that depends on the feature: make it a number of `Tuning`, which the lab gives at run time",
        )
    } else if condition.contains("not(") && file != LOCKS {
        Some("code that no test runs which is built with the simulator")
    } else if ["const ", "static "].iter().any(|kind| item.starts_with(kind)) {
        Some("a constant of its own: make it a number of `Tuning`")
    } else {
        None
    }
}

/// Who runs the tests says what they are to be built as: cargo makes one set of the features that all of its packages ask for.
#[test]
fn the_build_is_the_one_that_was_asked_for() {
    let built = if cfg!(feature = "sim") { "lab" } else { "shipped" };
    if let Ok(wanted) = std::env::var("PHEAP_BUILD") {
        assert_eq!(built, wanted, "these tests run something else than they should");
    }
}

#[test]
fn the_simulator_changes_nothing_but_adds_itself() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    files(&source, &mut found);
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for path in found {
        let file = path.strip_prefix(&source).unwrap().to_str().unwrap();
        if SIMULATOR.iter().any(|part| file.starts_with(part)) {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        for (at, condition, item) in conditions(&text) {
            seen += usize::from(condition.contains("feature = \"sim\""));
            if let Some(objection) = objection(file, condition, item) {
                let line = text[..at].lines().count();
                wrong.push(format!("{file}:{line}: {condition} {item}: {objection}"));
            }
        }
    }
    assert!(seen > 20, "it is asked for in {seen} places only: does this test still find them?");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_depends_on_the_feature_is_found() {
    let objects = |text: &str| {
        let conditions: Vec<_> = conditions(text).collect();
        assert_eq!(conditions.len(), 1, "{text}");
        objection("txn/dirty.rs", conditions[0].1, conditions[0].2).is_some()
    };
    assert!(objects("const KEPT: usize = if cfg!(feature = \"sim\") { 8 } else { 1024 };"));
    assert!(objects("    } else if cfg!(all(test, feature = \"sim\")) {\n        3"));
    assert!(objects("#[cfg(feature = \"sim\")]\n/// Lines.\npub(crate) const KEPT: usize = 8;"));
    assert!(objects("#[cfg(not(feature = \"sim\"))]\nlet kept = 1024;"));
    assert!(!objects("#[cfg(feature = \"sim\")]\nuse crate::faults::mutant;"));
    assert!(!objects("const _: () = assert!(cfg!(target_endian = \"little\"));"));
}
