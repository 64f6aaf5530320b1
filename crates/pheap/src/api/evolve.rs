//! `Heap::evolve`: converts objects anywhere below a root to other types.
//!
//! See *Types that have changed* in `docs/design.md`. This file has the order of the steps;
//! [`rewrite`](crate::region::rewrite) converts the objects of a span.

use std::collections::HashMap;
use std::sync::Arc;

use pheap_macros::Persist;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::parts::TypeChanges;
use super::root::{has_versions, write_root};
use crate::error::{Error, Result};
use crate::faults::{Bug, bug};
use crate::heap::check::rule::UNFINISHED;
use crate::heap::occupied::{Occupants, occupied};
use crate::heap::types::are_values;
use crate::heap::{Heap, HeapInner};
use crate::layout::desc::Desc;
use crate::layout::{Conversion, Converter, Migrate, Persist, Successor, successors};
use crate::ptr::P;
use crate::region::rewrite::{Rewrite, RewriteSpace};
use crate::region::{Exclusive, NewRoot, Region};
use crate::store::arena::SpanEntry;
use crate::store::spans::TakenSpan;
use crate::txn::context::Context;

/// Bytes of spans that one transaction converts or redirects, for each copy of an object that a write set can
/// have. The last span of the transaction may exceed the product. (A large object has its own span.)
const BATCH: u64 = 512;

/// The root object of a region while a conversion of the objects below it is not complete.
#[derive(Persist)]
#[repr(C)]
#[persist(own, id = "pheap::Evolution", crate = "crate")]
struct Unfinished<'r> {
    /// The former root object. It has the old or the new type of the root, or is a [`Moved`] that leads to an
    /// object of the new type.
    root: P<'r, Moved<'r>>,
    /// Lower 32 bits: number of the type that the root had. Upper 32 bits: the lower half of the [hash](plan)
    /// of all type changes. A later call with other type changes, and so with another hash, is refused.
    from: u64,
    /// Lower 32 bits: number of the type that the root gets. Upper 32 bits: the upper half of the
    /// [hash](plan) of all type changes.
    to: u64,
}

/// The content of the old slot of an object that has moved. An object moves if its new form, or that of
/// another object of the same span, does not fit into its slot.
#[derive(Persist)]
#[repr(C)]
#[persist(own, id = "pheap::Moved", crate = "crate")]
struct Moved<'r> {
    /// The object in its new place. It has the new type, not the declared `Moved`.
    to: P<'r, Moved<'r>>,
}

/// The progress of [`Heap::evolve`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// 1 while objects are converted; 2 while pointers to moved objects are rewritten.
    pub pass: u32,
    /// Bytes of memory that this pass has processed since the call began.
    pub done: u64,
    /// Bytes of memory that this pass has to process.
    pub total: u64,
}

/// A conversion by [`Heap::evolve`] that has not begun.
#[must_use = "nothing happens before `run`"]
pub struct Evolution<'h> {
    heap: &'h Heap,
    root: String,
    desc: &'static Desc,
    converters: Vec<Converter>,
    progress: Box<dyn FnMut(Progress) + 'h>,
}

impl Heap {
    /// Converts the objects below a root whose types have changed: object by object, in transactions of a few
    /// mebibytes. After a crash, the next call continues the conversion.
    ///
    /// `evolve` is for changes that annotations do not cover without a conversion: new fields that have no
    /// room in a [`Spare`](crate::Spare), or are not zero (`#[persist(since = 2, default = ..)]`); fields
    /// that have moved, or were removed (`#[persist(removed = "..")]` on the type); enums that become larger;
    /// and values that a function converts ([`with`](Evolution::with)). `T` is the type of the root.
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
    /// A root that is a [`PSnapMap`](crate::PSnapMap) is converted like any other. No snapshot of it may be
    /// left. While objects are being converted, [`durable_snapshot`](crate::Root::durable_snapshot) returns
    /// [`Error::Migrated`].
    ///
    /// The root is locked during the whole conversion: transactions and reads of it wait, and then fail with
    /// [`Error::Migrated`]. Before any object is converted, all objects that the root leads to are traced, so
    /// that garbage is not converted.
    ///
    /// Collections keep their structure: a map is not built anew. If all objects of a span still fit into
    /// their slots, they stay where they are. Otherwise all objects of the span move, and the pointers to
    /// them are rewritten; that takes room for both copies. Keys of maps are never converted.
    ///
    /// # Crashes
    /// Each transaction converts whole spans of objects, together with their recorded types. Until the
    /// conversion is complete, no program can open the root ([`Error::Unfinished`]): only `evolve` with the
    /// same `T` continues. It should have the same functions and defaults as the call that began.
    ///
    /// # Errors
    /// Before this call converts an object: [`Error::TypeMismatch`] if a type cannot be converted, with a
    /// hint about the missing annotation or function; [`Error::UnsupportedType`]; [`Error::HeldPointers`]
    /// while pointers into the root or snapshots of it are held; [`Error::PointerToPart`]; [`Error::Nested`];
    /// [`Error::SeveralHeaps`]; [`Error::ReadOnly`]; [`Error::TooLarge`]; [`Error::Unfinished`] if an earlier
    /// call has begun a conversion to another `T`, or with other type changes; [`Error::ReservationFull`] if
    /// there may be too little room, and the heap cannot get more; [`Error::Closed`], [`Error::Forked`],
    /// [`Error::Failed`]; and the errors of a transaction and of [`sync`](Self::sync). Afterwards, the errors
    /// of a transaction, such as [`Error::OutOfSpace`]: the converted objects stay converted, and the next
    /// call continues.
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
    /// Converts each value with the layout of `Old` by [`Migrate::migrate`], wherever the program's types
    /// have a `New`.
    ///
    /// `Old` has the fields of the old type, but its pointers lead to the *new* types:
    /// `next: Option<P<'r, Job<'r>>>`, where `Job` is the new type.
    pub fn with<Old: Persist, New: Persist>(mut self) -> Self
    where
        for<'r> New::At<'r>: Migrate<Old::At<'r>>,
    {
        self.converters.push(Converter::for_migrate::<Old, New>());
        self
    }

    /// Calls `f` after each transaction that converts objects or rewrites pointers (not after those that
    /// begin and end the conversion), inside the root's lock. `f` may read statistics and sync the heap. A
    /// method that would have to wait returns [`Error::Nested`] there, such as one that uses or creates a
    /// root, or that checks, copies or closes the heap. The same holds in [`Migrate::migrate`] and
    /// `default = ..`, which run in the transactions. Other threads may use other roots during the
    /// conversion. `f` must not wait for a thread that creates roots, or checks, copies or closes the heap.
    /// Two conversions in two heaps, each of whose `f` uses the root of the other, deadlock.
    pub fn on_progress(mut self, f: impl FnMut(Progress) + 'h) -> Self {
        self.progress = Box::new(f);
        self
    }

    /// Runs the conversion. Returns `false` if there was nothing to convert: the root does not exist, or has
    /// the type `T` already.
    ///
    /// # Errors
    /// Those that [`Heap::evolve`] lists.
    pub fn run(self) -> Result<bool> {
        let Evolution { heap, root, desc, converters, mut progress } = self;
        let heap = heap.inner();
        heap.check_open()?;
        let find = || match heap.region(&root) {
            Err(Error::NoSuchRoot(_)) => Ok(None),
            Err(error) => Err(error),
            Ok(region) => {
                let is_new = heap.tables.lock().types.matches_type(region.ty(), desc)?;
                Ok((!is_new).then_some(region))
            }
        };
        if find()?.is_none() {
            return Ok(false);
        }
        heap.check_writable()?;
        let _creation = heap.lock_creation()?;
        let Some(region) = find()? else {
            return Ok(false); // another thread has converted or removed the root meanwhile
        };
        let job = ConversionJob::new(heap, &region, &root, desc, &converters)?;
        if job.is_as_it_is && job.from_is_new {
            heap.retype(&region, &root, job.to, &job.found, &job.numbers)?;
            return Ok(true);
        }
        let (mut exclusive, occupied) = job.start_conversion()?;
        if job.has_versions && !bug(Bug::ConvertVersions) {
            exclusive = job.end_versions(exclusive)?;
        }
        job.convert(&mut exclusive, &occupied, &mut progress)?;
        job.redirect(&mut exclusive, &mut progress)?;
        job.finish_conversion(exclusive, job.to)?;
        Ok(true)
    }
}

/// A conversion of a root. From [`start_conversion`](ConversionJob::start_conversion) on, the root object is
/// an [`Unfinished`].
struct ConversionJob<'a> {
    heap: &'a Arc<HeapInner>,
    region: &'a Region,
    name: &'a str,
    found: Vec<Successor>,
    /// Maps the number of each old type to the number of its successor.
    numbers: HashMap<u32, u32>,
    /// A hash of all type changes in `numbers`; see [`plan`].
    plan: u64,
    from: u32,
    to: u32,
    unfinished: u32,
    moved: u32,
    /// Whether no earlier call has begun this conversion.
    from_is_new: bool,
    /// Whether no object changes its bytes: then only the recorded types change.
    is_as_it_is: bool,
    /// Whether the heap keeps versions of the root, so that a thread may ask for the durable one.
    has_versions: bool,
}

impl<'a> ConversionJob<'a> {
    fn new(
        heap: &'a Arc<HeapInner>,
        region: &'a Region,
        name: &'a str,
        desc: &'static Desc,
        converters: &[Converter],
    ) -> Result<ConversionJob<'a>> {
        let (unfinished, _) = heap.register(<Unfinished<'_> as Persist>::desc())?;
        let (moved, _) = heap.register(<Moved<'_> as Persist>::desc())?;
        debug_assert!(<Unfinished<'_> as Persist>::desc().name.as_str() == UNFINISHED);
        let from_is_new = region.ty() != unfinished;
        let (from, begun) = match from_is_new {
            true => (region.ty(), None),
            false => begun(heap, region, unfinished, desc, name).map(|(from, plan)| (from, Some(plan)))?,
        };
        let mismatch = |help: String| {
            let difference = heap.tables.lock().types.difference(from, desc)?.unwrap_or_default();
            Err(Error::TypeMismatch {
                root: name.to_owned(),
                difference: format!("{difference}\n  help: {help}"),
            })
        };
        let found = successors(&heap.tables.lock().types.types, from, desc, converters);
        let found = match found {
            Ok(found) => found,
            Err(help) => return mismatch(help),
        };
        let (to, numbers) = heap.numbers(desc, &found)?;
        let plan = plan(&numbers);
        if begun.is_some_and(|begun| begun != plan) {
            return Err(Error::Unfinished { root: name.to_owned() });
        }
        // The type of a span records whether its objects are converted. So the successor of an old type must
        // not be an old type that changes, too.
        let becomes = |ty: &u32| numbers.get(ty).copied().unwrap_or(*ty);
        if numbers.values().any(|new| becomes(new) != *new) {
            return mismatch(
                "the new form of one type is the old form of another type that changes too; change one of \
                 them at a time"
                    .to_owned(),
            );
        }
        let is_as_it_is = are_values(&found);
        let has_versions = has_versions(heap, from);
        Ok(ConversionJob {
            heap,
            region,
            name,
            found,
            numbers,
            plan,
            from,
            to,
            unfinished,
            moved,
            from_is_new,
            is_as_it_is,
            has_versions,
        })
    }

    /// Locks the root, and frees the objects that it does not lead to. The returned `Exclusive` keeps the
    /// lock. If no earlier call has begun the conversion, checks that the conversion is possible, and records
    /// in the heap, in one transaction, that it has begun.
    fn start_conversion(&self) -> Result<(Exclusive<'a>, Occupants)> {
        let ty = if self.from_is_new { self.from } else { self.unfinished };
        let mut exclusive = Exclusive::begin_transaction(self.heap, self.region, ty)?;
        // Waits until running reads have ended, because a read may still take a snapshot of the root.
        exclusive.context().upgrade();
        // After this sync, the newest version of the root is the durable one. So no thread gets an older
        // version, and the trace visits none.
        self.heap.sync_log()?;
        if self.from_is_new && self.region.held.is_used() {
            return Err(Error::HeldPointers { root: self.name.to_owned() });
        }
        exclusive.trace();
        let occupied = self.occupied(&exclusive);
        if !self.from_is_new {
            return Ok((exclusive, occupied));
        }
        TypeChanges::new(self.heap, &self.found, &self.numbers).check(&exclusive, self.name)?;
        self.make_room(&exclusive, &occupied)?;
        let root = self.heap.base().addr() as u64 + self.region.root();
        let [low, high] = [self.plan << 32, self.plan >> 32 << 32];
        let words = [root, low | u64::from(self.from), high | u64::from(self.to)];
        let unfinished = exclusive.alloc_words(<Unfinished<'_> as Persist>::desc(), words)?;
        let (heap, region) = (self.heap, self.region);
        let replace =
            write_root(heap, region, &mut exclusive, unfinished, self.unfinished, NewRoot::Another)?;
        let end = exclusive.commit_and_go_on(replace)?;
        // Waits for the commit before `set_ty` shows the new type to other threads.
        // SURVIVES unreached: the programs that mutants are tried with convert nothing;
        // `tests/changed_types.rs` of pheap-crash does.
        heap.acknowledge(end)?;
        self.region.set_ty(self.unfinished);
        Ok((exclusive, occupied))
    }

    /// Fails if an object would be too large, or if there may be too little room for the conversion: if a
    /// conversion begins and cannot be completed, no program can open the root any more. Makes the log as
    /// long as the longest transaction needs it.
    fn make_room(&self, exclusive: &Exclusive<'_>, occupied: &Occupants) -> Result<()> {
        let (mut room, spans) = (RewriteSpace::default(), exclusive.object_spans());
        for &(number, span) in &spans {
            if let Some((number, _, successor)) = self.left(number, span)
                && let Some(conversion) = &successor.conversion
            {
                exclusive.check_convertible(
                    number,
                    &self.rewrite(successor, conversion, occupied),
                    &mut room,
                )?;
            }
        }
        let has_pointers = |ty| self.heap.pointer_map(ty).has_pointers();
        let others =
            spans.iter().filter(|(_, span)| has_pointers(span.entry.ty)).map(|(_, span)| span.bytes());
        let log = room.logged_bytes(self.batch(), others, has_pointers);
        let new_bytes = room.new_bytes();
        let need = new_bytes.saturating_add(exclusive.context().missing_log(log));
        self.heap.tables.lock().check_room(self.heap, need)?;
        exclusive.context().make_log_for(log)
    }

    /// Returns the rule by which the objects of one old type are converted.
    fn rewrite<'b>(
        &self,
        successor: &Successor,
        conversion: &'b Conversion,
        occupied: &'b Occupants,
    ) -> Rewrite<'b> {
        let ty = self.numbers[&successor.old];
        Rewrite { desc: successor.new, conversion, ty, moved: self.moved, occupied }
    }

    /// Fails if a snapshot of the root or a held pointer exists: threads read a snapshot without the region's
    /// lock. First waits until the [`Unfinished`] root is durable. Until then, a thread with an older handle
    /// may still get the durable version, which may share nodes with the current one.
    fn end_versions(&self, exclusive: Exclusive<'a>) -> Result<Exclusive<'a>> {
        self.heap.sync_log()?;
        if !self.region.held.is_used() {
            return Ok(exclusive);
        }
        // A conversion that this call has begun is taken back. One that an earlier call has begun cannot be,
        // because objects may be converted already.
        if self.from_is_new {
            self.finish_conversion(exclusive, self.from)?;
        }
        Err(Error::HeldPointers { root: self.name.to_owned() })
    }

    /// Finds the slots that have values, in the buffers of collections whose values a function of the program
    /// converts.
    fn occupied(&self, exclusive: &Exclusive<'_>) -> Occupants {
        let asks = |one: &&Successor| one.conversion.as_ref().is_some_and(Conversion::asks_for_owner);
        let buffers = self.found.iter().filter(asks);
        // A collection that an earlier call has converted has a pointer to the new type of its buffer, so
        // both types of each buffer are looked for.
        let buffers = buffers.flat_map(|one| [one.old, self.numbers[&one.old]]).collect();
        let types = self.heap.tables.lock().types.types.clone();
        occupied(exclusive, &types, &buffers)
    }

    /// Converts all objects whose bytes change, and records the new types of the others.
    fn convert(
        &self,
        exclusive: &mut Exclusive<'_>,
        occupied: &Occupants,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<()> {
        let batch = self.batch();
        let (mut done, mut total) = (0, None);
        loop {
            exclusive.give_back_runs();
            let spans = exclusive.object_spans().into_iter();
            let left: Vec<_> = spans.filter_map(|(number, span)| self.left(number, span)).collect();
            if left.is_empty() {
                return Ok(());
            }
            let total = *total.get_or_insert_with(|| left.iter().map(|(_, span, _)| span.bytes()).sum());
            let (mut converted, mut bytes) = (Vec::new(), 0);
            for (number, span, successor) in left {
                let ty = self.numbers[&successor.old];
                match &successor.conversion {
                    None => {
                        let span = TakenSpan { entry: SpanEntry { ty, ..span.entry }, ..span };
                        exclusive.context().alloc.record_again(span);
                        converted.push(span);
                        done += span.bytes();
                    }
                    Some(conversion) if bytes < batch => {
                        let rewrite = self.rewrite(successor, conversion, occupied);
                        converted.push(exclusive.convert(number, &rewrite)?);
                        bytes += span.bytes();
                    }
                    Some(_) => {}
                }
            }
            self.commit(exclusive, |context| context.alloc.retype(self.heap, &converted))?;
            done += bytes;
            progress(Progress { pass: 1, done, total });
        }
    }

    /// Returns the bytes of spans that one transaction converts or redirects; see [`BATCH`].
    fn batch(&self) -> u64 {
        BATCH * self.heap.tuning.copies as u64
    }

    /// Returns the span with the successor of its type, if the span still has a type that changes.
    fn left(&self, number: u32, span: TakenSpan) -> Option<(u32, TakenSpan, &Successor)> {
        let successor = self.found.iter().find(|successor| successor.old == span.entry.ty)?;
        (self.numbers[&successor.old] != successor.old).then_some((number, span, successor))
    }

    /// Commits one step of a pass. Does not wait until the step is durable, unless too much is unsynced, no
    /// thread syncs in the background, or so many pages are private that `evict_beside` makes a checkpoint.
    /// If a crash takes the step back, a later call repeats it.
    fn commit(&self, exclusive: &mut Exclusive<'_>, done: impl FnOnce(&mut Context)) -> Result<()> {
        let end = exclusive.commit_and_go_on(done)?;
        drop(self.heap.deferred(end));
        self.heap.evict_beside(exclusive);
        Ok(())
    }

    /// Rewrites all pointers to moved objects, so that they lead to the new places.
    fn redirect(&self, exclusive: &mut Exclusive<'_>, progress: &mut dyn FnMut(Progress)) -> Result<()> {
        let batch = self.batch();
        let (mut next, mut done) = (0, 0);
        loop {
            exclusive.give_back_runs();
            let spans = exclusive.object_spans();
            if !spans.iter().any(|(_, span)| span.entry.ty == self.moved) {
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
            self.commit(exclusive, |_| {})?;
            progress(Progress { pass: 2, done, total });
            if bytes < batch {
                return Ok(());
            }
        }
    }

    /// Makes the object of [`Unfinished::root`] the root again, with the type `ty`, and unlocks the region.
    fn finish_conversion(&self, mut exclusive: Exclusive<'_>, ty: u32) -> Result<()> {
        let [root, ..] = unfinished_words(&exclusive, self.region)?;
        let root = root - self.heap.base().addr() as u64;
        let replace = write_root(self.heap, self.region, &mut exclusive, root, ty, NewRoot::Converted)?;
        exclusive.commit(|context| {
            replace(context);
            context.gc.wanted = true; // the old slots of moved objects are garbage
        })?;
        self.region.set_ty(ty);
        Ok(())
    }
}

/// The seed of the [hash](plan) of type changes, as a format number: moved objects leave a [`Moved`] in their
/// old slots. With format 2, moved slices left another type. A version of pheap with another format would not
/// find the moved objects, so it must not continue a conversion.
const FORM: u64 = 3;

/// Returns a hash of the type changes (old and new type numbers) and of [`FORM`]. It is never 0, because
/// conversions of earlier versions of pheap have 0 there.
fn plan(numbers: &HashMap<u32, u32>) -> u64 {
    let mut pairs: Vec<_> = numbers.iter().collect();
    pairs.sort_unstable();
    let bytes: Vec<u8> =
        pairs.into_iter().flat_map(|(old, new)| [*old, *new]).flat_map(u32::to_le_bytes).collect();
    xxh3_64_with_seed(&bytes, FORM).max(1)
}

/// Returns the type that the root had before an earlier call began its conversion to the type of `desc`, and
/// the [`plan`] of that call.
fn begun(
    heap: &HeapInner,
    region: &Region,
    unfinished: u32,
    desc: &'static Desc,
    name: &str,
) -> Result<(u32, u64)> {
    let (ty, _) = heap.register(desc)?;
    let exclusive = Exclusive::begin_transaction(heap, region, unfinished)?;
    let [_, from, to] = unfinished_words(&exclusive, region)?;
    drop(exclusive);
    let plan = from >> 32 | to >> 32 << 32;
    let (from, to) = (from as u32, to as u32);
    if to != ty {
        return Err(Error::Unfinished { root: name.to_owned() });
    }
    if from as usize >= heap.tables.lock().types.types.len() {
        return Err(Error::corrupt("a root was of a type that is not in the type table"));
    }
    Ok((from, plan))
}

/// Returns the three words of the region's root object, which is an [`Unfinished`].
fn unfinished_words(exclusive: &Exclusive<'_>, region: &Region) -> Result<[u64; 3]> {
    let words = exclusive.object_words(region.root());
    // SURVIVES unreached: no program has a heap that is corrupt in this way.
    words.ok_or_else(|| Error::corrupt(format!("root {:?} is not where it should be", *region.name.lock())))
}
