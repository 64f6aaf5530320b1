//! `OBJECT`: encodings and usage of values. `MEMORY`: their sizes.

use super::args::int;
use super::table::{READ, SUBKEY};
use super::{Args, Command, Cx, Done, Fail, Flags, Keys, answer, ok};
use crate::data::{Entry, Value, View, size};
use crate::resp::Reply;

pub(super) const COMMANDS: &[Command] = &[
    Command::container("memory"),
    Command::new("memory|doctor", 2, Flags::NONE, Keys::None, |cx, _, out| {
        let stats = cx.store().heap().stats();
        let free = 100.0 * stats.fragmentation();
        let told = "of the heap's pages hold nothing that is alive: garbage that the collector has not reached, and free places.";
        answer::text(out, format!("{free:.0} % {told}"))
    }),
    Command::help("memory|help"),
    Command::new("memory|malloc-stats", 2, Flags::NONE, Keys::None, |cx, _, out| {
        answer::text(out, format!("{:#?}", cx.store().heap().stats()))
    }),
    Command::new("memory|purge", 2, Flags::NONE, Keys::None, |_, _, out| {
        // `MEMORY PURGE` has nothing to do: the collector frees memory without a command.
        ok(out)
    }),
    Command::new("memory|stats", 2, Flags::NONE, Keys::None, |cx, _, out| {
        let stats = cx.store().heap().stats();
        let numbers = [
            ("dataset.bytes", stats.live_bytes),
            ("keys.objects", stats.live_objects),
            ("heap.file-bytes", stats.file_bytes),
            ("heap.free-bytes", stats.free_bytes),
            ("heap.private-bytes", stats.private_bytes),
        ];
        out.map(numbers.len());
        for (name, number) in numbers {
            out.field(name).int(number as i64);
        }
        Ok(())
    }),
    Command::new("memory|usage", -3, READ.and(Flags::GLANCE), SUBKEY, usage).access("RO"),
    Command::container("object"),
    Command::new("object|encoding", 3, READ.and(Flags::GLANCE), SUBKEY, |cx, args, out| {
        let limits = EncodingLimits::from_config(cx);
        with_entry(cx, args[2], out, |view, entry, out| {
            out.bulk(encoding(view, entry.value, &limits).as_bytes());
        })
    })
    .access("RO"),
    Command::new("object|freq", 3, READ.and(Flags::GLANCE), SUBKEY, |cx, args, out| {
        let server = cx.server;
        let often = server.clocks.frequency(args[2], cx.now);
        if server.clocks.is_lfu() {
            return with_entry(cx, args[2], out, |_, _, out| out.int(often.into()));
        }
        not_known(cx, args[2], out, "An LFU maxmemory policy is not selected, access frequency not tracked.")
    })
    .access("RO"),
    Command::help("object|help"),
    Command::new("object|idletime", 3, READ.and(Flags::GLANCE), SUBKEY, |cx, args, out| {
        let server = cx.server;
        if server.clocks.is_lfu() {
            return not_known(
                cx,
                args[2],
                out,
                "An LFU maxmemory policy is selected, idle time not tracked.",
            );
        }
        let idle = server.clocks.idle_seconds(args[2], cx.now);
        // Records the usage of keys from now on, because the client may ask again.
        server.clocks.turn_on();
        with_entry(cx, args[2], out, |_, _, out| out.int(idle))
    })
    .access("RO"),
    Command::new("object|refcount", 3, READ.and(Flags::GLANCE), SUBKEY, |cx, args, out| {
        with_entry(cx, args[2], out, |_, _, out| out.int(1))
    })
    .access("RO"),
];

/// Calls `f` with the entry of a key. Answers null if there is no such key.
fn with_entry(
    cx: &mut Cx<'_>,
    key: &[u8],
    out: &mut Reply,
    f: impl for<'r> FnOnce(&View<'r>, &Entry<'r>, &mut Reply),
) -> Done {
    let now = cx.now;
    cx.read(key, |view, db| match db.entry(view, key, now) {
        Some(entry) => f(view, &entry, out),
        None => out.null(),
    });
    Ok(())
}

/// Answers null if there is no such key, and otherwise with an error that says why the property is unknown.
fn not_known(cx: &mut Cx<'_>, key: &[u8], out: &mut Reply, why: &str) -> Done {
    if !cx.key_exists(key) {
        return answer::null(out);
    }
    Err(Fail::err(format_args!(
        "{why} Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust."
    )))
}

/// Maximum sizes for compact encodings in Redis: number of entries, and bytes of one entry.
pub(super) struct EncodingLimits {
    hash: [usize; 2],
    sorted: [usize; 2],
    integers: usize,
}

impl EncodingLimits {
    pub(super) fn from_config(cx: &Cx<'_>) -> EncodingLimits {
        let config = cx.server.config.read();
        let limit = |name| config.int(name) as usize;
        EncodingLimits {
            hash: [limit("hash-max-listpack-entries"), limit("hash-max-listpack-value")],
            sorted: [limit("zset-max-listpack-entries"), limit("zset-max-listpack-value")],
            integers: limit("set-max-intset-entries"),
        }
    }
}

/// Returns the name of the encoding that Redis would choose for the value of a key, or an empty string if
/// there is no such key.
pub(super) fn encoding_of(cx: &mut Cx<'_>, key: &[u8]) -> &'static str {
    let (limits, now) = (EncodingLimits::from_config(cx), cx.now);
    cx.read(key, |view, db| db.entry(view, key, now).map_or("", |entry| encoding(view, entry.value, &limits)))
}

/// Returns whether Redis would choose a compact encoding for a new value with these elements.
pub(super) fn is_compact<'r>(view: &View<'r>, value: Value<'r>, limits: &EncodingLimits) -> bool {
    matches!(encoding(view, value, limits), "listpack" | "intset")
}

/// Returns the name of the encoding that Redis would choose for a new value with the same content. (This
/// server has other encodings.)
fn encoding<'r>(view: &View<'r>, value: Value<'r>, limits: &EncodingLimits) -> &'static str {
    let is_small = |mut texts: &mut dyn Iterator<Item = &[u8]>, len: usize, [entries, bytes]: [usize; 2]| {
        len <= entries && Iterator::all(&mut texts, |text| text.len() <= bytes)
    };
    match value {
        Value::Int(_) => "int",
        Value::Bytes(bytes) if view[bytes].len() <= 44 => "embstr",
        Value::Bytes(_) | Value::Buffer(_) => "raw",
        Value::List(_) => "quicklist",
        Value::Hash(hash) => {
            let (hash, len) = (&view[hash], view[hash].len());
            let mut texts = hash.iter(view).flat_map(|(field, &value)| [field, &view[value]]);
            if is_small(&mut texts, len, limits.hash) { "listpack" } else { "hashtable" }
        }
        Value::Set(set) => {
            let set = &view[set];
            let is_number = |member: &[u8]| crate::text::words::int(member).is_some();
            if set.len() <= limits.integers && set.iter(view).all(is_number) { "intset" } else { "hashtable" }
        }
        Value::Sorted(sorted) => {
            let sorted = &view[sorted];
            let mut texts = sorted.scores().iter(view).map(|(member, _)| member);
            if is_small(&mut texts, sorted.len(), limits.sorted) { "listpack" } else { "skiplist" }
        }
        Value::Stream(_) => "stream",
    }
}

/// The number of elements of a value that `MEMORY USAGE` measures by default.
const SAMPLES: usize = 5;

/// Answers with the approximate number of bytes of a key and its value.
fn usage(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let samples = match args[3..] {
        [] => SAMPLES,
        [samples, number] if samples.eq_ignore_ascii_case(b"samples") => {
            match usize::try_from(int(number)?).map_err(|_| Fail::SYNTAX)? {
                0 => usize::MAX,
                samples => samples,
            }
        }
        _ => return Err(Fail::SYNTAX),
    };
    let key_bytes = size::text(args[2].len()) + size_of::<Entry<'_>>();
    with_entry(cx, args[2], out, |view, entry, out| {
        out.count(key_bytes + size::value(view, entry.value, samples));
    })
}
