"""The rig itself: does it notice what tests leave behind, and what a sanitizer says?"""

import os
import subprocess
import unittest

import ps_test


class Orphan(ps_test.Case):
    ROWS = 10
    PATIENCE_S = 0.2

    def runTest(self):
        self.process = subprocess.Popen(["sh", "-c", "sleep 60 & sleep 60"])
        if self.fails:
            self.fail("for another reason")


class Says(ps_test.Case):
    ROWS = 10

    def runTest(self):
        running = self.start("-c", f"echo '{self.text}' >&2", program="/bin/sh")
        self.assertEqual(running.wait(), 0)


class Rig(unittest.TestCase):
    def failures_of(self, kind, **attributes):
        case = kind()
        case.id = lambda: "planted"  # Not the tag of this test.
        for name, value in attributes.items():
            setattr(case, name, value)
        result = unittest.TestResult()
        unittest.TestSuite([case]).run(result)
        self.assertEqual(result.errors, [])
        return case, [text for _, text in result.failures]

    def test_a_process_left_behind_fails_its_test_and_is_gone(self):
        for fails in (False, True):
            with self.subTest(fails=fails):
                case, failures = self.failures_of(Orphan, fails=fails)
                self.assertEqual(len(failures), 1 + fails, failures)
                self.assertIn("left behind", failures[-1])
                self.assertEqual(case.process.wait(5), -9)
                tag = f"{os.getpid()}-planted"
                ps_test.wait_until("all are gone", lambda: not ps_test.tagged(tag))

    def test_what_a_sanitizer_says_fails_the_test(self):
        self.assertEqual(self.failures_of(Says, text="all is well")[1], [])
        _, failures = self.failures_of(Says, text="[server 0] WARNING: ThreadSanitizer: data race")
        self.assertEqual(len(failures), 1)


# Run by Rig only.
def load_tests(loader, _tests, _pattern):
    return loader.loadTestsFromTestCase(Rig)


if __name__ == "__main__":
    ps_test.main()
