"""Training that shows by its weights how often each row was trained, with everything killed.

Row i has the single feature i and label 1; a linear model without bias, plain SGD, one row a step.
A row that was trained n times at rate r has the weight 1 - (1 - r)^n, so a lost row is 0 and one
trained twice is not r. Workers, servers and the coordinator are killed at every failpoint of theirs
and at random moments, and started again; in the end every weight is exactly r.
"""

import argparse
import collections
import functools
import json
import os
import signal
import time

import chaos_main
import cluster as chaos
import kill

N_ROWS = int(os.environ.get("PS_TEST_KILLS_ROWS", "1000"))
RATE = 0.5
N_WORKERS = 2
# Met where pulls wait for the slowest.
OF_GATE = ("gate.before_wait", "gate.wake")
# Of ps-worker: the moments between a push and its tick.
WORKER_PLACES = ("between-acks", "acked", "ticked", "unticked", "unticked-twice")


class Job:
    """Workers on a cluster; those that were killed are followed by others."""

    def __init__(self, cluster, n_rows=N_ROWS, flags=()):
        self.cluster = cluster
        self.flags = flags
        self.n_rows = n_rows
        self.workers = []
        self.n_started = 0
        self.data = os.path.join(cluster.folder, "rows.libsvm")
        with open(self.data, "w", encoding="ascii") as f:
            f.write("".join(f"1 {i}:1\n" for i in range(1, n_rows + 1)))

    def start_worker(self, *more):
        name = f"worker-{self.n_started}"
        self.n_started += 1
        args = [chaos.WORKER, "--coordinator", self.cluster.address, "--name", name, "--workers",
                N_WORKERS, "--data", self.data, "--model", "linear", "--no-bias", "--optimizer",
                "sgd", "--seed", 1, "--batch", 1, "--lr", RATE, "--epochs", 1, *self.flags, *more]
        worker = chaos.Process(name, self.cluster.folder, args)
        self.cluster.ledgers.append(worker)  # To be ended with the cluster.
        self.workers.append(worker)
        return worker

    def look(self):
        """Follow those that were killed. Whether all that are left have ended well."""
        for worker in [w for w in self.workers if w.status() is not None]:
            if worker.status() == -signal.SIGKILL:
                self.workers.remove(worker)
                self.start_worker()
            elif worker.status() != 0:
                raise chaos.Violation(f"{worker.name} ended with {worker.status()}:\n"
                                      + worker.text())
        return all(worker.status() == 0 for worker in self.workers)

    def wait(self):
        def done():
            self.cluster.check_alive()
            return self.look()

        chaos.wait_until("the job is done", done, 2 * chaos.PATIENCE_S)

    def check(self):
        """Every weight is that of one training."""
        status, stdout, stderr = self.cluster.ctl("status", "--json", "--timeout", "30s")
        if status != 0:
            raise chaos.Violation(f"psctl status: {stderr}")
        job = json.loads(stdout)
        if (job["rows_trained_min"], job["rows_trained_max"]) != (1, 1) or job["job"] != "done":
            raise chaos.Violation(f"rows were trained {job['rows_trained_min']} to "
                                  f"{job['rows_trained_max']} times, the job is {job['job']}")
        args = [chaos.PEEK, "--coordinator", self.cluster.address, "--table", "linear.weight",
                "--keys", self.n_rows]
        peek = chaos.Process("peek", self.cluster.folder, args)
        if peek.wait() != 0:
            raise chaos.Violation(peek.text())
        with open(peek.out, encoding="ascii") as f:
            found = collections.Counter(float(line.split()[1]) for line in f)
        if found != {RATE: self.n_rows}:
            raise chaos.Violation(f"weights and how many have them: {dict(found)}")


def start(cluster, victim=None, failpoint=()):
    """The victim may come by its failpoint before it is ready; then it is started once more."""
    for server in cluster.servers:
        server.start(*(failpoint if server is victim else ()))
    for server in cluster.servers:
        if server is not victim:
            server.wait_ready()
    if victim is not None:
        chaos.wait_until("the victim is ready or has ended",
                         lambda: victim.process.status() is not None
                         or victim.process.said("ready address="))
        if victim.process.status() is not None:
            met(cluster, victim)
        victim.wait_ready()


def met(cluster, victim):
    """It has ended at its failpoint."""
    status = victim.gone()
    if status != -signal.SIGKILL:
        raise chaos.Violation(f"server {victim.index} ended with {status} at its failpoint")
    cluster.faults["failpoint"] += 1
    victim.start()


def at_server(seed, place, durability="log", keep=False):
    """A server is killed at its failpoint in the middle of the job."""
    chaos.needs("durability", "failpoint")
    rng = chaos.rng_of(seed, "probe", place)
    durability = "fsync" if place in kill.OF_SYNC else durability
    flags = ["--durability", durability, "--log-bytes", "1MiB", "--snapshot-every", "1s"]
    with chaos.Cluster(2, flags, keep=keep) as cluster:
        victim = cluster.servers[0 if place in kill.OF_COORDINATOR else rng.randrange(2)]
        number = 1 if place in kill.AT_START + kill.SELDOM else rng.choice([1, 3, 20, 100])
        if place.startswith("store."):
            number = rng.choice([1, 2, 3, 4])  # It is written for few things.
        failpoint = ("--failpoint", place, "--failpoint-at", number)
        if place in kill.AT_START:
            start(cluster)
        else:
            start(cluster, victim, failpoint)
        job = Job(cluster, flags=("--consistency", "bsp") if place in OF_GATE else ())
        for _ in range(N_WORKERS):
            job.start_worker()
        if place in kill.AT_START:
            time.sleep(0.3)
            victim.kill()
            victim.start(*failpoint)
        while victim.process.status() is None and not job.look():
            if place in kill.OF_SNAPSHOTS:
                cluster.ctl("snapshot", "--timeout", "5s")
            time.sleep(0.01)
        if victim.process.status() is not None:
            met(cluster, victim)
        return finish(cluster, job, 0 if place in kill.SELDOM else 1)


def at_worker(seed, place, durability="log", keep=False, flags=()):
    """A worker is killed at its failpoint, and a server a little later."""
    chaos.needs("durability")
    chaos.needs("failpoint", program=chaos.WORKER)
    rng = chaos.rng_of(seed, "probe", place)
    with chaos.Cluster(2, ["--durability", durability, *flags], keep=keep) as cluster:
        start(cluster)
        job = Job(cluster)
        # With a batch of one row a push goes to one server.
        job.start_worker("--failpoint", f"kill-{place}", "--failpoint-at", rng.choice([1, 2, 20]))
        job.start_worker()
        victim = rng.choice(cluster.servers)
        time.sleep(chaos.some(rng, 0.1, 0.6))
        victim.kill()
        cluster.faults["kill"] += 1
        victim.start()
        return finish(cluster, job, 1)


def at_random(seed, n_kills=8, durability="log", keep=False):
    """Servers, coordinator and workers, one after the other and together."""
    chaos.needs("durability")
    rng = chaos.rng_of(seed, "probe")
    flags = kill.flags_of(rng, durability)
    with chaos.Cluster(rng.choice([1, 2, 3]), flags, keep=keep) as cluster:
        start(cluster)
        job = Job(cluster)
        for _ in range(N_WORKERS):
            job.start_worker()
        for _ in range(n_kills):
            time.sleep(chaos.some(rng, 0.02, 0.4))
            if job.look():
                break
            if rng.random() < 0.3:
                rng.choice(job.workers).kill()
                cluster.faults["worker"] += 1
                continue
            server = rng.choice(cluster.servers)
            server.kill()
            cluster.faults["kill"] += 1
            server.start()
            if rng.random() < 0.5:
                server.wait_ready()
        return finish(cluster, job, 1)


def finish(cluster, job, least_faults):
    for server in cluster.servers:
        server.wait_ready()
    job.wait()
    job.check()
    if sum(cluster.faults.values()) < least_faults:
        raise chaos.Violation("the job was over before anything happened: this shows nothing")
    return None, cluster.faults


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    chaos_main.add_flags(parser)
    parser.add_argument("--durability", default="log")
    parser.add_argument("--random", type=int, default=3, help="runs with kills at random moments")
    parser.add_argument("--failpoints", default="all", help="names joined by commas; none")
    options = parser.parse_args()
    chaos_main.enter(options)
    more = {"durability": options.durability, "keep": options.keep}
    rigs = [(f"probe, killed at random {i + 1}",
             functools.partial(at_random, options.seed + i, **more))
            for i in range(options.random)]
    chosen = options.failpoints.split(",")
    for place in (*kill.FAILPOINTS, *OF_GATE):
        if place in chosen or chosen == ["all"]:
            rigs.append((f"probe, server at {place}",
                         functools.partial(at_server, options.seed, place, **more)))
    for place in WORKER_PLACES:
        if place in chosen or chosen == ["all"]:
            rigs.append((f"probe, worker at {place}",
                         functools.partial(at_worker, options.seed, place, **more)))
    chaos_main.run_all(options, rigs)


if __name__ == "__main__":
    main()
