//! Scripts that are made from the bytes of the fuzzer.

use arbitrary::{Arbitrary, Result, Unstructured};

/// A script that returns the names of the functions in the script environment.
///
/// It leaves out `string.rep`, which needs much memory (but see [`STRINGS`]), and `error`, which ends the
/// script at once.
pub(crate) const NAMES: &[u8] = b"local names = {}
    for library, content in pairs(_G) do
        if type(content) == 'function' and library ~= 'error' then names[#names + 1] = library end
        if type(content) == 'table' and content ~= _G then
            for name, value in pairs(content) do
                if type(value) == 'function' and name ~= 'rep' then
                    names[#names + 1] = library .. '.' .. name
                end
            end
        end
    end
    table.sort(names)
    return names";

const NUMBERS: &[&str] = &[
    "0",
    "-0",
    "1",
    "-1",
    "2",
    "3",
    "7.5",
    "32",
    "200",
    "255",
    "256",
    "7999",
    "8000",
    "1e5",
    "2147483647",
    "-2147483648",
    "2147483648",
    "4294967295",
    "9007199254740993",
    "1e18",
    "1e308",
    "(0/0)",
    "(1/0)",
    "(-1/0)",
    "1LL",
    "2ULL",
    "1i",
];

const STRINGS: &[&str] = &[
    "''",
    "'a'",
    "'key'",
    "'get'",
    "'set'",
    "'err'",
    "'ok'",
    "'\\0'",
    "'\\27LJ\\2'",
    "'%d'",
    "'%99.99f'",
    "'%s%s'",
    "'%q'",
    "'%a'",
    "'%c'",
    "'.-'",
    "'a*b?'",
    "'(a)(.-)%1'",
    "'%b()'",
    "'%f[%w]'",
    "'[^%z'",
    "'%'",
    "'__index'",
    "'__gc'",
    "'k'",
    "'__mode'",
    "'>I4'",
    "'bc0'",
    "'!8i32'",
    "'[[[1,2'",
    "'{\"a\":[1]}'",
    "'\\129\\161a\\147'",
    "'\\221\\255\\255\\255\\255'",
    "'return '",
    "'local x = '",
    "'x = {'",
    "'[==['",
    "']==]'",
    "'--[['",
    "('x'):rep(40)",
    "('('):rep(250)",
    "('a?'):rep(250)",
    "('{'):rep(300)",
    "('[='):rep(90)",
    "string.dump(function() return v1 end)",
];

const WORDS: &[&str] = &[
    "and", "break", "do", "else", "elseif", "end", "false", "for", "function", "goto", "if", "in", "local",
    "nil", "not", "or", "repeat", "return", "then", "true", "until", "while", "+", "-", "*", "/", "%", "^",
    "#", "==", "~=", "<=", "<", "=", "(", ")", "{", "}", "[", "]", ";", ":", ",", ".", "..", "...", "::",
    "[[", "]]", "[==[", "]==]", "--", "--[[", "'", "\"", "\\", "\n", "\0", "\u{feff}", "#!", "x", "y", "v1",
    "0x", "1e", "1e5", "5LL", "'a'",
];

const BINARY: &[&str] = &["+", "-", "*", "/", "%", "^", "..", "==", "<", "<=", "and", "or"];

const EVENTS: &[&str] = &[
    "__index",
    "__newindex",
    "__call",
    "__add",
    "__concat",
    "__eq",
    "__lt",
    "__le",
    "__len",
    "__unm",
    "__tostring",
    "__metatable",
    "__mode",
    "__gc",
];

#[derive(Debug)]
pub(crate) enum Script {
    /// Any bytes.
    Text(Vec<u8>),
    /// Words of Lua in any order.
    Words(Vec<u16>),
    /// A program that can be compiled, unless it has too many of something: the seed of its random choices,
    /// and the changes to them.
    Program(u64, Vec<u8>),
}

impl<'a> Arbitrary<'a> for Script {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        Ok(match u.int_in_range(0..=7)? {
            0 => Script::Text(u.bytes(u.len())?.to_vec()),
            1 => Script::Words(u.arbitrary()?),
            _ => Script::Program(u.arbitrary()?, u.bytes(u.len())?.to_vec()),
        })
    }
}

impl Script {
    /// Returns the text of the script. Programs call the functions in `names`.
    pub(crate) fn text(&self, names: &[String]) -> Vec<u8> {
        match self {
            Script::Text(text) => text.clone(),
            Script::Words(words) => {
                let words: Vec<_> =
                    words.iter().map(|word| WORDS[usize::from(*word) % WORDS.len()]).collect();
                words.join(" ").into_bytes()
            }
            Script::Program(seed, changes) => {
                let mut maker = Maker { seed: *seed, changes, names, text: String::new() };
                maker.text.push_str("local v1, v2, v3, v4 = {}, 'v', 3, function(...) return ... end ");
                while maker.text.len() < 1500 {
                    maker.statement(3);
                }
                maker.text.push_str("return v1");
                maker.text.into_bytes()
            }
        }
    }
}

struct Maker<'a> {
    seed: u64,
    changes: &'a [u8],
    names: &'a [String],
    text: String,
}

impl Maker<'_> {
    fn below(&mut self, limit: usize) -> usize {
        let change = self.changes.split_off_first().copied().unwrap_or(0);
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        ((self.seed >> 33) as usize ^ usize::from(change)) % limit
    }

    fn push(&mut self, text: &str) {
        self.text.push_str(text);
        self.text.push(' ');
    }

    fn one_of(&mut self, texts: &[&str]) {
        let at = self.below(texts.len());
        self.push(texts[at]);
    }

    fn variable(&mut self) {
        self.one_of(&["v1", "v2", "v3", "v4"]);
    }

    fn block(&mut self, depth: usize) {
        for _ in 0..self.below(3) {
            self.statement(depth);
        }
    }

    /// Adds a statement that raises no error, except that of a kill.
    fn statement(&mut self, depth: usize) {
        self.push("pcall(function(...)");
        match self.below(8) {
            0..=2 => {
                self.variable();
                self.push("=");
                self.expression(depth);
            }
            3 => {
                self.variable();
                self.push("[");
                self.expression(depth.min(1));
                self.push("] =");
                self.expression(depth);
            }
            4 => {
                self.push("for i = 1, 20 do");
                self.block(depth.saturating_sub(1));
                self.push("end");
            }
            5 => {
                self.push("v1 = setmetatable({v1}, {");
                self.one_of(EVENTS);
                self.push("=");
                self.expression(depth);
                self.push("})");
            }
            6 => {
                self.push("v4 = coroutine.wrap(function(...)");
                self.block(depth.saturating_sub(1));
                self.push("coroutine.yield(");
                self.expression(depth.saturating_sub(1));
                self.push(")");
                self.block(depth.saturating_sub(1));
                self.push("end) v2 = v4(v1)");
            }
            _ => {
                self.push("v3 =");
                self.one_of(&["loadstring", "load"]);
                self.push("(");
                self.expression(depth);
                self.push(",");
                self.expression(1);
                self.push(") v3 = v3 and v3(v1)");
            }
        }
        self.push("end, v1, v2)");
    }

    fn call(&mut self, depth: usize) {
        let name = &self.names[self.below(self.names.len())];
        self.push(name);
        self.push("(");
        for at in 0..self.below(4) {
            if at > 0 {
                self.push(",");
            }
            self.expression(depth.saturating_sub(1));
        }
        self.push(")");
    }

    fn expression(&mut self, depth: usize) {
        if depth == 0 || self.text.len() > 3000 {
            return match self.below(4) {
                0 => self.one_of(NUMBERS),
                1 => self.one_of(STRINGS),
                2 => self.one_of(&["nil", "true", "KEYS", "ARGV", "{1, 2, 3}", "_G", "redis", "string"]),
                _ => self.variable(),
            };
        }
        match self.below(8) {
            0..=3 => self.call(depth),
            4 => {
                self.push("(");
                self.expression(depth - 1);
                self.one_of(BINARY);
                self.expression(depth - 1);
                self.push(")");
            }
            5 => {
                self.push("function(...)");
                self.block(depth - 1);
                self.push("return");
                self.expression(depth - 1);
                self.push("end");
            }
            6 => {
                self.push("{");
                self.expression(depth - 1);
                self.push(", x =");
                self.expression(depth - 1);
                self.push("}");
            }
            _ => self.expression(0),
        }
    }
}
