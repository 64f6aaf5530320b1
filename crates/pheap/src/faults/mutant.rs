//! Mutants of the crate: in each, one request of some [`Kind`] is left out, or done too late.
//!
//! A *site* is a place in the source that makes such a request. The functions that do requests are
//! `#[track_caller]`, at least in builds with the simulator, and the small helpers between them and the
//! protocols are, too. So a site is the line of the protocol that makes the request. Each function that does
//! requests reports the site of its caller, and does the request as always, not at all, or late, as the
//! answer of `reached` says. A test suite is good if it notices each mutant.
//!
//! A mutant is switched on for one thread, because the explorer of crash images is single-threaded and tests
//! run side by side. A mutant of a lock is switched on for the whole process.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::panic::Location;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use super::Bug;
pub use super::{Kind, Mutation};

impl Kind {
    /// All kinds of requests.
    pub const ALL: [Kind; 7] =
        [Kind::Flush, Kind::Fence, Kind::LogEntry, Kind::Write, Kind::FileSync, Kind::Checksum, Kind::Lock];

    /// Returns the name of the kind.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Flush => "flush",
            Kind::Fence => "fence",
            Kind::LogEntry => "log-entry",
            Kind::Write => "write",
            Kind::FileSync => "sync",
            Kind::Checksum => "checksum",
            Kind::Lock => "lock",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Kind, String> {
        let names = || Kind::ALL.map(Kind::name).join(", ");
        let found = Kind::ALL.into_iter().find(|kind| kind.name() == text);
        found.ok_or_else(|| format!("there is no kind {text:?}, only {}", names()))
    }
}

impl Mutation {
    /// Returns the other mutation.
    pub fn other(self) -> Mutation {
        match self {
            Mutation::Drop => Mutation::Delay,
            Mutation::Delay => Mutation::Drop,
        }
    }

    /// Returns the name of the mutation.
    pub fn name(self) -> &'static str {
        match self {
            Mutation::Drop => "drop",
            Mutation::Delay => "delay",
        }
    }
}

impl fmt::Display for Mutation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Mutation {
    type Err = String;

    fn from_str(text: &str) -> Result<Mutation, String> {
        match text {
            "drop" => Ok(Mutation::Drop),
            "delay" => Ok(Mutation::Delay),
            _ => Err(format!("{text:?} is neither drop nor delay")),
        }
    }
}

/// A place in the source that makes a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Site {
    /// The kind of the request.
    pub kind: Kind,
    /// The source file, relative to the root of the workspace.
    pub file: &'static str,
    /// Line in the file, counted from 1.
    pub line: u32,
    /// Column in the line, counted from 1.
    pub column: u32,
}

impl Site {
    fn from_location(kind: Kind, place: &'static Location<'static>) -> Site {
        Site { kind, file: place.file(), line: place.line(), column: place.column() }
    }

    fn matches_location(&self, kind: Kind, place: &Location<'_>) -> bool {
        self.line == place.line()
            && self.kind == kind
            && self.column == place.column()
            && self.file == place.file()
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}:{}:{}", self.kind, self.file, self.line, self.column)
    }
}

impl FromStr for Site {
    type Err = String;

    fn from_str(text: &str) -> Result<Site, String> {
        let parts = || {
            let (kind, place) = text.split_once(' ')?;
            let (place, column) = place.rsplit_once(':')?;
            let (file, line) = place.rsplit_once(':')?;
            Some((kind.parse().ok()?, file, line.parse().ok()?, column.parse().ok()?))
        };
        let (kind, file, line, column) = parts().ok_or_else(|| format!("{text:?} is not a site"))?;
        Ok(Site { kind, file: file.to_owned().leak(), line, column })
    }
}

/// A variant of the crate: one site, and the mutation of its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Mutant {
    /// The site whose request is changed.
    pub site: Site,
    /// The change of the request.
    pub mutation: Mutation,
}

impl fmt::Display for Mutant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.mutation, self.site)
    }
}

impl FromStr for Mutant {
    type Err = String;

    fn from_str(text: &str) -> Result<Mutant, String> {
        let (mutation, site) = text.split_once(' ').ok_or_else(|| format!("{text:?} is not a mutant"))?;
        Ok(Mutant { site: site.parse()?, mutation: mutation.parse()? })
    }
}

/// How often a site was reached, and whether its request can be delayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reach {
    /// Number of times that the site was reached.
    pub hits: u64,
    /// Whether the request of the site can be delayed.
    pub delays: bool,
}

type Hits = HashMap<(Kind, &'static Location<'static>), Reach>;

fn record_hit(hits: &mut Option<Hits>, kind: Kind, place: &'static Location<'static>, delays: bool) {
    if let Some(hits) = hits {
        let reach = hits.entry((kind, place)).or_default();
        reach.hits += 1;
        reach.delays |= delays;
    }
}

thread_local! {
    static BUG: Cell<Option<Bug>> = const { Cell::new(None) };
    static MUTANT: Cell<Option<Mutant>> = const { Cell::new(None) };
    static FIRED: Cell<u64> = const { Cell::new(0) };
    /// Whether this thread has switched on the mutant in `SHARED`.
    static SHARED_MINE: Cell<bool> = const { Cell::new(false) };
    static HITS: RefCell<Option<Hits>> = const { RefCell::new(None) };
}

/// The state that all threads share, for mutants of locks.
struct LabState {
    mutant: Option<Mutant>,
    hits: Option<Hits>,
}

static SHARED: Mutex<LabState> = Mutex::new(LabState { mutant: None, hits: None });
/// Whether `SHARED` has a mutant, or notes the locks that threads take.
static SHARES: AtomicBool = AtomicBool::new(false);
static FIRED_LOCKS: AtomicU64 = AtomicU64::new(0);
static MEETINGS: AtomicU64 = AtomicU64::new(0);

fn shared() -> MutexGuard<'static, LabState> {
    SHARED.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn share(change: impl FnOnce(&mut LabState)) {
    let mut shared = shared();
    change(&mut shared);
    SHARES.store(shared.mutant.is_some() || shared.hits.is_some(), Ordering::Release);
}

/// Switches a seeded bug on for this thread, or off.
pub fn set_bug(bug: Option<Bug>) {
    BUG.set(bug);
}

/// Returns the seeded bug that is switched on for this thread. The lab also sets it in threads that this
/// thread starts.
#[inline]
pub fn seeded_bug() -> Option<Bug> {
    BUG.get()
}

/// Switches a mutant on, or off: for this thread, or for all threads if it is a mutant of a lock.
pub fn set_mutant(mutant: Option<Mutant>) {
    let of_lock = mutant.filter(|mutant| mutant.site.kind == Kind::Lock);
    MUTANT.set(mutant.filter(|_| of_lock.is_none()));
    FIRED.set(0);
    // The shared mutant is left alone if another thread has switched it on.
    if of_lock.is_some() || SHARED_MINE.replace(of_lock.is_some()) {
        share(|shared| shared.mutant = of_lock);
        FIRED_LOCKS.store(0, Ordering::Relaxed);
        MEETINGS.store(0, Ordering::Relaxed);
        SHARED_MINE.set(of_lock.is_some());
    }
}

/// Returns the mutant that is on for this thread alone: never one of a lock.
pub fn mutant() -> Option<Mutant> {
    MUTANT.get()
}

/// The notes of a thread, which it passes to the thread that has started it.
#[derive(Debug, Default)]
pub struct Noted {
    hits: Hits,
    fired: u64,
}

/// Returns whether this thread notes the sites that it reaches.
pub fn notes_sites() -> bool {
    HITS.with_borrow(Option::is_some)
}

/// Takes the notes of this thread: the sites that it has reached, and how often its mutant was applied. From
/// now on the thread notes nothing, and has no mutant.
pub fn take_noted() -> Noted {
    let noted = Noted { hits: HITS.take().unwrap_or_default(), fired: FIRED.get() };
    set_mutant(None);
    noted
}

/// Adds another thread's notes to those of this thread. The sites of the other thread are added only if this
/// thread notes sites.
pub fn add_noted(noted: Noted) {
    FIRED.set(FIRED.get() + noted.fired);
    HITS.with_borrow_mut(|hits| {
        let Some(hits) = hits else { return };
        for (site, more) in noted.hits {
            let reach = hits.entry(site).or_default();
            reach.hits += more.hits;
            reach.delays |= more.delays;
        }
    });
}

/// Returns how often the mutant of this thread, and the mutant of a lock that all threads share, were
/// applied.
pub fn fired() -> u64 {
    FIRED.get() + FIRED_LOCKS.load(Ordering::Relaxed)
}

/// Returns how often two threads would have been inside a lock at the same time without the lock that the
/// mutant stands for. (The lock is taken nevertheless, because two such threads could do anything.)
pub fn meetings() -> u64 {
    MEETINGS.load(Ordering::Relaxed)
}

/// Counts a meeting: two threads would have been inside a lock at the same time. See [`meetings`].
pub(crate) fn meet() {
    MEETINGS.fetch_add(1, Ordering::Relaxed);
}

/// Returns whether there may be a mutant of a lock, or locks are noted.
#[inline]
pub(crate) fn watches_locks() -> bool {
    SHARES.load(Ordering::Acquire)
}

/// Begins to note the sites that this thread reaches, or ends that. Forgets the sites that were noted before.
pub fn note_sites(on: bool) {
    HITS.set(on.then(Hits::new));
}

/// Begins to note the locks that any thread takes, or ends that. Forgets the locks that were noted before.
pub fn note_locks(on: bool) {
    share(|shared| shared.hits = on.then(Hits::new));
}

/// Returns the sites that were reached since [`note_sites`] and [`note_locks`], and how often.
pub fn sites() -> BTreeMap<Site, Reach> {
    let mut sites: BTreeMap<Site, Reach> = BTreeMap::new();
    let mut add = |hits: &Hits| {
        for (&(kind, place), more) in hits {
            let reach = sites.entry(Site::from_location(kind, place)).or_default();
            reach.hits += more.hits;
            reach.delays |= more.delays;
        }
    };
    HITS.with_borrow(|hits| hits.iter().for_each(&mut add));
    shared().hits.iter().for_each(&mut add);
    sites
}

/// Notes that a site was reached, and returns its mutation; `None` unless this site is that of the mutant.
#[inline]
pub(crate) fn reached(kind: Kind, place: &'static Location<'static>) -> Option<Mutation> {
    if kind == Kind::Lock {
        return if SHARES.load(Ordering::Acquire) { lock_reached(place) } else { None };
    }
    reached_by_thread(kind, place, true)
}

/// Notes, as [`reached`] does, that a site was reached whose request cannot be delayed. Returns whether the
/// request is to be left out.
#[inline]
pub(crate) fn is_dropped(kind: Kind, place: &'static Location<'static>) -> bool {
    match kind {
        Kind::Lock => reached(kind, place) == Some(Mutation::Drop),
        _ => reached_by_thread(kind, place, false).is_some(),
    }
}

fn reached_by_thread(kind: Kind, place: &'static Location<'static>, delays: bool) -> Option<Mutation> {
    HITS.with_borrow_mut(|hits| record_hit(hits, kind, place, delays));
    let mutant = MUTANT.get()?;
    let is_it = mutant.site.matches_location(kind, place) && (delays || mutant.mutation == Mutation::Drop);
    is_it.then(|| {
        FIRED.set(FIRED.get() + 1);
        mutant.mutation
    })
}

#[cold]
fn lock_reached(place: &'static Location<'static>) -> Option<Mutation> {
    let mut shared = shared();
    record_hit(&mut shared.hits, Kind::Lock, place, true);
    let mutant = shared.mutant?;
    mutant.site.matches_location(Kind::Lock, place).then(|| {
        FIRED_LOCKS.fetch_add(1, Ordering::Relaxed);
        mutant.mutation
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn flush() -> Option<Mutation> {
        reached(Kind::Flush, Location::caller())
    }

    #[test]
    fn a_mutant_is_its_text() {
        for text in ["drop flush crates/pheap/src/txn/commit.rs:12:3", "delay log-entry a.rs:1:1"] {
            assert_eq!(text.parse::<Mutant>().unwrap().to_string(), text);
        }
        for text in ["drop", "drop flush", "drop flash a.rs:1:1", "flush a.rs:1:1", "drop flush a.rs:x:1"] {
            assert!(text.parse::<Mutant>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_mutant_is_one_of_its_site() {
        note_sites(true);
        let both = || (flush(), flush());
        assert_eq!(both(), (None, None));
        both();
        let of_this_file = |site: &Site| site.file == file!() && site.kind == Kind::Flush;
        let found: Vec<(Site, u64)> = sites()
            .into_iter()
            .map(|(site, reach)| (site, reach.hits))
            .filter(|(site, _)| of_this_file(site))
            .collect();
        let [(first, 2), (second, 2)] = found[..] else { panic!("{found:?}") };
        note_sites(false);
        set_mutant(Some(Mutant { site: second, mutation: Mutation::Delay }));
        assert_eq!((both(), FIRED.get()), ((None, Some(Mutation::Delay)), 1));
        set_mutant(Some(Mutant { site: first, mutation: Mutation::Drop }));
        assert_eq!((both(), FIRED.get()), ((Some(Mutation::Drop), None), 1));
        let elsewhere = std::thread::spawn(move || flush()).join().unwrap();
        assert_eq!(elsewhere, None);
        set_mutant(None);
        assert_eq!((both(), FIRED.get()), ((None, None), 0));
    }

    #[test]
    fn a_mutant_of_a_lock_is_one_of_all_threads() {
        #[track_caller]
        fn lock() -> Option<Mutation> {
            reached(Kind::Lock, Location::caller())
        }
        let take = || lock();
        note_locks(true);
        take();
        let site = sites().into_keys().find(|site| site.kind == Kind::Lock && site.file == file!()).unwrap();
        set_mutant(Some(Mutant { site, mutation: Mutation::Drop }));
        assert_eq!(std::thread::spawn(take).join().unwrap(), Some(Mutation::Drop));
        set_mutant(None);
        note_locks(false);
        assert_eq!(std::thread::spawn(take).join().unwrap(), None);
    }
}
