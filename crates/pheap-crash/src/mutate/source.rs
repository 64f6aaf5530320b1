//! The sites that the source of `pheap` has, and what it says about mutants that survive.

use pheap::sim::mutant::{Kind, Site};

/// Calls that are sites, and what they ask for. Text before the parenthesis, with as much of the receiver as tells them from other calls.
const CALLS: &[(&str, &[Kind])] = &[
    ("media.flush(", &[Kind::Flush]),
    ("swizzler.flush(", &[Kind::Flush]),
    (" self.flush()", &[Kind::Flush]),
    ("media.fence(", &[Kind::Fence]),
    ("media.persist(", &[Kind::Flush, Kind::Fence]),
    (".persist_directly(", &[Kind::Flush, Kind::Fence]),
    (".set_generation(", &[Kind::Flush]),
    (".set_removed(", &[Kind::Flush]),
    (".set_name(", &[Kind::Flush, Kind::Fence]),
    ("header.write(", &[Kind::Flush, Kind::Fence]),
    ("header.persist_again(", &[Kind::Flush, Kind::Fence]),
    ("arena.write(", &[Kind::Flush, Kind::Fence]),
    ("begin_creation(", &[Kind::Flush, Kind::Fence]),
    ("self.write(media", &[Kind::Flush, Kind::Fence]),
    ("write_entry(", &[Kind::Flush]),
    ("clear_entry(", &[Kind::Flush]),
    (".write_used(", &[Kind::Flush]),
    (".store_through(", &[Kind::Flush]),
    (".record_span(", &[Kind::Flush, Kind::Fence]),
    (" restore(", &[Kind::Flush]),
    ("log.reset(", &[Kind::Flush, Kind::Fence]),
    ("log.reset_unfenced(", &[Kind::Flush]),
    ("log.append(", &[Kind::LogEntry]),
    (".append_undo(", &[Kind::LogEntry, Kind::Fence]),
    ("record.add(", &[Kind::LogEntry]),
    (".add_changes(", &[Kind::LogEntry]),
    ("media.record(", &[Kind::LogEntry]),
    (".record_staged(", &[Kind::LogEntry]),
    (".take_noted(", &[Kind::LogEntry]),
    (".write_all(", &[Kind::Write]),
    (".write_through(", &[Kind::Write, Kind::FileSync]),
    ("log.extend(", &[Kind::Write]),
    ("new.extend(", &[Kind::Write]),
    ("file.extend(", &[Kind::Write]),
    ("log.sync()", &[Kind::FileSync]),
    ("data.sync()", &[Kind::FileSync]),
    ("data().sync()", &[Kind::FileSync]),
    ("new.sync()", &[Kind::FileSync]),
    ("file.sync()", &[Kind::FileSync]),
    ("mapping.sync()", &[Kind::FileSync]),
    ("mapping.sync_leftovers()", &[Kind::FileSync]),
    (".sync_all()", &[Kind::FileSync]),
    (".sync_data()", &[Kind::FileSync]),
    ("sync_directory(", &[Kind::FileSync]),
    (".acknowledge(", &[Kind::FileSync]),
    (".acknowledge_all()", &[Kind::FileSync]),
    (".wait_for_records(", &[Kind::FileSync]),
    ("self.reach(", &[Kind::FileSync]),
    ("look_at_tables(", &[Kind::Lock]),
    ("look_at_regions(", &[Kind::Lock]),
    (".regions()", &[Kind::Lock]),
    (" heap.region(", &[Kind::Lock]),
    (" self.region(", &[Kind::Lock]),
    ("look_at_name(", &[Kind::Lock]),
    (" look_at(", &[Kind::Lock]),
    (".lock()", &[Kind::Lock]),
    (".lock_exclusive()", &[Kind::Lock]),
    (".lock_shared()", &[Kind::Lock]),
    (".lock_shared_recursive()", &[Kind::Lock]),
    (".lock_unbiased()", &[Kind::Lock]),
    (".lock_collected()", &[Kind::Lock]),
    (".try_lock()", &[Kind::Lock]),
    (".try_lock_exclusive()", &[Kind::Lock]),
    (".try_lock_for(", &[Kind::Lock]),
    (".try_lock_shared()", &[Kind::Lock]),
    (".try_lock_unbiased_for(", &[Kind::Lock]),
    ("self.log.read()", &[Kind::Lock]),
    ("self.log.write()", &[Kind::Lock]),
    ("holds(", &[Kind::Checksum]),
    (" checked(", &[Kind::Checksum]),
];

/// A line that asks for something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The file, relative to the root of the workspace.
    pub file: String,
    /// Its number, from 1.
    pub line: u32,
    /// What it asks for.
    pub kinds: &'static [Kind],
}

impl Line {
    /// Whether a site is in this line.
    pub fn is(&self, site: &Site) -> bool {
        self.line == site.line && self.file == site.file
    }

    /// The line as a site.
    pub fn of(&self, kind: Kind) -> Site {
        Site { kind, file: self.file.clone().leak(), line: self.line, column: 0 }
    }
}

/// The source of `pheap`.
#[derive(Debug)]
pub struct Source {
    /// All lines that ask for something.
    pub sites: Vec<Line>,
    /// Functions that pass on who has called them: their callers are the sites.
    pub helpers: Vec<String>,
    files: Vec<(String, Vec<String>)>,
}

impl Source {
    /// Reads it.
    pub fn read() -> Source {
        let mut source = Source { sites: Vec::new(), helpers: Vec::new(), files: Vec::new() };
        for (name, text) in pheap_testkit::sources(concat!(env!("CARGO_MANIFEST_DIR"), "/../pheap/src")) {
            source.add(format!("crates/pheap/src/{name}"), text.lines().map(str::to_owned).collect());
        }
        source
    }

    fn add(&mut self, file: String, lines: Vec<String>) {
        // The check of a heap writes nothing, and has functions of the same names.
        let skipped = [
            "src/sim",
            "src/faults",
            "media/late",
            "tests.rs",
            "heap/check/",
            "heap/simulated",
            "/sync/",
            "/model",
        ]
        .iter()
        .any(|part| file.contains(part));
        // Those tell who has called them when they panic.
        let panics =
            ["/api/", "/collections/", "/ptr.rs", "/__private/"].iter().any(|part| file.contains(part));
        // Lines up to this one belong to a helper, or to a test.
        let mut passed = 0;
        for (i, text) in lines.iter().enumerate() {
            let code = text.trim_start();
            if text.contains("#[track_caller]") && i >= passed && !skipped && !panics {
                let head = (i..lines.len()).find(|&j| lines[j].contains("fn ")).unwrap_or(i);
                let name = lines[head].split("fn ").nth(1).unwrap_or_default();
                let name: String = name.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                self.helpers.push(name);
                passed = end_of_block(&lines, head);
            }
            let of_tests = code == "#[cfg(test)]" || code.starts_with("#[cfg(all(test,");
            if of_tests && lines.get(i + 1).is_some_and(|next| next.contains("mod tests {")) {
                passed = lines.len();
            }
            if code.starts_with("if bug(") && i >= passed {
                passed = end_of_block(&lines, i); // what a seeded bug does
            }
            let is_code = !code.starts_with("//") && !code.contains("fn ") && i >= passed;
            if !is_code || skipped {
                continue;
            }
            for (call, kinds) in CALLS {
                if format!(" {code}").contains(call) {
                    self.sites.push(Line { file: file.clone(), line: i as u32 + 1, kinds });
                    break;
                }
            }
        }
        self.files.push((file, lines));
    }

    /// A line, and how many lines above it in the file have the same text.
    pub fn text(&self, file: &str, line: u32) -> (&str, usize) {
        let lines = self.files.iter().find(|(name, _)| name == file).map_or(&[][..], |(_, lines)| lines);
        let text = lines.get(line as usize - 1).map_or("", |text| text.trim());
        let above = lines.iter().take(line as usize - 1).filter(|other| other.trim() == text);
        (text, above.count())
    }

    /// Why a mutant does no harm, or is never reached, if the source says so.
    pub fn argument(&self, file: &str, line: u32, kind: Kind, what: &str) -> Option<String> {
        let (_, lines) = self.files.iter().find(|(name, _)| name == file)?;
        let is_comment = |i: usize| lines[i].trim_start().starts_with("//");
        // The comment is above the statement.
        let mut at = line as usize - 1;
        for _ in 0..6 {
            let before = lines.get(at.checked_sub(1)?)?.trim_end();
            let begins = before.ends_with([';', '{', '}']) || before.ends_with("=>");
            if is_comment(at - 1) || begins {
                break;
            }
            at -= 1;
        }
        let mut first = at;
        while first > 0 && is_comment(first - 1) {
            first -= 1;
        }
        let comment = lines[first..at].iter().map(|line| line.trim_start().trim_start_matches('/').trim());
        let comment: Vec<&str> = comment.collect();
        let text = comment.join(" ");
        text.split("SURVIVES ").skip(1).find_map(|argument| {
            let (head, text) = argument.split_once(": ")?;
            let (mutation, of) = head.split_once(' ').map_or((head, None), |(m, of)| (m, Some(of)));
            (mutation == what && of.is_none_or(|of| of == kind.name())).then(|| text.trim().to_owned())
        })
    }
}

/// The number of the line behind the block whose head is at `head`.
fn end_of_block(lines: &[String], head: usize) -> usize {
    let indent = lines[head].len() - lines[head].trim_start().len();
    let end = format!("{}}}", " ".repeat(indent));
    let one_line = lines[head].trim_end().ends_with('}') || lines[head].trim_end().ends_with(';');
    if one_line {
        return head + 1;
    }
    (head..lines.len()).find(|&i| lines[i] == end).map_or(lines.len(), |i| i + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_helper_is_in_the_list_of_calls() {
        let source = Source::read();
        assert!(source.helpers.len() > 20, "{:?}", source.helpers);
        // What only other helpers call.
        let inner = ["append_with_room", "lock", "read", "take_exclusive", "wait_exclusive", "write"];
        for helper in source.helpers.iter().filter(|helper| !inner.contains(&helper.as_str())) {
            let named = |call: &str| call.contains(&format!("{helper}("));
            assert!(CALLS.iter().any(|(call, _)| named(call)), "calls of `{helper}` are not looked for");
        }
        assert!(source.sites.len() > 60, "{}", source.sites.len());
    }

    #[test]
    fn arguments_are_found() {
        let text = "fn f() {
    // Because.
    // SURVIVES drop: it is
    // redundant. SURVIVES delay fence: so is this
    media
        .fence();
    media.fence();
}";
        let mut source = Source { sites: Vec::new(), helpers: Vec::new(), files: Vec::new() };
        source.add("a.rs".to_owned(), text.lines().map(str::to_owned).collect());
        let of = |line, kind, what| source.argument("a.rs", line, kind, what);
        assert_eq!(of(6, Kind::Flush, "drop").as_deref(), Some("it is redundant."));
        assert_eq!(of(5, Kind::Fence, "delay").as_deref(), Some("so is this"));
        assert_eq!(of(6, Kind::Flush, "delay"), None);
        assert_eq!(of(7, Kind::Fence, "drop"), None);
        assert_eq!(source.sites.len(), 1);
    }
}
