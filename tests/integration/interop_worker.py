#!/usr/bin/python3
"""A worker that is no part of the project: Python, gRPC, and what the server says of itself.

It knows an address, nothing else: the messages come from the server's reflection service. It needs
Debian's python3-grpcio and python3-protobuf; everything else is the standard library. What it does
is written down in proto/README.md, "A client in any language".

    interop_worker.py train ADDRESS ...       train softmax on IDX files, shared with other workers
    interop_worker.py unleased ADDRESS ...    push, pull and tick without a lease
"""

import argparse
import array
import json
import math
import os
import queue
import re
import struct
import sys
import threading
import time
from operator import mul

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

SLOTS = 64
CALL_BYTES = 1 << 20  # A call is closed when it carries this.
HEARTBEAT_S = 0.25
CALL_S = float(os.environ.get("PS_TEST_SLOW", "1")) * 20

# Status of a slot in a reply, as enum Status of the wire says it.
RETRY = ("NOT_PRIMARY", "BUSY", "TIMEOUT", "UNAVAILABLE", "NOT_YET")

def connect(address, **more):
    """A channel. A proxy in the environment is not for us."""
    options = {"grpc.enable_http_proxy": 0, **more}
    return grpc.insecure_channel(address, options=list(options.items()))


# ---- Reflection ------------------------------------------------------------------------------

# The reflection service's own messages are written by hand: somebody has to begin. Three fields.


def field(number, data):
    n, head = len(data), [number << 3 | 2]
    while n > 0x7F:
        head.append(n & 0x7F | 0x80)
        n >>= 7
    return bytes(head + [n]) + data


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 0x80:
            return value, at


def parts_of(data):
    at, found = 0, {}
    while at < len(data):
        tag, at = varint(data, at)
        value, at = varint(data, at)
        if tag & 7 == 2:
            value, at = data[at : at + value], at + value
        found.setdefault(tag >> 3, []).append(value)
    return found


class Reflection:
    """Every service of a server, and classes for its messages."""

    BY_NAME, BY_SYMBOL, LIST = 3, 4, 7

    def __init__(self, channel, version="v1alpha"):
        self.path = f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo"
        self.ask_raw = channel.stream_stream(self.path, lambda b: b, lambda b: b)
        self.pool = descriptor_pool.DescriptorPool()
        self.factory = message_factory.MessageFactory(self.pool)
        self.files = set()
        answer = parts_of(self.ask((self.LIST, b""))[0])
        listed = parts_of(answer[6][0])[1]
        self.services = [parts_of(one)[1][0].decode() for one in listed]
        for service in self.services:
            self.add(self.BY_SYMBOL, service)

    def ask(self, *questions):
        requests = [field(number, text) for number, text in questions]
        return list(self.ask_raw(iter(requests), timeout=CALL_S))

    def add(self, how, name):
        answer = parts_of(self.ask((how, name.encode()))[0])
        if 4 not in answer:
            raise LookupError(f"{name}: {parts_of(answer[7][0])}")
        for data in parts_of(answer[4][0])[1]:
            file = descriptor_pb2.FileDescriptorProto.FromString(data)
            if file.name not in self.files:
                self.files.add(file.name)
                for needed in file.dependency:
                    self.add(self.BY_NAME, needed)
                self.pool.Add(file)

    def message(self, name):
        return self.factory.GetPrototype(self.pool.FindMessageTypeByName(name))

    def enum(self, name):
        return self.pool.FindEnumTypeByName(name)


class Stub:
    """The methods of one service as functions, made from its descriptor."""

    def __init__(self, channel, reflection, service):
        described = reflection.pool.FindServiceByName(service)
        proto = descriptor_pb2.ServiceDescriptorProto()
        described.CopyToProto(proto)
        for method, shape in zip(described.methods, proto.method):
            request = reflection.factory.GetPrototype(method.input_type)
            reply = reflection.factory.GetPrototype(method.output_type)
            kind = ("stream" if shape.client_streaming else "unary") + "_" + (
                "stream" if shape.server_streaming else "unary"
            )
            call = getattr(channel, kind)(
                f"/{service}/{method.name}", request.SerializeToString, reply.FromString
            )
            setattr(self, method.name, call)


# ---- The cluster -----------------------------------------------------------------------------


class Lost(Exception):
    """The session or the job has ended without us."""


class Cluster:
    """A session with the coordinator, and channels to the servers."""

    def __init__(self, address):
        self.channel = connect(address)
        self.reflection = Reflection(self.channel)
        self.health = Stub(self.channel, self.reflection, "grpc.health.v1.Health")
        self.coordinator = Stub(self.channel, self.reflection, "ps.v1.Coordinator")
        self.status_names = {
            v.number: v.name for v in self.reflection.enum("ps.v1.Status").values
        }
        self.servers = {}
        self.session = os.urandom(16)
        self.number = self.term = self.generation = 0
        self.placement = None
        self.tables = []

    def new(self, message, /, **fields):
        return self.reflection.message(f"ps.v1.{message}")(**fields)

    def value(self, enum, name):
        return self.reflection.enum(f"ps.v1.{enum}").values_by_name[name].number

    def call(self, method, /, **fields):
        return getattr(self.coordinator, method)(
            self.new(f"{method}Request", **fields), timeout=CALL_S
        )

    def join(self, name, **more):
        reply = self.call(
            "Join", protocol_min=1, protocol_max=1, kind=self.value("SessionKind", "WORKER"),
            name=name, session=self.session, **more,
        )
        self.number, self.term, self.generation = (
            reply.session_number, reply.term, reply.generation,
        )
        self.key_seed = reply.key_seed

    def report(self, **worker):
        return self.new(
            "AttendReport", session=self.session, session_number=self.number, term=self.term,
            generation=self.generation, worker=self.new("WorkerReport", **worker),
        )

    def take(self, state):
        """Groups that are absent have not changed."""
        if state.fenced:
            raise Lost(f"fenced: {state.reason}")
        if state.HasField("placement"):
            self.placement = state.placement
        if state.HasField("catalogue"):
            self.tables = list(state.catalogue.tables)

    def leave(self):
        self.call("Leave", session=self.session)

    def server(self, index):
        if index not in self.servers:
            channel = connect(self.placement.servers[index].address)
            self.servers[index] = Stub(channel, self.reflection, "ps.v1.ParameterServer")
        return self.servers[index]

    # -- Blocks and slots: block i of a table lies in slot (first_slot + i) mod 64.

    def blocks(self, slot):
        """[(table, block, first element, elements)] of a slot, in the order of the wire."""
        found = []
        for table in self.tables:
            for block in range((slot - table.first_slot) % SLOTS, table.blocks, SLOTS):
                first = block * table.block_floats
                n = min(table.block_floats, table.elements - first)
                found.append((table.number, block, first, n))
        return found

    def fragments(self, slot):
        """The blocks of a slot, cut into what one call carries."""
        cut, n_bytes = [[]], 0
        for part in self.blocks(slot):
            if n_bytes >= CALL_BYTES:
                cut, n_bytes = cut + [[]], 0
            cut[-1].append(part)
            n_bytes += 4 * part[3]
        return cut

    def calls(self, tables):
        """[(server, [(slot, fragment, fragments, blocks)])] that together cover the tables."""
        found = []
        for server in range(len(self.placement.servers)):
            call, n_bytes = [], 0
            for slot in range(SLOTS):
                if self.placement.primary[slot] != server:
                    continue
                cut = self.fragments(slot)
                for i, every in enumerate(cut):
                    blocks = [b for b in every if b[0] in tables]
                    if not blocks:
                        continue
                    more = 4 * sum(b[3] for b in blocks)
                    if call and (n_bytes + more > CALL_BYTES or any(c[0] == slot for c in call)):
                        found.append((server, call))
                        call, n_bytes = [], 0
                    call.append((slot, i, len(cut), blocks))
                    n_bytes += more
            if call:
                found.append((server, call))
        return found

    # -- Data.

    def pull(self, tables, step=None):
        """({number: values}, min clock that they were read under). No step: as readers do."""
        sizes = {t.number: 4 * t.elements for t in self.tables}
        values = {number: array.array("f", bytes(sizes[number])) for number in tables}
        clocks = []
        for server, slots in self.calls(tables):
            while slots:
                slots = self.pull_some(server, slots, step, values, clocks)
        return values, min(clocks)

    def pull_some(self, server, slots, step, values, clocks):
        request = self.new(
            "PullRequest", session=self.session, session_number=self.number,
            generation=self.generation, pull_step=step or 0, no_clock=step is None,
        )
        for slot, _, _, blocks in slots:
            asked = request.pull_slots.add(slot=slot, epoch=self.placement.epoch[slot])
            for table, block, _, _ in blocks:
                asked.parts.add(table=table, block=block)
        reply = self.server(server).Pull(request, timeout=CALL_S)
        at, again = 0, []
        for answer, (slot, i, n, blocks) in zip(reply.pull_slots, slots):
            if self.unfinished(answer, slot):
                again.append((slot, i, n, blocks))
                continue
            clocks.append(reply.min_clock)
            for table, _, first, n_floats in blocks:
                part = array.array("f", reply.payload[at : at + 4 * n_floats])
                values[table][first : first + n_floats] = part
                at += 4 * n_floats
        assert at == len(reply.payload)
        return again

    def push(self, gradients, *, stream, sequence, step, rows, rate, read_clock):
        """Applied once, whatever is lost or repeated on the way."""
        for server, slots in self.calls(gradients):
            while slots:
                request = self.new(
                    "PushRequest", session=self.session, session_number=self.number,
                    generation=self.generation, stream=stream, sequence=sequence,
                    acked_below=sequence, step=step, rows=rows, rate=rate, read_clock=read_clock,
                )
                payload = b""
                for slot, fragment, fragments, blocks in slots:
                    share = request.slots.add(
                        slot=slot, epoch=self.placement.epoch[slot], fragment=fragment,
                        fragments=fragments,
                    )
                    for table, block, first, n in blocks:
                        share.parts.add(table=table, block=block, dtype=1, bytes=4 * n)
                        payload += gradients[table][first : first + n].tobytes()
                request.payload = payload
                reply = self.server(server).Push(request, timeout=CALL_S)
                slots = [s for a, s in zip(reply.slots, slots) if self.unfinished(a, s[0])]

    def unfinished(self, answer, slot):
        assert answer.slot == slot
        name = self.status_names[answer.status]
        if name == "OK":
            return False
        if name not in RETRY:
            raise Lost(f"slot {slot}: {name}")
        time.sleep(0.02)
        return True


# ---- Attending: by unary calls, or by a stream -----------------------------------------------


class Ticking:
    """One unary Tick per report. Silent for 5 s is dead; who waits in WaitClock is not silent."""

    def __init__(self, cluster):
        self.cluster = cluster

    def tell(self, **worker):
        self.report = worker
        return self.news()

    def news(self):
        """What there is, for the report as it stands."""
        worker = self.report
        state = self.cluster.call("Tick", report=self.cluster.report(**worker)).state
        self.cluster.take(state)
        return state

    def wait_clock(self, clock):
        heard = -1
        while heard < clock:
            reply = self.cluster.call("WaitClock", session=self.cluster.session, clock=clock)
            heard = reply.min_clock

    def idle(self):
        time.sleep(HEARTBEAT_S / 4)

    def end(self):
        pass


class Attending:
    """The stream: a thread repeats the last report every heartbeat and reads what comes."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.reports = queue.Queue()
        self.report = {}
        self.state = None
        self.n_states = 0
        self.failure = None
        self.changed = threading.Condition()
        self.ended = False
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def outgoing(self):
        while not self.ended:
            yield self.cluster.report(**self.report)
            try:
                self.reports.get(timeout=HEARTBEAT_S)
            except queue.Empty:
                pass

    def run(self):
        try:
            for state in self.cluster.coordinator.Attend(self.outgoing()):
                with self.changed:
                    self.cluster.take(state)
                    self.state = state
                    self.n_states += 1
                    self.changed.notify_all()
        except (grpc.RpcError, Lost) as error:
            with self.changed:
                self.failure = error
                self.changed.notify_all()

    def tell(self, **worker):
        """As Ticking: the first state that knows of this report, or the latest if none comes."""
        self.report = worker
        self.reports.put(None)
        with self.changed:
            self.changed.wait_for(lambda: self.state is not None or self.failure, CALL_S)
            if self.failure is not None:
                raise Lost(str(self.failure))
            return self.state

    def news(self):
        with self.changed:
            self.changed.wait(HEARTBEAT_S)
            if self.failure is not None:
                raise Lost(str(self.failure))
            return self.state

    def wait_clock(self, clock):
        del clock  # A Pull waits as well, and the thread goes on saying that we live.

    def idle(self):
        with self.changed:
            self.changed.wait(HEARTBEAT_S)

    def end(self):
        self.ended = True
        self.reports.put(None)
        self.thread.join(CALL_S)


# ---- Data ------------------------------------------------------------------------------------

MASK = (1 << 64) - 1


def mix64(x):
    x = x + 0x9E3779B97F4A7C15 & MASK
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ x >> 27) * 0x94D049BB133111EB & MASK
    return x ^ x >> 31


class Order:
    """Which row stands at a position of an epoch: proto/README.md, "The order of rows"."""

    ROUNDS = 12

    def __init__(self, rows, seed, epoch, shuffle):
        bits = max(1, (rows - 1).bit_length())
        self.rows, self.shuffle = rows, shuffle
        self.low, high = bits - bits // 2, bits // 2
        self.low_mask, self.high_mask = (1 << self.low) - 1, (1 << high) - 1
        stream = 0x6F72646572 ^ mix64(epoch)
        self.keys = [
            mix64(mix64(mix64(seed) ^ stream) + i * 0x9E3779B97F4A7C15 & MASK)
            for i in range(self.ROUNDS)
        ]

    def at(self, position):
        while self.shuffle:
            low, high = position & self.low_mask, position >> self.low
            for i in range(0, self.ROUNDS, 2):
                low ^= mix64(high ^ self.keys[i]) & self.low_mask
                high ^= mix64(low ^ self.keys[i + 1]) & self.high_mask
            position = high << self.low | low
            if position < self.rows:
                break
        return position


def read_idx(folder, part):
    with open(f"{folder}/{part}-images-idx3-ubyte", "rb") as f:
        _, n, height, width = struct.unpack(">IIII", f.read(16))
        pixels = f.read()
    with open(f"{folder}/{part}-labels-idx1-ubyte", "rb") as f:
        labels = list(f.read()[8:])
    size = height * width
    rows = [[p / 255 for p in pixels[i * size : (i + 1) * size]] for i in range(n)]
    return rows, labels


def centred(rows):
    mean = [sum(column) / len(rows) for column in zip(*rows)]
    return [[x - m for x, m in zip(row, mean)] for row in rows], mean


class Softmax:
    """Scores x W + b, cross entropy. W is [features, classes], row by row."""

    def __init__(self, features, classes):
        self.features, self.classes = features, classes

    def scores(self, weight, bias, rows):
        columns = [weight[c :: self.classes] for c in range(self.classes)]
        return [[b + sum(map(mul, x, w)) for w, b in zip(columns, bias)] for x in rows]

    def gradient(self, weight, bias, rows, labels):
        """(mean loss, gradient of W, gradient of b)"""
        loss, errors = 0.0, []
        for scores, label in zip(self.scores(weight, bias, rows), labels):
            top = max(scores)
            powers = [math.exp(s - top) for s in scores]
            total = sum(powers)
            loss -= scores[label] - top - math.log(total)
            errors.append([p / total - (c == label) for c, p in enumerate(powers)])
        n = len(rows)
        by_class = list(zip(*errors))
        w = array.array("f", (
            sum(map(mul, column, e)) / n for column in zip(*rows) for e in by_class
        ))
        b = array.array("f", (sum(e) / n for e in by_class))
        return loss / n, w, b

    def accuracy(self, weight, bias, rows, labels):
        found = (s.index(max(s)) for s in self.scores(weight, bias, rows))
        return sum(a == b for a, b in zip(found, labels)) / len(labels)


# ---- Training --------------------------------------------------------------------------------


def bound_of(cluster, definition):
    """Clocks that a pull may be ahead of the slowest; None: as many as it likes."""
    modes = {"BSP": 0, "SSP": definition.consistency.bound, "ASP": None}
    for name, bound in modes.items():
        if definition.consistency.mode == cluster.value("ConsistencyMode", name):
            return bound
    raise Lost("no consistency")


class Trainer:
    def __init__(self, cluster, attend, args):
        self.cluster, self.attend = cluster, attend
        rows, self.labels = read_idx(args.data, "train")
        self.rows, self.mean = centred(rows)
        self.test = read_idx(args.data, "t10k")
        self.model = Softmax(len(self.rows[0]), 1 + max(self.labels))
        self.clock = self.units = self.trained = 0
        self.lease = self.units_done = 0  # The last one held, and how far it is.
        self.loss_epoch, self.loss_sum, self.loss_rows = 0, 0.0, 0
        self.die_after = args.die_after
        self.lags = []
        self.orders = {}

    def define(self, definition, tables):
        """The same as everybody else's, or the first."""
        for table in tables:
            reply = self.cluster.call(
                "DefineTable", session=self.cluster.session, definition=table
            )
            assert reply.table.definition == table, reply
        self.definition = self.cluster.call(
            "DefineJob", session=self.cluster.session, definition=definition
        ).definition
        self.bound = bound_of(self.cluster, self.definition)
        self.rate = float(re.search(r"lr=(\S+)", self.definition.model).group(1))

    def numbers(self):
        names = {t.definition.name: t.number for t in self.cluster.tables}
        return names["softmax.weight"], names["softmax.bias"]

    def report(self, **staged):
        """All absolute: to repeat it is harmless."""
        return self.attend.tell(
            clock=self.clock, lease=self.lease, units_done=self.units_done, consistency_version=1,
            **staged,
            loss_epoch=self.loss_epoch, loss_sum=self.loss_sum, loss_rows=self.loss_rows,
            stats=self.cluster.new("WorkerStats", units=self.units, rows=self.trained),
        )

    def run(self):
        done = self.cluster.value("JobState", "DONE")
        running = [self.cluster.value("JobState", name) for name in ("WAITING", "RUNNING")]
        state = self.report()
        while state.job != done:
            if state.job not in running:
                raise Lost(f"job state {state.job}: {state.reason}")
            if state.has_lease and state.lease.id != self.lease:
                state = self.train_lease(state.lease)
            else:
                self.attend.idle()
                state = self.report()

    def train_lease(self, lease):
        """Do what is left of it; the state after the last word about it."""
        self.clock = max(self.clock, lease.clock)
        self.lease, self.units_done = lease.id, lease.units_done
        if lease.epoch != self.loss_epoch:
            self.loss_epoch, self.loss_sum, self.loss_rows = lease.epoch, 0.0, 0
        for unit in range(lease.units_done, lease.units):
            if self.definition.consistency.aggregate:
                state = self.staged_step(lease, unit)
            else:
                self.step(lease, unit)
                self.clock += 1
                self.units_done = unit + 1
                if self.units == self.die_after:
                    os._exit(9)  # Pushed and not reported: somebody else does it again.
                state = self.report()
        return state

    def staged_step(self, lease, unit):
        """A step that the servers average over all workers, once all have said what they did."""
        rows = self.step(lease, unit)
        state = self.report(
            staged_step=self.clock + 1, staged_unit=unit, staged_rows=rows
        )
        while state.min_clock <= self.clock:
            self.attend.wait_clock(self.clock + 1)
            state = self.attend.news()
        self.clock += 1
        return state

    def rows_of(self, lease, unit):
        job = self.definition
        first = lease.first_row + unit * lease.stride
        batch_end = (first // job.batch + 1) * job.batch
        end = min(first + lease.unit_rows, batch_end, job.rows)
        if lease.epoch not in self.orders:
            self.orders = {lease.epoch: Order(job.rows, job.seed, lease.epoch, job.shuffle)}
        return [self.orders[lease.epoch].at(i) for i in range(first, end)]

    def step(self, lease, unit):
        weight, bias = self.numbers()
        rows = self.rows_of(lease, unit)
        if not rows:  # The last steps of an averaged job may have none for us.
            return 0
        if self.bound is not None:
            self.attend.wait_clock(max(0, self.clock - self.bound))
        values, read_clock = self.cluster.pull([weight, bias], self.clock)
        self.lags.append(max(0, self.clock - read_clock))
        loss, w, b = self.model.gradient(
            values[weight], values[bias],
            [self.rows[i] for i in rows], [self.labels[i] for i in rows],
        )
        self.cluster.push(
            {weight: w, bias: b}, stream=lease.id, sequence=unit, step=self.clock,
            rows=len(rows), rate=self.rate, read_clock=read_clock,
        )
        self.units += 1
        self.trained += len(rows)
        self.loss_sum += loss * len(rows)
        self.loss_rows += len(rows)
        return len(rows)

    def test_accuracy(self):
        weight, bias = self.numbers()
        values, _ = self.cluster.pull([weight, bias])
        rows = [[x - m for x, m in zip(row, self.mean)] for row in self.test[0]]
        return self.model.accuracy(values[weight], values[bias], rows, self.test[1])


def own_tables(cluster, trainer):
    zeros, sgd = cluster.value("InitKind", "ZEROS"), cluster.new("Optimizer", name="sgd")
    float32 = cluster.value("TableDtype", "FLOAT32")
    shapes = {
        "softmax.weight": [trainer.model.features, trainer.model.classes],
        "softmax.bias": [trainer.model.classes],
    }
    return [
        cluster.new("TableDefinition", name=n, shape=s, dtype=float32, init=zeros, optimizer=sgd)
        for n, s in shapes.items()
    ]


def own_job(cluster, trainer, args):
    return cluster.new(
        "JobDefinition", model=f"softmax lr={args.lr}", data="of a foreign worker",
        rows=len(trainer.rows), batch=args.batch, epochs=args.epochs, shuffle=True, seed=5,
        workers=args.workers,
        consistency=cluster.new(
            "Consistency", mode=cluster.value("ConsistencyMode", "SSP"), bound=args.staleness
        ),
    )


def others_job(cluster, seconds):
    """What somebody else has defined: (job, tables)."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        seen = cluster.call("Describe")
        if seen.HasField("definition"):
            return seen.definition, [t.definition for t in seen.catalogue.tables]
        time.sleep(0.05)
    raise Lost("nobody has defined a job")


def train(args):
    cluster = Cluster(args.address)
    if not args.define:
        job, tables = others_job(cluster, CALL_S)
    cluster.join("interop")
    attend = (Ticking if args.unary else Attending)(cluster)
    trainer = Trainer(cluster, attend, args)
    if args.define:
        job, tables = own_job(cluster, trainer, args), own_tables(cluster, trainer)
    trainer.define(job, tables)
    trainer.run()
    accuracy = trainer.test_accuracy()
    seen = cluster.call("Describe")
    attend.end()
    cluster.leave()
    return {
        "units": trainer.units, "rows": trainer.trained, "test_accuracy": accuracy,
        "staleness_max": max(trainer.lags, default=0), "bound": trainer.bound,
        "rows_trained_min": seen.rows_trained_min, "rows_trained_max": seen.rows_trained_max,
        "sessions_lost": seen.sessions_lost,
    }


# ---- Without a lease -------------------------------------------------------------------------


def unleased(args):
    """Pushes of its own on stream 0: ten times -1 with rate 0.5 to a table of zeros is +5."""
    cluster = Cluster(args.address)
    cluster.join("interop", unleased=True)
    attend = Ticking(cluster)
    definition = cluster.new(
        "TableDefinition", name="mine", shape=[5000, 3],
        dtype=cluster.value("TableDtype", "FLOAT32"),
        optimizer=cluster.new("Optimizer", name="sgd"),
    )
    number = cluster.call(
        "DefineTable", session=cluster.session, definition=definition
    ).table.number
    state = attend.tell(clock=0)
    before, _ = cluster.pull([number])
    gradient = {number: array.array("f", [-1.0]) * len(before[number])}
    for step in range(args.steps):
        _, read_clock = cluster.pull([number])
        for _ in range(2):  # The second is recognised as a repeat.
            cluster.push(
                gradient, stream=0, sequence=step, step=step, rows=1, rate=0.5,
                read_clock=read_clock,
            )
        state = attend.tell(clock=step + 1)
        assert not state.has_lease
    after, _ = cluster.pull([number])
    cluster.leave()
    return {
        "differences": sorted({b - a for a, b in zip(before[number], after[number])}),
        "min_clock": state.min_clock,
    }


def main():
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    for name, run in (("train", train), ("unleased", unleased)):
        command = commands.add_parser(name)
        command.add_argument("address")
        command.set_defaults(run=run)
        if name == "unleased":
            command.add_argument("--steps", type=int, default=10)
        else:
            command.add_argument("--data", required=True)
            command.add_argument("--unary", action="store_true")
            command.add_argument("--define", action="store_true")
            command.add_argument("--lr", default="0.1")
            command.add_argument("--die-after", type=int)
            for number, preset in (("batch", 20), ("epochs", 2), ("workers", 1), ("staleness", 2)):
                command.add_argument(f"--{number}", type=int, default=preset)
    args = parser.parse_args()
    try:
        result = args.run(args)
    except Lost as error:
        sys.exit(f"interop_worker: {error}")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
