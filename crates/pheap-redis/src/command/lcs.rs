//! `LCS`: the longest common subsequence of two strings.

use super::args::{int, value};
use super::buffers::StringLimit;
use super::table::{READ, TWO_KEYS};
use super::{Args, Command, Cx, Done, Fail, answer};
use crate::resp::Reply;

pub(super) const COMMANDS: &[Command] = &[Command::new("lcs", -3, READ, TWO_KEYS, lcs)];

fn string_or_empty(cx: &mut Cx<'_>, key: &[u8]) -> Result<Vec<u8>, Fail> {
    cx.read_string(key, |bytes| Ok(bytes.unwrap_or_default().to_vec()))
        .map_err(|_| Fail::err("The specified keys must contain string values"))
}

fn lcs(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let (a, b) = (string_or_empty(cx, args[1])?, string_or_empty(cx, args[2])?);
    let (mut wants_places, mut wants_len, mut wants_lens, mut least) = (false, false, false, 0);
    let mut rest = args[3..].iter();
    while let Some(option) = rest.next() {
        match option.to_ascii_lowercase().as_slice() {
            b"idx" => wants_places = true,
            b"len" => wants_len = true,
            b"withmatchlen" => wants_lens = true,
            b"minmatchlen" => least = int(value(&mut rest)?)?,
            _ => return Err(Fail::SYNTAX),
        }
    }
    Fail::err_when(
        wants_len && wants_places,
        "If you want both the length and indexes, please just use IDX.",
    )?;
    let too_much = || Fail::err("Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len");
    let bytes = (a.len() + 1).saturating_mul(b.len() + 1).saturating_mul(size_of::<u32>());
    StringLimit::of_client(cx).check(bytes, 0).map_err(|_| too_much())?;
    let table = LcsTable::compute(&a, &b).ok_or_else(too_much)?;
    if wants_len {
        return answer::count(out, table.len(a.len(), b.len()));
    }
    let runs = table.runs(&a, &b);
    if !wants_places {
        let text: Vec<&[u8]> = runs.iter().rev().map(|run| &a[run.a..run.a + run.len]).collect();
        return answer::bulk(out, &text.concat());
    }
    let shown = runs.iter().filter(|run| run.len as i64 >= least);
    out.map(2);
    out.field("matches").array(shown.clone().count());
    for run in shown {
        out.array(if wants_lens { 3 } else { 2 });
        for from in [run.a, run.b] {
            out.array(2);
            out.count(from);
            out.count(from + run.len - 1);
        }
        if wants_lens {
            out.count(run.len);
        }
    }
    out.field("len").count(table.len(a.len(), b.len()));
    Ok(())
}

/// The length of the longest common subsequence of each prefix of one string and each prefix of the other.
struct LcsTable {
    lens: Vec<u32>,
    width: usize,
}

/// A run of bytes that both strings have.
#[derive(Debug, PartialEq, Eq)]
struct CommonRun {
    /// The run's start in the first string.
    a: usize,
    /// The run's start in the second string.
    b: usize,
    /// The run's number of bytes.
    len: usize,
}

impl LcsTable {
    /// Returns the table, or `None` if there is not enough memory for it.
    fn compute(a: &[u8], b: &[u8]) -> Option<LcsTable> {
        let width = b.len() + 1;
        let cells = (a.len() + 1).checked_mul(width)?;
        let mut lens = Vec::new();
        lens.try_reserve_exact(cells).ok()?;
        lens.resize(cells, 0);
        for (i, x) in a.iter().enumerate() {
            let (above, row) = lens[i * width..(i + 2) * width].split_at_mut(width);
            for (j, y) in b.iter().enumerate() {
                row[j + 1] = if x == y { above[j] + 1 } else { above[j + 1].max(row[j]) };
            }
        }
        Some(LcsTable { lens, width })
    }

    fn len(&self, i: usize, j: usize) -> usize {
        self.lens[i * self.width + j] as usize
    }

    /// Returns the runs of a longest common subsequence, from the end.
    fn runs(&self, a: &[u8], b: &[u8]) -> Vec<CommonRun> {
        let (mut i, mut j) = (a.len(), b.len());
        let mut runs: Vec<CommonRun> = Vec::new();
        while i > 0 && j > 0 {
            if a[i - 1] == b[j - 1] {
                match runs.last_mut() {
                    Some(run) if (run.a, run.b) == (i, j) => {
                        *run = CommonRun { a: i - 1, b: j - 1, len: run.len + 1 }
                    }
                    _ => runs.push(CommonRun { a: i - 1, b: j - 1, len: 1 }),
                }
                (i, j) = (i - 1, j - 1);
            } else if self.len(i - 1, j) > self.len(i, j - 1) {
                i -= 1;
            } else {
                j -= 1;
            }
        }
        runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_one() {
        let (a, b) = (b"ohmytext", b"mynewtext");
        let table = LcsTable::compute(a, b).unwrap();
        assert_eq!(table.len(8, 9), 6);
        assert_eq!(table.runs(a, b), [CommonRun { a: 4, b: 5, len: 4 }, CommonRun { a: 2, b: 0, len: 2 }]);
        assert_eq!(LcsTable::compute(b"", b"x").unwrap().len(0, 1), 0);
    }
}
