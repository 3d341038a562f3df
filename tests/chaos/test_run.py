"""tests/chaos/run counts what rigs say, and fails what shows nothing."""

import importlib.machinery
import importlib.util
import os
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.abspath(__file__))


def load():
    loader = importlib.machinery.SourceFileLoader("chaos_run", os.path.join(HERE, "run"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("chaos_run", loader))
    loader.exec_module(module)
    return module


run = load()


def said(faults, acked, passed=1, failed=0):
    return (f"faults: {faults}; {acked} pushes acknowledged\n"
            f"{passed} passed, {failed} failed, 0 skipped\n")


class CountsTest(unittest.TestCase):
    def setUp(self):
        self.totals = run.Totals()
        patch = mock.patch("builtins.print")
        patch.start()
        self.addCleanup(patch.stop)

    def test_a_good_round_is_counted(self):
        self.assertEqual(self.totals.add("kill", 7, 0, said("3 kill, 1 pause", 5000)), 0)
        self.assertEqual(self.totals.add("kill", 8, 0, said("2 kill", 4000)), 0)
        self.assertEqual(self.totals.faults, {"kill": 5, "pause": 1})
        self.assertEqual(self.totals.acked, 9000)
        self.assertIsNone(self.totals.first_bad)

    def test_the_simulator_counts_as_check_does(self):
        self.totals.add("sim", 7, 0, "50%: Checks: 2, Failures: 1, Errors: 0\n")
        self.assertEqual(self.totals.tests, {"passed": 1, "failed": 1})

    def test_the_first_seed_that_failed_is_told(self):
        self.totals.add("kill", 7, 0, said("3 kill", 5000))
        self.totals.add("powercut", 8, 1, said("3 cut", 5000, 0, 1))
        self.totals.add("disk", 9, 1, said("3 full", 5000, 0, 1))
        self.assertEqual(self.totals.first_bad, "powercut, seed 8")

    def test_a_round_in_which_no_fault_fired_has_failed(self):
        for rig in ("kill", "probe", "snapshots", "disk", "powercut"):
            totals = run.Totals()
            self.assertNotEqual(totals.add(rig, 7, 0, said("none", 5000)), 0)
            self.assertEqual(totals.first_bad, f"{rig}, seed 7")

    def test_a_round_with_few_pushes_has_failed(self):
        self.assertNotEqual(self.totals.add("kill", 7, 0, said("3 kill", 10)), 0)
        self.assertEqual(self.totals.first_bad, "kill, seed 7")

    def test_what_a_machine_cannot_do_is_no_failure(self):
        text = "skipped: mounting needs root\n0 passed, 0 failed, 2 skipped\n"
        self.assertEqual(self.totals.add("powercut", 7, 77, text), 77)
        self.assertIsNone(self.totals.first_bad)
        self.assertEqual(self.totals.skipped, {"mounting needs root"})


if __name__ == "__main__":
    unittest.main()
