#!/usr/bin/env python3
"""test_install.py: what is installed suffices: programs outside this tree build, link and run."""

import contextlib
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import tempfile
import unittest

import installed
import ps_test
import readme

PATIENCE_S = 120


def setUpModule():
    global prefix, made, folder
    folder = tempfile.mkdtemp(prefix="ps-install-")
    unittest.addModuleCleanup(shutil.rmtree, folder, ignore_errors=True)
    os.mkdir(f"{folder}/prefix")
    os.mkdir(f"{folder}/made")
    prefix = installed.Prefix(f"{folder}/prefix")
    made = Made()


class Made:
    """The programs, each built when it is first asked for."""

    def __init__(self):
        self.done = {}

    def variants(self):
        """[(compiler, standard)] that can be had here."""
        return [(name, standard) for standard in installed.STANDARDS
                for name in installed.COMPILERS if installed.compiler(name, standard)]

    def program(self, source, name=installed.COMPILER, standard="c99", static=False):
        key = (source, name, standard, static)
        if key not in self.done:
            out = f"{folder}/made/{source}-{name}-{standard}{'-static' if static else ''}"
            self.done[key] = installed.build(prefix, source, name, standard, out, static)
        return self.done[key]


class Headers(unittest.TestCase):
    def check(self, name, standard, text):
        language = installed.LANGUAGES[standard]
        flags = ["-x", language, f"-std={standard}", *installed.WARNINGS, "-pedantic-errors",
                 "-Wsign-conversion", "-fsyntax-only"]
        installed.command(installed.compiler(name, standard), *flags,
                          *prefix.pkg_config("--cflags").split(), "-", stdin=text)

    def test_each_header_compiles_alone_and_twice(self):
        for name in installed.COMPILERS:
            for standard in installed.LANGUAGES:
                with self.subTest(compiler=name, standard=standard):
                    if not installed.compiler(name, standard):
                        self.skipTest(f"{name} for {standard} is not installed")
                    for header in installed.HEADERS:
                        self.check(name, standard, f"#include <{header}>\n" * 2)

    def test_nothing_but_the_public_headers_is_installed(self):
        found = [os.path.relpath(os.path.join(at, name), prefix.include)
                 for at, _, names in os.walk(prefix.include) for name in names]
        self.assertEqual(sorted(found), sorted(installed.HEADERS))

    def test_each_function_has_a_comment_and_is_called_by_a_program(self):
        n = 0
        for header in installed.HEADERS:
            text = installed.read(os.path.join(prefix.include, header))
            self.assertEqual(installed.undocumented(text), [], f"{header}: without a comment")
            unused = [f for f in installed.functions(text) if not installed.uses(f)]
            self.assertEqual(unused, [], f"{header}: called by no program here")
            n += len(installed.functions(text))
        self.assertGreater(n, 20, "the declarations were not found")

    def test_a_function_without_a_comment_is_noticed(self):
        text = ("#define PS_X(a) ps_x(a);\n/** Two\n * lines. */\nint ps_a(void);\nPS_API int\n"
                "ps_b(int b);\n\nstruct ps_s {\n    int x; /* A ps_no(x); */\n};\n"
                "int ps_c(int a,\n         int b);\n/* Not one for readers. */\nint ps_d(void);\n")
        self.assertEqual(list(installed.functions(text)), ["ps_a", "ps_b", "ps_c", "ps_d"])
        self.assertEqual(installed.undocumented(text), ["ps_c", "ps_d"])
        self.assertEqual(installed.uses("ps_client_never"), [])


class Library(unittest.TestCase):
    def setUp(self):
        self.library = os.path.join(prefix.lib, "libpsclient.so")

    def test_it_exports_what_the_headers_declare_and_nothing_else(self):
        declared = [f for header in installed.HEADERS
                    for f in installed.functions(installed.read(f"{prefix.include}/{header}"))]
        exported = installed.exported(self.library)
        self.assertEqual([name for name in exported if not name.startswith("ps_")], [])
        self.assertEqual(exported, sorted(declared))

    def test_its_name_has_a_version_and_links_lead_to_it(self):
        (soname,) = installed.dynamic(self.library, "SONAME")
        self.assertRegex(soname, r"^libpsclient\.so\.\d+$")
        self.assertTrue(os.path.samefile(self.library, os.path.join(prefix.lib, soname)))
        self.assertTrue(os.path.islink(self.library))

    def test_it_is_looked_for_nowhere_special(self):
        for path in [self.library, *map(prefix.program, ("ps-datagen", "ps-run", "ps-server",
                                                         "ps-worker", "psctl"))]:
            with self.subTest(path=path):
                for tag in ("RPATH", "RUNPATH"):
                    self.assertEqual(installed.dynamic(path, tag), [])

    def test_it_needs_no_other_part_of_the_project(self):
        needed = installed.dynamic(self.library, "NEEDED")
        self.assertEqual([name for name in needed if name.startswith("libps")], [])
        self.assertTrue([name for name in needed if name.startswith("libgrpc.")], needed)

    def test_a_program_names_this_library_only(self):
        self.assertEqual(installed.libraries(prefix.flags()), ["psclient"])
        if installed.SANITIZE != "none":
            return  # Its runtime needs more.
        for path in map(made.program, installed.PROGRAMS):
            self.assertEqual([name for name in installed.dynamic(path, "NEEDED")
                              if not re.match(r"lib(c|m|psclient)\.so", name)], [], path)

    def test_description_and_programs_agree_on_the_version(self):
        version = prefix.pkg_config("--modversion").strip()
        shown = installed.command(prefix.program("psctl"), "--version")
        self.assertIn(version, shown)


class Build(unittest.TestCase):
    def test_each_program_builds_with_each_compiler_in_each_language(self):
        for source in installed.PROGRAMS:
            for standard in installed.STANDARDS:
                for name in installed.COMPILERS:
                    with self.subTest(source=source, compiler=name, standard=standard):
                        if not installed.compiler(name, standard):
                            self.skipTest(f"{name} for {standard} is not installed")
                        made.program(source, name, standard)

    def test_each_program_builds_with_the_flags_for_static_linking(self):
        for source in installed.PROGRAMS:
            with self.subTest(source=source):
                made.program(source, static=True)

    def test_push_and_pull_fit_on_one_screen(self):
        text = installed.read(os.path.join(installed.HERE, "push_pull.c"))
        self.assertLessEqual(text.count("\n"), 60)


class Cluster(ps_test.Case):
    """Servers, programs: all from the installation."""

    ROWS = 300

    def setUp(self):
        super().setUp()
        self.env = prefix.environment()

    def start_servers(self, n=1, *flags):
        """Address of the coordinator, and the servers."""
        servers = [self.start("--listen", "127.0.0.1:0", "--servers", n, "--name", "server-0",
                              *flags, program=prefix.program("ps-server"))]
        address = self.address_of(servers[0])
        for i in range(1, n):
            servers.append(self.start("--listen", "127.0.0.1:0", "--coordinator", address,
                                      "--name", f"server-{i}", *flags,
                                      program=prefix.program("ps-server")))
            self.address_of(servers[i])
        return address, servers

    def address_of(self, server):
        return server.wait_line(r"^ready address=(\S+)", stdout=True, timeout=PATIENCE_S)[1]

    def start_program(self, name, *args):
        return self.start(*args, program=made.program(name), env=self.env)

    def run_program(self, name, *args, path=None):
        """(exit status, stdout, stderr)"""
        done = ps_test.run(*args, program=path or made.program(name), env=self.env,
                           timeout=PATIENCE_S)
        self.assertNotIn("Sanitizer", done[2])
        return done

    def status(self, address):
        status, stdout, stderr = ps_test.run("status", "--coordinator", address, "--json",
                                             program=prefix.program("psctl"))
        self.assertEqual(status, 0, stderr)
        return json.loads(stdout)

    def members(self, address):
        return self.status(address)["members"]

    def assert_failed(self, name, done):
        """It ended with 1 and one clear line."""
        status, stdout, stderr = done
        self.assertEqual(status, 1, (stdout, stderr))
        self.assertRegex(stderr, rf"^{name}: [^\n]+\n$")
        return stderr


class Runs(Cluster):
    def test_push_pull_prints_what_all_pushes_made_of_the_weights(self):
        address, _ = self.start_servers(2)
        n = 0
        for name, standard in made.variants():
            if not installed.can_link(name):
                continue
            path = made.program("push_pull", name, standard)
            status, stdout, stderr = self.run_program("push_pull", address, path=path)
            n += 1
            self.assertEqual((status, stderr), (0, ""))
            weights = " ".join(f"{0.5 * n * i:g}" for i in (1, 2, 3, 4))
            self.assertEqual(stdout, f"weights: {weights}\n")
        self.assertGreater(n, 0)

    def test_several_copies_train_a_model_of_their_own_and_a_monitor_watches(self):
        address, _ = self.start_servers(2)
        monitor = self.start_program("monitor", address)
        monitor.wait_line(r"^job waiting", stdout=True, timeout=PATIENCE_S)
        workers = [self.start_program("custom_model", address, 3) for _ in range(3)]
        for worker in workers:
            self.assertEqual(worker.wait(PATIENCE_S), 0, worker.text())
            self.assertEqual(worker.lines, [])
            self.assertIn("each row:      trained 4 to 4 times\n", worker.stdout)
            accuracy = float(re.search(r"test accuracy: (\S+)", worker.stdout)[1])
            self.assertGreater(accuracy, 0.95)
        rows = [int(re.search(r"this worker: +(\d+) of 40000 rows", w.stdout)[1]) for w in workers]
        self.assertEqual(sum(rows), 40000, rows)
        self.assertEqual(monitor.wait(PATIENCE_S), 0, monitor.text())
        self.assertEqual(monitor.lines, [])
        last = monitor.stdout.rpartition("job done")[2]
        self.assertIn("custom logistic regression on made by custom_model.c, 10000 rows", last)
        self.assertRegex(last, r"epoch 4  500 of 500 units  loss 0\.\d+")
        self.assertRegex(last, r"worker +custom ")
        self.assertRegex(last, r"server +server-1 +live .*127\.0\.0\.1:\d+\n")
        self.assertRegex(last, r"custom\.weight +sgd +8  8\n")

    def make_parts(self, counts):
        """Files of so many lines each, and the sum of all."""
        names, total = [], 0
        for part, n in enumerate(counts):
            names.append(os.path.join(self.folder, f"part-{part}"))
            lines = [(part + 3 * i) % 11 for i in range(n)]
            total += sum(lines)
            with open(names[-1], "w", encoding="utf-8") as stream:
                stream.writelines(f"{line}\n" for line in lines)
        return names, total

    def test_files_of_unknown_length_are_added_up_though_a_worker_is_killed(self):
        address, _ = self.start_servers(2, "--silence", "2s", "--grace", "1s")
        counts = [100, 0, 301, 1, 3, 200, 0, 299, 150, 2, 250, 180]  # Some are empty.
        names, total = self.make_parts(counts)
        killed, *others = [self.start_program("part_sums", address, 3, *names) for _ in range(3)]
        killed.wait_line(r"^part \d+ unit \d+$", stdout=True, timeout=PATIENCE_S)
        killed.process.kill()
        for worker in others:
            self.assertEqual(worker.wait(PATIENCE_S), 0, worker.text())
            last = worker.stdout.splitlines()[-1]
            self.assertEqual(last, f'sum {total:g} of {sum(counts)} lines, {{"lines": "numbers"}}')
        described = self.status(address)
        self.assertEqual(described["sessions_lost"], 1)
        self.assertEqual((described["parts"], described["rows"]), (len(counts), sum(counts)))
        self.assertEqual((described["rows_trained_min"], described["rows_trained_max"]), (3, 3))
        units = 3 * sum(-(-n // 3) for n in counts)
        self.assertEqual(described["steps"], units)
        status, stdout, stderr = self.run_program("monitor", address, "--once")
        self.assertEqual((status, stderr), (0, ""))
        self.assertIn(f"sums on numbers in files, {sum(counts)} rows", stdout)
        self.assertIn("epoch 3  12 of 12 parts  loss 0", stdout)

    def test_the_monitor_looks_once_and_ends(self):
        address, _ = self.start_servers()
        status, stdout, stderr = self.run_program("monitor", address, "--once")
        self.assertEqual((status, stderr), (0, ""))
        self.assertEqual(len(re.findall(r"^job ", stdout, re.M)), 1)
        self.assertRegex(stdout, r"reader +monitor +live")

    def test_the_tour_finds_everything_as_the_headers_promise(self):
        address, _ = self.start_servers(2)
        status, stdout, stderr = self.run_program("api_tour", address)
        self.assertEqual((status, stderr), (0, ""), stdout)
        self.assertIn(f"version: {prefix.pkg_config('--modversion').strip()}\n", stdout)
        self.assertTrue(stdout.endswith("all: ok\n"))

    def test_the_commands_of_the_readme_work(self):
        address, _ = self.start_servers()
        text = installed.read(os.path.join(installed.HERE, "README.md"))
        work = os.path.join(self.folder, "outside")
        os.mkdir(work)
        for source in installed.PROGRAMS:
            shutil.copy(os.path.join(installed.HERE, source + ".c"), work)
        lines = [line for _, name, block in readme.blocks(text) if name == "text" for line in block
                 if line.startswith(("cc ", "c++ ", "./"))]
        self.assertGreater(len(lines), 6)
        for line in lines:
            with self.subTest(line=line):
                self.check_command(line.replace("127.0.0.1:7070", address), work)

    def check_command(self, line, work):
        line = re.sub(r"\s#\s.*", "", line)
        if line.startswith("c") and installed.SANITIZE != "none":
            tool = installed.COMPILERS[installed.COMPILER]["c" if line.startswith("cc ") else "c++"]
            line = " ".join([tool, *installed.sanitize(), line.partition(" ")[2]])
        installed.command("bash", "-c", f"{line}\nwait", cwd=work, env=self.env)


class Failures(Cluster):
    def test_a_coordinator_that_is_away_is_one_line(self):
        with contextlib.ExitStack() as stack:
            port = ps_test.free_port()
            silent = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            cases = [("nobody listens", f"127.0.0.1:{port}"),
                     ("nobody answers", "127.0.0.1:%d" % silent.getsockname()[1]),
                     ("nobody is called so", "nowhere.invalid:7070")]
            runs = [(what, name, address, self.start_program(name, address))
                    for what, address in cases for name in ("push_pull", "custom_model", "monitor")]
            for what, name, address, program in runs:
                with self.subTest(what, program=name):
                    status = program.wait(PATIENCE_S)
                    stderr = program.text() + "\n"
                    self.assertIn(address, self.assert_failed(name, (status, "", stderr)))

    def test_a_bad_address_is_one_line(self):
        for address in ("127.0.0.1", "no address", "127.0.0.1:70000", ""):
            with self.subTest(address=address):
                self.assert_failed("push_pull", self.run_program("push_pull", address))

    def test_bad_usage_is_told(self):
        for name, args in (("monitor", []), ("monitor", ["a:1", "--twice"]), ("api_tour", []),
                           ("custom_model", ["a:1", "0"]), ("custom_model", ["a:1", "2x"]),
                           ("part_sums", ["a:1", "2"])):
            with self.subTest(name=name, args=args):
                status, _, stderr = self.run_program(name, *args)
                self.assertEqual(status, 2)
                self.assertRegex(stderr, rf"^usage: {name} [^\n]*\n$")

    def test_another_definition_is_refused_with_what_differs(self):
        address, _ = self.start_servers()
        self.assertEqual(self.run_program("custom_model", address, 1)[0], 0)
        line = self.assert_failed("custom_model", self.run_program("custom_model", address, 2))
        self.assertIn("workers", line)

    def test_a_worker_that_was_stopped_for_long_joins_anew(self):
        address, _ = self.start_servers(1, "--silence", "2s", "--grace", "1s")
        stopped = self.start_program("custom_model", address, 2)
        ps_test.wait_until("the worker has joined", lambda: any(
            member["kind"] == "worker" and member["state"] == "live"
            for member in self.members(address)), PATIENCE_S)
        self.pause(stopped)
        # It gives a sign of life no more: it is closed, and what it holds goes to the others.
        others = [self.start_program("custom_model", address, 2) for _ in range(2)]
        for other in others:
            self.assertEqual(other.wait(PATIENCE_S), 0, other.text())
        self.go_on(stopped)
        self.assertEqual(stopped.wait(PATIENCE_S), 0, stopped.text())
        self.assertEqual(stopped.lines,
                         ["custom_model: the session was closed; joining with a new one"])
        self.assertIn("each row:      trained 4 to 4 times\n", stopped.stdout)

    def test_a_lost_server_ends_everybody_with_its_name(self):
        address, servers = self.start_servers(2, "--grace", "1s")
        worker = self.start_program("custom_model", address, 2)
        monitor = self.start_program("monitor", address)
        monitor.wait_line(r"worker +custom +live", stdout=True, timeout=PATIENCE_S)
        servers[1].process.kill()
        status = worker.wait(PATIENCE_S)
        line = self.assert_failed("custom_model", (status, "", worker.text() + "\n"))
        self.assertRegex(line, r"server 1 \(127\.0\.0\.1:\d+\) is lost")
        self.assertEqual(monitor.wait(PATIENCE_S), 1, monitor.text())
        self.assertIn("server 1 (127.0.0.1:", monitor.stdout + monitor.text())

    def pause(self, program):
        program.process.send_signal(ps_test.signal.SIGSTOP)

    def go_on(self, program):
        program.process.send_signal(ps_test.signal.SIGCONT)


class Programs(Cluster):
    def test_the_five_programs_are_installed_and_say_their_version(self):
        self.assertEqual(sorted(os.listdir(prefix.bin)), ["ps-datagen", "ps-run", "ps-server",
                                                          "ps-worker", "psctl"])
        for name in os.listdir(prefix.bin):
            self.assertIn(prefix.pkg_config("--modversion").strip(),
                          installed.command(prefix.program(name), "--version"))

    def test_the_installed_ps_run_trains_with_the_programs_beside_it(self):
        done = subprocess.run(
            [*ps_test.LEASHED, prefix.program("ps-run"), "--servers", "2", "--workers", "2",
             "--data", self.data, "--model", "softmax", "--epochs", "2", "--json"],
            cwd="/", stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
            timeout=PATIENCE_S * ps_test.SLOW,
            env={name: value for name, value in os.environ.items()
                 if name not in ("PATH", "LD_LIBRARY_PATH")})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assert_exact(ps_test.report_of(done.stdout), 2)

    def test_its_children_are_those_of_the_installation(self):
        run = self.start("--workers", 1, "--data", self.data, "--model", "softmax", "--epochs",
                         100000, program=prefix.program("ps-run"))
        for name, program in (("server 0", "ps-server"), ("worker 0", "ps-worker")):
            exe = os.readlink(f"/proc/{run.pid_of(name)}/exe")
            self.assertTrue(os.path.samefile(exe, prefix.program(program)), exe)


if __name__ == "__main__":
    ps_test.main()
