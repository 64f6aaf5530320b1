//! Relocations of a heap, with a crash at any moment. The heap that the crash leaves can be opened at the
//! first address, at the second, or at a third one, and holds the same.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use pheap::sim::disk::Which::Data;
use pheap::sim::disk::{Call, Fault};
use pheap::sim::{Bug, Sim, base};
use pheap::{Durability, Options};
use pheap_crash::Program;
use pheap_crash::image::Image;
use pheap_crash::medium::{Content, Medium, Moment, Snapshot};
use pheap_crash::model::State;
use pheap_crash::objects::{Handles, observe};
use pheap_crash::program::{One, Setting, Which};
use pheap_crash::run::{Run, catching, ready, run};
use pheap_crash::seeded::Seeded;
use pheap_crash::subset::{Breadth, subsets};
use pheap_testkit::Rng;

/// The tests copy images all the time. The C library's allocator may return the memory of each image to the
/// kernel at once.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Returns addresses for heaps. Runs of this thread make new heaps at the first.
fn bases() -> [u64; 6] {
    [0, 1, 2, 3, 4, 5].map(|number| base() - (number << 40))
}

/// An image that a crash has left, and its content.
type Left = (Vec<u64>, State);

struct Opened {
    state: State,
    /// The durable content after the opening.
    end: Vec<u64>,
    /// Some of the images that a crash during the opening can leave.
    crashes: Vec<Vec<u64>>,
}

/// Opens an image at `base`, and reads it. `breadth` limits the crashes at each point of the opening.
fn open(image: &[u64], base: u64, breadth: Breadth, seed: u64) -> Result<Opened, String> {
    let sim = Arc::new(Sim::new(image.to_vec()));
    let options = Options::new().arena_size(64 << 10).reserve(16 << 20).base(base);
    sim.acknowledge(0);
    let heap = catching(|| options.simulate(&sim).map_err(|error| format!("opening fails: {error}")))?;
    sim.acknowledge(1);
    let points = sim.take_points();
    let end = sim.durable();
    let state = catching(|| observe(&heap, &mut Handles::new()))?;
    catching(|| {
        drop(heap);
        Ok(())
    })?;
    if let Some(first) = sim.violations().first() {
        return Err(first.clone());
    }
    let mut crashes = Vec::new();
    let mut now = Image::new(image.to_vec());
    for (i, point) in points.iter().enumerate() {
        now.advance(point);
        let mut rng = Rng::new(&[seed, i as u64]);
        let _: ControlFlow<()> = subsets(&point.pending, Some(&point.order), breadth, &mut rng, |chosen| {
            crashes.push(now.with(&now.choose(&point.pending, chosen).0));
            ControlFlow::Continue(())
        });
    }
    Ok(Opened { state, end, crashes })
}

/// Returns images to begin with: some of those that crashes leave at the end of a program.
fn left_by(text: &str) -> Result<Vec<Left>, String> {
    let program: Program = text.parse()?;
    let trace = run(&program, &ready()?)?;
    let phase = trace.phases.last().ok_or("nothing has happened")?;
    let mut image = Image::new(phase.start.clone().words());
    let mut images = Vec::new();
    for (i, (point, _)) in phase.points.iter().enumerate() {
        let Moment::Memory(point) = point else { unreachable!("the heap is in memory") };
        image.advance(point);
        if i + 4 < phase.points.len() {
            continue;
        }
        for chosen in [vec![true; point.pending.len()], vec![false; point.pending.len()]] {
            images.push(image.with(&image.choose(&point.pending, &chosen).0));
        }
    }
    let none = Breadth { exhaustive: 0, corners: 0, random: 0 };
    images.into_iter().map(|image| Ok((image.clone(), open(&image, bases()[0], none, 0)?.state))).collect()
}

/// Opens the images at the second address, crashes on the way, opens what is left at several addresses, and
/// crashes some of these openings. Returns the number of openings after crashes.
fn explore(left: &[Left], breadth: Breadth) -> Result<usize, String> {
    let mut known = HashSet::new();
    let mut opened = 0;
    for (number, (image, state)) in left.iter().enumerate() {
        let number = number as u64;
        let first = open(image, bases()[1], breadth, number)?;
        check(state, &first.state, "at the second address")?;
        for (i, crashed) in first.crashes.iter().enumerate() {
            if !known.insert(crashed.clone()) {
                continue;
            }
            let few = Breadth { exhaustive: 1, corners: 0, random: 1 };
            for base in [bases()[2], bases()[1], bases()[0]] {
                opened += 1;
                let again = open(crashed, base, few, number)?;
                check(state, &again.state, "after a crash")?;
                if base == bases()[2] && i % 8 == 0 {
                    for (j, crashed) in again.crashes.iter().enumerate() {
                        opened += 1;
                        let base = [bases()[3], bases()[0], bases()[1], bases()[2]][j % 4];
                        let third = open(crashed, base, few, number)?;
                        check(state, &third.state, "after two crashes")?;
                    }
                }
                if i % 16 == 0 {
                    use_it(again.end, state)?;
                }
            }
        }
    }
    Ok(opened)
}

fn check(expected: &State, found: &State, when: &str) -> Result<(), String> {
    if expected == found {
        return Ok(());
    }
    Err(format!("{when}, the heap holds something else:\n{}", expected.difference(found)))
}

/// Runs transactions on a heap that has moved, cuts the power, and checks the heap.
fn use_it(image: Vec<u64>, state: &State) -> Result<(), String> {
    let mut run = Run::open(Setting::default(), Content::Memory(image, Vec::new()), Some(state.clone()), 2)?;
    for one in [One::Push, One::Set, One::Many, One::Push] {
        run.one_if_there(one, Which::A)?;
    }
    let (expected, end) = (run.state().clone(), run.durable());
    run.finish()?;
    Run::open(Setting::default(), end, Some(expected), 3).and_then(Run::finish).map(|_| ())
}

const BREADTH: Breadth = Breadth { exhaustive: 4, corners: 4, random: 8 };

/// Programs that leave various logs, one root or two, and large objects.
const PROGRAMS: [&str; 6] = [
    "push a; push a; push b",
    "push a; big a; wide a",
    "pin: push a; push b; both-push",
    "push b; grow a; push a",
    "push a; remove b",
    "push a; close",
];

#[test]
fn a_crash_at_any_moment_of_a_relocation_does_no_harm() {
    for program in PROGRAMS {
        let opened = left_by(program).and_then(|left| explore(&left, BREADTH));
        let opened = opened.unwrap_or_else(|error| panic!("{program}: {error}"));
        println!("{program}: {opened} openings");
        assert!(opened > 50, "there was hardly anything to explore");
    }
}

/// Relocations to more bases than a header can list.
#[test]
fn relocations_can_be_cut_short_again_and_again() {
    let left = left_by("push a; push b; both-push").unwrap();
    let mut listed = HashSet::new();
    for (number, (image, state)) in left.iter().enumerate() {
        let mut image = image.clone();
        for (i, base) in bases().into_iter().cycle().skip(1).take(20).enumerate() {
            let seed = (number * 100 + i) as u64;
            let opened = open(&image, base, Breadth { exhaustive: 1, corners: 1, random: 3 }, seed).unwrap();
            check(state, &opened.state, "after some crashes").unwrap();
            // A late crash of the opening, which may be in the middle of the pointers.
            image = opened.crashes[opened.crashes.len() * 3 / 4].clone();
            // The header's slots: words 2 (its number) and 9 (how many bases it lists).
            let newest = if image[2] > image[512 + 2] { 0 } else { 512 };
            listed.insert(image[newest + 9]);
        }
    }
    assert!(listed.contains(&4), "{listed:?}");
}

/// Returns an image whose header lists as many bases as it can, its content, and another base.
fn full_list() -> (Vec<u64>, State, u64) {
    let (mut image, state) = left_by("push a; push b; both-push").unwrap().swap_remove(0);
    for (i, base) in bases().into_iter().cycle().skip(1).take(20).enumerate() {
        let newest = if image[2] > image[512 + 2] { 0 } else { 512 };
        let (count, listed) = (image[newest + 9], &image[newest + 10..newest + 14]);
        if count == 4 && !listed.contains(&base) {
            return (image, state, base);
        }
        let opened = open(&image, base, Breadth { exhaustive: 1, corners: 1, random: 3 }, i as u64).unwrap();
        image = opened.crashes[opened.crashes.len() * 3 / 4].clone();
    }
    panic!("the list is never full");
}

/// The disk tears its writes. A sync fails, then the power fails, while one relocation follows another. One
/// of the headers must be whole at any time.
#[test]
fn a_disk_fails_while_relocations_are_completed() {
    let (image, state, base) = full_list();
    let content = Content::Memory(image, Vec::new()).on_disk();
    for durability in [Durability::Wal, Durability::Process] {
        let options = Options::new().arena_size(64 << 10).reserve(16 << 20).base(base).durability(durability);
        let mut openings = 0;
        for after in 0.. {
            let medium = Medium::new(content.clone());
            let fault = Fault { which: Data, call: Call::Datasync, after, times: 1, error: 5 };
            medium.spoil(Some(fault), false);
            let opened = catching(|| Ok(medium.open(&options))).unwrap();
            let (failed, points) = (medium.failed() > 0, medium.take_points());
            assert_eq!(opened.is_err(), failed, "{opened:?}");
            drop(opened);
            let mut now = Snapshot::new(content.clone());
            for (i, point) in points.iter().enumerate() {
                now.advance(point);
                let mut rng = Rng::new(&[after as u64, i as u64]);
                let _: ControlFlow<()> = point.subsets(BREADTH, &mut rng, |chosen| {
                    let left = Medium::new(now.left(point, chosen, false));
                    let opened = catching(|| match left.open(&options) {
                        // It was in use when the power failed.
                        Err(pheap::Error::NotClosed) if durability == Durability::Process => Ok(None),
                        Err(error) => Err(error.to_string()),
                        Ok(heap) => observe(&heap, &mut Handles::new()).map(Some),
                    });
                    let opened =
                        opened.unwrap_or_else(|e| panic!("{durability:?}, sync {after}, point {i}: {e}"));
                    opened.iter().for_each(|found| check(&state, found, "after that").unwrap());
                    openings += 1;
                    ControlFlow::Continue(())
                });
            }
            if !failed {
                break;
            }
        }
        println!("{durability:?}: {openings} openings");
        assert!(openings > 50, "there was hardly anything to explore");
    }
}

fn is_found(bug: Bug) {
    let left: Vec<Vec<Left>> = PROGRAMS.iter().map(|program| left_by(program).unwrap()).collect();
    let _seeded = Seeded::new(bug);
    let found = left.iter().find_map(|left| explore(left, BREADTH).err());
    println!("{bug:?}: {}", found.unwrap_or_else(|| panic!("{bug:?} is not found")));
}

macro_rules! found {
    ($($name:ident: $bug:ident,)*) => {$(
        #[test]
        fn $name() {
            is_found(Bug::$bug);
        }
    )*};
}

found! {
    a_list_that_shrinks_too_early: ShrinkBeforeMoved,
    a_log_that_is_replayed_over_pointers_that_have_moved: KeepGeneration,
}
