/* server_check.c — settings that are each within their bounds, but not together. */
#include <string.h>

#include "rpc/rpc.h"
#include "server_options.h"

static const char *const plant_words[] = {
    "none",
    "gate-off-by-one",
    "dedupe-off",
    "dead-in-minimum",
    "ack-before-sync",
    "repeat-before-durable",
    "sessions-not-in-cut",
    "sessions-not-replayed",
    "dedupe-without-stream",
    "middle-truncated",
    "rename-before-sync",
    "dir-not-synced",
    "log-trimmed-early",
    "half-applied",
    "reorder-equal-lsn",
    "fence-at-applied",
    "stream-forgotten",
    "progress-after-cut",
    "takeover-clocks",
    "takeover-lends",
    "restore-two-writes",
    "epoch-kept",
};

PS_STATIC_ASSERT(PS_ARRAY_LEN(plant_words) == PS_PLANT_SERVERS_END, "one word each");

enum ps_status ps_server_plant(const char *word, enum ps_plant *ret, struct ps_error *err)
{
    for (size_t i = 0; i < PS_ARRAY_LEN(plant_words); i++) {
        if (strcmp(word, plant_words[i]) == 0) {
            *ret = (enum ps_plant)i;
            return PS_OK;
        }
    }
    return ps_fail(err, PS_ERR_INVALID, "no bug has this name: server/README.md lists them");
}

static enum ps_status check_plant(const struct ps_conf *conf,
                                  const struct ps_server_settings *settings, struct ps_error *err)
{
    struct ps_conf_words words;
    enum ps_plant plant = PS_PLANT_NONE;
    enum ps_status status = ps_server_plant(settings->plant, &plant, err);
    if (status != PS_OK) {
        return ps_wrap(err, status, "%s", ps_conf_say(conf, "plant", &words));
    }
#ifndef PS_PLANT
    if (plant != PS_PLANT_NONE) {
        return ps_fail(err, PS_ERR_INVALID, "%s works in test builds only (-Dplant=true)",
                       ps_conf_say(conf, "plant", &words));
    }
#endif
    return PS_OK;
}

static enum ps_status check_address(const struct ps_conf *conf, const char *name,
                                    const char *address, enum ps_rpc_address_use use,
                                    struct ps_error *err)
{
    struct ps_conf_words words;
    enum ps_status status = address != NULL ? ps_rpc_address_check(address, use, err) : PS_OK;
    return status == PS_OK ? PS_OK : ps_wrap(err, status, "%s", ps_conf_say(conf, name, &words));
}

static bool is_unix(const char *address)
{
    return strncmp(address, "unix:", 5) == 0;
}

static enum ps_status check_addresses(const struct ps_conf *conf,
                                      const struct ps_server_settings *settings,
                                      struct ps_error *err)
{
    struct ps_conf_words words;
    struct ps_conf_words listen;
    enum ps_status status = check_address(conf, "listen", settings->listen, PS_RPC_TO_LISTEN, err);
    if (status == PS_OK) {
        status = check_address(conf, "advertise", settings->advertise, PS_RPC_TO_ADVERTISE, err);
    }
    if (status == PS_OK) {
        status = check_address(conf, "coordinator", settings->coordinator, PS_RPC_TO_DIAL, err);
    }
    if (status != PS_OK) {
        return status;
    }
    if (settings->advertise == NULL && ps_rpc_address_is_any(settings->listen)) {
        return ps_fail(err, PS_ERR_INVALID,
                       "%s is every address of this machine: say with --advertise HOST:PORT what "
                       "others shall dial",
                       ps_conf_say(conf, "listen", &words));
    }
    if (settings->advertise != NULL && is_unix(settings->listen) && !is_unix(settings->advertise)) {
        return ps_fail(err, PS_ERR_INVALID, "%s cannot be dialled: --listen is a unix socket",
                       ps_conf_say(conf, "advertise", &words));
    }
    if (settings->advertise != NULL && is_unix(settings->advertise) && !is_unix(settings->listen)) {
        return ps_fail(err, PS_ERR_INVALID, "%s cannot be dialled: %s is no unix socket",
                       ps_conf_say(conf, "advertise", &words),
                       ps_conf_say(conf, "listen", &listen));
    }
    return PS_OK;
}

/* What only the coordinator is told. */
static enum ps_status check_coordinators(const struct ps_conf *conf,
                                         const struct ps_server_settings *settings,
                                         struct ps_error *err)
{
    static const char *const names[] = {"servers", "wait-for-server", "snapshot-every",
                                        "snapshot-keep"};
    for (size_t i = 0; i < PS_ARRAY_LEN(names); i++) {
        if (settings->coordinator != NULL && ps_conf_given(conf, names[i])) {
            struct ps_conf_words first;
            struct ps_conf_words second;
            return ps_fail(
                err, PS_ERR_INVALID, "%s is for the coordinator, but %s names another server",
                ps_conf_say(conf, names[i], &first), ps_conf_say(conf, "coordinator", &second));
        }
    }
    return PS_OK;
}

enum ps_status ps_server_lasting_check(const struct ps_conf *conf,
                                       const struct ps_server_settings *settings,
                                       struct ps_error *err)
{
    struct ps_conf_words first;
    struct ps_conf_words second;
    bool memory = settings->durability == PS_DURABILITY_MEMORY;
    if (settings->data_dir == NULL && !memory) {
        return ps_fail(err, PS_ERR_INVALID, "%s needs a place for the log: say --data-dir DIR",
                       ps_conf_say(conf, "durability", &first));
    }
    if (ps_conf_given(conf, "log-bytes") && settings->data_dir == NULL) {
        return ps_fail(err, PS_ERR_INVALID, "%s is about the log: say --data-dir DIR, too",
                       ps_conf_say(conf, "log-bytes", &first));
    }
    if (ps_conf_given(conf, "log-bytes") && ps_conf_given(conf, "durability") && memory) {
        return ps_fail(err, PS_ERR_INVALID, "%s is about a log, but there is none with %s",
                       ps_conf_say(conf, "log-bytes", &first),
                       ps_conf_say(conf, "durability", &second));
    }
    if (settings->data_dir != NULL || settings->snapshot_dir != NULL) {
        return PS_OK;
    }
    static const char *const names[] = {"snapshot-every", "snapshot-keep"};
    for (size_t i = 0; i < PS_ARRAY_LEN(names); i++) {
        if (ps_conf_given(conf, names[i])) {
            return ps_fail(
                err, PS_ERR_INVALID,
                "%s needs a place for snapshots: say --snapshot-dir DIR or --data-dir DIR",
                ps_conf_say(conf, names[i], &first));
        }
    }
    return PS_OK;
}

enum ps_status ps_server_options_check(const struct ps_conf *conf,
                                       const struct ps_server_settings *settings,
                                       struct ps_error *err)
{
    struct ps_conf_words first;
    struct ps_conf_words second;
    enum ps_status status = check_plant(conf, settings, err);
    if (status == PS_OK) {
        status = check_addresses(conf, settings, err);
    }
    if (status != PS_OK) {
        return status;
    }
    status = check_coordinators(conf, settings, err);
    if (status == PS_OK) {
        status = ps_server_lasting_check(conf, settings, err);
    }
    if (status != PS_OK) {
        return status;
    }
    if (settings->session_memory > settings->call_memory) {
        return ps_fail(err, PS_ERR_INVALID, "%s is part of %s and cannot be more",
                       ps_conf_say(conf, "session-memory", &first),
                       ps_conf_say(conf, "call-memory", &second));
    }
    if (settings->coordinator == NULL && !ps_id_none(&settings->cluster_id)) {
        return ps_fail(err, PS_ERR_INVALID,
                       "%s is for joining, but this server coordinates: there is no --coordinator",
                       ps_conf_say(conf, "cluster-id", &first));
    }
    return PS_OK;
}
