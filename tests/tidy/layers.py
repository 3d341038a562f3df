"""The walls of the house as data: who may include whom, and who may use what.

A part is a folder with sources. A part includes itself and the parts named here, nothing else. To
add a folder, add a line; to open a door, change a line, and expect to be asked why.
"""

COMMON_BELOW_RPC = ["base", "num", "cluster", "port", "os", "format", "conf", "obs", "wire"]
COMMON = COMMON_BELOW_RPC + ["rpc"]
SERVER = ["table", "optim", "slot", "gate", "log", "snap", "coord", "svc"]
WORKER = ["client", "include", "lib", "data", "model", "train"]

# Folder -> the parts that it may include, by the short name that stands in an #include.
LAYERS = {
    "common/base": [],
    "common/num": ["base"],
    "common/cluster": ["base"],
    "common/port": ["base"],
    "common/os": ["base", "port"],
    "common/format": ["base", "port"],
    "common/conf": ["base", "os"],
    "common/obs": ["base", "os"],
    "common/wire": ["base", "num"],
    "common/rpc": ["base", "port", "os", "obs", "wire"],
    "server/table": ["base", "num"],
    "server/optim": ["base", "num"],
    "server/gate": ["base"],
    "server/slot": ["base", "num", "cluster", "table", "optim", "gate", "port", "obs", "wire"],
    # Of slot the shape of a record and of a committer, nothing that runs.
    "server/log": ["base", "num", "port", "obs", "wire", "slot"],
    # Of coord what a keeper of cuts is, nothing that runs.
    "server/snap": ["base", "num", "port", "format", "obs", "wire", "table", "slot", "log",
                    "coord"],
    "server/coord": ["base", "cluster", "port", "obs", "wire"],
    "server/svc": ["base", "num", "cluster", "port", "obs", "wire",
                   "table", "optim", "slot", "gate", "snap", "coord"],
    # Public headers, <ps/client.h>: what a session is made for, and all that worker/train sees.
    "worker/client/include": ["base"],
    "worker/client": ["base", "num", "cluster", "port", "wire", "obs", "include"],
    "worker/client/lib": COMMON + ["client", "include"],
    "worker/data": ["base", "num", "os"],
    "worker/model": ["base", "num"],
    "worker/train": ["base", "conf", "num", "port", "os", "format", "obs", "include", "data",
                     "model"],
    # Composition roots: they put the parts together.
    "server": COMMON + SERVER,
    "worker": COMMON + WORKER,
    "tools": COMMON + SERVER + WORKER + ["server", "worker"],
}

# Within an allowed part, what a part has no business with.
NOT_EVEN = {
    # Files, yes; but the cluster is reached through <ps/client.h> as by any other program.
    "worker/train": [r"^port/(?!disk\.h$)", r"\.pb-c\.h$"],
    "server/log": [r"^slot/(?!(record|commit)\.h$)", r"\.pb-c\.h$"],
}

# A pure core is stricter than its folder: state and events only, so nothing that could wait,
# allocate, or know the time. Its own folder's headers are allowed.
CORE_MAY_INCLUDE = ["base", "num", "cluster", "table", "optim"]
# The client's core cuts a step into the calls of the wire; wire is pure, too.
CORE_MAY_ALSO = {"worker/client": ["wire"]}
CORE_MAY_NOT_INCLUDE = [
    r"^base/mem\.h$", r"^pthread\.h$", r"^time\.h$", r"^threads\.h$", r"^unistd\.h$",
    r"^fcntl\.h$", r"^poll\.h$", r"^sys/", r"^netinet/", r"^arpa/", r"^stdatomic\.h$",
    r"\.pb-c\.h$",
]

# Headers of foreign libraries -> the folders that may know the library. `tests/unit/<folder>` of
# an allowed folder may, too.
FOREIGN = [
    (r"^grpc(/|pp/|\+\+/)", ["common/rpc"]),
    (r"^uv\.h$", ["common/os"]),
    (r"^yaml\.h$", ["common/conf"]),
    (r"^cblas\.h$|^openblas", ["common/num"]),
    # Generated structs of the cold messages: whoever talks with the coordinator.
    (r"^protobuf-c/|\.pb-c\.h$", ["common/wire", "server/coord", "server/svc", "worker/client",
                                  "server", "worker", "tools", "tests"]),
    # What reflection answers.
    (r"^ps_descriptors\.h$", ["server/svc", "tests"]),
    (r"^xxhash\.h$", ["common/num"]),
    (r"^zlib\.h$", ["common/os", "worker/data"]),
    (r"^zstd\.h$", ["worker/data"]),
    (r"^check\.h$", ["tests"]),
]

# Headers that the build makes: no file of the tree.
GENERATED = r"\.pb-c\.h$|^ps_descriptors\.h$"

# Where the sources of an #include "folder/file.h" may be.
INCLUDE_ROOTS = ["common", "common/include", "server", "worker", "worker/client/include", "tests",
                 "tools", "."]

# Calls that have no place -> the files that are the exception, each for the reason given.
BANNED = [
    (["strcpy", "strcat", "sprintf", "vsprintf", "strtok", "gets", "alloca"],
     [], "writes without a bound"),
    (["atoi", "atol", "atof"], [], "cannot say that the text was no number; see conf/number.h"),
    (["rand", "srand", "random", "drand48"], [], "is no function of the seed; see base/rng.h"),
    (["system", "popen"], [], "runs a shell; see os/child.h"),
    (["getenv", "secure_getenv"],
     ["common/conf/env.c", "tests/"], "reads the environment; see conf/env.h"),
    (["malloc", "calloc", "realloc", "free", "strdup", "strndup", "asprintf", "vasprintf",
      "posix_memalign", "aligned_alloc"],
     ["common/base/mem.c", "tests/"], "is not counted; see base/mem.h"),
    (["time", "clock", "clock_gettime", "gettimeofday"],
     ["common/os/", "tests/"], "asks this machine for the time; see port/exec.h, os/clock.h"),
    (["sleep", "usleep", "nanosleep", "clock_nanosleep"],
     ["common/os/", "tests/integration/"], "waits for time, not for the event"),
    (["abort", "exit", "_exit", "quick_exit"],
     ["common/base/assert.c", "common/os/child.c", "tests/"],
     "ends a process that belongs to somebody else; return a status"),
]

# Sizes: where growth ends.
FILE_LINES_MAX = 800
FUNCTION_LINES_MAX = 70
COLUMNS_MAX = 100
TABLE_COLUMNS_MAX = 150
HEADER_COMMENT_LINES_MAX = 24  # Aim at 12; a picture of states may need the rest.

# Folders that need a README.md beside those of the table.
README_FOLDERS = ["proto", "tests", "tests/sim", "tools"]
