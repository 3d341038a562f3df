"""psctl predict, eval and export: with files written here, from the format's description alone."""

import ast
import json
import math
import os
import random
import struct
import subprocess

import ps_test

CTL = ps_test.CTL


def description(**changes):
    """What libsvm data with labels -1 and 1, counted from 1, are described by."""
    return {
        "format": "libsvm",
        "task": "binary",
        "labels": ["-1", "1"],
        "labels_given": False,
        "n_features": "9",
        "n_rows": "4",
        "all_seen": True,
        "index_base": 1,
        "header": False,
        "columns": [],
        **changes,
    }


CSV = description(
    format="csv",
    labels=["no", "yes"],
    n_features="3",
    index_base=0,
    header=True,
    columns=[
        {"name": "bought", "kind": "label"},
        {"name": "age", "kind": "numeric", "mean": 40.0, "scale": 0.1},
        {"name": "town", "kind": "categorical"},
    ],
)


def setup(model, data=None, **changes):
    return {
        "version": 1,
        "model": model,
        "rank": 0,
        "hidden": [],
        "pool": False,
        "regress": False,
        "offset": 0,
        "data": data or description(),
        **changes,
    }


def write_model(folder, setup, sparse, dense, empty=()):
    """sparse: {table: {key: row}}, dense: {table: numbers}, empty: shapes of tensors 0, 1, ..."""
    first = {
        name: {"table": i, "init": "zeros", "scale": 0, "seed": "1"}
        for i, name in enumerate(sparse)
    }
    notes = {"setup": json.dumps(setup), "seed": "1", "rows": json.dumps(first)}
    head, data = {"__metadata__": notes}, b""

    def add(name, dtype, shape, values):
        nonlocal data
        packed = struct.pack(f"<{len(values)}{'Q' if dtype == 'U64' else 'f'}", *values)
        head[name] = {
            "dtype": dtype,
            "shape": shape,
            "data_offsets": [len(data), len(data) + len(packed)],
        }
        data += packed

    for name, rows in sparse.items():
        keys = sorted(rows)
        width = len(next(iter(rows.values())))
        add(f"{name}.keys", "U64", [len(keys)], keys)
        add(f"{name}.rows", "F32", [len(keys), width], [x for key in keys for x in rows[key]])
    for name, values in dense.items():
        add(name, "F32", [len(values)], values)
    for i, shape in enumerate(empty):
        add(str(i), "F32", shape, [])
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    os.makedirs(folder, exist_ok=True)
    with open(f"{folder}/model.safetensors", "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)
    return folder


def read_npy(path):
    """(shape, numbers) of a NumPy file."""
    with open(path, "rb") as f:
        data = f.read()
    assert data[:8] == b"\x93NUMPY\x01\x00", data[:8]
    (n,) = struct.unpack("<H", data[8:10])
    assert (10 + n) % 64 == 0 and data[9 + n] == ord("\n")
    head = ast.literal_eval(data[10 : 10 + n].decode())
    assert not head["fortran_order"]
    kind = {"<f4": "f", "<u8": "Q"}[head["descr"]]
    count = math.prod(head["shape"])
    return head["shape"], struct.unpack(f"<{count}{kind}", data[10 + n :])


def sigmoid(z):
    return 1 / (1 + math.exp(-z))


class Predict(ps_test.Case):
    ROWS = 100

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        weights = {key: [float(key + 1)] for key in range(8)}
        weights[2**63] = [0.5]
        cls.logreg = write_model(
            f"{cls.folder}/logreg",
            setup("logreg"),
            {"logreg.weight": weights},
            {"logreg.bias": [0.25]},
        )

    def put(self, name, text):
        path = f"{self.folder}/{name}"
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        return path

    def psctl(self, *args, env=None):
        status, stdout, stderr = ps_test.run(*args, program=CTL, env=env)
        self.assertEqual(status, 0, stderr)
        self.assertNotIn("Sanitizer", stderr)
        return stdout, stderr

    def refuse(self, *args, status=2, says=()):
        found, stdout, stderr = ps_test.run(*args, program=CTL)
        self.assertEqual(found, status, f"{args}: {stderr}")
        self.assertEqual(stdout, "")
        self.assertEqual(len(stderr.strip().splitlines()), 1, stderr)
        for word in says:
            self.assertIn(word, stderr)

    # ---- Predictions ----

    def test_rows_come_in_order_one_line_each_for_every_batch(self):
        data = self.put("rows", "1 1:1 3:0.5\n-1\n1 2:0.5\n\n1 1:-4\n# comment\n-1 3:2\n")
        scores = [0.25 + 1 + 1.5, 0.25, 0.25 + 1, 0.25 - 4, 0.25 + 6]
        texts = set()
        for batch in 1, 2, 5, 1000:
            stdout, stderr = self.psctl(
                "predict", "--model", self.logreg, "--data", data, "--batch", batch
            )
            texts.add(stdout)
            self.assertIn("5 rows predicted, 2 lines between them are no rows", stderr)
        self.assertEqual(len(texts), 1, texts)
        lines = [line.split("\t") for line in texts.pop().splitlines()]
        self.assertEqual([line[0] for line in lines], ["1", "1", "1", "-1", "1"])
        for line, score in zip(lines, scores):
            self.assertAlmostEqual(float(line[1]), sigmoid(score), 6)

    def test_rows_may_lack_labels_and_may_have_unknown_ones(self):
        data = self.put("unlabelled", "1:1\n7 1:1\n1 1:1\n")
        stdout, _ = self.psctl("predict", "--model", self.logreg, "--data", data)
        self.assertEqual(len(set(stdout.splitlines())), 1)
        self.assertEqual(len(stdout.splitlines()), 3)
        self.refuse(
            "eval", "--model", self.logreg, "--data", data, says=["unlabelled:1: ", "label"]
        )

    def test_with_bad_lines_each_prediction_has_its_line(self):
        data = self.put("bad", "1 1:1\n1 oops\n\n-1 2:1\n1 1:2:3\n")
        self.refuse("predict", "--model", self.logreg, "--data", data, says=["bad:2: ", "oops"])
        stdout, stderr = self.psctl(
            "predict", "--model", self.logreg, "--data", data, "--max-bad-rows", "2"
        )
        self.assertEqual([line.split("\t")[0] for line in stdout.splitlines()], ["1", "4"])
        self.assertIn("2 bad lines skipped; columns: line, label", stderr)
        self.assertRegex(stderr, r"skipped: .*bad:2: .*\n.*skipped: .*bad:5: ")
        more = self.put("more", "1 2:1\n")
        stdout, _ = self.psctl(
            "predict", "--model", self.logreg, "--data", f"{data},{more}", "--max-bad-rows", "2"
        )
        places = [line.split("\t")[0] for line in stdout.splitlines()]
        self.assertEqual(places, [f"{data}:1", f"{data}:4", f"{more}:1"])

    def test_a_file_of_predictions_is_whole_or_not_there(self):
        good = self.put("good", "1 1:1\n" * 3)
        bad = self.put("half", "1 1:1\n" * 3 + "oops\n")
        out = f"{self.folder}/out.txt"
        self.refuse("predict", "--model", self.logreg, "--data", bad, "--output", out)
        self.assertFalse(os.path.exists(out))
        stdout, _ = self.psctl("predict", "--model", self.logreg, "--data", good)
        piped, _ = self.psctl("predict", "--model", self.logreg, "--data", good, "--output", out)
        self.assertEqual(piped, "")
        with open(out, encoding="utf-8") as f:
            self.assertEqual(f.read(), stdout)
        self.refuse("predict", "--model", self.logreg, "--data", bad, "--output", out)
        with open(out, encoding="utf-8") as f:
            self.assertEqual(f.read(), stdout)
        self.assertEqual([n for n in os.listdir(self.folder) if n.endswith(".tmp")], [])

    def test_classes_have_their_labels_and_values_are_themselves(self):
        classes = description(task="classes", labels=["2", "4", "7"])
        model = write_model(
            f"{self.folder}/softmax",
            setup("softmax", classes),
            {"softmax.weight": {0: [0.0, 1.0, 0.0], 1: [0.0, 0.0, 2.0]}},
            {"softmax.bias": [0.5, 0.0, 0.0]},
        )
        data = self.put("classes", "2 9:1\n4 1:1\n7 2:1\n")
        stdout, stderr = self.psctl("predict", "--model", model, "--data", data)
        lines = [line.split("\t") for line in stdout.splitlines()]
        self.assertEqual([line[0] for line in lines], ["2", "4", "7"])
        for line in lines:
            self.assertEqual(len(line), 4)
            self.assertAlmostEqual(sum(map(float, line[1:])), 1, 6)
        self.assertIn("columns: label, probabilities of 2, 4, 7", stderr)
        model = write_model(
            f"{self.folder}/linear",
            setup("linear", description(task="number", labels=[]), offset=10),
            {"linear.weight": {0: [2.0]}},
            {"linear.bias": [0.5]},
        )
        data = self.put("values", "3 1:1.5\n3\n")
        stdout, _ = self.psctl("predict", "--model", model, "--data", data)
        self.assertEqual(stdout, "13.5\n10.5\n")

    def test_columns_are_found_by_name_and_texts_are_labels(self):
        model = write_model(
            f"{self.folder}/csv", setup("logreg", CSV), {"logreg.weight": {0: [1.0]}},
            {"logreg.bias": [3.0]},
        )
        data = self.put("rows.csv", "town,age\nRome,40\nOslo,50\n")
        stdout, _ = self.psctl("predict", "--model", model, "--data", data)
        self.assertEqual([line.split("\t")[0] for line in stdout.splitlines()], ["yes", "yes"])

    def test_numbers_are_the_same_in_every_locale(self):
        data = self.put("decimals", "1 1:0.5\n-1 2:0.125\n")
        args = ("predict", "--model", self.logreg, "--data", data)
        c = self.psctl(*args, env={"LC_ALL": "C"})
        locales = subprocess.run(["locale", "-a"], capture_output=True, text=True).stdout
        if "de_DE.utf8" not in locales.split():
            print("skipped: the locale de_DE.UTF-8 is not there; LC_ALL names it all the same")
        self.assertEqual(self.psctl(*args, env={"LC_ALL": "de_DE.UTF-8"}), c)
        self.assertNotIn(",", c[0])

    # ---- Data of another kind ----

    def test_a_file_that_counts_from_the_other_base_is_refused(self):
        data = self.put("zero", "1 0:1 3:1\n-1 2:1\n")
        for command in "predict", "eval":
            self.refuse(
                command, "--model", self.logreg, "--data", data, says=["zero", "--index-base 0"]
            )
        one = self.put("one", "1 1:1 4:1\n-1 3:1\n")
        args = ("--model", self.logreg, "--data")
        self.assertEqual(
            self.psctl("predict", *args, data, "--index-base", "0"),
            self.psctl("predict", *args, one),
        )

    def test_indices_beyond_32_bits_are_keys_of_their_own(self):
        data = self.put("big", f"1 {2**63 + 1}:2\n1 1:1\n1 {2**31 + 1}:1\n1 {2**32 + 1}:1\n")
        stdout, _ = self.psctl("predict", "--model", self.logreg, "--data", data)
        found = [float(line.split("\t")[1]) for line in stdout.splitlines()]
        for p, z in zip(found, [0.25 + 1, 0.25 + 1, 0.25, 0.25]):
            self.assertAlmostEqual(p, sigmoid(z), 6)

    def test_a_long_line_is_one_row(self):
        features = " ".join(f"{i}:0.001" for i in range(1, 15001))
        data = self.put("long", f"1 {features}\n-1 1:1\n1 2:1\n")
        self.assertGreater(os.path.getsize(data), 100000)
        stdout, _ = self.psctl("predict", "--model", self.logreg, "--data", data)
        self.assertEqual(len(stdout.splitlines()), 3)

    def test_files_of_the_case_bank_have_the_rows_that_they_have(self):
        beside = os.path.join(os.path.dirname(__file__), "../../../shared/cases/inputs")
        folder = os.environ.get("PS_TEST_CASES", beside)
        rows = {"predict-rows": 5, "long-line": 3, "big-index": 5, "three-rows": 3}
        if not folder or not os.path.isdir(folder):
            self.skipTest("the case bank is not there")
        for name, n in rows.items():
            with self.subTest(name=name):
                texts = {
                    self.psctl(
                        "predict", "--model", self.logreg, "--data", f"{folder}/{name}.libsvm",
                        "--batch", batch,
                    )[0]
                    for batch in (1, 2, 5, 1000)
                }
                self.assertEqual([text.count("\n") for text in texts], [n])

    # ---- Evaluation ----

    def test_eval_says_what_applies(self):
        data = self.put("eval", "1 1:1\n-1 1:-2\n1 1:-3\n-1 2:1\n")
        stdout, _ = self.psctl("eval", "--model", self.logreg, "--data", data, "--json")
        found = json.loads(stdout)
        ps = [sigmoid(0.25 + z) for z in (1, -2, -3, 2)]
        loss = -sum(math.log(p if y else 1 - p) for p, y in zip(ps, (1, 0, 1, 0))) / 4
        self.assertEqual(found["rows"], 4)
        self.assertAlmostEqual(found["log_loss"], loss, 5)
        self.assertAlmostEqual(found["accuracy"], 0.5)
        self.assertAlmostEqual(found["auc"], 0.25)
        self.assertNotIn("rmse", found)
        stdout, _ = self.psctl("eval", "--model", self.logreg, "--data", data)
        self.assertRegex(stdout, r"(?m)^rows +4\naccuracy +0\.5\nlog loss +[0-9.]+\nAUC +0\.25$")

    def test_figures_that_cannot_be_written_are_an_error(self):
        data = self.put("eval", "1 1:1\n-1 2:1\n")
        args = ["eval", "--model", self.logreg, "--data", data]
        for more in ([], ["--json"]):
            with open("/dev/full", "wb") as full:
                done = subprocess.run(
                    [*ps_test.LEASHED, CTL, *args, *more], stdout=full, stderr=subprocess.PIPE,
                    text=True,
                )
            self.assertEqual(done.returncode, 74, done.stderr)
            self.assertIn("No space left", done.stderr)

    def test_both_labels_of_a_pair_mean_the_same_whatever_they_are_called(self):
        text = "+1 1:1\n-1 1:-2\n+1 1:-3\n-1 2:1\n"
        other = write_model(
            f"{self.folder}/other",
            setup("logreg", description(labels=["0", "1"])),
            {"logreg.weight": {key: [float(key + 1)] for key in range(8)}},
            {"logreg.bias": [0.25]},
        )
        signs = self.put("signs", text)
        bits = self.put("bits", text.replace("-1 ", "0 ").replace("+1 ", "1 "))
        self.assertEqual(
            self.psctl("eval", "--model", self.logreg, "--data", signs),
            self.psctl("eval", "--model", other, "--data", bits),
        )

    def test_no_rows_are_nothing_to_judge_but_can_be_predicted(self):
        data = self.put("none", "\n# nothing\n")
        self.refuse("eval", "--model", self.logreg, "--data", data, says=["none", "no rows"])
        stdout, _ = self.psctl("predict", "--model", self.logreg, "--data", data)
        self.assertEqual(stdout, "")

    # ---- Export ----

    def test_a_shape_of_many_large_sizes_is_written_as_it_is(self):
        shapes = [[0] + [2**53] * 7, [2**31, 0], [0]]
        model = write_model(
            f"{self.folder}/shapes", setup("logreg"), {"logreg.weight": {0: [1.0]}},
            {"logreg.bias": [0.0]}, empty=shapes,
        )
        self.psctl("export", "--model", model, "--output", f"{self.folder}/wide")
        for i, shape in enumerate(shapes):
            self.assertEqual(read_npy(f"{self.folder}/wide/{i}.npy"), (tuple(shape), ()))

    def test_numpy_files_hold_what_the_model_does(self):
        out = f"{self.folder}/npy"
        self.psctl("export", "--model", self.logreg, "--output", out)
        self.assertEqual(
            sorted(os.listdir(out)),
            ["logreg.bias.npy", "logreg.weight.keys.npy", "logreg.weight.rows.npy", "setup.json"],
        )
        keys = [*range(8), 2**63]
        self.assertEqual(read_npy(f"{out}/logreg.weight.keys.npy"), ((9,), tuple(keys)))
        shape, rows = read_npy(f"{out}/logreg.weight.rows.npy")
        self.assertEqual((shape, rows[1], rows[8]), ((9, 1), 2.0, 0.5))
        self.assertEqual(read_npy(f"{out}/logreg.bias.npy"), ((1,), (0.25,)))
        with open(f"{out}/setup.json", encoding="utf-8") as f:
            self.assertEqual(json.load(f)["data"]["labels"], ["-1", "1"])

    def test_text_names_features_as_the_data_do(self):
        out = f"{self.folder}/text"
        self.psctl("export", "--model", self.logreg, "--output", out, "--as", "text")
        with open(f"{out}/logreg.weight.txt", encoding="utf-8") as f:
            lines = f.read().splitlines()
        self.assertEqual(lines[:4], ["feature\tweight", "bias\t0.25", "1\t1", "2\t2"])
        self.assertEqual(lines[-1], f"{2**63 + 1}\t0.5")
        fm = write_model(
            f"{self.folder}/fm",
            setup("fm", rank=2),
            {"fm.weight": {0: [1.0]}, "fm.factor": {0: [1.0, 2.0]}},
            {"fm.bias": [0.0]},
        )
        self.refuse("export", "--model", fm, "--output", out, "--as", "text", says=["linear", "fm"])

    # ---- Bad usage, bad files ----

    def test_bad_usage_is_refused_by_name(self):
        data = self.put("usage", "1 1:1\n")
        model = ("--model", self.logreg)
        rows = [
            (("predict", *model), ["--data"]),
            (("export", *model), ["--output"]),
            (("status", *model), ["--model", "predict"]),
            (("eval", *model, "--data", data, "--output", "x"), ["--output", "eval"]),
            (("predict", *model, "--data", data, "--json"), ["--json"]),
            (("predict", *model, "--data", data, "--as", "text"), ["--as", "export"]),
            (
                ("predict", *model, "--data", data, "--coordinator", "127.0.0.1:1"),
                ["--model", "--coordinator"],
            ),
            (("predict", *model, "--data", "nothing"), ["--data nothing"]),
            (("predict", "--model", "nothing", "--data", data), ["--model nothing"]),
            (("predict", "--model", data, "--batch", "0", "--data", data), ["--batch"]),
        ]
        for args, says in rows:
            with self.subTest(args=args):
                self.refuse(*args, says=says)

    def test_damaged_models_are_refused(self):
        data = self.put("usage", "1 1:1\n")
        with open(f"{self.logreg}/model.safetensors", "rb") as f:
            good = f.read()
        damages = {
            "cut": (good[:-1], 65),
            "empty": (b"", 65),
            "keys": (good.replace(struct.pack("<QQ", 3, 4), struct.pack("<QQ", 4, 3)), 65),
            "kind": (good.replace(b'\\"logreg\\"', b'\\"xogreg\\"'), 2),
            "note": (good.replace(b'"setup"', b'"sEtup"'), 2),
        }
        for name, (text, status) in damages.items():
            with self.subTest(damage=name):
                path = f"{self.folder}/{name}.safetensors"
                with open(path, "wb") as f:
                    f.write(text)
                self.refuse(
                    "predict", "--model", path, "--data", data, status=status, says=[path]
                )

    def test_nobody_at_the_coordinator_is_a_lost_cluster(self):
        data = self.put("usage", "1 1:1\n")
        self.refuse(
            "predict", "--coordinator", f"127.0.0.1:{ps_test.free_port()}", "--data", data,
            "--timeout", "200ms", status=4, says=["--coordinator"],
        )

    def test_a_line_of_a_job_file_that_names_the_kind_is_no_folder(self):
        data = self.put("usage", "1 1:1\n")
        job = self.put("job.yaml", "model: logreg\n")
        self.refuse(
            "predict", "--config", job, "--coordinator", f"127.0.0.1:{ps_test.free_port()}",
            "--data", data, "--timeout", "200ms", status=4, says=["--coordinator"],
        )
        job = self.put("job.yaml", f"psctl:\n  model: {self.logreg}\n")
        stdout, _ = self.psctl("predict", "--config", job, "--data", data)
        self.assertEqual(len(stdout.splitlines()), 1)


class Images(ps_test.Case):
    """Models of images, trained by ps-run."""

    def test_a_model_of_images_is_judged_as_ps_run_did(self):
        report, tensors = self.model(
            "--in-process", "--model", "mlp", "--hidden", "16", "--seed", "1"
        )
        model = os.path.dirname(report["model_path"])
        status, stdout, stderr = ps_test.run(
            "eval", "--model", model, "--data", self.data, "--json", program=CTL
        )
        self.assertEqual(status, 0, stderr)
        found = json.loads(stdout)
        self.assertEqual(found["rows"], report["rows_test"])
        self.assertAlmostEqual(found["accuracy"], report["test_accuracy"], 6)
        self.assertAlmostEqual(found["loss"], report["test_loss"], 6)
        status, stdout, stderr = ps_test.run(
            "predict", "--model", model, "--data", self.data, program=CTL
        )
        self.assertEqual(status, 0, stderr)
        lines = stdout.splitlines()
        self.assertEqual(len(lines), report["rows_test"])
        self.assertEqual({len(line.split("\t")) for line in lines}, {11})
        out = f"{self.folder}/images"
        status, _, stderr = ps_test.run(
            "export", "--model", model, "--output", out, program=CTL
        )
        self.assertEqual(status, 0, stderr)
        for name, (shape, values) in tensors.items():
            self.assertEqual(read_npy(f"{out}/{name}.npy"), (tuple(shape), tuple(values)))


def clicks(n, seed):
    """Lines of two classes, made of features that most other lines do not have."""
    rng = random.Random(seed)
    lines = []
    for _ in range(n):
        features = sorted(rng.sample(range(1, 200), 6))
        label = 1 if sum(i % 3 for i in features) + rng.random() > 6 else -1
        lines.append(f"{label} " + " ".join(f"{i}:{rng.random():.3f}" for i in features) + "\n")
    return "".join(lines)


class Lines(ps_test.Case):
    """Models of lines, trained by real processes."""

    ROWS = 100

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.train_path = f"{cls.folder}/train.libsvm"
        cls.test_path = f"{cls.folder}/test.libsvm"
        for path, n, seed in ((cls.train_path, 400, 1), (cls.test_path, 150, 2)):
            with open(path, "w", encoding="utf-8") as f:
                f.write(clicks(n, seed))
            # A feature that training never saw: its first weights count.
        with open(cls.test_path, "a", encoding="utf-8") as f:
            f.write("1 1:1 5000:2 6000:1\n")

    def psctl(self, *args):
        status, stdout, stderr = ps_test.run(*args, program=CTL)
        self.assertEqual(status, 0, stderr)
        self.assertNotIn("Sanitizer", stderr)
        return stdout

    def test_a_file_is_judged_as_ps_run_judged_the_cluster(self):
        for model in ("logreg", "fm", "wide-deep"):
            with self.subTest(model=model):
                out = f"{self.folder}/{model}"
                report = self.train(
                    "--servers", 2, "--workers", 2, "--test", self.test_path, "--model", model,
                    "--epochs", 2, "--out", out, data=self.train_path,
                )
                found = json.loads(
                    self.psctl("eval", "--model", out, "--data", self.test_path, "--json")
                )
                self.assertEqual(found["rows"], report["rows_test"])
                self.assertEqual(found["accuracy"], report["test_accuracy"])
                self.assertEqual(found["auc"], report["test_auc"])
                self.assertEqual(found["log_loss"], report["test_loss"])

    def cluster_after(self, *args):
        """A cluster whose job is over, and the folder that its worker wrote."""
        out = f"{self.folder}/live"
        servers = []
        for _ in range(2):
            where = ("--coordinator", servers[0][1]) if servers else ("--servers", "2")
            server = self.start("--listen", "127.0.0.1:0", *where, program=ps_test.SERVER)
            address = server.wait_line(r"ready address=(\S+)", stdout=True)[1]
            servers.append((server, address))
        worker = self.start(
            "--coordinator", servers[0][1], "--workers", "1", "--data", self.train_path,
            "--out", out, "--epochs", "2", *args, program=ps_test.WORKER,
        )
        self.assertEqual(worker.wait(), 0, worker.text())
        return servers[0][1], out

    def test_a_live_cluster_and_its_file_predict_the_same_to_the_byte(self):
        address, out = self.cluster_after("--model", "fm", "--rank", "4", "--seed", "5")
        data = ("--data", self.test_path)
        live = self.psctl("predict", "--coordinator", address, *data)
        self.assertEqual(live, self.psctl("predict", "--model", out, *data))
        self.assertEqual(live, self.psctl("predict", "--coordinator", address, "--batch", 7, *data))
        self.assertEqual(live.count("\n"), 151)
        self.assertEqual(
            self.psctl("eval", "--coordinator", address, *data),
            self.psctl("eval", "--model", out, *data),
        )

    def test_an_export_of_a_live_cluster_is_that_of_its_file(self):
        address, out = self.cluster_after("--model", "fm", "--rank", "4", "--seed", "5")
        here, there = f"{self.folder}/here", f"{self.folder}/there"
        self.psctl("export", "--coordinator", address, "--output", here)
        self.psctl("export", "--model", out, "--output", there)
        names = sorted(os.listdir(there))
        self.assertEqual(sorted(os.listdir(here)), sorted([*names, "model.safetensors"]))
        for name in names:
            with open(f"{here}/{name}", "rb") as a, open(f"{there}/{name}", "rb") as b:
                self.assertEqual(a.read(), b.read(), name)
        (n,), keys = read_npy(f"{here}/fm.weight.keys.npy")
        self.assertEqual(sorted(set(keys)), list(keys))
        self.assertGreater(n, 100)
        # What was exported can be used in place of the worker's file.
        self.assertEqual(
            self.psctl("predict", "--model", here, "--data", self.test_path),
            self.psctl("predict", "--model", out, "--data", self.test_path),
        )

    def test_a_cluster_at_work_predicts(self):
        running = self.start(
            "--data", self.train_path, "--model", "logreg", "--epochs", 100000, "--servers", 2,
            "--workers", 2,
        )
        address = running.wait_line(r"server 0 is process \d+ at (\S+)").group(1)
        running.wait_line(r"epoch \d+/")
        stdout = self.psctl("predict", "--coordinator", address, "--data", self.test_path)
        self.assertEqual(stdout.count("\n"), 151)
        running.process.terminate()
        self.assertEqual(running.wait(), 143, running.text())

    def test_a_cluster_of_images_says_that_it_cannot(self):
        running = self.start("--data", self.data, "--servers", 1, "--workers", 1, "--epochs",
                             100000)
        address = running.wait_line(r"server 0 is process \d+ at (\S+)").group(1)
        running.wait_line(r"epoch \d+/")
        status, _, stderr = ps_test.run(
            "predict", "--coordinator", address, "--data", self.data, program=CTL
        )
        self.assertEqual(status, 2, stderr)
        self.assertIn("trains images", stderr)
        running.process.terminate()
        self.assertEqual(running.wait(), 143, running.text())


if __name__ == "__main__":
    ps_test.main()
