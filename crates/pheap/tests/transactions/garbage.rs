//! Garbage that lies next to objects that transactions change.

use pheap::{Durability, Options, P, Persist, Root, field};

/// Objects of each kind: they take turns in memory.
const EACH: usize = 16;
const CHAIN: usize = 2000;
const MORE: usize = 500;

#[derive(Persist, Clone, Copy, Default)]
#[repr(C)]
struct Node<'r> {
    next: Option<P<'r, Node<'r>>>,
    number: u64,
    /// Objects that become garbage together with this one.
    more: Option<P<'r, Node<'r>>>,
}

#[derive(Persist, Default)]
#[repr(C)]
struct All<'r> {
    kept: Option<P<'r, [P<'r, Node<'r>>]>>,
    ring: Option<P<'r, Node<'r>>>,
    /// So that it takes a while to mark all of it.
    chain: Option<P<'r, Node<'r>>>,
}

/// A ring of objects is found to be garbage, although an object next to each of them changes whenever objects
/// are marked.
#[test]
fn garbage_beside_what_changes_goes() {
    for durability in [Durability::Process, Durability::Pmem, Durability::Wal] {
        let dir = tempfile::tempdir().unwrap();
        // So little is marked at a time, and every other cycle is a minor one.
        let options = Options::new().durability(durability).pin_undo(true).collect_least(4096);
        let heap = options.open(dir.path().join("heap")).unwrap();
        let root: Root<All<'_>> = heap.root("all").unwrap();
        root.txn(|tx, p| {
            let nodes =
                (0..2 * EACH).map(|_| tx.alloc(Node::default())).collect::<pheap::Result<Vec<_>>>()?;
            let (kept, ring): (Vec<_>, Vec<_>) = nodes.chunks(2).map(|pair| (pair[0], pair[1])).unzip();
            (0..EACH).for_each(|i| tx[ring[i]].next = Some(ring[(i + 1) % EACH]));
            for _ in 0..MORE {
                tx[ring[0]].more = Some(tx.alloc(Node { next: tx[ring[0]].more, ..Node::default() })?);
            }
            tx[p].ring = Some(ring[0]);
            tx[p].kept = Some(tx.alloc_slice_copy(&kept)?);
            for _ in 0..CHAIN {
                tx[p].chain = Some(tx.alloc(Node { next: tx[p].chain, ..Node::default() })?);
            }
            Ok(())
        })
        .unwrap();
        heap.collect().unwrap();
        let before = heap.stats().live_objects;
        root.txn(|tx, p| {
            tx[p].ring = None;
            Ok(())
        })
        .unwrap();
        let mut least = u64::MAX;
        for _ in 0..20_000 {
            root.txn(|tx, p| {
                let kept = tx[p].kept.unwrap();
                for i in 0..EACH {
                    let node = tx[kept.at(tx, i)];
                    tx[field!(node.number)] += 1;
                }
                tx.alloc_slice(4, |_| 0u64)?;
                Ok(())
            })
            .unwrap();
            least = least.min(heap.stats().live_objects);
            if least < before - MORE as u64 / 2 {
                break;
            }
        }
        assert!(least < before - MORE as u64 / 2, "{durability:?}: {least} of {before}");
    }
}
