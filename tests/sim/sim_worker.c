/* sim_worker.c — see sim_worker.h. */
#include "sim/sim_worker.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"

#define GIVE_UP_MS 30000u /* The network of a wild seed is slow, not dead. */

static const struct ps_creds insecure = {PS_CREDS_INSECURE};

struct ps_id sim_id(struct sim_world *world)
{
    struct ps_id id;
    for (size_t i = 0; i < sizeof(id.bytes); i++) {
        id.bytes[i] = (uint8_t)sim_below(world, 256);
    }
    return id;
}

bool sim_mem_empty(const struct ps_mem *mem, const char *name, struct sim_world *world)
{
    for (uint32_t i = 0; i < PS_MEM_CLASS_COUNT; i++) {
        uint64_t n_bytes = atomic_load(&mem->used[i]);
        if (n_bytes != 0) {
            sim_break(world, "%s: %" PRIu64 " bytes of class %s are still held at the end", name,
                      n_bytes, ps_mem_class_name((enum ps_mem_class)i));
            return false;
        }
    }
    return true;
}

static void proceed(struct sim_worker *worker);
static void live(struct sim_worker *worker);

/* ---- The end of a life --------------------------------------------------------------------- */

static void run_rejoin(struct ps_timer *timer)
{
    struct sim_worker *worker = PS_CONTAINER_OF(timer, struct sim_worker, timer);
    if (!worker->stopping) {
        live(worker);
    }
}

static void closed(struct ps_op *op)
{
    struct sim_worker *worker = op->arg;
    ps_session_destroy(worker->client);
    worker->client = NULL;
    sim_trace(worker->world, worker->node, "closed", ps_status_text(worker->end), 0, 0);
    bool not_there = worker->end == PS_ERR_UNAVAIL;
    if (not_there && worker->options.plan->damage) { /* A damaged coordinator never returns. */
        worker->end = PS_ERR_LOST;
        not_there = false;
    }
    bool again = (worker->end == PS_ERR_FENCED || not_there) && !worker->stopping;
    if (again && !not_there && sim_below(worker->world, 2) == 0 &&
        worker->options.may_leave(worker->options.arg, worker->options.index)) {
        again = false;
    }
    if (!again) {
        worker->gone = true;
        return;
    }
    ps_timer_init(&worker->timer, run_rejoin);
    ps_timer_start(&worker->exec.base, &worker->timer, sim_below(worker->world, 300));
}

static void end_life(struct sim_worker *worker, enum ps_status why)
{
    if (worker->closing || worker->client == NULL) {
        return;
    }
    ps_session_view(worker->client, &worker->view);
    worker->closing = true;
    worker->end = why;
    worker->n_fenced += why == PS_ERR_FENCED;
    ps_timer_stop(&worker->exec.base, &worker->timer);
    worker->close = (struct ps_op){.done = closed, .arg = worker};
    ps_session_close(worker->client, &worker->close);
}

/* True when an operation ended in a way that its caller goes on with. */
static bool op_fine(struct sim_worker *worker, const struct ps_op *op, const char *what)
{
    if (op->err.status == PS_OK || (worker->closing && op->err.status == PS_ERR_CANCELED)) {
        return op->err.status == PS_OK && !worker->closing;
    }
    bool empty = worker->options.plan->damage &&
                 (op->err.status == PS_ERR_NOT_FOUND || op->err.status == PS_ERR_INVALID);
    if (empty) { /* A server came back with nothing, and was faster than who tells of it. */
        end_life(worker, PS_ERR_FENCED);
        return false;
    }
    if (op->err.status == PS_ERR_FENCED || op->err.status == PS_ERR_LOST) {
        end_life(worker, op->err.status);
        return false;
    }
    sim_break(worker->world, "%s: %s ended with '%s'", worker->node->name, what, op->err.text);
    return false;
}

/* Its generation is over, and soon it is told. */
static bool is_void(const struct sim_worker *worker)
{
    return sim_watch_void(worker->options.watch, worker->node);
}

/* ---- Pull ---------------------------------------------------------------------------------- */

static void pulled(struct ps_op *op)
{
    struct sim_worker *worker = op->arg;
    PS_ASSERT(worker->pulling);
    worker->pulling = false;
    if (!op_fine(worker, op, "a pull")) {
        return;
    }
    /* A server that came back knows less, at first, and is stricter for it. */
    bool back = worker->pull.ret_min_clock < worker->last_clock;
    if (back && !worker->options.plan->durable) {
        sim_break(worker->world, "%s: min clock went back from %" PRIu64 " to %" PRIu64,
                  worker->node->name, worker->last_clock, worker->pull.ret_min_clock);
    }
    worker->last_clock = worker->pull.ret_min_clock;
    if (!is_void(worker)) {
        sim_ledger_judge(worker->options.ledger, &worker->look, worker->weights,
                         worker->pull.ret_min_clock);
    }
    worker->weights_step = 1 + worker->pull.step;
    proceed(worker);
}

/* Fill in a pull for `step`; whatever the reply does not write stays NaN and is found. */
static void prepare_pull(struct sim_worker *worker, uint64_t step)
{
    const struct sim_ledger *ledger = worker->options.ledger;
    memset(worker->weights, 0xff, ledger->n_floats * sizeof(float));
    worker->pulling = true;
    worker->weights_step = 0;
    worker->look = sim_ledger_begin(ledger, worker->node->number, step);
    worker->pull = (struct ps_pull_op){.op = {.done = pulled, .arg = worker},
                                       .step = step,
                                       .tensors = worker->pull_tensors,
                                       .n_tensors = worker->options.plan->n_tables,
                                       .keyed = &worker->pull_keyed,
                                       .n_keyed = ledger->n_rows > 0};
}

static void pull(struct sim_worker *worker, uint64_t step)
{
    prepare_pull(worker, step);
    ps_session_pull(worker->client, &worker->pull);
}

/* ---- Push ---------------------------------------------------------------------------------- */

static uint32_t unit_number(const struct sim_worker *worker, uint32_t *ret_rows)
{
    uint64_t first;
    return sim_plan_unit(worker->options.plan, &worker->lease, worker->unit, &first, ret_rows);
}

static bool aggregated(const struct sim_worker *worker)
{
    return worker->options.plan->consistency.aggregate;
}

static bool over_parts(const struct sim_worker *worker)
{
    return worker->options.plan->parts > 0;
}

/* The rows of the units done, as whoever has done them knows. */
static uint64_t rows_done(const struct sim_worker *worker)
{
    const struct sim_plan *plan = worker->options.plan;
    uint64_t whole = (uint64_t)worker->unit * plan->batch;
    uint64_t there = plan->part_rows[worker->lease.part];
    return whole < there ? whole : there;
}

static void send_report(struct sim_worker *worker)
{
    if (over_parts(worker)) {
        worker->report.lease_over = worker->over;
        worker->report.lease_rows = rows_done(worker);
    }
    worker->report.clock = worker->clock;
    worker->report.lease = worker->lease.id;
    worker->report.units_done = worker->unit;
    ps_session_report(worker->client, &worker->report);
}

static void stage(struct sim_worker *worker, uint32_t n_rows)
{
    worker->staged = true;
    worker->report.staged_step = worker->clock + 1;
    worker->report.staged_unit = worker->unit;
    worker->report.staged_rows = n_rows;
    send_report(worker);
    if (!worker->pulling && sim_below(worker->world, 2) == 0) {
        pull(worker, worker->clock + 1); /* It must wait for the end of this step. */
    }
}

static void pushed(struct ps_op *op)
{
    struct sim_worker *worker = op->arg;
    struct sim_ledger *ledger = worker->options.ledger;
    uint32_t n_rows = 0;
    uint32_t unit = unit_number(worker, &n_rows);
    PS_ASSERT(worker->pushing);
    worker->pushing = false;
    sim_ledger_write(ledger, unit, 0.0f, worker->grads); /* Nobody may read it any more. */
    if (aggregated(worker) && op->err.status == PS_ERR_LATE && !worker->closing) {
        worker->staged = true; /* The step is closed already: wait to be told. */
        proceed(worker);
        return;
    }
    if (!op_fine(worker, op, "a push")) {
        return;
    }
    if (aggregated(worker)) {
        stage(worker, n_rows);
        proceed(worker);
        return;
    }
    if (!worker->again && !is_void(worker)) {
        sim_ledger_ack(ledger, unit, worker->node->number, worker->clock);
    }
    worker->thought = false;
    worker->again = !worker->again && !worker->pulling && sim_chance(worker->world, 60);
    if (!worker->again) {
        worker->clock++;
        worker->unit++;
        if (over_parts(worker) && worker->unit == worker->n_units) {
            worker->over = sim_chance(worker->world, 500); /* Or it has not looked ahead. */
        }
        send_report(worker);
    } else {
        worker->thought = true;
    }
    proceed(worker);
}

/* True: nothing had to be sent, look again. */
static bool push(struct sim_worker *worker)
{
    struct sim_ledger *ledger = worker->options.ledger;
    uint32_t n_rows = 0;
    uint32_t unit = unit_number(worker, &n_rows);
    if (n_rows == 0) { /* The last batch had fewer rows than ways. */
        stage(worker, 0);
        return true; /* The step may have ended without us. */
    }
    bool both =
        worker->options.plan->styles[worker->options.index] == SIM_PUSH_PULL && !worker->again;
    sim_ledger_try(ledger, unit, worker->clock);
    sim_ledger_write(ledger, unit, aggregated(worker) ? -SIM_GRADIENT : -1.0f, worker->grads);
    worker->push_keyed.n =
        sim_ledger_rows(ledger, unit, worker->grads, worker->push_keys, worker->push_rows);
    worker->pushing = true;
    worker->push = (struct ps_push_op){.op = {.done = pushed, .arg = worker},
                                       .stream = worker->lease.id,
                                       .sequence = worker->unit,
                                       .acked_below = worker->unit,
                                       .step = worker->clock,
                                       .rows = n_rows,
                                       .rate = 1.0f,
                                       .read_clock = worker->pull.ret_min_clock,
                                       .tensors = worker->push_tensors,
                                       .n_tensors = worker->options.plan->n_tables,
                                       .keyed = &worker->push_keyed,
                                       .n_keyed = ledger->n_rows > 0};
    if (both) {
        prepare_pull(worker, worker->clock + 1);
        ps_session_push_pull(worker->client, &worker->push, &worker->pull);
    } else {
        ps_session_push(worker->client, &worker->push);
    }
    return false;
}

/* ---- The loop ------------------------------------------------------------------------------ */

static void run_thought(struct ps_timer *timer)
{
    struct sim_worker *worker = PS_CONTAINER_OF(timer, struct sim_worker, timer);
    worker->thinking = false;
    worker->thought = true;
    proceed(worker);
}

static void think(struct sim_worker *worker)
{
    const struct sim_plan *plan = worker->options.plan;
    uint64_t usual_ms = plan->think_ms[worker->options.index];
    uint64_t least_ms = usual_ms > 40 ? usual_ms / 2 : 0;
    worker->thinking = true;
    ps_timer_init(&worker->timer, run_thought);
    ps_timer_start(&worker->exec.base, &worker->timer,
                   least_ms + sim_heavy_tail(worker->world, usual_ms) % 300);
    if (plan->styles[worker->options.index] == SIM_PREFETCH) {
        pull(worker, worker->clock + 1);
    }
}

/* Take the lease that the coordinator names, if it is another one. */
static void adopt(struct sim_worker *worker)
{
    const struct ps_lease *lease = &worker->view.lease;
    if (lease->id == 0 || lease->id == worker->lease.id) {
        return;
    }
    worker->lease = *lease;
    worker->unit = lease->units_done;
    worker->over = false;
    worker->n_units = sim_plan_lease_units(worker->options.plan, lease);
    worker->clock = worker->clock > lease->clock ? worker->clock : lease->clock;
    sim_trace(worker->world, worker->node, "lease", "id, unit", lease->id, lease->units_done);
    for (uint32_t i = 0; i < worker->n_units; i++) {
        uint64_t first;
        uint32_t n_rows;
        uint32_t unit = sim_plan_unit(worker->options.plan, lease, i, &first, &n_rows);
        sim_ledger_known(worker->options.ledger, unit, lease->epoch, first, n_rows);
        if (i < lease->units_done && !is_void(worker)) {
            sim_ledger_lent_done(worker->options.ledger, unit, worker->node->number);
        }
    }
}

/* Aggregated: has the step of the staged unit ended, and was the unit in it? */
static void unstage(struct sim_worker *worker)
{
    const struct ps_view *view = &worker->view;
    bool over = view->job == PS_JOB_DONE;
    if (view->min_clock <= worker->clock && !over) {
        return;
    }
    bool same = view->lease.id == worker->lease.id;
    bool listed = same ? view->lease.units_done > worker->unit : true;
    uint32_t n_rows = 0;
    uint32_t unit = unit_number(worker, &n_rows);
    if (listed && worker->report.staged_step == worker->clock + 1 && !is_void(worker)) {
        sim_ledger_ack(worker->options.ledger, unit, worker->node->number, worker->clock);
    }
    worker->clock = view->min_clock > worker->clock ? view->min_clock : worker->clock;
    worker->unit = same ? view->lease.units_done : worker->n_units;
    worker->report.staged_step = 0;
    worker->staged = false;
    worker->thought = false;
}

/* The end of a life, if there is a reason. */
static bool over(struct sim_worker *worker)
{
    const struct ps_view *view = &worker->view;
    if (view->fenced || view->lost.status != PS_OK) {
        end_life(worker, view->fenced ? PS_ERR_FENCED : view->lost.status);
    } else if (view->job == PS_JOB_CLUSTER_LOST) {
        end_life(worker, PS_ERR_LOST);
    } else if (view->job == PS_JOB_DONE && !worker->pushing) {
        end_life(worker, PS_OK);
    }
    return worker->closing;
}

/* There is no unit behind the last: that ends a lease over parts, and is no step. */
static void find_end(struct sim_worker *worker)
{
    if (over_parts(worker) && worker->lease.id != 0 && !worker->over &&
        worker->unit >= worker->n_units) {
        worker->over = true;
        send_report(worker);
    }
}

/* One move, if there is one to make. True: look again. */
static bool move(struct sim_worker *worker)
{
    ps_session_view(worker->client, &worker->view);
    /* A fenced session is told of no lease, which is no sign that its unit was in the list. */
    if (worker->staged && !worker->view.fenced && worker->view.lost.status == PS_OK) {
        unstage(worker);
    }
    if (over(worker) || worker->pushing || worker->thinking || worker->staged) {
        return false;
    }
    if (worker->lease.id == 0 || worker->unit >= worker->n_units) {
        find_end(worker);
        adopt(worker);
        find_end(worker);
    }
    if (worker->lease.id == 0 || worker->unit >= worker->n_units || worker->pulling) {
        return false;
    }
    if (worker->thought) {
        return push(worker);
    }
    if (worker->weights_step != worker->clock + 1) {
        pull(worker, worker->clock);
    } else {
        think(worker);
    }
    return false;
}

/* Whatever can be done now. */
static void proceed(struct sim_worker *worker)
{
    while (!worker->closing && worker->ready && move(worker)) {
    }
}

static void changed(void *arg)
{
    struct sim_worker *worker = arg;
    if (worker->closing || worker->client == NULL) {
        return;
    }
    if (!worker->ready) {
        ps_session_view(worker->client, &worker->view);
        if (worker->view.fenced || worker->view.lost.status != PS_OK) {
            end_life(worker, worker->view.fenced ? PS_ERR_FENCED : worker->view.lost.status);
        }
        return;
    }
    proceed(worker);
}

/* ---- Birth --------------------------------------------------------------------------------- */

static void job_defined(struct ps_op *op)
{
    struct sim_worker *worker = op->arg;
    if (op_fine(worker, op, "defining the job")) {
        worker->ready = true;
        proceed(worker);
    }
}

static void table_defined(struct ps_op *op)
{
    struct sim_worker *worker = op->arg;
    const struct sim_plan *plan = worker->options.plan;
    if (!op_fine(worker, op, "defining a table")) {
        return;
    }
    worker->n_defined++;
    if (worker->n_defined < sim_plan_tables(plan)) {
        return;
    }
    worker->pull_keyed.table = worker->define[plan->n_tables].ret_table;
    worker->push_keyed.table = worker->pull_keyed.table;
    for (uint32_t i = 0; i < plan->n_tables; i++) {
        worker->pull_tensors[i].table = worker->define[i].ret_table;
        worker->push_tensors[i].table = worker->define[i].ret_table;
    }
    worker->job =
        (struct ps_job_def){.model = "stamps",
                            .data = "none",
                            .setup = "{}",
                            .rows = plan->parts > 0 ? 0 : plan->rows,
                            .parts = plan->parts,
                            .shuffle = plan->shuffle,
                            .seed = plan->seed,
                            .batch = plan->batch,
                            .epochs = plan->epochs,
                            .workers = plan->n_workers,
                            .start_timeout_ms = plan->start_timeout_ms,
                            .consistency = plan->consistency,
                            .units_per_lease = plan->parts > 0 ? 0 : plan->units_per_lease};
    worker->define_job =
        (struct ps_define_job_op){.op = {.done = job_defined, .arg = worker}, .def = &worker->job};
    ps_session_define_job(worker->client, &worker->define_job);
}

const char *const sim_table_names[SIM_TABLES_MAX] = {"t0",  "t1",  "t2",  "t3", "t4",  "t5",
                                                     "t6",  "t7",  "t8",  "t9", "t10", "t11",
                                                     "t12", "t13", "t14", "t15"};

static void joined(struct ps_op *op)
{
    struct sim_worker *worker = op->arg;
    const struct sim_plan *plan = worker->options.plan;
    if (plan->durable && op->err.status == PS_ERR_UNAVAIL && !worker->closing) {
        end_life(worker, PS_ERR_UNAVAIL); /* The coordinator is not there: somebody tries again. */
        return;
    }
    if (!op_fine(worker, op, "joining")) {
        return;
    }
    for (uint32_t i = 0; i < sim_plan_tables(plan) && !worker->closing; i++) {
        bool sparse = i == plan->n_tables;
        worker->defs[i] = (struct ps_table_def){.name = sim_table_names[i],
                                                .n_dims = sparse ? 0 : 1,
                                                .shape = {plan->table_floats[i]},
                                                .width = sparse ? SIM_ROW_FLOATS : 0,
                                                .optimizer = "sgd"};
        worker->define[i] = (struct ps_define_table_op){
            .op = {.done = table_defined, .arg = worker}, .def = &worker->defs[i]};
        ps_session_define_table(worker->client, &worker->define[i]);
    }
}

static void live(struct sim_worker *worker)
{
    struct sim_world *world = worker->world;
    struct ps_error err;
    struct ps_session_options options = {
        .transport = sim_net_transport(worker->options.net, worker->node),
        .exec = &worker->exec.base,
        .mem = &worker->mem,
        .creds = &insecure,
        .coordinator = worker->options.coordinator,
        .kind = PS_CLIENT_WORKER,
        .name = worker->node->name,
        .session = sim_id(world),
        .call_timeout_ms = 300 + (uint32_t)sim_below(world, 1000),
        .give_up_ms = GIVE_UP_MS,
        .seed = ps_rng_next(&world->rng),
        .changed = changed,
        .arg = worker,
    };
    worker->n_lives++;
    worker->n_defined = 0;
    worker->lease = (struct ps_lease){0};
    worker->report = (struct ps_worker_report){0};
    worker->view = (struct ps_view){0};
    worker->unit = 0;
    worker->n_units = 0;
    worker->over = false;
    worker->clock = 0;
    worker->weights_step = 0;
    worker->last_clock = 0;
    worker->ready = worker->pulling = worker->pushing = worker->thinking = false;
    worker->thought = worker->staged = worker->again = worker->closing = false;
    if (ps_session_create(&options, &worker->client, &err) != PS_OK) {
        sim_break(world, "%s: no client: %s", worker->node->name, err.text);
        return;
    }
    worker->simple = (struct ps_op){.done = joined, .arg = worker};
    ps_session_join(worker->client, &worker->simple);
}

void sim_worker_start(struct sim_worker *worker, const struct sim_worker_options *options,
                      struct sim_node *node)
{
    const struct sim_plan *plan = options->plan;
    const struct sim_ledger *ledger = options->ledger;
    *worker = (struct sim_worker){.options = *options, .world = node->world, .node = node};
    sim_exec_init(&worker->exec, node);
    ps_mem_init(&worker->mem);
    worker->weights = ps_mem_array(NULL, PS_MEM_OTHER, ledger->n_floats, sizeof(float));
    worker->grads = ps_mem_array(NULL, PS_MEM_OTHER, ledger->n_floats, sizeof(float));
    PS_ASSERT(worker->weights != NULL && worker->grads != NULL);
    for (uint32_t i = 0; i < plan->n_tables; i++) {
        worker->pull_tensors[i].values = worker->weights + ledger->table_first[i];
        worker->push_tensors[i].values = worker->grads + ledger->table_first[i];
    }
    worker->pull_keyed = (struct ps_keyed){.n = ledger->n_rows,
                                           .keys = ledger->row_keys,
                                           .values = worker->weights + ledger->rows_first};
    worker->push_keyed = (struct ps_keyed){.keys = worker->push_keys, .values = worker->push_rows};
    ps_timer_init(&worker->timer, run_rejoin);
    ps_timer_start(&worker->exec.base, &worker->timer, options->start_ns / SIM_MS);
}

static void run_stop(struct ps_mail *mail)
{
    struct sim_worker *worker = PS_CONTAINER_OF(mail, struct sim_worker, stop);
    if (worker->client != NULL) {
        end_life(worker, PS_ERR_CANCELED);
    } else {
        worker->gone = true;
    }
}

void sim_worker_stop(struct sim_worker *worker)
{
    if (worker->gone || worker->stopping) {
        return;
    }
    worker->stopping = true;
    worker->stop.run = run_stop;
    ps_exec_post(&worker->exec.base, &worker->stop);
}

bool sim_worker_finish(struct sim_worker *worker)
{
    if (!sim_exec_stop(&worker->exec)) {
        sim_break(worker->world, "%s: mail was left at the end", worker->node->name);
    }
    ps_mem_free(worker->weights);
    ps_mem_free(worker->grads);
    return sim_mem_empty(&worker->mem, worker->node->name, worker->world);
}
