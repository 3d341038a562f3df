#ifndef PS_TOOLS_PSCTL_OPTIONS_H
#define PS_TOOLS_PSCTL_OPTIONS_H
/*
 * psctl_options.h — what psctl can be told: commands and flags, as rows.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"
#include "conf/conf.h"

#define PSCTL_TIMEOUT_MS      3000u
#define PSCTL_TIMEOUT_LONG_MS 600000u /* A large model is written, or read, by every server. */

enum psctl_as {
    PSCTL_AS_NPY,
    PSCTL_AS_TEXT
};

enum psctl_base {
    PSCTL_BASE_AUTO, /* As the training data. */
    PSCTL_BASE_0,
    PSCTL_BASE_1
};

struct psctl_options {
    const char *coordinator;
    struct ps_id cluster_id; /* That it must be; none: any. */
    uint64_t timeout_ms;     /* 0: what suits the command. */
    bool json;
    const char *reason; /* Of shutdown. */
    bool list;          /* With snapshot: only tell which there are. */
    const char *gather; /* With snapshot: where one is collected; NULL: one is taken. */
    const char *cut;    /* Of these: name of a snapshot; NULL: the newest. */
    /* Of replay; NULL when not given. */
    const char *data_dir;
    const char *snapshot_dir;
    const char *from;
    const char *to;
    /* Of a model; NULL when not given. */
    const char *model;
    const char *data;
    const char *output;
    uint32_t as;         /* enum psctl_as */
    uint32_t index_base; /* enum psctl_base */
    uint32_t batch;
    uint64_t max_bad_rows;
};

extern const struct ps_program psctl_program;

#endif
