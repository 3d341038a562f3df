"""A cluster to be ill-treated: servers are killed, stopped, started again, pushes go on meanwhile.

Everything runs in one folder: data directories, histories, what each process said. Processes end
with this one (PR_SET_PDEATHSIG) and are killed by `Cluster.end`.
"""

import collections
import contextlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import history

SERVER = os.environ.get("PS_BIN_SERVER", "build/bin/ps-server")
WORKER = os.environ.get("PS_BIN_WORKER", "build/bin/ps-worker")
CTL = os.environ.get("PS_BIN_CTL", "build/bin/psctl")
LEDGER = os.environ.get("PS_BIN_LEDGER", "build/tests/load/ps-ledger")
PEEK = os.environ.get("PS_BIN_PEEK", "build/tests/load/ps-peek")

PLANT = os.environ.get("PS_CHAOS_PLANT", "")  # Servers have this bug.
SLOW = float(os.environ.get("PS_TEST_SLOW", "1"))
# Waits end by an event; a busy machine may take its time.
PATIENCE_S = 90 * SLOW
SILENCE_S = 2 * SLOW
LEASHED = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []

KEPT = "everything is kept in "

OF_COORDINATOR = ("--snapshot-every", "--snapshot-keep", "--restore", "--wait-for-server")

# How servers may end: a bad word in what they say is a finding whatever the status.
BAD_WORDS = ("Sanitizer", "assertion", "PS_ASSERT", "double free", "corrupted")


class Violation(Exception):
    """A promise that was broken, or a run that shows nothing."""


class Skip(Exception):
    """What this build or this machine cannot do, and why."""


def settings(program):
    """The names of a program's flags."""
    done = subprocess.run([program, "--print-config"], capture_output=True, text=True, timeout=60,
                          check=False)
    return {line.strip().lstrip("#").split(":")[0] for line in done.stdout.splitlines()[1:]}


def needs(*flags, program=SERVER):
    """Skip unless the program has these."""
    missing = [flag for flag in flags if flag not in settings(program)]
    if missing:
        raise Skip(f"{os.path.basename(program)} has no --{missing[0]} in this build")


def free_ports(n):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(n)]
        for s in sockets:
            s.bind(("127.0.0.1", 0))
        return [s.getsockname()[1] for s in sockets]


def wait_until(what, condition, timeout=PATIENCE_S):
    end = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > end:
            raise Violation(f"not within {timeout:.0f} s: {what}")
        time.sleep(0.01)


class Process:
    """A program whose words go to a file."""

    def __init__(self, name, folder, args, under=()):
        self.name = name
        self.log = os.path.join(folder, f"{name}.log")
        self.out = os.path.join(folder, f"{name}.out")
        with open(self.log, "ab") as log, open(self.out, "ab") as out:
            self.process = subprocess.Popen([*LEASHED, *under, *map(str, args)],
                                            stdin=subprocess.DEVNULL, stdout=out, stderr=log)

    def status(self):
        """Exit status, or None while it runs."""
        return self.process.poll()

    def send(self, number):
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)

    def wait(self, timeout=PATIENCE_S):
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired as error:
            raise Violation(f"{self.name} has not ended within {timeout:.0f} s:\n"
                            + self.text()) from error

    def kill(self):
        self.send(signal.SIGKILL)
        self.process.wait()

    def text(self, n_lines=12):
        with open(self.log, encoding="utf-8", errors="replace") as f:
            return "".join(f.readlines()[-n_lines:])

    def said(self, word):
        """The last line with `word` in it, or None."""
        found = None
        for path in (self.log, self.out):
            with open(path, encoding="utf-8", errors="replace") as f:
                for line in f:
                    found = line if word in line else found
        return found


class Server:
    """One place of the cluster: its data directory stays, its processes come and go."""

    def __init__(self, cluster, index, port):
        self.cluster = cluster
        self.index = index
        self.port = port
        self.data_dir = os.path.join(cluster.data, f"server-{index}")
        self.n_starts = 0
        self.process = None
        self.paused = False

    def args(self):
        cluster = self.cluster
        args = [SERVER, "--listen", f"127.0.0.1:{self.port}", "--name", f"server-{self.index}",
                "--silence", f"{SILENCE_S:.0f}s", "--data-dir", self.data_dir, *cluster.flags]
        if PLANT:
            args += ["--plant", PLANT]
        if self.index == 0:
            return [*args, "--servers", cluster.n_servers, *cluster.coordinator_flags]
        return [*args, "--coordinator", cluster.address]

    def start(self, *more, under=()):
        assert self.process is None
        self.n_starts += 1
        name = f"server-{self.index}.{self.n_starts}"
        self.process = Process(name, self.cluster.folder, [*self.args(), *more], under)

    def wait_ready(self):
        def ready():
            if self.process.status() is not None:
                raise Violation(f"{self.process.name} ended with {self.process.status()} at its "
                                f"start:\n{self.process.text()}")
            return self.process.said("ready address=")

        wait_until(f"{self.process.name} is ready", ready)

    def running(self):
        return self.process is not None and self.process.status() is None

    def kill(self):
        """SIGKILL, and wait until it is gone."""
        self.process.kill()
        self.gone()

    def gone(self):
        """It has ended; what it said is looked at."""
        process, self.process, self.paused = self.process, None, False
        for word in BAD_WORDS:
            line = process.said(word)
            if line:
                raise Violation(f"{process.name} said: {line}")
        return process.status()

    def move(self):
        """Another port from the next start on; the coordinator is known by its own."""
        if self.index > 0:
            self.port = free_ports(1)[0]


class Progress:
    """How many pushes were acknowledged, by the histories as they grow."""

    MARK = b'"type":"ok","f":"push"'

    def __init__(self):
        self.at = collections.Counter()
        self.acked = 0

    def look(self, paths):
        for path in paths:
            with contextlib.suppress(FileNotFoundError), open(path, "rb") as f:
                f.seek(self.at[path])
                data = f.read()
                end = data.rfind(b"\n") + 1
                self.at[path] += end
                self.acked += data.count(self.MARK, 0, end)
        return self.acked


class Cluster:
    def __init__(self, n_servers=2, flags=(), data=None, keep=False):
        self.folder = tempfile.mkdtemp(prefix="ps-chaos-")
        self.data = data or os.path.join(self.folder, "data")
        os.makedirs(self.data, exist_ok=True)
        self.keep = keep
        self.n_servers = n_servers
        self.flags, self.coordinator_flags = [], []
        self.add_flags(flags)
        ports = free_ports(n_servers)
        self.address = f"127.0.0.1:{ports[0]}"
        self.servers = [Server(self, i, port) for i, port in enumerate(ports)]
        self.ledgers = []
        self.histories = []
        self.progress = Progress()
        self.n_clients = 0
        self.faults = collections.Counter()
        self.ways_back = []

    def add_flags(self, flags):
        """Pairs of flag and value; some are for the coordinator alone."""
        for flag, value in zip(flags[::2], flags[1::2]):
            to = self.coordinator_flags if flag in OF_COORDINATOR else self.flags
            to += [flag, str(value)]

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if kind is not None and not issubclass(kind, Skip):
            self.keep = True
            print(f"{KEPT}{self.folder}", flush=True)
        self.end()

    def end(self):
        for process in [s.process for s in self.servers if s.process] + self.ledgers:
            process.kill()
        if not self.keep:
            shutil.rmtree(self.folder, ignore_errors=True)

    # ---- Servers ---------------------------------------------------------------------------

    def start(self, *more, under=()):
        for server in self.servers:
            server.start(*more, under=under)
        for server in self.servers:
            server.wait_ready()

    def check_alive(self):
        """Whoever has ended by itself did so unasked."""
        for server in self.servers:
            if server.process is not None and server.process.status() is not None:
                status = server.process.status()
                raise Violation(f"{server.process.name} ended with {status}:\n"
                                f"{server.process.text()}")

    def ctl(self, *args, timeout=60):
        """(exit status, standard output, standard error)"""
        done = subprocess.run([*LEASHED, CTL, *map(str, args), "--coordinator", self.address],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=timeout * SLOW, check=False)
        return done.returncode, done.stdout, done.stderr

    # ---- Pushes ----------------------------------------------------------------------------

    def push(self, clients=2, depth=4, interval="0", hours=24, more=()):
        """Start a process that pushes until it is told to stop."""
        name = f"ledger-{len(self.histories)}"
        path = os.path.join(self.folder, f"{name}.history")
        args = [LEDGER, "--coordinator", self.address, "--history", path, "--clients", clients,
                "--first", self.n_clients, "--depth", depth, "--interval", interval,
                "--give-up", "10m", "--time", f"{hours}h", *more]
        self.n_clients += clients
        self.histories.append(path)
        self.ledgers.append(Process(name, self.folder, args))
        return self.ledgers[-1]

    def acked(self):
        return self.progress.look(self.histories)

    def wait_acked(self, n, timeout=PATIENCE_S):
        """So many more pushes are acknowledged."""
        goal = self.acked() + n

        def reached():
            self.check_alive()
            return self.acked() >= goal

        try:
            wait_until(f"{n} more pushes are acknowledged", reached, timeout)
        except Violation as error:
            words = [str(error)] + [p.text(6) for p in self.ledgers]
            words += [s.process.text(6) for s in self.servers if s.process]
            raise Violation("\n".join(words)) from error

    def stop_pushing(self):
        """In peace: what is under way is waited for."""
        for ledger in self.ledgers:
            if ledger.status() is None:
                ledger.send(signal.SIGTERM)
        for ledger in self.ledgers:
            ledger.wait()

    # ---- The end ---------------------------------------------------------------------------

    def read_all(self):
        path = os.path.join(self.folder, f"reader-{len(self.histories)}.history")
        args = [LEDGER, "--coordinator", self.address, "--history", path, "--mode", "read",
                "--first", 60000]
        reader = Process(f"reader-{len(self.histories)}", self.folder, args)
        status = reader.wait()
        if status != 0:
            raise Violation(f"the reader ended with {status}: {reader.text()}")
        self.histories.append(path)

    def judge(self, least_acked=100, least_faults=1):
        """Stop pushing, read everything, and look. The verdict, with nothing wrong in it."""
        self.stop_pushing()
        self.read_all()
        verdict = history.check(self.histories, self.ways_back)
        fired = sum(self.faults.values())
        if verdict.n_wrong > 0:
            raise Violation(verdict.text())
        if verdict.acked < least_acked:
            raise Violation(f"only {verdict.acked} pushes were acknowledged, at least "
                            f"{least_acked} would show something")
        if fired < least_faults:
            raise Violation(f"only {fired} faults fired, at least {least_faults} would show "
                            "something")
        return verdict


def some(rng, least, most):
    """Seconds between these, short ones more often than long ones."""
    return least * (most / least) ** rng.random()


def rng_of(seed, *words):
    return random.Random(json.dumps([seed, *words]))
