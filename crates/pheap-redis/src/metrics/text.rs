//! The text format of Prometheus, version 0.0.4.

use std::fmt::{Display, Write};

/// What a figure does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// It goes up only, until the server is started again, or told to count anew.
    Counter,
    /// It goes up and down.
    Gauge,
    /// Counts of what was at most so much.
    Histogram,
}

/// Figures as text.
#[derive(Debug, Default)]
pub(super) struct Text(String);

impl Text {
    /// Figures of one name follow.
    pub(super) fn begin(&mut self, name: &str, kind: Kind, help: &str) {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        // Writing to a string does not fail.
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    /// A figure, with labels that tell it from others of its name.
    pub(super) fn figure(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.0.push_str(name);
        for (i, (label, text)) in labels.iter().enumerate() {
            let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.0, "{}{label}=\"{text}\"", if i == 0 { '{' } else { ',' });
        }
        let end = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.0, "{end} {value}");
    }

    /// A figure that is alone.
    pub(super) fn one(&mut self, name: &str, kind: Kind, help: &str, value: impl Display) {
        self.begin(name, kind, help);
        self.figure(name, &[], value);
    }

    /// All of it.
    pub(super) fn finish(self) -> String {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped() {
        let mut text = Text::default();
        text.one("a", Kind::Gauge, "What it is.", 1.5);
        text.begin("b", Kind::Counter, "Others.");
        text.figure("b", &[("x", "a\"b\\c\nd"), ("y", "")], 2);
        assert_eq!(
            text.finish(),
            "# HELP a What it is.\n# TYPE a gauge\na 1.5\n# HELP b Others.\n# TYPE b counter\nb{x=\"a\\\"b\\\\c\\nd\",y=\"\"} 2\n"
        );
    }
}
