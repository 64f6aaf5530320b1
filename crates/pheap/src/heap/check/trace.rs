//! Follows all pointers from the roots, looks at each object once, and words what is wrong (`complain`).

use super::map::{HeapMap, MappedRoot, MappedSpan, Place};
use super::plan::{Op, Parts, variant};
use super::rule::{Pointer, UNFINISHED};
use super::{Problems, Report, Usage};
use crate::layout::{Shape, TypeLayout};
use crate::os::cpu::prefetch_read;

/// An object that was reached and not looked at yet.
#[derive(Clone, Copy, Default)]
pub(super) struct Reached {
    pub(super) span: u32,
    pub(super) start: u64,
}

/// Objects between two reports of progress.
const TELL: u64 = 1 << 16;

/// Objects that are on their way from memory at a time.
const AHEAD: usize = 16;

/// The objects that were reached. A stack, but not that of the thread, for lists are long; and what comes from it waits in a short queue until
/// it is in the cache.
#[derive(Default)]
struct ToDo {
    stack: Vec<Reached>,
    queue: [Reached; AHEAD],
    oldest: usize,
    queued: usize,
}

impl ToDo {
    #[inline]
    fn next(&mut self, map: &HeapMap<'_>) -> Option<Reached> {
        while self.queued < AHEAD
            && let Some(newest) = self.stack.pop()
        {
            prefetch_read(map.addr(newest.start));
            self.queue[(self.oldest + self.queued) % AHEAD] = newest;
            self.queued += 1;
        }
        self.queued = self.queued.checked_sub(1)?;
        let oldest = self.queue[self.oldest];
        self.oldest = (self.oldest + 1) % AHEAD;
        Some(oldest)
    }
}

pub(super) struct Tracer<'m, L> {
    pub(super) map: &'m HeapMap<'m>,
    is_live: L,
    reached: Slots,
    /// Those whose object belongs to a collection, which will free it.
    owned: Slots,
    /// Those of which nobody writes the object; they are `owned`, too.
    frozen: Slots,
    todo: ToDo,
    /// Objects that were found, and who is told of that now and then.
    found: u64,
    progress: &'m mut (dyn FnMut(u64) + 'm),
    problems: Problems,
    pub(super) root: &'m MappedRoot,
}

/// Looks at all that the roots of `map` lead to. `is_live` says whether an allocator takes the object at an offset for one. Returns the slots
/// whose objects were reached, too. `progress` is told now and then how many objects were found.
pub(in crate::heap) fn trace(
    map: &HeapMap<'_>,
    is_live: impl Fn(u64) -> Option<bool>,
    progress: &mut dyn FnMut(u64),
) -> (Report, Slots) {
    let mut problems = Problems::default();
    map.problems.iter().for_each(|problem| problems.add(|| problem.clone()));
    let mut report =
        Report { spans: map.spans.len() as u64, roots: map.roots.len() as u64, ..Report::default() };
    let mut reached = Slots(vec![0; map.slots.div_ceil(64) as usize]);
    if let Some(first) = map.roots.first() {
        let (owned, frozen, todo) = (reached.clone(), reached.clone(), ToDo::default());
        let mut tracer =
            Tracer { map, is_live, reached, owned, frozen, todo, found: 0, progress, problems, root: first };
        map.roots.iter().for_each(|root| tracer.root(root));
        count(map, &tracer.reached, &mut report);
        (problems, reached) = (tracer.problems, tracer.reached);
    }
    report.problems = problems.first;
    report.more_problems = problems.more;
    (report, reached)
}

impl<'m, L: Fn(u64) -> Option<bool>> Tracer<'m, L> {
    fn root(&mut self, root: &'m MappedRoot) {
        self.root = root;
        let addr = self.map.addr(root.object).addr() as u64;
        match self.map.locate(addr, root.ty, root.region) {
            Ok(Some(place)) if place.inside == 0 && self.reach(place) => {}
            Ok(_) => {
                self.problems.add(|| format!("root {:?}: its object is not the whole of a slot", root.name))
            }
            Err(astray) => {
                let what = self.map.explain(addr, &astray);
                self.problems.add(|| format!("root {:?} {what}", root.name));
            }
        }
        let map = self.map;
        if map.type_name(root.ty) == UNFINISHED {
            while self.todo.next(map).is_some() {}
            return;
        }
        while let Some(next) = self.todo.next(map) {
            self.look_at(&next);
        }
    }

    /// Notes an object, to be looked at if this is the first time. Returns whether that may be done: not if a collection owns it.
    #[inline(always)]
    fn reach(&mut self, place: Place) -> bool {
        if self.reached.add(place.number) {
            self.todo.stack.push(Reached { span: place.span, start: place.start });
            self.count();
            return true;
        }
        !self.owned.has(place.number)
    }

    /// Notes an object that a collection owns. Returns whether nothing has led to it before.
    pub(super) fn own(&mut self, object: &Reached) -> bool {
        let (number, _) = self.map.spans[object.span as usize].slot_at(object.start);
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

    /// Notes an object that nobody writes, to be looked at if this is the first time. Returns whether all that has led to it before says the same.
    fn freeze(&mut self, place: Place) -> bool {
        if !self.reached.has(place.number) {
            self.reach(place);
            self.owned.add(place.number);
            self.frozen.add(place.number);
        }
        self.frozen.has(place.number)
    }

    fn look_at(&mut self, object: &Reached) {
        let map = self.map;
        let span = &map.spans[object.span as usize];
        self.must_be_live(object);
        let parts = &map.plan(span).parts;
        if let Parts::Sized(ops) = parts {
            return self.run(ops, object, 0);
        }
        let len = match map.len_of(span, object.start) {
            Ok(len) => len,
            Err(len) => {
                let slot = span.slot;
                return self
                    .complain(object, 0, || format!("has a length of {len}, in a slot of {slot} bytes"));
            }
        };
        match parts {
            Parts::Slice { header, stride, ops } if !ops.is_empty() => {
                for i in 0..len {
                    self.run(ops, object, header + i * stride);
                }
            }
            Parts::Str => {
                if std::str::from_utf8(map.bytes(object.start + 8, len)).is_err() {
                    self.complain(object, 0, || "is not UTF-8".to_owned());
                }
            }
            Parts::Slice { .. } | Parts::Sized(_) => {}
        }
    }

    /// An object that can be reached must count as live.
    #[inline(always)]
    pub(super) fn must_be_live(&mut self, object: &Reached) {
        if (self.is_live)(object.start) == Some(false) {
            self.complain(object, 0, || "can be reached, and its slot counts as free".to_owned());
        }
    }

    /// Looks at a value, `at` so many bytes inside of an object.
    #[inline]
    pub(super) fn run(&mut self, ops: &[Op], object: &Reached, at: u64) {
        for op in ops {
            self.step(op, object, at);
        }
    }

    #[inline]
    fn step(&mut self, op: &Op, object: &Reached, base: u64) {
        let map = self.map;
        match op {
            Op::Ptr { at, to, nullable } => {
                let at = base + at;
                let addr = map.word(object.start + at);
                match map.locate(addr, *to, self.root.region) {
                    Ok(Some(place)) => {
                        if !map.is_empty(*to) && !self.reach(place) {
                            self.complain(object, at, || "points to what a collection owns".to_owned());
                        }
                    }
                    Ok(None) if addr == 0 && !nullable => {
                        self.complain(object, at, || "is null, which only an `Option<P>` may be".to_owned());
                    }
                    Ok(None) => {}
                    Err(astray) => self.complain(object, at, || map.explain(addr, &astray)),
                }
            }
            Op::Bool { at } => {
                let [byte] = map.array(object.start + base + at);
                if byte > 1 {
                    self.complain(object, base + at, || format!("is {byte}, which is no bool"));
                }
            }
            Op::Char { at } => {
                let code = u32::from_ne_bytes(map.array(object.start + base + at));
                if char::from_u32(code).is_none() {
                    self.complain(object, base + at, || format!("is {code:#x}, which is no char"));
                }
            }
            Op::NotZero { at, size } => {
                if map.bytes(object.start + base + at, *size).iter().all(|&byte| byte == 0) {
                    self.complain(object, base + at, || "is 0, which this number never is".to_owned());
                }
            }
            Op::Enum { at, tag, variants } => {
                let value = map.integer(object.start + base + at, *tag);
                match variant(variants, value) {
                    Some(ops) => self.run(ops, object, base),
                    None => self
                        .complain(object, base + at, || format!("has the tag {value}, which no variant has")),
                }
            }
            Op::Slot { at, size, ops } => {
                if map.bytes(object.start + base + at, *size).iter().any(|&byte| byte != 0) {
                    self.run(ops, object, base + at);
                }
            }
            Op::FrozenPtr { at, to } => {
                let at = base + at;
                match map.locate(map.word(object.start + at), *to, self.root.region) {
                    Ok(Some(place)) if place.inside == 0 && self.freeze(place) => {}
                    Ok(Some(_)) => {
                        self.complain(object, at, || "points to what others may write".to_owned());
                    }
                    Ok(None) => self.complain(object, at, || "is null, and a key or a value".to_owned()),
                    Err(astray) => {
                        let addr = map.word(object.start + at);
                        self.complain(object, at, || map.explain(addr, &astray));
                    }
                }
            }
            Op::OwnedPtr { at, to } => {
                let at = base + at;
                let target = self.part(object, at).follow(Pointer { at: 0, to: *to });
                let target = target.and_then(|target| self.take(target.ok_or("is null, and a key")?));
                match target {
                    Ok(target) => self.look_at(&target),
                    Err(what) => self.complain(object, at, || what),
                }
            }
            Op::Own { at, rule } => self.collection(rule, object, base + at),
            Op::Repeat { at, stride, len, ops } => {
                for i in 0..*len {
                    self.run(ops, object, base + at + i * stride);
                }
            }
        }
    }

    #[cold]
    pub(super) fn complain(&mut self, object: &Reached, at: u64, what: impl FnOnce() -> String) {
        let (map, root) = (self.map, self.root);
        let ty = &map.types[map.spans[object.span as usize].ty as usize];
        self.problems.add(|| {
            let (name, path) = (&ty.name, path_to(ty, at));
            format!(
                "root {:?}: `{name}{path}`, in the object at byte {}, {}",
                root.name,
                object.start,
                what()
            )
        });
    }
}

/// How the value at byte `at` of a `ty` is written in Rust: `.field[3]`.
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

/// Fills in what the bits of reached slots say.
fn count(map: &HeapMap<'_>, reached: &Slots, report: &mut Report) {
    for span in map.spans.iter().filter(|span| span.slots > 0) {
        let objects = reached.count(span);
        let Some(root) = map.roots.iter().find(|root| root.region == span.region) else { continue };
        report.objects += objects;
        report.bytes += objects * span.slot;
        let name = map.type_name(span.ty);
        let known =
            report.usage.iter_mut().find(|usage| usage.root == root.name && usage.type_number == span.ty);
        let usage = match known {
            Some(usage) => usage,
            None => {
                report.usage.push(Usage {
                    root: root.name.clone(),
                    type_name: name.to_owned(),
                    type_number: span.ty,
                    ..Usage::default()
                });
                report.usage.last_mut().expect("pushed just now")
            }
        };
        usage.objects += objects;
        usage.bytes += objects * span.slot;
        usage.span_bytes += span.pages * crate::units::PAGE;
    }
    report.usage.sort_by(|a, b| (&a.root, b.bytes, &a.type_name).cmp(&(&b.root, a.bytes, &b.type_name)));
}

/// Some of the slots of a heap, by number: a bit for each that there is.
#[derive(Clone)]
pub(in crate::heap) struct Slots(Vec<u64>);

impl Slots {
    #[inline(always)]
    pub(in crate::heap) fn has(&self, slot: u64) -> bool {
        self.0[(slot / 64) as usize] >> (slot % 64) & 1 == 1
    }

    /// Returns whether it was not there before.
    #[inline(always)]
    fn add(&mut self, slot: u64) -> bool {
        let is_new = !self.has(slot);
        self.0[(slot / 64) as usize] |= 1 << (slot % 64);
        is_new
    }

    /// How many there are among those of a span.
    pub(in crate::heap) fn count(&self, span: &MappedSpan) -> u64 {
        self.within(span.first_slot..span.first_slot + span.slots)
    }

    fn within(&self, slots: std::ops::Range<u64>) -> u64 {
        if slots.is_empty() {
            return 0;
        }
        let (first, last) = ((slots.start / 64) as usize, ((slots.end - 1) / 64) as usize);
        let (low, high) = (u64::MAX << (slots.start % 64), u64::MAX >> (63 - (slots.end - 1) % 64));
        let masked = |i: usize| {
            let mask = if i == first { low } else { u64::MAX } & if i == last { high } else { u64::MAX };
            u64::from((self.0[i] & mask).count_ones())
        };
        (first..=last).map(masked).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_of_a_range_are_counted() {
        let slots = Slots(vec![u64::MAX, 1 | 1 << 63, u64::MAX]);
        let naive = |range: std::ops::Range<u64>| range.filter(|slot| slots.has(*slot)).count() as u64;
        for start in 0..192 {
            for end in start..=192 {
                assert_eq!(slots.within(start..end), naive(start..end), "{start}..{end}");
            }
        }
    }
}
