#ifndef PS_TOOLS_RUN_OPTIONS_H
#define PS_TOOLS_RUN_OPTIONS_H
/*
 * run_options.h — the flags of ps-run: those of training (worker_options.h) and those of a cluster
 * on this machine.
 */
#include <stdbool.h>
#include <stdint.h>

#include "conf/conf.h"
#include "server_options.h"
#include "worker_options.h"

struct ps_run_options {
    struct ps_train_options train;
    struct ps_server_settings server; /* Of it what lasts: ps_server_lasting_table. */
    const char *host;                 /* Of every listener. */
    const char *out;                  /* Folder for the model; NULL: none. */
    const char *report;               /* File; NULL: none. */
    uint32_t servers;
    uint32_t port_base; /* Server i listens on port_base + i; 0: free ports. */
    uint32_t log_level;
    bool in_process;
    bool json;
};

extern const struct ps_program ps_run_program;

/**
 * Fill in what was not given and refuse what contradicts itself; touches no file.
 * @return PS_ERR_INVALID with one line
 */
PS_MUST_CHECK enum ps_status ps_run_options_check(const struct ps_conf *conf,
                                                  struct ps_run_options *options,
                                                  struct ps_error *err);

/** What server `index` is told to listen on. */
void ps_run_listen(const struct ps_run_options *options, uint32_t index, char *ret, size_t n_bytes);

#endif
