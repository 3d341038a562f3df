"""Bad input: exit 2, one clear line on standard error, nothing started. One row per mistake."""

import gzip
import os
import shutil
import socket
import subprocess
import unittest

import ps_test


class Usage(ps_test.Case):
    ROWS = 60

    def refuse(self, *args, program=ps_test.RUN, says=()):
        status, stdout, stderr = ps_test.run(*args, program=program, timeout=20)
        self.assertEqual(status, 2, f"{args}: {stderr}")
        self.assertEqual(stdout, "")
        lines = stderr.strip().splitlines()
        self.assertEqual(len(lines), 1, f"{args}: {stderr}")
        for word in says:
            self.assertIn(word, lines[0])

    def test_bad_flags_are_refused_by_name(self):
        data = ("--data", self.data)
        rows = [
            ((), ["--data"]),
            ((*data, "--wrokers", "2"), ["--wrokers", "--workers"]),
            ((*data, "--workers", "0"), ["--workers"]),
            ((*data, "--servers", "0"), ["--servers"]),
            ((*data, "--epochs", "0"), ["--epochs"]),
            ((*data, "--batch", "0"), ["--batch"]),
            ((*data, "--batch", "ten"), ["--batch", "ten"]),
            ((*data, "--lr", "nan"), ["--lr"]),
            ((*data, "--lr", "-1"), ["--lr"]),
            ((*data, "--model", "resnet"), ["resnet", "softmax", "mlp"]),
            ((*data, "--model", "softmax", "--hidden", "10"), ["--hidden"]),
            ((*data, "--model", "mlp", "--hidden", "10,,3"), ["--hidden"]),
            ((*data, "--optimizer", "sdg"), ["--optimizer", "sgd"]),
            ((*data, "--schedule", "linear"), ["linear"]),
            ((*data, "--weight-decay", "0.1"), ["--weight-decay", "adamw"]),
            ((*data, "--consistency", "strict"), ["--consistency", "strict"]),
            ((*data, "--consistency", "ssp"), ["--consistency"]),
            ((*data, "--consistency", "ssp:-1"), ["--consistency"]),
            ((*data, "--consistency", "asp", "--staleness", "4"), ["--staleness", "asp"]),
            ((*data, "--aggregate", "--staleness", "4"), ["--aggregate"]),
            ((*data, "--aggregate", "--consistency", "asp"), ["--aggregate"]),
            ((*data, "--backup-workers", "1"), ["--backup-workers", "--aggregate"]),
            (
                (*data, "--aggregate", "--workers", "2", "--backup-workers", "2"),
                ["--backup-workers"],
            ),
            ((*data, "--in-process", "--servers", "2"), ["--in-process", "--servers"]),
            ((*data, "--in-process", "--workers", "4"), ["--in-process", "--workers"]),
            ((*data, "--seed", "1", "--seed", "2"), ["--seed", "twice"]),
            ((*data, "more"), ["more"]),
        ]
        for args, says in rows:
            with self.subTest(args=args):
                self.refuse(*args, says=says)

    def test_what_cannot_be_written_is_no_success(self):
        for program in (ps_test.RUN, ps_test.SERVER, ps_test.WORKER, ps_test.CTL):
            for flag in ("--help", "--version", "--print-config"):
                with self.subTest(program=program, flag=flag), open("/dev/full", "wb") as full:
                    done = subprocess.run(
                        [program, flag], stdout=full, stderr=subprocess.PIPE, text=True,
                        timeout=60 * ps_test.SLOW,
                    )
                    self.assertEqual(done.returncode, 74)
                    name = os.path.basename(program)
                    self.assertEqual(
                        done.stderr,
                        f"{name}: cannot write to standard output: No space left on device\n",
                    )

    def broken(self, name, change):
        """A copy of the data set after `change(folder)`."""
        folder = f"{self.folder}/{name}"
        shutil.copytree(self.data, folder)
        change(folder)
        return folder

    def test_bad_data_are_refused_by_file(self):
        images = "train-images-idx3-ubyte"
        labels = "train-labels-idx1-ubyte"

        def cut(folder):
            os.truncate(f"{folder}/{images}", os.path.getsize(f"{folder}/{images}") - 1)

        def longer(folder):
            with open(f"{folder}/{labels}", "ab") as f:
                f.write(b"\0")

        def swapped(folder):
            os.rename(f"{folder}/{images}", f"{folder}/x")
            os.rename(f"{folder}/{labels}", f"{folder}/{images}")
            os.rename(f"{folder}/x", f"{folder}/{labels}")

        def fewer_labels(folder):
            ps_test.write_labels(f"{folder}/{labels}", [0] * 7)

        def no_labels(folder):
            os.remove(f"{folder}/{labels}")

        def cut_gzip(folder):
            with open(f"{folder}/{images}", "rb") as f:
                packed = gzip.compress(f.read())
            with open(f"{folder}/{images}", "wb") as f:
                f.write(packed[: len(packed) // 2])

        for name, change, says in [
            ("cut", cut, images),
            ("longer", longer, labels),
            ("swapped", swapped, images),
            ("fewer", fewer_labels, labels),
            ("none", no_labels, labels),
            ("cut-gzip", cut_gzip, images),
        ]:
            with self.subTest(name):
                self.refuse("--data", self.broken(name, change), says=[says])
        self.refuse("--data", f"{self.folder}/nowhere", says=["nowhere"])
        self.refuse("--data", self.data, "--test", f"{self.folder}/nowhere", says=["nowhere"])
        os.mkdir(f"{self.folder}/empty")
        self.refuse("--data", f"{self.folder}/empty", says=["empty"])

    def test_a_worker_refuses_bad_data_before_it_looks_for_a_cluster(self):
        self.refuse("--data", f"{self.folder}/nowhere", program=ps_test.WORKER, says=["nowhere"])
        self.refuse(
            "--data", self.data, "--model", "x", program=ps_test.WORKER, says=["--model"]
        )

    def test_a_port_in_use_is_named(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            if port > 65535 - 64:
                self.skipTest("the kernel gave a port at the very end")
            self.refuse(
                "--data", self.data, "--servers", 1, "--port-base", port, says=[str(port)]
            )
            listen = ("--listen", f"127.0.0.1:{port}", "--log-level", "warn")
            self.refuse(*listen, program=ps_test.SERVER, says=[str(port)])

    def test_gzip_is_known_by_content_whatever_the_name(self):
        def pack(folder):
            for name in os.listdir(folder):
                with open(f"{folder}/{name}", "rb") as f:
                    data = f.read()
                with open(f"{folder}/{name}", "wb") as f:
                    f.write(gzip.compress(data))

        packed = self.broken("packed", pack)
        args = ("--in-process", "--epochs", "1", "--seed", "1", "--batch", "10")
        plain_report, plain = self.model(*args, name="plain")
        packed_report, unpacked = self.model(*args, data=packed, name="unpacked")
        self.assertEqual(plain, unpacked)
        self.assertEqual(plain_report["test_loss"], packed_report["test_loss"])

    def test_a_table_defined_twice_with_different_shapes_is_refused(self):
        server = self.start("--listen", "127.0.0.1:0", program=ps_test.SERVER)
        address = server.wait_line(r"ready address=(\S+)", stdout=True).group(1)
        args = ["--coordinator", address, "--data", self.data, "--model", "mlp", "--seed", "1"]
        # It waits for a third worker that never comes (the one refused has joined for a moment), so
        # the job stays defined.
        first = self.start(
            *args, "--hidden", "8", "--workers", "3", "--start-timeout", "0",
            program=ps_test.WORKER,
        )
        ps_test.wait_until(
            "the first worker has defined its tables",
            lambda: "mlp.1.bias" in ps_test.run(
                "tables", "--coordinator", address, program=ps_test.CTL
            )[1],
        )
        self.refuse(*args, "--hidden", "9", program=ps_test.WORKER, says=["mlp.0.weight"])
        # Another rate, or features that are not centred, would spoil the model without a word.
        for other in (("--lr", "0.7"), ("--no-center",)):
            self.refuse(
                *args, *other, "--hidden", "8", "--workers", "3", "--start-timeout", "0",
                program=ps_test.WORKER, says=["defining the job", "model"],
            )
        self.assertIsNone(first.process.poll())

    @unittest.skipIf(os.environ.get("PS_TEST_PLANT") == "1", "bugs can be planted in this build")
    def test_bugs_can_be_planted_in_test_builds_only(self):
        for bug in ("gate-off-by-one", "dedupe-off", "dead-in-minimum"):
            self.refuse("--plant", bug, program=ps_test.SERVER, says=["--plant"])
        self.refuse("--failpoint", "kill-acked", "--data", self.data, program=ps_test.WORKER,
                    says=["--failpoint"])

    def test_addresses_and_names_have_bounds(self):
        for args, says in (
            (("--coordinator", "a" * 300), "1 to 255 bytes, got 300"),
            (("--advertise", ""), "1 to 255 bytes, got 0"),
            (("--name", "b" * 64), "bytes, got 64"),
        ):
            self.refuse("--listen", "127.0.0.1:0", *args, program=ps_test.SERVER, says=[says])

    def test_closed_standard_files_are_no_trap(self):
        for closed in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
            done = subprocess.run(
                ["sh", "-c", f'exec "$@" {closed}', "sh", ps_test.RUN, "--in-process", "--epochs",
                 "1", "--model", "softmax", "--data", self.data],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60 * ps_test.SLOW,
            )
            self.assertEqual(done.returncode, 0, (closed, done.stderr))

    def test_help_and_version(self):
        for program in (ps_test.RUN, ps_test.SERVER, ps_test.WORKER, ps_test.CTL):
            status, stdout, stderr = ps_test.run("--help", program=program)
            self.assertEqual((status, stderr), (0, ""))
            self.assertIn(os.path.basename(program), stdout)
            status, stdout, stderr = ps_test.run("--version", program=program)
            self.assertEqual((status, stderr), (0, ""))
            self.assertRegex(stdout, r"\d+\.\d+\.\d+")


if __name__ == "__main__":
    ps_test.main()
