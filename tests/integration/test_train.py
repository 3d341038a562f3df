"""Whole runs of real processes on small data: every row once an epoch, the same weights again."""

import os

import ps_test

CONSISTENCIES = [
    ("--consistency", "bsp"),
    ("--consistency", "ssp:1"),
    ("--consistency", "ssp:4"),
    ("--consistency", "ssp:4", "--prefetch", "1"),
    ("--consistency", "asp"),
    ("--consistency", "bsp", "--aggregate"),
    ("--consistency", "bsp", "--aggregate", "--backup-workers", "1"),
]


# What differs most, for slow builds.
FEW = [CONSISTENCIES[i] for i in (0, 2, 5)]


class Train(ps_test.Case):
    ROWS = 1003  # No multiple of any batch below.

    def test_every_consistency_trains_every_row_once_an_epoch(self):
        for args in ps_test.either(CONSISTENCIES, FEW):
            with self.subTest(args=args):
                report = self.train(
                    "--servers", 2, "--workers", 4, "--batch", 20, "--epochs", 3, *args
                )
                self.assert_exact(report, 3)
                self.assertEqual(report["servers"], 2)
                self.assertEqual(report["workers"], 4)
                self.assertEqual(report["epochs"], 3)
                self.assertEqual(report["sessions_lost"], 0)
                self.assertGreater(report["test_accuracy"], 0.9)
                if "bsp" in args:
                    self.assertEqual(report["staleness_max"], 0)
                elif "asp" not in args:
                    self.assertLessEqual(report["staleness_max"], report["staleness_bound"])

    def test_any_number_of_workers_trains_the_same_rows(self):
        for workers in ps_test.either((1, 2, 3, 5, 8), (1, 8)):
            with self.subTest(workers=workers):
                report = self.train(
                    "--servers", 1, "--workers", workers, "--batch", 50, "--epochs", 2
                )
                self.assert_exact(report, 2)
                self.assertEqual(report["workers"], workers)
                self.assertGreater(report["test_accuracy"], 0.9)

    def test_more_workers_than_rows(self):
        data = ps_test.make_idx(f"{self.folder}/three", rows=3, test_rows=3, side=4, classes=3)
        for batch in ps_test.either((1, 100), (1,)):
            for consistency in (("--staleness", 0), ("--staleness", 2), ("--aggregate",)):
                with self.subTest(batch=batch, consistency=consistency):
                    report = self.train(
                        "--servers", 1, "--workers", 8, "--batch", batch, "--epochs", 2,
                        *consistency, data=data,
                    )
                    self.assert_exact(report, 2)

    def test_uneven_shares_end(self):
        # 208 rows in leases of 10 steps of 10 rows: 100, 100 and 8 rows for three workers.
        data = ps_test.make_idx(f"{self.folder}/uneven", rows=208)
        for staleness in (0, 1):
            report = self.train(
                "--workers", 3, "--servers", 1, "--batch", 10, "--epochs", 3,
                "--units-per-lease", 10, "--staleness", staleness, data=data,
            )
            self.assert_exact(report, 3)

    def test_a_worker_without_more_units_waits_for_nobody(self):
        # Leases of one unit: whoever has done the job's last one has no reason to pull again.
        data = ps_test.make_idx(f"{self.folder}/few", rows=41, side=4)
        for _ in range(ps_test.either(6, 3)):
            report = self.train(
                "--servers", 1, "--workers", 4, "--staleness", 1, "--batch", 1, "--epochs", 2,
                "--units-per-lease", 1, data=data,
            )
            self.assert_exact(report, 2)

    def test_one_worker_twice_gives_the_same_bits(self):
        alike = []  # Nobody to be ahead of: the consistency makes no difference.
        for args in ps_test.either(CONSISTENCIES[:-1], FEW):
            with self.subTest(args=args):
                models = [
                    self.model(
                        "--servers", servers, "--workers", 1, "--batch", 20, "--epochs", 2,
                        "--seed", 7, "--model", "mlp", "--hidden", 12, *args, name=f"bits-{i}",
                    )[1]
                    for i, servers in enumerate((1, 2))
                ]
                self.assertEqual(models[0], models[1])
                if "--prefetch" not in args and "--aggregate" not in args:
                    alike.append(models[0])
        for model in alike:
            self.assertEqual(model, alike[0])

    def test_aggregate_equals_one_process_with_one_big_batch(self):
        args = ("--batch", 60, "--epochs", 2, "--seed", 3, "--model", "mlp", "--hidden", 16)
        _, alone = self.model("--in-process", *args, name="alone")
        for workers in ps_test.either((1, 3, 4), (3,)):
            _, together = self.model(
                "--aggregate", "--servers", 2, "--workers", workers, *args, name="together"
            )
            self.assertLess(ps_test.largest_difference(alone, together), 1e-5)

    def test_aggregate_does_not_depend_on_who_took_which_lease(self):
        args = (
            "--aggregate", "--servers", 2, "--workers", 4, "--batch", 40, "--epochs", 2,
            "--seed", 3, "--units-per-lease", 2,
        )
        first = self.model(*args, name="first")[1]
        for _ in range(ps_test.either(3, 1)):
            self.assertLess(ps_test.largest_difference(first, self.model(*args)[1]), 1e-6)

    def test_every_number_of_servers_gives_the_same_weights(self):
        args = ("--workers", 1, "--batch", 50, "--epochs", 1, "--seed", 5, "--no-shuffle")
        first = self.model("--servers", 1, *args)[1]
        for servers in ps_test.either((2, 3, 9), (3,)):
            self.assertEqual(first, self.model("--servers", servers, *args)[1])

    def test_every_optimizer_trains_on_a_cluster_as_alone(self):
        every = ("sgd", "momentum", "adagrad", "adam", "adamw")
        for optimizer in ps_test.either(every, every[-1:]):
            with self.subTest(optimizer):
                args = ("--optimizer", optimizer, "--epochs", 2, "--seed", 2, "--batch", 50)
                report, alone = self.model("--in-process", *args, name="alone")
                self.assertGreater(report["test_accuracy"], 0.8)
                _, cluster = self.model(
                    "--servers", 2, "--workers", 1, "--consistency", "bsp", *args
                )
                self.assertEqual(alone, cluster)

    def test_without_a_seed_runs_differ_and_all_workers_start_alike(self):
        args = ("--servers", 1, "--model", "mlp", "--hidden", 8, "--epochs", 1, "--batch", 200)
        first = self.model("--workers", 4, *args, name="a")[1]
        second = self.model("--workers", 4, *args, name="b")[1]
        self.assertNotEqual(first, second)
        weight = second["mlp.0.weight"][1]
        self.assertGreater(len(set(weight)), len(weight) // 2)

    def test_separate_workers_without_a_seed_agree_on_one(self):
        server = self.start("--listen", "127.0.0.1:0", program=ps_test.SERVER)
        address = server.wait_line(r"ready address=(\S+)", stdout=True).group(1)
        args = ("--coordinator", address, "--data", self.data, "--workers", 3, "--epochs", 2)
        report = f"{self.folder}/separate.json"
        workers = [
            self.start(*args, *more, program=ps_test.WORKER)
            for more in ((), (), ("--report", report, "--out", f"{self.folder}/separate"))
        ]
        for worker in workers:
            self.assertEqual(worker.wait(), 0, worker.text())
        with open(report) as f:
            self.assert_exact(ps_test.report_of(f.read()), 2)
        ps_test.read_safetensors(f"{self.folder}/separate/model.safetensors")
        server.process.terminate()
        self.assertEqual(server.wait(), 0, server.text())

    def test_a_layer_of_two_thousand_is_split_into_messages_that_fit(self):
        data = ps_test.make_idx(f"{self.folder}/wide", rows=200, side=28)
        report, tensors = self.model(
            "--servers", 1, "--workers", 2, "--model", "mlp", "--hidden", 2000, "--epochs", 1,
            data=data,
        )
        self.assertEqual(tensors["mlp.0.weight"][0], [784, 2000])
        self.assert_exact(report, 1)

    def test_a_proxy_in_the_environment_is_ignored(self):
        for proxy in ("http://127.0.0.1:9", "blah"):
            env = {name: proxy for name in ("http_proxy", "https_proxy", "grpc_proxy")}
            report = self.train("--servers", 1, "--workers", 1, "--epochs", 1, env=env)
            self.assert_exact(report, 1)

    def test_divergence_ends_with_exit_3_and_leaves_the_old_model(self):
        out = f"{self.folder}/diverged"
        os.makedirs(out)
        with open(f"{out}/model.safetensors", "w") as f:
            f.write("the good one")
        for where in (("--in-process",), ("--servers", 1, "--workers", 2)):
            status, _, stderr = ps_test.run(
                "--data", self.data, "--model", "mlp", "--lr", "1e6", "--out", out, "--epochs", 5,
                "--batch", 10, *where,
            )
            self.assertEqual(status, 3, stderr)
            self.assertIn("--lr", stderr)
            with open(f"{out}/model.safetensors") as f:
                self.assertEqual(f.read(), "the good one")

    def test_the_model_file_takes_raw_pixels(self):
        """Evaluate the written softmax by hand on the test files: the report's accuracy."""
        report, tensors = self.model("--servers", 1, "--workers", 2, "--epochs", 2)
        weight = tensors["softmax.weight"][1]
        bias = tensors["softmax.bias"][1]
        with open(f"{self.data}/t10k-images-idx3-ubyte", "rb") as f:
            pixels = f.read()[16:]
        with open(f"{self.data}/t10k-labels-idx1-ubyte", "rb") as f:
            labels = f.read()[8:]
        n = self.SIDE * self.SIDE
        hits = 0
        for i, label in enumerate(labels):
            x = [p / 255 for p in pixels[i * n : (i + 1) * n]]
            scores = [
                bias[c] + sum(x[k] * weight[k * 10 + c] for k in range(n)) for c in range(10)
            ]
            hits += scores.index(max(scores)) == label
        self.assertAlmostEqual(hits / len(labels), report["test_accuracy"], places=6)


if __name__ == "__main__":
    ps_test.main()
