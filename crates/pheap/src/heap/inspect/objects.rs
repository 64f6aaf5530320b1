//! All objects of a heap, for tools that look for objects by root or by offset, or at each span and its
//! purpose.

use std::fmt;

use super::value::{Object, Pointer};
use crate::error::{Error, Result};
use crate::heap::Heap;
use crate::heap::check::Report;
use crate::heap::check::decode::part::{ObjectPart, ObjectSource};
use crate::heap::check::map::{HeapMap, MappedSpan};
use crate::heap::check::trace::{SlotSet, trace};
use crate::heap::memory::QuiescentHeap;
use crate::store::arena::SpanKind;
use crate::units::PAGE;

/// The objects of a heap, while no thread changes it.
pub struct Objects<'v> {
    map: &'v HeapMap<'v>,
    still: &'v QuiescentHeap<'v>,
}

/// The purpose of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Purpose {
    /// Slots for objects of one type, or one large object.
    Objects,
    /// The header of a root's region, and the beginning of its log.
    Root,
    /// A further segment of a root's log.
    Log,
    /// The type table.
    Types,
}

/// A span (a run of pages), and its use.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct SpanUse<'v> {
    /// Offset of the span in the heap's file.
    pub offset: u64,
    /// Length of the span in bytes.
    pub bytes: u64,
    /// The purpose of the span.
    pub purpose: Purpose,
    /// The name of the root to which the span belongs, if any.
    pub root: Option<&'v str>,
    /// The name of the type of the span's objects; `?` if the span has no slots.
    pub type_name: &'v str,
    /// Bytes of a slot, each of which has room for an object; 0 if the span has no slots.
    pub slot_bytes: u64,
    /// Number of slots in the span.
    pub slots: u64,
    /// Number of slots whose objects are reachable from the roots.
    pub reached: u64,
    /// Number of other slots that the allocator counts as taken, as far as that is known: slots of garbage
    /// that is not collected yet, and slots that are set aside for new objects.
    pub garbage: u64,
    map: &'v HeapMap<'v>,
    found: &'v SlotSet,
    number: u32,
}

impl Heap {
    /// Passes the object of the root with this name to `f`, read by the heap's own description of its type:
    /// for tools that do not know the program. Transactions wait until `f` returns. `f` itself may read; a
    /// call that would wait is [`Error::Nested`] there.
    ///
    /// # Errors
    /// [`Error::NoSuchRoot`], [`Error::Corrupt`] if there is no such object where the root should be; others
    /// as for [`objects`](Self::objects).
    pub fn inspect<R>(&self, root: &str, f: impl for<'v> FnOnce(Object<'v>) -> R) -> Result<R> {
        self.objects(|objects| objects.root(root).map(f))?
    }

    /// Passes all objects of the heap to `f`, like [`inspect`](Self::inspect).
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the heap's tables cannot be read; [`Error::Nested`] if this thread is inside a
    /// transaction or read of the heap, [`Error::SeveralHeaps`] if it is inside another heap,
    /// [`Error::Unsupported`] if it is inside too many heaps; [`Error::Failed`], [`Error::Closed`],
    /// [`Error::Forked`]; with a log, [`Error::OutcomeUnknown`] if the disk fails, and [`Error::Misplaced`]
    /// if the heap's files cannot be found.
    pub fn objects<R>(&self, f: impl for<'v> FnOnce(&Objects<'v>) -> R) -> Result<R> {
        let still = self.inner().still()?;
        let map = still.map()?;
        Ok(f(&Objects { map: &map, still: &still }))
    }
}

impl<'v> Objects<'v> {
    /// Returns the names of the heap's roots.
    pub fn roots(&self) -> impl Iterator<Item = &'v str> + use<'v> {
        self.map.roots.iter().map(|root| root.name.as_str())
    }

    /// Returns the object of the root with this name.
    ///
    /// # Errors
    /// [`Error::NoSuchRoot`], [`Error::Corrupt`] if there is no such object where the root should be.
    pub fn root(&self, name: &str) -> Result<Object<'v>> {
        let map = self.map;
        let found = map.roots.iter().find(|other| other.name == name);
        let found = found.ok_or_else(|| Error::NoSuchRoot(name.to_owned()))?;
        let addr = map.addr(found.object).addr() as u64;
        let from =
            ObjectPart { ground: ObjectSource::Heap(map), at: found.object, span: 0, region: found.region };
        match (Pointer { from, addr, target: found.ty }).target() {
            Ok(Some(object)) => Ok(object),
            Ok(None) => Err(Error::corrupt(format!("root {name:?} has no object"))),
            Err(what) => Err(Error::corrupt(format!("root {name:?} {what}"))),
        }
    }

    /// Returns the object in whose slot the byte at `offset` lies; `None` if no slot has that byte. The
    /// object may be unreachable, and the slot may be free.
    pub fn at(&self, offset: u64) -> Option<Object<'v>> {
        self.map.slot_at(offset).map(|(span, start)| object_at(self.map, span, start))
    }

    /// Returns a number larger than the [number](Object::number) of any object.
    pub fn bound(&self) -> u64 {
        self.map.slots
    }

    /// [Checks](Heap::check) the heap, and passes each span to `look`, in the order of the file. Calls
    /// `progress` now and then with the number of objects found so far.
    pub fn survey(&self, mut progress: impl FnMut(u64), mut look: impl FnMut(&SpanUse<'_>)) -> Report {
        let map = self.map;
        let is_live = self.still.is_live();
        let (report, found) = trace(map, &is_live, &mut progress);
        for (span, number) in map.spans.iter().zip(0..) {
            let is_lost = |slot: &u64| {
                !found.has(span.first_slot + slot) && is_live(span.offset + slot * span.slot) == Some(true)
            };
            let reached = found.count(span);
            let garbage =
                if reached < span.slots { (0..span.slots).filter(is_lost).count() as u64 } else { 0 };
            let root = map.roots.iter().find(|root| root.region == span.region);
            look(&SpanUse {
                offset: span.offset,
                bytes: span.pages * PAGE,
                purpose: purpose_of(span),
                root: root.map(|root| root.name.as_str()),
                type_name: if span.slots > 0 { map.type_name(span.ty) } else { "?" },
                slot_bytes: span.slot,
                slots: span.slots,
                reached,
                garbage,
                map,
                found: &found,
                number,
            });
        }
        report
    }
}

impl<'v> SpanUse<'v> {
    /// Returns the objects in this span that are reachable from the roots.
    pub fn objects(&self) -> impl Iterator<Item = Object<'v>> + use<'v> {
        let SpanUse { map, found, number, .. } = *self;
        let span = &map.spans[number as usize];
        (0..span.slots)
            .filter(move |slot| found.has(span.first_slot + slot))
            .map(move |slot| object_at(map, number, span.offset + slot * span.slot))
    }
}

fn object_at<'v>(map: &'v HeapMap<'v>, number: u32, at: u64) -> Object<'v> {
    let MappedSpan { ty, region, .. } = map.spans[number as usize];
    Object { part: ObjectPart { ground: ObjectSource::Heap(map), at, span: number, region }, target: ty }
}

fn purpose_of(span: &MappedSpan) -> Purpose {
    match span.kind {
        SpanKind::Small | SpanKind::Large => Purpose::Objects,
        SpanKind::Region => Purpose::Root,
        SpanKind::Log => Purpose::Log,
        SpanKind::Types => Purpose::Types,
    }
}

impl fmt::Debug for Objects<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Objects").field("roots", &self.map.roots.len()).finish_non_exhaustive()
    }
}

impl fmt::Debug for SpanUse<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} slots for `{}`", self.reached, self.slots, self.type_name)
    }
}
