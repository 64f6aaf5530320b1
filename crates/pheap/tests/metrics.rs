//! The feature `metrics`: the values that a recorder gets.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};
use pheap::{Heap, Root, Stats};

/// Figures by their names and labels, as Prometheus writes them.
#[derive(Default, Clone)]
struct Figures(Arc<Mutex<BTreeMap<String, f64>>>);

struct Figure(String, Figures);

impl Figure {
    fn put(&self, value: f64) {
        self.1.0.lock().unwrap().insert(self.0.clone(), value);
    }
}

impl CounterFn for Figure {
    fn increment(&self, _: u64) {
        panic!("counters are set as a whole");
    }

    fn absolute(&self, value: u64) {
        self.put(value as f64);
    }
}

impl GaugeFn for Figure {
    fn increment(&self, _: f64) {
        panic!("gauges are set as a whole");
    }

    fn decrement(&self, _: f64) {
        panic!("gauges are set as a whole");
    }

    fn set(&self, value: f64) {
        self.put(value);
    }
}

impl Figures {
    fn figure(&self, key: &Key) -> Arc<Figure> {
        let labels = key.labels().map(|label| format!("{}={:?}", label.key(), label.value()));
        let name = format!("{}{{{}}}", key.name(), labels.collect::<Vec<_>>().join(","));
        Arc::new(Figure(name, self.clone()))
    }
}

impl Recorder for Figures {
    fn describe_counter(&self, key: KeyName, _: Option<Unit>, help: SharedString) {
        assert!(key.as_str().ends_with("_total") && !help.is_empty());
        self.0.lock().unwrap().insert(format!("help {}", key.as_str()), 0.0);
    }

    fn describe_gauge(&self, key: KeyName, _: Option<Unit>, help: SharedString) {
        assert!(!key.as_str().ends_with("_total") && !help.is_empty());
        self.0.lock().unwrap().insert(format!("help {}", key.as_str()), 0.0);
    }

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.figure(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.figure(key))
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

#[test]
fn a_recorder_is_told_all_figures() -> pheap::Result<()> {
    let heap = Heap::in_memory()?;
    let root: Root<u64> = heap.root("n")?;
    root.txn(|tx, n| {
        tx[n] = 7;
        Ok(())
    })?;
    heap.collect()?;
    let figures = Figures::default();
    metrics::with_local_recorder(&figures, || {
        Stats::describe_metrics();
        heap.stats().record("jobs");
    });
    let stats = heap.stats();
    let figures = figures.0.lock().unwrap();
    let of = |name: &str| figures[&format!("{name}{{heap=\"jobs\"}}")];
    assert_eq!(of("pheap_file_bytes"), stats.file_bytes as f64);
    assert_eq!(of("pheap_live_objects"), 1.0);
    assert_eq!(of("pheap_collections_total"), stats.collections as f64);
    assert!(
        stats.collections > 0
            && figures.contains_key("pheap_collector_pause_seconds{heap=\"jobs\",quantile=\"0.99\"}")
    );
    // Each figure has a help text, and nothing else has.
    let (helps, names): (Vec<&String>, Vec<&String>) =
        figures.keys().partition(|key| key.starts_with("help "));
    let names: std::collections::BTreeSet<&str> =
        names.iter().map(|name| name.split('{').next().unwrap()).collect();
    assert_eq!(helps.iter().map(|help| &help[5..]).collect::<std::collections::BTreeSet<_>>(), names);
    Ok(())
}
