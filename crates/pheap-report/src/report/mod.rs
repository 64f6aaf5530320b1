//! `docs/benchmarks/README.md`: text by people, with generated blocks between markers.

mod compile;
mod peers;
mod ratios;
mod setting;
mod stores;

use crate::Result;
use crate::charts::Chart;
use crate::choose::Rows;
use crate::results::Results;
use std::fmt::Write as _;

/// The page for a new report, before people add text.
pub(crate) const TEMPLATE: &str = include_str!("template.md");

/// Fills the generated blocks of `docs/benchmarks/README.md`, whose text is `text`.
pub(crate) fn page(text: &str, results: &Results, charts: &[&Chart]) -> Result<String> {
    let rows: Vec<_> = results.rows().collect();
    fill(text, &|name| block(name, results, Rows(&rows), charts))
}

/// Returns the generated block with this name.
fn block(name: &str, results: &Results, rows: Rows<'_>, charts: &[&Chart]) -> Option<String> {
    Some(match name {
        "setting" => setting::table(results),
        "figures" => figures(charts),
        "ratios" => ratios::table(rows),
        "peers" => peers::list(rows),
        "stores" => stores::tables(rows),
        "compile" => compile::table(rows),
        _ => return None,
    })
}

fn figures(charts: &[&Chart]) -> String {
    let mut out = String::new();
    for chart in charts {
        let _ = writeln!(out, "![{}]({}.svg)\n", chart.title, chart.file);
    }
    out
}

/// Returns the page with its blocks replaced: the text between `<!-- generated: NAME -->` and `<!-- end -->`.
pub(crate) fn fill(page: &str, block: &dyn Fn(&str) -> Option<String>) -> Result<String> {
    const BEGIN: &str = "<!-- generated: ";
    const END: &str = "<!-- end -->";
    let mut out = String::new();
    let mut rest = page;
    while let Some((before, after)) = rest.split_once(BEGIN) {
        let (name, after) = after.split_once(" -->").ok_or("a marker of the page does not end")?;
        let (_, after) = after
            .split_once(END)
            .ok_or_else(|| format!("the page has no {END} after the marker of `{name}`"))?;
        let text = block(name).ok_or_else(|| {
            format!(
                "the page has a marker for `{name}`, which is not a known table; remove the marker, or \
                 correct its name"
            )
        })?;
        let text = if text.trim().is_empty() { "Not measured." } else { text.trim() };
        let _ = write!(out, "{before}{BEGIN}{name} -->\n\n{text}\n\n{END}");
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

/// Returns a table in Markdown.
pub(crate) fn table(header: &[&str], lines: &[Vec<String>]) -> String {
    let mut out = format!("| {} |\n|{}\n", header.join(" | "), "---|".repeat(header.len()));
    for line in lines {
        let _ = writeln!(out, "| {} |", line.join(" | "));
    }
    out
}

/// The text of an empty cell.
pub(crate) const NOTHING: &str = "–";

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = include_str!("golden.jsonl");
    const GOLDEN: &str = include_str!("golden.md");
    const PAGE: &str = "# A page\n\nBy hand.\n\n<!-- generated: setting -->\nold\n<!-- end -->\n\n<!-- generated: ratios -->\n<!-- end -->\n\n\
        <!-- generated: peers -->\n<!-- end -->\n\n<!-- generated: stores -->\n<!-- end -->\n\n\
        <!-- generated: compile -->\n<!-- end -->\n\nMore by hand.\n";

    #[test]
    fn a_small_report_is_as_it_was() {
        let results = Results::parse(LINES).unwrap();
        let text = page(PAGE, &results, &[]).unwrap();
        assert_eq!(text, GOLDEN, "if that is meant: golden.md should be\n{text}");
    }

    #[test]
    fn filling_a_page_again_changes_nothing() {
        let results = Results::parse(LINES).unwrap();
        for text in [PAGE, TEMPLATE] {
            let once = page(text, &results, &[]).unwrap();
            assert_eq!(page(&once, &results, &[]).unwrap(), once);
        }
    }

    #[test]
    fn marks_that_cannot_be_filled_are_errors() {
        let results = Results::default();
        let error = |text| page(text, &results, &[]).unwrap_err().to_string();
        assert!(error("<!-- generated: tables -->\n<!-- end -->").contains("`tables`"));
        assert!(error("<!-- generated: ratios -->\n").contains("<!-- end -->"));
    }

    #[test]
    fn what_was_not_measured_says_so() {
        let text = page("<!-- generated: ratios --><!-- end -->", &Results::default(), &[]).unwrap();
        assert_eq!(text, "<!-- generated: ratios -->\n\nNot measured.\n\n<!-- end -->");
    }
}
