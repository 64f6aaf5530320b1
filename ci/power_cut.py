#!/usr/bin/env python3
"""Run the load of the power-cut tests in a virtual machine, cut the power, and compare.

Called by power-cut.sh. See docs/power-cuts.md. Python 3.9 or later, standard library only.
"""

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.realpath(__file__))
DAX_VM = os.path.join(HERE, "dax-vm", "dax-vm")
THREADS, ROOTS, ACK_EVERY = 4, 3, 8
# Transactions on one root that may be committed and not acknowledged: those that each thread has put off, and
# the one that it was running. Lines on their way through the guest's console are lost with it, so this allows
# for more than that.
IN_FLIGHT = 16 * THREADS * (ACK_EVERY + 2)
# The load prints this when the power is to fail.
CUT = "cut the power"
POWER_FAILED = 137
EXPECTED = {"dax": ("Pmem", "true"), "disk": ("Wal", "false")}


class Wrong(Exception):
    """The heap is not what it has to be."""


class RigFailed(Exception):
    """The virtual machine did not work, or not in time. Says nothing about the heap."""


class Ledger:
    """What the load has been promised, from its own lines."""

    def __init__(self):
        self.least = {}  # root -> the last transaction that must be there
        self.lives = {}  # thread -> the last step in the life of its own root that must have been made
        self.acks = 0

    def new_run(self):
        self.found, self.alive, self.openings, self.stats = set(), {}, [], {}

    def line(self, text):
        word, *rest = text.split(" ")
        if word == "wrong:":
            raise Wrong(text)
        if word in ("ack", "seen"):
            root, number = map(int, rest)
            self.least[root] = max(self.least.get(root, 0), number)
            self.acks += word == "ack"
        elif word == "found":
            self._found(*map(int, rest))
        elif word == "alive":
            thread, step = map(int, rest)
            self.alive[thread] = step
        elif word == "life":
            thread, step = map(int, rest)
            self.lives[thread] = step
        elif word == "opened":
            self._opened(text, rest)
        elif word == "stats":
            for name, value in (pair.split("=") for pair in rest):
                self.stats[len(self.openings), name] = int(value)
        elif word not in ("started", "closed", "cut"):
            raise Wrong(f"the load said {text!r}")

    def _found(self, root, number):
        least = self.least.get(root, 0)
        if number < least:
            raise Wrong(f"lost: root {root} is at transaction {number}, and {least} had been acknowledged or seen")
        if number > least + IN_FLIGHT:
            raise Wrong(f"invented: root {root} is at transaction {number}, and {least} was the last acknowledged")
        self.least[root] = number
        self.found.add(root)

    def _opened(self, text, rest):
        """All `found` and `alive` lines are there: what is missing?"""
        missing = set(self.least) - self.found
        if missing:
            raise Wrong(f"lost: roots {sorted(missing)}")
        for thread, now in self.alive.items():
            before = self.lives.get(thread, 0)
            if not before <= now <= before + IN_FLIGHT:
                raise Wrong(f"lost: the root of thread {thread} had made {before} steps, and has made {now}")
            self.lives[thread] = now
        self.openings.append((rest[0], rest[1].partition("=")[2], text))
        self.found = set()


class Device:
    """An image, and what is known of it."""

    def __init__(self, name, args, folder, load=(), expected=None):
        self.name, self.args, self.load, self.expected = name, args, list(load), expected
        os.makedirs(folder, exist_ok=True)
        self.image, self.before = os.path.join(folder, name + ".img"), os.path.join(folder, name + ".before.img")
        self.other, self.out = os.path.join(folder, "other.img"), os.path.join(folder, name + ".out")
        self.report, self.console = os.path.join(folder, name + ".json"), os.path.join(folder, name + ".console")
        self.ledger = Ledger()

    def command(self, options, load):
        if self.name == "dax":
            device = ["--nvdimm", self.image, "--size", "192", "--no-disk"]
        else:
            # The machine always has a persistent memory. It is kept, so that it need not be formatted again.
            device = ["--nvdimm", self.other, "--size", "64", "--disk", self.image, "--disk-size", "192"]
        path = {"dax": "/pmem/power.pheap", "disk": "/disk/power.pheap"}[self.name]
        program = [self.args.program, "--path", path, "--threads", str(THREADS), "--roots", str(ROOTS)]
        program += ["--ack-every", str(ACK_EVERY), *load]
        logs = ["--timeout", "120", "--report", self.report, "--console", self.console]
        return [sys.executable, "-B", DAX_VM, "run", *logs, *device, *options, "--", *program]

    def boot(self, options, load):
        """One boot, from its first line to its end. -> exit status, what dax-vm said"""
        if os.path.exists(self.image):
            subprocess.run(["cp", "--sparse=always", self.image, self.before], check=True)
        self.ledger.new_run()
        self.last_command = self.command(options, load)
        for attempt in range(3):
            write(self.report, "{}")  # of this attempt, or none
            with open(self.out, "wb") as out:
                done = subprocess.run(self.last_command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.PIPE)
            said = done.stderr.decode(errors="replace").strip()
            if done.returncode not in (124, 125):
                break
            with open(self.report) as f:
                if json.load(f).get("boot_s") is not None:
                    # The load had begun, so it may be the reason.
                    raise Wrong(f"it did not end as it should: {said}")
            # A guest that never got to the load says nothing about the heap, which it has not touched.
            print(f"{self.name}: the guest did not boot: {said}", flush=True)
            shutil.copyfile(self.console, f"{self.console}.{attempt}")
        else:
            raise RigFailed(f"three times in a row; its console is in {self.console}")
        with open(self.out, errors="replace") as f:
            *lines, cut_off = f.read().split("\n")
        try:
            for line in lines:
                self.ledger.line(line)
        except ValueError as error:
            raise Wrong(f"the load said {line!r}: {error}")
        except Wrong as wrong:
            raise Wrong(f"{wrong} ({said or 'no message'})")
        return done.returncode, said

    def round(self, number, rng):
        """One power failure. -> a line about it, and whether the heap had been opened"""
        seed = rng.randrange(1 << 32)
        options, load = ["--seed", str(seed)], ["--seed", str(seed), *self.load]
        if number % 4 == 3 and self.expected:
            # Mostly while the heap is being opened, recovered and checked.
            options += ["--kill-after", "5-400"]
        else:
            # A time after the heap was opened, by the guest's clock.
            options += ["--kill-on", CUT]
            load += ["--cut-after", str(rng.randrange(20, 6000))]
        cache = ""
        if self.name == "disk" and number % 2 == 0:
            # A slow cache, so that it mostly holds data when the power fails.
            options += ["--disk-cache", "volatile", "--flush-ms", str(rng.randrange(1, 30))]
            cache = ", a cache that forgets"
        acks = self.ledger.acks
        status, said = self.boot(options, load)
        if status != POWER_FAILED:
            raise Wrong(f"the load ended with status {status}: {said}")
        self.check_mode()
        openings = self.ledger.openings
        moment = re.search(r"power failure after .*", said)
        line = f"{self.name} round {number}{cache}: {self.ledger.acks - acks} acks, opened {len(openings)} times; "
        return line + (moment.group() if moment else said), bool(openings)

    def check_mode(self):
        for mode, sync, text in self.ledger.openings:
            if self.expected and (mode, sync) != self.expected:
                raise Wrong(f"expected {self.expected[0]} and map_sync={self.expected[1]}: {text}")

    def verify(self):
        status, said = self.boot([], ["--verify", *self.load])
        if status != 0 or not self.ledger.openings:
            raise Wrong(f"final look: status {status}: {said}")
        self.check_mode()


def write(path, text):
    with open(path, "w") as f:
        f.write(text)


def run(device, rounds, seed):
    """-> acknowledgements, a line of totals. Raises `Wrong` if anything is."""
    rng, early, totals = random.Random(f"{device.name} {seed}"), 0, {}
    for number in range(1, rounds + 1):
        line, opened = device.round(number, rng)
        early += not opened
        for (_, name), value in device.ledger.stats.items():
            totals[name] = max(totals.get(name, 0), value) if name.endswith("_bytes") else totals.get(name, 0) + value
        print(line + ("" if opened else "; before the heap was open"), flush=True)
    device.verify()
    acks = device.ledger.acks
    if not acks:
        raise Wrong("nothing was acknowledged")
    counts = ", ".join(f"{name} {value}" for name, value in sorted(totals.items()))
    print(f"{device.name}: {rounds} rounds, {early} of them before the heap was open; {counts}", flush=True)
    return acks


# Mistakes that must be noticed: the device, the options of the load, and a pattern of the message.
MISTAKES = [
    ("disk", ["--durability", "wal", "--mistake", "no-sync"], "lost: "),
    ("disk", ["--durability", "process"], "Durability::Process"),
    ("disk", ["--durability", "pmem"], "lost: |wrong: "),
    ("dax", ["--mistake", "early-ack"], "lost: "),
    ("dax", ["--mistake", "split"], "money: "),
]


def self_test(args, folder, names):
    """Each mistake must be noticed within so many rounds."""
    missed = []
    for i, (name, load, pattern) in enumerate(MISTAKES):
        if name not in names:
            continue
        what = f"{name} with {' '.join(load)}"
        try:
            run(Device(name, args, os.path.join(folder, f"mistake{i}"), load), args.rounds, args.seed)
            missed.append(what)
            print(f"self test: {what}: NOT noticed")
        except Wrong as wrong:
            good = re.search(pattern, str(wrong))
            print(f"self test: {what}: {'noticed' if good else 'NOT as expected'}: {wrong}", flush=True)
            if not good:
                missed.append(what)
    return missed


def explain(device, folder):
    print(f"  its lines are in {device.out}, the image before that boot is {device.before}; again, with a copy of it:")
    print("  " + " ".join(device.last_command), flush=True)


def main():
    parser = argparse.ArgumentParser(
        prog="ci/power-cut.sh",
        description=__doc__.split("\n")[0],
        epilog="With --server as well, pheap-redis is the load, on the disk; it takes --rounds, --self-test and --seed.",
    )
    parser.add_argument("--rounds", type=int, default=10, help="power failures for each device (default 10)")
    parser.add_argument("--dax", action="store_true", help="a file system with DAX: Pmem with MAP_SYNC")
    parser.add_argument("--disk", action="store_true", help="a file system on a disk: Wal")
    parser.add_argument("--no-sync", action="store_true", help="acknowledge without syncing: must fail on the disk")
    parser.add_argument("--self-test", action="store_true", help="make mistakes, each of which must be noticed")
    parser.add_argument("--seed", type=int, help="for what is random (moments, and the load; default: random)")
    parser.add_argument("--keep", metavar="DIR", help="where images and output go, and stay")
    parser.add_argument("--program", required=True, help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.program = os.path.abspath(args.program)
    args.seed = random.randrange(1 << 32) if args.seed is None else args.seed
    names = [name for name in ("dax", "disk") if getattr(args, name)] or ["dax", "disk"]
    folder = os.path.abspath(args.keep) if args.keep else tempfile.mkdtemp(prefix="power-cut-")
    print(f"seed {args.seed}, images in {folder}", flush=True)
    begin, acks, failed = time.monotonic(), 0, []
    try:
        if args.self_test:
            failed = self_test(args, folder, names)
        else:
            for name in names:
                load = ["--mistake", "no-sync"] if args.no_sync else []
                device = Device(name, args, folder, load, EXPECTED[name])
                try:
                    run(device, args.rounds, args.seed)
                except Wrong as wrong:
                    print(f"{name}: FAILED: {wrong}", flush=True)
                    explain(device, folder)
                    failed.append(name)
                acks += device.ledger.acks
    except RigFailed as failure:
        print(f"the virtual machine failed: {failure}", flush=True)
        failed.append("the virtual machine")
    if not failed and not args.keep:
        shutil.rmtree(folder)
    seconds = time.monotonic() - begin
    what = "self test" if args.self_test else f"{args.rounds} rounds each on {' and '.join(names)}, {acks} acks"
    print(f"power cuts: {what}, {seconds:.0f} s: {'FAILED: ' + ', '.join(failed) if failed else 'ok'}")
    return 2 if failed == ["the virtual machine"] else 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
