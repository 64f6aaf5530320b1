//! The last stage: from a heap that is recovered to one that is open.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU8;

use super::contents::{Contents, Recovered};
use crate::heap::collections::Collections;
use crate::heap::options::Options;
use crate::heap::worker::Workers;
use crate::heap::{Heap, HeapInner};
use crate::os::file_lock::OpenFile;
use crate::os::fork;
use crate::os::names::has_name;
use crate::store::spans::Span;
use crate::store::{OPEN, READ_ONLY, Store, Tables};
use crate::sync::Mutex;

impl Recovered {
    /// Opens the heap.
    pub(super) fn finish(self, options: &Options, file: Option<OpenFile>) -> Heap {
        let Recovered { contents, medium, media, pages } = self;
        let Contents {
            mapping, heap, header, arenas, mut spans, regions, types, page_map, live, counts, ..
        } = contents;
        let next_region = regions.iter().map(|(identity, _)| identity.id).max().unwrap_or(0) + 1;
        spans.retain(Span::holds_objects);
        spans.sort_by_key(|span| span.entry.region); // often one region has them all, and this takes no time
        let state = if mapping.is_read_only() { READ_ONLY } else { OPEN };
        // One that had none to begin with, or whose file system does not count them, is nobody's loss.
        let named = mapping.file().is_some_and(|file| has_name(file).unwrap_or(false));
        let store = Store {
            has_name: named && !mapping.is_read_only(),
            mapping,
            state: AtomicU8::new(state),
            pin_undo: options.pin_undo,
            max_size: options.max_size,
            arena_unit: header.arena_unit,
            tuning: options.tuning,
            page_map,
            medium,
            hash_secret: [header.uuid as u64, (header.uuid >> 64) as u64],
            forks: fork::forks(),
            tables: Mutex::new(Tables { heap, header, media, arenas, pages, types }),
        };
        let inner = Arc::new(HeapInner {
            store,
            collections: Collections::new(options),
            workers: Workers::default(),
            recovered: counts,
            directory: Mutex::new(BTreeMap::new()),
            creation: Mutex::new(next_region),
            file,
        });
        // SURVIVES drop: nobody else has the heap yet.
        let mut tables = inner.tables.lock();
        for (identity, segments) in regions {
            let (name, id) = (identity.name.clone(), identity.id);
            // SAFETY: the regions were read from this heap, and are used through handles that keep it.
            let mut region = unsafe {
                let store = &raw const (*Arc::as_ptr(&inner)).store;
                inner.open_region(store, &tables.header, identity, segments)
            };
            let first = spans.partition_point(|span| span.entry.region < id);
            let spans = spans[first..].chunk_by(|a, b| a.entry.region == b.entry.region).next();
            let spans = spans.filter(|spans| spans[0].entry.region == id).unwrap_or(&[]);
            region.load(spans, |ty| tables.types.pointer_map(ty), live.as_ref());
            // SURVIVES drop: nobody else has the heap yet.
            inner.directory.lock().insert(name, Arc::new(region));
        }
        drop(tables);
        if live.is_none() && !inner.is_read_only() && !inner.is_simulated() {
            inner.mark_in_background();
        }
        inner.make_checkpoints();
        Heap { inner }
    }
}
