/*
 * test_sparse.c — sparse tables against a naive map: random pushes, several of them between reserve
 * and update, cut into calls and slices by chance; pulls, sweeps, views that are held while rows
 * change, and memory that is refused at any point. Content must be that of the map, to the bit.
 */
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/rng.h"
#include "lib/test_main.h"
#include "table/sparse.h"
#include "table/sparse_view.h"

enum {
    N_KEYS = 700,
    WIDTH = 150, /* 1,216 bytes a row: pages of 128 rows. */
    N_FLIGHT = 3,
    N_VIEWS = 3,
    PUSH_MAX = 60,
    ADMIT_BYTES = 8192,
};

/* A row of the naive map: key i is key_of(i). */
struct model_row {
    bool lives;
    uint32_t t;
    uint32_t touched;
    float weights[WIDTH];
    float state[WIDTH];
};

struct model {
    struct model_row rows[N_KEYS];
    struct ps_admit admit;
    uint32_t clock;
    uint64_t n_dropped;
};

struct record {
    uint32_t n;
    uint32_t ids[PUSH_MAX];
    uint64_t keys[PUSH_MAX];
    uint64_t clock;
    uint32_t seed; /* Of the gradients. */
    struct ps_sparse_claim claim;
};

struct held {
    struct ps_sparse_view *view;
    struct model at; /* What it must show. */
};

static struct ps_mem mem;
static struct ps_sparse *sparse;
static struct model model;
static struct record flight[N_FLIGHT];
static uint32_t n_flight;
static struct held held[N_VIEWS];

/* Ascending; in clusters of neighbours and with differences in the high bits. */
static uint64_t key_of(uint32_t id)
{
    return (uint64_t)(id / 16) << 50 | id % 16;
}

static struct ps_sparse_spec spec_of(uint32_t admit_after, uint32_t expire_after)
{
    return (struct ps_sparse_spec){.id = 5,
                                   .name = "rows",
                                   .width = WIDTH,
                                   .state_per_elem = 1,
                                   .init = {.kind = PS_INIT_UNIFORM, .scale = 1.0f, .seed = 11},
                                   .admit_after = admit_after,
                                   .admit_bytes = ADMIT_BYTES,
                                   .expire_after = expire_after,
                                   .index_seed = 17};
}

static void first_weights(const struct ps_sparse_spec *spec, uint64_t key, float *out)
{
    struct ps_init init = spec->init;
    init.seed = ps_rng_at(init.seed, spec->id, key);
    ps_init_fill(&init, 0, 0, out, WIDTH);
}

/* Order of updates, t and every float of gradient and state matter to it. */
static void rule_apply(struct ps_sparse_rule *rule, uint32_t t, float *weights, float *state,
                       const uint8_t *grad)
{
    (void)rule;
    for (uint32_t i = 0; i < WIDTH; i++) {
        float g = 0.0f;
        memcpy(&g, grad + i * sizeof(g), sizeof(g));
        state[i] = 0.5f * state[i] + g;
        weights[i] = 0.75f * weights[i] - state[i] / (float)t;
    }
}

static struct ps_sparse_rule rule = {.apply = rule_apply};

static void make_grads(const struct record *record, uint8_t *grads)
{
    for (uint32_t i = 0; i < record->n * WIDTH; i++) {
        float g = ps_rng_unit(ps_rng_at(record->seed, 1, i)) - 0.5f;
        memcpy(grads + i * sizeof(g), &g, sizeof(g));
    }
}

/* ---- The naive map -------------------------------------------------------------------------- */

static bool model_has(const struct model *m, const struct ps_sparse_spec *spec, uint32_t id)
{
    const struct model_row *row = &m->rows[id];
    return row->lives && (spec->expire_after == 0 || m->clock - row->touched <= spec->expire_after);
}

static void model_push(const struct record *record, const uint8_t *grads)
{
    const struct ps_sparse_spec *spec = &sparse->spec;
    if (record->n == 0) {
        return;
    }
    model.clock = record->clock > model.clock ? (uint32_t)record->clock : model.clock;
    for (uint32_t i = 0; i < record->n; i++) {
        struct model_row *row = &model.rows[record->ids[i]];
        if (!model_has(&model, spec, record->ids[i])) {
            uint64_t hash = ps_rng_at(spec->init.seed ^ 0x61646d6974, spec->id, record->keys[i]);
            if (spec->admit_after > 1 && ps_admit_count(&model.admit, hash) < spec->admit_after) {
                model.n_dropped++;
                continue;
            }
            memset(row, 0, sizeof(*row));
            row->lives = true;
            first_weights(spec, record->keys[i], row->weights);
        }
        row->t++;
        row->touched = model.clock;
        rule_apply(NULL, row->t, row->weights, row->state, grads + (size_t)i * WIDTH * 4);
    }
}

static void model_gather(uint32_t id, float *out)
{
    if (model_has(&model, &sparse->spec, id)) {
        memcpy(out, model.rows[id].weights, sizeof(model.rows[id].weights));
    } else {
        first_weights(&sparse->spec, key_of(id), out);
    }
}

/* ---- Random operations ---------------------------------------------------------------------- */

/* Each key with the probability of n / range, from a stretch of keys. */
static uint32_t draw_ids(struct ps_rng *rng, uint32_t *ids, uint64_t *keys)
{
    uint32_t n_wanted = 1 + (uint32_t)ps_rng_below(rng, PUSH_MAX);
    uint32_t range = n_wanted + (uint32_t)ps_rng_below(rng, N_KEYS - n_wanted);
    uint32_t first = (uint32_t)ps_rng_below(rng, N_KEYS - range + 1);
    uint32_t n = 0;
    for (uint32_t id = first; id < first + range && n < PUSH_MAX; id++) {
        if (ps_rng_below(rng, range) < n_wanted) {
            ids[n] = id;
            keys[n++] = key_of(id);
        }
    }
    return n;
}

/* Reserve in pieces; every fourth time some allocation is refused. */
static void reserve(struct ps_rng *rng)
{
    struct record *record = &flight[n_flight];
    *record = (struct record){.clock = model.clock + ps_rng_below(rng, 2),
                              .seed = (uint32_t)ps_rng_next(rng)};
    record->n = draw_ids(rng, record->ids, record->keys);
    if (ps_rng_below(rng, 4) == 0) {
        atomic_store(&mem.fail_after, (int64_t)ps_rng_below(rng, 3));
    }
    enum ps_status status = PS_OK;
    for (uint32_t at = 0; at < record->n && status == PS_OK;) {
        uint32_t n = 1 + (uint32_t)ps_rng_below(rng, record->n);
        n = n < record->n - at ? n : record->n - at;
        status = ps_sparse_reserve(sparse, record->keys + at, n, PS_PAGE_WITHIN, &record->claim);
        at += n;
    }
    atomic_store(&mem.fail_after, -1);
    if (status == PS_OK) {
        n_flight++;
    } else {
        ck_assert_int_eq(status, PS_ERR_NOMEM);
        ps_sparse_release(sparse, &record->claim);
    }
}

/* Gradients of the next `n` rows, in up to four slices cut by chance. */
static void update_piece(struct ps_rng *rng, const struct record *record, uint32_t at, uint32_t n,
                         const uint8_t *grads)
{
    struct ps_slice slices[4];
    size_t n_left = (size_t)n * WIDTH * sizeof(float);
    const uint8_t *data = grads + (size_t)at * WIDTH * sizeof(float);
    for (size_t s = 0; s < 4; s++) {
        size_t n_here = s == 3 ? n_left : (size_t)ps_rng_below(rng, n_left + 1);
        slices[s] = (struct ps_slice){.data = data, .n_bytes = n_here};
        data += n_here;
        n_left -= n_here;
    }
    struct ps_sparse_push push = {.keys = record->keys + at,
                                  .n = n,
                                  .grads = ps_cursor_over(slices, 4),
                                  .clock = record->clock,
                                  .rule = &rule};
    ps_sparse_update(sparse, &push);
}

/* Apply the oldest record in flight, or drop it. No allocation may be needed. */
static void apply(struct ps_rng *rng, bool lent_since)
{
    static uint8_t grads[PUSH_MAX * WIDTH * sizeof(float)];
    struct record *record = &flight[0];
    uint64_t n_calls = atomic_load(&mem.n_calls);
    if (ps_rng_below(rng, 8) != 0) {
        make_grads(record, grads);
        for (uint32_t at = 0; at < record->n;) {
            uint32_t n = 1 + (uint32_t)ps_rng_below(rng, record->n);
            n = n < record->n - at ? n : record->n - at;
            update_piece(rng, record, at, n, grads);
            at += n;
        }
        model_push(record, grads);
    }
    ck_assert(lent_since || atomic_load(&mem.n_calls) == n_calls);
    ps_sparse_release(sparse, &record->claim);
    n_flight--;
    memmove(flight, flight + 1, n_flight * sizeof(flight[0]));
}

static void check_gather(struct ps_rng *rng)
{
    static float got[(size_t)PUSH_MAX * WIDTH];
    float want[WIDTH];
    uint32_t ids[PUSH_MAX];
    uint64_t keys[PUSH_MAX];
    uint32_t n = draw_ids(rng, ids, keys);
    ps_sparse_gather(sparse, keys, n, got);
    for (uint32_t i = 0; i < n; i++) {
        model_gather(ids[i], want);
        ck_assert_msg(memcmp(got + (size_t)i * WIDTH, want, sizeof(want)) == 0, "key %u", ids[i]);
    }
}

/* The view shows exactly the rows that the map had, ascending. */
static void check_view(struct held *h)
{
    uint64_t n = 0;
    ck_assert(ps_sparse_view_order(h->view, false));
    for (uint32_t id = 0; id < N_KEYS; id++) {
        if (!model_has(&h->at, &sparse->spec, id)) {
            continue;
        }
        const struct model_row *want = &h->at.rows[id];
        ck_assert_uint_lt(n, h->view->n_rows);
        struct ps_sparse_row row = ps_sparse_view_row(h->view, n++);
        ck_assert_uint_eq(row.key, key_of(id));
        ck_assert_uint_eq(row.t, want->t);
        ck_assert_uint_eq(row.touched, want->touched);
        ck_assert_mem_eq(row.weights, want->weights, sizeof(want->weights));
        ck_assert_mem_eq(row.state, want->state, sizeof(want->state));
    }
    ck_assert_uint_eq(n, h->view->n_rows);
}

static void take_or_drop_view(struct ps_rng *rng)
{
    struct held *h = &held[ps_rng_below(rng, N_VIEWS)];
    if (h->view != NULL) {
        check_view(h);
        ps_sparse_view_drop(h->view);
        h->view = NULL;
        return;
    }
    h->view = ps_sparse_view_take(sparse, PS_PAGE_SNAPSHOT);
    ck_assert_ptr_nonnull(h->view);
    h->at = model;
}

static void start(const struct ps_sparse_spec *spec)
{
    ps_mem_init(&mem);
    memset(&model, 0, sizeof(model));
    n_flight = 0;
    ck_assert_int_eq(ps_sparse_create(spec, &mem, &sparse, NULL), PS_OK);
    ck_assert(ps_admit_init(&model.admit, ADMIT_BYTES, NULL));
}

static void finish(void)
{
    while (n_flight > 0) {
        ps_sparse_release(sparse, &flight[--n_flight].claim);
    }
    for (size_t i = 0; i < N_VIEWS; i++) {
        ps_sparse_view_drop(held[i].view);
        held[i].view = NULL;
    }
    ck_assert_uint_eq(sparse->n_promised, 0);
    ck_assert_uint_eq(sparse->stats.n_dropped, model.n_dropped);
    ps_sparse_destroy(sparse);
    ps_admit_deinit(&model.admit);
    ck_assert_uint_eq(atomic_load(&mem.used[PS_MEM_PAGES]), 0);
}

static const struct {
    uint32_t admit_after;
    uint32_t expire_after;
} modes[] = {{0, 0}, {1, 7}, {2, 0}, {3, 20}};

START_TEST(content_is_that_of_a_naive_map)
{
    struct ps_sparse_spec spec = spec_of(modes[_i].admit_after, modes[_i].expire_after);
    struct ps_rng rng = ps_rng_from(test_seed() + (uint64_t)_i);
    bool lent_since = false;
    start(&spec);
    for (int step = 0; step < 6000; step++) {
        switch (ps_rng_below(&rng, 8)) {
        case 0:
        case 1:
        case 2:
            if (n_flight < N_FLIGHT) {
                lent_since = lent_since && n_flight > 0;
                reserve(&rng);
            }
            break;
        case 3:
        case 4:
        case 5:
            if (n_flight > 0) {
                apply(&rng, lent_since);
            }
            break;
        case 6: check_gather(&rng); break;
        default:
            ps_sparse_sweep(sparse, (uint32_t)ps_rng_below(&rng, 100));
            if (ps_rng_below(&rng, 8) == 0) {
                take_or_drop_view(&rng);
                lent_since = true;
            }
            break;
        }
    }
    ck_assert_uint_gt(sparse->stats.n_created, 500);
    ck_assert(spec.expire_after == 0 || sparse->stats.n_expired > 0);
    ck_assert_uint_gt(sparse->stats.n_fresh, 0);
    finish();
}
END_TEST

/* ---- What the random walk does not show ----------------------------------------------------- */

/* Reserve, update, release `n` keys in a row from `first` on. */
static enum ps_status push_range(struct ps_sparse *to, uint64_t first, uint32_t n, uint64_t clock)
{
    static uint64_t keys[4096];
    static uint8_t zeros[4096 * WIDTH * sizeof(float)];
    ck_assert_uint_le(n, PS_ARRAY_LEN(keys));
    for (uint32_t i = 0; i < n; i++) {
        keys[i] = first + i;
    }
    struct ps_slice slice = {.data = zeros, .n_bytes = (size_t)n * WIDTH * sizeof(float)};
    struct ps_sparse_push push = {
        .keys = keys, .n = n, .grads = ps_cursor_over(&slice, 1), .clock = clock, .rule = &rule};
    struct ps_sparse_claim claim = {0};
    enum ps_status status = ps_sparse_reserve(to, keys, n, PS_PAGE_WITHIN, &claim);
    if (status == PS_OK) {
        ps_sparse_update(to, &push);
    }
    ps_sparse_release(to, &claim);
    return status;
}

START_TEST(a_full_budget_refuses_new_keys_and_goes_on_with_known_ones)
{
    struct ps_sparse_spec spec = spec_of(0, 5);
    start(&spec);
    mem.limit[PS_MEM_PAGES] = UINT64_C(2) << 20; /* A dozen pages. */
    uint64_t n_keys = 0;
    while (push_range(sparse, n_keys, 10, 1) == PS_OK) {
        n_keys += 10;
        ck_assert_uint_lt(n_keys, 2000);
    }
    ck_assert_uint_gt(n_keys, 1000);
    ck_assert_uint_le(atomic_load(&mem.used[PS_MEM_PAGES]), mem.limit[PS_MEM_PAGES]);
    ck_assert_uint_eq(ps_sparse_stats(sparse).n_rows, n_keys);
    ck_assert_int_eq(push_range(sparse, 0, 1000, 2), PS_OK);
    ck_assert_int_eq(push_range(sparse, 100000, 200, 2), PS_ERR_NOMEM);
    ck_assert_uint_eq(ps_sparse_stats(sparse).n_rows, n_keys);

    /* Six clocks later the untouched ones make room. */
    ck_assert_int_eq(push_range(sparse, 0, 1, 9), PS_OK);
    ps_sparse_sweep(sparse, 100000);
    ck_assert_uint_eq(ps_sparse_stats(sparse).n_rows, 1);
    ck_assert_int_eq(push_range(sparse, 100000, 200, 9), PS_OK);
    finish();
}
END_TEST

START_TEST(pages_that_expire_as_a_whole_go_back_to_the_budget)
{
    struct ps_sparse_spec spec = spec_of(0, 5);
    start(&spec);
    ck_assert_int_eq(push_range(sparse, 0, 2000, 1), PS_OK);
    uint64_t n_full = ps_sparse_stats(sparse).n_bytes;
    ck_assert_int_eq(push_range(sparse, 5000, 10, 20), PS_OK);
    ps_sparse_sweep(sparse, 100000);
    ck_assert_uint_eq(ps_sparse_stats(sparse).n_rows, 10);
    ck_assert_uint_lt(ps_sparse_stats(sparse).n_bytes, n_full / 4);
    ck_assert_int_eq(push_range(sparse, 0, 2000, 20), PS_OK);
    ck_assert_uint_eq(ps_sparse_stats(sparse).n_rows, 2010);
    finish();
}
END_TEST

START_TEST(a_sweep_leaves_what_is_promised)
{
    struct ps_sparse_spec spec = spec_of(0, 5);
    struct ps_sparse_claim claim = {0};
    static uint8_t zeros[200 * WIDTH * sizeof(float)];
    uint64_t keys[200];
    start(&spec);
    ck_assert_int_eq(push_range(sparse, 0, 128, 1), PS_OK);
    for (uint32_t i = 0; i < 200; i++) {
        keys[i] = 1000 + i;
    }
    ck_assert_int_eq(ps_sparse_reserve(sparse, keys, 200, PS_PAGE_WITHIN, &claim), PS_OK);
    ck_assert_int_eq(push_range(sparse, 0, 1, 20), PS_OK);
    ps_sparse_sweep(sparse, 100000);
    ck_assert_uint_eq(ps_sparse_stats(sparse).n_rows, 1);
    struct ps_slice slice = {.data = zeros, .n_bytes = sizeof(zeros)};
    struct ps_sparse_push push = {
        .keys = keys, .n = 200, .grads = ps_cursor_over(&slice, 1), .clock = 20, .rule = &rule};
    atomic_store(&mem.fail_after, 0);
    ps_sparse_update(sparse, &push);
    ps_sparse_release(sparse, &claim);
    ck_assert_uint_eq(ps_sparse_stats(sparse).n_rows, 201);
    finish();
}
END_TEST

/* Each allocation of a life is refused once: it says so, and the same push works the next time. */
START_TEST(every_allocation_may_fail)
{
    struct ps_sparse_spec spec = spec_of(2, 0);
    bool done = false;
    uint64_t n_rows = 0;
    for (int64_t k = 0; !done; k++) {
        struct ps_sparse *table = NULL;
        ps_mem_init(&mem);
        atomic_store(&mem.fail_after, k);
        enum ps_status status = ps_sparse_create(&spec, &mem, &table, NULL);
        if (status != PS_OK) {
            ck_assert_int_eq(status, PS_ERR_NOMEM);
            ck_assert_uint_eq(atomic_load(&mem.used[PS_MEM_PAGES]), 0);
            continue;
        }
        struct ps_sparse_view *view = NULL;
        for (uint64_t push = 0; push < 40; push++) {
            while (push_range(table, push / 2 * 50, 60, push) != PS_OK) {
            }
            if (push == 30) {
                while ((view = ps_sparse_view_take(table, PS_PAGE_REPLICA)) == NULL) {
                }
            }
        }
        while (!ps_sparse_view_order(view, false)) {
        }
        ps_sparse_view_drop(view);
        /* Where memory failed does not change who was admitted. */
        n_rows = n_rows == 0 ? ps_sparse_stats(table).n_rows : n_rows;
        ck_assert_uint_eq(ps_sparse_stats(table).n_rows, n_rows);
        done = atomic_load(&mem.fail_after) >= 0;
        ps_sparse_destroy(table);
        ck_assert_uint_eq(atomic_load(&mem.used[PS_MEM_PAGES]), 0);
    }
}
END_TEST

START_TEST(saved_rows_put_into_another_table_make_it_equal)
{
    struct ps_sparse_spec spec = spec_of(2, 9);
    struct ps_rng rng = ps_rng_from(test_seed());
    start(&spec);
    for (int i = 0; i < 200; i++) {
        reserve(&rng);
        while (n_flight > 0) {
            apply(&rng, false);
        }
    }
    struct ps_sparse *copy = NULL;
    spec.index_seed++; /* Another process. */
    ck_assert_int_eq(ps_sparse_create(&spec, &mem, &copy, NULL), PS_OK);
    struct ps_sparse_view *view = ps_sparse_view_take(sparse, PS_PAGE_REPLICA);
    ck_assert(ps_sparse_view_order(view, false));
    ck_assert_uint_gt(view->n_rows, 20);
    for (uint64_t i = view->n_rows; i-- > 0;) {
        struct ps_sparse_row row = ps_sparse_view_row(view, i);
        ck_assert_int_eq(ps_sparse_put(copy, &row), PS_OK);
    }
    struct ps_sparse_rest rest = {
        .clock = sparse->clock, .aged = sparse->admit.aged, .counts = sparse->admit.counts};
    ps_sparse_put_rest(copy, &rest);
    ps_sparse_view_drop(view);

    /* From here on the same records keep them equal. */
    struct ps_sparse *original = sparse;
    for (uint64_t i = 0; i < 40; i++) {
        uint64_t first = key_of((uint32_t)(i * 16));
        ck_assert_int_eq(push_range(original, first, 16, sparse->clock + 1), PS_OK);
        ck_assert_int_eq(push_range(copy, first, 16, copy->clock + 1), PS_OK);
    }
    float a[WIDTH];
    float b[WIDTH];
    for (uint32_t id = 0; id < N_KEYS; id++) {
        uint64_t key = key_of(id);
        ps_sparse_gather(original, &key, 1, a);
        ps_sparse_gather(copy, &key, 1, b);
        ck_assert_mem_eq(a, b, sizeof(a));
    }
    ck_assert_mem_eq(original->admit.counts, copy->admit.counts, copy->admit.n_bytes);
    ps_sparse_destroy(copy);
    model.n_dropped = sparse->stats.n_dropped;
    finish();
}
END_TEST

static void to_zero(struct ps_sparse_rule *r, uint32_t t, float *weights, float *state,
                    const uint8_t *grad)
{
    (void)r;
    (void)t;
    (void)state;
    memcpy(weights, grad, WIDTH * sizeof(float));
}

START_TEST(rows_that_are_exactly_zero_can_be_left_out)
{
    struct ps_sparse_spec spec = spec_of(0, 0);
    struct ps_sparse_rule setter = {.apply = to_zero};
    static float values[3][WIDTH];
    uint64_t keys[] = {2, 4, UINT64_MAX};
    start(&spec);
    values[1][WIDTH - 1] = 1e-30f;
    values[2][0] = -0.0f;
    struct ps_slice slice = {.data = (const uint8_t *)values, .n_bytes = sizeof(values)};
    struct ps_sparse_push push = {
        .keys = keys, .n = 3, .grads = ps_cursor_over(&slice, 1), .rule = &setter};
    struct ps_sparse_claim claim = {0};
    ck_assert_int_eq(ps_sparse_reserve(sparse, keys, 3, PS_PAGE_WITHIN, &claim), PS_OK);
    ps_sparse_update(sparse, &push);
    ps_sparse_release(sparse, &claim);
    struct ps_sparse_view *view = ps_sparse_view_take(sparse, PS_PAGE_SNAPSHOT);
    ck_assert(ps_sparse_view_order(view, true));
    ck_assert_uint_eq(view->n_rows, 1);
    ck_assert_uint_eq(ps_sparse_view_row(view, 0).key, 4);
    ps_sparse_view_drop(view);
    finish();
}
END_TEST

START_TEST(a_view_outlives_its_table)
{
    struct ps_sparse_spec spec = spec_of(0, 0);
    start(&spec);
    ck_assert_int_eq(push_range(sparse, 7, 300, 3), PS_OK);
    struct ps_sparse_view *view = ps_sparse_view_take(sparse, PS_PAGE_SNAPSHOT);
    ps_sparse_destroy(sparse);
    ck_assert(ps_sparse_view_order(view, false));
    ck_assert_uint_eq(view->n_rows, 300);
    ck_assert_uint_eq(ps_sparse_view_row(view, 299).key, 306);
    ps_sparse_view_drop(view);
    ps_admit_deinit(&model.admit);
    ck_assert_uint_eq(atomic_load(&mem.used[PS_MEM_PAGES]), 0);
}
END_TEST

START_TEST(specs_that_contradict_themselves_are_refused)
{
    struct ps_sparse_spec bad[6];
    for (size_t i = 0; i < PS_ARRAY_LEN(bad); i++) {
        bad[i] = spec_of(2, 0);
    }
    bad[0].width = 0;
    bad[1].width = PS_ROW_FLOATS_MAX + 1;
    bad[2].state_per_elem = PS_ROW_STATE_MAX + 1;
    bad[3].init.scale = -1.0f;
    bad[4].admit_after = PS_ADMIT_AFTER_MAX + 1;
    bad[5].admit_bytes = 96;
    for (size_t i = 0; i < PS_ARRAY_LEN(bad); i++) {
        struct ps_error err = {0};
        struct ps_sparse *table = NULL;
        ck_assert_int_eq(ps_sparse_create(&bad[i], NULL, &table, &err), PS_ERR_INVALID);
        ck_assert_ptr_nonnull(strstr(err.text, "rows"));
    }
}
END_TEST

static Suite *suite_sparse(void)
{
    Suite *suite = suite_create("sparse");
    TCase *tcase = tcase_create("core");
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, content_is_that_of_a_naive_map, 0, (int)PS_ARRAY_LEN(modes));
    tcase_add_test(tcase, a_full_budget_refuses_new_keys_and_goes_on_with_known_ones);
    tcase_add_test(tcase, pages_that_expire_as_a_whole_go_back_to_the_budget);
    tcase_add_test(tcase, a_sweep_leaves_what_is_promised);
    tcase_add_test(tcase, every_allocation_may_fail);
    tcase_add_test(tcase, saved_rows_put_into_another_table_make_it_equal);
    tcase_add_test(tcase, rows_that_are_exactly_zero_can_be_left_out);
    tcase_add_test(tcase, a_view_outlives_its_table);
    tcase_add_test(tcase, specs_that_contradict_themselves_are_refused);
    suite_add_tcase(suite, tcase);
    return suite;
}

PS_TEST_MAIN(suite_sparse)
