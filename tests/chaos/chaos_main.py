"""What the rigs' mains share: flags, and a closing line that tests/lib/summarise.py counts."""

import inspect
import sys
import time
import traceback

import cluster as chaos

SKIPPED = 77


def add_flags(parser):
    parser.add_argument("--seed", type=int, default=1, help="of everything drawn")
    parser.add_argument("--keep", action="store_true", help="keep the folders of good runs, too")


def enter(options):
    print(f"seed {options.seed}", flush=True)


class Count:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        self.faults = {}
        self.acked = 0

    def good(self, name, verdict, faults, seconds):
        self.passed += 1
        words = ", ".join(f"{n} {fault}" for fault, n in sorted(faults.items()))
        for fault, n in faults.items():
            self.faults[fault] = self.faults.get(fault, 0) + n
        self.acked += verdict.acked if verdict else 0
        counts = f"; {verdict.counts()}" if verdict else ""
        print(f"ok       {name}: {words or 'fine'}{counts} ({seconds:.1f} s)", flush=True)


def run_one(count, name, function, seed):
    """A function that returns None or (verdict, faults), or yields (name, verdict, faults)."""
    began = time.monotonic()
    try:
        if inspect.isgeneratorfunction(function):
            for part, verdict, faults in function():
                count.good(part, verdict, faults, time.monotonic() - began)
                began = time.monotonic()
            return
        verdict, faults = function() or (None, {})
        count.good(name, verdict, faults, time.monotonic() - began)
    except chaos.Skip as why:
        count.skipped += 1
        print(f"skipped: {name}: {why}", flush=True)
    except chaos.Violation as why:
        count.failed += 1
        print(f"FAILED   {name}, seed {seed}:\n{why}", flush=True)
    except Exception:  # The rig itself: as bad as a violation, and told apart.
        count.failed += 1
        print(f"FAILED   {name}, seed {seed}: the rig itself", flush=True)
        traceback.print_exc(file=sys.stdout)


def run_all(options, rigs, prepare=None):
    """Run (name, function) after (name, function), and end the process."""
    count = Count()
    try:
        if prepare is not None:
            prepare()
    except chaos.Skip as why:
        print(f"skipped: {why}\n0 passed, 0 failed, {len(rigs)} skipped")
        sys.exit(SKIPPED)
    for name, function in rigs:
        run_one(count, name, function, options.seed)
    faults = ", ".join(f"{n} {fault}" for fault, n in sorted(count.faults.items()))
    print(f"faults: {faults or 'none'}; {count.acked} pushes acknowledged")
    print(f"{count.passed} passed, {count.failed} failed, {count.skipped} skipped", flush=True)
    if count.failed:
        sys.exit(1)
    sys.exit(0 if count.passed else SKIPPED)
