//! `COMMAND`: describes the commands.

use super::table::{Access, LOOK};
use super::{
    Args, Command, Cx, Done, Fail, Flags, Group, Keys, KnownCommand, all_commands, answer, lookup, resolve,
    top_level_commands,
};
use crate::resp::Reply;
use crate::text::words::matches;

pub(super) const COMMANDS: &[Command] = &[
    Command::new("command", -1, LOOK, Keys::None, info).with_subcommands(),
    Command::new("command|count", 2, LOOK, Keys::None, |_, _, out| {
        answer::count(out, top_level_commands().count())
    }),
    Command::new("command|docs", -2, LOOK, Keys::None, docs),
    Command::new("command|getkeys", -4, LOOK, Keys::None, |_, args, out| {
        let (_, words, keys) = keys_of(args)?;
        answer::bulks(out, keys.iter().map(|&at| words[at]))
    }),
    Command::new("command|getkeysandflags", -4, LOOK, Keys::None, |_, args, out| {
        let (known, words, keys) = keys_of(args)?;
        let [first, others] = access(known, words);
        out.array(keys.len());
        for (i, &at) in keys.iter().enumerate() {
            let flags = if i == 0 { first } else { others };
            out.array(2);
            out.bulk(words[at]);
            out.set(flags.split(' ').count());
            flags.split(' ').for_each(|flag| out.simple(flag));
        }
        Ok(())
    }),
    Command::help("command|help"),
    Command::new("command|info", -2, LOOK, Keys::None, info),
    Command::new("command|list", -2, LOOK, Keys::None, list),
];

fn info(_: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let some: Vec<Option<KnownCommand>> = match args {
        [] | [_] | [_, _] => top_level_commands().map(Some).collect(),
        [_, _, names @ ..] => names.iter().map(|name| lookup(name)).collect(),
    };
    out.array(some.len());
    for known in some {
        match known {
            Some(known) => describe(known, out),
            None => out.null(),
        }
    }
    Ok(())
}

fn docs(_: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let some: Vec<KnownCommand> = if args.len() == 2 {
        top_level_commands().collect()
    } else {
        args[2..].iter().filter_map(|name| lookup(name)).collect()
    };
    out.map(some.len());
    some.into_iter().for_each(|known| doc(known, out));
    Ok(())
}

fn doc(known: KnownCommand, out: &mut Reply) {
    let subcommands = known.command.subcommands();
    let count = subcommands.clone().count();
    out.bulk(known.name.as_bytes());
    out.map(if count > 0 { 3 } else { 2 });
    out.field("group").bulk(known.group.name().as_bytes());
    out.field("arity").int(i64::from(known.arity));
    if count > 0 {
        out.field("subcommands").map(count);
        subcommands.for_each(|sub| doc(sub, out));
    }
}

/// Returns the command that the client asks about, its words, and the positions of its keys. Fails if the
/// command has no keys, or if its words are invalid.
fn keys_of<'w, 'a>(args: &'w Args<'a>) -> Result<(KnownCommand, &'w Args<'a>, Vec<usize>), Fail> {
    let words = &args[2..];
    let has_none = |known: KnownCommand| {
        matches!(known.keys, Keys::None | Keys::Everything | Keys::Heap | Keys::From(_) | Keys::Libraries)
    };
    let no_keys = || Fail::err("The command has no key arguments");
    let known = resolve(words).map_err(|refused| {
        match refused.number.and_then(|number| all_commands().nth(number)) {
            Some(known) if has_none(known) => no_keys(),
            Some(_) => Fail::err("Invalid number of arguments specified for command"),
            None => Fail::err("Invalid command specified"),
        }
    })?;
    if has_none(known) {
        return Err(no_keys());
    }
    let keys = known.keys(words);
    Fail::err_when(
        keys.is_empty() && !matches!(known.keys, Keys::Script),
        "Invalid arguments specified for command",
    )?;
    Ok((known, words, keys))
}

/// Returns the access of a command to its first key, and to the others.
fn access(known: KnownCommand, words: &Args<'_>) -> [Access; 2] {
    let by_flags = |only_reads: bool| [if only_reads { "RO access" } else { "RW access update" }; 2];
    match known.name {
        "set" if !words.iter().skip(3).any(|word| word.eq_ignore_ascii_case(b"get")) => ["OW update"; 2],
        "bitfield" => by_flags(only_reads(words)),
        _ => known.access.unwrap_or_else(|| by_flags(known.flags.has(Flags::READONLY))),
    }
}

/// Returns whether a `BITFIELD` consists only of valid `GET` and `OVERFLOW` subcommands.
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

fn list(_: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let names: Vec<&str> = match args[2..] {
        [] => all_commands().map(|known| known.command.name).collect(),
        [filter, how, what] if filter.eq_ignore_ascii_case(b"filterby") => {
            let is_meant: &dyn Fn(&KnownCommand) -> bool = match how.to_ascii_lowercase().as_slice() {
                b"pattern" => &|known| matches(&what.to_ascii_lowercase(), known.name.as_bytes()),
                b"aclcat" => &|known| categories(known).iter().any(|name| name.as_bytes() == what),
                b"module" => &|_| false,
                _ => return Err(Fail::SYNTAX),
            };
            all_commands().filter(is_meant).map(|known| known.command.name).collect()
        }
        _ => return Err(Fail::SYNTAX),
    };
    answer::bulks(out, names.iter())
}

/// Returns the ACL categories of a command.
pub(super) fn categories(known: &KnownCommand) -> Vec<&'static str> {
    let flags = known.flags;
    let mut all = vec![match known.group {
        Group::Generic => "keyspace",
        Group::SortedSet => "sortedset",
        Group::Transactions => "transaction",
        Group::Server => "admin",
        other => other.name(),
    }];
    let by_flag = [
        (Flags::WRITE, "write"),
        (Flags::READONLY, "read"),
        (Flags::ADMIN, "admin"),
        (Flags::ADMIN, "dangerous"),
        (Flags::PUBSUB, "pubsub"),
        (Flags::BLOCKING, "blocking"),
        (Flags::FAST, "fast"),
    ];
    all.extend(by_flag.into_iter().filter(|(flag, _)| flags.has(*flag)).map(|(_, name)| name));
    if !flags.has(Flags::FAST) {
        all.push("slow");
    }
    if known.group == Group::Server && !flags.has(Flags::ADMIN) {
        all.remove(0);
    }
    all.sort_unstable();
    all.dedup();
    all
}

fn describe(known: KnownCommand, out: &mut Reply) {
    let (first, last, step) = match known.keys {
        Keys::Range(first, last, step) => (first, last, step),
        _ => (0, 0, 0),
    };
    out.array(10);
    out.bulk(known.name.as_bytes());
    out.int(i64::from(known.arity));
    let mut flags: Vec<&str> = known.flags.names().collect();
    if matches!(known.keys, Keys::Find(_) | Keys::Perhaps { .. } | Keys::Script)
        && !flags.contains(&"movablekeys")
    {
        flags.push("movablekeys");
    }
    out.set(flags.len());
    flags.iter().for_each(|flag| out.simple(flag));
    [first, last, step].iter().for_each(|&number| out.int(i64::from(number)));
    let categories = categories(&known);
    out.set(categories.len());
    categories.iter().for_each(|name| out.simple(&format!("@{name}")));
    out.array(0);
    out.array(0);
    let subcommands = known.command.subcommands();
    out.array(subcommands.clone().count());
    subcommands.for_each(|sub| describe(sub, out));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_can_be_described() {
        let mut out = Reply::new(false);
        for known in all_commands() {
            describe(known, &mut out);
            assert!(!categories(&known).is_empty(), "{}", known.command.name);
        }
        assert!(crate::text::words::lossy(out.bytes_since(0)).contains("@keyspace"));
    }

    #[test]
    fn what_is_done_to_keys() {
        let of = |line: &str| {
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            access(lookup(words[0]).unwrap(), &words)
        };
        assert_eq!(of("set a b ex 5"), ["OW update"; 2]);
        assert_eq!(of("set a b GET"), ["RW access update"; 2]);
        assert_eq!(of("get a"), ["RO access"; 2]);
        assert_eq!(of("exists a"), ["RO"; 2]);
        assert_eq!(of("lmove a b left right"), ["RW access delete", "RW insert"]);
        assert_eq!(of("copy a b"), ["RO access", "OW update"]);
        let reads = |line: &str| only_reads(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>());
        assert!(reads("bitfield k overflow wrap GET u8 0 get u8 8") && reads("bitfield k"));
        assert!(!reads("bitfield k get u8 0 set u8 0 1") && !reads("bitfield k get u8"));
    }
}
