//! Strings, and their bits.

use crate::common::{Server, converse};

#[test]
fn strings_that_are_changed() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--durability", "process"]);
    converse(
        &mut server.client(),
        &[
            ("setrange a 3 x", "4"),
            ("strlen a", "4"),
            ("set a 12345", "OK"),
            ("setrange a 1 xx", "5"),
            ("get a", "1xx45"),
            ("setrange a 4 yyy", "7"),
            ("get a", "1xx4yyy"),
            ("setrange a 1 234567", "7"),
            ("incr a", "1234568"),
            ("setrange a 0 ''", "7"),
            ("setrange none 5 ''", "0"),
            ("exists none", "0"),
            ("setrange a -1 x", "-ERR offset is out of range"),
            ("setrange a 536870911 xx", "-ERR string exceeds maximum allowed size (proto-max-bulk-len)"),
            (
                "setrange a 9223372036854775807 xx",
                "-ERR string exceeds maximum allowed size (proto-max-bulk-len)",
            ),
            ("set a x ex 100", "OK"),
            ("append a y", "2"),
            ("setrange a 2 z", "3"),
            ("ttl a", "100"),
            ("getex a persist", "xyz"),
            ("ttl a", "-1"),
            ("getex a ex 10 ex 20", "xyz"),
            ("ttl a", "20"),
            ("getex a ex 10 px 20", "-ERR syntax error"),
            ("getex a ex 10 persist", "-ERR syntax error"),
            ("getex a ex 0", "-ERR invalid expire time in 'getex' command"),
            ("getex none ex 0", "nil"),
            ("getex a exat 1", "xyz"),
            ("exists a", "0"),
            ("set a x ex 10 ex 20", "OK"),
            ("set a x ex 0 nonsense", "-ERR syntax error"),
            ("set a x keepttl keepttl", "OK"),
            ("set a x ex 10 keepttl", "-ERR syntax error"),
            ("set a 1 ex 100", "OK"),
            ("incrbyfloat a 1.1", "2.1"),
            ("ttl a", "100"),
            ("incrbyfloat a -inf", "-ERR increment would produce NaN or Infinity"),
            ("incrbyfloat a nan", "-ERR value is not a valid float"),
            ("incrbyfloat none 5e-1", "0.5"),
            ("mset x ohmytext y mynewtext", "OK"),
            ("lcs x y", "mytext"),
            ("lcs x y len", "6"),
            ("lcs x y idx withmatchlen", "[matches [[[4 7] [5 8] 4] [[2 3] [0 1] 2]] len 6]"),
            ("lcs x y idx minmatchlen 4", "[matches [[[4 7] [5 8]]] len 6]"),
            ("lcs x none", ""),
            ("lcs x y idx len", "-ERR If you want both the length and indexes, please just use IDX."),
            ("lcs x y minmatchlen", "-ERR syntax error"),
            ("rpush l 1", "1"),
            ("lcs x l nonsense", "-ERR The specified keys must contain string values"),
        ],
    );
}

#[test]
fn bits() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--durability", "process"]);
    converse(
        &mut server.client(),
        &[
            ("setbit a 7 1", "0"),
            ("setbit a 7 1", "1"),
            ("strlen a", "1"),
            ("setbit a 20 0", "0"),
            ("strlen a", "3"),
            ("setbit a 4294967296 1", "-ERR bit offset is not an integer or out of range"),
            ("setbit a 1 2", "-ERR bit is not an integer or out of range"),
            ("getbit a 4294967295", "0"),
            ("bitcount a 5 4 nonsense", "-ERR syntax error"),
            ("bitcount a -1 -2 nonsense", "0"),
            ("bitcount none 1", "0"),
            ("bitcount a 1", "-ERR syntax error"),
            ("bitcount a 6 7 bit", "1"),
            ("bitcount a 7 6 bit", "0"),
            ("bitpos a 1 5 4", "-1"),
            ("bitpos a 1 1 -1 bit", "7"),
            ("bitpos a 0 0 0", "0"),
            ("bitpos a 2", "-ERR The bit argument must be 1 or 0."),
            ("bitop not b a", "3"),
            ("bitpos b 0 0 0 byte", "7"),
            ("bitpos b 0 1", "24"),
            ("bitpos b 0 1 -1", "-1"),
            ("bitop and c a b none", "3"),
            ("bitcount c", "0"),
            ("bitop xor c a b", "3"),
            ("bitcount c", "24"),
            ("bitop or c none", "0"),
            ("exists c", "0"),
            ("bitop not c a b", "-ERR BITOP NOT must be called with a single source key."),
            ("bitfield n set i5 #1 -3 get u5 #1 incrby i5 5 3", "[0 29 0]"),
            ("bitfield n overflow sat incrby u63 0 9223372036854775807", "[9223372036854775807]"),
            ("bitfield n overflow fail incrby u2 0 3 get i2 0", "[nil -1]"),
            (
                "bitfield n set u64 0 0",
                "-ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.",
            ),
            ("bitfield n", "[]"),
            ("bitfield_ro n get u1 0 set u1 0 0", "-ERR BITFIELD_RO only supports the GET subcommand"),
            ("bitfield none get i64 #100000", "[0]"),
            ("exists none", "0"),
            ("set i 42", "OK"),
            ("getbit i 2", "1"),
            ("setbit i 15 1", "0"),
            ("get i", "43"),
            ("incr i", "44"),
        ],
    );
}

#[test]
fn they_survive() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..3 {
        let server = Server::start(folder.path(), &[]);
        let client = &mut server.client();
        if round > 0 {
            let bits = 10 * round;
            assert_eq!(client.ask("bitcount bits"), bits.to_string());
            assert_eq!(client.ask("bitfield fields get u16 #5"), format!("[{bits}]"));
            assert_eq!(client.ask("get float"), format!("{}", f64::from(round) * 2.5));
            assert_eq!(client.ask("getrange text 100 -1"), format!("round{}", round - 1));
        }
        (0..10).for_each(|i| client.send(&format!("setbit bits {} 1", 1000 * i + round)));
        (0..10).for_each(|_| assert_eq!(client.reply(), "0"));
        client.ask("bitfield fields incrby u16 #5 10");
        client.ask("incrbyfloat float 2.5");
        assert_eq!(client.ask(&format!("setrange text 100 round{round}")), "106");
    }
}
