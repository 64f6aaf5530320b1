//! Tests of commands, by families.

mod common;

mod families {
    mod geo;
    mod hashes;
    mod hostile_scripts;
    mod hyperloglog;
    mod lists;
    mod rdb;
    mod scripts;
    mod sets;
    mod sorted_sets;
    mod streams;
    mod strings;
}
