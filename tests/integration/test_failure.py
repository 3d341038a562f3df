"""Processes that die, stop, or are told to end; and what is left behind: nothing."""

import json
import os
import re
import signal
import time
import unittest

import ps_test

LONG = ("--epochs", 100000, "--batch", 10)


def pids_of(running, servers, workers):
    names = [f"server {i}" for i in range(servers)] + [f"worker {i}" for i in range(workers)]
    return [running.pid_of(name) for name in names]


STOPPED_S = 60  # With PS_TEST_MATRIX=1: as long as somebody's coffee takes.


class Failure(ps_test.Case):
    def assert_nothing_left(self, pids):
        for pid in pids:
            ps_test.wait_until(f"process {pid} is gone", lambda: not ps_test.exists(pid), 3)

    def start_run(self, *args, servers=2, workers=3):
        running = self.start(
            "--data", self.data, "--json", "--servers", servers, "--workers", workers, *args
        )
        pids = pids_of(running, servers, workers)
        running.wait_line(r"epoch \d+/")
        return running, pids

    def test_a_killed_worker_is_survived_and_counted(self):
        every = (("--staleness", 2), ("--consistency", "bsp"), ("--aggregate",))
        for args in ps_test.either(every, every[1:]):
            with self.subTest(args=args):
                running, pids = self.start_run(
                    "--epochs", 20, "--batch", 10, *args, servers=2, workers=4
                )
                os.kill(pids[2 + 1], signal.SIGKILL)
                self.assertEqual(running.wait(), 0, running.text())
                running.wait_line(r"worker 1 .*signal 9")
                report = running.report()
                self.assert_exact(report, 20)
                self.assertEqual(report["sessions_lost"], 1)
                self.assert_nothing_left(pids)

    def test_a_worker_killed_before_it_joined_is_waited_for_and_no_longer(self):
        for timeout, status, says in (("2s", 0, "begins without it"), ("0", 4, "cannot begin")):
            with self.subTest(timeout=timeout):
                running = self.start(
                    "--data", self.data, "--json", "--servers", 1, "--workers", 2, "--epochs", 2,
                    "--start-timeout", timeout,
                )
                pid = int(running.wait_line(r"worker 1 is process (\d+)").group(1))
                os.kill(pid, signal.SIGKILL)
                running.wait_line(says)
                self.assertEqual(running.wait(), status, running.text())
                self.assert_nothing_left([pid])

    def test_a_killed_server_is_named_by_every_worker_and_ends_the_run(self):
        for victim in ps_test.either((0, 1), (1,)):
            with self.subTest(server=victim):
                running, pids = self.start_run(*LONG)
                address = running.wait_line(rf"server {victim} is process \d+ at (\S+)").group(1)
                os.kill(pids[victim], signal.SIGKILL)
                began = time.monotonic()
                self.assertEqual(running.wait(40), 4, running.text())
                self.assertLess(time.monotonic() - began, 15 * ps_test.SLOW)
                running.wait_line(rf"server {victim} .*signal 9")
                for worker in range(3):
                    lines = [l for l in running.lines if l.startswith(f"[worker {worker}]")]
                    named = [l for l in lines if address in l or f"server-{victim}" in l]
                    self.assertTrue(named, f"worker {worker} does not name it:\n" + running.text())
                    self.assertLess(len(lines), 20, running.text())
                self.assert_nothing_left(pids)

    def test_the_last_worker_killed_ends_the_run(self):
        running, pids = self.start_run(*LONG, servers=1, workers=1)
        os.kill(pids[1], signal.SIGKILL)
        self.assertEqual(running.wait(), 4, running.text())
        running.wait_line(r"worker 0 .*signal 9")
        self.assert_nothing_left(pids)

    def test_interrupted_it_leaves_nothing(self):
        for sent, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            running, pids = self.start_run(*LONG)
            began = time.monotonic()
            running.process.send_signal(sent)
            self.assertEqual(running.wait(), status, running.text())
            self.assertLess(time.monotonic() - began, 8 * ps_test.SLOW)
            self.assertEqual(running.stdout, "")
            self.assert_nothing_left(pids)

    def test_interrupted_in_process_it_ends(self):
        running = self.start("--data", self.data, "--in-process", *LONG)
        time.sleep(0.5)  # Nothing is said that could be waited for.
        running.process.send_signal(signal.SIGINT)
        self.assertEqual(running.wait(10), 130, running.text())

    def test_killed_it_leaves_nothing(self):
        running, pids = self.start_run(*LONG)
        running.process.kill()
        running.process.wait()
        self.assert_nothing_left(pids)

    def test_five_runs_on_fixed_ports_without_pause(self):
        port = ps_test.free_port(2)
        for i in range(ps_test.either(5, 3)):
            interrupted = i == ps_test.either(2, 1)
            epochs = LONG if interrupted else ("--epochs", 1, "--batch", 100)
            running = self.start(
                "--data", self.data, "--json", "--servers", 2, "--workers", 2,
                "--port-base", port, *epochs,
            )
            pids = pids_of(running, 2, 2)
            self.assertTrue(running.wait_line(r"server 1 .* at (\S+)").group(1).endswith(
                str(port + 1)))
            if interrupted:
                running.wait_line(r"epoch \d+/")
                running.process.send_signal(signal.SIGINT)
            self.assertEqual(running.wait(), 130 if interrupted else 0, running.text())
            self.assert_nothing_left(pids)

    def test_a_worker_that_is_told_to_end_gives_its_lease_back(self):
        running, pids = self.start_run("--epochs", 40, "--batch", 10, servers=1, workers=3)
        began = time.monotonic()
        os.kill(pids[2], signal.SIGTERM)
        ps_test.wait_until("the worker has ended", lambda: not ps_test.exists(pids[2]), 5)
        self.assertLess(time.monotonic() - began, 5 * ps_test.SLOW)
        self.assertEqual(running.wait(), 0, running.text())
        report = running.report()
        self.assert_exact(report, 40)
        self.assertEqual(report["sessions_lost"], 0)

    def test_a_worker_stopped_for_longer_than_the_silence_is_dropped_and_joins_anew(self):
        running, pids = self.start_run(*LONG, "--staleness", 2, servers=1, workers=4)
        address = running.wait_line(r"server 0 is process \d+ at (\S+)").group(1)

        def described():
            return ps_test.report_of(ps_test.run(
                "status", "--json", "--coordinator", address, program=ps_test.CTL
            )[1])

        os.kill(pids[3], signal.SIGSTOP)
        try:
            if ps_test.MATRIX:
                time.sleep(STOPPED_S)
            ps_test.wait_until("it is dropped", lambda: described()["sessions_lost"] == 1, 30)
            first = described()
            ps_test.wait_until("the others go on", lambda: described()["steps"] > first["steps"])
        finally:
            os.kill(pids[3], signal.SIGCONT)
        running.wait_line(r"\[worker 2\].*worker.rejoins", 20)
        running.process.send_signal(signal.SIGTERM)
        self.assertEqual(running.wait(), 143, running.text())

    def test_a_server_told_to_end_says_so_and_ends(self):
        server = self.start("--listen", "127.0.0.1:0", program=ps_test.SERVER)
        server.wait_line(r"ready address=", stdout=True)
        server.process.terminate()
        self.assertEqual(server.wait(5), 0, server.text())


class Ctl(ps_test.Case):
    def test_status_and_tables_of_a_running_cluster(self):
        running = self.start("--data", self.data, "--servers", 2, "--workers", 2, *LONG)
        address = running.wait_line(r"server 0 is process \d+ at (\S+)").group(1)
        running.wait_line(r"epoch \d+/")
        status, text, stderr = ps_test.run(
            "status", "--coordinator", address, program=ps_test.CTL
        )
        self.assertEqual(status, 0, stderr)
        for word in ("running", "ssp:4", "server-1", "worker-1", "softmax"):
            self.assertIn(word, text)
        status, text, stderr = ps_test.run(
            "status", "--json", "--coordinator", address, program=ps_test.CTL
        )
        members = ps_test.report_of(text)["members"]
        self.assertEqual(
            sorted(m["name"] for m in members), ["server-0", "server-1", "worker-0", "worker-1"]
        )
        status, text, stderr = ps_test.run(
            "tables", "--coordinator", address, program=ps_test.CTL
        )
        self.assertEqual(status, 0, stderr)
        self.assertRegex(text, r"softmax\.weight +64x10 +640")

    def test_nobody_there_is_exit_4(self):
        status, stdout, stderr = ps_test.run(
            "status", "--coordinator", f"127.0.0.1:{ps_test.free_port()}", "--timeout", "500ms",
            program=ps_test.CTL,
        )
        self.assertEqual((status, stdout), (4, ""))
        self.assertEqual(len(stderr.splitlines()), 1)

    def test_a_shutdown_ends_workers_after_their_step_and_then_the_servers(self):
        server = self.start("--listen", "127.0.0.1:0", "--servers", "1", program=ps_test.SERVER)
        address = server.wait_line(r"ready address=(\S+)", stdout=True)[1]
        worker = self.start("--coordinator", address, "--workers", "1", "--data", self.data,
                            "--model", "softmax", "--epochs", "100000", program=ps_test.WORKER)
        ps_test.wait_until("it trains", lambda: self.status_of(address)["steps"] > 0)
        status, stdout, stderr = ps_test.run("shutdown", "--reason", "seen enough", "--coordinator",
                                             address, program=ps_test.CTL)
        self.assertEqual((status, stdout, stderr), (0, "stopped\n", ""))
        self.assertEqual(worker.wait(), 0, worker.text())
        self.assertEqual(server.wait(), 0, server.text())
        self.assertIn("seen enough", server.text())

    def test_a_shutdown_is_for_the_cluster_that_was_meant(self):
        server = self.start("--listen", "127.0.0.1:0", "--servers", "1", program=ps_test.SERVER)
        address = server.wait_line(r"ready address=(\S+)", stdout=True)[1]
        status, stdout, stderr = ps_test.run("shutdown", "--cluster-id", "1" * 32, "--coordinator",
                                             address, program=ps_test.CTL)
        self.assertEqual((status, stdout), (2, ""), stderr)
        self.assertNotEqual(self.status_of(address)["job"], "stopped")

    def status_of(self, address):
        status, stdout, stderr = ps_test.run("status", "--coordinator", address, "--json",
                                             program=ps_test.CTL)
        self.assertEqual(status, 0, stderr)
        return json.loads(stdout)

    def test_unknown_commands_are_refused(self):
        for args in ((), ("stauts",)):
            status, _, stderr = ps_test.run(*args, program=ps_test.CTL)
            self.assertEqual(status, 2)
            self.assertIn("status", stderr)


if __name__ == "__main__":
    ps_test.main()
