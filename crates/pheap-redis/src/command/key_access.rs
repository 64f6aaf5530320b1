//! What a command does to each of its keys, as `COMMAND GETKEYSANDFLAGS` tells it.

use super::{Args, Flags, Known};

/// What is done to a key: whether it is read (`RO`), changed (`RW`), overwritten (`OW`) or removed (`RM`) as a whole; and what that means for its value.
type Access = &'static str;

const READ: Access = "RO access";
const CHANGE: Access = "RW access update";
const OVERWRITE: Access = "OW update";

/// What is done to the first key, and to the others, by which commands.
const TABLE: &[(Access, Access, &str)] = &[
    ("OW insert", "OW insert", "msetnx setnx"),
    ("OW update", "OW update", "mset psetex restore setex"),
    (
        "OW update",
        "RO access",
        "bitop geosearchstore sdiffstore sunionstore zdiffstore zinterstore zrangestore \
         zunionstore",
    ),
    ("RM delete", "RM delete", "del unlink"),
    (
        "RO",
        "RO",
        "exists hexists hlen hstrlen llen memory|usage object|encoding object|freq \
         object|idletime object|refcount scard sismember strlen touch type watch xlen zcard",
    ),
    ("RO access", "RO access", "xreadgroup"),
    ("RO access", "OW update", "copy georadius georadiusbymember sort"),
    ("RW access", "RW access", "pfcount"),
    (
        "RW access delete",
        "RW access delete",
        "blmpop blpop brpop bzmpop bzpopmax bzpopmin getdel lmpop lpop rpop spop zmpop \
         zpopmax zpopmin",
    ),
    ("RW access delete", "OW insert", "renamenx"),
    ("RW access delete", "OW update", "rename"),
    ("RW access delete", "RW insert", "blmove brpoplpush lmove rpoplpush smove"),
    ("RW access insert", "RO access", "pfmerge"),
    (
        "RW delete",
        "RW delete",
        "hdel lrem ltrim srem xautoclaim xdel xgroup|delconsumer xgroup|destroy xtrim zrem \
         zremrangebylex zremrangebyrank zremrangebyscore",
    ),
    (
        "RW insert",
        "RW insert",
        "append hsetnx linsert lpush lpushx pfadd rpush rpushx sadd xgroup|create \
         xgroup|createconsumer",
    ),
    (
        "RW update",
        "RW update",
        "expire expireat geoadd hmset hset lset persist pexpire pexpireat setrange xack xadd \
         xclaim xgroup|setid xsetid zadd",
    ),
    ("RW update", "RO access", "sinterstore"),
];

/// What a command does to its first key, and to the others.
pub(super) fn access(known: Known, words: &Args<'_>) -> [Access; 2] {
    match known.name {
        "set" => {
            let reads = words.iter().skip(3).any(|word| word.eq_ignore_ascii_case(b"get"));
            [if reads { CHANGE } else { OVERWRITE }; 2]
        }
        "bitfield" => [if only_reads(words) { READ } else { CHANGE }; 2],
        name => {
            let row = TABLE.iter().find(|(_, _, names)| names.split(' ').any(|other| other == name));
            let other = if known.flags.has(Flags::READONLY) { READ } else { CHANGE };
            row.map_or([other; 2], |(first, others, _)| [first, others])
        }
    }
}

/// Whether a `BITFIELD` has no operation but `GET`.
fn only_reads(words: &Args<'_>) -> bool {
    let mut rest = &words[2..];
    loop {
        rest = match rest {
            [] => return true,
            [get, _, _, rest @ ..] if get.eq_ignore_ascii_case(b"get") => rest,
            [overflow, _, rest @ ..] if overflow.eq_ignore_ascii_case(b"overflow") => rest,
            _ => return false,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::lookup;

    #[test]
    fn what_is_done_to_keys() {
        let of = |line: &str| {
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            access(lookup(words[0]).unwrap(), &words)
        };
        assert_eq!(of("set a b ex 5"), [OVERWRITE; 2]);
        assert_eq!(of("set a b GET"), [CHANGE; 2]);
        assert_eq!(of("get a"), [READ; 2]);
        assert_eq!(of("exists a"), ["RO"; 2]);
        assert_eq!(of("lmove a b left right"), ["RW access delete", "RW insert"]);
        assert_eq!(of("copy a b"), [READ, OVERWRITE]);
        let reads = |line: &str| only_reads(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>());
        assert!(reads("bitfield k overflow wrap GET u8 0 get u8 8") && reads("bitfield k"));
        assert!(!reads("bitfield k get u8 0 set u8 0 1") && !reads("bitfield k get u8"));
    }

    #[test]
    fn no_command_is_there_twice() {
        let mut names: Vec<&str> = TABLE.iter().flat_map(|(_, _, names)| names.split(' ')).collect();
        let len = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), len);
    }
}
