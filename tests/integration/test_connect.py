"""Connecting, and failing to: each problem is one clear line, within its deadline, with its status.

The table of situations and messages stands in deploy/README.md, "When it does not connect".
"""

import contextlib
import os
import shutil
import socket
import ssl
import subprocess
import threading
import time
import unittest

import ps_test

HERE = "127.0.0.1:0"
NOWHERE = "nosuchhost.invalid:7070"
# Longer than every deadline asked for below; what is late fails, what is slow does not.
PATIENCE = 60


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as s:
            s.bind(("::1", 0))
            return True
    except OSError:
        return False


def addresses(name):
    return [info[4][0] for info in socket.getaddrinfo(name, 1, 0, socket.SOCK_STREAM)]


needs_ipv6 = unittest.skipUnless(has_ipv6(), "this machine has no IPv6 loopback")

# Debian's, with Debian's modules: python3 on PATH may be another one.
PYTHON = "/usr/bin/python3"
STRANGER = """
import grpc
from concurrent import futures
class Handler(grpc.GenericRpcHandler):
    def service(self, details):
        return handler_of(details.method)
def handler_of(method):
    return None
server = grpc.server(futures.ThreadPoolExecutor(2), handlers=[Handler()])
print(server.add_insecure_port("127.0.0.1:0"), flush=True)
server.start()
server.wait_for_termination()
"""
# Answers Join as a coordinator would that speaks protocol 2.
NEWCOMER = STRANGER.replace("return None", """
    reply = b"\\x08\\x02" + b"\\x12\\x10" + bytes(range(16)) + b"\\x18\\x01"
    assert method == "/ps.v1.Coordinator/Join", method
    return grpc.unary_unary_rpc_method_handler(lambda request, context: reply)
""")
# Joins as a worker would that speaks protocols 2 and 3.
NEW_MEMBER = """
import grpc, sys
request = b"\\x08\\x02\\x10\\x03\\x20\\x01\\x2a\\x01x\\x32\\x10" + bytes(range(16))
channel = grpc.insecure_channel(sys.argv[1])
try:
    channel.unary_unary("/ps.v1.Coordinator/Join")(request, timeout=20)
except grpc.RpcError as error:
    print(error.code(), error.details())
"""


class Impostor:
    """Something that listens, but is no ps-server."""

    def __init__(self, talk, family=socket.AF_INET, host="127.0.0.1", port=0):
        self.talk = talk
        self.ended = threading.Event()
        self.socket = socket.socket(family)
        self.socket.bind((host, port))
        self.socket.listen(16)
        self.port = self.socket.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        self.threads = [threading.Thread(target=self._accept)]
        self.threads[0].start()

    def _accept(self):
        self.socket.settimeout(0.1)
        while not self.ended.is_set():
            with contextlib.suppress(TimeoutError):
                peer = self.socket.accept()[0]
                self.threads.append(threading.Thread(target=self._talk, args=(peer,)))
                self.threads[-1].start()

    def _talk(self, peer):
        with peer, contextlib.suppress(OSError):
            peer.settimeout(PATIENCE)
            self.talk(self, peer)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ended.set()
        for thread in self.threads:
            thread.join()
        self.socket.close()


def say_http1(_, peer):
    peer.recv(65536)
    peer.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")


def say_banner(impostor, peer):
    peer.sendall(b"SSH-2.0-OpenSSH_9.2p1\r\n")
    impostor.ended.wait(PATIENCE)


def say_nothing(impostor, _):
    impostor.ended.wait(PATIENCE)


def hang_up(_, peer):
    peer.recv(10)


class Connect(ps_test.Case):
    ROWS = 200

    def program(self, program, *args, **kwargs):
        """(exit status, the last line of standard error, seconds)"""
        began = time.monotonic()
        status, stdout, stderr = ps_test.run(*args, program=program, timeout=PATIENCE, **kwargs)
        self.assertNotIn("Sanitizer", stderr)
        self.assertNotIn("assertion", stderr)
        self.said = stderr
        lines = stderr.strip().splitlines() or [""]
        return status, lines[-1], time.monotonic() - began

    def refuse(self, status, says, program, *args, alone=True, **kwargs):
        got, line, _ = self.program(program, *args, **kwargs)
        self.assertEqual((got, True), (status, says in line), f"{args}: {got}: {self.said}")
        if alone:
            self.assertEqual(len(self.said.splitlines()), 1, self.said)
        self.assertTrue(line.startswith(os.path.basename(program) + ": "), line)
        return line

    def server(self, *args, listen=HERE, **kwargs):
        server = self.start("--listen", listen, *args, program=ps_test.SERVER, **kwargs)
        server.address = server.wait_line(r"ready address=(\S+)", stdout=True).group(1)
        return server

    def cluster_of(self, server):
        return server.wait_line(r"ready .* cluster=([0-9a-f]{32})$", stdout=True).group(1)

    def worker_args(self, address, *args):
        return ("--coordinator", address, "--data", self.data, "--workers", 1, "--epochs", 1, *args)

    def trains(self, *coordinator_args, listen=HERE, second=None, dial=None, env=None):
        """Two daemons and a worker, to the end of a job."""
        first = self.server("--servers", 2, *coordinator_args, listen=listen, env=env)
        other = self.server("--coordinator", dial or first.address, listen=second or listen,
                            env=env)
        status, line, _ = self.program(
            ps_test.WORKER, *self.worker_args(dial or first.address), env=env
        )
        self.assertEqual(status, 0, line + first.text() + other.text())
        status, line, _ = self.program(ps_test.CTL, "status", "--coordinator", first.address)
        self.assertEqual(status, 0, line)
        return first, other


class Addresses(Connect):
    BAD = (
        ("", "1 to 255 bytes, got 0"),
        (" ", "white space"),
        ("host", "write host:7070"),
        ("host:0", "port 0 cannot be dialled"),
        ("host:70707", "65535 is the last"),
        ("host:http", "'http' is no port"),
        ("::1:7070", "write [::1]:7070"),
        ("[fe80::1]:7070", "[fe80::1%eth0]:7070"),
        ("http://host:7070", "leave the scheme away: write host:7070"),
        ("dns:///host:7070", "leave the scheme away: write host:7070"),
        ("a:7070,b:7070", "a list is not possible"),
        ("0.0.0.0:7070", "0.0.0.0 is every address"),
        ("unix:socket", "write unix:/path"),
        ("unix:/" + "a" * 107, "at most 107 bytes, not 108"),
        ("a" * 300, "1 to 255 bytes, got 300"),
    )

    def test_what_is_no_address_to_dial_is_refused_by_every_program(self):
        for address, says in self.BAD:
            with self.subTest(address=address):
                flag = ("--coordinator", address)
                line = self.refuse(2, says, ps_test.CTL, "status", *flag)
                self.assertIn("--coordinator", line)
                line = self.refuse(2, says, ps_test.SERVER, "--listen", HERE, *flag)
                self.assertIn("--coordinator", line)
                line = self.refuse(2, says, ps_test.WORKER, "--data", "/none", *flag)
                self.assertIn("--coordinator", line)

    def test_what_is_no_address_to_serve_is_refused(self):
        for address, says in (
            ("", "1 to 255 bytes, got 0"),
            ("127.0.0.1", "write 127.0.0.1:7070"),
            (":7070", "write 0.0.0.0:7070"),
            ("::1:0", "write [::1]:0"),
            ("127.0.0.1:70707", "65535 is the last"),
            ("http://127.0.0.1:0", "leave the scheme away"),
            ("unix:socket", "write unix:/path"),
            ("unix:/" + "a" * 107, "at most 107 bytes, not 108"),
            ("unix:/no/such/folder/s", "there is no such folder"),
            (f"unix:{self.data}", "a file is in the way"),
            (NOWHERE, "'nosuchhost.invalid' does not resolve"),
            ("203.0.113.1:7070", "not an address of this machine"),
            ("0.0.0.0:0", "say with --advertise"),
            ("[::]:0", "say with --advertise"),
        ):
            with self.subTest(address=address):
                self.refuse(2, says, ps_test.SERVER, "--listen", address, "--log-level", "warn")
        for args, says in (
            (("--advertise", ""), "1 to 255 bytes, got 0"),
            (("--advertise", "0.0.0.0:7070"), "0.0.0.0 is every address"),
            (("--advertise", "host"), "write host:7070"),
        ):
            self.refuse(2, says, ps_test.SERVER, "--listen", HERE, *args)
        args = ("--listen", f"unix:{self.folder}/s", "--advertise", "host:0")
        self.refuse(2, "--listen is a unix socket", ps_test.SERVER, *args)

    def test_ps_run_refuses_a_host_that_is_none(self):
        for host, says in (("a:b", "too many colons"), ("", "no host is given"),
                           (":::1", "':::1' is no IPv6 address"), ("1.2.3", "is no IPv4 address"),
                           ("http://a", "leave the scheme away")):
            self.refuse(2, says, ps_test.RUN, "--data", self.data, "--host", host)
        line = self.refuse(2, "does not resolve", ps_test.RUN, "--data", self.data, "--host",
                           "nosuchhost.invalid", alone=False)
        self.assertIn("server 0 could not start", line)

    def test_what_is_advertised_can_be_dialled(self):
        server = self.server("--advertise", "localhost:0", listen="0.0.0.0:0")
        self.assertRegex(server.address, r"^localhost:[1-9]\d*$")
        self.assertEqual(self.program(ps_test.CTL, "status", "--coordinator", server.address)[0], 0)
        # Port 0 of what is advertised is the port of what is served.
        self.trains("--advertise", "127.0.0.1:0", listen="0.0.0.0:0", second=HERE)


class Listening(Connect):
    def test_a_port_that_another_program_has_is_named(self):
        for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
            if family == socket.AF_INET6 and not has_ipv6():
                continue
            with Impostor(say_nothing, family, host) as other:
                at = f"[{host}]" if ":" in host else host
                hosts = [at, "0.0.0.0", "[::]"] + ["localhost"] * (host in addresses("localhost"))
                for listen in (f"{at}:{other.port}" for at in hosts):
                    with self.subTest(listen=listen):
                        self.refuse(
                            2, f"cannot listen on {listen}: address in use", ps_test.SERVER,
                            "--listen", listen, "--advertise", "localhost:0", "--log-level", "warn",
                        )

    def test_a_port_that_another_server_has_is_named(self):
        first = self.server()
        self.refuse(2, "address in use", ps_test.SERVER, "--listen", first.address,
                    "--log-level", "warn")
        path = f"unix:{self.folder}/taken"
        self.server(listen=path)
        self.refuse(2, "address in use", ps_test.SERVER, "--listen", path, "--log-level", "warn")

    def test_a_port_for_root_only_is_denied(self):
        with open("/proc/sys/net/ipv4/ip_unprivileged_port_start") as f:
            if int(f.read()) <= 80:
                self.skipTest("every port is for everybody here")
        server = ps_test.SERVER
        nobody = []
        if os.geteuid() == 0:
            if shutil.which("setpriv") is None:
                self.skipTest("root may use every port, and there is no setpriv to be nobody")
            nobody = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
            if subprocess.run([*nobody, server, "--version"], capture_output=True).returncode != 0:
                self.skipTest("nobody cannot run the program where it lies")
        done = subprocess.run([*nobody, server, "--listen", "127.0.0.1:80", "--log-level", "warn"],
                              capture_output=True, text=True, timeout=PATIENCE * ps_test.SLOW)
        self.assertEqual(done.returncode, 77, done.stderr)
        self.assertIn("cannot listen on 127.0.0.1:80: permission denied", done.stderr)

    @needs_ipv6
    def test_a_cluster_on_ipv6_trains(self):
        first, _ = self.trains(listen="[::1]:0")
        self.assertRegex(first.address, r"^\[::1\]:\d+$")

    @needs_ipv6
    def test_ps_run_trains_on_ipv6(self):
        report = self.train("--host", "::1", "--servers", 2, "--workers", 2, "--epochs", 1)
        self.assert_exact(report, 1)

    def test_ps_run_trains_on_every_address(self):
        report = self.train("--host", "0.0.0.0", "--servers", 2, "--workers", 2, "--epochs", 1)
        self.assert_exact(report, 1)

    def test_a_cluster_on_unix_sockets_trains(self):
        self.trains(listen=f"unix:{self.folder}/first", second=f"unix:{self.folder}/second")

    @needs_ipv6
    def test_a_name_with_two_addresses_is_tried_at_each(self):
        hosts = f"{self.folder}/hosts"
        with open(hosts, "w") as f:
            f.write("127.0.0.1 both.test\n::1 both.test\n")
        renamed = ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"',
                   hosts]
        if subprocess.run([*renamed, "true"], capture_output=True).returncode != 0:
            self.skipTest("no /etc/hosts of our own: that needs unshare --mount")

        def ask(port):
            asking = self.start("status", "--coordinator", f"both.test:{port}",
                                program=ps_test.CTL, under=renamed)
            self.assertEqual((asking.wait(PATIENCE), asking.text()), (0, ""))

        for host in ("127.0.0.1", "[::1]"):
            ask(self.server(listen=f"{host}:0").address.rsplit(":", 1)[1])
        both = self.server(listen="both.test:0", under=renamed)
        port = both.address.rsplit(":", 1)[1]
        ask(port)
        for host in ("127.0.0.1", "[::1]"):  # It serves at each, too.
            args = ("status", "--coordinator", f"{host}:{port}")
            self.assertEqual(self.program(ps_test.CTL, *args)[0], 0, self.said)
        for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
            with Impostor(say_nothing, family, host) as other:
                half = self.start("--listen", f"both.test:{other.port}", program=ps_test.SERVER,
                                  under=renamed)
                self.assertEqual(half.wait(PATIENCE), 2, half.text())
                self.assertIn("address in use", half.lines[-1])


class Reaching(Connect):
    """Who dials somebody that is not there, or somebody else."""

    QUICK = ("--give-up", "1s", "--log-level", "warn")

    def skip_without_grpc(self):
        if subprocess.run([PYTHON, "-c", "import grpc"], capture_output=True).returncode != 0:
            self.skipTest(f"{PYTHON} has no grpc")

    def grpc(self, script):
        """The port of a gRPC server that is not ours."""
        self.skip_without_grpc()
        other = self.start("-c", script, program=PYTHON)
        return other.wait_line(r"^(\d+)$", stdout=True).group(1)

    def reach(self, address, says, status=4):
        """Every program says so: psctl at once, daemons when they give up."""
        line = self.refuse(status, says, ps_test.CTL, "status", "--coordinator", address)
        self.assertIn(f"--coordinator {address}: ", line)
        flags = ("--coordinator", address, *self.QUICK)
        began = time.monotonic()
        server = self.start("--listen", HERE, *flags, program=ps_test.SERVER)
        worker = self.start(*self.worker_args(address, "--give-up", "1s"), program=ps_test.WORKER)
        for daemon, program in ((server, "ps-server"), (worker, "ps-worker")):
            self.assertEqual(daemon.wait(PATIENCE), status, daemon.text())
            self.assertTrue(daemon.lines[-1].startswith(f"{program}: "), daemon.text())
            self.assertIn(address, daemon.lines[-1])
            self.assertIn(says, daemon.lines[-1])
            if status == 4:  # Three times --give-up, and meanwhile a line now and then.
                self.assertGreater(time.monotonic() - began, 2.5)
                waiting = [line for line in daemon.lines if "retrying" in line]
                self.assertLessEqual(len(waiting), 3, daemon.text())  # After 1 s, 2 s, 4 s ...

    def test_nobody_listens(self):
        with socket.socket() as s:  # Bound, but not listening: nobody else can have the port.
            s.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{s.getsockname()[1]}"
            self.reach(address, "connection refused: nothing serves there")
        self.reach(f"unix:{self.folder}/none", "there is no such socket: nothing serves there")
        self.reach(f"unix:{self.data}/train-labels-idx1-ubyte", "nothing serves there")

    def test_a_name_does_not_resolve(self):
        self.reach(NOWHERE, "the name does not resolve")

    def test_an_http_server_answers(self):
        with Impostor(say_http1) as impostor:
            self.reach(impostor.address, "it answers, but with HTTP/1")

    def test_something_answers_that_is_no_grpc(self):
        with Impostor(say_banner) as impostor:
            self.reach(impostor.address, "it answers, but speaks no gRPC")
        with Impostor(hang_up) as impostor:
            self.reach(impostor.address, "it hangs up before it speaks gRPC")

    def test_a_tls_server_answers(self):
        key, cert = f"{self.folder}/key", f"{self.folder}/cert"
        made = shutil.which("openssl") and subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out",
             cert, "-days", "1", "-subj", "/CN=localhost"], capture_output=True,
        ).returncode == 0
        if not made:
            self.skipTest("there is no openssl to make a certificate")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cert, key)

        def shake_hands(_, peer):
            context.wrap_socket(peer, server_side=True)

        with Impostor(shake_hands) as impostor:
            self.reach(impostor.address, "it hangs up before it speaks gRPC")

    def test_something_accepts_and_says_nothing(self):
        with Impostor(say_nothing) as impostor:
            self.reach(impostor.address, "no answer within")
            args = ("status", "--coordinator", impostor.address, "--timeout", "20s")
            self.refuse(4, "it accepts connections but says nothing", ps_test.CTL, *args)

    def test_another_grpc_service_answers(self):
        self.reach(f"127.0.0.1:{self.grpc(STRANGER)}", "it speaks gRPC, but is no ps-server", 2)

    def test_a_coordinator_of_another_age_is_refused_with_both_protocols(self):
        address = f"127.0.0.1:{self.grpc(NEWCOMER)}"
        says = f"coordinator ({address}) speaks protocol 2, 1 to 1 are spoken here"
        flags = ("--coordinator", address, "--log-level", "warn")
        self.refuse(2, says, ps_test.SERVER, "--listen", HERE, *flags)
        self.refuse(2, says, ps_test.WORKER, *self.worker_args(address), alone=False)

    def test_a_member_of_another_age_is_refused_with_both_protocols(self):
        server = self.server()
        self.skip_without_grpc()
        answer = self.start("-c", NEW_MEMBER, server.address, program=PYTHON)
        self.assertEqual(answer.wait(PATIENCE), 0, answer.text())
        self.assertIn("UNIMPLEMENTED", answer.stdout)
        self.assertIn("protocols 2 to 3 are asked for, 1 to 1 are spoken here", answer.stdout)

    def test_a_server_that_does_not_coordinate_says_who_does(self):
        first = self.server("--servers", 2)
        second = self.server("--coordinator", first.address)
        self.reach(second.address, f"does not coordinate; dial {first.address}", status=2)

    def test_a_coordinator_that_starts_later_is_joined(self):
        port = ps_test.free_port()
        address = f"127.0.0.1:{port}"
        args = ("--listen", HERE, "--coordinator", address, "--log-level", "info")
        second = self.start(*args, program=ps_test.SERVER)
        worker = self.start(*self.worker_args(address), program=ps_test.WORKER)
        second.wait_line(f"{address}.*connection refused.*retrying")
        worker.wait_line(f"{address}.*connection refused.*retrying")
        self.server("--servers", 2, listen=address)
        second.wait_line("event=server.joined")
        self.assertEqual(worker.wait(PATIENCE), 0, worker.text())

    def test_servers_that_are_missing_are_counted(self):
        first = self.server("--servers", 2)
        args = self.worker_args(first.address, "--give-up", "1s")
        self.refuse(4, "waiting for the servers: 1 of 2 have joined", ps_test.WORKER, *args,
                    alone=False)

    def test_a_proxy_in_the_environment_is_ignored(self):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            dead = f"http://127.0.0.1:{s.getsockname()[1]}"
            names = ("http_proxy", "https_proxy", "grpc_proxy", "all_proxy")
            env = {name: dead for lower in names for name in (lower, lower.upper())}
            env.update({"no_proxy": "", "no_grpc_proxy": ""})
            first, _ = self.trains(env=env, listen="localhost:0")
            args = ("status", "--coordinator", first.address)
            self.assertEqual(self.program(ps_test.CTL, *args, env=env)[0], 0, self.said)


class Clusters(Connect):
    OTHER = "0123456789abcdef0123456789abcdef"

    def status_of(self, address):
        args = ("status", "--json", "--coordinator", address)
        return ps_test.run(*args, program=ps_test.CTL)[1]

    def test_a_cluster_id_is_said_and_can_be_asked_for(self):
        first = self.server("--servers", 2)
        cluster = self.cluster_of(first)
        flags = ("--coordinator", first.address, "--cluster-id", cluster.upper())
        second = self.server(*flags)
        self.assertNotIn("cluster=", second.stdout)
        second.wait_line(f"event=server.joined.*cluster={cluster}")
        status, line, _ = self.program(ps_test.WORKER, *self.worker_args(*flags[1:]))
        self.assertEqual(status, 0, line)
        status, stdout, stderr = ps_test.run("status", *flags, program=ps_test.CTL)
        self.assertEqual(status, 0, stderr)
        self.assertIn(cluster, stdout)
        status, stdout, stderr = ps_test.run(
            "status", "--json", "--coordinator", first.address, program=ps_test.CTL,
            env={"PSCTL_CLUSTER_ID": cluster},
        )
        self.assertEqual((status, cluster in stdout), (0, True), stderr)

    def test_another_cluster_is_refused_with_both_ids(self):
        first = self.server("--servers", 2)
        says = f"this is cluster {self.cluster_of(first)}, asked for is cluster {self.OTHER}"
        wrong = ("--coordinator", first.address, "--cluster-id", self.OTHER)
        self.refuse(2, says, ps_test.CTL, "status", *wrong)
        self.refuse(2, says, ps_test.SERVER, "--listen", HERE, *wrong, "--log-level", "warn")
        self.refuse(2, says, ps_test.WORKER, *self.worker_args(*wrong[1:]), alone=False)
        env = {"PS_WORKER_CLUSTER_ID": self.OTHER, "PS_SERVER_CLUSTER_ID": self.OTHER}
        self.refuse(2, says, ps_test.WORKER, *self.worker_args(first.address), alone=False, env=env)
        args = ("--listen", HERE, "--coordinator", first.address, "--log-level", "warn")
        self.refuse(2, says, ps_test.SERVER, *args, env=env)
        self.assertIsNone(first.process.poll())

    def test_what_is_no_cluster_id_is_refused(self):
        for text in ("", "7", self.OTHER + "0", "0x" + self.OTHER[2:]):
            says = "is not 32 hexadecimal digits"
            flags = ("--coordinator", "127.0.0.1:1", "--cluster-id", text)
            self.refuse(2, says, ps_test.CTL, "status", *flags)
            self.refuse(2, says, ps_test.SERVER, "--listen", HERE, *flags)
            self.refuse(2, says, ps_test.WORKER, "--data", self.data, *flags)
        self.refuse(2, "there is no --coordinator", ps_test.SERVER, "--listen", HERE,
                    "--cluster-id", self.OTHER)

    def test_yesterdays_members_are_told_of_another_cluster(self):
        port = ps_test.free_port()
        address = f"127.0.0.1:{port}"
        first = self.server("--servers", 2, listen=address)
        before = self.cluster_of(first)
        patient = ("--give-up", "60s")
        second = self.server("--coordinator", address, *patient)
        # It waits for a second worker that never comes, so it stays.
        args = ("--coordinator", address, "--data", self.data, "--workers", 2, "--start-timeout",
                "0", *patient)
        worker = self.start(*args, program=ps_test.WORKER)

        def both_are_there():
            return '"kind":"worker"' in self.status_of(address)

        ps_test.wait_until("the worker has joined", both_are_there, PATIENCE)
        first.end()  # Killed: its cluster was in its memory only.
        again = self.server("--servers", 2, listen=address)
        after = self.cluster_of(again)
        self.assertNotEqual(before, after)
        says = f"is now that of cluster {after}: cluster {before} is gone"
        for member in (second, worker):
            self.assertEqual(member.wait(PATIENCE), 4, member.text())
            self.assertIn(f"coordinator ({address}) {says}", member.lines[-1])
        self.assertNotIn('"kind":"worker"', self.status_of(address))  # Nor joined the new one.


if __name__ == "__main__":
    ps_test.main()
