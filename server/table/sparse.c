/* sparse.c — see sparse.h. */
#include "table/sparse.h"

#include <inttypes.h>
#include <string.h>

#include "base/assert.h"
#include "base/rng.h"
#include "table/sparse_impl.h"

#define FIND_BLOCK      16u              /* Keys whose memory is asked for at once. */
#define FIND_RING       (4 * FIND_BLOCK) /* A power of two: keys between hash and use. */
#define LINE_BYTES      64u
#define FETCH_BYTES_MAX 256u /* Of a row, ahead of its use; the machine goes on by itself. */
#define ADMIT_STREAM    UINT64_C(0x61646d6974) /* Apart from the streams of initial values. */

enum ps_status ps_sparse_check(const struct ps_sparse_spec *spec, struct ps_error *err)
{
    if (spec->width == 0 || spec->width > PS_ROW_FLOATS_MAX) {
        return ps_fail(err, PS_ERR_INVALID, "rows have %" PRIu32 " floats, not 1 to %u",
                       spec->width, PS_ROW_FLOATS_MAX);
    }
    if (spec->state_per_elem > PS_ROW_STATE_MAX) {
        return ps_fail(err, PS_ERR_INVALID, "%" PRIu32 " state values per weight, more than %u",
                       spec->state_per_elem, PS_ROW_STATE_MAX);
    }
    if (spec->formula.weights != NULL && spec->state_per_elem == 0) {
        return ps_fail(err, PS_ERR_INVALID, "weights follow from a state that rows do not have");
    }
    if (!ps_init_valid(&spec->init)) {
        return ps_fail(err, PS_ERR_INVALID, "initialiser %d with scale %g cannot be used",
                       (int)spec->init.kind, (double)spec->init.scale);
    }
    if (spec->admit_after > PS_ADMIT_AFTER_MAX) {
        return ps_fail(err, PS_ERR_INVALID,
                       "keys are admitted after %" PRIu32 " pushes, at most %u", spec->admit_after,
                       PS_ADMIT_AFTER_MAX);
    }
    if (spec->admit_after > 1 &&
        (spec->admit_bytes < PS_ADMIT_BYTES_MIN || spec->admit_bytes > PS_ADMIT_BYTES_MAX ||
         (spec->admit_bytes & (spec->admit_bytes - 1)) != 0)) {
        return ps_fail(err, PS_ERR_INVALID,
                       "%" PRIu32 " bytes of counters; need a power of two from %u to %u",
                       spec->admit_bytes, PS_ADMIT_BYTES_MIN, PS_ADMIT_BYTES_MAX);
    }
    return PS_OK;
}

enum ps_status ps_sparse_create(const struct ps_sparse_spec *spec, struct ps_mem *mem,
                                struct ps_sparse **ret, struct ps_error *err)
{
    enum ps_status status = ps_sparse_check(spec, err);
    if (status != PS_OK) {
        return ps_wrap(err, status, "table '%s'", spec->name);
    }
    struct ps_sparse *sparse = ps_mem_alloc(mem, PS_MEM_PAGES, sizeof(*sparse));
    if (sparse == NULL) {
        goto no_memory;
    }
    sparse->spec = *spec;
    sparse->mem = mem;
    sparse->shape = ps_sparse_shape_of(spec);
    sparse->scratch = ps_mem_array(mem, PS_MEM_PAGES, 2 * (size_t)spec->width, sizeof(float));
    sparse->pool = ps_page_pool_create(mem, sparse->shape.row_floats << sparse->shape.page_bits, 0);
    if (sparse->scratch == NULL || sparse->pool == NULL ||
        !ps_index_init(&sparse->index, spec->index_seed, mem)) {
        goto no_memory;
    }
    if (spec->admit_after > 1 && !ps_admit_init(&sparse->admit, spec->admit_bytes, mem)) {
        goto no_memory;
    }
    *ret = sparse;
    return PS_OK;

no_memory:
    ps_sparse_destroy(sparse);
    return ps_fail(err, PS_ERR_NOMEM, "table '%s': no memory for its index", spec->name);
}

void ps_sparse_destroy(struct ps_sparse *sparse)
{
    if (sparse == NULL) {
        return;
    }
    ps_sparse_drop_pages(sparse);
    ps_page_pool_release(sparse->pool);
    ps_index_deinit(&sparse->index);
    ps_admit_deinit(&sparse->admit);
    ps_mem_free(sparse->scratch);
    ps_mem_free(sparse);
}

/* ---- Finding rows --------------------------------------------------------------------------- */

/*
 * A walk over keys and their rows, in blocks: while one block of keys is used, the rows of the next
 * and the index entries of the one behind it are on their way. A block is asked for in loops of few
 * instructions, since the machine waits at a prefetch whose page it has to look up, and overlaps
 * only such waits as it sees at the same time. Rows may be added to the index during a walk, not
 * removed.
 */
struct finder {
    const struct ps_sparse *sparse;
    const uint64_t *keys;
    uint32_t n;
    uint32_t n_hashed;
    uint32_t n_fetched;
    uint32_t at;
    size_t n_fetch_bytes; /* Of a row. */
    struct ps_index_probe probes[FIND_RING];
    uint32_t rows[FIND_RING];
};

static struct finder find(const struct ps_sparse *sparse, const uint64_t *keys, uint32_t n,
                          size_t n_floats)
{
    size_t n_bytes = (PS_ROW_HEAD + n_floats) * sizeof(float);
    return (struct finder){.sparse = sparse,
                           .keys = keys,
                           .n = n,
                           .n_fetch_bytes = n_bytes < FETCH_BYTES_MAX ? n_bytes : FETCH_BYTES_MAX};
}

/* In line, since gcc drops calls of a function that does nothing but prefetch. */
static inline __attribute__((always_inline)) void fetch_row(const struct ps_sparse *sparse,
                                                            uint32_t row, size_t n_bytes)
{
    const char *start = (const char *)ps_row_in(sparse, row);
    for (size_t at = 0; at < n_bytes; at += LINE_BYTES) {
        __builtin_prefetch(start + at);
    }
    __builtin_prefetch(start + n_bytes - 1);
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Ask for what the next blocks need. */
static void fetch_blocks(struct finder *f)
{
    const struct ps_sparse *sparse = f->sparse;
    uint32_t hash_end = least(f->n, f->at + 3 * FIND_BLOCK);
    uint32_t row_end = least(f->n, f->at + 2 * FIND_BLOCK);
    uint32_t first = f->n_fetched;
    for (; f->n_hashed < hash_end; f->n_hashed++) {
        uint32_t hash = ps_index_hash(&sparse->index, f->keys[f->n_hashed]);
        f->probes[f->n_hashed % FIND_RING] = ps_index_begin(&sparse->index, hash);
    }
    for (; f->n_fetched < row_end; f->n_fetched++) {
        f->rows[f->n_fetched % FIND_RING] =
            ps_index_candidate(&f->probes[f->n_fetched % FIND_RING]);
    }
    for (uint32_t i = first; i < row_end; i++) {
        if (f->rows[i % FIND_RING] != PS_INDEX_NONE) {
            fetch_row(sparse, f->rows[i % FIND_RING], f->n_fetch_bytes);
        }
    }
}

/* The row of the next key, or PS_INDEX_NONE. */
static inline uint32_t find_next(struct finder *f, uint32_t *ret_hash)
{
    if (f->at % FIND_BLOCK == 0) {
        fetch_blocks(f);
    }
    struct ps_index_probe *probe = &f->probes[f->at % FIND_RING];
    uint32_t row = f->rows[f->at % FIND_RING];
    while (row != PS_INDEX_NONE && ps_row_key(ps_row_in(f->sparse, row)) != f->keys[f->at]) {
        PS_ASSERT(probe->table != NULL); /* fetch_blocks has begun it. */
        row = ps_index_candidate(probe);
    }
    *ret_hash = probe->hash;
    f->at++;
    return row;
}

/* Weights and state. */
static size_t row_floats(const struct ps_sparse *sparse)
{
    return sparse->shape.row_floats - PS_ROW_HEAD;
}

static bool expired(const struct ps_sparse *sparse, const float *row)
{
    return ps_row_expired(&sparse->shape, sparse->clock, ps_row_head_of(row)[PS_ROW_TOUCHED]);
}

/* First weights of a key, wherever it lives. */
static void init_weights(const struct ps_sparse *sparse, uint64_t key, float *weights)
{
    ps_init_row(&sparse->spec.init, sparse->spec.id, key, weights, sparse->spec.width);
}

void ps_sparse_gather(const struct ps_sparse *sparse, const uint64_t *keys, uint32_t n, float *out)
{
    size_t width = sparse->spec.width;
    bool kept = sparse->shape.n_kept > 0;
    struct finder finder = find(sparse, keys, n, kept ? width : row_floats(sparse));
    uint32_t hash = 0;
    for (uint32_t i = 0; i < n; i++, out += width) {
        uint32_t at = find_next(&finder, &hash);
        const float *row = at == PS_INDEX_NONE ? NULL : ps_row_in(sparse, at);
        if (row != NULL && !expired(sparse, row)) {
            ps_row_weights(&sparse->shape, sparse->rate, row, out);
        } else {
            init_weights(sparse, keys[i], out);
        }
    }
}

/* ---- Reserve, update, release --------------------------------------------------------------- */

/* Make the pages of known rows writable, and count the keys that have none. */
static bool reserve_known(struct ps_sparse *sparse, const uint64_t *keys, uint32_t n,
                          enum ps_page_budget budget, uint64_t *ret_n_absent)
{
    struct finder finder = find(sparse, keys, n, row_floats(sparse));
    uint64_t n_absent = 0;
    uint32_t hash = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = find_next(&finder, &hash);
        if (at == PS_INDEX_NONE) {
            n_absent++;
        } else if (!ps_sparse_make_writable(sparse, at >> sparse->shape.page_bits, budget)) {
            return false;
        }
    }
    *ret_n_absent = n_absent;
    return true;
}

enum ps_status ps_sparse_reserve(struct ps_sparse *sparse, const uint64_t *keys, uint32_t n,
                                 enum ps_page_budget budget, struct ps_sparse_claim *claim)
{
    uint64_t n_absent = 0;
    if (!reserve_known(sparse, keys, n, budget, &n_absent) ||
        !ps_sparse_have_free(sparse, n_absent, budget) ||
        !ps_index_reserve(&sparse->index, n_absent, budget)) {
        return PS_ERR_NOMEM;
    }
    sparse->n_promised += n_absent;
    claim->n_rows += n_absent;
    return PS_OK;
}

void ps_sparse_release(struct ps_sparse *sparse, struct ps_sparse_claim *claim)
{
    PS_ASSERT(claim->n_rows <= sparse->n_promised);
    sparse->n_promised -= claim->n_rows;
    ps_index_release(&sparse->index, claim->n_rows);
    *claim = (struct ps_sparse_claim){0};
}

/* May a key that has no row get one with this push? Counts it. */
static bool admitted(struct ps_sparse *sparse, uint64_t key)
{
    if (sparse->spec.admit_after <= 1) {
        return true;
    }
    uint64_t hash = ps_rng_at(sparse->spec.init.seed ^ ADMIT_STREAM, sparse->spec.id, key);
    return ps_admit_count(&sparse->admit, hash) >= sparse->spec.admit_after;
}

/* An update of one row. */
struct change {
    uint64_t key;
    float *row;
    bool begins; /* The key had no row, or one that has expired. */
    const uint8_t *grad;
};

/* The row's head and first weights; `scratch` has them too. */
static void begin_row(struct ps_sparse *sparse, const struct change *change)
{
    size_t n_state = (size_t)sparse->spec.width * sparse->spec.state_per_elem;
    uint32_t *head = ps_row_head(change->row);
    head[PS_ROW_KEY] = (uint32_t)change->key;
    head[PS_ROW_KEY_HIGH] = (uint32_t)(change->key >> 32);
    head[PS_ROW_T] = 0;
    init_weights(sparse, change->key, sparse->scratch);
    memcpy(change->row + PS_ROW_HEAD, sparse->scratch, sparse->shape.n_kept * sizeof(float));
    memset(change->row + PS_ROW_HEAD + sparse->shape.n_kept, 0, n_state * sizeof(float));
}

/* Does a row that has just begun stand as it began? `scratch` has its first weights. */
static bool idle(const struct ps_sparse *sparse, const float *row)
{
    size_t n_state = (size_t)sparse->spec.width * sparse->spec.state_per_elem;
    const float *state = ps_row_state(&sparse->shape, row);
    for (size_t i = 0; i < n_state; i++) {
        if (state[i] != 0.0f) {
            return false;
        }
    }
    return memcmp(row + PS_ROW_HEAD, sparse->scratch, sparse->shape.n_kept * sizeof(float)) == 0;
}

/* Apply a gradient. @return false when a row that begins has not come of it */
static bool change_row(struct ps_sparse *sparse, const struct ps_sparse_push *push,
                       const struct change *change)
{
    const struct ps_sparse_shape *shape = &sparse->shape;
    float *state = change->row + PS_ROW_HEAD + shape->n_kept;
    float *weights = shape->n_kept > 0 ? change->row + PS_ROW_HEAD : sparse->scratch;
    uint32_t *head = ps_row_head(change->row);
    if (change->begins) {
        begin_row(sparse, change);
    } else if (shape->n_kept == 0) {
        ps_row_weights(shape, push->rate, change->row, weights);
    }
    head[PS_ROW_T] += head[PS_ROW_T] < UINT32_MAX ? 1 : 0;
    push->rule->apply(push->rule, head[PS_ROW_T], weights, state, change->grad);
    if (change->begins && idle(sparse, change->row)) {
        return false;
    }
    head[PS_ROW_TOUCHED] = sparse->clock;
    sparse->stats.n_updated++;
    sparse->stats.n_created += change->begins ? 1 : 0;
    return true;
}

/* Update a key that has no row. */
static void update_new(struct ps_sparse *sparse, const struct ps_sparse_push *push,
                       struct change *change, uint32_t hash)
{
    if (!admitted(sparse, change->key)) {
        sparse->stats.n_dropped++;
        return;
    }
    uint32_t at = ps_sparse_take_row(sparse);
    change->row = ps_row_in(sparse, at);
    change->begins = true;
    if (change_row(sparse, push, change)) {
        ps_index_insert(&sparse->index, hash, at);
    } else {
        ps_sparse_give_row(sparse, at);
    }
}

/* Update a key that has one. If it has expired it begins anew; or stays expired, for the sweep. */
static void update_known(struct ps_sparse *sparse, const struct ps_sparse_push *push,
                         struct change *change, uint32_t at)
{
    bool old = expired(sparse, ps_row_in(sparse, at));
    if (old && !admitted(sparse, change->key)) {
        sparse->stats.n_dropped++;
        return;
    }
    bool writable = ps_sparse_make_writable(sparse, at >> sparse->shape.page_bits, PS_PAGE_BEYOND);
    PS_ASSERT(writable); /* Only for a page that was borrowed since it was reserved. */
    change->row = ps_row_in(sparse, at);
    change->begins = old;
    bool lives = change_row(sparse, push, change);
    sparse->stats.n_expired += old && lives ? 1 : 0;
}

/* The next row of gradients; one that straddles slices is put together. */
static const uint8_t *next_grad(struct ps_sparse *sparse, struct ps_cursor *grads)
{
    size_t n_bytes = sparse->spec.width * sizeof(float);
    const uint8_t *run = NULL;
    size_t n = ps_cursor_run(grads, n_bytes, &run);
    if (n == n_bytes) {
        return run;
    }
    uint8_t *straddler = (uint8_t *)(sparse->scratch + sparse->spec.width);
    PS_ASSERT(n > 0);
    memcpy(straddler, run, n);
    ps_cursor_copy(grads, straddler + n, n_bytes - n);
    return straddler;
}

static void advance_clock(struct ps_sparse *sparse, uint64_t clock)
{
    uint32_t stored = clock < UINT32_MAX ? (uint32_t)clock : UINT32_MAX;
    sparse->clock = stored > sparse->clock ? stored : sparse->clock;
}

void ps_sparse_update(struct ps_sparse *sparse, const struct ps_sparse_push *push)
{
    struct ps_cursor grads = push->grads;
    struct finder finder = find(sparse, push->keys, push->n, row_floats(sparse));
    uint32_t hash = 0;
    PS_ASSERT(grads.n_left >= (size_t)push->n * sparse->spec.width * sizeof(float));
    advance_clock(sparse, push->clock);
    sparse->rate = push->rate;
    for (uint32_t i = 0; i < push->n; i++) {
        uint32_t at = find_next(&finder, &hash);
        struct change change = {.key = push->keys[i], .grad = next_grad(sparse, &grads)};
        if (at == PS_INDEX_NONE) {
            update_new(sparse, push, &change, hash);
        } else {
            update_known(sparse, push, &change, at);
        }
    }
}

/* ---- Sweep, restore, figures ---------------------------------------------------------------- */

static void sweep_row(struct ps_sparse *sparse, uint32_t at)
{
    const float *row = ps_row_in(sparse, at);
    if (ps_row_head_of(row)[PS_ROW_T] > 0 && expired(sparse, row)) {
        ps_index_remove(&sparse->index, ps_index_hash(&sparse->index, ps_row_key(row)), at);
        ps_sparse_give_row(sparse, at);
        sparse->stats.n_expired++;
    }
}

void ps_sparse_sweep(struct ps_sparse *sparse, uint32_t n_rows)
{
    if (sparse->spec.expire_after == 0 || sparse->n_pages == 0) {
        return;
    }
    uint32_t page_bits = sparse->shape.page_bits;
    uint64_t n_all = (uint64_t)sparse->n_pages << page_bits;
    for (uint32_t n_seen = 0; n_seen < n_rows && n_seen < n_all;) {
        uint64_t at = sparse->sweep_at < n_all ? sparse->sweep_at : 0;
        uint32_t number = (uint32_t)(at >> page_bits);
        uint64_t next = (uint64_t)(number + 1) << page_bits;
        const struct ps_sparse_page *page = &sparse->pages[number];
        uint64_t end = ((uint64_t)number << page_bits) + page->n_rows;
        if (page->page == NULL || (page->lent && ps_page_shared(page->page))) {
            n_seen++; /* Passed over, its rows uncounted. */
            sparse->sweep_at = next;
            continue;
        }
        for (; at < end && n_seen < n_rows; at++, n_seen++) {
            sweep_row(sparse, (uint32_t)at);
        }
        sparse->sweep_at = at < end ? at : next;
        if (at == end) {
            ps_sparse_drop_empty(sparse, number);
        }
    }
}

enum ps_status ps_sparse_put(struct ps_sparse *sparse, const struct ps_sparse_row *from)
{
    struct ps_sparse_claim claim = {0};
    PS_ASSERT(from->t >= 1);
    enum ps_status status = ps_sparse_reserve(sparse, &from->key, 1, PS_PAGE_WITHIN, &claim);
    if (status != PS_OK) {
        return status;
    }
    struct finder finder = find(sparse, &from->key, 1, 0);
    uint32_t hash = 0;
    uint32_t at = find_next(&finder, &hash);
    if (at == PS_INDEX_NONE) {
        at = ps_sparse_take_row(sparse);
        ps_index_insert(&sparse->index, hash, at);
    }
    size_t n_state = (size_t)sparse->spec.width * sparse->spec.state_per_elem;
    float *row = ps_row_in(sparse, at);
    uint32_t *head = ps_row_head(row);
    head[PS_ROW_KEY] = (uint32_t)from->key;
    head[PS_ROW_KEY_HIGH] = (uint32_t)(from->key >> 32);
    head[PS_ROW_T] = from->t;
    head[PS_ROW_TOUCHED] = from->touched;
    row += PS_ROW_HEAD;
    if (sparse->shape.n_kept > 0) {
        memcpy(row, from->weights, sparse->shape.n_kept * sizeof(float));
    }
    if (n_state > 0) {
        memcpy(row + sparse->shape.n_kept, from->state, n_state * sizeof(float));
    }
    advance_clock(sparse, from->touched);
    ps_sparse_release(sparse, &claim);
    return PS_OK;
}

void ps_sparse_put_rest(struct ps_sparse *sparse, const struct ps_sparse_rest *rest)
{
    advance_clock(sparse, rest->clock);
    sparse->rate = rest->rate;
    if (sparse->admit.n_bytes > 0) {
        PS_ASSERT(rest->aged < sparse->admit.n_bytes / sizeof(uint64_t));
        memcpy(sparse->admit.counts, rest->counts, sparse->admit.n_bytes);
        sparse->admit.aged = rest->aged;
    }
}

struct ps_sparse_stats ps_sparse_stats(const struct ps_sparse *sparse)
{
    struct ps_sparse_stats stats = sparse->stats;
    uint64_t n_rows = 0;
    for (uint32_t i = 0; i < sparse->n_pages; i++) {
        n_rows += sparse->pages[i].n_rows;
        stats.n_rows += sparse->pages[i].n_live;
    }
    stats.n_bytes = n_rows * sparse->shape.row_floats * sizeof(float) +
                    ps_index_bytes(&sparse->index) + sparse->admit.n_bytes;
    return stats;
}
