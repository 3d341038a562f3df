"""ps-datagen: equal bytes for equal seeds, ranges that fit together, and answers that are right."""

import json
import math
import os
import unittest
from collections import Counter

import ps_test

DATAGEN = os.environ.get("PS_BIN_DATAGEN", "build/bin/ps-datagen")
KINDS = ("clicks", "linear", "fm", "blobs", "ratings")
FORMATS = {kind: ("libsvm", "csv") for kind in KINDS}
FORMATS["clicks"] += ("criteo",)


def parse_libsvm(text):
    """[(label, {index: value})]"""
    rows = []
    for line in text.splitlines():
        label, *features = line.split(" ")
        pairs = [feature.split(":") for feature in features]
        rows.append((float(label), {int(i): float(x) for i, x in pairs}))
        assert len(rows[-1][1]) == len(pairs), "an index came twice"
    return rows


def area(scored):
    """AUC of [(score, label)], without equal scores."""
    ones = zeros = won = 0
    for _, label in sorted(scored):
        if label:
            ones += 1
            won += zeros
        else:
            zeros += 1
    return won / (ones * zeros)


class Datagen(unittest.TestCase):
    def setUp(self):
        self.folder = ps_test.tempfile.mkdtemp(prefix="ps-datagen-")
        self.addCleanup(ps_test.shutil.rmtree, self.folder)

    def make(self, kind, *flags):
        status, stdout, stderr = ps_test.run(kind, *flags, program=DATAGEN, timeout=120)
        self.assertEqual(status, 0, stderr)
        return stdout

    def make_with_answer(self, kind, *flags):
        path = f"{self.folder}/{kind}"
        self.make(kind, *flags, "--out", path)
        with open(path) as rows, open(f"{path}.answer.json") as answer:
            return rows.read(), json.load(answer)

    def test_equal_seeds_give_equal_bytes_and_others_do_not(self):
        for kind in KINDS:
            for form in FORMATS[kind]:
                with self.subTest(kind=kind, form=form):
                    flags = ("--rows", "200", "--format", form)
                    once = self.make(kind, *flags, "--seed", "7")
                    self.assertEqual(once, self.make(kind, *flags, "--seed", "7"))
                    self.assertNotEqual(once, self.make(kind, *flags, "--seed", "8"))
                    self.assertEqual(len(once.splitlines()), 200 + (form == "csv"))

    def test_ranges_put_together_are_the_whole(self):
        for kind in KINDS:
            for form in FORMATS[kind]:
                with self.subTest(kind=kind, form=form):
                    flags = (kind, "--format", form, "--seed", "3")
                    whole = self.make(*flags, "--rows", "100")
                    parts = [(0, 1), (1, 59), (60, 40)]
                    made = [self.make(*flags, "--first-row", str(a), "--rows", str(n))
                            for a, n in parts]
                    self.assertEqual("".join(made), whole)

    def test_every_format_says_the_same(self):
        ids = {}
        libsvm = parse_libsvm(self.make("clicks", "--rows", "300", "--format", "libsvm"))
        criteo = self.make("clicks", "--rows", "300")
        csv = self.make("clicks", "--rows", "300", "--format", "csv").splitlines()
        self.assertEqual(csv[0].split(",")[:3] + csv[0].split(",")[-1:],
                         ["label", "i1", "i2", "c26"])
        self.assertEqual([line.replace(",", "\t") for line in csv[1:]], criteo.splitlines())
        for (label, features), line in zip(libsvm, criteo.splitlines()):
            columns = line.split("\t")
            self.assertEqual(len(columns), 40)
            self.assertEqual(float(columns[0]), label)
            for i, count in enumerate(columns[1:14], 1):
                self.assertAlmostEqual(features.get(i, 0), math.log1p(float(count or 0)), 4)
            there = [i for i in features if i > 13]
            words = [(c, word) for c, word in enumerate(columns[14:]) if word]
            self.assertEqual(len(there), len(words))
            for index, key in zip(sorted(there), words):
                self.assertEqual(ids.setdefault(key, index), index)
        self.assertEqual(len(set(ids.values())), len(ids))

    def test_ids_follow_zipfs_law_and_fields_are_missing_as_told(self):
        n = ps_test.either(40000, 4000)
        lines = [line.split("\t") for line in
                 self.make("clicks", "--rows", str(n), "--keys", "100000").splitlines()]
        missing = [sum(not line[1 + c] for line in lines) / n for c in range(39)]
        for c, share in ((0, .45), (1, .10), (4, .12), (13, 0), (15, .04), (31, .44)):
            self.assertAlmostEqual(missing[c], share, delta=4 * math.sqrt(.25 / n))
        text, answer = self.make_with_answer("clicks", "--rows", str(n), "--keys", "100000",
                                             "--format", "libsvm")
        size = answer["ids"][2]
        start = 13 + sum(answer["ids"][:2])
        seen = Counter(i - start for _, row in parse_libsvm(text) for i in row
                       if start < i <= start + size)
        harmonic = sum(1 / i for i in range(1, size + 1))
        for i in (1, 2, 3, 10):
            want = sum(seen.values()) / (i * harmonic)
            self.assertAlmostEqual(seen[i], want, delta=5 * math.sqrt(want))
        self.assertLessEqual(max(seen), size)
        self.assertGreaterEqual(min(seen), 1)

    def test_the_answer_of_linear_is_the_plane(self):
        text, answer = self.make_with_answer("linear", "--rows", "2000", "--noise", "0.5")
        squares = 0
        for label, row in parse_libsvm(text):
            self.assertEqual(len(row), 10)
            z = answer["bias"] + sum(answer["weights"][i - 1] * x for i, x in row.items())
            squares += (label - z) ** 2
        self.assertAlmostEqual(math.sqrt(squares / 2000), answer["true_model_rmse"], 6)
        self.assertAlmostEqual(answer["true_model_rmse"], 0.5, delta=0.05)

    def test_the_answer_of_fm_is_its_score(self):
        n = 4000
        text, answer = self.make_with_answer("fm", "--rows", str(n), "--rank", "3")
        scored, loss = [], 0
        for label, row in parse_libsvm(text):
            columns = [i - 1 for i in row]
            z = answer["bias"] + sum(answer["weights"][c] for c in columns)
            for a in range(len(columns)):
                for b in range(a):
                    z += sum(answer["factors"][3 * columns[a] + f] *
                             answer["factors"][3 * columns[b] + f] for f in range(3))
            scored.append((z, label))
            loss += math.log1p(math.exp(-z if label else z))
        self.assertAlmostEqual(loss / n, answer["true_model_log_loss"], 6)
        self.assertAlmostEqual(area(scored), answer["true_model_auc"], 3)
        self.assertAlmostEqual(answer["true_model_log_loss"], answer["expected_log_loss"],
                               delta=4 / math.sqrt(n))
        self.assertAlmostEqual(answer["true_model_auc"], answer["expected_auc"], delta=0.03)

    def test_the_answer_of_blobs_is_the_nearest_center(self):
        text, answer = self.make_with_answer("blobs", "--rows", "1000", "--features", "2",
                                             "--classes", "5")
        hits = 0
        for label, row in parse_libsvm(text):
            point = [row.get(1, 0), row.get(2, 0)]
            centers = zip(answer["centers"][::2], answer["centers"][1::2])
            distances = [math.dist(point, center) for center in centers]
            hits += distances.index(min(distances)) == label
        self.assertAlmostEqual(hits / 1000, answer["true_model_accuracy"], 6)
        self.assertLess(0.3, answer["true_model_accuracy"])

    def test_ratings_are_halves_of_users_and_items(self):
        text, answer = self.make_with_answer("ratings", "--rows", "5000", "--users", "50",
                                             "--items", "20")
        rows = [line.split(",") for line in text.splitlines()]
        self.assertEqual(rows.pop(0), ["rating", "user", "item"])
        self.assertEqual({float(row[0]) * 2 % 1 for row in rows}, {0.0})
        self.assertTrue(all(0.5 <= float(row[0]) <= 5 for row in rows))
        self.assertEqual({int(row[1]) for row in rows}, set(range(1, 51)))
        self.assertEqual({int(row[2]) for row in rows}, set(range(1, 21)))
        self.assertLess(0.25, answer["true_model_rmse"])
        self.assertLess(answer["true_model_rmse"], 0.4)
        libsvm = parse_libsvm(self.make("ratings", "--rows", "10", "--users", "50", "--items",
                                        "20", "--format", "libsvm"))
        for (label, features), row in zip(libsvm, rows):
            self.assertEqual(label, float(row[0]))
            self.assertEqual(features, {int(row[1]): 1, 50 + int(row[2]): 1})

    @unittest.skipIf(ps_test.SLOW != 1, "a sanitizer takes memory of its own")
    @unittest.skipUnless(ps_test.shutil.which("prlimit"), "prlimit is not installed")
    def test_memory_does_not_grow_with_rows_or_keys(self):
        status, _, stderr = ps_test.run(
            f"--data={16 << 20}", DATAGEN, "clicks", "--rows", "400000", "--keys", "1000000000",
            "--out", "/dev/null", "--answer", f"{self.folder}/answer", program="prlimit")
        self.assertEqual(status, 0, stderr)

    def test_what_cannot_be_is_refused_in_one_line(self):
        rows = [
            ((), 2, ["no command", "clicks"]),
            (("cliks",), 2, ["cliks", "clicks"]),
            (("linear", "--format", "criteo"), 2, ["--format criteo (flag)", "linear"]),
            (("linear", "--users", "3"), 2, ["--users 3 (flag)", "linear"]),
            (("linear", "--rows", "0"), 2, ["--rows"]),
            (("linear", "--format", "xml"), 2, ["--format", "xml"]),
            (("linear", "--out", f"{self.folder}/no/such"), 74, ["no/such"]),
            (("linear", "--answer", f"{self.folder}/no/such"), 74, ["--answer", "no/such"]),
            (("linear", "--rows", "100000", "--out", "/dev/full", "--answer",
              f"{self.folder}/answer"), 74, ["/dev/full"]),
        ]
        for args, want, says in rows:
            with self.subTest(args=args):
                status, _, stderr = ps_test.run(*args, program=DATAGEN, timeout=60)
                self.assertEqual(status, want, stderr)
                self.assertEqual(len(stderr.strip().splitlines()), 1, stderr)
                for word in says:
                    self.assertIn(word, stderr)


if __name__ == "__main__":
    ps_test.main()
