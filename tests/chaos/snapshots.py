"""Snapshots under pushes that bring new keys all the time, and ways back to them.

  many     each of many snapshots, read by its format alone: weights and state have equal key sets,
           it has what was acknowledged before it was asked for and nothing that began after it,
           numbers that sum to 0 do
  replay   psctl replay makes the same tables from the log, bit for bit, up to a snapshot
  restore  a snapshot of two servers on 1, 2, 3, 5 servers: everything is there
  older    the newest snapshot of a killed server has rotted: the one before and the log have it all
  back     a server without a log is killed: the whole job goes back to the last snapshot
"""

import argparse
import collections
import functools
import glob
import json
import os
import shutil
import signal
import time

import chaos_main
import cluster as chaos
import history
import safetensors


NEVER = 1 << 63


def take(cluster):
    """(what psctl says of it, history.Cut)"""
    t0 = time.monotonic_ns()
    status, stdout, stderr = cluster.ctl("snapshot", "--json", "--timeout", "60s")
    t1 = time.monotonic_ns()
    if status != 0:
        raise chaos.Violation(f"psctl snapshot ended with {status}: {stderr}")
    cluster.faults["snapshot"] += 1
    return json.loads(stdout), history.Cut(t0, t1)


def snapshot_dir(cluster):
    return os.path.join(cluster.folder, "snapshots")


def flags_of(cluster_folder, durability, keep=3):
    return ["--durability", durability, "--snapshot-every", "0", "--snapshot-keep", keep,
            "--snapshot-dir", cluster_folder]


def shared(n_servers, durability, keep, **more):
    """A cluster whose servers share one folder of snapshots."""
    cluster = chaos.Cluster(n_servers, keep=keep, **more)
    cluster.add_flags(flags_of(snapshot_dir(cluster), durability))
    return cluster


# ---- What is in one -------------------------------------------------------------------------


def read_rows(folders, table, state_per_elem):
    """{key: (row, state)}. Lists of a slot are as long as its keys, which ascend."""
    rows = {}
    seen = set()
    for folder in folders:
        path = os.path.join(folder, f"{table}.safetensors")
        for slot, lists in safetensors.slots(safetensors.read(path)).items():
            if slot in seen:
                raise chaos.Violation(f"{path}: slot {slot} is in two parts")
            seen.add(slot)
            keys = list(lists["keys"][1])
            n = len(keys)
            if any(a >= b for a, b in zip(keys, keys[1:])):
                raise chaos.Violation(f"{path}: keys of slot {slot} do not ascend")
            for what in ("weights", "steps") + (("state",) if state_per_elem else ()):
                if lists[what][0][0] != n:
                    raise chaos.Violation(f"{path}: slot {slot} has {n} keys and "
                                          f"{lists[what][0][0]} of {what}")
            width = lists["weights"][0][1]
            state = lists["state"][1] if state_per_elem else []
            for i, key in enumerate(keys):
                rows[key] = (list(lists["weights"][1][i * width:(i + 1) * width]),
                             list(state[i * width * state_per_elem:
                                        (i + 1) * width * state_per_elem]))
    return rows


def read_dense(folders, table):
    found = {}
    for folder in folders:
        blocks = safetensors.blocks(safetensors.read(f"{folder}/{table}.safetensors"))
        if found.keys() & blocks.keys():
            raise chaos.Violation(f"{folder}: a block of {table} is in two parts")
        found.update(blocks)
    if not found:
        raise chaos.Violation(f"{table} has no block in any part")
    return [x for number in sorted(found) for x in found[number]]


def final_lines(folders, t):
    """What the snapshot has, as a reader's history would say it."""
    ledger = read_rows(folders, "ledger", 0)
    shadow = read_rows(folders, "shadow", 1)
    if set(ledger) != set(shadow):
        raise chaos.Violation(f"{len(set(ledger) ^ set(shadow))} keys are in one of ledger and "
                              "shadow only")
    for key, (_, state) in shadow.items():
        if state != [1.0]:
            raise chaos.Violation(f"key {key}: the state is {state}, that of one push is 1")
    zero = [sum(read_dense(folders, f"zero.{i}")) for i in range(8)]
    lines = [{"t": t, "c": 0, "type": "invoke", "f": "all"}]
    lines += [{"t": t, "c": 0, "type": "final", "key": key, "row": row}
              for key, (row, _) in ledger.items()]
    lines.append({"t": t, "c": 0, "type": "ok", "f": "all", "zero": zero,
                  "counter": read_dense(folders, "counter")})
    return lines


def check_content(cluster, said, cut):
    """The snapshot against the history so far."""
    folder = os.path.join(said["dir"], said["name"])
    folders = safetensors.parts(folder)
    if len(folders) != cluster.n_servers:
        raise chaos.Violation(f"{folder} has {len(folders)} parts of {cluster.n_servers}")
    path = os.path.join(cluster.folder, "content.history")
    lines = final_lines(folders, time.monotonic_ns())
    with open(path, "w", encoding="ascii") as f:
        f.writelines(json.dumps(line) + "\n" for line in lines)
    # As if the job went back to it some day: pushes that came later are undone.
    verdict = history.check([*cluster.histories, path], [history.WayBack(cut, NEVER, NEVER)])
    if verdict.n_wrong:
        raise chaos.Violation(f"snapshot {said['name']}: {verdict.text()}")
    return verdict


AT_ONCE = 20  # Of one cluster: each is judged by its whole history.


def many(seed, n, durability="log", keep=False):
    chaos.needs("snapshot-dir")
    rng = chaos.rng_of(seed, "snapshots")
    with shared(2, durability, keep) as cluster:
        cluster.start()
        cluster.push(interval="5ms")
        cluster.wait_acked(100)
        for _ in range(n):
            said, cut = take(cluster)
            cluster.wait_acked(5)
            check_content(cluster, said, cut)
            time.sleep(chaos.some(rng, 0.01, 0.1))
        return cluster.judge(), cluster.faults


# ---- Replay ---------------------------------------------------------------------------------


def replay(seed, durability="log", keep=False):
    """The log once more, from nothing and from the first snapshot, to the last one."""
    chaos.needs("snapshot-dir")
    chaos.needs("to", program=chaos.CTL)
    rng = chaos.rng_of(seed, "replay")
    with shared(2, durability, keep) as cluster:
        cluster.start()
        cluster.push()
        names = []
        for _ in range(2):
            cluster.wait_acked(rng.choice([50, 500]))
            names.append(take(cluster)[0]["name"])
        victim = rng.choice(cluster.servers)
        victim.kill()
        cluster.faults["kill"] += 1
        victim.start()
        victim.wait_ready()
        cluster.wait_acked(50)
        names.append(take(cluster)[0]["name"])
        for server in cluster.servers:
            for start in ((), ("--from", names[0])):
                for end in names[1:]:
                    replay_one(cluster, server, start, end)
        return cluster.judge(), cluster.faults


def replay_one(cluster, server, start, end):
    status, stdout, stderr = cluster.ctl("replay", "--data-dir", server.data_dir, "--snapshot-dir",
                                         snapshot_dir(cluster), "--to", end, *start, "--json")
    if status != 0:
        raise chaos.Violation(f"psctl replay of server {server.index} {start} to {end} ended with "
                              f"{status}: {stderr}")
    if json.loads(stdout)["records"] < 10:
        raise chaos.Violation(f"psctl replay has seen few records: {stdout}")


# ---- Ways back ------------------------------------------------------------------------------


def restore(seed, n_servers, durability="log", keep=False):
    """A snapshot of two servers on others: it has what it should have, and the job goes on."""
    chaos.needs("snapshot-dir", "restore")
    with shared(2, durability, keep) as first:
        first.start()
        first.push()
        first.wait_acked(300)
        said, cut = take(first)
        first.wait_acked(50)
        first.stop_pushing()
        for server in first.servers:
            server.kill()
        t0 = time.monotonic_ns()
        kept = os.path.join(first.folder, "kept")
        shutil.copytree(snapshot_dir(first), kept)
        with shared(n_servers, durability, keep) as second:
            second.add_flags(["--restore", kept])
            second.histories = list(first.histories)
            second.n_clients = 100
            second.start()
            second.ways_back = [history.WayBack(cut, t0, time.monotonic_ns())]
            second.faults["restore"] += 1
            # Before anything is pushed, and after.
            second.read_all()
            verdict = history.check(second.histories, second.ways_back)
            if verdict.n_wrong:
                raise chaos.Violation(verdict.text())
            second.push()
            second.wait_acked(100)
            return second.judge(), second.faults


def back(seed, keep=False):
    """Durability memory: a server that comes back has nothing, so the job goes back."""
    chaos.needs("snapshot-dir", "restore")
    rng = chaos.rng_of(seed, "back")
    with shared(2, "memory", keep) as cluster:
        cluster.start()
        cluster.push()
        for _ in range(2):
            cluster.wait_acked(100)
            _, cut = take(cluster)
            cluster.wait_acked(50)
            t0 = time.monotonic_ns()
            victim = rng.choice(cluster.servers[1:])
            victim.kill()
            cluster.faults["kill"] += 1
            victim.start()
            victim.wait_ready()
            wait_running(cluster)
            cluster.ways_back.append(history.WayBack(cut, t0, time.monotonic_ns()))
        cluster.wait_acked(100)
        return cluster.judge(), cluster.faults


def killed_on_the_way(cluster, victim):
    """It comes by its failpoint, and is started again."""
    chaos.wait_until(f"server {victim.index} comes by restore.mid",
                     lambda: victim.process.status() is not None)
    status = victim.gone()
    if status != -signal.SIGKILL:
        raise chaos.Violation(f"server {victim.index} ended with {status} at restore.mid")
    cluster.faults["failpoint"] += 1
    victim.start()
    victim.wait_ready()


def by_hand(seed, keep=False, durability="log", killed=None):
    """psctl restore: the job goes back although nobody died; or server `killed` on the way."""
    chaos.needs("snapshot-dir", "restore", *(("failpoint",) if killed is not None else ()))
    with shared(2, durability, keep) as cluster:
        for server in cluster.servers:
            server.start(*(("--failpoint", "restore.mid") if server.index == killed else ()))
        for server in cluster.servers:
            server.wait_ready()
        cluster.push()
        cluster.wait_acked(100)
        said, cut = take(cluster)
        cluster.wait_acked(400)
        t0 = time.monotonic_ns()
        patience = "60s" if killed is None else "5s"
        status, _, stderr = cluster.ctl("restore", "--cut", said["name"], "--timeout", patience)
        if killed is not None:
            killed_on_the_way(cluster, cluster.servers[killed])
        elif status != 0:
            raise chaos.Violation(f"psctl restore ended with {status}: {stderr}")
        wait_running(cluster)
        cluster.ways_back.append(history.WayBack(cut, t0, time.monotonic_ns()))
        cluster.faults["restore"] += 1
        # The lines of the time that was given up are longer than those that count.
        again = take(cluster)[0]["name"]
        for server in cluster.servers:
            replay_one(cluster, server, (), again)
        cluster.wait_acked(100)
        for server in cluster.servers:
            server.process.send(signal.SIGKILL)
        for server in cluster.servers:
            server.kill()
            cluster.faults["kill"] += 1
            server.start()
        cluster.wait_acked(50)
        return cluster.judge(), cluster.faults


BULK = 1 << 14  # Floats of a push: some dozens fill a segment of the log.
SETTLED_S = 0.5 * chaos.SLOW


def rot(path):
    """A byte in the middle of a file has changed."""
    with open(path, "r+b") as f:
        f.seek(os.path.getsize(path) // 2)
        byte = f.read(1)[0]
        f.seek(-1, os.SEEK_CUR)
        f.write(bytes([byte ^ 0x10]))


def older(seed, keep=False, durability="log", flags=()):
    """The log reaches back to the oldest snapshot that is kept, whatever befalls the newer ones."""
    chaos.needs("snapshot-dir")
    rng = chaos.rng_of(seed, "older")
    flags = ["--durability", durability, "--snapshot-every", "0", "--snapshot-keep", 2,
             "--log-bytes", "8MiB", *flags]  # A segment is a quarter.
    with chaos.Cluster(2, flags, keep=keep) as cluster:  # Each has its own folder of snapshots.
        cluster.start()
        victim = rng.choice(cluster.servers)
        cluster.push(clients=1, depth=1, interval="5ms")
        names = [take_behind_segments(cluster, victim) for _ in range(3)]
        wait_trimmed(victim)
        while names[-2:] != [os.path.basename(os.path.dirname(p)) for p in parts_of(victim)]:
            names.append(take_behind_segments(cluster, victim))  # One by itself came between.
            wait_trimmed(victim)
        cluster.wait_acked(20)
        victim.kill()
        rot(os.path.join(parts_of(victim)[-1], "ledger.safetensors"))
        cluster.faults["rot"] += 1
        victim.start()
        victim.wait_ready()
        if not victim.process.said("snapshot.passed_over"):
            raise chaos.Violation(f"{victim.process.name} has not seen the damage")
        cluster.wait_acked(20)
        return cluster.judge(), cluster.faults


def segments_of(server):
    return sorted(name for name in os.listdir(f"{server.data_dir}/log") if name.endswith(".log"))


def take_behind_segments(cluster, server):
    """The name of a snapshot; the server's log has grown by some segments before it."""
    bulk = cluster.push(more=("--bulk", BULK))
    for _ in range(2):
        newest = segments_of(server)[-1]
        chaos.wait_until(f"the log of server {server.index} grows by a segment",
                         lambda: segments_of(server)[-1] > newest)
    bulk.send(signal.SIGTERM)  # A log that hardly grows asks for no snapshot.
    bulk.wait()
    return take(cluster)[0]["name"]


def wait_trimmed(server):
    """Too old snapshots are gone, and so is the log that only they needed, a segment at a time."""
    last = [None, time.monotonic()]

    def settled():
        names = (len(parts_of(server)), *segments_of(server))
        if names != last[0] or names[0] != 2:
            last[:] = names, time.monotonic()
        return time.monotonic() - last[1] > SETTLED_S

    chaos.wait_until(f"server {server.index} has removed what is too old", settled)


def parts_of(server):
    """Folders of its parts, oldest first. Its number among servers need not be ours."""
    return sorted(os.path.dirname(path) for path in
                  glob.glob(f"{server.data_dir}/snapshots/*/server-*/PART"))


def generation_of(cluster):
    status, stdout, _ = cluster.ctl("status", "--json", "--timeout", "10s")
    return json.loads(stdout) if status == 0 else {}


def wait_running(cluster):
    """Until the way back is over: a push of a session that began after it is acknowledged."""
    found = collections.Counter(cluster.ways_back)
    generation = len(found) + 2
    chaos.wait_until(f"generation {generation} runs",
                     lambda: generation_of(cluster).get("generation", 0) >= generation
                     and generation_of(cluster).get("job") != "restoring")
    cluster.wait_acked(20)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    chaos_main.add_flags(parser)
    parser.add_argument("--snapshots", type=int, default=100)
    parser.add_argument("--only", help="many, replay, restore, older, back or by hand")
    options = parser.parse_args()
    chaos_main.enter(options)
    seed, keep = options.seed, options.keep
    rigs = [(f"many, from {first + 1} on",
             functools.partial(many, seed + first, min(AT_ONCE, options.snapshots - first),
                               keep=keep))
            for first in range(0, options.snapshots, AT_ONCE)]
    rigs += [("replay", functools.partial(replay, seed, keep=keep))]
    rigs += [(f"restore on {n}", functools.partial(restore, seed, n, keep=keep))
             for n in (1, 2, 3, 5)]
    rigs += [("older", functools.partial(older, seed, keep=keep)),
             ("back", functools.partial(back, seed, keep=keep)),
             ("by hand", functools.partial(by_hand, seed, keep=keep))]
    rigs += [(f"by hand, server {i} at restore.mid",
              functools.partial(by_hand, seed, keep=keep, killed=i)) for i in (1, 0)]
    if options.only:
        rigs = [rig for rig in rigs if rig[0].startswith(options.only)]
    chaos_main.run_all(options, rigs)


if __name__ == "__main__":
    main()
