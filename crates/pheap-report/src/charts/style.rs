//! Styles of systems: a colour for each, the same in all charts, and a shape for each variant of a system.

use plotters::style::RGBColor;

/// The palette of Okabe and Ito, which was made to be distinguishable without full colour vision, and two
/// greys.
const BLUE: RGBColor = RGBColor(0, 114, 178);
const VERMILION: RGBColor = RGBColor(213, 94, 0);
const PURPLE: RGBColor = RGBColor(204, 121, 167);
const GREEN: RGBColor = RGBColor(0, 158, 115);
const ORANGE: RGBColor = RGBColor(230, 159, 0);
const SKY: RGBColor = RGBColor(86, 180, 233);
const YELLOW: RGBColor = RGBColor(240, 228, 66);
const DARK: RGBColor = RGBColor(60, 60, 60);
const GREY: RGBColor = RGBColor(150, 150, 150);

/// Text, and the whiskers of bars.
pub(super) const INK: RGBColor = RGBColor(40, 40, 40);
/// Less important text, and the lines of axes.
pub(super) const FAINT_INK: RGBColor = RGBColor(105, 105, 105);
/// Lines of the grid.
pub(super) const GRID: RGBColor = RGBColor(215, 215, 215);
/// Fine lines of the grid.
pub(super) const FINE_GRID: RGBColor = RGBColor(240, 240, 240);

/// Systems in the order of legends: the name in rows, the name for people, and the colour.
const SYSTEMS: [(&str, &str, RGBColor); 14] = [
    ("pheap", "pheap", BLUE),
    ("pmdk", "PMDK", VERMILION),
    ("redb", "redb", PURPLE),
    ("heed", "LMDB (heed)", GREEN),
    ("fjall", "fjall", ORANGE),
    ("rusqlite", "SQLite", SKY),
    ("volatile", "volatile Rust", DARK),
    ("floor", "floor", GREY),
    // Systems of the benchmark of key-value stores.
    ("pheap-kv", "pheap-kv", BLUE),
    ("pheap-kv again", "pheap-kv again", BLUE),
    ("pheap-kv-pmem", "pheap-kv, Pmem", BLUE),
    ("rocksdb", "RocksDB", YELLOW),
    ("lmdb", "LMDB", GREEN),
    ("sqlite", "SQLite", SKY),
];

/// Returns the name of a system for people.
pub(crate) fn display_name(system: &str) -> &str {
    SYSTEMS.iter().find(|known| known.0 == system).map_or(system, |known| known.1)
}

/// Returns the position of a system in lists. Unknown systems come last.
pub(crate) fn rank(system: &str) -> usize {
    SYSTEMS.iter().position(|known| known.0 == system).unwrap_or(SYSTEMS.len())
}

pub(super) fn color(system: &str) -> RGBColor {
    SYSTEMS.iter().find(|known| known.0 == system).map_or(GREY, |known| known.2)
}

/// Style of a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Stroke {
    Solid,
    Dashed,
    Dotted,
}

/// Shape of points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Marker {
    Circle,
    Ring,
    Square,
    Triangle,
    None,
}

/// Style of a line or of a bar.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Look {
    pub(super) system: &'static str,
    pub(super) stroke: Stroke,
    pub(super) marker: Marker,
}

impl Look {
    pub(super) const fn new(system: &'static str, stroke: Stroke, marker: Marker) -> Look {
        Look { system, stroke, marker }
    }

    /// Returns the style of a system in charts that have one variant of each.
    pub(crate) fn of_system(system: &str) -> Look {
        let known = SYSTEMS.iter().find(|known| known.0 == system).map_or("", |known| known.0);
        match known {
            "floor" => Look::new(known, Stroke::Dashed, Marker::None),
            "rusqlite" | "heed" => Look::new(known, Stroke::Solid, Marker::Square),
            "fjall" => Look::new(known, Stroke::Solid, Marker::Triangle),
            _ => Look::new(known, Stroke::Solid, Marker::Circle),
        }
    }

    pub(super) fn color(&self) -> RGBColor {
        color(self.system)
    }
}
