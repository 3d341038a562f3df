/* rig.c — see rig.h. */
#include "rig.h"

#include <stdlib.h>

#include <check.h>

static void count_done(struct ps_op *op)
{
    (*(uint32_t *)op->arg)++;
}

static void count_changed(void *arg)
{
    ((struct rig *)arg)->n_changed++;
}

void rig_init(struct rig *rig, uint32_t n_servers, enum ps_client_kind kind)
{
    static const struct ps_creds creds = {.kind = PS_CREDS_INSECURE};
    *rig = (struct rig){.cluster = fake_cluster_create(n_servers),
                        .give_up_ms = rig->give_up_ms,
                        .patience_ms = rig->patience_ms,
                        .plant_new_sequence = rig->plant_new_sequence};
    rig->cluster->patience_ms = rig->patience_ms;
    ps_mem_init(&rig->mem);
    struct ps_session_options options = {.transport = &rig->cluster->net.base,
                                         .exec = &rig->cluster->net.exec.base,
                                         .mem = &rig->mem,
                                         .creds = &creds,
                                         .coordinator = "coordinator:1",
                                         .kind = kind,
                                         .name = "worker-0",
                                         .session = {.bytes = {1, 2, 3}},
                                         .give_up_ms = rig->give_up_ms,
                                         .seed = 42,
                                         .plant_new_sequence = rig->plant_new_sequence,
                                         .changed = count_changed,
                                         .arg = rig};
    struct ps_error err;
    ck_assert_int_eq(ps_session_create(&options, &rig->client, &err), PS_OK);
    const uint32_t sizes[2] = {RIG_SMALL_N, RIG_BIG_N};
    for (uint32_t i = 0; i < 2; i++) {
        rig->gradients[i] = calloc(sizes[i], sizeof(float));
        rig->weights[i] = calloc(sizes[i], sizeof(float));
        ck_assert(rig->gradients[i] != NULL && rig->weights[i] != NULL);
        for (uint32_t e = 0; e < sizes[i]; e++) {
            rig->gradients[i][e] = (float)(1 + (e * 7 + i) % 1000);
        }
        rig->push_tensors[i] = (struct ps_tensor){.table = i, .values = rig->gradients[i]};
        rig->pull_tensors[i] = (struct ps_tensor){.table = i, .values = rig->weights[i]};
    }
}

struct ps_op rig_op(uint32_t *count)
{
    *count = 0;
    return (struct ps_op){.done = count_done, .arg = count};
}

struct ps_push_op rig_push(struct rig *rig, uint32_t *count, uint64_t sequence)
{
    return (struct ps_push_op){.op = rig_op(count),
                               .stream = 3,
                               .sequence = sequence,
                               .step = sequence,
                               .rows = 10,
                               .rate = 0.5f,
                               .tensors = rig->push_tensors,
                               .n_tensors = 2};
}

struct ps_pull_op rig_pull(struct rig *rig, uint32_t *count, uint64_t step)
{
    return (struct ps_pull_op){
        .op = rig_op(count), .step = step, .tensors = rig->pull_tensors, .n_tensors = 2};
}

uint32_t rig_wait(struct rig *rig, const uint32_t *count, uint32_t ms)
{
    fake_run(&rig->cluster->net, 0);
    uint32_t waited = 0;
    for (; *count == 0 && waited < ms; waited++) {
        fake_run(&rig->cluster->net, 1);
        if (waited % PS_HEARTBEAT_MS == 0 && !rig->cluster->silent) {
            fake_state(rig->cluster, false); /* A coordinator that is well. */
        }
    }
    return waited;
}

static void define(struct rig *rig, const char *name, uint64_t n, uint32_t number)
{
    struct ps_table_def def = {.name = name, .n_dims = 1, .shape = {n}, .optimizer = "sgd"};
    uint32_t count;
    struct ps_define_table_op op = {.op = rig_op(&count), .def = &def};
    ps_session_define_table(rig->client, &op);
    (void)rig_wait(rig, &count, 1000);
    ck_assert_uint_eq(count, 1);
    ck_assert_int_eq(op.op.err.status, PS_OK);
    ck_assert_uint_eq(op.ret_table, number);
}

void rig_start(struct rig *rig, uint32_t n_servers)
{
    rig_init(rig, n_servers, PS_CLIENT_WORKER);
    uint32_t count;
    struct ps_op op = rig_op(&count);
    ps_session_join(rig->client, &op);
    (void)rig_wait(rig, &count, 1000);
    ck_assert_uint_eq(count, 1);
    ck_assert_int_eq(op.err.status, PS_OK);
    define(rig, "small", RIG_SMALL_N, 0);
    define(rig, "big", RIG_BIG_N, 1);
}

void rig_stop(struct rig *rig)
{
    if (rig->client != NULL) {
        uint32_t count;
        struct ps_op op = rig_op(&count);
        ps_session_close(rig->client, &op);
        (void)rig_wait(rig, &count, 20000);
        ck_assert_uint_eq(count, 1);
        fake_run(&rig->cluster->net, 10);
        ps_session_destroy(rig->client);
    }
    for (uint32_t i = 0; i < PS_MEM_CLASS_COUNT; i++) {
        ck_assert_uint_eq(atomic_load(&rig->mem.used[i]), 0);
    }
    for (uint32_t i = 0; i < 2; i++) {
        free(rig->gradients[i]);
        free(rig->weights[i]);
    }
    fake_cluster_destroy(rig->cluster);
}

enum ps_status rig_push_wait(struct rig *rig, struct ps_push_op *push, uint32_t *count, uint32_t ms)
{
    ps_session_push(rig->client, push);
    (void)rig_wait(rig, count, ms);
    ck_assert_uint_eq(*count, 1);
    return push->op.err.status;
}

enum ps_status rig_pull_wait(struct rig *rig, struct ps_pull_op *pull, uint32_t *count, uint32_t ms)
{
    ps_session_pull(rig->client, pull);
    (void)rig_wait(rig, count, ms);
    ck_assert_uint_eq(*count, 1);
    return pull->op.err.status;
}

enum fake_fate fate_hold(struct fake_cluster *cluster PS_UNUSED, uint32_t server PS_UNUSED)
{
    return FATE_HOLD;
}

enum ps_status judge_slot_7_once(struct fake_cluster *cluster, uint32_t server PS_UNUSED,
                                 uint32_t slot, bool push)
{
    bool hit = push && slot == 7 && cluster->counter++ == 0;
    return hit ? cluster->refusal : PS_OK;
}

struct ps_view rig_view(const struct rig *rig)
{
    struct ps_view view;
    ps_session_view(rig->client, &view);
    return view;
}

void rig_check_applied(const struct rig *rig, float times)
{
    const uint32_t sizes[2] = {RIG_SMALL_N, RIG_BIG_N};
    for (uint32_t i = 0; i < 2; i++) {
        for (uint32_t e = 0; e < sizes[i]; e++) {
            if (rig->cluster->weights[i][e] != -times * rig->gradients[i][e]) {
                ck_abort_msg("table %u element %u is %f, gradient %f, pushed %f times", i, e,
                             (double)rig->cluster->weights[i][e], (double)rig->gradients[i][e],
                             (double)times);
            }
        }
    }
}
