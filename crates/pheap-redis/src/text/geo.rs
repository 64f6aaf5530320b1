//! Encodes places on the Earth as numbers (geohashes, by G. Niemeyer, 2008), and finds the numbers near a
//! place.
//!
//! A cell is a part of the map. At step s, the map has 2ˢ columns and as many rows. The next step divides
//! each of them in two. The number of a cell interleaves the bits of its row and its column, so the places in
//! a cell have consecutive numbers. As on web maps, the rows do not reach the poles.

/// The least and the greatest longitude.
pub const LONGITUDE: (f64, f64) = (-180.0, 180.0);
/// The least and the greatest latitude.
pub const LATITUDE: (f64, f64) = (-85.05112878, 85.05112878);
/// The step of the numbers that are stored.
const STEPS: u32 = 26;

/// The quadratic mean radius of the Earth, in metres.
const EARTH_RADIUS: f64 = 6372797.560856;
/// About half of the Earth's circumference in the Mercator projection, in metres; the number of Redis.
const MERCATOR_MAX: f64 = 20037726.37;

/// A place, in degrees.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Coordinates {
    /// Degrees east.
    pub longitude: f64,
    /// Degrees north.
    pub latitude: f64,
}

impl Coordinates {
    /// Returns the number that stores this place.
    pub fn number(self) -> u64 {
        Cell::of(self, STEPS, LATITUDE).number()
    }

    /// Returns the place of a number: the middle of its cell.
    pub fn from_geohash(number: u64) -> Coordinates {
        let area = Cell { step: STEPS, column: even_bits(number >> 1), row: even_bits(number) }.bounds();
        Coordinates {
            longitude: f64::midpoint(area.west, area.east).clamp(LONGITUDE.0, LONGITUDE.1),
            latitude: f64::midpoint(area.south, area.north).clamp(LATITUDE.0, LATITUDE.1),
        }
    }

    /// Returns the place of a score, without its fraction. A score out of range gives the same number as in
    /// Redis on x86-64.
    pub fn from_score(score: f64) -> Coordinates {
        const LIMIT: f64 = (1_u64 << 63) as f64;
        Coordinates::from_geohash(match score {
            ..LIMIT => score as i64 as u64,
            _ if score < 2.0 * LIMIT => score as u64,
            _ => 0,
        })
    }

    /// Returns the usual geohash in 11 characters, whose rows reach the poles. The last character is always
    /// 0.
    pub fn geohash(self) -> [u8; 11] {
        const ALPHABET: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";
        let number = Cell::of(self, STEPS, (-90.0, 90.0)).number();
        std::array::from_fn(|i| {
            let digit = if i == 10 { 0 } else { number >> (52 - 5 * (i + 1)) & 31 };
            ALPHABET[digit as usize]
        })
    }

    /// Returns the distance to another place in metres, by the haversine formula.
    pub fn distance(self, other: Coordinates) -> f64 {
        let across = ((other.longitude.to_radians() - self.longitude.to_radians()) / 2.0).sin();
        if across == 0.0 {
            return self.distance_north(other);
        }
        let (from, to) = (self.latitude.to_radians(), other.latitude.to_radians());
        let along = ((to - from) / 2.0).sin();
        let a = along * along + from.cos() * to.cos() * across * across;
        2.0 * EARTH_RADIUS * a.sqrt().asin()
    }

    /// Returns the distance of the two latitudes in metres.
    fn distance_north(self, other: Coordinates) -> f64 {
        EARTH_RADIUS * (other.latitude.to_radians() - self.latitude.to_radians()).abs()
    }
}

/// Spreads the bits of a number over the even bits of the result.
fn spread(number: u32) -> u64 {
    [(16, 0x0000_ffff_0000_ffff), (8, 0x00ff_00ff_00ff_00ff), (4, 0x0f0f_0f0f_0f0f_0f0f)]
        .into_iter()
        .chain([(2, 0x3333_3333_3333_3333), (1, 0x5555_5555_5555_5555)])
        .fold(u64::from(number), |bits, (shift, mask): (u32, u64)| (bits | bits << shift) & mask)
}

/// Collects the even bits of a number.
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

/// The bounds of a cell, in degrees.
struct CellBounds {
    west: f64,
    east: f64,
    south: f64,
    north: f64,
}

impl Cell {
    /// Returns the cell of a place. `south` and `north` are the bounds of the rows.
    fn of(place: Coordinates, step: u32, (south, north): (f64, f64)) -> Cell {
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

    fn bounds(self) -> CellBounds {
        let cells = (1u64 << self.step) as f64;
        let at = |number: f64, (least, greatest): (f64, f64)| least + number / cells * (greatest - least);
        let (column, row) = (f64::from(self.column), f64::from(self.row));
        CellBounds {
            west: at(column, LONGITUDE),
            east: at(column + 1.0, LONGITUDE),
            south: at(row, LATITUDE),
            north: at(row + 1.0, LATITUDE),
        }
    }

    /// Returns the cell `east` columns to the east and `north` rows to the north. Behind the last cell comes
    /// the first.
    fn neighbour(self, east: i32, north: i32) -> Cell {
        let mask = (1u32 << self.step) - 1;
        Cell {
            step: self.step,
            column: self.column.wrapping_add_signed(east) & mask,
            row: self.row.wrapping_add_signed(north) & mask,
        }
    }

    /// Returns the range of the numbers in the cell: the first one, and the one behind the last.
    fn geohash_range(self) -> (u64, u64) {
        let shift = 2 * (STEPS - self.step);
        (self.number() << shift, (self.number() + 1) << shift)
    }
}

/// A shape around a place, in metres.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Shape {
    /// All places within a radius.
    Circle {
        /// The radius.
        radius: f64,
    },
    /// All places within a rectangle.
    Box {
        /// The extent from west to east.
        width: f64,
        /// The extent from south to north.
        height: f64,
    },
}

impl Shape {
    /// Returns the distance of a place from the middle of the shape, if the place is in it.
    pub fn distance(self, middle: Coordinates, place: Coordinates) -> Option<f64> {
        match self {
            Shape::Circle { radius } => Some(middle.distance(place)).filter(|&distance| distance <= radius),
            Shape::Box { width, height } => {
                let beside = Coordinates { longitude: middle.longitude, latitude: place.latitude };
                let is_in =
                    place.distance_north(middle) <= height / 2.0 && place.distance(beside) <= width / 2.0;
                is_in.then(|| middle.distance(place))
            }
        }
    }

    /// Returns ranges of numbers, in the order in which Redis searches them: the first number, and the one
    /// behind the last. They cover the numbers of all places in this shape, unless it is near a pole.
    pub fn geohash_ranges(self, middle: Coordinates) -> Vec<(u64, u64)> {
        let (half_width, half_height, reach) = match self {
            Shape::Circle { radius } => (radius, radius, radius),
            Shape::Box { width, height } => (width / 2.0, height / 2.0, (width / 2.0).hypot(height / 2.0)),
        };
        let up = (half_height / EARTH_RADIUS).to_degrees();
        // Nearer to a pole, the same distance spans more degrees of longitude.
        let widest = if middle.latitude < 0.0 { middle.latitude - up } else { middle.latitude + up };
        let aside = (half_width / EARTH_RADIUS / widest.to_radians().cos()).to_degrees();
        let (west, east) = (middle.longitude - aside, middle.longitude + aside);
        let (south, north) = (middle.latitude - up, middle.latitude + up);

        let mut cell = Cell::of(middle, step_for(reach, middle.latitude), LATITUDE);
        let is_too_small = cell.neighbour(0, 1).bounds().north < north
            || cell.neighbour(0, -1).bounds().south > south
            || cell.neighbour(1, 0).bounds().east < east
            || cell.neighbour(-1, 0).bounds().west > west;
        if cell.step > 1 && is_too_small {
            cell = Cell::of(middle, cell.step - 1, LATITUDE);
        }
        let area = cell.bounds();
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
            let range = cell.neighbour(columns, rows).geohash_range();
            // Duplicates are left out: the largest cells are so few that a cell may be a neighbour on both
            // sides.
            if is_needed(columns, rows) && !numbers.contains(&range) {
                numbers.push(range);
            }
        }
        numbers
    }
}

/// Returns the greatest step at which a cell and its neighbours contain everything within `reach` metres in
/// most cases.
fn step_for(reach: f64, latitude: f64) -> u32 {
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
        let palermo = Coordinates { longitude: 13.361389, latitude: 38.115556 };
        assert_eq!(palermo.number(), 3479099956230698);
        assert_eq!(&palermo.geohash(), b"sqc8b49rny0");
        let back = Coordinates::from_geohash(palermo.number());
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
            assert_eq!(Coordinates::from_score(score), Coordinates::from_geohash(number), "{score}");
        }
    }

    /// Returns a random place.
    fn random_coordinates() -> Coordinates {
        let degrees = |(least, greatest): (f64, f64)| {
            least + (greatest - least) * below(1_000_000) as f64 / 1_000_000.0
        };
        Coordinates { longitude: degrees(LONGITUDE), latitude: degrees(LATITUDE) }
    }

    #[test]
    fn what_is_near_is_found() {
        for _ in 0..20_000 {
            // The middle is not near the poles, where cells are too narrow.
            let middle =
                Coordinates { latitude: random_coordinates().latitude * 0.7, ..random_coordinates() };
            let near = Coordinates {
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
                    shape.geohash_ranges(middle).iter().any(|&(first, end)| (first..end).contains(&number));
                assert!(is_found, "{near:?} from {middle:?}");
            }
        }
    }
}
