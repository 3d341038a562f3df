"""What tests of lasting clusters share: servers with a data directory each, that can be killed and
started again; snapshots and exports of them; sets to learn from.
"""

import gzip
import json
import os
import random
import struct
import tempfile

import ps_test

BESIDE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../shared")
SETS = os.environ.get("PS_TEST_DATA", f"{BESIDE}/data")
PEEK = os.environ.get("PS_BIN_PEEK", "build/tests/load/ps-peek")


def write_rows(path, n):
    with open(path, "w", encoding="ascii") as f:
        f.writelines(f"1 {i}:1\n" for i in range(1, n + 1))
    return path


def write_pairs(path, n):
    """Row i has the features i and i + 1, so a factorisation machine has factors to learn."""
    with open(path, "w", encoding="ascii") as f:
        f.writelines(f"{i % 7 / 3:.3f} {i}:1 {i + 1}:1\n" for i in range(1, n + 1))
    return path


# ---- Sets -----------------------------------------------------------------------------------


def made_lines(n, seed):
    """As lines of a9a: 123 features, 14 of them in a row, two labels, and some noise."""
    rng = random.Random(seed)
    weights = [random.Random(i).gauss(0, 1) for i in range(123)]
    for _ in range(n):
        chosen = sorted(rng.sample(range(123), 14))
        z = sum(weights[i] for i in chosen) + rng.gauss(0, 1)
        yield f"{'+1' if z > 0 else '-1'} " + " ".join(f"{i + 1}:1" for i in chosen) + "\n"


def lines_set(folder, n, n_test):
    """The first lines of a9a where it lies, else lines made here: (train, test)."""
    paths = []
    for name, count, seed in (("a9a", n, 1), ("a9a.t", n_test, 2)):
        given = f"{SETS}/a9a/{name}.gz"
        paths.append(f"{folder}/{name}")
        with open(paths[-1], "w", encoding="ascii") as out:
            if os.path.exists(given):
                with gzip.open(given, "rt", encoding="ascii") as f:
                    out.writelines(line for line, _ in zip(f, range(count)))
            else:
                print(f"skipped: a9a ({given} is not there); lines made here are used")
                out.writelines(made_lines(count, seed))
    return paths


def images_set(folder, n, n_test):
    """A folder with the first images of Fashion-MNIST, else with images made here."""
    if not os.path.isdir(ps_test.FASHION):
        print("skipped: Fashion-MNIST (not installed); images made here are used")
        return ps_test.make_idx(f"{folder}/images", n, n_test, side=28)
    os.mkdir(f"{folder}/images")
    for name, count in (("train", n), ("t10k", n_test)):
        for kind, head, size in (("images-idx3-ubyte", 16, 28 * 28), ("labels-idx1-ubyte", 8, 1)):
            with gzip.open(f"{ps_test.FASHION}/{name}-{kind}.gz") as f:
                data = bytearray(f.read(head + count * size))
            data[4:8] = struct.pack(">I", count)
            with open(f"{folder}/images/{name}-{kind}", "wb") as f:
                f.write(data)
    return f"{folder}/images"


# ---- Clusters -------------------------------------------------------------------------------


class Asked:
    """A cluster at `address` that the test `case` asks."""

    def ask(self):
        status, stdout, stderr = ps_test.run("status", "--json", "--coordinator", self.address,
                                             "--timeout", "30s", program=ps_test.CTL)
        self.case.assertEqual(status, 0, stderr)
        return json.loads(stdout)

    def weights(self, n, table="linear.weight"):
        status, stdout, stderr = ps_test.run("--coordinator", self.address, "--table", table,
                                             "--keys", n, program=PEEK)
        self.case.assertEqual(status, 0, stderr)
        return [float(line.split()[1]) for line in stdout.splitlines()]


class Cluster(Asked):
    """Servers with a data directory each, which can be killed and started again."""

    def __init__(self, case, n=2, *args, first=()):
        self.case = case
        self.n = n
        self.args = args
        self.first = first  # What only the coordinator is told.
        self.folder = tempfile.mkdtemp(dir=case.folder)
        self.port = ps_test.free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.servers = [None] * n
        for i in range(n):
            self.begin(i)

    def data_dir(self, i):
        return f"{self.folder}/server-{i}"

    def begin(self, i, *args, under=()):
        """Start server i, whatever it was before; another port each time but for the first."""
        where = (("--listen", self.address, "--servers", self.n) if i == 0 else
                 ("--listen", "127.0.0.1:0", "--coordinator", self.address))
        self.servers[i] = self.case.start(*where, "--name", f"server-{i}", "--data-dir",
                                          self.data_dir(i), *self.args,
                                          *(self.first if i == 0 else ()), *args,
                                          program=ps_test.SERVER, under=under)
        self.servers[i].wait_line(r"ready address=(\S+)", stdout=True)
        return self.servers[i]

    def kill(self, i):
        self.servers[i].process.kill()
        self.servers[i].process.wait()

    def restart(self, i, *args):
        self.kill(i)
        return self.begin(i, *args)

    def worker(self, name, data, *args, workers=1):
        return self.case.start("--coordinator", self.address, "--name", name, "--workers", workers,
                               "--data", data, *args, program=ps_test.WORKER)

    def wait_units(self, n):
        """Until so many units are done."""
        def done():
            return sum(m.get("units", 0) for m in self.ask()["members"]) >= n
        ps_test.wait_until(f"{n} units are done", done, 60)

    def wait_more(self, n=20):
        """Until so many steps are done beyond those of now."""
        before = self.ask()["steps"]
        ps_test.wait_until(f"{n} steps more", lambda: self.ask()["steps"] >= before + n, 60)

    def end(self):
        for server in self.servers:
            server.end()


class Case(ps_test.Case):
    """A case with a folder for each test, and what is asked of a cluster."""

    def wait_ends(self, workers):
        for worker in workers:
            self.assertEqual(worker.wait(120), 0, worker.text())

    def snapshot(self, cluster, *args):
        status, stdout, stderr = ps_test.run("snapshot", "--coordinator", cluster.address, *args,
                                             program=ps_test.CTL)
        self.assertEqual(status, 0, stderr)
        return stdout

    def export(self, cluster):
        """{file: its bytes} of the live tables."""
        folder = tempfile.mkdtemp(dir=self.folder)
        status, stdout, stderr = ps_test.run("export", "--coordinator", cluster.address,
                                             "--output", folder, program=ps_test.CTL)
        self.assertEqual(status, 0, stderr)
        files = {}
        for name in os.listdir(folder):
            with open(f"{folder}/{name}", "rb") as f:
                files[name] = f.read()
        self.assertGreater(len(files), 1)
        return files

    def wait_done(self, cluster):
        ps_test.wait_until("the job is done", lambda: cluster.ask()["job"] == "done", 60)
