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

struct ps_server_settings {
    const char *listen;
    const char *advertise;
    const char *coordinator; /* NULL: this server is the coordinator. */
    struct ps_id cluster_id; /* To join; none: any. */
    const char *name;
    const char *data_dir;
    uint32_t servers;
    uint32_t lanes; /* 0: one per usable CPU, at most 4. */
    uint64_t grace_ms;
    uint64_t silence_ms;
    uint64_t give_up_ms;
    uint64_t memory_max;     /* Bytes of tables and optimizer state; 0: no bound. */
    uint64_t session_memory; /* Bytes under way of one session. */
    uint64_t call_memory;    /* Of all. */
    bool die_with_parent;
    enum ps_server_plant_word {
        PS_SERVER_PLANT_NONE,
        PS_SERVER_PLANT_GATE,
        PS_SERVER_PLANT_DEDUPE,
        PS_SERVER_PLANT_MINIMUM
    } plant;
    uint32_t log_level;
};

extern const struct ps_program ps_server_program;

/**
 * Refuse addresses that cannot be, and settings that contradict each other.
 * @return PS_ERR_INVALID with one line that names them and their sources
 */
PS_MUST_CHECK enum ps_status ps_server_options_check(const struct ps_conf *conf,
                                                     const struct ps_server_settings *settings,
                                                     struct ps_error *err);

#endif
