//! The schedule: the programs in the order in which they are explored. It depends on the seed only, so a run
//! can continue where another one stopped.

use std::fmt::Write;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::{fs, io};

use crate::Limits;
use crate::program::alphabet::{all, alphabet, core, core_programs, settings};
use crate::program::{Program, Setting};
use pheap_testkit::Rng;

/// A set of programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// All sensible programs with this number of operations, in all settings, each with its alphabet.
    All(usize),
    /// All sensible programs with this number of operations of the [core alphabet](core()), in memory and on
    /// a disk.
    Core(usize),
    /// Random programs of three to eight operations, without end.
    Random,
}

/// Number of failing calls that are tried for a program on a disk, each in a separate program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Faults {
    /// All of them.
    All,
    /// This number of them.
    Some(usize),
    /// One of them, in one of this number of programs on average.
    OneIn(usize),
}

/// A set of programs, and the limits of their exploration.
#[derive(Debug, Clone, Copy)]
pub struct Stage {
    /// The set of programs.
    pub kind: Kind,
    /// The limits, by seed.
    pub limits: fn(u64) -> Limits,
    /// The failing calls of each program.
    pub faults: Faults,
}

/// The stages: short programs first, then longer ones with fewer images, then some of them with more.
pub const STAGES: [Stage; 10] = [
    Stage { kind: Kind::All(0), limits: Limits::thorough, faults: Faults::All },
    Stage { kind: Kind::Core(1), limits: Limits::thorough, faults: Faults::All },
    Stage { kind: Kind::All(1), limits: Limits::thorough, faults: Faults::Some(4) },
    Stage { kind: Kind::Core(2), limits: Limits::thorough, faults: Faults::OneIn(4) },
    Stage { kind: Kind::Core(3), limits: Limits::quick, faults: Faults::OneIn(8) },
    Stage { kind: Kind::Core(4), limits: Limits::quick, faults: Faults::OneIn(16) },
    Stage { kind: Kind::All(2), limits: Limits::wide, faults: Faults::OneIn(4) },
    Stage { kind: Kind::Core(3), limits: Limits::wide, faults: Faults::OneIn(8) },
    Stage { kind: Kind::All(2), limits: Limits::thorough, faults: Faults::OneIn(1) },
    Stage { kind: Kind::Random, limits: Limits::quick, faults: Faults::OneIn(4) },
];

/// A place in the schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Place {
    /// Number of the stage.
    pub stage: usize,
    /// Number of the program in the stage.
    pub program: usize,
}

impl Place {
    /// Reads the place from a file. Returns `None` if the file cannot be read, has no place, or belongs to
    /// another schedule.
    pub fn read(path: &Path, fingerprint: u64) -> Option<Place> {
        let text = fs::read_to_string(path).ok()?;
        let numbers: Vec<u64> = text.split_whitespace().map_while(|word| word.parse().ok()).collect();
        let &[of, stage, program] = &numbers[..] else { return None };
        (of == fingerprint).then_some(Place { stage: stage as usize, program: program as usize })
    }

    /// Writes the place to a file, so that another run can continue there. Makes its folder if necessary.
    ///
    /// # Errors
    /// As for [`fs::create_dir_all`] and [`fs::write`].
    pub fn write(self, path: &Path, fingerprint: u64) -> io::Result<()> {
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::write(path, format!("{fingerprint} {} {}\n", self.stage, self.program))
    }
}

impl Stage {
    /// Returns the programs of the stage, shuffled by the seed, so that many kinds of programs come early.
    /// Empty for an endless stage.
    pub fn programs(&self, seed: u64) -> Vec<Program> {
        let plain = Setting::default();
        let mut programs: Vec<Program> = match self.kind {
            Kind::All(len) => settings().into_iter().flat_map(|setting| all(setting, len)).collect(),
            Kind::Core(len) => {
                let settings = [plain, Setting { wal: true, ..plain }];
                settings.into_iter().flat_map(|setting| core_programs(setting, len)).collect()
            }
            Kind::Random => Vec::new(),
        };
        let mut rng = Rng::new(&[seed, programs.len() as u64]);
        for i in (1..programs.len()).rev() {
            programs.swap(i, rng.below(i + 1));
        }
        programs
    }

    /// Returns a program of the endless stage.
    pub fn random(seed: u64, number: usize) -> Program {
        let mut rng = Rng::new(&[seed, 0x9a4d, number as u64]);
        let settings = settings();
        let plain_on_disk = settings.iter().position(|setting| setting.wal).unwrap_or(0);
        loop {
            let any = |rng: &mut Rng| settings[rng.below(settings.len())];
            // Half of the attempts have no setting or only a log, one in eight combines two settings, and one
            // in eight combines one with a used heap of limited size.
            let setting = match rng.below(8) {
                0..2 => settings[0],
                2..4 => settings[plain_on_disk],
                4 => any(&mut rng).and(any(&mut rng)).unwrap_or_default(),
                5 => {
                    let short: Vec<_> =
                        settings.iter().filter(|setting| setting.is_short_of_room()).collect();
                    any(&mut rng).and(*short[rng.below(short.len())]).unwrap_or_default()
                }
                _ => any(&mut rng),
            };
            let (len, ops) = (3 + rng.below(6), alphabet(setting));
            let ops = (0..len).map(|_| ops[rng.below(ops.len())]).collect();
            let program = Program { setting, failing: None, ops };
            if program.is_sensible() {
                return program;
            }
        }
    }
}

/// Returns a hash of what the schedule is made from. Places are only valid in the same schedule.
pub fn fingerprint(seed: u64) -> u64 {
    let mut text = String::new();
    for setting in settings() {
        write!(text, "{setting:?} {:?}", alphabet(setting)).expect("strings take everything");
    }
    for stage in STAGES {
        write!(text, "{:?} {:?} {:?}", stage.kind, stage.faults, (stage.limits)(seed)).expect("as above");
    }
    write!(text, "{:?} {:?}", core(false), core(true)).expect("as above");
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn a_stage_has_each_of_its_programs_once() {
        let stage = Stage { kind: Kind::Core(2), limits: Limits::quick, faults: Faults::All };
        let (programs, others) = (stage.programs(1), stage.programs(2));
        assert_eq!(programs, stage.programs(1));
        assert_ne!(programs, others);
        let set: HashSet<&Program> = programs.iter().collect();
        assert_eq!((set.len(), set), (programs.len(), others.iter().collect()));
    }

    #[test]
    fn progress_comes_back_for_the_same_schedule() {
        let folder = pheap_testkit::tempdir();
        let path = folder.path().join("new/file");
        let place = Place { stage: 2, program: 30 };
        assert_eq!(Place::read(&path, 7), None);
        place.write(&path, 7).unwrap();
        assert_eq!(Place::read(&path, 7), Some(place));
        assert_eq!(Place::read(&path, 8), None);
    }

    #[test]
    fn another_seed_is_another_schedule() {
        assert_ne!(fingerprint(1), fingerprint(2));
        assert_eq!(Stage::random(1, 5), Stage::random(1, 5));
        assert!((0..50).all(|i| Stage::random(1, i).is_sensible()));
    }
}
