#!/usr/bin/env python3
"""Counts the instructions of some rows of the benchmark `paper`, and compares them with benches/instructions.txt.

    ci/instructions.py PAPER            fails if a row takes over 3 % more instructions than the file says
    ci/instructions.py PAPER --write    writes the file: the commit says why the numbers have changed

PAPER is the optimised benchmark (`cargo bench --no-run --bench paper`). Needs Debian's package valgrind, whose
callgrind counts the instructions of the timed parts: unlike times, they do not depend on what else the machine does.
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROWS = "txn_empty,txn_small,txn_two,txn_objects,sps,nbody,pagerank,binary_trees,fannkuch"
TIMED = "pheap_suite::measure::timed"
FILE = pathlib.Path(__file__).resolve().parent.parent / "benches/instructions.txt"
MOST = 1.03


def part_number(name):
    """N of callgrind.out.PID.N, which was written when a timed part began; callgrind.out.PID is the last one."""
    number = name.split(".")[3:]
    return int(number[0]) if number else sys.maxsize


def count(paper):
    """Instructions of one operation, by row."""
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.run(
            ["valgrind", "-q", "--tool=callgrind", f"--toggle-collect={TIMED}", f"--dump-before={TIMED}",
             pathlib.Path(paper).resolve(), "--bench", "--once", "--systems=pheap", "--durability=process",
             f"--only={ROWS}"],
            stdout=subprocess.PIPE, check=True, text=True, cwd=folder)
        rows = [json.loads(line) for line in run.stdout.splitlines()]
        parts = sorted(pathlib.Path(folder).iterdir(), key=lambda part: part_number(part.name))
        totals = [int(re.search(r"^totals: (\d+)", part.read_text(), re.M)[1]) for part in parts]
    totals = [total for total in totals if total]
    if len(totals) != len(rows):
        sys.exit(f"{len(rows)} rows, and {len(totals)} timed parts: a row must have one")
    return {f"{row['bench']} {row['variant']}": total / row["n"] for row, total in zip(rows, totals)}


def main():
    paper, *rest = sys.argv[1:]
    found = count(paper)
    if rest == ["--write"]:
        FILE.write_text("".join(f"{name:40} {instructions:.1f}\n" for name, instructions in found.items()))
        return
    known = dict(re.match(r"(.*\S) +(\S+)$", line).groups() for line in FILE.read_text().splitlines())
    if known.keys() != found.keys():
        sys.exit(f"the rows are others: {sorted(known.keys() ^ found.keys())}; write the file anew with --write")
    worse = 0
    for name, instructions in found.items():
        ratio = instructions / float(known[name])
        worse += ratio > MOST
        print(f"{name:40} {instructions:10.1f} {float(known[name]):10.1f} {ratio:6.3f}{' MORE' * (ratio > MOST)}")
    if worse:
        sys.exit(f"{worse} rows take over {MOST - 1:.0%} more instructions; if that is meant: --write, and say why")


main()
