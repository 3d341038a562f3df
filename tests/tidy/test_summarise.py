#!/usr/bin/env python3
"""test_summarise.py: the closing line counts what was run, whatever ran it, and hides nothing."""

import contextlib
import io
import json
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

import summarise  # pylint: disable=wrong-import-position

CHECK = "Running suite(s): a\n95%: Checks: 20, Failures: 1, Errors: 0\n"
UNITTEST = "..\n" + "-" * 70 + "\nRan 7 tests in 0.1s\n\nFAILED (failures=1, errors=1, skipped=2)\n"


class Summary(unittest.TestCase):
    """Logs as meson writes them, and what is printed about them."""

    def summary(self, *tests):
        """(exit status, lines printed) for a log with these entries."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "testlog.json")
            with open(path, "w", encoding="utf-8") as stream:
                stream.writelines(json.dumps(test) + "\n" for test in tests)
            return self.run_main(path)

    def run_main(self, *arguments):
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            status = summarise.main(list(arguments))
        return status, out.getvalue().strip().split("\n")

    def test_tests_of_check_and_of_python_are_counted_not_executables(self):
        status, lines = self.summary(
            {"name": "a", "result": "FAIL", "stdout": CHECK},
            {"name": "b", "result": "FAIL", "stderr": UNITTEST},
            {"name": "c", "result": "OK", "stdout": "16 passed, 0 failed, 1 skipped\n"},
            {"name": "d", "result": "OK", "stdout": "nothing known"})
        self.assertEqual(status, 1)
        self.assertEqual(lines[-1], "39 passed, 3 failed, 3 skipped")

    def test_all_good_ends_with_0(self):
        status, lines = self.summary({"name": "a", "result": "OK",
                                      "stdout": "100%: Checks: 20, Failures: 0, Errors: 0\n"})
        self.assertEqual((status, lines[-1]), (0, "20 passed, 0 failed, 0 skipped"))

    def test_a_crash_after_the_last_good_test_is_a_failure(self):
        status, lines = self.summary({"name": "a", "result": "FAIL", "stdout":
                                      "100%: Checks: 20, Failures: 0, Errors: 0\nleak!\n"})
        self.assertEqual((status, lines[-1]), (1, "20 passed, 1 failed, 0 skipped"))

    def test_a_timeout_without_output_is_a_failure(self):
        status, lines = self.summary({"name": "a", "result": "TIMEOUT", "stdout": ""})
        self.assertEqual((status, lines[-1]), (1, "0 passed, 1 failed, 0 skipped"))

    def test_a_skip_says_why(self):
        _, lines = self.summary({"name": "a", "result": "SKIP", "stdout": "skipped: no network\n"},
                                {"name": "b", "result": "OK", "stdout": "x"})
        self.assertIn("skipped: a: no network", lines)
        self.assertEqual(lines[-1], "1 passed, 0 failed, 1 skipped")

    def test_no_test_at_all_is_a_failure(self):
        self.assertEqual(self.summary()[0], 1)

    def test_a_missing_log_is_a_failure(self):
        self.assertEqual(self.run_main("/nonexistent/testlog.json")[0], 1)

    def test_a_command_can_be_added(self):
        with tempfile.TemporaryDirectory() as folder:
            log, output = os.path.join(folder, "log"), os.path.join(folder, "output")
            with open(output, "w", encoding="utf-8") as stream:
                stream.write("3 passed, 0 failed, 0 skipped\n")
            self.run_main("--add", log, "one", "0", output)
            self.run_main("--add", log, "two", "1", output)
            status, lines = self.run_main(log)
        self.assertEqual((status, lines[-1]), (1, "6 passed, 1 failed, 0 skipped"))


if __name__ == "__main__":
    unittest.main()
