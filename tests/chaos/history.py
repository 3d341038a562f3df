"""What ps-ledger asked and was answered, judged: nothing acknowledged is lost, nothing is doubled.

A push that was acknowledged must be there exactly once. One without an outcome ("info", or no line
at all: the process was killed) may be there or not, each of its rows for itself, for rows lie in
different slots. Whatever is there twice, or in part, or was never pushed, is wrong.

A way back to a cut undoes: what was acknowledged before the cut was asked for stays, what began
after the cut was complete is gone, what lies between may be either.
"""

import bisect
import collections
import json
import os

ROW = [1.0, 2.0]  # What a push leaves in a row of the ledger.
NONE = [0.0, 0.0]

MUST, MAY, NOT = "must", "may", "not"

# One cut, from before it was asked for until it was known to be complete; and a way back to it,
# from the last moment at which nobody knew of it until the job ran again. Times as in the history.
Cut = collections.namedtuple("Cut", "t0 t1")
WayBack = collections.namedtuple("WayBack", "cut t0 t1")


class Push:
    __slots__ = ("keys", "counter", "n", "t0", "t1", "outcome", "name")

    def __init__(self, line):
        self.name = f"client {line['c']} push {line['op']}"
        self.keys = line["keys"]
        self.counter = line["counter"]
        self.n = line["n"]
        self.t0 = line["t"]
        self.t1 = None
        self.outcome = "none"

    def fate(self, ways_back):
        """What must be there of it after these."""
        if self.outcome == "fail":
            return NOT
        acked = self.t1 if self.outcome == "ok" else None
        fate = MUST if acked else MAY
        for way in ways_back:
            if self.t0 >= way.t1:
                continue  # It came after.
            if acked and acked >= way.t1:
                continue  # Acknowledged by those who had gone back.
            if acked is None or acked >= way.t0:
                fate = MAY if fate == MUST else fate
            elif acked >= way.cut.t0:
                fate = NOT if self.t0 > way.cut.t1 else MAY if fate == MUST else fate
        return fate


class Verdict:
    """Counts, and what is wrong: at most so many lines of it."""

    LINES_MAX = 20

    def __init__(self):
        self.acked = self.unknown = self.failed = self.reads = self.sessions = 0
        self.rows = 0
        self.n_wrong = 0
        self.wrong = []

    def say(self, text):
        self.n_wrong += 1
        if len(self.wrong) < self.LINES_MAX:
            self.wrong.append(text)

    def counts(self):
        return (f"{self.acked} acknowledged, {self.unknown} unknown, {self.failed} refused, "
                f"{self.reads} reads, {self.sessions} sessions, {self.rows} rows, "
                f"{self.n_wrong} wrong")

    def text(self):
        return "\n".join([self.counts(), *self.wrong])


def read_lines(paths):
    """All events in the order of their times. A last line may be torn: its writer was killed."""
    events = []
    for path in paths:
        if not os.path.exists(path):
            continue  # Its writer was killed before its first word.
        with open(path, encoding="ascii") as f:
            lines = f.read().split("\n")
        for i, line in enumerate(lines):
            if not line:
                continue
            try:
                events.append(json.loads(line))
            except ValueError:
                if i != len(lines) - 1:
                    raise
    events.sort(key=lambda event: event["t"])
    return events


class Checker:
    def __init__(self, ways_back=()):
        self.ways_back = sorted(ways_back, key=lambda way: way.t0)
        self.verdict = Verdict()
        self.pushes = {}  # (client, number) -> Push
        self.owner = {}  # key -> Push
        self.open_reads = {}
        # Counters: what has been asked for and acknowledged, by time, for the bounds of a read.
        self.asked = collections.defaultdict(list)
        self.acked = collections.defaultdict(list)
        self.finals = None
        self.dense = None
        self.read_at = None

    def check(self, paths):
        """Judge all files together; the last complete read of everything counts."""
        for event in read_lines(paths):
            kind = event["type"]
            if kind == "session":
                self.verdict.sessions += 1
            elif kind in ("final",):
                self.finals[event["key"]] = event["row"]
            elif event["f"] == "push":
                self.push(event)
            elif event["f"] == "read":
                self.read(event)
            elif event["f"] == "all":
                self.read_all(event)
        for push in self.pushes.values():
            if push.outcome == "none":
                self.verdict.unknown += 1
        self.check_end()
        return self.verdict

    # ---- Pushes ------------------------------------------------------------------------------

    def push(self, event):
        number = (event["c"], event["op"])
        if event["type"] == "invoke":
            push = Push(event)
            assert number not in self.pushes, f"{push.name} is there twice in the history"
            self.pushes[number] = push
            for key in push.keys:
                assert key not in self.owner, f"key {key} is of two pushes"
                self.owner[key] = push
            self.count(self.asked[push.counter], event["t"], push.n)
            return
        push = self.pushes[number]
        push.outcome, push.t1 = event["type"], event["t"]
        if push.outcome == "ok":
            self.verdict.acked += 1
            self.count(self.acked[push.counter], event["t"], push.n)
        elif push.outcome == "fail":
            self.verdict.failed += 1
        else:
            self.verdict.unknown += 1

    @staticmethod
    def count(sums, t, n):
        """Running sums, by time."""
        sums.append((t, n + (sums[-1][1] if sums else 0)))

    @staticmethod
    def sum_at(sums, t):
        i = bisect.bisect_right(sums, (t, float("inf")))
        return sums[i - 1][1] if i > 0 else 0

    # ---- Reads while it goes on --------------------------------------------------------------

    def read(self, event):
        number = (event["c"], event["op"])
        if event["type"] == "invoke":
            self.open_reads[number] = event["t"]
            return
        t0 = self.open_reads.pop(number)
        if event["type"] != "ok":
            return
        self.verdict.reads += 1
        where = f"client {event['c']} read {event['op']}"
        self.check_zeros(event["zero"], where)
        # A way back undoes: nothing is known of what was acknowledged before it.
        since = max((way.t1 for way in self.ways_back if way.t0 <= event["t"]), default=0)
        unsure = any(way.t0 <= event["t"] and t0 <= way.t1 for way in self.ways_back)
        for i, key in enumerate(event["keys"]):
            row = event["rows"][2 * i:2 * i + 2]
            push = self.owner.get(key)
            if push is None and row != NONE:
                self.verdict.say(f"{where}: key {key} was never pushed and is {row}")
            elif push is not None:
                # Outcomes so far: lines stand in the order of time.
                must = push.outcome == "ok" and push.t1 < t0 and push.t1 > since and not unsure
                self.check_row(push, key, row, MUST if must else MAY, where)
        if not self.ways_back:
            self.check_bounds(event["counter"], t0, event["t"], where)

    def check_bounds(self, counters, t0, t1, where):
        for i, value in enumerate(counters):
            least, most = self.sum_at(self.acked[i], t0), self.sum_at(self.asked[i], t1)
            if not least <= value <= most:
                self.verdict.say(f"{where}: counter {i} is {value:g}, not {least} to {most}")

    def check_zeros(self, sums, where):
        for i, value in enumerate(sums):
            if value != 0:
                self.verdict.say(f"{where}: zero.{i} sums to {value:g}")

    def check_row(self, push, key, row, fate, where):
        if row == NONE and fate == MUST:
            self.verdict.say(f"{where}: LOST {push.name} (key {key}), acknowledged at {push.t1}")
        elif row == ROW and fate == NOT:
            self.verdict.say(f"{where}: BACK {push.name} (key {key}), which was undone")
        elif row not in (ROW, NONE):
            twice = row == [2 * x for x in ROW]
            word = "TWICE" if twice else "TORN"
            self.verdict.say(f"{where}: {word} {push.name} (key {key}): {row}")

    # ---- All that is there in the end --------------------------------------------------------

    def read_all(self, event):
        if event["type"] == "invoke":
            self.finals, self.dense, self.read_at = {}, None, event["t"]
        elif event["type"] == "ok":
            self.dense = event

    def check_end(self):
        if self.dense is None:
            self.verdict.say("nothing was read in the end")
            return
        self.verdict.rows = len(self.finals)
        least = collections.Counter()
        most = collections.Counter()
        for push in self.pushes.values():
            fate = push.fate(self.ways_back)
            least[push.counter] += push.n if fate == MUST else 0
            most[push.counter] += push.n if fate != NOT else 0
            for key in push.keys:
                row = self.finals.get(key, NONE)
                self.check_row(push, key, row, fate, "at the end")
        for key, row in self.finals.items():
            if key not in self.owner and row != NONE:
                self.verdict.say(f"at the end: key {key} was never pushed and is {row}")
        self.check_zeros(self.dense["zero"], "at the end")
        for i, value in enumerate(self.dense["counter"]):
            if not least[i] <= value <= most[i]:
                self.verdict.say(
                    f"at the end: counter {i} is {value:g}, not {least[i]} to {most[i]}")


def check(paths, ways_back=()):
    return Checker(ways_back).check(paths)
