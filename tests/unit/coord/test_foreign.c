/*
 * test_foreign.c — what a client relies on that knows the wire and nothing else.
 */
#include <string.h>

#include "cluster/layout.h"
#include "coord_rig.h"

static struct rig rig;
static struct rig_call call;

static void start(void)
{
    rig_start(&rig, ps_store_memory_create(NULL), 2);
    rig_cluster(&rig, 1);
}

static void define(char *name, uint64_t *shape, size_t n_dims)
{
    static Ps__V1__Optimizer sgd;
    static char sgd_name[] = "sgd";
    Ps__V1__TableDefinition table = PS__V1__TABLE_DEFINITION__INIT;
    ps__v1__optimizer__init(&sgd);
    sgd.name = sgd_name;
    table.name = name;
    table.shape = shape;
    table.n_shape = n_dims;
    table.optimizer = &sgd;
    ck_assert_int_eq(rig_define_table(&rig, &rig.members[2], &table, &call), PS_OK);
}

START_TEST(a_table_says_how_it_is_cut)
{
    static char names[3][2] = {"a", "b", "c"};
    static uint64_t shapes[3][2] = {{5000, 3}, {10, 1}, {4000, 1000}};
    start();
    for (uint32_t i = 0; i < 3; i++) {
        uint64_t n = shapes[i][0] * shapes[i][1];
        define(names[i], shapes[i], 2);
        const Ps__V1__Table *made = ((const Ps__V1__DefineTableReply *)call.reply)->table;
        ck_assert_uint_eq(made->elements, n);
        ck_assert_uint_eq(made->block_floats, ps_layout_block_floats(n));
        ck_assert_uint_ge((uint64_t)made->blocks * made->block_floats, n);
        ck_assert_uint_lt((uint64_t)(made->blocks - 1) * made->block_floats, n);
        rig_call_free(&call);
    }
    const Ps__V1__DescribeReply *seen = rig_describe(&rig, &call);
    ck_assert_uint_eq(seen->catalogue->n_tables, 3);
    ck_assert_uint_eq(seen->catalogue->tables[2]->elements, 4000000);
    ck_assert_uint_eq(seen->catalogue->tables[2]->blocks, 64); /* Of 62 x 1024 floats. */
    rig_call_free(&call);
    rig_stop(&rig);
}
END_TEST

static void join(bool unleased, uint8_t number)
{
    Ps__V1__JoinRequest request = PS__V1__JOIN_REQUEST__INIT;
    uint8_t session[16] = {200, number};
    request.protocol_min = PS_PROTOCOL_MIN;
    request.protocol_max = PS_PROTOCOL_MAX;
    request.kind = PS__V1__SESSION_KIND__WORKER;
    request.session = (ProtobufCBinaryData){sizeof(session), session};
    request.unleased = unleased;
    ck_assert_int_eq(rig_call(&rig, &call, "/ps.v1.Coordinator/Join", &request.base,
                              &ps__v1__join_reply__descriptor),
                     PS_OK);
    rig_call_free(&call);
}

START_TEST(who_joins_unleased_is_lent_nothing)
{
    Ps__V1__Consistency consistency = PS__V1__CONSISTENCY__INIT;
    Ps__V1__JobDefinition job = PS__V1__JOB_DEFINITION__INIT;
    start();
    join(true, 1);
    consistency.mode = PS__V1__CONSISTENCY_MODE__ASP;
    job.consistency = &consistency;
    job.rows = 100;
    job.batch = 10;
    job.epochs = 1;
    job.workers = 2;
    ck_assert_int_eq(rig_define_job(&rig, &rig.members[2], &job, &call), PS_OK);
    rig_call_free(&call);
    ck_assert_int_eq(rig.members[2].job, PS__V1__JOB_STATE__WAITING);
    join(false, 2);
    rig_pass(&rig, 250);
    ck_assert_int_eq(rig.members[2].job, PS__V1__JOB_STATE__RUNNING);
    const Ps__V1__DescribeReply *seen = rig_describe(&rig, &call);
    ck_assert_uint_eq(seen->n_members, 5);
    ck_assert_uint_ne(seen->members[2]->lease, 0);
    ck_assert_uint_eq(seen->members[3]->lease, 0);
    ck_assert_uint_ne(seen->members[4]->lease, 0);
    rig_call_free(&call);
    rig_stop(&rig);
}
END_TEST

Suite *suite_foreign(void)
{
    Suite *suite = suite_create("foreign");
    TCase *tcase = tcase_create("foreign");
    tcase_add_test(tcase, a_table_says_how_it_is_cut);
    tcase_add_test(tcase, who_joins_unleased_is_lent_nothing);
    suite_add_tcase(suite, tcase);
    return suite;
}
