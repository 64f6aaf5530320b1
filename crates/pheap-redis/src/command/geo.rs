//! Geographic positions, stored as scores of sorted sets: `GEOADD`, `GEODIST`, `GEOHASH`, `GEOPOS`.

use super::args::{float, word};
use super::sorted_sets::{ZaddOptions, add_members};
use super::table::{ADD, KEY, READ};
use super::{Args, Command, Cx, Done, Fail};
use crate::data::{Sorted, View};
use crate::resp::Reply;
use crate::text::geo::{Coordinates, LATITUDE, LONGITUDE};

pub(super) const COMMANDS: &[Command] = &[
    Command::new("geoadd", -5, ADD, KEY, geoadd).access("RW update"),
    Command::new("geodist", -4, READ, KEY, geodist),
    Command::new("geohash", -2, READ, KEY, geohash),
    Command::new("geopos", -2, READ, KEY, geopos),
];

/// Parses a longitude and a latitude.
pub(super) fn parse_coordinates(longitude: &[u8], latitude: &[u8]) -> Result<Coordinates, Fail> {
    let (longitude, latitude) = (float(longitude)?, float(latitude)?);
    let is_within = |(least, greatest): (f64, f64), number: f64| (least..=greatest).contains(&number);
    Fail::err_when(
        !is_within(LONGITUDE, longitude) || !is_within(LATITUDE, latitude),
        format_args!("invalid longitude,latitude pair {longitude:.6},{latitude:.6}"),
    )?;
    Ok(Coordinates { longitude, latitude })
}

/// Parses a unit. Returns its length in metres.
pub(super) fn unit(text: &[u8]) -> Result<f64, Fail> {
    let unit = word(text, &[("m", 1.0), ("km", 1000.0), ("ft", 0.3048), ("mi", 1609.34)]);
    unit.ok_or_else(|| Fail::err("unsupported unit provided. please use M, KM, FT, MI"))
}

/// Writes a distance with 4 decimal places.
pub(super) fn write_distance(out: &mut Reply, distance: f64) {
    let rounded = (distance * 10_000.0).round_ties_even() as i64;
    out.bulk(format!("{}.{:04}", rounded / 10_000, rounded % 10_000).as_bytes());
}

/// Writes a longitude and a latitude.
pub(super) fn write_coordinates(out: &mut Reply, place: Coordinates) {
    out.array(2);
    out.decimal(place.longitude);
    out.decimal(place.latitude);
}

/// Returns the position of a member.
pub(super) fn coordinates_of<'r>(view: &View<'r>, sorted: &Sorted<'r>, member: &[u8]) -> Option<Coordinates> {
    sorted.score(view, member).map(Coordinates::from_score)
}

fn geoadd(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let (how, rest) = ZaddOptions::parse(&args[2..], false);
    let places = rest.chunks_exact(3);
    Fail::SYNTAX
        .when(!places.remainder().is_empty() || places.len() == 0 || how.if_absent && how.if_present)?;
    let mut pairs = Vec::with_capacity(places.len());
    for member in places {
        pairs.push((parse_coordinates(member[0], member[1])?.number() as f64, member[2]));
    }
    add_members(cx, args[1], &how, pairs.into_iter(), out)
}

fn geodist(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    Fail::SYNTAX.when(args.len() > 5)?;
    let unit = args.get(4).map_or(Ok(1.0), |text| unit(text))?;
    cx.read_value::<Sorted, _>(args[1], |view, sorted| {
        let places = sorted.and_then(|sorted| {
            let sorted = &view[sorted];
            Some((coordinates_of(view, sorted, args[2])?, coordinates_of(view, sorted, args[3])?))
        });
        match places {
            Some((from, to)) => write_distance(out, from.distance(to) / unit),
            None => out.null(),
        }
        Ok(())
    })
}

/// Writes an answer about the position of each member.
fn for_each_member(
    cx: &mut Cx<'_>,
    args: &Args<'_>,
    out: &mut Reply,
    write: impl Fn(&mut Reply, Option<Coordinates>),
) -> Done {
    cx.read_value::<Sorted, _>(args[1], |view, sorted| {
        out.array(args.len() - 2);
        for member in &args[2..] {
            write(out, sorted.and_then(|sorted| coordinates_of(view, &view[sorted], member)));
        }
        Ok(())
    })
}

fn geohash(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    for_each_member(cx, args, out, |out, place| match place {
        Some(place) => out.bulk(&place.geohash()),
        None => out.null(),
    })
}

fn geopos(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    for_each_member(cx, args, out, |out, place| match place {
        Some(place) => write_coordinates(out, place),
        None => out.null_array(),
    })
}
