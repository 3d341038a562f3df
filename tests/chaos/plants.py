#!/usr/bin/env python3
"""tests/chaos/plants.py --build FOLDER: which planted bug is found by what, and within how many
seeds from three base seeds; prints the table of tests/README.md. One build has all of the bugs
(-Dplant=true): rigs of processes (planted.py), unit tests, the simulator.

  --units        only the unit tests that are to fail when their code has the bug
  --sim-seeds N  how far the simulator looks; what it does not find in so many is "-"
"""

import argparse
import collections
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BASES = (1, 1001, 2001)

# A unit test that fails when it is told to run with the bug, and only then.
Fails = collections.namedtuple("Fails", "program suite test")
# A unit test that plants the bug itself and says how many plays it took, from one base or more.
Plays = collections.namedtuple("Plays", "program suite test pattern")
# One that plants the bug itself; no chance is in it.
Plants = collections.namedtuple("Plants", "program suite test")

SVC, LOG, SNAP = "unit/svc/test_svc", "unit/log/test_log", "unit/snap/test_snap"
CORE, COORD, CLIENT = ("unit/coord/test_coord_core", "unit/coord/test_coord",
                       "unit/client/test_client")
CRASH = (LOG, "crash", "planted_bugs_are_found")
DAMAGE = (SNAP, "damage", "planted_bugs_are_found")
LIFE = (CORE, "life_random", "a_planted_bug_is_found")

UNITS = {
    "ack-before-sync": Plays(*CRASH, r"ack-before-sync: base seed \d: play (\d+)"),
    "repeat-before-durable": Fails(SVC, "late", "a_repeat_joins_its_first_copy_and_is_no_quicker"),
    "dedupe-off": Fails(SVC, "data_push",
                        "a_push_is_applied_once_and_its_repeats_are_acknowledged"),
    "dedupe-without-stream": Fails(SVC, "data_push", "streams_and_sessions_count_apart"),
    "sessions-not-in-cut": Fails(SVC, "restore",
                                 "a_way_back_keeps_what_leases_have_done_and_no_session"),
    "sessions-not-replayed": Fails(SVC, "restore",
                                   "a_log_gives_the_same_state_on_any_number_of_lanes"),
    "new-sequence": Plants(CLIENT, "returns",
                           "a_planted_repeat_under_another_sequence_is_applied_again"),
    "half-applied": Fails(SVC, "rows", "a_slot_without_memory_for_one_table_takes_nothing_for_any"),
    "reorder-equal-lsn": Plays(*CRASH, r"reorder-equal-lsn: base seed \d: play (\d+)"),
    "middle-truncated": Plays(*CRASH, r"middle-truncated: base seed \d: play (\d+)"),
    "dir-not-synced": Plays(*CRASH, r"dir-not-synced: base seed \d: play (\d+)"),
    "rename-before-sync": Plays(*DAMAGE, r"rename-before-sync found after (\d+)"),
    "log-trimmed-early": None,
    "stream-forgotten": None,
    "fence-at-applied": Fails(SVC, "late", "a_close_fences_from_the_moment_it_is_proposed"),
    "progress-after-cut": Plays(*LIFE, r"lease-progress-after-cut' was found by seed number (\d+)"),
    "takeover-clocks": Plays(*LIFE, r"first trace' was found by seed number (\d+)"),
    "takeover-lends": Plays(*LIFE, r"second trace' was found by seed number (\d+)"),
    "restore-two-writes": Plants(COORD, "life", "a_planted_second_write_is_found"),
    "epoch-kept": Plays(*LIFE, r"epoch-kept' was found by seed number (\d+)"),
    "gate-off-by-one": Fails(SVC, "data_pull",
                             "parked_pulls_are_answered_when_the_slowest_comes"),
    "dead-in-minimum": Plants(CORE, "coord_core",
                              "the_planted_bug_keeps_the_dead_in_the_minimum_for_ever"),
}
NOT_SIMULATED = ("half-applied", "new-sequence")


class Runner:
    """Runs a suite once for each environment."""

    def __init__(self, build):
        self.build = build
        self.done = {}

    def run(self, program, **env):
        key = (program, *sorted(env.items()))
        if key not in self.done:
            path = os.path.join(self.build, "tests", program)
            if not os.path.exists(path):
                sys.exit(f"plants.py: {path} is not there; build it first")
            done = subprocess.run([path], env={**os.environ, **env}, stdin=subprocess.DEVNULL,
                                  capture_output=True, text=True, check=False)
            self.done[key] = done.returncode, done.stdout
        return self.done[key]

    def clean(self, program, suite, **env):
        """The output of a suite that passes."""
        status, text = self.run(program, CK_RUN_SUITE=suite, **env)
        if status != 0:
            raise LookupError(f"{program}, suite {suite}, ended with {status}:\n{text}")
        return text

    def unit(self, bug):
        """Plays that it took, as text; raises LookupError when it is not found."""
        how = UNITS[bug]
        if isinstance(how, Plants):
            self.clean(how.program, how.suite)
            return "always"
        if isinstance(how, Fails):
            self.clean(how.program, how.suite)
            status, text = self.run(how.program, CK_RUN_SUITE=how.suite, PS_TEST_BUG=bug)
            if status == 0 or f":{how.test}:" not in text:
                raise LookupError(f"{how.program} does not find {bug} by {how.test}:\n{text}")
            return "always"
        plays = []
        for base in BASES:
            plays += re.findall(how.pattern, self.clean(how.program, how.suite,
                                                        PS_TEST_SEED=str(base)))
        if len(plays) < len(BASES):
            raise LookupError(f"{how.program} does not tell how it found {bug}")
        return " ".join(plays[:len(BASES)])

    def simulated(self, bug, n_max):
        if bug in NOT_SIMULATED:
            return ""
        seeds = []
        for base in BASES:
            _, text = self.run("sim/test_sim", CK_RUN_CASE="plants", PS_TEST_SEED=str(base),
                               PS_SIM_PLANTS=bug, PS_SIM_PLANT_SEEDS=str(n_max))
            found = re.search(rf"^{bug} +(-?\d+)$", text, re.M)
            if found is None:
                raise LookupError(f"the simulator does not know {bug}: build with -Dplant=true")
            seeds.append("-" if found[1] == "-1" else found[1])
        return " ".join(seeds)


def processes(build):
    """{bug: (rig, seeds)}, by planted.py."""
    programs = {"SERVER": "server/ps-server", "WORKER": "worker/ps-worker", "CTL": "tools/psctl",
                "LEDGER": "tests/load/ps-ledger", "PEEK": "tests/load/ps-peek"}
    env = {f"PS_BIN_{name}": os.path.join(build, path) for name, path in programs.items()}
    done = subprocess.run([sys.executable, os.path.join(HERE, "planted.py")],
                          env={**os.environ, **env}, stdin=subprocess.DEVNULL, text=True,
                          capture_output=True, check=False)
    if done.returncode != 0:
        raise LookupError(done.stdout)
    rows = re.findall(r"^\| `([a-z-]+)` \| `([a-z.]+)` \| ([\d ]+) \|", done.stdout, re.M)
    return {bug: (rig, seeds) for bug, rig, seeds in rows}


def units_only(runner):
    failed = 0
    chosen = [bug for bug, how in UNITS.items() if isinstance(how, Fails)]
    for bug in chosen:
        try:
            runner.unit(bug)
            print(f"ok       {bug}: found by {UNITS[bug].test}", flush=True)
        except LookupError as why:
            failed += 1
            print(f"FAILED   {bug}: {why}", flush=True)
    print(f"{len(chosen) - failed} passed, {failed} failed, 0 skipped")
    sys.exit(failed != 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--units", action="store_true")
    parser.add_argument("--sim-seeds", type=int, default=1000)
    options = parser.parse_args()
    runner = Runner(os.path.abspath(options.build))
    if options.units:
        units_only(runner)
    rigs = processes(runner.build)
    print("| planted bug | processes | seeds | unit test | plays | simulator |\n"
          "|---|---|---|---|---|---|", flush=True)
    for bug, how in UNITS.items():
        rig, seeds = rigs.get(bug, ("", ""))
        test = f"`{os.path.basename(how.program)}`: `{how.test}`" if how else ""
        print(f"| `{bug}` | {rig and f'`{rig}`'} | {seeds} | {test} | "
              f"{runner.unit(bug) if how else ''} | {runner.simulated(bug, options.sim_seeds)} |",
              flush=True)


if __name__ == "__main__":
    main()
