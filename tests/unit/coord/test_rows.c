/*
 * test_rows.c — sparse tables at the coordinator: defined, not averaged, counted; and the seed that
 * places keys, which outlives it.
 */
#include <string.h>

#include "base/bytes.h"
#include "coord_rig.h"

static struct rig rig;
static struct rig_call call;
static struct rig_disk disk;
static char words[] = "words";
static char dense_name[] = "dense";
static char sgd[] = "sgd";
static uint64_t shape[1] = {10};
static Ps__V1__Optimizer optimizer;
static Ps__V1__TableDefinition rows;
static Ps__V1__TableDefinition dense;
static Ps__V1__Consistency consistency;
static Ps__V1__JobDefinition job;

static void start(void)
{
    rig_disk_init(&disk);
    rig_start(&rig, ps_store_file_create(NULL, &disk.base, "coord.state"), 2);
    ps__v1__optimizer__init(&optimizer);
    optimizer.name = sgd;
    ps__v1__table_definition__init(&rows);
    rows.name = words;
    rows.dtype = PS__V1__TABLE_DTYPE__FLOAT32;
    rows.optimizer = &optimizer;
    rows.kind = PS__V1__TABLE_KIND__SPARSE;
    rows.width = 16;
    dense = rows;
    dense.kind = PS__V1__TABLE_KIND__DENSE;
    dense.width = 0;
    dense.name = dense_name;
    dense.n_shape = 1;
    dense.shape = shape;
    ps__v1__consistency__init(&consistency);
    consistency.mode = PS__V1__CONSISTENCY_MODE__BSP;
    ps__v1__job_definition__init(&job);
    job.model = words;
    job.data = words;
    job.rows = 40;
    job.batch = 5;
    job.epochs = 1;
    job.workers = 2;
    job.consistency = &consistency;
}

static struct rig_member *worker(void)
{
    return &rig.members[2];
}

/* @return the table as it was made */
static Ps__V1__Table define(Ps__V1__TableDefinition *definition)
{
    ck_assert_int_eq(rig_define_table(&rig, worker(), definition, &call), PS_OK);
    Ps__V1__Table table = *((const Ps__V1__DefineTableReply *)call.reply)->table;
    table.definition = NULL;
    rig_call_free(&call);
    return table;
}

START_TEST(a_sparse_table_is_defined_and_takes_no_place)
{
    start();
    rig_cluster(&rig, 1);
    Ps__V1__Table table = define(&dense);
    ck_assert_uint_eq(table.first_slot, 0);
    for (int copy = 0; copy < 2; copy++) {
        table = define(&rows);
        ck_assert_uint_eq(table.number, 1);
        ck_assert_uint_eq(table.elements, 0);
        ck_assert_uint_eq(table.blocks, 0);
    }
    dense.name = sgd;
    table = define(&dense);
    ck_assert_uint_eq(table.number, 2);
    ck_assert_uint_eq(table.first_slot, 1);
    rows.width++;
    ck_assert_int_eq(rig_define_table(&rig, worker(), &rows, &call), PS_ERR_EXISTS);
    rig_call_free(&call);
    rig_stop(&rig);
}
END_TEST

/* Whichever comes first, the other is refused. */
START_TEST(averaged_steps_and_sparse_tables_exclude_each_other)
{
    start();
    rig_cluster(&rig, 1);
    consistency.aggregate = true;
    if (_i == 0) {
        (void)define(&rows);
        ck_assert_int_eq(rig_define_job(&rig, worker(), &job, &call), PS_ERR_UNSUPPORTED);
    } else {
        ck_assert_int_eq(rig_define_job(&rig, worker(), &job, &call), PS_OK);
        rig_call_free(&call);
        ck_assert_int_eq(rig_define_table(&rig, worker(), &rows, &call), PS_ERR_UNSUPPORTED);
    }
    ck_assert_ptr_nonnull(strstr(call.request.err.text, "table words is sparse"));
    rig_call_free(&call);
    consistency.aggregate = _i != 0;
    (void)define(&dense);
    ck_assert_int_eq(rig_define_job(&rig, worker(), &job, &call), PS_OK);
    rig_call_free(&call);
    rig_stop(&rig);
}
END_TEST

START_TEST(what_servers_count_of_rows_is_summed)
{
    start();
    rig_cluster(&rig, 1);
    (void)define(&dense);
    (void)define(&rows);
    Ps__V1__RowStats stats[3];
    for (uint32_t i = 0; i < 3; i++) {
        ps__v1__row_stats__init(&stats[i]);
        stats[i].table = i;
        stats[i].rows = 10;
        stats[i].dropped = 3 + i;
    }
    for (uint32_t s = 0; s < 2; s++) {
        struct rig_member *server = &rig.members[s];
        server->rows[0] = &stats[1];
        server->rows[1] = &stats[s == 0 ? 2 : 0]; /* No such table; a dense one. */
        server->n_rows = 2;
        rig_report(server, NULL);
        rig_report(server, NULL); /* Absolute: twice is once. */
    }
    ps_inline_exec_pump(&rig.exec);
    const Ps__V1__DescribeReply *reply = rig_describe(&rig, &call);
    ck_assert_uint_eq(reply->n_row_stats, 1);
    ck_assert_uint_eq(reply->row_stats[0]->table, 1);
    ck_assert_uint_eq(reply->row_stats[0]->rows, 20);
    ck_assert_uint_eq(reply->row_stats[0]->dropped, 8);
    rig_call_free(&call);
    rig.members[0].rows[2] = &stats[1]; /* More than there are tables: nothing of it is taken. */
    stats[1].rows = 1000;
    rig.members[0].n_rows = 3;
    rig_report(&rig.members[0], NULL);
    ps_inline_exec_pump(&rig.exec);
    ck_assert_uint_eq(rig_describe(&rig, &call)->row_stats[0]->rows, 20);
    rig_call_free(&call);
    rig_stop(&rig);
}
END_TEST

/* A table that servers full of rows cannot make would end them: it must not come to that. */
START_TEST(rows_count_when_a_table_is_weighed)
{
    start();
    rig_cluster(&rig, 1);
    (void)define(&rows);
    Ps__V1__RowStats stats = PS__V1__ROW_STATS__INIT;
    stats.bytes = 3u << 20;
    struct rig_member *server = &rig.members[1];
    server->rows[0] = &stats;
    server->n_rows = 1;
    server->memory_limit = 4u << 20;
    rig_report(server, NULL);
    ps_inline_exec_pump(&rig.exec);
    shape[0] = 1u << 20; /* 2 MiB on each of the servers. */
    ck_assert_int_eq(rig_define_table(&rig, worker(), &dense, &call), PS_ERR_INVALID);
    ck_assert_ptr_nonnull(
        strstr(call.request.err.text, "server 1 would need 5 MiB and may have 4"));
    rig_call_free(&call);
    shape[0] = 1u << 18;
    (void)define(&dense);
    shape[0] = 10;
    rig_stop(&rig);
}
END_TEST

START_TEST(the_seed_that_places_keys_outlives_the_coordinator)
{
    start();
    rig_cluster(&rig, 1);
    ck_assert_uint_eq(rig.members[0].key_seed, 1000);
    ck_assert_uint_eq(worker()->key_seed, 1000);
    rig_restart(&rig, 2);
    rig_cluster(&rig, 1);
    ck_assert_uint_eq(rig.members[0].key_seed, 1000);
    ck_assert_uint_eq(worker()->key_seed, 1000);
    rig_stop(&rig);
}
END_TEST

/* What earlier builds have written; the first knew no seed: one is taken, and stays. */
START_TEST(a_state_of_an_earlier_layout_is_read_and_has_a_seed)
{
    static struct rig_disk old;
    rig_disk_init(&old);
    struct ps_store_stamp stamp = {0};
    struct ps_error err;
    uint8_t state[80] = {[4] = 9, [5] = 9}; /* Layout, cluster, then numbers; no lists. */
    size_t n_head = _i == 1 ? 44 : 52;
    ps_store_u32(state, (uint32_t)_i);
    ps_store_u64(state + 20, 3); /* Term. */
    ps_store_u64(state + 28, 2); /* Generation. */
    ps_store_u64(state + 36, 77);
    if (_i == 2) {
        ps_store_u64(state + 44, 4711);
    }
    struct ps_store *store = ps_store_file_create(NULL, &old.base, "coord.state");
    ck_assert_int_eq(ps_store_write(store, &stamp, 3, state, n_head + 20, &err), PS_OK);
    rig_start(&rig, store, 2);
    rig_cluster(&rig, 1);
    ck_assert_uint_ge(worker()->number, 77);
    uint64_t seed = worker()->key_seed;
    ck_assert_uint_eq(seed, _i == 2 ? 4711 : 1000);
    ck_assert_uint_eq(ps_coord_cluster_id(rig.coord).bytes[0], 9);
    rig_restart(&rig, 2);
    rig_cluster(&rig, 1);
    ck_assert_uint_eq(worker()->key_seed, seed);
    Ps__V1__DescribeReply *all = rig_describe(&rig, &call);
    ck_assert_uint_eq(all->generation, 4); /* Twice it began with nothing. */
    ck_assert_uint_eq(all->term, 5);
    rig_call_free(&call);
    rig_stop(&rig);
}
END_TEST

Suite *suite_rows(void)
{
    Suite *suite = suite_create("rows");
    TCase *tcase = tcase_create("rows");
    tcase_add_test(tcase, a_sparse_table_is_defined_and_takes_no_place);
    tcase_add_loop_test(tcase, averaged_steps_and_sparse_tables_exclude_each_other, 0, 2);
    tcase_add_test(tcase, what_servers_count_of_rows_is_summed);
    tcase_add_test(tcase, rows_count_when_a_table_is_weighed);
    tcase_add_test(tcase, the_seed_that_places_keys_outlives_the_coordinator);
    tcase_add_loop_test(tcase, a_state_of_an_earlier_layout_is_read_and_has_a_seed, 1, 3);
    suite_add_tcase(suite, tcase);
    return suite;
}
