"""Sparse tables through real servers: every row holds exactly what was pushed, whoever dies, and a
server that has no room for more rows says so and goes on with those it has.

`ps-rows` (tests/load/rows.c) pushes known integers under keys from 0 to 2^64 - 1, beside a dense
table, and knows what must be there in the end.
"""

import os
import signal
import unittest

import ps_test

ROWS = os.environ.get("PS_BIN_ROWS", "build/tests/load/ps-rows")
MIB = 1 << 20


class Rows(ps_test.Case):
    ROWS = 60

    def servers(self, n, *args):
        """`n` servers under way; the address of the first, which coordinates."""
        first = self.start("--listen", "127.0.0.1:0", "--servers", n, *args,
                           program=ps_test.SERVER)
        address = first.wait_line(r"ready address=(\S+)", stdout=True).group(1)
        self.running = [first]
        for _ in range(n - 1):
            self.running.append(self.start("--listen", "127.0.0.1:0", "--coordinator", address,
                                           *args, program=ps_test.SERVER))
        return address

    def worker(self, address, *args):
        worker = self.start("--coordinator", address, *args, program=ROWS)
        worker.wait_line("ready", stdout=True)
        return worker

    def check(self, address, *args):
        status, stdout, stderr = ps_test.run("--coordinator", address, "--mode", "check", *args,
                                             program=ROWS)
        self.assertEqual((status, stderr), (0, ""), stdout)
        self.assertRegex(stdout, r"^0 wrong of \d+ rows")
        self.assertRegex(stdout, r"(?m)^0 wrong of \d+ scanned$")

    def table(self, address):
        """What psctl says of the sparse table."""
        status, stdout, stderr = ps_test.run("tables", "--json", "--coordinator", address,
                                             program=ps_test.CTL)
        self.assertEqual(status, 0, stderr)
        return next(t for t in ps_test.report_of(stdout)["tables"] if t["name"] == "rows")

    def wait_table(self, address, condition):
        """Servers report at heartbeats."""
        ps_test.wait_until("the table's figures", lambda: condition(self.table(address)))
        return self.table(address)

    def test_rows_are_exact_on_one_two_and_three_servers(self):
        for n_servers in (1, 2, 3):
            with self.subTest(servers=n_servers):
                address = self.servers(n_servers)
                keys = ps_test.either(20000, 3000)
                args = ("--keys", keys, "--workers", 2)
                workers = [self.worker(address, *args) for _ in range(2)]
                for worker in workers:
                    self.assertEqual(worker.wait(), 0, worker.text())
                self.check(address, *args)
                table = self.wait_table(address, lambda t: t["rows"] > 0.99 * keys)
                self.assertEqual(table["rows"], table["created"])
                self.assertEqual((table["expired"], table["refused"]), (0, 0))
                for server in self.running:
                    server.end()

    def test_workers_that_are_killed_leave_no_row_half_pushed_or_pushed_twice(self):
        address = self.servers(2)
        args = ("--keys", ps_test.either(20000, 3000), "--workers", 3, "--units", 200)
        workers = [self.worker(address, *args) for _ in range(3)]
        for victim, after in ((0, 3), (1, 6)):
            ps_test.wait_until(
                "some units", lambda v=victim, a=after: workers[v].stdout.count("unit") >= a)
            workers[victim].process.send_signal(signal.SIGKILL)
            self.assertEqual(workers[victim].wait(), -signal.SIGKILL)
            workers[victim] = self.worker(address, *args)
        for worker in workers:
            self.assertEqual(worker.wait(), 0, worker.text())
        self.check(address, *args)

    def test_scans_find_each_row_once_and_whole_while_workers_push(self):
        address = self.servers(2)
        args = ("--keys", ps_test.either(20000, 3000), "--workers", 2, "--units", 100)
        workers = [self.worker(address, *args) for _ in range(2)]
        ps_test.wait_until("some units", lambda: workers[0].stdout.count("unit") >= 3)
        status, stdout, stderr = ps_test.run("--coordinator", address, "--mode", "scan", "--time",
                                             "500ms", *args, program=ROWS)
        self.assertEqual((status, stderr), (0, ""), stdout)
        self.assertRegex(stdout, r"^0 wrong, [1-9]\d* scans, [1-9]\d* rows")
        for worker in workers:
            self.assertEqual(worker.wait(), 0, worker.text())
        self.check(address, *args)

    @unittest.skipIf(ps_test.SMALL, "80 MB a push")
    def test_slots_that_need_more_than_one_call_are_exact(self):
        address = self.servers(2)
        args = ("--keys", 20000, "--one-in", 1, "--width", 1024, "--units", 2, "--workers", 2)
        workers = [self.worker(address, *args) for _ in range(2)]
        for worker in workers:
            self.assertEqual(worker.wait(), 0, worker.text())
        self.check(address, *args)

    def test_a_server_that_is_full_refuses_new_rows_with_words_and_keeps_what_it_has(self):
        address = self.servers(1, "--memory-max", "48MiB")
        few = ("--keys", 5000, "--one-in", 1, "--units", 5, "--epochs", 1)
        self.assertEqual(self.worker(address, *few).wait(), 0)
        self.check(address, *few)
        many = self.start("--coordinator", address, "--mode", "bench", "--keys", 2000000,
                          "--one-in", 1, "--time", "300s", program=ROWS)
        self.running[0].wait_line("event=table.full .*raise --memory-max")
        table = self.wait_table(address, lambda t: t["refused"] > 0)
        self.assertLess(table["bytes"], 48 * MIB)
        # It does not wait for ever for memory that nothing will free.
        self.assertEqual(many.wait(), 1, many.text())
        self.assertRegex(many.text(), r"server 0 \(\S+\) has had no memory for new rows for 10 s: "
                                      r"give it a larger --memory-max")
        self.assertIsNone(self.running[0].process.poll())
        # What is there can still be read, and pushed to. The larger universe has pushed to those
        # slots that had room.
        rows = self.table(address)["rows"]
        _, stdout, stderr = ps_test.run("--coordinator", address, "--mode", "check", *few,
                                        program=ROWS)
        self.assertRegex(stdout, r"wrong of 5000 rows, 5 units, 0 torn", stderr)
        known = self.start("--coordinator", address, "--mode", "bench", "--keys", 5000,
                           "--one-in", 1, "--time", "100ms", program=ROWS)
        self.assertEqual(known.wait(), 0, known.text())
        self.assertEqual(self.table(address)["rows"], rows)


if __name__ == "__main__":
    ps_test.main()
