/* units.c — see units.h. */
#include "train/units.h"

#include <stdatomic.h>

#include "base/bytes.h"
#include "base/rng.h"
#include "obs/log.h"

#define CHANGE_WAIT_MS 200u /* How often a wait looks whether the process was asked to stop. */

uint64_t ps_units_seed(struct ps_client *client)
{
    struct ps_view view;
    ps_client_view(client, &view);
    const uint8_t *id = view.cluster_id.bytes;
    return ps_mix64(ps_load_u64(id) ^ ps_load_u64(id + 8));
}

static bool stopping(const struct ps_units *units)
{
    return atomic_load_explicit(units->stop, memory_order_relaxed);
}

bool ps_units_over(struct ps_client *client)
{
    struct ps_view view;
    ps_client_view(client, &view);
    return view.job == PS_JOB_DONE || view.job == PS_JOB_STOPPED;
}

static void say_idle(struct ps_units *units)
{
    struct ps_view view;
    ps_client_view(units->client, &view);
    if (view.lease.id == 0 && view.job == PS_JOB_RUNNING && !units->idle_said) {
        units->idle_said = true;
        ps_log(PS_LOG_INFO, "worker.idle", "why=\"%s\"", units->idle);
    }
}

/* Wait until there is a unit to do, the job is over, or somebody asks to stop. */
static enum ps_status next_unit(struct ps_units *units)
{
    enum ps_status status = PS_ERR_TIMEOUT;
    while (status == PS_ERR_TIMEOUT && !stopping(units)) {
        status = ps_client_next_unit(units->client, units->unit, CHANGE_WAIT_MS, units->err);
        if (status == PS_ERR_TIMEOUT) {
            say_idle(units);
        }
    }
    if (status == PS_OK && units->unit->n_rows > 0) {
        units->idle_said = false;
    }
    return status == PS_ERR_TIMEOUT ? PS_OK : status;
}

enum ps_status ps_units_run(struct ps_units *units, enum ps_status (*step)(void *arg), void *arg)
{
    enum ps_status status = next_unit(units);
    while (status == PS_OK && units->unit->n_rows > 0 && !stopping(units)) {
        status = step(arg);
        if (status == PS_ERR_CANCELED && (ps_units_over(units->client) || stopping(units))) {
            status = PS_OK; /* A pull that nobody will ever answer, or no longer waits for. */
        }
        if (status == PS_OK) {
            status = next_unit(units);
        }
    }
    return status;
}

struct ps_train_result ps_units_end(const struct ps_units *units, enum ps_status status)
{
    if (status == PS_OK && !units->ever_lent) {
        ps_log(units->late ? PS_LOG_INFO : PS_LOG_WARN, "worker.idle", "why=\"%s\"",
               units->late ? "the job was over before this worker came"
                           : "there were no rows for this worker");
    }
    struct ps_view view;
    ps_client_view(units->client, &view);
    return (struct ps_train_result){.done = status == PS_OK && view.job == PS_JOB_DONE};
}
