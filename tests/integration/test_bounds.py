"""What others do to a server must end somewhere: a reader that stops, and more callers than it can
serve. Memory stays within what the settings say, nobody else is harmed, nothing is lost.

PS_TEST_STOP_S=60 and PS_TEST_LOAD_S=30 give the full runs.
"""

import json
import os
import signal
import threading
import time
import unittest

import ps_test

LOAD = os.environ.get("PS_BIN_LOAD", "build/tests/load/ps-load")
MIB = 1 << 20

STOP_S = int(os.environ.get("PS_TEST_STOP_S", "12"))
LOAD_S = int(os.environ.get("PS_TEST_LOAD_S", "6"))
# A server gives up a connection that makes no progress after keepalive time and timeout.
GIVE_UP_S = 10 + 5


class Server:
    """One server of its own, seen through psctl and /proc."""

    def __init__(self, case, *args):
        self.running = case.start("--listen", "127.0.0.1:0", *args, program=ps_test.SERVER)
        self.address = self.running.wait_line(r"ready address=(\S+)", stdout=True).group(1)
        self.pid = self.running.process.pid

    def stats(self):
        status, stdout, stderr = ps_test.run(
            "status", "--json", "--coordinator", self.address, "--timeout", "20s",
            program=ps_test.CTL,
        )
        assert status == 0, stderr
        members = ps_test.report_of(stdout)["members"]
        return next(m for m in members if m["kind"] == "server")

    def rss(self):
        return ps_test.rss_bytes(self.pid)

    def values(self, n, elements):
        """The first elements of the table, as a reader sees them."""
        status, stdout, stderr = ps_test.run(
            "--coordinator", self.address, "--mode", "read", "--elements", elements,
            "--shown", n, program=LOAD,
        )
        assert status == 0, stderr
        return json.loads(stdout.splitlines()[-1])["values"]


class Load:
    """A ps-load under way; its sessions are open when this returns."""

    def __init__(self, case, server, *args):
        self.running = case.start("--coordinator", server.address, *args, program=LOAD)
        self.running.wait_line("ready", timeout=60, stdout=True)
        self.pid = self.running.process.pid

    def result(self, timeout=120):
        status = self.running.wait(timeout)
        assert status == 0, self.running.text()
        return json.loads(self.running.stdout.splitlines()[-1])


class Sampled(threading.Thread):
    """What a function said, ten times a second."""

    def __init__(self, function):
        super().__init__(daemon=True)
        self.function = function
        self.samples = []
        self.over = threading.Event()
        self.start()

    def run(self):
        while not self.over.wait(0.1):
            self.samples.append(self.function())

    def stop(self):
        self.over.set()
        self.join()
        return self.samples


class Throttle(threading.Thread):
    """Lets a process run for a fifth of the time; needs no rights but to send signals."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid = pid
        self.over = threading.Event()
        self.start()

    def run(self):
        while not self.over.is_set():
            os.kill(self.pid, signal.SIGSTOP)
            time.sleep(0.04)
            os.kill(self.pid, signal.SIGCONT)
            time.sleep(0.01)

    def stop(self):
        self.over.set()
        self.join()


def rate_of(server, seconds):
    """Payload bytes per second that were pushed meanwhile."""
    before, begin = server.stats()["bytes_pushed"], time.monotonic()
    time.sleep(seconds)
    return (server.stats()["bytes_pushed"] - before) / (time.monotonic() - begin)


@unittest.skipIf(ps_test.SLOW > 1, "measures memory")
class Bounds(ps_test.Case):
    ELEMENTS = 262_144  # A push is a MiB.
    PUSHES = 100  # Of each session, so that 20 % are no matter of chance.

    def stop_in_the_middle(self, puller, server):
        """Stop it while pages of its are on their way; the bytes that stay so."""
        lent = 0
        for _ in range(40):
            time.sleep(0.2)
            os.kill(puller.pid, signal.SIGSTOP)
            time.sleep(0.5)  # What fits the sockets is sent.
            lent = server.stats()["lent_bytes"]
            if lent > 2 * MIB:
                break
            os.kill(puller.pid, signal.SIGCONT)
        self.assertGreater(lent, 0, "it was never caught in the middle of a pull")
        return lent

    def test_a_reader_that_stops_pins_a_bounded_part_and_harms_nobody(self):
        """A worker stopped while it pulls a table of 200 MB that others push to."""
        elements = ps_test.either(50_000_000, 12_000_000)
        stop_s = ps_test.either(STOP_S, 6)
        server = Server(self, "--session-memory", "64MiB")
        total_s = stop_s + 25
        pushers = [
            Load(self, server, "--elements", elements, "--time", f"{total_s}s", "--first", i)
            for i in range(2)
        ]
        rate_before = rate_of(server, 4)
        puller = Load(
            self, server, "--elements", elements, "--mode", "pull", "--sessions", 2,
            "--depth", 32, "--time", f"{total_s}s",
        )
        self.addCleanup(puller.running.process.kill)
        lent = self.stop_in_the_middle(puller, server)
        stopped = time.monotonic()
        rss = Sampled(server.rss)
        rate_meanwhile = rate_of(server, stop_s - 2)
        if stop_s > GIVE_UP_S + 10:
            ps_test.wait_until(
                "pages come back", lambda: server.stats()["lent_bytes"] == 0, GIVE_UP_S
            )
        stopped_s = time.monotonic() - stopped
        still_lent = server.stats()["lent_bytes"]
        os.kill(puller.pid, signal.SIGCONT)
        samples = rss.stop()
        pulled = puller.result()
        pushed = [pusher.result() for pusher in pushers]
        grown = max(samples) - samples[0]
        print(
            f"\nstopped for {stopped_s:.0f} s: {lent / MIB:.1f} MiB pinned, "
            f"{still_lent / MIB:.1f} at the end; server {samples[0] / MIB:.0f} MiB, "
            f"{grown / MIB:.1f} more at most; pushes {rate_before / MIB:.0f} MiB/s before, "
            f"{rate_meanwhile / MIB:.0f} meanwhile; then "
            f"{pulled['ended']} of 64 pulls were fenced"
        )
        # Two sessions with 32 pulls each on one connection; what is pinned may have a twin.
        self.assertLessEqual(lent, 2 * 64 * MIB)
        self.assertLess(grown, 2 * 64 * MIB)
        self.assertGreater(rate_meanwhile, rate_before / 3)
        # Never half in: a session goes on or is told that it is over.
        self.assertIn(pulled["ended"], range(65))
        if pulled["ended"] > 0:
            self.assertRegex(pulled["why"], "closed")
        ps_test.wait_until("pages come back", lambda: server.stats()["lent_bytes"] == 0, 30)
        self.assertEqual([p["ended"] for p in pushed], [0, 0], pushed)
        acked = [p["acked"][0] for p in pushed]
        self.assertGreater(min(acked), 0)
        self.assertEqual(server.values(2, elements), acked)

    def overload(self, load_s):
        """Two processes of sessions against a throttled server: (server, results, its RSS)."""
        sessions = ps_test.either(32, 8)
        server = Server(
            self, "--lanes", 1, "--session-memory", "16MiB", "--call-memory", "32MiB"
        )
        start = f"{self.folder}/start-{load_s:.0f}"
        loads = [
            Load(
                self, server, "--sessions", sessions, "--first", i * sessions, "--elements",
                self.ELEMENTS, "--time", f"{load_s:.0f}s", "--start", start,
            )
            for i in range(2)
        ]
        rss = Sampled(server.rss)
        throttle = Throttle(server.pid)
        self.addCleanup(throttle.stop)
        with open(start, "w", encoding="ascii"):
            pass
        results = [load.result(60 + 10 * load_s) for load in loads]
        throttle.stop()
        return server, results, rss.stop()

    def test_more_callers_than_it_can_serve_share_it_evenly_and_lose_nothing(self):
        """64 sessions in two processes against a server that runs a fifth of the time."""
        server, results, samples = self.overload(LOAD_S)
        n = sum(len(result["acked"]) for result in results)
        mean = sum(sum(result["acked"]) for result in results) / n
        if mean < self.PUSHES:  # A slow machine: too few to tell chance from favour.
            server, results, samples = self.overload(LOAD_S * 1.5 * self.PUSHES / mean)
        acked = [n for result in results for n in result["acked"]]
        busy = sum(result["busy"] for result in results)
        mean = sum(acked) / len(acked)
        half = samples[len(samples) // 2 :]
        print(
            f"\n{len(acked)} sessions: {min(acked)} to {max(acked)} pushes each, mean {mean:.1f}; "
            f"{busy} refused; server {max(samples) / MIB:.0f} MiB at most, "
            f"{(max(half) - half[0]) / MIB:.1f} more in the second half"
        )
        self.assertEqual([r["ended"] for r in results], [0, 0], results)
        self.assertEqual(server.values(len(acked), self.ELEMENTS), acked)
        self.assertGreater(busy, ps_test.either(0, -1))
        self.assertEqual(sum(r["busy_without_hint"] for r in results), 0)
        # 32 MiB of calls, 64 messages that are just arriving, and the heaps of their threads.
        self.assertLess(max(samples), 256 * MIB)
        self.assertLess(max(half) - half[0], 24 * MIB)
        self.assertGreater(min(acked), 0.8 * mean)
        self.assertLess(max(acked), 1.2 * mean)
        stats = server.stats()
        self.assertEqual(stats["open_calls"], 0)
        self.assertEqual(stats["open_bytes"], 0)


if __name__ == "__main__":
    ps_test.main()
