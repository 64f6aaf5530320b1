//! Versions of a root whose objects are never written again: the newest version, and each earlier version
//! that may be the newest one that survives a power failure.
//!
//! A transaction that waits for the disk, or that leaves the wait to its caller, is
//! [noted](RootVersions::add_version) when it is committed in memory. The version that it has replaced may be
//! the newest [durable](RootVersions::durable) one later. Not every such version is kept: a sync ends at one
//! of few positions, and of the versions before each of these positions the last one is enough.

#[cfg(all(test, pheap_loom))]
mod model;

/// Number of words of a root that has versions. The last word is the address of the object that leads to all
/// others, or 0.
pub(crate) const WORDS: usize = 3;

/// The state of a root that a transaction has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RootVersion {
    /// Number of the root's type. If roots of this type have no versions, `words` are 0.
    pub(crate) ty: u32,
    pub(crate) words: [u64; WORDS],
    /// Position in the write-ahead log after the record of the transaction; 0 without a log, for the state
    /// that the heap was opened with, and for a root that was converted to another type.
    pub(crate) position: u64,
}

impl RootVersion {
    /// Returns the address of the object that leads to all objects of the version; `None` if the version has
    /// none.
    pub(crate) fn top(&self) -> Option<usize> {
        Some(self.words[WORDS - 1] as usize).filter(|&top| top != 0)
    }
}

/// The versions of a root that are kept.
#[derive(Debug, Default)]
pub(crate) struct RootVersions {
    /// The kept versions, the newest one first.
    list: Vec<RootVersion>,
}

impl RootVersions {
    /// Adds the newest version, and forgets versions that no thread will ask for any more. Does nothing if
    /// the newest version in the list has the same type and words. `ends` are the positions at which the
    /// durable part of the log ends, or may end as long as that part does not have the record of the new
    /// version.
    pub(crate) fn add_version(&mut self, new: RootVersion, ends: &[u64]) {
        // Versions with the same words are the same version: as long as the newest version keeps its top
        // object, no other object has that address.
        if self.list.first().is_some_and(|newest| (newest.ty, newest.words) == (new.ty, new.words)) {
            return;
        }
        self.list.insert(0, new);
        let is_last_before =
            |end: &u64, old: &RootVersion, next: &RootVersion| (old.position..next.position).contains(end);
        self.list.dedup_by(|old, next| !ends.iter().any(|end| is_last_before(end, old, next)));
    }

    /// Changes the type of all versions of type `from` to `to`. Their bytes stay the same.
    pub(crate) fn retype(&mut self, from: u32, to: u32) {
        self.list.iter_mut().filter(|version| version.ty == from).for_each(|version| version.ty = to);
    }

    /// Forgets all versions, and keeps `version` only.
    pub(crate) fn keep_only(&mut self, version: RootVersion) {
        self.list = vec![version];
    }

    /// Returns the newest durable version, if there is one.
    pub(crate) fn durable(&self, durable_end: u64) -> Option<&RootVersion> {
        self.list.iter().find(|version| version.position <= durable_end)
    }

    /// Returns the versions that a thread may ask for from now on: the newest durable one, and all newer
    /// ones.
    pub(crate) fn wanted(&self, durable_end: u64) -> impl Iterator<Item = &RootVersion> {
        let older = self.list.iter().position(|version| version.position <= durable_end);
        self.list.iter().take(older.map_or(usize::MAX, |durable| durable + 1))
    }
}

#[cfg(all(test, not(pheap_loom)))]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// A log whose positions change like those of [`Wal`](crate::wal::Wal).
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
        /// Commits a change. The flag says whether its record is written at once.
        Commit(bool),
        /// Commits a transaction that leaves the root as it is.
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
        #![proptest_config(ProptestConfig {
            cases: 2000, failure_persistence: None, ..ProptestConfig::default()
        })]

        /// For any steps of the log, the version that is found is the newest durable one of all versions that
        /// were ever added, and few versions are kept.
        #[test]
        fn the_newest_durable_version_is_kept(steps in steps()) {
            let first = RootVersion { ty: 0, words: [0, 0, 1], position: 0 };
            let (mut log, mut all, mut versions) = (Log::default(), vec![first], RootVersions::default());
            versions.add_version(first, &[0; 4]);
            for step in steps {
                match step {
                    Step::Commit(at_once) => {
                        log.end += 64;
                        if at_once && log.writing.is_none() {
                            log.written = log.end;
                        }
                        let new = RootVersion { ty: 0, words: [0, 0, log.end], position: log.end };
                        versions.add_version(new, &log.ends());
                        all.push(new);
                    }
                    Step::Same => {
                        log.end += 64;
                        let newest = all.last().unwrap();
                        versions.add_version(RootVersion { position: log.end, ..*newest }, &log.ends());
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
