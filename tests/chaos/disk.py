"""Disks that fill up and disks that fail, under pushes.

  full   servers on a tmpfs of limited size: pushes are refused, pulls are answered, nobody ends,
         and when space returns it goes on (needs root)
  error  the nth write or sync of a server's log fails with EIO (strace -e inject): the server ends
         with 74 and acknowledges nothing after that; started again, it has all it acknowledged
  nospc  the nth write fails with ENOSPC a few times: nobody ends, it goes on
"""

import argparse
import functools
import os
import signal
import time

import chaos_main
import cluster as chaos
import disks

MIB = 1 << 20
N_SIZES = 64
LEAST = 2 * MIB
EXIT_DISK = 74
STALLED_S = 2 * chaos.SLOW
# A fault that a run does not come by in so long is not fired, and the run shows nothing.
FIRES_WITHIN_S = 60 * chaos.SLOW


def size_of(i):
    """64 sizes, from hardly anything to some segments of a log; small ones lie close together."""
    return LEAST + int((200 * MIB - LEAST) * (i / (N_SIZES - 1)) ** 2) + 4096 * (i % 7)


# ---- Full -----------------------------------------------------------------------------------


def wait_stalled(cluster):
    """No push is acknowledged any more, for some time."""
    acked, since = cluster.acked(), time.monotonic()
    end = time.monotonic() + chaos.PATIENCE_S
    while time.monotonic() - since < STALLED_S:
        cluster.check_alive()
        if cluster.acked() != acked:
            acked, since = cluster.acked(), time.monotonic()
        if time.monotonic() > end:
            raise chaos.Violation("the disk has not filled up")
        time.sleep(0.05)


def wait_reads(path, n):
    """So many reads are answered from now on."""
    def count():
        with open(path, "rb") as f:
            return f.read().count(b'"type":"ok","f":"read"')

    goal = count() + n
    chaos.wait_until(f"{n} pulls are answered", lambda: count() >= goal)


def full(seed, i, durability="log", keep=False):
    """One size. Space returns when a file that stood beside the log is taken away."""
    chaos.needs("durability")
    rng = chaos.rng_of(seed, "full", i)
    n_bytes = size_of(i)
    with disks.tmpfs(n_bytes + 192 * MIB) as disk:
        ballast = f"{disk}/ballast"
        with open(ballast, "wb") as f:
            os.posix_fallocate(f.fileno(), 0, 192 * MIB)
        flags = ["--durability", durability, "--log-bytes", "1GiB", "--snapshot-every", "0"]
        with chaos.Cluster(1, flags, data=f"{disk}/data", keep=keep) as cluster:
            if not start_or_refuse(cluster, ballast):
                return None, {"refused": 1}
            watch = cluster.push(clients=1, more=("--mode", "watch"))
            cluster.push(depth=8, more=("--bulk", rng.choice([1024, 16384])))
            wait_stalled(cluster)
            cluster.faults["full"] += 1
            wait_reads(cluster.histories[0], 5)
            if rng.random() < 0.3:  # What is full can be killed, too.
                cluster.servers[0].kill()
                cluster.faults["kill"] += 1
                os.unlink(ballast)
                cluster.servers[0].start()
                cluster.servers[0].wait_ready()
            else:
                os.unlink(ballast)
            cluster.wait_acked(50)
            if watch.status() is not None:
                raise chaos.Violation(f"the reader ended: {watch.text()}")
            return cluster.judge(least_acked=50), cluster.faults


def start_or_refuse(cluster, ballast):
    """Where not even the first file has room, the server ends with 74; with room it starts."""
    server = cluster.servers[0]
    server.start()
    chaos.wait_until("the server is ready or has ended",
                     lambda: server.process.status() is not None
                     or server.process.said("ready address="))
    if server.process.status() is None:
        return True
    if server.process.status() != EXIT_DISK:
        raise chaos.Violation(f"the server ended with {server.process.status()} on a full disk:\n"
                              + server.process.text())
    server.gone()
    os.unlink(ballast)
    server.start()
    server.wait_ready()
    return False


# ---- Errors ---------------------------------------------------------------------------------


def traced(cluster, victim, calls, error, when):
    """Start a server under strace, with a fault to come."""
    victim.start("--die-with-parent", under=disks.injected(calls, f"error={error}:when={when}"))
    cluster.push(clients=1, depth=2)


def error(seed, kind, n, durability="fsync", keep=False):
    """The nth write or sync fails once, for good: see above."""
    chaos.needs("durability", "die-with-parent")
    disks.can_trace()
    rng = chaos.rng_of(seed, kind, n)
    calls = disks.WRITES if kind == "write" else disks.SYNCS
    flags = ["--durability", durability, "--snapshot-every", "0"]
    with chaos.Cluster(2, flags, keep=keep) as cluster:
        victim = cluster.servers[rng.randrange(2)]
        for server in cluster.servers:
            if server is not victim:
                server.start()
        traced(cluster, victim, calls, "EIO", f"{n}")
        cluster.push()
        chaos.wait_until(f"{kind} {n} of server {victim.index} fails",
                         lambda: victim.process.status() is not None, FIRES_WITHIN_S)
        if victim.process.status() != EXIT_DISK:
            raise chaos.Violation(f"server {victim.index} ended with {victim.process.status()}, "
                                  f"not {EXIT_DISK}:\n{victim.process.text()}")
        cluster.faults[f"EIO of a {kind}"] += 1
        victim.gone()
        victim.start()
        for server in cluster.servers:
            server.wait_ready()
        cluster.wait_acked(50)
        return cluster.judge(least_acked=50), cluster.faults


def no_space(seed, n, durability="log", keep=False):
    """Some writes from the nth on find no space: refused, tried again, and nobody ends."""
    chaos.needs("durability", "die-with-parent")
    disks.can_trace()
    flags = ["--durability", durability, "--snapshot-every", "0"]
    with chaos.Cluster(1, flags, keep=keep) as cluster:
        victim = cluster.servers[0]
        traced(cluster, victim, disks.WRITES, "ENOSPC", f"{n}..{n + 4}")
        victim.wait_ready()
        cluster.push()
        cluster.wait_acked(200)
        cluster.faults["ENOSPC of a write"] += 1
        victim.process.send(signal.SIGTERM)
        return cluster.judge(), cluster.faults


# ---- All of it ------------------------------------------------------------------------------


def a_share(n, of, seed):
    """Every `of`-th number below n; which ones is turned by the seed."""
    return range(seed % of, n, of)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    chaos_main.add_flags(parser)
    parser.add_argument("--share", type=int, default=10, help="one in so many of all, by the seed")
    parser.add_argument("--errors", type=int, default=200, help="writes and syncs that fail")
    parser.add_argument("--only", help="full, error or nospc")
    options = parser.parse_args()
    chaos_main.enter(options)
    seed, keep = options.seed, options.keep
    rigs = []
    for i in a_share(N_SIZES, options.share, seed):
        rigs.append((f"full at {size_of(i)}", functools.partial(full, seed, i, keep=keep)))
    for i in a_share(options.errors, options.share, seed):
        for kind in ("write", "sync"):
            rigs.append((f"error of {kind} {i + 1}",
                         functools.partial(error, seed, kind, i + 1, keep=keep)))
    for i in a_share(options.errors // 5, options.share, seed):
        rigs.append((f"nospc at write {5 * i + 1}",
                     functools.partial(no_space, seed, 5 * i + 1, keep=keep)))
    if options.only:
        rigs = [rig for rig in rigs if rig[0].startswith(options.only)]
    chaos_main.run_all(options, rigs, disks.enter if any("full" in r[0] for r in rigs) else None)


if __name__ == "__main__":
    main()
