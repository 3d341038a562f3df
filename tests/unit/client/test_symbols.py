#!/usr/bin/env python3
"""test_symbols.py LIBRARY: what the shared library shows to others, and what it needs of them."""

import re
import subprocess
import sys
import unittest

LIBRARY = sys.argv.pop(1)
HEADERS = sys.argv[1:]
del sys.argv[1:]


def lines(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def promised():
    """The functions that the public headers declare."""
    names = set()
    for path in HEADERS:
        with open(path, encoding="utf-8") as stream:
            text = re.sub(r"/\*.*?\*/", "", stream.read(), flags=re.S)
        names |= set(re.findall(r"PS_API[^;(]*?\b(ps_\w+)\s*\(", text))
    return names


class Symbols(unittest.TestCase):
    def test_exactly_the_functions_of_the_headers_are_exported(self):
        shown = {line.split()[-1] for line in lines("nm", "-D", "--defined-only", LIBRARY)}
        self.assertIn("ps_client_open", shown)
        self.assertEqual(shown, promised())

    def test_it_is_called_by_its_version_and_needs_no_library_that_it_does_not_use(self):
        wanted = ("(NEEDED)", "(SONAME)")
        dynamic = "\n".join(line for line in lines("readelf", "-d", LIBRARY)
                            if any(word in line for word in wanted))
        self.assertIn("soname: [libpsclient.so.0]", dynamic)
        for foreign in ("openblas", "libuv", "cjson", "libz"):
            self.assertNotIn(foreign, dynamic)


if __name__ == "__main__":
    unittest.main()
