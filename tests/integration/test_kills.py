"""Workers that are killed, or stopped for too long, at the worst moments: each unit counts once.

Row i of the data has the single feature i and label 1; a linear model without bias learns it with
plain SGD. A row that was trained n times, alone, at rate r has the weight 1 - (1 - r)^n, whatever
the order, the number of workers and the staleness: a lost row shows as 0, one trained twice as much
as it should.

The moments are the failpoints of ps-worker (client/failpoint.h), which test builds have:

  between-acks    one server has acknowledged the push, another one has not even got it
  acked           all have; the worker does not know
  ticked          the transport has just taken the report of the unit
  unticked        that report is not sent
  unticked-twice  nor is the next one: two units are in the servers that nobody has heard of

A unit of one such row goes to one server, so between-acks is met with larger units. A row that is
computed again when one server has its unit and another has not is computed from its own weight
alone, so there, too, each weight must be that of one training.
"""

import collections
import concurrent.futures
import gzip
import json
import os
import signal
import tempfile
import unittest

import lasting
import ps_test

PLANT = os.environ.get("PS_TEST_PLANT") == "1"
# The numbers of workers; with PS_TEST_MATRIX=1 all places are met with all of them.
WORKERS = ps_test.numbers("PS_TEST_KILLS_WORKERS", ps_test.either("1,3,8,17", "1,3"))
N_ROWS = ps_test.numbers("PS_TEST_KILLS_ROWS", ps_test.either("1000", "200"))[0]
# Most of a scenario is waiting for somebody to be silent for long enough.
AT_ONCE = 3
PLACES = ("acked", "ticked", "unticked", "unticked-twice")
BATCH = 7
RATE = 0.5
SILENCE_S = 2 * ps_test.SLOW
ONE = ("--batch", 1)
SEVEN = ("--batch", BATCH)
LOCAL = ("--batch", 1, "--local-steps", 4)
ONCE = ("--lr", RATE, "--epochs", 1)
# Where, and units that meet it.
MOMENTS = (("between-acks", SEVEN), ("between-acks", LOCAL), *((place, ONE) for place in PLACES))


def write_rows(path, first, n):
    """Rows first to first + n - 1; what the features are called, from 1 on."""
    data = "".join(f"1 {i}:1\n" for i in range(first + 1, first + n + 1)).encode()
    with (gzip.open if path.endswith(".gz") else open)(path, "wb") as f:
        f.write(data)


def state_of(pid):
    with open(f"/proc/{pid}/stat") as f:
        return f.read().rsplit(")", 1)[1].split()[0]


class Cluster(lasting.Asked):
    """Servers, and what they say of the job."""

    def __init__(self, case, *args, servers=2):
        silence = ("--silence", f"{SILENCE_S:.0f}s")
        self.case = case
        self.servers = [case.start("--listen", "127.0.0.1:0", "--servers", servers, *silence, *args,
                                   program=ps_test.SERVER)]
        ready = self.servers[0].wait_line(r"ready address=(\S+)", stdout=True)
        self.address = ready.group(1)
        for _ in range(servers - 1):
            self.servers.append(case.start("--listen", "127.0.0.1:0", "--coordinator", self.address,
                                           *args, program=ps_test.SERVER))

    def end(self):
        for server in self.servers:
            server.end()


@unittest.skipUnless(PLANT, "failpoints need a build with -Dplant=true")
class Kills(ps_test.Case):
    ROWS = 20

    def each(self, *scenarios):
        """Run (function, its arguments), some at a time; all that failed is told."""
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            runs = [(scenario, pool.submit(*scenario)) for scenario in scenarios]
        self.assertTrue(runs)
        for (function, *args), run in runs:
            with self.subTest(scenario=function.__name__, args=args):
                run.result()

    # ---- Data ------------------------------------------------------------------------------

    def rows(self, n, files=1, packed=False):
        """A pattern that names the files."""
        folder = tempfile.mkdtemp(dir=self.folder)
        for i in range(files):
            first = n * i // files
            write_rows(f"{folder}/part-{i}.libsvm" + (".gz" if packed else ""), first,
                       n * (i + 1) // files - first)
        return f"{folder}/part-*"

    # ---- Workers ---------------------------------------------------------------------------

    def worker(self, cluster, name, workers, data, *args):
        return self.start(
            "--coordinator", cluster.address, "--name", name, "--workers", workers,
            "--data", data, "--model", "linear", "--no-bias", "--optimizer", "sgd",
            "--seed", 1, *args, program=ps_test.WORKER)

    def begin(self, cluster, workers, victims, where, data, *args, at=None):
        """All workers of a job, those with a failpoint first: they are lent rows first."""
        running = []
        for i in range(workers):
            if i == victims:
                for j in range(victims):
                    cluster.servers[0].wait_line(rf'member.joined.*name="v{j}"')
            failpoint = ()
            if i < victims:
                failpoint = ("--failpoint", where, "--failpoint-at", at or 1 + i % 3)
            running.append(self.worker(cluster, f"{'v' if i < victims else 'w'}{i}", workers, data,
                                       *args, *failpoint))
        return running

    def wait_ends(self, workers):
        for worker in workers:
            self.assertEqual(worker.wait(90), 0, worker.text())

    def wait_killed(self, victims, where):
        """How many have met their failpoint; the others have seen the end of the job."""
        n = 0
        for victim in victims:
            status = victim.wait(90)
            self.assertIn(status, (0, -signal.SIGKILL), victim.text())
            if status != 0:
                victim.wait_line(f"failpoint.fires place={where} .*signal=kill")
                n += 1
        self.assertGreater(n, 0, "no worker has met its failpoint")
        return n

    def wait_stopped(self, victims, where):
        for victim in victims:
            victim.wait_line(f"failpoint.fires place={where} .*signal=stop")
            ps_test.wait_until("it is stopped", lambda v=victim: state_of(v.process.pid) == "T")

    # ---- What must hold --------------------------------------------------------------------

    def check_done(self, cluster, rows, epochs=1):
        status = cluster.ask()
        self.assertEqual(status["job"], "done")
        self.assertEqual((status["rows_trained_min"], status["rows_trained_max"]), (epochs, epochs))
        self.assertEqual(status["rows"], rows)
        return status

    def check_all(self, cluster, rows, weight):
        """Every weight is exactly this one."""
        self.assertEqual(collections.Counter(cluster.weights(rows)), {weight: rows})

    def check_batches(self, cluster, rows):
        """One epoch of batches: all but one of a part are whole, and each row has its share."""
        found = collections.Counter()
        for key, weight in enumerate(cluster.weights(rows)):
            sizes = [k for k in range(1, BATCH + 1) if abs(weight - RATE / k) < 1e-6]
            self.assertEqual(len(sizes), 1, f"feature {key + 1} has the weight {weight}")
            found[sizes[0]] += 1
        for size, n in found.items():
            self.assertEqual(n % size, 0, found)
        n_short = sum(n // k for k, n in found.items() if k < BATCH)
        self.assertLessEqual(n_short, cluster.ask()["parts"], found)

    def check_units(self, cluster, rows, unit):
        if "--batch" in unit and unit[unit.index("--batch") + 1] > 1:
            self.check_batches(cluster, rows)
        else:
            self.check_all(cluster, rows, RATE)

    # ---- Killed ----------------------------------------------------------------------------

    def kill(self, workers, victims, where, data, *args, at=None, servers_args=()):
        """A job of which some workers are killed; if it is all, others come in their places."""
        cluster = Cluster(self, *servers_args)
        running = self.begin(cluster, workers, victims, f"kill-{where}", data, *args, at=at)
        n_killed = self.wait_killed(running[:victims], where)
        if workers == victims:
            running += [self.worker(cluster, f"r{i}", workers, data, *args)
                        for i in range(n_killed)]
        self.wait_ends(running[victims:])
        return cluster

    def kill_once(self, workers, victims, where, unit, rows=N_ROWS, at=None, files=1, packed=False):
        cluster = self.kill(workers, victims, where, self.rows(rows, files, packed), *unit, *ONCE,
                            at=at)
        self.check_done(cluster, rows)
        self.check_units(cluster, rows, unit)
        cluster.end()

    def test_others_take_over_what_killed_workers_had(self):
        self.each(*((self.kill_once, n, (n + 1) // 2, *how)
                    for n in WORKERS if n > 1 for how in MOMENTS))

    def test_new_workers_take_over_when_all_were_killed(self):
        self.each(*((self.kill_once, n, n, *how)
                    for n in WORKERS if n <= 3 or ps_test.MATRIX for how in MOMENTS))

    def test_more_workers_than_rows(self):
        few = [(self.kill_once, 3, 1, "acked", ONE, 2, 1)]
        few += [(self.kill_once, n, 3, place, ONE, 5, 1)
                for n in WORKERS if n > 5 for place in PLACES[:3]]
        # Two units; that neither has rows at both servers comes once in 4,096 times.
        few += [(self.kill_once, n, 2, "between-acks", SEVEN, 2 * BATCH, 1)
                for n in WORKERS if n > 2 * BATCH]
        self.each(*few)

    def test_many_files_plain_and_packed(self):
        self.each(*((self.kill_once, 3, 2, *how, N_ROWS, None, 6, packed)
                    for packed in (False, True)
                    for how in (("between-acks", SEVEN), ("unticked-twice", ONE))))

    def test_bsp_and_asp(self):
        # In bsp the unit behind one that is not reported does not begin.
        self.each(*((self.kill_once, 3, 2, where, (*unit, "--consistency", rule))
                    for rule in ("bsp", "asp")
                    for where, unit in MOMENTS if (rule, where) != ("bsp", "unticked-twice")))

    def kill_in_turn(self, rows):
        """One worker after the other, each killed elsewhere, the first units again and again."""
        cluster = Cluster(self)
        data = self.rows(rows)
        turns = 3 * ("between-acks", "acked", "unticked", "between-acks", "ticked")
        for i, where in enumerate(turns):
            victims = self.begin(cluster, 1, 1, f"kill-{where}", data, *SEVEN, *ONCE, at=1 + i // 5)
            self.assertEqual(self.wait_killed(victims, where), 1)
        self.wait_ends([self.worker(cluster, "last", 1, data, *SEVEN, *ONCE)])
        self.check_done(cluster, rows)
        self.check_batches(cluster, rows)
        cluster.end()

    def test_one_worker_after_the_other_is_killed(self):
        self.each((self.kill_in_turn, N_ROWS))

    def three_epochs(self, workers, rows, where):
        cluster = self.kill(workers, (workers + 1) // 2, where, self.rows(rows), *ONE,
                            "--lr", RATE, "--epochs", 3, at=2 * rows // workers)
        self.check_done(cluster, rows, epochs=3)
        self.check_all(cluster, rows, 0.875)
        cluster.end()

    def test_three_epochs(self):
        # A part is lent to one worker at a time: no weight that it sees is old.
        rows = N_ROWS // 4
        self.each(*((self.three_epochs, 1, rows, place) for place in PLACES),
                  *((self.three_epochs, n, rows, "acked") for n in WORKERS if n > 1))

    # ---- Stopped ---------------------------------------------------------------------------

    def stop_some(self, workers, where, unit):
        """The others finish; then the stopped ones go on with what they had in hand."""
        cluster = Cluster(self)
        victims = (workers + 1) // 2
        running = self.begin(cluster, workers, victims, f"stop-{where}", self.rows(N_ROWS), *unit,
                             *ONCE)
        try:
            self.wait_stopped(running[:victims], where)
            self.wait_ends(running[victims:])
            self.check_done(cluster, N_ROWS)
        finally:
            for worker in running[:victims]:
                worker.process.send_signal(signal.SIGCONT)
        self.wait_ends(running[:victims])
        self.check_stopped(cluster, victims, unit)

    def stop_all(self, workers, where, unit):
        """All go on at once, with what they had in hand, and then as new sessions."""
        cluster = Cluster(self)
        running = self.begin(cluster, workers, workers, f"stop-{where}", self.rows(N_ROWS), *unit,
                             *ONCE)
        try:
            self.wait_stopped(running, where)
            ps_test.wait_until("they have expired",
                               lambda: cluster.ask()["sessions_lost"] == workers, 30)
        finally:
            for worker in running:
                worker.process.send_signal(signal.SIGCONT)
        self.wait_ends(running)
        for worker in running:
            worker.wait_line("worker.rejoins")
        self.check_stopped(cluster, workers, unit)

    def check_stopped(self, cluster, victims, unit):
        status = self.check_done(cluster, N_ROWS)
        self.assertEqual(status["sessions_lost"], victims)
        self.check_units(cluster, N_ROWS, unit)
        cluster.end()

    def test_the_others_finish_without_a_stopped_worker_which_changes_nothing_when_it_goes_on(self):
        self.each(*((self.stop_some, n, *how)
                    for n in WORKERS if n > 1 and (n <= 3 or ps_test.MATRIX) for how in MOMENTS))

    def test_workers_that_were_all_stopped_for_too_long_go_on_as_new_ones(self):
        self.each(*((self.stop_all, n, *how)
                    for n in WORKERS if n <= 3 or ps_test.MATRIX for how in MOMENTS))

    # ---- The test of the test --------------------------------------------------------------

    def forget(self, where, unit):
        cluster = self.kill(2, 1, where, self.rows(200), *unit, *ONCE,
                            servers_args=("--plant", "dedupe-off"))
        self.check_done(cluster, 200)  # The coordinator counts what was reported.
        with self.assertRaises(AssertionError):
            self.check_units(cluster, 200, unit)
        cluster.end()

    def test_servers_that_forget_what_they_have_are_found(self):
        # What was reported is not done again; whether the last report arrives is chance.
        self.each(*((self.forget, place, ONE) for place in PLACES if place != "ticked"))


if __name__ == "__main__":
    ps_test.main()
