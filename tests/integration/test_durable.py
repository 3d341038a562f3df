"""What is acknowledged outlives the process: servers and the coordinator are killed and started
again with the same data directory, in the middle of training, and every weight is exact.

The rows are such that each has a feature of its own, and its label is 1: a linear model of them,
without bias, at rate 0.5, has the weight 0.5 after one training of its row, 0.75 after two, 0.875
after three. A row that was lost, or applied twice, has another.
"""

import collections
import glob
import json
import os
import shutil
import signal
import tempfile
import time
import unittest

import lasting
import ps_test
from lasting import Cluster

PLANT = os.environ.get("PS_TEST_PLANT") == "1"
RATE = 0.5
WEIGHTS = {1: 0.5, 2: 0.75, 3: 0.875}
N_ROWS = ps_test.either(1000, 300)
EPOCHS = 3
PROBE = ("--model", "linear", "--no-bias", "--optimizer", "sgd", "--lr", RATE, "--batch", 1,
         "--seed", 1)


class Durable(lasting.Case):
    ROWS = 20

    def probe(self, n=N_ROWS):
        return lasting.write_rows(f"{tempfile.mkdtemp(dir=self.folder)}/rows.libsvm", n)

    def pairs(self, n):
        return lasting.write_pairs(f"{tempfile.mkdtemp(dir=self.folder)}/pairs.libsvm", n)

    def check_exact(self, cluster, rows, epochs):
        ps_test.wait_until("the job is done", lambda: cluster.ask()["job"] == "done", 30)
        status = cluster.ask()
        self.assertEqual((status["rows_trained_min"], status["rows_trained_max"]),
                         (epochs, epochs))
        self.assertEqual(collections.Counter(cluster.weights(rows)), {WEIGHTS[epochs]: rows})

    def train(self, cluster, data, *args, workers=2, epochs=EPOCHS):
        return [cluster.worker(f"w{i}", data, *PROBE, "--epochs", epochs, *args, workers=workers)
                for i in range(workers)]

    # ---- Restarts --------------------------------------------------------------------------

    def test_what_was_trained_is_there_when_all_servers_were_killed(self):
        for level in ("log", "fsync"):
            with self.subTest(durability=level):
                cluster = Cluster(self, 2, "--durability", level)
                data = self.probe()
                self.wait_ends(self.train(cluster, data, workers=1, epochs=1))
                self.check_exact(cluster, N_ROWS, 1)
                for i in range(2):
                    cluster.kill(i)
                for i in range(2):
                    cluster.begin(i)
                    cluster.servers[i].wait_line(r"recovered \d+ records")
                self.check_exact(cluster, N_ROWS, 1)
                cluster.end()

    def kill_under_training(self, victim, *args):
        cluster = Cluster(self, 2, *args)
        data = self.probe()
        workers = self.train(cluster, data)
        for i in range(1, 4):
            cluster.wait_units(i * N_ROWS * EPOCHS // 6)
            cluster.restart(victim)
        self.wait_ends(workers)
        self.check_exact(cluster, N_ROWS, EPOCHS)
        cluster.end()

    def test_a_server_that_is_killed_and_started_again_loses_nothing(self):
        self.kill_under_training(1)

    def test_a_coordinator_that_is_killed_and_started_again_loses_nothing(self):
        self.kill_under_training(0)

    # ---- Snapshots -------------------------------------------------------------------------

    def test_a_server_goes_on_from_its_snapshot_and_the_log_behind_it(self):
        cluster = Cluster(self, 2)
        workers = self.train(cluster, self.probe())
        cluster.wait_units(N_ROWS // 2)
        self.snapshot(cluster)
        cluster.wait_units(N_ROWS)
        for victim in (1, 0):
            cluster.restart(victim)
        self.wait_ends(workers)
        for victim in (1, 0):
            cluster.restart(victim)
        self.check_exact(cluster, N_ROWS, EPOCHS)
        cluster.end()

    def test_a_log_that_is_long_is_cut_short_behind_a_snapshot(self):
        cluster = Cluster(self, 2, "--log-bytes", "1MiB", "--snapshot-dir",
                          tempfile.mkdtemp(dir=self.folder))
        worker = cluster.worker("w", self.probe(200), "--model", "fm", "--regress", "--rank", 512,
                                "--epochs", 20, "--batch", 1, "--optimizer", "adam")
        cluster.servers[0].wait_line("cut.complete cut=.*0002 ", 60)
        self.wait_ends([worker])
        before = self.export(cluster)
        for victim in (1, 0):
            self.assertNotIn("0000000000000001.log", os.listdir(f"{cluster.data_dir(victim)}/log"))
            cluster.restart(victim)
            cluster.servers[victim].wait_line("server.recovered")
        self.assertEqual(self.export(cluster), before)
        cluster.end()

    def test_the_whole_job_goes_back_to_a_snapshot_when_it_is_told_to(self):
        cluster = Cluster(self, 2)
        workers = self.train(cluster, self.probe())
        cluster.wait_units(N_ROWS // 2)
        self.snapshot(cluster)
        cluster.wait_units(N_ROWS)
        status, stdout, stderr = ps_test.run("restore", "--coordinator", cluster.address,
                                             program=ps_test.CTL)
        self.assertEqual(status, 0, stderr)
        self.wait_ends(workers)
        self.check_exact(cluster, N_ROWS, EPOCHS)
        for victim in (0, 1):
            cluster.restart(victim)
        self.check_exact(cluster, N_ROWS, EPOCHS)
        self.assertEqual(cluster.ask()["generation"], 2)
        cluster.end()

    def test_a_server_that_went_back_once_starts_again_when_its_log_begins_behind_that(self):
        cluster = Cluster(self, 2, "--log-bytes", "1MiB", "--snapshot-dir",
                          tempfile.mkdtemp(dir=self.folder))
        fm = ("--model", "fm", "--regress", "--rank", 512, "--batch", 1, "--optimizer", "adam",
              "--epochs", 40)
        worker = cluster.worker("w", self.probe(200), *fm)
        cluster.wait_units(400)
        self.snapshot(cluster)
        status, stdout, stderr = ps_test.run("restore", "--coordinator", cluster.address,
                                             program=ps_test.CTL)
        self.assertEqual(status, 0, stderr)
        self.wait_ends([worker])
        self.snapshot(cluster)
        self.snapshot(cluster)
        before = self.export(cluster)
        for victim in (1, 0):
            def trimmed():
                first = min(os.listdir(f"{cluster.data_dir(victim)}/log"))
                with open(f"{cluster.data_dir(victim)}/log/{first}", "rb") as f:
                    return b"000001-" not in f.read() and first != "0000000000000001.log"
            ps_test.wait_until("the log does not say any more that it went back", trimmed, 30)
            cluster.restart(victim)
            cluster.servers[victim].wait_line("server.recovered")
        self.assertEqual(self.export(cluster), before)
        self.assertEqual(cluster.ask()["generation"], 2)
        cluster.end()

    def test_a_log_that_lost_the_beginning_of_its_generation_with_the_power_is_void(self):
        cluster = Cluster(self, 2)
        data = self.probe()
        workers = self.train(cluster, data)
        cluster.wait_units(N_ROWS // 2)
        self.snapshot(cluster)
        self.wait_ends(workers)
        log = f"{cluster.data_dir(1)}/log"
        kept = f"{tempfile.mkdtemp(dir=self.folder)}/log"
        shutil.copytree(log, kept)
        status, _, stderr = ps_test.run("restore", "--coordinator", cluster.address,
                                        program=ps_test.CTL)
        self.assertEqual(status, 0, stderr)
        cluster.servers[1].wait_line("server.restored")
        cluster.kill(1)
        shutil.rmtree(log)
        shutil.copytree(kept, log)
        cluster.begin(1)
        cluster.servers[1].wait_line("log.void")
        cluster.servers[1].wait_line("server.restored")
        self.wait_ends(self.train(cluster, data))
        self.check_exact(cluster, N_ROWS, EPOCHS)
        self.assertEqual(cluster.ask()["generation"], 3)
        cluster.restart(1)
        self.check_exact(cluster, N_ROWS, EPOCHS)
        cluster.end()

    def test_a_log_is_of_the_life_that_wrote_it_whatever_was_without_one_in_between(self):
        snapshots = tempfile.mkdtemp(dir=self.folder)
        cluster = Cluster(self, 2, "--snapshot-dir", snapshots)
        data = self.probe()
        workers = self.train(cluster, data)
        cluster.wait_units(N_ROWS // 2)
        self.snapshot(cluster)
        self.wait_ends(workers)
        cluster.end()
        for durability, generation in (("memory", 2), ("log", 3)):
            cluster.args = ("--snapshot-dir", snapshots, "--durability", durability)
            for i in (0, 1):
                cluster.begin(i)
            self.wait_ends(self.train(cluster, data))
            self.check_exact(cluster, N_ROWS, EPOCHS)
            self.assertEqual(cluster.ask()["generation"], generation)
            cluster.end()

    @unittest.skipUnless(PLANT, "of builds with planted bugs")
    def test_a_server_that_ends_while_it_loads_a_snapshot_loads_all_of_it_the_next_time(self):
        for victim in (1, 0):
            with self.subTest(victim=victim):
                cluster = Cluster(self, 2)
                data = self.probe()
                self.wait_ends(self.train(cluster, data, workers=1, epochs=1))
                cluster.restart(victim, "--failpoint", "restore.mid")
                self.check_exact(cluster, N_ROWS, 1)
                self.snapshot(cluster)
                ps_test.run("restore", "--coordinator", cluster.address, "--timeout", "5s",
                            program=ps_test.CTL)
                cluster.servers[victim].process.wait(30)
                cluster.begin(victim)
                ps_test.wait_until("it is back", lambda: cluster.ask()["job"] == "done", 30)
                self.assertEqual(cluster.ask()["generation"], 2)
                self.assertEqual(collections.Counter(cluster.weights(N_ROWS)),
                                 {WEIGHTS[1]: N_ROWS})
                cluster.end()

    def test_without_a_log_a_server_that_comes_back_takes_the_whole_job_back(self):
        cluster = Cluster(self, 2, "--durability", "memory", "--snapshot-dir",
                          tempfile.mkdtemp(dir=self.folder))
        workers = self.train(cluster, self.probe())
        cluster.wait_units(N_ROWS // 2)
        self.snapshot(cluster)
        cluster.wait_units(N_ROWS)
        cluster.restart(1)
        self.wait_ends(workers)
        self.check_exact(cluster, N_ROWS, EPOCHS)
        self.assertEqual(cluster.ask()["generation"], 2)
        cluster.end()

    def test_a_snapshot_of_two_servers_is_restored_by_any_number(self):
        snapshots = tempfile.mkdtemp(dir=self.folder)
        data = self.probe()
        cluster = Cluster(self, 2, "--snapshot-dir", snapshots)
        workers = self.train(cluster, data)
        cluster.wait_units(N_ROWS)
        self.snapshot(cluster)
        for worker in workers:
            worker.end()
        cluster.end()
        for n in ps_test.either((1, 2, 3, 5), (1, 3)):
            with self.subTest(servers=n):
                cluster = Cluster(self, n, "--restore", snapshots)
                self.wait_ends(self.train(cluster, data))
                self.check_exact(cluster, N_ROWS, EPOCHS)
                cluster.end()

    def test_told_to_end_servers_without_a_log_take_a_last_snapshot(self):
        snapshots = tempfile.mkdtemp(dir=self.folder)
        args = ("--durability", "memory", "--snapshot-dir", snapshots)
        data = self.probe()
        cluster = Cluster(self, 2, *args)
        workers = self.train(cluster, data)
        cluster.wait_units(N_ROWS)
        for server in cluster.servers:
            server.process.send_signal(signal.SIGTERM)
        for server in cluster.servers:
            self.assertEqual(server.wait(20), 0, server.text())
        cluster.servers[0].wait_line("cut.complete")
        for worker in workers:
            worker.end()
        again = Cluster(self, 2, "--restore", snapshots)
        self.assertGreaterEqual(again.ask()["steps"], 0)
        self.wait_ends(self.train(again, data))
        self.check_exact(again, N_ROWS, EPOCHS)
        again.end()

    def learn(self, cluster, data, rule, epochs=2):
        """One worker, so that the same steps come in the same order, on one cluster or two."""
        return cluster.worker("w", data, "--model", "fm", "--regress", "--rank", 8, "--batch", 1,
                              "--optimizer", rule, "--epochs", epochs, "--seed", 7)

    def test_tables_are_equal_to_the_bit_on_any_number_of_servers(self):
        snapshots = tempfile.mkdtemp(dir=self.folder)
        cluster = Cluster(self, 2, "--snapshot-dir", snapshots)
        self.wait_ends([self.learn(cluster, self.pairs(200), "adam")])
        self.wait_done(cluster)
        self.snapshot(cluster)
        before = self.export(cluster)
        cluster.end()
        for n in ps_test.either((1, 2, 3, 5), (3,)):
            with self.subTest(servers=n):
                cluster = Cluster(self, n, "--restore", snapshots)
                self.wait_done(cluster)
                self.assertEqual(self.export(cluster), before)
                cluster.end()

    def test_training_that_was_stopped_and_resumed_gives_the_bits_of_one_that_was_not(self):
        data = self.pairs(200)
        for rule in ps_test.either(("momentum", "adagrad", "adam", "ftrl"), ("adam",)):
            with self.subTest(optimizer=rule):
                cluster = Cluster(self, 2)
                self.wait_ends([self.learn(cluster, data, rule)])
                self.wait_done(cluster)
                whole = self.export(cluster)
                cluster.end()
                snapshots = tempfile.mkdtemp(dir=self.folder)
                cluster = Cluster(self, 2, "--snapshot-dir", snapshots)
                worker = self.learn(cluster, data, rule)
                cluster.wait_units(100)
                # Bits are promised if the worker was in time to hold.
                ps_test.wait_until("a snapshot is exact",
                                   lambda: "exact" in self.snapshot(cluster), 30)
                worker.end()
                cluster.end()
                cluster = Cluster(self, 2, "--restore", snapshots)
                self.wait_ends([self.learn(cluster, data, rule)])
                self.wait_done(cluster)
                self.assertEqual(self.export(cluster), whole)
                cluster.end()

    def whole(self, snapshots):
        return sorted(f for f in os.listdir(snapshots)
                      if os.path.exists(f"{snapshots}/{f}/MANIFEST"))

    def test_all_killed_at_any_moment_of_saving_they_go_back_to_a_whole_snapshot(self):
        snapshots = tempfile.mkdtemp(dir=self.folder)
        cluster = Cluster(self, 3, "--durability", "memory", "--snapshot-dir", snapshots,
                          first=("--snapshot-every", "300ms", "--silence", "2s"))
        data = self.probe()
        workers = self.train(cluster, data)
        cluster.servers[0].wait_line("cut.complete")
        for i in range(ps_test.either(50 if ps_test.MATRIX else 10, 3)):
            if i == 1:
                ps_test.wait_until("there are two", lambda: len(self.whole(snapshots)) >= 2, 30)
            time.sleep(0.1 + 0.17 * i % 0.6)
            for victim in range(3):
                cluster.kill(victim)
            if i == 1:  # What is half there is passed over, and said to be.
                folder = self.whole(snapshots)[-1]
                path = glob.glob(f"{snapshots}/{folder}/server-1/*weight.safetensors")[0]
                os.truncate(path, os.path.getsize(path) // 2)
            for victim in range(3):
                cluster.begin(victim)
            cluster.servers[0].wait_line("job.state state=running|job.state state=done", 60)
            # Never from zero, and never without a word.
            back = cluster.servers[0].wait_line(r"job.back cut=(\S+)").group(1)
            self.assertIn(back, self.whole(snapshots))
            if i == 1:
                self.assertNotEqual(back, folder)
                cluster.servers[0].wait_line(rf"snapshot.passed_over snapshot={folder} why=\S")
        self.wait_ends(workers)
        if cluster.ask()["job"] != "done":  # They were done before the last round took it back.
            self.wait_ends(self.train(cluster, data))
        self.check_exact(cluster, N_ROWS, EPOCHS)
        cluster.end()

    def retries(self, cluster):
        return sum(m.get("retries", 0) for m in cluster.ask()["members"])

    def repeats(self, cluster):
        return sum(m.get("repeats", 0) for m in cluster.ask()["members"])

    def test_a_server_that_is_stopped_for_longer_than_calls_may_take_applies_no_repeat_again(self):
        """Case 09. Of pushes that it has and could not acknowledge in time, a repeat comes."""
        rows = 5000  # Some tens are trained between two stops.
        cluster = Cluster(self, 2, first=("--silence", "600s"))
        workers = self.train(cluster, self.probe(rows), "--give-up", "600s", epochs=1)
        cluster.wait_units(1)
        stops = 0
        # A stop that meets pulls alone has no repeat.
        while stops < ps_test.either(10 if ps_test.MATRIX else 2, 1) or self.repeats(cluster) == 0:
            self.assertLess(stops, 20, "no repeat of a push was counted")
            before = self.retries(cluster)
            os.kill(cluster.servers[1].process.pid, signal.SIGSTOP)
            ps_test.wait_until("calls have timed out", lambda: self.retries(cluster) > before, 30)
            os.kill(cluster.servers[1].process.pid, signal.SIGCONT)
            cluster.wait_more(1)
            stops += 1
        self.wait_ends(workers)
        self.check_exact(cluster, rows, 1)
        print(f"\n{stops} stops, {self.repeats(cluster)} repeats of pushes")
        cluster.end()

    @unittest.skipUnless(os.geteuid() == 0 and shutil.which("unshare"),
                         "a process number of one's own needs root and unshare")
    def test_as_process_1_a_server_ends_in_order_and_loses_nothing(self):
        cluster = Cluster(self, 2)
        workers = self.train(cluster, self.probe())
        cluster.wait_units(N_ROWS // 2)
        cluster.kill(1)
        under = ("unshare", "--fork", "--pid", "--mount-proc", "--kill-child")
        server = cluster.begin(1, under=under)
        server.wait_line("server.joined")
        with open(f"/proc/{server.process.pid}/task/{server.process.pid}/children",
                  encoding="ascii") as f:
            inner = int(f.read().split()[0])
        os.kill(inner, signal.SIGTERM)
        self.assertEqual(server.wait(20), 0, server.text())
        cluster.begin(1)
        self.wait_ends(workers)
        self.check_exact(cluster, N_ROWS, EPOCHS)
        cluster.end()

    # ---- What is refused -------------------------------------------------------------------

    def refuse(self, *args, status, says):
        got, stdout, stderr = ps_test.run(*args, program=ps_test.SERVER)
        self.assertEqual((got, stdout, len(stderr.splitlines())), (status, "", 1), stderr)
        for text in says:
            self.assertIn(text, stderr)

    def test_a_server_that_comes_back_to_no_coordinator_ends_and_names_it(self):
        cluster = Cluster(self, 2)
        for i in (1, 0):
            cluster.kill(i)
        server = cluster.begin(1, "--give-up", "1s")
        self.assertEqual(server.wait(60), 4, server.text())
        self.assertRegex(server.text(), rf"coordinator \({cluster.address}\) has been silent")

    def test_settings_that_contradict_each_other_are_refused(self):
        folder = self.folder
        for args, says in (
            (("--durability", "log"), ["--durability log", "--data-dir"]),
            (("--durability", "fsync"), ["--durability fsync", "--data-dir"]),
            (("--log-bytes", "1GiB"), ["--log-bytes", "--data-dir"]),
            (("--data-dir", folder, "--durability", "memory", "--log-bytes", "1GiB"),
             ["--log-bytes", "--durability memory"]),
            (("--snapshot-every", "1m"), ["--snapshot-every", "--snapshot-dir"]),
            (("--snapshot-keep", 3), ["--snapshot-keep", "--snapshot-dir"]),
            (("--snapshot-dir", folder, "--coordinator", "h:1", "--snapshot-keep", 3),
             ["--snapshot-keep", "--coordinator"]),
            (("--wait-for-server", "1m", "--coordinator", "h:1"),
             ["--wait-for-server", "--coordinator"]),
        ):
            with self.subTest(args=args):
                self.refuse(*args, status=2, says=says)

    def test_two_servers_on_one_data_directory_are_refused(self):
        cluster = Cluster(self, 1)
        pid = cluster.servers[0].process.pid
        self.refuse("--listen", "127.0.0.1:0", "--data-dir", cluster.data_dir(0), status=2,
                    says=[f"is in use by process {pid}", cluster.data_dir(0)])
        cluster.end()

    def trained(self):
        """A cluster of one server that has trained and was killed."""
        cluster = Cluster(self, 1)
        self.wait_ends(self.train(cluster, self.probe(), workers=1, epochs=1))
        self.check_exact(cluster, N_ROWS, 1)
        cluster.kill(0)
        return cluster

    def test_a_damaged_log_is_refused_with_file_and_place(self):
        cluster = self.trained()
        (log,) = glob.glob(f"{cluster.data_dir(0)}/log/*.log")
        with open(log, "r+b") as f:
            f.seek(4096)
            byte = f.read(1)
            f.seek(4096)
            f.write(bytes([byte[0] ^ 4]))
        self.refuse("--listen", cluster.address, "--data-dir", cluster.data_dir(0), status=65,
                    says=[f"{log}:"])
        with open(log, "r+b") as f:  # Nothing was changed: with the right byte all is there.
            f.seek(4096)
            f.write(byte)
        cluster.begin(0)
        self.check_exact(cluster, N_ROWS, 1)
        cluster.end()

    def test_a_damaged_identity_is_refused(self):
        cluster = self.trained()
        path = f"{cluster.data_dir(0)}/identity"
        with open(path, "r+b") as f:
            text = f.read()
        for at in range(0, len(text), ps_test.either(1, 7)):
            with self.subTest(byte=at):
                with open(path, "wb") as f:
                    f.write(text[:at] + bytes([text[at] ^ 1]) + text[at + 1 :])
                self.refuse("--listen", cluster.address, "--data-dir", cluster.data_dir(0),
                            status=65, says=[f"{path}:"])
        cluster.end()


if __name__ == "__main__":
    ps_test.main()
