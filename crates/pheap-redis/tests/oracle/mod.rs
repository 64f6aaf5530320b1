//! Clients that know what a server must answer, and what it must contain after a kill.

pub(crate) mod after;
pub(crate) mod clients;
pub(crate) mod model;
pub(crate) mod owner;
pub(crate) mod shared;
pub(crate) mod wire;

/// Environment variable: the number of kills.
pub(crate) const ROUNDS: &str = "PHEAP_ORACLE_ROUNDS";
/// Environment variable: the seed of the random numbers.
pub(crate) const SEED: &str = "PHEAP_ORACLE_SEED";

pub(crate) fn from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}
