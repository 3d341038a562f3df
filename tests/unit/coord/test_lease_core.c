/*
 * test_lease_core.c — the cut of the data into leases, and the pool.
 *
 * Properties over a grid of job shapes: every row lies in exactly one unit of every epoch, whatever
 * the shape; the pool lends lowest ids first and counts what is finished.
 */
#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "coord/lease_core.h"
#include "test_coord.h"

#define ROWS_MAX 200u

static const uint32_t row_counts[] = {1, 3, 7, 100, 101};
static const uint32_t batches[] = {1, 2, 5, 8, 32, 101, 150};
static const uint32_t lease_units[] = {0, 1, 3, 50};

static struct ps_lease_plan plan_of(const struct ps_lease_job *job)
{
    struct ps_lease_plan plan;
    struct ps_error err;
    ck_assert_msg(ps_lease_plan_make(job, &plan, &err) == PS_OK, "%s", err.text);
    return plan;
}

static void fail_shape(const struct ps_lease_job *job, const char *what, uint64_t where)
{
    ck_abort_msg("rows=%" PRIu64 " batch=%u workers=%u units=%u aggregate=%d: %s %" PRIu64,
                 job->rows, job->batch, job->workers, job->units_per_lease, job->aggregate, what,
                 where);
}

/* Count the rows of one lease; false when it is not what its view says. */
static bool count_lease(const struct ps_lease_plan *plan, uint64_t id, uint32_t *seen)
{
    struct ps_lease_view lease = ps_lease_at(plan, id);
    bool right = lease.id == id && lease.epoch == (id - 1) / plan->n_parts && lease.n_units >= 1;
    for (uint32_t unit = 0; unit < lease.n_units; unit++) {
        uint64_t first = 0;
        uint32_t n = ps_lease_rows(plan, id, unit, &first);
        right = right && first == lease.first_row + unit * lease.stride && n <= lease.unit_rows &&
                (n == 0 || first + n <= plan->rows);
        for (uint64_t row = first; right && row < first + n; row++) {
            seen[row]++;
        }
    }
    return right;
}

/* Expand all leases to rows and count. (Not ck_assert in loops: it writes a mark each time.) */
static void count_rows(const struct ps_lease_job *job, const struct ps_lease_plan *plan)
{
    static uint32_t seen[2][ROWS_MAX];
    memset(seen, 0, sizeof(seen));
    ck_assert_uint_eq(plan->n_leases, plan->n_parts * plan->epochs);
    for (uint64_t id = 1; id <= plan->n_leases; id++) {
        if (!count_lease(plan, id, seen[(id - 1) / plan->n_parts])) {
            fail_shape(job, "wrong is lease", id);
        }
    }
    for (uint32_t epoch = 0; epoch < job->epochs; epoch++) {
        for (uint32_t row = 0; row < job->rows; row++) {
            if (seen[epoch][row] != 1) {
                fail_shape(job, "not in exactly one unit is row", row);
            }
        }
    }
}

START_TEST(every_row_is_in_exactly_one_unit_of_an_epoch)
{
    for (size_t b = 0; b < PS_ARRAY_LEN(batches); b++) {
        for (size_t u = 0; u < PS_ARRAY_LEN(lease_units); u++) {
            for (uint32_t workers = 1; workers <= 8; workers++) {
                struct ps_lease_job job = {
                    .rows = row_counts[_i],
                    .batch = batches[b],
                    .epochs = 2,
                    .workers = workers,
                    .units_per_lease = lease_units[u],
                };
                struct ps_lease_plan plan = plan_of(&job);
                count_rows(&job, &plan);
                job.aggregate = true;
                plan = plan_of(&job);
                count_rows(&job, &plan);
            }
        }
    }
}
END_TEST

START_TEST(a_way_beyond_the_rows_of_its_batch_has_none)
{
    /* 5 rows in 4 ways of 2 rows: the last way would begin in the next batch. */
    struct ps_lease_plan plan = plan_of(&(struct ps_lease_job){
        .rows = 10, .batch = 5, .epochs = 1, .workers = 4, .aggregate = true});
    uint64_t first = 0;
    ck_assert_uint_eq(ps_lease_at(&plan, 4).unit_rows, 0);
    ck_assert_uint_eq(ps_lease_rows(&plan, 4, 0, &first), 0);
    ck_assert_uint_eq(ps_lease_rows(&plan, 3, 0, &first), 1);
}
END_TEST

/* clang-format off */
static const struct {
    const char *name;
    struct ps_lease_job job;
    const char *words; /* NULL: fine. */
} jobs[] = {
    {"the smallest job", {1, 1, 1, 1, 0, false, 0, false, 0}, NULL},
    {"no rows", {0, 1, 1, 1, 0, false, 0, false, 0}, "rows"},
    {"rows without end", {UINT64_MAX, 1, 1, 1, 0, false, 0, false, 0}, "rows"},
    {"no batch", {1, 0, 1, 1, 0, false, 0, false, 0}, "batch"},
    {"no epochs", {1, 1, 0, 1, 0, false, 0, false, 0}, "epochs"},
    {"no workers", {1, 1, 1, 0, 0, false, 0, false, 0}, "workers"},
    {"too many workers", {1, 1, 1, PS_SESSIONS_MAX + 1, 0, true, 0, false, 0}, "workers"},
    {"a lease too long", {1, 1, 1, 1, PS_UNITS_PER_LEASE_MAX + 1, false, 0, false, 0}, "units_per_lease"},
    {"too many leases", {(uint64_t)1 << 40, 1, 1, 1, 1, false, 0, false, 0}, "leases"},
    {"as many leases as there may be", {PS_LEASES_MAX, 1, 1, 1, 1, false, 0, false, 0}, NULL},
    {"one lease too many", {(uint64_t)PS_LEASES_MAX + 1, 1, 1, 1, 1, false, 0, false, 0}, "leases"},
    {"too many epochs", {10, 1, PS_LEASES_MAX, 1, 1, false, 0, false, 0}, "leases"},
    {"leases of many epochs are made longer", {100000, 10, 2000, 4, 0, false, 0, false, 0}, NULL},
};
/* clang-format on */

START_TEST(a_job_is_checked)
{
    struct ps_lease_plan plan;
    struct ps_error err = {0};
    enum ps_status status = ps_lease_plan_make(&jobs[_i].job, &plan, &err);
    if (jobs[_i].words == NULL) {
        ck_assert_msg(status == PS_OK, "%s: %s", jobs[_i].name, err.text);
        ck_assert_uint_le(plan.n_leases, PS_LEASES_MAX);
    } else {
        ck_assert_msg(status == PS_ERR_INVALID, "%s", jobs[_i].name);
        ck_assert_msg(strstr(err.text, jobs[_i].words) != NULL, "%s: %s", jobs[_i].name, err.text);
    }
}
END_TEST

/* clang-format off */
static const struct {
    struct ps_lease_job job;
    uint32_t units_per_lease;
} choices[] = {
    {{60000, 32, 1, 4, 0, false, 0, false, 0}, 58},  /* 1875 batches / 32 */
    {{60000, 1, 1, 4, 0, false, 0, false, 0}, 64},   /* The most. */
    {{10, 1, 1, 8, 0, false, 0, false, 0}, 1},       /* The least. */
    {{6400, 100, 1, 4, 0, true, 0, false, 0}, 8},    /* 64 steps x 4 ways / 32 */
    {{6400, 100, 1, 4, 5, false, 0, false, 0}, 5},   /* As asked. */
};
/* clang-format on */

START_TEST(units_per_lease_are_chosen_for_several_leases_per_worker)
{
    ck_assert_uint_eq(plan_of(&choices[_i].job).units_per_lease, choices[_i].units_per_lease);
}
END_TEST

/* ---- The pool ------------------------------------------------------------------------------ */

static struct ps_lease_pool pool_of(const struct ps_lease_job *job)
{
    struct ps_lease_plan plan = plan_of(job);
    struct ps_lease_pool pool;
    void *memory = ps_mem_alloc(NULL, PS_MEM_OTHER, ps_lease_pool_bytes(&plan));
    ck_assert_ptr_nonnull(memory);
    ps_lease_pool_init(&pool, &plan, memory);
    return pool;
}

static bool advance(struct ps_lease_pool *pool, uint64_t id, uint32_t units_done)
{
    struct ps_lease_news news = {.units_done = units_done};
    return ps_lease_pool_advance(pool, id, &news);
}

static const struct ps_lease_job six_leases = {
    .rows = 30, .batch = 5, .epochs = 2, .workers = 1, .units_per_lease = 2};

START_TEST(leases_are_lent_lowest_id_first_and_returned_ones_before_new_ones)
{
    struct ps_lease_pool pool = pool_of(&six_leases);
    ck_assert_uint_eq(pool.plan.n_leases, 6);
    for (uint64_t id = 1; id <= 4; id++) {
        ck_assert_uint_eq(ps_lease_pool_lend(&pool), id);
    }
    ps_lease_pool_return(&pool, 3);
    ps_lease_pool_return(&pool, 2);
    ck_assert_uint_eq(ps_lease_pool_lend(&pool), 2);
    ck_assert_uint_eq(ps_lease_pool_lend(&pool), 3);
    ck_assert_uint_eq(ps_lease_pool_lend(&pool), 5);
    ck_assert_uint_eq(ps_lease_pool_lend(&pool), 6);
    ck_assert_uint_eq(ps_lease_pool_lend(&pool), 0);
    ps_mem_free(pool.epoch_units_done);
}
END_TEST

START_TEST(progress_is_kept_over_a_return_and_never_goes_back)
{
    struct ps_lease_pool pool = pool_of(&six_leases);
    ck_assert_uint_eq(ps_lease_pool_lend(&pool), 1);
    ck_assert(!advance(&pool, 1, 1));
    ps_lease_pool_return(&pool, 1);
    ck_assert_uint_eq(ps_lease_pool_lend(&pool), 1);
    ck_assert_uint_eq(ps_lease_units_done(&pool, 1), 1);
    ck_assert(!advance(&pool, 1, 0));
    ck_assert_uint_eq(ps_lease_units_done(&pool, 1), 1);
    ck_assert(advance(&pool, 1, 2));
    ck_assert_uint_eq(pool.units_done_total, 2);
    ps_mem_free(pool.epoch_units_done);
}
END_TEST

START_TEST(finished_leases_are_told_as_ranges)
{
    struct ps_lease_pool pool = pool_of(&six_leases);
    struct ps_lease_range ranges[PS_LEASE_RANGES_MAX];
    ck_assert_uint_eq(ps_lease_pool_finished(&pool, ranges), 0);
    for (uint64_t id = 1; id <= 6; id++) {
        ck_assert_uint_eq(ps_lease_pool_lend(&pool), id);
    }
    static const uint64_t order[] = {1, 3, 4, 6};
    for (size_t i = 0; i < PS_ARRAY_LEN(order); i++) {
        ck_assert(advance(&pool, order[i], ps_lease_at(&pool.plan, order[i]).n_units));
    }
    ck_assert_uint_eq(ps_lease_pool_finished(&pool, ranges), 3);
    ck_assert_uint_eq(ranges[0].first, 1);
    ck_assert_uint_eq(ranges[0].last, 1);
    ck_assert_uint_eq(ranges[1].first, 3);
    ck_assert_uint_eq(ranges[1].last, 4);
    ck_assert_uint_eq(ranges[2].first, 6);
    ck_assert_uint_eq(ranges[2].last, 6);
    ck_assert(advance(&pool, 2, 2));
    ck_assert_uint_eq(ps_lease_pool_finished(&pool, ranges), 2);
    ck_assert_uint_eq(ranges[0].last, 4);
    uint32_t min = 0;
    uint32_t max = 0;
    ps_lease_pool_trained(&pool, &min, &max);
    ck_assert_uint_eq(min, 1); /* Lease 5 is the second epoch's second part. */
    ck_assert_uint_eq(max, 2);
    ck_assert(!ps_lease_pool_done(&pool));
    ck_assert(advance(&pool, 5, 2));
    ck_assert(ps_lease_pool_done(&pool));
    ps_lease_pool_trained(&pool, &min, &max);
    ck_assert_uint_eq(min, 2);
    ps_mem_free(pool.epoch_units_done);
}
END_TEST

START_TEST(a_lease_that_is_not_lent_cannot_advance)
{
    struct ps_lease_pool pool = pool_of(&six_leases);
    (void)advance(&pool, 2, 1); /* Must abort. */
}
END_TEST

Suite *suite_lease_core(void)
{
    Suite *suite = suite_create("lease_core");
    TCase *tcase = tcase_create("cut");
    tcase_add_loop_test(tcase, every_row_is_in_exactly_one_unit_of_an_epoch, 0,
                        (int)PS_ARRAY_LEN(row_counts));
    tcase_add_test(tcase, a_way_beyond_the_rows_of_its_batch_has_none);
    tcase_add_loop_test(tcase, a_job_is_checked, 0, (int)PS_ARRAY_LEN(jobs));
    tcase_add_loop_test(tcase, units_per_lease_are_chosen_for_several_leases_per_worker, 0,
                        (int)PS_ARRAY_LEN(choices));
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("pool");
    tcase_add_test(tcase, leases_are_lent_lowest_id_first_and_returned_ones_before_new_ones);
    tcase_add_test(tcase, progress_is_kept_over_a_return_and_never_goes_back);
    tcase_add_test(tcase, finished_leases_are_told_as_ranges);
    tcase_add_test_raise_signal(tcase, a_lease_that_is_not_lent_cannot_advance, SIGABRT);
    suite_add_tcase(suite, tcase);
    return suite;
}
