//! Programs in which each operation has something to work on.

use super::{Both, Change, One, Op, Program, Setting, Shelved, THIN, USED, filled_map, filled_tree};

/// The facts about a heap that decide whether an operation has something to work on. Each array has an
/// element for each of the first two roots.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Shape {
    pub(crate) exists: [bool; 2],
    pub(crate) listed: [usize; 2],
    pub(crate) big: [bool; 2],
    pub(crate) held: [bool; 2],
    /// Number of keys in the hash maps.
    pub(crate) mapped: [usize; 2],
    pub(crate) sorted: [usize; 2],
    pub(crate) versioned: [usize; 2],
}

impl Shape {
    fn start(setting: Setting) -> Shape {
        let used = setting.is_used();
        Shape {
            exists: [!setting.empty; 2],
            listed: if used { USED } else { [0; 2] },
            big: [used, false],
            ..Shape::default()
        }
    }

    /// Returns the shape of the heap after `op`, if `op` succeeds. Returns `None` if `op` has nothing to work
    /// on.
    pub(crate) fn after(mut self, op: Op) -> Option<Shape> {
        match op {
            Op::One(one, which) => {
                let i = which as usize;
                if !self.exists[i] {
                    return None;
                }
                match one {
                    One::Push | One::Without | One::WithoutLong | One::Nest | One::NestLong => {
                        self.listed[i] += 1
                    }
                    One::Pop | One::PopFree | One::Cut => self.listed[i] = self.listed[i].checked_sub(1)?,
                    One::Hold => (self.listed[i], self.held[i]) = (self.listed[i].checked_sub(1)?, true),
                    One::LetGo | One::Relink if !self.held[i] => return None,
                    One::LetGo => self.held[i] = false,
                    One::Relink => self.listed[i] = 2,
                    One::Stuff => self.listed[i] += 5,
                    One::AbortFree | One::Carry if self.listed[i] == 0 => return None,
                    One::Carry => (self.listed[i], self.big[i]) = (self.listed[i] + 1, true),
                    One::Big | One::Grow | One::Fill => self.big[i] = true,
                    One::Wide | One::Unlink | One::FreeBig if !self.big[i] => return None,
                    One::Unlink | One::FreeBig => self.big[i] = false,
                    One::Shelved(what) => return self.after_shelved(what, i),
                    _ => {}
                }
            }
            Op::Both(_) if self.exists != [true; 2] => return None,
            Op::Both(Both::Big) => self.big[0] = true,
            Op::Both(Both::Push | Both::Without) => self.listed = self.listed.map(|n| n + 1),
            Op::Both(Both::Map) => self.mapped = [self.mapped[0] + 1, self.mapped[1] + 2],
            Op::Both(_) => {}
            Op::Change(Change::CreateA) if self.exists[0] => return None,
            Op::Change(Change::CreateA) => self.exists[0] = true,
            Op::Change(Change::Create) if self.exists[1] => return None,
            Op::Change(Change::Create) => self.exists[1] = true,
            Op::Change(Change::Remove | Change::Rename) if !self.exists[1] => return None,
            Op::Change(Change::Remove) => {
                (self.exists[1], self.listed[1], self.big[1], self.held[1]) = (false, 0, false, false);
                (self.mapped[1], self.sorted[1], self.versioned[1]) = (0, 0, 0);
            }
            Op::Change(
                Change::Close
                | Change::Kill
                | Change::Power
                | Change::Torn
                | Change::Relocate
                | Change::Move
                | Change::Convert,
            ) => self.held = [false; 2],
            Op::Change(Change::SetAmid | Change::Migrate | Change::Defer) if !self.exists[0] => return None,
            Op::Change(_) => {}
        }
        Some(self)
    }

    fn after_shelved(mut self, what: Shelved, i: usize) -> Option<Shape> {
        match what {
            Shelved::MapInsert => self.mapped[i] += 1,
            Shelved::MapChurn => self.mapped[i] = filled_map(0) + 1,
            Shelved::MapFill => self.mapped[i] = filled_map(self.mapped[i]),
            Shelved::MapSet | Shelved::MapClear if self.mapped[i] == 0 => return None,
            Shelved::MapRemove => self.mapped[i] = self.mapped[i].checked_sub(1)?,
            Shelved::MapClear => self.mapped[i] = 0,
            Shelved::TreeInsert => self.sorted[i] += 1,
            Shelved::TreeFill => self.sorted[i] = filled_tree(self.sorted[i]),
            Shelved::TreeRemove => self.sorted[i] = self.sorted[i].checked_sub(1)?,
            Shelved::TreeThin if self.sorted[i] <= THIN => return None,
            Shelved::TreeThin => self.sorted[i] = THIN,
            Shelved::SnapInsert => self.versioned[i] += 1,
            Shelved::MapNest => self.versioned[i] += 3,
            Shelved::SnapFill => self.versioned[i] = filled_tree(self.versioned[i]),
            Shelved::SnapThin if self.versioned[i] <= THIN => return None,
            Shelved::SnapThin => self.versioned[i] = THIN,
            _ => {}
        }
        Some(self)
    }
}

impl Program {
    /// Returns whether each operation has something to work on, if those before it succeed: its roots exist,
    /// its lists have nodes, its maps have keys, and so on.
    pub fn is_sensible(&self) -> bool {
        let shape = self.ops.iter().try_fold(Shape::start(self.setting), |shape, &op| shape.after(op));
        shape.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_make_sense() {
        let sensible = |text: &str| text.parse::<Program>().unwrap().is_sensible();
        assert!(sensible("remove b; create b; push b; pop b"));
        assert!(
            !sensible("remove b; set b")
                && !sensible("pop a")
                && !sensible("create b")
                && !sensible("wide a")
                && !sensible("let-go a")
                && !sensible("hold a")
                && !sensible("eager: hold a; kill; relink a")
        );
        assert!(sensible("eager: hold a; relink a; cut a; let-go a; free-big a"));
        assert!(sensible("map-fill a; map-remove a; tree-fill a; tree-thin a; both-map; map-set b"));
        assert!(
            !sensible("map-fill a; map-clear a; map-remove a") && !sensible("tree-insert a; tree-thin a")
        );
        assert!(!sensible("both-map; remove b; create b; map-set b"));
        assert!(!sensible("empty: both") && sensible("empty: create b; create a; both"));
    }
}
