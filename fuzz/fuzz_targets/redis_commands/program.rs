//! Programs, which are the inputs of the fuzzer.

use std::sync::LazyLock;

use arbitrary::Arbitrary;
use pheap_redis::command::{KnownCommand, all_commands};
use pheap_redis::data::Owned;
use pheap_redis::rdb;

/// One input of the fuzzer.
#[derive(Arbitrary, Debug)]
pub struct Program {
    pub steps: Vec<Step>,
    pub expires: bool,
    pub collects: bool,
}

/// Commands that one of two clients sends at once.
#[derive(Arbitrary, Debug)]
pub struct Step {
    pub client: u8,
    pub commands: Vec<Request>,
}

#[derive(Arbitrary, Debug)]
pub struct Request {
    /// Index of the command, modulo their number.
    name: u16,
    /// Number of arguments, modulo 16, in addition to those that the command needs. If it is negative, some
    /// are missing.
    extra: i8,
    args: Vec<Arg>,
}

/// An argument. Numbers are taken modulo the length of their table.
#[derive(Arbitrary, Debug)]
enum Arg {
    /// A key, a channel or a pattern.
    Key(u8),
    /// A word that some command knows.
    Word(u8),
    /// A number near a limit.
    Number(u8, i8),
    Small(i8),
    Float(u8),
    Script(u8),
    Dump(u8, u8, u8),
    Bytes(Vec<u8>),
}

/// Commands that leave the process, end it, write files, or change the configuration.
const NOT_HERE: &[&str] = &["migrate", "shutdown", "save", "bgsave", "config|set", "config|rewrite"];

static COMMANDS: LazyLock<Vec<KnownCommand>> =
    LazyLock::new(|| all_commands().filter(|known| !NOT_HERE.contains(&known.name)).collect());

const KEYS: &[&str] = &["a", "b", "{a}b", "c", "news", "*"];

const NUMBERS: &[i64] = &[
    0,
    1 << 7,
    1 << 8,
    1 << 15,
    1 << 16,
    1 << 20,
    1 << 23,
    1 << 31,
    1 << 32,
    1 << 53,
    i64::MAX / 1000,
    i64::MAX,
    i64::MIN,
    i64::MIN / 1000,
    -(1 << 31),
    4_000_000_000_000,
];

const FLOATS: &[&str] = &[
    "0.1",
    "-0",
    "inf",
    "-inf",
    "nan",
    "1e308",
    "-1e308",
    "5e-324",
    "85.05112878",
    "180",
    "(1.5",
    "0x10",
    "3.0e-2",
];

const WORDS: &[&str] = &[
    "ABSTTL",
    "AFTER",
    "AGGREGATE",
    "ALPHA",
    "AND",
    "ANY",
    "ASC",
    "ASYNC",
    "BCAST",
    "BEFORE",
    "BIT",
    "BLOCK",
    "BY",
    "BYBOX",
    "BYLEX",
    "BYRADIUS",
    "BYSCORE",
    "BYTE",
    "CH",
    "CONSUMERS",
    "COPY",
    "COUNT",
    "CREATE",
    "DB",
    "DESC",
    "ENTRIESREAD",
    "EX",
    "EXAT",
    "FAIL",
    "FORCE",
    "FREQ",
    "FROMLONLAT",
    "FROMMEMBER",
    "FULL",
    "GET",
    "GROUP",
    "GROUPS",
    "GT",
    "ID",
    "IDLE",
    "IDLETIME",
    "IDX",
    "INCR",
    "INCRBY",
    "JUSTID",
    "KEEPTTL",
    "KEYS",
    "LASTID",
    "LEFT",
    "LEN",
    "LIMIT",
    "LT",
    "MATCH",
    "MAX",
    "MAXLEN",
    "MIN",
    "MINID",
    "MINMATCHLEN",
    "MKSTREAM",
    "NO",
    "NOACK",
    "NOLOOP",
    "NOMKSTREAM",
    "NOT",
    "NX",
    "OFF",
    "ON",
    "OPTIN",
    "OR",
    "OVERFLOW",
    "PERSIST",
    "PREFIX",
    "PX",
    "PXAT",
    "RANK",
    "REPLACE",
    "RETRYCOUNT",
    "REV",
    "RIGHT",
    "SAT",
    "SET",
    "STORE",
    "STOREDIST",
    "STREAM",
    "STREAMS",
    "SUM",
    "TIME",
    "TYPE",
    "WEIGHTS",
    "WITHCOORD",
    "WITHDIST",
    "WITHHASH",
    "WITHMATCHLEN",
    "WITHSCORES",
    "WITHVALUES",
    "WRAP",
    "XOR",
    "XX",
    "YES",
    "#",
    "$",
    "(1",
    "(a",
    "*",
    "+",
    "-",
    "1-1",
    "=",
    ">",
    "[a",
    "~",
    "i8",
    "i64",
    "km",
    "m",
    "nosort",
    "u63",
    "#1",
    "a*->f",
    "a*",
    "[a-",
    "string",
    "zset",
    "3-*",
    "(5-0",
    "-1-1",
];

const SCRIPTS: &[&str] = &[
    "return redis.pcall(unpack(ARGV))",
    "return {KEYS, ARGV}",
    "redis.setresp(3) return redis.call('hgetall', KEYS[1])",
    "return redis.call('set', KEYS[1], ARGV[1])",
    "#!lua flags=no-writes\nreturn redis.call('incr', KEYS[1])",
    "redis.call('incr', 'b') return redis.error_reply('MY error')",
    "return {map = {a = 1}, 2.5, {double = 0.5}, {set = {a = true}}, false, {ok = 'x'}, {err = 'y'}}",
    "return cjson.encode({1, {a = cmsgpack.unpack(cmsgpack.pack(ARGV))}})",
    "return struct.pack('>I2s', 5, ARGV[1] or '')",
    "#!lua name=lib\nredis.register_function('f', function(keys, args) return redis.call('get', keys[1] or 'a') end)",
    "return redis.sha1hex(ARGV[1] or '') .. tostring(bit.bxor(1, tonumber(KEYS[1]) or 2))",
    "return 1 +",
];

static DUMPS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let texts = || vec![b"a".to_vec(), b"12".to_vec(), vec![b'x'; 100]];
    let values = [
        Owned::String(b"12345".to_vec()),
        Owned::List(texts()),
        Owned::Set(texts()),
        Owned::Hash(texts().into_iter().map(|text| (text.clone(), text)).collect()),
        Owned::Sorted(texts().into_iter().map(|text| (text, 1.5)).collect()),
    ];
    values.iter().map(|value| rdb::dump(value).expect("it is small")).collect()
});

impl Request {
    /// Returns the words of the request. If `args` has too few arguments, the others are `a`. Never returns
    /// `None`.
    pub fn words(&self) -> Option<Vec<Vec<u8>>> {
        let known = COMMANDS[usize::from(self.name) % COMMANDS.len()];
        let mut words: Vec<Vec<u8>> = known.name.split('|').map(|word| word.as_bytes().to_vec()).collect();
        let least = known.arity.unsigned_abs() as usize;
        let wanted = (least as isize + isize::from(self.extra % 16)).max(words.len() as isize) as usize;
        let mut args = self.args.iter().map(Arg::bytes).chain(std::iter::repeat(b"a".to_vec()));
        while words.len() < wanted {
            words.push(args.next()?);
        }
        Some(words)
    }
}

impl Arg {
    fn bytes(&self) -> Vec<u8> {
        fn one<T: Copy>(all: &[T], at: u8) -> T {
            all[usize::from(at) % all.len()]
        }
        match self {
            Arg::Key(key) => one(KEYS, *key).into(),
            Arg::Word(word) => one(WORDS, *word).into(),
            Arg::Number(number, add) => {
                one(NUMBERS, *number).saturating_add((*add).into()).to_string().into_bytes()
            }
            Arg::Small(number) => number.to_string().into_bytes(),
            Arg::Float(number) => one(FLOATS, *number).into(),
            Arg::Script(script) => one(SCRIPTS, *script).into(),
            Arg::Dump(dump, at, xor) => {
                let mut dump = DUMPS[usize::from(*dump) % DUMPS.len()].clone();
                let at = usize::from(*at) % (dump.len() - 10);
                dump[at] ^= xor;
                dump.truncate(dump.len() - 10);
                rdb::seal(&mut dump);
                dump
            }
            Arg::Bytes(bytes) => bytes.clone(),
        }
    }
}
