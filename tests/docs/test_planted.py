#!/usr/bin/env python3
"""test_planted.py: the test of the READMEs notices what is wrong with one."""

import contextlib
import io
import os
import tempfile
import unittest
from unittest import mock

import readme
import test_readme


def sh(*lines):
    return "\n".join(["# a", "```sh", *lines, "```", ""])


class Readme(unittest.TestCase):
    """A small tree with one README in a folder, checked whole."""

    def check(self, text, build="build"):
        """([passed, failed, skipped], what was printed, names of files left in the root)."""
        with tempfile.TemporaryDirectory() as root:
            os.makedirs(f"{root}/tools")
            os.makedirs(f"{root}/build-x/bin")
            with open(f"{root}/tools/README.md", "w", encoding="utf-8") as stream:
                stream.write(text)
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                counts = test_readme.check(root, os.path.join(root, build))
            return counts, out.getvalue(), sorted(os.listdir(root))

    def test_a_command_that_works_passes_and_runs_once_from_the_root(self):
        once = "test -d tools && mkdir made"
        counts, _, left = self.check(sh(once, once))
        self.assertEqual(counts, [2, 0, 0])
        self.assertIn("made", left)

    def test_a_command_that_fails_is_named_with_its_output(self):
        counts, out, _ = self.check(sh("echo words; exit 3"))
        self.assertEqual(counts, [1, 1, 0])
        self.assertIn("tools/README.md: echo words; exit 3: ended with 3:\n    words", out)

    def test_a_command_that_does_not_end_is_ended(self):
        with mock.patch.object(test_readme, "LIMIT_S", 0.05):
            counts, out, _ = self.check(sh("cat <(tail -f /dev/null)"))
        self.assertEqual(counts, [1, 1, 0])
        self.assertIn("did not end", out)

    def test_build_means_the_build_under_test(self):
        counts, _, left = self.check(sh("touch build/bin/here", "ls build/bin/here"), "build-x")
        self.assertEqual(counts, [3, 0, 0])
        self.assertNotIn("build", left)

    def test_a_script_that_would_run_the_tests_again_is_looked_at(self):
        counts, out, _ = self.check(sh("PS_TEST_SEED=7 A='b c' tools/demo"))
        self.assertEqual(counts, [1, 1, 0])
        self.assertIn("tools/demo: is not there", out)

    def test_what_is_not_installed_is_skipped_with_a_reason(self):
        with mock.patch.object(test_readme, "NEEDS", [("false", lambda: False, "no such thing")]):
            counts, out, _ = self.check(sh("false"))
        self.assertEqual(counts, [1, 0, 1])
        self.assertIn("skipped: false: no such thing", out)

    def test_a_dead_link_and_a_block_of_another_name_are_found(self):
        counts, out, _ = self.check("[a](../tools/README.md#x) [b](https://a.b/c) [c](#d)\n")
        self.assertEqual((counts, out), ([1, 0, 0], ""))
        counts, out, _ = self.check("a [b](gone.md)\n```bash\nfalse\n```\n")
        self.assertEqual(counts, [0, 1, 0])
        self.assertIn("tools/README.md:1: gone.md is not there", out)
        self.assertIn("tools/README.md:2: ```bash", out)

    def test_comments_are_dropped_and_lines_joined(self):
        text = sh("a 'b#c' # words", "", "# only words", "one \\", "    two --three", "last")
        text += "```text\nnot run\n```\n```\nnor this\n```\n" + sh("again")
        self.assertEqual(readme.commands(text), ["a 'b#c'", "one two --three", "last", "again"])


if __name__ == "__main__":
    unittest.main()
