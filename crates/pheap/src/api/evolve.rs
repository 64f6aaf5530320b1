//! `Heap::evolve`: objects anywhere below a root become objects of other types.
//!
//! See *Types that have changed* in `docs/design.md`. Here is what is done in which order; how a span is rewritten is in [`rewrite`](crate::region::rewrite).

use std::collections::HashMap;
use std::sync::Arc;

use pheap_macros::Persist;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::parts::Changes;
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
use crate::region::rewrite::{self, Rewrite, Room};
use crate::region::{Exclusive, NewRoot, Region};
use crate::store::arena::SpanEntry;
use crate::store::spans::Span;
use crate::txn::context::Context;

/// Bytes of objects that one transaction converts, or in which it rewrites pointers, for each copy that a write set takes: a span more at most, or an object that is larger.
const BATCH: u64 = 512;

/// What a root is while its objects are being converted.
#[derive(Persist)]
#[repr(C)]
#[persist(own, id = "pheap::Evolution", crate = "crate")]
struct Unfinished<'r> {
    /// The object that was the root. Of another type than it says here.
    root: P<'r, Moved<'r>>,
    /// Numbers of its type: what it was, and what it becomes. The upper halves are a [hash](plan) of what all
    /// types become, so that no call goes on with other ones.
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

/// What is left of a slice that needed a larger slot, and was in one of more than 8 bytes. Its length, for a
/// function of the program's may get a pointer to the slice, and ask for that.
#[derive(Persist)]
#[repr(C)]
#[persist(own, id = "pheap::MovedSlice", crate = "crate")]
struct MovedSlice<'r> {
    /// The length, where it was.
    len: u64,
    /// Where the slice is. Of another type than it says here.
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
    /// The root is locked from the beginning to the end: transactions and reads of it wait, and then fail with
    /// [`Error::Migrated`]. First, all that it leads to is traced, so that objects that are garbage are not converted.
    ///
    /// Collections keep their structure: a map is not built anew. Objects that need no larger slot stay where they are. Others move, and the pointers to them are rewritten; that takes room for both. Keys of
    /// maps are never converted.
    ///
    /// # Crashes
    /// Each transaction converts whole spans of objects, with what the heap says of their type, or none of it. Until all is done, the root cannot be opened ([`Error::Unfinished`]), neither by the program
    /// that has begun this, nor by another one: only `evolve`, with the same `T`, goes on. The functions and defaults should be those that it has begun with.
    ///
    /// # Errors
    /// [`Error::TypeMismatch`] if it is not known how to convert something, with what would help;
    /// [`Error::HeldPointers`] while pointers into the root or snapshots of it are held;
    /// [`Error::PointerToPart`]; [`Error::Nested`]; [`Error::Unfinished`] if it was begun for another `T`;
    /// [`Error::ReservationFull`] if there may be no room, and the heap cannot get more. All of these before
    /// anything is changed. Later, those of a transaction, such as [`Error::OutOfSpace`]: what is done is
    /// done, and the next call goes on.
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

    /// Calls `f` after each transaction, inside the root's lock: `f` may ask for figures and sync the heap. A method that
    /// would wait is [`Error::Nested`], such as one that uses or creates a root, or that checks, copies or closes the heap.
    /// So it is for [`Migrate::migrate`] and `default = ..`, which run in the transactions. Another thread may use
    /// other roots meanwhile. `f` must not wait for a thread that creates roots, or checks, copies or closes the heap. Nor
    /// must `f` use a root of another heap while the `f` of a conversion of that one uses this root: each waits for the
    /// other then.
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
        let (mut exclusive, occupied) = job.begin()?;
        if job.has_versions && !bug(Bug::ConvertVersions) {
            exclusive = job.end_versions(exclusive)?;
        }
        job.convert(&mut exclusive, &occupied, &mut progress)?;
        job.redirect(&mut exclusive, &mut progress)?;
        job.end(exclusive, job.to)?;
        Ok(true)
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
    /// A hash of that.
    plan: u64,
    from: u32,
    to: u32,
    unfinished: u32,
    moved: rewrite::Moved,
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
        let (object, _) = heap.register(<Moved<'_> as Persist>::desc())?;
        let (slice, _) = heap.register(<MovedSlice<'_> as Persist>::desc())?;
        let moved = rewrite::Moved { object, slice };
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

    /// Locks the root until all is converted, and frees what it does not lead to. If no earlier call has begun the
    /// conversion, checks that it can be done, and says in the heap that it is being done, in one transaction.
    fn begin(&self) -> Result<(Exclusive<'a>, Occupants)> {
        let ty = if self.from_is_new { self.from } else { self.unfinished };
        let mut exclusive = Exclusive::begin(self.heap, self.region, ty)?;
        // A read that has begun may still take a snapshot.
        exclusive.context().upgrade();
        // From now on no thread gets an older version of the root, of whatever type it was: what the root is now, is
        // durable. Nor does the trace look at older ones.
        self.heap.sync_log()?;
        if self.from_is_new && self.region.held.is_used() {
            return Err(Error::HeldPointers { root: self.name.to_owned() });
        }
        exclusive.trace();
        let occupied = self.occupied(&exclusive);
        if !self.from_is_new {
            return Ok((exclusive, occupied));
        }
        Changes::new(self.heap, &self.found, &self.numbers).check(&exclusive, self.name)?;
        self.make_room(&exclusive, &occupied)?;
        let root = self.heap.base().addr() as u64 + self.region.root();
        let [low, high] = [self.plan << 32, self.plan >> 32 << 32];
        let words = [root, low | u64::from(self.from), high | u64::from(self.to)];
        let unfinished = exclusive.alloc_words(<Unfinished<'_> as Persist>::desc(), words)?;
        let (heap, region) = (self.heap, self.region);
        let replace =
            write_root(heap, region, &mut exclusive, unfinished, self.unfinished, NewRoot::Another)?;
        let end = exclusive.commit_and_go_on(replace)?;
        // Other threads may be told of the new type when a commit may be.
        // SURVIVES unreached: mutants are tried without conversions; `tests/changed_types.rs` of pheap-crash has them.
        heap.acknowledge(end)?;
        self.region.set_ty(self.unfinished);
        Ok((exclusive, occupied))
    }

    /// Fails if an object would be too large, or if there may be no room for the conversion: a root whose
    /// conversion has begun, and cannot come to an end, could not be opened any more. Makes the log as long
    /// as the longest transaction needs it.
    fn make_room(&self, exclusive: &Exclusive<'_>, occupied: &Occupants) -> Result<()> {
        let (mut room, spans) = (Room::default(), exclusive.object_spans());
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

    /// How objects of a type become others.
    fn rewrite<'b>(
        &self,
        successor: &Successor,
        conversion: &'b Conversion,
        occupied: &'b Occupants,
    ) -> Rewrite<'b> {
        let ty = self.numbers[&successor.old];
        Rewrite { desc: successor.new, conversion, ty, moved: self.moved, occupied }
    }

    /// Fails if a version of the root is held, which is read without the region's lock. Until it is durable that the
    /// root is [`Unfinished`], a thread with an older handle may get the durable version, which may lead to the same
    /// nodes.
    fn end_versions(&self, exclusive: Exclusive<'a>) -> Result<Exclusive<'a>> {
        self.heap.sync_log()?;
        if !self.region.held.is_used() {
            return Ok(exclusive);
        }
        // A conversion that an earlier call has begun cannot be taken back.
        if self.from_is_new {
            self.end(exclusive, self.from)?;
        }
        Err(Error::HeldPointers { root: self.name.to_owned() })
    }

    /// The slots with values of the buffers that functions of the program's convert.
    fn occupied(&self, exclusive: &Exclusive<'_>) -> Occupants {
        let asks = |one: &&Successor| one.conversion.as_ref().is_some_and(Conversion::asks_for_owner);
        let buffers = self.found.iter().filter(asks);
        // A collection that was converted by an earlier call says that its buffer is of the new type.
        let buffers = buffers.flat_map(|one| [one.old, self.numbers[&one.old]]).collect();
        let types = self.heap.tables.lock().types.types.clone();
        occupied(exclusive, &types, &buffers)
    }

    /// Converts all objects whose bytes change, and gives the others the numbers of their new types.
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
            let left = exclusive.object_spans().into_iter();
            let left = left.filter_map(|(number, span)| self.left(number, span));
            // What moves from a slot that has only a length leaves no length there. So it comes last, when no function
            // gets a value with pointers any more: its own elements have no bytes.
            let (last, mut left): (Vec<_>, Vec<_>) = left.partition(|(number, _, successor)| {
                let is_slice = successor.conversion.as_ref().is_some_and(Conversion::is_unsized);
                is_slice && exclusive.has_only_lengths(*number)
            });
            left.extend(last);
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

    /// Bytes that one transaction is about.
    fn batch(&self) -> u64 {
        BATCH * self.heap.tuning.copies as u64
    }

    /// A span whose objects are not yet of their new type.
    fn left(&self, number: u32, span: Span) -> Option<(u32, Span, &Successor)> {
        let successor = self.found.iter().find(|successor| successor.old == span.entry.ty)?;
        (self.numbers[&successor.old] != successor.old).then_some((number, span, successor))
    }

    /// Commits a step. Only the last one waits for the disk: a later call repeats the steps that a crash takes back.
    fn commit(&self, exclusive: &mut Exclusive<'_>, done: impl FnOnce(&mut Context)) -> Result<()> {
        let end = exclusive.commit_and_go_on(done)?;
        drop(self.heap.deferred(end));
        self.heap.evict_beside(exclusive);
        Ok(())
    }

    /// Makes all pointers lead to where objects have moved.
    fn redirect(&self, exclusive: &mut Exclusive<'_>, progress: &mut dyn FnMut(Progress)) -> Result<()> {
        let batch = self.batch();
        let (mut next, mut done) = (0, 0);
        loop {
            exclusive.give_back_runs();
            let spans = exclusive.object_spans();
            if !spans.iter().any(|(_, span)| self.moved.has(span.entry.ty)) {
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
                if !self.moved.has(span.entry.ty) && exclusive.redirect(number, self.moved) {
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

    /// Makes the object that the root was, or has become, the root again, of type `ty`, and lets go of it.
    fn end(&self, mut exclusive: Exclusive<'_>, ty: u32) -> Result<()> {
        let [root, ..] = words(&exclusive, self.region)?;
        let root = root - self.heap.base().addr() as u64;
        let replace = write_root(self.heap, self.region, &mut exclusive, root, ty, NewRoot::Converted)?;
        exclusive.commit(|context| {
            replace(context);
            context.gc.wanted = true; // objects that have moved are garbage where they were
        })?;
        self.region.set_ty(ty);
        Ok(())
    }
}

/// Says that [`Moved`] and [`MovedSlice`] are left of objects that move. An earlier pheap, which knows only the
/// first, would not find where slices are: it must not go on with this; nor does this with what that has begun.
const FORM: u64 = 2;

/// A hash of what types become, and of what is left of objects that move. Not 0, as an earlier pheap has it.
fn plan(numbers: &HashMap<u32, u32>) -> u64 {
    let mut pairs: Vec<_> = numbers.iter().collect();
    pairs.sort_unstable();
    let bytes: Vec<u8> =
        pairs.into_iter().flat_map(|(old, new)| [*old, *new]).flat_map(u32::to_le_bytes).collect();
    xxh3_64_with_seed(&bytes, FORM).max(1)
}

/// The type that a root had when an earlier call began to make it one of this type, and the [`plan`] of that.
fn begun(
    heap: &HeapInner,
    region: &Region,
    unfinished: u32,
    desc: &'static Desc,
    name: &str,
) -> Result<(u32, u64)> {
    let (ty, _) = heap.register(desc)?;
    let exclusive = Exclusive::begin(heap, region, unfinished)?;
    let [_, from, to] = words(&exclusive, region)?;
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

/// What an [`Unfinished`] consists of.
fn words(exclusive: &Exclusive<'_>, region: &Region) -> Result<[u64; 3]> {
    let words = exclusive.words(region.root());
    // SURVIVES unreached: no program has a heap that is corrupt in this way.
    words.ok_or_else(|| Error::corrupt(format!("root {:?} is not where it should be", *region.name.lock())))
}
