#!/usr/bin/python3
"""A client that is no part of the project pushes and pulls rows of a sparse table.

What it does stands in proto/README.md: "Rows", "Fragments", "Scan", "Where a key lives". It does
the units of tests/load/rows.c, so that `ps-rows --mode check` can say whether every row is right.

    interop_rows.py units ADDRESS KEYS UNITS    push, pull, scan, compare
    interop_rows.py lies ADDRESS                what each lie about keys is answered with, as JSON
"""

import argparse
import array
import json

import grpc
from interop_worker import CALL_S, SLOTS, Cluster

ALL = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15
WIDTH = 5


def finalise(x):
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & ALL
    x = (x ^ x >> 27) * 0x94D049BB133111EB & ALL
    return x ^ x >> 31


def mix(x):
    return finalise((x + GOLDEN) & ALL)


def varint(n):
    out = []
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    return bytes(out + [n])


def encoded(keys):
    """Differences of sorted keys, minus 1; the first one as it is."""
    return b"".join(varint(key - before - 1) for before, key in zip([-1] + keys, keys))


def decoded(data):
    keys, number, shift, before = [], 0, 0, -1
    for byte in data:
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            before += number + 1
            keys.append(before)
            number, shift = 0, 0
    assert shift == 0
    return keys


class Rows(Cluster):
    """A session with a dense table of one number and a sparse one."""

    def start(self):
        self.join("foreign-rows", unleased=True)
        sgd = self.new("Optimizer", name="sgd")
        one = self.new("TableDefinition", name="one", shape=[1], dtype=1, optimizer=sgd)
        rows = self.new("TableDefinition", name="rows", kind=self.value("TableKind", "SPARSE"),
                        width=WIDTH, dtype=1, optimizer=sgd)
        self.one, self.rows = (
            self.call("DefineTable", session=self.session, definition=d).table for d in (one, rows)
        )
        self.take(self.call("Tick", report=self.report()).state)

    def slot(self, key):
        inner = finalise(key ^ self.key_seed)
        return finalise((inner + GOLDEN + self.key_seed) & ALL) % SLOTS

    def by_slot(self, keys):
        slots = {}
        for key in sorted(keys):
            slots.setdefault(self.slot(key), []).append(key)
        return slots

    def request(self, method, **fields):
        return self.new(f"{method}Request", session=self.session, session_number=self.number,
                        generation=self.generation, **fields)

    def push_slots(self, server, unit, keys, values, with_one):
        """One call: what the server has of the keys, and of the dense table."""
        request = self.request("Push", sequence=unit, acked_below=unit, rows=1, rate=1.0)
        slots = self.by_slot(keys)
        if with_one:
            slots.setdefault(self.one.first_slot, [])
        payload = b""
        for slot in sorted(slots):
            if self.placement.primary[slot] != server:
                continue
            share = request.slots.add(slot=slot, epoch=self.placement.epoch[slot], fragments=1)
            if with_one and slot == self.one.first_slot: # Its number is the lower one.
                share.parts.add(table=self.one.number, block=0, dtype=1, bytes=4)
                payload += array.array("f", [-1.0]).tobytes()
            if slots[slot]:
                part = encoded(slots[slot])
                n_bytes = len(part) + 4 * WIDTH * len(slots[slot])
                share.parts.add(table=self.rows.number, dtype=1, bytes=n_bytes,
                                keys=len(slots[slot]), key_bytes=len(part))
                payload += part + b"".join(values[key].tobytes() for key in slots[slot])
        if not request.slots:
            return
        request.payload = payload
        for _ in range(2): # The repeat is recognised.
            reply = self.server(server).Push(request, timeout=CALL_S)
            assert all(self.status_names[s.status] == "OK" for s in reply.slots), reply

    def pull_rows(self, keys):
        found = {}
        for server in range(len(self.placement.servers)):
            request = self.request("Pull", no_clock=True)
            slots = {s: k for s, k in self.by_slot(keys).items()
                     if self.placement.primary[s] == server}
            for slot in slots:
                part = encoded(slots[slot])
                share = request.pull_slots.add(slot=slot, epoch=self.placement.epoch[slot])
                share.parts.add(table=self.rows.number, keys=len(slots[slot]),
                                key_bytes=len(part))
                request.payload += part
            if not slots:
                continue
            reply = self.server(server).Pull(request, timeout=CALL_S)
            values = array.array("f", reply.payload)
            for slot in slots:
                for key in slots[slot]:
                    found[key], values = values[:WIDTH].tolist(), values[WIDTH:]
            assert not values
        return found


    def scan_rows(self, max_bytes):
        """All rows, by key; each comes once. And how many answers it took."""
        found, n_answers = {}, 0
        for slot in range(SLOTS):
            cursor, done = 0, False
            while not done:
                request = self.request("Scan", table=self.rows.number, slot=slot,
                                       epoch=self.placement.epoch[slot], cursor=cursor,
                                       max_bytes=max_bytes)
                stub = self.server(self.placement.primary[slot])
                reply = stub.Scan(request, timeout=CALL_S)
                assert self.status_names[reply.status] == "OK", reply
                assert len(reply.payload) <= max_bytes
                keys = decoded(reply.payload[:reply.key_bytes])
                values = array.array("f", reply.payload[reply.key_bytes:])
                assert len(keys) == reply.keys and keys == sorted(set(keys))
                assert len(values) == WIDTH * len(keys)
                for i, key in enumerate(keys):
                    assert key not in found and self.slot(key) == slot
                    found[key] = values[i * WIDTH:(i + 1) * WIDTH].tolist()
                cursor, done, n_answers = reply.cursor, reply.done, n_answers + 1
        return found, n_answers


def units(args):
    """The units of tests/load/rows.c, one in four of its keys each."""
    cluster = Rows(args.address)
    cluster.start()
    ends = [0, ALL, 1 << 63, (1 << 63) - 1, 1]
    universe = ends + [mix(i) for i in range(len(ends), args.keys)]
    gradient = array.array("f", [-float(1 + j % 7) for j in range(WIDTH)])
    times = dict.fromkeys(universe, 0)
    for unit in range(args.units):
        keys = [key for key in universe if mix(key ^ mix(unit)) % 4 == 0]
        for key in keys:
            times[key] += 1
        for server in range(len(cluster.placement.servers)):
            cluster.push_slots(server, unit, keys, dict.fromkeys(keys, gradient), True)
    found = cluster.pull_rows(universe)
    wrong = [k for k in universe if found[k] != [times[k] * (1.0 + j % 7) for j in range(WIDTH)]]
    scanned, n_answers = cluster.scan_rows(1000)
    wrong += [k for k in universe if scanned.get(k) != (found[k] if times[k] else None)]
    cluster.leave()
    return {"rows": len(universe), "wrong": wrong, "scanned": len(scanned),
            "answers": n_answers}


def lies(args):
    cluster = Rows(args.address)
    cluster.start()
    slot = next(s for s in range(SLOTS) if cluster.placement.primary[s] == 0)
    keys = [key for key in range(4000) if cluster.slot(key) == slot][:4]
    strange = next(key for key in range(4000) if cluster.slot(key) != slot)
    good = encoded(keys)
    back = varint(keys[1]) + varint((keys[0] - keys[1] - 1) & ALL) # Behind the end of the 64 bits.
    told = {}
    for name, part, n, n_values in [
        ("nothing", good, 4, 4),
        ("not sorted", back, 2, 2),
        ("a key twice", varint(keys[0]) + varint(ALL), 2, 2),
        ("of another slot", varint(strange), 1, 1),
        ("more keys than there are", good, 5, 5),
        ("fewer keys than there are", good, 3, 3),
        ("more values", good, 4, 5),
        ("a padded key", varint(keys[0])[:-1] + bytes([keys[0] & 0x7F | 0x80, 0]), 1, 1),
        ("no keys", b"", 0, 0),
    ]:
        payload = part + bytes(4 * WIDTH * n_values)
        request = cluster.request("Push", sequence=0, rows=1, rate=1.0, payload=payload)
        share = request.slots.add(slot=slot, epoch=cluster.placement.epoch[slot], fragments=1)
        share.parts.add(table=cluster.rows.number, dtype=1, bytes=len(payload), keys=n,
                        key_bytes=len(part))
        try:
            reply = cluster.server(0).Push(request, timeout=CALL_S)
            told[name] = cluster.status_names[reply.slots[0].status]
        except grpc.RpcError as error:
            told[name] = error.code().name
    for name, fields in [
        ("a scan of a dense table", {"table": cluster.one.number}),
        ("a scan of no table", {"table": 200}),
        ("a scan of slot 64", {"table": cluster.rows.number, "slot": SLOTS}),
        ("a scan of less than a row", {"table": cluster.rows.number, "max_bytes": 29}),
    ]:
        try:
            cluster.server(0).Scan(cluster.request("Scan", **fields), timeout=CALL_S)
            told[name] = "OK"
        except grpc.RpcError as error:
            told[name] = error.code().name
    cluster.leave()
    return told


def main():
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    for run in (units, lies):
        command = commands.add_parser(run.__name__)
        command.add_argument("address")
        command.set_defaults(run=run)
        if run is units:
            command.add_argument("keys", type=int)
            command.add_argument("units", type=int)
    args = parser.parse_args()
    print(json.dumps(args.run(args)))


if __name__ == "__main__":
    main()
