"""What a server holds and that it does not grow; few CPUs mean few threads; large models."""

import os
import subprocess
import time
import unittest

import ps_test

MIB = 1 << 20
CGROUP = "/sys/fs/cgroup"
# Classes of memory that hold state. Pages have spares, requests and replies come and go.
STATE = ("staged_bytes", "sessions_bytes", "other_bytes")


class Watched:
    """A run with one server, seen through psctl and /proc."""

    def __init__(self, case, *args):
        self.running = case.start("--servers", 1, "--workers", 2, "--epochs", 100000, *args)
        self.pid = self.running.pid_of("server 0")
        self.address = self.running.wait_line(r"server 0 is process \d+ at (\S+)").group(1)

    def described(self):
        status, stdout, stderr = ps_test.run(
            "status", "--json", "--coordinator", self.address, program=ps_test.CTL
        )
        assert status == 0, stderr
        return ps_test.report_of(stdout)

    def server(self):
        member = self.described()["members"][0]
        assert member["kind"] == "server"
        return member

    def pass_steps(self, n):
        """Wait for `n` more steps; the least that each class of memory held, seen on the way."""
        first = self.described()["steps"]
        least = {}

        def passed():
            described = self.described()
            server = described["members"][0]
            if "staged_bytes" not in server:
                return False  # It has joined and not reported yet.
            for key in (*STATE, "memory_bytes", "calls_bytes"):
                least[key] = min(least.get(key, server[key]), server[key])
            time.sleep(0.1)
            return described["steps"] >= first + n

        ps_test.wait_until(f"{n} steps", passed, 90)
        return least


@unittest.skipIf(ps_test.SLOW > 1, "sanitizers keep what was freed")
class Memory(ps_test.Case):
    ROWS = 4000

    def assert_same_state(self, before, after, spare_bytes):
        self.assertEqual({k: before[k] for k in STATE}, {k: after[k] for k in STATE})
        self.assertLessEqual(after["memory_bytes"], before["memory_bytes"] + spare_bytes)
        # Buffers that were too small once stay larger.
        self.assertLess(after["calls_bytes"], before["calls_bytes"] + (MIB >> 2))

    def test_many_small_steps_leave_nothing(self):
        """Small messages, so that a few bytes lost per step would be seen."""
        run = Watched(self, "--data", self.data, "--batch", 10)
        run.pass_steps(2000)
        before = run.pass_steps(500)
        held = ps_test.rss_bytes(run.pid)
        after = run.pass_steps(5000)
        grown = ps_test.rss_bytes(run.pid) - held
        print(f"\nserver: {grown / 1024:.0f} KiB more after 5,000 steps")
        self.assert_same_state(before, after, 8 * 4096)
        # Heaps of threads settle; 100 bytes lost per step would be 500 kB.
        self.assertLess(grown, MIB // 3)

    def test_a_server_holds_its_tables_and_little_more_and_does_not_grow(self):
        data = ps_test.make_idx(f"{self.folder}/memory", rows=1000, side=28)
        run = Watched(
            self, "--data", data, "--model", "mlp", "--hidden", 400, "--batch", 10,
        )
        run.pass_steps(500)
        before = run.pass_steps(500)
        grown = []
        # Messages of 1.3 MB lie in the heaps of five threads, which settle one by one.
        while len(grown) < 6 and (not grown or grown[-1] > MIB):
            held = ps_test.rss_bytes(run.pid)
            after = run.pass_steps(1000)
            grown.append(ps_test.rss_bytes(run.pid) - held)
        server = run.server()
        rest = ps_test.rss_bytes(run.pid) - server["memory_bytes"]
        print(
            f"\nserver: {', '.join(f'{g / MIB:.1f}' for g in grown)} MiB more after each 1,000 "
            f"steps, {rest / MIB:.1f} MiB besides tables and optimizer state"
        )
        self.assert_same_state(before, after, MIB)  # Eight spare pages in each of four tables.
        self.assertLess(rest, 64 * MIB)
        self.assertLessEqual(grown[-1], MIB, grown)
        pushed, pulled = server["bytes_pushed"], server["bytes_pulled"]
        print(
            f"server: copied {server['copied_push_bytes'] / pushed:.4f} bytes per byte pushed, "
            f"{server['copied_pull_bytes'] / pulled:.4f} per byte pulled"
        )
        # A float that straddles two received slices is put together in four bytes; no more.
        self.assertLess(server["copied_push_bytes"] / pushed, 0.001)
        self.assertEqual(server["copied_pull_bytes"], 0)


@unittest.skipIf(ps_test.SMALL, "much memory and arithmetic")
class Budget(ps_test.Case):
    def test_a_table_that_no_server_has_room_for_is_refused_and_takes_nobody_along(self):
        server = self.start(
            "--listen", "127.0.0.1:0", "--memory-max", "4MiB", program=ps_test.SERVER
        )
        address = server.wait_line(r"ready address=(\S+)", stdout=True).group(1)
        args = ("--data", self.data, "--coordinator", address, "--epochs", 1, "--model", "mlp")
        status, _, stderr = ps_test.run(*args, "--hidden", 20000, program=ps_test.WORKER)
        self.assertEqual(status, 2, stderr)
        said = stderr.splitlines()[-1]
        self.assertRegex(said, r"would need \d+ MiB and may have 4 .*--memory-max")
        status, _, stderr = ps_test.run(*args, "--hidden", 128, program=ps_test.WORKER)
        self.assertEqual(status, 0, stderr)
        self.assertIsNone(server.process.poll())


class Large(ps_test.Case):
    ROWS = 40
    SIDE = 28

    def test_two_hundred_megabytes_of_weights_train_and_are_pulled_whole(self):
        report, tensors = self.model(
            "--servers", 2, "--workers", 1, "--model", "mlp", "--hidden", "7000,6400",
            "--batch", 20, "--epochs", 1, "--lr", 0.01, timeout=200,
        )
        self.assert_exact(report, 1)
        self.assertEqual(report["steps"], 2)
        sizes = {name: shape for name, (shape, _) in tensors.items()}
        self.assertEqual(sizes["mlp.0.weight"], [784, 7000])
        self.assertEqual(sizes["mlp.1.weight"], [7000, 6400])
        n_bytes = sum(4 * len(values) for _, values in tensors.values())
        self.assertGreater(n_bytes, 200e6)
        for name, (_, values) in tensors.items():
            if name.endswith("weight"):  # Every block has come: none is left at zero.
                for first in range(0, len(values), 4096):
                    self.assertTrue(any(values[first : first + 4096]), f"{name} at {first}")
        held = report["memory_bytes_per_server"]
        self.assertLess(sum(held), n_bytes + 64 * MIB * len(held))


class Processors(ps_test.Case):
    """Case: a small container on a large machine must not get threads for the whole machine."""

    ROWS = 2000

    def threads_under(self, *under):
        """Lanes of a server and threads of a worker, started under a limit: {name: CPU ticks}."""
        running = self.start(
            "--data", self.data, "--servers", 1, "--workers", 1, "--epochs", 100000,
            "--model", "mlp", "--hidden", 200, "--batch", 500, under=under,
        )
        server, worker = running.pid_of("server 0"), running.pid_of("worker 0")
        running.wait_line(r"epoch \d+/")
        before = ps_test.threads_of(worker)
        time.sleep(1 * ps_test.SLOW)
        spent = {}
        for thread, (name, ticks) in ps_test.threads_of(worker).items():
            of_name = spent.setdefault(name, [])
            of_name.append(ticks - before.get(thread, (name, 0))[1])
        lanes = [n for n, _ in ps_test.threads_of(server).values() if n.startswith("lane-")]
        return sorted(lanes), spent

    def assert_one_computes(self, spent):
        """Threads that a library made for itself have the name of the process, like the first."""
        self.assertEqual(len(spent["train"]), 1, spent)
        self.assertGreater(spent["train"][0], 0, spent)
        self.assertLess(sum(spent["ps-worker"]), 1 + 0.1 * spent["train"][0], spent)

    def test_on_one_cpu_there_is_one_lane_and_one_thread_that_computes(self):
        lanes, spent = self.threads_under("taskset", "-c", "0")
        self.assertEqual(lanes, ["lane-0"])
        self.assert_one_computes(spent)
        if ps_test.SLOW == 1:  # Sanitizers have a thread of their own.
            self.assertEqual(len(spent["ps-worker"]), 1, spent)

    def test_without_a_limit_there_is_a_lane_per_cpu_up_to_four(self):
        lanes, spent = self.threads_under()
        self.assertEqual(len(lanes), min(4, len(os.sched_getaffinity(0))))
        self.assert_one_computes(spent)

    def test_under_a_quota_of_half_a_cpu_there_is_one_lane(self):
        group, under = self.make_group()
        lanes, spent = self.threads_under(*under)
        self.assertEqual(lanes, ["lane-0"], group)
        self.assert_one_computes(spent)

    def make_group(self):
        """A control group with half a CPU, version 2 or 1: (its folder, words to start in it)."""
        name = f"ps-test-{os.getpid()}"
        if os.path.exists(f"{CGROUP}/cgroup.controllers"):
            group, quota = f"{CGROUP}/{name}", {"cpu.max": "50000 100000"}
        else:
            group = f"{CGROUP}/cpu/{name}"
            quota = {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "50000"}
        try:
            os.mkdir(group)
            self.addCleanup(self.drop_group, group)
            for file, text in quota.items():
                with open(f"{group}/{file}", "w") as f:
                    f.write(text)
        except OSError as error:
            self.skipTest(f"control groups cannot be made here: {error}")
        enter = f'echo $$ >{group}/cgroup.procs && exec "$@"'
        if subprocess.run(["sh", "-c", enter, "sh", "true"], capture_output=True).returncode != 0:
            self.skipTest("processes cannot be moved into control groups here")
        return group, ("sh", "-c", enter, "sh")

    def drop_group(self, group):
        def dropped():
            try:
                os.rmdir(group)
            except FileNotFoundError:
                pass
            except OSError:
                return False
            return True

        ps_test.wait_until(f"{group} is empty", dropped, 5)


if __name__ == "__main__":
    ps_test.main()
