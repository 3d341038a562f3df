/*
 * test_memory.c — the k-th allocation fails, for every k: start-up, push, pull, and the end.
 *
 * Two servers, the coordinator in the first, and one worker live in this thread, joined by the
 * direct transport, in virtual time. A run does what a worker does; one budget (of the servers, or
 * of the worker) refuses its k-th allocation, alone or with all that follow until the end begins.
 * Promised: no assertion, no hang, each step ends with PS_OK or with a status and words, an
 * acknowledged push is in the weights, and nothing is left in either budget.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/attr.h"
#include "base/mem.h"
#include "client/session.h"
#include "lib/test_main.h"
#include "port/direct.h"
#include "port/inline_exec.h"
#include "server.h"

#define SERVERS      2u
#define TABLES       2u
#define PATIENCE_MS  120000u /* Virtual. Longer than every deadline and silence of the product. */
#define ELEMENTS_MAX 9000u
#define SMALL        10u
#define KEYS         5u /* Of the sparse table. */
#define WIDTH        3u
#define NONE         INT64_MAX /* No allocation fails. */

struct world {
    struct ps_inline_exec exec;
    uint64_t now_ns;
    struct ps_mem mem[2]; /* Of the servers, of the worker. */
    size_t which;         /* Whose budget is short. */
    int64_t k;            /* Its allocation that fails. */
    bool all_fail;        /* Not only the k-th. */
    bool calm;            /* Nothing fails any more. */
    struct ps_direct *direct;
    struct ps_server *servers[SERVERS];
    uint32_t n_stopped;
    struct ps_session *session;
    struct ps_error err; /* Of the step that failed first. */
    const char *step;
    uint32_t tables[TABLES];
    float weights[TABLES][ELEMENTS_MAX];
    float grads[TABLES][ELEMENTS_MAX];
    uint32_t rows_table;
    float row_weights[KEYS][WIDTH];
    float row_grads[KEYS][WIDTH];
    uint32_t n_pushed; /* Acknowledged. */
};

static const uint64_t elements[TABLES] = {ELEMENTS_MAX, SMALL};
static const char *const names[TABLES] = {"large", "small"};
static const uint64_t keys[KEYS] = {0, 1, 1000, UINT64_C(1) << 63, UINT64_MAX};
static const struct ps_creds insecure = {.kind = PS_CREDS_INSECURE};

/* ---- Time ---------------------------------------------------------------------------------- */

static uint64_t clock_ns(void *arg)
{
    return ((struct world *)arg)->now_ns;
}

/* "All that follow": once one was refused, the budget has nothing more to give. */
static void starve(struct world *w)
{
    struct ps_mem *mem = &w->mem[w->which];
    bool hungry = w->all_fail && !w->calm && atomic_load(&mem->fail_after) < 0;
    for (size_t i = 0; i < PS_MEM_CLASS_COUNT; i++) {
        mem->limit[i] = hungry ? 1 : 0;
    }
}

/* Until `*done`, or until the patience is over: then false. */
static bool turn(struct world *w, const bool *done)
{
    uint64_t end_ms = w->now_ns / 1000000 + PATIENCE_MS;
    while (true) {
        ps_inline_exec_pump(&w->exec);
        starve(w);
        uint64_t next_ms = ps_timers_next_ms(&w->exec.timers);
        if (*done) {
            return true;
        }
        if (next_ms > end_ms) {
            return false;
        }
        w->now_ns = next_ms * 1000000;
    }
}

/* ---- Steps --------------------------------------------------------------------------------- */

static void op_done(struct ps_op *op)
{
    *(bool *)op->arg = true;
}

/* Wait for `op`, whose done sets `*done`. False: the run is over, w->err says why. */
static bool ended(struct world *w, const char *step, struct ps_op *op, const bool *done)
{
    if (!turn(w, done)) {
        w->calm = true; /* Whoever waits for memory may get it now. */
        ck_assert_msg(w->all_fail, "%s never ends, k = %" PRId64, step, w->k);
        ck_assert_msg(turn(w, done), "%s does not end when there is memory again", step);
    }
    if (op->err.status != PS_OK && w->err.status == PS_OK) {
        w->err = op->err;
        w->step = step;
        ck_assert_msg(op->err.text[0] != '\0', "%s: no words", step);
    }
    return op->err.status == PS_OK;
}

static bool start_servers(struct world *w)
{
    for (uint32_t i = 0; i < SERVERS; i++) {
        char name[16];
        char address[16];
        (void)snprintf(name, sizeof(name), "server-%" PRIu32, i);
        (void)snprintf(address, sizeof(address), "direct-%" PRIu32, i);
        struct ps_server_options options = {
            .transport = ps_direct_transport(w->direct),
            .exec = &w->exec.base,
            .lanes = {&w->exec.base, &w->exec.base},
            .n_lanes = 2,
            .mem = &w->mem[0],
            .creds = &insecure,
            .listen = address,
            .coordinator = i == 0 ? NULL : "direct-0",
            .name = name,
            .session = {{(uint8_t)(1 + i)}},
            .new_cluster_id = {{9}},
            .n_servers = SERVERS,
        };
        enum ps_status status = ps_server_start(&options, &w->servers[i], &w->err);
        if (status != PS_OK) {
            ck_assert_int_eq(status, PS_ERR_NOMEM);
            ck_assert_str_ne(w->err.text, "");
            w->step = "start";
            return false;
        }
    }
    return true;
}

static bool join(struct world *w)
{
    struct ps_session_options options = {
        .transport = ps_direct_transport(w->direct),
        .exec = &w->exec.base,
        .mem = &w->mem[1],
        .creds = &insecure,
        .coordinator = "direct-0",
        .kind = PS_CLIENT_WORKER,
        .name = "worker",
        .session = {{7}},
    };
    enum ps_status status = ps_session_create(&options, &w->session, &w->err);
    if (status != PS_OK) {
        ck_assert_int_eq(status, PS_ERR_NOMEM);
        w->step = "create";
        return false;
    }
    bool done = false;
    struct ps_op op = {.done = op_done, .arg = &done};
    ps_session_join(w->session, &op);
    return ended(w, "join", &op, &done);
}

static bool define_table(struct world *w, const struct ps_table_def *def, uint32_t *ret)
{
    bool done = false;
    struct ps_define_table_op op = {.op = {.done = op_done, .arg = &done}, .def = def};
    ps_session_define_table(w->session, &op);
    if (!ended(w, "define table", &op.op, &done)) {
        return false;
    }
    *ret = op.ret_table;
    return true;
}

static bool define(struct world *w)
{
    for (uint32_t i = 0; i < TABLES; i++) {
        struct ps_table_def def = {
            .name = names[i], .n_dims = 1, .shape = {elements[i]}, .optimizer = "sgd"};
        if (!define_table(w, &def, &w->tables[i])) {
            return false;
        }
    }
    struct ps_table_def sparse = {.name = "rows", .width = WIDTH, .optimizer = "sgd"};
    if (!define_table(w, &sparse, &w->rows_table)) {
        return false;
    }
    bool done = false;
    struct ps_job_def def = {.model = "test",
                             .data = "test",
                             .rows = 100,
                             .batch = 10,
                             .epochs = 1,
                             .workers = 1,
                             .units_per_lease = 10};
    def.consistency.mode = PS_CONSISTENCY_BSP;
    struct ps_define_job_op op = {.op = {.done = op_done, .arg = &done}, .def = &def};
    ps_session_define_job(w->session, &op);
    return ended(w, "define job", &op.op, &done);
}

/* A lease comes within the patience, or the session is told that it is over. */
static bool lend(struct world *w, struct ps_view *view)
{
    uint64_t end_ns = w->now_ns + PATIENCE_MS * UINT64_C(1000000);
    const bool never = false;
    while (w->now_ns < end_ns) {
        ps_session_view(w->session, view);
        if (view->lease.id != 0) {
            return true;
        }
        if (view->fenced || view->lost.status != PS_OK || view->job == PS_JOB_CLUSTER_LOST) {
            w->step = "lease";
            w->err = view->lost;
            return false;
        }
        ps_inline_exec_pump(&w->exec);
        starve(w);
        w->now_ns = ps_timers_next_ms(&w->exec.timers) * 1000000;
    }
    ck_assert_msg(w->all_fail, "no lease comes");
    w->calm = true;
    (void)turn(w, &never);
    ps_session_view(w->session, view);
    ck_assert_msg(view->lease.id != 0 || view->fenced || view->lost.status != PS_OK,
                  "no lease comes when there is memory again");
    return view->lease.id != 0;
}

static struct ps_push_op push_of(struct world *w, const struct ps_tensor *grads,
                                 const struct ps_keyed *rows, const struct ps_view *view,
                                 bool *done)
{
    return (struct ps_push_op){
        .op = {.done = op_done, .arg = done},
        .stream = view->lease.id,
        .sequence = w->n_pushed,
        .acked_below = w->n_pushed,
        .step = view->lease.clock + w->n_pushed,
        .rows = 10,
        .rate = 0.25f,
        .tensors = grads,
        .n_tensors = TABLES,
        .keyed = rows,
        .n_keyed = 1,
    };
}

static void report(struct world *w, const struct ps_view *view)
{
    struct ps_worker_report report = {
        .clock = view->lease.clock + w->n_pushed,
        .lease = view->lease.id,
        .units_done = w->n_pushed,
    };
    ps_session_report(w->session, &report);
}

static bool push_and_pull(struct world *w, const struct ps_view *view)
{
    struct ps_tensor grads[TABLES];
    struct ps_tensor weights[TABLES];
    for (uint32_t i = 0; i < TABLES; i++) {
        for (uint64_t k = 0; k < elements[i]; k++) {
            w->grads[i][k] = 1.0f;
        }
        grads[i] = (struct ps_tensor){.table = w->tables[i], .values = w->grads[i]};
        weights[i] = (struct ps_tensor){.table = w->tables[i], .values = w->weights[i]};
    }
    for (uint32_t i = 0; i < KEYS * WIDTH; i++) {
        w->row_grads[i / WIDTH][i % WIDTH] = 1.0f;
    }
    struct ps_keyed row_grads = {
        .table = w->rows_table, .n = KEYS, .keys = keys, .values = w->row_grads[0]};
    struct ps_keyed row_weights = row_grads;
    row_weights.values = w->row_weights[0];
    bool pushed = false;
    struct ps_push_op push = push_of(w, grads, &row_grads, view, &pushed);
    ps_session_push(w->session, &push);
    if (!ended(w, "push", &push.op, &pushed)) {
        return false;
    }
    w->n_pushed++;
    report(w, view);
    pushed = false;
    bool pulled = false;
    push = push_of(w, grads, &row_grads, view, &pushed);
    struct ps_pull_op pull = {
        .op = {.done = op_done, .arg = &pulled},
        .step = view->lease.clock + w->n_pushed + 1,
        .tensors = weights,
        .n_tensors = TABLES,
        .keyed = &row_weights,
        .n_keyed = 1,
    };
    ps_session_push_pull(w->session, &push, &pull);
    bool took = ended(w, "push beside a pull", &push.op, &pushed);
    if (took) {
        w->n_pushed++;
        report(w, view);
    }
    return ended(w, "pull", &pull.op, &pulled) && took;
}

static void check_weights(const struct world *w)
{
    for (uint32_t i = 0; i < TABLES; i++) {
        for (uint64_t k = 0; k < elements[i]; k++) {
            ck_assert(w->weights[i][k] == -0.25f * (float)w->n_pushed);
        }
    }
    for (uint32_t i = 0; i < KEYS * WIDTH; i++) {
        ck_assert(w->row_weights[i / WIDTH][i % WIDTH] == -0.25f * (float)w->n_pushed);
    }
}

/* ---- The end ------------------------------------------------------------------------------- */

static void server_stopped(void *arg)
{
    ((struct world *)arg)->n_stopped++;
}

static void end(struct world *w)
{
    w->calm = true;
    starve(w);
    if (w->session != NULL) {
        bool done = false;
        struct ps_op op = {.done = op_done, .arg = &done};
        ps_session_close(w->session, &op);
        ck_assert_msg(turn(w, &done), "close never ends");
        ps_session_destroy(w->session);
    }
    for (uint32_t i = SERVERS; i-- > 0;) { /* The coordinator last. */
        if (w->servers[i] != NULL) {
            uint32_t n_before = w->n_stopped;
            ps_server_stop(w->servers[i], server_stopped, w);
            for (uint32_t n = 0; w->n_stopped == n_before; n++) {
                ck_assert_msg(n < 100000, "stopping never ends");
                ps_inline_exec_pump(&w->exec);
                uint64_t next_ms = ps_timers_next_ms(&w->exec.timers);
                w->now_ns = next_ms == UINT64_MAX ? w->now_ns : next_ms * 1000000;
            }
            ps_server_destroy(w->servers[i]);
        }
    }
    ps_direct_destroy(w->direct);
    for (size_t i = 0; i < PS_ARRAY_LEN(w->mem); i++) {
        for (int c = 0; c < PS_MEM_CLASS_COUNT; c++) {
            ck_assert_msg(atomic_load(&w->mem[i].used[c]) == 0,
                          "%" PRIu64 " bytes of %s are left after '%s' failed: %s",
                          atomic_load(&w->mem[i].used[c]), ps_mem_class_name((enum ps_mem_class)c),
                          w->step == NULL ? "nothing" : w->step, w->err.text);
        }
    }
}

/* ---- Runs ---------------------------------------------------------------------------------- */

struct outcome {
    bool fired;   /* There was a k-th allocation. */
    bool through; /* Every step worked. */
};

static struct world world;

static void begin(struct world *w, size_t which, int64_t k, bool all_fail)
{
    memset(w, 0, sizeof(*w));
    w->now_ns = 1000000000;
    w->which = which;
    w->k = k;
    w->all_fail = all_fail;
    ps_inline_exec_init(&w->exec, clock_ns, w);
    for (size_t i = 0; i < PS_ARRAY_LEN(w->mem); i++) {
        ps_mem_init(&w->mem[i]);
    }
    atomic_store(&w->mem[which].fail_after, k);
    w->direct = ps_direct_create(&w->exec.base);
    ck_assert_ptr_nonnull(w->direct);
}

/* The k-th allocation of budget `which` fails. */
static struct outcome run(size_t which, int64_t k, bool all_fail)
{
    struct world *w = &world;
    begin(w, which, k, all_fail);
    struct ps_view view;
    bool through =
        start_servers(w) && join(w) && define(w) && lend(w, &view) && push_and_pull(w, &view);
    if (through) {
        check_weights(w);
    }
    bool fired = atomic_load(&w->mem[which].fail_after) < 0;
    atomic_store(&w->mem[which].fail_after, -1);
    end(w);
    return (struct outcome){.fired = fired, .through = through};
}

/*
 * Blocks and rows: memory grows with the first steps, and then no more. What the coordinator says
 * meanwhile, once a step at most, is unpacked into a block of its own.
 */
START_TEST(a_worker_in_its_stride_allocates_nothing)
{
    struct world *w = &world;
    struct ps_view view;
    uint64_t n_before = 0;
    uint64_t n_bytes = 0;
    begin(w, 0, NONE, false);
    ck_assert(start_servers(w) && join(w) && define(w) && lend(w, &view));
    for (uint32_t i = 0; i < 5; i++) { /* Two of the lease's ten units each. */
        n_before = i == 2 ? atomic_load(&w->mem[1].n_calls) : n_before;
        n_bytes = i == 2 ? atomic_load(&w->mem[1].used[PS_MEM_CALLS]) : n_bytes;
        ck_assert(push_and_pull(w, &view));
        check_weights(w);
    }
    ck_assert_uint_le(atomic_load(&w->mem[1].n_calls), n_before + 3);
    ck_assert_uint_eq(atomic_load(&w->mem[1].used[PS_MEM_CALLS]), n_bytes);
    atomic_store(&w->mem[0].fail_after, -1);
    end(w);
}
END_TEST

static void every_allocation(size_t which, bool all_fail)
{
    int64_t n_through = 0;
    int64_t k = 0;
    while (true) {
        struct outcome outcome = run(which, k, all_fail);
        if (!outcome.fired) {
            ck_assert(outcome.through);
            break;
        }
        n_through += outcome.through ? 1 : 0;
        k++;
    }
    printf("%" PRId64 " allocations, %" PRId64 " runs went through without one\n", k, n_through);
    ck_assert_int_gt(k, 20); /* Else this test would test nothing. */
}

START_TEST(a_worker_and_two_servers_agree_when_nothing_fails)
{
    struct outcome outcome = run(0, NONE, false);
    ck_assert(outcome.through && !outcome.fired);
}
END_TEST

START_TEST(any_one_allocation_of_the_servers_may_fail)
{
    every_allocation(0, false);
}
END_TEST

START_TEST(any_one_allocation_of_the_worker_may_fail)
{
    every_allocation(1, false);
}
END_TEST

START_TEST(the_servers_may_run_out_of_memory_at_any_time)
{
    every_allocation(0, true);
}
END_TEST

START_TEST(the_worker_may_run_out_of_memory_at_any_time)
{
    every_allocation(1, true);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("memory");
    TCase *c = tcase_create("the k-th allocation fails");
    tcase_set_timeout(c, 200);
    tcase_add_test(c, a_worker_and_two_servers_agree_when_nothing_fails);
    tcase_add_test(c, a_worker_in_its_stride_allocates_nothing);
    tcase_add_test(c, any_one_allocation_of_the_servers_may_fail);
    tcase_add_test(c, any_one_allocation_of_the_worker_may_fail);
    tcase_add_test(c, the_servers_may_run_out_of_memory_at_any_time);
    tcase_add_test(c, the_worker_may_run_out_of_memory_at_any_time);
    suite_add_tcase(s, c);
    return s;
}

PS_TEST_MAIN(suite)
