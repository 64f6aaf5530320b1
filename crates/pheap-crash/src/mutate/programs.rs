//! The programs that should notice mutants.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::damage::{Damage, explore_copy};
use super::situations::Situation;
use crate::contention;
use crate::program::alphabet::{all as all_of, settings};
use crate::subset::Breadth;
use crate::{Explorer, Limits, Program};

/// How thoroughly programs are explored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// Few images.
    Quick,
    /// More images, and transactions on each recovered heap that is examined.
    Thorough,
    /// As thorough, with crashes in each recovery of a program.
    Deep,
    /// The limits named [wide](Limits::wide).
    Wide,
}

impl Effort {
    /// All efforts, in the order in which they are tried.
    pub const ALL: [Effort; 4] = [Effort::Quick, Effort::Thorough, Effort::Deep, Effort::Wide];

    /// Returns the limits of the exploration.
    pub fn limits(self) -> Limits {
        let thorough = Limits {
            breadth: Breadth { exhaustive: 5, corners: 5, random: 12 },
            nested: Breadth { exhaustive: 2, corners: 1, random: 2 },
            after_every: 1,
            deep_every: 16,
            ..Limits::thorough(1)
        };
        match self {
            Effort::Quick => Limits { deep_every: 16, ..Limits::quick(1) },
            Effort::Thorough => thorough,
            Effort::Deep => Limits { deep_every: 1, ..thorough },
            Effort::Wide => Limits::wide(1),
        }
    }
}

/// A test that fails if a mutant does harm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Case {
    /// A program for the explorer.
    Program(Program),
    /// Heaps with a wrong bit.
    Damage(Damage),
    /// A program whose newest header is damaged at the end.
    Copy(Program),
    /// A program whose recoveries are all explored.
    Deep(Program),
    /// Threads that meet at locks.
    Contention(usize),
    /// A situation.
    Situation(Situation),
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Case::Program(program) => program.fmt(f),
            Case::Damage(damage) => write!(f, "damage {}", damage.name()),
            Case::Copy(program) => write!(f, "header after {program}"),
            Case::Deep(program) => write!(f, "deep: {program}"),
            Case::Contention(number) => write!(f, "threads {}", contention::programs()[*number].0),
            Case::Situation(situation) => write!(f, "situation {}", situation.name()),
        }
    }
}

impl FromStr for Case {
    type Err = String;

    fn from_str(text: &str) -> Result<Case, String> {
        let number = |name| contention::programs().iter().position(|(other, _)| *other == name);
        let named = if let Some(name) = text.strip_prefix("situation ") {
            Situation::named(name).map(Case::Situation)
        } else if let Some(name) = text.strip_prefix("damage ") {
            Damage::named(name).map(Case::Damage)
        } else if let Some(name) = text.strip_prefix("threads ") {
            number(name).map(Case::Contention)
        } else if let Some(program) = text.strip_prefix("deep: ") {
            return Ok(Case::Deep(program.parse()?));
        } else if let Some(program) = text.strip_prefix("header after ") {
            return Ok(Case::Copy(program.parse()?));
        } else {
            return Ok(Case::Program(text.parse()?));
        };
        named.ok_or_else(|| format!("there is no {text:?}"))
    }
}

impl Case {
    /// Returns the rank in which the case is tried, the lowest first: quick cases made for mutants, then
    /// programs of several operations, which show more, then short programs, then failing calls and deep
    /// programs, then all others. `time` is the duration of the case.
    pub fn rank(&self, time: Duration) -> u8 {
        match self {
            Case::Damage(_) | Case::Situation(_) if time < Duration::from_millis(300) => 0,
            Case::Program(program) if program.failing.is_some() => 3,
            Case::Program(program) if program.ops.len() <= 1 => 2,
            Case::Program(_) => 1,
            Case::Copy(_) => 0,
            Case::Deep(_) => 3,
            _ => 4,
        }
    }

    /// Makes the initial heap, if the case has one. Must be called without a mutant. The returned function
    /// explores the case, and returns its failure.
    ///
    /// # Errors
    /// If the initial heap cannot be made.
    pub fn prepare(&self, effort: Effort, explorer: &Explorer) -> Result<Explore<'_>, String> {
        let anew = |limits| explorer.anew(limits);
        let explore = |mut explorer: Explorer, program| -> Explore<'_> {
            Box::new(move || explorer.explore(program, false).map_err(|failure| failure.to_string()))
        };
        Ok(match self {
            Case::Contention(number) => Box::new(contention::programs()[*number].1),
            Case::Program(program) => explore(anew(effort.limits()), program),
            Case::Deep(program) => explore(anew(Limits { deep_every: 1, ..effort.limits() }), program),
            Case::Copy(program) => {
                let explorer = anew(effort.limits());
                Box::new(move || explore_copy(program, &explorer))
            }
            Case::Damage(damage) => {
                let heap = damage.heap()?;
                Box::new(move || damage.explore(&heap))
            }
            Case::Situation(situation) => {
                let start = situation.start()?;
                Box::new(move || situation.explore(start))
            }
        })
    }
}

/// A function that explores a case.
pub type Explore<'c> = Box<dyn FnOnce() -> Result<(), String> + 'c>;

/// Programs of more than one operation. Some are from the tests, which explain them.
const LONGER: &[&str] = &[
    // In memory.
    "set a; set a",
    "set a; both",
    "set b; both",
    "both; set a",
    "both; set b",
    "set b; remove b",
    "set a; many a",
    "set a; close",
    "many a; set a",
    "pin: set a; set a",
    "big a; wide a",
    // The header of a closed heap may still be in caches.
    "big a; close",
    "grow a; wide a",
    "pin: grow a; wide a",
    "pin: grow a; wide a; wide a",
    "widen a; overlap a; widen a",
    "weary a; abort a; weary a",
    "abort-long a; push a",
    "pin: abort a; push a",
    "both-abort; both",
    "both-many; both-abort",
    "pin: both; both",
    "push b; remove b; create b",
    "stuff b; remove b; create b",
    "push b; remove b; power; create b",
    "push a; pop a; collect; stuff a",
    "push a; pop-free a; stuff a",
    "pin: push a; abort-free a; stuff a",
    "grow a; unlink-big a; collect; close",
    "grow a; unlink-big a; collect; push b; grow b",
    "grow a; free-big a; grow b",
    "grow a; unlink-big a; collect; power",
    // A span may take pages that several spans had before.
    "stuff a; stuff a; push b; push b; push b; push b; push b; stuff a; remove b; push a; push a; push a; push a",
    "wal: stuff b; stuff b; stuff a; stuff a; stuff a; replace b; replace b; remove b; push a; push a; push a; push a; push a",
    "wal: stuff b; stuff b; stuff a; stuff a; stuff a; remove b; push a; push a; push a; push a; push a; power",
    "fill a; both",
    "wal: grow a; unlink-big a; collect; power",
    "wal: grow a; free-big a; checkpoint; power",
    "eager: unlink-big a; churn a; remove b; churn a",
    "eager: push a; cut a; churn a",
    "close; replace a; torn; replace a",
    "burst b; remove b; create b; set b",
    "burst b; remove b; burst a",
    "remove b; burst a",
    "rename b; rename b",
    "rename b; remove b; create b",
    "pin: migrate a; set a",
    "swapped: both; migrate a; both",
    "empty: create b; create a",
    "empty: close; create a",
    "set a; set a; torn; set a",
    "burst a; torn; set a",
    "grow a; torn; grow a",
    "fill a; fill a",
    "full: grow a; wide a; set a",
    "push a; relocate; push a",
    "push a; push b; relocate; relocate; torn",
    "crashed moved: push a; relocate; churn a",
    "push a; push b; convert; set a; power",
    "pin: big a; wide a; convert; push a; convert; set a",
    // For bitmaps of live slots that an earlier close has stored.
    "replace a; close",
    "wal: replace a; close",
    "eager: collect; close; kill; push a; close",
    "eager: push a; close",
    "eager: cut a; close",
    "push a; close; push a; close",
    "eager: stuff a; close; pop-free a; close; power",
    "fill a; many a",
    "fill a; close",
    // For the bases that a heap has had before it moved.
    "crashed moved: close; push a",
    // On a disk.
    "wal eager: push a; close",
    "wal: push a; close; push a; close",
    "wal short: push a; remove b; create b; push b",
    "wal lazy: push a; remove b; create b; kill",
    "wal: set a; set a",
    "wal: push a; checkpoint; set a",
    "wal: remove b; checkpoint; create b; both",
    "wal: push a; checkpoint; push b",
    "wal: grow a; checkpoint; push a",
    "wal: checkpoint; checkpoint; close",
    "wal: push a; close; push a",
    "wal: push a; convert; push a; convert; push a; torn",
    "wal: big a; kill; checkpoint; power",
    "wal: push a; kill; push a; power",
    "wal: push a; relocate; push a; torn",
    "wal: migrate a; checkpoint; migrate a; push a",
    "wal: both-push; both-many; power",
    "wal: grow a; wide a; power",
    "wal: rename b; power; rename b",
    "wal: abort a; push a",
    "wal crashed: push a; checkpoint",
    "wal small: big a; wide a; checkpoint; wide a",
    "wal small: fill a; checkpoint; fill b; push a",
    "wal small: push a; fill b; fill b; fill b; fill b",
    "wal small: fill a; checkpoint; fill b; fill a; power",
    "wal small: push a; set-amid-checkpoint; push a",
    "wal eager: push a; cut a; churn a",
    // Large objects may lie where small ones of another root were.
    "wal: push b; push b; remove b; big a; big a; big a; big a; power",
    "wal lazy: set a; set b",
    "wal lazy: push a; sync; push b",
    "wal lazy: push a; checkpoint; push b",
    "wal lazy: push a; kill; push a; torn",
    "wal lazy small: fill a; torn",
    "wal lazy small: burst a; fill b; torn; set a",
    "wal lazy: fill a; fill b; stuff a; stuff a; stuff a; stuff a; stuff a; stuff a; stuff a; fill b",
];

/// Programs that write headers. At the end, each of the two header slots must have the same information.
const HEADERS: &[&str] = &[
    "kill",
    "close",
    "empty: kill",
    "empty: power",
    "empty: close",
    "grow a; power",
    "power",
    "wal: power",
    "wal empty: power",
    "wal: grow a; power",
    "wal: push a; relocate; power",
    "push a; convert; power",
    "grow a; kill",
    "crashed: kill",
    "crashed: relocate",
    "push a; move",
    "eager: relocate; close",
    "wal: kill",
    "wal: close",
    "wal empty: kill",
    "wal: grow a; kill",
    "wal: kill; push a; kill",
    "wal: push a; relocate",
    "wal: push a; convert",
];

/// Programs whose recoveries are all explored.
const DEEP: &[&str] = &[
    "close",
    "push a; close",
    "set a",
    "both",
    "many a",
    "pin: pair a",
    "push a",
    "grow a",
    "rename b",
    "set b; remove b",
    "remove b; create b",
    "stuff b; remove b; create b",
    "pin: remove b; create b",
    "push a; relocate",
    "push a; push b; convert; set a",
    "empty: create a",
    "crashed: push a",
    "wal: push a",
    "wal: grow a",
    "wal: both-push",
    "wal: remove b; create b",
    "wal lazy: push a; push b",
    "wal crashed moved: push a",
    "wal crashed: push a",
];

/// Operations that write to the log of a disk. Each runs after fewer than [`RECORDS`] short records, so that
/// its record lies at different places of a sector.
const ALIGNED: &[&str] =
    &["remove b", "remove b; create b", "rename b", "grow a", "create b", "migrate a", "collect"];
const RECORDS: usize = 8;

/// Programs on a disk. Each is tried with each of its calls failing, in one or two ways.
const FAILING: &[&str] = &[
    "wal: push a",
    "wal: push a; set a",
    "wal: push a; kill; push b",
    "wal: grow a; set a",
    "wal: push a; checkpoint; set a",
    "wal: remove b; create b",
    "wal: push a; close; set a",
    "wal lazy: push a; sync; push a",
    "wal empty: create a",
    "push a; convert; push a",
];

/// Returns all cases: programs of at most one operation in each setting, longer ones, programs with failing
/// calls, threads, situations and damaged heaps.
///
/// # Errors
/// If a program cannot be parsed, has an operation that has nothing to work on, or fails; or if the initial
/// heaps cannot be made.
pub fn all() -> Result<Vec<Case>, String> {
    let explorer = Explorer::new(Limits::quick(1))?;
    let mut programs: Vec<Program> =
        settings().into_iter().flat_map(|setting| all_of(setting, 0).chain(all_of(setting, 1))).collect();
    for text in LONGER {
        programs.push(text.parse()?);
    }
    for text in ALIGNED {
        for records in 0..RECORDS {
            let text = format!("wal: {}{text}", "set a; ".repeat(records));
            let text = if text.contains("create b") && !text.contains("remove") {
                text.replace("wal: ", "wal: remove b; ")
            } else {
                text.replace("collect", "push a; pop a; big a; big a; collect")
            };
            programs.push(text.parse()?);
        }
    }
    for text in FAILING {
        programs.extend(explorer.failing(&text.parse()?)?);
    }
    if let Some(odd) = programs.iter().find(|program| !program.is_sensible()) {
        return Err(format!("`{odd}` has an operation that has nothing to work on"));
    }
    let parsed = |texts: &[&str], of: fn(Program) -> Case| {
        texts.iter().map(|text| text.parse().map(of)).collect::<Result<Vec<Case>, String>>()
    };
    let others = Damage::ALL.iter().copied().map(Case::Damage);
    let others = others.chain(Situation::ALL.iter().copied().map(Case::Situation));
    let threads = (0..contention::programs().len()).map(Case::Contention);
    let programs = programs.into_iter().map(Case::Program).chain(threads);
    Ok(programs.chain(parsed(DEEP, Case::Deep)?).chain(others).chain(parsed(HEADERS, Case::Copy)?).collect())
}
