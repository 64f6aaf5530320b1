//! Passes statistics to the crate `metrics`, under names that users of Prometheus expect.

use metrics::{Label, Unit, counter, describe_counter, describe_gauge, gauge};

use super::Stats;

/// A figure of a heap: the name of the figure, its description, its unit, and its value.
type Figure<T> = (&'static str, &'static str, Unit, T);

const QUANTILES: [(&str, f64); 3] = [("0.5", 0.5), ("0.99", 0.99), ("0.999", 0.999)];
const PAUSE: &str = "pheap_collector_pause_seconds";

impl Stats {
    /// Passes the figures of a heap, with the label `heap`, to the recorder that the program has installed
    /// with the crate `metrics`. A program calls this from time to time, or for each request for the figures.
    /// Needs the feature `metrics`.
    ///
    /// Counters begin at 0 whenever the heap is opened, as Prometheus expects of a restarted program.
    ///
    /// ```
    /// # let heap = pheap::Heap::in_memory().unwrap();
    /// heap.stats().record("jobs"); // pheap_file_bytes{heap="jobs"}, pheap_log_syncs_total{heap="jobs"}, …
    /// ```
    pub fn record(&self, heap: &str) {
        let labels = || vec![Label::new("heap", heap.to_owned())];
        for (name, _, _, value) in self.gauges() {
            gauge!(name, labels()).set(value);
        }
        for (name, _, _, value) in self.counters() {
            counter!(name, labels()).absolute(value);
        }
        for (quantile, share) in QUANTILES {
            let mut labels = labels();
            labels.push(Label::new("quantile", quantile));
            gauge!(PAUSE, labels).set(self.pauses.quantile(share).as_secs_f64());
        }
    }

    /// Passes the descriptions of the figures of [`record`](Self::record) to the recorder. One call in a
    /// program is enough.
    pub fn describe_metrics() {
        let none = Stats::default();
        for (name, help, unit, _) in none.gauges() {
            describe_gauge!(name, unit, help);
        }
        for (name, help, unit, _) in none.counters() {
            describe_counter!(name, unit, help);
        }
        describe_gauge!(PAUSE, Unit::Seconds, "How long transactions wait for a collection, by their share");
    }

    fn gauges(&self) -> [Figure<f64>; 11] {
        let number = |n: u64| n as f64;
        [
            ("pheap_file_bytes", "Bytes of the file", Unit::Bytes, number(self.file_bytes)),
            (
                "pheap_ahead_bytes",
                "Bytes that the file has beyond them, made ready",
                Unit::Bytes,
                number(self.ahead_bytes),
            ),
            ("pheap_free_bytes", "Bytes of pages that nothing uses", Unit::Bytes, number(self.free_bytes)),
            ("pheap_live_bytes", "Bytes of live objects", Unit::Bytes, number(self.live_bytes)),
            ("pheap_live_objects", "Live objects", Unit::Count, number(self.live_objects)),
            (
                "pheap_private_bytes",
                "Bytes of dirty pages in memory",
                Unit::Bytes,
                number(self.private_bytes),
            ),
            ("pheap_ready", "1 if all live objects are known", Unit::Count, number(self.ready.into())),
            (
                "pheap_replayed_records",
                "Records of the log that opening has replayed",
                Unit::Count,
                number(self.replayed_records),
            ),
            (
                "pheap_rolled_back_entries",
                "Entries that opening has rolled back",
                Unit::Count,
                number(self.rolled_back_entries),
            ),
            (
                "pheap_collector_longest_pause_seconds",
                "The longest pause by a collection",
                Unit::Seconds,
                self.pauses.longest().as_secs_f64(),
            ),
            // This figure is a gauge, because a counter is a whole number.
            (
                "pheap_collecting_seconds",
                "How long collections took since the heap was opened",
                Unit::Seconds,
                self.collecting.as_secs_f64(),
            ),
        ]
    }

    fn counters(&self) -> [Figure<u64>; 9] {
        [
            ("pheap_log_bytes_total", "Bytes of log entries", Unit::Bytes, self.log_bytes),
            ("pheap_log_syncs_total", "Syncs of the write-ahead log", Unit::Count, self.syncs),
            (
                "pheap_checkpoints_total",
                "How often the log was written to the heap's file",
                Unit::Count,
                self.checkpoints,
            ),
            (
                "pheap_checkpoint_bytes_total",
                "Bytes that this has written",
                Unit::Bytes,
                self.checkpoint_bytes,
            ),
            ("pheap_fences_total", "Fences", Unit::Count, self.fences),
            ("pheap_flushed_lines_total", "Cache lines that were flushed", Unit::Count, self.flushed_lines),
            (
                "pheap_growth_waits_total",
                "How often somebody waited for the file to grow",
                Unit::Count,
                self.growth_waits,
            ),
            ("pheap_collections_total", "Collections of a root", Unit::Count, self.collections),
            ("pheap_collector_pauses_total", "Pauses by collections", Unit::Count, self.pauses.count()),
        ]
    }
}
