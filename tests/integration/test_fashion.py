"""The main job on real data, when Debian's package dataset-fashion-mnist is installed."""

import os
import unittest

import ps_test

MAIN = ("--servers", 2, "--workers", 4, "--staleness", 4, "--seed", 1)


@unittest.skipIf(ps_test.SMALL, "accuracy is for an optimised build")
@unittest.skipUnless(os.path.isdir(ps_test.FASHION), "dataset-fashion-mnist is not installed")
class Fashion(ps_test.Case):
    ROWS = 10

    def test_mlp_reaches_its_accuracy(self):
        report = self.train(
            *MAIN, "--epochs", 5, "--model", "mlp", "--hidden", 128,
            data="fashion-mnist", timeout=120,
        )
        self.assertEqual((report["rows_train"], report["rows_test"]), (60000, 10000))
        self.assert_exact(report, 5)
        self.assertGreaterEqual(report["test_accuracy"], 0.850)
        self.assertLessEqual(report["staleness_max"], 4)
        served = report["bytes_served_per_server"]
        self.assertEqual(len(served), 2)
        self.assertLess(max(served), 1.2 * min(served))
        print(f"\nmlp: accuracy {report['test_accuracy']}, {report['examples_per_s']:.0f} rows/s")

    def test_softmax_reaches_its_accuracy(self):
        report = self.train(
            *MAIN, "--epochs", 5, "--model", "softmax", data="fashion-mnist", timeout=120
        )
        self.assertGreaterEqual(report["test_accuracy"], 0.832)

    @unittest.skipUnless(ps_test.MATRIX, "only with PS_TEST_MATRIX=1")
    def test_softmax_learns_more_in_twenty_epochs(self):
        report = self.train(
            *MAIN, "--epochs", 20, "--model", "softmax", data="fashion-mnist", timeout=300
        )
        self.assertGreaterEqual(report["test_accuracy"], 0.840)
        print(f"\nsoftmax, 20 epochs: accuracy {report['test_accuracy']}")


if __name__ == "__main__":
    ps_test.main()
