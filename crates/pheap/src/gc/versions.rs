//! Versions of a root whose objects are never written again: the newest one, and those before it that may be all that a power failure leaves.
//!
//! A transaction that waits for the disk, or leaves that to others, is [noted](Versions::note) when it is committed in memory. What it has replaced goes on to be kept until something newer is
//! [durable](Versions::durable). Not every version in between: a sync ends at one of few positions, and of the versions before each of these the last one is enough.

#[cfg(all(test, pheap_loom))]
mod model;

/// Words that such a root consists of. The last one is the address of the object that leads to all others, or 0.
pub(crate) const WORDS: usize = 3;

/// What a transaction has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Version {
    /// Number of the root's type. One of another kind has no words.
    pub(crate) ty: u32,
    pub(crate) words: [u64; WORDS],
    /// Position in the write-ahead log behind its record; 0 without a log, and for what was there when the heap was opened.
    pub(crate) position: u64,
}

impl Version {
    /// Address of the object that leads to all that the version consists of.
    pub(crate) fn top(&self) -> Option<usize> {
        Some(self.words[WORDS - 1] as usize).filter(|&top| top != 0)
    }
}

/// Those that are kept.
#[derive(Debug, Default)]
pub(crate) struct Versions {
    /// The newest one first.
    list: Vec<Version>,
}

impl Versions {
    /// Notes the newest version, and forgets those that nobody will ask for any more. `ends` are the positions at which the durable part of the log ends, or may end before the new version
    /// is in it.
    pub(crate) fn note(&mut self, new: Version, ends: &[u64]) {
        // Its top is kept, so that no other version can have it.
        if self.list.first().is_some_and(|newest| (newest.ty, newest.words) == (new.ty, new.words)) {
            return;
        }
        self.list.insert(0, new);
        let is_last_before =
            |end: &u64, old: &Version, next: &Version| (old.position..next.position).contains(end);
        self.list.dedup_by(|old, next| !ends.iter().any(|end| is_last_before(end, old, next)));
    }

    /// What was of type `from` is of type `to` now, byte for byte.
    pub(crate) fn retype(&mut self, from: u32, to: u32) {
        self.list.iter_mut().filter(|version| version.ty == from).for_each(|version| version.ty = to);
    }

    /// Forgets all others.
    pub(crate) fn keep_only(&mut self, version: Version) {
        self.list = vec![version];
    }

    /// The newest version that is durable, if there is one.
    pub(crate) fn durable(&self, durable_end: u64) -> Option<&Version> {
        self.list.iter().find(|version| version.position <= durable_end)
    }

    /// The versions that may be asked for from now on.
    pub(crate) fn wanted(&self, durable_end: u64) -> impl Iterator<Item = &Version> {
        let older = self.list.iter().position(|version| version.position <= durable_end);
        self.list.iter().take(older.map_or(usize::MAX, |durable| durable + 1))
    }
}

#[cfg(all(test, not(pheap_loom)))]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// A log as [`Wal`](crate::wal::Wal) has it.
    #[derive(Default)]
    struct Log {
        durable: u64,
        syncing: Option<u64>,
        written: u64,
        writing: Option<u64>,
        end: u64,
    }

    #[derive(Debug, Clone, Copy)]
    enum Step {
        /// A transaction, and whether its record is written at once.
        Commit(bool),
        /// A read-only one.
        Same,
        BeginWrite,
        EndWrite,
        BeginSync,
        EndSync(bool),
        Look,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            4 => any::<bool>().prop_map(Step::Commit),
            1 => Just(Step::Same),
            2 => Just(Step::BeginWrite),
            2 => Just(Step::EndWrite),
            2 => Just(Step::BeginSync),
            2 => any::<bool>().prop_map(Step::EndSync),
            2 => Just(Step::Look),
        ];
        vec(step, 0..60)
    }

    impl Log {
        fn ends(&self) -> [u64; 4] {
            let Log { durable, syncing, written, writing, .. } = *self;
            [durable, syncing.unwrap_or(durable), written, writing.unwrap_or(written)]
        }

        fn step(&mut self, step: Step) {
            match step {
                Step::BeginWrite if self.writing.is_none() => self.writing = Some(self.end),
                Step::EndWrite => self.written = self.writing.take().unwrap_or(0).max(self.written),
                Step::BeginSync if self.syncing.is_none() => self.syncing = Some(self.written),
                Step::EndSync(works) => {
                    let end = self.syncing.take().filter(|_| works);
                    self.durable = end.unwrap_or(0).max(self.durable);
                }
                _ => {}
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

        /// Whatever the log does: the version that is found is the newest durable one of all that there were, and few are kept.
        #[test]
        fn the_newest_durable_version_is_kept(steps in steps()) {
            let first = Version { ty: 0, words: [0, 0, 1], position: 0 };
            let (mut log, mut all, mut versions) = (Log::default(), vec![first], Versions::default());
            versions.note(first, &[0; 4]);
            for step in steps {
                match step {
                    Step::Commit(at_once) => {
                        log.end += 64;
                        if at_once && log.writing.is_none() {
                            log.written = log.end;
                        }
                        let new = Version { ty: 0, words: [0, 0, log.end], position: log.end };
                        versions.note(new, &log.ends());
                        all.push(new);
                    }
                    Step::Same => {
                        log.end += 64;
                        let newest = all.last().unwrap();
                        versions.note(Version { position: log.end, ..*newest }, &log.ends());
                    }
                    Step::Look => {
                        let kept: Vec<_> = versions.wanted(log.durable).copied().collect();
                        prop_assert_eq!(kept.first(), all.last());
                        prop_assert_eq!(kept.last(), versions.durable(log.durable));
                    }
                    step => log.step(step),
                }
                let durable = all.iter().rfind(|version| version.position <= log.durable);
                prop_assert_eq!(versions.durable(log.durable), durable);
                prop_assert!(versions.list.len() <= log.ends().len() + 1);
            }
        }
    }
}
