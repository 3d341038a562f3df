/* staged.c — see staged.h. */
#include "snap/staged.h"

#include <inttypes.h>
#include <string.h>

#include "base/assert.h"
#include "log/recover.h"
#include "snap/layout.h"
#include "snap/snap_impl.h"

/* ---- Writing -------------------------------------------------------------------------------- */

static enum ps_status put_record(struct ps_snap_work *w, const struct ps_record *record,
                                 uint8_t *fixed)
{
    struct ps_cursor payload = record->push.payload;
    uint64_t n_fixed = ps_wal_fixed_write(record, fixed);
    uint64_t n_body = n_fixed + ps_wal_payload_bytes(record);
    enum ps_status status = ps_snap_out_put(&w->out, &n_body, sizeof(n_body), w->err);
    if (status == PS_OK) {
        status = ps_snap_out_put(&w->out, fixed, (size_t)n_fixed, w->err);
    }
    while (status == PS_OK && payload.n_left > 0) {
        const uint8_t *run = NULL;
        size_t n = ps_cursor_run(&payload, payload.n_left, &run);
        PS_ASSERT(n > 0);
        status = ps_snap_out_put(&w->out, run, n, w->err);
    }
    return status;
}

enum ps_status ps_snap_write_staged(struct ps_snap_work *w)
{
    bool any = false;
    for (uint32_t s = 0; s < PS_SLOTS; s++) {
        any = any || w->cut->slots[s].n_staged > 0;
    }
    if (!any) {
        return PS_OK;
    }
    uint8_t *fixed = ps_mem_alloc(w->options->mem, PS_MEM_OTHER, PS_WAL_FIXED_BYTES_MAX);
    if (fixed == NULL) {
        return ps_fail(w->err, PS_ERR_NOMEM, "no memory to write what is staged");
    }
    enum ps_status status = ps_snap_out_open(&w->out, w->options->disk, w->options->mem, w->temp,
                                             PS_SNAP_STAGED, w->err);
    for (uint32_t s = 0; status == PS_OK && s < PS_SLOTS; s++) {
        const struct ps_slot_cut *slot = &w->cut->slots[s];
        for (uint32_t i = 0; status == PS_OK && i < slot->n_staged; i++) {
            status = put_record(w, &slot->staged[i], fixed);
        }
    }
    ps_mem_free(fixed);
    return status == PS_OK ? ps_snap_end_file(w) : status;
}

/* ---- Reading -------------------------------------------------------------------------------- */

struct staged_reader {
    struct ps_snap_in in;
    const struct ps_snap *snap;
    const struct ps_snap_visitor *visitor;
    uint64_t slots;
    struct ps_error *err;
};

static enum ps_status show(struct staged_reader *r, uint64_t at, const uint8_t *body, size_t n_body)
{
    struct ps_record record;
    struct ps_msg *msg = NULL;
    enum ps_status status = ps_wal_hold(r->snap->mem, body, n_body, &record, &msg, r->err);
    if (status != PS_OK) {
        return ps_wrap(r->err, status, "%s:%" PRIu64, r->in.path, at);
    }
    if (record.kind != PS_RECORD_STAGE || record.slot >= PS_SLOTS) {
        status = ps_fail(r->err, PS_ERR_CORRUPT, "%s:%" PRIu64 ": it is no staged gradient",
                         r->in.path, at);
    } else if ((r->slots >> record.slot & 1) != 0) {
        status = r->visitor->staged(r->visitor->arg, &record, r->err);
    }
    ps_msg_unref(msg);
    return status;
}

static enum ps_status next_record(struct staged_reader *r)
{
    uint64_t at = r->in.at;
    uint64_t n_body = 0;
    enum ps_status status = ps_snap_in_next(&r->in, &n_body, sizeof(n_body), r->err);
    if (status == PS_OK && n_body > PS_SNAP_STAGED_BYTES_MAX) {
        return ps_fail(r->err, PS_ERR_CORRUPT, "%s:%" PRIu64 ": a record of %" PRIu64 " bytes",
                       r->in.path, at, n_body);
    }
    uint8_t *body = ps_mem_alloc(r->snap->mem, PS_MEM_OTHER, (size_t)n_body);
    if (body == NULL) {
        return ps_fail(r->err, PS_ERR_NOMEM, "no memory for a record of %" PRIu64 " bytes", n_body);
    }
    if (status == PS_OK) {
        status = ps_snap_in_next(&r->in, body, (size_t)n_body, r->err);
    }
    if (status == PS_OK) {
        status = show(r, at, body, (size_t)n_body);
    }
    ps_mem_free(body);
    return status;
}

enum ps_status ps_snap_load_staged(const struct ps_snap *snap, const struct ps_snap_found *found,
                                   uint64_t slots, const struct ps_snap_visitor *visitor,
                                   struct ps_error *err)
{
    const struct ps_snap_file *about = ps_snap_file_named(&found->part, PS_SNAP_STAGED);
    struct staged_reader r = {.snap = snap, .visitor = visitor, .slots = slots, .err = err};
    if (about == NULL || visitor->staged == NULL) {
        return PS_OK;
    }
    enum ps_status status =
        ps_snap_in_open(&r.in, snap->disk, snap->mem, found->folder, about, err);
    if (status != PS_OK) {
        return status;
    }
    while (status == PS_OK && r.in.at < about->n_bytes) {
        status = next_record(&r);
    }
    ps_snap_in_close(&r.in);
    return status;
}
