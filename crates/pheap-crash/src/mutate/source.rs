//! The lines of the source of `pheap` that seem to have sites, and its arguments for mutants that survive.

use pheap::sim::mutant::{Kind, Site};

/// The kinds of sites, and the calls that are such sites, separated by bars. Each call is the text before the
/// parenthesis, with as much of the receiver as distinguishes it from other calls.
const CALLS: &[(&[Kind], &str)] = &[
    (
        &[Kind::Flush],
        "media.flush(|swizzler.flush(| self.flush()|.set_generation(|.set_removed(|write_entry(|clear_entry(|\
         .write_used(|.store_through(| restore(|log.reset_unfenced(",
    ),
    (&[Kind::Fence], "media.fence("),
    (
        &[Kind::Flush, Kind::Fence],
        "media.persist(|.persist_directly(|.set_name(|header.write(|header.persist_again(|arena.write(|\
         begin_creation(|self.write(media|.record_span(|log.reset(",
    ),
    (&[Kind::LogEntry], "log.append(|record.add(|.add_changes(|media.record(|.record_staged(|.take_noted("),
    (&[Kind::LogEntry, Kind::Fence], ".append_undo("),
    (&[Kind::Write], ".write_all(|log.extend(|file.extend("),
    (&[Kind::Write, Kind::FileSync], ".write_through(|.write_directly("),
    (
        &[Kind::FileSync],
        "log.sync()|data.sync()|data().sync()|file.sync()|mapping.sync()|mapping.sync_leftovers()|\
         .sync_all()|.sync_data()|sync_directory(|.acknowledge(|.acknowledge_all()|.acknowledge_seen(|self.reach(",
    ),
    (
        &[Kind::Lock],
        "look_at_tables(|look_at_regions(|.regions()| heap.region(| self.region(|look_at_name(| look_at(|\
         .lock()|.lock_briefly()|.lock_upgradable(|.lock_shared(|.lock_collected()|.lock_quiescent(|\
         context.upgrade()| self.upgrade()|.access().upgrade()|.try_upgrade()|.try_lock()|.try_lock_upgradable()|.try_lock_shared()|.try_lock_for(",
    ),
    (&[Kind::Checksum], "holds(| checked("),
];

/// A line with a site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The file, relative to the root of the workspace.
    pub file: String,
    /// Number of the line, from 1.
    pub line: u32,
    /// The kinds of the sites in the line.
    pub kinds: &'static [Kind],
}

impl Line {
    /// Returns whether a site is in this line.
    pub fn is(&self, site: &Site) -> bool {
        self.line == site.line && self.file == site.file
    }

    /// Returns a site of this kind in the line. Its column is 0.
    pub fn of(&self, kind: Kind) -> Site {
        Site { kind, file: self.file.clone().leak(), line: self.line, column: 0 }
    }
}

/// The source of `pheap`.
#[derive(Debug)]
pub struct Source {
    /// The lines with sites, except those of tests and helpers.
    pub sites: Vec<Line>,
    /// Functions marked `#[track_caller]`: their callers are the sites.
    pub helpers: Vec<String>,
    files: Vec<(String, Vec<String>)>,
}

impl Source {
    /// Reads the source.
    ///
    /// # Panics
    /// If it cannot be read.
    pub fn read() -> Source {
        let mut source = Source { sites: Vec::new(), helpers: Vec::new(), files: Vec::new() };
        for (name, text) in pheap_testkit::sources(concat!(env!("CARGO_MANIFEST_DIR"), "/../pheap/src")) {
            source.add(format!("crates/pheap/src/{name}"), text.lines().map(str::to_owned).collect());
        }
        source
    }

    fn add(&mut self, file: String, lines: Vec<String>) {
        // Files without sites, or with functions of the same names that are none. For example, the check of a
        // heap writes nothing, and the files that backups write are not those of a heap.
        let skipped = [
            "src/sim",
            "src/faults",
            "media/late",
            "tests.rs",
            "heap/check/",
            "heap/backup/format",
            "heap/simulated",
            "/sync/",
            "/model",
        ]
        .iter()
        .any(|part| file.contains(part));
        // Functions of these files report their caller when they panic.
        let panics = ["/api/", "/collections/", "/ptr.rs", "/ptr/", "/__private/"]
            .iter()
            .any(|part| file.contains(part));
        // Lines up to this one belong to a helper, a test, or a seeded bug.
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
            let mut below = lines[i + 1..].iter().skip_while(|line| line.starts_with("#["));
            if of_tests && below.next().is_some_and(|next| next.contains("mod tests {")) {
                passed = lines.len();
            }
            if code.starts_with("if bug(") && i >= passed {
                passed = end_of_block(&lines, i); // the code of a seeded bug
            }
            let is_code = !code.starts_with("//") && !code.contains("fn ") && i >= passed;
            if !is_code || skipped {
                continue;
            }
            let code = format!(" {code}");
            let asks = CALLS.iter().find(|(_, calls)| calls.split('|').any(|call| code.contains(call)));
            if let Some((kinds, _)) = asks {
                self.sites.push(Line { file: file.clone(), line: i as u32 + 1, kinds });
            }
        }
        self.files.push((file, lines));
    }

    /// Returns the text of a line, and the number of lines above it in the file that have the same text.
    pub fn text(&self, file: &str, line: u32) -> (&str, usize) {
        let lines = self.files.iter().find(|(name, _)| name == file).map_or(&[][..], |(_, lines)| lines);
        let text = lines.get(line as usize - 1).map_or("", |text| text.trim());
        let above = lines.iter().take(line as usize - 1).filter(|other| other.trim() == text);
        (text, above.count())
    }

    /// Returns the argument of the source why a mutant is harmless, or is never reached.
    pub fn argument(&self, file: &str, line: u32, kind: Kind, what: &str) -> Option<String> {
        let (_, lines) = self.files.iter().find(|(name, _)| name == file)?;
        let is_comment = |i: usize| lines[i].trim_start().starts_with("//");
        // The comment is above the statement, whose first line is at most a few lines above.
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

/// Returns the number of the line behind the block that begins in line `head`.
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
        // Helpers whose calls are not looked for by their name.
        let inner = [
            "sub_assign",
            "add_assign",
            "append_with_room",
            "lock",
            "read",
            "take_exclusive",
            "unlocked",
            "wait",
            "wait_exclusive",
            "wait_until",
            "write",
        ];
        for helper in source.helpers.iter().filter(|helper| !inner.contains(&helper.as_str())) {
            let named = |call: &str| call.contains(&format!("{helper}("));
            assert!(
                CALLS.iter().any(|(_, calls)| calls.split('|').any(named)),
                "calls of `{helper}` are not looked for"
            );
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
