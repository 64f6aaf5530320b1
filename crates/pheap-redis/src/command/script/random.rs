//! `math.random`, with the same numbers as in Redis for the same seed.

use std::hash::{BuildHasher, RandomState};

use mlua::{MultiValue, Value};

use super::native::LibraryResult;

/// The linear congruential generator of `drand48`.
#[derive(Debug)]
pub(super) struct Random(u64);

/// The numbers of the generator are taken modulo this bound, as in Redis.
const MAX: u64 = i32::MAX as u64;

impl Random {
    /// Returns a generator with a random seed.
    pub(super) fn new() -> Random {
        Random(RandomState::new().hash_one(0) & ((1 << 48) - 1))
    }

    pub(super) fn seed(&mut self, seed: i64) {
        self.0 = u64::from(seed as u32) << 16 | 0x330e;
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(0x5_deec_e66d).wrapping_add(0xb) & ((1 << 48) - 1);
        self.0 >> 17
    }

    /// Returns a number from 0 to 1 (exclusive), or an integer within the limits (inclusive).
    pub(super) fn within(&mut self, limits: &MultiValue) -> LibraryResult<f64> {
        let part = (self.next() % MAX) as f64 / MAX as f64;
        let limit = |at: usize| {
            let number = match &limits[at] {
                Value::Number(number) => Some(*number),
                Value::Integer(number) => Some(*number as f64),
                Value::String(text) => text.to_str().ok().and_then(|text| text.trim().parse().ok()),
                _ => None,
            };
            number.map(f64::trunc).ok_or_else(|| {
                let found = limits[at].type_name();
                format!("bad argument #{} to 'random' (number expected, got {found})", at + 1)
            })
        };
        match limits.len() {
            0 => Ok(part),
            1 => {
                let most = limit(0)?;
                if most < 1.0 {
                    return Err("bad argument #1 to 'random' (interval is empty)".into());
                }
                Ok((part * most).floor() + 1.0)
            }
            2 => {
                let (least, most) = (limit(0)?, limit(1)?);
                if least > most {
                    return Err("bad argument #2 to 'random' (interval is empty)".into());
                }
                Ok((part * (most - least + 1.0)).floor() + least)
            }
            _ => Err("wrong number of arguments".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        let (mut one, mut two) = (Random::new(), Random::new());
        one.seed(10);
        two.seed(10);
        assert_eq!(one.next(), two.next());
        one.seed(0);
        assert_eq!(one.next(), 366_850_414); // as lrand48() after srand48(0)
    }
}
