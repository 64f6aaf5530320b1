//! Mutations of scripts.

use super::script::{is_repeated, opened};
use super::{Crash, Keep, Mask, Script};
use crate::fault::Failing;
use crate::program::alphabet::{alphabet, settings};
use crate::program::{Op, Program, Setting, Which};
use pheap_testkit::Rng;

/// The parts that scripts are made of.
#[derive(Debug)]
pub struct Words {
    /// The operations of all alphabets, on either root. Those that a script can have only once are here once,
    /// all others more often.
    ops: Vec<Op>,
    settings: Vec<Setting>,
    failing: Vec<Failing>,
}

impl Default for Words {
    fn default() -> Words {
        Words::new()
    }
}

impl Words {
    /// Collects all parts.
    pub fn new() -> Words {
        let mut ops: Vec<Op> = Vec::new();
        for op in settings().into_iter().flat_map(alphabet) {
            let both = match op {
                Op::One(one, _) => vec![Op::One(one, Which::A), Op::One(one, Which::B)],
                op => vec![op],
            };
            both.into_iter().for_each(|op| {
                if !ops.contains(&op) {
                    ops.push(op)
                }
            });
        }
        let short: Vec<Op> = ops.iter().copied().filter(|op| !is_repeated(*op)).collect();
        ops.extend(short.repeat(7));
        let mut settings = settings().to_vec();
        // And each of their flags alone.
        let text: String =
            settings.iter().map(|&setting| Program { setting, ..Program::default() }.to_string()).collect();
        for word in text.split([' ', ':']).filter(|word| !word.is_empty()) {
            let alone = format!("{word}:").parse::<Program>().expect("it is the name of a flag").setting;
            if !settings.contains(&alone) {
                settings.push(alone);
            }
        }
        let failing = Failing::all(|_, _| 8);
        Words { ops, settings, failing }
    }
}

/// Returns a random element of a slice that is not empty.
fn one_of<T: Clone>(all: &[T], rng: &mut Rng) -> T {
    all[rng.below(all.len())].clone()
}

impl Script {
    /// Changes a random part of the script. The result may equal the old script.
    pub fn mutate(&mut self, words: &Words, rng: &mut Rng) {
        match rng.below(8) {
            0..3 => change(&mut self.program, words, Script::OPS, rng),
            3 if self.crashes.len() < Script::CRASHES => {
                let at = rng.below(self.crashes.len() + 1);
                let new = new_crash(self, at, words, rng);
                self.crashes.insert(at, new);
            }
            4 if self.crashes.len() > 1 => {
                let at = rng.below(self.crashes.len());
                self.crashes.remove(at);
            }
            _ if self.crashes.is_empty() => {
                let new = new_crash(self, 0, words, rng);
                self.crashes.push(new);
            }
            _ => {
                let at = rng.below(self.crashes.len());
                let crash = &mut self.crashes[at];
                match rng.below(8) {
                    0..3 => crash.at = near(crash.at, rng),
                    3..6 => change_keep(&mut crash.keep, rng),
                    6 => {
                        change(&mut crash.then, words, Script::THEN, rng);
                        crash.then.setting = opened(crash.then.setting);
                    }
                    _ => crash.depth = rng.below(Script::DEPTH),
                }
            }
        }
        self.settle();
    }

    /// Returns the beginning of this script with the end of another one.
    pub fn cross(&self, other: &Script, rng: &mut Rng) -> Script {
        let mut new = self.clone();
        if rng.chance(128) {
            let (from, to) = (rng.below(self.program.ops.len() + 1), rng.below(other.program.ops.len() + 1));
            new.program.ops.truncate(from);
            new.program.ops.extend_from_slice(&other.program.ops[to..]);
        }
        let (from, to) = (rng.below(self.crashes.len() + 1), rng.below(other.crashes.len() + 1));
        new.crashes.truncate(from);
        new.crashes.extend_from_slice(&other.crashes[to..]);
        new.settle();
        new
    }
}

fn change(program: &mut Program, words: &Words, most: usize, rng: &mut Rng) {
    let ops = &mut program.ops;
    match rng.below(10) {
        0..4 if ops.len() < most => ops.insert(rng.below(ops.len() + 1), one_of(&words.ops, rng)),
        4..6 if !ops.is_empty() => {
            let at = rng.below(ops.len());
            ops[at] = one_of(&words.ops, rng);
        }
        6 if ops.len() > 1 => {
            ops.remove(rng.below(ops.len()));
        }
        7 if ops.len() > 1 => {
            let (a, b) = (rng.below(ops.len()), rng.below(ops.len()));
            ops.swap(a, b);
        }
        8 => program.setting = one_of(&words.settings, rng),
        9 if program.failing.is_none() => program.failing = Some(one_of(&words.failing, rng)),
        9 => program.failing = None,
        _ if ops.is_empty() => ops.push(one_of(&words.ops, rng)),
        _ => {
            let op = one_of(ops, rng);
            let at = rng.below(ops.len());
            ops.insert(at, op);
        }
    }
}

fn new_crash(script: &Script, at: usize, words: &Words, rng: &mut Rng) -> Crash {
    let mut then = Program::default();
    if rng.chance(128) {
        then.setting = opened(one_of(&words.settings, rng));
    }
    (0..rng.below(Script::THEN + 1)).for_each(|_| then.ops.push(one_of(&words.ops, rng)));
    let mut keep = Keep::None;
    change_keep(&mut keep, rng);
    let before = at.checked_sub(1).map(|before| &script.crashes[before]);
    let depth = before.map_or(0, |crash| crash.depth + rng.below(2));
    // Most recoveries have fewer points than programs.
    Crash { depth, at: rng.below(if depth == 0 { 64 } else { 16 }), keep, then }
}

fn near(n: usize, rng: &mut Rng) -> usize {
    match rng.below(4) {
        0 => n.saturating_add(1),
        1 => n.saturating_sub(1),
        2 => rng.below(16),
        _ => rng.below(256),
    }
}

fn change_keep(keep: &mut Keep, rng: &mut Rng) {
    match keep {
        Keep::Only(n) | Keep::But(n) | Keep::First(n) | Keep::Kill(n) if rng.chance(160) => {
            *n = near(*n, rng)
        }
        Keep::Mask(mask) | Keep::Groups(mask) if rng.chance(200) => {
            let digits = &mut mask.digits;
            match rng.below(4) {
                0 if digits.len() < Mask::MAX => digits.push(rng.below(16) as u8),
                1 if digits.len() > 1 => {
                    digits.pop();
                }
                _ if !digits.is_empty() => {
                    let at = rng.below(digits.len());
                    digits[at] ^= 1 << rng.below(4);
                }
                _ => digits.push(1),
            }
        }
        _ => {
            let mask =
                |rng: &mut Rng| Mask { digits: (0..=rng.below(16)).map(|_| rng.below(16) as u8).collect() };
            let n = near(0, rng);
            *keep = match rng.below(8) {
                0 => Keep::None,
                1 => Keep::All,
                2 => Keep::Only(n),
                3 => Keep::But(n),
                4 => Keep::First(n),
                5 => Keep::Mask(mask(rng)),
                6 => Keep::Groups(mask(rng)),
                _ => Keep::Kill(n),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mutated_scripts_are_scripts() {
        let words = Words::new();
        let mut rng = Rng::new(&[3]);
        let mut scripts = vec![Script::default(), Script::parse("wal: push a\nat 3 mask 5\n> at 1 all")];
        // Enough for the rare operations to come up.
        for _ in 0..80_000 {
            let mut script = one_of(&scripts, &mut rng);
            if rng.chance(32) {
                script = script.cross(&one_of(&scripts, &mut rng), &mut rng);
            } else {
                script.mutate(&words, &mut rng);
            }
            assert_eq!(Script::parse(&script.to_string()), script);
            scripts.push(script);
        }
        // All operations can come up.
        for op in &words.ops {
            assert!(scripts.iter().any(|script| script.program.ops.contains(op)), "{op}");
        }
        for depth in 0..Script::DEPTH {
            assert!(scripts.iter().any(|script| script.crashes.iter().any(|crash| crash.depth == depth)));
        }
        let failing = |program: &Program| program.failing.is_some();
        assert!(scripts.iter().any(|script| failing(&script.program)));
        assert!(scripts.iter().any(|script| script.crashes.iter().any(|crash| failing(&crash.then))));
    }
}
