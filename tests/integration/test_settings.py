"""Settings of real programs: flag, environment, job file; who wins, and what is said of bad ones.

Bad settings, or two that contradict each other, are exit 2, nothing on standard output, and one
line on standard error that names where each value came from.
"""

import os
import re

import ps_test
from ps_test import CTL, RUN, SERVER, WORKER

PROGRAMS = {"ps-run": RUN, "ps-server": SERVER, "ps-worker": WORKER, "psctl": CTL}
PREFIXES = {RUN: "PS_RUN", SERVER: "PS_SERVER", WORKER: "PS_WORKER", CTL: "PSCTL"}


class Settings(ps_test.Case):
    ROWS = 60

    def job(self, text, name="job.yaml"):
        path = f"{self.folder}/{name}"
        with open(path, "wb") as f:
            f.write(text if isinstance(text, bytes) else text.encode())
        return path

    def refuse(self, program, *args, env=None, says=()):
        status, stdout, stderr = ps_test.run(*args, program=program, env=env, timeout=120)
        self.assertEqual((status, stdout), (2, ""), f"{args} {env}: {stderr}")
        lines = stderr.splitlines()
        self.assertEqual(len(lines), 1, f"{args} {env}: {stderr}")
        for word in says:
            self.assertIn(word, lines[0])

    def test_a_bad_value_is_refused_with_its_source_by_every_program(self):
        for name, program in PROGRAMS.items():
            # A setting of the program, and a value that it cannot have.
            setting, bad = {
                RUN: ("epochs", "0"), SERVER: ("grace", "7"), WORKER: ("lr", "nan"),
                CTL: ("timeout", "soon"),
            }[program]
            variable = f"{PREFIXES[program]}_{setting.upper()}"
            path = self.job(f"# a job\n{name}:\n  {setting}: {bad}\n")
            place = f"{path}:3:{5 + len(setting)}: "
            with self.subTest(name):
                self.refuse(program, f"--{setting}", bad, says=[f"--{setting}: '{bad}'"])
                self.refuse(program, env={variable: bad}, says=[f"variable {variable}: '{bad}'"])
                self.refuse(
                    program, env={f"{variable}S": bad}, says=[f"{variable}S", f"mean {variable}?"]
                )
                self.refuse(program, "--config", path, says=[f"{place}{setting}: '{bad}'"])
                self.refuse(program, env={f"{PREFIXES[program]}_CONFIG": path}, says=[place])

    def test_a_bad_file_is_refused_by_line_whichever_program_reads_it(self):
        rows = [
            ("data: x\nstalenes: 4\n", ":2:1: unknown setting 'stalenes'; did you mean 'stal"),
            ("ps-sever: {}\n", ":1:1: unknown section 'ps-sever'; there are ps-run, ps-server"),
            ("ps-worker:\n  batsh: 4\n", ":2:3: unknown setting 'batsh'; did you mean 'batch'?"),
            ("ps-server:\n  batch: 4\n", ":2:3: ps-server has no setting 'batch', but ps-run has"),
            ("lr: 1\nlr: 1\n", ":2:1: lr is given twice, first in line 1"),
            ("hidden: {a: 1}\n", ":1:9: hidden: single values"),
            ("batch: [1]\n", ":1:8: batch: single values"),
            ("give-up: 600ms\n", ":1:10: give-up: '600ms' is out of range: 1000 to"),
            ("data: &a x\n", ":1:7: anchors"),
            ("data: *a\n", ":1:7: aliases"),
            ("data: !!str x\n", ":1:7: tags"),
            ("<<: {lr: 1}\n", ":1:1: merge keys"),
            ("lr: 1\n---\nlr: 1\n", ":2:1: a second document"),
            ("lr: 1\n\tlr: 2\n", ":2:1: not YAML"),
            (b"data: \xff\n", ":1:7: not UTF-8"),
            (b"data: a\0b\n", ":1:8: not UTF-8 text: control characters"),
            ("lr:\n", ":1:4: lr: has no value"),
            ("name: " + "b" * 64, ":1:7: name: expected 1 to 63 bytes, got 64"),
            ("coordinator: ''", ":1:14: coordinator: expected 1 to 255 bytes, got 0"),
            ("#" * 70000, "longer than 65536 bytes"),
        ]
        for text, says in rows:
            path = self.job(text)
            for program in PROGRAMS.values():
                with self.subTest(text=text[:20], program=program):
                    self.refuse(program, "--config", path, says=[path, says])

    def test_a_file_that_is_not_there_is_named_with_who_asked_for_it(self):
        for program, prefix in PREFIXES.items():
            path = f"{self.folder}/none.yaml"
            self.refuse(program, f"--config={path}", says=["--config: ", path, "No such file"])
            self.refuse(
                program, env={f"{prefix}_CONFIG": path}, says=[f"{prefix}_CONFIG: ", "No such file"]
            )
            self.refuse(program, "--config", self.folder, says=["--config: ", "Is a directory"])
            self.refuse(program, "--config", says=["--config needs a value"])

    def test_settings_that_contradict_each_other_are_both_named_with_their_sources(self):
        data = f"data: {self.data}\n"
        rows = [
            (RUN, "staleness: 4\n", {}, ["--consistency", "bsp"],
             ["--staleness 4 ({path}:2)", "--consistency bsp (flag)"]),
            (RUN, "staleness: 4\n", {"PS_RUN_CONSISTENCY": "asp"}, [],
             ["--staleness 4 ({path}:2)", "--consistency asp (environment PS_RUN_CONSISTENCY)"]),
            (WORKER, "ps-worker: {staleness: 4, consistency: asp}\n", {}, [],
             ["--staleness 4 ({path}:2)", "--consistency asp ({path}:2)"]),
            (RUN, "aggregate: true\n", {}, ["--staleness", "2"],
             ["--aggregate ({path}:2)", "--staleness 2 (flag)"]),
            (RUN, "consistency: asp\n", {"PS_RUN_AGGREGATE": "1"}, [],
             ["--aggregate 1 (environment PS_RUN_AGGREGATE)", "--consistency asp ({path}:2)"]),
            (RUN, "backup-workers: 1\n", {}, [], ["--backup-workers 1 ({path}:2)"]),
            (RUN, "aggregate: true\nworkers: 2\n", {}, ["--backup-workers=2"],
             ["--backup-workers 2 (flag)", "--workers 2 ({path}:3)", "which is 2"]),
            (RUN, "weight-decay: 0.1\n", {}, ["--optimizer=adam"],
             ["--weight-decay 0.1 ({path}:2)", "--optimizer adam (flag)"]),
            (WORKER, "weight-decay: 0.1\n", {}, [],
             ["--weight-decay 0.1 ({path}:2)", "--optimizer sgd (preset)"]),
            (RUN, "ps-run:\n  servers: 2\n", {}, ["--in-process"],
             ["--in-process (flag)", "--servers 2 ({path}:3)"]),
            (RUN, "workers: 2\n", {"PS_RUN_IN_PROCESS": "true"}, [],
             ["--in-process (environment PS_RUN_IN_PROCESS)", "--workers 2 ({path}:2)"]),
            (RUN, "port-base: 7000\n", {}, ["--in-process"],
             ["--in-process (flag)", "--port-base 7000 ({path}:2)"]),
            (RUN, "hidden: [10]\n", {}, [],
             ["--hidden 10 ({path}:2)", "--model softmax (preset): "]),
            (SERVER, "coordinator: a:1\n", {"PS_SERVER_SERVERS": "2"}, [],
             ["--servers 2 (environment PS_SERVER_SERVERS)", "--coordinator a:1 ({path}:2)"]),
        ]
        for program, text, env, args, says in rows:
            path = self.job(data + text)
            # A path of any length is shown, a very long one by its end.
            shown = path if len(path) < 64 else "..." + path[-60:]
            with self.subTest(text=text, args=args, env=env):
                self.refuse(
                    program, "--config", path, *args, env=env,
                    says=[word.format(path=shown) for word in says],
                )

    def test_a_value_that_its_reader_refuses_is_named_with_its_source(self):
        for setting, bad in [
            ("model", "resnet"), ("consistency", "strict"), ("schedule", "linear"),
            ("hidden", "'10,,3'"), ("format", "hdf5"), ("data", "/nowhere"), ("test", "/nowhere"),
        ]:
            path = self.job(f"model: mlp\n{setting}: {bad}\n" if setting != "model"
                            else f"\n{setting}: {bad}\n")
            more = [] if setting == "data" else ["--data", self.data]
            for program in (RUN, WORKER):
                with self.subTest(setting, program=program):
                    self.refuse(
                        program, "--config", path, *more,
                        says=[f"--{setting} {bad}".replace("'", ""), f"({path}:2)"],
                    )

    def test_a_folder_that_cannot_be_made_is_named_with_its_source(self):
        path = self.job("ps-server: {data-dir: /proc/none}\n")
        status, stdout, stderr = ps_test.run(
            "--listen", "127.0.0.1:0", "--config", path, program=SERVER
        )
        self.assertEqual((status, stdout, len(stderr.splitlines())), (74, "", 1), stderr)
        self.assertIn(f"--data-dir /proc/none ({path}:1): ", stderr)

    def test_what_was_asked_for_last_wins(self):
        path = self.job("batch: 1\nepochs: 1\nlr: 0.125\nps-worker:\n  batch: 2\n  epochs: 2\n")
        env = {"PS_WORKER_CONFIG": path, "PS_WORKER_BATCH": "3"}
        status, stdout, stderr = ps_test.run(
            "--print-config", "--epochs=4", program=WORKER, env=env
        )
        self.assertEqual((status, stderr), (0, ""))
        for line in [
            r"batch: 3 +# environment PS_WORKER_BATCH", r"epochs: 4 +# flag",
            rf"lr: 0\.125 +# {re.escape(path)}:3", r"#momentum: 0\.9 +# preset",
            r"#seed: +# not set",
        ]:
            self.assertRegex(stdout, rf"(?m)^  {line}$")

    def test_what_print_config_prints_is_a_job_file_that_says_the_same(self):
        args = {
            RUN: ["--data", "a b", "--hidden", "3,4", "--no-shuffle"],
            SERVER: ["--listen", "unix:/tmp/a: #b", "--coordinator", "c:1", "--memory-max=1GiB"],
            WORKER: ["--data", "'\"\\\u00e9\n", "--aggregate", "--lr=1e-3"],
            CTL: ["--timeout=1.5s", "--json"],
        }
        whole = ""
        first = {}
        for program in PROGRAMS.values():
            status, first[program], stderr = ps_test.run(
                "--print-config", *args[program], program=program
            )
            self.assertEqual((status, stderr), (0, ""))
            whole += first[program]
        path = self.job(whole)  # Of all programs: one file for the whole job.
        for program in PROGRAMS.values():
            status, stdout, stderr = ps_test.run(
                "--config", path, "--print-config", program=program
            )
            self.assertEqual((status, stderr), (0, ""))
            self.assertIn(f"# {path}:", stdout)
            values = [re.sub(" +# (flag|/.*)$", "", text, flags=re.M)
                      for text in (first[program], stdout)]
            self.assertEqual(*values)

    def test_settings_of_ps_run_reach_its_children_from_wherever_they_are(self):
        path = self.job(
            f"data: {self.data}\nmodel: mlp\nhidden: [5, 3]\nbatch: 10\nepochs: 9\n"
            "ps-run:\n  workers: 2\n  servers: 1\n  epochs: 3\nps-worker:\n  batch: 7\n"
        )
        out = f"{self.folder}/out"
        status, stdout, stderr = ps_test.run(
            "--config", path, "--json", "--out", out, timeout=300,
            env={"PS_RUN_CONSISTENCY": "ssp:2", "PS_RUN_SEED": "7", "PS_RUN_CENTER": "false"},
        )
        self.assertEqual(status, 0, stderr)
        report = ps_test.report_of(stdout)
        self.assertEqual((report["workers"], report["servers"]), (2, 1))
        self.assertEqual(report["consistency"], "ssp:2")
        self.assertEqual(report["steps"], 3 * self.ROWS // 10)  # Neither 9 epochs nor batches of 7.
        self.assert_exact(report, epochs=3)
        tensors = ps_test.read_safetensors(report["model_path"])
        self.assertEqual(len(tensors), 6)  # Three layers, by --hidden 5,3.

    def test_what_is_said_to_other_programs_does_not_reach_the_children_of_ps_run(self):
        path = self.job("epochs: 9\nbatch: 7\n")
        out = f"{self.folder}/of-a-worker"
        report = self.train(
            "--epochs=2", "--servers=1", "--workers=2", timeout=300,
            env={
                "PS_SERVER_COORDINATOR": "127.0.0.1:1", "PS_SERVER_CLUSTER_ID": "7" * 32,
                "PS_SERVER_NONE": "x", "PS_SERVER_CONFIG": path, "PS_WORKER_CONFIG": path,
                "PS_WORKER_BATCH": "5", "PS_WORKER_CLUSTER_ID": "7" * 32, "PS_WORKER_OUT": out,
                "PS_RUN_BATCH": "6",
            },
        )
        self.assertEqual(report["steps"], 2 * self.ROWS // 6)
        self.assertFalse(os.path.exists(out))

    def test_results_without_a_place_are_refused_before_anything_is_started(self):
        for out, status in [("/proc/x", 74), ("", 2), (self.data + "/train-labels-idx1-ubyte", 74)]:
            for program, others in [(RUN, ()), (WORKER, ("--coordinator", "127.0.0.1:1"))]:
                for name in ("out", "report"):
                    if name == "report" and out not in ("", "/proc/x"):
                        continue
                    with self.subTest(program=program, name=name, out=out):
                        args = ("--data", self.data, f"--{name}={out}", *others)
                        got, stdout, stderr = ps_test.run(*args, program=program, timeout=120)
                        self.assertEqual((got, stdout, len(stderr.splitlines())), (status, "", 1),
                                         stderr)
                        self.assertRegex(stderr, rf"--{name} .*\(flag\): ")
        self.assertEqual([f for f in os.listdir(self.data) if f.endswith(".tmp")], [])

    def test_names_and_addresses_that_do_not_fit_are_refused(self):
        for program in (SERVER, WORKER):
            for name in ("A", "a b", "a\nb", "\u00e9"):
                self.refuse(program, "--name", name, says=["--name: '", "a-z"])
        self.refuse(SERVER, "--listen=127.0.0.1:0", "--advertise=unix:/tmp/x",
                    says=["--advertise unix:/tmp/x", "--listen 127.0.0.1:0"])
        self.refuse(RUN, "--data", self.data, "--host=unix:/tmp/x", says=["--host unix:/tmp/x"])

    def test_a_value_without_end_is_refused_by_every_program(self):
        number = "0" * 100000 + "1"
        for program, name in [(RUN, "epochs"), (WORKER, "epochs"), (SERVER, "lanes")]:
            prefix = PREFIXES[program]
            says = ["at most 4095 bytes, this one 100001"]
            self.refuse(program, f"--{name}={number}", says=[f"--{name}: ", *says])
            variable = f"{prefix}_{name.upper()}"
            self.refuse(program, env={variable: number}, says=[variable, *says])

    def test_settings_that_are_long_reach_the_children_of_ps_run(self):
        names = ["batch", "epochs", "workers", "units-per-lease", "seed", "hidden"]
        one = "1".zfill(4000)
        path = self.job("".join(f"{name}: {one}\n" for name in names))
        report = self.train("--config", path, "--model=mlp", "--servers=1", timeout=300)
        self.assertEqual(report["steps"], self.ROWS)

    def test_a_server_serves_with_strings_of_its_file_as_long_as_it_lives(self):
        path = self.job(
            "log-level: info\nps-server:\n  listen: 127.0.0.1:0\n  name: of-the-file\n"
        )
        server = self.start("--config", path, program=SERVER)
        address = server.wait_line(r"ready address=(\S+)", stdout=True).group(1)
        path = self.job(f"coordinator: {address}\npsctl:\n  timeout: 20s\n", "ctl.yaml")
        status, stdout, stderr = ps_test.run("status", "--config", path, program=CTL)
        self.assertEqual((status, stderr), (0, ""))
        self.assertIn("of-the-file", stdout)


if __name__ == "__main__":
    ps_test.main()
