"""Peers that break every rule against a real server, and a client that behaves beside them.

Each test states how much memory the server may take on meanwhile. Of all of them the same is asked:
the server lives, the small calls of the other client succeed, 99 of 100 within a second (told BUSY,
it waits and asks again). With
PS_TEST_HOSTILE=1 the counts are those of whoever has some minutes.
"""

import contextlib
import os
import random
import resource
import socket
import ssl
import struct
import threading
import time
import unittest
import zlib

import hostile_h2 as h2
import ps_test

MIB = 1 << 20
MESSAGE_MAX = 4 * MIB
CONTROL_MAX = 64 << 10
P99_S = 1.0
MANY = os.environ.get("PS_TEST_HOSTILE", "") not in ("", "0")
SANITIZED = ps_test.SLOW > 1  # Sanitizers keep what was freed: memory says nothing.
FILES_SPARE = 500
HEAP_STEP = 64  # MiB by which the server's heap grows at a time (M_TOP_PAD); part of each limit.


def many(usual, hostile):
    return hostile if MANY else ps_test.either(usual, max(1, usual // 5))


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def open_files(pid):
    """How many it has open: connections, all but some."""
    return len(os.listdir(f"/proc/{pid}/fd"))


class Sampler(threading.Thread):
    """The most memory that a process holds meanwhile."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.most, self.stopping = pid, ps_test.rss_bytes(pid), threading.Event()

    def run(self):
        while not self.stopping.wait(0.02):
            with contextlib.suppress(OSError, AttributeError):  # It has ended: told elsewhere.
                self.most = max(self.most, ps_test.rss_bytes(self.pid))


class Member:
    """A reader that has joined, and requests as it makes them."""

    def __init__(self, address):
        self.session = os.urandom(16)
        with h2.Peer(address) as peer:
            join = (
                h2.field(1, 1) + h2.field(2, 1) + h2.field(4, 2) + h2.field(5, "reader")
                + h2.field(6, self.session)
            )
            reply = h2.read_fields(peer.call("/ps.v1.Coordinator/Join", join))
            self.join = join
            self.number, self.generation = reply[3][0], reply[5][0]
            self.tables = {}
            for name, floats in (("small", 1000), ("big", 16 << 20)):
                definition = (
                    h2.field(1, name) + h2.field(2, h2.varint(floats)) + h2.field(3, 1)
                    + h2.field(7, h2.field(1, "sgd"))
                )
                self.define = h2.field(1, self.session) + h2.field(2, definition)
                reply = peer.call("/ps.v1.Coordinator/DefineTable", self.define)
                table = h2.read_fields(h2.read_fields(reply)[1][0])
                self.tables[name] = table.get(1, [0])[0], table.get(2, [0])[0]

    def pull(self, name, blocks):
        number, first = self.tables[name]
        slots = b"".join(
            h2.field(14, h2.field(1, (first + b) % 64) + h2.field(2, 1)
                     + h2.field(5, h2.field(1, number) + h2.field(2, b) + h2.field(3, 1)))
            for b in blocks
        )
        return (
            h2.field(1, self.session) + h2.field(2, self.number)
            + h2.field(9, self.generation) + h2.field(13, 1) + slots
        )

    def tick(self):
        report = h2.field(1, self.session) + h2.field(2, self.number)
        return h2.field(1, report)


class Hostile(ps_test.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.limit_before = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (cls.limit_before[1], cls.limit_before[1]))
        os.environ[ps_test.TAG] = f"{os.getpid()}-hostile"
        cls.server = ps_test.Running(
            "--listen", "127.0.0.1:0", "--name", "victim", program=ps_test.SERVER
        )
        cls.pid = cls.server.process.pid
        cls.address = cls.server.wait_line(r"ready address=(\S+)", stdout=True).group(1)
        cls.rng = random.Random(1)
        cls.warm_up()

    @classmethod
    def warm_up(cls):
        """Heaps of threads, buffers of connections: what any use of a server costs once."""
        pull = Member(cls.address).pull("big", [0, 1, 2])
        peers = [h2.Peer(cls.address) for _ in range(8)]
        for peer in peers:
            for stream in [peer.begin(h2.PULL, h2.message(pull)) for _ in range(4)]:
                peer.wait(stream)
            peer.call(h2.PUSH, b"\xff" * MIB)
            peer.socket.close()

    @classmethod
    def tearDownClass(cls):
        with contextlib.suppress(ProcessLookupError):
            cls.server.process.terminate()
        status = cls.server.wait(60)
        text = cls.server.text()
        cls.server.end()
        resource.setrlimit(resource.RLIMIT_NOFILE, cls.limit_before)
        super().tearDownClass()
        assert status == 0 and "Sanitizer" not in text, f"exit {status}:\n{text[-5000:]}"

    @contextlib.contextmanager
    def beside(self, mib):
        """The well-behaved client beside what follows; the server may take on `mib` meanwhile."""
        member = Member(self.address)
        calls = [
            (h2.DESCRIBE, b""),
            (h2.PULL, member.pull("small", [0])),
            ("/ps.v1.Coordinator/Tick", member.tick()),
        ]
        good = h2.Good(self.address, calls)
        before, spent = ps_test.rss_bytes(self.pid), cpu_seconds(self.pid)
        sampler = Sampler(self.pid)
        sampler.start()
        good.start()
        try:
            yield member
            n = len(good.seconds)
            ps_test.wait_until(
                "answers to the client that behaves",
                lambda: len(good.seconds) >= max(n + 10, 100) or not good.is_alive(), 60,
            )
        finally:
            good.stopping.set()
            sampler.stopping.set()
            good.join(30 * ps_test.SLOW)
            sampler.join()
        self.assertFalse(good.is_alive(), "the client that behaves waits for an answer")
        self.assertEqual(good.failures, [])
        self.assertIsNone(self.server.process.poll(), self.server.text()[-5000:])
        grown = sampler.most - before
        p99 = good.percentile(0.99)
        print(
            f"\n  +{grown / MIB:.0f} MiB, {cpu_seconds(self.pid) - spent:.1f} s of CPU; beside it "
            f"{len(good.seconds)} calls ({good.n_busy} busy), "
            f"p50 {1e3 * good.percentile(0.5):.1f} ms, "
            f"p99 {1e3 * p99:.0f} ms, longest {1e3 * max(good.seconds):.0f} ms ... ",
            end="",
        )
        self.assertLess(p99, P99_S * ps_test.SLOW)
        if not SANITIZED:
            self.assertLess(grown, (mib + HEAP_STEP) * MIB)

    def blow(self, peer, data, seconds=20):
        """Send as much as the server takes; it may end the connection or stop reading."""
        peer.socket.settimeout(seconds)
        try:
            peer.send(data)
            return True
        except (h2.Closed, socket.timeout):
            return False

    # ---- What is no HTTP/2 ----------------------------------------------------------------

    def test_garbage_instead_of_http2(self):
        with self.beside(mib=32):
            for i in range(many(200, 5000)):
                with h2.Peer(self.address, greet=False) as peer:
                    self.blow(peer, self.rng.randbytes(1 << (i % 17)))

    def test_garbage_after_the_greeting(self):
        with self.beside(mib=32):
            for i in range(many(200, 5000)):
                with h2.Peer(self.address) as peer:
                    self.blow(peer, self.rng.randbytes(1 << (i % 17)))

    def test_a_tls_hello_on_the_plain_port(self):
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        host, port = self.address.rsplit(":", 1)
        with self.beside(mib=16):
            for _ in range(many(50, 1000)):
                with socket.create_connection((host, int(port)), 20 * ps_test.SLOW) as plain:
                    with self.assertRaises((ssl.SSLError, ConnectionError)):
                        context.wrap_socket(plain)

    def test_connections_that_say_nothing_are_closed(self):
        with self.beside(mib=16):
            peers = [h2.Peer(self.address, greet=False) for _ in range(many(50, 1000))]
            for peer in peers:
                self.assertTrue(peer.closed_within(30 * ps_test.SLOW))
                peer.socket.close()

    def test_a_valid_call_cut_off_at_every_byte(self):
        with self.beside(mib=32) as member:
            body = h2.message(member.pull("small", [0]))
            whole = (
                h2.PREFACE + h2.Peer.settings(65535)
                + h2.frame(h2.HEADERS, h2.END_HEADERS, 1, h2.request_headers(h2.PULL))
                + h2.data_frames(1, body)
            )
            for n in range(0, len(whole), many(2, 1)):
                with h2.Peer(self.address, greet=False) as peer:
                    peer.send(whole[:n])

    def test_ten_thousand_idle_connections(self):
        n = many(10000, 10000)
        allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        if allowed < n + FILES_SPARE:
            self.skipTest(f"no more than {allowed} files may be open here, {n} are needed")
        with self.beside(mib=600):
            peers = []
            try:
                for i in range(n):
                    peers.append(h2.Peer(self.address, greet=i % 2 == 0))
                    if i % 100 == 99:  # Not a storm: what gRPC does in one is in its README.
                        ps_test.wait_until("it accepts", lambda: self.accepted(i - 200), 60)
            finally:
                for i, peer in enumerate(peers):
                    peer.socket.close()
                    time.sleep(0.02 if i % 100 == 99 else 0)

    def accepted(self, n):
        return open_files(self.pid) >= min(n, 4000)  # Those that say nothing go again.

    # ---- Floods of frames -----------------------------------------------------------------

    def test_a_flood_of_pings(self):
        with self.beside(mib=32):
            with h2.Peer(self.address) as peer:
                pings = h2.frame(h2.PING, 0, 0, b"12345678") * 1000
                for _ in range(many(100, 1000)):
                    if not self.blow(peer, pings):
                        break
                self.assertTrue(peer.closed_within(30 * ps_test.SLOW))

    def test_a_flood_of_settings(self):
        with self.beside(mib=64):
            with h2.Peer(self.address) as peer:
                settings = h2.frame(h2.SETTINGS, 0, 0, struct.pack(">HI", 4, 65535) * 20) * 1000
                for _ in range(many(20, 200)):
                    if not self.blow(peer, settings, 5):
                        break

    def test_floods_of_frames_that_cost_their_sender_nothing(self):
        begin = h2.frame(h2.HEADERS, h2.END_HEADERS, 1, h2.request_headers(h2.DESCRIBE))
        open_ended = h2.frame(h2.HEADERS, 0, 1, h2.request_headers(h2.DESCRIBE))
        floods = {  # What comes first, and what then comes a thousand times.
            "settings": (b"", h2.frame(h2.SETTINGS)),
            "windows": (b"", h2.frame(h2.WINDOW_UPDATE, 0, 0, b"\0\0\0\1")),
            "priorities": (b"", h2.frame(2, 0, 1, b"\0\0\0\0\1")),
            "data": (begin, h2.frame(h2.DATA, 0, 1)),
            "resets": (b"", h2.frame(h2.RST_STREAM, 0, 1, b"\0\0\0\x08")),
            "continuation": (open_ended, h2.frame(h2.CONTINUATION, 0, 1)),
            "headers": (open_ended, h2.frame(h2.CONTINUATION, 0, 1, h2.header("a", "") * 20)),
            "unknown": (b"", h2.frame(77, 0, 1, b"x")),
        }
        with self.beside(mib=160):
            for first, more in floods.values():
                with h2.Peer(self.address) as peer:
                    for data in (first, *[more * 1000] * many(50, 5000)):
                        if not self.blow(peer, data):
                            break

    def test_seven_megabytes_of_continuation(self):
        with self.beside(mib=64):
            with h2.Peer(self.address) as peer:
                block = h2.header("x-flood", "v" * 1000) * 16
                peer.send(h2.frame(h2.HEADERS, 0, 1, h2.request_headers(h2.DESCRIBE)))
                for _ in range(many(7 * MIB, 70 * MIB) // len(block)):
                    if not self.blow(peer, h2.frame(h2.CONTINUATION, 0, 1, block), 30):
                        break

    def test_headers_that_unfold_to_four_gigabytes(self):
        """One field of 3,900 bytes put into the table, then named a million times by a byte."""
        with self.beside(mib=64):
            with h2.Peer(self.address) as peer:
                name, value = b"x-bomb", b"v" * 3900
                entry = b"\x40" + h2.header(name, value)[1:]
                block = h2.request_headers(h2.DESCRIBE) + entry
                peer.send(h2.frame(h2.HEADERS, 0, 1, block))
                for _ in range(many(64, 640)):
                    if not self.blow(peer, h2.frame(h2.CONTINUATION, 0, 1, b"\xbe" * 16384), 30):
                        break

    def test_headers_that_are_too_long(self):
        with self.beside(mib=64):
            for n in (17 << 10, 64 << 10, MIB):
                with h2.Peer(self.address) as peer:
                    block = h2.request_headers(h2.DESCRIBE, more=[("x-long", "v" * n)])
                    cuts = [block[at : at + 16384] for at in range(0, len(block), 16384)]
                    out = h2.frame(h2.HEADERS, h2.END_HEADERS if len(cuts) == 1 else 0, 1, cuts[0])
                    for i, cut in enumerate(cuts[1:], 2):
                        flags = h2.END_HEADERS if i == len(cuts) else 0
                        out += h2.frame(h2.CONTINUATION, flags, 1, cut)
                    self.blow(peer, out + h2.data_frames(1, h2.message(b"")))
                    with contextlib.suppress(h2.Closed, socket.timeout):
                        self.assertIsNone(peer.wait(1))

    def test_calls_that_are_reset_at_once(self):
        with self.beside(mib=64):
            n, peer, block = 0, None, h2.request_headers(h2.DESCRIBE)
            while n < many(10000, 100000):
                peer = peer or h2.Peer(self.address)
                out = b"".join(
                    h2.frame(h2.HEADERS, h2.END_HEADERS, s, block)
                    + h2.frame(h2.RST_STREAM, 0, s, struct.pack(">I", 8))
                    for s in range(peer.next_stream, peer.next_stream + 200, 2)
                )
                peer.next_stream += 200
                n += 100
                if not self.blow(peer, out):
                    peer.socket.close()
                    peer = None
            if peer is not None:
                peer.socket.close()

    def test_headers_byte_by_byte(self):
        with self.beside(mib=64):
            peers = [h2.Peer(self.address) for _ in range(many(200, 2000))]
            out = h2.frame(h2.HEADERS, h2.END_HEADERS, 1, h2.request_headers(h2.DESCRIBE))
            for at in range(many(40, len(out) - 1)):
                for peer in peers:
                    with contextlib.suppress(h2.Closed):
                        peer.send(out[at : at + 1])
            for peer in peers:
                peer.socket.close()

    # ---- Calls that do not end ------------------------------------------------------------

    def test_calls_of_headers_only(self):
        """More of them than there are places, on more connections than may fill them."""
        with self.beside(mib=256):
            peers = [h2.Peer(self.address) for _ in range(many(20, 100))]
            for peer in peers:
                for i in range(250):
                    peer.begin(h2.UNARY[i % len(h2.UNARY)], None)
            time.sleep(2)  # While they stay.
            for peer in peers:
                peer.socket.close()

    def test_streams_on_which_nothing_is_said(self):
        with self.beside(mib=256):
            peers = [h2.Peer(self.address) for _ in range(many(20, 100))]
            for peer in peers:
                for _ in range(250):
                    peer.begin(h2.ATTEND, None)
            time.sleep(2)
            for peer in peers:
                peer.socket.close()

    def test_messages_that_stop_in_the_middle(self):
        with self.beside(mib=512):
            peers = [h2.Peer(self.address) for _ in range(many(8, 32))]
            for peer in peers:
                for path in h2.UNARY:
                    peer.begin(path, h2.message(b"\x7a" * (MIB >> 1))[:-100], False)
            time.sleep(1)
            for peer in peers:
                peer.socket.close()

    def test_peers_that_have_closed_their_half(self):
        with self.beside(mib=64) as member:
            peers = []
            for i in range(many(200, 2000)):
                peer = h2.Peer(self.address)
                whole = h2.message(member.pull("small", [0]))
                peer.begin(h2.PULL, [whole, whole[:20], None][i % 3], i % 2 == 0)
                peer.socket.shutdown(socket.SHUT_WR)
                peers.append(peer)
            for peer in peers:
                self.assertTrue(peer.closed_within(60 * ps_test.SLOW))
                peer.socket.close()

    def test_calls_that_are_given_up(self):
        with self.beside(mib=256) as member:
            pull = h2.message(member.pull("big", [0, 1, 2]))
            for _ in range(many(10, 100)):
                with h2.Peer(self.address) as peer:
                    for _ in range(100):
                        with contextlib.suppress(h2.Closed):
                            stream = peer.begin(h2.PULL, pull)
                            peer.send(h2.frame(h2.RST_STREAM, 0, stream, struct.pack(">I", 8)))

    # ---- Peers that do not read ------------------------------------------------------------

    def test_answers_that_nobody_reads(self):
        """3 MB each, asked for again and again; what is lent for them must come back."""
        with self.beside(mib=256) as member:
            files = open_files(self.pid)
            pull = h2.message(member.pull("big", [0, 1, 2]))
            peers = [h2.Peer(self.address, buffer=16 << 10) for _ in range(many(8, 32))]
            for peer in peers:
                for _ in range(60):
                    peer.begin(h2.PULL, pull)
            # The server's side only: whoever does not read is not told, either.
            ps_test.wait_until(
                "those who take nothing are cut", lambda: open_files(self.pid) <= files + 2, 60
            )
            for peer in peers:
                peer.socket.close()

    def test_windows_of_nothing(self):
        """The connection lives and answers pings, but takes no byte of any answer."""
        with self.beside(mib=256) as member:
            pull = h2.message(member.pull("big", [0, 1, 2]))
            peers = [h2.Peer(self.address, window=0) for _ in range(many(8, 32))]
            for peer in peers:
                for _ in range(100):
                    peer.begin(h2.PULL, pull)
            end = time.monotonic() + many(3, 80)
            while time.monotonic() < end:
                for peer in peers:
                    peer.socket.settimeout(0.05)
                    with contextlib.suppress(h2.Closed, socket.timeout):
                        peer.read()
            for peer in peers:
                peer.socket.close()

    def test_small_calls_whose_answers_nobody_reads(self):
        with self.beside(mib=128):
            for _ in range(many(10, 100)):
                with h2.Peer(self.address, buffer=4096) as peer:
                    for _ in range(1000):
                        peer.socket.settimeout(1)
                        try:
                            peer.begin(h2.DESCRIBE, h2.message(b""))
                        except (h2.Closed, socket.timeout):
                            break

    # ---- Messages -------------------------------------------------------------------------

    def refused(self, path, body, **changed):
        """The call is answered without a message, on a connection of its own."""
        with h2.Peer(self.address, timeout=30 * ps_test.SLOW) as peer:
            try:
                self.assertIsNone(peer.wait(peer.begin(path, body, **changed)), path)
            except h2.Closed:
                pass

    def test_every_method_with_nothing_garbage_and_what_is_cut_off(self):
        with self.beside(mib=64) as member:
            valid = {
                h2.PULL: member.pull("small", [0]), "/ps.v1.Coordinator/Join": member.join,
                "/ps.v1.Coordinator/DefineTable": member.define,
                "/ps.v1.Coordinator/Tick": member.tick(),
            }
            with h2.Peer(self.address) as peer:
                for path in h2.UNARY:
                    bodies = [self.rng.randbytes(n) for n in (1, 2, 10, 100, 1000, 60000)]
                    bodies += [b"\xff" * n for n in (1, 9, 10, 11, 100)]
                    whole = valid.get(path, b"")
                    bodies += [whole[:n] for n in range(len(whole))]
                    streams = [peer.begin(path, h2.message(body)) for body in bodies]
                    streams.append(peer.begin(path, b""))  # No message at all.
                    streams.append(peer.begin(path, b"\0"))
                    streams.append(peer.begin(path, b"\0\0\0\0\x05abc"))
                    for stream in streams:
                        peer.wait(stream)
                for body in (b"\xff", b"\x0a\xff", b"\xff" * 1000, self.rng.randbytes(1000)):
                    self.assertIsNone(peer.call(h2.SHUTDOWN, b"\xff" + body))

    def test_the_stream_of_members_with_garbage(self):
        with self.beside(mib=64):
            for i in range(many(200, 2000)):
                with h2.Peer(self.address) as peer:
                    body = self.rng.randbytes(1 << (i % 14))
                    stream = peer.begin(h2.ATTEND, h2.message(b"\xff" + body), i % 2 == 0)
                    self.assertIsNone(peer.wait(stream))

    def test_a_flood_on_the_stream_of_members(self):
        """Well-formed reports of nobody: as many as the server takes, none is read back."""
        report = h2.field(1, os.urandom(16)) + h2.field(2, 1 << 60)
        with self.beside(mib=64):
            with h2.Peer(self.address) as peer:
                stream = peer.begin(h2.ATTEND, None)
                batch = h2.data_frames(stream, h2.message(report) * 500, end=False)
                for _ in range(many(100, 2000)):
                    if not self.blow(peer, batch, 1):
                        break

    def test_a_message_that_would_inflate(self):
        deflate = zlib.compressobj(9, zlib.DEFLATED, 31)
        zeros = bytes(MIB)
        bomb = b"".join(deflate.compress(zeros) for _ in range(many(256, 2048))) + deflate.flush()
        with self.beside(mib=32):
            for path in (h2.PULL, h2.PUSH, h2.DESCRIBE):
                for encoding in ("gzip", "deflate", "identity", "snappy", None):
                    body = h2.message(bomb, compressed=1)
                    self.refused(path, body, **{"grpc-encoding": encoding})

    def test_a_length_of_four_gigabytes(self):
        with self.beside(mib=32):
            for path in h2.UNARY:
                for length in (0xFFFFFFFF, 0x80000000, MESSAGE_MAX + 1):
                    self.refused(path, h2.message(b"x" * 100, length=length))

    def test_messages_over_the_limit(self):
        with self.beside(mib=256):
            for path in h2.UNARY:
                self.refused(path, h2.message(bytes(MESSAGE_MAX + 1)))
            for path in h2.COORDINATOR:
                self.refused(path, h2.message(bytes(CONTROL_MAX + 1)))

    def test_four_megabytes_of_empty_sub_messages(self):
        """Of every field of every method: the dearest thing that a message can hold."""
        with self.beside(mib=512):
            for path in (h2.PULL, h2.PUSH, h2.PUSH_PULL):
                for number in range(1, 16):
                    body = bytes([number << 3 | 2, 0]) * ((MESSAGE_MAX - 16) // 2)
                    self.refused(path, h2.message(body))
            for path in (*h2.COORDINATOR, h2.ATTEND):
                for number in range(1, 16):
                    body = bytes([number << 3 | 2, 0]) * (CONTROL_MAX // 2)
                    with h2.Peer(self.address) as peer:
                        peer.call(path, body)
                self.refused(path, h2.message(bytes([26, 0]) * ((MESSAGE_MAX - 16) // 2)))

    def test_fields_that_nobody_knows(self):
        unknown = {
            "numbers": b"\xc0\x3e\x01", "bytes": b"\xc2\x3e\x00", "groups": b"\xc3\x3e\xc4\x3e",
            "fixed": b"\xc5\x3eabcd", "largest": b"\xf8\xff\xff\xff\x0f\x01",
        }
        with self.beside(mib=512):
            for pattern in unknown.values():
                for path in (h2.PULL, h2.PUSH, h2.PUSH_PULL):
                    body = pattern * ((MESSAGE_MAX - 16) // len(pattern))
                    self.refused(path, h2.message(body))
                for path in (*h2.COORDINATOR, h2.ATTEND):
                    with h2.Peer(self.address) as peer:
                        peer.call(path, pattern * (CONTROL_MAX // len(pattern)))

    def test_methods_that_nobody_knows(self):
        names = ["/", "", "x", "/a/b", "/ps.v1.Coordinator/", "/ps.v1.Nobody/Join", "*", "/" * 100,
                 "/ps.v1.Coordinator/join", "/\u00e4/\u00f6", "/" + "x" * 6000]
        with self.beside(mib=32):
            for _ in range(many(20, 500)):
                for name in names:
                    self.refused(name, h2.message(b"x"))

    def test_odd_te_and_scheme_with_more_than_eight_kilobytes(self):
        """Case: CVE-2023-1428, an assertion of gRPC's before 1.53."""
        odd = [{"te": v} for v in (None, "", "x", "trailers, deflate", "t" * 9000)]
        odd += [{"scheme": v} for v in (None, "", "ftp", "https", "s" * 9000)]
        odd += [{"method": v} for v in (None, "", "GET", "PUT", "CONNECT", "m" * 9000)]
        odd += [{"content-type": v} for v in (None, "", "text/html", "application/grpc+x")]
        odd += [{"te": "x", "scheme": "x"}, {"authority": None}, {"path": None}]
        odd += [{"grpc-timeout": v} for v in ("", "x", "-1S", "99999999H", "0n", "1" * 100 + "S")]
        with self.beside(mib=64):
            for fields in odd:
                for n_more in (0, 1, 9000, 15000):
                    more = [("x-more", "v" * n_more)] if n_more else []
                    block = h2.request_headers(h2.DESCRIBE, more=more, **fields)
                    with h2.Peer(self.address, timeout=30 * ps_test.SLOW) as peer:
                        out = h2.frame(h2.HEADERS, 0, 1, block[:16000])
                        out += h2.frame(h2.CONTINUATION, h2.END_HEADERS, 1, block[16000:])
                        self.blow(peer, out + h2.data_frames(1, h2.message(b"")))
                        with contextlib.suppress(h2.Closed, socket.timeout):
                            peer.socket.settimeout(0.2)
                            peer.wait(1)

    # ---- And then -------------------------------------------------------------------------

    def test_when_all_that_is_over_a_worker_trains_on_this_server(self):
        status, stdout, stderr = ps_test.run(
            "--coordinator", self.address, "--workers", 1, "--data", self.data,
            "--model", "softmax", "--epochs", 2, program=ps_test.WORKER, timeout=120,
        )
        self.assertEqual(status, 0, stderr)
        self.assertNotIn("Sanitizer", stderr)


if __name__ == "__main__":
    ps_test.main()
