/*
 * test_sparse_loop.c — training on rows of lines against a client that this file plays: as
 * test_loop.c, but over parts, and with weights: tables are arrays, and sgd is done at once.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <ps/client.h>

#include "base/error.h"
#include "base/limits.h"
#include "base/mem.h"
#include "lib/test_main.h"
#include "train/sparse_loop.h"
#include "unit/data/temp_folder.h"

#define KEYS_MAX   1024u
#define WIDTH_MAX  8u
#define TABLES_MAX 4u
#define CALLS_MAX  4096u
#define N_OWN      200u /* Rows of the probe, each with a feature of its own. */

/* ---- The client ---------------------------------------------------------------------------- */

struct table {
    uint32_t width; /* Of rows; 0: dense. */
    uint64_t n;     /* Elements, when dense. */
    float rows[KEYS_MAX][WIDTH_MAX];
};

struct ps_client {
    struct ps_view view;
    struct ps_table_def defs[TABLES_MAX];
    struct table tables[TABLES_MAX];
    uint32_t n_tables;
    struct ps_job_def job;
    uint32_t lease; /* Under way, from 0; id is one more. */
    uint32_t index; /* Its next unit. */
    uint32_t n_pulls;
    uint32_t n_pulls_beside; /* A push. */
    uint32_t n_pushes;
    struct ps_unit units[CALLS_MAX]; /* Of the pushes. */
    float rates[CALLS_MAX];
    uint32_t n_empty; /* Units without rows that were done. */
    uint64_t n_rows;
    double loss_sum;
    uint32_t stop_after; /* So many pushes; 0: never. */
    enum ps_status push_status;
    bool pull_fails_with_push;
};

static struct ps_client cluster;
static _Atomic bool stop_flag;

void ps_client_view(struct ps_client *client, struct ps_view *ret)
{
    *ret = client->view;
}

enum ps_status ps_client_next_unit(struct ps_client *client, struct ps_unit *ret,
                                   uint32_t timeout_ms, struct ps_error *err)
{
    (void)timeout_ms;
    (void)err;
    const struct ps_job_def *job = &client->job;
    *ret = (struct ps_unit){0};
    if (client->lease == job->parts * job->epochs) {
        client->view.job = PS_JOB_DONE;
    }
    if (client->view.job != PS_JOB_RUNNING) {
        return PS_OK;
    }
    *ret = (struct ps_unit){
        .lease = 1 + client->lease,
        .index = client->index,
        .step = client->n_pushes,
        .epoch = client->lease / job->parts,
        .part =
            job->shuffle ? job->parts - 1 - client->lease % job->parts : client->lease % job->parts,
        .first = (uint64_t)client->index * job->batch,
        .n_rows = job->batch,
    };
    return PS_OK;
}

enum ps_status ps_client_unit_done(struct ps_client *client, const struct ps_unit *unit,
                                   double loss_sum, struct ps_error *err)
{
    (void)err;
    ck_assert_uint_eq(unit->index, client->index);
    ck_assert_uint_le(unit->n_rows, client->job.batch);
    ck_assert(unit->n_rows == client->job.batch || unit->last);
    ck_assert(unit->n_rows > 0 || unit->last);
    client->n_empty += unit->n_rows == 0;
    client->n_rows += unit->n_rows;
    client->loss_sum += loss_sum;
    client->index++;
    if (unit->last) {
        client->lease++;
        client->index = 0;
    }
    return PS_OK;
}

enum ps_status ps_client_define_table(struct ps_client *client, const struct ps_table_def *def,
                                      struct ps_table *ret, struct ps_error *err)
{
    (void)err;
    ck_assert_uint_lt(client->n_tables, TABLES_MAX);
    struct table *table = &client->tables[client->n_tables];
    client->defs[client->n_tables] = *def;
    table->width = def->width;
    table->n = def->n_dims > 0 ? def->shape[0] : 0;
    ck_assert_uint_le(table->width, WIDTH_MAX);
    ck_assert_uint_le(table->n, KEYS_MAX);
    for (uint32_t i = 0; i < KEYS_MAX * WIDTH_MAX && def->init_kind != PS_INIT_ZEROS; i++) {
        table->rows[i / WIDTH_MAX][i % WIDTH_MAX] = 0.02f * (float)((int)(i * 7 % 11) - 5);
    }
    ret->number = client->n_tables++;
    return PS_OK;
}

enum ps_status ps_client_define_job(struct ps_client *client, const struct ps_job_def *def,
                                    struct ps_error *err)
{
    (void)err;
    ck_assert_uint_eq(def->rows, 0);
    ck_assert_uint_gt(def->parts, 0);
    ck_assert_ptr_nonnull(def->setup);
    client->job = *def;
    client->view.job = PS_JOB_RUNNING;
    return PS_OK;
}

static void note_pull(struct ps_client *client, struct ps_pull *pull)
{
    ck_assert_ptr_null(pull->under_way);
    pull->under_way = client;
    client->n_pulls++;
}

/* sgd on everything that the push names. */
static void apply(struct ps_client *client, const struct ps_push *push)
{
    for (uint32_t t = 0; t < push->n_keyed; t++) {
        const struct ps_keyed *keyed = &push->keyed[t];
        struct table *table = &client->tables[keyed->table];
        for (uint32_t k = 0; k < keyed->n; k++) {
            ck_assert(k == 0 || keyed->keys[k] > keyed->keys[k - 1]);
            ck_assert_uint_lt(keyed->keys[k], KEYS_MAX);
            for (uint32_t i = 0; i < table->width; i++) {
                table->rows[keyed->keys[k]][i] -= push->rate * keyed->values[k * table->width + i];
            }
        }
    }
    for (uint32_t t = 0; t < push->n_tensors; t++) {
        struct table *table = &client->tables[push->tensors[t].table];
        for (uint64_t i = 0; i < table->n; i++) {
            table->rows[i][0] -= push->rate * push->tensors[t].values[i];
        }
    }
}

static void note_push(struct ps_client *client, struct ps_push *push)
{
    ck_assert_ptr_null(push->under_way);
    push->under_way = client;
    ck_assert_uint_lt(client->n_pushes, CALLS_MAX);
    ck_assert_ptr_nonnull(push->unit);
    ck_assert_uint_gt(push->unit->n_rows, 0);
    client->units[client->n_pushes] = *push->unit;
    client->rates[client->n_pushes++] = push->rate;
    apply(client, push);
    if (client->stop_after != 0 && client->n_pushes >= client->stop_after) {
        client->view.job = PS_JOB_STOPPED;
    }
}

enum ps_status ps_client_pull_start(struct ps_client *client, struct ps_pull *pull,
                                    struct ps_error *err)
{
    (void)err;
    note_pull(client, pull);
    return PS_OK;
}

enum ps_status ps_client_push_start(struct ps_client *client, struct ps_push *push,
                                    struct ps_error *err)
{
    (void)err;
    note_push(client, push);
    return PS_OK;
}

enum ps_status ps_client_push_pull_start(struct ps_client *client, struct ps_push *push,
                                         struct ps_pull *pull, struct ps_error *err)
{
    (void)err;
    note_push(client, push);
    note_pull(client, pull);
    client->n_pulls_beside++;
    return PS_OK;
}

enum ps_status ps_client_pull_wait(struct ps_client *client, struct ps_pull *pull,
                                   struct ps_error *err)
{
    ck_assert_ptr_eq(pull->under_way, client);
    pull->under_way = NULL;
    ck_assert_uint_eq(pull->step, client->n_pushes);
    for (uint32_t t = 0; t < pull->n_keyed; t++) {
        const struct ps_keyed *keyed = &pull->keyed[t];
        const struct table *table = &client->tables[keyed->table];
        for (uint32_t k = 0; k < keyed->n; k++) {
            memcpy(keyed->values + k * table->width, table->rows[keyed->keys[k]],
                   table->width * sizeof(float));
        }
    }
    for (uint32_t t = 0; t < pull->n_tensors; t++) {
        const struct table *table = &client->tables[pull->tensors[t].table];
        for (uint64_t i = 0; i < table->n; i++) {
            pull->tensors[t].values[i] = table->rows[i][0];
        }
    }
    bool fails = client->pull_fails_with_push && client->n_pushes > 0;
    return fails ? ps_fail(err, PS_ERR_CANCELED, "the pull's words") : PS_OK;
}

enum ps_status ps_client_push_wait(struct ps_client *client, struct ps_push *push,
                                   struct ps_error *err)
{
    ck_assert_ptr_eq(push->under_way, client);
    push->under_way = NULL;
    return client->push_status == PS_OK ? PS_OK
                                        : ps_fail(err, client->push_status, "the push's words");
}

/* ---- The run ------------------------------------------------------------------------------- */

static struct temp_folder folder;
static struct ps_mem mem;
static struct ps_sparse_plan plan;
static char path[128];

/* Row i has feature i alone, and the label 1. */
static void put_own(uint32_t n)
{
    char text[N_OWN * 16];
    size_t used = 0;
    for (uint32_t i = 0; i < n; i++) {
        int more = snprintf(text + used, sizeof(text) - used, "1 %u:1\n", i + 1);
        ck_assert_int_gt(more, 0);
        used += (size_t)more;
    }
    temp_folder_put(&folder, "own.libsvm", (const uint8_t *)text, used);
    (void)snprintf(path, sizeof(path), "%s/own.libsvm", folder.path);
}

static void put(const char *name, const char *text)
{
    temp_folder_put(&folder, name, (const uint8_t *)text, strlen(text));
    (void)snprintf(path, sizeof(path), "%s/%s", folder.path, name);
}

static void set_up(void)
{
    cluster = (struct ps_client){0};
    atomic_store(&stop_flag, false);
    ps_mem_init(&mem);
    temp_folder_make(&folder);
}

static void tear_down(void)
{
    ps_sparse_plan_close(&plan);
    temp_folder_remove(&folder);
    for (uint32_t i = 0; i < PS_MEM_CLASS_COUNT; i++) {
        ck_assert_uint_eq(atomic_load(&mem.used[i]), 0);
    }
}

/* Plain sgd of a linear model without a bias on the file that was put last. */
static struct ps_train_options usual(void)
{
    return (struct ps_train_options){.data = path,
                                     .model = "linear",
                                     .schedule = "constant",
                                     .consistency = "bsp",
                                     .optimizer_given = true,
                                     .batch = 1,
                                     .local_steps = 1,
                                     .epochs = 1,
                                     .workers = 1,
                                     .lr = 0.5f,
                                     .seed_given = true,
                                     .seed = 3,
                                     .shuffle = true};
}

static enum ps_status train(const struct ps_train_options *options, struct ps_error *err)
{
    struct ps_train_result result = {0};
    ck_assert_msg(ps_sparse_plan_open(options, &mem, &plan, err) == PS_OK, "%s", err->text);
    enum ps_status status = ps_sparse_run(&plan, &cluster, &stop_flag, &result, err);
    ck_assert(result.done == (status == PS_OK && cluster.view.job == PS_JOB_DONE));
    return status;
}

static const char *const ways[] = {"bsp", "ssp:2", "asp"};
#define N_WAYS 3

START_TEST(every_row_is_trained_once_an_epoch)
{
    static const float after[] = {0.0f, 0.5f, 0.75f, 0.875f};
    put_own(N_OWN);
    struct ps_train_options options = usual();
    struct ps_error err = {0};
    options.consistency = ways[_i];
    options.epochs = 3;
    ck_assert_msg(train(&options, &err) == PS_OK, "%s", err.text);
    ck_assert_uint_eq(cluster.n_rows, (uint64_t)3 * N_OWN);
    ck_assert_uint_eq(cluster.n_pushes, 3 * N_OWN);
    for (uint32_t i = 0; i < N_OWN; i++) {
        ck_assert(cluster.tables[0].rows[i][0] == after[3]);
    }
}
END_TEST

START_TEST(the_end_of_a_part_is_found)
{
    put_own(N_OWN);
    struct ps_train_options options = usual();
    struct ps_error err = {0};
    options.consistency = ways[_i];
    options.batch = 7;
    options.workers = 3;
    ck_assert_msg(train(&options, &err) == PS_OK, "%s", err.text);
    ck_assert_uint_eq(cluster.n_rows, N_OWN);
    ck_assert_uint_gt(cluster.job.parts, 2);
    ck_assert_uint_eq(cluster.lease, cluster.job.parts);
}
END_TEST

START_TEST(weights_of_the_next_unit_come_with_the_push_before_it)
{
    put_own(N_OWN);
    struct ps_train_options options = usual();
    struct ps_error err = {0};
    options.consistency = "ssp:2";
    options.batch = 7;
    ck_assert_msg(train(&options, &err) == PS_OK, "%s", err.text);
    uint32_t alone = cluster.n_pulls - cluster.n_pulls_beside;
    ck_assert_uint_eq(alone, cluster.job.parts - cluster.n_empty); /* The first of each lease. */
    ck_assert_uint_eq(cluster.n_pulls, cluster.n_pushes);
}
END_TEST

/* A small problem with keys that come again; lines of one length, so that parts are even. */
static void put_regression(void)
{
    char text[8192];
    size_t used = 0;
    for (uint32_t i = 0; i < 120; i++) {
        int more = snprintf(text + used, sizeof(text) - used, "%u %u:1 %u:0.5 %u:2\n", i % 5,
                            1 + i % 7, 10 + i % 3, 20 + i % 11);
        ck_assert_int_gt(more, 0);
        used += (size_t)more;
    }
    temp_folder_put_gzip(&folder, "some.gz", (const uint8_t *)text, used);
    (void)snprintf(path, sizeof(path), "%s/some.gz", folder.path);
}

START_TEST(local_steps_of_sgd_are_those_of_as_many_pushes)
{
    put_regression();
    struct ps_train_options options = usual();
    struct ps_error err = {0};
    options.model = _i == 0 ? "linear" : "fm";
    options.regress = _i == 1;
    options.rank = _i == 1 ? 3 : 0;
    options.bias = true;
    options.shuffle = false;
    options.lr = 0.05f;
    options.batch = 5;
    options.epochs = 2;
    ck_assert_msg(train(&options, &err) == PS_OK, "%s", err.text);
    static struct ps_client plain;
    plain = cluster;
    ps_sparse_plan_close(&plan);
    cluster = (struct ps_client){0};
    options.local_steps = 4;
    options.consistency = "asp";
    ck_assert_msg(train(&options, &err) == PS_OK, "%s", err.text);
    ck_assert_uint_eq(plain.n_rows, cluster.n_rows);
    ck_assert_uint_eq(cluster.job.batch, 20);
    ck_assert_uint_lt(cluster.n_pushes, plain.n_pushes);
    double largest = 0.0;
    double change = 0.0;
    for (uint32_t t = 0; t < cluster.n_tables; t++) {
        for (uint32_t k = 0; k < KEYS_MAX; k++) {
            for (uint32_t i = 0; i < WIDTH_MAX; i++) {
                double a = (double)plain.tables[t].rows[k][i];
                double b = (double)cluster.tables[t].rows[k][i];
                largest = fmax(largest, fabs(a - b));
                change = fmax(change, fabs(a));
            }
        }
    }
    ck_assert_double_gt(change, 0.05);
    ck_assert_double_lt(largest, 1e-5);
}
END_TEST

START_TEST(a_rate_that_is_too_large_is_told_with_the_step)
{
    put_regression();
    struct ps_train_options options = usual();
    struct ps_error err = {0};
    options.consistency = ways[_i];
    options.lr = 1000.0f;
    options.epochs = 100;
    ck_assert_int_eq(train(&options, &err), PS_ERR_DIVERGED);
    ck_assert_ptr_nonnull(strstr(err.text, "diverged at step"));
    ck_assert_ptr_nonnull(strstr(err.text, "--lr"));
}
END_TEST

START_TEST(a_row_that_the_model_cannot_take_is_named_by_file_and_line)
{
    char text[8192];
    size_t used = 0;
    for (uint32_t i = 0; i < PS_TRAIN_LOOK_ROWS; i++) { /* Looked at before training. */
        used += (size_t)snprintf(text + used, sizeof(text) - used, "4 1:1 2:1\n");
    }
    (void)snprintf(text + used, sizeof(text) - used, "\n1 1:1 2:1 3:1\n");
    put("ratings.libsvm", text);
    struct ps_train_options options = usual();
    struct ps_error err = {0};
    options.model = "mf";
    options.rank = 2;
    options.shuffle = false;
    options.consistency = ways[_i];
    ck_assert_int_eq(train(&options, &err), PS_ERR_INVALID);
    ck_assert_msg(strstr(err.text, "ratings.libsvm:258: mf needs") != NULL, "%s", err.text);
}
END_TEST

START_TEST(a_schedule_goes_from_its_begin_to_its_end)
{
    put_own(N_OWN);
    struct ps_train_options options = usual();
    struct ps_error err = {0};
    options.schedule = "cosine";
    options.batch = 5;
    options.epochs = 2;
    options.workers = 2;
    ck_assert_msg(train(&options, &err) == PS_OK, "%s", err.text);
    ck_assert(cluster.rates[0] == 0.5f);
    ck_assert(cluster.rates[cluster.n_pushes - 1] < 0.01f);
    for (uint32_t i = 1; i < cluster.n_pushes; i++) { /* Places of parts are about. */
        ck_assert(cluster.rates[i] < cluster.rates[i - 1] + 0.05f);
    }
}
END_TEST

START_TEST(one_that_was_stopped_ends_after_its_step)
{
    put_own(N_OWN);
    struct ps_train_options options = usual();
    struct ps_error err = {0};
    options.consistency = ways[_i];
    cluster.stop_after = 3;
    ck_assert_msg(train(&options, &err) == PS_OK, "%s", err.text);
    ck_assert_uint_eq(cluster.n_pushes, 3);
    ck_assert_uint_eq(cluster.n_rows, 3);
}
END_TEST

START_TEST(of_two_failures_of_a_step_the_first_is_named)
{
    put_own(N_OWN);
    struct ps_train_options options = usual();
    struct ps_error err = {0};
    options.consistency = ways[_i];
    cluster.push_status = PS_ERR_LOST;
    cluster.pull_fails_with_push = true;
    ck_assert_int_eq(train(&options, &err), PS_ERR_LOST);
    ck_assert_str_eq(err.text, "pushing step 0: the push's words");
}
END_TEST

START_TEST(tables_are_defined_by_flags_or_by_what_suits_the_model)
{
    put_regression();
    struct ps_train_options options = usual();
    struct ps_error err = {0};
    options.model = "fm";
    options.regress = true;
    options.optimizer_given = false;
    options.lr = 0.0f;
    options.admit_after = 2;
    options.expire_after = 100;
    ck_assert_msg(ps_sparse_plan_open(&options, &mem, &plan, &err) == PS_OK, "%s", err.text);
    struct ps_table_def rows = ps_sparse_plan_rows(&plan, 1);
    struct ps_table_def bias = ps_sparse_plan_dense(&plan, 0);
    ck_assert_str_eq(rows.optimizer, "adagrad");
    ck_assert(rows.l2 > 0.0f && bias.l2 == 0.0f);
    ck_assert_uint_eq(rows.width, 8);
    ck_assert_uint_eq(rows.admit_after, 2);
    ck_assert_uint_eq(rows.expire_after, 100);
    ck_assert(plan.schedule.rate > 0.049f && plan.schedule.rate < 0.051f);
    ps_sparse_plan_close(&plan);

    options.optimizer_given = true;
    options.optimizer = 5; /* ftrl */
    options.l1 = 0.25f;
    options.beta = 2.0f;
    ck_assert_msg(ps_sparse_plan_open(&options, &mem, &plan, &err) == PS_OK, "%s", err.text);
    rows = ps_sparse_plan_rows(&plan, 0);
    bias = ps_sparse_plan_dense(&plan, 0);
    ck_assert_str_eq(rows.optimizer, "ftrl");
    ck_assert(rows.l1 == 0.25f && bias.l1 == 0.0f);
    ck_assert(rows.beta == 2.0f && bias.beta == 2.0f);
    ck_assert(rows.l2 == 0.0f);
}
END_TEST

/* _i: are the columns of one scale? */
START_TEST(a_linear_model_takes_steps_as_large_as_its_labels_ask_for)
{
    static const char *const tables[] = {"y,x\n1000,1\n3000,9000\n", "y,x\n1,1\n3,2\n"};
    for (size_t i = 0; i < 2; i++) {
        put("some.csv", tables[i]);
        struct ps_train_options options = usual();
        struct ps_error err = {0};
        options.optimizer_given = false;
        options.lr = 0.0f;
        options.bias = true;
        options.standardize = _i == 0 ? 1 : 0; /* no, auto */
        ck_assert_msg(ps_sparse_plan_open(&options, &mem, &plan, &err) == PS_OK, "%s", err.text);
        float expected = i == 0 && _i == 1 ? 1000.0f / 8.0f : 0.5f;
        ck_assert_msg(plan.schedule.rate == expected, "%g", (double)plan.schedule.rate);
        ck_assert(plan.setup->params.offset == (i == 0 ? 2000.0 : 2.0));
        ps_sparse_plan_close(&plan);
    }
}
END_TEST

static Suite *suite_sparse_loop(void)
{
    Suite *suite = suite_create("sparse_loop");
    TCase *tcase = tcase_create("sparse_loop");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_loop_test(tcase, every_row_is_trained_once_an_epoch, 0, N_WAYS);
    tcase_add_loop_test(tcase, the_end_of_a_part_is_found, 0, N_WAYS);
    tcase_add_test(tcase, weights_of_the_next_unit_come_with_the_push_before_it);
    tcase_add_loop_test(tcase, local_steps_of_sgd_are_those_of_as_many_pushes, 0, 2);
    tcase_add_loop_test(tcase, a_rate_that_is_too_large_is_told_with_the_step, 0, N_WAYS);
    tcase_add_loop_test(tcase, a_row_that_the_model_cannot_take_is_named_by_file_and_line, 0,
                        N_WAYS);
    tcase_add_test(tcase, a_schedule_goes_from_its_begin_to_its_end);
    tcase_add_loop_test(tcase, one_that_was_stopped_ends_after_its_step, 0, N_WAYS);
    tcase_add_loop_test(tcase, of_two_failures_of_a_step_the_first_is_named, 0, N_WAYS);
    tcase_add_loop_test(tcase, a_linear_model_takes_steps_as_large_as_its_labels_ask_for, 0, 2);
    tcase_add_test(tcase, tables_are_defined_by_flags_or_by_what_suits_the_model);
    suite_add_tcase(suite, tcase);
    return suite;
}

PS_TEST_MAIN(suite_sparse_loop)
