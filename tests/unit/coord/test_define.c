/*
 * test_define.c — definitions of tables and jobs: a table of lies, and a table of differences.
 */
#include <math.h>
#include <string.h>

#include "coord/coord_define.h"
#include "coord_rig.h"

static uint64_t shape[2] = {10, 20};
static uint64_t other_shape[2] = {10, 21};
static char sgd[] = "sgd";
static char bad_name[] = "Big";
static char long_name[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
static char table_name[] = "layer1.w";

static void good_table(Ps__V1__TableDefinition *table, Ps__V1__Optimizer *optimizer)
{
    ps__v1__table_definition__init(table);
    ps__v1__optimizer__init(optimizer);
    table->name = table_name;
    table->n_shape = 2;
    table->shape = shape;
    table->dtype = PS__V1__TABLE_DTYPE__FLOAT32;
    table->optimizer = optimizer;
    optimizer->name = sgd;
}

static void twist_table(int i, Ps__V1__TableDefinition *table)
{
    switch (i) {
    case 0: table->n_shape = 1; break;
    case 1: table->shape = other_shape; break;
    case 2: table->dtype = PS__V1__TABLE_DTYPE__DTYPE_UNSET; break;
    case 3: table->init = PS__V1__INIT_KIND__NORMAL; break;
    case 4: table->init_scale = 0.5f; break;
    case 5: table->seed = 1; break;
    case 6: table->optimizer->name = table_name; break;
    case 7: table->optimizer->momentum = 0.5f; break;
    case 8: table->optimizer->beta1 = 0.5f; break;
    case 9: table->optimizer->beta2 = 0.5f; break;
    case 10: table->optimizer->epsilon = 0.5f; break;
    case 11: table->optimizer->weight_decay = 0.5f; break;
    case 12: table->optimizer->l2 = 0.5f; break;
    case 13: table->optimizer->l1 = 0.5f; break;
    case 14: table->optimizer->beta = 0.5f; break;
    case 15: table->kind = PS__V1__TABLE_KIND__SPARSE; break;
    case 16: table->width = 4; break;
    case 17: table->admit_after = 2; break;
    default: table->expire_after = 2; break;
    }
}

static const char *const table_fields[] = {
    "shape",    "shape", "dtype", "init",        "init_scale",   "seed", "optimizer name",
    "momentum", "beta1", "beta2", "epsilon",     "weight_decay", "l2",   "l1",
    "beta",     "kind",  "width", "admit_after", "expire_after"};

START_TEST(the_field_in_which_tables_differ_is_named)
{
    Ps__V1__TableDefinition a;
    Ps__V1__TableDefinition b;
    Ps__V1__Optimizer optimizer_a;
    Ps__V1__Optimizer optimizer_b;
    good_table(&a, &optimizer_a);
    good_table(&b, &optimizer_b);
    ck_assert_ptr_null(coord_table_difference(&a, &b));
    twist_table(_i, &b);
    const char *field = coord_table_difference(&a, &b);
    ck_assert_ptr_nonnull(field);
    ck_assert_str_eq(field, table_fields[_i]);
}
END_TEST

static void spoil_table(int i, Ps__V1__TableDefinition *table)
{
    switch (i) {
    case 0: table->name = bad_name; break;
    case 1: table->name = long_name; break;
    case 2: table->name = table_name + strlen(table_name); break;
    case 3: table->dtype = (Ps__V1__TableDtype)7; break;
    case 4: table->init = (Ps__V1__InitKind)7; break;
    case 5: table->init_scale = -1.0f; break;
    case 6: table->init_scale = NAN; break;
    case 7: table->optimizer = NULL; break;
    case 8: table->optimizer->name = bad_name; break;
    case 9: table->optimizer->beta1 = INFINITY; break;
    case 10: table->optimizer->l1 = NAN; break;
    case 11: table->optimizer->beta = INFINITY; break;
    case 12: table->kind = (Ps__V1__TableKind)2; break;
    case 13: table->width = 1; break;
    case 14: table->admit_after = 1; break;
    case 15: table->expire_after = 1; break;
    case 16: table->kind = PS__V1__TABLE_KIND__SPARSE; break; /* With a shape. */
    default: /* Sparse, and then what goes with it. */
        table->kind = PS__V1__TABLE_KIND__SPARSE;
        table->n_shape = 0;
        table->width = i == 17 ? 0 : i == 18 ? PS_ROW_FLOATS_MAX + 1 : 1;
        table->admit_after = i == 19 ? PS_ADMIT_AFTER_MAX + 1 : 0;
        break;
    }
}

START_TEST(a_table_that_cannot_be_is_refused)
{
    Ps__V1__TableDefinition table;
    Ps__V1__Optimizer optimizer;
    struct ps_error err;
    good_table(&table, &optimizer);
    ck_assert_int_eq(coord_check_table(&table, &err), PS_OK);
    spoil_table(_i, &table);
    ck_assert_int_eq(coord_check_table(&table, &err), PS_ERR_INVALID);
}
END_TEST

static void good_job(Ps__V1__JobDefinition *job, Ps__V1__Consistency *consistency)
{
    ps__v1__job_definition__init(job);
    ps__v1__consistency__init(consistency);
    job->rows = 100;
    job->batch = 10;
    job->epochs = 2;
    job->workers = 4;
    job->consistency = consistency;
    consistency->mode = PS__V1__CONSISTENCY_MODE__BSP;
    consistency->aggregate = true;
    consistency->backups = 1;
}

static void twist_job(int i, Ps__V1__JobDefinition *job)
{
    switch (i) {
    case 0: job->model = table_name; break;
    case 1: job->data = table_name; break;
    case 2: job->rows++; break;
    case 3: job->batch++; break;
    case 4: job->epochs++; break;
    case 5: job->shuffle = true; break;
    case 6: job->seed++; break;
    case 7: job->workers++; break;
    case 8: job->start_timeout_ms++; break;
    case 9: job->consistency->mode = PS__V1__CONSISTENCY_MODE__ASP; break;
    case 10: job->consistency->bound = 3; break;
    case 11: job->consistency->aggregate = false; break;
    case 12: job->parts = 3; break;
    case 13: job->setup = table_name; break;
    default: job->consistency->backups = 2; break;
    }
}

static const char *const job_fields[] = {"model",
                                         "data",
                                         "rows",
                                         "batch",
                                         "epochs",
                                         "shuffle",
                                         "seed",
                                         "workers",
                                         "start_timeout_ms",
                                         "consistency",
                                         "staleness bound",
                                         "aggregate",
                                         "parts",
                                         "setup",
                                         "backups"};

START_TEST(the_field_in_which_jobs_differ_is_named)
{
    Ps__V1__JobDefinition a;
    Ps__V1__JobDefinition b;
    Ps__V1__Consistency consistency_a;
    Ps__V1__Consistency consistency_b;
    good_job(&a, &consistency_a);
    good_job(&b, &consistency_b);
    ck_assert_ptr_null(coord_job_difference(&a, &b));
    twist_job(_i, &b);
    const char *field = coord_job_difference(&a, &b);
    ck_assert_ptr_nonnull(field);
    ck_assert_str_eq(field, job_fields[_i]);
}
END_TEST

static void spoil_job(int i, Ps__V1__JobDefinition *job)
{
    switch (i) {
    case 0: job->consistency = NULL; break;
    case 1: job->consistency->mode = PS__V1__CONSISTENCY_MODE__CONSISTENCY_NONE; break;
    case 2: job->consistency->mode = PS__V1__CONSISTENCY_MODE__ASP; break;
    case 3: job->consistency->bound = 1; break;
    case 4: job->consistency->backups = 4; break;
    case 5: job->consistency->aggregate = false; break;
    case 6: job->rows = 0; break;
    case 7: job->batch = 0; break;
    case 8: job->epochs = 0; break;
    default: job->workers = 0; break;
    }
}

START_TEST(a_job_that_cannot_be_is_refused)
{
    Ps__V1__JobDefinition job;
    Ps__V1__Consistency consistency;
    struct ps_lease_plan plan;
    struct ps_error err;
    good_job(&job, &consistency);
    ck_assert_int_eq(coord_check_job(&job, &plan, &err), PS_OK);
    ck_assert_uint_eq(plan.n_ways, 4);
    spoil_job(_i, &job);
    ck_assert_int_eq(coord_check_job(&job, &plan, &err), PS_ERR_INVALID);
}
END_TEST

Suite *suite_define(void)
{
    Suite *suite = suite_create("coord_define");
    TCase *tcase = tcase_create("define");
    tcase_add_loop_test(tcase, the_field_in_which_tables_differ_is_named, 0,
                        (int)PS_ARRAY_LEN(table_fields));
    tcase_add_loop_test(tcase, a_table_that_cannot_be_is_refused, 0, 20);
    tcase_add_loop_test(tcase, the_field_in_which_jobs_differ_is_named, 0,
                        (int)PS_ARRAY_LEN(job_fields));
    tcase_add_loop_test(tcase, a_job_that_cannot_be_is_refused, 0, 10);
    suite_add_tcase(suite, tcase);
    return suite;
}
