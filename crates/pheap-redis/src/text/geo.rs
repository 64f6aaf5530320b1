//! Places on the Earth as numbers (geohashes, by G. Niemeyer, 2008), and which numbers are near a place.
//!
//! A cell is a part of the map: 2ˢ columns and as many rows, of which each step divides each into two. Its number has the bits of its row and of its column by turns, so all that is
//! in a cell has numbers in a row. Rows end short of the poles, as those of web maps do.

/// The least and the greatest longitude.
pub const LONGITUDE: (f64, f64) = (-180.0, 180.0);
/// The least and the greatest latitude.
pub const LATITUDE: (f64, f64) = (-85.05112878, 85.05112878);
/// Columns are divided so often in the numbers that are stored; rows, too.
const STEPS: u32 = 26;

/// In metres: the quadratic mean of the Earth's radius.
const EARTH_RADIUS: f64 = 6372797.560856;
/// Half of the Earth's circumference as Mercator's projection has it, in metres.
const MERCATOR_MAX: f64 = 20037726.37;

/// A place, in degrees.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Place {
    /// Degrees east.
    pub longitude: f64,
    /// Degrees north.
    pub latitude: f64,
}

impl Place {
    /// The number that it is stored as.
    pub fn number(self) -> u64 {
        Cell::of(self, STEPS, LATITUDE).number()
    }

    /// The place that a number stands for: the middle of its cell.
    pub fn of(number: u64) -> Place {
        let area = Cell { step: STEPS, column: even_bits(number >> 1), row: even_bits(number) }.area();
        Place {
            longitude: f64::midpoint(area.west, area.east).clamp(LONGITUDE.0, LONGITUDE.1),
            latitude: f64::midpoint(area.south, area.north).clamp(LATITUDE.0, LATITUDE.1),
        }
    }

    /// The place that a score stands for. Fractions are left out; what is no such number at all means what it means to Redis on x86-64.
    pub fn of_score(score: f64) -> Place {
        const LIMIT: f64 = (1_u64 << 63) as f64;
        Place::of(match score {
            ..LIMIT => score as i64 as u64,
            _ if score < 2.0 * LIMIT => score as u64,
            _ => 0,
        })
    }

    /// Its geohash as others write it, in 11 characters: there, rows go to the poles. The last character is always 0.
    pub fn geohash(self) -> [u8; 11] {
        const ALPHABET: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";
        let number = Cell::of(self, STEPS, (-90.0, 90.0)).number();
        std::array::from_fn(|i| {
            let digit = if i == 10 { 0 } else { number >> (52 - 5 * (i + 1)) & 31 };
            ALPHABET[digit as usize]
        })
    }

    /// The distance to another place in metres, by the haversine formula.
    pub fn distance(self, other: Place) -> f64 {
        let across = ((other.longitude.to_radians() - self.longitude.to_radians()) / 2.0).sin();
        if across == 0.0 {
            return self.distance_north(other);
        }
        let (from, to) = (self.latitude.to_radians(), other.latitude.to_radians());
        let along = ((to - from) / 2.0).sin();
        let a = along * along + from.cos() * to.cos() * across * across;
        2.0 * EARTH_RADIUS * a.sqrt().asin()
    }

    /// How far another place is to the north, or to the south.
    fn distance_north(self, other: Place) -> f64 {
        EARTH_RADIUS * (other.latitude.to_radians() - self.latitude.to_radians()).abs()
    }
}

/// Spreads the bits of a number over the even ones of another.
fn spread(number: u32) -> u64 {
    [(16, 0x0000_ffff_0000_ffff), (8, 0x00ff_00ff_00ff_00ff), (4, 0x0f0f_0f0f_0f0f_0f0f)]
        .into_iter()
        .chain([(2, 0x3333_3333_3333_3333), (1, 0x5555_5555_5555_5555)])
        .fold(u64::from(number), |bits, (shift, mask): (u32, u64)| (bits | bits << shift) & mask)
}

/// The even bits of a number.
fn even_bits(number: u64) -> u32 {
    [(0, 0x5555_5555_5555_5555), (1, 0x3333_3333_3333_3333), (2, 0x0f0f_0f0f_0f0f_0f0f)]
        .into_iter()
        .chain([(4, 0x00ff_00ff_00ff_00ff), (8, 0x0000_ffff_0000_ffff), (16, 0xffff_ffff)])
        .fold(number, |bits, (shift, mask): (u32, u64)| (bits | bits >> shift) & mask) as u32
}

/// A part of the map.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Cell {
    step: u32,
    column: u32,
    row: u32,
}

/// Degrees between which a cell is.
struct Area {
    west: f64,
    east: f64,
    south: f64,
    north: f64,
}

impl Cell {
    /// The cell of a place, where rows are those of these latitudes.
    fn of(place: Place, step: u32, (south, north): (f64, f64)) -> Cell {
        let cells = (1u64 << step) as f64;
        let (west, east) = LONGITUDE;
        Cell {
            step,
            column: ((place.longitude - west) / (east - west) * cells) as u32,
            row: ((place.latitude - south) / (north - south) * cells) as u32,
        }
    }

    fn number(self) -> u64 {
        spread(self.row) | spread(self.column) << 1
    }

    fn area(self) -> Area {
        let cells = (1u64 << self.step) as f64;
        let at = |number: f64, (least, greatest): (f64, f64)| least + number / cells * (greatest - least);
        let (column, row) = (f64::from(self.column), f64::from(self.row));
        Area {
            west: at(column, LONGITUDE),
            east: at(column + 1.0, LONGITUDE),
            south: at(row, LATITUDE),
            north: at(row + 1.0, LATITUDE),
        }
    }

    /// The cell so many columns to the east, and rows to the north. Behind the last one comes the first.
    fn beside(self, east: i32, north: i32) -> Cell {
        let mask = (1u32 << self.step) - 1;
        Cell {
            step: self.step,
            column: self.column.wrapping_add_signed(east) & mask,
            row: self.row.wrapping_add_signed(north) & mask,
        }
    }

    /// The numbers of all that is in it: the first one, and the one behind the last one.
    fn numbers(self) -> (u64, u64) {
        let shift = 2 * (STEPS - self.step);
        (self.number() << shift, (self.number() + 1) << shift)
    }
}

/// A part of the Earth, in metres.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Shape {
    /// All that is not farther away.
    Circle {
        /// How far.
        radius: f64,
    },
    /// All that is not farther to the sides.
    Box {
        /// From west to east.
        width: f64,
        /// From south to north.
        height: f64,
    },
}

impl Shape {
    /// How far a place is from the middle of the shape, if it is in it.
    pub fn distance(self, middle: Place, place: Place) -> Option<f64> {
        match self {
            Shape::Circle { radius } => Some(middle.distance(place)).filter(|&distance| distance <= radius),
            Shape::Box { width, height } => {
                let beside = Place { longitude: middle.longitude, latitude: place.latitude };
                let is_in =
                    place.distance_north(middle) <= height / 2.0 && place.distance(beside) <= width / 2.0;
                is_in.then(|| middle.distance(place))
            }
        }
    }

    /// The numbers that places in this shape may have, in the order in which Redis looks at them: the first of a range, and the one behind its last.
    pub fn numbers(self, middle: Place) -> Vec<(u64, u64)> {
        let (half_width, half_height, reach) = match self {
            Shape::Circle { radius } => (radius, radius, radius),
            Shape::Box { width, height } => (width / 2.0, height / 2.0, (width / 2.0).hypot(height / 2.0)),
        };
        let up = (half_height / EARTH_RADIUS).to_degrees();
        // Nearer to the pole, as many metres are more degrees.
        let widest = if middle.latitude < 0.0 { middle.latitude - up } else { middle.latitude + up };
        let aside = (half_width / EARTH_RADIUS / widest.to_radians().cos()).to_degrees();
        let (west, east) = (middle.longitude - aside, middle.longitude + aside);
        let (south, north) = (middle.latitude - up, middle.latitude + up);

        let mut cell = Cell::of(middle, steps(reach, middle.latitude), LATITUDE);
        let is_too_small = cell.beside(0, 1).area().north < north
            || cell.beside(0, -1).area().south > south
            || cell.beside(1, 0).area().east < east
            || cell.beside(-1, 0).area().west > west;
        if cell.step > 1 && is_too_small {
            cell = Cell::of(middle, cell.step - 1, LATITUDE);
        }
        let area = cell.area();
        let is_needed = |columns: i32, rows: i32| {
            cell.step < 2
                || !(rows < 0 && area.south < south
                    || rows > 0 && area.north > north
                    || columns < 0 && area.west < west
                    || columns > 0 && area.east > east)
        };
        let around = [(0, 0), (0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1)];
        let mut numbers = Vec::with_capacity(around.len());
        for (columns, rows) in around {
            let range = cell.beside(columns, rows).numbers();
            // Of very large cells there are so few that some are neighbours twice.
            if is_needed(columns, rows) && !numbers.contains(&range) {
                numbers.push(range);
            }
        }
        numbers
    }
}

/// How small cells may be so that one and its neighbours have all that is within so many metres, in most cases.
fn steps(reach: f64, latitude: f64) -> u32 {
    if reach == 0.0 {
        return STEPS;
    }
    let (mut reach, mut step) = (reach, 1);
    while reach < MERCATOR_MAX {
        reach *= 2.0;
        step += 1;
    }
    // Cells are narrower towards the poles.
    let less = match latitude.abs() {
        latitude if latitude > 80.0 => 4,
        latitude if latitude > 66.0 => 3,
        _ => 2,
    };
    (step - less).clamp(1, STEPS as i32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::random::below;

    #[test]
    fn numbers_and_back() {
        let palermo = Place { longitude: 13.361389, latitude: 38.115556 };
        assert_eq!(palermo.number(), 3479099956230698);
        assert_eq!(&palermo.geohash(), b"sqc8b49rny0");
        let back = Place::of(palermo.number());
        assert!(back.distance(palermo) < 1.0 && back.number() == palermo.number());
        for number in [0, 1, u32::MAX] {
            assert_eq!(even_bits(spread(number)), number);
        }
    }

    #[test]
    fn scores_that_are_no_places() {
        for (score, number) in [
            (1.9, 1),
            (-5.2, -5_i64 as u64),
            (f64::NEG_INFINITY, 1 << 63),
            (1e19, 10_u64.pow(19)),
            (f64::INFINITY, 0),
        ] {
            assert_eq!(Place::of_score(score), Place::of(number), "{score}");
        }
    }

    /// A place that is at random, anywhere.
    fn somewhere() -> Place {
        let degrees = |(least, greatest): (f64, f64)| {
            least + (greatest - least) * below(1_000_000) as f64 / 1_000_000.0
        };
        Place { longitude: degrees(LONGITUDE), latitude: degrees(LATITUDE) }
    }

    #[test]
    fn what_is_near_is_found() {
        for _ in 0..20_000 {
            // Not near the poles, where cells are too narrow.
            let middle = Place { latitude: somewhere().latitude * 0.7, ..somewhere() };
            let near = Place {
                longitude: middle.longitude + (below(2000) as f64 - 1000.0) / 500.0,
                latitude: middle.latitude + (below(2000) as f64 - 1000.0) / 500.0,
            };
            if near.longitude.abs() > 180.0 {
                continue;
            }
            let distance = middle.distance(near);
            for shape in [
                Shape::Circle { radius: distance + 1.0 },
                Shape::Box { width: 3.0 * distance + 1.0, height: 3.0 * distance + 1.0 },
            ] {
                assert!(shape.distance(middle, near).is_some());
                let number = near.number();
                let is_found =
                    shape.numbers(middle).iter().any(|&(first, end)| (first..end).contains(&number));
                assert!(is_found, "{near:?} from {middle:?}");
            }
        }
    }
}
