//! Good heap files, to be damaged. Made once per process, so their ids and salts differ from run to run.

use std::fs;
use std::sync::OnceLock;

use pheap::{Durability, Error, Heap, Options, P, Persist, Result, Root, Txn, View};

use crate::image::Image;

#[derive(Persist)]
#[repr(C)]
pub struct Node<'r> {
    kind: Kind,
    next: Option<P<'r, Node<'r>>>,
}

/// An enum, for the type table.
#[derive(Persist)]
#[repr(u8)]
#[allow(dead_code)]
enum Kind {
    Number(u32),
    Pair { left: u8, right: [u16; 3] },
}

#[derive(Persist, Default)]
#[repr(C)]
pub struct List<'r> {
    head: Option<P<'r, Node<'r>>>,
    len: u64,
}

#[derive(Persist)]
#[repr(C)]
pub struct Other<'r> {
    words: P<'r, [u64]>,
    text: P<'r, str>,
}

impl<'r> Other<'r> {
    pub fn new(tx: &mut Txn<'r>, words: u64) -> Result<Other<'r>> {
        Ok(Other { words: tx.alloc_slice(words as usize, |_| 0)?, text: tx.alloc_str("a text")? })
    }

    pub fn fill(this: P<'r, Self>, tx: &mut Txn<'r>, with: u64) -> Result<()> {
        let words = tx[this].words;
        tx.slice_mut(words, ..).fill(with);
        Ok(())
    }

    pub fn sum(this: P<'r, Self>, view: &View<'r>) -> u64 {
        view[view[this].words].iter().sum()
    }
}

/// How all heaps are opened here.
pub fn options() -> Options {
    crate::small(Options::new().durability(Durability::Process))
}

/// Template `which`, modulo how many there are.
pub fn get(which: u8) -> &'static Image {
    static TEMPLATES: OnceLock<Vec<Image>> = OnceLock::new();
    let templates = TEMPLATES.get_or_init(|| {
        let mut all = Vec::new();
        for make in [fresh, closed, killed, killed_long] {
            all.push(make().expect("a template can be made"));
        }
        all
    });
    &templates[usize::from(which) % templates.len()]
}

fn push<'r>(tx: &mut Txn<'r>, list: P<'r, List<'r>>, i: u32) -> Result<()> {
    let kind = if i % 2 == 0 { Kind::Number(i) } else { Kind::Pair { left: 1, right: [2; 3] } };
    let node = tx.alloc(Node { kind, next: tx[list].head })?;
    tx[list].head = Some(node);
    tx[list].len += 1;
    Ok(())
}

/// Three roots, in several arenas.
fn fill(heap: &Heap) -> Result<(Root<List<'static>>, Root<Other<'static>>)> {
    let list: Root<List> = heap.root("list")?;
    for i in 0..20 {
        list.txn(|tx, list| push(tx, list, i))?;
    }
    let _: Root<List> = heap.root("empty")?;
    heap.rename_root("empty", "an empty list")?;
    let other = heap.root_or::<Other>("other", |tx| Other::new(tx, 3000))?;
    Ok((list, other))
}

fn with_heap(make: impl FnOnce(Heap, &dyn Fn() -> Image) -> Result<Option<Image>>) -> Result<Image> {
    let dir = pheap_fuzz::scratch();
    let path = dir.path().join("heap");
    let now = || Image::of(fs::read(&path).expect("the file can be read"));
    Ok(make(options().open(&path)?, &now)?.unwrap_or_else(now))
}

/// Just created, and killed.
fn fresh() -> Result<Image> {
    with_heap(|_heap, now| Ok(Some(now())))
}

fn closed() -> Result<Image> {
    with_heap(|heap, _| {
        fill(&heap)?;
        heap.close()?;
        Ok(None)
    })
}

/// Killed with redo records in its logs.
fn killed() -> Result<Image> {
    with_heap(|heap, now| {
        let (list, _) = fill(&heap)?;
        list.txn(|tx, list| push(tx, list, 100))?;
        Ok(Some(now()))
    })
}

/// Killed in a transaction whose undo log has several segments.
fn killed_long() -> Result<Image> {
    with_heap(|heap, now| {
        let (_, other) = fill(&heap)?;
        let mut image = None;
        let result = other.txn(|tx, other| {
            Other::fill(other, tx, 5)?;
            image = Some(now());
            Err::<(), _>(Error::abort("only its log is of interest"))
        });
        assert!(matches!(result, Err(Error::Aborted(_))));
        Ok(image)
    })
}
