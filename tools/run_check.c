/* run_check.c — the flags of ps-run against each other; see run_options.h. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "rpc/rpc.h"
#include "run_options.h"

#define SERVERS_PRESET 2u
#define WORKERS_PRESET 4u

static enum ps_status check_in_process(const struct ps_conf *conf,
                                       const struct ps_run_options *options, struct ps_error *err)
{
    const char *other = options->servers > 1         ? "servers"
                        : options->train.workers > 1 ? "workers"
                        : options->port_base != 0    ? "port-base"
                                                     : NULL;
    const char *why = options->port_base != 0 ? "listens nowhere" : "has no cluster";
    size_t at = 0;
    const char *text = NULL;
    if (other == NULL && ps_conf_next_given(conf, &ps_server_lasting_table, &at, &other, &text)) {
        why = "keeps nothing but the model";
    }
    if (other == NULL) {
        return PS_OK;
    }
    struct ps_conf_words first;
    struct ps_conf_words second;
    return ps_fail(err, PS_ERR_INVALID, "%s and %s contradict each other: one process %s",
                   ps_conf_say(conf, "in-process", &first), ps_conf_say(conf, other, &second), why);
}

void ps_run_listen(const struct ps_run_options *options, uint32_t index, char *ret, size_t n_bytes)
{
    const char *colon = strchr(options->host, ':');
    bool bare = colon != NULL && strchr(colon + 1, ':') != NULL && options->host[0] != '[';
    uint32_t port = options->port_base == 0 ? 0 : options->port_base + index;
    (void)snprintf(ret, n_bytes, "%s%s%s:%" PRIu32, bare ? "[" : "", options->host, bare ? "]" : "",
                   port);
}

static enum ps_status check_host(const struct ps_conf *conf, const struct ps_run_options *options,
                                 struct ps_error *err)
{
    char listen[PS_ADDRESS_BYTES_MAX + 16];
    struct ps_conf_words words;
    ps_run_listen(options, 0, listen, sizeof(listen));
    if (strncmp(options->host, "unix:", 5) ==
        0) { /* With a port behind it, it would be another path. */
        return ps_fail(err, PS_ERR_INVALID, "%s: a name, IPv4 or IPv6 is expected",
                       ps_conf_say(conf, "host", &words));
    }
    enum ps_status status = ps_rpc_address_check(listen, PS_RPC_TO_LISTEN, err);
    return status == PS_OK ? PS_OK : ps_wrap(err, status, "%s", ps_conf_say(conf, "host", &words));
}

enum ps_status ps_run_options_check(const struct ps_conf *conf, struct ps_run_options *options,
                                    struct ps_error *err)
{
    ps_train_options_given(conf, &options->train);
    enum ps_status status =
        options->in_process ? check_in_process(conf, options, err) : check_host(conf, options, err);
    if (status != PS_OK) {
        return status;
    }
    status = ps_server_lasting_check(conf, &options->server, err);
    if (status != PS_OK) {
        return status;
    }
    if (options->in_process) {
        options->servers = 1;
        options->train.workers = 1;
        options->train.prefetch = 0; /* One thread: nothing would happen at the same time. */
        if (options->train.consistency == NULL && !options->train.staleness_given) {
            options->train.consistency = "bsp"; /* Nobody to be apart from. */
        }
    }
    if (options->servers == 0) {
        options->servers = SERVERS_PRESET;
    }
    if (options->train.workers == 0) {
        options->train.workers = WORKERS_PRESET;
    }
    return PS_OK;
}
