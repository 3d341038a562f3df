"""Names whose address changes while somebody uses them.

In mount and network namespaces of the test's own, with a hosts file of its own: the loopback of
this machine, its /etc/hosts and its resolver are not touched. Needs root, else says so and skips.
"""

import ctypes
import fcntl
import os
import socket
import struct
import subprocess
import unittest

import ps_test

CLONE_NEWNS = 0x00020000
CLONE_NEWNET = 0x40000000
SIOCGIFFLAGS = 0x8913
SIOCSIFFLAGS = 0x8914
IFF_UP = 0x1

FIND_S = 60  # What is promised; it takes a few.


def unshare():
    """None, or why this process cannot have namespaces of its own. Children inherit them."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS | CLONE_NEWNET) != 0:
        return f"no namespaces of its own: {os.strerror(ctypes.get_errno())}; needs root"
    made = subprocess.run(
        ["mount", "--make-rprivate", "/"], capture_output=True, text=True, check=False
    )
    return None if made.returncode == 0 else f"no mounts of its own: {made.stderr.strip()}"


def loopback_up():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        request = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(s, SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(s, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | IFF_UP))


class Names(ps_test.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        why = unshare()
        if why is not None:
            super().tearDownClass()
            raise unittest.SkipTest(why)
        loopback_up()
        cls.hosts = f"{cls.folder}/hosts"
        resolver = f"{cls.folder}/resolv.conf"
        with open(resolver, "w") as f:
            f.write("nameserver 127.0.0.1\noptions timeout:1 attempts:1\n")
        cls.name_is({})
        for ours, theirs in ((cls.hosts, "/etc/hosts"), (resolver, "/etc/resolv.conf")):
            subprocess.run(["mount", "--bind", ours, theirs], check=True)

    @classmethod
    def tearDownClass(cls):
        for theirs in ("/etc/hosts", "/etc/resolv.conf"):
            subprocess.run(["umount", "--lazy", theirs], check=True)
        super().tearDownClass()

    @classmethod
    def name_is(cls, names):
        """From now on these names have these addresses. The same file: it is mounted."""
        with open(cls.hosts, "w") as f:
            f.write("127.0.0.1 localhost\n")
            for name, address in names.items():
                f.write(f"{address} {name}\n")

    def test_a_worker_follows_its_coordinators_name_to_another_address(self):
        self.name_is({"ps-0": "127.0.0.2"})
        port = ps_test.free_port()
        worker = self.start(
            "--coordinator", f"ps-0:{port}", "--data", self.data, "--epochs", 1,
            "--out", f"{self.folder}/moved", "--give-up", "60s", program=ps_test.WORKER,
        )
        worker.wait_line(r"coordinator \(ps-0:")
        server = self.start(
            "--listen", f"127.0.0.3:{port}", "--advertise", f"ps-0:{port}",
            program=ps_test.SERVER,
        )
        server.wait_line("ready address=", stdout=True)
        self.name_is({"ps-0": "127.0.0.3"})
        self.assertEqual(worker.wait(FIND_S), 0, worker.text())

    def serve(self, i, address, port):
        where = ("--coordinator", f"ps-0:{port}") if i > 0 else ("--servers", 2)
        server = self.start(
            "--listen", f"{address}:{port + i}", "--advertise", f"ps-{i}:{port + i}", "--name",
            f"server-{i}", "--data-dir", f"{self.folder}/server-{i}", *where,
            program=ps_test.SERVER,
        )
        server.wait_line("ready address=", stdout=True)
        return server

    def steps(self, port):
        status, stdout, stderr = ps_test.run(
            "status", "--json", "--coordinator", f"ps-0:{port}", "--timeout", "20s",
            program=ps_test.CTL,
        )
        self.assertEqual(status, 0, stderr)
        return ps_test.report_of(stdout)["steps"]

    def test_servers_that_come_back_under_their_names_at_other_addresses_are_found(self):
        names = {"ps-0": "127.0.0.2", "ps-1": "127.0.0.3"}
        self.name_is(names)
        port = ps_test.free_port(2)
        servers = [self.serve(i, names[f"ps-{i}"], port) for i in range(2)]
        workers = [
            self.start(
                "--coordinator", f"ps-0:{port}", "--data", self.data, "--epochs", 100000,
                "--workers", 2, "--name", f"worker-{i}", program=ps_test.WORKER,
            )
            for i in range(2)
        ]
        for victim, address in ((1, "127.0.0.4"), (0, "127.0.0.5")):
            with self.subTest(server=victim):
                before = self.steps(port)
                servers[victim].process.kill()
                servers[victim].process.wait()
                names[f"ps-{victim}"] = address
                self.name_is(names)
                servers[victim] = self.serve(victim, address, port)
                ps_test.wait_until(
                    "training goes on", lambda: self.steps(port) > before + 20, FIND_S
                )
        for worker in workers:
            worker.process.terminate()
            self.assertEqual(worker.wait(20), 0, worker.text())


if __name__ == "__main__":
    ps_test.main()
