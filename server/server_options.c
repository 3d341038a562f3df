/* server_options.c — see server_options.h. */
#include "server_options.h"

#include "base/limits.h"
#include "conf/job.h"
#include "obs/log.h"

#define AT(field) .offset = offsetof(struct ps_server_settings, field)

static const char *const durability_words[] = {"memory", "log", "fsync", NULL};

PS_STATIC_ASSERT(PS_ARRAY_LEN(durability_words) == PS_DURABILITY_FSYNC + 2, "one word each");

static const struct ps_option lasting_rows[] = {
    {
        .name = "data-dir",
        .unit = "DIR",
        .group = "What lasts",
        .help = "Folder of this server's own, for its log and, at the coordinator, the cluster. "
                "Started again with the same one, it goes on. Without it nothing outlives the "
                "process but snapshots.",
        .type = PS_OPTION_STRING,
        .min = 1,
        .max = PS_DIR_BYTES_MAX,
        AT(data_dir),
    },
    {
        .name = "durability",
        .help =
            "A push is acknowledged when it is applied (memory), written to the log file, which "
            "outlives the process (log), or on the disk, which outlives the power (fsync). "
            "Preset: log with --data-dir, memory without.",
        .type = PS_OPTION_ENUM,
        .words = durability_words,
        AT(durability),
    },
    {
        .name = "log-bytes",
        .help = "A log longer than this asks for a snapshot, behind which it can be cut off.",
        .type = PS_OPTION_BYTES,
        .min = PS_LOG_BYTES_LEAST,
        .preset = "1GiB",
        AT(log_bytes),
    },
    {
        .name = "snapshot-dir",
        .unit = "DIR",
        .help = "Folder for snapshots, shared by all servers or this one's own. Preset: snapshots "
                "in the --data-dir.",
        .type = PS_OPTION_STRING,
        .min = 1,
        .max = PS_DIR_BYTES_MAX,
        AT(snapshot_dir),
    },
    {
        .name = "snapshot-every",
        .help =
            "How often the coordinator has a snapshot taken; 0: only when one is asked for or a "
            "log is full.",
        .type = PS_OPTION_DURATION_MS,
        .preset = "10m",
        AT(snapshot_every_ms),
    },
    {
        .name = "snapshot-keep",
        .help = "Complete snapshots to keep.",
        .type = PS_OPTION_U32,
        .min = 1,
        .max = PS_SNAPSHOTS_KEPT_MAX,
        .preset = "2",
        AT(snapshot_keep),
    },
    {
        .name = "restore",
        .unit = "DIR",
        .help = "Begin with the newest complete snapshot in this folder, of any number of servers.",
        .type = PS_OPTION_STRING,
        .min = 1,
        .max = PS_DIR_BYTES_MAX,
        AT(restore_dir),
    },
    {
        .name = "wait-for-server",
        .help = "How long the job waits for a server that is gone and can come back with what it "
                "had.",
        .type = PS_OPTION_DURATION_MS,
        .min = 1000,
        .max = PS_WAIT_SERVER_MS_MAX,
        .preset = "2m",
        AT(wait_ms),
    },
};

const struct ps_option_table ps_server_lasting_table = {
    .rows = lasting_rows,
    .n_rows = PS_ARRAY_LEN(lasting_rows),
};

static const struct ps_option rows[] = {
    {
        .name = "listen",
        .unit = "ADDR",
        .group = "Addresses",
        .help = "Address to serve: host:port, [ipv6]:port or unix:/path. Port 0 picks one; 0.0.0.0 "
                "and [::] are every address of this machine.",
        .type = PS_OPTION_STRING,
        .min = 1,
        .max = PS_ADDRESS_BYTES_MAX,
        .preset = "127.0.0.1:7070",
        AT(listen),
    },
    {
        .name = "advertise",
        .unit = "ADDR",
        .help = "What others dial to reach this server, when it is not the address it listens on. "
                "Port 0 is the port of --listen.",
        .type = PS_OPTION_STRING,
        .min = 1,
        .max = PS_ADDRESS_BYTES_MAX,
        AT(advertise),
    },
    {
        .name = "coordinator",
        .unit = "ADDR",
        .help = "Server that coordinates. Without it this server does so itself.",
        .type = PS_OPTION_STRING,
        .min = 1,
        .max = PS_ADDRESS_BYTES_MAX,
        AT(coordinator),
    },
    {
        .name = "cluster-id",
        .unit = "HEX",
        .help = "Cluster to join, as psctl status shows it; another one is refused.",
        .type = PS_OPTION_ID,
        AT(cluster_id),
    },
    {
        .name = "name",
        .unit = "NAME",
        .help = "How logs, metrics and psctl call this server.",
        .word = true,
        .type = PS_OPTION_STRING,
        .min = 1,
        .max = PS_NAME_BYTES_MAX,
        .preset = "server",
        AT(name),
    },
    {
        .name = "servers",
        .group = "Cluster",
        .help = "Servers that the coordinator waits for before it places the slots.",
        .type = PS_OPTION_U32,
        .min = 1,
        .max = PS_SERVERS_MAX,
        .preset = "1",
        AT(servers),
    },
    {
        .name = "grace",
        .help = "How long a member whose stream broke may take to return.",
        .type = PS_OPTION_DURATION_MS,
        .min = 50,
        .max = 3600000,
        .preset = "1s",
        AT(grace_ms),
    },
    {
        .name = "silence",
        .help = "A member that says nothing for so long is dead.",
        .type = PS_OPTION_DURATION_MS,
        .min = 1000,
        .max = 3600000,
        .preset = "5s",
        AT(silence_ms),
    },
    {
        .name = "give-up",
        .help = "A coordinator that says nothing for so long is lost; three times as long before "
                "this server has joined.",
        .type = PS_OPTION_DURATION_MS,
        .min = 1000,
        .max = 3600000,
        .preset = "10s",
        AT(give_up_ms),
    },
    {
        .name = "lanes",
        .group = "Resources",
        .help = "Owner threads for the slots; 0: one per usable CPU, at most 4.",
        .type = PS_OPTION_U32,
        .max = PS_LANES_MAX,
        .preset = "0",
        AT(lanes),
    },
    {
        .name = "memory-max",
        .help = "Budget for weights and optimizer state; tables beyond it are refused. 0: three "
                "quarters of what the machine or its control group has.",
        .type = PS_OPTION_BYTES,
        .preset = "0",
        AT(memory_max),
    },
    {
        .name = "session-memory",
        .help = "Calls and weights on their way of one session; beyond it, it is told to wait.",
        .type = PS_OPTION_BYTES,
        .min = 4ull * PS_MESSAGE_BYTES_MAX,
        .preset = "64MiB",
        AT(session_memory),
    },
    {
        .name = "call-memory",
        .help = "The same of all sessions together, shared evenly when it gets tight.",
        .type = PS_OPTION_BYTES,
        .min = PS_CALLS_BYTES_LEAST,
        .preset = "512MiB",
        AT(call_memory),
    },
    {
        .name = "die-with-parent",
        .group = "Process",
        .help = "End when the process that started this one ends, however it does.",
        .type = PS_OPTION_BOOL,
        AT(die_with_parent),
    },
    {
        .name = "log-level",
        .help = "Events to log.",
        .type = PS_OPTION_ENUM,
        .words = ps_log_level_words,
        .preset = "info",
        AT(log_level),
    },
    {
        .name = "plant",
        .help = "Test builds only: have this bug.",
        .unit = "NAME",
        .type = PS_OPTION_STRING,
        .preset = "none",
        AT(plant),
    },
    {
        .name = "failpoint",
        .unit = "NAME",
        .help = "Test builds only: kill (NAME, kill-NAME) or stop (stop-NAME) this process there.",
        .type = PS_OPTION_STRING,
        .preset = "none",
        AT(failpoint),
    },
    {
        .name = "failpoint-at",
        .help = "Test builds only: not before it has been there so often.",
        .unit = "occasions",
        .type = PS_OPTION_U32,
        .min = 1,
        .preset = "1",
        AT(failpoint_at),
    },
};

static const struct ps_option_table table = {.rows = rows, .n_rows = PS_ARRAY_LEN(rows)};
static const struct ps_option_use uses[] = {
    {.table = &table, .offset = 0},
    {.table = &ps_server_lasting_table, .offset = 0},
};

static const struct ps_exit exits[] = {
    {0, "stopped"},       {2, "bad usage"},   {4, "cluster lost"},
    {65, "damaged file"}, {74, "disk error"}, {0, NULL},
};

const struct ps_program ps_server_program = {
    .name = "ps-server",
    .brief = "parameter server",
    .summary =
        "Holds slots of a model: answers pulls, applies pushes exactly once. One server of a "
        "cluster is its coordinator.",
    .notes =
        "Prints `ready address=HOST:PORT` to standard output once it serves; a coordinator adds "
        "`cluster=HEX`.",
    .exits = exits,
    .env_prefix = "PS_SERVER",
    .uses = uses,
    .job = ps_job_programs,
    .n_uses = PS_ARRAY_LEN(uses),
};
