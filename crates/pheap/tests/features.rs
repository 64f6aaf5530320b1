//! The tests run the code that ships: the feature `sim` adds a simulator, and changes nothing else. So only
//! few files may ask for the feature: those that add the simulator, and the seams that other files call.

/// Where the simulator is added, as a module.
const ADD_IT: [&str; 2] = ["lib.rs", "heap/open/mod.rs"];
/// The seams: they replace the simulator where there is none. `faults.rs` has the functions that other files
/// call, which are empty without it. `sync.rs` chooses the locks: in builds with the simulator, they report
/// to it.
const SEAMS: [&str; 2] = ["faults.rs", "sync.rs"];

/// Returns the conditions of a source: the offset, the text, and the first line of the item that it applies
/// to.
fn conditions(source: &str) -> impl Iterator<Item = (usize, &str, &str)> {
    let begins = source.match_indices("cfg").filter_map(|(at, _)| {
        let rest = source[at + 3..].trim_start_matches("_attr").trim_start_matches('!');
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

/// Returns the objection to a condition, if there is one.
fn objection(file: &str, condition: &str, item: &str) -> Option<&'static str> {
    if !condition.contains("feature = \"sim\"") {
        return None;
    }
    let is_seam = SEAMS.contains(&file);
    if !is_seam && !ADD_IT.contains(&file) {
        return Some(
            "call what `faults.rs` has, or go through a trait: only a few files may ask for the simulator",
        );
    }
    let is_visible =
        |item: &str| item.trim_start_matches("pub").trim_start_matches("(crate)").trim().to_owned();
    let item = is_visible(item);
    if condition.starts_with("cfg!") {
        Some(
            "logic that depends on the feature: make it a number of `Tuning`, which the lab gives at run time",
        )
    } else if condition.contains("not(") && !is_seam {
        Some("code that no test runs which is built with the simulator")
    } else if ["const ", "static "].iter().any(|kind| item.starts_with(kind)) {
        Some("a constant of its own: make it a number of `Tuning`")
    } else {
        None
    }
}

/// `PHEAP_BUILD` says which build the tests must be of: cargo unites the features that all of its packages
/// ask for.
#[test]
fn the_build_is_the_one_that_was_asked_for() {
    let built = if cfg!(feature = "sim") { "lab" } else { "shipped" };
    if let Ok(wanted) = std::env::var("PHEAP_BUILD") {
        assert_eq!(built, wanted, "these tests run something else than they should");
    }
}

#[test]
fn the_simulator_changes_nothing_but_adds_itself() {
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for (file, text) in pheap_testkit::sources(concat!(env!("CARGO_MANIFEST_DIR"), "/src")) {
        for (at, condition, item) in conditions(&text) {
            seen += usize::from(condition.contains("feature = \"sim\""));
            if let Some(objection) = objection(&file, condition, item) {
                let line = text[..at].lines().count();
                wrong.push(format!("{file}:{line}: {condition} {item}: {objection}"));
            }
        }
    }
    assert!(seen > 10, "it is asked for in {seen} places only: does this test still find them?");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_depends_on_the_feature_is_found() {
    let objects = |file: &str, text: &str| {
        let conditions: Vec<_> = conditions(text).collect();
        assert_eq!(conditions.len(), 1, "{text}");
        objection(file, conditions[0].1, conditions[0].2).is_some()
    };
    for file in ["txn/dirty.rs", "lib.rs", "faults.rs"] {
        assert!(objects(file, "const KEPT: usize = if cfg!(feature = \"sim\") { 8 } else { 1024 };"));
        assert!(objects(file, "    } else if cfg!(all(test, feature = \"sim\")) {\n        3"));
        assert!(objects(file, "#[cfg(feature = \"sim\")]\n/// Lines.\npub(crate) const KEPT: usize = 8;"));
        assert!(!objects(file, "const _: () = assert!(cfg!(target_endian = \"little\"));"));
    }
    let without = "#[cfg(not(feature = \"sim\"))]\nlet kept = 1024;";
    assert!(objects("txn/dirty.rs", without) && objects("lib.rs", without) && !objects("sync.rs", without));
    let with = "#[cfg(feature = \"sim\")]\npub mod sim;";
    assert!(objects("txn/dirty.rs", with) && !objects("lib.rs", with) && !objects("sync.rs", with));
    assert!(objects("store/word.rs", "#[cfg_attr(feature = \"sim\", track_caller)]\nfn checked() {}"));
}
