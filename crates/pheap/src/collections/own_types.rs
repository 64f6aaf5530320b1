//! Lists pheap's own types in this folder, each with the promise that [`check`](crate::Heap::check) verifies.

use std::num::NonZero;

use super::{btree, bytes, deque, hash, key, priority, snap, string, vec};
use crate::heap::check::rule::{CollectionTypes, OwnType, OwnTypes, TypePromise};

/// The entry for `NonZero` integers, which no file of this folder declares: `check` verifies that they are
/// not zero.
const NUMBERS: &[OwnType] = &[OwnType::for_type::<NonZero<u8>>(TypePromise::NotZero)];

impl OwnTypes for CollectionTypes {
    const LISTS: &'static [&'static [OwnType]] = &[
        vec::OWN_TYPES,
        string::OWN_TYPES,
        bytes::OWN_TYPES,
        key::OWN_TYPES,
        deque::OWN_TYPES,
        priority::OWN_TYPES,
        hash::OWN_TYPES,
        btree::OWN_TYPES,
        snap::OWN_TYPES,
        NUMBERS,
    ];
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// Collects the ids of pheap's own types, from the `persist` attributes in the sources of a folder and
    /// its subfolders.
    fn ids_in(folder: &Path, ids: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                ids_in(&path, ids);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                let found =
                    text.split("persist(own, id = \"").skip(1).filter_map(|rest| rest.split('"').next());
                ids.extend(found.filter(|id| !id.contains(' ')).map(str::to_owned));
            }
        }
    }

    /// The lists have each type of this folder with an attribute `persist(own, …)`. `check` would treat a
    /// missing one as a type without promises.
    #[test]
    fn check_is_told_of_all_types() {
        let mut declared = Vec::new();
        ids_in(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/collections"), &mut declared);
        let mut told: Vec<_> = CollectionTypes::LISTS.iter().copied().flatten().map(OwnType::id).collect();
        told.retain(|&id| NUMBERS.iter().all(|number| number.id() != id));
        declared.sort();
        told.sort();
        assert!(declared.len() > 20, "only {declared:?}: does this test still find them?");
        assert_eq!(declared, told);
    }
}
