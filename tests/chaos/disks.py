"""File systems made for a test: of limited size, and one whose power can be cut.

Mounts live in a mount namespace of this process alone, so they are gone with it, however it ends,
and the loop devices with them. `enter` must be called first, before any thread or child.
"""

import contextlib
import ctypes
import os
import shutil
import subprocess
import tempfile
import time

import cluster as chaos

CLONE_NEWNS = 0x00020000
MS_REC, MS_PRIVATE = 0x4000, 0x40000
# What common/os uses for files and for nothing else.
WRITES = "pwrite64,pwritev,pwritev2"
SYNCS = "fdatasync,fsync"


def enter():
    """Have mounts of our own. Skips without root."""
    if os.geteuid() != 0:
        raise chaos.Skip("mounting needs root")
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) != 0:
        raise chaos.Skip(f"no mount namespace: {os.strerror(ctypes.get_errno())}")
    if libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None) != 0:
        raise chaos.Skip(f"mounts cannot be made private: {os.strerror(ctypes.get_errno())}")


def run(*args):
    done = subprocess.run(list(map(str, args)), stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, check=False)
    if done.returncode != 0:
        raise chaos.Skip(f"{' '.join(map(str, args))}: {done.stderr.strip()}")


def has(*programs):
    for program in programs:
        if shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin") is None:
            raise chaos.Skip(f"{program} is not installed")


def unmount(path):
    for _ in range(50):
        if subprocess.run(["umount", path], capture_output=True, check=False).returncode == 0:
            return
        time.sleep(0.1)
    subprocess.run(["umount", "-l", path], capture_output=True, check=False)


@contextlib.contextmanager
def mounted(path, *args):
    os.makedirs(path, exist_ok=True)
    run("mount", *args, path)
    try:
        yield path
    finally:
        unmount(path)


@contextlib.contextmanager
def tmpfs(n_bytes):
    """A folder with room for so many bytes."""
    folder = tempfile.mkdtemp(prefix="ps-chaos-small-")
    try:
        with mounted(f"{folder}/disk", "-t", "tmpfs", "-o", f"size={n_bytes},mode=755", "none"):
            yield f"{folder}/disk"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def injected(calls, what):
    """What a command starts with for such system calls to go wrong, or to be slow."""
    return ["strace", "-f", "--seccomp-bpf", "-qq", "-o", "/dev/null", "-e", f"trace={calls}",
            "-e", f"inject={calls}:{what}"]


def can_trace():
    has("strace")
    done = subprocess.run([*injected(SYNCS, "error=EIO:when=1"), "true"], capture_output=True,
                          text=True, check=False)
    if done.returncode != 0:
        raise chaos.Skip(f"strace: {done.stderr.strip()}")


def slow_syncs(ms):
    """As injected(): a disk that takes at least so long for each sync."""
    if ms == 0:
        return ()
    can_trace()
    return injected(SYNCS, f"delay_enter={ms * 1000}")


def free_bytes(path):
    stat = os.statvfs(path)
    return stat.f_bavail * stat.f_frsize


class PowerCut:
    """A disk image within a file system that can copy it in an instant.

        outer.img (sparse file) = XFS with reflinks = { inner.img = ext4 = the servers' folders,
                                                        cut-1.img, ... }

    A copy holds what the inner file system had written when it was made: of what only its page
    cache knew, nothing. Mounting it replays its journal, as after a power cut.
    """

    OUTER_BYTES = 6 << 30
    INNER_BYTES = 700 << 20

    def __init__(self, inner="ext4"):
        self.inner = inner
        self.stack = contextlib.ExitStack()
        self.n_cuts = 0

    def __enter__(self):
        has("mkfs.xfs", f"mkfs.{self.inner}", "mount")
        if not os.path.exists("/dev/loop-control"):
            raise chaos.Skip("there are no loop devices")
        try:
            self.make()
        except BaseException:
            self.stack.close()
            raise
        return self

    def __exit__(self, *args):
        self.stack.close()

    def make(self):
        self.folder = tempfile.mkdtemp(prefix="ps-chaos-power-")
        self.stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
        outer = f"{self.folder}/outer.img"
        self.sparse(outer, self.OUTER_BYTES)
        run("mkfs.xfs", "-q", "-m", "reflink=1", outer)
        self.outer = self.stack.enter_context(mounted(f"{self.folder}/outer", "-o", "loop", outer))
        self.image = f"{self.outer}/inner.img"
        self.sparse(self.image, self.INNER_BYTES)
        self.make_inner(self.image)
        self.disk = self.stack.enter_context(
            mounted(f"{self.folder}/inner", "-o", "loop", self.image))
        probe = f"{self.outer}/probe.img"
        run("cp", "--reflink=always", self.image, probe)
        os.unlink(probe)

    def make_inner(self, image):
        if self.inner == "ext4":
            run("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", image)
        else:
            run(f"mkfs.{self.inner}", "-q", image)

    @staticmethod
    def sparse(path, n_bytes):
        with open(path, "wb") as f:
            f.truncate(n_bytes)

    @contextlib.contextmanager
    def cut(self):
        """The disk as after a power cut now: (folder, before, after), times of the history."""
        self.n_cuts += 1
        image = f"{self.outer}/cut-{self.n_cuts}.img"
        t0 = time.monotonic_ns()
        run("cp", "--reflink=always", self.image, image)
        t1 = time.monotonic_ns()
        options = "loop,nouuid" if self.inner == "xfs" else "loop"
        try:
            with mounted(f"{self.folder}/cut-{self.n_cuts}", "-o", options, image) as folder:
                yield folder, t0, t1
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(image)
