//! Options of a command line, in the form of `redis-server` (`--save 60 1 --loglevel warning`), separated
//! from the other arguments.

use std::ffi::OsString;

use super::{ConfigReader, foreign, setting};
use crate::text::words;

/// The form in which an option was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OptionForm {
    /// `--NAME VALUE…`, as for redis-server.
    Plain,
    /// `--set 'NAME VALUE…'`.
    Set,
    /// An argument of this program that sets an option.
    Own,
}

/// An option of a command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenOption {
    /// The form in which the option was given.
    pub form: OptionForm,
    /// The option's name, as it was given.
    pub name: String,
    /// The words of the option's value.
    pub values: Vec<String>,
}

impl GivenOption {
    /// Parses the option behind `--set`.
    ///
    /// # Errors
    /// If it has no name, a quote is not closed, or a character other than a space follows a closing quote.
    pub fn set(text: &str) -> Result<GivenOption, String> {
        let words =
            words::split(text.as_bytes()).ok_or_else(|| format!("--set '{text}': a quote is not closed"))?;
        let mut words = words.iter().map(|word| words::lossy(word).into_owned());
        let name = words.next().ok_or("--set needs 'OPTION VALUE', as in --set 'maxmemory 1gb'")?;
        Ok(GivenOption { form: OptionForm::Set, name, values: words.collect() })
    }
}

/// A command line.
#[derive(Debug, Default)]
pub struct CommandLine {
    /// The name of the program, its own arguments (`--set` among them), and arguments that are no options.
    pub others: Vec<OsString>,
    /// Options of the form [`OptionForm::Plain`], in the order in which they were given.
    pub options: Vec<GivenOption>,
    /// Whether the first or the last argument is `-`, which asks to read options from the standard input too.
    pub reads_input: bool,
}

impl CommandLine {
    /// Splits a command line. `own` gets the text of an argument behind `--`. `own` returns None unless that
    /// is an argument of this program, and otherwise whether the next argument is its value.
    pub fn split(all: impl IntoIterator<Item = OsString>, own: impl Fn(&str) -> Option<bool>) -> CommandLine {
        let (mut found, mut all) = (CommandLine::default(), all.into_iter().peekable());
        found.others.extend(all.next());
        let mut is_first = true;
        while let Some(argument) = all.next() {
            let is_end = std::mem::replace(&mut is_first, false) || all.peek().is_none();
            if argument == "-" && is_end {
                found.reads_input = true;
                continue;
            }
            let text = argument.to_str().and_then(|text| text.strip_prefix("--")).unwrap_or_default();
            if let Some(has_value) = own(text) {
                found.others.push(argument);
                found.others.extend(all.next_if(|_| has_value));
                continue;
            }
            // `--name value` or `--name=value` may be one argument.
            let mut words: Vec<String> = match text.split_once('=') {
                Some((name, value)) if is_option(name) => vec![name.to_owned(), value.to_owned()],
                _ => words::split(text.as_bytes())
                    .unwrap_or_default()
                    .iter()
                    .map(|w| words::lossy(w).into())
                    .collect(),
            };
            if words.is_empty() || !is_option(&words[0]) {
                found.others.push(argument);
                continue;
            }
            let name = words.remove(0);
            let most = setting(&name).map_or(usize::MAX, |setting| setting.kind.words().1);
            let is_name = |next: &OsString| next.as_encoded_bytes().starts_with(b"--");
            // As in Redis, the first word of a value may begin with `--`, except behind `--save`.
            if words.is_empty() && !name.eq_ignore_ascii_case("save") {
                words.extend(all.next().map(|value| value.to_string_lossy().into_owned()));
            }
            // One argument may have both words of a server: `--replicaof "host port"`.
            while words.len() < most
                && !words[0..].first().is_some_and(|word| most == 2 && word.contains(' '))
            {
                let Some(value) = all.next_if(|next| !is_name(next)) else { break };
                words.push(value.to_string_lossy().into_owned());
            }
            found.options.push(GivenOption { form: OptionForm::Plain, name, values: words });
        }
        found
    }
}

fn is_option(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    lower == "include" || setting(&lower).is_some() || foreign::is_of_redis(&lower)
}

impl ConfigReader {
    /// Sets the options of a command line, in order.
    ///
    /// # Errors
    /// If an option cannot be set, or two forms give it different values.
    pub fn arguments(&mut self, all: &[GivenOption]) -> Result<(), String> {
        for (i, given) in all.iter().enumerate() {
            let is_other = |other: &&GivenOption| {
                other.name.eq_ignore_ascii_case(&given.name)
                    && other.form != given.form
                    && other.values != given.values
            };
            if all[..i].iter().any(|other| is_other(&other)) {
                let name = &given.name;
                return Err(format!(
                    "the command line gives `{name}` two values, in two forms; leave one of them out"
                ));
            }
            self.option("command line", &given.name, &given.values)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(line: &[&str]) -> (String, Vec<(String, String)>, bool) {
        let all = ["pheap-redis"].iter().chain(line).map(OsString::from);
        let own = |name: &str| match name {
            "heap" | "set" => Some(true),
            "ping" => Some(false),
            _ => None,
        };
        let CommandLine { others, options, reads_input } = CommandLine::split(all, own);
        let others: Vec<&str> = others[1..].iter().map(|other| other.to_str().unwrap()).collect();
        let options = options.into_iter().map(|given| (given.name, given.values.join("|"))).collect();
        (others.join(" "), options, reads_input)
    }

    #[test]
    fn as_redis_server_is_called() {
        for (line, others, options) in [
            (
                &["--save", "60", "1", "--loglevel", "warning"][..],
                "",
                &[("save", "60|1"), ("loglevel", "warning")][..],
            ),
            (
                &["a.conf", "--save", "", "--appendonly", "yes", "--requirepass", "x", "--dir", "d"],
                "a.conf",
                &[("save", ""), ("appendonly", "yes"), ("requirepass", "x"), ("dir", "d")],
            ),
            (&["--save", "--port", "1"], "", &[("save", ""), ("port", "1")]),
            (&["--port", "1", "--save"], "", &[("port", "1"), ("save", "")]),
            (
                &["--requirepass", "--secret", "--port", "1"],
                "",
                &[("requirepass", "--secret"), ("port", "1")],
            ),
            (&["--save 60 1", "--port=2"], "", &[("save", "60|1"), ("port", "2")]),
            (&["--replicaof", "a", "1", "b.conf"], "b.conf", &[("replicaof", "a|1")]),
            (&["--replicaof", "a 1", "b.conf"], "b.conf", &[("replicaof", "a 1")]),
            (&["--bind", "127.0.0.1", "-::1", "--heap", "h"], "--heap h", &[("bind", "127.0.0.1|-::1")]),
            (&["--heap", "--set", "--ping", "--set", "port 1"], "--heap --set --ping --set port 1", &[]),
            (
                &["--supervised", "systemd", "--daemonize", "no"],
                "",
                &[("supervised", "systemd"), ("daemonize", "no")],
            ),
            (&["--always-show-logo", "no", "--nothing"], "--nothing", &[("always-show-logo", "no")]),
            (&["--user", "x", "on", "--loadmodule", "m"], "", &[("user", "x|on"), ("loadmodule", "m")]),
        ] {
            let (found, given, reads_input) = split(line);
            let given: Vec<(&str, &str)> = given.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
            assert_eq!((found.as_str(), &given[..], reads_input), (others, options, false), "{line:?}");
        }
        assert!(split(&["-"]).2 && split(&["a.conf", "--port", "1", "-"]).2 && !split(&["a", "-", "b"]).2);
    }

    #[test]
    fn two_forms_may_not_contradict() {
        let given = |form, name: &str, value: &str| GivenOption {
            form,
            name: name.into(),
            values: vec![value.into()],
        };
        let read = |all: &[GivenOption]| {
            let mut reader = ConfigReader::default();
            reader.arguments(all).map(|()| reader.config.text("port").to_owned())
        };
        assert_eq!(
            read(&[given(OptionForm::Plain, "port", "1"), given(OptionForm::Plain, "PORT", "2")]).unwrap(),
            "2"
        );
        assert_eq!(
            read(&[given(OptionForm::Plain, "port", "1"), given(OptionForm::Set, "port", "1")]).unwrap(),
            "1"
        );
        let told =
            read(&[given(OptionForm::Plain, "port", "1"), given(OptionForm::Set, "Port", "2")]).unwrap_err();
        assert!(told.contains("gives `Port` two values"), "{told}");
        assert!(read(&[GivenOption::set("port").unwrap()]).unwrap_err().contains("its value is one word"));
    }
}
