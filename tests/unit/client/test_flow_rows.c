/*
 * test_flow_rows.c — the cut of rows: each key in exactly one call of its own slot, cut alike
 * however often it is cut, with blocks in one call where they fit.
 */
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "client/flow_core.h"
#include "cluster/keys.h"
#include "lib/test_main.h"

#define SEED      5u
#define KEYS_MAX  60000u
#define TABLES    3u /* Sparse ones. */
#define UNITS_MAX (PS_SLOTS * PS_FRAGMENTS_MAX)
#define RUNS_MAX  20000u
#define N_SERVERS 3u /* Catalogue: dense 0, sparse 1, dense 2, sparse 3 and 4. */

static struct ps_layout layouts[5];
static struct ps_layout_view view = {.tables = layouts, .n_tables = 5};
static const bool both[5] = {true, false, true, false, false};
static const bool none[5] = {false};

/* Two of everything: a cut, and another one of the same. */
struct cut {
    struct ps_flow flow;
    struct ps_flow_rows rows;
    struct ps_flow_table tables[TABLES];
    struct ps_flow_unit units[UNITS_MAX];
    struct ps_flow_run runs[RUNS_MAX];
    uint64_t placed[TABLES * KEYS_MAX];
    uint32_t order[TABLES * KEYS_MAX];
    uint64_t firsts[TABLES];
    uint32_t slots[TABLES * (PS_SLOTS + 1)];
};
static struct cut cuts[2];
static uint64_t keys[TABLES][KEYS_MAX];
static struct ps_route route;

static int compare_keys(const void *a, const void *b)
{
    uint64_t one;
    uint64_t other;
    memcpy(&one, a, sizeof(one));
    memcpy(&other, b, sizeof(other));
    return one < other ? -1 : one > other;
}

static void setup(void)
{
    static const uint64_t sizes[3] = {10, 0, 1280000};
    memset(layouts, 0, sizeof(layouts));
    ck_assert_int_eq(ps_layout_table(&sizes[0], 1, 0, &layouts[0], NULL), PS_OK);
    ck_assert_int_eq(ps_layout_table(&sizes[2], 1, 1, &layouts[2], NULL), PS_OK);
    for (uint32_t slot = 0; slot < PS_SLOTS; slot++) {
        route.server[slot] = slot % N_SERVERS;
        route.epoch[slot] = 1;
    }
}

/* Keys of each table by chance, both ends of the 64 bits among them. */
static void draw_keys(struct ps_rng *rng, uint32_t n)
{
    for (uint32_t t = 0; t < TABLES; t++) {
        for (uint32_t i = 0; i < n; i++) {
            keys[t][i] = ps_rng_next(rng) >> (t == 0 ? 40 : 0);
        }
        keys[t][0] = 0;
        keys[t][n > 1 ? 1 : 0] = UINT64_MAX;
        qsort(keys[t], n, sizeof(keys[t][0]), compare_keys);
        for (uint32_t i = 1; i < n; i++) { /* A repeat becomes the next free one. */
            keys[t][i] = keys[t][i] <= keys[t][i - 1] ? keys[t][i - 1] + 1 : keys[t][i];
        }
    }
}

static void place(struct cut *cut, const uint32_t n[TABLES], const uint32_t width[TABLES])
{
    static const uint32_t numbers[TABLES] = {1, 3, 4};
    uint32_t nth = 0;
    uint32_t at = 0;
    for (uint32_t t = 0; t < TABLES; t++) {
        cut->tables[t] = (struct ps_flow_table){
            .table = numbers[t], .width = width[t], .n = n[t], .keys = keys[t]};
    }
    cut->rows = (struct ps_flow_rows){.tables = cut->tables,
                                      .n_tables = TABLES,
                                      .keys = cut->placed,
                                      .order = cut->order,
                                      .firsts = cut->firsts,
                                      .slots = cut->slots,
                                      .runs = cut->runs};
    ck_assert(ps_flow_rows_place(&cut->rows, SEED, &nth, &at));
}

static void begin(struct cut *cut, enum ps_flow_kind kind, const bool *chosen)
{
    struct ps_flow_size size = ps_flow_size(view, chosen, &cut->rows);
    ck_assert_uint_le(size.n_units, UNITS_MAX);
    ck_assert_uint_le(size.n_runs, RUNS_MAX);
    ck_assert(ps_flow_begin(&cut->flow, kind, view, chosen, &cut->rows, cut->units));
    ck_assert_uint_le(cut->flow.n_units, size.n_units);
    ck_assert_uint_eq(cut->rows.n_runs, size.n_runs);
}

/* Every key is in one run, of its slot; runs ascend; order leads back to the caller's array. */
static void check_keys(const struct cut *cut)
{
    static uint8_t met[TABLES][KEYS_MAX];
    memset(met, 0, sizeof(met));
    for (uint32_t u = 0; u < cut->flow.n_units; u++) {
        const struct ps_flow_unit *unit = &cut->units[u];
        for (uint32_t r = 0; r < unit->n_runs; r++) {
            const struct ps_flow_run *run = &cut->runs[unit->first_run + r];
            const uint64_t *of = ps_flow_run_keys(&cut->rows, run);
            const uint32_t *order = ps_flow_run_order(&cut->rows, run);
            ck_assert_uint_gt(run->n, 0);
            for (uint32_t i = 0; i < run->n; i++) {
                ck_assert_uint_eq(ps_keys_slot(of[i], SEED), unit->slot);
                ck_assert_uint_eq(of[i], keys[run->nth][order[i]]);
                ck_assert(i == 0 || of[i] > of[i - 1]);
                met[run->nth][order[i]]++;
            }
        }
    }
    for (uint32_t t = 0; t < TABLES; t++) {
        for (uint32_t i = 0; i < cut->tables[t].n; i++) {
            ck_assert_uint_eq(met[t][i], 1);
        }
    }
}

/* Fragments of a slot are numbered from 0 to their number, each once, and hold what a call may. */
static void check_units(const struct cut *cut)
{
    uint64_t fragments[PS_SLOTS] = {0};
    struct ps_flow_part parts[PS_CALL_PARTS_MAX];
    for (uint32_t u = 0; u < cut->flow.n_units; u++) {
        const struct ps_flow_unit *unit = &cut->units[u];
        ck_assert_uint_lt(unit->fragment, unit->n_fragments);
        ck_assert_uint_eq(fragments[unit->slot] & 1ull << unit->fragment, 0);
        fragments[unit->slot] |= 1ull << unit->fragment;
        ck_assert(u == 0 || cut->units[u - 1].slot != unit->slot ||
                  cut->units[u - 1].n_fragments == unit->n_fragments);
        uint32_t n_parts = ps_flow_parts(&cut->flow, unit, parts);
        uint64_t n_bytes = 0;
        for (uint32_t p = 0; p < n_parts; p++) {
            ck_assert(p == 0 || parts[p].table >= parts[p - 1].table);
            n_bytes += parts[p].run != NULL ? ps_flow_run_bytes(&cut->rows, parts[p].run)
                                            : parts[p].n_floats * sizeof(float);
        }
        ck_assert_uint_eq(n_bytes, unit->n_bytes);
        ck_assert_uint_le(n_bytes, PS_CALL_PAYLOAD_BYTES + PS_BLOCK_FLOATS_MAX * sizeof(float));
    }
}

static const uint32_t widths[][TABLES] = {{1, 16, 4}, {64, 1, 7}, {PS_ROW_FLOATS_MAX, 1, 1}};
static const uint32_t counts[][TABLES] = {
    {1, 0, 0}, {5, 5, 0}, {3000, 2000, 700}, {60000, 40000, 60000}, {6000, 100, 0}};

START_TEST(each_key_is_in_one_call_of_its_slot)
{
    struct ps_rng rng = ps_rng_from(test_seed());
    draw_keys(&rng, KEYS_MAX);
    const uint32_t *width = widths[_i % 3];
    const uint32_t *n = counts[_i / 3];
    struct cut *cut = &cuts[0];
    place(cut, n, width);
    begin(cut, _i % 2 == 0 ? PS_FLOW_PUSH : PS_FLOW_PULL, _i % 4 < 2 ? both : none);
    check_keys(cut);
    check_units(cut);
}
END_TEST

/* What a new holder of a lease sends under the same numbers must be the same. */
START_TEST(the_same_keys_are_cut_alike_whatever_their_bytes_are)
{
    static const uint32_t n[TABLES] = {30000, 50000, 100};
    static const uint32_t width[TABLES] = {16, 33, 1024};
    struct ps_rng rng = ps_rng_from(test_seed());
    draw_keys(&rng, KEYS_MAX);
    for (uint32_t c = 0; c < 2; c++) {
        place(&cuts[c], n, width);
        begin(&cuts[c], c == 0 ? PS_FLOW_PUSH : PS_FLOW_PULL, both);
    }
    for (uint32_t i = 0; i < cuts[0].rows.n_runs; i++) { /* Only bytes on the wire differ. */
        cuts[0].runs[i].n_key_bytes = 10 * cuts[0].runs[i].n;
    }
    ps_flow_weigh(&cuts[0].flow);
    ck_assert_uint_eq(cuts[0].flow.n_units, cuts[1].flow.n_units);
    for (uint32_t u = 0; u < cuts[0].flow.n_units; u++) {
        const struct ps_flow_unit *a = &cuts[0].units[u];
        const struct ps_flow_unit *b = &cuts[1].units[u];
        ck_assert_uint_eq(a->slot, b->slot);
        ck_assert_uint_eq(a->fragment, b->fragment);
        ck_assert_uint_eq(a->n_fragments, b->n_fragments);
        ck_assert_uint_eq(a->n_runs, b->n_runs);
        for (uint32_t r = 0; r < a->n_runs; r++) {
            ck_assert_uint_eq(cuts[0].runs[a->first_run + r].first,
                              cuts[1].runs[b->first_run + r].first);
            ck_assert_uint_eq(cuts[0].runs[a->first_run + r].n, cuts[1].runs[b->first_run + r].n);
        }
    }
}
END_TEST

/* A usual step is one call per server, blocks and rows together, and names slots once. */
START_TEST(a_small_step_is_one_call_per_server)
{
    static const uint32_t n[TABLES] = {500, 500, 500};
    static const uint32_t width[TABLES] = {1, 8, 1};
    static const bool small[5] = {true, false, false, false, false};
    struct ps_rng rng = ps_rng_from(test_seed());
    draw_keys(&rng, 500);
    place(&cuts[0], n, width);
    begin(&cuts[0], PS_FLOW_PUSH, small);
    static struct ps_share share;
    for (uint32_t server = 0; server < N_SERVERS; server++) {
        struct ps_flow_call call;
        ck_assert_uint_gt(ps_flow_take(&cuts[0].flow, &route, server, 0, &call), 0);
        ps_flow_fill(&cuts[0].flow, &route, &call, &share);
        uint64_t n_keys = 0;
        for (uint32_t p = 0; p < share.n_parts; p++) {
            n_keys += share.parts[p].n_keys;
            ck_assert_uint_eq(share.parts[p].n_keys > 0, share.parts[p].table != 0);
        }
        ck_assert_uint_gt(n_keys, 300);
        ck_assert_uint_eq(ps_flow_take(&cuts[0].flow, &route, server, 0, &call), 0);
    }
}
END_TEST

START_TEST(keys_that_do_not_ascend_are_pointed_at)
{
    struct ps_rng rng = ps_rng_from(test_seed());
    struct cut *cut = &cuts[0];
    uint32_t nth = 0;
    uint32_t at = 0;
    draw_keys(&rng, 10);
    place(cut, (const uint32_t[]){10, 10, 10}, widths[0]);
    keys[1][6] = keys[1][_i == 0 ? 5 : 3];
    ck_assert(!ps_flow_rows_place(&cut->rows, SEED, &nth, &at));
    ck_assert_uint_eq(nth, 1);
    ck_assert_uint_eq(at, 6);
}
END_TEST

/* A row that is asked for may have its gradient in another call than the one that carries it. */
START_TEST(rows_ride_only_with_a_push_that_is_one_call_of_the_slot)
{
    static const uint32_t width[TABLES] = {PS_ROW_FLOATS_MAX, 1, 1};
    static const uint32_t n_pull[TABLES] = {50, 0, 0};
    struct ps_rng rng = ps_rng_from(test_seed());
    draw_keys(&rng, KEYS_MAX);
    uint32_t n_push[TABLES] = {_i == 0 ? 50 : 6000, 0, 0}; /* 64 rows fill a call. */
    place(&cuts[0], n_push, width);
    begin(&cuts[0], PS_FLOW_PUSH, none);
    place(&cuts[1], n_pull, width);
    begin(&cuts[1], PS_FLOW_PULL, none);
    uint32_t n_riding = 0;
    for (uint32_t server = 0; server < N_SERVERS; server++) {
        struct ps_flow_call call;
        struct ps_flow_call riding;
        while (ps_flow_take(&cuts[0].flow, &route, server, 0, &call) > 0) {
            (void)ps_flow_take_same(&cuts[1].flow, &cuts[0].flow, &call, &riding);
            for (uint32_t i = 0; i < riding.n_units; i++) {
                uint32_t slot = cuts[1].units[riding.units[i]].slot;
                const struct ps_flow_unit *with = ps_flow_find(&cuts[0].flow, &call, slot);
                ck_assert_ptr_nonnull(with);
                ck_assert_uint_eq(with->n_fragments, 1);
                n_riding++;
            }
        }
    }
    ck_assert_int_eq(n_riding == cuts[1].flow.n_units, _i == 0);
}
END_TEST

START_TEST(more_rows_than_a_slot_has_calls_for_are_refused)
{
    static const uint32_t width[TABLES] = {PS_ROW_FLOATS_MAX, 1, 1};
    uint32_t n_found = 0;
    for (uint64_t key = 0; n_found < KEYS_MAX / 8; key++) { /* All of one slot. */
        if (ps_keys_slot(key, SEED) == 7) {
            keys[0][n_found++] = key;
        }
    }
    uint32_t n[TABLES] = {64 * 64 + 1, 0, 0};
    place(&cuts[0], n, width);
    ck_assert(
        !ps_flow_begin(&cuts[0].flow, PS_FLOW_PUSH, view, none, &cuts[0].rows, cuts[0].units));
    n[0] = 64 * 63;
    place(&cuts[0], n, width);
    begin(&cuts[0], PS_FLOW_PUSH, none);
    check_units(&cuts[0]);
}
END_TEST

Suite *suite_flow_rows(void); /* Of test_flow_core.c. */

Suite *suite_flow_rows(void)
{
    Suite *suite = suite_create("flow_rows");
    TCase *tcase = tcase_create("rows");
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, setup, NULL);
    tcase_add_loop_test(tcase, each_key_is_in_one_call_of_its_slot, 0,
                        3 * (int)(sizeof(counts) / sizeof(counts[0])));
    tcase_add_test(tcase, the_same_keys_are_cut_alike_whatever_their_bytes_are);
    tcase_add_test(tcase, a_small_step_is_one_call_per_server);
    tcase_add_loop_test(tcase, keys_that_do_not_ascend_are_pointed_at, 0, 2);
    tcase_add_loop_test(tcase, rows_ride_only_with_a_push_that_is_one_call_of_the_slot, 0, 2);
    tcase_add_test(tcase, more_rows_than_a_slot_has_calls_for_are_refused);
    suite_add_tcase(suite, tcase);
    return suite;
}
