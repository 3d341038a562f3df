/*
 * test_rows.c — rows of sparse tables through a session: each gradient is applied once whatever is
 * lost, rows come back where their keys stand, and what cannot be is refused before it leaves.
 */
#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "lib/test_main.h"
#include "obs/log.h"
#include "rig.h"
#include "suites.h"

#define KEYS   300u
#define WIDTH  3u
#define OTHERS 40u /* Of a second sparse table, of one float. */

static struct rig rig;
static uint64_t keys[KEYS];
static float gradients[KEYS][WIDTH];
static float weights[KEYS][WIDTH];
static uint64_t other_keys[OTHERS];
static float other_gradients[OTHERS];
static float other_weights[OTHERS];
static uint32_t rows_table;
static uint32_t others_table;

static uint32_t define(const char *name, uint32_t width)
{
    struct ps_table_def def = {.name = name, .width = width, .optimizer = "sgd"};
    uint32_t count;
    struct ps_define_table_op op = {.op = rig_op(&count), .def = &def};
    ps_session_define_table(rig.client, &op);
    (void)rig_wait(&rig, &count, 1000);
    ck_assert_int_eq(op.op.err.status, PS_OK);
    const struct ps_table *table = ps_session_table(rig.client, name);
    ck_assert_uint_eq(table->width, width);
    ck_assert_uint_eq(table->n_elements, 0);
    return op.ret_table;
}

static void start(uint32_t n_servers)
{
    rig_start(&rig, n_servers);
    rows_table = define("rows", WIDTH);
    others_table = define("others", 1);
    for (uint32_t i = 0; i < KEYS; i++) { /* From 0 to 2^64 - 1. */
        keys[i] = i + 1 == KEYS ? UINT64_MAX : UINT64_MAX / (KEYS - 1) * i;
        for (uint32_t j = 0; j < WIDTH; j++) {
            gradients[i][j] = (float)(1 + i % 11 + j);
            weights[i][j] = NAN;
        }
    }
    for (uint32_t i = 0; i < OTHERS; i++) {
        other_keys[i] = 5 + i;
        other_gradients[i] = (float)i;
        other_weights[i] = NAN;
    }
}

static struct ps_keyed keyed(float *values)
{
    return (struct ps_keyed){.table = rows_table, .n = KEYS, .keys = keys, .values = values};
}

static struct ps_keyed others(float *values)
{
    return (struct ps_keyed){
        .table = others_table, .n = OTHERS, .keys = other_keys, .values = values};
}

/* What came back, and what the servers hold: `times` gradients. */
static void check(float times)
{
    for (uint32_t i = 0; i < KEYS; i++) {
        const struct fake_row *row = fake_row(rig.cluster, rows_table, keys[i]);
        for (uint32_t j = 0; j < WIDTH; j++) {
            ck_assert(row->values[j] == -times * gradients[i][j]);
            ck_assert(weights[i][j] == row->values[j]);
        }
    }
    for (uint32_t i = 0; i < OTHERS; i++) {
        ck_assert(fake_row(rig.cluster, others_table, other_keys[i])->values[0] ==
                  -times * other_gradients[i]);
        ck_assert(other_weights[i] == -times * other_gradients[i]);
    }
}

/* Half of the calls are lost, with or without effect. */
static enum fake_fate fate_by_chance(struct fake_cluster *cluster, uint32_t server PS_UNUSED)
{
    switch (ps_mix64(cluster->counter++) % 4) {
    case 0: return FATE_LOSE_REQUEST;
    case 1: return FATE_LOSE_REPLY;
    default: return FATE_ANSWER;
    }
}

/* Tables in any order, with tensors or without; 0: calm, 1: half of the calls are lost. */
START_TEST(rows_are_pushed_once_and_come_back_where_their_keys_stand)
{
    start(3);
    rig.cluster->fate = _i == 1 ? fate_by_chance : NULL;
    rig.cluster->counter = test_seed();
    for (uint64_t step = 0; step < 4; step++) {
        struct ps_keyed push_keyed[2] = {others(other_gradients), keyed(gradients[0])};
        struct ps_keyed pull_keyed[2] = {keyed(weights[0]), others(other_weights)};
        uint32_t n_pushed;
        uint32_t n_pulled;
        struct ps_push_op push = rig_push(&rig, &n_pushed, step);
        push.n_tensors = step % 2 == 0 ? 0 : 1; /* The small one. */
        push.keyed = push_keyed;
        push.n_keyed = 2;
        struct ps_pull_op pull = rig_pull(&rig, &n_pulled, step + 1);
        pull.n_tensors = 0;
        pull.keyed = pull_keyed;
        pull.n_keyed = 2;
        ps_session_push_pull(rig.client, &push, &pull);
        (void)rig_wait(&rig, &n_pushed, 60000);
        (void)rig_wait(&rig, &n_pulled, 60000);
        ck_assert_int_eq(push.op.err.status, PS_OK);
        ck_assert_int_eq(pull.op.err.status, PS_OK);
        check((float)(step + 1));
    }
    ck_assert(rig.cluster->weights[0][0] == -2.0f * rig.gradients[0][0]);
    ck_assert_int_eq(rig.cluster->n_repeats > 0, _i == 1);
    rig_stop(&rig);
}
END_TEST

START_TEST(a_calm_step_with_rows_is_one_call_per_server)
{
    start(3);
    struct ps_keyed push_keyed = keyed(gradients[0]);
    struct ps_keyed pull_keyed = keyed(weights[0]);
    uint32_t n_pushed;
    uint32_t n_pulled;
    struct ps_push_op push = rig_push(&rig, &n_pushed, 0);
    struct ps_pull_op pull = rig_pull(&rig, &n_pulled, 1);
    push.n_tensors = pull.n_tensors = 1;
    push.keyed = &push_keyed;
    pull.keyed = &pull_keyed;
    push.n_keyed = pull.n_keyed = 1;
    ps_session_push_pull(rig.client, &push, &pull);
    (void)rig_wait(&rig, &n_pushed, 1000);
    (void)rig_wait(&rig, &n_pulled, 1000);
    ck_assert_uint_eq(rig.cluster->n_data_calls, 3);
    ck_assert_uint_eq(rig.cluster->n_both_calls, 3);
    rig_stop(&rig);
}
END_TEST

START_TEST(no_keys_are_no_calls)
{
    start(2);
    uint32_t count;
    struct ps_keyed none = {.table = rows_table};
    struct ps_pull_op pull = rig_pull(&rig, &count, 0);
    pull.n_tensors = 0;
    pull.keyed = &none;
    pull.n_keyed = 1;
    ck_assert_int_eq(rig_pull_wait(&rig, &pull, &count, 1000), PS_OK);
    struct ps_push_op push = rig_push(&rig, &count, 0);
    push.n_tensors = 0;
    push.keyed = &none;
    push.n_keyed = 1;
    ck_assert_int_eq(rig_push_wait(&rig, &push, &count, 1000), PS_OK);
    ck_assert_uint_eq(rig.cluster->n_data_calls, 0);
    rig_stop(&rig);
}
END_TEST

static enum ps_status judge_full(struct fake_cluster *cluster, uint32_t server PS_UNUSED,
                                 uint32_t slot PS_UNUSED, bool push)
{
    return push && cluster->counter == 0 ? PS_ERR_BUSY : PS_OK;
}

static uint32_t n_busy_lines;

static void count_busy_lines(void *arg PS_UNUSED, const char *line)
{
    n_busy_lines += strstr(line, "event=server.busy") != NULL && strstr(line, "table.full") != NULL;
}

/* It waits for memory, or for whoever reads what it says meanwhile. */
START_TEST(a_server_that_stays_full_is_waited_for_and_named)
{
    start(1);
    uint32_t count;
    struct ps_keyed push_keyed = keyed(gradients[0]);
    struct ps_push_op push = rig_push(&rig, &count, 0);
    push.n_tensors = 0;
    push.keyed = &push_keyed;
    push.n_keyed = 1;
    rig.cluster->judge = judge_full;
    n_busy_lines = 0;
    ps_log_to(count_busy_lines, NULL);
    ps_session_push(rig.client, &push);
    ck_assert_uint_eq(rig_wait(&rig, &count, 9000), 9000);
    ck_assert_uint_eq(n_busy_lines, 0);
    ck_assert_uint_eq(rig_wait(&rig, &count, 36000), 36000);
    ck_assert_uint_eq(n_busy_lines, 3); /* After 10, 20 and 40 s. */
    rig.cluster->counter = 1;
    (void)rig_wait(&rig, &count, 5000);
    ck_assert_int_eq(push.op.err.status, PS_OK);
    ps_log_to(NULL, NULL);
    rig_stop(&rig);
}
END_TEST

/* ---- What is refused ------------------------------------------------------------------------ */

static struct ps_keyed two[2];
static struct ps_tensor tensor;

static void repeated_key(struct ps_push_op *push PS_UNUSED)
{
    keys[7] = keys[6];
}
static void descending_key(struct ps_push_op *push PS_UNUSED)
{
    keys[7] = keys[5];
}
static void not_finite(struct ps_push_op *push PS_UNUSED)
{
    gradients[KEYS - 1][WIDTH - 1] = INFINITY;
}
static void a_dense_table(struct ps_push_op *push PS_UNUSED)
{
    two[0].table = 0;
}
static void an_unknown_table(struct ps_push_op *push PS_UNUSED)
{
    two[0].table = 99;
}
static void a_table_twice(struct ps_push_op *push)
{
    two[1] = two[0];
    push->n_keyed = 2;
}
static void no_values(struct ps_push_op *push PS_UNUSED)
{
    two[0].values = NULL;
}
static void no_keys(struct ps_push_op *push PS_UNUSED)
{
    two[0].keys = NULL;
}
static void a_tensor_of_rows(struct ps_push_op *push)
{
    tensor = (struct ps_tensor){.table = rows_table, .values = gradients[0]};
    push->tensors = &tensor;
    push->n_tensors = 1;
}

static const struct {
    const char *name;
    void (*spoil)(struct ps_push_op *push);
    enum ps_status want;
    const char *words;
} spoilt[] = {
    {"a key twice", repeated_key, PS_ERR_INVALID, "at 7 does not follow"},
    {"keys that descend", descending_key, PS_ERR_INVALID, "at 7 does not follow"},
    {"a gradient that is infinite", not_finite, PS_ERR_INVALID, "NaN or infinity"},
    {"keys of a dense table", a_dense_table, PS_ERR_INVALID, "'small' is dense"},
    {"keys of no table", an_unknown_table, PS_ERR_NOT_FOUND, "table 99"},
    {"a table twice", a_table_twice, PS_ERR_INVALID, "named twice"},
    {"no values", no_values, PS_ERR_INVALID, "no keys or no values"},
    {"no keys", no_keys, PS_ERR_INVALID, "no keys or no values"},
    {"a sparse table as a tensor", a_tensor_of_rows, PS_ERR_INVALID, "'rows' is sparse"},
};

START_TEST(what_cannot_be_is_refused_before_it_leaves)
{
    start(2);
    uint32_t count;
    struct ps_push_op push = rig_push(&rig, &count, 0);
    two[0] = keyed(gradients[0]);
    push.n_tensors = 0;
    push.keyed = two;
    push.n_keyed = 1;
    spoilt[_i].spoil(&push);
    ck_assert_msg(rig_push_wait(&rig, &push, &count, 1000) == spoilt[_i].want, "%s",
                  spoilt[_i].name);
    ck_assert_msg(strstr(push.op.err.text, spoilt[_i].words) != NULL, "%s: '%s'", spoilt[_i].name,
                  push.op.err.text);
    ck_assert_uint_eq(rig.cluster->n_data_calls, 0);
    rig_stop(&rig);
}
END_TEST

Suite *suite_rows(void)
{
    Suite *suite = suite_create("rows");
    TCase *tcase = tcase_create("rows");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, rows_are_pushed_once_and_come_back_where_their_keys_stand, 0, 2);
    tcase_add_test(tcase, a_calm_step_with_rows_is_one_call_per_server);
    tcase_add_test(tcase, no_keys_are_no_calls);
    tcase_add_test(tcase, a_server_that_stays_full_is_waited_for_and_named);
    tcase_add_loop_test(tcase, what_cannot_be_is_refused_before_it_leaves, 0,
                        (int)PS_ARRAY_LEN(spoilt));
    suite_add_tcase(suite, tcase);
    return suite;
}
