//! Finding and reading the roots of a heap.

use crate::report::Said;
use std::collections::HashMap;

use pheap::{Heap, P, Report, Root, View, field};

use crate::layouts::{self, Found, Handle, Node, Other, Record, Store};
use crate::model::{RootState, State};
use crate::shelf::{Item, Shelf};

/// Handles of roots by name.
pub type Handles = HashMap<String, Found>;

/// Longest list. A longer one is taken for a cycle.
const MAX_NODES: usize = 1000;

/// Returns the hexadecimal number behind the last `mark` in the `Debug` text of `what`. This text has the
/// address of a pointer or of a heap.
fn said(what: &impl std::fmt::Debug, mark: &str) -> u64 {
    let text = format!("{what:?}");
    let hex = text.rsplit(mark).next().and_then(|rest| rest.split(|c: char| !c.is_ascii_hexdigit()).next());
    hex.and_then(|hex| u64::from_str_radix(hex, 16).ok()).expect("an address")
}

/// The pointers of a root: its slice, its large object, and its list.
type Pointers<'r> = (Option<P<'r, [u64]>>, Option<P<'r, [u64]>>, Option<P<'r, Node<'r>>>);

/// Address range of the heap, and the ranges of the objects read so far.
#[derive(Debug)]
struct Places {
    heap: std::ops::Range<u64>,
    seen: Vec<(u64, u64)>,
}

impl Places {
    /// Checks that the object of `bytes` bytes at `p` lies in the heap and is aligned, so that it can be
    /// read. Notes its range.
    fn add<T: ?Sized>(&mut self, what: &str, p: P<'_, T>, bytes: u64) -> Result<(), String> {
        let start = said(&p, "(0x");
        if !start.is_multiple_of(8) || start < self.heap.start || bytes > self.heap.end.saturating_sub(start)
        {
            return Err(format!("{what} is at {start:#x}, outside of the heap"));
        }
        self.seen.push((start, start + bytes));
        Ok(())
    }

    fn slice<'r>(&mut self, what: &str, view: &View<'r>, p: P<'r, [u64]>) -> Result<Vec<u64>, String> {
        self.add(what, p, 8)?;
        self.seen.pop();
        self.add(what, p, (p.len(view) as u64).saturating_mul(8).saturating_add(8))?;
        Ok(view[p].to_vec())
    }

    fn record<'r>(&mut self, name: &str, view: &View<'r>, p: P<'r, Record<'r>>) -> Result<RootState, String> {
        self.add(&format!("root {name:?}"), p, size_of::<Record<'_>>() as u64)?;
        let Record { x, y, bytes, slice, big, list, .. } = view[p];
        self.root(name, view, (slice, big, list), RootState { x, y, bytes, ..RootState::default() })
    }

    fn other<'r>(&mut self, name: &str, view: &View<'r>, p: P<'r, Other<'r>>) -> Result<RootState, String> {
        self.add(&format!("root {name:?}"), p, size_of::<Other<'_>>() as u64)?;
        let Other { x, y, bytes, slice, big, list } = view[p];
        self.root(name, view, (slice, big, list), RootState { x, y, bytes, ..RootState::default() })
    }

    fn store<'r>(&mut self, name: &str, view: &View<'r>, p: P<'r, Store<'r>>) -> Result<RootState, String> {
        self.add(&format!("root {name:?}"), p, size_of::<Store<'_>>() as u64)?;
        self.seen.pop();
        let state = self.record(name, view, field!(p.record))?;
        self.shelf(name, view, field!(p.shelf), state)
    }

    /// Adds the content of the collections to the state of their root. The heap must have been
    /// [checked](Heap::check) before: pointers within collections cannot be checked before their code follows
    /// them.
    fn shelf<'r>(
        &mut self,
        name: &str,
        view: &View<'r>,
        shelf: P<'r, Shelf<'r>>,
        state: RootState,
    ) -> Result<RootState, String> {
        let Shelf { map, tree, versions, vec, text } = &view[shelf];
        let torn = map.iter(view).find(|(_, [value, check])| *check != !value);
        if let Some((key, [value, check])) = torn {
            return Err(format!("{name}.map[{key}] holds {value:#x} and {check:#x}"));
        }
        let entries = map.iter(view).map(|(key, [value, _])| (*key, *value)).collect();
        let sorted: Vec<(&str, u64)> = tree.iter(view).map(|(key, value)| (key, *value)).collect();
        let versioned: Vec<(&str, u64)> = versions.iter(view).map(|(key, value)| (key, *value)).collect();
        let mut items = Vec::new();
        for item in vec.iter(view) {
            self.add(&format!("{name}.vec[{}]", items.len()), *item, size_of::<Item>() as u64)?;
            let Item { value, check } = view[*item];
            if check != !value {
                return Err(format!("{name}.vec[{}] holds {value:#x} and {check:#x}", items.len()));
            }
            items.push(value);
        }
        let state = RootState {
            map: entries,
            tree: sorted.iter().map(|(key, value)| ((*key).to_owned(), *value)).collect(),
            versions: versioned.iter().map(|(key, value)| ((*key).to_owned(), *value)).collect(),
            vec: items,
            text: text.as_str(view).to_owned(),
            ..state
        };
        if state.map.len() != map.len()
            || !state.map.iter().all(|(key, value)| map.get(view, key) == Some(&[*value, !value]))
        {
            return Err(format!("{name}.map, {} long, does not find all of {:?}", map.len(), state.map));
        }
        let found = |pairs: &[(&str, u64)], get: &dyn Fn(&str) -> Option<u64>| {
            pairs.is_sorted() && pairs.iter().all(|(key, value)| get(key) == Some(*value))
        };
        if state.tree.len() != tree.len() || !found(&sorted, &|key| tree.get(view, key).copied()) {
            return Err(format!("{name}.tree, {} long, does not find all of {sorted:?}", tree.len()));
        }
        if state.versions.len() != versions.len()
            || !found(&versioned, &|key| versions.get(view, key).copied())
        {
            return Err(format!(
                "{name}.versions, {} long, does not find all of {versioned:?}",
                versions.len()
            ));
        }
        Ok(state)
    }

    /// Adds the content of the objects that a root points to.
    fn root<'r>(
        &mut self,
        name: &str,
        view: &View<'r>,
        (slice, big, list): Pointers<'r>,
        state: RootState,
    ) -> Result<RootState, String> {
        let slice = slice.ok_or_else(|| format!("{name}.slice is none"))?;
        let slice = self.slice(&format!("{name}.slice"), view, slice)?;
        let big = big.map(|big| self.slice(&format!("{name}.big"), view, big)).transpose()?;
        let list = self.list(&format!("{name}.list"), view, list)?;
        Ok(RootState { slice, big, list, ..state })
    }

    fn list<'r>(
        &mut self,
        name: &str,
        view: &View<'r>,
        mut next: Option<P<'r, Node<'r>>>,
    ) -> Result<Vec<u64>, String> {
        let mut list = Vec::new();
        while let Some(node) = next {
            let what = || format!("node {} of {name}", list.len());
            self.add(&what(), node, size_of::<Node<'_>>() as u64)?;
            let Node { value, check, tail, .. } = view[node];
            if check != !value || tail != value || list.len() == MAX_NODES {
                return Err(format!("{} holds {value:#x}, {check:#x} and {tail:#x}", what()));
            }
            list.push(value);
            next = view[node].next;
        }
        Ok(list)
    }

    /// Checks that no two objects overlap.
    fn check_apart(mut self) -> Result<(), String> {
        self.seen.sort_unstable();
        match self.seen.windows(2).find(|pair| pair[0].1 > pair[1].0) {
            Some(pair) => Err(format!("the objects at {:#x} and {:#x} overlap", pair[0].0, pair[1].0)),
            None => Ok(()),
        }
    }
}

/// Returns the address that the heap is mapped at.
pub fn base(heap: &Heap) -> u64 {
    said(heap, "mapped_at: 0x")
}

/// Returns the root with this name. Keeps its handle, because finding a root compares its type, which is
/// slow.
pub fn found(heap: &Heap, handles: &mut Handles, name: &str) -> pheap::Result<Found> {
    if let Some(found) = handles.get(name) {
        return Ok(found.clone());
    }
    let found = Found::of(heap, name)?;
    handles.insert(name.to_owned(), found.clone());
    Ok(found)
}

/// Returns the root in its first layout. Migrates it before if it has the other one.
pub fn handle(heap: &Heap, handles: &mut Handles, name: &str) -> pheap::Result<Handle> {
    if let Found::First(handle) = found(heap, handles, name)? {
        return Ok(handle);
    }
    handles.remove(name);
    layouts::back(heap, name)?;
    match found(heap, handles, name)? {
        Found::First(handle) => Ok(handle),
        _ => Err(pheap::Error::abort("the root cannot be given its first layout")),
    }
}

/// Returns the root with collections, in its first layout. Migrates it before if it has none, or has its
/// other layout.
pub fn store(heap: &Heap, handles: &mut Handles, name: &str) -> pheap::Result<Root<Store<'static>>> {
    if let Handle::Store(root) = handle(heap, handles, name)? {
        return Ok(root);
    }
    handles.remove(name);
    layouts::shelve(heap, name)?;
    match found(heap, handles, name)? {
        Found::First(Handle::Store(root)) => Ok(root),
        _ => Err(pheap::Error::abort("the root cannot be given collections")),
    }
}

impl Places {
    fn of(heap: &Heap) -> Places {
        let base = base(heap);
        Places { heap: base..base + heap.stats().file_bytes, seen: Vec::new() }
    }
}

/// Reads the list that begins at `first`. Checks each pointer before following it.
pub fn list<'r>(heap: &Heap, view: &View<'r>, first: P<'r, Node<'r>>) -> Result<Vec<u64>, String> {
    let mut places = Places::of(heap);
    let list = places.list("what is held", view, Some(first))?;
    places.check_apart()?;
    Ok(list)
}

/// Content of a heap that was read.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// Content of the roots.
    pub state: State,
    /// Report of the check of the heap. A heap is checked if a root has collections.
    pub report: Option<Report>,
}

impl Seen {
    /// Returns the number of objects that belong to collections. 0 if the heap was not checked.
    pub fn owned(&self) -> u64 {
        self.report.as_ref().map_or(0, owned)
    }
}

/// Reads all roots. Checks each pointer before following it, because a wrong protocol may leave any value.
/// Pointers within collections are followed by the code of the collections, so the whole heap is checked
/// before the first collection is read.
pub fn see(heap: &Heap, handles: &mut Handles) -> Result<Seen, String> {
    let mut places = Places::of(heap);
    let mut seen = Seen::default();
    for info in heap.roots() {
        let name = &info.name;
        let found = found(heap, handles, name).said()?;
        if found.has_shelf() && seen.report.is_none() {
            let report = heap.check().said()?;
            if !report.is_clean() {
                return Err(format!("a check of the heap says: {report}"));
            }
            seen.report = Some(report);
        }
        let read = match found {
            Found::First(Handle::Record(root)) => root.read(|view, p| places.record(name, view, p)),
            Found::Other(root) => root.read(|view, p| places.other(name, view, p)),
            Found::First(Handle::Store(root)) => root.read(|view, p| places.store(name, view, p)),
            Found::OtherStore(root) => root.read(|view, p| {
                let state = places.other(name, view, field!(p.other))?;
                places.shelf(name, view, field!(p.shelf), state)
            }),
        };
        seen.state.roots.insert(info.name, read.said()??);
    }
    places.check_apart()?;
    Ok(seen)
}

/// Reads the content of the roots with the same checks.
pub fn observe(heap: &Heap, handles: &mut Handles) -> Result<State, String> {
    see(heap, handles).map(|seen| seen.state)
}

/// The types of the lab whose objects do not belong to collections.
const TYPES: [&str; 7] = ["Record", "Other", "Store", "OtherStore", "Node", "Item", "[u64]"];

/// Returns the number of objects in the report that belong to collections.
pub fn owned(report: &Report) -> u64 {
    let owned = report.usage.iter().filter(|usage| !TYPES.contains(&usage.type_name.as_str()));
    owned.map(|usage| usage.objects).sum()
}
