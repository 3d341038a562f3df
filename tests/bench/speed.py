#!/usr/bin/env python3
"""Rows per second of the main job, several ways in one run: min, median and max of three.

    tests/bench/speed.py [BIN]      BIN: folder of the programs, build/bin when it is not given
"""

import json
import subprocess
import sys

JOB = ("--data", "fashion-mnist", "--json", "--model", "mlp", "--hidden", "128", "--epochs", "5",
       "--seed", "1")
WAYS = (
    ("one process, no cluster", "--in-process"),
    ("1 server, 1 worker, bsp", "--servers 1 --workers 1 --consistency bsp"),
    ("1 server, 1 worker, asp, prefetch",
     "--servers 1 --workers 1 --consistency asp --prefetch 1"),
    ("2 servers, 4 workers, ssp:4", "--servers 2 --workers 4 --staleness 4"),
    ("the same, prefetch", "--servers 2 --workers 4 --staleness 4 --prefetch 1"),
    ("2 servers, 4 workers, asp", "--servers 2 --workers 4 --consistency asp"),
    ("2 servers, 4 workers, bsp", "--servers 2 --workers 4 --consistency bsp"),
    ("2 servers, 4 workers, aggregated, batch 400",
     "--servers 2 --workers 4 --aggregate --batch 400"),
)


def report(folder, flags):
    done = subprocess.run([f"{folder}/ps-run", *JOB, *flags.split()], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True, check=True)
    return json.loads(done.stdout.strip().splitlines()[-1])


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else "build/bin"
    print("| | rows/s: min | median | max | of one process | accuracy | blocked |")
    print("|---|---|---|---|---|---|---|")
    alone = None
    for name, flags in WAYS:
        reports = sorted((report(folder, flags) for _ in range(3)),
                         key=lambda r: r["examples_per_s"])
        low, middle, high = (r["examples_per_s"] for r in reports)
        alone = alone or middle
        print(f"| {name} | {low:,.0f} | {middle:,.0f} | {high:,.0f} | {middle / alone:.2f} "
              f"| {reports[1]['test_accuracy']:.3f} | {reports[1]['blocked_fraction']:.2f} |",
              flush=True)


if __name__ == "__main__":
    main()
