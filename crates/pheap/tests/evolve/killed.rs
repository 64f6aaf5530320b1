//! Kills each of two conversions (`kill -9`) again and again: 3 times, or `PHEAP_KILLS` times. They convert
//! 20,000 jobs, or `PHEAP_JOBS`.
//!
//! With `PHEAP_KILLS=100 PHEAP_JOBS=1000000`, for example, `cargo test --release -p pheap --test evolve
//! killed -- --nocapture` prints how long a conversion takes without kills.

use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use pheap::{
    Durability, Error, Heap, Migrate, Options, P, PHashMap, PSnapMap, PString, Persist, Plain, Result, Root,
};
use pheap_testkit::*;

type Jobs<'r, J> = PHashMap<'r, u64, P<'r, J>>;

#[derive(Persist)]
#[repr(C)]
#[persist(id = "Job")]
struct Old<'r> {
    id: u64,
    seconds: u64,
    name: PString<'r>,
    after: Option<P<'r, Old<'r>>>,
}

/// As large as before.
#[derive(Persist)]
#[repr(C)]
#[persist(id = "Job")]
struct Same<'r> {
    after: Option<P<'r, Same<'r>>>,
    id: u64,
    millis: f64,
    name: PString<'r>,
}

/// Larger.
#[derive(Persist)]
#[repr(C)]
#[persist(id = "Job")]
struct Larger<'r> {
    id: u64,
    millis: f64,
    name: PString<'r>,
    after: Option<P<'r, Larger<'r>>>,
    tags: [u32; 8],
}

/// An old job, except that its pointers lead to new jobs.
macro_rules! migrations {
    ($($old:ident => $new:ident { $($more:tt)* };)*) => {$(
        #[derive(Persist)]
        #[repr(C)]
        #[persist(id = "Job")]
        struct $old<'r> {
            id: u64,
            seconds: u64,
            name: PString<'r>,
            after: Option<P<'r, $new<'r>>>,
        }

        impl<'r> Migrate<$old<'r>> for $new<'r> {
            fn migrate(old: $old<'r>) -> Self {
                $new { id: old.id, millis: old.seconds as f64 * 1000.0, name: old.name, after: old.after, $($more)* }
            }
        }
    )*};
}

migrations! {
    BeforeSame => Same {};
    BeforeLarger => Larger { tags: [7; 8] };
}

/// A root of which versions are kept. Its values become as large ones, or larger ones.
type Stock<V> = PSnapMap<'static, u64, V>;

#[derive(Persist, Clone, Copy)]
#[repr(C)]
struct Amount(u64);

#[derive(Persist, Clone, Copy, Debug, PartialEq)]
#[repr(C)]
#[persist(was = "Amount")]
struct Weight(f64);

#[derive(Persist, Clone, Copy, Debug, PartialEq)]
#[repr(C)]
#[persist(was = "Amount")]
struct Weights([u64; 3]);

impl Migrate<Amount> for Weight {
    fn migrate(old: Amount) -> Self {
        Weight(old.0 as f64 / 4.0)
    }
}

impl Migrate<Amount> for Weights {
    fn migrate(old: Amount) -> Self {
        Weights([old.0, 2 * old.0, 7])
    }
}

fn number(name: &str, default: u64) -> u64 {
    env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

fn options() -> Options {
    Options::new().arena_size(16 * MIB).durability(Durability::Wal)
}

fn make(path: &Path, jobs: u64) -> Result<()> {
    let heap = options().open(path)?;
    let root: Root<Jobs<Old>> = heap.root("jobs")?;
    let stock: Root<Stock<Amount>> = heap.root("stock")?;
    let mut last = 0;
    while last < jobs {
        let next = jobs.min(last + 20_000);
        root.txn(|tx, root| {
            for id in last..next {
                let after = id.checked_sub(1).and_then(|before| tx[root].get(tx, &before).copied());
                let name = PString::from_str(tx, &format!("job {id}"))?;
                let job = tx.alloc(Old { id, seconds: 2 * id, name, after })?;
                root.insert(tx, id, job)?;
            }
            Ok(())
        })?;
        stock
            .txn(|tx, stock| (last..next).try_for_each(|id| stock.insert(tx, &id, &Amount(id)).map(drop)))?;
        last = next;
    }
    heap.close()
}

fn evolve(heap: &Heap, larger: bool) -> Result<bool> {
    Ok(match larger {
        false => {
            heap.evolve::<Stock<Weight>>("stock").with::<Amount, Weight>().run()?
                | heap.evolve::<Jobs<Same>>("jobs").with::<BeforeSame, Same>().run()?
        }
        true => {
            heap.evolve::<Stock<Weights>>("stock").with::<Amount, Weights>().run()?
                | heap.evolve::<Jobs<Larger>>("jobs").with::<BeforeLarger, Larger>().run()?
        }
    })
}

fn stock_holds<V>(heap: &Heap, jobs: u64, value: impl Fn(u64) -> V) -> Result<()>
where
    V: 'static + Plain + Copy + Send + Sync + for<'r> Persist<At<'r> = V> + PartialEq,
{
    heap.existing_root::<Stock<V>>("stock")?.durable_snapshot()?.read(|stock| {
        let found = stock.iter().map(|(id, value)| (*id, *value));
        assert!(found.eq((0..jobs).map(|id| (id, value(id)))), "something else is in stock");
    })
}

macro_rules! holds {
    ($heap:ident, $jobs:ident, $job:ident $(, $also:expr)?) => {
        $heap.existing_root::<Jobs<$job>>("jobs")?.read(|view, root| {
            assert_eq!(view[root].len() as u64, $jobs);
            let mut before = None;
            for id in 0..$jobs {
                let p = *view[root].get(view, &id).unwrap();
                let job = &view[p];
                assert_eq!((job.id, job.millis, job.after), (id, 2000.0 * id as f64, before));
                assert_eq!(job.name.as_str(view), format!("job {id}"));
                $(assert_eq!(job.tags, $also);)?
                before = Some(p);
            }
        })?
    };
}

fn holds(path: &Path, jobs: u64, larger: bool) -> Result<()> {
    let heap = options().verify(true).open(path)?;
    match larger {
        false => holds!(heap, jobs, Same),
        true => holds!(heap, jobs, Larger, [7; 8]),
    }
    match larger {
        false => stock_holds(&heap, jobs, |id| Weight::migrate(Amount(id)))?,
        true => stock_holds(&heap, jobs, |id| Weights::migrate(Amount(id)))?,
    }
    assert!(matches!(heap.root::<Jobs<Old>>("jobs"), Err(Error::TypeMismatch { .. })));
    let report = heap.check()?;
    assert!(report.is_clean(), "{report}");
    heap.close()
}

fn child(path: &Path, larger: bool) -> Child {
    let mut command = Command::new(env::current_exe().unwrap());
    let command = command.args(["killed::a_child", "--exact", "--quiet"]).env("PHEAP_CHILD", path);
    command.env("PHEAP_LARGER", u64::from(larger).to_string()).spawn().unwrap()
}

/// The process that the test kills.
#[test]
fn a_child() {
    let Some(path) = env::var_os("PHEAP_CHILD") else { return };
    let heap = options().open(path).unwrap();
    evolve(&heap, number("PHEAP_LARGER", 0) == 1).unwrap();
    heap.close().unwrap();
}

#[test]
fn again_and_again() -> Result<()> {
    let (jobs, kills) = (number("PHEAP_JOBS", 20_000), number("PHEAP_KILLS", 3));
    let dir = tempdir();
    let (original, path) = (dir.path().join("original"), dir.path().join("heap"));
    make(&original, jobs)?;
    for larger in [false, true] {
        let fresh = || fs::copy(&original, &path).unwrap();
        fresh();
        let heap = options().open(&path)?;
        let start = Instant::now();
        assert!(evolve(&heap, larger)?);
        let takes = start.elapsed();
        println!("{jobs} jobs, larger: {larger}: {takes:?}");
        heap.close()?;
        holds(&path, jobs, larger)?;
        fresh();
        let mut rng = Rng::new(&[7, u64::from(larger)]);
        let (mut killed, mut middle, mut finished) = (0, 0, 0);
        let mut limit = 1 + takes.as_micros() as u64 * 3 / 2;
        while killed < kills {
            let mut child = child(&path, larger);
            thread::sleep(Duration::from_micros(rng.below(limit as usize) as u64));
            if child.try_wait().unwrap().is_some() {
                finished += 1;
                // The first one may have waited long for a busy disk.
                limit = limit * 3 / 4 + 1;
                holds(&path, jobs, larger)?;
                fresh();
                continue;
            }
            child.kill().unwrap();
            child.wait().unwrap();
            killed += 1;
            let heap = options().read_only(true).open(&path)?;
            let jobs = matches!(heap.existing_root::<Jobs<Same>>("jobs"), Err(Error::Unfinished { .. }));
            let stock = matches!(heap.existing_root::<Stock<Weight>>("stock"), Err(Error::Unfinished { .. }));
            middle += u64::from(jobs || stock);
        }
        assert!(child(&path, larger).wait().unwrap().success());
        holds(&path, jobs, larger)?;
        println!(
            "killed {killed} times, {middle} in the middle; {} conversions came to an end",
            finished + 1
        );
        let _ = fs::remove_file(dir.path().join("heap.wal"));
    }
    Ok(())
}
