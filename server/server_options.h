#ifndef PS_SERVER_SERVER_OPTIONS_H
#define PS_SERVER_SERVER_OPTIONS_H
/*
 * server_options.h — what ps-server can be told, as rows of settings.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/id.h"
#include "conf/conf.h"
#include "server.h"

struct ps_server_settings {
    const char *listen;
    const char *advertise;
    const char *coordinator; /* NULL: this server is the coordinator. */
    struct ps_id cluster_id; /* To join; none: any. */
    const char *name;
    const char *data_dir;
    uint32_t durability; /* enum ps_durability; not given: `log` with a data_dir. */
    uint64_t log_bytes;
    const char *snapshot_dir; /* NULL: in the data_dir, if there is one. */
    uint64_t snapshot_every_ms;
    uint32_t snapshot_keep;
    const char *restore_dir;
    uint64_t wait_ms; /* For a server to come back. */
    uint32_t servers;
    uint32_t lanes; /* 0: one per usable CPU, at most 4. */
    uint64_t grace_ms;
    uint64_t silence_ms;
    uint64_t give_up_ms;
    uint64_t memory_max;     /* Bytes of tables and optimizer state; 0: no bound. */
    uint64_t session_memory; /* Bytes under way of one session. */
    uint64_t call_memory;    /* Of all. */
    bool die_with_parent;
    const char *plant;     /* A word of ps_server_plant. */
    const char *failpoint; /* A name of base/failpoint.h, perhaps behind kill- or stop-. */
    uint32_t failpoint_at;
    uint32_t log_level;
};

extern const struct ps_program ps_server_program;

/**
 * What lasts, and how long: rows of ps-server that ps-run has, too, and hands on. They fill a
 * struct ps_server_settings.
 */
extern const struct ps_option_table ps_server_lasting_table;

/** What is asked to last needs a place, and what is about a log needs a log. @return as below */
PS_MUST_CHECK enum ps_status ps_server_lasting_check(const struct ps_conf *conf,
                                                     const struct ps_server_settings *settings,
                                                     struct ps_error *err);

/**
 * The bug of this name.
 * @return PS_ERR_INVALID when there is none of it
 */
PS_MUST_CHECK enum ps_status ps_server_plant(const char *word, enum ps_plant *ret,
                                             struct ps_error *err);

/**
 * Refuse addresses that cannot be, and settings that contradict each other.
 * @return PS_ERR_INVALID with one line that names them and their sources
 */
PS_MUST_CHECK enum ps_status ps_server_options_check(const struct ps_conf *conf,
                                                     const struct ps_server_settings *settings,
                                                     struct ps_error *err);

#endif
