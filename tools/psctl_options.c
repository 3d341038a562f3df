/* psctl_options.c — see psctl_options.h. */
#include "psctl_options.h"

#include <stddef.h>

#include "base/limits.h"
#include "conf/job.h"

#define AT(field) offsetof(struct psctl_options, field)

static const char *const as_words[] = {
    [PSCTL_AS_NPY] = "npy",
    [PSCTL_AS_TEXT] = "text",
    [PSCTL_AS_TEXT + 1] = NULL,
};

static const char *const base_words[] = {
    [PSCTL_BASE_AUTO] = "auto",
    [PSCTL_BASE_0] = "0",
    [PSCTL_BASE_1] = "1",
    [PSCTL_BASE_1 + 1] = NULL,
};

static const struct ps_option rows[] = {
    {
        .name = "coordinator",
        .unit = "HOST:PORT",
        .help = "The server that coordinates.",
        .group = "Cluster",
        .preset = "127.0.0.1:7070",
        .type = PS_OPTION_STRING,
        .min = 1,
        .max = PS_ADDRESS_BYTES_MAX,
        .offset = AT(coordinator),
    },
    {
        .name = "cluster-id",
        .unit = "HEX",
        .help = "Cluster that it must be, as psctl status shows it.",
        .type = PS_OPTION_ID,
        .offset = AT(cluster_id),
    },
    {
        .name = "timeout",
        .help = "How long to wait for its answer. Preset: 3s; of snapshot and restore 10m.",
        .type = PS_OPTION_DURATION_MS,
        .min = 10,
        .max = 600000,
        .offset = AT(timeout_ms),
    },
    {
        .name = "json",
        .help = "Print one JSON object instead of a table.",
        .type = PS_OPTION_BOOL,
        .offset = AT(json),
    },
    {
        .name = "reason",
        .unit = "TEXT",
        .help = "Why, for the logs of all members, with shutdown.",
        .preset = "psctl shutdown",
        .type = PS_OPTION_STRING,
        .min = 1,
        .max = PS_REASON_BYTES_MAX,
        .offset = AT(reason),
    },
    {
        .name = "list",
        .help = "With snapshot: take none, show which there are.",
        .group = "Snapshots (snapshot, restore)",
        .type = PS_OPTION_BOOL,
        .offset = AT(list),
    },
    {
        .name = "gather",
        .unit = "DIR",
        .help =
            "With snapshot: take none, collect one in this folder, of which each server has its "
            "part.",
        .type = PS_OPTION_STRING,
        .min = 1,
        .max = PS_CONF_TEXT_BYTES_MAX - 1,
        .offset = AT(gather),
    },
    {
        .name = "cut",
        .unit = "NAME",
        .help = "Snapshot to go back to with restore, or to collect with --gather, as snapshot "
                "--list calls it. Preset: the newest.",
        .type = PS_OPTION_STRING,
        .min = 1,
        .max = PS_NAME_BYTES_MAX,
        .offset = AT(cut),
    },
    {
        .name = "data-dir",
        .unit = "DIR",
        .help = "That of one server, whose log is read.",
        .group = "Log (replay)",
        .type = PS_OPTION_STRING,
        .min = 1,
        .max = PS_DIR_BYTES_MAX,
        .offset = AT(data_dir),
    },
    {
        .name = "snapshot-dir",
        .unit = "DIR",
        .help = "Its snapshots. Preset: snapshots in the --data-dir.",
        .type = PS_OPTION_STRING,
        .min = 1,
        .max = PS_DIR_BYTES_MAX,
        .offset = AT(snapshot_dir),
    },
    {
        .name = "from",
        .unit = "NAME",
        .help = "Snapshot to begin with; the word nothing: with empty tables. Preset: nothing if "
                "the log reaches back so far, else the oldest that it can go on from.",
        .type = PS_OPTION_STRING,
        .min = 1,
        .max = PS_NAME_BYTES_MAX,
        .offset = AT(from),
    },
    {
        .name = "to",
        .unit = "NAME",
        .help = "Snapshot to compare with. Preset: the newest.",
        .type = PS_OPTION_STRING,
        .min = 1,
        .max = PS_NAME_BYTES_MAX,
        .offset = AT(to),
    },
    {
        .name = "model",
        .unit = "DIR|FILE",
        .help = "The model that ps-run wrote with --out; without it that of the live cluster. In a "
                "job file only in the section psctl: the other programs call something else so.",
        .group = "Model (predict, eval, export)",
        .type = PS_OPTION_STRING,
        .min = 1,
        .max = PS_CONF_TEXT_BYTES_MAX - 1,
        .offset = AT(model),
    },
    {
        .name = "data",
        .unit = "PATH|NAME",
        .help = "Rows to predict, as --data of ps-run, read as the training data were. Labels may "
                "be missing in prediction. Of images the test set, if there is one.",
        .type = PS_OPTION_STRING,
        .min = 1,
        .max = PS_CONF_TEXT_BYTES_MAX - 1,
        .offset = AT(data),
    },
    {
        .name = "output",
        .unit = "FILE|DIR",
        .help = "File for predictions, else standard output; folder of an export.",
        .type = PS_OPTION_STRING,
        .min = 1,
        .max = PS_CONF_TEXT_BYTES_MAX - 1,
        .offset = AT(output),
    },
    {
        .name = "as",
        .help = "What export writes: NumPy files, or a linear model as lines of feature and "
                "weight.",
        .preset = "npy",
        .words = as_words,
        .type = PS_OPTION_ENUM,
        .offset = AT(as),
    },
    {
        .name = "index-base",
        .help = "Of libsvm: the number of the first feature in --data; auto: as in the training "
                "data.",
        .preset = "auto",
        .words = base_words,
        .type = PS_OPTION_ENUM,
        .offset = AT(index_base),
    },
    {
        .name = "batch",
        .unit = "rows",
        .help = "Rows that are looked at together.",
        .preset = "1024",
        .type = PS_OPTION_U32,
        .min = 1,
        .max = 1u << 20,
        .offset = AT(batch),
    },
    {
        .name = "max-bad-rows",
        .unit = "rows",
        .help = "Lines that cannot be read are skipped and counted, up to so many; one more is an "
                "error. Each prediction then begins with the number of its line.",
        .preset = "0",
        .type = PS_OPTION_U64,
        .offset = AT(max_bad_rows),
    },
};

static const struct ps_option_table table = {rows, PS_ARRAY_LEN(rows)};
static const struct ps_option_use uses[] = {{&table, 0}};

static const struct ps_command commands[] = {
    {"status", "Servers, workers, clocks, leases, how far the job is."},
    {"tables", "Tables, their shapes and rules, where their blocks are."},
    {"snapshot", "Take a snapshot of the whole job now, or list those that there are."},
    {"restore", "The whole job goes back to a snapshot, and on from there."},
    {"replay", "A server's log once more, compared with a snapshot bit by bit."},
    {"shutdown", "End the job: workers stop after their step, then servers end."},
    {"predict", "One line for each row of --data: label and probabilities, or the value."},
    {"eval", "How good the model is on --data: accuracy, log loss, AUC, RMSE, as apply."},
    {"export", "Write the model to --output for other programs."},
};

static const struct ps_exit exits[] = {
    {0, "printed or written, or what was asked for is done"},
    {2, "bad usage, bad data, or another cluster"},
    {4, "the coordinator did not answer, or the cluster is lost"},
    {65, "the model's file or a log is damaged, or replay has found a difference"},
    {74, "a file cannot be read or written"},
    {0, NULL},
};

const struct ps_program psctl_program = {
    .name = "psctl",
    .brief = "look at a parameter server cluster and at trained models",
    .summary = "Looks at a running cluster, or stops it; predicts with models, or exports them.",
    .exits = exits,
    .env_prefix = "PSCTL",
    .uses = uses,
    .n_uses = PS_ARRAY_LEN(uses),
    .n_positional_max = 1,
    .commands = commands,
    .n_commands = PS_ARRAY_LEN(commands),
    .job = ps_job_programs,
};
