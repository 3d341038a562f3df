"""Power cuts: the disk as it was at a random instant under pushes is mounted elsewhere, servers are
started on it, and everything that had been acknowledged before that instant is there exactly once.

In half of the runs the disk is slow: more is written and not synced when the power goes.

Needs root, loop devices, mkfs.xfs (xfsprogs) and strace; see disks.PowerCut.
"""

import argparse
import os
import time

import chaos_main
import cluster as chaos
import disks
import history

SLOW_SYNC_MS = 40


def self_test(inner):
    """The rig itself: bytes that were synced are behind the cut, bytes that were not are gone."""
    with disks.PowerCut(inner) as power:
        for name, synced in (("synced", True), ("unsynced", False)):
            with open(f"{power.disk}/{name}", "wb") as f:
                f.write(b"x" * 100_000)
                f.flush()
                if synced:
                    os.fsync(f.fileno())
        with power.cut() as (folder, _, _):
            if os.path.getsize(f"{folder}/synced") != 100_000:
                raise chaos.Violation("what was synced is not behind the cut")
            with open(f"{folder}/synced", "rb") as f:
                if f.read() != b"x" * 100_000:
                    raise chaos.Violation("what was synced has changed")
            path = f"{folder}/unsynced"
            if os.path.exists(path) and os.path.getsize(path) != 0:
                raise chaos.Violation("what was not synced is there: nothing can be found so")


def histories_until(paths, t1, folder):
    """Copies without what came after the cut: it has never been."""
    copies = []
    for path in paths:
        copy = os.path.join(folder, os.path.basename(path))
        with open(path, encoding="ascii") as source, open(copy, "w", encoding="ascii") as to:
            for line in source:
                if int(line[len('{"t":'):line.index(",")]) > t1 or not line.endswith("\n"):
                    break
                to.write(line)
        copies.append(copy)
    return copies


def check_cut(power, cluster, flags, keep):
    """Start the cluster from the cut, push a little more, and look."""
    with power.cut() as (folder, t0, t1):
        with chaos.Cluster(cluster.n_servers, flags, data=f"{folder}/data", keep=keep) as second:
            second.histories = histories_until(cluster.histories, t1, second.folder)
            # Acknowledged between t0 and t1, it may be behind the cut or not.
            second.ways_back = [history.WayBack(history.Cut(t0, t1), t1 + 1, t1 + 1)]
            second.n_clients = 1000 + cluster.n_clients
            second.start()
            second.faults["cut"] += 1
            second.push(clients=1)
            second.wait_acked(20)
            return second.judge()


def cuts(seed, n, durability="fsync", inner="ext4", keep=False, flags=()):
    """So many cuts of one cluster. (verdict of the last one, faults)"""
    chaos.needs("durability", "die-with-parent")
    rng = chaos.rng_of(seed, "power")
    flags = ["--durability", durability, *flags]
    slow = disks.slow_syncs(rng.choice([0, SLOW_SYNC_MS]))
    with disks.PowerCut(inner) as power:
        os.makedirs(f"{power.disk}/data")
        os.sync()
        with chaos.Cluster(rng.choice([1, 2]), flags, data=f"{power.disk}/data",
                           keep=keep) as cluster:
            cluster.start("--die-with-parent", under=slow)
            cluster.push(interval="2ms")
            cluster.push(clients=1, depth=1, interval="2ms")
            cluster.wait_acked(100)
            for _ in range(n):
                time.sleep(chaos.some(rng, 0.02, 0.5))
                verdict = check_cut(power, cluster, flags, keep)
                cluster.faults["cut"] += 1
                cluster.wait_acked(20)
            cluster.judge()
            return verdict, cluster.faults


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    chaos_main.add_flags(parser)
    parser.add_argument("--cuts", type=int, default=20)
    parser.add_argument("--inner", default="ext4", help="file system of the servers' folders")
    parser.add_argument("--durability", default="fsync")
    parser.add_argument("--plant", help="servers have this bug")
    options = parser.parse_args()
    chaos_main.enter(options)
    disks_flags = ["--plant", options.plant] if options.plant else []

    def rig_of_cuts():
        # A history grows with time, and is read for every cut.
        for first in range(0, options.cuts, 5):
            n = min(5, options.cuts - first)
            verdict, faults = cuts(options.seed + first, n, options.durability, options.inner,
                                   options.keep, disks_flags)
            yield f"power cuts {first + 1} to {first + n}", verdict, faults

    chaos_main.run_all(options, [("self test", lambda: self_test(options.inner)),
                                 ("cuts", rig_of_cuts)], disks.enter)


if __name__ == "__main__":
    main()
