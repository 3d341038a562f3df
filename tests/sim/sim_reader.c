/* sim_reader.c — see sim_reader.h. */
#include "sim/sim_reader.h"

#include <string.h>

#include "base/assert.h"

static const struct ps_creds insecure = {PS_CREDS_INSECURE};

static void closed(struct ps_op *op)
{
    struct sim_reader *reader = op->arg;
    ps_session_destroy(reader->client);
    reader->client = NULL;
    reader->gone = true;
}

static void leave(struct sim_reader *reader)
{
    if (reader->closing || reader->client == NULL) {
        return;
    }
    reader->closing = true;
    ps_timer_stop(&reader->exec.base, &reader->timer);
    reader->close = (struct ps_op){.done = closed, .arg = reader};
    ps_session_close(reader->client, &reader->close);
}

static bool op_fine(struct sim_reader *reader, const struct ps_op *op, const char *what)
{
    enum ps_status status = op->err.status;
    if (status == PS_OK || (reader->closing && status == PS_ERR_CANCELED)) {
        return status == PS_OK && !reader->closing;
    }
    bool empty = status == PS_ERR_NOT_FOUND || status == PS_ERR_INVALID; /* Came back so. */
    bool fault = status == PS_ERR_FENCED || status == PS_ERR_LOST ||
                 (empty && reader->options.plan->damage && !reader->options.last);
    /* A coordinator that finds its data damaged does not start: that ends what asks for it. */
    bool gone = status == PS_ERR_UNAVAIL && sim_server_gone(reader->options.coordinates);
    bool may = (status == PS_ERR_LOST || gone) && reader->options.plan->damage;
    reader->lost = may;
    if (!(fault || may) || (reader->options.last && !may)) {
        sim_break(reader->world, "%s: %s ended with '%s'", reader->node->name, what, op->err.text);
    }
    leave(reader);
    return false;
}

static void look_again(struct sim_reader *reader)
{
    ps_timer_start(&reader->exec.base, &reader->timer, 50 + sim_below(reader->world, 400));
}

static void judge(struct sim_reader *reader, uint64_t min_clock)
{
    if (!sim_watch_void(reader->options.watch, reader->node)) {
        sim_ledger_judge(reader->options.ledger, &reader->look, reader->values, min_clock);
    }
    reader->looked = true;
    if (reader->options.last) {
        leave(reader);
    } else {
        look_again(reader);
    }
}

/* A row of the universe that has not come yet, into its place. */
static void take_row(struct sim_reader *reader, uint64_t key, const float *row)
{
    const struct sim_ledger *ledger = reader->options.ledger;
    for (uint32_t i = 0; i < ledger->n_rows; i++) {
        float *to = reader->values + ledger->rows_first + (size_t)i * SIM_ROW_FLOATS;
        if (ledger->row_keys[i] == key && to[0] != to[0]) { /* NaN: not yet. */
            memcpy(to, row, SIM_ROW_FLOATS * sizeof(*row));
            return;
        }
    }
    sim_break(reader->world, "%s: a scan brings key %llu, which is none or came before",
              reader->node->name, (unsigned long long)key);
}

/* Keys that nobody pushed have no row: they are as they were in the beginning. */
static void scanned_all(struct sim_reader *reader)
{
    const struct sim_ledger *ledger = reader->options.ledger;
    for (uint32_t i = 0; i < ledger->n_rows * SIM_ROW_FLOATS; i++) {
        float *to = reader->values + ledger->rows_first + i;
        *to = *to != *to ? 0.0f : *to;
    }
    judge(reader, reader->pull.ret_min_clock);
}

static void scanned(struct ps_op *op)
{
    struct sim_reader *reader = op->arg;
    if (op->err.status == PS_ERR_LATE && !reader->closing) {
        look_again(reader); /* A server came back meanwhile, and orders its rows in another way. */
        return;
    }
    if (!op_fine(reader, op, "a scan")) {
        return;
    }
    struct ps_scan_op *scan = &reader->scan;
    for (uint32_t i = 0; i < scan->ret_n; i++) {
        take_row(reader, reader->scan_keys[i], reader->scan_values[i]);
    }
    if (scan->ret_n > 0 && scan->ret_min_clock < reader->pull.ret_min_clock) {
        reader->pull.ret_min_clock = scan->ret_min_clock;
    }
    if (scan->ret_done) {
        scanned_all(reader);
    } else {
        ps_session_scan(reader->client, scan);
    }
}

static void pulled(struct ps_op *op)
{
    struct sim_reader *reader = op->arg;
    if (op->err.status == PS_ERR_NOT_FOUND && !reader->options.last && !reader->closing) {
        look_again(reader); /* A table that is just being defined is not everywhere yet. */
        return;
    }
    if (!op_fine(reader, op, "a look")) {
        return;
    }
    if (!reader->scanning) {
        judge(reader, reader->pull.ret_min_clock);
        return;
    }
    reader->scan = (struct ps_scan_op){.op = {.done = scanned, .arg = reader},
                                       .table = reader->keyed.table,
                                       .keys = reader->scan_keys,
                                       .values = reader->scan_values[0],
                                       .n_room = SIM_SCAN_ROOM};
    ps_session_scan(reader->client, &reader->scan);
}

static void look(struct sim_reader *reader)
{
    const struct sim_ledger *ledger = reader->options.ledger;
    memset(reader->values, 0xff, ledger->n_floats * sizeof(float));
    reader->scanning = ledger->n_rows > 0 && (reader->options.last || reader->n_looks++ % 4 == 3);
    reader->look = sim_ledger_begin(ledger, reader->node->number, 0);
    reader->pull = (struct ps_pull_op){.op = {.done = pulled, .arg = reader},
                                       .no_clock = true,
                                       .tensors = reader->tensors,
                                       .n_tensors = reader->options.plan->n_tables,
                                       .keyed = &reader->keyed,
                                       .n_keyed = ledger->n_rows > 0 && !reader->scanning};
    ps_session_pull(reader->client, &reader->pull);
}

static void described(struct ps_op *op)
{
    struct sim_reader *reader = op->arg;
    if (!op_fine(reader, op, "describing")) {
        return;
    }
    const struct sim_plan *plan = reader->options.plan;
    for (uint32_t i = 0; i < sim_plan_tables(plan); i++) {
        const struct ps_table *table = ps_session_table(reader->client, sim_table_names[i]);
        if (table == NULL) {
            look_again(reader); /* Nobody has defined it yet. */
            return;
        }
        bool sparse = i == plan->n_tables;
        *(sparse ? &reader->keyed.table : &reader->tensors[i].table) = table->number;
        if (table->n_elements != plan->table_floats[i] ||
            table->width != (sparse ? SIM_ROW_FLOATS : 0)) {
            sim_break(reader->world, "table %s has another size", sim_table_names[i]);
        }
    }
    look(reader);
}

static void describe(struct sim_reader *reader)
{
    reader->simple = (struct ps_op){.done = described, .arg = reader};
    ps_session_describe(reader->client, &reader->simple);
}

static void joined(struct ps_op *op)
{
    struct sim_reader *reader = op->arg;
    if (op_fine(reader, op, "joining")) {
        describe(reader);
    }
}

static void live(struct sim_reader *reader)
{
    struct ps_error err;
    struct ps_session_options options = {
        .transport = sim_net_transport(reader->options.net, reader->node),
        .exec = &reader->exec.base,
        .mem = &reader->mem,
        .creds = &insecure,
        .coordinator = reader->options.coordinator,
        .kind = PS_CLIENT_READER,
        .name = reader->node->name,
        .session = sim_id(reader->world),
        .call_timeout_ms = 1000,
        .give_up_ms = 30000,
        .seed = ps_rng_next(&reader->world->rng),
    };
    if (ps_session_create(&options, &reader->client, &err) != PS_OK) {
        sim_break(reader->world, "%s: no client: %s", reader->node->name, err.text);
        return;
    }
    reader->simple = (struct ps_op){.done = joined, .arg = reader};
    ps_session_join(reader->client, &reader->simple);
}

static void run_timer(struct ps_timer *timer)
{
    struct sim_reader *reader = PS_CONTAINER_OF(timer, struct sim_reader, timer);
    if (reader->client == NULL) {
        live(reader);
    } else {
        describe(reader);
    }
}

void sim_reader_start(struct sim_reader *reader, const struct sim_reader_options *options,
                      struct sim_node *node)
{
    const struct sim_ledger *ledger = options->ledger;
    *reader = (struct sim_reader){.options = *options, .world = node->world, .node = node};
    sim_exec_init(&reader->exec, node);
    ps_mem_init(&reader->mem);
    reader->values = ps_mem_array(NULL, PS_MEM_OTHER, ledger->n_floats, sizeof(float));
    PS_ASSERT(reader->values != NULL);
    for (uint32_t i = 0; i < options->plan->n_tables; i++) {
        reader->tensors[i].values = reader->values + ledger->table_first[i];
    }
    reader->keyed = (struct ps_keyed){.n = ledger->n_rows,
                                      .keys = ledger->row_keys,
                                      .values = reader->values + ledger->rows_first};
    ps_timer_init(&reader->timer, run_timer);
    ps_timer_start(&reader->exec.base, &reader->timer, options->start_ns / SIM_MS);
}

static void run_stop(struct ps_mail *mail)
{
    struct sim_reader *reader = PS_CONTAINER_OF(mail, struct sim_reader, stop);
    if (reader->client == NULL) {
        ps_timer_stop(&reader->exec.base, &reader->timer);
        reader->gone = true;
    }
    leave(reader);
}

void sim_reader_stop(struct sim_reader *reader)
{
    if (!reader->gone && reader->stop.run == NULL) {
        reader->stop.run = run_stop;
        ps_exec_post(&reader->exec.base, &reader->stop);
    }
}

bool sim_reader_finish(struct sim_reader *reader)
{
    if (!sim_exec_stop(&reader->exec)) {
        sim_break(reader->world, "%s: mail was left at the end", reader->node->name);
    }
    ps_mem_free(reader->values);
    return sim_mem_empty(&reader->mem, reader->node->name, reader->world);
}
