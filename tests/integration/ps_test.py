"""What the integration tests share: data made on the spot, the programs, their reports.

The programs' paths come in the environment (PS_BIN_*), set by meson.build. Everything else is
Python's standard library, so the tests run on a bare machine.
"""

import array
import contextlib
import json
import os
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

RUN = os.environ.get("PS_BIN_RUN", "build/bin/ps-run")
SERVER = os.environ.get("PS_BIN_SERVER", "build/bin/ps-server")
WORKER = os.environ.get("PS_BIN_WORKER", "build/bin/ps-worker")
CTL = os.environ.get("PS_BIN_CTL", "build/bin/psctl")

FASHION = "/usr/share/datasets/fashion-mnist"

# A sanitizer build is several times slower; waits are stretched, promises are not.
SLOW = float(os.environ.get("PS_TEST_SLOW", "1"))
# Less of the same, for sanitizer builds: fewer epochs, rows and variants.
SMALL = os.environ.get("PS_TEST_SMALL", "") not in ("", "0")
# More of the same, for whoever has an hour: all seeds and workers, whole minutes of silence.
MATRIX = os.environ.get("PS_TEST_MATRIX", "") not in ("", "0")

# Every process that a test starts has this in its environment, and its children inherit it.
TAG = "PS_TEST_TAG"
# The programs end when the test does, even if it is killed; their own children follow them.
LEASHED = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []


def numbers(name, preset):
    """Numbers from the environment: PS_TEST_SEEDS=1,2,3."""
    return [int(word) for word in os.environ.get(name, preset).split(",")]


def either(usual, small):
    return small if SMALL else usual


# ---- Data -----------------------------------------------------------------------------------


def write_images(path, images, side):
    with open(path, "wb") as f:
        f.write(struct.pack(">IIII", 2051, len(images), side, side))
        for image in images:
            f.write(bytes(image))


def write_labels(path, labels):
    with open(path, "wb") as f:
        f.write(struct.pack(">II", 2049, len(labels)))
        f.write(bytes(labels))


def make_idx(folder, rows=1000, test_rows=200, side=8, classes=10, seed=1):
    """A folder of IDX files: one blurred spot of light per class, and noise."""
    rng = random.Random(seed)
    centres = [[rng.randrange(256) for _ in range(side * side)] for _ in range(classes)]

    def image(label):
        noise = rng.randbytes(side * side)
        return [(3 * c + n) // 4 for c, n in zip(centres[label], noise)]

    os.makedirs(folder, exist_ok=True)
    for name, n in (("train", rows), ("t10k", test_rows)):
        labels = [i % classes for i in range(n)]
        rng.shuffle(labels)
        write_images(f"{folder}/{name}-images-idx3-ubyte", [image(l) for l in labels], side)
        write_labels(f"{folder}/{name}-labels-idx1-ubyte", labels)
    return folder


# ---- Programs -------------------------------------------------------------------------------


def run(*args, program=RUN, timeout=60, env=None):
    """Run a program to its end; (exit status, stdout, stderr)."""
    done = subprocess.run(
        [*LEASHED, program, *map(str, args)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout * SLOW,
        env={**os.environ, **(env or {})},
    )
    return done.returncode, done.stdout, done.stderr


def report_of(stdout):
    return json.loads(stdout.strip().splitlines()[-1])


class Running:
    """A ps-run (or another program) under way, with what it says on standard error."""

    def __init__(self, *args, program=RUN, env=None, under=()):
        self.process = subprocess.Popen(
            [*LEASHED, *under, program, *map(str, args)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **(env or {})},
        )
        self.lines = []
        self.stdout = ""
        self.changed = threading.Condition()
        self.readers = [
            threading.Thread(target=self._read_stderr, daemon=True),
            threading.Thread(target=self._read_stdout, daemon=True),
        ]
        for reader in self.readers:
            reader.start()

    def _read_stderr(self):
        for line in self.process.stderr:
            with self.changed:
                self.lines.append(line.rstrip("\n"))
                self.changed.notify_all()

    def _read_stdout(self):
        for line in self.process.stdout:
            with self.changed:
                self.stdout += line
                self.changed.notify_all()

    def wait_line(self, pattern, timeout=30, stdout=False):
        """The match of the first line that has `pattern`."""
        end = time.monotonic() + timeout * SLOW
        with self.changed:
            while True:
                for line in self.stdout.splitlines() if stdout else self.lines:
                    match = re.search(pattern, line)
                    if match:
                        return match
                left = end - time.monotonic()
                if left <= 0 or (self.process.poll() is not None and not self._reading()):
                    raise AssertionError(f"no line matches {pattern!r}:\n" + self.text())
                self.changed.wait(min(left, 0.2))

    def _reading(self):
        return any(reader.is_alive() for reader in self.readers)

    def pid_of(self, name):
        """Process id of "worker 2", as ps-run says it."""
        return int(self.wait_line(rf"{name} is process (\d+)").group(1))

    def wait(self, timeout=60):
        try:
            status = self.process.wait(timeout * SLOW)
        except subprocess.TimeoutExpired as error:
            raise AssertionError(f"it has not ended within {timeout} s:\n{self.text()}") from error
        for reader in self.readers:
            reader.join(5)
        return status

    def text(self):
        return "\n".join(self.lines)

    def report(self):
        return report_of(self.stdout)

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for reader in self.readers:
            reader.join(5)
        self.process.stdout.close()
        self.process.stderr.close()


def exists(pid):
    """Whether the process runs; one that has ended and was not waited for does not."""
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_until(what, condition, timeout=10):
    end = time.monotonic() + timeout * SLOW
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"not within {timeout} s: {what}")
        time.sleep(0.02)


def environment(pid):
    """What the process was started with, as b"NAME=value" items."""
    while True:
        with open(f"/proc/{pid}/environ", "rb") as f:
            text = f.read()
        if text:
            return text.split(b"\0")
        # None, or not to be seen yet: in execve() the new memory is there before its environment.
        with open(f"/proc/{pid}/stat") as f:
            fields = f.read().rsplit(")", 1)[1].split()  # From field 3 of proc(5) on.
        vsize, env_start, env_end = int(fields[20]), int(fields[47]), int(fields[48])
        if vsize == 0 or (env_start == env_end and env_end > 0):
            return []
        time.sleep(0.001)


def tagged(tag):
    """Processes that run with `tag` in their environment."""
    pids = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            if f"{TAG}={tag}".encode() in environment(name) and exists(int(name)):
                pids.append(int(name))
        except OSError:
            continue  # It has ended, or is not ours.
    return pids


def threads_of(pid):
    """{thread id: (name, CPU ticks)}"""
    threads = {}
    for thread in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            with open(f"/proc/{pid}/task/{thread}/stat") as f:
                head, tail = f.read().rsplit(")", 1)
            fields = tail.split()
            threads[int(thread)] = (head.split("(", 1)[1], int(fields[11]) + int(fields[12]))
    return threads


def rss_bytes(pid):
    """What the process holds in memory now."""
    with open(f"/proc/{pid}/status") as f:
        return 1024 * int(re.search(r"VmRSS:\s+(\d+) kB", f.read()).group(1))


def free_port(n=1):
    """The first of `n` ports in a row that are free now."""
    for _ in range(100):
        first = random.randrange(20000, 32000)
        with contextlib.ExitStack() as stack:
            try:
                for i in range(n):
                    s = stack.enter_context(socket.socket())
                    s.bind(("127.0.0.1", first + i))
                return first
            except OSError:
                continue
    raise AssertionError("no free ports")


# ---- Models ---------------------------------------------------------------------------------


def read_safetensors(path):
    """{name: (shape, floats)}, written from the format's description alone."""
    with open(path, "rb") as f:
        data = f.read()
    (n,) = struct.unpack("<Q", data[:8])
    head = json.loads(data[8 : 8 + n])
    tensors = {}
    for name, entry in head.items():
        if name == "__metadata__":
            continue
        assert entry["dtype"] == "F32"
        begin, end = entry["data_offsets"]
        values = array.array("f", data[8 + n + begin : 8 + n + end])
        count = 1
        for dim in entry["shape"]:
            count *= dim
        assert count == len(values), name
        tensors[name] = (entry["shape"], values)
    return tensors


def read_model(path):
    """({sparse table: {key: [numbers]}}, {dense table: [numbers]}, notes), by the format alone."""
    with open(path, "rb") as f:
        data = f.read()
    (n,) = struct.unpack("<Q", data[:8])
    head = json.loads(data[8 : 8 + n])
    notes = head.pop("__metadata__")

    def numbers(name):
        begin, end = head[name]["data_offsets"]
        kind = {"U64": "Q", "F32": "f"}[head[name]["dtype"]]
        return array.array(kind, data[8 + n + begin : 8 + n + end])

    sparse = {}
    dense = {}
    for name in head:
        if name.endswith(".keys"):
            table = name.removesuffix(".keys")
            keys, rows = numbers(name), numbers(f"{table}.rows")
            width = len(rows) // len(keys) if len(keys) else 0
            sparse[table] = {
                k: rows[i * width : (i + 1) * width].tolist() for i, k in enumerate(keys)
            }
        elif not name.endswith(".rows"):
            dense[name] = numbers(name).tolist()
    return sparse, dense, notes


def largest_difference(a, b):
    assert a.keys() == b.keys()
    return max(
        max((abs(x - y) for x, y in zip(a[name][1], b[name][1])), default=0.0) for name in a
    )


# ---- Cases ----------------------------------------------------------------------------------


class Case(unittest.TestCase):
    """A temporary folder per class, with a small data set in it."""

    ROWS = 1000
    SIDE = 8
    PATIENCE_S = 3  # For processes to end after their test.

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="ps-test-")
        cls.data = make_idx(f"{cls.folder}/data", rows=cls.ROWS, side=cls.SIDE)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder, ignore_errors=True)

    def setUp(self):
        tag = f"{os.getpid()}-{self.id()}"
        os.environ[TAG] = tag
        self.addCleanup(self.leave_nothing, tag)

    def leave_nothing(self, tag):
        """Runs last, also after a failure: what the test started is gone, or killed and told."""
        end = time.monotonic() + self.PATIENCE_S * SLOW
        while (left := tagged(tag)) and time.monotonic() < end:
            time.sleep(0.02)
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.assertEqual(left, [], "processes were left behind")

    def start(self, *args, **kwargs):
        running = Running(*args, **kwargs)

        def end():
            running.end()
            self.assertNotIn("Sanitizer", running.text())

        self.addCleanup(end)
        return running

    def train(self, *args, data=None, timeout=60, env=None):
        """Run ps-run with --json; its report. Fails when the exit status is not 0."""
        status, stdout, stderr = run(
            "--data", data or self.data, "--json", *args, timeout=timeout, env=env
        )
        self.assertEqual(status, 0, stderr)
        self.assertNotIn("Sanitizer", stderr)
        self.assertNotIn("not every worker left", stderr)
        return report_of(stdout)

    def model(self, *args, name="model", **kwargs):
        """As train, but also what is in the model file: (report, tensors)."""
        out = f"{self.folder}/{name}"
        report = self.train("--out", out, *args, **kwargs)
        self.assertEqual(report["model_path"], f"{out}/model.safetensors")
        return report, read_safetensors(report["model_path"])

    def assert_exact(self, report, epochs):
        """Every row exactly once an epoch, as the coordinator counted."""
        self.assertEqual(report["rows_trained_min"], epochs, report)
        self.assertEqual(report["rows_trained_max"], epochs, report)


# ---- Running them ---------------------------------------------------------------------------


class TimedResult(unittest.TextTestResult):
    """As usual, with the seconds of each test at the end."""

    def startTest(self, test):
        self.began = time.monotonic()
        super().startTest(test)

    def stopTest(self, test):
        super().stopTest(test)
        self.seconds = getattr(self, "seconds", [])
        self.seconds.append((time.monotonic() - self.began, test.id().split(".")[-1]))

    def stopTestRun(self):
        super().stopTestRun()
        for seconds, name in sorted(getattr(self, "seconds", []), reverse=True):
            self.stream.writeln(f"{seconds:7.1f} s  {name}")


def main():
    unittest.main(
        testRunner=unittest.TextTestRunner(resultclass=TimedResult, verbosity=2, stream=sys.stdout)
    )
