/*
 * lane_rows.c — sparse tables of a lane: keys and values of records and replies, into rows and out
 * of them.
 *
 * Keys are decoded where they arrived, PS_KEYS_AT_ONCE at a time, once to reserve and once to
 * apply; that costs less than keeping them. svc has walked over them already: they ascend, are of
 * the slot, and are exactly the bytes of their part.
 */
#include "base/assert.h"
#include "base/rng.h"
#include "obs/log.h"
#include "slot/lane_impl.h"
#include "wire/keys.h"

#define FIGURES_MS  200u   /* Between two counts; a heartbeat is longer. */
#define LOG_FULL_MS 10000u /* Between two lines that say that memory is used up. */

/* ---- Tables --------------------------------------------------------------------------------- */

static struct ps_sparse *rows_of(const struct ps_lane *lane, uint32_t table, uint32_t slot)
{
    return lane->rows[table] != NULL ? lane->rows[table]->slots[slot] : NULL;
}

bool ps_lane_rows_here(const struct ps_lane *lane, uint32_t table, uint32_t slot)
{
    return rows_of(lane, table, slot) != NULL;
}

/* Where a rule's weights follow from its state, rows do without them. */
static void derive(const void *of, float rate, const float *state, uint32_t width, float *out)
{
    const struct ps_table_info *info = of;
    info->optim->derive(&info->params, rate, out, state, width, width);
}

enum ps_status ps_lane_rows_make(struct ps_lane *lane, uint32_t table, struct ps_error *err)
{
    const struct ps_table_info *info = &lane->options.catalogue->tables[table];
    if (lane->rows[table] == NULL) {
        struct ps_lane_rows *rows = ps_mem_alloc(lane->options.mem, PS_MEM_PAGES, sizeof(*rows));
        if (rows == NULL) {
            return ps_fail(err, PS_ERR_NOMEM, "table '%s': no memory for its rule",
                           info->spec.name);
        }
        ps_optim_rows_init(&rows->rule, info->optim, &info->params);
        lane->rows[table] = rows;
    }
    for (uint32_t slot = 0; slot < PS_SLOTS; slot++) {
        if (!ps_lane_holds(lane, slot) || rows_of(lane, table, slot) != NULL) {
            continue;
        }
        struct ps_sparse_spec spec = info->rows;
        spec.index_seed = ps_rng_at(lane->options.index_seed, table, slot);
        if (info->optim->derive != NULL) {
            spec.formula = (struct ps_sparse_formula){.weights = derive, .of = info};
        }
        enum ps_status status =
            ps_sparse_create(&spec, lane->options.mem, &lane->rows[table]->slots[slot], err);
        if (status != PS_OK) {
            return status;
        }
    }
    return PS_OK;
}

void ps_lane_rows_drop(struct ps_lane *lane)
{
    for (uint32_t table = 0; table < PS_TABLES_MAX; table++) {
        for (uint32_t slot = 0; slot < PS_SLOTS && lane->rows[table] != NULL; slot++) {
            ps_sparse_destroy(lane->rows[table]->slots[slot]);
            lane->rows[table]->slots[slot] = NULL;
        }
    }
}

void ps_lane_rows_destroy(struct ps_lane *lane)
{
    ps_lane_rows_drop(lane);
    for (uint32_t table = 0; table < PS_TABLES_MAX; table++) {
        ps_mem_free(lane->rows[table]);
    }
}

/* ---- Pushes --------------------------------------------------------------------------------- */

/* The keys of a part, which begin where `*payload` stands; it moves behind them. */
static struct ps_keys_reader read_keys(const struct ps_part *part, struct ps_cursor *payload)
{
    return ps_keys_reader(ps_cursor_split(payload, part->n_key_bytes), part->n_keys);
}

/* At growing memory nobody can look at each refusal. */
static void say_full(struct ps_lane *lane, uint32_t table)
{
    uint64_t now_ms = ps_exec_now_ms(lane->options.exec);
    if (lane->full_ms != 0 && now_ms - lane->full_ms < LOG_FULL_MS) {
        return;
    }
    lane->full_ms = now_ms;
    ps_log(PS_LOG_WARN, "table.full",
           "table=%s msg=\"no memory for new rows, pushes that bring some are refused: raise "
           "--memory-max, or let the table admit later or expire sooner\"",
           lane->options.catalogue->tables[table].spec.name);
}

bool ps_lane_rows_reserve(struct ps_lane *lane, uint32_t slot, const struct ps_part *part,
                          struct ps_cursor values, enum ps_page_budget budget,
                          struct ps_sparse_claim *claim)
{
    struct ps_sparse *sparse = rows_of(lane, part->table, slot);
    struct ps_keys_reader keys = read_keys(part, &values);
    if (sparse == NULL) {
        return false; /* This server could not make the table; it will leave the job. */
    }
    for (size_t n = 0; (n = ps_keys_next(&keys, lane->keys, PS_KEYS_AT_ONCE)) > 0;) {
        if (ps_sparse_reserve(sparse, lane->keys, (uint32_t)n, budget, claim) != PS_OK) {
            atomic_fetch_add_explicit(&lane->rows[part->table]->figures.refused, 1,
                                      memory_order_relaxed);
            say_full(lane, part->table);
            lane->full = true;
            ps_sparse_sweep(sparse, PS_SWEEP_ROWS); /* Perhaps some have expired: for the next. */
            return false;
        }
    }
    PS_ASSERT(!keys.failed);
    return true;
}

void ps_lane_rows_release(struct ps_lane *lane, uint32_t slot, const struct ps_part *part,
                          struct ps_sparse_claim *claim)
{
    struct ps_sparse *sparse = rows_of(lane, part->table, slot);
    if (sparse != NULL) {
        ps_sparse_release(sparse, claim);
    }
}

void ps_lane_rows_renew(struct ps_lane *lane, uint32_t slot, const struct ps_part *part,
                        struct ps_cursor values, struct ps_sparse_claim *claim)
{
    const struct ps_sparse *sparse = rows_of(lane, part->table, slot);
    PS_ASSERT(sparse != NULL); /* Reserved before the record was made. */
    if (sparse->spec.expire_after > 0) {
        ps_lane_rows_release(lane, slot, part, claim);
        bool made = ps_lane_rows_reserve(lane, slot, part, values, PS_PAGE_BEYOND, claim);
        PS_ASSERT(made); /* The machine itself is out of memory. */
    }
}

/* The table's rule, as tables know rules. */
struct row_rule {
    struct ps_sparse_rule rule;
    struct ps_optim_row_step step;
};

static void apply_row(struct ps_sparse_rule *rule, uint32_t t, float *weights, float *state,
                      const uint8_t *grad)
{
    const struct row_rule *r = PS_CONTAINER_OF(rule, struct row_rule, rule);
    ps_optim_row_apply(&r->step, t, weights, state, grad);
}

void ps_lane_rows_apply(struct ps_lane *lane, uint32_t slot, const struct ps_record_push *push,
                        const struct ps_part *part, struct ps_cursor values)
{
    struct ps_sparse *sparse = rows_of(lane, part->table, slot);
    PS_ASSERT(sparse != NULL); /* Reserved before the record was made. */
    struct ps_keys_reader keys = read_keys(part, &values);
    size_t row_bytes = sparse->spec.width * sizeof(float);
    uint64_t n_copied = sparse->stats.n_bytes_copied;
    uint64_t n_fresh = sparse->stats.n_fresh;
    struct row_rule rule = {.rule = {.apply = apply_row},
                            .step = {.rows = &lane->rows[part->table]->rule,
                                     .rate = push->rate,
                                     .scale = push->scale,
                                     .width = sparse->spec.width}};
    for (size_t n = 0; (n = ps_keys_next(&keys, lane->keys, PS_KEYS_AT_ONCE)) > 0;) {
        struct ps_sparse_push rows = {.keys = lane->keys,
                                      .n = (uint32_t)n,
                                      .grads = ps_cursor_split(&values, n * row_bytes),
                                      .clock = push->clock,
                                      .rate = push->rate,
                                      .rule = &rule.rule};
        ps_sparse_update(sparse, &rows);
    }
    PS_ASSERT(!keys.failed);
    struct ps_metrics *metrics = lane->options.metrics;
    n_copied = sparse->stats.n_bytes_copied - n_copied;
    ps_metric_add(metrics, PS_METRIC_pages_fresh_total, sparse->stats.n_fresh - n_fresh);
    ps_metric_add(metrics, PS_METRIC_pages_copied_total, n_copied > 0 ? 1 : 0);
    ps_metric_add(metrics, PS_METRIC_bytes_copied_push_total, n_copied);
    /* Rows that have come of age make room about as fast as new ones take it. */
    uint32_t n_swept = part->n_keys < PS_SWEEP_ROWS / 2 ? 2 * part->n_keys : PS_SWEEP_ROWS;
    ps_sparse_sweep(sparse, n_swept);
}

/* ---- Pulls ---------------------------------------------------------------------------------- */

uint64_t ps_lane_rows_bytes(const struct ps_lane *lane, const struct ps_part *want)
{
    uint32_t width = lane->options.catalogue->tables[want->table].rows.width;
    return (uint64_t)want->n_keys * width * sizeof(float);
}

float *ps_lane_rows_gather(struct ps_lane *lane, uint32_t slot, const struct ps_part *want,
                           struct ps_cursor *keys)
{
    const struct ps_sparse *sparse = rows_of(lane, want->table, slot);
    PS_ASSERT(sparse != NULL); /* The caller has looked. */
    struct ps_keys_reader reader = read_keys(want, keys);
    float *rows = ps_mem_alloc(lane->options.mem, PS_MEM_CALLS, ps_lane_rows_bytes(lane, want));
    float *to = rows;
    for (size_t n = 0;
         rows != NULL && (n = ps_keys_next(&reader, lane->keys, PS_KEYS_AT_ONCE)) > 0;) {
        ps_sparse_gather(sparse, lane->keys, (uint32_t)n, to);
        to += n * sparse->spec.width;
    }
    PS_ASSERT(!reader.failed);
    return rows;
}

/* ---- Between records ------------------------------------------------------------------------ */

static void count(struct ps_lane_rows *rows)
{
    struct ps_sparse_stats all = {0};
    for (uint32_t slot = 0; slot < PS_SLOTS; slot++) {
        if (rows->slots[slot] != NULL) {
            struct ps_sparse_stats one = ps_sparse_stats(rows->slots[slot]);
            all.n_rows += one.n_rows;
            all.n_bytes += one.n_bytes;
            all.n_created += one.n_created;
            all.n_updated += one.n_updated;
            all.n_dropped += one.n_dropped;
            all.n_expired += one.n_expired;
        }
    }
    struct ps_lane_figures *to = &rows->figures;
    atomic_store_explicit(&to->rows, all.n_rows, memory_order_relaxed);
    atomic_store_explicit(&to->bytes, all.n_bytes, memory_order_relaxed);
    atomic_store_explicit(&to->created, all.n_created, memory_order_relaxed);
    atomic_store_explicit(&to->updated, all.n_updated, memory_order_relaxed);
    atomic_store_explicit(&to->dropped, all.n_dropped, memory_order_relaxed);
    atomic_store_explicit(&to->expired, all.n_expired, memory_order_relaxed);
}

void ps_lane_rows_tend(struct ps_lane *lane)
{
    uint64_t now_ms = ps_exec_now_ms(lane->options.exec);
    if (lane->n_tables == 0 || (lane->tended_ms != 0 && now_ms - lane->tended_ms < FIGURES_MS)) {
        return;
    }
    lane->tended_ms = now_ms;
    lane->sweep_slot = (lane->sweep_slot + 1) % PS_SLOTS; /* The same of all tables. */
    for (uint32_t table = 0; table < lane->n_tables; table++) {
        if (lane->rows[table] != NULL) {
            struct ps_sparse *sparse = lane->rows[table]->slots[lane->sweep_slot];
            if (sparse != NULL) {
                ps_sparse_sweep(sparse, PS_SWEEP_ROWS);
            }
            count(lane->rows[table]);
        }
    }
}

bool ps_lane_figures(const struct ps_lane *lane, uint32_t table, struct ps_sparse_stats *sum,
                     uint64_t *n_refused)
{
    const struct ps_lane_rows *rows = lane->rows[table];
    if (rows == NULL) {
        return false;
    }
    const struct ps_lane_figures *from = &rows->figures;
    sum->n_rows += atomic_load_explicit(&from->rows, memory_order_relaxed);
    sum->n_bytes += atomic_load_explicit(&from->bytes, memory_order_relaxed);
    sum->n_created += atomic_load_explicit(&from->created, memory_order_relaxed);
    sum->n_updated += atomic_load_explicit(&from->updated, memory_order_relaxed);
    sum->n_dropped += atomic_load_explicit(&from->dropped, memory_order_relaxed);
    sum->n_expired += atomic_load_explicit(&from->expired, memory_order_relaxed);
    *n_refused += atomic_load_explicit(&from->refused, memory_order_relaxed);
    return true;
}
