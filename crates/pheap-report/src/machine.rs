//! Describes the machine, and the version of the sources.

use crate::Result;
use crate::results::Meta;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Returns the description of the results. `media` has directories, each with the kind of files that it has.
pub(crate) fn describe(repository: &Path, quick: bool, media: &[(&str, &Path)]) -> Result<Meta> {
    let git = |args: &[&str]| said(Command::new("git").arg("-C").arg(repository).args(args));
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let media: Vec<String> = media
        .iter()
        .filter_map(|(what, dir)| {
            Some(format!("{what} on {}", said(Command::new("stat").args(["-f", "-c", "%T"]).arg(dir))?))
        })
        .collect();
    Ok(Meta {
        date: said(Command::new("date").args(["-u", "+%Y-%m-%d %H:%M"])).ok_or("there is no `date`")?,
        commit: git(&["rev-parse", "HEAD"]).unwrap_or_else(|| "unknown".into()),
        dirty: git(&["status", "--porcelain"]).is_some_and(|changes| !changes.is_empty()),
        quick,
        cpu: field(&cpuinfo, "model name").unwrap_or_else(|| std::env::consts::ARCH.into()),
        cores: std::thread::available_parallelism()?.get() as u64,
        memory_bytes: field(&meminfo, "MemTotal").and_then(|text| kibibytes(&text)).unwrap_or(0),
        kernel: fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
        medium: media.join(", "),
        rustc: said(Command::new("rustc").arg("--version")).unwrap_or_default(),
    })
}

/// Returns the output of a command, if it succeeds.
fn said(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Returns the text behind the colon in the first line that begins with `name`.
fn field(text: &str, name: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// Converts text such as `16384 kB` to bytes.
fn kibibytes(text: &str) -> Option<u64> {
    Some(text.strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_files_are_read() {
        let text = "processor\t: 0\nmodel name\t: A Processor\n";
        assert_eq!(field(text, "model name").as_deref(), Some("A Processor"));
        assert_eq!(field(text, "flags"), None);
        assert_eq!(kibibytes("16384 kB"), Some(16384 * 1024));
    }
}
