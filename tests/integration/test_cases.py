"""Faults that users of comparable systems met, each tried as a user would: the programs, files made
here, and the same files of the case bank where that is found (PS_TEST_CASES, or shared/ beside the
project). Real sets (PS_TEST_DATA) are used likewise. The numbers are those of the bank's cases.

More of them: 15 (divergence), 23 (killed workers) in test_sparse_train.py; 25 (bad lines), 29, 30
in test_predict.py; 21 and how every file of the bank is read in tests/unit/data.
"""

import array
import gzip
import json
import math
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import unittest

import ps_test

BESIDE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../shared")
BANK = os.environ.get("PS_TEST_CASES", f"{BESIDE}/cases/inputs")
SETS = os.environ.get("PS_TEST_DATA", f"{BESIDE}/data")

# One worker and no slack: the same bits every time, for any number of servers.
EXACT = ("--workers", 1, "--consistency", "bsp", "--seed", 1)
# The weight of a row that was trained n times is 1 - 1/2^n; see test_sparse_train.py.
PROBE = ("--model", "linear", "--no-bias", "--optimizer", "sgd", "--lr", "0.5", "--batch", 1)
# What differs from run to run. A page is copied when a push meets an answer that still reads it;
# which keys share a slot, and so a delta of one byte, is drawn anew for each cluster.
TIMES = ("examples_per_s", "wall_s", "blocked_fraction", "bytes_served_per_server",
         "memory_bytes_per_server", "bytes_copied", "bytes_pushed", "bytes_pulled", "retries",
         "model_path", "data")


def features(n, seed, base=1, of=10, labels=("-1", "1")):
    """Lines that a logistic model explains: few features, the first and the last occur."""
    rng = random.Random(seed)
    weights = [random.Random(i).gauss(0, 2) for i in range(of)]
    lines = []
    for row in range(n):
        chosen = {0, of - 1} if row == 0 else set(rng.sample(range(of), min(of, 4)))
        values = {i: rng.choice(["1", f"{rng.uniform(0.1, 2):.3f}"]) for i in sorted(chosen)}
        z = sum(weights[i] * float(v) for i, v in values.items())
        words = " ".join(f"{i + base}:{v}" for i, v in values.items())
        lines.append(f"{labels[z > 0]} {words}\n")
    return "".join(lines)


def sigmoid(z):
    return 1 / (1 + math.exp(-z))


class Cases(ps_test.Case):
    ROWS = 10

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for what, folder in (("the case bank", BANK), ("the real sets", SETS)):
            if not os.path.isdir(folder):
                print(f"skipped: {what} (no folder {folder}); the files made here are used")

    def put(self, name, text):
        path = f"{self.folder}/{name}"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as f:
            f.write(text.encode() if isinstance(text, str) else text)
        return path

    def own_and_given(self, *files):
        """For each (name, text): the file made here. Then the same names in the bank, if there."""
        yield [self.put(name, text) for name, text in files]
        if os.path.isdir(BANK):
            yield [f"{BANK}/{name}" for name, _ in files]

    def go(self, *args, program=ps_test.RUN, env=None):
        status, stdout, stderr = ps_test.run(*args, program=program, env=env, timeout=120)
        self.assertEqual(status, 0, f"{args}: {stderr}")
        self.assertNotIn("Sanitizer", stderr)
        return stdout, stderr

    def fit(self, data, *args, name="model", env=None):
        """Train with ps-run: (report, what it said, folder of the model)."""
        out = f"{self.folder}/{name}"
        stdout, stderr = self.go("--data", data, "--json", "--out", out, *args, env=env)
        return ps_test.report_of(stdout), stderr, out

    def psctl(self, *args, env=None):
        return self.go(*args, program=ps_test.CTL, env=env)

    def predict(self, model, data, *args, env=None):
        """(lines of cells, what was said)"""
        stdout, stderr = self.psctl("predict", "--model", model, "--data", data, *args, env=env)
        return [line.split("\t") for line in stdout.splitlines()], stderr

    def refuse(self, *args, says, program=ps_test.RUN, status=2, env=None):
        found, stdout, stderr = ps_test.run(*args, program=program, env=env)
        self.assertEqual((found, stdout), (status, ""), f"{args}: {stderr}")
        for word in says:
            self.assertIn(word, stderr.strip().splitlines()[-1])

    def tables(self, model):
        """Tables of sparse rows and dense tables, all numbers finite."""
        sparse, dense, _ = ps_test.read_model(f"{model}/model.safetensors")
        for rows in (*(r for table in sparse.values() for r in table.values()), *dense.values()):
            self.assertTrue(all(map(math.isfinite, rows)), rows)
        return sparse, dense

    def bytes_of(self, model):
        with open(f"{model}/model.safetensors", "rb") as f:
            return f.read()

    def same_figures(self, a, b):
        for report in (a, b):
            for key in TIMES:
                report.pop(key, None)
        self.assertEqual(a, b)

    # ---- 05, 06, 13: libsvm ----

    def test_05_features_may_be_counted_from_0_and_a_model_knows_from_where(self):
        for zero, one in self.own_and_given(
            ("zero-based.libsvm", features(40, 5, base=0)),
            ("one-based-same-data.libsvm", features(40, 5)),
        ):
            reports, models = [], []
            for i, (data, said) in enumerate(
                ((zero, "counted from 0 (0 occurs)"), (one, "counted from 1 (0 does not occur)"))
            ):
                report, stderr, model = self.fit(
                    data, "--servers", 2, *EXACT, "--model", "logreg", "--epochs", 10, "--batch", 5,
                    "--test", data, name=f"base{i}",
                )
                self.assertIn(said, stderr)
                reports.append(report)
                models.append(model)
            self.same_figures(*reports)
            # Index 0 has a row like any other, and is not the bias.
            sparse, dense = self.tables(models[0])
            self.assertEqual((sparse, dense), self.tables(models[1]))
            self.assertEqual(sorted(sparse["logreg.weight"]), list(range(10)))
            self.assertNotEqual(sparse["logreg.weight"][0], dense["logreg.bias"])
            for base, model in enumerate(models):
                self.psctl("export", "--model", model, "--as", "text", "--output", model)
                with open(f"{model}/logreg.weight.txt", encoding="utf-8") as f:
                    names = [line.split("\t")[0] for line in f.read().splitlines()]
                self.assertEqual(names[1:], ["bias", *map(str, range(base, base + 10))])
            # Several workers: the same quality.
            report = self.fit(zero, "--servers", 3, "--workers", 3, "--model", "logreg", "--epochs",
                              10, "--batch", 5, "--test", zero)[0]
            self.assertLess(abs(report["test_loss"] - reports[0]["test_loss"]), 0.1)
            # The file of the other base is refused, and the flag is named that reads it.
            for model, data, base in ((models[0], one, 1), (models[1], zero, 0)):
                self.refuse("predict", "--model", model, "--data", data, program=ps_test.CTL,
                            says=[os.path.basename(data), f"--index-base {base}"])
                own = self.predict(model, (zero, one)[1 - base])[0]
                self.assertEqual(self.predict(model, data, "--index-base", base)[0], own)

    def test_06_two_labels_are_two_classes_whatever_they_are_called(self):
        pairs = [("-1", "1"), ("0", "1"), ("1", "2"), ("2.000000", "4.000000")]
        for model in ("logreg", "softmax"):
            figures = None
            for i, labels in enumerate(pairs):
                with self.subTest(model=model, labels=labels):
                    data = self.put(f"labels{i}", features(60, 6, labels=labels))
                    report, stderr, out = self.fit(
                        data, "--servers", 2, *EXACT, "--model", model, "--epochs", 3, "--batch", 7,
                        "--test", data,
                    )
                    low, high = (f"{float(label):g}" for label in labels)
                    self.assertIn(f"label {low} is 0, {high} is 1", stderr)
                    lines, _ = self.predict(out, data)
                    self.assertEqual({line[0] for line in lines}, {low, high})
                    self.same_figures(figures or report, report)
                    figures = report

    def test_06_given_labels_are_told_learnt_and_written_again(self):
        given = {
            "labels-1-2.libsvm": ("1", "2"),
            "labels-2-4-float.libsvm": ("2", "4"),
        }
        if not os.path.isdir(BANK):
            self.skipTest("the case bank is not there")
        for name, (low, high) in given.items():
            for model in ("logreg", "softmax"):
                with self.subTest(name=name, model=model):
                    report, stderr, out = self.fit(
                        f"{BANK}/{name}", "--servers", 2, "--workers", 3, "--model", model,
                        "--epochs", 20, "--batch", 5, "--test", f"{BANK}/{name}",
                    )
                    self.assertIn(f"label {low} is 0, {high} is 1", stderr)
                    self.assertGreater(report["test_accuracy"], 0.7)
                    lines, _ = self.predict(out, f"{BANK}/{name}")
                    self.assertEqual({line[0] for line in lines}, {low, high})

    def test_06_a_real_set_and_its_other_labels_have_the_same_figures(self):
        folder = f"{SETS}/a9a"
        if not os.path.isdir(folder):
            self.skipTest("a9a is not there")
        texts = []
        for name, n in (("a9a.gz", ps_test.either(10000, 1000)), ("a9a.t.gz", 1000)):
            with gzip.open(f"{folder}/{name}", "rt") as f:
                texts.append("".join(line for line, _ in zip(f, range(n))))
        reports = []
        for i, (low, high) in enumerate((("-1", "+1"), (" 0", " 1"), ("0", "1"))):
            paths = [
                self.put(f"a9a{i}.{j}", text.replace("-1 ", f"{low} ").replace("+1 ", f"{high} "))
                for j, text in enumerate(texts)
            ]
            reports.append(self.fit(paths[0], "--servers", 2, *EXACT, "--model", "logreg",
                                    "--epochs", 1, "--test", paths[1])[0])
        self.assertGreater(reports[0]["test_auc"], 0.8)
        self.same_figures(*reports[:2])
        # Files are cut by bytes: where lines are shorter, batches and their order are others.
        self.assertLess(abs(reports[2]["test_loss"] - reports[0]["test_loss"]), 0.005)

    def test_13_comments_qid_blanks_and_tabs_are_read_and_told(self):
        text = (
            "# ranking export, 6 examples\n\n2 qid:1 1:0.5 3:1.25  # doc 17\n1 qid:1 2:1   4:0.75\n"
            "\n  0 qid:1 1:0.1\t3:0.2 \n# second query\n1 qid:2\t1:1 2:1\n0 qid:2 4:2.5   \n\n"
            "0 qid:2 # no features at all\n"
        )
        for (data,) in self.own_and_given(("comments-qid-blanks.libsvm", text)):
            for args in (
                ("--servers", 1, "--workers", 1, "--batch", 100),
                ("--servers", 2, "--workers", 4, "--batch", 1),
            ):
                report, stderr, model = self.fit(data, "--model", "softmax", "--epochs", 2, *args)
                self.assertEqual((report["rows_train"], report["rows_bad"]), (6, 0))
                self.assert_exact(report, 2)
                self.assertEqual(stderr.count("qid"), 1, stderr)
                self.assertIn("6 qid words passed over", stderr)
                sparse, dense = self.tables(model)
                self.assertEqual(sorted(sparse["softmax.weight"]), [0, 1, 2, 3])
                lines, stderr = self.predict(model, data)
                self.assertIn("6 rows predicted, 5 lines between them are no rows", stderr)
                self.assertIn("qid words passed over: 6", stderr)
                # The row without features is the bias alone.
                self.assertEqual(len(lines), 6)
                powers = [math.exp(b) for b in dense["softmax.bias"]]
                for p, power in zip(lines[5][1:], powers):
                    self.assertAlmostEqual(float(p), power / sum(powers), 5)

    # ---- 14, 21, 28: other files ----

    def test_14_headers_texts_and_missing_cells_mean_the_same_in_training_and_prediction(self):
        text = (
            "age,height,city,owns_car,label\n31,1.74,Ulm,1,1\n,1.81,Gent,0,0\n45,NA,Ulm,,1\n"
            "28,nan,,1,0\n52,1.69,Turku,0,1\n33,?,Gent,1,0\n\n61,1.77,Turku,NULL,1\n"
        )
        for (data,) in self.own_and_given(("header-and-missing.csv", text)):
            report, stderr, model = self.fit(
                data, "--servers", 2, "--workers", 2, "--model", "logreg", "--epochs", 5, "--batch",
                2,
            )
            self.assertEqual((report["rows_train"], report["rows_bad"]), (7, 0))
            self.assert_exact(report, 5)
            for word in ("a header, label in column 5 'label', 3 numeric", "1 categorical",
                         "7 cells missing"):
                self.assertIn(word, stderr)
            lines, stderr = self.predict(model, data)
            self.assertEqual(len(lines), 7)
            self.assertIn("missing cells: 7", stderr)
            # All marks say the same, and not 0.
            marks = ("", "NA", "nan", "?", "NULL")
            ages = "".join(f"{mark},1.7,Ulm,1\n" for mark in (*marks, "0"))
            lines, stderr = self.predict(
                model, self.put("marks.csv", "age,height,city,owns_car\n" + ages)
            )
            self.assertIn("missing cells: 5", stderr)
            self.assertEqual(len({tuple(line) for line in lines[:5]}), 1)
            self.assertNotEqual(lines[4], lines[5])
            # A text where a number was promised.
            self.refuse("--data", data, "--model", "logreg", "--numeric", "city",
                        says=[f"{os.path.basename(data)}:2", "city", "Ulm"])

    def test_14_raw_tables_are_read_as_they_come(self):
        sets = (
            ("adult/adult.data.gz", "15", "adult/adult.test.gz", 32561, 0.8),
            ("titanic/train.csv.gz", "Survived", None, 891, 0.7),
        )
        if not os.path.isdir(f"{SETS}/adult"):
            self.skipTest("the real sets are not there")
        for train, label, test, rows, accuracy in sets[ps_test.either(0, 1) :]:
            with self.subTest(train=train):
                report, stderr, _ = self.fit(
                    f"{SETS}/{train}", "--servers", 2, "--workers", 2, "--model", "logreg",
                    "--label", label, "--epochs", 2, "--test", f"{SETS}/{test or train}",
                )
                self.assertEqual(report["rows_train"], rows)
                self.assertGreater(report["test_accuracy"], accuracy)
                self.assertRegex(stderr, r"\d+ cells missing")

    def test_21_packed_images_are_known_by_content_and_swapped_files_by_type(self):
        images = struct.pack(">IIII", 2051, 12, 4, 4) + random.Random(21).randbytes(12 * 16)
        labels = struct.pack(">II", 2049, 12) + bytes(i % 3 for i in range(12))
        files = [("tiny-images.idx3-ubyte", images), ("tiny-labels.idx1-ubyte", labels)]
        files += [(f"{name}.gz", gzip.compress(data)) for name, data in files]
        for paths in self.own_and_given(*files):

            def folder(name, image, label, endings=("", "")):
                where = f"{self.folder}/{name}"
                shutil.rmtree(where, ignore_errors=True)
                os.mkdir(where)
                for kind, path, ending in (("images-idx3", image, endings[0]),
                                           ("labels-idx1", label, endings[1])):
                    shutil.copy(path, f"{where}/train-{kind}-ubyte{ending}")
                return where

            image, label, image_gz, label_gz = paths
            pairs = [
                folder("plain", image, label),
                folder("both", image_gz, label_gz, (".gz", ".gz")),
                folder("first", image_gz, label, (".gz", "")),
                folder("second", image, label_gz, ("", ".gz")),
                folder("renamed", image_gz, label_gz),
            ]
            args = ("--model", "softmax", "--epochs", 2, "--batch", 5, "--seed", 1)
            outcomes = []
            for pair in pairs:
                how = ("--servers", 2, *EXACT[:4]) if pair in pairs[:1] else ("--in-process",)
                report, _, model = self.fit(pair, *args, *how)
                self.assertEqual(report["rows_train"], 12)
                outcomes.append(ps_test.read_safetensors(f"{model}/model.safetensors"))
            for outcome in outcomes[1:]:
                self.assertEqual(outcome, outcomes[0])
            swapped = folder("swapped", label, image)
            self.refuse("--data", swapped, *args, says=["train-images-idx3-ubyte", "swapped"])
            one = folder("one", image, image_gz, ("", ".gz"))
            self.refuse("--data", one, *args, says=["train-labels-idx1-ubyte.gz", "swapped"])
            for path in (image, image_gz):
                self.refuse("--data", path, "--model", "logreg", says=[path, "IDX", "folder"])

    def test_28_a_line_may_be_long_and_one_that_is_too_long_is_refused(self):
        rng = random.Random(28)
        values = [f"{rng.uniform(0.01, 1):.5f}" for _ in range(15000)]
        text = "1 " + " ".join(f"{i + 1}:{v}" for i, v in enumerate(values))
        for (data,) in self.own_and_given(("long-line.libsvm", f"{text}\n-1 2:1\n1 15000:1\n")):
            with open(data, encoding="utf-8") as f:
                rows = [line.split() for line in f]
            self.assertGreater(os.path.getsize(data), 190000)
            report, stderr, model = self.fit(
                data, "--servers", 2, "--workers", 1, "--model", "logreg", "--optimizer", "sgd",
                "--lr", "0.5", "--batch", 3, "--epochs", 1,
            )
            self.assertEqual(report["rows_train"], 3)
            self.assert_exact(report, 1)
            self.assertIn("15000 of them; 3 rows;", stderr)
            # One step from zeros: each of the 15,002 values has its share in it.
            expected = [0.0] * 15000
            for label, *words in rows:
                for word in words:
                    index, value = word.split(":")
                    expected[int(index) - 1] += 0.5 * float(label) / 2 * float(value) / 3
            found = self.tables(model)[0]["logreg.weight"]
            self.assertEqual(sorted(found), list(range(15000)))
            for key, weight in found.items():
                self.assertAlmostEqual(weight[0], expected[key], 6)
            lines, _ = self.predict(model, data)
            self.assertEqual(len(lines), 3)
        long = self.put("too-long.libsvm", "1 1:1\n-1 2:1\n1" + " 1:1" * (17 << 18) + "\n")
        self.refuse("--data", long, "--model", "logreg", says=["too-long.libsvm:3", "16"])
        os.unlink(long)

    # ---- 15, 29, 30: numbers ----

    def test_15_columns_and_labels_of_any_size_are_learnt(self):
        rng = random.Random(15)
        lines = []
        for _ in range(200):
            size, score = rng.uniform(500, 9000), rng.uniform(0, 10)
            price = 50 * size + 1000 * score + rng.gauss(0, 500)
            lines.append(f"{price:.2f},{size:.1f},{score:.3f}\n")
        for (data,) in self.own_and_given(("unscaled.csv", "".join(lines))):
            with open(data, encoding="utf-8") as f:
                labels = [float(line.split(",")[0]) for line in f]
            mean = sum(labels) / len(labels)
            deviation = math.sqrt(sum((y - mean) ** 2 for y in labels) / len(labels))
            errors = []
            for epochs in ((), ("--epochs", 100)):
                report, _, model = self.fit(
                    data, "--servers", 2, "--workers", 2, "--model", "linear", "--test", data,
                    *epochs,
                )
                self.tables(model)
                errors.append(report["test_rmse"] / deviation)
            self.assertLess(errors[0], 0.8)  # As it is preset: ten steps.
            self.assertLess(errors[1], 0.2)  # Two workers, in any order: .07 to .12 were seen.
        stdout, _ = self.go("--in-process", "--data", data, "--model", "linear", "--test", data)
        self.assertRegex(stdout, r"test RMSE +\d")
        self.assertNotIn("nan", stdout)

    def test_15_large_values_without_a_scale_are_noticed_and_scaled_on_request(self):
        rng = random.Random(16)
        lines = []
        for _ in range(300):
            sick = rng.random() < 0.4
            lines.append(f"{4 if sick else 2} 1:{rng.randrange(10**6, 10**7)} "
                         f"2:{rng.gauss(8 if sick else 2, 1):.2f}\n")
        sets = [self.put("cells.libsvm", "".join(lines))]
        if os.path.isdir(f"{SETS}/breast-cancer"):
            sets.append(f"{SETS}/breast-cancer/breast-cancer.libsvm.gz")
        for data in sets:
            args = ("--servers", 2, "--workers", 2, "--model", "logreg", "--epochs", 20, "--test",
                    data)
            _, stderr, model = self.fit(data, *args)
            self.assertRegex(stderr, r"values up to [0-9.e+]+ \(--standardize yes")
            self.tables(model)
            report, stderr, model = self.fit(data, *args, "--standardize", "yes")
            self.assertNotIn("values up to", stderr)
            self.assertGreater(report["test_accuracy"], 0.9)
            # The scale is part of the model: nobody has to name it again.
            found = json.loads(
                self.psctl("eval", "--model", model, "--data", data, "--json")[0]
            )
            self.assertEqual(found["accuracy"], report["test_accuracy"])

    def locale(self):
        """What makes programs run under a German locale, made here."""
        made = subprocess.run(
            ["localedef", "-i", "de_DE", "-f", "UTF-8", f"{self.folder}/de_DE.UTF-8"],
            capture_output=True, text=True, check=False,
        ) if shutil.which("localedef") else None
        if made is None or made.returncode != 0:
            self.skipTest("no locale de_DE.UTF-8 can be made: install Debian's package locales")
        env = {"LOCPATH": self.folder, "LC_ALL": "de_DE.UTF-8"}
        point = subprocess.run(
            [sys.executable, "-c", "import locale; locale.setlocale(locale.LC_ALL, '');"
             "print(locale.localeconv()['decimal_point'])"],
            capture_output=True, text=True, check=True, env={**os.environ, **env},
        ).stdout
        self.assertEqual(point, ",\n")  # Or the test would say nothing.
        return env

    def test_29_files_figures_and_logs_are_the_same_under_a_decimal_comma(self):
        german = self.locale()
        lines, table = [], []
        for i in range(20):
            x, y = (-1.5 if i % 2 == 0 else 1.5) + i / 1000, i / 4
            lines.append(f"{1 if i % 2 else -1} 1:{x:.4f} 2:{y:.4f}\n")
            table.append(f"{i % 2},{x:.4f},{y:.4f}\n")

        def outcome(data, kind, env):
            """All that is written, without times, and the folder of the model."""
            said = data.rsplit(".", 1)[1]
            report, stderr, model = self.fit(
                data, "--servers", 2, *EXACT, "--epochs", 3, "--batch", "4", "--test", data,
                "--model", kind, "--l2", "1e-4", "--schedule", "step:2:0.5",
                name=f"by-{env['LC_ALL']}",
                env={"PS_RUN_LR": "0.05", "PS_RUN_LOG_LEVEL": "info", **env},
            )
            for key in TIMES:
                report.pop(key, None)
            self.assertNotRegex(stderr, r"\d,\d")
            self.assertIn("level=info", stderr)
            logs = [line for line in stderr.splitlines() if line.startswith(f"ps-run: {said}")]
            self.assertEqual(len(logs), 1)
            return report, logs, self.bytes_of(model), model

        for datas in self.own_and_given(("decimals.libsvm", "".join(lines)),
                                        ("decimals.csv", "".join(table))):
            for data, kind in zip(datas, ("fm", "logreg")):
                c = outcome(data, kind, {"LC_ALL": "C"})
                de = outcome(data, kind, german)
                self.assertEqual(c[:3], de[:3])
                self.assertTrue(any(0 < abs(x) < 1 for rows in self.tables(c[3])[0].values()
                                    for row in rows.values() for x in row))
                # Written under one, read under the other.
                texts = set()
                for model, env in ((c[3], german), (de[3], {"LC_ALL": "C"})):
                    texts.add((
                        self.psctl("predict", "--model", model, "--data", data, env=env),
                        self.psctl("eval", "--model", model, "--data", data, "--json", env=env),
                        self.psctl("eval", "--model", model, "--data", data, env=env),
                    ))
                    if kind == "logreg":
                        self.psctl("export", "--model", model, "--as", "text", "--output", model,
                                   env=env)
                self.assertEqual(len(texts), 1)
                if kind == "logreg":
                    texts = []
                    for model in (c[3], de[3]):
                        with open(f"{model}/logreg.weight.txt", encoding="utf-8") as f:
                            texts.append(f.read())
                    self.assertEqual(texts[0], texts[1])
                    self.assertNotIn(",", texts[0])
        for env in ({"LC_ALL": "C"}, german):
            self.refuse("--data", datas[0], "--model", "logreg", "--lr", "0,05",
                        says=["--lr", "0,05"], env=env)

    def test_30_features_beyond_32_bits_are_rows_of_their_own(self):
        text = (
            "1 1:1 2147483647:1\n-1 2:1 2147483648:1\n1 1:1 4294967295:1\n-1 2:1 4294967296:1\n"
            "1 1:1 4294967297:1\n"
        )
        indices = [1, 2, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**32 + 1]
        models = (("logreg",), ("fm", "--rank", 8), ("softmax",), ("wide-deep", "--rank", 8))
        for (data,) in self.own_and_given(("big-index.libsvm", text)):
            for model in models:
                with self.subTest(model=model):
                    report, stderr, out = self.fit(
                        data, "--servers", 3, "--workers", 2, "--epochs", 3, "--batch", 1, "--seed",
                        1, "--model", *model,
                    )
                    self.assert_exact(report, 3)
                    self.assertIn("4294967297 of them", stderr)
                    for name, rows in self.tables(out)[0].items():
                        self.assertEqual(sorted(rows), [i - 1 for i in indices], name)
                        if not name.endswith("bias"):
                            self.assertTrue(all(any(row) for row in rows.values()), name)
                    # Rows take memory, indices do not.
                    self.assertLess(max(report["memory_bytes_per_server"]), 4 << 20)
        most = 2**64 - 1
        far = self.put("far.libsvm", f"1 {most}:1\n-1 {2**63}:1\n")
        _, _, out = self.fit(far, "--servers", 2, "--workers", 1, "--model", "fm", "--rank", 8)
        self.assertEqual(sorted(self.tables(out)[0]["fm.factor"]), [2**63 - 1, most - 1])
        beyond = self.put("beyond.libsvm", f"1 1:1\n-1 {most + 1}:1\n")
        self.refuse("--data", beyond, "--model", "logreg", says=["beyond.libsvm:2", str(most + 1)])

    # ---- 16, 22, 23: shares of rows and keys ----

    def test_16_workers_without_rows_end_at_once_and_say_so(self):
        own = "".join(f"1 {i}:1\n" for i in (1, 2, 3))  # No order matters.
        probes = self.put("three.libsvm", own)
        text = "1 1:1 3:1\n-1 2:1\n1 1:1\n"
        given = [paths[0] for paths in self.own_and_given(("three-rows.libsvm", text))]
        for batch in (1, 100):
            for consistency in ("bsp", "ssp:2"):
                with self.subTest(batch=batch, consistency=consistency):
                    args = ("--servers", 1, "--consistency", consistency, "--epochs", 1,
                            *PROBE[:-1], batch)
                    report, stderr, many = self.fit(probes, "--workers", 8, *args, name="many",
                                                    env={"PS_RUN_LOG_LEVEL": "info"})
                    self.assert_exact(report, 1)
                    idle = set(re.findall(
                        r"at=(\S+) event=worker.idle why=.(?:there were|the job was over)",
                        stderr))
                    self.assertGreaterEqual(len(idle), 5 if batch == 1 else 7, stderr)
                    _, _, alone = self.fit(probes, "--workers", 1, *args, name="alone")
                    self.assertEqual(self.tables(many), self.tables(alone))
        # The rows of the case share a feature: with one batch there is one result, too.
        for data in given:
            args = ("--servers", 1, "--consistency", "bsp", "--epochs", 1, "--model", "logreg",
                    "--seed", 1)
            report, _, many = self.fit(data, "--workers", 8, *args, name="many")
            self.assert_exact(report, 1)
            self.assertEqual(self.tables(many),
                             self.tables(self.fit(data, "--workers", 1, *args, name="alone")[2]))
            report = self.fit(data, "--workers", 8, *args, "--batch", 1)[0]
            self.assert_exact(report, 1)

    def test_22_no_key_is_lost_whatever_the_number_of_servers(self):
        rng = random.Random(22)
        agaricus = "".join(
            f"{rng.randrange(2)} "
            + " ".join(f"{i}:1" for i in sorted(rng.sample(range(1, 127), 22))) + "\n"
            for _ in range(300)
        ) + "".join(f"1 {i}:1\n" for i in range(1, 127))
        sets = [self.put("agaricus.libsvm", agaricus)]
        if os.path.isdir(f"{SETS}/agaricus"):
            sets.append(f"{SETS}/agaricus/agaricus.txt.train.gz")
        servers = range(1, 10) if ps_test.MATRIX else (1, 2, 3, 9)
        for data in sets:
            args = (*EXACT, "--no-shuffle", "--model", "logreg", "--epochs", 1)
            models = [self.bytes_of(self.fit(data, *args, "--servers", s)[2]) for s in servers]
            self.assertEqual({model == models[0] for model in models}, {True})
            sparse, dense = self.tables(f"{self.folder}/model")
            opened = gzip.open if data.endswith(".gz") else open
            with opened(data, "rt") as f:
                keys = {int(i) - 1 for line in f for i in re.findall(r"(\d+):", line)}
            self.assertEqual(max(keys), 125)
            self.assertEqual(sorted(sparse["logreg.weight"]), sorted(keys))
            self.assertNotEqual(dense["logreg.bias"], [0.0])

    def keys_of(self, data, table):
        (n,) = struct.unpack("<Q", data[:8])
        begin, end = json.loads(data[8 : 8 + n])[f"{table}.keys"]["data_offsets"]
        return array.array("Q", data[8 + n + begin : 8 + n + end])

    def wide(self, width):
        """Each feature in one row, the last one, too."""
        n = max(2, width // 1000)
        lines = []
        for row in range(n):
            own = range(row + 1, width + 1, n)
            lines.append(f"{row % 2} " + " ".join([f"{i}:1" for i in own]) + "\n")
        return self.put(f"wide{width}.libsvm", "".join(lines))

    def test_22_tables_of_rows_have_every_key_at_one_server(self):
        for width in (1, 2, 127, 128, ps_test.either(1000003, 10007)):
            with self.subTest(width=width):
                data = self.wide(width)
                args = (*EXACT, "--no-shuffle", "--model", "logreg", "--epochs", 1)
                few = (1, 3) if width > 1000 else (1, 2, 5)
                models = [self.bytes_of(self.fit(data, *args, "--servers", s)[2]) for s in few]
                self.assertEqual({model == models[0] for model in models}, {True})
                self.assertEqual(self.keys_of(models[0], "logreg.weight"),
                                 array.array("Q", range(width)))

    def test_22_rows_of_all_servers_add_up_to_the_width(self):
        servers = []
        for _ in range(3):
            where = ("--coordinator", servers[0]) if servers else ("--servers", 3)
            server = self.start("--listen", "127.0.0.1:0", *where, program=ps_test.SERVER)
            servers.append(server.wait_line(r"ready address=(\S+)", stdout=True)[1])
        worker = self.start(
            "--coordinator", servers[0], "--data", self.wide(10007), "--model", "logreg",
            "--epochs", 1, program=ps_test.WORKER,
        )
        self.assertEqual(worker.wait(), 0, worker.text())

        def rows():
            told = self.psctl("tables", "--coordinator", servers[0], "--json")[0]
            return json.loads(told)["tables"][0]["rows"]

        ps_test.wait_until("all servers have told of their rows", lambda: rows() >= 10007)
        self.assertEqual(rows(), 10007)

    def test_22_dense_tables_of_any_width_are_whole(self):
        for width in (1, 2, 127, 128, ps_test.either(1000003, 10007)):
            with self.subTest(width=width):
                rng = random.Random(width)
                folder = f"{self.folder}/dense{width}"
                labels = struct.pack(">II", 2049, 4) + bytes((0, 1, 0, 1))
                self.put(f"dense{width}/train-images-idx3-ubyte",
                         struct.pack(">IIII", 2051, 4, 1, width) + rng.randbytes(4 * width))
                self.put(f"dense{width}/train-labels-idx1-ubyte", labels)
                args = (*EXACT, "--no-shuffle", "--model", "softmax", "--epochs", 2, "--batch", 2)
                few = (1, 3) if width > 1000 else (1, 2, 5)
                models = [self.bytes_of(self.fit(folder, *args, "--servers", s)[2]) for s in few]
                self.assertEqual({model == models[0] for model in models}, {True})
                tables = ps_test.read_safetensors(f"{self.folder}/model/model.safetensors")
                largest = max(tables.values(), key=lambda table: len(table[1]))
                self.assertEqual(len(largest[1]) % width, 0)
                self.assertNotEqual(largest[1][-1], 0.0)
                shutil.rmtree(folder)

    def test_23_shuffled_rows_are_trained_exactly_once_an_epoch(self):
        n = ps_test.either(300, 100)
        text = "".join(f"1 {i + 1}:1\n" for i in range(n))
        every = (1, 2, 3, 7)
        for (data,) in self.own_and_given(("own-feature-1000.libsvm", text)):
            for workers in every if data.startswith(self.folder) or ps_test.MATRIX else (1, 7):
                how = ((1, ("--seed", 23)), (3, ()), (1, ()), (3, ("--seed", 23)))
                whole = ps_test.MATRIX or (workers == 7 and not data.startswith(self.folder))
                for epochs, seed in how if whole else how[:2]:
                    with self.subTest(workers=workers, epochs=epochs):
                        report, _, out = self.fit(
                            data, "--servers", 2, "--workers", workers, "--epochs", epochs, *PROBE,
                            *seed,
                        )
                        self.assert_exact(report, epochs)
                        rows = self.tables(out)[0]["linear.weight"]
                        self.assertEqual(len(rows), report["rows_train"])
                        wrong = {k: v for k, v in rows.items() if v != [1 - 0.5**epochs]}
                        self.assertEqual(wrong, {})

    def test_23_epochs_have_orders_of_their_own(self):
        # With one feature and rate 1/2 the bits of the weight are the labels, the last one first.
        kept = "10110100011101001001"
        data = self.put("order.libsvm", "".join(f"{label} 1:1\n" for label in kept))

        def labels(epochs, *seed):
            args = ("--servers", 1, "--workers", 1, "--epochs", epochs, *PROBE, *seed)
            weight = self.tables(self.fit(data, *args)[2])[0]["linear.weight"][0][0]
            return f"{int(weight * 2**20):020b}"

        first, second = (labels(n, "--seed", 1) for n in (1, 2))
        self.assertEqual((first.count("1"), second.count("1")), (10, 10))
        self.assertNotEqual(first, second)
        self.assertEqual(first, labels(1, "--seed", 1))
        self.assertNotEqual(first, labels(1, "--seed", 2))
        self.assertNotEqual(labels(1), labels(1))  # Equal once in 180,000 times.
        self.assertEqual(labels(2, "--no-shuffle"), kept[::-1])

    # ---- 25: prediction ----

    def test_25_predictions_line_up_with_the_rows_for_every_batch(self):
        _, _, model = self.fit(
            self.put("train.libsvm", features(200, 25, of=6, labels=("0", "1"))), "--servers", 2,
            "--workers", 2, "--model", "logreg", "--epochs", 3,
        )
        sparse, dense = self.tables(model)
        weights = {key + 1: row[0] for key, row in sparse["logreg.weight"].items()}
        text = "0 1:1 3:1\n0\n0 2:0.5\n\n0 1:1\n# comment\n0 3:2\n"
        rows = [{1: 1, 3: 1}, {}, {2: 0.5}, {1: 1}, {3: 2}]
        for (data,) in self.own_and_given(("predict-rows.libsvm", text)):
            for batch in (1, 2, 5, 1000):
                lines, stderr = self.predict(model, data, "--batch", batch)
                self.assertIn("5 rows predicted, 2 lines between them are no rows", stderr)
                self.assertEqual(len(lines), 5)
                for line, row in zip(lines, rows):
                    z = dense["logreg.bias"][0] + sum(weights[i] * x for i, x in row.items())
                    self.assertAlmostEqual(float(line[1]), sigmoid(z), 6)
                    self.assertEqual(line[0], str(int(z > 0)))


if __name__ == "__main__":
    ps_test.main()
