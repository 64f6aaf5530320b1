//! Draws graphs as SVG, in light and dark.

use std::fmt::Write;

use super::collect::Graph;
use super::layout::{HEAD, LETTER, MARGIN, NodeBox, PAD, ROW, is_name, layout};

const STYLE: &str = "
  svg { color-scheme: light dark; --page: #ffffff; --box: #fbfcfd; --line: #b6c0cb; --text: #1c2733; --dim: #66727f; --arrow: #3b6fd4; --root: #dbe7ff; }
  @media (prefers-color-scheme: dark) {
    svg { --page: #11161c; --box: #18202a; --line: #3c4855; --text: #dfe6ee; --dim: #8a97a5; --arrow: #7aa7ff; --root: #1d3259; }
  }
  text { font: 12px ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace; fill: var(--text); white-space: pre; }
  .page { fill: var(--page); } .box { fill: var(--box); stroke: var(--line); } .root { fill: var(--root); stroke: var(--line); }
  .title { font-weight: 600; } .dim { fill: var(--dim); } .rule { stroke: var(--line); }
  .edge { fill: none; stroke: var(--arrow); stroke-width: 1.2; opacity: .8; } .back { stroke-dasharray: 4 3; }
  .tip, .dot { fill: var(--arrow); }
";

/// Escapes a text for XML.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            // XML cannot represent most of these characters.
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

pub fn draw(graph: &Graph) -> String {
    let layout = layout(graph);
    let note = if graph.left_out > 0 { 24.0 } else { 0.0 };
    let (width, height) = (layout.width, layout.height + note);
    let mut out = String::new();
    let _ = write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" height=\"{height:.0}\" \
         role=\"img\" aria-label=\"Objects of a heap\">\n<style>{STYLE}</style>\n\
         <defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\">\
         <path class=\"tip\" d=\"M0 0 L8 4 L0 8 z\"/></marker></defs>\n<rect class=\"page\" width=\"100%\" height=\"100%\"/>\n"
    );
    for (number, node) in graph.nodes.iter().enumerate() {
        for (i, row) in node.rows.iter().enumerate() {
            if let Some(to) = row.to {
                let from = &layout.boxes[number];
                let is_forward = graph.nodes[to].level > node.level;
                edge(&mut out, (from, from.row(node, i)), &layout.boxes[to], is_forward);
            }
        }
    }
    for (node, place) in graph.nodes.iter().zip(&layout.boxes) {
        let NodeBox { x, y, width, height } = *place;
        let class = if node.offset.is_some() { "box" } else { "root" };
        let round = if is_name(node) { HEAD / 2.0 } else { 6.0 };
        let tip = match node.offset {
            Some(offset) => format!("{} at {offset:#x}, {} bytes", node.title, node.bytes),
            None => format!("root {}", node.title),
        };
        let _ = writeln!(
            out,
            "<g><title>{}</title><rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"{round}\"/>",
            escaped(&tip)
        );
        text(&mut out, "title", x + PAD, y + 16.0, "start", &node.title);
        if let Some(offset) = node.offset {
            text(&mut out, "dim", x + width - PAD, y + 16.0, "end", &format!("{offset:#x}"));
        }
        if !is_name(node) {
            let line = y + HEAD;
            let _ = writeln!(out, "<path class=\"rule\" d=\"M{x:.1} {line:.1} h{width:.1}\"/>");
            for (i, row) in node.rows.iter().enumerate() {
                let middle = place.row(node, i);
                let base = middle + 4.0;
                text(&mut out, "dim", x + PAD, base, "start", &row.name);
                let right = x + width - PAD;
                if row.to.is_some() {
                    let _ = writeln!(
                        out,
                        "<circle class=\"dot\" cx=\"{:.1}\" cy=\"{middle:.1}\" r=\"3\"/>",
                        x + width
                    );
                } else if row.is_cut {
                    text(&mut out, "dim", right, base, "end", &format!("{} ⇢", row.value));
                } else if row.name.is_empty() {
                    text(&mut out, "", x + PAD, base, "start", &row.value);
                } else {
                    text(&mut out, "", right, base, "end", &row.value);
                }
            }
        }
        out.push_str("</g>\n");
    }
    if graph.left_out > 0 {
        let s = if graph.left_out == 1 { " is" } else { "s are" };
        let note = format!("{} more object{s} not shown; see --nodes", graph.left_out);
        text(&mut out, "dim", MARGIN, height - ROW, "start", &note);
    }
    out.push_str("</svg>\n");
    out
}

fn text(out: &mut String, class: &str, x: f64, y: f64, anchor: &str, text: &str) {
    if !text.is_empty() {
        let _ = writeln!(
            out,
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>",
            escaped(text)
        );
    }
}

/// Draws a pointer from the right end of a row to the left end of a title. A pointer to the same column or to
/// one on the left goes from the right end to the right end.
fn edge(out: &mut String, (from, y1): (&NodeBox, f64), to: &NodeBox, is_forward: bool) {
    let (x1, y2) = (from.x + from.width, to.head());
    let (class, x2, bend) = if is_forward {
        ("edge", to.x, to.x - (to.x - x1) * 0.45)
    } else {
        ("edge back", to.x + to.width, to.x.max(from.x) + from.width.max(to.width) + 6.0 * LETTER)
    };
    let out_of = if is_forward { x1 + (to.x - x1) * 0.45 } else { bend };
    let _ = writeln!(
        out,
        "<path class=\"{class}\" marker-end=\"url(#tip)\" d=\"M{x1:.1} {y1:.1} C{out_of:.1} {y1:.1} {bend:.1} {y2:.1} {x2:.1} {y2:.1}\"/>"
    );
}
