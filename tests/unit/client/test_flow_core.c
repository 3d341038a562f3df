/*
 * test_flow_core.c — flow_core as properties: whatever is answered in whatever order, each block
 * of each chosen table is finished exactly once, and never two units of a slot share a call.
 */
#include <string.h>

#include "base/rng.h"
#include "client/flow_core.h"
#include "lib/test_main.h"

#define N_SERVERS 3u
#define UNITS_MAX 512u

static struct ps_layout layouts[4];
static struct ps_layout_view view = {.tables = layouts, .n_tables = 4};
static struct ps_route route;
static struct ps_flow flow;
static struct ps_flow_unit units[UNITS_MAX];
static const bool all[4] = {true, true, true, true};

static void setup(void)
{
    /* A bias, two layers, and one whose slots are larger than a call. */
    static const uint64_t sizes[4] = {10, 100352, 1280000, 40000000};
    uint32_t first_slot = 0;
    for (uint32_t i = 0; i < 4; i++) {
        ck_assert_int_eq(ps_layout_table(&sizes[i], 1, first_slot, &layouts[i], NULL), PS_OK);
        first_slot = ps_layout_next_slot(&layouts[i]);
    }
    for (uint32_t slot = 0; slot < PS_SLOTS; slot++) {
        route.server[slot] = slot % N_SERVERS;
        route.epoch[slot] = slot + 1;
        route.seen_epoch[slot] = slot;
        route.seen_position[slot] = 100 + slot;
    }
    ck_assert_uint_le(ps_flow_size(view, all, NULL).n_units, UNITS_MAX);
}

static void begin(enum ps_flow_kind kind, const bool *chosen)
{
    ck_assert(ps_flow_begin(&flow, kind, view, chosen, NULL, units));
}

START_TEST(the_units_hold_each_block_of_the_chosen_tables_once)
{
    static const bool some[4] = {true, false, false, true};
    const bool *chosen = _i == 0 ? all : some;
    static uint8_t met[4][4096];
    memset(met, 0, sizeof(met));
    begin(PS_FLOW_PUSH, chosen);
    struct ps_flow_part parts[PS_CALL_PARTS_MAX];
    for (uint32_t i = 0; i < flow.n_units; i++) {
        uint32_t n_parts = ps_flow_parts(&flow, &units[i], parts);
        uint32_t n_bytes = 0;
        for (uint32_t p = 0; p < n_parts; p++) {
            met[parts[p].table][parts[p].block]++;
            n_bytes += parts[p].n_floats * 4;
            ck_assert_uint_eq(ps_layout_slot(&layouts[parts[p].table], parts[p].block),
                              units[i].slot);
        }
        ck_assert_uint_eq(n_bytes, units[i].n_bytes);
    }
    for (uint32_t t = 0; t < 4; t++) {
        for (uint32_t b = 0; b < layouts[t].n_blocks; b++) {
            ck_assert_uint_eq(met[t][b], chosen[t] ? 1 : 0);
        }
    }
}
END_TEST

START_TEST(calls_name_slots_once_and_fit_a_message)
{
    begin(PS_FLOW_PUSH, all);
    struct ps_flow_call call;
    uint32_t n_taken = 0;
    for (uint32_t server = 0; server < N_SERVERS; server++) {
        while (ps_flow_take(&flow, &route, server, 0, &call) > 0) {
            static struct ps_share share;
            ps_flow_fill(&flow, &route, &call, &share);
            uint64_t slots = 0;
            uint64_t n_bytes = 0;
            for (uint32_t i = 0; i < share.n_slots; i++) {
                const struct ps_slot_part *slot = &share.slots[i];
                ck_assert_uint_eq(route.server[slot->slot], server);
                ck_assert_uint_eq(slots & 1ull << slot->slot, 0);
                slots |= 1ull << slot->slot;
                ck_assert_uint_eq(slot->epoch, slot->slot + 1);
                ck_assert_uint_eq(slot->seen_epoch, slot->slot);
                ck_assert_uint_eq(slot->seen_position, 100 + slot->slot);
                ck_assert_uint_eq(slot->n_fragments, ps_layout_slot_fragments(view, slot->slot));
                for (uint32_t p = 0; p < slot->n_parts; p++) {
                    n_bytes += share.parts[slot->first_part + p].n_bytes;
                }
            }
            ck_assert_uint_eq(n_bytes, call.n_bytes);
            ck_assert_uint_lt(n_bytes + PS_HEAD_BYTES_MAX, PS_MESSAGE_BYTES_MAX);
            n_taken += call.n_units;
        }
    }
    ck_assert_uint_eq(n_taken, flow.n_units);
    ck_assert_uint_eq(flow.n_sent, flow.n_units);
    ck_assert(!ps_flow_ended(&flow));
}
END_TEST

/* What a slot may answer, and how often, in the storm below. */
static enum ps_status chance_status(struct ps_rng *rng, enum ps_flow_kind kind)
{
    static const enum ps_status statuses[] = {PS_ERR_NOT_PRIMARY, PS_ERR_BUSY, PS_ERR_NOMEM,
                                              PS_ERR_UNAVAIL, PS_ERR_NOT_YET};
    uint64_t roll = ps_rng_below(rng, 10);
    if (roll >= 5) {
        return PS_OK;
    }
    return roll == 4 && kind == PS_FLOW_PUSH ? PS_ERR_BUSY : statuses[roll];
}

static uint32_t n_ok[UNITS_MAX];

static void answer_by_chance(struct ps_rng *rng, const struct ps_flow_call *call, uint64_t now_ms)
{
    for (uint32_t i = 0; i < call->n_units; i++) {
        struct ps_flow_unit *unit = &units[call->units[i]];
        ck_assert_ptr_eq(ps_flow_find(&flow, call, unit->slot), unit);
        if (ps_rng_below(rng, 8) == 0) {
            continue; /* No answer for this one. */
        }
        enum ps_status status = chance_status(rng, flow.kind);
        n_ok[call->units[i]] += status == PS_OK ? 1u : 0u;
        ps_flow_answer(&flow, unit, status, now_ms + ps_rng_below(rng, 5));
    }
    ps_flow_end_call(&flow, call, now_ms + 3);
}

START_TEST(every_unit_is_finished_once_however_answers_come)
{
    struct ps_rng rng = ps_rng_from(test_seed() + (uint64_t)_i);
    begin(_i % 2 == 0 ? PS_FLOW_PUSH : PS_FLOW_PULL, all);
    memset(n_ok, 0, sizeof(n_ok));
    static struct ps_flow_call calls[16];
    uint32_t n_calls = 0;
    uint64_t now_ms = 0;
    uint32_t n_asking[N_SERVERS] = {0};
    while (!ps_flow_ended(&flow)) {
        ck_assert_msg(now_ms++ < 100000, "no end; seed %llu",
                      (unsigned long long)(test_seed() + (uint64_t)_i));
        uint32_t server = (uint32_t)ps_rng_below(&rng, N_SERVERS);
        if (n_calls < 16 && ps_flow_take(&flow, &route, server, now_ms, &calls[n_calls]) > 0) {
            n_asking[server] += calls[n_calls].asks ? 1 : 0;
            ck_assert_uint_le(n_asking[server], 1);
            n_calls++;
        }
        if (n_calls > 0 && ps_rng_below(&rng, 2) == 0) {
            uint32_t at = (uint32_t)ps_rng_below(&rng, n_calls); /* Any order. */
            struct ps_flow_call call = calls[at];
            calls[at] = calls[--n_calls];
            n_asking[call.server] -= call.asks ? 1 : 0;
            answer_by_chance(&rng, &call, now_ms);
        }
        if (ps_rng_below(&rng, 50) == 0) { /* A slot moves. */
            uint32_t slot = (uint32_t)ps_rng_below(&rng, PS_SLOTS);
            route.server[slot] = (uint32_t)ps_rng_below(&rng, N_SERVERS);
            ps_flow_placed(&flow, slot);
        }
    }
    ck_assert_int_eq(ps_flow_outcome(&flow), PS_OK);
    ck_assert_uint_eq(n_calls, 0);
    for (uint32_t i = 0; i < flow.n_units; i++) {
        ck_assert_uint_eq(n_ok[i], 1);
    }
}
END_TEST

START_TEST(one_pull_per_server_asks_and_the_others_follow_its_answer)
{
    begin(PS_FLOW_PULL, all);
    struct ps_flow_call first;
    struct ps_flow_call other;
    ck_assert(ps_flow_asks(&flow, 1));
    ck_assert_uint_gt(ps_flow_take(&flow, &route, 1, 0, &first), 0);
    ck_assert(first.asks);
    ck_assert_uint_eq(ps_flow_take(&flow, &route, 1, 0, &other), 0);
    ck_assert_uint_gt(ps_flow_take(&flow, &route, 2, 0, &other), 0); /* Another server. */
    for (uint32_t i = 0; i < first.n_units; i++) {
        ps_flow_answer(&flow, &units[first.units[i]], PS_ERR_NOT_YET, 50);
    }
    ps_flow_end_call(&flow, &first, 50);
    ck_assert(ps_flow_asks(&flow, 1)); /* Still shut: again only one, and not before. */
    ck_assert_uint_eq(ps_flow_next_ms(&flow, 0), 50);
    ck_assert_uint_eq(ps_flow_take(&flow, &route, 1, 49, &first), 0);
    ck_assert_uint_gt(ps_flow_take(&flow, &route, 1, 50, &first), 0);
    ck_assert(first.asks);
    ps_flow_answer(&flow, &units[first.units[0]], PS_OK, 0);
    ps_flow_end_call(&flow, &first, 0);
    ck_assert(!ps_flow_asks(&flow, 1));
    ck_assert_uint_gt(ps_flow_take(&flow, &route, 1, 50, &first), 0);
    ck_assert(!first.asks);
    ck_assert_uint_gt(ps_flow_take(&flow, &route, 1, 50, &first), 0);
}
END_TEST

/* One status for one slot, while all others say OK. */
static const struct {
    const char *name;
    enum ps_status status;
    bool again;             /* The unit is sent once more. */
    enum ps_status outcome; /* Of the push, when the second try is OK. */
} rows[] = {
    {"busy is repeated", PS_ERR_BUSY, true, PS_OK},
    {"the wrong server is repeated", PS_ERR_NOT_PRIMARY, true, PS_OK},
    {"no memory is repeated", PS_ERR_NOMEM, true, PS_OK},
    {"late is final but the others count", PS_ERR_LATE, false, PS_ERR_LATE},
    {"fenced ends it", PS_ERR_FENCED, false, PS_ERR_FENCED},
    {"invalid ends it", PS_ERR_INVALID, false, PS_ERR_INVALID},
    {"lost is repeated until somebody decides", PS_ERR_LOST, true, PS_OK},
};

START_TEST(a_status_of_one_slot_decides_for_the_push)
{
    begin(PS_FLOW_PUSH, all);
    struct ps_flow_call call;
    struct ps_flow_unit *odd = NULL;
    for (uint32_t server = 0; server < N_SERVERS; server++) {
        while (ps_flow_take(&flow, &route, server, 0, &call) > 0) {
            for (uint32_t i = 0; i < call.n_units; i++) {
                struct ps_flow_unit *unit = &units[call.units[i]];
                odd = odd == NULL ? unit : odd;
                ps_flow_answer(&flow, unit, unit == odd ? rows[_i].status : PS_OK, 10);
            }
            ps_flow_end_call(&flow, &call, 10);
        }
    }
    ck_assert_msg(ps_flow_ended(&flow) == !rows[_i].again || flow.failed != PS_OK, "%s",
                  rows[_i].name);
    if (rows[_i].again) {
        ck_assert_uint_eq(ps_flow_next_ms(&flow, 0), 10);
        ck_assert_uint_eq(ps_flow_take(&flow, &route, route.server[odd->slot], 9, &call), 0);
        ck_assert_uint_eq(ps_flow_take(&flow, &route, route.server[odd->slot], 10, &call), 1);
        ps_flow_answer(&flow, odd, PS_OK, 0);
        ps_flow_end_call(&flow, &call, 0);
    }
    ck_assert_msg(ps_flow_ended(&flow), "%s", rows[_i].name);
    ck_assert_msg(ps_flow_outcome(&flow) == rows[_i].outcome, "%s", rows[_i].name);
}
END_TEST

START_TEST(news_of_a_slot_ends_its_wait_and_no_other)
{
    static const bool small[4] = {true, true, true, false}; /* Several slots share a call. */
    begin(PS_FLOW_PUSH, small);
    struct ps_flow_call call;
    ck_assert_uint_gt(ps_flow_take(&flow, &route, 0, 0, &call), 1);
    uint32_t moved = units[call.units[0]].slot;
    for (uint32_t i = 0; i < call.n_units; i++) {
        ps_flow_answer(&flow, &units[call.units[i]], PS_ERR_NOT_PRIMARY, 500);
    }
    ps_flow_end_call(&flow, &call, 500);
    route.server[moved] = 2;
    ps_flow_placed(&flow, moved);
    bool met = false;
    while (ps_flow_take(&flow, &route, 2, 1, &call) > 0) {
        met = met || ps_flow_find(&flow, &call, moved) != NULL;
    }
    ck_assert(met);
    ck_assert_uint_eq(ps_flow_next_ms(&flow, 1), 500);
}
END_TEST

START_TEST(a_pull_rides_with_the_pushes_of_its_slots)
{
    static struct ps_flow pull;
    static struct ps_flow_unit pull_units[UNITS_MAX];
    static const bool some[4] = {false, true, true, false};
    begin(PS_FLOW_PUSH, all);
    ck_assert(ps_flow_begin(&pull, PS_FLOW_PULL, view, some, NULL, pull_units));
    uint32_t n_riding = 0;
    struct ps_flow_call call;
    struct ps_flow_call riding;
    for (uint32_t server = 0; server < N_SERVERS; server++) {
        while (ps_flow_take(&flow, &route, server, 0, &call) > 0) {
            n_riding += ps_flow_take_same(&pull, &flow, &call, &riding);
            for (uint32_t i = 0; i < riding.n_units; i++) {
                uint32_t slot = pull_units[riding.units[i]].slot;
                ck_assert_ptr_nonnull(ps_flow_find(&flow, &call, slot));
                ps_flow_answer(&pull, &pull_units[riding.units[i]], PS_OK, 0);
            }
            ps_flow_end_call(&pull, &riding, 0);
        }
    }
    ck_assert_uint_eq(n_riding, pull.n_units);
    ck_assert(ps_flow_ended(&pull));
}
END_TEST

static Suite *suite_flow_core(void)
{
    Suite *suite = suite_create("flow_core");
    TCase *tcase = tcase_create("flow");
    tcase_add_checked_fixture(tcase, setup, NULL);
    tcase_add_loop_test(tcase, the_units_hold_each_block_of_the_chosen_tables_once, 0, 2);
    tcase_add_test(tcase, calls_name_slots_once_and_fit_a_message);
    tcase_add_loop_test(tcase, every_unit_is_finished_once_however_answers_come, 0, 40);
    tcase_add_test(tcase, one_pull_per_server_asks_and_the_others_follow_its_answer);
    tcase_add_loop_test(tcase, a_status_of_one_slot_decides_for_the_push, 0,
                        (int)(sizeof(rows) / sizeof(rows[0])));
    tcase_add_test(tcase, news_of_a_slot_ends_its_wait_and_no_other);
    tcase_add_test(tcase, a_pull_rides_with_the_pushes_of_its_slots);
    suite_add_tcase(suite, tcase);
    return suite;
}

Suite *suite_flow_rows(void); /* test_flow_rows.c */

PS_TEST_MAIN(suite_flow_core, suite_flow_rows)
