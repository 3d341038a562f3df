/* ledger_push.c — see ledger.h: sessions, pushes, and reads beside them. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "load/ledger.h"

enum {
    TEXT_BYTES = 2048,
    READ_KEYS = 8,
    SCAN_ROWS = 4096,
};

/* ---- Sessions ------------------------------------------------------------------------------- */

static enum ps_status define_bulk(struct ledger_client *c, struct ps_error *err)
{
    enum ps_status status = PS_OK;
    uint32_t n = c->options->bulk > 0 ? c->options->bulk_tables : 0;
    for (uint32_t i = 0; i < n && status == PS_OK; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "bulk.%u", i);
        struct ps_table_def bulk = {
            .name = name, .n_dims = 1, .shape = {c->options->bulk}, .optimizer = "sgd"};
        status = ps_client_define_table(c->client, &bulk, &c->tables.bulk[i], err);
    }
    return status;
}

static enum ps_status define(struct ledger_client *c, struct ps_error *err)
{
    struct ps_table_def ledger = {.name = "ledger", .width = LEDGER_WIDTH, .optimizer = "sgd"};
    struct ps_table_def counter = {
        .name = "counter", .n_dims = 1, .shape = {LEDGER_COUNTERS}, .optimizer = "sgd"};
    struct ps_table_def shadow = {
        .name = "shadow", .width = 1, .optimizer = "adagrad", .epsilon = 1e-8f};
    enum ps_status status = ps_client_define_table(c->client, &ledger, &c->tables.ledger, err);
    if (status == PS_OK) {
        status = ps_client_define_table(c->client, &shadow, &c->tables.shadow, err);
    }
    if (status == PS_OK) {
        status = ps_client_define_table(c->client, &counter, &c->tables.counter, err);
    }
    for (uint32_t i = 0; i < LEDGER_ZEROS && status == PS_OK; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "zero.%u", i);
        struct ps_table_def zero = {
            .name = name, .n_dims = 1, .shape = {LEDGER_ZERO_FLOATS}, .optimizer = "sgd"};
        status = ps_client_define_table(c->client, &zero, &c->tables.zero[i], err);
    }
    return status == PS_OK ? define_bulk(c, err) : status;
}

static enum ps_status find(struct ledger_client *c, struct ps_error *err)
{
    enum ps_status status = ps_client_table(c->client, "ledger", &c->tables.ledger, err);
    if (status == PS_OK) {
        status = ps_client_table(c->client, "counter", &c->tables.counter, err);
    }
    for (uint32_t i = 0; i < LEDGER_ZEROS && status == PS_OK; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "zero.%u", i);
        status = ps_client_table(c->client, name, &c->tables.zero[i], err);
    }
    return status;
}

enum ps_status ledger_open(struct ledger_client *c, enum ps_client_kind kind, struct ps_error *err)
{
    char name[32];
    (void)snprintf(name, sizeof(name), "ledger-%u", c->index);
    struct ps_client_options options = {.coordinator = c->options->coordinator,
                                        .kind = kind,
                                        .name = name,
                                        .give_up_ms = (uint32_t)c->options->give_up_ms,
                                        .unleased = kind == PS_CLIENT_WORKER};
    enum ps_status status = ps_client_open(&options, &c->client, err);
    if (status != PS_OK) {
        c->client = NULL;
        return status;
    }
    status = kind == PS_CLIENT_WORKER ? define(c, err) : find(c, err);
    if (status != PS_OK) {
        ps_client_close(c->client);
        c->client = NULL;
        return status;
    }
    struct ps_view view;
    ps_client_view(c->client, &view);
    c->sequence = 0;
    c->n_sessions++;
    ledger_say(c->history, c->index,
               "\"type\":\"session\",\"number\":%" PRIu64 ",\"generation\":%" PRIu64
               ",\"term\":%" PRIu64,
               view.session_number, view.generation, view.term);
    return PS_OK;
}

/* ---- Pushes --------------------------------------------------------------------------------- */

/* No other push of any client has these, and slots get them by chance. */
static uint64_t key_of(uint32_t client, uint64_t op, uint32_t nth)
{
    return ps_mix64((uint64_t)client << 48 | op << 8 | nth);
}

static int compare_keys(const void *a, const void *b)
{
    uint64_t one;
    uint64_t other;
    memcpy(&one, a, sizeof(one));
    memcpy(&other, b, sizeof(other));
    return one < other ? -1 : one > other;
}

static size_t write_keys(char *text, size_t n_bytes, const uint64_t *keys, uint32_t n)
{
    size_t at = 0;
    for (uint32_t i = 0; i < n; i++) {
        int n_written = snprintf(text + at, n_bytes - at, "%s%" PRIu64, i == 0 ? "" : ",", keys[i]);
        PS_ASSERT(n_written > 0 && (size_t)n_written < n_bytes - at);
        at += (size_t)n_written;
    }
    return at;
}

static size_t write_floats(char *text, size_t n_bytes, const float *floats, size_t n)
{
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        int n_written =
            snprintf(text + at, n_bytes - at, "%s%.9g", i == 0 ? "" : ",", (double)floats[i]);
        PS_ASSERT(n_written > 0 && (size_t)n_written < n_bytes - at);
        at += (size_t)n_written;
    }
    return at;
}

/* What it adds; plain sgd with rate 1 takes gradients away. Says so before it is asked for. */
static void fill(struct ledger_client *c, struct ledger_op *op)
{
    uint32_t n = c->options->rows;
    for (uint32_t i = 0; i < n; i++) {
        op->keys[i] = key_of(c->index, op->number, i);
        op->shadows[i] = 1.0f;
        for (uint32_t j = 0; j < LEDGER_WIDTH; j++) {
            op->rows[i * LEDGER_WIDTH + j] = -(float)(1 + j);
        }
    }
    qsort(op->keys, n, sizeof(op->keys[0]), compare_keys);
    memset(op->zero, 0, sizeof(op->zero));
    memset(op->counter, 0, sizeof(op->counter));
    uint32_t table = (uint32_t)ps_rng_below(&c->rng, LEDGER_ZEROS);
    uint32_t from = (uint32_t)ps_rng_below(&c->rng, LEDGER_ZERO_FLOATS);
    uint32_t to =
        (from + 1 + (uint32_t)ps_rng_below(&c->rng, LEDGER_ZERO_FLOATS - 1)) % LEDGER_ZERO_FLOATS;
    uint32_t x = 1 + (uint32_t)ps_rng_below(&c->rng, 9);
    uint32_t counter = (uint32_t)ps_rng_below(&c->rng, LEDGER_COUNTERS);
    uint32_t n_more = 1 + (uint32_t)ps_rng_below(&c->rng, 3);
    op->zero[from] = (float)x;
    op->zero[to] = -(float)x;
    op->counter[counter] = -(float)n_more;
    op->tensors[0] = (struct ps_tensor){.table = c->tables.zero[table].number, .values = op->zero};
    op->tensors[1] = (struct ps_tensor){.table = c->tables.counter.number, .values = op->counter};
    op->keyed[0] = (struct ps_keyed){
        .table = c->tables.ledger.number, .n = n, .keys = op->keys, .values = op->rows};
    op->keyed[1] = (struct ps_keyed){
        .table = c->tables.shadow.number, .n = n, .keys = op->keys, .values = op->shadows};
    char keys[TEXT_BYTES];
    (void)write_keys(keys, sizeof(keys), op->keys, n);
    ledger_say(c->history, c->index,
               "\"type\":\"invoke\",\"f\":\"push\",\"op\":%" PRIu64
               ",\"keys\":[%s],\"counter\":%u,\"n\":%u",
               op->number, keys, counter, n_more);
}

enum ps_status ledger_push_start(struct ledger_client *c, struct ps_error *err)
{
    PS_ASSERT(c->n_busy < c->options->depth);
    struct ledger_op *op = &c->ops[(c->oldest + c->n_busy) % c->options->depth];
    *op = (struct ledger_op){.number = c->n_ops++};
    fill(c, op);
    uint32_t bulk = (uint32_t)ps_rng_below(&c->rng, c->options->bulk_tables);
    op->tensors[2] = (struct ps_tensor){.table = c->tables.bulk[bulk].number, .values = c->zeros};
    uint64_t sequence = c->sequence++;
    op->push = (struct ps_push){.tensors = op->tensors,
                                .n_tensors = c->options->bulk > 0 ? 3 : 2,
                                .keyed = op->keyed,
                                .n_keyed = 2,
                                .rate = 1.0f,
                                .sequence = sequence,
                                .acked_below = sequence - c->n_busy, /* In turn. */
                                .step = sequence,
                                .rows = 1};
    enum ps_status status = ps_client_push_start(c->client, &op->push, err);
    if (status == PS_OK) {
        op->busy = true;
        c->n_busy++;
        return PS_OK;
    }
    /* Nothing was started, so nothing left. */
    ledger_say(c->history, c->index,
               "\"type\":\"fail\",\"f\":\"push\",\"op\":%" PRIu64 ",\"status\":%d", op->number,
               (int)status);
    return status;
}

/* Does the status say that nothing of the push has left? Else it may count or not. */
static bool never_left(enum ps_status status)
{
    return status == PS_ERR_INVALID || status == PS_ERR_NOT_FOUND || status == PS_ERR_DENIED;
}

enum ps_status ledger_push_wait(struct ledger_client *c, struct ps_error *err)
{
    PS_ASSERT(c->n_busy > 0);
    struct ledger_op *op = &c->ops[c->oldest];
    enum ps_status status = ps_client_push_wait(c->client, &op->push, err);
    c->oldest = (c->oldest + 1) % c->options->depth;
    c->n_busy--;
    op->busy = false;
    if (status == PS_OK) {
        c->n_ok++;
        ledger_say(c->history, c->index, "\"type\":\"ok\",\"f\":\"push\",\"op\":%" PRIu64,
                   op->number);
        return PS_OK;
    }
    c->n_info += never_left(status) ? 0 : 1;
    ledger_say(c->history, c->index,
               "\"type\":\"%s\",\"f\":\"push\",\"op\":%" PRIu64 ",\"status\":%d",
               never_left(status) ? "fail" : "info", op->number, (int)status);
    return status;
}

/* ---- Reads ---------------------------------------------------------------------------------- */

/* All dense tables: the zeros, then the counters. */
struct dense_values {
    float zero[LEDGER_ZEROS][LEDGER_ZERO_FLOATS];
    float counter[LEDGER_COUNTERS];
    struct ps_tensor tensors[LEDGER_ZEROS + 1];
};

static void want_dense(const struct ledger_client *c, struct dense_values *values)
{
    for (uint32_t i = 0; i < LEDGER_ZEROS; i++) {
        values->tensors[i] =
            (struct ps_tensor){.table = c->tables.zero[i].number, .values = values->zero[i]};
    }
    values->tensors[LEDGER_ZEROS] =
        (struct ps_tensor){.table = c->tables.counter.number, .values = values->counter};
}

/* Sums of the zeros are exact: they are integers. */
static void write_dense(const struct dense_values *values, char *text, size_t n_bytes)
{
    float sums[LEDGER_ZEROS] = {0};
    for (uint32_t i = 0; i < LEDGER_ZEROS; i++) {
        for (uint32_t j = 0; j < LEDGER_ZERO_FLOATS; j++) {
            sums[i] += values->zero[i][j];
        }
    }
    size_t at = (size_t)snprintf(text, n_bytes, "\"zero\":[");
    at += write_floats(text + at, n_bytes - at, sums, LEDGER_ZEROS);
    at += (size_t)snprintf(text + at, n_bytes - at, "],\"counter\":[");
    at += write_floats(text + at, n_bytes - at, values->counter, LEDGER_COUNTERS);
    (void)snprintf(text + at, n_bytes - at, "]");
}

enum ps_status ledger_read(struct ledger_client *c, struct ps_error *err)
{
    struct dense_values dense;
    uint64_t keys[READ_KEYS];
    float rows[READ_KEYS * LEDGER_WIDTH];
    uint32_t n = 0;
    want_dense(c, &dense);
    for (uint32_t i = 0; i < READ_KEYS && c->n_ops > 0; i++) { /* The checker knows which count. */
        uint64_t op =
            i < READ_KEYS / 2 && c->n_ops > i ? c->n_ops - 1 - i : ps_rng_below(&c->rng, c->n_ops);
        uint64_t key = key_of(c->index, op, 0);
        bool known = false;
        for (uint32_t j = 0; j < n; j++) {
            known = known || keys[j] == key;
        }
        if (!known) {
            keys[n++] = key;
        }
    }
    qsort(keys, n, sizeof(keys[0]), compare_keys);
    struct ps_keyed keyed = {
        .table = c->tables.ledger.number, .n = n, .keys = keys, .values = rows};
    struct ps_pull pull = {.tensors = dense.tensors,
                           .n_tensors = LEDGER_ZEROS + 1,
                           .keyed = &keyed,
                           .n_keyed = n > 0 ? 1 : 0,
                           .no_clock = true};
    uint64_t number = c->n_reads++;
    ledger_say(c->history, c->index, "\"type\":\"invoke\",\"f\":\"read\",\"op\":%" PRIu64, number);
    enum ps_status status = ps_client_pull(c->client, &pull, err);
    if (status != PS_OK) {
        ledger_say(c->history, c->index,
                   "\"type\":\"fail\",\"f\":\"read\",\"op\":%" PRIu64 ",\"status\":%d", number,
                   (int)status);
        return status;
    }
    char text_keys[TEXT_BYTES] = "";
    char text_rows[TEXT_BYTES] = "";
    char text_dense[TEXT_BYTES];
    (void)write_keys(text_keys, sizeof(text_keys), keys, n);
    (void)write_floats(text_rows, sizeof(text_rows), rows, (size_t)n * LEDGER_WIDTH);
    write_dense(&dense, text_dense, sizeof(text_dense));
    ledger_say(c->history, c->index,
               "\"type\":\"ok\",\"f\":\"read\",\"op\":%" PRIu64 ",\"keys\":[%s],\"rows\":[%s],%s",
               number, text_keys, text_rows, text_dense);
    return PS_OK;
}

static enum ps_status scan(struct ledger_client *c, struct ps_error *err)
{
    static uint64_t keys[SCAN_ROWS];
    static float values[SCAN_ROWS * LEDGER_WIDTH];
    struct ps_scan scan = {
        .table = c->tables.ledger.number, .keys = keys, .values = values, .n_room = SCAN_ROWS};
    enum ps_status status = PS_OK;
    while (status == PS_OK && !scan.done) {
        status = ps_client_scan(c->client, &scan, err);
        for (uint32_t i = 0; i < scan.n && status == PS_OK; i++) {
            char text[TEXT_BYTES];
            (void)write_floats(text, sizeof(text), values + (size_t)i * LEDGER_WIDTH, LEDGER_WIDTH);
            ledger_say(c->history, c->index, "\"type\":\"final\",\"key\":%" PRIu64 ",\"row\":[%s]",
                       keys[i], text);
        }
    }
    return status;
}

enum ps_status ledger_read_all(struct ledger_client *c, struct ps_error *err)
{
    struct dense_values dense;
    want_dense(c, &dense);
    struct ps_pull pull = {
        .tensors = dense.tensors, .n_tensors = LEDGER_ZEROS + 1, .no_clock = true};
    ledger_say(c->history, c->index, "\"type\":\"invoke\",\"f\":\"all\"");
    enum ps_status status = ps_client_pull(c->client, &pull, err);
    if (status == PS_OK) {
        status = scan(c, err);
    }
    if (status == PS_OK) {
        char text[TEXT_BYTES];
        write_dense(&dense, text, sizeof(text));
        ledger_say(c->history, c->index, "\"type\":\"ok\",\"f\":\"all\",%s", text);
    }
    return status;
}
