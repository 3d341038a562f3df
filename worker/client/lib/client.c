/* client.c — see <ps/client.h>. Arguments in, results out; who waits how is in client_wait.c. */
#include <inttypes.h>
#include <string.h>

#include <ps/client.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/limits.h"
#include "client/lib/client_impl.h"
#include "obs/log.h"
#include "os/clock.h"

const char *ps_client_version(void)
{
    return PS_VERSION;
}

void ps_client_log_to(void (*write)(void *arg, const char *line), void *arg)
{
    ps_log_to(write, arg);
    ps_log_level_set(write != NULL ? PS_LOG_INFO : PS_LOG_NONE);
}

enum ps_status ps_client_check_pointers(struct ps_error *err, const char *names,
                                        const void *const *pointers, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (pointers[i] == NULL) {
            return ps_fail(err, PS_ERR_INVALID, "%.*s is NULL", (int)strcspn(names, ","), names);
        }
        names += strcspn(names, ",");
        names += strspn(names, ", ");
    }
    return PS_OK;
}

/* ---- Definitions --------------------------------------------------------------------------- */

static void run_describe(struct ps_client_call *call)
{
    ps_session_describe(call->client->session, &call->as.op);
}

static void run_look(struct ps_client_call *call)
{
    ps_session_look(call->client->session, &call->as.look);
}

static void run_define_table(struct ps_client_call *call)
{
    ps_session_define_table(call->client->session, &call->as.define_table);
}

static void run_define_job(struct ps_client_call *call)
{
    ps_session_define_job(call->client->session, &call->as.define_job);
}

/* On the executor: the catalogue is the session's. */
static void find_table(struct ps_client_call *call)
{
    const struct ps_table *table = ps_session_table(call->client->session, call->name);
    call->table = call->as.op.err.status == PS_OK && table != NULL ? *table : (struct ps_table){0};
}

static void run_shutdown(struct ps_client_call *call)
{
    ps_session_shutdown(call->client->session, &call->as.shutdown);
}

static enum ps_status check_table(const struct ps_table_def *def, struct ps_error *err)
{
    if (def->name == NULL) {
        return ps_fail(err, PS_ERR_INVALID, "a table needs a name");
    }
    if (def->width != 0 && def->n_dims != 0) {
        return ps_fail(
            err, PS_ERR_INVALID,
            "table '%.64s' has a width, so it is sparse, and %u dimensions, so it is not",
            def->name, def->n_dims);
    }
    if (def->width == 0 && (def->n_dims == 0 || def->n_dims > PS_DIMS_MAX)) {
        return ps_fail(err, PS_ERR_INVALID, "table '%.64s' has %u dimensions; 1 to %u are possible",
                       def->name, def->n_dims, PS_DIMS_MAX);
    }
    return PS_OK;
}

/* What zero stands for, as <ps/types.h> says. */
static struct ps_table_def with_presets(const struct ps_table_def *def)
{
    struct ps_table_def full = *def;
    full.optimizer = def->optimizer != NULL ? def->optimizer : "sgd";
    bool adam = strcmp(full.optimizer, "adam") == 0 || strcmp(full.optimizer, "adamw") == 0;
    if (full.epsilon > 0.0f || full.epsilon < 0.0f ||
        !(adam || strcmp(full.optimizer, "adagrad") == 0)) {
        return full;
    }
    full.epsilon = 1e-8f;
    if (adam) {
        full.beta1 = full.beta1 > 0.0f || full.beta1 < 0.0f ? full.beta1 : 0.9f;
        full.beta2 = full.beta2 > 0.0f || full.beta2 < 0.0f ? full.beta2 : 0.999f;
    }
    return full;
}

enum ps_status ps_client_define_table(struct ps_client *client, const struct ps_table_def *def,
                                      struct ps_table *ret, struct ps_error *err)
{
    struct ps_error own;
    err = err != NULL ? err : &own;
    enum ps_status status = PS_CLIENT_CHECK(err, client, def);
    if (status == PS_OK) {
        status = check_table(def, err);
    }
    if (status != PS_OK) {
        return status;
    }
    struct ps_table_def full = with_presets(def);
    ps_client_lock(client);
    struct ps_client_call *call = ps_client_call_take(client, err);
    status = call != NULL ? PS_OK : err->status;
    if (call != NULL) {
        call->as.define_table = (struct ps_define_table_op){.def = &full};
        call->name = def->name;
        call->ended = find_table;
        ps_client_call_post(call, run_define_table);
        status = ps_client_call_wait(call, err);
        if (status == PS_OK && ret != NULL) {
            *ret = call->table;
        }
        ps_client_call_drop(call);
    }
    ps_client_unlock(client);
    return status;
}

enum ps_status ps_client_table(struct ps_client *client, const char *name, struct ps_table *ret,
                               struct ps_error *err)
{
    struct ps_error own;
    err = err != NULL ? err : &own;
    enum ps_status status = PS_CLIENT_CHECK(err, client, name, ret);
    if (status != PS_OK) {
        return status;
    }
    ps_client_lock(client);
    struct ps_client_call *call = ps_client_call_take(client, err);
    status = call != NULL ? PS_OK : err->status;
    if (call != NULL) {
        call->as.op = (struct ps_op){0};
        call->name = name;
        call->ended = find_table;
        ps_client_call_post(call, run_describe);
        status = ps_client_call_wait(call, err);
        if (status == PS_OK && call->table.name[0] == '\0') {
            status = ps_fail(err, PS_ERR_NOT_FOUND, "the cluster has no table '%.64s'", name);
        } else if (status == PS_OK) {
            *ret = call->table;
        }
        ps_client_call_drop(call);
    }
    ps_client_unlock(client);
    return status;
}

/* Its texts are the caller's and not kept. */
static void keep_job(struct ps_client *client, const struct ps_job_def *def)
{
    client->job = *def;
    client->job.model = NULL;
    client->job.data = NULL;
    client->job.setup = NULL;
}

static enum ps_status check_job(const struct ps_job_def *def, struct ps_error *err)
{
    if (def->shuffle && def->rows > UINT32_MAX) {
        return ps_fail(err, PS_ERR_INVALID, "at most %" PRIu32 " rows can be shuffled", UINT32_MAX);
    }
    if (def->setup != NULL && strlen(def->setup) > PS_SETUP_BYTES_MAX) {
        return ps_fail(err, PS_ERR_INVALID, "setup has at most %u bytes, not %zu",
                       PS_SETUP_BYTES_MAX, strlen(def->setup));
    }
    return PS_OK;
}

enum ps_status ps_client_define_job(struct ps_client *client, const struct ps_job_def *def,
                                    struct ps_error *err)
{
    struct ps_error own;
    err = err != NULL ? err : &own;
    enum ps_status status = PS_CLIENT_CHECK(err, client, def);
    if (status == PS_OK) {
        status = check_job(def, err);
    }
    if (status != PS_OK) {
        return status;
    }
    struct ps_job_def full = *def;
    if (full.consistency.mode == PS_CONSISTENCY_NONE) {
        full.consistency.mode = PS_CONSISTENCY_BSP;
    }
    ps_client_lock(client);
    struct ps_client_call *call = ps_client_call_take(client, err);
    status = call != NULL ? PS_OK : err->status;
    if (call != NULL) {
        call->as.define_job = (struct ps_define_job_op){.def = &full};
        ps_client_call_post(call, run_define_job);
        status = ps_client_call_wait(call, err);
        if (status == PS_OK) {
            keep_job(client, &full);
        }
        ps_client_call_drop(call);
    }
    ps_client_unlock(client);
    return status;
}

enum ps_status ps_client_describe(struct ps_client *client, struct ps_cluster **ret,
                                  struct ps_error *err)
{
    struct ps_error own;
    err = err != NULL ? err : &own;
    enum ps_status status = PS_CLIENT_CHECK(err, client, ret);
    if (status != PS_OK) {
        return status;
    }
    ps_client_lock(client);
    struct ps_client_call *call = ps_client_call_take(client, err);
    status = call != NULL ? PS_OK : err->status;
    if (call != NULL) {
        call->as.look = (struct ps_look_op){0};
        ps_client_call_post(call, run_look);
        status = ps_client_call_wait(call, err);
        if (status == PS_OK) {
            *ret = call->as.look.ret_cluster;
        }
        ps_client_call_drop(call);
    }
    ps_client_unlock(client);
    return status;
}

enum ps_status ps_client_shutdown(struct ps_client *client, const char *reason,
                                  struct ps_error *err)
{
    struct ps_error own;
    err = err != NULL ? err : &own;
    enum ps_status status = PS_CLIENT_CHECK(err, client);
    if (status != PS_OK) {
        return status;
    }
    ps_client_lock(client);
    struct ps_client_call *call = ps_client_call_take(client, err);
    status = call != NULL ? PS_OK : err->status;
    if (call != NULL) {
        call->as.shutdown = (struct ps_shutdown_op){.reason = reason};
        ps_client_call_post(call, run_shutdown);
        status = ps_client_call_wait(call, err);
        ps_client_call_drop(call);
    }
    ps_client_unlock(client);
    return status;
}

/* ---- Pull and push ------------------------------------------------------------------------- */

static void run_pull(struct ps_client_call *call)
{
    ps_session_pull(call->client->session, &call->as.pull);
}

static void run_push(struct ps_client_call *call)
{
    ps_session_push(call->client->session, &call->as.push);
}

static void run_push_pull(struct ps_client_call *call)
{
    ps_session_push_pull(call->client->session, &call->as.push, &call->pull->as.pull);
}

static enum ps_status check_start(const struct ps_tensor *tensors, uint32_t n_tensors,
                                  const void *under_way, struct ps_error *err)
{
    if (under_way != NULL) {
        return ps_fail(err, PS_ERR_INVALID, "it is under way already: wait for it first");
    }
    if (tensors == NULL && n_tensors > 0) {
        return ps_fail(err, PS_ERR_INVALID, "%u tensors at NULL", n_tensors);
    }
    return PS_OK;
}

static enum ps_status check_keyed(const struct ps_keyed *keyed, uint32_t n_keyed,
                                  struct ps_error *err)
{
    return keyed != NULL || n_keyed == 0
               ? PS_OK
               : ps_fail(err, PS_ERR_INVALID, "rows of %u tables at NULL", n_keyed);
}

static enum ps_status check_pull(const struct ps_client *client, const struct ps_pull *pull,
                                 struct ps_error *err)
{
    enum ps_status status = PS_CLIENT_CHECK(err, client, pull);
    if (status == PS_OK) {
        status = check_start(pull->tensors, pull->n_tensors, pull->under_way, err);
    }
    return status == PS_OK ? check_keyed(pull->keyed, pull->n_keyed, err) : status;
}

static enum ps_status check_push(const struct ps_client *client, const struct ps_push *push,
                                 struct ps_error *err)
{
    enum ps_status status = PS_CLIENT_CHECK(err, client, push);
    if (status == PS_OK && client->reader) {
        return ps_fail(err, PS_ERR_DENIED, "a reader does not push: open a worker");
    }
    if (status == PS_OK) {
        status = check_start(push->tensors, push->n_tensors, push->under_way, err);
    }
    return status == PS_OK ? check_keyed(push->keyed, push->n_keyed, err) : status;
}

/* Servers can't tell whose a lease is: it passes on, and its pushes stay the same. */
static enum ps_status check_lease(const struct ps_client *client, const struct ps_push_op *push,
                                  struct ps_error *err)
{
    const struct ps_view *view = &client->view;
    /* A unit that was handed out is finished, also when a job that is stopped takes its lease. */
    bool handed_out = push->stream == client->work.lease.id;
    const struct ps_lease *lease = handed_out ? &client->work.lease : &view->lease;
    if (push->stream == 0) {
        return PS_OK;
    }
    if (push->stream != lease->id && (view->job == PS_JOB_DONE || view->job == PS_JOB_STOPPED)) {
        return ps_fail(err, PS_ERR_CANCELED, "the job is over: no lease is held any more");
    }
    if (push->stream != lease->id) {
        return ps_fail(err, PS_ERR_INVALID,
                       "stream %" PRIu64 " is not the lease that is held (%" PRIu64 "; 0: none)",
                       push->stream, lease->id);
    }
    uint32_t n_units = lease->n_units != 0 ? lease->n_units : PS_PART_UNITS_MAX;
    if (push->sequence >= n_units) {
        return ps_fail(err, PS_ERR_INVALID,
                       "lease %" PRIu64 " has %" PRIu32 " units%s; there is no unit %" PRIu64,
                       lease->id, n_units, lease->n_units != 0 ? "" : " at most", push->sequence);
    }
    return PS_OK;
}

static struct ps_client_call *take_pull(struct ps_client *client, struct ps_pull *pull,
                                        struct ps_error *err)
{
    struct ps_client_call *call = ps_client_call_take(client, err);
    if (call != NULL) {
        call->as.pull = (struct ps_pull_op){.step = pull->step,
                                            .no_clock = pull->no_clock || client->reader,
                                            .tensors = pull->tensors,
                                            .n_tensors = pull->n_tensors,
                                            .keyed = pull->keyed,
                                            .n_keyed = pull->n_keyed};
        pull->under_way = call;
        call->under_way = &pull->under_way;
    }
    return call;
}

static struct ps_push_op push_op(const struct ps_push *push)
{
    struct ps_push_op op = {.stream = push->stream,
                            .sequence = push->sequence,
                            .acked_below = push->acked_below,
                            .step = push->step,
                            .rows = push->rows,
                            .rate = push->rate,
                            .read_clock = push->read_clock,
                            .tensors = push->tensors,
                            .n_tensors = push->n_tensors,
                            .keyed = push->keyed,
                            .n_keyed = push->n_keyed};
    if (push->unit != NULL) { /* Units are done one by one: all before are acknowledged. */
        op.stream = push->unit->lease;
        op.sequence = push->unit->index;
        op.acked_below = push->unit->index;
        op.step = push->unit->step;
        op.rows = push->unit->n_rows;
    }
    return op;
}

static enum ps_status check_unit(const struct ps_client *client, const struct ps_unit *unit,
                                 struct ps_error *err)
{
    if (client->job.parts != 0 && unit->n_rows == 0) {
        return ps_fail(err, PS_ERR_INVALID,
                       "unit %" PRIu32 " of lease %" PRIu64 " has no rows: it is not pushed",
                       unit->index, unit->lease);
    }
    return ps_client_unit_check(client, unit, err);
}

static struct ps_client_call *take_push(struct ps_client *client, struct ps_push *push,
                                        struct ps_error *err)
{
    struct ps_push_op op = push_op(push);
    if (check_lease(client, &op, err) != PS_OK ||
        (push->unit != NULL && check_unit(client, push->unit, err) != PS_OK)) {
        return NULL;
    }
    struct ps_client_call *call = ps_client_call_take(client, err);
    if (call != NULL) {
        call->as.push = op;
        push->under_way = call;
        call->under_way = &push->under_way;
    }
    return call;
}

enum ps_status ps_client_pull_start(struct ps_client *client, struct ps_pull *pull,
                                    struct ps_error *err)
{
    struct ps_error own;
    err = err != NULL ? err : &own;
    enum ps_status status = check_pull(client, pull, err);
    if (status != PS_OK) {
        return status;
    }
    ps_client_lock(client);
    struct ps_client_call *call = take_pull(client, pull, err);
    if (call != NULL) {
        ps_client_call_post(call, run_pull);
    }
    ps_client_unlock(client);
    return call != NULL ? PS_OK : err->status;
}

enum ps_status ps_client_push_start(struct ps_client *client, struct ps_push *push,
                                    struct ps_error *err)
{
    struct ps_error own;
    err = err != NULL ? err : &own;
    enum ps_status status = check_push(client, push, err);
    if (status != PS_OK) {
        return status;
    }
    ps_client_lock(client);
    struct ps_client_call *call = take_push(client, push, err);
    if (call != NULL) {
        ps_client_call_post(call, run_push);
    }
    ps_client_unlock(client);
    return call != NULL ? PS_OK : err->status;
}

enum ps_status ps_client_push_pull_start(struct ps_client *client, struct ps_push *push,
                                         struct ps_pull *pull, struct ps_error *err)
{
    struct ps_error own;
    err = err != NULL ? err : &own;
    enum ps_status status = check_push(client, push, err);
    if (status == PS_OK) {
        status = check_pull(client, pull, err);
    }
    if (status != PS_OK) {
        return status;
    }
    ps_client_lock(client);
    struct ps_client_call *call = take_push(client, push, err);
    struct ps_client_call *with = call != NULL ? take_pull(client, pull, err) : NULL;
    if (with != NULL) {
        call->pull = with;
        ps_client_call_post(call, run_push_pull);
    } else if (call != NULL) {
        ps_client_call_drop(call);
    }
    ps_client_unlock(client);
    return with != NULL ? PS_OK : err->status;
}

/* The call that the caller's struct names; NULL when it is none of this client's. */
static struct ps_client_call *named(struct ps_client *client, void *under_way, struct ps_error *err)
{
    for (uint32_t i = 0; under_way != NULL && i < PS_CLIENT_OPERATIONS_MAX; i++) {
        struct ps_client_call *call = &client->calls[i];
        if (call == under_way && call->state != PS_CLIENT_CALL_FREE) {
            return call;
        }
    }
    (void)ps_fail(err, PS_ERR_INVALID, "it was not started, or was waited for already");
    return NULL;
}

enum ps_status ps_client_pull_wait(struct ps_client *client, struct ps_pull *pull,
                                   struct ps_error *err)
{
    enum ps_status status = PS_CLIENT_CHECK(err, client, pull);
    if (status != PS_OK) {
        return status;
    }
    uint64_t start_ns = ps_clock_ns();
    ps_client_lock(client);
    struct ps_client_call *call = named(client, pull->under_way, err);
    status = PS_ERR_INVALID;
    if (call != NULL) {
        status = ps_client_call_wait(call, err);
        ps_client_stats_wait(client, start_ns, call->as.pull.ret_blocked_ns);
        pull->min_clock = call->as.pull.ret_min_clock;
        pull->blocked_ns = call->as.pull.ret_blocked_ns;
        ps_client_call_drop(call);
    }
    ps_client_unlock(client);
    return status;
}

enum ps_status ps_client_push_wait(struct ps_client *client, struct ps_push *push,
                                   struct ps_error *err)
{
    enum ps_status status = PS_CLIENT_CHECK(err, client, push);
    if (status != PS_OK) {
        return status;
    }
    uint64_t start_ns = ps_clock_ns();
    ps_client_lock(client);
    struct ps_client_call *call = named(client, push->under_way, err);
    status = PS_ERR_INVALID;
    if (call != NULL) {
        status = ps_client_call_wait(call, err);
        ps_client_stats_wait(client, start_ns, 0);
        if (status == PS_OK) {
            ps_client_stats_push(client, &call->as.push);
        } else if (status == PS_ERR_LATE) {
            ps_client_unit_late(client, &call->as.push);
        }
        ps_client_call_drop(call);
    }
    ps_client_unlock(client);
    return status;
}

/* Between the halves of a whole call the client must stay, too. */
static void enter(struct ps_client *client)
{
    ps_client_lock(client);
    ps_client_enter(client);
    ps_client_unlock(client);
}

static void leave(struct ps_client *client)
{
    ps_client_lock(client);
    ps_client_leave(client);
    ps_client_unlock(client);
}

enum ps_status ps_client_pull(struct ps_client *client, struct ps_pull *pull, struct ps_error *err)
{
    enum ps_status status = PS_CLIENT_CHECK(err, client, pull);
    if (status != PS_OK) {
        return status;
    }
    enter(client);
    status = ps_client_pull_start(client, pull, err);
    if (status == PS_OK) {
        status = ps_client_pull_wait(client, pull, err);
    }
    leave(client);
    return status;
}

enum ps_status ps_client_push(struct ps_client *client, struct ps_push *push, struct ps_error *err)
{
    enum ps_status status = PS_CLIENT_CHECK(err, client, push);
    if (status != PS_OK) {
        return status;
    }
    enter(client);
    status = ps_client_push_start(client, push, err);
    if (status == PS_OK) {
        status = ps_client_push_wait(client, push, err);
    }
    leave(client);
    return status;
}

/* ---- Progress ------------------------------------------------------------------------------ */

static void copy_view(struct ps_client *client, struct ps_view *ret)
{
    *ret = client->view;
    ps_client_stats_get(client, &ret->stats);
}

void ps_client_view(struct ps_client *client, struct ps_view *ret)
{
    if (client == NULL || ret == NULL) {
        return;
    }
    ps_client_lock(client);
    copy_view(client, ret);
    ps_client_unlock(client);
}

bool ps_client_wait_change(struct ps_client *client, struct ps_view *view, uint32_t timeout_ms)
{
    if (client == NULL || view == NULL) {
        return false;
    }
    uint64_t until_ns = ps_clock_ns() + (uint64_t)timeout_ms * 1000000u;
    ps_client_lock(client);
    ps_client_enter(client);
    while (client->view.n_changes == view->n_changes && !client->closing &&
           ps_clock_ns() < until_ns) {
        ps_client_await(client, &client->news, until_ns);
    }
    bool changed = client->view.n_changes != view->n_changes;
    copy_view(client, view);
    ps_client_leave(client);
    ps_client_unlock(client);
    return changed;
}
