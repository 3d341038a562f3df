"""Servers with planted bugs: the rig that is meant for each has to find it. Prints how many seeds
it took for each of three base seeds; the clean build has to survive ten times as many.
"""

import argparse
import contextlib
import functools
import io
import shutil

import chaos_main
import cluster as chaos
import disks
import kill
import powercut
import probe
import snapshots

BASES = (1000, 2000, 3000)
SEEDS_MAX = 10


def power(seed, plant):
    powercut.cuts(seed, 3, flags=("--plant", plant) if plant else ())


def kills(seed, plant, only=("kill", "pause", "client"), flags=()):
    more = ["--plant", plant] if plant else []
    kill.cycles(seed, 4, only=only, n_servers=2,
                flags=["--durability", "log", *flags, *more])


def workers(seed, plant):
    """A worker dies between a push and its report: the push comes again from another one."""
    probe.at_worker(seed, "unticked", flags=("--plant", plant) if plant else ())


def logs(seed, plant):
    """The newest snapshot has rotted: the one before needs the log from there on."""
    snapshots.older(seed, flags=("--plant", plant) if plant else ())


# Planted bug -> (rig, function). What processes cannot show is found by others: plants.py.
BUGS = {
    "ack-before-sync": ("powercut", power),
    "dedupe-off": ("probe", workers),
    "sessions-not-replayed": ("kill", kills),
    "log-trimmed-early": ("snapshots", logs),
}


def found_after(function, plant, base, n_max):
    """Seeds that it took, or None; what was found."""
    for n in range(1, n_max + 1):
        with contextlib.redirect_stdout(io.StringIO()) as said:
            try:
                function(base + n - 1, plant)
            except chaos.Violation as why:
                for line in said.getvalue().splitlines():
                    if line.startswith(chaos.KEPT):
                        shutil.rmtree(line.removeprefix(chaos.KEPT), ignore_errors=True)
                return n, str(why).splitlines()[0]
    return None, ""


def look_for(plant, bases, n_max):
    rig, function = BUGS[plant]
    counts = []
    for base in bases:
        n, why = found_after(function, plant, base, n_max)
        if n is None:
            raise chaos.Violation(f"{rig} has not found {plant} within {n_max} seeds from {base}")
        counts.append(str(n))
    print(f"| `{plant}` | `{rig}.py` | {' '.join(counts)} | {why[:100]}", flush=True)
    return None, {"found": len(bases)}


def survive(plant, n):
    """The clean build, by the same rig."""
    rig, function = BUGS[plant]
    for i in range(n):
        function(BASES[0] + i, None)
    return None, {f"clean seeds of {rig}": n}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    chaos_main.add_flags(parser)
    parser.add_argument("--only", help="planted bugs, joined by commas")
    parser.add_argument("--clean", type=int, default=0, help="seeds of the clean build, too")
    options = parser.parse_args()
    chaos_main.enter(options)
    chosen = options.only.split(",") if options.only else list(BUGS)
    bases = [options.seed - 1 + base for base in BASES]
    rigs = [(plant, functools.partial(look_for, plant, bases, SEEDS_MAX)) for plant in chosen]
    if options.clean:
        rigs += [(f"clean, as for {plant}", functools.partial(survive, plant, options.clean))
                 for plant in chosen]
    chaos_main.run_all(options, rigs, disks.enter if "ack-before-sync" in chosen else None)


if __name__ == "__main__":
    main()
