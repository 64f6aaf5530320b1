//! The entries of maps, one after the other, however damaged the map is.

mod hash;
mod snap;
mod tree;

use super::part::{Part, Spot, in_slot, strange};
use crate::heap::check::rule::{Rule, Vector, field};
use crate::layout::TypeLayout;
use hash::HashWalk;
use snap::SnapWalk;
use tree::TreeWalk;

/// Where a key is, and its value.
pub(super) type Pair<'v> = (Spot<'v>, Spot<'v>);

/// What a step has led to: an entry, the end, or why there are no more.
type Step<'v> = Result<Option<Pair<'v>>, String>;

/// The elements of a sequence that are still to come.
#[derive(Clone, Copy)]
pub(super) struct Sequence<'v> {
    buffer: Part<'v>,
    elem: &'v TypeLayout,
    /// Place of the first element in the buffer, which is a ring of so many.
    head: u64,
    capacity: u64,
    next: u64,
    end: u64,
}

impl<'v> Sequence<'v> {
    /// `len` elements that lie one behind the other.
    pub(super) fn array(first: Part<'v>, elem: &'v TypeLayout, len: u64) -> Sequence<'v> {
        Sequence { buffer: first, elem, head: 0, capacity: len.max(1), next: 0, end: len }
    }

    /// Those of a vector, a text or a queue.
    pub(super) fn of(vector: &Vector, part: Part<'v>) -> Result<Sequence<'v>, String> {
        let head = vector.head.map_or(0, |at| part.word(at));
        let end = part.word(vector.len);
        let elem = in_slot(part.elem_of(vector.buffer)?);
        let (buffer, capacity) = part.follow_slice(vector.buffer)?.unwrap_or((part, 0));
        if end > capacity || (head >= capacity && head > 0) {
            return Err(format!("has {end} elements from place {head} on, in a buffer for {capacity}"));
        }
        Ok(Sequence { buffer, elem, head, capacity: capacity.max(1), next: 0, end })
    }

    pub(super) fn elem(&self) -> &'v TypeLayout {
        self.elem
    }

    pub(super) fn len(&self) -> u64 {
        self.end - self.next
    }

    /// Leaves out so many elements, or all.
    pub(super) fn skip(&mut self, elements: u64) {
        self.next = self.end.min(self.next.saturating_add(elements));
    }

    /// All that is to come, if these are bytes that lie one behind the other.
    pub(super) fn bytes(&self) -> Option<&'v [u8]> {
        let is_contiguous = self.head == 0 && self.elem.size == 1;
        is_contiguous.then(|| self.buffer.ground.bytes(self.buffer.at + self.next, self.len()))
    }

    pub(super) fn next(&mut self) -> Option<Spot<'v>> {
        if self.next == self.end {
            return None;
        }
        // No overflow: both are less than the capacity.
        let place = (self.head + self.next) % self.capacity;
        self.next += 1;
        Some(self.buffer.at(place * self.elem.size).is(self.elem))
    }
}

#[derive(Clone)]
enum Way<'v> {
    Few(Sequence<'v>),
    Hash(HashWalk<'v>),
    Tree(TreeWalk<'v>),
    Snap(SnapWalk<'v>),
}

/// The entries of a map that are still to come.
#[derive(Clone)]
pub(super) struct Walk<'v> {
    way: Way<'v>,
    /// How many the map says there are.
    left: u64,
    done: bool,
    /// Keys may be in another order than their own.
    is_reversed: bool,
}

impl<'v> Walk<'v> {
    /// Before the first entry of a map; none if the rule is not that of a map.
    pub(super) fn of(rule: &Rule, spot: Spot<'v>) -> Option<Result<Walk<'v>, String>> {
        let Spot { part, ty } = spot;
        let is_reversed = ty.name.contains("pheap::Reverse<");
        let (len, way) = match rule {
            Rule::Vector(_) => return None,
            Rule::Hash(hash) => {
                let few = || Sequence::of(&Vector::entries(hash.len, hash.few), part).map(Way::Few);
                let way = match part.follow(hash.root) {
                    Ok(Some(root)) => HashWalk::new(root, hash.root.to).map(Way::Hash),
                    Ok(None) => few(),
                    Err(what) => Err(what),
                };
                (hash.len, way)
            }
            Rule::Tree(tree) => (tree.len, TreeWalk::new(tree, part).map(Way::Tree)),
            Rule::Snap(tree) => (tree.len, SnapWalk::new(tree, part).map(Way::Snap)),
        };
        Some(way.map(|way| Walk { way, left: part.word(len), done: false, is_reversed }))
    }

    pub(super) fn left(&self) -> u64 {
        self.left
    }

    pub(super) fn is_ordered(&self) -> bool {
        !self.is_reversed && matches!(self.way, Way::Tree(_) | Way::Snap(_))
    }

    fn step(&mut self) -> Step<'v> {
        match &mut self.way {
            Way::Few(entries) => entries.next().map(entry).transpose(),
            Way::Hash(walk) => walk.step(),
            Way::Tree(walk) => walk.step(),
            Way::Snap(walk) => walk.step(),
        }
    }

    /// The next entry, or why there is none although there should be. Nothing comes behind that.
    pub(super) fn next(&mut self) -> Option<Result<Pair<'v>, String>> {
        if self.done {
            return None;
        }
        let step = match self.step() {
            Ok(Some(pair)) if self.left > 0 => {
                self.left -= 1;
                return Some(Ok(pair));
            }
            Ok(None) if self.left == 0 => None,
            Ok(Some(_)) => Some("has more entries than it says".to_owned()),
            Ok(None) => Some(format!("has {} entries less than it says", self.left)),
            Err(what) => Some(what),
        };
        (self.done, self.left) = (true, 0);
        step.map(Err)
    }
}

/// The key and the value of an entry that is a struct.
fn entry(spot: Spot<'_>) -> Result<Pair<'_>, String> {
    let part = |name| field(spot.ty, &[name]).map(|(at, ty)| spot.part.at(at).is(ty));
    Option::zip(part("key"), part("value")).ok_or_else(strange)
}

/// How many objects may be looked at: in what is not damaged, none is met twice.
#[derive(Clone, Copy)]
struct Budget(u64);

impl Budget {
    fn of(part: Part<'_>) -> Budget {
        Budget(part.ground.objects())
    }

    fn spend(&mut self) -> Result<(), String> {
        self.0 = self.0.checked_sub(1).ok_or("leads round in circles")?;
        Ok(())
    }
}

fn nothing() -> String {
    "has a part that leads nowhere".to_owned()
}
