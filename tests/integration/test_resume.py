"""Runs that stop and go on: ps-run with a data directory, psctl snapshot and restore, workers that
are told to end. The rows are those of test_durable.py: each has a feature of its own, so a weight
tells how often its row was trained.
"""

import collections
import json
import os
import signal
import time
import unittest

import ps_test

N_ROWS = ps_test.either(2000, 500)
EPOCHS = 6  # It goes on for a while, however fast: it is stopped and asked meanwhile.
PROBE = ("--model", "linear", "--no-bias", "--optimizer", "sgd", "--lr", 0.5, "--batch", 1)


def psctl(*args, address):
    return ps_test.run(*args, "--coordinator", address, program=ps_test.CTL)


class Resume(ps_test.Case):
    ROWS = 20

    def setUp(self):
        super().setUp()
        self.place = f"{self.folder}/{self.id().rsplit('.', 1)[1]}"
        os.mkdir(self.place)
        self.rows = f"{self.place}/rows.libsvm"
        with open(self.rows, "w", encoding="ascii") as f:
            f.writelines(f"1 {i}:1\n" for i in range(1, N_ROWS + 1))

    def begin(self, *args, epochs=EPOCHS, workers=2, servers=2):
        return self.start(
            "--data", self.rows, *PROBE, "--epochs", epochs, "--servers", servers, "--workers",
            workers, "--data-dir", f"{self.place}/data", "--out", f"{self.place}/model", "--json",
            *args,
        )

    def address(self, running):
        return running.wait_line(r"server 0 is process \d+ at (\S+)").group(1)

    def described(self, address):
        status, stdout, stderr = psctl("status", "--json", address=address)
        self.assertEqual(status, 0, stderr)
        return json.loads(stdout)

    def wait_steps(self, address, n):
        ps_test.wait_until(f"{n} steps", lambda: self.described(address)["steps"] >= n, 60)

    def check_exact(self, running, epochs=EPOCHS):
        self.assertEqual(running.wait(120), 0, running.text())
        self.assert_exact(running.report(), epochs)
        sparse, _, _ = ps_test.read_model(f"{self.place}/model/model.safetensors")
        weights = collections.Counter(row[0] for row in sparse["linear.weight"].values())
        self.assertEqual(weights, {1 - 0.5**epochs: N_ROWS})  # At rate 0.5.

    # ---- ps-run ----------------------------------------------------------------------------

    def test_a_run_that_was_ended_goes_on_where_it_was(self):
        for sent, status in ((signal.SIGINT, 130), (signal.SIGKILL, -9)):
            with self.subTest(signal=sent):
                running = self.begin()
                self.wait_steps(self.address(running), N_ROWS // 2)
                running.process.send_signal(sent)
                self.assertEqual(running.wait(), status, running.text())
                if sent == signal.SIGINT:
                    running.wait_line("stopped: the same command goes on from here")
                again = self.begin()
                again.wait_line(r"this job (goes on in epoch|is done already)")
                self.check_exact(again)
                ps_test.shutil.rmtree(f"{self.place}/data")

    def test_a_job_that_is_done_is_said_to_be_and_judged_again(self):
        first = self.begin()
        self.check_exact(first)
        with open(f"{self.place}/model/model.safetensors", "rb") as f:
            model = f.read()
        os.unlink(f"{self.place}/model/model.safetensors")
        second = self.begin()
        self.check_exact(second)
        second.wait_line("this job is done already")
        self.assertNotIn("worker 1 is process", second.text())
        self.assertEqual(len(second.report()["memory_bytes_per_server"]), 2)  # Not as many runs.
        with open(f"{self.place}/model/model.safetensors", "rb") as f:
            self.assertEqual(f.read(), model)  # The seed in its notes, too.

    def test_another_job_in_the_same_place_is_refused(self):
        self.check_exact(self.begin())
        other = self.begin(epochs=EPOCHS + 1)
        self.assertEqual(other.wait(), 2, other.text())
        self.assertIn("epochs", other.text())

    def test_a_server_that_is_killed_is_started_again(self):
        for victim in ps_test.either((0, 1), (1,)):
            with self.subTest(server=victim):
                running = self.begin()
                self.wait_steps(self.address(running), N_ROWS // 2)
                os.kill(running.pid_of(f"server {victim}"), signal.SIGKILL)
                running.wait_line(rf"server {victim} at \S+ was killed by signal 9")
                running.wait_line(rf"server {victim} is started again: process \d+ at")
                self.check_exact(running)
                ps_test.shutil.rmtree(f"{self.place}/data")

    def test_what_contradicts_itself_is_refused_before_anything_is_started(self):
        for args, says in (
            (("--in-process", "--data-dir", f"{self.place}/d"), "one process keeps nothing"),
            (("--durability", "log"), "say --data-dir DIR"),
            (("--snapshot-every", "1s"), "say --snapshot-dir DIR or --data-dir DIR"),
        ):
            with self.subTest(args=args):
                status, stdout, stderr = ps_test.run("--data", self.rows, *PROBE, *args)
                self.assertEqual((status, stdout), (2, ""), stderr)
                self.assertIn(says, stderr)
                self.assertEqual(len(stderr.splitlines()), 1)
        self.assertFalse(os.path.exists(f"{self.place}/d"))

    # ---- Snapshots -------------------------------------------------------------------------

    def test_the_whole_job_goes_back_to_a_snapshot_and_on_from_there(self):
        epochs = 10  # It goes on while it is asked and told.
        running = self.begin("--snapshot-dir", f"{self.place}/snapshots", epochs=epochs)
        address = self.address(running)
        self.wait_steps(address, N_ROWS // 4)
        status, stdout, stderr = psctl("snapshot", "--json", address=address)
        self.assertEqual(status, 0, stderr)
        taken = json.loads(stdout)
        self.assertEqual(taken["dir"], f"{self.place}/snapshots")
        status, stdout, stderr = psctl("snapshot", "--list", address=address)
        self.assertEqual(status, 0, stderr)
        self.assertIn(taken["name"], stdout)
        status = self.described(address)
        self.assertEqual([s["name"] for s in status["snapshots"]], [taken["name"]])
        self.assertEqual(status["durability"], "log")
        self.wait_steps(address, N_ROWS // 2)
        status, stdout, stderr = psctl("restore", "--cut", taken["name"], address=address)
        self.assertEqual(status, 0, stderr)
        self.assertIn(taken["name"], stdout)
        running.wait_line(r"worker\.rejoins why=.*went back to a snapshot|worker\.rejoins")
        self.assertEqual(self.described(address)["generation"], 2)
        self.check_exact(running, epochs)

    def test_a_snapshot_that_is_not_there_is_named_and_nothing_changes(self):
        running = self.begin()
        address = self.address(running)
        self.wait_steps(address, 10)
        status, _, stderr = psctl("restore", "--cut", "000009-0000000009", address=address)
        self.assertNotEqual(status, 0)
        self.assertIn("000009-0000000009", stderr)
        self.check_exact(running)

    # ---- Daemons ---------------------------------------------------------------------------

    def serve(self, i, address, *args):
        where = (("--listen", address, "--servers", 2) if i == 0 else
                 ("--listen", "127.0.0.1:0", "--coordinator", address))
        server = self.start(*where, "--name", f"server-{i}", "--data-dir",
                            f"{self.place}/server-{i}", *args, program=ps_test.SERVER)
        server.wait_line("ready address=", stdout=True)
        return server

    def work(self, i, address, *args, workers=2):
        return self.start("--coordinator", address, "--name", f"worker-{i}", "--workers", workers,
                          "--data", self.rows, *PROBE, "--seed", 1, *args, program=ps_test.WORKER)

    def test_every_worker_names_a_server_that_is_away_and_says_when_it_is_back(self):
        address = f"127.0.0.1:{ps_test.free_port()}"
        servers = [self.serve(i, address) for i in range(2)]
        workers = [self.work(i, address, "--epochs", 1000) for i in range(2)]
        self.wait_steps(address, 10)
        servers[1].process.kill()
        named = r'server 1 \(\S+\) is unreachable since \d+ s: retrying'
        for worker in workers:
            worker.wait_line(named, 30)  # One that waits at server 0 asks the other one later.
        ps_test.wait_until("it is away", lambda: self.described(address)["away"] != [], 10)
        away = self.described(address)["away"][0]
        self.assertEqual(away["server"], 1)
        self.assertGreater(away["left_ms"], 60000)
        self.assertIn("away         server 1", psctl("status", address=address)[1])
        for worker in workers:
            lines = [line for line in worker.lines if "unreachable" in line]
            self.assertLess(len(lines), 10, worker.text())
        servers[1] = self.serve(1, address)
        for worker in workers:
            worker.wait_line(r"event=server\.back server=1", 30)
        steps = self.described(address)["steps"]
        self.wait_steps(address, steps + 10)
        for worker in workers:
            worker.process.terminate()
            self.assertEqual(worker.wait(10), 0, worker.text())

    def test_a_server_that_never_comes_back_ends_every_process_after_the_time_that_was_stated(self):
        address = f"127.0.0.1:{ps_test.free_port()}"
        servers = [self.serve(0, address, "--wait-for-server", "5s"), self.serve(1, address)]
        workers = [self.work(i, address, "--epochs", 1000) for i in range(2)]
        self.wait_steps(address, 10)
        servers[1].process.kill()
        for process in (*workers, servers[0]):
            self.assertEqual(process.wait(60), 4, process.text())
            self.assertRegex(process.text(), r"(lost|ps-worker).*server[- ]1")

    def test_a_worker_whose_step_waits_leaves_in_order_within_its_grace(self):
        address = f"127.0.0.1:{ps_test.free_port()}"
        for i in range(2):
            self.serve(i, address, *(("--silence", "60s") if i == 0 else ()))
        workers = [self.work(i, address, "--epochs", 1000, "--staleness", 0, "--grace", "3s")
                   for i in range(2)]
        self.wait_steps(address, 10)
        os.kill(workers[1].process.pid, signal.SIGSTOP)
        try:
            ps_test.wait_until("the other waits for it", lambda: self.stands(address), 20)
            workers[0].process.terminate()
            self.assertEqual(workers[0].wait(10), 0, workers[0].text())
            member = next(m for m in self.described(address)["members"]
                          if m["name"] == "worker-0")
            self.assertEqual(member["state"], "left")
        finally:
            os.kill(workers[1].process.pid, signal.SIGCONT)
        workers[1].process.terminate()
        self.assertEqual(workers[1].wait(10), 0, workers[1].text())

    def stands(self, address):
        steps = self.described(address)["steps"]
        time.sleep(0.3)
        return self.described(address)["steps"] == steps


if __name__ == "__main__":
    ps_test.main()
