"""HTTP/2 and gRPC by hand, for clients that behave and for those that do not.

RFC 9113 and RFC 7541, only what is needed: headers are written as literals and never read, so an
answer is known by its DATA frames and by the frame that ends its stream.
"""

import collections
import socket
import struct
import threading
import time

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY = 0, 1, 3, 4, 6, 7
WINDOW_UPDATE, CONTINUATION = 8, 9
END_STREAM, ACK, END_HEADERS = 1, 1, 4
FRAME_MAX = 16384
WINDOW_MAX = (1 << 31) - 1

PULL = "/ps.v1.ParameterServer/Pull"
PUSH = "/ps.v1.ParameterServer/Push"
PUSH_PULL = "/ps.v1.ParameterServer/PushPull"
COORDINATOR = [
    f"/ps.v1.Coordinator/{name}"
    for name in ("Join", "Tick", "WaitClock", "DefineTable", "DefineJob", "Describe", "Leave")
]
SHUTDOWN = "/ps.v1.Coordinator/Shutdown"  # A valid one stops everything.
ATTEND = "/ps.v1.Coordinator/Attend"
DESCRIBE = "/ps.v1.Coordinator/Describe"
UNARY = [PULL, PUSH, PUSH_PULL, *COORDINATOR]


def frame(kind, flags=0, stream=0, payload=b"", length=None):
    length = len(payload) if length is None else length
    return struct.pack(">I", length << 8 | kind) + struct.pack(">BI", flags, stream) + payload


def integer(value, prefix_bits, first=0):
    """RFC 7541, 5.1."""
    most = (1 << prefix_bits) - 1
    if value < most:
        return bytes([first | value])
    out = bytearray([first | most])
    value -= most
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def header(name, value):
    name = name.encode() if isinstance(name, str) else name
    value = value.encode() if isinstance(value, str) else value
    return b"\0" + integer(len(name), 7) + name + integer(len(value), 7) + value


def request_headers(path, /, more=(), **changed):
    """The header block of a call; `changed` replaces te, scheme, ...; None leaves one out."""
    fields = {
        ":method": "POST", ":scheme": "http", ":path": path, ":authority": "test",
        "te": "trailers", "content-type": "application/grpc",
    }
    for name, value in changed.items():
        fields[f":{name}" if f":{name}" in fields else name] = value
    block = b"".join(header(n, v) for n, v in fields.items() if v is not None)
    return block + b"".join(header(n, v) for n, v in more)


def message(payload, compressed=0, length=None):
    return struct.pack(">BI", compressed, len(payload) if length is None else length) + payload


def data_frames(stream, payload, end=True):
    cuts = range(0, max(len(payload), 1), FRAME_MAX)
    return b"".join(
        frame(DATA, END_STREAM * (end and at == cuts[-1]), stream, payload[at : at + FRAME_MAX])
        for at in cuts
    )


# ---- protobuf -------------------------------------------------------------------------------


def varint(value):
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number, value):
    """An unsigned number, or bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def read_fields(data):
    """{number: [values]}: numbers and bytes."""
    fields, at = collections.defaultdict(list), 0

    def number():
        nonlocal at
        value, shift = 0, 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = number()
        if key & 7 == 0:
            fields[key >> 3].append(number())
        elif key & 7 == 2:
            n = number()
            fields[key >> 3].append(data[at : at + n])
            at += n
        else:
            n = {1: 8, 5: 4}[key & 7]
            fields[key >> 3].append(data[at : at + n])
            at += n
    return fields


# ---- Connections ----------------------------------------------------------------------------


class Closed(Exception):
    """The server has ended the connection, which is its good right."""


class Peer:
    """One connection; everything that comes is counted, streams are known by how they ended."""

    def __init__(self, address, window=WINDOW_MAX, greet=True, timeout=30, buffer=None):
        host, port = address.rsplit(":", 1)
        self.socket = socket.socket()
        if buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        self.socket.settimeout(timeout)
        self.socket.connect((host, int(port)))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.frames = collections.Counter()
        self.data = collections.defaultdict(bytearray)
        self.ended = set()
        self.next_stream = 1
        self.pending = bytearray()
        self.polite = greet
        self.last_headers = b""
        self.room, self.window = 65535, 65535  # What may be sent: in all, on a new stream.
        self.rooms = collections.Counter()  # On each, beyond that.
        if greet:
            more = frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1 << 30))
            self.send(PREFACE + self.settings(window) + more)

    @staticmethod
    def settings(window):
        return frame(SETTINGS, 0, 0, struct.pack(">HI", 4, window))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionError) as error:
            raise Closed(str(error)) from error

    def begin(self, path, body=b"", end=True, /, **changed):
        """Start a call; body None: headers only. The number of its stream."""
        stream = self.next_stream
        self.next_stream += 2
        self.send(frame(HEADERS, END_HEADERS, stream, request_headers(path, **changed)))
        if body is not None:
            self.send_data(stream, body, end)
        return stream

    def send_data(self, stream, body, end):
        """As fast as the server's windows allow; a stream that has ended gets no more."""
        at = 0
        while at < len(body) or (end and not body):
            room = min(self.room, self.window + self.rooms[stream])
            n = min(len(body) - at, FRAME_MAX, room)
            if stream in self.ended:
                return
            if n <= 0 and body:
                self.read()
                continue
            last = end and at + n == len(body)
            self.send(frame(DATA, END_STREAM * last, stream, body[at : at + n]))
            self.room -= n
            self.rooms[stream] -= n
            at += n
            if not body:
                return

    def read(self):
        """Take what comes next."""
        try:
            data = self.socket.recv(1 << 18)
        except ConnectionError as error:
            raise Closed(str(error)) from error
        if not data:
            raise Closed("end of file")
        self.pending += data
        at = 0
        while len(self.pending) - at >= 9:
            length = int.from_bytes(self.pending[at : at + 3], "big")
            if len(self.pending) - at < 9 + length:
                break
            kind, flags = self.pending[at + 3], self.pending[at + 4]
            stream = int.from_bytes(self.pending[at + 5 : at + 9], "big")
            self._take(kind, flags, stream, bytes(self.pending[at + 9 : at + 9 + length]))
            at += 9 + length
        del self.pending[:at]

    def _take(self, kind, flags, stream, payload):
        self.frames[kind] += 1
        if kind == HEADERS:
            self.last_headers = payload
        if kind == WINDOW_UPDATE:
            more = struct.unpack(">I", payload)[0]
            if stream == 0:
                self.room += more
            else:
                self.rooms[stream] += more
        if kind == SETTINGS and not flags & ACK:
            for i in range(0, len(payload), 6):
                name, value = struct.unpack(">HI", payload[i : i + 6])
                self.window = value if name == 4 else self.window
        if kind == DATA:
            self.data[stream] += payload
            if payload:
                self.send(frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", len(payload))))
        if kind == RST_STREAM or (kind in (DATA, HEADERS) and flags & END_STREAM):
            self.ended.add(stream)
        if not self.polite:
            return
        if kind == PING and not flags & ACK:
            self.send(frame(PING, ACK, 0, payload))
        if kind == SETTINGS and not flags & ACK:
            self.send(frame(SETTINGS, ACK))

    def wait(self, stream):
        """Until the stream has ended; its reply without gRPC's five bytes, or None."""
        while stream not in self.ended:
            self.read()
        data = bytes(self.data.pop(stream, b""))
        return data[5:] if len(data) >= 5 else None

    def call(self, path, payload=b"", **changed):
        return self.wait(self.begin(path, message(payload), **changed))

    def closed_within(self, seconds):
        """Whether the server ends the connection; what comes before is read."""
        end = time.monotonic() + seconds
        try:
            while time.monotonic() < end:
                self.socket.settimeout(max(0.01, end - time.monotonic()))
                self.read()
        except (Closed, OSError) as error:
            return not isinstance(error, socket.timeout)
        return False


class Good(threading.Thread):
    """A client that behaves: small calls one after the other; how long each takes."""

    def __init__(self, address, payloads, pause=0.005):
        super().__init__(daemon=True)
        self.address, self.payloads, self.pause = address, payloads, pause
        self.seconds, self.failures, self.n_busy = [], [], 0
        self.stopping = threading.Event()

    def run(self):
        with Peer(self.address, timeout=120) as peer:
            turn = 0
            while not self.stopping.is_set():
                path, payload = self.payloads[turn % len(self.payloads)]
                turn += 1
                began = time.monotonic()
                try:
                    self.ask(peer, path, payload)
                except (Closed, OSError) as error:
                    self.failures.append(f"{path}: {error!r}")
                    return
                self.seconds.append(time.monotonic() - began)
                self.stopping.wait(self.pause)

    def ask(self, peer, path, payload):
        """Once more for as long as the server says that this will help; all of it is one call."""
        while peer.call(path, payload) is None:
            # gRPC's C core does not shorten words in headers, so they can be read.
            if b"grpc-retry-pushback-ms" not in peer.last_headers:
                self.failures.append(f"{path} was refused: {peer.last_headers!r}")
                return
            self.n_busy += 1
            time.sleep(0.1)

    def percentile(self, share):
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
