/* client_scan.c — all rows of a sparse table, one room full after the other. */
#include <ps/client.h>

#include "base/error.h"
#include "client/lib/client_impl.h"

static void run_scan(struct ps_client_call *call)
{
    ps_session_scan(call->client->session, &call->as.scan);
}

static enum ps_status check_scan(const struct ps_client *client, const struct ps_scan *scan,
                                 struct ps_error *err)
{
    enum ps_status status = PS_CLIENT_CHECK(err, client, scan);
    if (status == PS_OK && (scan->keys == NULL || scan->values == NULL || scan->n_room == 0)) {
        return ps_fail(err, PS_ERR_INVALID, "a scan needs room for keys and values");
    }
    return status;
}

enum ps_status ps_client_scan(struct ps_client *client, struct ps_scan *scan, struct ps_error *err)
{
    struct ps_error own;
    err = err != NULL ? err : &own;
    enum ps_status status = check_scan(client, scan, err);
    if (status != PS_OK) {
        return status;
    }
    ps_client_lock(client);
    struct ps_client_call *call = ps_client_call_take(client, err);
    status = call != NULL ? PS_OK : err->status;
    if (call != NULL) {
        call->as.scan = (struct ps_scan_op){.table = scan->table,
                                            .skip_zeros = scan->skip_zeros,
                                            .keys = scan->keys,
                                            .values = scan->values,
                                            .n_room = scan->n_room,
                                            .at = scan->at};
        ps_client_call_post(call, run_scan);
        status = ps_client_call_wait(call, err);
        if (status == PS_OK) {
            scan->n = call->as.scan.ret_n;
            scan->done = call->as.scan.ret_done;
            scan->min_clock = call->as.scan.ret_min_clock;
            scan->at = call->as.scan.at;
        }
        ps_client_call_drop(call);
    }
    ps_client_unlock(client);
    return status;
}
