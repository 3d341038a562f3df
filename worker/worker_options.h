#ifndef PS_WORKER_WORKER_OPTIONS_H
#define PS_WORKER_WORKER_OPTIONS_H
/*
 * worker_options.h — the flags of ps-worker; the training flags are those of ps-run, too.
 *
 * One row per flag (conf/conf.h). ps-run parses the same rows and hands what was given to each
 * worker as it was written, so a training flag means the same in both programs.
 */
#include <stdbool.h>
#include <stdint.h>

#include "conf/conf.h"
#include "train/plan.h"

struct ps_worker_options {
    struct ps_train_options train;
    const char *coordinator; /* HOST:PORT of the server that coordinates. */
    struct ps_id cluster_id; /* None: any. */
    const char *name;        /* For people. */
    const char *out;         /* Folder for the model; NULL: none. */
    const char *report;      /* File for the report; NULL: none. */
    uint32_t log_level;      /* enum ps_log_level */
    bool die_with_parent;
    uint64_t give_up_ms; /* A server silent for so long is lost; 0: as the cluster says. */
    uint64_t grace_ms;   /* From SIGTERM to the end, at most. */
    /* Honoured in test builds only: enum ps_failpoint_place + 1 to kill, then likewise to stop. */
    uint32_t failpoint;
    uint32_t failpoint_at;
};

/** Rows that fill struct ps_train_options. */
extern const struct ps_option_table ps_train_option_table;

extern const struct ps_program ps_worker_program;

/** Set the ..._given fields from what was parsed, and `conf`, which must outlive `train`. */
void ps_train_options_given(const struct ps_conf *conf, struct ps_train_options *train);

#endif
