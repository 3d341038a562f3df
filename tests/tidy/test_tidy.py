#!/usr/bin/env python3
"""test_tidy.py: each rule of tidy.py finds what is planted for it, and a clean tree passes.

A small tree is written to a temporary folder; each test breaks one thing in it and expects exactly
the rule that is meant for it to speak, and all others to stay silent.
"""

import contextlib
import io
import os
import subprocess
import sys
import tempfile
import unittest

import layers
import tidy

HEADER = """#ifndef {guard}
#define {guard}
/*
 * {name} — a part of the small tree.
 */
{includes}
int {symbol}(int n);

#endif
"""
SOURCE = """/* {name} — see the header. */
{includes}
int {symbol}(int n)
{{
    return n + 1;
}}
"""


def header(path, *includes):
    return HEADER.format(guard=tidy.guard_of(path), name=os.path.basename(path),
                         includes="".join(f'#include "{i}"\n' for i in includes),
                         symbol=symbol(path))


def source(path, *includes):
    return SOURCE.format(name=os.path.basename(path), symbol=symbol(path),
                         includes="".join(f'#include "{i}"\n' for i in includes))


def symbol(path):
    return "ps_" + os.path.basename(path).split(".")[0]


CLEAN = {
    "meson.build": "project('small', 'c')\n",
    "common/base/list.h": header("common/base/list.h"),
    "common/base/list.c": source("common/base/list.c", "base/list.h"),
    "common/base/meson.build": "files('list.c')\n",
    "common/base/README.md": "# base\n",
    "common/os/file.h": header("common/os/file.h", "base/list.h"),
    "common/os/file.c": source("common/os/file.c", "os/file.h").replace(
        "int ps", "#include <uv.h>\n\nint ps"),
    "common/os/meson.build": "files(\n  'file.c',\n)\n",
    "common/os/README.md": "# os\n",
    "server/gate/gate_core.h": header("server/gate/gate_core.h", "base/list.h"),
    "server/gate/gate_core.c": source("server/gate/gate_core.c", "gate/gate_core.h"),
    "server/gate/meson.build": "files('gate_core.c')\n",
    "server/gate/README.md": "# gate\n",
    "server/server_main.c": source("server/server_main.c", "gate/gate_core.h", "os/file.h"),
    "server/meson.build": "files('server_main.c')\n",
    "server/README.md": "# server\n",
    "tests/README.md": "# tests\n",
    "tests/unit/gate/test_gate.c": "/* test_gate.c — tests. */\n#include <check.h>\n",
    "tests/unit/gate/meson.build":
        "exe = files('test_gate.c')\ntest('gate', exe,\n  suite: 'unit')\n",
}


class Tidy(unittest.TestCase):
    """A clean tree in a temporary folder, and ways to break it."""

    def setUp(self):
        # pylint: disable=consider-using-with
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = self.folder.name
        for path, text in CLEAN.items():
            self.write(path, text)

    def write(self, path, text):
        full = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as stream:
            stream.write(text)

    def add(self, path, text):
        """Append to a file of the clean tree."""
        self.write(path, CLEAN[path] + text)

    def broken(self):
        """{name of a broken rule: its findings}."""
        tree = tidy.Tree(self.root)
        return {rule.__name__: found for rule in tidy.RULES if (found := rule(tree))}

    def expect(self, rule, *words, also=()):
        """Only `rule` (and `also`) is broken, and its findings have all `words`."""
        broken = self.broken()
        self.assertEqual(set(broken), {rule, *also}, broken)
        for word in words:
            self.assertIn(word, "\n".join(broken[rule]))

    def run_tool(self, *arguments):
        return subprocess.run([sys.executable, tidy.__file__, self.root, *arguments],
                              capture_output=True, text=True, check=False)


class Layers(Tidy):
    def test_a_clean_tree_passes(self):
        self.assertEqual(self.broken(), {})
        done = self.run_tool()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn(f"{len(tidy.RULES)} passed, 0 failed", done.stdout)

    def test_a_broken_tree_ends_with_1_and_says_where(self):
        self.add("common/base/list.c", '#include "os/file.h"\n')
        done = self.run_tool()
        self.assertEqual(done.returncode, 1)
        self.assertIn("common/base may not include common/os (os/file.h)", done.stdout)

    def test_an_include_upwards_is_found(self):
        self.add("common/base/list.c", '#include "os/file.h"\n')
        self.expect("rule_layers", "common/base/list.c", "common/os", also=["rule_no_circle"])

    def test_an_include_sideways_is_found(self):
        self.write("server/optim/sgd.h", header("server/optim/sgd.h", "gate/gate_core.h"))
        self.write("server/optim/README.md", "# optim\n")
        self.expect("rule_layers", "server/optim/sgd.h", "server/gate")

    def test_an_include_of_a_composition_root_is_found(self):
        self.write("server/server.h", header("server/server.h"))
        self.add("common/os/file.c", '#include "server.h"\n')
        self.expect("rule_layers", "common/os may not include server ", also=["rule_no_circle"])

    def test_an_include_of_the_tests_is_found(self):
        self.write("tests/lib/chance.h", header("tests/lib/chance.h"))
        self.add("server/server_main.c", '#include "lib/chance.h"\n')
        self.expect("rule_layers", "lib/chance.h")

    def test_the_training_loop_sees_of_the_cluster_what_any_program_sees(self):
        self.write("worker/train/README.md", "# train\n")
        self.write("worker/client/include/ps/client.h", header("worker/client/include/ps/client.h"))
        for path in ("worker/client/session.h", "common/port/exec.h", "common/port/disk.h"):
            self.write(path, header(path))
            self.write(os.path.dirname(path) + "/README.md", "# part\n")
        allowed = '#include <ps/client.h>\n#include "port/disk.h"\n'
        self.write("worker/train/loop.h", header("worker/train/loop.h") + allowed)
        self.assertEqual(self.broken(), {})
        for name in ("client/session.h", "port/exec.h", "coordinator.pb-c.h"):
            text = header("worker/train/loop.h") + f'#include "{name}"\n'
            self.write("worker/train/loop.h", text)
            self.expect("rule_layers", "worker/train may not include", name)

    def test_an_include_not_written_from_its_root_is_found(self):
        self.add("server/gate/gate_core.c", '#include "gate_core.h"\n')
        self.expect("rule_layers", "gate_core.h")

    def test_a_comment_is_no_include(self):
        self.add("common/base/list.c", '/*\n#include "os/file.h"\n*/\n// #include "os/file.h"\n')
        self.assertEqual(self.broken(), {})

    def test_a_folder_missing_from_the_table_is_found(self):
        for folder in ("server/cache", "common/misc", "worker/extra"):
            path = f"{folder}/thing.h"
            self.write(path, header(path))
            self.expect("rule_table", folder)
            os.remove(os.path.join(self.root, path))

    def test_a_circle_of_headers_is_found(self):
        self.write("common/base/ring.h", header("common/base/ring.h", "base/list.h"))
        self.write("common/base/list.h", header("common/base/list.h", "base/ring.h"))
        self.expect("rule_no_circle", "common/base/list.h -> common/base/ring.h")

    def test_a_circle_in_the_table_is_found(self):
        before = layers.LAYERS["common/base"]
        self.addCleanup(layers.LAYERS.__setitem__, "common/base", before)
        layers.LAYERS["common/base"] = ["os"]
        self.expect("rule_no_circle", "common/base -> common/os")

    def test_a_circle_of_folders_is_found_even_when_the_table_allows_both_ways(self):
        before = layers.LAYERS["common/base"]
        self.addCleanup(layers.LAYERS.__setitem__, "common/base", before)
        layers.LAYERS["common/base"] = ["os"]
        self.add("common/base/list.c", '#include "os/file.h"\n')
        self.expect("rule_no_circle", "common/base -> common/os -> common/base")

    def test_a_core_that_knows_threads_or_the_heap_is_found(self):
        self.write("common/base/mem.h", header("common/base/mem.h"))
        for include in ("<pthread.h>", "<time.h>", "<sys/socket.h>", '"base/mem.h"'):
            self.add("server/gate/gate_core.c", f"#include {include}\n")
            self.expect("rule_cores", include[1:-1])

    def test_a_core_that_its_folder_would_allow_more_is_found(self):
        self.write("common/port/exec.h", header("common/port/exec.h"))
        self.write("common/port/README.md", "# port\n")
        self.write("server/coord/clock_core.h",
                   header("server/coord/clock_core.h", "port/exec.h"))
        self.write("server/coord/README.md", "# coord\n")
        self.expect("rule_cores", "server/coord/clock_core.h", "port/exec.h")

    def test_a_foreign_library_outside_its_folder_is_found(self):
        for name in ("grpc/grpc.h", "uv.h", "cblas.h", "check.h"):
            self.add("server/server_main.c", f"#include <{name}>\n")
            self.expect("rule_foreign", name)


class Calls(Tidy):
    def test_a_banned_call_is_found(self):
        for call in ("strcpy(a, b)", "getenv(a)", "malloc(3)", "sleep(1)", "time(0)", "exit(1)",
                     "system (a)", "atoi(a)", "free(a)"):
            self.write("server/gate/gate_core.c",
                       CLEAN["server/gate/gate_core.c"].replace("n + 1", call))
            self.expect("rule_banned", "server/gate/gate_core.c:", call.split("(")[0].strip())

    def test_words_in_comments_strings_and_longer_names_are_no_calls(self):
        self.write("server/gate/gate_core.c", CLEAN["server/gate/gate_core.c"].replace(
            "n + 1", 'ps_exit(n) + op->exit(n) + op.free(n) /* malloc(3) */ + is("rand()\\"")'))
        self.assertEqual(self.broken(), {})

    def test_a_call_is_allowed_where_its_reason_lives(self):
        self.write("common/os/file.c", CLEAN["common/os/file.c"].replace(
            "n + 1", "clock_gettime(n)"))
        self.assertEqual(self.broken(), {})

    def test_a_program_may_exit_from_main(self):
        self.write("server/server_main.c", CLEAN["server/server_main.c"].replace(
            "int ps_server_main(int n)", "int main(void)").replace("return n + 1", "exit(2)"))
        self.assertEqual(self.broken(), {})

    def test_unfinished_business_is_found(self):
        for mark in ("TO" + "DO: later", "FIX" + "ME", "/wo" + "rk/main is where", "/ho" + "me/x"):
            self.add("common/base/README.md", mark + "\n")
            self.expect("rule_words", mark[:4])

    def test_a_typedef_of_a_struct_is_found(self):
        self.add("common/base/list.c", "typedef struct ring ring;\ntypedef void (*call)(int);\n")
        self.expect("rule_typedef", "typedef")


class Shape(Tidy):
    def body(self, n_lines):
        return "\nint ps_long(int n)\n{\n" + "    n++;\n" * n_lines + "}\n"

    def test_a_function_may_have_70_lines_and_not_71(self):
        self.add("common/base/list.c", self.body(layers.FUNCTION_LINES_MAX))
        self.assertEqual(self.broken(), {})
        self.add("common/base/list.c", self.body(layers.FUNCTION_LINES_MAX + 1))
        self.expect("rule_sizes", "ps_long has 71 lines")

    def test_a_file_that_is_too_long_is_found(self):
        self.add("common/base/list.c", "\n" * layers.FILE_LINES_MAX)
        self.expect("rule_sizes", "lines, the end is 800")

    def test_the_longest_are_named(self):
        self.add("common/base/list.c", self.body(33))
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            tidy.report_longest(tidy.Tree(self.root))
        self.assertIn("33  ps_long  common/base/list.c", out.getvalue())

    def test_a_wrong_guard_is_found(self):
        self.write("common/base/list.h", CLEAN["common/base/list.h"].replace("BASE", "BASIS"))
        self.expect("rule_headers", "PS_COMMON_BASE_LIST_H")

    def test_a_public_header_is_guarded_by_its_public_name(self):
        self.assertEqual(tidy.guard_of("common/include/ps/status.h"), "PS_STATUS_H")

    def test_a_header_that_does_not_say_what_it_is_for_is_found(self):
        lines = CLEAN["common/base/list.h"].split("\n")
        self.write("common/base/list.h", "\n".join(lines[:2] + lines[5:]))
        self.expect("rule_headers", "what it is for")

    def test_a_source_without_a_first_comment_is_found(self):
        self.write("common/base/list.c", CLEAN["common/base/list.c"].split("\n", 1)[1])
        self.expect("rule_first_comment", "common/base/list.c")

    def test_wide_lines_tabs_and_blanks_at_the_end_are_found(self):
        for line in ("int x; //" + "-" * 100, "\tint x;", "int x; "):
            self.add("common/base/list.c", line + "\n")
            self.expect("rule_lines", "common/base/list.c")


class Build(Tidy):
    def test_a_source_that_is_never_built_is_found(self):
        self.write("common/base/lost.c", source("common/base/lost.c"))
        self.expect("rule_built", "common/base/lost.c")

    def test_a_source_named_by_a_loop_is_built(self):
        self.write("common/base/ring.c", source("common/base/ring.c"))
        self.write("common/base/meson.build",
                   "files('list.c')\nforeach n : ['ring']\n  files(n + '.c')\nendforeach\n")
        self.assertEqual(self.broken(), {})

    def test_a_python_test_that_is_never_run_is_found(self):
        self.write("tests/integration/test_end.py", '"""Nothing."""\n')
        self.expect("rule_built", "tests/integration/test_end.py")

    def test_a_test_in_no_suite_is_found(self):
        self.write("tests/unit/gate/meson.build", "exe = files('test_gate.c')\ntest('gate', exe)\n")
        self.expect("rule_suites", "tests/unit/gate/meson.build:2")

    def test_a_folder_without_a_readme_is_found(self):
        os.remove(os.path.join(self.root, "server/gate/README.md"))
        self.expect("rule_readmes", "server/gate")


class Headers(Tidy):
    def test_headers_that_compile_alone_and_twice_pass(self):
        done = self.run_tool("--headers", "cc")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("3 passed, 0 failed", done.stdout)

    def test_a_header_that_needs_another_is_found(self):
        self.write("common/os/file.h", CLEAN["common/os/file.h"].replace("int n", "size_t n"))
        done = self.run_tool("--headers", "cc")
        self.assertEqual(done.returncode, 1)
        self.assertIn("common/os/file.h does not compile", done.stdout)


if __name__ == "__main__":
    unittest.main()
