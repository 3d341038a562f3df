#!/usr/bin/env python3
"""summarise.py LOG...: count tests in meson's testlog.json files; say why tests were skipped.

One executable runs many tests, so its output is read: Check's "95%: Checks: 20, Failures: 1,
Errors: 0", unittest's "Ran 20 tests" and "FAILED (failures=1, skipped=2)", or our own "N passed, N
failed, N skipped". An executable with none of these is one test. One that fails while its output
counts no failure (a crash, a leak at the end) is one failure more. The last line is "N passed, N
failed, N skipped". Exit 1 when a test failed or when there was none.

summarise.py --add LOG NAME STATUS OUTPUT: append to LOG that the command NAME ended with STATUS
and printed the file OUTPUT, in meson's form.
"""

import json
import re
import sys

SKIP = 77
CHECK = re.compile(r"^\d+%: Checks: (\d+), Failures: (\d+), Errors: (\d+)", re.M)
UNITTEST = re.compile(r"^Ran (\d+) tests? in .*\n\n(OK|FAILED)(?: \((.*)\))?$", re.M)
OURS = re.compile(r"^(\d+) passed, (\d+) failed, (\d+) skipped$", re.M)
REASON = re.compile(r"(?:skip(?:ped|ping)?\b|SKIP)[:\s]+(.*)", re.I)
GOOD = ("OK", "SKIP", "EXPECTEDFAIL")


def counts_in(text):
    """[passed, failed, skipped] by the closing lines in `text`; None when there are none."""
    total, found = [0, 0, 0], False
    for checks, failures, errors in CHECK.findall(text):
        n_bad = int(failures) + int(errors)
        total = [total[0] + int(checks) - n_bad, total[1] + n_bad, total[2]]
        found = True
    for ran, _, details in UNITTEST.findall(text):
        n = {key: int(value) for key, value in re.findall(r"([\w ]+)=(\d+)", details)}
        n = {key.strip(): value for key, value in n.items()}
        n_bad = n.get("failures", 0) + n.get("errors", 0) + n.get("unexpected successes", 0)
        n_skipped = n.get("skipped", 0)
        total = [total[0] + int(ran) - n_bad - n_skipped, total[1] + n_bad, total[2] + n_skipped]
        found = True
    for passed, failed, skipped in OURS.findall(text):
        total = [total[0] + int(passed), total[1] + int(failed), total[2] + int(skipped)]
        found = True
    return total if found else None


def counts_of(test):
    """[passed, failed, skipped] of one entry of the log."""
    text = test.get("stdout", "") + "\n" + test.get("stderr", "")
    counts = counts_in(text)
    if test["result"] == "SKIP":
        return [0, 0, max(1, counts[2] if counts else 0)]
    good = test["result"] in GOOD
    if counts is None or sum(counts) == 0:
        return [1, 0, 0] if good else [0, 1, 0]
    if not good and counts[1] == 0:
        counts[1] = 1
    return counts


def reasons_of(test):
    """Why something in this test was skipped: the lines that say so."""
    text = test.get("stdout", "") + "\n" + test.get("stderr", "")
    found = [m[1].strip(" '\"") for line in text.split("\n") if not OURS.match(line)
             and not line.startswith(("OK", "FAILED")) and (m := REASON.search(line))]
    return sorted(set(found)) or ["no reason given"]


def read_log(path):
    with open(path, encoding="utf-8") as stream:
        return [json.loads(line) for line in stream if line.strip()]


def add(path, name, status, output):
    with open(output, encoding="utf-8", errors="replace") as stream:
        text = stream.read()
    result = {0: "OK", SKIP: "SKIP"}.get(int(status), "FAIL")
    with open(path, "a", encoding="utf-8") as stream:
        entry = {"name": name, "result": result, "returncode": int(status), "stdout": text}
        stream.write(json.dumps(entry) + "\n")


def main(arguments):
    if len(arguments) == 5 and arguments[0] == "--add":
        add(*arguments[1:])
        return 0
    total, whole = [0, 0, 0], True
    for path in arguments:
        try:
            tests = read_log(path)
        except (OSError, ValueError) as error:
            print(f"summarise.py: {path}: {error}", file=sys.stderr)
            whole = False
            continue
        for test in tests:
            counts = counts_of(test)
            total = [a + b for a, b in zip(total, counts)]
            if counts[1]:
                print(f"failed: {test['name']}: {counts[1]} ({test['result']})")
            if counts[2]:
                print(f"skipped: {test['name']}: {'; '.join(reasons_of(test))}")
    if sum(total) == 0:
        print("no test has run", file=sys.stderr)
    print(f"{total[0]} passed, {total[1]} failed, {total[2]} skipped")
    return 0 if whole and total[1] == 0 and sum(total) > 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
