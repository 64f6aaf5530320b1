//! Charts of lines, with labels at their right ends.

use super::axis::{Axis, spread};
use super::style::{FAINT_INK, FINE_GRID, GRID, INK, Look, Marker, Stroke};
use crate::Result;
use plotters::coord::Shift;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// The content of a chart of lines.
pub(super) struct LineChart {
    pub(super) title: String,
    pub(super) note: String,
    pub(super) x_title: String,
    pub(super) y_title: String,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) x_label: fn(f64) -> String,
    pub(super) y_label: fn(f64) -> String,
    pub(super) lines: Vec<Line>,
}

pub(super) struct Line {
    pub(super) label: String,
    pub(super) look: Look,
    /// In the order in which the line connects them.
    pub(super) points: Vec<Point>,
}

#[derive(Clone, Copy)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

const SIZE: (u32, u32) = (960, 540);
/// Width of the right part, which has the labels.
const LABELS: i32 = 200;
const PLOT: PlotArea =
    PlotArea { left: 86, top: 74, right: SIZE.0 as i32 - LABELS, bottom: SIZE.1 as i32 - 64 };

struct PlotArea {
    left: i32,
    top: i32,
    right: i32,
    bottom: i32,
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Draws the chart as SVG.
pub(super) fn draw(chart: &LineChart) -> Result<String> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        heading(&area, &chart.title, &chart.note)?;
        axes(&area, chart)?;
        for line in chart.lines.iter().filter(|line| line.look.marker != Marker::None) {
            whiskers(&area, chart, line)?;
        }
        // The first line is drawn last, on top.
        for line in chart.lines.iter().rev() {
            let path: Vec<(i32, i32)> =
                line.points.iter().map(|point| chart.pixel(point.x, point.y)).collect();
            stroke(&area, &path, &line.look)?;
            path.iter().try_for_each(|&at| marker(&area, at, &line.look))?;
        }
        labels(&area, chart)?;
        area.present()?;
    }
    Ok(svg)
}

impl LineChart {
    fn pixel(&self, x: f64, y: f64) -> (i32, i32) {
        (self.x.map(&x, (PLOT.left, PLOT.right)), self.y.map(&y, (PLOT.bottom, PLOT.top)))
    }
}

pub(super) fn text(size: u32, color: &RGBColor, horizontal: HPos, vertical: VPos) -> TextStyle<'_> {
    TextStyle::from(("sans-serif", size).into_font()).color(color).pos(Pos::new(horizontal, vertical))
}

pub(super) fn heading(area: &Area<'_>, title: &str, note: &str) -> Result<()> {
    let bold = ("sans-serif", 22).into_font().style(FontStyle::Bold);
    area.draw(&Text::new(title, (20, 14), TextStyle::from(bold).color(&INK)))?;
    area.draw(&Text::new(note, (20, 42), text(15, &FAINT_INK, HPos::Left, VPos::Top)))?;
    Ok(())
}

/// Draws the frame by plotters: the grid, its labels, and the titles of the axes.
fn axes(area: &Area<'_>, chart: &LineChart) -> Result<()> {
    let (x_label, y_label) = (|at: &f64| (chart.x_label)(*at), |at: &f64| (chart.y_label)(*at));
    let mut context = ChartBuilder::on(area)
        .margin_top(PLOT.top)
        .margin_right(LABELS)
        .margin_bottom(14)
        .margin_left(14)
        .x_label_area_size(SIZE.1 as i32 - PLOT.bottom - 14)
        .y_label_area_size(PLOT.left - 14)
        .build_cartesian_2d(chart.x.clone(), chart.y.clone())?;
    context
        .configure_mesh()
        .x_labels(chart.x.ticks.len())
        .y_labels(chart.y.ticks.len())
        .bold_line_style(GRID)
        .light_line_style(FINE_GRID)
        .axis_style(FAINT_INK)
        .label_style(text(15, &INK, HPos::Left, VPos::Top))
        .axis_desc_style(text(15, &INK, HPos::Left, VPos::Top))
        .x_label_formatter(&x_label)
        .y_label_formatter(&y_label)
        .x_desc(&chart.x_title)
        .y_desc(&chart.y_title)
        .draw()?;
    Ok(())
}

fn whiskers(area: &Area<'_>, chart: &LineChart, line: &Line) -> Result<()> {
    let style = line.look.color().mix(0.65).stroke_width(1);
    for point in &line.points {
        let ((x, low), (_, high)) = (chart.pixel(point.x, point.low), chart.pixel(point.x, point.high));
        // A marker has this height, so it would cover shorter whiskers.
        if low - high > 8 {
            area.draw(&PathElement::new(vec![(x, low), (x, high)], style))?;
            for end in [low, high] {
                area.draw(&PathElement::new(vec![(x - 3, end), (x + 3, end)], style))?;
            }
        }
    }
    Ok(())
}

fn stroke(area: &Area<'_>, path: &[(i32, i32)], look: &Look) -> Result<()> {
    let style = look.color().stroke_width(2);
    let path = path.to_vec();
    match look.stroke {
        Stroke::Solid => area.draw(&PathElement::new(path, style))?,
        Stroke::Dashed => area.draw(&DashedPathElement::new(path, 9, 5, style))?,
        Stroke::Dotted => area.draw(&DashedPathElement::new(path, 3, 4, style))?,
    }
    Ok(())
}

fn marker(area: &Area<'_>, (x, y): (i32, i32), look: &Look) -> Result<()> {
    let (color, rim) = (look.color(), look.color().stroke_width(2));
    match look.marker {
        Marker::Circle => area.draw(&Circle::new((x, y), 4, color.filled()))?,
        Marker::Ring => {
            area.draw(&Circle::new((x, y), 4, WHITE.filled()))?;
            area.draw(&Circle::new((x, y), 4, rim))?;
        }
        Marker::Square => area.draw(&Rectangle::new([(x - 4, y - 4), (x + 4, y + 4)], color.filled()))?,
        Marker::Triangle => {
            area.draw(&Polygon::new(vec![(x - 5, y + 4), (x + 5, y + 4), (x, y - 5)], color.filled()))?;
        }
        Marker::None => {}
    }
    Ok(())
}

/// Draws the labels to the right of the plot, and connects each with the end of its line.
fn labels(area: &Area<'_>, chart: &LineChart) -> Result<()> {
    let ends: Vec<(i32, i32)> = chart
        .lines
        .iter()
        .map(|line| line.points.last().map_or((PLOT.right, PLOT.bottom), |end| chart.pixel(end.x, end.y)))
        .collect();
    let heights: Vec<i32> = ends.iter().map(|end| end.1).collect();
    let placed = spread(&heights, 23, (PLOT.top - 8, PLOT.bottom + 8));
    for ((line, end), y) in chart.lines.iter().zip(ends).zip(placed) {
        let faint = line.look.color().mix(0.5).stroke_width(1);
        let x = PLOT.right + 22;
        let edge = PLOT.right + 4;
        if edge - end.0 < 60 {
            area.draw(&PathElement::new(vec![(end.0 + 6, end.1), (edge, end.1), (x - 2, y)], faint))?;
        } else {
            // Dotted, so that it does not look like a part of the line.
            let path = [(end.0 + 8, end.1), (edge, end.1), (x - 2, y)];
            area.draw(&DashedPathElement::new(path, 1, 6, faint))?;
        }
        stroke(area, &[(x, y), (x + 34, y)], &line.look)?;
        marker(area, (x + 17, y), &line.look)?;
        area.draw(&Text::new(line.label.as_str(), (x + 42, y), text(15, &INK, HPos::Left, VPos::Center)))?;
    }
    Ok(())
}
