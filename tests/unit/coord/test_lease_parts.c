/*
 * test_lease_parts.c — jobs over parts: which part a lease is of, when it is over, what is counted.
 */
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "coord/lease_core.h"
#include "test_coord.h"

#define PARTS  7u
#define EPOCHS 3u
#define BATCH  10u

static const struct ps_lease_job parts_job = {
    .batch = BATCH, .epochs = EPOCHS, .workers = 2, .parts = PARTS, .seed = 5};

static struct ps_lease_pool pool_of(const struct ps_lease_job *job)
{
    struct ps_lease_plan plan;
    struct ps_lease_pool pool;
    struct ps_error err;
    ck_assert_msg(ps_lease_plan_make(job, &plan, &err) == PS_OK, "%s", err.text);
    void *memory = ps_mem_alloc(NULL, PS_MEM_OTHER, ps_lease_pool_bytes(&plan));
    ck_assert_ptr_nonnull(memory);
    ps_lease_pool_init(&pool, &plan, memory);
    return pool;
}

static bool say(struct ps_lease_pool *pool, uint64_t id, uint32_t units_done, bool over,
                uint64_t rows)
{
    struct ps_lease_news news = {.units_done = units_done, .over = over, .rows = rows};
    return ps_lease_pool_advance(pool, id, &news);
}

/* ---- The cut ------------------------------------------------------------------------------- */

START_TEST(each_epoch_lends_each_part_once)
{
    struct ps_lease_job job = parts_job;
    job.shuffle = _i != 0;
    struct ps_lease_pool pool = pool_of(&job);
    ck_assert_uint_eq(pool.plan.n_leases, PARTS * EPOCHS);
    uint32_t n_moved = 0;
    for (uint32_t epoch = 0; epoch < EPOCHS; epoch++) {
        bool seen[PARTS] = {false};
        for (uint32_t place = 0; place < PARTS; place++) {
            struct ps_lease_view lease = ps_lease_at(&pool.plan, 1 + epoch * PARTS + place);
            ck_assert_uint_eq(lease.epoch, epoch);
            ck_assert_uint_eq(lease.n_units, 0);
            ck_assert_uint_lt(lease.part, PARTS);
            ck_assert(!seen[lease.part]);
            seen[lease.part] = true;
            n_moved += lease.part != place;
        }
    }
    ck_assert(job.shuffle ? n_moved > EPOCHS : n_moved == 0);
    ps_mem_free(pool.epoch_units_done);
}
END_TEST

START_TEST(the_order_of_parts_is_one_of_seed_and_epoch)
{
    struct ps_lease_job job = parts_job;
    job.shuffle = true;
    struct ps_lease_plan plan;
    struct ps_lease_plan again;
    struct ps_lease_plan other;
    struct ps_error err;
    ck_assert_int_eq(ps_lease_plan_make(&job, &plan, &err), PS_OK);
    job.workers = 9;
    ck_assert_int_eq(ps_lease_plan_make(&job, &again, &err), PS_OK);
    job.seed++;
    ck_assert_int_eq(ps_lease_plan_make(&job, &other, &err), PS_OK);
    uint32_t n_seed = 0;
    uint32_t n_epoch = 0;
    for (uint64_t id = 1; id <= PARTS; id++) {
        uint32_t part = ps_lease_at(&plan, id).part;
        ck_assert_uint_eq(ps_lease_at(&again, id).part, part);
        n_seed += ps_lease_at(&other, id).part != part;
        n_epoch += ps_lease_at(&plan, id + PARTS).part != part;
    }
    ck_assert_uint_gt(n_seed, 0);
    ck_assert_uint_gt(n_epoch, 0);
}
END_TEST

/* clang-format off */
static const struct {
    const char *name;
    struct ps_lease_job job;
    const char *words; /* NULL: it is fine. */
} jobs[] = {
    {"over parts", {0, 10, 2, 1, 0, false, 4, true, 1}, NULL},
    {"rows beside parts", {5, 10, 2, 1, 0, false, 4, true, 1}, "rows must be 0, got 5"},
    {"units beside parts", {0, 10, 2, 1, 3, false, 4, true, 1}, "units_per_lease must be 0, got 3"},
    {"averaged", {0, 10, 2, 1, 0, true, 4, true, 1}, "aggregate"},
    {"no batch", {0, 0, 2, 1, 0, false, 4, true, 1}, "batch"},
    {"as many as may be", {0, 1, 2, 1, 0, false, PS_LEASES_MAX / 2, true, 1}, NULL},
    {"too many", {0, 1, 2, 1, 0, false, PS_LEASES_MAX / 2 + 1, true, 1}, "more than 1048576 leases"},
    {"far too many", {0, 1, PS_LEASES_MAX, 1, 0, false, UINT32_MAX, true, 1}, "leases"},
};
/* clang-format on */

START_TEST(a_job_over_parts_is_checked)
{
    struct ps_lease_plan plan;
    struct ps_error err = {0};
    enum ps_status status = ps_lease_plan_make(&jobs[_i].job, &plan, &err);
    ck_assert_msg(status == (jobs[_i].words == NULL ? PS_OK : PS_ERR_INVALID), "%s: %s",
                  jobs[_i].name, err.text);
    ck_assert_msg(jobs[_i].words == NULL || strstr(err.text, jobs[_i].words) != NULL, "%s: %s",
                  jobs[_i].name, err.text);
}
END_TEST

/* ---- The pool ------------------------------------------------------------------------------ */

START_TEST(a_part_is_finished_by_its_holders_word_and_its_rows_are_counted_once)
{
    struct ps_lease_pool pool = pool_of(&parts_job);
    ck_assert_uint_eq(ps_lease_pool_lend(&pool), 1);
    ck_assert(!say(&pool, 1, 3, false, 30));
    ck_assert_uint_eq(pool.rows, 0); /* Not finished. */
    ps_lease_pool_return(&pool, 1);
    ck_assert_uint_eq(ps_lease_pool_lend(&pool), 1);
    ck_assert_uint_eq(ps_lease_units_done(&pool, 1), 3);
    ck_assert(!say(&pool, 1, 2, true, 17)); /* Somebody who knows less than is known. */
    ck_assert(say(&pool, 1, 4, true, 35));
    ck_assert_uint_eq(pool.rows, 35);
    ck_assert_uint_eq(pool.epoch_finished[0], 1);
    ck_assert_uint_eq(pool.units_done_total, 4);
    for (uint64_t id = 2; id <= PARTS + 1; id++) {
        ck_assert_uint_eq(ps_lease_pool_lend(&pool), id);
    }
    ck_assert(say(&pool, PARTS + 1, 4, true, 35)); /* The same part in the next epoch. */
    ck_assert_uint_eq(pool.rows, 35);
    ck_assert_uint_eq(pool.epoch_finished[1], 1);
    ps_mem_free(pool.epoch_units_done);
}
END_TEST

START_TEST(rows_that_cannot_be_count_as_the_nearest_that_can)
{
    struct ps_lease_pool pool = pool_of(&parts_job);
    const struct {
        uint32_t units_done;
        uint64_t said;
        uint64_t rows;
    } cases[] = {{2, 0, 11}, {2, 10, 11}, {2, 11, 11}, {2, 20, 20}, {2, UINT64_MAX, 20}, {0, 7, 0}};
    uint64_t rows = 0;
    for (size_t i = 0; i < PS_ARRAY_LEN(cases); i++) {
        uint64_t id = ps_lease_pool_lend(&pool);
        ck_assert(say(&pool, id, cases[i].units_done, true, cases[i].said));
        rows += cases[i].rows;
        ck_assert_uint_eq(pool.rows, rows);
    }
    ps_mem_free(pool.epoch_units_done);
}
END_TEST

START_TEST(a_part_without_rows_is_finished_and_trains_nobody)
{
    struct ps_lease_job job = parts_job;
    job.epochs = 1;
    struct ps_lease_pool pool = pool_of(&job);
    uint32_t min;
    uint32_t max;
    for (uint32_t i = 0; i < PARTS; i++) {
        ps_lease_pool_trained(&pool, &min, &max);
        ck_assert_uint_eq(min, 0); /* Nobody knows yet that there is nothing in the others. */
        uint64_t id = ps_lease_pool_lend(&pool);
        ck_assert(say(&pool, id, _i == 0 || i % 2 == 0 ? 0 : 1, true, _i == 0 ? 0 : 1));
    }
    ck_assert(ps_lease_pool_done(&pool));
    ps_lease_pool_trained(&pool, &min, &max);
    ck_assert_uint_eq(min, (uint32_t)_i);
    ck_assert_uint_eq(max, (uint32_t)_i);
    ps_mem_free(pool.epoch_units_done);
}
END_TEST

START_TEST(a_lease_has_no_more_units_than_a_part_can_have)
{
    struct ps_lease_pool pool = pool_of(&parts_job);
    ck_assert(ps_lease_may_have(&pool.plan, 1, PS_PART_UNITS_MAX));
    ck_assert(!ps_lease_may_have(&pool.plan, 1, PS_PART_UNITS_MAX + 1));
    ck_assert(!ps_lease_may_have(&pool.plan, 1, UINT32_MAX));
    ps_mem_free(pool.epoch_units_done);
}
END_TEST

/* Holders that let go of theirs in an order of chance. */
START_TEST(a_part_has_one_holder_at_a_time_epoch_after_epoch)
{
    struct ps_lease_job job = parts_job;
    job.epochs = 40;
    job.shuffle = true;
    struct ps_lease_pool pool = pool_of(&job);
    uint64_t held[PARTS + 2] = {0};
    uint32_t n_done[PARTS] = {0};
    bool busy[PARTS] = {false};
    uint32_t n_refused = 0;
    struct ps_rng rng = ps_rng_from((uint64_t)_i);
    while (!ps_lease_pool_done(&pool)) {
        uint32_t who = (uint32_t)ps_rng_below(&rng, PS_ARRAY_LEN(held));
        if (held[who] == 0) {
            held[who] = ps_lease_pool_lend(&pool);
            n_refused += held[who] == 0;
            if (held[who] != 0) {
                struct ps_lease_view lease = ps_lease_at(&pool.plan, held[who]);
                ck_assert(!busy[lease.part]);
                ck_assert_uint_eq(n_done[lease.part], lease.epoch);
                busy[lease.part] = true;
            }
            continue;
        }
        struct ps_lease_view lease = ps_lease_at(&pool.plan, held[who]);
        busy[lease.part] = false;
        if (ps_rng_below(&rng, 4) == 0) {
            ps_lease_pool_return(&pool, held[who]);
        } else {
            ck_assert(say(&pool, held[who], 1, true, 1));
            n_done[lease.part]++;
        }
        held[who] = 0;
        struct ps_lease_range ranges[PS_LEASE_RANGES_MAX];
        ck_assert_uint_le(ps_lease_pool_finished(&pool, ranges), 2 * PS_ARRAY_LEN(held) + 1);
    }
    ck_assert_uint_gt(n_refused, 0);
    ps_mem_free(pool.epoch_units_done);
}
END_TEST

Suite *suite_lease_parts(void)
{
    Suite *suite = suite_create("lease_parts");
    TCase *tcase = tcase_create("parts");
    tcase_add_loop_test(tcase, each_epoch_lends_each_part_once, 0, 2);
    tcase_add_test(tcase, the_order_of_parts_is_one_of_seed_and_epoch);
    tcase_add_loop_test(tcase, a_job_over_parts_is_checked, 0, (int)PS_ARRAY_LEN(jobs));
    tcase_add_loop_test(tcase, a_part_has_one_holder_at_a_time_epoch_after_epoch, 0, 20);
    tcase_add_test(tcase, a_part_is_finished_by_its_holders_word_and_its_rows_are_counted_once);
    tcase_add_test(tcase, rows_that_cannot_be_count_as_the_nearest_that_can);
    tcase_add_loop_test(tcase, a_part_without_rows_is_finished_and_trains_nobody, 0, 2);
    tcase_add_test(tcase, a_lease_has_no_more_units_than_a_part_can_have);
    suite_add_tcase(suite, tcase);
    return suite;
}
