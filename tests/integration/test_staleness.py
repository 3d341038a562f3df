"""One worker slowed from outside: how far apart do the others get, and is it reported?"""

import os
import signal
import threading
import time
import unittest

import ps_test


EPOCHS = ps_test.either(8, 2)


class Slowed:
    """Let a process run for a third of the time only."""

    def __init__(self, pid, on=0.03, off=0.06):
        self.pid = pid
        self.on = on
        self.off = off
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self):
        while not self.stop.is_set() and ps_test.exists(self.pid):
            try:
                os.kill(self.pid, signal.SIGSTOP)
                time.sleep(self.off)
                os.kill(self.pid, signal.SIGCONT)
            except ProcessLookupError:
                return
            time.sleep(self.on)

    def end(self):
        self.stop.set()
        self.thread.join()


class Staleness(ps_test.Case):
    ROWS = 4000

    def slowed_run(self, *args):
        running = self.start(
            "--data", self.data, "--json", "--servers", 2, "--workers", 4, "--epochs", EPOCHS,
            "--batch", 20, *args,
        )
        slowed = Slowed(running.pid_of("worker 3"))
        try:
            self.assertEqual(running.wait(100), 0, running.text())
        finally:
            slowed.end()
        report = running.report()
        self.assert_exact(report, EPOCHS)
        return report

    def test_ssp_reaches_its_bound_and_says_that_others_waited(self):
        report = self.slowed_run("--consistency", "ssp:4")
        self.assertEqual(report["staleness_bound"], 4)
        self.assertEqual(report["staleness_max"], 4)
        self.assertGreater(report["blocked_fraction"], 0)

    def test_asp_has_no_bound(self):
        report = self.slowed_run("--consistency", "asp")
        self.assertGreater(report["staleness_max"], 4)
        self.assertNotIn("staleness_bound", report)

    def test_bsp_has_no_staleness(self):
        report = self.slowed_run("--consistency", "bsp")
        self.assertEqual(report["staleness_max"], 0)


if __name__ == "__main__":
    ps_test.main()
