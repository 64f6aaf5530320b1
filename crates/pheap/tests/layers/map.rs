//! The list of all files in docs/architecture.md: each with the first paragraph of its first comment, so that whoever looks for a file can search for words.

use std::fmt::Write as _;
use std::{env, fs};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
const HEADING: &str = "## Every file\n";

/// The folders whose files are listed.
const FOLDERS: [&str; 10] = [
    "crates/pheap/src",
    "crates/pheap-gc/src",
    "crates/pheap-macros/src",
    "crates/pheap-cli/src",
    "crates/pheap-kv/src",
    "crates/pheap-crash/src",
    "crates/pheap-testkit/src",
    "crates/pheap-report/src",
    "benches/workloads",
    "fuzz/fuzz_targets",
];

/// The first paragraph of the first comment, on one line. Links to items become their names.
fn purpose(text: &str) -> String {
    let paragraph: Vec<&str> = text
        .lines()
        .map_while(|line| line.strip_prefix("//!"))
        .map(str::trim)
        .take_while(|line| !line.is_empty())
        .collect();
    let (mut plain, mut rest) = (String::new(), paragraph.join(" "));
    while let Some((before, link)) = rest.split_once("[`") {
        let (name, after) = link.split_once("`]").expect("a link ends where its name does");
        let after =
            after.strip_prefix('(').map_or(after, |target| target.split_once(')').expect("a target").1);
        write!(plain, "{before}`{name}`").expect("a string");
        rest = after.to_owned();
    }
    plain + &rest
}

fn list() -> String {
    let mut list = String::new();
    for folder in FOLDERS {
        write!(list, "\n### {folder}\n\n").expect("a string");
        for (file, text) in pheap_testkit::sources(format!("{ROOT}/{folder}")) {
            if text.starts_with("//!") {
                writeln!(list, "- `{file}`: {}", purpose(&text)).expect("a string");
            }
        }
    }
    list
}

#[test]
fn the_map_lists_every_file() {
    let path = format!("{ROOT}/docs/architecture.md");
    let text = fs::read_to_string(&path).expect("docs/architecture.md");
    let (before, after) = text.split_once(HEADING).expect("the heading of the list");
    let (intro, _) = after.split_once("\n### ").expect("the list");
    let wanted = format!("{before}{HEADING}{intro}{}", list());
    if env::var_os("PHEAP_UPDATE_MAP").is_some() {
        fs::write(&path, wanted).expect("docs/architecture.md can be written");
    } else {
        assert!(
            text == wanted,
            "files or their first comments have changed: PHEAP_UPDATE_MAP=1 cargo test -p pheap --test layers"
        );
    }
}

#[test]
fn links_become_names() {
    let text = "//! A [`Mutex`](super::Mutex) of\n//! [`lock_api`].\n//!\n//! More.\nuse super::Mutex;\n";
    assert_eq!(purpose(text), "A `Mutex` of `lock_api`.");
}
