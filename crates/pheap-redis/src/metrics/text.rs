//! The text format of Prometheus, version 0.0.4.

use std::fmt::{Display, Write};

/// The kind of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MetricKind {
    /// The figure only rises, until the server restarts or resets its counters.
    Counter,
    /// The figure rises and falls.
    Gauge,
    /// Counts of values up to certain bounds.
    Histogram,
}

/// Figures as text.
#[derive(Debug, Default)]
pub(super) struct MetricsText(String);

impl MetricsText {
    /// Writes the head of the figures of one name.
    pub(super) fn begin_metric(&mut self, name: &str, kind: MetricKind, help: &str) {
        let kind = match kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
        };
        // Writing to a string does not fail.
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    /// Appends a figure, with labels that distinguish it from others of its name.
    pub(super) fn figure(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.0.push_str(name);
        for (i, (label, text)) in labels.iter().enumerate() {
            let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.0, "{}{label}=\"{text}\"", if i == 0 { '{' } else { ',' });
        }
        let end = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.0, "{end} {value}");
    }

    /// Appends the only figure of a name.
    pub(super) fn single_metric(&mut self, name: &str, kind: MetricKind, help: &str, value: impl Display) {
        self.begin_metric(name, kind, help);
        self.figure(name, &[], value);
    }

    /// Returns the text.
    pub(super) fn finish(self) -> String {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped() {
        let mut text = MetricsText::default();
        text.single_metric("a", MetricKind::Gauge, "What it is.", 1.5);
        text.begin_metric("b", MetricKind::Counter, "Others.");
        text.figure("b", &[("x", "a\"b\\c\nd"), ("y", "")], 2);
        assert_eq!(
            text.finish(),
            "# HELP a What it is.\n# TYPE a gauge\na 1.5\n# HELP b Others.\n# TYPE b counter\nb{x=\"a\\\"b\\\\c\\nd\",y=\"\"} 2\n"
        );
    }
}
