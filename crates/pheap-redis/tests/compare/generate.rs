//! Random steps: scripts, and templates of commands that are filled in and sometimes damaged.

use std::fmt;

use pheap_testkit::rng::Rng;

use super::commands::{ALONE, DUMPS, FAMILIES, LIBRARIES, PURE, SCRIPTS, TYPES, WAITING};
use super::pair::Difference;
use super::value::Norm;

/// Number of databases that commands use.
pub(crate) const DATABASES: usize = 3;

/// A command, and what must be equal in the replies to it.
#[derive(Debug, Clone)]
pub(crate) struct Command {
    pub(crate) words: Vec<Vec<u8>>,
    pub(crate) norm: Norm,
    /// Whether the command is one of [`WAITING`], which may wait for ever outside of transactions.
    pub(crate) waits: bool,
}

impl Command {
    pub(crate) fn new(words: &[impl AsRef<[u8]>], norm: Norm) -> Command {
        let words = words.iter().map(|word| word.as_ref().to_vec()).collect();
        Command { words, norm, waits: false }
    }

    fn needs_wrong(&self) -> bool {
        self.words.iter().any(|word| word == WRONG.as_bytes())
    }
}

/// Commands that one client sends, and that shrinking keeps or leaves out together.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) client: usize,
    pub(crate) commands: Vec<Command>,
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<String> = self
            .words
            .iter()
            .map(|word| match word.iter().all(|byte| byte.is_ascii_graphic() && !b"\"'\\".contains(byte)) {
                true if !word.is_empty() => String::from_utf8_lossy(word).into_owned(),
                _ => format!("\"{}\"", word.escape_ascii()),
            })
            .collect();
        f.write_str(&words.join(" "))
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.commands.iter().try_for_each(|command| writeln!(f, "  client {}: {command}", self.client))
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "to {}\nRedis: {:?}\npheap: {:?}", self.command, self.redis, self.pheap)
    }
}

/// Returns at least so many steps. `seed` determines them.
pub(crate) fn round(seed: &[u64], steps: usize) -> Vec<Step> {
    let mut generator = Generator { rng: Rng::new(seed), entry: 0 };
    let mut all = Vec::new();
    while all.len() < steps {
        generator.add(&mut all);
    }
    all
}

struct Generator {
    rng: Rng,
    /// Counter from which the IDs of most new entries are made.
    entry: u64,
}

/// A random element.
macro_rules! one {
    ($self:expr, $from:expr) => {{
        let from = &$from;
        from[$self.rng.below(from.len())]
    }};
}

/// A key that sometimes replaces one of a kind in [`PURE`]. Steps other than those of `ALONE` set it to a
/// string before they use it.
const WRONG: &str = "wrong";

/// Words that replace arguments, or are added, to damage a command. None of them lets a key expire during a
/// round, except at once. None is a number that C's `strtod` finds too large or too small: after such a
/// number, `SORT` fails in Redis, because it checks an old `errno`.
const ODD: &[&str] = &[
    "",
    " 1",
    "-1",
    "-9223372036854775808",
    "0",
    "01",
    "1.5",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "COUNT",
    "GET",
    "LIMIT",
    "NX",
    "REV",
    "STORE",
    "WITHSCORES",
    "inf",
    "nan",
    "word",
];

impl Generator {
    /// Adds a step, or several for a transaction: each of its commands is a step.
    fn add(&mut self, steps: &mut Vec<Step>) {
        let client = usize::from(self.rng.chance(8));
        match self.rng.below(20) {
            0 => {
                let commands = self.transaction().into_iter();
                steps.extend(commands.map(|command| Step { client, commands: vec![command] }));
            }
            1 => steps.push(Step { client, commands: self.alone() }),
            2 => steps.push(Step { client, commands: vec![self.script()] }),
            _ => {
                let command = self.command();
                let wrong = Command::new(&["set", WRONG, "text"], Norm::Exact);
                let commands = if command.needs_wrong() { vec![wrong, command] } else { vec![command] };
                steps.push(Step { client, commands });
            }
        }
    }

    fn transaction(&mut self) -> Vec<Command> {
        let mut commands = Vec::new();
        if self.rng.chance(3) {
            let watch = ["watch".to_owned(), self.key("any")];
            commands.push(Command::new(&watch, Norm::Exact));
        }
        commands.push(Command::new(&["multi"], Norm::Begin));
        for _ in 0..1 + self.rng.below(5) {
            let inner = if self.rng.chance(4) { self.waiting() } else { self.command() };
            if ![Norm::Scan, Norm::Dump].contains(&inner.norm) && !inner.needs_wrong() {
                commands.push(inner);
            }
        }
        let end = if self.rng.chance(8) { "discard" } else { "exec" };
        commands.push(Command::new(&[end], Norm::End));
        commands
    }

    /// Returns a command of [`ALONE`], and the command that deletes its key.
    fn alone(&mut self) -> Vec<Command> {
        let command = self.of(ALONE);
        let remove = Command::new(&[&b"del"[..], &command.words[1]], Norm::Exact);
        vec![command, remove]
    }

    fn command(&mut self) -> Command {
        let family = one!(self, FAMILIES);
        let mut command = self.of(family);
        // A damaged `SPOP` may remove random members. `COMMAND GETKEYS` may return other keys than Redis for
        // a wrong command.
        let is_delicate = [&b"SPOP"[..], b"COMMAND"].contains(&&command.words[0][..]);
        let may_be_damaged = ![Norm::Scan, Norm::Dump].contains(&command.norm) && !is_delicate;
        if may_be_damaged && self.rng.chance(16) {
            self.damage(&mut command.words);
        }
        command
    }

    fn of(&mut self, family: &[&str]) -> Command {
        let line = one!(self, family);
        let (template, norm) = line.split_once(" => ").unwrap_or((line, ""));
        let norm = match norm {
            "" => Norm::Exact,
            "any" => Norm::Any,
            "pairs" => Norm::Pairs,
            "size" => Norm::Size,
            "near" => Norm::Near,
            "clock" => Norm::Clock,
            "scan" => Norm::Scan,
            "dump" => Norm::Dump,
            other => panic!("no such normalisation: {other}"),
        };
        let tokens: Vec<&str> = template.split_whitespace().collect();
        let mut words = Vec::new();
        self.fill(&tokens, &mut words);
        Command { words, norm, waits: false }
    }

    fn waiting(&mut self) -> Command {
        Command { waits: true, ..self.of(WAITING) }
    }

    /// Returns an `EVAL`: of one of [`SCRIPTS`], or of a script that calls another command.
    fn script(&mut self) -> Command {
        if self.rng.chance(3) {
            let script = one!(self, SCRIPTS);
            let (key, value) = (self.key("any"), self.value());
            let words = [&b"eval"[..], script.as_bytes(), b"1", key.as_bytes(), &value];
            return Command::new(&words, Norm::Exact);
        }
        loop {
            let inner = if self.rng.chance(4) { self.of(WAITING) } else { self.command() };
            // Replies with sets of flags, or maps of RESP3, become Lua tables, which have no order.
            let has_tables =
                [&b"command"[..], b"xinfo"].iter().any(|name| inner.words[0].eq_ignore_ascii_case(name));
            if has_tables || inner.needs_wrong() || [Norm::Scan, Norm::Dump].contains(&inner.norm) {
                continue;
            }
            let script = one!(
                self,
                [
                    "return redis.call(unpack(ARGV))",
                    "return redis.pcall(unpack(ARGV))",
                    "redis.setresp(3) return redis.pcall(unpack(ARGV))"
                ]
            );
            let mut words = vec![b"eval".to_vec(), script.into(), b"0".to_vec()];
            words.extend(inner.words);
            return Command { words, norm: inner.norm, waits: false };
        }
    }

    /// Adds the words that a template stands for. `[ a ]` adds `a` or nothing, `( a | b )` adds one of the
    /// choices, `{ a }` adds `a` one to four times, and `#{ a }` adds that number first. A name in small
    /// letters stands for random words, mostly one. After `'`, it stands for itself.
    fn fill(&mut self, tokens: &[&str], words: &mut Vec<Vec<u8>>) {
        let mut rest = tokens;
        while let Some((&token, after)) = rest.split_first() {
            rest = after;
            if !matches!(token, "[" | "(" | "{" | "#{") {
                self.word(token, words);
                continue;
            }
            let (inside, after) = closed(after);
            rest = after;
            match token {
                "[" if self.rng.chance(2) => self.fill(inside, words),
                "(" => {
                    let choices = choices(inside);
                    let choice = choices[self.rng.below(choices.len())];
                    self.fill(choice, words);
                }
                "{" | "#{" => {
                    let count = 1 + self.rng.below(4);
                    if token == "#{" {
                        words.push(count.to_string().into_bytes());
                    }
                    (0..count).for_each(|_| self.fill(inside, words));
                }
                _ => {}
            }
        }
    }

    fn key(&mut self, kind: &str) -> String {
        // Sometimes of any type.
        let kind = if kind == "any" || self.rng.chance(12) { one!(self, TYPES) } else { kind };
        match kind {
            "restored" => kind.to_owned(),
            // Few, because a group must be made before commands find it.
            "stream" => format!("{kind}{}", self.rng.below(2)),
            _ => format!("{kind}{}", self.rng.below(4)),
        }
    }

    fn value(&mut self) -> Vec<u8> {
        match self.rng.below(12) {
            0 => Vec::new(),
            1 => vec![b'x'; 20 + self.rng.below(100)],
            2 => (0..self.rng.below(12)).map(|_| self.rng.next_u64() as u8).collect(),
            3 => one!(self, ["3.5", "-0", "1e3", "nan", " 1", "9223372036854775807", "0.1"]).into(),
            4..=6 => self.small(-20, 120).into_bytes(),
            _ => one!(self, ["a", "b", "foo", "bar", "Hello World", "abcabcabc"]).into(),
        }
    }

    fn small(&mut self, from: i64, to: i64) -> String {
        (from + self.rng.below((to - from) as usize) as i64).to_string()
    }

    fn float(&mut self) -> String {
        match self.rng.below(8) {
            0 => one!(self, ["inf", "-inf", "1e308", "-0", "3.0e-2", "0x10", "1e17"]).into(),
            1..=3 => format!("{:.2}", self.rng.below(2000) as f64 / 100.0 - 10.0),
            _ => self.small(-5, 10),
        }
    }

    /// A random number, at least `from`. Two of them are hardly ever equal.
    fn far(&mut self, from: u64) -> String {
        (from + self.rng.below(1_000_000_000) as u64).to_string()
    }

    fn word(&mut self, token: &str, words: &mut Vec<Vec<u8>>) {
        let word: Vec<u8> = match token {
            _ if TYPES.contains(&token) || token == "any" => self.key(token).into(),
            _ if PURE.contains(&token) => {
                if self.rng.chance(20) {
                    WRONG.into()
                } else {
                    format!("{token}{}", self.rng.below(3)).into()
                }
            }
            "val" => self.value(),
            "member" => {
                if self.rng.chance(3) {
                    self.small(0, 12).into()
                } else {
                    format!("m{}", self.rng.below(10)).into()
                }
            }
            "field" => format!("f{}", self.rng.below(8)).into(),
            "int" => self.small(-3, 12).into(),
            "idx" => self.small(-6, 9).into(),
            "whole" => {
                let large = ["9223372036854775807", "-9223372036854775807", "4611686018427387904"];
                if self.rng.chance(10) { one!(self, large).into() } else { self.small(-9, 30).into() }
            }
            "float" => self.float().into(),
            "bound" => {
                let bound = self.float();
                if self.rng.chance(3) { format!("({bound}").into() } else { bound.into() }
            }
            "lex" => one!(self, ["-", "+", "[a", "(m3", "[m5", "(m7", "[5", "m1", "[", "("]).into(),
            "cnt" => self.small(0, 6).into(),
            "off" => self.small(0, 60).into(),
            "boff" => self.small(0, 150).into(),
            "bit" => self.small(0, 2).into(),
            "btype" => one!(self, ["u8", "i5", "i64", "u63", "u1", "i16", "u64", "i0", "x8"]).into(),
            "far" => self.far(1_000_000).into(),
            "farat" => self.far(4_000_000_000).into(),
            "pfarat" => self.far(4_000_000_000_000).into(),
            "past" => one!(self, ["-1", "-5", "0"]).into(),
            "nid" => {
                self.entry += 1;
                let entry = self.entry;
                match self.rng.below(8) {
                    0 => format!("{}-{}", self.rng.below(9), self.rng.below(4)),
                    1 => format!("{entry}-*"),
                    2 => format!("{entry}"),
                    _ => format!("{entry}-{}", self.rng.below(4)),
                }
                .into()
            }
            "id" => match self.rng.below(8) {
                0 => one!(self, ["0", "0-0", "5", "18446744073709551615-18446744073709551615"]).into(),
                _ => format!("{}-{}", self.rng.below(self.entry as usize + 2), self.rng.below(4)).into(),
            },
            "grp" => format!("g{}", self.rng.below(2)).into(),
            "con" => format!("c{}", self.rng.below(3)).into(),
            "lon" => format!("{:.6}", self.rng.below(360_000_000) as f64 / 1e6 - 180.0).into(),
            "lat" => format!("{:.6}", self.rng.below(170_000_000) as f64 / 1e6 - 85.0).into(),
            "dist" => one!(self, ["1", "100", "1000.5", "5000", "20000"]).into(),
            "pat" => {
                one!(self, ["*", "m*", "*1", "[a-m]?*", "f[^0-3]", "str*", "\\*", "h?sh[02]", ""]).into()
            }
            "db" => self.rng.below(DATABASES).to_string().into(),
            "library" => one!(self, LIBRARIES).into(),
            "payload" => {
                let mut dump = one!(self, DUMPS).to_vec();
                if self.rng.chance(4) {
                    let at = self.rng.below(dump.len());
                    dump[at] ^= 1 << self.rng.below(8);
                }
                dump
            }
            "many" => {
                let (count, from) = (100 + self.rng.below(60), self.rng.below(100));
                words.extend((from..from + count).map(|i| format!("m{i}").into_bytes()));
                return;
            }
            "manypairs" => {
                let (count, from) = (100 + self.rng.below(60), self.rng.below(100));
                for i in from..from + count {
                    words.extend([i.to_string().into_bytes(), format!("m{i}").into_bytes()]);
                }
                return;
            }
            "inner" => {
                let family = one!(self, FAMILIES);
                words.extend(self.of(family).words);
                return;
            }
            literal => {
                assert!(!literal.starts_with(|first: char| first.is_ascii_lowercase()), "what is {literal}?");
                literal.trim_start_matches('\'').into()
            }
        };
        words.push(word);
    }

    fn damage(&mut self, words: &mut Vec<Vec<u8>>) {
        let at = self.rng.below(words.len());
        match self.rng.below(6) {
            0 if words.len() > 1 => {
                words.remove(at.max(1));
            }
            1 if at > 0 => words.insert(at, words[at].clone()),
            2 if at == 0 => words[0].push(b'x'),
            3 => words.push(one!(self, ODD).into()),
            4 => {
                let word = &mut words[at];
                if word.is_ascii() {
                    *word = word.to_ascii_lowercase();
                }
            }
            _ if at > 0 => words[at] = one!(self, ODD).into(),
            _ => {}
        }
    }
}

/// Splits tokens that follow an opening bracket: into those before the closing one, and those after it.
fn closed<'t, 's>(tokens: &'t [&'s str]) -> (&'t [&'s str], &'t [&'s str]) {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate() {
        match *token {
            "[" | "(" | "{" | "#{" => depth += 1,
            "]" | ")" | "}" if depth == 0 => return (&tokens[..at], &tokens[at + 1..]),
            "]" | ")" | "}" => depth -= 1,
            _ => {}
        }
    }
    panic!("a bracket is not closed: {tokens:?}");
}

/// Splits tokens at the bars that are in no brackets.
fn choices<'t, 's>(tokens: &'t [&'s str]) -> Vec<&'t [&'s str]> {
    let mut depth = 0;
    tokens
        .split(|token| {
            match *token {
                "[" | "(" | "{" | "#{" => depth += 1,
                "]" | ")" | "}" => depth -= 1,
                _ => {}
            }
            depth == 0 && *token == "|"
        })
        .collect()
}
