//! The alphabets of programs: the settings and operations that they consist of.

use super::{Change, Op, Program, Setting};

/// Returns the settings that programs are enumerated in.
pub fn settings() -> [Setting; 22] {
    let setting = Setting::default();
    let wal = Setting { wal: true, ..setting };
    [
        setting,
        Setting { pin: true, ..setting },
        Setting { full: true, ..setting },
        Setting { empty: true, ..setting },
        Setting { swapped: true, ..setting },
        Setting { eager: true, ..setting },
        Setting { eager: true, pin: true, ..setting },
        Setting { eager: true, crashed: true, ..setting },
        Setting { crashed: true, moved: true, ..setting },
        Setting { eager: true, full: true, ..setting },
        Setting { eager: true, full: true, pin: true, ..setting },
        Setting { crashed: true, full: true, ..setting },
        wal,
        Setting { lazy: true, ..wal },
        Setting { small: true, ..wal },
        Setting { empty: true, ..wal },
        Setting { full: true, small: true, ..wal },
        Setting { eager: true, ..wal },
        Setting { eager: true, full: true, ..wal },
        Setting { crashed: true, ..wal },
        Setting { crashed: true, moved: true, ..wal },
        Setting { lazy: true, small: true, short: true, ..wal },
    ]
}

/// Parses groups of operations. In `a: push pop; b: set; both close`, each word is an operation, on the root
/// of its group if it has one.
fn ops(text: &str) -> Vec<Op> {
    let of_group = |group: &str| {
        let (root, names) = group.split_once(':').unwrap_or(("", group));
        let op = |name| format!("{name} {root}", root = root.trim()).parse().expect("it is an operation");
        names.split_whitespace().map(op).collect::<Vec<Op>>()
    };
    text.split(';').flat_map(of_group).collect()
}

/// Returns the operations that programs of this setting are enumerated from. Many operations are left out
/// that another setting has, and most of those on the second root, because they are like those on the first.
pub fn alphabet(setting: Setting) -> Vec<Op> {
    let Setting { empty, pin, full, swapped, eager, crashed, moved, wal, lazy, .. } = setting;
    if setting.is_short_of_room() {
        let few = "a: push cut waste too-much without without-long replace; b: waste too-much; both-without collect";
        let more = if pin || crashed || wal {
            ""
        } else {
            "; a: pop-free abort-free grow free-big; both-push close torn; a: map-fill vec-push"
        };
        return ops(&format!("{few}{more}"));
    }
    if wal && !empty {
        let (a, shelved) = match setting {
            _ if moved => ("set push pop-free grow", "map-fill"),
            _ if eager || crashed => {
                ("push pop-free cut stuff replace churn", "map-fill map-churn tree-fill vec-push")
            }
            _ if full => ("set push big grow wide", "map-fill"),
            _ if lazy => ("set push many grow", "map-insert map-clear"),
            _ => (
                "set pair push pop-free many weary big grow wide replace nest-long abort",
                "map-insert map-remove map-fill map-abort; both-map three",
            ),
        };
        let changes = match setting {
            _ if moved => "relocate move torn collect checkpoint",
            _ if eager || crashed => "; a: migrate; collect checkpoint close torn convert",
            _ if lazy => "sync checkpoint set-amid-checkpoint; a: defer; b: create; close kill power torn",
            _ => {
                "checkpoint set-amid-checkpoint; b: create remove rename; a: defer migrate; close kill power torn convert"
            }
        };
        return ops(&format!("a: {a}; b: set push; both both-many both-push; {changes}; a: {shelved}"));
    }
    if moved {
        return ops(
            "a: set push pop-free grow many migrate; collect ready both-push close torn relocate move; \
                    a: map-fill vec-push",
        );
    }
    if eager {
        let (a, shelved) = match (pin, crashed) {
            (false, false) => (
                "set push pop-free cut hold let-go relink stuff replace nest unlink-big churn abort-free many",
                "map-fill map-clear tree-fill tree-thin snap-fill snap-thin vec-push vec-grow",
            ),
            (true, _) => {
                ("push cut hold relink replace-free free-big wide churn", "map-insert tree-fill vec-grow")
            }
            (_, true) => {
                ("push pop-free cut stuff carry replace free-big churn", "map-fill tree-insert vec-push")
            }
        };
        let more = "migrate; collect both-push both-replace; b: remove; close power torn";
        return ops(&format!("a: {a} {more}; a: {shelved}"));
    }
    ops(if swapped {
        "a: set push; b: set push; both both-many both-push both-abort both-map three last; a: map-insert; power"
    } else if empty {
        "a: create; b: create; both close kill power; a: push"
    } else if full {
        "a: set push big grow wide burst; b: set grow; both-many; b: remove create; a: migrate; power; \
         a: shelve map-fill vec-grow"
    } else if pin {
        "a: pair bytes push pop big grow wide nest abort panic; b: set push; both both-push both-abort three; \
         b: remove create; a: migrate; close kill torn; a: map-insert map-fill tree-fill vec-grow map-panic"
    } else {
        "a: set pair bytes slice swap push pop many overlap widen weary big grow wide nest nest-long abort abort-long panic \
            burst fill pop-free replace; \
         b: set push many big; both both-many both-push both-big both-abort three last; b: create remove rename; a: migrate; \
         close kill power torn collect convert; \
         a: shelve map-insert map-fill map-set map-remove map-clear tree-fill tree-remove tree-thin \
            snap-insert snap-fill snap-thin vec-push vec-grow string-set map-abort map-panic map-nest; both-map"
    })
}

/// Returns a few operations of many kinds, so few that all programs of up to four of them can be explored:
/// allocations, writes, growth, an abort, two roots, a collection, and openings. `wal` adds a checkpoint.
pub fn core(wal: bool) -> Vec<Op> {
    let mut all =
        ops("a: set push pop many grow abort; both; a: map-insert map-remove; collect kill relocate");
    all.extend(wal.then_some(Op::Change(Change::Checkpoint)));
    all
}

/// Returns all sensible programs of `len` operations of the setting's alphabet.
pub fn all(setting: Setting, len: usize) -> impl Iterator<Item = Program> {
    programs(alphabet(setting), setting, len)
}

/// Returns all sensible programs of `len` [core](core()) operations in this setting.
pub fn core_programs(setting: Setting, len: usize) -> impl Iterator<Item = Program> {
    programs(core(setting.wal), setting, len)
}

fn programs(alphabet: Vec<Op>, setting: Setting, len: usize) -> impl Iterator<Item = Program> {
    (0..alphabet.len().pow(len as u32)).filter_map(move |number| {
        let mut number = number;
        let mut ops = vec![alphabet[0]; len];
        for op in ops.iter_mut().rev() {
            *op = alphabet[number % alphabet.len()];
            number /= alphabet.len();
        }
        let program = Program { setting, failing: None, ops };
        program.is_sensible().then_some(program)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::{Both, One, Shelved, Which};

    /// Enumerated, random and fuzzed programs have only operations of an alphabet, on either root. An
    /// operation that is in none would run only in programs that are given as text.
    #[test]
    fn each_operation_is_in_an_alphabet() {
        // The root does not matter.
        let of_a = |op| match op {
            Op::One(one, _) => Op::One(one, Which::A),
            op => op,
        };
        let known: Vec<Op> = settings().into_iter().flat_map(alphabet).map(of_a).collect();
        let shelved = Shelved::ALL.iter().map(|&what| One::Shelved(what));
        let one = One::ALL.iter().copied().chain(shelved).map(|one| Op::One(one, Which::A));
        let both = Both::ALL.iter().map(|&both| Op::Both(both));
        let change = Change::ALL.iter().map(|&change| Op::Change(change));
        let missing: Vec<String> =
            one.chain(both).chain(change).filter(|op| !known.contains(op)).map(|op| op.to_string()).collect();
        assert!(missing.is_empty(), "in no alphabet: {}", missing.join(", "));
    }
}
