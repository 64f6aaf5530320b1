//! Reads options from files and command lines. Errors name the place of an option.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::path::{Path, PathBuf};

use super::{Config, foreign, setting};
use crate::text::words;

/// The most files of which each includes the next.
const DEEPEST: usize = 64;

/// Reads options from several sources. The last value of an option counts; of `client-output-buffer-limit`,
/// the last one for each kind of client.
#[derive(Debug, Default)]
pub struct ConfigReader {
    /// The options read so far.
    pub config: Config,
    /// Names of options that were read and have no effect here.
    ignored: BTreeSet<String>,
    /// Sentences about options that have another effect than in Redis.
    notes: Vec<String>,
    /// The place that last set `appendfsync`.
    sync: Option<String>,
    /// The files that are being read. Each includes the next.
    within: Vec<PathBuf>,
}

impl ConfigReader {
    /// Reads a file in the syntax of `redis.conf`.
    ///
    /// # Errors
    /// A text that names the file, the fault, and the line, if the fault is in one.
    pub fn file(&mut self, path: &Path) -> Result<(), String> {
        let shown = path.display().to_string();
        if self.within.len() == DEEPEST || self.within.iter().any(|other| other == path) {
            return Err(format!(
                "{shown} includes itself, or files include each other over {DEEPEST} levels; remove an \
                 `include`"
            ));
        }
        let text = std::fs::read(path).map_err(|error| format!("{shown} cannot be read: {error}"))?;
        self.within.push(path.to_owned());
        self.text(&shown, &text)?;
        self.within.pop();
        Ok(())
    }

    /// Reads lines of options. `shown` names their source in errors.
    ///
    /// # Errors
    /// A text that names the source, the line and the fault.
    pub fn text(&mut self, shown: &str, text: &[u8]) -> Result<(), String> {
        for (number, line) in text.split(|&byte| byte == b'\n').enumerate() {
            let line = line.trim_ascii();
            if line.is_empty() || line.starts_with(b"#") {
                continue;
            }
            let place = format!("{shown}, line {}", number + 1);
            let words = words::split(line).ok_or_else(|| format!("{place}: a quote is not closed"))?;
            let words: Vec<String> = words.iter().map(|word| words::lossy(word).into_owned()).collect();
            if let [name, values @ ..] = &words[..] {
                self.option(&place, name, values)?;
            }
        }
        Ok(())
    }

    /// Sets an option, unless it has no value here, or reads the files that an `include` names. `place` names
    /// its place in errors.
    ///
    /// # Errors
    /// A text that names the place, the option and the fault.
    pub fn option(&mut self, place: impl Display, name: &str, values: &[String]) -> Result<(), String> {
        let (lower, value) = (name.to_ascii_lowercase(), values.join(" "));
        let wrong = |why: &str| format!("{place}: {name}: {why}");
        if lower == "include" {
            let [pattern] = values else {
                return Err(wrong("its value is the name of one file; if it has spaces, put it in quotes"));
            };
            return self.include(pattern).map_err(|why| wrong(&why));
        }
        if let Some(why) = foreign::refusal(&lower, &value) {
            return Err(wrong(why));
        }
        let Some(setting) = setting(&lower) else {
            if !foreign::is_of_redis(&lower) {
                return Err(wrong(
                    "there is no such option, here or in Redis 7.0; correct its name, or leave it out",
                ));
            }
            if foreign::is_ignored(&lower) {
                self.ignored.insert(lower);
            }
            return Ok(());
        };
        if !cfg!(feature = "tls") && lower.starts_with("tls-") && value != setting.default {
            return Err(wrong(
                "this pheap-redis was built without TLS, so connections would not be encrypted; remove the \
                 option, or build pheap-redis with `--features tls`",
            ));
        }
        let (least, most) = setting.kind.words();
        if values.len() < least || values.len() > most {
            let many = if most == 1 { "one word; if it has spaces, put it in quotes" } else { "two words" };
            return Err(wrong(&format!("its value is {many}")));
        }
        self.config.set(&lower, &value).map_err(|why| wrong(&why))?;
        if foreign::is_ignored(&lower) && self.config.text(&lower) != setting.default {
            self.ignored.insert(lower);
        } else if lower == "daemonize" && self.config.is("daemonize") {
            self.notes.push(format!(
                "{place}: `daemonize yes` does nothing: the server stays in the foreground; start it with \
                 systemd or Docker, or in a shell with `&`"
            ));
        } else if lower == "appendfsync" {
            self.sync = Some(place.to_string());
        }
        Ok(())
    }

    /// Reads the file with this name, or all files whose names match a pattern, in the order of their names.
    /// As in Redis, a pattern without a match is no error.
    fn include(&mut self, pattern: &str) -> Result<(), String> {
        if !pattern.contains(['*', '?', '[']) {
            return self.file(Path::new(pattern));
        }
        let found = glob::glob(pattern).map_err(|error| error.to_string())?;
        for path in found {
            self.file(&path.map_err(|error| error.to_string())?)?;
        }
        Ok(())
    }

    /// Returns the options, and sentences for the person that starts the server.
    pub fn finish(self) -> (Config, Vec<String>) {
        let mut notes = self.notes;
        if !self.ignored.is_empty() {
            let names: Vec<String> = self.ignored.into_iter().collect();
            notes.push(format!("these options do nothing here: {}", names.join(", ")));
        }
        let loses = match self.config.text("appendfsync") {
            "everysec" => Some("those of about the last second"),
            "no" => Some("those since the last checkpoint"),
            _ => None,
        };
        if let (Some(place), Some(loses)) = (self.sync, loses) {
            notes.push(format!(
                "{place}: with `appendfsync {}`, a power failure may lose acknowledged writes, {loses}; with \
                 `always`, it loses none",
                self.config.text("appendfsync"),
            ));
        }
        (self.config, notes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads this text, under the name `redis.conf`.
    fn read(text: &str) -> Result<ConfigReader, String> {
        let mut reader = ConfigReader::default();
        reader.text("redis.conf", text.as_bytes()).map(|()| reader)
    }

    #[test]
    fn a_file_of_options() {
        let file = "# comment\n\n \nport 7000\nMaxMemory 2gb\r\nrequirepass \"a b\"\n\
            rdb-key-save-delay 3\nsave 60 1\n";
        let (config, notes) = read(file).unwrap().finish();
        let found = (config.int("port"), config.int("maxmemory"), config.text("requirepass"));
        assert_eq!(found, (7000, 2 << 30, "a b"));
        assert_eq!(notes, ["these options do nothing here: rdb-key-save-delay, save"]);
        let (_, notes) = read("\nappendfsync everysec\ndaemonize yes").unwrap().finish();
        assert!(notes[0].starts_with("redis.conf, line 3: `daemonize yes` does nothing"), "{notes:?}");
        assert!(notes[1].starts_with("redis.conf, line 2: with `appendfsync everysec`"), "{notes:?}");
        assert!(read("appendfsync everysec\nappendfsync always").unwrap().finish().1.is_empty());
    }

    #[test]
    fn what_cannot_be_done_is_refused_with_its_line() {
        for (line, why) in [
            ("user default on >secret ~* &* +@all", "set `requirepass`"),
            ("user default off", "no users except `default`"),
            ("aclfile /etc/redis/users.acl", "no users except `default`"),
            ("rename-command FLUSHALL \"\"", "cannot rename or disable commands"),
            ("loadmodule /usr/lib/x.so a b", "loads no modules"),
            ("Cluster-Enabled yes", "cannot be a node of a cluster"),
            ("min-replicas-to-write 1", "has no replicas"),
            ("tls-ciphers DEFAULT", "does not support this option of TLS"),
            ("sentinel monitor m 127.0.0.1 6379 2", "redis-sentinel"),
            ("requirepas secret", "correct its name"),
            ("requirepass", "its value is one word"),
            ("requirepass a b", "put it in quotes"),
            ("unixsocketperm 0700x", "octal"),
            ("save 60", "Invalid save parameters"),
            ("dbfilename ../dump.rdb", "in the folder `dir`"),
            ("port 70000", "between 0 and 65535"),
            ("appendfsync sometimes", "always, everysec, no"),
            ("bind \"127.0.0.1", "a quote is not closed"),
        ] {
            let told = read(&format!("port 1\n{line}\n")).unwrap_err();
            assert!(told.starts_with("redis.conf, line 2: ") && told.contains(why), "{line}: {told}");
        }
        read("cluster-enabled no\naclfile \"\"\nmin-replicas-to-write 0").unwrap();
        #[cfg(not(feature = "tls"))]
        assert!(read("tls-auth-clients no").unwrap_err().contains("built without TLS"));
    }

    #[test]
    fn files_include_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let write = |name: &str, text: &str| std::fs::write(path(name), text).unwrap();
        let read = |text: &str| {
            write("redis.conf", text);
            let mut reader = ConfigReader::default();
            reader.file(Path::new(&path("redis.conf"))).map(|()| reader.config)
        };
        write("one.conf", "requirepass one\nmaxmemory 1mb\n");
        write("two.conf", "requirepass two\n");
        // The last value of an option counts.
        let config = read(&format!("maxmemory 2mb\ninclude {}\nmaxclients 7", path("one.conf"))).unwrap();
        let found = (config.text("requirepass"), config.int("maxmemory"), config.int("maxclients"));
        assert_eq!(found, ("one", 1 << 20, 7));
        let config = read(&format!("include {}\nmaxmemory 2mb", path("[ot]*.conf"))).unwrap();
        assert_eq!((config.text("requirepass"), config.int("maxmemory")), ("two", 2 << 20));
        read(&format!("include {}", path("none*.conf"))).unwrap();
        let told = read(&format!("port 1\ninclude {}", path("none.conf"))).unwrap_err();
        assert!(
            told.contains("redis.conf, line 2: include: ") && told.contains("none.conf cannot be read"),
            "{told}"
        );
        write("two.conf", "port 1\nuser x on nopass\n");
        let told = read(&format!("include {}", path("two.conf"))).unwrap_err();
        assert!(told.contains("two.conf, line 2: user: "), "{told}");
        let told = read(&format!("include {}", path("redis.conf"))).unwrap_err();
        assert!(told.contains("includes itself"), "{told}");
    }
}
