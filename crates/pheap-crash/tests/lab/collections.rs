//! Programs with collections, which allocate and free buffers in many kinds of transactions.

use crate::common::{breaks, holds, holds_at_a_glance};
use pheap::sim::Bug;
use pheap_crash::program::Setting;
use pheap_crash::program::alphabet::{core, core_programs};

#[test]
fn a_change_is_all_or_nothing() {
    holds(&["map-insert a", "map-insert a; map-set a", "map-insert a; map-remove a", "pin: map-insert a"]);
    holds_at_a_glance(&[
        "vec-push a; vec-push a",
        "string-set a; string-set a; string-set a",
        "tree-insert a; tree-insert a; tree-remove a",
        "pin: tree-insert a; tree-remove a",
        "pin: vec-push a; string-set a",
    ]);
}

#[test]
fn buffers_grow_and_nodes_are_divided_and_merged() {
    holds_at_a_glance(&[
        "map-fill a; map-insert a",
        "map-fill a; map-fill a; map-remove a",
        "tree-fill a; tree-insert a; tree-thin a",
        "tree-fill a; tree-fill a; tree-thin a; tree-remove a",
        "vec-grow a; vec-push a; vec-grow a",
    ]);
    holds_at_a_glance(&[
        "pin: map-fill a; map-insert a",
        "pin: tree-fill a; tree-insert a; tree-thin a",
        "pin: vec-push a; vec-grow a",
    ]);
}

#[test]
fn a_version_is_followed_by_the_next_one() {
    holds(&["snap-insert a; snap-insert a", "pin: snap-insert a; snap-insert a"]);
    holds_at_a_glance(&[
        "snap-fill a; snap-insert a; snap-thin a",
        "snap-fill a; snap-fill a; snap-thin a; snap-insert a",
        "pin: snap-fill a; snap-insert a; snap-thin a",
        "full: snap-fill a; snap-insert a",
        "snap-fill a; map-abort a; map-panic a; snap-insert a",
        "map-nest a; snap-fill a; map-nest a; snap-thin a",
        "pin: snap-fill a; map-nest a; snap-insert a",
        "snap-fill a; torn; snap-insert a; power; snap-thin a",
        "snap-fill a; relocate; snap-thin a; migrate a; snap-insert a; collect",
        "eager: snap-fill a; snap-thin a; churn a; snap-fill a",
        "eager crashed: snap-fill a; snap-insert a; churn a; collect",
        "wal: snap-fill a; snap-thin a; checkpoint; snap-insert a",
        "wal small: snap-fill a; snap-fill a; torn; snap-thin a",
        "wal lazy: snap-insert a; sync; snap-fill a; torn",
        "wal eager: snap-fill a; snap-thin a; churn a",
    ]);
    breaks(Bug::NoShadeAtCommit, &["eager: snap-fill a; snap-insert a; snap-insert a; churn a"]);
}

#[test]
fn a_root_is_given_collections_at_once() {
    holds_at_a_glance(&[
        "shelve a",
        "pin: shelve a; map-insert a",
        "full: shelve a; map-fill a; map-insert a",
        "full: grow a; shelve a; vec-grow a",
        "wal: shelve a; map-insert a",
    ]);
}

#[test]
fn a_migration_takes_them_along() {
    holds_at_a_glance(&[
        "map-fill a; migrate a; map-insert a",
        "vec-grow a; migrate a; migrate a; collect",
        "eager: tree-fill a; migrate a; tree-thin a",
        "wal: map-insert a; migrate a; checkpoint; map-remove a",
    ]);
    breaks(Bug::TypeUnlogged, &["shelve a", "map-insert a; migrate a"]);
}

#[test]
fn a_rollback_gives_nothing_up() {
    holds_at_a_glance(&[
        "map-fill a; map-abort a; map-insert a",
        "vec-grow a; map-panic a; vec-push a",
        "pin: map-insert a; map-abort a; map-remove a",
        "pin: tree-fill a; map-panic a; tree-insert a",
        "eager: vec-push a; map-abort a; churn a",
        "wal: map-insert a; map-abort a; checkpoint",
    ]);
}

#[test]
fn maps_of_two_roots_change_together() {
    holds_at_a_glance(&[
        "both-map",
        "map-fill a; both-map; both-map",
        "swapped: both-map; both-map",
        "pin: both-map; map-remove b",
        "both-map; remove b; create b; both-map",
        "wal: both-map; checkpoint; both-map",
    ]);
    breaks(Bug::RecordPerRoot, &["both-map"]);
}

#[test]
fn they_survive_what_tears_and_ends() {
    holds_at_a_glance(&[
        "map-fill a; torn; map-insert a",
        "map-insert a; map-insert a; power; map-insert a; collect",
        "tree-fill a; torn; tree-insert a; power; tree-thin a",
        "vec-push a; kill; vec-grow a; close; vec-push a",
        "string-set a; torn; string-set a",
    ]);
}

#[test]
fn what_is_given_up_is_reused_only_when_no_record_covers_it() {
    holds_at_a_glance(&[
        "map-insert a; map-insert a; map-insert a; stuff a",
        "map-fill a; map-clear a; map-fill a",
        "vec-push a; vec-grow a; vec-grow a; big a",
        "pin: tree-fill a; tree-thin a; tree-insert a",
        "map-churn a; map-clear a; torn; map-fill a",
        "pin: map-churn a; map-clear a",
        "wal small: map-churn a; checkpoint",
    ]);
    breaks(Bug::FreeAtOnce, &["map-churn a"]);
}

#[test]
fn they_move_with_the_heap() {
    holds_at_a_glance(&[
        "map-fill a; relocate; map-insert a",
        "tree-fill a; vec-push a; relocate; tree-thin a; move",
        "crashed moved: map-fill a; relocate; map-clear a; collect",
        "wal: map-insert a; relocate; map-remove a",
    ]);
}

#[test]
fn a_checkpoint_brings_them_to_the_file() {
    holds_at_a_glance(&[
        "wal: map-fill a; checkpoint; map-insert a",
        "wal: tree-fill a; tree-thin a; checkpoint",
        "wal small: map-fill a; vec-grow a; torn; map-clear a",
        "wal lazy: map-insert a; sync; map-clear a; torn",
        "wal: map-fill a; set-amid-checkpoint; map-remove a",
    ]);
}

#[test]
fn the_collector_follows_what_moves_between_buffers() {
    holds_at_a_glance(&[
        "eager: map-fill a; map-clear a; churn a; map-fill a",
        "eager: vec-push a; vec-grow a; churn a; vec-grow a",
        "eager: tree-fill a; tree-insert a; churn a; tree-thin a",
        "eager pin: vec-grow a; vec-grow a; churn a",
        "eager crashed: vec-push a; vec-push a; churn a; collect",
        "wal eager: tree-fill a; tree-thin a; churn a",
        "eager: map-churn a; map-churn a",
    ]);
    breaks(Bug::NoShadeAtCommit, &["eager: vec-push a; vec-grow a; churn a"]);
    breaks(Bug::NoShadeAtLogging, &["eager pin: tree-fill a; tree-insert a; churn a"]);
}

#[test]
fn core_programs_are_sensible_and_many() {
    let disk = Setting { wal: true, ..Setting::default() };
    assert_eq!((core(false).len(), core(true).len()), (12, 13));
    for (setting, count) in [(Setting::default(), 100), (disk, 120)] {
        assert!(core_programs(setting, 2).all(|program| program.is_sensible()));
        assert!(core_programs(setting, 2).count() > count);
    }
}
