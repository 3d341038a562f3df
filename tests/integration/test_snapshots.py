"""Snapshots as files: read by their description alone, with no code of the program; collected from
servers that keep their parts with them; and what a log says, once more.
"""

import array
import collections
import ctypes
import glob
import json
import os
import shutil
import sys
import tempfile
import unittest

import lasting
import ps_test

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "chaos"))
import safetensors  # noqa: E402  Of the rigs: reads files by the format.

MIB = 1 << 20
RANK = ps_test.either(1024, 64)  # So that files are longer than a MiB.
N_ROWS = 200
# {table: (width, numbers of state for each number)}
RULES = {"sgd": 0, "adagrad": 1, "adam": 2}


class Sum128(ctypes.Structure):
    _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]


def load_xxhash():
    """XXH3-128 of Debian's library; None without it."""
    try:
        function = ctypes.CDLL("libxxhash.so.0").XXH3_128bits
    except OSError:
        return None
    function.restype = Sum128
    function.argtypes = [ctypes.c_char_p, ctypes.c_size_t]

    def text(data):
        found = function(data, len(data))
        return f"{found.high:016x}{found.low:016x}"
    return text


XXH3 = load_xxhash()


def contents(path):
    with open(path, "rb") as f:
        return f.read()


class Snapshots(lasting.Case):
    ROWS = 20

    def rows(self):
        return lasting.write_pairs(f"{tempfile.mkdtemp(dir=self.folder)}/rows.libsvm", N_ROWS)

    def learn(self, cluster, data, rule, *args, workers=1, epochs=2):
        return [cluster.worker(f"w{i}", data, "--model", "fm", "--regress", "--rank", RANK,
                               "--batch", 4, "--optimizer", rule, "--lr", 0.01, "--epochs", epochs,
                               "--seed", 7, *args, workers=workers) for i in range(workers)]

    # ---- A reader of its own ---------------------------------------------------------------

    def summed(self, path):
        """The object of PART or MANIFEST, after its sum was found right."""
        data = contents(path)
        text, last = data[: data.rindex(b"xxh3 ")], data[data.rindex(b"xxh3 ") :]
        self.assertEqual(last.decode(), f"xxh3 {XXH3(text)}\n", path)
        return json.loads(text)

    def check_file(self, folder, entry):
        data = contents(f"{folder}/{entry['name']}")
        self.assertEqual(len(data), int(entry["bytes"]), entry["name"])
        sums = "".join(XXH3(data[i : i + MIB]) for i in range(0, len(data), MIB))
        self.assertEqual(sums, entry["chunks"], entry["name"])
        return len(data)

    def check_sparse(self, lists, width, state):
        """Lists of one slot: as long as its keys, which ascend. Its keys."""
        keys = lists["keys"][1]
        n = len(keys)
        self.assertTrue(all(a < b for a, b in zip(keys, keys[1:])))
        self.assertEqual(lists["keys"][0], [n])
        self.assertEqual(lists["steps"][0], [n, 2])
        self.assertEqual(lists["weights"][0], [n, width])
        if state:
            self.assertEqual(lists["state"][0], [n, state, width])
        else:
            self.assertNotIn("state", lists)
        return keys

    def check_part(self, folder, manifest, listed):
        """One part against the manifest's line of it: {table: its keys}."""
        part_text = contents(f"{folder}/PART")
        self.assertEqual(XXH3(part_text), listed["part"])
        part = self.summed(f"{folder}/PART")
        for same in ("format", "generation", "cut", "cluster"):
            self.assertEqual(part[same], manifest[same])
        self.assertEqual((part["server"], part["servers"]),
                         (listed["server"], len(manifest["parts"])))
        self.assertEqual(sorted(os.listdir(folder)),
                         sorted(["PART", *(f["name"] for f in part["files"])]))
        n_bytes = sum(self.check_file(folder, entry) for entry in part["files"])
        self.assertEqual(int(listed["bytes"]), n_bytes + len(part_text))
        keys = collections.defaultdict(lambda: array.array("Q"))
        dense = collections.defaultdict(list)
        slots = {s["slot"] for s in part["slots"]}
        for path in glob.glob(f"{folder}/*.safetensors"):
            table = os.path.basename(path).removesuffix(".safetensors")
            for slot, lists in safetensors.slots(safetensors.read(path)).items():
                self.assertIn(slot, slots)
                if "keys" in lists:
                    width = {"fm.weight": 1, "fm.factor": RANK}[table]
                    keys[table].extend(self.check_sparse(lists, width, RULES[self.rule]))
                else:
                    dense[table] += lists["weights"][1]
        return slots, keys, dense

    def check_snapshot(self, folder):
        """Everything in it; the tables of all parts."""
        manifest = self.summed(f"{folder}/MANIFEST")
        job = contents(f"{folder}/job.pb")
        self.assertEqual((len(job), XXH3(job)), (int(manifest["job_bytes"]), manifest["job"]))
        owners = collections.Counter()
        tables, numbers = {}, {}
        for listed in manifest["parts"]:
            slots, keys, dense = self.check_part(f"{folder}/server-{listed['server']}", manifest,
                                                 listed)
            owners.update(slots)
            for table, own in keys.items():
                tables.setdefault(table, []).extend(own)
            numbers.update(dense)
        self.assertEqual(owners, collections.Counter(range(64)))  # Each has one owner.
        self.assertEqual(sorted(tables), ["fm.factor", "fm.weight"])
        for table, keys in tables.items():
            self.assertEqual(sorted(keys), list(range(N_ROWS + 1)), table)
        self.assertEqual([len(n) for n in numbers.values()], [1])
        return manifest, numbers

    @unittest.skipIf(XXH3 is None, "no libxxhash.so.0")
    def test_a_snapshot_is_what_its_description_says_and_has_a_sum_of_every_byte(self):
        for self.rule in ps_test.either(tuple(RULES), ("adam",)):
            with self.subTest(optimizer=self.rule):
                snapshots = tempfile.mkdtemp(dir=self.folder)
                cluster = lasting.Cluster(self, 3, "--snapshot-dir", snapshots)
                self.wait_ends(self.learn(cluster, self.rows(), self.rule))
                self.wait_done(cluster)
                said = json.loads(self.snapshot(cluster, "--json"))
                manifest, numbers = self.check_snapshot(f"{snapshots}/{said['name']}")
                self.assertTrue(all(part["here"] for part in manifest["parts"]))
                self.assertEqual(sum(int(p["bytes"]) for p in manifest["parts"]), said["bytes"])
                bias = json.dumps(next(iter(numbers.values()))[0])
                found = next(value for name, value in self.export(cluster).items()
                             if "bias" in name)
                self.assertEqual(array.array("f", found[-4:])[0], float(bias))
                cluster.end()

    @unittest.skipIf(XXH3 is None, "no libxxhash.so.0")
    def test_the_reader_finds_a_byte_that_was_turned(self):
        self.rule = "sgd"
        snapshots = tempfile.mkdtemp(dir=self.folder)
        cluster = lasting.Cluster(self, 3, "--snapshot-dir", snapshots)
        self.wait_ends(self.learn(cluster, self.rows(), self.rule))
        name = json.loads(self.snapshot(cluster, "--json"))["name"]
        cluster.end()
        self.check_snapshot(f"{snapshots}/{name}")
        for path in glob.glob(f"{snapshots}/{name}/server-1/*"):
            data = contents(path)
            with open(path, "r+b") as f:
                f.seek(len(data) // 2)
                f.write(bytes([data[len(data) // 2] ^ 16]))
            with self.assertRaises(AssertionError, msg=path):
                self.check_snapshot(f"{snapshots}/{name}")
            with open(path, "wb") as f:
                f.write(data)
        self.check_snapshot(f"{snapshots}/{name}")

    # ---- Parts that lie with their servers -------------------------------------------------

    def gather(self, cluster, *args):
        folder = f"{tempfile.mkdtemp(dir=self.folder)}/gathered"
        self.snapshot(cluster, "--gather", folder, *args)
        return folder

    @unittest.skipIf(XXH3 is None, "no libxxhash.so.0")
    def test_parts_that_lie_with_their_servers_are_gathered_and_restored_from(self):
        self.rule = "adam"
        cluster = lasting.Cluster(self, 2)
        data = self.rows()
        self.wait_ends(self.learn(cluster, data, self.rule))
        self.wait_done(cluster)
        name = json.loads(self.snapshot(cluster, "--json"))["name"]
        before = self.export(cluster)
        own = [f"{cluster.data_dir(i)}/snapshots/{name}" for i in range(2)]
        self.assertFalse(os.path.exists(f"{own[0]}/server-1"))
        self.assertFalse(os.path.exists(f"{own[1]}/server-0"))
        # What the coordinator has alone is not all of it.
        status, _, stderr = ps_test.run("--listen", "127.0.0.1:0", "--restore",
                                        f"{cluster.data_dir(0)}/snapshots", program=ps_test.SERVER)
        self.assertNotEqual(status, 0)
        self.assertIn("gather", stderr)
        gathered = (self.gather(cluster), self.gather(cluster, "--cut", name))
        for folder in gathered:
            self.check_snapshot(f"{folder}/{name}")
        for i in range(2):  # Byte for byte.
            for path in glob.glob(f"{own[i]}/server-{i}/*"):
                self.assertEqual(contents(path), contents(
                    f"{gathered[0]}/{name}/server-{i}/{os.path.basename(path)}"))
        for i in range(2):
            cluster.kill(i)
        shutil.rmtree(cluster.folder)
        for n in ps_test.either((1, 3), (3,)):
            with self.subTest(servers=n):
                again = lasting.Cluster(self, n, "--restore", gathered[0])
                self.wait_done(again)
                self.assertEqual(self.export(again), before)
                again.end()

    # ---- The log once more -----------------------------------------------------------------

    def replay(self, cluster, *args):
        """Of each server: equal, and how much of it."""
        for i in range(cluster.n):
            status, stdout, stderr = ps_test.run("replay", "--data-dir", cluster.data_dir(i),
                                                 "--json", *args, program=ps_test.CTL)
            self.assertEqual(status, 0, stderr)
            found = json.loads(stdout)
            self.assertTrue(found["equal"], found)
            self.assertGreater(found["records"], 10, found)
            self.assertGreater(found["rows"] + found["blocks"], 0, found)
            yield found

    def test_replay_makes_the_tables_of_an_aggregated_job_again(self):
        cluster = lasting.Cluster(self, 2)
        workers = [cluster.worker(f"w{i}", self.data, "--model", "mlp", "--hidden", 32,
                                  "--optimizer", "adam", "--aggregate", "--batch", 30, "--epochs",
                                  100000, "--seed", 3, workers=3) for i in range(3)]
        names = []
        for _ in range(3):  # Perhaps with gradients that are staged.
            cluster.wait_more()
            names.append(json.loads(self.snapshot(cluster, "--json"))["name"])
        for worker in workers:
            worker.process.terminate()
        self.wait_ends(workers)
        names.append(json.loads(self.snapshot(cluster, "--json"))["name"])
        # Each server keeps two.
        for args in (("--to", names[-2]), ("--to", names[-1]),
                     ("--from", names[-2], "--to", names[-1])):
            for found in self.replay(cluster, *args):
                self.assertEqual(found["to"], args[-1])
                self.assertGreater(found["blocks"], 0)
        cluster.end()

    def test_replay_goes_back_where_the_job_did(self):
        cluster = lasting.Cluster(self, 2)
        workers = self.learn(cluster, self.rows(), "adam", epochs=100000)
        cluster.wait_units(50)
        first = json.loads(self.snapshot(cluster, "--json"))["name"]
        cluster.wait_more()
        status, _, stderr = ps_test.run("restore", "--coordinator", cluster.address,
                                        program=ps_test.CTL)
        self.assertEqual(status, 0, stderr)
        ps_test.wait_until("it is over", lambda: cluster.ask()["job"] == "running", 30)
        cluster.wait_more()
        last = json.loads(self.snapshot(cluster, "--json"))["name"]
        self.assertEqual((first.split("-")[0], last.split("-")[0]), ("000001", "000002"))
        for worker in workers:
            worker.process.terminate()
        self.wait_ends(workers)
        for args in (("--to", first), ("--from", "nothing", "--to", last),
                     ("--from", first, "--to", last)):
            for found in self.replay(cluster, *args):
                self.assertEqual(found["to"], args[-1])
        cluster.end()


if __name__ == "__main__":
    ps_test.main()
