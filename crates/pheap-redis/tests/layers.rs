//! The table of modules in `lib.rs` is the order in which they may import one another.

use std::fs;
use std::path::{Path, PathBuf};

/// The modules in the order of the table.
fn order() -> Vec<String> {
    let text = fs::read_to_string("src/lib.rs").unwrap();
    let rows = text.lines().filter_map(|line| line.strip_prefix("//! | [`")?.split(" |").next());
    let names =
        rows.flat_map(|row| row.split('`').filter(|name| name.chars().all(|c| c.is_ascii_lowercase())));
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn a_module_imports_only_from_those_above_it() {
    let order = order();
    let place = |name: &str| order.iter().position(|other| other == name);
    let mut files = Vec::new();
    sources(Path::new("src"), &mut files);
    let (mut seen, mut wrong) = (0, Vec::new());
    for file in files {
        let inside = file.strip_prefix("src").unwrap();
        let top = inside.iter().next().unwrap().to_str().unwrap().trim_end_matches(".rs").to_owned();
        let Some(own) = place(&top) else {
            assert!(["lib", "main"].contains(&top.as_str()), "{top} is not in the table of lib.rs");
            continue;
        };
        let text = fs::read_to_string(&file).unwrap();
        // Tests may look further.
        let code = text.split("#[cfg(test)]").next().unwrap();
        for used in code.split("crate::").skip(1) {
            let name: String = used.chars().take_while(|c| c.is_ascii_lowercase() || *c == '_').collect();
            match place(&name) {
                Some(at) if at > own => wrong.push(format!("{}: {name} is below {top}", file.display())),
                Some(_) => seen += 1,
                None => {}
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(seen > 100, "only {seen} imports were found");
}
