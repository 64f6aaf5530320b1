//! Slow commands: `SLOWLOG` and `LATENCY`. Also `MONITOR`.

use std::ops::Range;

use super::args::int;
use super::table::{ADMIN, LOOK};
use super::{Args, Command, Cx, Done, Fail, Flags, Keys, KnownCommand, all_commands, answer, ok};
use crate::resp::Reply;
use crate::server::since_1970;
use crate::stats::counts::{BUCKETS, Sum};
use crate::stats::slowlog::Series;
use crate::text::words::{lossy, quoted};

const ADMIN_FIRST: Flags = LOOK.and(Flags::ADMIN);

pub(super) const COMMANDS: &[Command] = &[
    Command::container("latency"),
    Command::new("latency|doctor", 2, ADMIN, Keys::None, doctor),
    Command::new("latency|graph", 3, ADMIN, Keys::None, |cx, args, out| {
        let event = lossy(args[2]);
        let nothing = || Fail::err(format_args!("No samples available for event '{event}'"));
        let series = cx.server.latency.of(&event).ok_or_else(nothing)?;
        answer::text(out, graph(&event, &series, since_1970().as_secs() as i64))
    }),
    Command::help("latency|help"),
    Command::new("latency|histogram", -2, ADMIN, Keys::None, histogram),
    Command::new("latency|history", 3, ADMIN, Keys::None, |cx, args, out| {
        let series = cx.server.latency.of(&lossy(args[2])).unwrap_or_default();
        out.array(series.samples.len());
        for (at, ms) in series.samples {
            out.array(2);
            out.int(at);
            out.int(ms as i64);
        }
        Ok(())
    }),
    Command::new("latency|latest", 2, ADMIN, Keys::None, |cx, _, out| {
        let events = cx.server.latency.all();
        out.array(events.len());
        for (event, series) in events {
            let (at, ms) = series.samples.back().copied().unwrap_or_default();
            out.array(4);
            out.bulk(event.as_bytes());
            [at, ms as i64, series.longest as i64].into_iter().for_each(|number| out.int(number));
        }
        Ok(())
    }),
    Command::new("latency|reset", -2, ADMIN, Keys::None, |cx, args, out| {
        let events: Vec<_> = args[2..].iter().map(|event| lossy(event)).collect();
        let events: Vec<&str> = events.iter().map(|event| event.as_ref()).collect();
        answer::count(out, cx.server.latency.forget(&events))
    }),
    Command::new("monitor", 1, ADMIN, Keys::None, |cx, _, out| {
        cx.server.add_monitor(cx.session.id);
        cx.session.monitors = true;
        ok(out)
    }),
    Command::container("slowlog"),
    Command::new("slowlog|get", -2, ADMIN_FIRST, Keys::None, get),
    Command::help("slowlog|help"),
    Command::new("slowlog|len", 2, ADMIN_FIRST, Keys::None, |cx, _, out| {
        answer::count(out, cx.server.slowlog.count())
    }),
    Command::new("slowlog|reset", 2, ADMIN_FIRST, Keys::None, |cx, _, out| {
        cx.server.slowlog.clear();
        ok(out)
    }),
];

/// Returns the positions of arguments that are not shown, because passwords or names of users are among them.
pub fn hidden(name: &str, words: &Args<'_>) -> Range<usize> {
    // Hides all from behind the first `AUTH` to the credentials of the last one, because the word `AUTH` may
    // also be the value of an option, or come twice.
    let credentials = |from: usize| {
        let count = |at: usize| match words[at].to_ascii_lowercase().as_slice() {
            b"auth" => Some(if name == "hello" { 2 } else { 1 }),
            b"auth2" => Some(2),
            _ => None,
        };
        let mut options = (from..words.len()).filter_map(|at| Some((at, count(at)?)));
        let (first, count) = options.next()?;
        let (last, count) = options.next_back().unwrap_or((first, count));
        Some(first + 1..last + 1 + count)
    };
    match name {
        "auth" => 1..words.len(),
        "hello" => credentials(1).unwrap_or(0..0),
        "migrate" => credentials(6).unwrap_or(0..0),
        // If the command sets two passwords, the words between them are hidden as well.
        "config|set" => {
            let is_secret = |word: &[u8]| {
                word.eq_ignore_ascii_case(b"requirepass") || word.eq_ignore_ascii_case(b"masterauth")
            };
            let mut secrets = (2..words.len()).step_by(2).filter(|&at| is_secret(words[at]));
            let first = secrets.next();
            first.map_or(0..0, |first| first + 1..secrets.next_back().unwrap_or(first) + 2)
        }
        _ => 0..0,
    }
}

/// Returns the line that `MONITOR` shows: time, database, address of the client (`lua` for a script), and
/// arguments.
pub fn monitor_line(db: usize, addr: &str, name: &str, words: &Args<'_>) -> String {
    let now = since_1970();
    let mut line = format!("{}.{:06} [{db} {addr}]", now.as_secs(), now.subsec_micros());
    let hidden = hidden(name, words);
    for (at, word) in words.iter().enumerate() {
        line.push(' ');
        if hidden.contains(&at) { line.push_str("\"(redacted)\"") } else { line.push_str(&quoted(word)) }
    }
    line
}

fn get(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let count = match args[2..] {
        [] => 10,
        [count] => match int(count)? {
            -1 => usize::MAX,
            count => usize::try_from(count)
                .map_err(|_| Fail::err("count should be greater than or equal to -1"))?,
        },
        _ => return Err(Fail::arity("slowlog|get")),
    };
    let entries = cx.server.slowlog.last(count);
    out.array(entries.len());
    for entry in entries {
        out.array(6);
        out.int(entry.number as i64);
        out.int(entry.at);
        out.int(entry.took.as_micros() as i64);
        out.bulks(entry.words.iter());
        out.bulk(entry.addr.as_bytes());
        out.bulk(&entry.name);
    }
    Ok(())
}

fn doctor(cx: &mut Cx<'_>, _: &Args<'_>, out: &mut Reply) -> Done {
    let threshold = cx.server.config.read().int("latency-monitor-threshold");
    let events = cx.server.latency.all();
    let mut text = if threshold == 0 {
        "Nothing is observed: `CONFIG SET latency-monitor-threshold` to the number of milliseconds from which on an event counts.\n".to_owned()
    } else {
        format!("{} kinds of events have taken {threshold} ms or longer.\n", events.len())
    };
    for (event, series) in events {
        text += &format!("{event}: {} times, {} ms at most\n", series.samples.len(), series.longest);
    }
    answer::text(out, &text)
}

/// Number of rows of a graph.
const ROWS: u64 = 4;

/// Draws a bar for each sample, with the sample's age below it.
fn graph(event: &str, series: &Series, now: i64) -> String {
    let times = || series.samples.iter().map(|&(_, ms)| ms);
    let (high, low) = (times().max().unwrap_or(0), times().min().unwrap_or(0));
    let mut text = format!("{event} - high {high} ms, low {low} ms (all time high {} ms)\n", series.longest);
    text += &"-".repeat(80);
    text.push('\n');
    // Returns the height of a bar in half rows. The lowest bar is half a row high.
    let height = |ms: u64| 1 + (ms - low) * (2 * ROWS - 1) / (high - low).max(1);
    for row in (0..ROWS).rev() {
        let bar = |ms: u64| match height(ms).saturating_sub(2 * row) {
            0 => ' ',
            1 => '_',
            _ => '#',
        };
        text.extend(times().map(bar));
        text.push('\n');
    }
    text.push('\n');
    let ago = |at: i64| match now.saturating_sub(at).max(0) {
        seconds @ ..60 => format!("{seconds}s"),
        seconds @ 60..3600 => format!("{}m", seconds / 60),
        seconds @ 3600..86400 => format!("{}h", seconds / 3600),
        seconds => format!("{}d", seconds / 86400),
    };
    let labels: Vec<Vec<u8>> = series.samples.iter().map(|&(at, _)| ago(at).into_bytes()).collect();
    for row in 0..labels.iter().map(Vec::len).max().unwrap_or(0) {
        text.extend(labels.iter().map(|label| char::from(*label.get(row).unwrap_or(&b' '))));
        text.push('\n');
    }
    text
}

fn histogram(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let (begun, mut count) = (out.defer_len(), 0);
    let mut show = |name: &str, sum: Sum| {
        if sum.calls == 0 {
            return;
        }
        count += 1;
        out.bulk(name.as_bytes());
        out.map(2);
        out.field("calls").int(sum.calls as i64);
        out.bulk(b"histogram_usec");
        let used: Vec<usize> = (0..BUCKETS).filter(|&bucket| sum.histogram[bucket] > 0).collect();
        let (begun, mut pairs) = (out.defer_len(), 0);
        // For each bucket that is not empty: the number of calls up to its end.
        for bucket in used {
            out.int(1 << bucket);
            out.int(sum.histogram[..=bucket].iter().sum::<u64>() as i64);
            pairs += 1;
        }
        out.end_map(begun, pairs);
    };
    if args.len() == 2 {
        all_commands().for_each(|command| show(command.name, cx.server.counted(command.number)));
    }
    for name in &args[2..] {
        let name = lossy(name).to_ascii_lowercase();
        let is_meant = |command: &KnownCommand| {
            command.name.strip_prefix(&name).is_some_and(|rest| rest.is_empty() || rest.starts_with('|'))
        };
        all_commands()
            .filter(is_meant)
            .for_each(|command| show(command.name, cx.server.counted(command.number)));
    }
    out.end_map(begun, count);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn graphs() {
        let samples = [(100, 10), (130, 80), (3000, 45)].into_iter().collect();
        let text = graph("command", &Series { samples, longest: 90 }, 3010);
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some("command - high 80 ms, low 10 ms (all time high 90 ms)"));
        assert_eq!(lines.nth(1), Some(" # "));
        assert_eq!(lines.collect::<Vec<_>>(), [" # ", " ##", "_##", "", "441", "880", "mms"]);
    }

    #[test]
    fn passwords_are_hidden() {
        let hidden = |line: &str| {
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            let hidden = hidden(line.split(' ').next().unwrap(), &words);
            (0..words.len()).filter(|at| hidden.contains(at)).collect::<Vec<_>>()
        };
        assert_eq!(hidden("auth user secret"), [1, 2]);
        assert_eq!(hidden("hello 3 AUTH user secret setname n"), [3, 4]);
        assert_eq!(hidden("migrate h p k 0 5 copy auth secret"), [8]);
        assert_eq!(hidden("migrate h p k 0 5 auth2 user secret"), [7, 8]);
        assert_eq!(hidden("migrate auth p k 0 5"), []);
        assert_eq!(hidden("hello 2 setname auth auth user secret"), [4, 5, 6]);
        assert_eq!(hidden("migrate h p k 0 5 auth x auth secret"), [7, 8, 9]);
        assert_eq!(hidden("set auth x"), []);
        let set = |words: &[&[u8]]| super::hidden("config|set", words);
        assert_eq!(set(&[b"config", b"set", b"requirepass", b"a", b"port", b"1", b"masterauth", b"b"]), 3..8);
        assert_eq!(set(&[b"config", b"set", b"logfile", b"requirepass", b"masterauth", b"b"]), 5..6);
        assert_eq!(set(&[b"config", b"set", b"port", b"1"]), 0..0);
    }
}
