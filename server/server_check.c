/* server_check.c — settings that are each within their bounds, but not together. */
#include <string.h>

#include "rpc/rpc.h"
#include "server_options.h"

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

enum ps_status ps_server_options_check(const struct ps_conf *conf,
                                       const struct ps_server_settings *settings,
                                       struct ps_error *err)
{
    struct ps_conf_words first;
    struct ps_conf_words second;
#ifndef PS_PLANT
    if (settings->plant != PS_SERVER_PLANT_NONE) {
        return ps_fail(err, PS_ERR_INVALID, "%s works in test builds only (-Dplant=true)",
                       ps_conf_say(conf, "plant", &first));
    }
#endif
    enum ps_status status = check_addresses(conf, settings, err);
    if (status != PS_OK) {
        return status;
    }
    if (settings->coordinator != NULL && ps_conf_given(conf, "servers")) {
        return ps_fail(
            err, PS_ERR_INVALID, "%s is for the coordinator, but %s names another server",
            ps_conf_say(conf, "servers", &first), ps_conf_say(conf, "coordinator", &second));
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
