//! Options: their names, values and defaults, and which of them `CONFIG SET` may change.

mod arguments;
mod foreign;
mod reader;

pub use arguments::{CommandLine, GivenOption, OptionForm};
pub use reader::ConfigReader;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;
use std::{fmt, io};

use pheap::SyncPolicy;

use crate::clients::buffers;
use crate::clients::pubsub::NotificationClasses;
use crate::data::files;
use crate::text::words;

/// The kind of an option's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingKind {
    /// A whole number in this range.
    Int(i64, i64),
    /// A number of bytes, with an optional unit.
    Bytes,
    /// A number of bytes that is at least this number.
    BytesFrom(i64),
    /// A number of bytes, or a percentage of `maxmemory`.
    Percent,
    /// `yes` or `no`.
    YesNo,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// Another server: `HOST PORT`. `no one` or an empty value means none.
    Master,
    /// A file mode: an octal number, at most 777.
    Mode,
    /// A file name without a folder.
    FileName,
    /// A text. For some options, only certain texts are valid.
    Text,
    /// Any number of words.
    Words,
}

impl SettingKind {
    /// Returns the least and the greatest number of words of a value.
    fn words(self) -> (usize, usize) {
        match self {
            SettingKind::Words => (0, usize::MAX),
            // `HOST PORT` or `no one`; or one word, which is quoted or empty.
            SettingKind::Master => (1, 2),
            _ => (1, 1),
        }
    }
}

/// The address of a master.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Master {
    /// The host name or IP address.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl FromStr for Master {
    type Err = String;

    fn from_str(text: &str) -> Result<Master, String> {
        let parts: Vec<&str> = text.split_whitespace().collect();
        let [host, port] = parts[..] else {
            return Err("its value is HOST PORT, as in `replicaof 10.0.0.1 6379`".into());
        };
        let port = words::int(port.as_bytes()).and_then(|port| u16::try_from(port).ok());
        Ok(Master { host: host.to_owned(), port: port.ok_or("Invalid master port")? })
    }
}

impl fmt::Display for Master {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.host, self.port)
    }
}

/// An option.
#[derive(Debug)]
pub struct Setting {
    /// The option's name.
    pub name: &'static str,
    /// The kind of the value.
    pub kind: SettingKind,
    /// The default value.
    pub default: &'static str,
    /// Whether `CONFIG SET` may change the option.
    pub mutable: bool,
}

const fn fixed(name: &'static str, kind: SettingKind, default: &'static str) -> Setting {
    Setting { name, kind, default, mutable: false }
}

const fn mutable(name: &'static str, kind: SettingKind, default: &'static str) -> Setting {
    Setting { name, kind, default, mutable: true }
}

/// All options that have a value in this server.
pub const SETTINGS: &[Setting] = &[
    mutable("port", SettingKind::Int(0, 65535), "6379"),
    mutable("tls-port", SettingKind::Int(0, 65535), "0"),
    mutable("tls-cert-file", SettingKind::Text, ""),
    mutable("tls-key-file", SettingKind::Text, ""),
    mutable("tls-ca-cert-file", SettingKind::Text, ""),
    mutable("tls-auth-clients", SettingKind::OneOf(&["no", "yes", "optional"]), "yes"),
    mutable("tls-protocols", SettingKind::Words, ""),
    mutable("tls-replication", SettingKind::YesNo, "no"),
    mutable("bind", SettingKind::Words, "127.0.0.1 -::1"),
    fixed("unixsocket", SettingKind::Text, ""),
    fixed("unixsocketperm", SettingKind::Mode, "0"),
    fixed("tcp-backlog", SettingKind::Int(0, i32::MAX as i64), "511"),
    fixed("databases", SettingKind::Int(1, 16), "16"),
    fixed("io-threads", SettingKind::Int(1, 128), "1"),
    fixed("daemonize", SettingKind::YesNo, "no"),
    fixed("enable-protected-configs", SettingKind::OneOf(&["no", "yes", "local"]), "no"),
    fixed("dir", SettingKind::Text, "."),
    mutable("dbfilename", SettingKind::FileName, "backup.heap"),
    fixed("appenddirname", SettingKind::FileName, "appendonlydir"),
    fixed("appendfilename", SettingKind::FileName, "appendonly.aof"),
    mutable("appendonly", SettingKind::YesNo, "yes"),
    mutable("appendfsync", SettingKind::OneOf(&["always", "everysec", "no"]), "always"),
    mutable("auto-aof-rewrite-min-size", SettingKind::Bytes, "67108864"),
    mutable("protected-mode", SettingKind::YesNo, "yes"),
    mutable("requirepass", SettingKind::Text, ""),
    mutable("timeout", SettingKind::Int(0, i32::MAX as i64), "0"),
    mutable("tcp-keepalive", SettingKind::Int(0, i32::MAX as i64), "300"),
    mutable("maxclients", SettingKind::Int(1, 1 << 20), "10000"),
    mutable("maxmemory", SettingKind::Bytes, "0"),
    mutable(
        "maxmemory-policy",
        SettingKind::OneOf(&[
            "volatile-lru",
            "volatile-lfu",
            "volatile-random",
            "volatile-ttl",
            "allkeys-lru",
            "allkeys-lfu",
            "allkeys-random",
            "noeviction",
        ]),
        "noeviction",
    ),
    mutable("maxmemory-samples", SettingKind::Int(1, 64), "5"),
    mutable("maxmemory-eviction-tenacity", SettingKind::Int(0, 100), "10"),
    mutable("lfu-log-factor", SettingKind::Int(0, i32::MAX as i64), "10"),
    mutable("lfu-decay-time", SettingKind::Int(0, i32::MAX as i64), "1"),
    mutable("proto-max-bulk-len", SettingKind::BytesFrom(1 << 20), "536870912"),
    mutable("client-query-buffer-limit", SettingKind::BytesFrom(1 << 20), "1073741824"),
    mutable(
        "client-output-buffer-limit",
        SettingKind::Words,
        "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60",
    ),
    mutable("notify-keyspace-events", SettingKind::Text, ""),
    mutable("slowlog-log-slower-than", SettingKind::Int(-1, i64::MAX), "10000"),
    mutable("slowlog-max-len", SettingKind::Int(0, i64::MAX), "128"),
    mutable("latency-monitor-threshold", SettingKind::Int(0, i64::MAX), "0"),
    mutable("latency-tracking", SettingKind::YesNo, "yes"),
    mutable("latency-tracking-info-percentiles", SettingKind::Text, "50 99 99.9"),
    fixed("enable-debug-command", SettingKind::OneOf(&["no", "local", "yes"]), "no"),
    mutable("hz", SettingKind::Int(1, 500), "10"),
    mutable("busy-reply-threshold", SettingKind::Int(0, i64::MAX), "5000"),
    mutable("lua-time-limit", SettingKind::Int(0, i64::MAX), "5000"),
    mutable("save", SettingKind::Words, ""),
    mutable("loglevel", SettingKind::OneOf(&["debug", "verbose", "notice", "warning"]), "notice"),
    fixed("logfile", SettingKind::Text, ""),
    mutable("metrics", SettingKind::Text, ""),
    fixed("pidfile", SettingKind::Text, ""),
    fixed("supervised", SettingKind::OneOf(&["no", "systemd", "auto", "upstart"]), "no"),
    mutable("hash-max-listpack-entries", SettingKind::Int(0, i64::MAX), "512"),
    mutable("hash-max-ziplist-entries", SettingKind::Int(0, i64::MAX), "512"),
    mutable("hash-max-listpack-value", SettingKind::Int(0, i64::MAX), "64"),
    mutable("hash-max-ziplist-value", SettingKind::Int(0, i64::MAX), "64"),
    mutable("list-max-listpack-size", SettingKind::Int(i32::MIN as i64, i32::MAX as i64), "-2"),
    mutable("list-max-ziplist-size", SettingKind::Int(i32::MIN as i64, i32::MAX as i64), "-2"),
    mutable("list-compress-depth", SettingKind::Int(0, i32::MAX as i64), "0"),
    mutable("set-max-intset-entries", SettingKind::Int(0, i64::MAX), "512"),
    mutable("zset-max-listpack-entries", SettingKind::Int(0, i64::MAX), "128"),
    mutable("zset-max-ziplist-entries", SettingKind::Int(0, i64::MAX), "128"),
    mutable("zset-max-listpack-value", SettingKind::Int(0, i64::MAX), "64"),
    mutable("zset-max-ziplist-value", SettingKind::Int(0, i64::MAX), "64"),
    mutable("hll-sparse-max-bytes", SettingKind::Bytes, "3000"),
    mutable("stream-node-max-bytes", SettingKind::Bytes, "4096"),
    mutable("stream-node-max-entries", SettingKind::Int(0, i64::MAX), "100"),
    mutable("active-expire-effort", SettingKind::Int(1, 10), "1"),
    mutable("activerehashing", SettingKind::YesNo, "yes"),
    mutable("lazyfree-lazy-eviction", SettingKind::YesNo, "no"),
    mutable("lazyfree-lazy-expire", SettingKind::YesNo, "no"),
    mutable("lazyfree-lazy-server-del", SettingKind::YesNo, "no"),
    mutable("lazyfree-lazy-user-del", SettingKind::YesNo, "no"),
    mutable("tracking-table-max-keys", SettingKind::Int(0, i64::MAX), "1000000"),
    mutable("acllog-max-len", SettingKind::Int(0, i64::MAX), "128"),
    mutable("maxmemory-clients", SettingKind::Percent, "0"),
    mutable("min-replicas-to-write", SettingKind::Int(0, i32::MAX as i64), "0"),
    fixed("replicaof", SettingKind::Master, ""),
    fixed("slaveof", SettingKind::Master, ""),
    mutable("masterauth", SettingKind::Text, ""),
    mutable("masteruser", SettingKind::Text, ""),
    mutable("replica-read-only", SettingKind::YesNo, "yes"),
    mutable("slave-read-only", SettingKind::YesNo, "yes"),
    mutable("repl-timeout", SettingKind::Int(1, i32::MAX as i64), "60"),
    mutable("replica-priority", SettingKind::Int(0, i32::MAX as i64), "100"),
    mutable("slave-priority", SettingKind::Int(0, i32::MAX as i64), "100"),
    mutable("repl-backlog-size", SettingKind::Bytes, "1048576"),
    mutable("replica-serve-stale-data", SettingKind::YesNo, "yes"),
    mutable("slave-serve-stale-data", SettingKind::YesNo, "yes"),
    mutable("rdbcompression", SettingKind::YesNo, "yes"),
    mutable("sanitize-dump-payload", SettingKind::OneOf(&["no", "yes", "clients"]), "no"),
];

/// Pairs of names for the same option.
const SAME: &[(&str, &str)] = &[
    ("hash-max-listpack-entries", "hash-max-ziplist-entries"),
    ("hash-max-listpack-value", "hash-max-ziplist-value"),
    ("list-max-listpack-size", "list-max-ziplist-size"),
    ("zset-max-listpack-entries", "zset-max-ziplist-entries"),
    ("zset-max-listpack-value", "zset-max-ziplist-value"),
    ("busy-reply-threshold", "lua-time-limit"),
    ("replicaof", "slaveof"),
    ("replica-read-only", "slave-read-only"),
    ("replica-serve-stale-data", "slave-serve-stale-data"),
    ("replica-priority", "slave-priority"),
];

/// The options of a server.
#[derive(Debug, Clone)]
pub struct Config(BTreeMap<&'static str, String>);

impl Default for Config {
    fn default() -> Config {
        Config(SETTINGS.iter().map(|setting| (setting.name, setting.default.to_owned())).collect())
    }
}

/// Returns the option with this name, in any case.
pub fn setting(name: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.name.eq_ignore_ascii_case(name))
}

impl Config {
    /// Returns the value of an option. `name` is lowercase.
    ///
    /// # Panics
    /// If there is no such option.
    pub fn text(&self, name: &str) -> &str {
        self.0.get(name).unwrap_or_else(|| panic!("there is no option {name}"))
    }

    /// Returns the value of an option that is a number, or a number of bytes.
    ///
    /// # Panics
    /// If there is no such option, or its value is not a number.
    pub fn int(&self, name: &str) -> i64 {
        self.text(name).parse().unwrap_or_else(|_| panic!("the option {name} is no number"))
    }

    /// Returns whether an option is `yes`.
    ///
    /// # Panics
    /// If there is no such option.
    pub fn is(&self, name: &str) -> bool {
        self.text(name) == "yes"
    }

    /// Returns when to sync a log on a disk: `appendfsync`.
    pub fn sync_policy(&self) -> SyncPolicy {
        match self.text("appendfsync") {
            // The log is synced when a thread waits for a commit, so one sync can cover many writes. Replies
            // wait for it, so no client has a reply to a write that a crash loses.
            "always" => SyncPolicy::Awaited,
            "everysec" => SyncPolicy::Every(Duration::from_secs(1)),
            _ => SyncPolicy::OnDemand,
        }
    }

    /// Returns the most bytes that all clients may need together (`maxmemory-clients`); 0: no limit. A
    /// percentage is taken of `maxmemory`. A limit is at least 128 KiB, because with less a client could not
    /// even change the option.
    pub fn client_memory(&self) -> u64 {
        let text = self.text("maxmemory-clients");
        let bytes = match text.strip_suffix('%').and_then(|percent| percent.parse::<u128>().ok()) {
            Some(percent) => (u128::from(self.int("maxmemory").cast_unsigned()) * percent / 100) as u64,
            None => text.parse().unwrap_or(0),
        };
        if bytes == 0 { 0 } else { bytes.max(128 << 10) }
    }

    /// Returns the limits of the unread output of clients.
    pub fn output_limits(&self) -> buffers::OutputLimits {
        let mut limits = buffers::OutputLimits::default();
        let _ = limits.set(self.text("client-output-buffer-limit")); // the value was checked when it was set
        limits
    }

    /// Returns all options whose names match a pattern, in any case, and their values.
    pub fn matching<'a>(&'a self, pattern: &[u8]) -> impl Iterator<Item = (&'static str, &'a str)> + 'a {
        let pattern = pattern.to_ascii_lowercase();
        let all = self.0.iter().filter(move |(name, _)| words::matches(&pattern, name.as_bytes()));
        all.map(|(name, value)| (*name, value.as_str()))
    }

    /// Sets an option.
    ///
    /// # Errors
    /// A text, if there is no such option, or its value is invalid or refused.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let setting = setting(name).ok_or_else(|| format!("there is no option '{name}'"))?;
        if let Some(why) = foreign::refusal(setting.name, value) {
            return Err(why.into());
        }
        let mut value = canonical(setting.kind, value)?;
        match setting.name {
            "save" => {
                let is_number = |word: &str| words::int(word.as_bytes()).is_some_and(|number| number >= 0);
                if value.split_whitespace().count() % 2 != 0 || !value.split_whitespace().all(is_number) {
                    return Err("Invalid save parameters".into());
                }
            }
            "notify-keyspace-events" => {
                let wanted = NotificationClasses::parse(&value);
                value = wanted.ok_or("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.")?.to_string();
            }
            "client-output-buffer-limit" => {
                // The kinds of clients that are not named keep their limits.
                let mut limits = self.output_limits();
                limits.set(&value)?;
                value = limits.to_string();
            }
            _ => {}
        }
        let same = SAME.iter().flat_map(|&(a, b)| [(a, b), (b, a)]).find(|(name, _)| *name == setting.name);
        if let Some((_, other)) = same {
            self.0.insert(other, value.clone());
        }
        self.0.insert(setting.name, value);
        Ok(())
    }
}

impl Config {
    /// Writes to a file all options that differ from their defaults or that the file has already, each once.
    /// Keeps the file's other lines: comments, `include`, and options that have no value here. Keeps its
    /// permissions, because it may have passwords. A symbolic link remains one.
    ///
    /// # Errors
    /// If the file cannot be read as UTF-8, is no regular file, or cannot be written. Then it is unchanged,
    /// unless only the last step has failed, a sync of its folder.
    pub fn rewrite(&self, path: &Path) -> io::Result<()> {
        let path = &std::fs::canonicalize(path)?;
        if !std::fs::metadata(path)?.is_file() {
            return Err(io::Error::other(format!("{} is not a regular file", path.display())));
        }
        let old = std::fs::read_to_string(path)?;
        let mut written = BTreeSet::new();
        let mut lines = Vec::new();
        for line in old.lines() {
            let words = words::split(line.as_bytes()).unwrap_or_default();
            let name = words.first().and_then(|name| setting(std::str::from_utf8(name).ok()?));
            match name.map(|setting| setting.name) {
                None => lines.push(line.to_owned()),
                Some(name) if written.insert(name) => lines.push(self.line(name)),
                Some(_) => {}
            }
        }
        for setting in SETTINGS {
            if !written.contains(setting.name) && self.text(setting.name) != setting.default {
                lines.push(self.line(setting.name));
            }
        }
        files::replace(path, |file| {
            file.set_permissions(std::fs::metadata(path)?.permissions())?;
            file.write_all((lines.join("\n") + "\n").as_bytes())
        })
    }

    fn line(&self, name: &str) -> String {
        let value = self.text(name);
        let is_plain = !value.is_empty()
            && value.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"' && byte != b'\'');
        let may_be_several = setting(name)
            .is_some_and(|setting| matches!(setting.kind, SettingKind::Words | SettingKind::Master));
        if is_plain || may_be_several && !value.is_empty() {
            format!("{name} {value}")
        } else {
            format!("{name} {}", words::quoted(value.as_bytes()))
        }
    }
}

/// Returns the canonical form of a value, if it is valid.
fn canonical(kind: SettingKind, value: &str) -> Result<String, String> {
    // The replacement character stands for bytes that were not UTF-8. A password of such bytes would be easy
    // to guess.
    if value.contains(char::REPLACEMENT_CHARACTER) {
        return Err("argument must be UTF-8".into());
    }
    match kind {
        SettingKind::Text => Ok(value.to_owned()),
        // Single spaces separate the words, so that the value fits in one line of a file.
        SettingKind::Words => Ok(value.split_whitespace().collect::<Vec<_>>().join(" ")),
        SettingKind::FileName if value.is_empty() || value.contains('/') => {
            Err("it is the name of a file in the folder `dir`, so it has no '/'".into())
        }
        SettingKind::FileName => Ok(value.to_owned()),
        SettingKind::Mode => match u32::from_str_radix(value, 8) {
            Ok(0..=0o777) => Ok(value.to_owned()),
            _ => Err("argument must be an octal number between 0 and 777".into()),
        },
        SettingKind::Master if value.is_empty() || value.eq_ignore_ascii_case("no one") => Ok(String::new()),
        SettingKind::Master => value.parse::<Master>().map(|master| master.to_string()),
        SettingKind::YesNo => match value.to_ascii_lowercase().as_str() {
            yes_no @ ("yes" | "no") => Ok(yes_no.to_owned()),
            _ => Err("argument must be 'yes' or 'no'".into()),
        },
        SettingKind::OneOf(words) => {
            let word = words.iter().find(|word| word.eq_ignore_ascii_case(value));
            word.map(|word| (*word).to_owned())
                .ok_or_else(|| format!("argument(s) must be one of the following: {}", words.join(", ")))
        }
        SettingKind::Int(least, most) => {
            let number = words::int(value.as_bytes()).ok_or("argument couldn't be parsed into an integer")?;
            if !(least..=most).contains(&number) {
                return Err(format!("argument must be between {least} and {most} inclusive"));
            }
            Ok(number.to_string())
        }
        SettingKind::Percent if value.ends_with('%') => {
            let percent = words::int(value.trim_end_matches('%').as_bytes());
            match percent.ok_or("argument must be a memory or percent value")? {
                percent @ 0..=100 => Ok(format!("{percent}%")),
                _ => Err("percentage argument must be less or equal to 100".into()),
            }
        }
        SettingKind::BytesFrom(least) => {
            let bytes = words::bytes(value).and_then(|bytes| i64::try_from(bytes).ok());
            let bytes = bytes.ok_or("argument must be a memory value")?;
            if bytes < least {
                return Err(format!("argument must be between {least} and {} inclusive", i64::MAX));
            }
            Ok(bytes.to_string())
        }
        SettingKind::Bytes | SettingKind::Percent => canonical(SettingKind::BytesFrom(0), value),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn masters_are_written_as_two_words() {
        let master: Master = " example.org  6379 ".parse().unwrap();
        assert_eq!((master.host.as_str(), master.port), ("example.org", 6379));
        assert_eq!(master.to_string(), "example.org 6379");
        for wrong in ["", "host", "host x", "host 65536", "host -1", "host 1 2"] {
            assert!(wrong.parse::<Master>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_file_is_rewritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("redis.conf");
        std::fs::write(&path, "# mine\nport 7000\n\"port\" 7001\nrdb-key-save-delay 3\n").unwrap();
        let read = || {
            let mut reader = ConfigReader::default();
            reader.file(&path).unwrap();
            reader.config
        };
        let mut config = read();
        config.set("requirepass", "a \"b").unwrap();
        config.set("maxmemory", "1kb").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        config.rewrite(&link).unwrap();
        assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
        assert!(config.rewrite(folder.path()).is_err());
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(
            text,
            "# mine\nport 7001\nrdb-key-save-delay 3\nrequirepass \"a \\\"b\"\nmaxmemory 1024\n"
        );
        assert_eq!(read().0, config.0);
    }

    #[test]
    fn memory_for_clients() {
        let mut config = Config::default();
        for (clients, maxmemory, expected) in [
            ("0", "0", 0),
            ("1mb", "0", 1 << 20),
            ("1", "0", 128 << 10),
            ("5%", "0", 0),
            ("5%", "100mb", 5 << 20),
        ] {
            config.set("maxmemory-clients", clients).unwrap();
            config.set("maxmemory", maxmemory).unwrap();
            assert_eq!(config.client_memory(), expected, "{clients} of {maxmemory}");
        }
    }

    #[test]
    fn each_default_is_one_that_can_be_set() {
        for setting in SETTINGS {
            Config::default().set(setting.name, setting.default).unwrap();
        }
    }
}
