"""Do many workers train as well as one? Workers x consistency x seed x model on Fashion-MNIST.

Usually one seed, 1 and 8 workers, softmax: two single runs may differ by a whole point. With
PS_TEST_MATRIX=1 everything, and means of three seeds have to lie within half a point. The counts
can be given: PS_TEST_SEEDS=1,2 PS_TEST_WORKERS=1,4 (one worker is always run).
"""

import os
import unittest

import ps_test

SEEDS = ps_test.numbers("PS_TEST_SEEDS", "1,2,3" if ps_test.MATRIX else "1")
WORKERS = ps_test.numbers("PS_TEST_WORKERS", "1,2,4,8" if ps_test.MATRIX else "1,8")
CONSISTENCIES = ("bsp", "ssp:4", "asp")
# Accuracy that many workers may lack, or have more. A mean of three varies less than one run.
TOLERANCE = 0.005 if len(SEEDS) >= 3 else 0.010


@unittest.skipIf(ps_test.SMALL, "accuracy is for an optimised build")
@unittest.skipUnless(os.path.isdir(ps_test.FASHION), "dataset-fashion-mnist is not installed")
class Matrix(ps_test.Case):
    ROWS = 10

    def accuracies(self, workers, consistency, model):
        """One for each seed."""
        found = []
        for seed in SEEDS:
            report = self.train(
                "--servers", 2, "--workers", workers, "--consistency", consistency,
                "--seed", seed, "--epochs", 5 if ps_test.MATRIX else 3, *model,
                data="fashion-mnist", timeout=180,
            )
            self.assert_exact(report, report["epochs"])
            found.append(report["test_accuracy"])
        return found

    def compare(self, *model):
        name = model[1]
        alone = None
        failed = []
        print(f"\n{name:8} {'':6} {'workers':>7} {'mean':>7} {'points':>7}  by seed {SEEDS}")
        for workers in sorted({1, *WORKERS}):
            # One worker's weights are the same bits under all three: test_train.py.
            for consistency in CONSISTENCIES if workers > 1 else CONSISTENCIES[:1]:
                by_seed = self.accuracies(workers, consistency, model)
                mean = sum(by_seed) / len(by_seed)
                alone = alone or mean
                line = (
                    f"{name:8} {consistency:6} {workers:7} {mean:7.4f} {100 * (mean - alone):+7.2f}"
                    f"  {' '.join(f'{a:.4f}' for a in by_seed)}"
                )
                print(line, flush=True)
                if abs(mean - alone) > TOLERANCE:
                    failed.append(line)
        self.assertEqual(failed, [], f"more than {100 * TOLERANCE} points from one worker")

    def test_softmax_learns_as_well_on_many_workers_as_on_one(self):
        self.compare("--model", "softmax")

    @unittest.skipUnless(ps_test.MATRIX, "only with PS_TEST_MATRIX=1")
    def test_mlp_learns_as_well_on_many_workers_as_on_one(self):
        self.compare("--model", "mlp", "--hidden", 128)


if __name__ == "__main__":
    ps_test.main()
