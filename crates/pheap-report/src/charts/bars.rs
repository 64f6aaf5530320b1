//! Charts of horizontal bars, in groups that share a scale.

use super::lines::{heading, text};
use super::style::{FAINT_INK, INK, Look, Stroke};
use crate::Result;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

/// The content of a chart of bars.
pub(crate) struct BarChart {
    pub(crate) title: String,
    pub(crate) note: String,
    pub(crate) groups: Vec<(String, Vec<Bar>)>,
    pub(crate) label: fn(f64) -> String,
}

pub(crate) struct Bar {
    pub(crate) label: String,
    pub(crate) look: Look,
    pub(crate) value: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

const WIDTH: i32 = 960;
const TOP: i32 = 76;
/// Pixels of the value 0, and of the right end of the longest whisker.
const BARS: (i32, i32) = (190, 850);
const BAR: i32 = 27;
const THICKNESS: i32 = 18;
/// Height of a group's title.
const GROUP: i32 = 30;
const GAP: i32 = 16;

/// Draws the chart as SVG.
pub(crate) fn draw(chart: &BarChart) -> Result<String> {
    let longest = chart.groups.iter().flat_map(|group| &group.1).map(|bar| bar.high).fold(0.0, f64::max);
    let pixel = |value: f64| BARS.0 + (value / longest * f64::from(BARS.1 - BARS.0)).round() as i32;
    let height: i32 = chart.groups.iter().map(|group| GROUP + GAP + BAR * group.1.len() as i32).sum();
    let mut svg = String::new();
    {
        let area =
            SVGBackend::with_string(&mut svg, (WIDTH as u32, (TOP + height) as u32)).into_drawing_area();
        area.fill(&WHITE)?;
        heading(&area, &chart.title, &chart.note)?;
        let mut y = TOP;
        for (title, bars) in &chart.groups {
            area.draw(&Text::new(title.as_str(), (20, y), text(16, &INK, HPos::Left, VPos::Top)))?;
            y += GROUP;
            let bottom = y + BAR * bars.len() as i32 - (BAR - THICKNESS);
            area.draw(&PathElement::new(vec![(BARS.0, y - 4), (BARS.0, bottom + 4)], FAINT_INK))?;
            for bar in bars {
                let middle = y + THICKNESS / 2;
                area.draw(&Text::new(
                    bar.label.as_str(),
                    (BARS.0 - 10, middle),
                    text(15, &INK, HPos::Right, VPos::Center),
                ))?;
                let end = pixel(bar.value).max(BARS.0 + 1);
                let corners = [(BARS.0 + 1, y), (end, y + THICKNESS)];
                let color = bar.look.color();
                // Broken lines of other charts correspond to pale bars here.
                match bar.look.stroke {
                    Stroke::Solid => area.draw(&Rectangle::new(corners, color.filled()))?,
                    Stroke::Dashed => area.draw(&Rectangle::new(corners, color.mix(0.55).filled()))?,
                    Stroke::Dotted => area.draw(&Rectangle::new(corners, color.mix(0.3).filled()))?,
                }
                let (low, high) = (pixel(bar.low), pixel(bar.high));
                if high - low > 3 {
                    area.draw(&PathElement::new(vec![(low, middle), (high, middle)], INK))?;
                    for x in [low, high] {
                        area.draw(&PathElement::new(vec![(x, middle - 4), (x, middle + 4)], INK))?;
                    }
                }
                let value = (chart.label)(bar.value);
                let at = (end.max(high) + 8, middle);
                area.draw(&Text::new(value, at, text(15, &INK, HPos::Left, VPos::Center)))?;
                y += BAR;
            }
            y += GAP;
        }
        area.present()?;
    }
    Ok(svg)
}
