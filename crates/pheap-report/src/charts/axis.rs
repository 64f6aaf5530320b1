//! Axes: the positions of values, and the values that have a label.

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use std::ops::Range;

/// A linear or logarithmic axis. *Positions* are values, or their logarithms.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Axis {
    pub(super) logarithmic: bool,
    /// Positions of the ends, the lower one first.
    pub(super) range: (f64, f64),
    /// Values with a line and a label.
    pub(super) ticks: Vec<f64>,
    /// Values with a faint line.
    pub(super) fine_ticks: Vec<f64>,
}

impl Axis {
    /// Makes an axis on which each of these values has a label, with some space at both ends.
    pub(super) fn of_values(values: impl Iterator<Item = f64>, logarithmic: bool) -> Axis {
        let mut ticks: Vec<f64> = values.collect();
        ticks.sort_by(f64::total_cmp);
        ticks.dedup();
        let ends = (ticks.first().copied().unwrap_or(1.0), ticks.last().copied().unwrap_or(1.0));
        let (low, high) = (position(ends.0, logarithmic), position(ends.1, logarithmic));
        let space = if high > low { 0.04 * (high - low) } else { 0.5 };
        Axis { logarithmic, range: (low - space, high + space), ticks, fine_ticks: Vec::new() }
    }

    /// Makes a logarithmic axis with room for all values. Powers of ten have labels. A short axis has more
    /// labels.
    pub(super) fn of_range(low: f64, high: f64) -> Axis {
        let (low, high) = (low.log10(), high.log10());
        let space = (0.05 * (high - low)).max(0.08);
        let range = (low - space, high + space);
        let inside = |value: &f64| (range.0..=range.1).contains(&value.log10());
        let decades = range.0.floor() as i32..=range.1.ceil() as i32;
        let times = |factors: &[f64]| -> Vec<f64> {
            let all = decades.clone().flat_map(|e| factors.iter().map(move |factor| factor * 10f64.powi(e)));
            all.filter(inside).collect()
        };
        let ticks = match range.1 - range.0 {
            wide if wide > 2.2 => times(&[1.0]),
            medium if medium > 0.8 => times(&[1.0, 2.0, 5.0]),
            _ => times(&[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]),
        };
        let fine_ticks = times(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]);
        Axis { logarithmic: true, range, ticks, fine_ticks }
    }
}

impl Ranged for Axis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let part = (position(*value, self.logarithmic) - self.range.0) / (self.range.1 - self.range.0);
        limit.0 + (part * f64::from(limit.1 - limit.0)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() { self.fine_ticks.clone() } else { self.ticks.clone() }
    }

    fn range(&self) -> Range<f64> {
        let value = |position: f64| if self.logarithmic { 10f64.powf(position) } else { position };
        value(self.range.0)..value(self.range.1)
    }
}

fn position(value: f64, logarithmic: bool) -> f64 {
    if logarithmic { value.log10() } else { value }
}

/// Moves labels apart. `wanted` has their ideal heights. Each label gets `gap`, and their order stays. All
/// lie within `range` if there is room.
pub(super) fn spread(wanted: &[i32], gap: i32, range: (i32, i32)) -> Vec<i32> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by_key(|&i| wanted[i]);
    // Clusters of labels that touch, each centred on the ideal heights of its members, as far as `range`
    // allows: (members, top).
    let mut clusters: Vec<(Vec<usize>, i32)> = Vec::new();
    for i in order {
        let mut members = vec![i];
        let mut top = wanted[i] - gap / 2;
        while let Some((others, their_top)) = clusters.last() {
            if their_top + others.len() as i32 * gap <= top {
                break;
            }
            let mut joined = others.clone();
            joined.append(&mut members);
            clusters.pop();
            members = joined;
            let centres = members.iter().zip(0..).map(|(&i, at)| wanted[i] - at * gap - gap / 2);
            top = centres.sum::<i32>() / members.len() as i32;
        }
        let lowest = range.1 - members.len() as i32 * gap;
        top = top.min(lowest).max(range.0);
        clusters.push((members, top));
    }
    let mut placed = vec![0; wanted.len()];
    // Goes up from the bottom, because clusters that were moved up may overlap those above.
    let mut limit = range.1;
    for (members, top) in clusters.into_iter().rev() {
        let top = top.min(limit - members.len() as i32 * gap);
        for (&i, at) in members.iter().zip(0..) {
            placed[i] = top + at * gap + gap / 2;
        }
        limit = top;
    }
    placed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_ranges_have_powers_of_ten() {
        let axis = Axis::of_range(3e-6, 0.2);
        let expected = [1e-5, 1e-4, 1e-3, 1e-2, 1e-1];
        assert_eq!(axis.ticks.len(), expected.len());
        assert!(axis.ticks.iter().zip(expected).all(|(tick, value)| (tick / value - 1.0).abs() < 1e-9));
        assert!(Axis::of_range(0.011, 0.013).ticks.len() >= 2);
        assert!(Axis::of_range(1.0, 1.0).range.1 > 0.0);
    }

    #[test]
    fn labels_do_not_cover_each_other() {
        let placed = spread(&[100, 101, 300, 99], 20, (0, 400));
        assert_eq!(placed, [100, 120, 300, 80]);
        let placed = spread(&[395, 399, 2], 20, (0, 400));
        assert_eq!(placed, [370, 390, 10]);
        // Too many labels for their ideal heights.
        let placed = spread(&[50; 5], 20, (0, 100));
        assert_eq!(placed, [10, 30, 50, 70, 90]);
    }
}
