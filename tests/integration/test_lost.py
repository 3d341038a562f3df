"""Servers that are lost for a while or for good, and jobs that end and begin on the same ports:
what everybody says, within which time, and with which status. Cases 02, 12, 19.

Times are short; with PS_TEST_MATRIX=1 they are those that a person would wait.
"""

import json
import os
import re
import shutil
import signal
import socket
import time
import unittest

import lasting
import ps_test

AWAY_S = 20 if ps_test.MATRIX else 0  # Beyond the time until everybody has said so.
WAIT_S = 20 if ps_test.MATRIX else 5  # That a job waits for a server.
NAMED_S = 10  # Within this a lost server is named: who waits at another one asks 5 s later.
ENDLESS = ("--epochs", 100000)
LINES = (32561, 16281) if ps_test.MATRIX else ps_test.either((4000, 1000), (1000, 200))


class Lost(lasting.Case):
    ROWS = 200

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.rows, cls.judged = lasting.lines_set(cls.folder, *LINES)

    def workers(self, cluster, n=3):
        return [cluster.worker(f"w{i}", self.rows, "--model", "logreg", *ENDLESS, "--seed", 2,
                               workers=n) for i in range(n)]

    def log_loss(self, cluster):
        status, stdout, stderr = ps_test.run(
            "eval", "--coordinator", cluster.address, "--data", self.judged, "--json",
            program=ps_test.CTL)
        self.assertEqual(status, 0, stderr)
        return json.loads(stdout)["log_loss"]

    # ---- 02 --------------------------------------------------------------------------------

    def lose(self, cluster, workers):
        """Server 1 is killed, and every worker has named it in time."""
        cluster.kill(1)
        for worker in workers:
            said = worker.wait_line(r"server 1 \(\S+\) is unreachable since (\d+) s: retrying")
            self.assertLess(int(said.group(1)), 3 * NAMED_S * ps_test.SLOW)  # On a busy machine.

    def check_lines(self, worker):
        """Said once, then at growing intervals."""
        said = [int(s) for line in worker.lines
                for s in re.findall(r"unreachable since (\d+) s: retrying", line)]
        gaps = [b - a for a, b in zip(said, said[1:])]
        self.assertLess(len(said), 8, worker.text())
        self.assertTrue(all(b + 1 >= a for a, b in zip(gaps, gaps[1:])), worker.text())

    def come_back(self, durability, *args):
        cluster = lasting.Cluster(self, 3, "--durability", durability, *args,
                                  first=("--snapshot-every", "1s"))
        workers = self.workers(cluster)
        ps_test.wait_until("an epoch is done",
                           lambda: cluster.ask()["steps"] >= LINES[0] // 100, 60)
        cluster.servers[0].wait_line("cut.complete")
        usual = self.log_loss(cluster)
        self.lose(cluster, workers)
        away = cluster.ask()["away"]
        self.assertEqual([(a["server"]) for a in away], [1])
        time.sleep(AWAY_S)
        for worker in workers:
            self.assertIsNone(worker.process.poll(), worker.text())
            self.check_lines(worker)
        cluster.begin(1)
        for worker in workers:
            worker.wait_line(r"event=(server.back server=1|worker.rejoins)", 60)
        cluster.wait_more(LINES[0] // 100)
        self.assertEqual(cluster.ask()["away"], [])
        self.assertEqual(cluster.ask()["generation"], 1 if durability == "log" else 2)
        self.assertLess(self.log_loss(cluster), usual + 0.02)
        for worker in workers:
            worker.process.terminate()
        self.wait_ends(workers)
        cluster.end()

    def test_02_a_lost_server_is_named_by_all_and_training_goes_on_when_it_is_back(self):
        self.come_back("log")

    def test_02_without_a_log_training_goes_on_from_the_last_snapshot(self):
        self.come_back("memory", "--snapshot-dir", f"{self.folder}/snapshots")

    def test_02_a_server_that_stays_away_ends_every_process_in_time_with_a_clear_line(self):
        cluster = lasting.Cluster(self, 3, first=("--wait-for-server", f"{WAIT_S}s"))
        workers = self.workers(cluster)
        cluster.wait_more()
        killed = time.monotonic()
        if WAIT_S > NAMED_S:
            self.lose(cluster, workers)
        else:  # Somebody may not have asked it by then.
            cluster.kill(1)
        for process in (*workers, cluster.servers[0], cluster.servers[2]):
            self.assertEqual(process.wait(WAIT_S + 60), 4, process.text())
            process.wait_line(r"^ps-(worker|server): .*server 1 \(\S+\) has not come back within "
                              rf"{WAIT_S} s \(--wait-for-server\)")
        self.assertGreaterEqual(time.monotonic() - killed, WAIT_S)
        for worker in workers:
            self.check_lines(worker)

    # ---- 12 --------------------------------------------------------------------------------

    def check_nothing_left(self, port):
        """The ports can be had at once."""
        for i in range(2):
            with socket.socket() as s:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                s.bind(("127.0.0.1", port + i))
                s.listen()
        self.assertEqual(ps_test.tagged(os.environ[ps_test.TAG]), [])

    def test_12_runs_on_fixed_ports_with_data_directories_follow_each_other_without_pause(self):
        port = ps_test.free_port(2)
        sure = ("--data-dir", f"{self.folder}/sure", "--epochs", 1)
        long = ("--data-dir", f"{self.folder}/long", *ENDLESS)
        for args, sent, status, says in (
            (sure, None, 0, None),
            (sure, None, 0, "this job is done already"),
            (long, signal.SIGINT, 130, None),
            (long, signal.SIGKILL, -9, "this job goes on in epoch"),
            (long, signal.SIGTERM, 143, "this job goes on in epoch"),
        ):
            running = self.start("--data", self.data, "--servers", 2, "--workers", 2,
                                 "--port-base", port, *args)
            self.assertTrue(running.wait_line(r"server 1 is process \d+ at (\S+)").group(1)
                            .endswith(f":{port + 1}"))
            if says:
                running.wait_line(says)
            if sent:
                running.wait_line(r"epoch \d+/")
                running.process.send_signal(sent)
            self.assertEqual(running.wait(), status, running.text())
            if sent == signal.SIGKILL:  # Its children have to notice.
                ps_test.wait_until("they are gone",
                                   lambda: not ps_test.tagged(os.environ[ps_test.TAG]))
            self.check_nothing_left(port)

    def test_12_a_port_that_is_taken_is_named_and_nothing_is_started(self):
        port = ps_test.free_port(2)
        with socket.socket() as s:
            s.bind(("127.0.0.1", port + 1))
            s.listen()
            status, stdout, stderr = ps_test.run(
                "--data", self.data, "--servers", 2, "--port-base", port, "--data-dir",
                f"{self.folder}/taken", "--epochs", 1)
        self.assertNotEqual(status, 0)
        self.assertEqual(stdout, "")
        self.assertIn(f"127.0.0.1:{port + 1}", stderr)
        self.assertIn("in use", stderr)
        self.check_nothing_left(port)

    # ---- 19 --------------------------------------------------------------------------------

    @unittest.skipUnless(os.geteuid() == 0 and shutil.which("unshare"),
                         "a process number of one's own needs root and unshare")
    def test_19_as_process_1_a_worker_gives_its_rows_back_and_leaves_in_order(self):
        n = ps_test.either(1000, 300)
        rows = lasting.write_rows(f"{self.folder}/rows", n)
        probe = ("--model", "linear", "--no-bias", "--optimizer", "sgd", "--lr", 0.5, "--batch", 1,
                 "--epochs", 3)
        # Only its report or its word frees its rows: its silence does not.
        cluster = lasting.Cluster(self, 2, first=("--silence", "600s", "--grace", "600s"))
        first = self.start(
            "--coordinator", cluster.address, "--name", "first", "--data", rows, *probe,
            program=ps_test.WORKER, under=("unshare", "--fork", "--pid", "--mount-proc",
                                           "--kill-child"))
        ps_test.wait_until("it trains", lambda: cluster.ask()["steps"] > 0)
        with open(f"/proc/{first.process.pid}/task/{first.process.pid}/children",
                  encoding="ascii") as f:
            os.kill(int(f.read().split()[0]), signal.SIGTERM)
        self.assertEqual(first.wait(10), 0, first.text())
        second = cluster.worker("second", rows, *probe)
        self.wait_ends([second])
        self.wait_done(cluster)
        self.assert_exact(cluster.ask(), 3)
        self.assertEqual(set(cluster.weights(n)), {0.875})
        cluster.end()


if __name__ == "__main__":
    ps_test.main()
