"""Training on rows of lines by real processes: every row once an epoch whatever the files, workers
and consistency; what flags and lines are refused, by name; what the report says.

The probe: row i has feature i alone and the label 1. A linear model without bias, by sgd with
batches of one row and rate 1/2, has the weight 1 - 1/2^n for a row that was trained n times, in
whatever order and by whomever: 0 shows a lost row, 3/4 after one epoch one that was trained twice.
"""

import gzip
import math
import os
import random
import signal
import unittest

import ps_test

PROBE = ("--model", "linear", "--no-bias", "--optimizer", "sgd", "--lr", "0.5", "--batch", "1")


def clicks(n, seed, features=40):
    """Lines of two classes that a logistic model of a few features explains."""
    rng = random.Random(seed)
    weights = [random.Random(i).gauss(0, 1.5) for i in range(features)]
    lines = []
    for _ in range(n):
        chosen = sorted(rng.sample(range(features), 5))
        z = sum(weights[i] for i in chosen)
        label = 1 if rng.random() < 1 / (1 + math.exp(-z)) else -1
        lines.append(f"{label:+d} " + " ".join(f"{i + 1}:1" for i in chosen) + "\n")
    return lines


class SparseTrain(ps_test.Case):
    N = ps_test.either(300, 100)

    def put(self, name, text):
        path = f"{self.folder}/{name}"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        data = text.encode() if isinstance(text, str) else text
        with open(path, "wb") as f:
            f.write(data)
        return path

    def probe(self, first=0, n=None):
        n = n or self.N
        return "".join(f"1 {i + 1}:1\n" for i in range(first, first + n))

    def fit(self, *args, data, name="sparse", **kwargs):
        """Train and read the model: (report, sparse tables, dense tables)."""
        out = f"{self.folder}/{name}"
        report = self.train("--out", out, *args, data=data, **kwargs)
        sparse, dense, _ = ps_test.read_model(report["model_path"])
        return report, sparse, dense

    def assert_probe(self, rows, times, n=None):
        n = n or self.N
        self.assertEqual(sorted(rows), list(range(n)))
        wrong = {k: v for k, v in rows.items() if v != [1 - 0.5**times]}
        self.assertEqual(wrong, {})

    def test_every_row_is_trained_once_an_epoch_by_any_number_of_workers(self):
        data = self.put("probe.libsvm", self.probe())
        for workers in ps_test.either((1, 2, 3, 4, 8), (1, 4)):
            for consistency in ("bsp", "ssp:4", "asp"):
                with self.subTest(workers=workers, consistency=consistency):
                    report, sparse, dense = self.fit(
                        "--servers", 2, "--workers", workers, "--consistency", consistency,
                        "--epochs", 1, *PROBE, data=data,
                    )
                    self.assert_exact(report, 1)
                    self.assert_probe(sparse["linear.weight"], 1)
                    self.assertEqual(dense["linear.bias"], [0])
                    self.assertEqual(report["rows_train"], self.N)
                    self.assertEqual(report["steps"], self.N)
                    self.assertEqual(report["epochs"], 1)
        for workers in (1, 4):
            report, sparse, _ = self.fit("--workers", workers, "--epochs", 3, *PROBE, data=data)
            self.assert_exact(report, 3)
            self.assert_probe(sparse["linear.weight"], 3)

    def test_more_workers_than_rows(self):
        data = self.put("three.libsvm", self.probe(n=3))
        for consistency in ("bsp", "ssp:2"):
            report, sparse, _ = self.fit(
                "--servers", 1, "--workers", 6, "--consistency", consistency, "--epochs", 1,
                *PROBE, data=data,
            )
            self.assert_exact(report, 1)
            self.assert_probe(sparse["linear.weight"], 1, n=3)

    def test_files_of_a_folder_a_pattern_or_a_list_are_one_set_packed_or_not(self):
        third = self.N // 3
        texts = [self.probe(i * third, third) for i in range(3)]
        self.put("set/part-0.txt", texts[0])
        self.put("set/part-1.gz", gzip.compress(texts[1].encode()))
        self.put("set/part-2.txt", texts[2] + "\n# the end\n")
        self.put("set/part-3.txt", "")  # Without a row.
        self.put("set/_done", "not a row")
        folder = f"{self.folder}/set"
        for data in (
            folder,
            f"{folder}/part-*",
            ",".join(f"{folder}/{name}" for name in ("part-2.txt", "part-0.txt", "part-1.gz")),
        ):
            with self.subTest(data=data):
                report, sparse, _ = self.fit(
                    "--servers", 2, "--workers", 3, "--epochs", 1, *PROBE, data=data
                )
                self.assert_exact(report, 1)
                self.assert_probe(sparse["linear.weight"], 1, n=3 * third)

    @unittest.skipIf(ps_test.SMALL, "270 MB are unpacked in each process")
    def test_packed_files_that_leave_workers_without_rows_are_warned_of_once(self):
        path = f"{self.folder}/large.gz"
        with gzip.open(path, "wb", 1) as f:
            f.write(self.probe(n=20).encode())
            for _ in range(4200):  # Together more than is unpacked into memory.
                f.write(b"#" + b"x" * 65534 + b"\n")
        train = ("--data", path, *PROBE, "--epochs", 1)
        says = r"1 part of the data for 2 workers: 1 of 1 file .*'large.gz' on: .*unpack them"
        running = self.start(*train, "--servers", 1, "--workers", 2)
        self.assertEqual(running.wait(), 0, running.text())
        self.assertRegex(running.text(), f"(?m)^ps-run: warning: {says}")
        self.assertEqual(running.text().count("large.gz' on"), 1, running.text())
        server = self.start("--listen", "127.0.0.1:0", program=ps_test.SERVER)
        address = server.wait_line(r"ready address=(\S+)", stdout=True).group(1)
        worker = self.start("--coordinator", address, *train, "--workers", 2, "--start-timeout",
                            "100ms", program=ps_test.WORKER)
        worker.wait_line(f'event=worker.parts why="{says}')
        self.assertEqual(worker.wait(), 0, worker.text())
        # A worker alone has all the parts there are.
        running = self.start(*train, "--in-process")
        self.assertEqual(running.wait(), 0, running.text())
        self.assertNotIn("warning", running.text())

    def test_one_worker_has_the_bits_of_one_process(self):
        data = self.put("bits.libsvm", "".join(clicks(500, 1)))
        for model in (("logreg",), ("fm", "--rank", 4), ("wide-deep", "--rank", 2, "--hidden", 5)):
            with self.subTest(model=model):
                args = ("--epochs", 2, "--batch", 20, "--seed", 7, "--model", *model)
                alone = self.fit("--in-process", *args, data=data)[1:]
                for servers, consistency in ((1, "ssp:4"), (2, "bsp"), (3, "asp")):
                    other = self.fit(
                        "--servers", servers, "--workers", 1, "--consistency", consistency, *args,
                        data=data,
                    )[1:]
                    self.assertEqual(alone, other)

    def test_every_model_learns_from_lines(self):
        train = self.put("train.libsvm", "".join(clicks(2000, 1)))
        test = self.put("test.libsvm", "".join(clicks(500, 2)))
        for args in (
            ("--model", "logreg"),
            ("--model", "softmax"),
            ("--model", "fm", "--rank", 4),
            ("--model", "wide-deep", "--rank", 4, "--hidden", "8,4"),
            ("--model", "logreg", "--optimizer", "ftrl", "--l1", "0.5"),
            ("--model", "logreg", "--optimizer", "adam", "--lr", "0.01"),
            ("--model", "logreg", "--local-steps", 4, "--optimizer", "sgd", "--lr", "0.5"),
        ):
            with self.subTest(args=args):
                report = self.train(
                    "--servers", 2, "--workers", 2, "--test", test, "--batch", 20, "--epochs", 4,
                    "--seed", 1, *args, data=train,
                )
                self.assert_exact(report, 4)
                self.assertEqual(report["rows_test"], 500)
                self.assertLess(report["test_loss"], 0.5)
                self.assertGreater(report["test_accuracy"], 0.75)
                self.assertEqual("test_auc" in report, "softmax" not in args)
                self.assertNotIn("test_rmse", report)

    def test_numbers_are_learnt_and_judged_by_their_distance(self):
        rng = random.Random(3)
        users = [rng.gauss(0, 1) for _ in range(30)]
        items = [rng.gauss(0, 1) for _ in range(20)]
        lines = ["user,item,rating"]
        for _ in range(1500):
            u, i = rng.randrange(30), rng.randrange(20)
            lines.append(f"u{u},i{i},{3 + users[u] + items[i] + rng.gauss(0, 0.1):.3f}")
        data = self.put("ratings.csv", "\n".join(lines) + "\n")
        for args in (
            ("mf", "--rank", 2), ("fm", "--regress", "--rank", 2),
            ("linear", "--schedule", "cosine"),  # Its preset is adam at a large rate.
        ):
            with self.subTest(args=args):
                report = self.train(
                    "--workers", 2, "--test", data, "--label", "rating", "--batch", 20, "--epochs",
                    10, "--seed", 1, "--model", *args, data=data,
                )
                self.assertLess(report["test_rmse"], 0.5)
                self.assertNotIn("test_accuracy", report)
                self.assertNotIn("test_auc", report)

    def test_numbers_of_users_and_items_are_ids_to_a_factorisation(self):
        rng = random.Random(3)
        traits = [rng.gauss(0, 1) for _ in range(30)]
        lines = ["user,item,rating"]
        for _ in range(1500):
            u, i = rng.randrange(30), rng.randrange(30)
            lines.append(f"{u},{i},{3 + traits[u] - traits[i] + rng.gauss(0, 0.1):.3f}")
        data = self.put("numbers.csv", "\n".join(lines) + "\n")
        report, sparse, _ = self.fit(
            "--in-process", "--test", data, "--label", "rating", "--batch", 20, "--epochs", 10,
            "--model", "mf", "--rank", 2, data=data,
        )
        self.assertLess(report["test_rmse"], 0.5)
        self.assertEqual({name: len(rows) for name, rows in sparse.items()},
                         {"mf.user": 30, "mf.item": 30})

    def test_a_table_with_a_header_text_and_holes_is_read_as_it_is(self):
        rng = random.Random(4)
        lines = ["age,city,weight,bought"]
        for _ in range(800):
            age = rng.randrange(20, 80)
            city = rng.choice(["Rome", "Oslo", '"St. Ives, UK"'])
            bought = "yes" if (age > 50) == (city != "Oslo") else "no"
            lines.append(f"{rng.choice([age, age, age, '?', ''])},{city},{rng.gauss(70, 9):.1f},"
                         f"{bought}")
        data = self.put("shop.csv", "\n".join(lines) + "\n")
        status, stdout, stderr = ps_test.run(
            "--in-process", "--data", data, "--test", data, "--label", "bought", "--model", "fm",
            "--epochs", 10, "--batch", 20, "--seed", 1, "--json",
        )
        self.assertEqual(status, 0, stderr)
        report = ps_test.report_of(stdout)
        self.assertEqual(report["rows_train"], 800)
        self.assertGreater(report["test_accuracy"], 0.75)
        # What was decided is said once, in one line.
        said = [line for line in stderr.splitlines() if "csv (" in line]
        self.assertEqual(len(said), 1, stderr)
        for word in ("header", "label in column 4", "label no is 0, yes is 1", "1 categorical"):
            self.assertIn(word, said[0])

    def test_workers_that_are_killed_lose_no_row_and_train_none_twice(self):
        n = ps_test.either(6000, 3000)
        data = self.put("long.libsvm", self.probe(n=n))
        running = self.start(
            "--servers", 2, "--workers", 3, "--data", data, "--epochs", 1, "--json",
            "--out", f"{self.folder}/killed", *PROBE,
        )
        for worker in (1, 0):
            running.wait_line(f"worker {worker} is process")
            running.wait_line("epoch 1/1 ")
            os.kill(running.pid_of(f"worker {worker}"), signal.SIGKILL)
        self.assertEqual(running.wait(120), 0, running.text())
        report = running.report()
        self.assertEqual(report["sessions_lost"], 2)
        self.assert_exact(report, 1)
        self.assert_probe(ps_test.read_model(report["model_path"])[0]["linear.weight"], 1, n=n)

    def refuse(self, *args, says, status=2, program=ps_test.RUN):
        found, stdout, stderr = ps_test.run(*args, program=program)
        self.assertEqual(found, status, f"{args}: {stderr}")
        self.assertEqual(stdout, "")
        lines = stderr.strip().splitlines()
        for word in says:
            self.assertIn(word, lines[-1], args)
        return lines

    def test_flags_that_say_nothing_are_refused_by_name(self):
        lines = ("--data", self.put("few.libsvm", "".join(clicks(20, 1))))
        table = ("--data", self.put("few.csv", "a,b,y\n1,2,0\n3,4,1\n"))
        images = ("--data", self.data)
        for args, says in (
            ((*lines, "--model", "mlp"), ["--model mlp", "logreg", "wide-deep"]),
            ((*lines, "--model", "resnet"), ["--model resnet", "logreg", "mlp"]),
            ((*lines, "--model", "logreg", "--hidden", "8"), ["--hidden 8", "logreg"]),
            ((*lines, "--model", "logreg", "--rank", "8"), ["--rank 8", "logreg"]),
            ((*lines, "--model", "logreg", "--regress"), ["--regress", "logreg"]),
            ((*lines, "--model", "fm", "--pool"), ["--pool", "fm"]),
            ((*lines, "--model", "wide-deep", "--no-bias"), ["--bias false", "layers"]),
            ((*lines, "--model", "fm", "--rank", "9999"), ["--rank", "1024"]),
            ((*lines, "--model", "logreg", "--l1", "1"), ["--l1 1", "ftrl"]),
            ((*lines, "--model", "logreg", "--optimizer", "adam", "--beta", "1"),
             ["--beta 1", "ftrl"]),
            ((*lines, "--model", "logreg", "--optimizer", "ftrl", "--local-steps", "2"),
             ["--local-steps 2", "ftrl"]),
            ((*lines, "--model", "logreg", "--optimizer", "adamw", "--local-steps", "2"),
             ["--local-steps 2", "adamw", "adagrad"]),
            ((*lines, "--model", "linear", "--local-steps", "2"),
             ["--local-steps 2", "adam, the rule of this model", "sgd"]),
            ((*lines, "--model", "logreg", "--local-steps", "4096", "--batch", "1000"),
             ["--local-steps 4096", "--batch 1000", "1048576"]),
            ((*lines, "--model", "logreg", "--weight-decay", "0.1"), ["--weight-decay", "adamw"]),
            ((*lines, "--model", "logreg", "--weight-decay", "0.1"), ["--optimizer adagrad"]),
            ((*lines, "--model", "logreg", "--momentum", "0.5"),
             ["--momentum 0.5 (flag) belongs to --optimizer momentum, not to", "adagrad"]),
            ((*lines, "--model", "logreg", "--optimizer", "sgd", "--epsilon", "1"),
             ["--epsilon 1 (flag)", "adagrad, adam and adamw", "--optimizer sgd (flag)"]),
            ((*images, "--beta1", "0.5"), ["--beta1 0.5", "adam", "--optimizer sgd (preset)"]),
            ((*lines, "--model", "fm", "--regress", "--labels", "1,2"),
             ["--labels 1,2", "numbers"]),
            ((*lines, "--model", "logreg", "--aggregate"), ["--aggregate", "images"]),
            ((*lines, "--model", "logreg", "--prefetch", "1"), ["--prefetch 1", "images"]),
            ((*lines, "--model", "logreg", "--units-per-lease", "3"), ["--units-per-lease 3"]),
            ((*lines, "--model", "logreg", "--no-center"), ["center", "--standardize"]),
            ((*lines, "--model", "logreg", "--schedule", "linear"), ["linear"]),
            ((*lines, "--model", "logreg", "--header", "yes"), ["--header", "libsvm"]),
            ((*lines, "--model", "logreg", "--label", "y"), ["--label", "libsvm"]),
            ((*lines, "--model", "mf"), ["few.libsvm:", "mf needs a user and an item"]),
            ((*table, "--model", "logreg", "--index-base", "0"), ["--index-base", "csv"]),
            ((*table, "--model", "logreg", "--label", "z"), ["z"]),
            ((*table, "--model", "mf", "--numeric", "a"), ["--numeric a", "mf"]),
            ((*table, "--model", "mf", "--standardize", "yes"), ["--standardize yes", "mf"]),
            ((*lines, "--format", "parquet"), ["--format parquet", "libsvm", "idx"]),
            ((*lines, "--format", "idx"), ["few.libsvm"]),
            ((*lines, "--model", "logreg", "--test", f"{self.folder}/nowhere"),
             ["--test", "nowhere"]),
            ((*lines, "--model", "logreg", "--test", self.put("rowless", "# no\n\n")),
             ["--test", "rowless", "holds no rows"]),
            ((*images, "--rank", "8"), ["--rank 8", "images"]),
            ((*images, "--optimizer", "ftrl"), ["--optimizer ftrl", "images"]),
            ((*images, "--model", "logreg"), ["--model logreg", "images"]),
            ((*images, "--standardize", "yes"), ["--standardize yes", "images"]),
            ((*images, "--max-bad-rows", "1"), ["--max-bad-rows 1", "images"]),
        ):
            with self.subTest(args=args[2:]):
                self.refuse(*args, says=says)
        self.refuse(*lines, "--model", "mlp", program=ps_test.WORKER, says=["--model mlp"])

    def test_lines_that_cannot_be_read_are_named_or_skipped_and_counted(self):
        good = clicks(150, 1)
        bad = [*good[:79], "+1 3:abc\n", *good[79:119], "+1 7\n", *good[119:]]
        data = self.put("bad.libsvm", "".join(bad))
        args = ("--data", data, "--model", "logreg", "--epochs", 2, "--json")
        self.refuse("--in-process", *args, says=["bad.libsvm:80", "abc"])
        self.refuse("--in-process", *args, "--max-bad-rows", 1, says=["bad.libsvm:121"])
        self.refuse(*args, "--workers", 2, says=["bad.libsvm:80"])  # Before anything is started.
        for how in (("--in-process",), ("--servers", 1, "--workers", 2)):
            status, stdout, stderr = ps_test.run(*args, "--max-bad-rows", 2, *how)
            self.assertEqual(status, 0, stderr)
            report = ps_test.report_of(stdout)
            self.assertEqual((report["rows_train"], report["rows_bad"]), (150, 2))
            self.assert_exact(report, 2)
        # Tables alike: what has another number of cells is found before training, and counted.
        rows = [f"{i % 2},{i},t{i % 3}\n" for i in range(150)]
        data = self.put("bad.csv", "".join([*rows[:79], "1,2\n", *rows[79:], "1,2,3,4\n"]))
        args = ("--data", data, "--model", "logreg", "--epochs", 2, "--json", "--header", "no")
        self.refuse(*args, "--workers", 2, "--max-bad-rows", 1, says=["bad.csv:152: expected 3"])
        for how in (("--in-process",), ("--servers", 1, "--workers", 2)):
            status, stdout, stderr = ps_test.run(*args, "--max-bad-rows", 2, *how)
            self.assertEqual(status, 0, stderr)
            report = ps_test.report_of(stdout)
            self.assertEqual((report["rows_train"], report["rows_bad"]), (150, 2))
            for place in "bad.csv:80: ", "bad.csv:152: ":  # By whoever has skipped them.
                self.assertRegex(stderr, f"rows.skipped .*{place}expected 3 columns")
        third = self.put("third.libsvm", "".join([*good, "3 1:1\n"]))
        self.refuse("--data", third, "--model", "logreg", says=["third.libsvm:151", "third label"])

    def test_a_bad_line_far_down_the_test_set_does_not_cost_the_model(self):
        data = self.put("train.libsvm", "".join(clicks(40, 1)))
        test = self.put("test.libsvm", "+1 1:1\n" * 5000 + "+3 1:1\n")
        for i, how in enumerate((("--in-process",), ("--servers", 1, "--workers", 2))):
            out = f"{self.folder}/out{i}"
            status, _, stderr = ps_test.run(
                "--data", data, "--test", test, "--model", "logreg", "--epochs", 1, "--out", out,
                *how,
            )
            self.assertEqual(status, 2, stderr)
            self.assertIn("test.libsvm:5001: label '3' is unknown", stderr)
            self.assertIn(f"the model is in '{out}/model.safetensors'", stderr)
            sparse, _, _ = ps_test.read_model(f"{out}/model.safetensors")
            self.assertGreater(len(sparse["logreg.weight"]), 20)

    def test_training_that_diverges_ends_with_a_hint_and_spoils_no_model(self):
        lines = ["y,a,b"]
        rng = random.Random(5)
        lines += [f"{rng.uniform(1e5, 2e5):.0f},{rng.uniform(1, 5):.2f},{rng.uniform(1, 9000):.0f}"
                  for _ in range(300)]
        data = self.put("houses.csv", "\n".join(lines) + "\n")
        kept = self.put("kept/model.safetensors", b"a model of yesterday")
        args = ("--data", data, "--model", "linear", "--label", "y", "--batch", 10, "--out",
                os.path.dirname(kept))
        wild = ("--optimizer", "sgd", "--lr", "0.1", "--standardize", "no", "--epochs", 50)
        for how in (("--in-process",), ("--servers", 1, "--workers", 2)):
            status, stdout, stderr = ps_test.run(*args, *wild, *how)
            self.assertEqual(status, 3, stderr)
            self.assertEqual(stdout, "")
            for word in ("diverged at step", "--lr", "0.1", "--standardize"):
                self.assertIn(word, stderr)
            with open(kept, "rb") as f:
                self.assertEqual(f.read(), b"a model of yesterday")
        status, _, stderr = ps_test.run(*args, "--in-process", "--epochs", 5)  # As it is preset.
        self.assertEqual(status, 0, stderr)

    def test_rows_that_are_rare_or_forgotten_are_kept_out(self):
        # Feature 1 comes in every row, the others in one row each.
        data = self.put("rare.libsvm", "".join(f"1 1:1 {i + 2}:1\n" for i in range(100)))
        args = ("--in-process", "--model", "linear", "--no-bias", "--optimizer", "sgd", "--lr",
                "0.01", "--batch", "1", "--epochs", "1")
        _, sparse, _ = self.fit(*args, data=data)
        self.assertEqual(len(sparse["linear.weight"]), 101)
        _, sparse, _ = self.fit(*args, "--admit-after", 2, data=data)
        self.assertEqual(list(sparse["linear.weight"]), [0])

    def test_l1_leaves_out_what_it_makes_zero(self):
        rng = random.Random(6)
        lines = [f"{'+1' if (s := rng.random() < 0.5) else '-1'} {1 + s}:1 {rng.randrange(3, 200)}"
                 ":1\n" for _ in range(1000)]
        data = self.put("noise.libsvm", "".join(lines))
        args = ("--in-process", "--model", "logreg", "--optimizer", "ftrl", "--epochs", 2)
        many = self.fit(*args, data=data)[1]["logreg.weight"]
        few = self.fit(*args, "--l1", 10, data=data)[1]["logreg.weight"]
        self.assertGreater(len(many), 190)
        self.assertEqual(sorted(few), [0, 1])

    def test_workers_of_different_flags_or_files_are_refused(self):
        data = self.put("mine.libsvm", "".join(clicks(200, 1)))
        other = self.put("other.libsvm", "".join(clicks(201, 1)))
        server = self.start("--listen", "127.0.0.1:0", program=ps_test.SERVER)
        address = server.wait_line(r"ready address=(\S+)", stdout=True).group(1)
        common = ("--coordinator", address, "--workers", 3, "--start-timeout", "0", "--seed", 1)
        first = self.start(*common, "--data", data, "--model", "fm", program=ps_test.WORKER)
        first.wait_line("libsvm \\(lines are a label")
        ps_test.wait_until(
            "the job is defined",
            lambda: "fm" in ps_test.run("status", "--coordinator", address,
                                        program=ps_test.CTL)[1])
        for args in (
            ("--data", other, "--model", "fm"),
            ("--data", data, "--model", "fm", "--rank", 5),
            ("--data", data, "--model", "fm", "--lr", "0.7"),
            ("--data", data, "--model", "fm", "--local-steps", 2),
            ("--data", data, "--model", "fm", "--window-rows", 10),
        ):
            with self.subTest(args=args):
                self.refuse(*common, *args, program=ps_test.WORKER, says=["defin"])
        self.assertIsNone(first.process.poll())


if __name__ == "__main__":
    ps_test.main()
