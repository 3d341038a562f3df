"""Real sets, stopped in the middle of an epoch and resumed: the whole job is killed, or told to
end, or moves to other servers through a snapshot. With one worker the model has the bits of the run
that was never stopped, with several its quality.

a9a and Fashion-MNIST where they are, else sets made here like them: the first rows; with
PS_TEST_MATRIX=1 all of them. A worker stops itself at a unit that the test names, between the
servers' acknowledgement and its report, so that every run is stopped at the same place, however
fast it is.
"""

import json
import os
import signal
import tempfile
import unittest

import lasting
import ps_test

PLANT = os.environ.get("PS_TEST_PLANT") == "1"
FULL = ps_test.MATRIX
# Rows to train and to judge by, epochs, and the least accuracy of all rows.
LINES = (32561, 16281) if FULL else ps_test.either((4000, 1000), (1000, 200))
IMAGES = (60000, 10000) if FULL else ps_test.either((2000, 500), (500, 100))
EPOCHS = 10 if FULL else 3
SETS = {
    "a9a": ("--model", "logreg", "--batch", 50, "--epochs", EPOCHS),
    "images": ("--model", "mlp", "--hidden", 64, "--optimizer", "momentum", "--batch", 50,
               "--epochs", EPOCHS),
}
BOUNDS = {"a9a": (0.848, 0.326), "images": (0.850, 0.42)}  # What whole sets reach.
NEAR = ps_test.either(0.03, 0.08)  # Several workers: runs differ by a third of it.


def pending(pid, number):
    """Whether the process was sent this signal and has not taken it yet."""
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        masks = [int(line.split()[1], 16) for line in f if line.startswith(("SigPnd", "ShdPnd"))]
    return any(mask >> (number - 1) & 1 for mask in masks)


class Resumed(lasting.Case):
    ROWS = 20

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        train, test = lasting.lines_set(cls.folder, *LINES)
        cls.sets = {"a9a": (train, test),
                    "images": (lasting.images_set(cls.folder, *IMAGES),) * 2}

    def begin(self, cluster, kind, workers, *args):
        """The workers of a job; the first one is judged by what it reports."""
        train, test = self.sets[kind]
        consistency = ("--consistency", "bsp") if workers == 1 else ("--staleness", 2)
        return [cluster.worker(f"w{i}", train, *SETS[kind], *consistency, "--seed", 7,
                               "--give-up", "600s", *(args if i == 0 else ()),
                               *(("--test", test, "--report", f"{cluster.folder}/report",
                                  "--out", f"{cluster.folder}/model") if i == 0 else ()),
                               workers=workers)
                for i in range(workers)]

    def finish(self, cluster, running):
        """What the job has come to: (report, the model's bytes)."""
        self.wait_ends(running)
        self.wait_done(cluster)
        with open(f"{cluster.folder}/report", encoding="ascii") as f:
            report = json.load(f)
        self.assert_exact(cluster.ask(), EPOCHS)
        with open(f"{cluster.folder}/model/model.safetensors", "rb") as f:
            return report, f.read()

    def never_stopped(self, kind, workers):
        cluster = lasting.Cluster(self)
        result = self.finish(cluster, self.begin(cluster, kind, workers))
        cluster.end()
        return result

    def stop_at(self, kind):
        """In the middle of the second epoch, of all workers together."""
        return (LINES if kind == "a9a" else IMAGES)[0] // 50 * 3 // 2

    def kill_all(self, cluster, running):
        for process in (*running, *cluster.servers):
            process.process.kill()
        for process in (*running, *cluster.servers):
            process.process.wait()

    def end_all(self, cluster, running):
        """SIGTERM to all. The stopped worker finds it when it is continued."""
        for process in running:
            process.process.terminate()
        stopped = running[0].process.pid
        ps_test.wait_until("it was told to end", lambda: pending(stopped, signal.SIGTERM))
        os.kill(stopped, signal.SIGCONT)
        for process in running:
            self.assertEqual(process.wait(30), 0, process.text())
        for server in cluster.servers:
            server.process.terminate()
        for server in cluster.servers:
            self.assertEqual(server.wait(30), 0, server.text())

    def interrupted(self, kind, workers, stop):
        """The same job, stopped at one worker's unit; then all of it is begun again."""
        cluster = lasting.Cluster(self, 2, first=("--silence", "600s"))
        at = self.stop_at(kind) // workers
        running = self.begin(cluster, kind, workers, "--failpoint", "stop-acked", "--failpoint-at",
                             at)
        running[0].wait_line("failpoint.fires place=acked .*signal=stop", 120)
        self.assertEqual(cluster.ask()["job"], "running")
        stop(cluster, running)
        cluster.first = ("--silence", "2s")  # Who was killed will not return.
        for i in range(2):
            cluster.begin(i)
            cluster.servers[i].wait_line("server.recovered")
        self.assertEqual(cluster.ask()["job"], "running")
        result = self.finish(cluster, self.begin(cluster, kind, workers))
        cluster.end()
        return result

    def check_quality(self, kind, report, whole):
        for key in ("test_accuracy", "test_loss"):
            self.assertLess(abs(report[key] - whole[key]), NEAR, (key, report, whole))
        if FULL and os.path.isdir(ps_test.FASHION) and os.path.isdir(f"{lasting.SETS}/a9a"):
            self.assertGreaterEqual(report["test_accuracy"], BOUNDS[kind][0])
            self.assertLessEqual(report["test_loss"], BOUNDS[kind][1])
        print(f"\n{kind}: accuracy {report['test_accuracy']:.4f}, never stopped "
              f"{whole['test_accuracy']:.4f}; loss {report['test_loss']:.4f}, "
              f"{whole['test_loss']:.4f}")

    def resume(self, kind, workers, stops):
        whole, model = self.never_stopped(kind, workers)
        for stop in stops:
            with self.subTest(how=stop.__name__):
                report, found = self.interrupted(kind, workers, stop)
                self.check_quality(kind, report, whole)
                if workers == 1:
                    self.assertEqual(found == model, True, "the bits are others")

    @unittest.skipUnless(PLANT, "the place to stop at needs a build with -Dplant=true")
    def test_one_worker_resumed_in_mid_epoch_has_the_bits_of_the_run_that_was_never_stopped(self):
        for kind in SETS:
            with self.subTest(set=kind):
                self.resume(kind, 1, (self.kill_all, self.end_all))

    @unittest.skipUnless(PLANT, "the place to stop at needs a build with -Dplant=true")
    def test_several_workers_resumed_in_mid_epoch_learn_as_well_as_never_stopped(self):
        for kind in SETS:
            with self.subTest(set=kind):
                self.resume(kind, 3, (self.kill_all, self.end_all) if FULL else (self.kill_all,))

    # ---- Other numbers of servers ----------------------------------------------------------

    def evaluated(self, cluster):
        status, stdout, stderr = ps_test.run(
            "eval", "--coordinator", cluster.address, "--data", self.sets["a9a"][1], "--json",
            program=ps_test.CTL)
        self.assertEqual(status, 0, stderr)
        return {key: value for key, value in json.loads(stdout).items()
                if key in ("accuracy", "auc", "loss", "log_loss", "rows")}

    def lines_worker(self, cluster, model, i):
        return cluster.worker(f"w{i}", self.sets["a9a"][0], "--model", *model, "--epochs", 100000,
                              "--seed", 7, workers=2)

    def test_a_job_resumed_by_any_number_of_servers_predicts_the_same_and_goes_on(self):
        """Case 11: the servers are two, then 1, 3, 5; the optimizer's state moves along."""
        for model in (("logreg",), ("fm", "--rank", 8)):
            snapshots = tempfile.mkdtemp(dir=self.folder)
            cluster = lasting.Cluster(self, 2, "--snapshot-dir", snapshots)
            running = [self.lines_worker(cluster, model, i) for i in range(2)]
            ps_test.wait_until("an epoch is done",
                               lambda: cluster.ask()["steps"] > LINES[0] // 100, 60)
            for worker in running:  # Then what is in the snapshot can be judged.
                worker.process.terminate()
            self.wait_ends(running)
            self.snapshot(cluster)
            before = self.evaluated(cluster)
            self.assertGreater(before["accuracy"], 0.6)
            cluster.end()
            for n in ps_test.either((1, 3, 5), (3,)):
                with self.subTest(model=model[0], servers=n):
                    cluster = lasting.Cluster(self, n, "--restore", snapshots)
                    ps_test.wait_until("it has loaded",
                                       lambda: cluster.ask()["job"] == "running", 30)
                    after = self.evaluated(cluster)
                    self.assertEqual(after.keys(), before.keys())
                    for key in before:
                        self.assertAlmostEqual(after[key], before[key], delta=1e-6, msg=key)
                    running = [self.lines_worker(cluster, model, i) for i in range(2)]
                    cluster.wait_more(LINES[0] // 100)
                    for worker in running:
                        worker.process.terminate()
                    self.wait_ends(running)
                    self.assertGreater(self.evaluated(cluster)["accuracy"],
                                       before["accuracy"] - 0.05)
                    cluster.end()


if __name__ == "__main__":
    ps_test.main()
