//! Follows all pointers from the roots, checks each object once, and describes the problems (`complain`).

use std::collections::{BTreeMap, VecDeque};

use super::map::{HeapMap, MappedRoot, MappedSpan, SlotPlace};
use super::plan::{CheckKind, PartCheck};
use super::rule::{PointerRule, UNFINISHED};
use super::{Report, Usage};
use crate::heap::check::decode::DecodedNode;
use crate::heap::check::decode::part::{ObjectPart, ObjectSource};
use crate::layout::{Shape, TypeLayout};
use crate::os::cpu::prefetch_read;

/// An object that was reached and not checked yet.
#[derive(Clone, Copy)]
struct ReachedObject {
    span: u32,
    start: u64,
}

/// Number of objects that are found between two calls of `progress`.
const TELL: u64 = 1 << 16;

/// Levels of nested nodes of collections that the check follows on the thread's stack. Deeper nodes are noted
/// for later.
pub(super) const DEEPEST: u32 = 32;

/// Number of objects that are being prefetched at a time.
const AHEAD: usize = 16;

/// Objects that were reached and are to be checked. They are on a separate stack, not on the thread's,
/// because linked lists may be long. Objects that are popped from the stack wait in a short queue until the
/// processor has them in its cache.
#[derive(Default)]
struct TraceQueue {
    stack: Vec<ReachedObject>,
    queue: VecDeque<ReachedObject>,
}

impl TraceQueue {
    #[inline]
    fn next(&mut self, map: &HeapMap<'_>) -> Option<ReachedObject> {
        while self.queue.len() < AHEAD
            && let Some(newest) = self.stack.pop()
        {
            prefetch_read(map.addr(newest.start));
            self.queue.push_back(newest);
        }
        self.queue.pop_front()
    }
}

pub(super) struct CheckTracer<'m, L> {
    pub(super) map: &'m HeapMap<'m>,
    is_live: L,
    reached: SlotSet,
    /// Slots whose object belongs to a collection, which will free it, or is never written.
    owned: SlotSet,
    /// Slots whose object is never written; they are in `owned`, too.
    frozen: SlotSet,
    todo: TraceQueue,
    /// Number of collection nodes around the value that is being checked.
    pub(super) depth: u32,
    /// Nodes below [`DEEPEST`] others, to be checked later.
    pub(super) deeper: Vec<DecodedNode<'m>>,
    /// Number of objects found so far.
    found: u64,
    /// Called now and then with the number of objects found so far.
    progress: &'m mut (dyn FnMut(u64) + 'm),
    report: Report,
    root: &'m MappedRoot,
}

/// Checks everything that is reachable from the roots of `map`, except below a root whose conversion is not
/// finished. `is_live` says whether an allocator has an object at an offset, if that is known. Returns the
/// report, and the slots whose objects were reached. `progress` is called now and then with the number of
/// objects found.
pub(in crate::heap) fn trace(
    map: &HeapMap<'_>,
    is_live: impl Fn(u64) -> Option<bool>,
    progress: &mut dyn FnMut(u64),
) -> (Report, SlotSet) {
    let mut report =
        Report { spans: map.spans.len() as u64, roots: map.roots.len() as u64, ..Report::default() };
    map.problems.iter().for_each(|problem| report.add(|| problem.clone()));
    let reached = SlotSet(vec![0; map.slots.div_ceil(64) as usize]);
    let Some(root) = map.roots.first() else { return (report, reached) };
    let (owned, frozen, todo) = (reached.clone(), reached.clone(), TraceQueue::default());
    let (depth, deeper, found) = (0, Vec::new(), 0);
    let mut tracer = CheckTracer {
        map,
        is_live,
        reached,
        owned,
        frozen,
        todo,
        depth,
        deeper,
        found,
        progress,
        report,
        root,
    };
    map.roots.iter().for_each(|root| tracer.root(root));
    let CheckTracer { mut report, reached, .. } = tracer;
    count(map, &reached, &mut report);
    (report, reached)
}

impl<'m, L: Fn(u64) -> Option<bool>> CheckTracer<'m, L> {
    fn root(&mut self, root: &'m MappedRoot) {
        self.root = root;
        let map = self.map;
        match map.locate(map.addr(root.object).addr() as u64, root.ty, root.region) {
            Ok(Some(place)) if place.inside == 0 && self.reach(place) => {}
            Ok(_) => {
                self.report.add(|| format!("root {:?}: its object is not the whole of a slot", root.name))
            }
            Err(what) => self.report.add(|| format!("root {:?} {what}", root.name)),
        }
        let is_unfinished = map.type_name(root.ty) == UNFINISHED;
        loop {
            while let Some(ReachedObject { span, start }) = self.todo.next(map) {
                if !is_unfinished {
                    self.look_at(ObjectPart {
                        ground: ObjectSource::Heap(map),
                        at: start,
                        span,
                        region: root.region,
                    });
                }
            }
            let Some(node) = self.deeper.pop() else { break };
            self.slots(&node);
        }
    }

    /// Notes that a pointer leads to an object. If it is the first one, the object will be checked. Returns
    /// whether such a pointer is allowed: `false` if a collection owns the object, or it is never written.
    #[inline(always)]
    fn reach(&mut self, place: SlotPlace) -> bool {
        if self.reached.add(place.number) {
            self.todo.stack.push(ReachedObject { span: place.span, start: place.start });
            self.count();
            return true;
        }
        !self.owned.has(place.number)
    }

    /// Notes an object that a collection owns. Returns whether this is the first pointer to it.
    pub(super) fn own(&mut self, object: ObjectPart<'m>) -> bool {
        let (number, _) = self.map.spans[object.span as usize].slot_at(object.at);
        self.owned.add(number);
        let is_first = self.reached.add(number);
        if is_first {
            self.count();
        }
        is_first
    }

    #[inline(always)]
    fn count(&mut self) {
        self.found += 1;
        if self.found.is_multiple_of(TELL) {
            (self.progress)(self.found);
        }
    }

    /// Notes a pointer to an object that is never written. If this is the first pointer to it, the object
    /// will be checked. Returns whether the first pointer to the object was of this kind, too. (A later
    /// pointer of another kind is reported where it is found.)
    fn freeze(&mut self, place: SlotPlace) -> bool {
        if !self.reached.has(place.number) {
            self.reach(place);
            self.owned.add(place.number);
            self.frozen.add(place.number);
        }
        self.frozen.has(place.number)
    }

    fn look_at(&mut self, object: ObjectPart<'m>) {
        self.must_be_live(object);
        let map = self.map;
        let plan = map.plan(&map.spans[object.span as usize]);
        let result = match plan.stride {
            None => {
                self.run(&plan.ops, object);
                Ok(())
            }
            Some(_) if plan.is_text => object.text().map(drop),
            Some(stride) => object.len().map(|len| {
                let len = if plan.ops.is_empty() { 0 } else { len };
                (0..len).for_each(|i| self.run(&plan.ops, object.offset_by(plan.least + i * stride)));
            }),
        };
        if let Err(what) = result {
            self.complain(object, &what);
        }
    }

    /// Complains if the slot of a reachable object counts as free.
    #[inline(always)]
    pub(super) fn must_be_live(&mut self, object: ObjectPart<'m>) {
        if (self.is_live)(object.at) == Some(false) {
            self.complain(object, "is reachable, but its slot is marked as free");
        }
    }

    /// Makes the checks `ops` on a value.
    #[inline]
    pub(super) fn run(&mut self, ops: &'m [PartCheck], value: ObjectPart<'m>) {
        for op in ops {
            let part = value.offset_by(op.at);
            if let Err(what) = self.check_value(&op.look, part) {
                self.complain(part, &what);
            }
        }
    }

    #[inline]
    fn check_value(&mut self, look: &'m CheckKind, part: ObjectPart<'m>) -> Result<(), String> {
        let map = self.map;
        match look {
            CheckKind::Ptr { to, nullable } => {
                let addr = part.read_word(0);
                match map.locate(addr, *to, part.region)? {
                    Some(place) if !map.is_empty(*to) && !self.reach(place) => {
                        return Err("points to what a collection owns".to_owned());
                    }
                    None if addr == 0 && !nullable => {
                        return Err("is null, which only an `Option<P>` may be".to_owned());
                    }
                    _ => {}
                }
            }
            CheckKind::FrozenPtr(to) => match map.locate(part.read_word(0), *to, part.region)? {
                Some(place) if place.inside == 0 && self.freeze(place) => {}
                Some(_) => return Err("points to what others may write".to_owned()),
                None => return Err("is null, and a key or a value".to_owned()),
            },
            CheckKind::OwnedPtr(to) => {
                let target = part.follow(PointerRule { at: 0, to: *to })?.ok_or("is null, and a key")?;
                self.claim_object(target)?;
                self.todo.stack.push(ReachedObject { span: target.span, start: target.at });
            }
            CheckKind::Bool => {
                if let [byte @ 2..=255] = part.array(0) {
                    return Err(format!("is {byte}, which is no bool"));
                }
            }
            CheckKind::Char => {
                let code = u32::from_ne_bytes(part.array(0));
                if char::from_u32(code).is_none() {
                    return Err(format!("is {code:#x}, which is no char"));
                }
            }
            CheckKind::NotZero(size) => {
                if part.bytes(0, *size).iter().all(|&byte| byte == 0) {
                    return Err("is 0, which this number never is".to_owned());
                }
            }
            CheckKind::Enum { tag, variants } => {
                let tag = part.integer(0, *tag);
                match variants.binary_search_by_key(&tag, |(tag, _)| *tag) {
                    Ok(found) => self.run(&variants[found].1, part),
                    Err(_) => return Err(format!("has the tag {tag}, which no variant has")),
                }
            }
            CheckKind::Slot { size, ops } => {
                if part.bytes(0, *size).iter().any(|&byte| byte != 0) {
                    self.run(ops, part);
                }
            }
            CheckKind::Own(rule) => self.collection(rule, part)?,
            CheckKind::Repeat { stride, len, ops } => {
                (0..*len).for_each(|i| self.run(ops, part.offset_by(i * stride)));
            }
        }
        Ok(())
    }

    #[cold]
    fn complain(&mut self, part: ObjectPart<'m>, what: &str) {
        let (map, root) = (self.map, self.root);
        let span = &map.spans[part.span as usize];
        let (ty, inside) = (&map.types[span.ty as usize], span.slot_at(part.at).1);
        self.report.add(|| {
            let (name, path, start) = (&ty.name, path_to(ty, inside), part.at - inside);
            format!("root {:?}: `{name}{path}`, in the object at byte {start}, {what}", root.name)
        });
    }
}

/// Returns the path to the value at byte `at` of a `ty`, as in Rust: `.field[3]`.
fn path_to(ty: &TypeLayout, at: u64) -> String {
    let within = |at: u64, elem: &TypeLayout| match elem.size {
        0 => String::new(),
        size => format!("[{}]{}", at / size, path_to(elem, at % size)),
    };
    match &ty.shape {
        Shape::Struct(fields) => {
            let here = |field: &&crate::layout::FieldLayout| {
                (field.offset..field.offset + field.ty.size).contains(&at)
            };
            fields.iter().find(here).map_or_else(String::new, |field| {
                format!(".{}{}", field.name, path_to(&field.ty, at - field.offset))
            })
        }
        Shape::Array { elem, .. } => within(at, elem),
        Shape::Slice(elem) => {
            at.checked_sub(super::plan::header_of(elem)).map_or_else(String::new, |at| within(at, elem))
        }
        Shape::Slot(of) => path_to(of, at),
        Shape::Enum { .. } | Shape::Prim(_) | Shape::Ptr { .. } | Shape::Str => String::new(),
    }
}

/// Counts the objects in the reached slots and their bytes, by root and type, and puts the numbers into the
/// report.
fn count(map: &HeapMap<'_>, reached: &SlotSet, report: &mut Report) {
    let mut usages = BTreeMap::new();
    for span in map.spans.iter().filter(|span| span.slots > 0) {
        let objects = reached.count(span);
        let Some(root) = map.roots.iter().find(|root| root.region == span.region) else { continue };
        report.objects += objects;
        report.bytes += objects * span.slot;
        let new = || Usage {
            root: root.name.clone(),
            type_name: map.type_name(span.ty).to_owned(),
            type_number: span.ty,
            ..Usage::default()
        };
        let usage = usages.entry((span.region, span.ty)).or_insert_with(new);
        usage.objects += objects;
        usage.bytes += objects * span.slot;
        usage.span_bytes += span.pages * crate::units::PAGE;
    }
    report.usage = usages.into_values().collect();
    report.usage.sort_unstable_by(|a, b| {
        let (left, right) = ((&a.root, b.bytes, &a.type_name), (&b.root, a.bytes, &b.type_name));
        left.cmp(&right).then(a.type_number.cmp(&b.type_number))
    });
}

/// A set of slots of a heap, by number: one bit for each slot.
#[derive(Clone)]
pub(in crate::heap) struct SlotSet(Vec<u64>);

impl SlotSet {
    #[inline(always)]
    pub(in crate::heap) fn has(&self, slot: u64) -> bool {
        self.0[(slot / 64) as usize] >> (slot % 64) & 1 == 1
    }

    /// Adds a slot. Returns whether it was not in the set before.
    #[inline(always)]
    fn add(&mut self, slot: u64) -> bool {
        let is_new = !self.has(slot);
        self.0[(slot / 64) as usize] |= 1 << (slot % 64);
        is_new
    }

    /// Returns the number of a span's slots that are in the set.
    pub(in crate::heap) fn count(&self, span: &MappedSpan) -> u64 {
        (span.first_slot..span.first_slot + span.slots).filter(|slot| self.has(*slot)).count() as u64
    }
}
