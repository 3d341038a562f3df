#!/usr/bin/env python3
"""Logistic regression on generated clicks, several ways in one run, as ratios to one process.

    tests/bench/sparse_speed.py [BIN] [ROUNDS] [ROWS]     build/bin, 5, 200000 unless given

The ways take turns, so that what else the machine does falls on all of them. Rows per second are
those of the median round; CPU is what the run and its children took, from start to end.
"""

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile

JOB = ("--model", "logreg", "--batch", "1000", "--epochs", "5", "--seed", "1", "--json")
ALONE = "--in-process"
PAIR = "--servers 1 --workers 1 --consistency ssp:4"
MANY = "--servers 2 --workers 4 --consistency ssp:4"
# (what, flags, which way it is compared with)
WAYS = (
    ("one process, 16 local steps", f"{ALONE} --local-steps 16", 0),
    ("1 server, 1 worker, 16 local steps", f"{PAIR} --local-steps 16", 0),
    ("2 servers, 4 workers, 16 local steps", f"{MANY} --local-steps 16", 0),
    ("one process", ALONE, 3),
    ("1 server, 1 worker", PAIR, 3),
    ("2 servers, 4 workers", MANY, 3),
)


def cpu_s():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def train(folder, data, flags):
    """(rows per second, CPU microseconds per row) of one run."""
    before = cpu_s()
    done = subprocess.run([f"{folder}/ps-run", "--data", data, *JOB, *flags.split()],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
    report = json.loads(done.stdout.strip().splitlines()[-1])
    rows = report["rows_train"] * report["epochs"]
    return report["examples_per_s"], (cpu_s() - before) * 1e6 / rows


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else "build/bin"
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    rows = sys.argv[3] if len(sys.argv) > 3 else "200000"
    with tempfile.TemporaryDirectory(prefix="ps-bench-") as scratch:
        data = f"{scratch}/clicks.tsv"
        subprocess.run([f"{folder}/ps-datagen", "clicks", "--rows", rows, "--seed", "1", "--out",
                        data], stderr=subprocess.DEVNULL, check=True)
        figures = [[] for _ in WAYS]
        print("load before: %.1f %.1f %.1f" % os.getloadavg(), f"on {os.cpu_count()} cores")
        for _ in range(rounds):
            for i, (_, flags, _) in enumerate(WAYS):
                figures[i].append(train(folder, data, flags))
        print("load after: %.1f %.1f %.1f" % os.getloadavg())
    speed = [statistics.median(rate for rate, _ in runs) for runs in figures]
    cost = [statistics.median(cpu for _, cpu in runs) for runs in figures]
    print("| | rows/s: min | median | max | of one process | CPU us a row | of one process |")
    print("|---|---|---|---|---|---|---|")
    for i, (name, _, to) in enumerate(WAYS):
        rates = [rate for rate, _ in figures[i]]
        print(f"| {name} | {min(rates):,.0f} | {speed[i]:,.0f} | {max(rates):,.0f} "
              f"| {speed[i] / speed[to]:.2f} | {cost[i]:.2f} | {cost[i] / cost[to]:.2f} |")


if __name__ == "__main__":
    main()
