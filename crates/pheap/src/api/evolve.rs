//! `Heap::evolve`: objects anywhere below a root become objects of other types.
//!
//! See *Types that have changed* in `docs/design.md`. Here is what is done in which order; how a span is rewritten is in [`rewrite`](crate::region::rewrite).

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use pheap_macros::Persist;

use super::parts::Changes;
use super::root::{commit_as, has_versions};
use crate::error::{Error, Result};
use crate::faults::{Bug, bug};
use crate::heap::check::rule::UNFINISHED;
use crate::heap::types::{are_values, what_becomes};
use crate::heap::{Heap, HeapInner};
use crate::layout::desc::Desc;
use crate::layout::{Converter, Migrate, Persist, Successor};
use crate::ptr::P;
use crate::region::rewrite::Rewrite;
use crate::region::{Exclusive, NewRoot, Region};
use crate::store::arena::SpanEntry;
use crate::store::spans::Span;

/// Bytes of objects that one transaction converts, or in which it rewrites pointers, for each copy that a write set takes: a span more at most, or an object that is larger.
const BATCH: u64 = 512;

/// What a root is while its objects are being converted.
#[derive(Persist)]
#[repr(C)]
#[persist(own, id = "pheap::Evolution", crate = "crate")]
struct Unfinished<'r> {
    /// The object that was the root. Of another type than it says here.
    root: P<'r, Moved<'r>>,
    /// Numbers of its type: what it was, and what it becomes.
    from: u64,
    to: u64,
}

/// What is left of an object that needed a larger slot.
#[derive(Persist)]
#[repr(C)]
#[persist(own, id = "pheap::Moved", crate = "crate")]
struct Moved<'r> {
    /// Where it is. Of another type than it says here.
    to: P<'r, Moved<'r>>,
}

/// How far [`Heap::evolve`] has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// 1 while objects are converted; 2 while pointers to those that have moved are rewritten.
    pub pass: u32,
    /// Bytes of memory that this pass has looked at, since this call has begun.
    pub done: u64,
    /// Of so many.
    pub total: u64,
}

/// What [`Heap::evolve`] is about to do.
#[must_use = "nothing happens before `run`"]
pub struct Evolution<'h> {
    heap: &'h Heap,
    root: String,
    desc: &'static Desc,
    converters: Vec<Converter>,
    progress: Box<dyn FnMut(Progress) + 'h>,
}

impl Heap {
    /// Converts what a root leads to, where types have changed: object by object, in transactions of a few mebibytes. A crash on the way costs nothing: the next call goes on.
    ///
    /// For changes that annotations do not cover without a conversion: fields that are new and have no room in a [`Spare`](crate::Spare), or are not zero (`#[persist(since = 2, default = ..)]`); fields that are
    /// in another place, or no more (`#[persist(removed = "..")]` on the type); enums that become larger; and whatever a function makes of a value ([`with`](Evolution::with)). `T` is the type of the root.
    ///
    /// ```
    /// use pheap::{Heap, Migrate, P, PHashMap, Persist, Result, Root};
    ///
    /// mod v1 {
    ///     # use pheap::Persist;
    ///     #[derive(Persist)]
    ///     #[repr(C)]
    ///     pub struct Reading {
    ///         pub degrees: i64,
    ///     }
    /// }
    ///
    /// #[derive(Persist)]
    /// #[repr(C)]
    /// struct Reading {
    ///     kelvins: f64,
    ///     sensor: u32,
    /// }
    ///
    /// impl Migrate<v1::Reading> for Reading {
    ///     fn migrate(old: v1::Reading) -> Reading {
    ///         Reading { kelvins: old.degrees as f64 + 273.15, sensor: 1 }
    ///     }
    /// }
    ///
    /// type Readings<'r> = PHashMap<'r, u64, P<'r, Reading>>;
    ///
    /// fn open(heap: &Heap) -> Result<Root<Readings<'static>>> {
    ///     heap.evolve::<Readings>("readings").with::<v1::Reading, Reading>().run()?;
    ///     heap.root("readings")
    /// }
    ///
    /// # fn main() -> Result<()> {
    /// let heap = Heap::in_memory()?;
    /// let old: Root<PHashMap<u64, P<v1::Reading>>> = heap.root("readings")?; // as the old program did
    /// old.txn(|tx, readings| {
    ///     let reading = tx.alloc(v1::Reading { degrees: 20 })?;
    ///     readings.insert(tx, 7, reading)?;
    ///     Ok(())
    /// })?;
    /// let readings = open(&heap)?;
    /// readings.read(|view, readings| assert_eq!(view[*view[readings].get(view, &7).unwrap()].kelvins, 293.15))?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A root that is a [`PSnapMap`](crate::PSnapMap) is converted like any other; its snapshots must be gone, and while it is converted, [`durable_snapshot`](crate::Root::durable_snapshot) is
    /// [`Error::Migrated`].
    ///
    /// Collections keep their structure: a map is not built anew. Objects that need no larger slot stay where they are. Others move, and the pointers to them are rewritten; that takes room for both. Keys of
    /// maps are never converted.
    ///
    /// # Crashes
    /// Each transaction converts whole spans of objects, with what the heap says of their type, or none of it. Until all is done, the root cannot be opened ([`Error::Unfinished`]), neither by the program
    /// that has begun this, nor by another one: only `evolve`, with the same `T`, goes on. The functions and defaults should be those that it has begun with.
    ///
    /// # Errors
    /// [`Error::TypeMismatch`] if it is not known how to convert something, with what would help; [`Error::HeldPointers`] while pointers into the root or snapshots of it are held;
    /// [`Error::PointerToPart`]; [`Error::Nested`]; [`Error::Unfinished`] if it was begun for another `T`. All of these before anything is changed. Later, those of a transaction, such as
    /// [`Error::OutOfSpace`]: what is done is done, and the next call goes on.
    pub fn evolve<T: Persist>(&self, root: &str) -> Evolution<'_> {
        Evolution {
            heap: self,
            root: root.to_owned(),
            desc: <T as Persist>::desc(),
            converters: Vec::new(),
            progress: Box::new(|_| {}),
        }
    }
}

impl<'h> Evolution<'h> {
    /// Values of the layout of `Old` become what [`Migrate::migrate`] makes of them, wherever the program has a `New` now.
    ///
    /// `Old` has the fields of the old type, with pointers to what these lead to *now*: `next: Option<P<'r, Job<'r>>>`, where `Job` is the new type.
    pub fn with<Old: Persist, New: Persist>(mut self) -> Self
    where
        for<'r> New::At<'r>: Migrate<Old::At<'r>>,
    {
        self.converters.push(Converter::of::<Old, New>());
        self
    }

    /// Calls `f` after each transaction. This thread is inside of the heap then: `f` may ask for figures and
    /// sync the heap, and what would have to wait for this is [`Error::Nested`], such as to create a root,
    /// and to check, copy or close the heap. So it is for [`Migrate::migrate`] and `default = ..`, which run
    /// in the transactions.
    pub fn on_progress(mut self, f: impl FnMut(Progress) + 'h) -> Self {
        self.progress = Box::new(f);
        self
    }

    /// Does it. Returns whether there was anything to do: not if there is no such root, or it is of type `T`.
    ///
    /// # Errors
    /// See [`Heap::evolve`].
    pub fn run(self) -> Result<bool> {
        let Evolution { heap, root, desc, converters, mut progress } = self;
        let heap = heap.inner();
        heap.check_open()?;
        let find = || match heap.region(&root) {
            Err(Error::NoSuchRoot(_)) => Ok(None),
            Err(error) => Err(error),
            Ok(region) => {
                let is_new = heap.tables.lock().types.is(region.ty(), desc)?;
                Ok((!is_new).then_some(region))
            }
        };
        if find()?.is_none() {
            return Ok(false);
        }
        heap.check_writable()?;
        let _creation = heap.lock_creation()?;
        let Some(region) = find()? else {
            return Ok(false); // somebody else was faster
        };
        let job = Job::new(heap, &region, &root, desc, &converters)?;
        if job.is_as_it_is && job.from_is_new {
            heap.retype(&region, &root, job.to, &job.found, &job.numbers)?;
            return Ok(true);
        }
        // What is not reachable need not be converted, and which slots have objects must be known.
        heap.collect(&region);
        region.state.paused.store(true, Ordering::Relaxed);
        let _unpaused = Unpaused(&region);
        if job.from_is_new {
            job.begin()?;
        }
        if job.has_versions && !bug(Bug::ConvertVersions) {
            job.end_versions()?;
        }
        job.convert(&mut progress)?;
        job.redirect(&mut progress)?;
        job.end(job.to)?;
        Ok(true)
    }
}

/// Lets the collector go on, whatever happens.
struct Unpaused<'a>(&'a Region);

impl Drop for Unpaused<'_> {
    fn drop(&mut self) {
        self.0.state.paused.store(false, Ordering::Relaxed);
    }
}

/// What is to be done, on a root that is [`Unfinished`] from [`begin`](Job::begin) on.
struct Job<'a> {
    heap: &'a Arc<HeapInner>,
    region: &'a Region,
    name: &'a str,
    found: Vec<Successor>,
    /// What the numbers of types become.
    numbers: HashMap<u32, u32>,
    from: u32,
    to: u32,
    unfinished: u32,
    moved: u32,
    /// Whether nobody has begun.
    from_is_new: bool,
    /// Whether no object needs to be converted.
    is_as_it_is: bool,
    /// Whether versions of the root are kept, of which anybody may ask for the durable one.
    has_versions: bool,
}

impl<'a> Job<'a> {
    fn new(
        heap: &'a Arc<HeapInner>,
        region: &'a Region,
        name: &'a str,
        desc: &'static Desc,
        converters: &[Converter],
    ) -> Result<Job<'a>> {
        let (unfinished, _) = heap.register(<Unfinished<'_> as Persist>::desc())?;
        let (moved, _) = heap.register(<Moved<'_> as Persist>::desc())?;
        debug_assert!(<Unfinished<'_> as Persist>::desc().name.as_str() == UNFINISHED);
        let from_is_new = region.ty() != unfinished;
        let from = if from_is_new { region.ty() } else { begun(heap, region, unfinished, desc, name)? };
        let mismatch = |help: String| {
            let difference = heap.tables.lock().types.difference(from, desc)?.unwrap_or_default();
            Err(Error::TypeMismatch {
                root: name.to_owned(),
                difference: format!("{difference}\n  help: {help}"),
            })
        };
        let found = what_becomes(&heap.tables.lock(), from, desc, converters);
        let found = match found {
            Ok(found) => found,
            Err(help) => return mismatch(help),
        };
        let (to, numbers) = heap.numbers(desc, &found)?;
        // A span says by its type how far it has come.
        let becomes = |ty: &u32| numbers.get(ty).copied().unwrap_or(*ty);
        if numbers.values().any(|new| becomes(new) != *new) {
            return mismatch(
                "a type has become what another one was; change one of them at a time".to_owned(),
            );
        }
        let is_as_it_is = are_values(&found);
        let has_versions = has_versions(heap, from);
        Ok(Job {
            heap,
            region,
            name,
            found,
            numbers,
            from,
            to,
            unfinished,
            moved,
            from_is_new,
            is_as_it_is,
            has_versions,
        })
    }

    /// Says in the heap what is being done, in one transaction, if it can be done.
    fn begin(&self) -> Result<()> {
        let mut exclusive = Exclusive::begin(self.heap, self.region, self.from)?;
        // Reads that have begun may still take snapshots.
        exclusive.context().upgrade();
        if self.region.held.is_used() {
            return Err(Error::HeldPointers { root: self.name.to_owned() });
        }
        exclusive.begin_rewriting();
        Changes::new(self.heap, &self.found, &self.numbers).check(&exclusive, self.name)?;
        let root = self.heap.base().addr() as u64 + self.region.root();
        let words = [root, self.from.into(), self.to.into()];
        let unfinished = exclusive.alloc_words(<Unfinished<'_> as Persist>::desc(), words)?;
        commit_as(
            self.heap,
            self.region,
            &mut exclusive,
            unfinished,
            self.unfinished,
            NewRoot::Another,
            |_| {},
        )?;
        self.region.set_ty(self.unfinished);
        Ok(())
    }

    /// Sees to it that nobody reads what is about to be converted without the region's lock. Until it is durable that the root is [`Unfinished`], who has a handle of before may get the durable version, which
    /// may lead to the same nodes.
    fn end_versions(&self) -> Result<()> {
        self.heap.sync_log()?;
        if !self.region.held.is_used() {
            return Ok(());
        }
        // Somebody had one before that. If another call has begun, it could not take that back.
        if self.from_is_new {
            self.end(self.from)?;
        }
        Err(Error::HeldPointers { root: self.name.to_owned() })
    }

    /// Converts all objects that are to be, and gives those that are values of the new types these.
    fn convert(&self, progress: &mut dyn FnMut(Progress)) -> Result<()> {
        let batch = self.batch();
        let (mut done, mut total) = (0, None);
        loop {
            let mut exclusive = Exclusive::begin(self.heap, self.region, self.unfinished)?;
            exclusive.begin_rewriting();
            let left: Vec<(u32, Span, &Successor)> = exclusive
                .object_spans()
                .into_iter()
                .filter_map(|(number, span)| self.left(number, span))
                .collect();
            if left.is_empty() {
                return Ok(());
            }
            let total = *total.get_or_insert_with(|| left.iter().map(|(_, span, _)| span.bytes()).sum());
            let (mut converted, mut bytes) = (Vec::new(), 0);
            for (number, span, successor) in left {
                let ty = self.numbers[&successor.old];
                match &successor.conversion {
                    None => {
                        let span = Span { entry: SpanEntry { ty, ..span.entry }, ..span };
                        exclusive.context().alloc.record_again(span);
                        converted.push(span);
                        done += span.bytes();
                    }
                    Some(conversion) if bytes < batch => {
                        let rewrite = Rewrite { desc: successor.new, conversion, ty, moved: self.moved };
                        converted.push(exclusive.convert(number, &rewrite)?);
                        bytes += span.bytes();
                    }
                    Some(_) => {}
                }
            }
            // Nothing waits for the disk but the end: what a crash takes back is done again.
            let end = exclusive.commit_deferred_and(|context| context.alloc.retype(self.heap, &converted))?;
            drop(self.heap.deferred(end));
            done += bytes;
            progress(Progress { pass: 1, done, total });
        }
    }

    /// Bytes that one transaction is about.
    fn batch(&self) -> u64 {
        BATCH * self.heap.tuning.copies as u64
    }

    /// A span whose objects are not yet of their new type.
    fn left(&self, number: u32, span: Span) -> Option<(u32, Span, &Successor)> {
        let successor = self.found.iter().find(|successor| successor.old == span.entry.ty)?;
        (self.numbers[&successor.old] != successor.old).then_some((number, span, successor))
    }

    /// Makes all pointers lead to where objects have moved.
    fn redirect(&self, progress: &mut dyn FnMut(Progress)) -> Result<()> {
        let batch = self.batch();
        let (mut next, mut done) = (0, 0);
        loop {
            let mut exclusive = Exclusive::begin(self.heap, self.region, self.unfinished)?;
            exclusive.begin_rewriting();
            let spans = exclusive.object_spans();
            if spans.iter().all(|(_, span)| span.entry.ty != self.moved) {
                return Ok(());
            }
            let total = spans.iter().map(|(_, span)| span.bytes()).sum();
            let mut bytes = 0;
            for (number, span) in spans {
                if number < next {
                    continue;
                }
                if bytes >= batch {
                    break;
                }
                if span.entry.ty != self.moved && exclusive.redirect(number, self.moved) {
                    bytes += span.bytes();
                }
                done += span.bytes();
                next = number + 1;
            }
            drop(self.heap.deferred(exclusive.commit_deferred()?));
            progress(Progress { pass: 2, done, total });
            if bytes < batch {
                return Ok(());
            }
        }
    }

    /// Makes the object that the root was, or has become, the root again, of type `ty`.
    fn end(&self, ty: u32) -> Result<()> {
        let mut exclusive = Exclusive::begin(self.heap, self.region, self.unfinished)?;
        let [root, ..] = words(&exclusive, self.region)?;
        let root = root - self.heap.base().addr() as u64;
        commit_as(self.heap, self.region, &mut exclusive, root, ty, NewRoot::Converted, |context| {
            context.gc.wanted = true; // what has moved is garbage
        })?;
        self.region.set_ty(ty);
        Ok(())
    }
}

/// The type that a root had when somebody began to make it one of this type.
fn begun(heap: &HeapInner, region: &Region, unfinished: u32, desc: &'static Desc, name: &str) -> Result<u32> {
    let (ty, _) = heap.register(desc)?;
    let exclusive = Exclusive::begin(heap, region, unfinished)?;
    let [_, from, to] = words(&exclusive, region)?;
    drop(exclusive);
    if to != u64::from(ty) {
        return Err(Error::Unfinished { root: name.to_owned() });
    }
    let known = heap.tables.lock().types.types.len();
    let from = u32::try_from(from).ok().filter(|from| (*from as usize) < known);
    from.ok_or_else(|| Error::corrupt("a root was of a type that is not in the type table"))
}

/// What an [`Unfinished`] consists of.
fn words(exclusive: &Exclusive<'_>, region: &Region) -> Result<[u64; 3]> {
    let words = exclusive.words(region.root());
    // SURVIVES unreached: no program has a heap that is corrupt in this way.
    words.ok_or_else(|| Error::corrupt(format!("root {:?} is not where it should be", *region.name.lock())))
}
