/*
 * session_rows.c — memory and units of pushes and pulls, and their rows of sparse tables.
 *
 * Keys are put into the order of slots once, when the operation starts, and written as they travel;
 * so are the rows of a gradient, since those of a slot do not lie together in the caller's array.
 * That is their only copy: pieces are lent to the transport, and repeats send the same bytes.
 */
#include <inttypes.h>
#include <string.h>

#include "base/assert.h"
#include "client/session_impl.h"
#include "wire/keys.h"

/* ---- Memory --------------------------------------------------------------------------------- */

/* Room for `n` elements behind `*ptr`, kept for later. False without memory. */
static bool have(struct ps_session *session, void *ptr, size_t *n_room, size_t n, size_t size)
{
    void *old;
    memcpy(&old, ptr, sizeof(old));
    size_t n_bytes;
    if (n <= *n_room && old != NULL) {
        return true;
    }
    n += n / 4; /* Steps differ a little: the largest ones soon fit. */
    if (__builtin_mul_overflow(n, size, &n_bytes)) {
        return false;
    }
    void *grown = old == NULL ? ps_mem_alloc(session->options.mem, PS_MEM_CALLS, n_bytes)
                              : ps_mem_grow(session->options.mem, PS_MEM_CALLS, old, n_bytes);
    if (grown == NULL) {
        return false;
    }
    memcpy(ptr, &grown, sizeof(grown));
    *n_room = n;
    return true;
}

static bool have_keys(struct ps_session *session, struct ps_session_rows *rows, size_t n)
{
    size_t n_room = rows->n_keys_room;
    if (!have(session, &rows->flow.keys, &n_room, n, sizeof(*rows->flow.keys))) {
        return false;
    }
    return have(session, &rows->flow.order, &rows->n_keys_room, n, sizeof(*rows->flow.order));
}

static bool have_tables(struct ps_session *session, struct ps_session_rows *rows, size_t n)
{
    size_t n_room = rows->n_tables_room;
    if (!have(session, &rows->flow.firsts, &n_room, n, sizeof(*rows->flow.firsts))) {
        return false;
    }
    return have(session, &rows->flow.slots, &rows->n_tables_room, n,
                (PS_SLOTS + 1) * sizeof(*rows->flow.slots));
}

void ps_session_rows_free(struct ps_session_rows *rows)
{
    if (rows == NULL) {
        return;
    }
    ps_mem_free(rows->flow.keys);
    ps_mem_free(rows->flow.order);
    ps_mem_free(rows->flow.firsts);
    ps_mem_free(rows->flow.slots);
    ps_mem_free(rows->flow.runs);
    ps_mem_free(rows->bytes);
    ps_mem_free(rows);
}

/* ---- Into order ----------------------------------------------------------------------------- */

static enum ps_status check_keyed(const struct ps_session *session, const struct ps_keyed *keyed,
                                  struct ps_error *err)
{
    if (keyed->table >= session->n_tables) {
        return ps_fail(err, PS_ERR_NOT_FOUND, "table %u is not known", keyed->table);
    }
    const struct ps_table *table = &session->tables[keyed->table];
    if (table->width == 0) {
        return ps_fail(err, PS_ERR_INVALID, "table '%s' is dense: it has no keys", table->name);
    }
    if (keyed->n > 0 && (keyed->keys == NULL || keyed->values == NULL)) {
        return ps_fail(err, PS_ERR_INVALID, "table '%s': no keys or no values", table->name);
    }
    return PS_OK;
}

/* Put one among the tables, which ascend. */
static enum ps_status add_table(const struct ps_session *session, struct ps_session_rows *rows,
                                const struct ps_keyed *keyed, struct ps_error *err)
{
    uint32_t at = rows->flow.n_tables;
    while (at > 0 && rows->tables[at - 1].table > keyed->table) {
        at--;
    }
    if (at > 0 && rows->tables[at - 1].table == keyed->table) {
        return ps_fail(err, PS_ERR_INVALID, "table '%s': named twice",
                       session->tables[keyed->table].name);
    }
    uint32_t n_behind = rows->flow.n_tables - at;
    memmove(&rows->tables[at + 1], &rows->tables[at], n_behind * sizeof(rows->tables[0]));
    memmove(&rows->values[at + 1], &rows->values[at], n_behind * sizeof(rows->values[0]));
    rows->tables[at] = (struct ps_flow_table){.table = keyed->table,
                                              .width = session->tables[keyed->table].width,
                                              .n = keyed->n,
                                              .keys = keyed->keys};
    rows->values[at] = keyed->values;
    rows->flow.n_tables++;
    return PS_OK;
}

enum ps_status ps_session_rows_place(struct ps_session *session, struct ps_session_rows **rows,
                                     const struct ps_keyed *keyed, uint32_t n_keyed,
                                     struct ps_error *err)
{
    if (n_keyed == 0) {
        return PS_OK;
    }
    if (*rows == NULL) {
        *rows = ps_mem_alloc(session->options.mem, PS_MEM_CALLS, sizeof(**rows));
        if (*rows == NULL) {
            return ps_fail(err, PS_ERR_NOMEM, "no memory for rows");
        }
    }
    struct ps_session_rows *to = *rows;
    size_t n_keys = 0;
    to->flow.tables = to->tables;
    to->flow.n_tables = 0;
    for (uint32_t i = 0; i < n_keyed; i++) {
        enum ps_status status = check_keyed(session, &keyed[i], err);
        if (status == PS_OK) {
            status = add_table(session, to, &keyed[i], err);
        }
        if (status != PS_OK) {
            return status;
        }
        n_keys += keyed[i].n;
    }
    if (!have_keys(session, to, n_keys) || !have_tables(session, to, n_keyed)) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for %zu keys", n_keys);
    }
    uint32_t nth = 0;
    uint32_t at = 0;
    if (!ps_flow_rows_place(&to->flow, session->key_seed, &nth, &at)) {
        const struct ps_flow_table *table = &to->tables[nth];
        return ps_fail(err, PS_ERR_INVALID,
                       "table '%s': key %" PRIu64 " at %u does not follow %" PRIu64
                       ": keys ascend, none is there twice",
                       session->tables[table->table].name, table->keys[at], at,
                       table->keys[at - 1]);
    }
    return PS_OK;
}

/* ---- Into bytes ----------------------------------------------------------------------------- */

/* Where each run's bytes go, and how many there are of all. */
static size_t lay_out(struct ps_session_rows *rows, bool values)
{
    struct ps_flow_rows *flow = &rows->flow;
    size_t n_bytes = 0;
    for (uint32_t i = 0; i < flow->n_runs; i++) {
        struct ps_flow_run *run = &flow->runs[i];
        run->at = n_bytes;
        run->n_key_bytes = (uint32_t)ps_keys_bytes(ps_flow_run_keys(flow, run), run->n);
        n_bytes += run->n_key_bytes + (values ? ps_flow_run_bytes(flow, run) : 0);
    }
    return n_bytes;
}

static void write_run(const struct ps_session_rows *rows, const struct ps_flow_run *run,
                      bool values)
{
    const struct ps_flow_rows *flow = &rows->flow;
    uint8_t *to = rows->bytes + run->at;
    size_t n = ps_keys_write(ps_flow_run_keys(flow, run), run->n, to, run->n_key_bytes);
    PS_ASSERT(n == run->n_key_bytes);
    const uint32_t *order = ps_flow_run_order(flow, run);
    size_t width = flow->tables[run->nth].width;
    to += n;
    for (uint32_t i = 0; i < run->n && values; i++) {
        memcpy(to, rows->values[run->nth] + order[i] * width, width * sizeof(float));
        to += width * sizeof(float);
    }
}

enum ps_status ps_session_cut_begin(struct ps_session *session, const struct ps_session_cut *cut,
                                    enum ps_flow_kind kind, const bool *chosen,
                                    struct ps_error *err)
{
    struct ps_layout_view view = {.tables = session->layouts, .n_tables = session->n_tables};
    struct ps_session_rows *rows = cut->rows;
    struct ps_flow_rows *flow_rows = rows != NULL ? &rows->flow : NULL;
    struct ps_flow_size size = ps_flow_size(view, chosen, flow_rows);
    bool push = kind == PS_FLOW_PUSH;
    size_t n_units_room = *cut->n_units_max;
    bool room = have(session, cut->units, &n_units_room, size.n_units, sizeof(**cut->units)) &&
                (rows == NULL || have(session, &rows->flow.runs, &rows->n_runs_room, size.n_runs,
                                      sizeof(*rows->flow.runs)));
    *cut->n_units_max = (uint32_t)n_units_room;
    if (!room) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for a %s", push ? "push" : "pull");
    }
    if (!ps_flow_begin(cut->flow, kind, view, chosen, flow_rows, *cut->units)) {
        return ps_fail(err, PS_ERR_INVALID, "the %s is too big: a slot has over %u fragments",
                       push ? "push" : "pull", PS_FRAGMENTS_MAX);
    }
    if (rows == NULL) {
        return PS_OK;
    }
    if (!have(session, &rows->bytes, &rows->n_bytes_room, lay_out(rows, push), 1)) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for the rows of a %s", push ? "push" : "pull");
    }
    for (uint32_t i = 0; i < rows->flow.n_runs; i++) {
        write_run(rows, &rows->flow.runs[i], push);
    }
    if (push) {
        ps_flow_weigh(cut->flow);
    }
    return PS_OK;
}

/* ---- Out of bytes --------------------------------------------------------------------------- */

void ps_session_rows_deliver(const struct ps_session_rows *rows, const struct ps_flow_run *run,
                             struct ps_cursor *payload)
{
    const uint32_t *order = ps_flow_run_order(&rows->flow, run);
    size_t width = rows->flow.tables[run->nth].width;
    for (uint32_t i = 0; i < run->n; i++) {
        ps_cursor_copy(payload, rows->values[run->nth] + order[i] * width, width * sizeof(float));
    }
}
