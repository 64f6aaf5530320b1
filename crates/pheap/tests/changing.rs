//! Lists of the methods that change each collection. They are methods of its pointer, and the page of
//! pointers has those of all collections; so each collection's own page includes a list of them, from a file
//! next to the sources. This test compares the lists with the sources.
//!
//! `PHEAP_UPDATE_LISTS=1 cargo test -p pheap --test changing` writes them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// The collections that have such a list, and the folders of their types.
const COLLECTIONS: [(&str, &str); 9] = [
    ("PBTreeMap", "btree"),
    ("PBTreeSet", "btree"),
    ("PBytes", ""),
    ("PHashMap", "hash"),
    ("PHashSet", "hash"),
    ("PSnapMap", "snap"),
    ("PString", ""),
    ("PVec", "vec"),
    ("PVecDeque", ""),
];

struct Method {
    /// Where the page of pointers has its block.
    anchor: String,
    arguments: Vec<String>,
    /// The first sentence of its documentation.
    what: String,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/collections")
}

/// What a line of documentation says.
fn said(line: &str) -> Option<&str> {
    let text = line.strip_prefix("///").or_else(|| {
        line.strip_prefix("#[doc = concat!(\"").map(|rest| rest.split('"').next().unwrap_or(rest))
    });
    text.map(str::trim)
}

/// The anchor that a line of documentation has.
fn id(line: &str) -> Option<String> {
    let (_, rest) = line.split_once("<a id=\"")?;
    rest.split('"').next().map(str::to_owned)
}

/// The first sentence, or all of the first paragraph if its end is not found.
fn first_sentence(lines: &[&str]) -> String {
    let paragraph: Vec<&str> = lines.iter().copied().take_while(|line| !line.is_empty()).collect();
    let text = paragraph.join(" ");
    text.find(". ").map_or(text.clone(), |end| text[..=end].to_owned())
}

/// The names of the arguments of a function, without `self`.
fn arguments(head: &str) -> Vec<String> {
    let (mut depth, mut names, mut at_name) = (0, Vec::new(), true);
    let open = head.find('(').expect("a function has arguments");
    let mut name = String::new();
    for c in head[open + 1..].chars() {
        match c {
            ')' if depth == 0 => break,
            '(' | '<' | '[' => depth += 1,
            ')' | '>' | ']' => depth -= 1,
            ',' if depth == 0 => at_name = true,
            ':' if depth == 0 && at_name => {
                at_name = false;
                let word = name.split_whitespace().last().unwrap_or("").to_owned();
                names.push(word);
            }
            _ => {}
        }
        if c == ',' && depth == 0 {
            name.clear();
        } else if at_name {
            name.push(c);
        }
    }
    names
}

/// The methods of a block of a source that take a transaction, and `self` by value.
fn methods_of(block: &[&str], anchor: &str) -> BTreeMap<String, Method> {
    let (mut methods, mut docs) = (BTreeMap::new(), Vec::new());
    for (i, line) in block.iter().enumerate() {
        let code = line.trim_start();
        if let Some(text) = said(code) {
            docs.push(text);
        } else if let Some(rest) = code.strip_prefix("pub fn ") {
            let head = block[i..].iter().take_while(|line| !line.trim_end().ends_with('{'));
            let head = head.chain(block[i..].iter().find(|line| line.trim_end().ends_with('{')));
            let head: String = head.map(|line| line.trim()).collect::<Vec<_>>().join(" ");
            if head.contains("Txn<'r>") && head.contains("self") && !head.contains("&self") {
                let name = rest.split(['(', '<']).next().unwrap_or(rest);
                let (arguments, what) = (arguments(&head), first_sentence(&docs));
                let method = Method { anchor: anchor.to_owned(), arguments, what };
                methods.insert(name.to_owned(), method);
            }
            docs.clear();
        } else if !code.starts_with("#[") && !code.starts_with("//") {
            docs.clear();
        }
    }
    methods
}

/// The methods of the pointer to a collection.
fn methods(collection: &str) -> BTreeMap<String, Method> {
    let mut all = BTreeMap::new();
    for (file, text) in pheap_testkit::sources(folder()) {
        if file.contains("tests") {
            continue;
        }
        let lines: Vec<&str> = text.lines().collect();
        for (i, line) in lines.iter().enumerate() {
            let code = line.trim_start();
            let of_macro = collection.ends_with("Set") && code.contains(" P<'r, $set<");
            let of_type = code.contains(&format!(" P<'r, {collection}<"));
            if !code.starts_with("impl<") || code.contains(" for ") || !(of_macro || of_type) {
                continue;
            }
            let end = format!("{}}}", &line[..line.len() - code.len()]);
            let len = lines[i..].iter().position(|line| *line == end).expect("a block ends");
            let docs = lines[..i].iter().rev().take_while(|line| line.trim_start().starts_with(['/', '#']));
            let id = if of_macro {
                Some(format!("change-{collection}"))
            } else {
                docs.filter_map(|line| id(line)).last()
            };
            all.extend(methods_of(&lines[i..i + len], &id.unwrap_or_default()));
        }
    }
    all
}

fn list(collection: &str) -> String {
    let mut list = format!(
        "# Changing it\n\nMethods of the pointer to it ([all about them](crate::P#change-{collection})). To a field, [`field!`](crate::field) makes it: `field!(shop.goods).clear(tx)`.\n\n| | |\n|---|---|\n",
    );
    for (name, Method { anchor, arguments, what }) in methods(collection) {
        assert!(
            anchor.starts_with(&format!("change-{collection}")),
            "the block of {collection}::{name} has no anchor"
        );
        let arguments = arguments.join(", ");
        let what = what.replace("(Self::", "(crate::P::").replace('|', "\\|");
        writeln!(list, "| [`{name}`](crate::P#{anchor})`({arguments})` | {what} |").unwrap();
    }
    list
}

#[test]
fn the_pages_of_collections_list_what_changes_them() {
    let update = std::env::var_os("PHEAP_UPDATE_LISTS").is_some();
    for (collection, within) in COLLECTIONS {
        let file = folder().join(within).join(format!("{}.md", collection.to_lowercase()));
        let list = list(collection);
        if update {
            std::fs::write(&file, list).unwrap();
        } else {
            let there = std::fs::read_to_string(&file).unwrap_or_default();
            assert!(there == list, "{} is not up to date: PHEAP_UPDATE_LISTS=1 writes it", file.display());
        }
        let include = format!("#[doc = include_str!(\"{}.md\")]\n", collection.to_lowercase());
        let included = pheap_testkit::sources(folder()).iter().any(|(_, text)| {
            text.find(&include).is_some_and(|at| {
                let item = text[at..].lines().find(|line| line.starts_with("pub struct ")).unwrap_or("");
                item.starts_with(&format!("pub struct {collection}<"))
            })
        });
        assert!(included, "the documentation of {collection} has no {include}");
    }
}

/// The parser above finds what there is: some that are easily overlooked, and none that only read.
#[test]
fn all_methods_are_found() {
    let names = |collection| methods(collection).into_keys().collect::<BTreeSet<_>>();
    let has = |collection, wanted: &[&str]| {
        let there = names(collection);
        wanted.iter().for_each(|name| assert!(there.contains(*name), "{collection}::{name}: {there:?}"));
        ["len", "get", "iter", "is_empty", "contains"]
            .iter()
            .for_each(|name| assert!(!there.contains(*name)));
    };
    has("PVec", &["push", "sort_by_key", "drain", "insert"]);
    has("PHashSet", &["insert", "remove", "retain", "extend"]);
    has("PBTreeSet", &["insert", "pop_first"]);
    has("PBTreeMap", &["entry", "for_each_mut_in", "get_mut"]);
    has("PHashMap", &["entry", "extend"]);
    has("PSnapMap", &["insert", "extend"]);
    has("PString", &["push_str", "replace_range"]);
    has("PBytes", &["set"]);
    has("PVecDeque", &["push_front"]);
    assert_eq!(methods("PHashMap")["insert"].arguments, ["tx", "key", "value"]);
    assert_eq!(methods("PVec")["push"].what, "Appends an element.");
}
