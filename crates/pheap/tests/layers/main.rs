//! The layers of the crate: a room imports only from itself and from the rooms below it. Rooms are the
//! modules of `src/lib.rs`; docs/architecture.md describes them. Also lists the files that may contain
//! `unsafe`.

mod words;

use std::collections::{BTreeMap, BTreeSet};

/// From the lowest to the highest.
const ROOMS: [&str; 24] = [
    "units",
    "stats",
    "error",
    "tuning",
    "faults",
    "sync",
    "os",
    "log",
    "wal",
    "sim",
    "media",
    "layout",
    "ptr",
    "store",
    "alloc",
    "gc",
    "txn",
    "region",
    "heap",
    "api",
    "values",
    "collections",
    "exchange",
    "__private",
];

/// Where what the root of the crate exports comes from, at the highest.
const EXPORTS: &str = "collections";

/// The files that contain `unsafe`, in order. The list should become shorter. A file that is added needs a
/// reason:
///
/// `collections/snap/snapshot.rs`: only the room of the map can promise that no thread writes to the nodes
/// that a snapshot reads without a lock.
///
/// `api/alloc.rs`, `api/places.rs`, `api/stores.rs`, `txn/undo.rs` and `txn/write_back.rs` were parts of
/// `api/tx.rs` and `txn/paths.rs`.
///
/// `ptr/part.rs` has code from `ptr.rs`, `__private/places.rs` and the macros of `api/stores.rs`.
///
/// `layout/desc.rs`: only the type of a function of derived code, which it does not call.
const UNSAFE: &[&str] = &[
    "__private/field.rs",
    "__private/persist.rs",
    "api/alloc.rs",
    "api/debug.rs",
    "api/nested.rs",
    "api/places.rs",
    "api/root.rs",
    "api/several.rs",
    "api/slices.rs",
    "api/stores.rs",
    "api/tx.rs",
    "api/view.rs",
    "collections/btree/branch.rs",
    "collections/btree/items.rs",
    "collections/btree/join.rs",
    "collections/btree/node.rs",
    "collections/buffer.rs",
    "collections/deque.rs",
    "collections/hash/bucket.rs",
    "collections/hash/directory.rs",
    "collections/hash/map.rs",
    "collections/key/argument.rs",
    "collections/key/bytes.rs",
    "collections/key/itself.rs",
    "collections/key/mod.rs",
    "collections/snap/snapshot.rs",
    "collections/string.rs",
    "collections/vec/elements.rs",
    "gc/tracer.rs",
    "heap/check/decode/part.rs",
    "heap/inspect/value.rs",
    "heap/memory.rs",
    "heap/open/contents.rs",
    "layout/convert.rs",
    "layout/desc.rs",
    "layout/foreign.rs",
    "layout/instead.rs",
    "layout/mod.rs",
    "layout/stored.rs",
    "log/entry.rs",
    "media/mod.rs",
    "os/calls.rs",
    "os/cpu.rs",
    "os/mapping.rs",
    "os/maps.rs",
    "os/own_file.rs",
    "os/reservation.rs",
    "ptr/part.rs",
    "ptr.rs",
    "region/exclusive.rs",
    "region/mod.rs",
    "region/rewrite.rs",
    "store/words.rs",
    "sync/fence/tests.rs",
    "sync/fence.rs",
    "txn/context.rs",
    "txn/log.rs",
    "txn/nested.rs",
    "txn/paths.rs",
    "txn/recovery.rs",
    "txn/undo.rs",
    "txn/write_back.rs",
    "txn/write_set.rs",
];

/// A module: its path within the crate, and what its file says.
struct Module {
    path: Vec<String>,
    code: String,
}

/// Returns all files of the crate, in order: the path within `src`, and the text without comments and
/// strings.
fn sources() -> Vec<(String, String)> {
    let all = pheap_testkit::sources(concat!(env!("CARGO_MANIFEST_DIR"), "/src"));
    all.into_iter().map(|(file, text)| (file, bare(&text))).collect()
}

/// All modules that a program has.
fn modules() -> Vec<Module> {
    let all: Vec<Module> = sources()
        .into_iter()
        .map(|(file, code)| {
            let mut path: Vec<String> = file.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
            path.pop_if(|last| last == "mod" || last == "lib");
            Module { path, code }
        })
        .collect();
    let tests: Vec<Vec<String>> = all.iter().flat_map(test_modules).collect();
    let is_test = |module: &Module| tests.iter().any(|test| module.path.starts_with(test));
    let mut modules: Vec<Module> = all.into_iter().filter(|module| !is_test(module)).collect();
    modules.iter_mut().for_each(|module| module.code = code_of(&module.code));
    modules
}

fn is_for_tests(line: &str) -> bool {
    ["#[cfg(test", "#[cfg(all(test"].iter().any(|begin| line.starts_with(begin))
}

/// Modules in files of their own that are for tests only.
fn test_modules(module: &Module) -> Vec<Vec<String>> {
    let mut lines = module.code.lines().map(str::trim).peekable();
    let mut tests = Vec::new();
    while let Some(line) = lines.next() {
        if is_for_tests(line)
            && let Some(name) = lines.peek().and_then(|next| next.split("mod ").nth(1)?.strip_suffix(';'))
        {
            tests.push([&module.path[..], &[name.to_owned()]].concat());
        }
    }
    tests
}

/// Bytes of the comment, string or character that a source goes on with; 0 if it goes on with code.
fn skipped(rest: &str) -> usize {
    let until =
        |from: usize, end: &str| rest[from..].find(end).map_or(rest.len(), |at| from + at + end.len());
    if rest.starts_with("//") {
        return rest.find('\n').unwrap_or(rest.len());
    }
    if rest.starts_with("/*") {
        let (mut depth, mut at) = (1, 2);
        while depth > 0 && at < rest.len() {
            let here = &rest.as_bytes()[at..];
            let step = i32::from(here.starts_with(b"/*")) - i32::from(here.starts_with(b"*/"));
            depth += step;
            at += if step == 0 { 1 } else { 2 };
        }
        return at;
    }
    let hashes = rest.bytes().skip(1).take_while(|&byte| byte == b'#').count();
    if rest.starts_with('r') && rest[1 + hashes..].starts_with('"') {
        return until(hashes + 2, &format!("\"{}", "#".repeat(hashes)));
    }
    // Up to the quote that no backslash is before.
    let quoted = |quote: char| {
        let mut is_escaped = false;
        let end = rest[1..].find(|c| {
            let ends = c == quote && !is_escaped;
            is_escaped = c == '\\' && !is_escaped;
            ends
        });
        end.map_or(rest.len(), |end| end + 2)
    };
    let mut next = rest.chars();
    match (next.next(), next.next(), next.next()) {
        (Some('"'), ..) => quoted('"'),
        // A lifetime has no quote behind it.
        (Some('\''), Some('\\'), _) | (Some('\''), _, Some('\'')) => quoted('\''),
        _ => 0,
    }
}

/// A source without comments, strings and characters.
fn bare(text: &str) -> String {
    let (mut bare, mut rest) = (String::new(), text);
    while let Some(c) = rest.chars().next() {
        let len = match skipped(rest) {
            0 => {
                bare.push(c);
                c.len_utf8()
            }
            len => len,
        };
        rest = &rest[len..];
    }
    bare
}

/// Returns the code of a bare source, without the items that are for tests only.
fn code_of(text: &str) -> String {
    let mut code = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if is_for_tests(line) {
            // The item that is for tests only: a module, mostly.
            let item = lines.by_ref().find(|line| !line.starts_with("#["));
            if item.is_some_and(|item| item.ends_with('{')) {
                lines.by_ref().find(|line| *line == "}");
            }
            continue;
        }
        code.push_str(line);
        code.push('\n');
    }
    code
}

/// The paths of a `use` declaration, one for each of its leaves.
fn leaves(prefix: &str, tree: &str, found: &mut Vec<String>) {
    let tree = tree.trim();
    let Some((head, inner)) = tree.split_once('{') else {
        let path = tree.split(" as ").next().unwrap().trim();
        found.push(format!("{prefix}{path}"));
        return;
    };
    let prefix = format!("{prefix}{}", head.trim());
    let inner = inner.rsplit_once('}').unwrap().0;
    let (mut depth, mut start) = (0, 0);
    for (at, c) in inner.char_indices().chain([(inner.len(), ',')]) {
        depth += i32::from(c == '{') - i32::from(c == '}');
        if depth == 0 && c == ',' {
            if !inner[start..at].trim().is_empty() {
                leaves(&prefix, &inner[start..at], found);
            }
            start = at + 1;
        }
    }
}

/// All paths of a module that begin at the crate, or at the module or those around it.
fn paths(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    for (at, _) in code.match_indices("use ") {
        let before = code[..at].rsplit('\n').next().unwrap().trim();
        if before.is_empty() || before.starts_with("pub") {
            leaves("", code[at + 4..].split(';').next().unwrap(), &mut found);
        }
    }
    for begin in ["crate::", "super::"] {
        for (at, _) in code.match_indices(begin) {
            // What a macro names by `$crate` is imported where it is called.
            if !code[..at].ends_with(|c: char| is_word(c) || c == ':' || c == '$') {
                let path = code[at..].split(|c: char| !is_word(c) && c != ':').next().unwrap();
                found.push(path.trim_end_matches(':').to_owned());
            }
        }
    }
    found
}

/// What the modules of the crate are called.
type Names<'a> = BTreeSet<&'a [String]>;

/// Returns the module that a path leads to, as seen from the module `from`. Returns `None` if the path leads
/// out of the crate, or to an item that the root of the crate exports.
fn target<'a>(names: &Names<'a>, from: &[String], path: &str) -> Option<&'a [String]> {
    let mut parts = path.split("::").peekable();
    let mut at: Vec<String> = Vec::new();
    match *parts.peek()? {
        "crate" => drop(parts.next()),
        "self" => {
            parts.next();
            at = from.to_vec();
        }
        "super" => {
            at = from.to_vec();
            while parts.next_if(|part| *part == "super").is_some() {
                at.pop();
            }
        }
        child => {
            at = from.to_vec();
            at.push(child.to_owned());
            names.get(&at[..])?;
            parts.next();
        }
    }
    for part in parts {
        at.push(part.to_owned());
        if !names.contains(&at[..]) {
            at.pop();
            break;
        }
    }
    names.get(&at[..]).copied().filter(|module| !module.is_empty())
}

/// Which module imports from which other ones.
fn imports(modules: &[Module]) -> BTreeMap<&[String], BTreeSet<&[String]>> {
    let names: Names<'_> = modules.iter().map(|module| &module.path[..]).collect();
    let of = |module: &Module| {
        paths(&module.code).iter().filter_map(|path| target(&names, &module.path, path)).collect()
    };
    let mut all: BTreeMap<&[String], BTreeSet<&[String]>> =
        modules.iter().map(|module| (&module.path[..], of(module))).collect();
    all.iter_mut().for_each(|(from, targets)| {
        targets.remove(from);
    });
    all
}

fn layer(room: &str) -> usize {
    let found = ROOMS.iter().position(|other| *other == room);
    found.unwrap_or_else(|| panic!("which layer is `{room}` in? See docs/architecture.md"))
}

/// Imports from a higher room.
fn upward(modules: &[Module]) -> Vec<String> {
    let names: Names<'_> = modules.iter().map(|module| &module.path[..]).collect();
    let mut wrong = Vec::new();
    for module in modules {
        let Some(room) = module.path.first() else { continue };
        for path in paths(&module.code) {
            // An item that the root of the crate exports, by its name or with all others.
            let is_export = path.strip_prefix("crate::").is_some_and(|rest| {
                let first = rest.split("::").next().unwrap();
                !names.contains(&[first.to_owned()][..])
            });
            let to = match target(&names, &module.path, &path) {
                Some(to) => to[0].as_str(),
                None if is_export => EXPORTS,
                None => continue,
            };
            if layer(to) > layer(room) {
                wrong.push(format!("{} imports {path}", module.path.join("::")));
            }
        }
    }
    wrong.sort();
    wrong.dedup();
    wrong
}

#[test]
fn rooms_import_from_below() {
    let modules = modules();
    assert!(modules.len() > 100, "only {} modules: does this test still find them?", modules.len());
    let wrong = upward(&modules);
    assert!(
        wrong.is_empty(),
        "a room imports only from those below it (docs/architecture.md):\n{}",
        wrong.join("\n")
    );
}

/// Returns the sets of modules of one folder that import each other in a circle. A module's imports include
/// those of all modules below it. Imports between a folder's `mod.rs` and the folder's files are not counted.
fn circles(modules: &[Module]) -> Vec<BTreeSet<String>> {
    let mut next: BTreeMap<&[String], BTreeSet<&[String]>> = BTreeMap::new();
    for (from, targets) in imports(modules) {
        for to in targets {
            let common = from.iter().zip(to).take_while(|(a, b)| a == b).count();
            if common < from.len().min(to.len()) {
                next.entry(&from[..=common]).or_default().insert(&to[..=common]);
            }
        }
    }
    let reached = |from: &[String]| {
        let mut reached: BTreeSet<&[String]> = BTreeSet::new();
        let mut todo: Vec<&[String]> = next[from].iter().copied().collect();
        while let Some(module) = todo.pop() {
            if reached.insert(module) {
                todo.extend(next.get(module).into_iter().flatten().copied());
            }
        }
        reached
    };
    let reach: BTreeMap<&[String], BTreeSet<&[String]>> =
        next.keys().map(|from| (*from, reached(from))).collect();
    let mut circles: BTreeSet<BTreeSet<String>> = BTreeSet::new();
    for (from, to) in reach.iter().filter(|(from, to)| to.contains(*from)) {
        let back = |other: &&&[String]| reach.get(**other).is_some_and(|reach| reach.contains(from));
        circles.insert(to.iter().filter(back).map(|one| one.join("::")).collect());
    }
    circles.into_iter().collect()
}

#[test]
fn no_modules_import_from_one_another() {
    let found = circles(&modules());
    assert!(found.is_empty(), "modules in circles:\n{found:#?}");
}

fn module(path: &str, code: &str) -> Module {
    Module { path: path.split("::").map(str::to_owned).collect(), code: code_of(&bare(code)) }
}

#[test]
fn an_import_from_above_is_found() {
    for wrong in [
        "use crate::heap::Heap;",
        "use crate::{units::LINE, heap::{self, Heap}};",
        "pub(crate) use super::super::heap::Heap as Other;",
        "fn f() { crate::heap::open() }",
        "use crate::Heap;",
        "use super::super::{\n    units,\n    heap::Heap,\n};",
    ] {
        let modules = [
            module("wal::group", wrong),
            module("heap", ""),
            module("units", ""),
            module("wal", "mod group;"),
        ];
        let found = upward(&modules);
        assert!(
            found.first().is_some_and(|one| one.starts_with("wal::group imports ")),
            "{wrong}: {found:?}"
        );
    }
    for right in [
        "use crate::units::LINE;",
        "use super::State;",
        "// use crate::heap::Heap;",
        "#[cfg(test)]\nmod tests {\n    use crate::heap::Heap;\n}\n",
        "use heap::Other; // of another crate",
        "macro_rules! f { () => { $crate::Heap::open() } }",
    ] {
        let modules = [
            module("wal::group", right),
            module("heap", ""),
            module("units", ""),
            module("wal", "mod group;"),
        ];
        assert!(upward(&modules).is_empty(), "{right}");
    }
}

fn has_unsafe(bare: &str) -> bool {
    bare.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == "unsafe")
}

#[test]
fn unsafe_is_where_it_is_listed() {
    let sources = sources();
    let found: Vec<&str> =
        sources.iter().filter(|(_, code)| has_unsafe(code)).map(|(file, _)| &**file).collect();
    let new: Vec<_> = found.iter().filter(|file| !UNSAFE.contains(file)).collect();
    assert!(new.is_empty(), "only the files in `UNSAFE` contain `unsafe`, but here it is, too: {new:#?}");
    assert_eq!(
        found, UNSAFE,
        "files that contain no `unsafe` any more are to be taken off the list, which is sorted"
    );
}

#[test]
fn only_code_is_unsafe() {
    for wrong in [
        "unsafe fn f() {}",
        "fn f() { /* not /* safe */ */ unsafe{ g() } }",
        "let (a, b) = (\"\\\"\", '\"'); unsafe { f(a, b) }",
        "let a = r#\" \" \"#; unsafe { f(a) } // \"",
        "impl<'r> A<'r> { unsafe fn f(&'r self) {} }",
        "let a = '\\''; unsafe { f(a) }",
        "macro_rules! f { () => { unsafe impl Send for T {} } }",
        "#[cfg(test)]\nmod tests {\n    unsafe fn f() {}\n}\n",
    ] {
        assert!(has_unsafe(&bare(wrong)), "{wrong}");
    }
    for right in [
        "// unsafe",
        "/// `unsafe { f() }`\nfn f() {}",
        "/* a /* b */ unsafe */ fn f() {}",
        "let a = \"unsafe \\\" unsafe\";",
        "let a = r#\"unsafe \" unsafe\"#;",
        "let a = br\"unsafe\";",
        "#![deny(unsafe_code, unsafe_op_in_unsafe_fn)]",
        "let (a, b) = ('\"', \"unsafe\"); f::<'r>(a, \"unsafe\", 'r');",
    ] {
        assert!(!has_unsafe(&bare(right)), "{right}");
    }
}
