/*
 * test_parts.c — a job over parts through the coordinator's shell: what holders are told, what they
 * say, what people see; a definition with a setup; lies.
 */
#include <string.h>

#include "coord/coord_impl.h"
#include "coord_rig.h"
#include "lib/test_main.h"

#define PARTS 3u
#define BATCH 5u
#define ROWS  (2 * BATCH - 1) /* Of a part of two units. */

static struct rig rig;
static struct rig_call call;
static struct rig_disk disk;
static char words[] = "words";
static char setup[] = "{\"kind\": \"logreg\"}";
static Ps__V1__Consistency consistency;
static Ps__V1__JobDefinition job;

static struct rig_member *worker(uint32_t i)
{
    return &rig.members[2 + i];
}

static void start(void)
{
    rig_disk_init(&disk);
    rig_start(&rig, ps_store_file_create(NULL, &disk.base, "coord.state"), 2);
    ps__v1__consistency__init(&consistency);
    consistency.mode = PS__V1__CONSISTENCY_MODE__ASP;
    ps__v1__job_definition__init(&job);
    job.model = words;
    job.data = words;
    job.setup = setup;
    job.parts = PARTS;
    job.batch = BATCH;
    job.epochs = 2;
    job.shuffle = true;
    job.seed = 4;
    job.workers = 2;
    job.consistency = &consistency;
    rig_cluster(&rig, 2);
    ck_assert_int_eq(rig_define_job(&rig, worker(0), &job, &call), PS_OK);
    const Ps__V1__DefineJobReply *reply = (const Ps__V1__DefineJobReply *)call.reply;
    ck_assert_uint_eq(reply->definition->parts, PARTS);
    ck_assert_str_eq(reply->definition->setup, ""); /* Whoever asked has it. */
    rig_call_free(&call);
    ps_inline_exec_pump(&rig.exec);
}

static void report(struct rig_member *member, uint64_t clock, uint32_t units_done, bool over,
                   uint64_t rows)
{
    Ps__V1__WorkerReport progress = PS__V1__WORKER_REPORT__INIT;
    progress.clock = clock;
    progress.lease = member->lease;
    progress.units_done = units_done;
    progress.lease_over = over;
    progress.lease_rows = rows;
    rig_report(member, &progress);
    ps_inline_exec_pump(&rig.exec);
}

START_TEST(a_whole_job_over_parts_runs_and_is_shown)
{
    start();
    bool seen[2][PARTS] = {{false}};
    uint32_t empty = worker(1)->part;
    report(worker(1), 0, 0, true, 0);
    seen[0][empty] = true;
    uint32_t kept = worker(1)->part; /* Lease 3. */
    seen[0][kept] = true;
    uint64_t clock = 0;
    for (uint32_t i = 0; i < PARTS; i++) { /* All but lease 3, and its part in the next epoch. */
        uint64_t id = worker(0)->lease;
        uint32_t part = worker(0)->part;
        ck_assert(i == 0 ? id == 1 : id > PARTS);
        ck_assert_uint_eq(worker(0)->units, 0);
        ck_assert_uint_lt(part, PARTS);
        ck_assert(!seen[(id - 1) / PARTS][part]);
        seen[(id - 1) / PARTS][part] = true;
        uint32_t n_units = part == empty ? 0 : 2;
        clock += n_units;
        report(worker(0), clock, n_units, true, n_units == 0 ? 0 : ROWS);
    }
    Ps__V1__DescribeReply *all = rig_describe(&rig, &call);
    ck_assert_uint_eq(worker(0)->lease, 0);
    ck_assert(!seen[1][kept]);
    ck_assert_int_eq(all->job, PS__V1__JOB_STATE__RUNNING);
    ck_assert_uint_eq(all->rows, ROWS);
    ck_assert_str_eq(all->definition->setup, setup);
    ck_assert_uint_eq(all->n_epochs, 2);
    ck_assert_uint_eq(all->epochs[0]->units, 0);
    ck_assert_uint_eq(all->epochs[0]->leases, PARTS);
    ck_assert_uint_eq(all->epochs[0]->leases_done, 2);
    ck_assert_uint_eq(all->epochs[1]->leases_done, 2);
    ck_assert_uint_eq(all->epochs[1]->units_done, 2);
    rig_call_free(&call);
    report(worker(1), 2, 2, true, ROWS);
    ck_assert_uint_eq(worker(1)->part, kept);
    report(worker(1), worker(1)->lease_clock + 2, 2, true, ROWS);
    all = rig_describe(&rig, &call);
    ck_assert_int_eq(all->job, PS__V1__JOB_STATE__DONE);
    ck_assert_uint_eq(all->steps, 8);
    ck_assert_uint_eq(all->rows, 2 * ROWS);
    ck_assert_uint_eq(all->rows_trained_min, 2);
    ck_assert_uint_eq(all->rows_trained_max, 2);
    rig_call_free(&call);
    rig_stop(&rig);
}
END_TEST

START_TEST(a_part_passes_on_with_its_units_and_only_its_holder_ends_it)
{
    start();
    report(worker(0), 2, 2, false, 2 * BATCH);
    uint32_t part = worker(0)->part;
    ck_assert_int_eq(rig_leave(&rig, worker(0)), PS_OK);
    rig_pass(&rig, 10);
    report(worker(0), 3, 3, true, 3 * BATCH); /* From beyond the grave. */
    report(worker(1), 0, 0, true, 0);
    ck_assert_uint_eq(worker(1)->lease, 1);
    ck_assert_uint_eq(worker(1)->part, part);
    ck_assert_uint_eq(worker(1)->units_done, 2);
    report(worker(1), 1, 1, true, BATCH); /* Fewer than are known to be done. */
    ck_assert_uint_eq(worker(1)->lease, 1);
    report(worker(1), worker(1)->lease_clock, 2, true, 2 * BATCH);
    ck_assert_uint_eq(worker(1)->lease, 3);
    rig_stop(&rig);
}
END_TEST

START_TEST(absurd_units_are_no_news)
{
    start();
    report(worker(0), UINT64_MAX, UINT32_MAX, true, UINT64_MAX);
    ck_assert_uint_eq(worker(0)->lease, 1);
    report(worker(0), UINT64_MAX, 0, true, UINT64_MAX); /* Its clock is the one it has earned. */
    ck_assert_uint_eq(worker(0)->lease, 3);
    const Ps__V1__DescribeReply *all = rig_describe(&rig, &call);
    ck_assert_uint_eq(all->rows, 0);
    ck_assert_uint_eq(all->steps, 0);
    ck_assert_uint_eq(all->members[2]->clock, 0);
    rig_call_free(&call);
    rig_stop(&rig);
}
END_TEST

START_TEST(another_setup_is_another_job)
{
    start();
    ck_assert_int_eq(rig_define_job(&rig, worker(1), &job, &call), PS_OK);
    rig_call_free(&call);
    job.setup = words;
    ck_assert_int_eq(rig_define_job(&rig, worker(1), &job, &call), PS_ERR_EXISTS);
    ck_assert_ptr_nonnull(strstr(call.request.err.text, "another setup"));
    rig_call_free(&call);
    job.setup = setup;
    job.parts++;
    ck_assert_int_eq(rig_define_job(&rig, worker(1), &job, &call), PS_ERR_EXISTS);
    ck_assert_ptr_nonnull(strstr(call.request.err.text, "with parts 3, not with 4"));
    rig_call_free(&call);
    rig_stop(&rig);
}
END_TEST

Suite *suite_parts(void)
{
    Suite *suite = suite_create("parts");
    TCase *tcase = tcase_create("parts");
    tcase_add_test(tcase, a_whole_job_over_parts_runs_and_is_shown);
    tcase_add_test(tcase, a_part_passes_on_with_its_units_and_only_its_holder_ends_it);
    tcase_add_test(tcase, absurd_units_are_no_news);
    tcase_add_test(tcase, another_setup_is_another_job);
    suite_add_tcase(suite, tcase);
    return suite;
}
