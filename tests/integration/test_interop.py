"""A client that is no part of the project: Python, Debian's gRPC, and the server's reflection.

What it does stands in interop_worker.py, which uses no file but itself, and interop_look.py.
"""

import gzip
import json
import os
import random
import signal
import subprocess
import unittest

import ps_test

ROWS = os.environ.get("PS_BIN_ROWS", "build/tests/load/ps-rows")
PYTHON = "/usr/bin/python3"  # Debian's, with Debian's modules; another may come first on the PATH.
HERE = os.path.dirname(os.path.abspath(__file__))
WANTED = "import grpc, google.protobuf"
HAS_GRPC = (
    os.path.exists(PYTHON)
    and subprocess.run([PYTHON, "-c", WANTED], capture_output=True, check=False).returncode == 0
)

STANDARD = [
    "grpc.health.v1.Health",
    "grpc.reflection.v1.ServerReflection",
    "grpc.reflection.v1alpha.ServerReflection",
]


def noisy_idx(folder, rows, test_rows, side=6, classes=5, seed=4):
    """Data that a linear model learns, but not to the last row."""
    rng = random.Random(seed)
    centres = [[rng.randrange(256) for _ in range(side * side)] for _ in range(classes)]
    os.makedirs(folder, exist_ok=True)
    for name, n in (("train", rows), ("t10k", test_rows)):
        labels = [rng.randrange(classes) for _ in range(n)]
        images = [
            [(c + 4 * noise) // 5 for c, noise in zip(centres[label], rng.randbytes(side * side))]
            for label in labels
        ]
        ps_test.write_images(f"{folder}/{name}-images-idx3-ubyte", images, side)
        ps_test.write_labels(f"{folder}/{name}-labels-idx1-ubyte", labels)
    return folder


def some_of_fashion(folder, rows, test_rows):
    """The first rows of Fashion-MNIST."""
    os.makedirs(folder, exist_ok=True)
    for name, n in (("train", rows), ("t10k", test_rows)):
        with gzip.open(f"{ps_test.FASHION}/{name}-images-idx3-ubyte.gz") as f:
            pixels = f.read(16 + n * 784)[16:]
        with gzip.open(f"{ps_test.FASHION}/{name}-labels-idx1-ubyte.gz") as f:
            labels = f.read(8 + n)[8:]
        images = [pixels[i * 784 : (i + 1) * 784] for i in range(n)]
        ps_test.write_images(f"{folder}/{name}-images-idx3-ubyte", images, 28)
        ps_test.write_labels(f"{folder}/{name}-labels-idx1-ubyte", labels)
    return folder


@unittest.skipUnless(HAS_GRPC, f"{PYTHON} lacks Debian's python3-grpcio or python3-protobuf")
class Interop(ps_test.Case):
    ROWS = 400

    def serve(self, *args):
        """A server; (process, address)."""
        server = self.start("--listen", "127.0.0.1:0", *args, program=ps_test.SERVER)
        return server, server.wait_line(r"ready address=(\S+)", stdout=True).group(1)

    def end(self, *servers):
        """All of them stop in order. Together: a server without the others is a lost cluster."""
        for server in servers:
            server.process.terminate()
        for server in servers:
            self.assertIn(server.wait(), (0, 4) if len(servers) > 1 else (0,), server.text())

    def foreign(self, command, address, *args):
        """A command of one of the two scripts, under way."""
        scripts = {"train": "interop_worker.py", "unleased": "interop_worker.py",
                   "units": "interop_rows.py", "lies": "interop_rows.py"}
        script = scripts.get(command, "interop_look.py")
        return self.start(f"{HERE}/{script}", command, address, *args, program=PYTHON)

    def ask(self, command, address, *args):
        """Run the script to its end; what it found."""
        client = self.foreign(command, address, *args)
        self.assertEqual(client.wait(120), 0, client.text())
        return json.loads(client.stdout)

    def health(self, address):
        return self.ask("look", address)["health"]

    # ---- Standard services -----------------------------------------------------------------

    def test_a_server_says_what_it_serves_and_describes_it(self):
        server, address = self.serve()
        seen = self.ask("look", address)
        for version in ("v1", "v1alpha"):
            self.assertEqual(
                sorted(seen[version]["services"]),
                sorted(["ps.v1.ParameterServer", "ps.v1.Coordinator", *STANDARD]),
            )
            self.assertIn("ps/v1/coordinator.proto", seen[version]["files"])
            self.assertIn("grpc/health/v1/health.proto", seen[version]["files"])
        not_found, invalid = 5, 3
        answers = dict(seen["answers"])
        self.assertEqual(answers.pop("no/such.proto"), not_found)
        self.assertEqual(answers.pop("ps.v1.Nothing"), not_found)
        self.assertEqual(answers.pop(""), not_found)  # Of an extension.
        self.assertEqual(answers.pop("ps.v1.Table"), not_found)  # Of its extensions.
        self.assertEqual(answers.pop("a field of the future"), invalid)
        self.assertEqual(set(answers.values()), {"file"}, answers)
        self.end(server)

    def test_a_server_without_the_coordinator_does_not_list_it(self):
        first, address = self.serve("--servers", 2)
        second, other = self.serve("--coordinator", address)
        seen = self.ask("look", other)
        self.assertEqual(
            sorted(seen["v1"]["services"]), sorted(["ps.v1.ParameterServer", *STANDARD])
        )
        self.assertEqual(seen["health"]["ps.v1.Coordinator"], "NOT_FOUND")
        self.end(first, second)

    def test_health_follows_the_life_of_a_server(self):
        first, address = self.serve("--servers", 2)
        whole = self.foreign("watch", address, "")
        data = self.foreign("watch", address, "ps.v1.ParameterServer")
        unknown = self.foreign("watch", address, "no.such.Service")
        whole.wait_line("^SERVING", stdout=True)  # It has joined; the cluster waits for another.
        data.wait_line("^NOT_SERVING", stdout=True)
        unknown.wait_line("^SERVICE_UNKNOWN", stdout=True)
        self.assertEqual(
            self.health(address),
            {"": "SERVING", "ps.v1.ParameterServer": "NOT_SERVING",
             "ps.v1.Coordinator": "SERVING", "no.such.Service": "NOT_FOUND"},
        )
        second, _ = self.serve("--coordinator", address)
        data.wait_line("^SERVING", stdout=True)
        self.assertEqual(self.health(address)["ps.v1.ParameterServer"], "SERVING")
        self.end(first, second)
        for client in (whole, data, unknown):
            self.assertEqual(client.wait(), 0, client.text())
        self.assertIn(whole.stdout.split(), (
            ["SERVING", "NOT_SERVING", "UNAVAILABLE"],
            ["NOT_SERVING", "SERVING", "NOT_SERVING", "UNAVAILABLE"],
        ))
        self.assertEqual(
            data.stdout.split(), ["NOT_SERVING", "SERVING", "NOT_SERVING", "UNAVAILABLE"]
        )
        self.assertEqual(unknown.stdout.split(), ["SERVICE_UNKNOWN", "UNAVAILABLE"])

    def test_a_server_that_cannot_join_serves_nothing(self):
        server, address = self.serve("--coordinator", f"127.0.0.1:{ps_test.free_port()}")
        seen = self.health(address)
        self.assertEqual(seen[""], "NOT_SERVING")
        self.assertEqual(seen["ps.v1.ParameterServer"], "NOT_SERVING")
        self.end(server)

    def test_a_lost_cluster_is_told_to_watchers(self):
        first, address = self.serve("--servers", 2, "--grace", "200ms")
        second, _ = self.serve("--coordinator", address)
        watcher = self.foreign("watch", address, "ps.v1.ParameterServer")
        watcher.wait_line("^SERVING", stdout=True)
        os.kill(second.process.pid, signal.SIGKILL)
        second.wait()
        self.assertEqual(watcher.wait(), 0, watcher.text())
        self.assertEqual(watcher.stdout.split()[-3:], ["SERVING", "NOT_SERVING", "UNAVAILABLE"])
        self.assertEqual(first.wait(), 4, first.text())

    def test_watchers_are_bounded_and_make_room_when_they_go(self):
        server, address = self.serve()
        for heard in self.ask("crowd", address, 300):
            self.assertEqual(heard, {"SERVING": 256, "RESOURCE_EXHAUSTED": 44})
        self.end(server)

    # ---- Training --------------------------------------------------------------------------

    def c_worker(self, address, data, *args, workers=2, report=None):
        more = ("--report", report) if report else ()
        return self.start(
            "--coordinator", address, "--data", data, "--workers", workers, "--seed", 3, *args,
            *more, program=ps_test.WORKER,
        )

    def train_with(self, data, other, *args):
        """Two servers, a C worker and `other`(address): the C worker's report."""
        first, address = self.serve("--servers", 2)
        second, _ = self.serve("--coordinator", address)
        report = f"{self.folder}/report-{random.randrange(1 << 30)}.json"
        worker = self.c_worker(address, data, *args, report=report)
        found = other(address)
        self.assertEqual(worker.wait(120), 0, worker.text())
        self.end(first, second)
        with open(report) as f:
            return json.load(f), found

    def learns_as_well(self, data, args, tolerance, foreign_args):
        two, _ = self.train_with(
            data, lambda address: self.c_worker(address, data, *args).wait(120), *args
        )
        mixed, found = self.train_with(
            data, lambda address: self.ask("train", address, "--data", data, *foreign_args), *args
        )
        epochs = mixed["epochs"]
        for report in (two, mixed):
            self.assert_exact(report, epochs)
            self.assertEqual(report["workers"], 2)
            self.assertEqual(report["sessions_lost"], 0)
        self.assertGreater(found["units"], 0)
        self.assertLess(found["rows"], epochs * mixed["rows_train"])  # Both did something.
        if found["bound"] is not None:
            self.assertLessEqual(found["staleness_max"], found["bound"])
        self.assertAlmostEqual(mixed["test_accuracy"], two["test_accuracy"], delta=tolerance)
        # The foreign worker sees the same model.
        self.assertAlmostEqual(found["test_accuracy"], mixed["test_accuracy"], delta=0.005)
        return mixed, found

    def test_a_foreign_worker_and_a_c_worker_train_one_model(self):
        data = noisy_idx(f"{self.folder}/noisy", rows=1503, test_rows=1000)
        common = ("--batch", 20, "--epochs", 3, "--units-per-lease", 3)
        variants = [
            (("--staleness", 2), ("--unary",)),
            (("--staleness", 2), ()),
            (("--consistency", "bsp"), ("--unary",)),
            (("--consistency", "bsp"), ()),
            (("--consistency", "asp"), ("--unary",)),
        ]
        for consistency, foreign in ps_test.either(variants, variants[:2]):
            with self.subTest(consistency=consistency, foreign=foreign):
                mixed, _ = self.learns_as_well(data, (*common, *consistency), 0.02, foreign)
                self.assertGreater(mixed["test_accuracy"], 0.55)

    def test_a_foreign_worker_alone_defines_tables_and_job_and_trains(self):
        for foreign in ((), ("--unary",)):
            server, address = self.serve()
            found = self.ask("train", address, "--data", self.data, "--define", *foreign)
            self.assertEqual(found["rows_trained_min"], 2)
            self.assertEqual(found["rows_trained_max"], 2)
            self.assertEqual(found["rows"], 2 * self.ROWS)
            self.assertGreater(found["test_accuracy"], 0.9)
            self.end(server)

    def test_two_foreign_workers_share_the_rows(self):
        server, address = self.serve()
        args = ("--data", self.data, "--define", "--workers", 2)
        clients = [self.foreign("train", address, *args, *more) for more in ((), ("--unary",))]
        for client in clients:
            self.assertEqual(client.wait(120), 0, client.text())
        found = [json.loads(client.stdout) for client in clients]
        self.assertEqual(sum(one["rows"] for one in found), 2 * self.ROWS)
        self.assertEqual(found[0]["rows_trained_max"], 2)
        self.end(server)

    def test_what_a_foreign_worker_left_undone_is_done_once(self):
        # It dies after a push that it has not reported, saying nothing: only silence tells.
        server, address = self.serve("--silence", "3s")
        report = f"{self.folder}/left.json"
        worker = self.c_worker(
            address, self.data, "--epochs", 2, "--batch", 10, "--staleness", 2, report=report
        )
        args = ("--data", self.data, "--unary", "--die-after", 7)
        self.assertEqual(self.foreign("train", address, *args).wait(), 9)
        self.assertEqual(worker.wait(), 0, worker.text())
        with open(report) as f:
            found = json.load(f)
        self.assert_exact(found, 2)
        self.assertEqual(found["sessions_lost"], 1)
        self.end(server)

    def test_averaged_steps_of_a_foreign_and_a_c_worker_are_those_of_one_process(self):
        # So its gradients, its rows and their order are right to the last one.
        data = noisy_idx(f"{self.folder}/averaged", rows=213, test_rows=50)
        args = ("--batch", 20, "--epochs", 2)
        _, alone = self.model("--in-process", "--seed", 3, *args, data=data, name="alone")
        for foreign in ((), ("--unary",)):
            out = f"{self.folder}/together"
            _, found = self.train_with(
                data,
                lambda address: self.ask("train", address, "--data", data, *foreign),
                *args, "--aggregate", "--out", out,
            )
            self.assertEqual(found["units"], 2 * 11)  # Every step of both epochs, half its rows.
            together = ps_test.read_safetensors(f"{out}/model.safetensors")
            self.assertLess(ps_test.largest_difference(alone, together), 1e-5)

    def test_a_worker_without_a_lease_pushes_on_its_own_stream(self):
        first, address = self.serve("--servers", 2)
        second, _ = self.serve("--coordinator", address)
        for _ in range(2):
            found = self.ask("unleased", address, "--steps", 10)
            self.assertEqual(found["differences"], [5.0])  # Each step once, though sent twice.
        self.end(first, second)

    def test_a_worker_without_a_lease_helps_in_a_job_of_others(self):
        server, address = self.serve()
        worker = self.c_worker(
            address, self.data, "--epochs", 2, "--batch", 10, workers=1,
            report=f"{self.folder}/helped.json",
        )
        found = self.ask("unleased", address, "--steps", 10)
        self.assertEqual(found["differences"], [5.0])
        self.assertEqual(worker.wait(), 0, worker.text())
        with open(f"{self.folder}/helped.json") as f:
            report = json.load(f)
        self.assert_exact(report, 2)
        self.assertGreater(report["test_accuracy"], 0.9)
        self.end(server)

    @unittest.skipUnless(os.path.isdir(ps_test.FASHION), "no dataset-fashion-mnist here")
    def test_fashion_mnist_with_a_foreign_worker(self):
        data = some_of_fashion(
            f"{self.folder}/fashion", rows=ps_test.either(4000, 1000), test_rows=1000
        )
        args = ("--batch", 50, "--epochs", 2, "--staleness", 2)
        mixed, _ = self.learns_as_well(data, args, 0.04, ("--unary",))
        self.assertGreater(mixed["test_accuracy"], ps_test.either(0.7, 0.6))

    def test_a_foreign_client_pushes_rows_that_ours_finds_right(self):
        first, address = self.serve("--servers", 2)
        second, _ = self.serve("--coordinator", address)
        keys, n_units = ps_test.either(400, 100), 3
        foreign = self.foreign("units", address, keys, n_units)
        self.assertEqual(foreign.wait(), 0, foreign.text())
        told = foreign.report()
        self.assertEqual((told["rows"], told["wrong"]), (keys, []))
        self.assertLess(told["scanned"], keys)  # Some keys are of no unit.
        self.assertGreaterEqual(told["answers"], 64)  # Of each slot one at least.
        status, stdout, stderr = ps_test.run(
            "--coordinator", address, "--mode", "check", "--keys", keys, "--units", n_units,
            "--epochs", 1, program=ROWS,
        )
        self.assertEqual((status, stderr), (0, ""), stdout)
        self.end(second, first)

    def test_lies_about_keys_are_refused(self):
        server, address = self.serve("--servers", 1)
        foreign = self.foreign("lies", address)
        self.assertEqual(foreign.wait(), 0, foreign.text())
        told = foreign.report()
        self.assertEqual(told.pop("nothing"), "OK")
        self.assertEqual(told.pop("a scan of no table"), "NOT_FOUND")
        self.assertEqual(len(told), 11)
        self.assertEqual(set(told.values()), {"INVALID_ARGUMENT"}, told)
        self.end(server)


if __name__ == "__main__":
    ps_test.main()
