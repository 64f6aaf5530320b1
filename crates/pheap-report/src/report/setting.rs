//! The table of machines and dates.

use super::{NOTHING, table as markdown};
use crate::results::{Meta, Results, Section};
use crate::run::Part;
use clap::ValueEnum as _;

pub(super) fn table(results: &Results) -> String {
    let what = |section: &Section| {
        let is_there = |part: &&Part| section.rows.iter().any(|row| row.part() == **part);
        let parts = Part::value_variants().iter().filter(is_there).filter_map(Part::to_possible_value);
        parts.map(|part| part.get_name().to_owned()).collect::<Vec<_>>().join(", ")
    };
    let sections: Vec<_> =
        results.sections.iter().map(|section| (section.meta.as_ref(), what(section))).collect();
    table_of(&sections)
}

fn table_of(sections: &[(Option<&Meta>, String)]) -> String {
    let known = sections.iter().any(|(meta, _)| meta.is_some());
    let lines = |(meta, what): &(Option<&Meta>, String)| {
        let Some(meta) = meta else {
            return vec![what.clone(), NOTHING.into(), NOTHING.into(), NOTHING.into(), NOTHING.into()];
        };
        let dirty = if meta.dirty { ", changed" } else { "" };
        let quick = if meta.quick { ", quick" } else { "" };
        vec![
            format!("{what}{quick}"),
            meta.date.clone(),
            format!("`{}`{dirty}", &meta.commit.get(..12).unwrap_or(&meta.commit)),
            format!(
                "{}, {} cores, {} GiB, Linux {}",
                meta.cpu,
                meta.cores,
                (meta.memory_bytes as f64 / f64::from(1 << 30)).round(),
                meta.kernel
            ),
            format!("{}; {}", meta.medium, meta.rustc),
        ]
    };
    if sections.is_empty() || !known {
        return if sections.is_empty() { String::new() } else { "The machine is not known.".into() };
    }
    let rows: Vec<Vec<String>> = sections.iter().map(lines).collect();
    markdown(&["measured", "when (UTC)", "commit", "machine", "media, compiler"], &rows)
}
