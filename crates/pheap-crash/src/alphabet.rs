//! Which programs there are: the settings and operations that they are made of.

use crate::program::{Both, Change, One, Op, Program, Setting, Which};

/// The settings that programs are enumerated in.
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

/// The operations that programs are enumerated from. Operations that are the same in a setting are left out, and so are most on
/// the second root, which is like the first.
pub fn alphabet(setting: Setting) -> Vec<Op> {
    use Which::{A, B};
    let one = |ops: &[One], which| ops.iter().map(|&op| Op::One(op, which)).collect::<Vec<_>>();
    let others = |names: &[&str]| {
        names.iter().map(|name| name.parse().expect("it is an operation")).collect::<Vec<Op>>()
    };
    let Setting { empty, pin, full, swapped, eager, crashed, moved, wal, lazy, .. } = setting;
    if setting.is_short_of_room() {
        use One::{
            AbortFree, Cut, FreeBig, Grow, PopFree, Push, Replace, TooMuch, Waste, Without, WithoutLong,
        };
        let a = [Push, Cut, Waste, TooMuch, Without, WithoutLong, Replace];
        let mut ops = [one(&a, A), one(&[Waste, TooMuch], B), others(&["both-without", "collect"])].concat();
        if !pin && !crashed && !wal {
            ops.extend(one(&[PopFree, AbortFree, Grow, FreeBig], A));
            ops.extend(others(&["both-push", "close", "torn", "map-fill a", "vec-push a"]));
        }
        return ops;
    }
    if wal && !empty {
        use Change::{
            Checkpoint, Close, Collect, Convert, Create, Kill, Migrate, Move, Power, Relocate, Remove,
            Rename, SetAmid, Sync, Torn,
        };
        use One::{
            Abort, Big, Churn, Cut, Grow, Many, Pair, PopFree, Push, Replace, Set, Stuff, Weary, Wide,
        };
        let a = match setting {
            _ if moved => vec![Set, Push, PopFree, Grow],
            _ if eager || crashed => vec![Push, PopFree, Cut, Stuff, Replace, Churn],
            _ if full => vec![Set, Push, Big, Grow, Wide],
            _ if lazy => vec![Set, Push, Many, Grow],
            _ => vec![Set, Pair, Push, PopFree, Many, Weary, Big, Grow, Wide, Replace, Abort],
        };
        let changes = match setting {
            _ if moved => vec![Relocate, Move, Torn, Collect, Checkpoint],
            _ if eager || crashed => vec![Migrate, Collect, Checkpoint, Close, Torn, Convert],
            _ if lazy => vec![Sync, Checkpoint, SetAmid, Create, Close, Kill, Power, Torn],
            _ => {
                vec![Checkpoint, SetAmid, Create, Remove, Rename, Migrate, Close, Kill, Power, Torn, Convert]
            }
        };
        let both = [Both::Set, Both::Many, Both::Push].map(Op::Both);
        let changes = changes.into_iter().map(Op::Change).collect();
        let shelved = match setting {
            _ if moved => others(&["map-fill a"]),
            _ if eager || crashed => others(&["map-fill a", "map-churn a", "tree-fill a", "vec-push a"]),
            _ if full => others(&["map-fill a"]),
            _ if lazy => others(&["map-insert a", "map-clear a"]),
            _ => others(&["map-insert a", "map-remove a", "map-fill a", "map-abort a", "both-map"]),
        };
        return [one(&a, A), one(&[Set, Push], B), both.to_vec(), changes, shelved].concat();
    }
    if moved {
        let others = others(&[
            "migrate a",
            "collect",
            "ready",
            "both-push",
            "close",
            "torn",
            "relocate",
            "move",
            "map-fill a",
            "vec-push a",
        ]);
        return [one(&[One::Set, One::Push, One::PopFree, One::Grow, One::Many], A), others].concat();
    }
    if eager {
        use One::{
            AbortFree, Carry, Churn, Cut, Hold, LetGo, Many, PopFree, Push, Relink, Replace, Set, Stuff,
        };
        use One::{FreeBig, ReplaceFree, Unlink, Wide};
        let a = match (pin, crashed) {
            (false, false) => {
                vec![
                    Set, Push, PopFree, Cut, Hold, LetGo, Relink, Stuff, Replace, Unlink, Churn, AbortFree,
                    Many,
                ]
            }
            (true, _) => vec![Push, Cut, Hold, Relink, ReplaceFree, FreeBig, Wide, Churn],
            (_, true) => vec![Push, PopFree, Cut, Stuff, Carry, Replace, FreeBig, Churn],
        };
        let more = others(&[
            "migrate a",
            "collect",
            "both-push",
            "both-replace",
            "remove b",
            "close",
            "power",
            "torn",
        ]);
        let shelved = others(match (pin, crashed) {
            (false, false) => {
                &["map-fill a", "map-clear a", "tree-fill a", "tree-thin a", "vec-push a", "vec-grow a"]
            }
            (true, _) => &["map-insert a", "tree-fill a", "vec-grow a"],
            (_, true) => &["map-fill a", "tree-insert a", "vec-push a"],
        });
        return [one(&a, A), more, shelved].concat();
    }
    if swapped {
        let both =
            others(&["both", "both-many", "both-push", "both-abort", "both-map", "map-insert a", "power"]);
        return [one(&[One::Set, One::Push], A), one(&[One::Set, One::Push], B), both].concat();
    }
    if empty {
        return [others(&["create a", "create b", "both", "close", "kill", "power"]), one(&[One::Push], A)]
            .concat();
    }
    if full {
        return [
            one(&[One::Set, One::Push, One::Big, One::Grow, One::Wide, One::Burst], A),
            one(&[One::Set, One::Grow], B),
            others(&["both-many", "remove b", "create b", "migrate a", "power"]),
            others(&["shelve a", "map-fill a", "vec-grow a"]),
        ]
        .concat();
    }
    if pin {
        return [
            one(
                &[
                    One::Pair,
                    One::Bytes,
                    One::Push,
                    One::Pop,
                    One::Big,
                    One::Grow,
                    One::Wide,
                    One::Abort,
                    One::Panic,
                ],
                A,
            ),
            one(&[One::Set, One::Push], B),
            others(&[
                "both",
                "both-push",
                "both-abort",
                "remove b",
                "create b",
                "migrate a",
                "close",
                "kill",
                "torn",
            ]),
            others(&["map-insert a", "map-fill a", "tree-fill a", "vec-grow a", "map-panic a"]),
        ]
        .concat();
    }
    [
        one(
            &[
                One::Set,
                One::Pair,
                One::Bytes,
                One::Slice,
                One::Swap,
                One::Push,
                One::Pop,
                One::Many,
                One::Overlap,
                One::Widen,
                One::Weary,
                One::Big,
                One::Grow,
                One::Wide,
                One::Abort,
                One::AbortLong,
                One::Panic,
                One::Burst,
                One::Fill,
                One::PopFree,
                One::Replace,
            ],
            A,
        ),
        one(&[One::Set, One::Push, One::Many, One::Big], B),
        others(&[
            "both",
            "both-many",
            "both-push",
            "both-abort",
            "create b",
            "remove b",
            "rename b",
            "migrate a",
            "close",
            "kill",
            "power",
            "torn",
            "collect",
            "convert",
        ]),
        others(&[
            "shelve a",
            "map-insert a",
            "map-fill a",
            "map-set a",
            "map-remove a",
            "map-clear a",
            "tree-fill a",
            "tree-remove a",
            "tree-thin a",
            "vec-push a",
            "vec-grow a",
            "string-set a",
            "map-abort a",
            "map-panic a",
            "both-map",
        ]),
    ]
    .concat()
}

/// A few operations of each kind, for all programs of up to four of them: allocation, writes, growth, an abort, two roots, a collection, what
/// the collector and openings do; with a log on a disk, or without.
pub fn core(wal: bool) -> Vec<Op> {
    let names = [
        "set a",
        "push a",
        "pop a",
        "many a",
        "grow a",
        "abort a",
        "both",
        "map-insert a",
        "map-remove a",
        "collect",
        "kill",
        "relocate",
        "checkpoint",
    ];
    let names = &names[..names.len() - usize::from(!wal)];
    names.iter().map(|name| name.parse().expect("it is an operation")).collect()
}

/// All sensible programs of `len` operations in this setting.
pub fn all(setting: Setting, len: usize) -> impl Iterator<Item = Program> {
    programs(alphabet(setting), setting, len)
}

/// All sensible programs of `len` [core](core()) operations in this setting.
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
