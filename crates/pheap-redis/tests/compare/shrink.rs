//! Shortens a history that ends in a difference.

use super::generate::Step;
use super::pair::{Difference, Pair};

/// Leaves out steps, in ever smaller groups, as long as some difference remains. Returns the other steps, and
/// their difference.
pub(crate) fn shortest(
    pair: &mut Pair,
    resp3: bool,
    mut steps: Vec<Step>,
    mut difference: Difference,
) -> (Vec<Step>, Difference) {
    let mut chunk = steps.len().next_power_of_two() / 2;
    while chunk > 0 {
        let mut at = 0;
        while at < steps.len() {
            let mut fewer = steps.clone();
            fewer.drain(at..(at + chunk).min(steps.len()));
            match pair.run(resp3, &fewer) {
                Some((needed, found)) => {
                    fewer.truncate(needed);
                    (steps, difference) = (fewer, found);
                }
                None => at += chunk,
            }
        }
        chunk /= 2;
    }
    (steps, difference)
}
