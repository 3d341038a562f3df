/* psctl_options.c — see psctl_options.h. */
#include "psctl_options.h"

#include <stddef.h>

#include "base/limits.h"
#include "conf/job.h"

#define AT(field) offsetof(struct psctl_options, field)

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
        .help = "How long to wait for its answer.",
        .preset = "3s",
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
};

static const struct ps_option_table table = {rows, PS_ARRAY_LEN(rows)};
static const struct ps_option_use uses[] = {{&table, 0}};

static const struct ps_command commands[] = {
    {"status", "Servers, workers, clocks, leases, how far the job is."},
    {"tables", "Tables, their shapes and rules, where their blocks are."},
    {"shutdown", "End the job: workers stop after their step, then servers end."},
};

static const struct ps_exit exits[] = {
    {0, "printed, or everybody was told to stop"},
    {2, "bad usage, or another cluster"},
    {4, "the coordinator did not answer"},
    {0, NULL},
};

const struct ps_program psctl_program = {
    .name = "psctl",
    .brief = "look at or stop a running parameter server cluster",
    .summary = "Looks at a running cluster, or stops it.",
    .exits = exits,
    .env_prefix = "PSCTL",
    .uses = uses,
    .n_uses = PS_ARRAY_LEN(uses),
    .n_positional_max = 1,
    .commands = commands,
    .n_commands = PS_ARRAY_LEN(commands),
    .job = ps_job_programs,
};
