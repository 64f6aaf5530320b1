//! Checks imports against the table in `lib.rs`, which lists the folders of `src` (rooms) and their modules:
//! no module imports anything that the table names after it. Unit tests may import everything.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns the rooms and their modules in the order of the table: a module as `room::module`, and a room, or
/// a module with the name of its room, by that name.
fn order() -> Vec<String> {
    let text = fs::read_to_string("src/lib.rs").unwrap();
    let mut order = Vec::new();
    for row in text.lines().filter_map(|line| line.strip_prefix("//! | [`")) {
        let [room, modules] = row.splitn(3, " | ").collect::<Vec<_>>()[..2] else { unreachable!() };
        let room = room.trim_end_matches("`]");
        let modules: Vec<&str> = modules.split('`').filter(|name| is_name(name)).collect();
        if !modules.contains(&room) {
            order.push(room.to_owned());
        }
        let path = |name: &str| if name == room { room.to_owned() } else { format!("{room}::{name}") };
        order.extend(modules.into_iter().map(path));
    }
    order
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_lowercase() || c == '_')
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
    // A file that the table does not name has the place of its room.
    let place = |path: &[&str]| {
        let place_of = |name: &str| order.iter().position(|other| other == name);
        let module = path.get(1).and_then(|name| place_of(&format!("{}::{name}", path[0])));
        module.or_else(|| place_of(path[0]))
    };
    let mut files = Vec::new();
    sources(Path::new("src"), &mut files);
    let (mut seen, mut wrong) = (0, Vec::new());
    for file in files {
        let inside = file.strip_prefix("src").unwrap();
        let path: Vec<&str> =
            inside.iter().map(|part| part.to_str().unwrap().trim_end_matches(".rs")).collect();
        let Some(own) = place(&path) else {
            assert!(["lib", "main"].contains(&path[0]), "{} is not in the table of lib.rs", file.display());
            continue;
        };
        let text = fs::read_to_string(&file).unwrap();
        // Unit tests may use all modules.
        let code = text.split("#[cfg(test)]").next().unwrap();
        for used in code.split("crate::").skip(1) {
            let end = used.find(|c: char| !c.is_ascii_alphanumeric() && !"_:".contains(c));
            let path: Vec<&str> = used[..end.unwrap_or(used.len())].split("::").collect();
            match place(&path) {
                Some(at) if at > own => {
                    wrong.push(format!("{}: {} is below {}", file.display(), order[at], order[own]));
                }
                Some(_) => seen += 1,
                None if !is_name(path[0]) => {}
                None => wrong.push(format!("{}: {} is in no room", file.display(), path[0])),
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(seen > 100, "only {seen} imports were found");
}
