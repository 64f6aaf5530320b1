//! Templates of commands, by families. `Generator::fill` in `generate.rs` says how to read them. The word
//! after `=>` names a `Norm`: the part of the reply that must be equal. Without one, all of it must be.

/// Kinds of keys; a key's name begins with its kind. Commands also get keys of other kinds.
pub(crate) const TYPES: &[&str] =
    &["str", "num", "bits", "list", "set", "hash", "zset", "stream", "restored"];

/// Kinds of keys that only templates for them fill, because Redis does not define some results for other
/// values: members of one score for `BYLEX`, places, HyperLogLogs.
pub(crate) const PURE: &[&str] = &["ties", "geo", "hll"];

pub(crate) const FAMILIES: &[&[&str]] = &[
    STRINGS, BITS, LISTS, SETS, HASHES, SORTED, SORTED, STREAMS, STREAMS, GEO, HLL, KEYS, EXPIRY, OBJECTS,
    SORT, OTHER,
];

const STRINGS: &[&str] = &[
    "APPEND str val",
    "DECR num",
    "DECRBY num whole",
    "GET str",
    "GETDEL str",
    "GETEX str [ ( EX far | PX far | EXAT farat | PXAT pfarat | PERSIST | EX past ) ]",
    "GETRANGE str idx idx",
    "GETSET str val",
    "INCR num",
    "INCRBY num whole",
    "INCRBYFLOAT num float",
    "LCS str str [ LEN ] [ IDX ] [ MINMATCHLEN int ] [ WITHMATCHLEN ]",
    "MGET { str }",
    "MSET { str val }",
    "MSETNX { str val }",
    "PSETEX str far val",
    "SET str val [ ( NX | XX ) ] [ GET ] [ ( EX far | PX far | EXAT farat | PXAT pfarat | KEEPTTL ) ]",
    "SET num whole",
    "SETEX str far val",
    "SETNX str val",
    "SETRANGE str off val",
    "STRLEN str",
    "SUBSTR str idx idx",
];

const BITS: &[&str] = &[
    "BITCOUNT bits [ idx idx [ ( BYTE | BIT ) ] ]",
    "BITFIELD bits { ( GET btype boff | SET btype boff whole | INCRBY btype #3 whole | OVERFLOW ( WRAP | SAT | FAIL ) INCRBY btype boff whole ) }",
    "BITFIELD_RO bits { GET btype boff }",
    "BITOP ( AND | OR | XOR ) bits { bits }",
    "BITOP NOT bits bits",
    "BITPOS bits bit [ idx [ idx [ ( BYTE | BIT ) ] ] ]",
    "GETBIT bits boff",
    "SETBIT bits boff bit",
    "SETBIT bits boff bit",
    "SETRANGE bits off val",
];

const LISTS: &[&str] = &[
    "LINDEX list idx",
    "LINSERT list ( BEFORE | AFTER ) val val",
    "LLEN list",
    "LMOVE list list ( LEFT | RIGHT ) ( LEFT | RIGHT )",
    "LMPOP #{ list } ( LEFT | RIGHT ) [ COUNT cnt ]",
    "LPOP list [ cnt ]",
    "LPOS list val [ RANK idx ] [ COUNT cnt ] [ MAXLEN int ]",
    "LPUSH list { val }",
    "LPUSHX list { val }",
    "LRANGE list idx idx",
    "LREM list idx val",
    "LSET list idx val",
    "LTRIM list idx idx",
    "RPOP list [ cnt ]",
    "RPOPLPUSH list list",
    "RPUSH list { val }",
    "RPUSH list { member }",
    "RPUSH list many",
    "RPUSHX list { val }",
];

const SETS: &[&str] = &[
    "SADD set { member }",
    "SADD set { member }",
    "SADD set { int }",
    "SADD set many",
    "SCARD set",
    "SDIFF { set } => any",
    "SDIFFSTORE set { set }",
    "SINTER { set } => any",
    "SINTERCARD #{ set } [ LIMIT cnt ]",
    "SINTERSTORE set { set }",
    "SISMEMBER set member",
    "SMEMBERS set => any",
    "SMISMEMBER set { member }",
    "SMOVE set set member",
    "SPOP set 1000000 => any",
    "SRANDMEMBER set => size",
    "SRANDMEMBER set int => size",
    "SREM set { member }",
    "SSCAN set 0 [ MATCH pat ] [ COUNT int ] => scan",
    "SUNION { set } => any",
    "SUNIONSTORE set { set }",
];

const HASHES: &[&str] = &[
    "HDEL hash { field }",
    "HEXISTS hash field",
    "HGET hash field",
    "HGETALL hash => pairs",
    "HINCRBY hash field whole",
    "HINCRBYFLOAT hash field float",
    "HKEYS hash => any",
    "HLEN hash",
    "HMGET hash { field }",
    "HMSET hash { field val }",
    "HRANDFIELD hash => size",
    "HRANDFIELD hash int [ WITHVALUES ] => size",
    "HSCAN hash 0 [ MATCH pat ] [ COUNT int ] => scan",
    "HSET hash { field val }",
    "HSET hash { field whole }",
    "HSET hash manypairs",
    "HSETNX hash field val",
    "HSTRLEN hash field",
    "HVALS hash => any",
];

const SORTED: &[&str] = &[
    "ZADD zset [ ( NX | XX ) ] [ ( GT | LT ) ] [ CH ] { float member }",
    "ZADD zset [ ( NX | XX ) ] [ ( GT | LT ) ] [ CH ] INCR float member",
    "ZADD ties { 0 member }",
    "ZADD ties { 0 member }",
    "ZADD zset { float member }",
    "ZADD zset manypairs",
    "ZCARD zset",
    "ZCOUNT zset bound bound",
    "ZDIFF #{ zset } [ WITHSCORES ]",
    "ZDIFFSTORE zset #{ zset }",
    "ZINCRBY zset float member",
    "ZINTER #{ ( zset | set ) } [ AGGREGATE ( SUM | MIN | MAX ) ] [ WITHSCORES ]",
    "ZINTER 2 zset zset WEIGHTS float float [ AGGREGATE ( SUM | MIN | MAX ) ] [ WITHSCORES ]",
    "ZINTERCARD #{ zset } [ LIMIT cnt ]",
    "ZINTERSTORE zset #{ ( zset | set ) } [ AGGREGATE ( SUM | MIN | MAX ) ]",
    "ZLEXCOUNT ties lex lex",
    "ZMPOP #{ zset } ( MIN | MAX ) [ COUNT cnt ]",
    "ZMSCORE zset { member }",
    "ZPOPMAX zset [ cnt ]",
    "ZPOPMIN zset [ cnt ]",
    "ZRANDMEMBER zset => size",
    "ZRANDMEMBER zset int [ WITHSCORES ] => size",
    "ZRANGE zset idx idx [ REV ] [ WITHSCORES ]",
    "ZRANGE zset bound bound BYSCORE [ REV ] [ LIMIT cnt int ] [ WITHSCORES ]",
    "ZRANGE ties lex lex BYLEX [ REV ] [ LIMIT cnt int ]",
    "ZRANGEBYLEX ties lex lex [ LIMIT cnt int ]",
    "ZRANGEBYSCORE zset bound bound [ WITHSCORES ] [ LIMIT cnt int ]",
    "ZRANGESTORE ties ties lex lex BYLEX [ REV ] [ LIMIT cnt int ]",
    "ZRANGESTORE zset zset ( idx idx | bound bound BYSCORE ) [ REV ] [ LIMIT cnt int ]",
    "ZRANK zset member",
    "ZREM zset { member }",
    "ZREMRANGEBYLEX ties lex lex",
    "ZREMRANGEBYRANK zset idx idx",
    "ZREMRANGEBYSCORE zset bound bound",
    "ZREVRANGE zset idx idx [ WITHSCORES ]",
    "ZREVRANGEBYLEX ties lex lex [ LIMIT cnt int ]",
    "ZREVRANGEBYSCORE zset bound bound [ WITHSCORES ] [ LIMIT cnt int ]",
    "ZREVRANK zset member",
    "ZSCAN zset 0 [ MATCH pat ] [ COUNT int ] => scan",
    "ZSCORE zset member",
    "ZUNION #{ ( zset | set ) } [ AGGREGATE ( SUM | MIN | MAX ) ] [ WITHSCORES ]",
    "ZUNION 2 zset zset WEIGHTS float float [ AGGREGATE ( SUM | MIN | MAX ) ] [ WITHSCORES ]",
    "ZUNIONSTORE zset #{ ( zset | set ) } [ AGGREGATE ( SUM | MIN | MAX ) ]",
];

const STREAMS: &[&str] = &[
    "XACK stream grp { id }",
    "XADD stream [ NOMKSTREAM ] [ ( MAXLEN [ ( = | ~ ) ] int | MINID [ = ] id ) ] nid { field val }",
    "XADD stream nid { field val }",
    "XADD stream nid field val",
    "XAUTOCLAIM stream grp con 0 id [ COUNT int ] [ JUSTID ]",
    "XAUTOCLAIM stream grp con 1000000000 id [ COUNT int ]",
    "XCLAIM stream grp con 0 { id } [ ( IDLE 5000 | TIME 1000 ) ] [ RETRYCOUNT cnt ] [ FORCE ] [ JUSTID ] [ LASTID id ]",
    "XDEL stream { id }",
    "XGROUP CREATE stream grp ( id | $ ) [ MKSTREAM ] [ ENTRIESREAD int ]",
    "XGROUP CREATE stream grp 0 MKSTREAM",
    "XGROUP CREATE stream grp 0 MKSTREAM",
    "XGROUP CREATECONSUMER stream grp con",
    "XGROUP DELCONSUMER stream grp con",
    "XGROUP DESTROY stream grp",
    "XGROUP SETID stream grp ( id | $ ) [ ENTRIESREAD int ]",
    "XINFO CONSUMERS stream grp => clock",
    "XINFO GROUPS stream",
    "XINFO STREAM stream => clock",
    "XINFO STREAM stream FULL [ COUNT cnt ] => clock",
    "XLEN stream",
    "XPENDING stream grp",
    "XPENDING stream grp [ IDLE 0 ] ( - | id ) ( + | id ) cnt [ con ] => clock",
    "XRANGE stream ( - | id ) ( + | id ) [ COUNT cnt ]",
    "XREAD [ COUNT cnt ] STREAMS stream ( id | $ )",
    "XREAD [ COUNT cnt ] STREAMS stream stream id id",
    "XREADGROUP GROUP grp con STREAMS stream >",
    "XREADGROUP GROUP grp con [ COUNT cnt ] [ NOACK ] STREAMS stream ( > | > | id )",
    "XREVRANGE stream ( + | id ) ( - | id ) [ COUNT cnt ]",
    "XSETID stream id [ ENTRIESADDED int MAXDELETEDID id ]",
    "XTRIM stream ( MAXLEN [ = ] int | MINID [ = ] id )",
];

const GEO: &[&str] = &[
    "GEOADD geo [ ( NX | XX ) ] [ CH ] { lon lat member }",
    "GEOADD geo { lon lat member }",
    "GEODIST geo member member [ ( M | KM | FT | MI ) ]",
    "GEOHASH geo { member }",
    "GEOPOS geo { member }",
    "GEORADIUS geo lon lat dist KM [ WITHCOORD ] [ WITHDIST ] [ WITHHASH ] [ COUNT 2 ] ( ASC | DESC )",
    "GEORADIUS geo lon lat dist KM ( STORE | STOREDIST ) geo",
    "GEORADIUSBYMEMBER geo member dist KM [ WITHCOORD ] [ WITHDIST ] ( ASC | DESC )",
    "GEORADIUSBYMEMBER_RO geo member dist KM => any",
    "GEOSEARCH geo ( FROMLONLAT lon lat | FROMMEMBER member ) ( BYRADIUS dist | BYBOX dist dist ) ( M | KM | MI ) ( ASC | DESC ) [ COUNT cnt ] [ WITHCOORD ] [ WITHDIST ] [ WITHHASH ]",
    "GEOSEARCH geo FROMMEMBER member BYRADIUS dist KM => any",
    "GEOSEARCHSTORE geo geo FROMLONLAT lon lat BYBOX dist dist KM [ ASC COUNT int ] [ STOREDIST ]",
    "ZRANGE geo 0 -1 WITHSCORES",
];

const HLL: &[&str] = &[
    "GET hll",
    "PFADD hll { member }",
    "PFADD hll many",
    "PFADD hll",
    "PFCOUNT { hll }",
    "PFMERGE hll { hll }",
    "STRLEN hll",
];

const KEYS: &[&str] = &[
    "COPY any any [ DB db ] [ REPLACE ]",
    "DBSIZE",
    "DEL any",
    "COPY ( geo geo | hll hll | ties ties ) REPLACE",
    "DEL ( geo | hll | ties )",
    "DEL { any }",
    "EXISTS { any }",
    "KEYS pat => any",
    "MOVE any db",
    "RANDOMKEY => size",
    "RENAME any any",
    "RENAMENX any any",
    "SCAN 0 [ MATCH pat ] [ COUNT int ] [ TYPE ( STRING | LIST | ZSET | HASH | STREAM | SET | WORD ) ] => scan",
    "SELECT 0",
    "SELECT 0",
    "SELECT db",
    "SWAPDB db db",
    "TOUCH { any }",
    "TYPE any",
    "UNLINK { any }",
];

const EXPIRY: &[&str] = &[
    "EXPIRE any ( far | far | past ) [ ( NX | XX | GT | LT ) ]",
    "EXPIRE ( geo | hll | ties ) far",
    "EXPIREAT any farat [ ( NX | XX | GT | LT ) ]",
    "EXPIRETIME any => near",
    "PERSIST any",
    "PEXPIRE any far [ ( NX | XX | GT | LT ) ]",
    "PEXPIREAT any ( pfarat | pfarat | past ) [ ( NX | XX | GT | LT ) ]",
    "PEXPIRETIME any => near",
    "PTTL any => near",
    "TTL any => near",
];

const OBJECTS: &[&str] = &[
    "DUMP ( any | any | geo | hll | ties ) => dump",
    "OBJECT ENCODING any",
    "OBJECT FREQ any",
    "OBJECT HELP",
    "OBJECT REFCOUNT str",
    "RESTORE restored ( 0 | far ) payload REPLACE",
    "RESTORE restored ( 0 | far ) ( val | payload ) [ REPLACE ] [ ABSTTL ] [ IDLETIME 5 ] [ FREQ 5 ]",
];

const SORT: &[&str] = &[
    "SORT list [ ALPHA ] [ ( ASC | DESC ) ] [ LIMIT cnt int ]",
    "SORT list [ BY ( 'f* | 'num* | 'hash*->f1 ) ] [ LIMIT cnt int ] [ GET # ] [ GET 'num* ] [ GET 'hash*->f1 ] [ ALPHA ]",
    "SORT set [ ALPHA ] [ ( ASC | DESC ) ] STORE list",
    "SORT ties BY 'nosort [ DESC ] [ LIMIT cnt int ] [ GET # ]",
    "SORT_RO ( list | set | zset ) ALPHA [ ( ASC | DESC ) ]",
];

const OTHER: &[&str] = &[
    "AUTH val",
    "CLIENT GETNAME",
    "CLIENT NO-EVICT ( ON | OFF )",
    "CLIENT SETNAME field",
    "COMMAND GETKEYS inner",
    "COMMAND GETKEYSANDFLAGS inner",
    "CONFIG GET ( MAXMEMORY | HASH-MAX-* | PROTO-MAX* | NOTHING ) => pairs",
    "ECHO val",
    "COMMAND INFO NOTHING",
    "COMMAND LIST FILTERBY PATTERN ( Z* | H* ) => any",
    "FCALL 'f #{ any } { val }",
    "FCALL_RO 'g #{ any } { val }",
    "FUNCTION DELETE ( 'lib | 'lib2 )",
    "FUNCTION LIST [ LIBRARYNAME pat ] => any",
    "FUNCTION LOAD [ REPLACE ] library",
    "FUNCTION LOAD [ REPLACE ] library",
    "PING [ val ]",
    "PUBLISH field val",
    "PUBSUB NUMSUB { field }",
    "SCRIPT EXISTS { member }",
    "UNWATCH",
    "TIME => size",
    "WAIT 0 0",
];

/// Commands that may wait. They are sent only in transactions and in scripts, where they do not wait.
pub(crate) const WAITING: &[&str] = &[
    "BLMOVE list list ( LEFT | RIGHT ) ( LEFT | RIGHT ) 0",
    "BLMPOP 0 #{ list } ( LEFT | RIGHT ) [ COUNT cnt ]",
    "BLPOP { list } 0",
    "BRPOP { list } 0",
    "BRPOPLPUSH list list 0",
    "BZMPOP 0 #{ zset } ( MIN | MAX ) [ COUNT cnt ]",
    "BZPOPMAX { zset } 0",
    "BZPOPMIN { zset } 0",
    "XREAD BLOCK 0 STREAMS stream $",
    "XREADGROUP GROUP grp con BLOCK 0 STREAMS stream >",
];

/// Commands whose effects the servers may choose differently. The key that is the first argument is deleted
/// afterwards.
pub(crate) const ALONE: &[&str] = &[
    "SPOP set => size",
    "SPOP set cnt => size",
    "XADD stream * field val => size",
    "GEOSEARCHSTORE geo geo FROMLONLAT lon lat BYRADIUS dist KM COUNT 2 ANY => size",
    "SORT set BY 'nosort STORE list => size",
];

/// Arguments of `FUNCTION LOAD`, some of them invalid.
pub(crate) const LIBRARIES: &[&str] = &[
    "#!lua name=lib\nredis.register_function('f', function(keys, args) return redis.call('append', keys[1], args[1]) end)",
    "#!lua name=lib2\nredis.register_function{function_name='g', callback=function(keys) return redis.pcall('strlen', keys[1]) end, flags={'no-writes'}}",
    "#!lua name=lib\nerror('no')",
    "no library",
];

/// Dumps that Redis 7.0.15 made: a string, and a list.
pub(crate) const DUMPS: &[&[u8]] = &[
    b"\x00\x05hello\x0a\x00cr\xdfve4 \x0a",
    b"\x12\x01\x02\xc3!<\x12<\x00\x00\x00\x06\x00\x81a\x02\x01\x01\xdf\xfb\x02\xc1,\x02\x9ex\xe0\x14\x00\x02\x1f\xf4\xff\x80\x00\x02\x7f\x09\xff\x0a\x00g\xaeN\x03\xb3\x01GC",
];

/// Scripts. Each gets one key and one argument.
pub(crate) const SCRIPTS: &[&str] = &[
    "return {KEYS, ARGV}",
    "return redis.call('type', KEYS[1])",
    "redis.call('del', KEYS[1]) redis.call('rpush', KEYS[1], ARGV[1], 2, 3.5) return redis.call('lrange', KEYS[1], 0, -1)",
    "return redis.call('set', KEYS[1], ARGV[1])",
    "return redis.call('incrby', KEYS[1], ARGV[1])",
    "#!lua flags=no-writes\nreturn redis.call('incr', KEYS[1])",
    "redis.call('set', 'num1', 5) return redis.error_reply('MY error')",
    "redis.call('set', 'num2', 5) return redis.call('lpush', 'num2', 1)",
    "redis.call('set', 'num3', 5) error({err = 'MY table'})",
    "return {map = {a = 1}}",
    "return {2.5, -0.1, 'x', false, true, {1, nil, 3}}",
    "return {{double = 0.5}, {set = {a = true}}, {ok = 'x'}, {err = 'y'}}",
    "redis.setresp(3) return {{double = 0.5}, {set = {a = true}}, {map = {a = 1}}, true, false}",
    "return cjson.encode({1, {a = cmsgpack.unpack(cmsgpack.pack(ARGV))}})",
    "local value = cjson.decode(ARGV[1]) return value",
    "return struct.pack('>I2s', 5, ARGV[1])",
    "return redis.sha1hex(ARGV[1]) .. tostring(bit.bxor(1, tonumber(ARGV[1]) or 2))",
    "return tostring(redis.call('zscore', KEYS[1], ARGV[1]))",
    "return tonumber(ARGV[1])",
    "return 1 +",
    "return nothing.here",
    "local t = redis.call('sort', KEYS[1], 'alpha') return #t",
    "return redis.status_reply(ARGV[1])",
    "return redis.pcall('nonsense', ARGV[1])",
    "return string.rep('a', 5) .. table.concat(ARGV, ',')",
];
