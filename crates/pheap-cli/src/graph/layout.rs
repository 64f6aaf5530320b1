//! Places objects in columns by their distance from the start, each near the rows that point to it and the
//! objects that it points to.

use super::collect::{Graph, GraphNode};

/// Sizes of the parts of a picture, in pixels.
pub const ROW: f64 = 18.0;
pub const HEAD: f64 = 24.0;
pub const LETTER: f64 = 7.3;
pub const PAD: f64 = 10.0;
const GAP: f64 = 18.0;
/// Width between columns, for the pointers.
const ALLEY: f64 = 90.0;
pub const MARGIN: f64 = 24.0;

pub struct GraphLayout {
    /// The box of each node, by number.
    pub boxes: Vec<NodeBox>,
    pub width: f64,
    pub height: f64,
}

#[derive(Clone, Copy, Default)]
pub struct NodeBox {
    pub x: f64,
    pub y: f64,
    pub width: f64,
    pub height: f64,
}

impl NodeBox {
    /// Returns the vertical middle of a row.
    pub fn row(&self, node: &GraphNode, row: usize) -> f64 {
        match node.offset {
            None if node.rows.len() == 1 => self.y + self.height / 2.0,
            _ => self.y + HEAD + (row as f64 + 0.5) * ROW,
        }
    }

    pub fn head(&self) -> f64 {
        self.y + HEAD / 2.0
    }
}

/// Number of characters that the dot or arrow at the end of a row takes.
const DOT: usize = 2;

fn letters(text: &str) -> usize {
    text.chars().count()
}

/// Returns whether a node shows only the name of a root or path, without rows.
pub fn is_name(node: &GraphNode) -> bool {
    node.offset.is_none() && node.rows.len() == 1 && node.rows[0].name.is_empty()
}

fn size(node: &GraphNode) -> NodeBox {
    let offset = node.offset.map_or(0, |offset| letters(&format!("{offset:#x}")) + 2);
    let head = letters(&node.title) + offset;
    let rows = node.rows.iter().map(|row| {
        let value = letters(&row.value) + if row.to.is_some() || row.is_cut { DOT } else { 0 };
        letters(&row.name) + 2 + value
    });
    let widest = if is_name(node) { head } else { rows.chain([head]).max().unwrap_or(0) };
    let lines = if is_name(node) { 0 } else { node.rows.len() };
    let below = if lines == 0 { 0.0 } else { lines as f64 * ROW + 4.0 };
    NodeBox { x: 0.0, y: 0.0, width: widest as f64 * LETTER + 2.0 * PAD, height: HEAD + below }
}

pub fn layout(graph: &Graph) -> GraphLayout {
    let mut boxes: Vec<NodeBox> = graph.nodes.iter().map(size).collect();
    let levels = graph.nodes.iter().map(|node| node.level + 1).max().unwrap_or(0);
    let mut columns: Vec<Vec<usize>> = vec![Vec::new(); levels];
    graph.nodes.iter().enumerate().for_each(|(number, node)| columns[node.level].push(number));
    let mut x = MARGIN;
    for column in &columns {
        let width = column.iter().map(|&number| boxes[number].width).fold(0.0, f64::max);
        for &number in column {
            boxes[number].x = x;
        }
        x += width + ALLEY;
    }
    // From left to right: each object is placed near the uppermost row on its left that points to it.
    if let Some(first) = columns.first() {
        stack(&mut boxes, first, |_| None);
    }
    for column in columns.iter_mut().skip(1) {
        let wants: Vec<f64> = column.iter().map(|&number| wanted(graph, &boxes, number)).collect();
        let mut order: Vec<usize> = (0..column.len()).collect();
        order.sort_by(|&a, &b| wants[a].total_cmp(&wants[b]));
        *column = order.iter().map(|&i| column[i]).collect();
        stack(&mut boxes, column, |i| Some(wants[order[i]]));
    }
    // From right to left: each object is placed near the middle of the objects on its right that it points
    // to.
    for level in (0..levels.saturating_sub(1)).rev() {
        let column = &columns[level];
        let middles: Vec<Option<f64>> = column
            .iter()
            .map(|&number| {
                let node = &graph.nodes[number];
                let targets = node.rows.iter().filter_map(|row| row.to);
                let ahead: Vec<f64> = targets
                    .filter(|&to| graph.nodes[to].level > level)
                    .map(|to| boxes[to].y + boxes[to].height / 2.0)
                    .collect();
                let mean = ahead.iter().sum::<f64>() / ahead.len() as f64;
                (!ahead.is_empty()).then_some(mean - boxes[number].height / 2.0)
            })
            .collect();
        stack(&mut boxes, column, |i| middles[i]);
    }
    let top = boxes.iter().map(|a| a.y).fold(f64::INFINITY, f64::min);
    boxes.iter_mut().for_each(|a| a.y += MARGIN - top);
    let height = boxes.iter().map(|a| a.y + a.height).fold(0.0, f64::max) + MARGIN;
    let width = boxes.iter().map(|a| a.x + a.width).fold(0.0, f64::max) + MARGIN;
    GraphLayout { boxes, width, height }
}

/// Returns the upper edge at which an object's title has the height of the uppermost row on the left that
/// points to it; a large number if there is no such row.
fn wanted(graph: &Graph, boxes: &[NodeBox], number: usize) -> f64 {
    let level = graph.nodes[number].level;
    let lines =
        graph.nodes.iter().enumerate().filter(|(_, node)| node.level < level).flat_map(|(from, node)| {
            let to_it = node.rows.iter().enumerate().filter(move |(_, row)| row.to == Some(number));
            to_it.map(move |(i, _)| boxes[from].row(node, i) - HEAD / 2.0)
        });
    lines.fold(f64::INFINITY, f64::min).min(1e9)
}

/// Places the objects of a column below one another, each near its wanted upper edge.
fn stack(boxes: &mut [NodeBox], column: &[usize], wanted: impl Fn(usize) -> Option<f64>) {
    let mut y = f64::NEG_INFINITY;
    let mut shift = 0.0;
    for (i, &number) in column.iter().enumerate() {
        let at = wanted(i).unwrap_or(if y.is_finite() { y } else { 0.0 });
        let top = at.max(y);
        shift += top - at;
        boxes[number].y = top;
        y = top + boxes[number].height + GAP;
    }
    // The column is shifted so that, on average, its objects lie as far above as below their wanted edges.
    let mean = shift / column.len().max(1) as f64;
    column.iter().for_each(|&number| boxes[number].y -= mean);
}
