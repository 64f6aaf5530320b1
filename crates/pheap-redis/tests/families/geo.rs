//! Places on the Earth.

use crate::common::{Server, converse};

#[test]
fn places() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--durability", "process"];
    let server = Server::start(folder.path(), &arguments);
    converse(
        &mut server.client(),
        &[
            ("geoadd sicily 13.361389 38.115556 Palermo 15.087269 37.502669 Catania", "2"),
            ("geoadd sicily 181 0 x", "-ERR invalid longitude,latitude pair 181.000000,0.000000"),
            ("geoadd sicily nx xx 1 1 x", "-ERR syntax error"),
            ("geoadd sicily nx", "-ERR wrong number of arguments for 'geoadd' command"),
            ("geodist sicily Palermo Catania", "166274.1516"),
            ("geodist sicily Palermo Catania mi", "103.3182"),
            ("geodist sicily Palermo none", "nil"),
            (
                "geodist sicily Palermo Catania yard",
                "-ERR unsupported unit provided. please use M, KM, FT, MI",
            ),
            ("geohash sicily Palermo none", "[sqc8b49rny0 nil]"),
            ("geopos sicily Palermo", "[[13.36138933897018433 38.11555639549629859]]"),
            ("geosearch sicily fromlonlat 15 37 byradius 200 km asc", "[Catania Palermo]"),
            (
                "geosearch sicily fromlonlat 15 37 bybox 400 400 km desc withdist",
                "[[Palermo 190.4424] [Catania 56.4413]]",
            ),
            ("geosearch sicily fromlonlat 15 37 frommember Palermo byradius 1 m", "-ERR syntax error"),
            ("geosearch sicily frommember none byradius 1 m", "-ERR could not decode requested zset member"),
            (
                "geosearch sicily fromlonlat 15 37 count 1 any",
                "-ERR exactly one of BYRADIUS and BYBOX can be specified for geosearch",
            ),
            ("georadius sicily 15 37 200 km count 1 store to", "1"),
            ("zrange to 0 -1", "[Catania]"),
            (
                "georadius sicily 15 37 200 km withdist store to",
                "-ERR STORE option in GEORADIUS is not compatible with WITHDIST, WITHHASH and WITHCOORD options",
            ),
            ("georadius_ro sicily 15 37 200 km store to", "-ERR syntax error"),
            ("georadiusbymember sicily Palermo 1 km storedist to", "1"),
            ("zrange to 0 -1 withscores", "[Palermo 0]"),
            ("geosearchstore to none fromlonlat 15 37 byradius 200 km", "0"),
            ("exists to", "0"),
            ("georadiusbymember none x 1 m", "[]"),
        ],
    );
    drop(server);
    let server = Server::start(folder.path(), &arguments);
    assert_eq!(server.client().ask("geodist sicily Palermo Catania km"), "166.2742");
}
