//! Searches for geographic positions near another one: `GEOSEARCH`, `GEORADIUS` and their variants.

use super::args::{int, value};
use super::geo::{coordinates_of, parse_coordinates, unit, write_coordinates, write_distance};
use super::sorted_sets::{ScoredMembers, store_members};
use super::table::{ADD, KEY, READ, TWO_KEYS};
use super::{Args, Command, Cx, Done, Fail, Flags, Keys};
use crate::data::{Sorted, View};
use crate::resp::Reply;
use crate::text::geo::{Coordinates, Shape};
use crate::text::words::{self, lossy};

const MAY_STORE: Flags = ADD.and(Flags::MOVABLE_KEYS);

pub(super) const COMMANDS: &[Command] = &[
    Command::new("georadius", -6, MAY_STORE, Keys::Find(keys_and_target), |cx, args, out| {
        search(cx, args, GeoVariant::AroundPlace { may_store: true }, out)
    })
    .accesses("RO access", "OW update"),
    Command::new("georadius_ro", -6, READ, KEY, |cx, args, out| {
        search(cx, args, GeoVariant::AroundPlace { may_store: false }, out)
    }),
    Command::new("georadiusbymember", -5, MAY_STORE, Keys::Find(keys_and_target), |cx, args, out| {
        search(cx, args, GeoVariant::AroundMember { may_store: true }, out)
    })
    .accesses("RO access", "OW update"),
    Command::new("georadiusbymember_ro", -5, READ, KEY, |cx, args, out| {
        search(cx, args, GeoVariant::AroundMember { may_store: false }, out)
    }),
    Command::new("geosearch", -7, READ, KEY, |cx, args, out| search(cx, args, GeoVariant::Search, out)),
    Command::new("geosearchstore", -8, ADD, TWO_KEYS, |cx, args, out| {
        search(cx, args, GeoVariant::SearchAndStore, out)
    })
    .accesses("OW update", "RO access"),
];

/// Adds the keys of `GEORADIUS` and `GEORADIUSBYMEMBER`, whose target is an option.
fn keys_and_target(args: &Args<'_>, keys: &mut Vec<usize>) {
    let (mut target, mut at) = (None, 5);
    while at + 1 < args.len() {
        if args[at].eq_ignore_ascii_case(b"store") || args[at].eq_ignore_ascii_case(b"storedist") {
            target = Some(at + 1);
            at += 1;
        }
        at += 1;
    }
    keys.push(1);
    keys.extend(target);
}

/// The command that runs the search.
#[derive(Clone, Copy, PartialEq)]
enum GeoVariant {
    AroundPlace { may_store: bool },
    AroundMember { may_store: bool },
    Search,
    SearchAndStore,
}

impl GeoVariant {
    fn is_search(self) -> bool {
        matches!(self, GeoVariant::Search | GeoVariant::SearchAndStore)
    }

    fn has_target_option(self) -> bool {
        matches!(
            self,
            GeoVariant::AroundPlace { may_store: true } | GeoVariant::AroundMember { may_store: true }
        )
    }
}

/// The parsed arguments of a search.
#[derive(Default)]
struct GeoSearchArgs<'a> {
    centre: Option<GeoCentre<'a>>,
    shape: Option<Shape>,
    /// Length in metres of the unit of all distances.
    unit: f64,
    with_distance: bool,
    with_hash: bool,
    with_coordinates: bool,
    /// Order of the result by distance.
    order: Option<DistanceOrder>,
    count: Option<usize>,
    /// Whether any `count` matches are enough, not necessarily the nearest.
    any: bool,
    target: Option<&'a [u8]>,
    stores_distances: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum DistanceOrder {
    NearestFirst,
    NearestLast,
}

/// The centre of the search.
#[derive(Clone, Copy)]
enum GeoCentre<'a> {
    Coordinates(Coordinates),
    Member(&'a [u8]),
}

fn number(text: &[u8], error: &str) -> Result<f64, Fail> {
    words::float(text).ok_or_else(|| Fail::err(error))
}

impl<'a> GeoSearchArgs<'a> {
    fn set_circle(&mut self, radius: &[u8], unit_name: &[u8]) -> Done {
        let radius = number(radius, "need numeric radius")?;
        Fail::err_when(radius < 0.0, "radius cannot be negative")?;
        self.unit = unit(unit_name)?;
        self.shape = Some(Shape::Circle { radius: radius * self.unit });
        Ok(())
    }

    fn set_rectangle(&mut self, width: &[u8], height: &[u8], unit_name: &[u8]) -> Done {
        let (width, height) = (number(width, "need numeric width")?, number(height, "need numeric height")?);
        Fail::err_when(width < 0.0 || height < 0.0, "height or width cannot be negative")?;
        self.unit = unit(unit_name)?;
        self.shape = Some(Shape::Box { width: width * self.unit, height: height * self.unit });
        Ok(())
    }

    /// Parses the arguments. `exists` says whether the sorted set exists, and `is_member` whether a name is a
    /// member of it. If the sorted set does not exist, any name is accepted.
    fn parse(
        args: &'a Args<'a>,
        variant: GeoVariant,
        exists: bool,
        is_member: impl Fn(&[u8]) -> bool,
    ) -> Result<GeoSearchArgs<'a>, Fail> {
        let mut asked = GeoSearchArgs { unit: 1.0, ..GeoSearchArgs::default() };
        let member = |name: &'a [u8]| {
            let is_known = !exists || is_member(name);
            is_known
                .then_some(GeoCentre::Member(name))
                .ok_or_else(|| Fail::err("could not decode requested zset member"))
        };
        let mut rest = match variant {
            GeoVariant::AroundPlace { .. } => {
                asked.centre = Some(GeoCentre::Coordinates(parse_coordinates(args[2], args[3])?));
                asked.set_circle(args[4], args[5])?;
                args[6..].iter()
            }
            GeoVariant::AroundMember { .. } => {
                asked.centre = Some(member(args[2])?);
                // If the key does not exist, Redis does not check the radius.
                if exists {
                    asked.set_circle(args[3], args[4])?;
                }
                args[5..].iter()
            }
            GeoVariant::Search => args[2..].iter(),
            GeoVariant::SearchAndStore => {
                asked.target = Some(args[1]);
                args[3..].iter()
            }
        };
        let is_search = variant.is_search();
        while let Some(option) = rest.next() {
            match (option.to_ascii_lowercase().as_slice(), rest.len()) {
                (b"withdist", _) => asked.with_distance = true,
                (b"withhash", _) => asked.with_hash = true,
                (b"withcoord", _) => asked.with_coordinates = true,
                (b"any", _) => asked.any = true,
                (b"asc", _) => asked.order = Some(DistanceOrder::NearestFirst),
                (b"desc", _) => asked.order = Some(DistanceOrder::NearestLast),
                (b"count", 1..) => {
                    let count = usize::try_from(int(value(&mut rest)?)?).ok().filter(|&count| count > 0);
                    asked.count = Some(count.ok_or_else(|| Fail::err("COUNT must be > 0"))?);
                }
                (name @ (b"store" | b"storedist"), 1..) if variant.has_target_option() => {
                    asked.target = Some(value(&mut rest)?);
                    asked.stores_distances = name == b"storedist";
                }
                (b"storedist", _) if variant == GeoVariant::SearchAndStore => asked.stores_distances = true,
                (b"frommember", 1..)
                    if is_search && !matches!(asked.centre, Some(GeoCentre::Coordinates(_))) =>
                {
                    asked.centre = Some(member(value(&mut rest)?)?);
                }
                (b"fromlonlat", 2..) if is_search && !matches!(asked.centre, Some(GeoCentre::Member(_))) => {
                    asked.centre = Some(GeoCentre::Coordinates(parse_coordinates(
                        value(&mut rest)?,
                        value(&mut rest)?,
                    )?));
                }
                (b"byradius", 2..) if is_search && !matches!(asked.shape, Some(Shape::Box { .. })) => {
                    asked.set_circle(value(&mut rest)?, value(&mut rest)?)?;
                }
                (b"bybox", 3..) if is_search && !matches!(asked.shape, Some(Shape::Circle { .. })) => {
                    asked.set_rectangle(value(&mut rest)?, value(&mut rest)?, value(&mut rest)?)?;
                }
                _ => return Err(Fail::SYNTAX),
            }
        }
        asked.check(args, variant)?;
        Ok(asked)
    }

    /// Fails if the options contradict each other, or a necessary one is missing.
    fn check(&self, args: &Args<'_>, variant: GeoVariant) -> Done {
        if self.target.is_some() && (self.with_distance || self.with_hash || self.with_coordinates) {
            let what = match variant {
                GeoVariant::SearchAndStore => "GEOSEARCHSTORE",
                _ => "STORE option in GEORADIUS",
            };
            return Err(Fail::err(format_args!(
                "{what} is not compatible with WITHDIST, WITHHASH and WITHCOORD options"
            )));
        }
        let exactly_one = |of: &str| {
            Err(Fail::err(format_args!("exactly one of {of} can be specified for {}", lossy(args[0]))))
        };
        if variant.is_search() && self.centre.is_none() {
            return exactly_one("FROMMEMBER or FROMLONLAT");
        }
        if variant.is_search() && self.shape.is_none() {
            return exactly_one("BYRADIUS and BYBOX");
        }
        Fail::err_when(self.any && self.count.is_none(), "the ANY argument requires COUNT argument")
    }

    /// Returns the matches, in the requested order, at most `count`.
    fn find<'v, 'r>(&self, view: &'v View<'r>, sorted: &Sorted<'r>) -> Vec<GeoMatch<'v>> {
        let centre = match self.centre {
            Some(GeoCentre::Coordinates(place)) => Some(place),
            Some(GeoCentre::Member(name)) => coordinates_of(view, sorted, name),
            None => None,
        };
        let (Some(centre), Some(shape)) = (centre, self.shape) else { return Vec::new() };
        let enough = self.count.filter(|_| self.any).unwrap_or(usize::MAX);
        let mut found = Vec::new();
        for (first, end) in shape.geohash_ranges(centre) {
            let rank = sorted.count_before(view, |item| item.score < first as f64);
            for item in sorted.iter(view, rank, usize::MAX, false) {
                if item.score >= end as f64 || found.len() >= enough {
                    break;
                }
                let place = Coordinates::from_score(item.score);
                if let Some(distance) = shape.distance(centre, place) {
                    found.push(GeoMatch { member: &view[item.member], score: item.score, place, distance });
                }
            }
        }
        // `COUNT` without `ANY` and without an order means the nearest ones.
        let order =
            self.order.or_else(|| (self.count.is_some() && !self.any).then_some(DistanceOrder::NearestFirst));
        match order {
            Some(DistanceOrder::NearestFirst) => {
                found.sort_by(|one, two| one.distance.total_cmp(&two.distance))
            }
            Some(DistanceOrder::NearestLast) => {
                found.sort_by(|one, two| two.distance.total_cmp(&one.distance))
            }
            None => {}
        }
        found.truncate(self.count.unwrap_or(usize::MAX));
        found
    }

    fn write(&self, out: &mut Reply, found: &[GeoMatch<'_>]) {
        let more = [self.with_distance, self.with_hash, self.with_coordinates];
        let more = more.into_iter().filter(|&is_wanted| is_wanted).count();
        out.array(found.len());
        for one in found {
            if more > 0 {
                out.array(1 + more);
            }
            out.bulk(one.member);
            if self.with_distance {
                write_distance(out, one.distance / self.unit);
            }
            if self.with_hash {
                out.int(one.score as i64);
            }
            if self.with_coordinates {
                write_coordinates(out, one.place);
            }
        }
    }
}

/// A member whose position is in the searched shape.
struct GeoMatch<'v> {
    member: &'v [u8],
    score: f64,
    place: Coordinates,
    /// Distance from the centre, in metres.
    distance: f64,
}

fn search(cx: &mut Cx<'_>, args: &Args<'_>, variant: GeoVariant, out: &mut Reply) -> Done {
    let key = args[if variant == GeoVariant::SearchAndStore { 2 } else { 1 }];
    let to_store = cx.read_value::<Sorted, _>(key, |view, sorted| {
        let sorted = sorted.map(|sorted| &view[sorted]);
        let is_member = |name: &[u8]| sorted.is_some_and(|sorted| sorted.score(view, name).is_some());
        let asked = GeoSearchArgs::parse(args, variant, sorted.is_some(), is_member)?;
        let found = sorted.map_or(Vec::new(), |sorted| asked.find(view, sorted));
        let Some(target) = asked.target else {
            asked.write(out, &found);
            return Ok(None);
        };
        let score =
            |one: &GeoMatch<'_>| if asked.stores_distances { one.distance / asked.unit } else { one.score };
        let found: ScoredMembers = found.iter().map(|one| (one.member.to_vec(), score(one))).collect();
        Ok(Some((target.to_vec(), found)))
    })?;
    if let Some((target, found)) = to_store {
        out.count(found.len());
        let event = if variant.is_search() { "geosearchstore" } else { "georadiusstore" };
        store_members(cx, &target, event, found)?;
    }
    Ok(())
}
