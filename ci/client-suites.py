#!/usr/bin/env python3
"""Compares two reports of one test suite, for ci/client-suites.sh.

client-suites.py names|report SUITE REDIS.xml PHEAP.xml [AGAIN.xml ...]

`names` prints the tests that pass in the first report, pass in no other, and are not in client-suites.skip.
`report` prints the counts and these tests with their messages, and exits with 1 if there are any.
"""
import collections
import os
import re
import sys
import xml.etree.ElementTree as ElementTree

SKIP = os.path.join(os.path.dirname(__file__), "client-suites.skip")


def name_of(case):
    """The name by which the suite's own runner finds the test."""
    name, file, suite = case.get("name"), case.get("file") or "", case.get("classname") or ""
    if file.endswith(".py"):  # pytest: the class name begins with that of the module
        module = file[: -len(".py")].replace("/", ".")
        classes = suite[len(module) :].strip(".").split(".")
        return "::".join([file, *filter(None, classes), name])
    if suite.endswith(".ts"):  # Vitest: the class name is that of the file
        return name.replace(" > ", " ")
    if file.endswith(".ts"):  # Mocha: the class name is the description
        return f"{suite} {name}"
    # Ginkgo: [It] the name [its labels]
    return re.sub(r"^\[It\] | \[[^\]]*\]$", "", name)


def read(path):
    """The state and the message of each test; the worst one, if several have one name."""
    tests = {}
    rank = {"passed": 0, "skipped": 1, "failed": 2}
    for case in ElementTree.parse(path).iter("testcase"):
        if (case.get("name") or "").startswith("[") and not case.get("name").startswith("[It] "):
            continue  # Ginkgo runs this before or after the tests
        state, message = "passed", ""
        for child in case:
            if child.tag in ("failure", "error"):
                state, message = "failed", child.get("message") or child.text or ""
            elif child.tag == "skipped":
                state, message = "skipped", child.get("message") or ""
        name = name_of(case)
        if name not in tests or rank[state] > rank[tests[name][0]]:
            tests[name] = state, message
    return tests


def allowed(suite):
    """What may differ: (name, whether it is a beginning, reason)."""
    for line in open(SKIP):
        line = line.rstrip("\n")
        if line and not line.startswith("#"):
            suites, name, reason = line.split("\t")
            if suite in suites.split(","):
                yield name.removesuffix("*"), name.endswith("*"), reason


def main():
    mode, suite, redis, pheap, *again = sys.argv[1:]
    redis, pheap = read(redis), read(pheap)
    again = [read(path) for path in again]
    entries = list(allowed(suite))
    differ, reasons, unsteady, used = [], collections.Counter(), [], set()
    for test, (state, _) in redis.items():
        if state != "passed" or pheap.get(test, ("missing",))[0] == "passed":
            continue
        entry = next((e for e in entries if test == e[0] or e[1] and test.startswith(e[0])), None)
        if entry:
            reasons[entry[2]] += 1
            used.add(entry)
        elif any(report.get(test, ("missing",))[0] == "passed" for report in again):
            unsteady.append(test)
        else:
            differ.append(test)
    if mode == "names":
        print("\n".join(differ), end="\n" if differ else "")
        return 0
    for title, tests in (("redis-server", redis), ("pheap-redis", pheap)):
        states = collections.Counter(state for state, _ in tests.values())
        counts = (f"{states[state]} {state}" for state in ("passed", "failed", "skipped"))
        print(f"{suite} on {title}: " + ", ".join(counts))
    for reason, count in reasons.most_common():
        print(f"{count:5} may differ: {reason}")
    for test in unsteady:
        print(f"unsteady: {test}")
    for entry in entries:
        if entry not in used:
            print(f"no longer differs: {entry[0]}{'*' if entry[1] else ''}")
    for test in differ:
        state, message = pheap.get(test, ("missing", ""))
        print(f"DIFFERS ({state}): {test}\n      " + " ".join(message.split())[:200])
    print(f"{suite}: {len(differ)} differences")
    return 1 if differ else 0


sys.exit(main())
