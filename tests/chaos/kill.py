"""Real processes, killed, stopped, ended and started again under pushes: nothing acknowledged is
lost, nothing is there twice, and it goes on afterwards.

  kill      kill -9 of one server, several, or the coordinator (server 0), at a random moment
  pause     SIGSTOP for less and for more than the time after which a server counts as silent
  term      SIGTERM: it ends with 0, what it had is there again
  client    kill -9 of the process that pushes; another one comes
  failpoint a server kills itself at a named place of its code (builds with -Dplant=true)
"""

import argparse
import functools
import signal
import time

import chaos_main
import cluster as chaos

FAILPOINTS = (
    "log.before_write", "log.after_write", "log.before_sync", "log.after_sync", "log.rotate",
    "log.before_trim", "apply.before", "apply.mid", "apply.after", "ack.before_send", "cut.taken",
    "snap.after_data", "snap.before_manifest", "snap.before_rename", "snap.after_rename",
    "job.before_manifest", "job.after_manifest", "recover.mid_replay", "epoch.before_log",
    "epoch.after_log", "store.before_write", "store.after_write", "session.close",
)
# Only the coordinator comes by these.
OF_COORDINATOR = ("job.before_manifest", "job.after_manifest", "store.before_write",
                  "store.after_write")
# Met while a server starts, so it is killed first.
AT_START = ("recover.mid_replay", "epoch.before_log", "epoch.after_log")
# Met only when snapshots are taken.
OF_SNAPSHOTS = ("cut.taken", "log.before_trim", "snap.after_data", "snap.before_manifest",
                "snap.before_rename", "snap.after_rename", "job.before_manifest",
                "job.after_manifest")
# Only where acknowledgements wait for the disk.
OF_SYNC = ("log.before_sync", "log.after_sync")
# A short job may be over before they are met.
SELDOM = (*OF_SNAPSHOTS, "log.rotate", "session.close", "apply.mid")

ACTIONS = (("kill", 6), ("kill_all", 1), ("pause", 2), ("long_pause", 1), ("term", 2),
           ("client", 2))


CYCLES = 10  # Kills of one cluster.
FIRES_WITHIN_S = 30 * chaos.SLOW


class Nemesis:
    """Draws faults and lets them happen to a cluster."""

    def __init__(self, cluster, rng):
        self.cluster = cluster
        self.rng = rng

    def victim(self):
        return self.rng.choice(self.cluster.servers)

    def settle(self, n=20):
        """Everybody is there and pushes are acknowledged again."""
        for server in self.cluster.servers:
            if server.process is None:
                server.start()
        for server in self.cluster.servers:
            server.wait_ready()
        self.cluster.wait_acked(n)

    def kill(self):
        self.kill_some([self.victim()])

    def kill_all(self):
        self.kill_some(self.cluster.servers)

    def kill_some(self, servers):
        for server in servers:
            server.process.send(signal.SIGKILL)
        for server in servers:
            server.kill()
            self.cluster.faults["kill"] += 1
            if self.rng.random() < 0.3:
                server.move()
        if self.rng.random() < 0.5:
            time.sleep(chaos.some(self.rng, 0.01, 1.0))
        for server in self.rng.sample(servers, len(servers)):
            server.start()

    def pause_for(self, seconds):
        server = self.victim()
        server.process.send(signal.SIGSTOP)
        time.sleep(seconds)
        server.process.send(signal.SIGCONT)
        self.cluster.faults["pause"] += 1

    def pause(self):
        self.pause_for(chaos.some(self.rng, 0.05, 1.0))

    def long_pause(self):
        self.pause_for(chaos.SILENCE_S * (1.2 + self.rng.random()))

    def term(self):
        server = self.victim()
        server.process.send(signal.SIGTERM)
        status = server.process.wait()
        if status != 0:
            raise chaos.Violation(f"{server.process.name} ended with {status} on SIGTERM:\n"
                                  + server.process.text())
        server.gone()
        self.cluster.faults["term"] += 1
        server.start()

    def client(self):
        ledger = self.rng.choice([p for p in self.cluster.ledgers if p.status() is None])
        ledger.kill()
        self.cluster.faults["client"] += 1
        self.cluster.push()

    def step(self, only=None):
        names = [name for name, _ in ACTIONS if only is None or name in only]
        weights = [weight for name, weight in ACTIONS if name in names]
        getattr(self, self.rng.choices(names, weights)[0])()

    def snapshot(self):
        """Ask for one; what it says counts only where nobody is killed meanwhile."""
        self.cluster.ctl("snapshot", "--timeout", "30s")


def flags_of(rng, durability):
    flags = ["--durability", durability]
    if rng.random() < 0.5:
        flags += ["--log-bytes", rng.choice(["1MiB", "4MiB"])]
    if rng.random() < 0.5:
        flags += ["--snapshot-every", rng.choice(["1s", "3s"])]
    return flags


def cycles(seed, n_kills, durability="log", only=None, n_servers=None, flags=None, keep=False):
    """Faults one after the other until so many servers were killed."""
    chaos.needs("durability")
    rng = chaos.rng_of(seed, "cycles")
    n_servers = n_servers or rng.choice([1, 2, 2, 3])
    flags = flags if flags is not None else flags_of(rng, durability)
    with chaos.Cluster(n_servers, flags, keep=keep) as cluster:
        cluster.start()
        nemesis = Nemesis(cluster, rng)
        cluster.push()
        cluster.push(clients=1, depth=1)
        cluster.wait_acked(50)
        while cluster.faults["kill"] < n_kills:
            time.sleep(chaos.some(rng, 0.02, 0.5))
            nemesis.step(only)
            nemesis.settle()
        verdict = cluster.judge(least_acked=20 * n_kills, least_faults=n_kills)
        return verdict, cluster.faults


def at_failpoint(seed, place, durability="log", keep=False, at=None):
    """One server kills itself there. Whether it came by: else the run shows nothing."""
    chaos.needs("durability", "failpoint")
    rng = chaos.rng_of(seed, place)
    durability = "fsync" if place in OF_SYNC else durability
    flags = ["--durability", durability, "--log-bytes", "1MiB", "--snapshot-every", "1s"]
    with chaos.Cluster(2, flags, keep=keep) as cluster:
        cluster.start()
        nemesis = Nemesis(cluster, rng)
        victim = cluster.servers[0 if place in OF_COORDINATOR else rng.randrange(2)]
        cluster.push()
        cluster.push(clients=1, depth=1)
        cluster.wait_acked(100)
        victim.kill()
        if place == "session.close":
            cluster.ledgers[-1].send(signal.SIGTERM)
        number = at or (1 if place in AT_START else rng.choice([1, 1, 2, 5]))
        victim.start("--failpoint", place, "--failpoint-at", number)

        def gone():
            if victim.process.status() is None and rng.random() < 0.05:
                cluster.ctl("snapshot", "--timeout", "5s")
            return victim.process.status() is not None

        chaos.wait_until(f"server {victim.index} comes by {place}", gone, FIRES_WITHIN_S)
        status = victim.gone()
        if status != -signal.SIGKILL:
            raise chaos.Violation(f"server {victim.index} ended with {status} at {place}")
        cluster.faults["failpoint"] += 1
        victim.start()
        nemesis.settle(100)
        return cluster.judge(), cluster.faults


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    chaos_main.add_flags(parser)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--durability", default="log")
    parser.add_argument("--only", help="of kill, kill_all, pause, long_pause, term, client")
    parser.add_argument("--failpoints", default="all", help="names joined by commas; none")
    options = parser.parse_args()
    chaos_main.enter(options)
    only = options.only.split(",") if options.only else None

    def rig_of_cycles():
        for first in range(0, options.kills, CYCLES):
            n = min(CYCLES, options.kills - first)
            verdict, faults = cycles(options.seed + first, n, options.durability, only,
                                     keep=options.keep)
            yield f"kills {first + 1} to {first + n}", verdict, faults

    places = {"all": FAILPOINTS, "none": ()}.get(options.failpoints,
                                                 options.failpoints.split(","))
    rigs = [("kills", rig_of_cycles)] if options.kills > 0 else []
    for place in places:
        rigs.append((place, functools.partial(at_failpoint, options.seed, place,
                                              options.durability, options.keep)))
    chaos_main.run_all(options, rigs)


if __name__ == "__main__":
    main()
