/*
 * ledger.c — ps-ledger: clients that push marks for as long as they are told to, and a reader of
 * all that is there in the end; see ledger.h. `tests/chaos/history.py` judges.
 *
 * SIGTERM ends it in peace: every push under way is waited for.
 */
#include "load/ledger.h"

#include <inttypes.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "conf/conf.h"
#include "os/process.h"

enum mode {
    MODE_PUSH,
    MODE_READ,
    MODE_WATCH
};

enum {
    AGAIN_MS = 200, /* Between two tries to open a session. */
    WATCH_MS = 20,  /* Between two reads. */
};

static const char *const modes[] = {"push", "read", "watch", NULL};

#define AT(field) .offset = offsetof(struct ledger_options, field)
#define NUMBER(word, text, least, most, first, field)                                         \
    {                                                                                         \
        .name = (word), .help = (text), .type = PS_OPTION_U32, .min = (least), .max = (most), \
        .preset = (first), AT(field)                                                          \
    }

static const struct ps_option rows[] = {
    {.name = "coordinator",
     .group = "Ledger",
     .help = "Of the cluster.",
     .type = PS_OPTION_STRING,
     .required = true,
     AT(coordinator)},
    {.name = "history",
     .unit = "FILE",
     .help = "JSON lines are added to it.",
     .type = PS_OPTION_STRING,
     .required = true,
     AT(history)},
    {.name = "mode",
     .help =
         "push: marks. read: everything that is there, once. watch: dense tables, over and over.",
     .type = PS_OPTION_ENUM,
     .words = modes,
     .preset = "push",
     AT(mode)},
    NUMBER("clients", "Sessions, a thread each.", 1, LEDGER_CLIENTS_MAX, "1", clients),
    NUMBER("first", "The first client's number: two with the same push the same keys.", 0, 65535,
           "0", first),
    NUMBER("depth", "Pushes of a client that are under way at a time.", 1, LEDGER_DEPTH_MAX, "4",
           depth),
    NUMBER("rows", "Of a push.", 1, LEDGER_ROWS_MAX, "3", rows),
    NUMBER("read-one-in", "Behind one in so many pushes some rows are read; 0: never.", 0,
           UINT32_MAX, "16", read_one_in),
    NUMBER("bulk", "Zeros that are added to a large table with every push.", 0, 1u << 28, "0",
           bulk),
    NUMBER("bulk-tables", "Such tables; a push has one of them.", 1, LEDGER_BULKS_MAX, "1",
           bulk_tables),
    {.name = "time",
     .help = "How long new pushes begin.",
     .type = PS_OPTION_DURATION_MS,
     .preset = "2s",
     AT(time_ms)},
    {.name = "interval",
     .help = "From one push of a client to the next one at least.",
     .type = PS_OPTION_DURATION_MS,
     .preset = "0",
     AT(interval_ms)},
    {.name = "give-up",
     .help = "A server silent for so long is lost; 0: as the library does.",
     .type = PS_OPTION_DURATION_MS,
     .preset = "0",
     AT(give_up_ms)},
    {.name = "ops",
     .help = "Pushes of each client; 0: until the time is over.",
     .type = PS_OPTION_U64,
     .preset = "0",
     AT(ops)},
};

static const struct ps_option_table table_of_rows = {rows, PS_ARRAY_LEN(rows)};
static const struct ps_option_use uses[] = {{&table_of_rows, 0}};
static const struct ps_program program = {
    .name = "ps-ledger",
    .summary = "Pushes that each leave a mark, and a history of what was answered. For tests.",
    .env_prefix = "PS_LEDGER",
    .uses = uses,
    .n_uses = PS_ARRAY_LEN(uses),
};

static volatile sig_atomic_t asked_to_stop;

static void on_term(int number)
{
    (void)number;
    asked_to_stop = 1;
}

bool ledger_stopping(void)
{
    return asked_to_stop != 0;
}

void ledger_pause(uint64_t ms)
{
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t never = PTHREAD_COND_INITIALIZER;
    uint64_t end_ns = ledger_now_ns() + ms * 1000000u;
    while (!ledger_stopping() && ledger_now_ns() < end_ns) {
        struct timespec until;
        (void)clock_gettime(CLOCK_REALTIME, &until);
        uint64_t part_ns = end_ns - ledger_now_ns();
        part_ns = part_ns < 20000000u ? part_ns : 20000000u;
        uint64_t ns = (uint64_t)until.tv_nsec + part_ns;
        until.tv_sec += (time_t)(ns / 1000000000u);
        until.tv_nsec = (long)(ns % 1000000000u);
        (void)pthread_mutex_lock(&lock);
        (void)pthread_cond_timedwait(&never, &lock, &until);
        (void)pthread_mutex_unlock(&lock);
    }
}

/* ---- One client ----------------------------------------------------------------------------- */

static bool time_left(const struct ledger_client *c, uint64_t end_ns)
{
    return !ledger_stopping() && ledger_now_ns() < end_ns &&
           (c->options->ops == 0 || c->n_ops < c->options->ops);
}

/* Pushes of one session, until it is over or the time is. */
static enum ps_status push(struct ledger_client *c, uint64_t end_ns, struct ps_error *err)
{
    enum ps_status status = PS_OK;
    while (status == PS_OK && time_left(c, end_ns)) {
        status = ledger_push_start(c, err);
        if (status == PS_OK && c->n_busy == c->options->depth) {
            status = ledger_push_wait(c, err);
        }
        if (status == PS_OK && c->options->read_one_in > 0 &&
            ps_rng_below(&c->rng, c->options->read_one_in) == 0) {
            status = ledger_read(c, err);
        }
        if (status == PS_OK && c->options->interval_ms > 0) {
            ledger_pause(c->options->interval_ms);
        }
    }
    while (c->n_busy > 0) { /* What is under way is heard of, whatever came. */
        struct ps_error other;
        enum ps_status one = ledger_push_wait(c, &other);
        if (status == PS_OK && one != PS_OK) {
            status = one;
            *err = other;
        }
    }
    return status;
}

/* Reads of one session. */
static enum ps_status watch(struct ledger_client *c, uint64_t end_ns, struct ps_error *err)
{
    enum ps_status status = PS_OK;
    while (status == PS_OK && time_left(c, end_ns)) {
        status = ledger_read(c, err);
        ledger_pause(c->options->interval_ms > 0 ? c->options->interval_ms : WATCH_MS);
    }
    return status;
}

static void *work(void *arg)
{
    struct ledger_client *c = arg;
    uint64_t end_ns = ledger_now_ns() + c->options->time_ms * 1000000u;
    struct ps_error err = {0};
    bool watches = c->options->mode == MODE_WATCH;
    while (time_left(c, end_ns)) {
        enum ps_status status = ledger_open(c, watches ? PS_CLIENT_READER : PS_CLIENT_WORKER, &err);
        if (status == PS_OK) {
            status = watches ? watch(c, end_ns, &err) : push(c, end_ns, &err);
        }
        ps_client_close(c->client);
        c->client = NULL;
        if (status != PS_OK) {
            (void)fprintf(stderr, "ps-ledger: client %u: %s: %s\n", c->index,
                          ps_status_text(status), err.text);
            ledger_pause(AGAIN_MS);
        }
    }
    return NULL;
}

static int work_all(const struct ledger_options *options, struct ledger_history *history)
{
    static struct ledger_client clients[LEDGER_CLIENTS_MAX];
    uint64_t n_ok = 0;
    uint64_t n_info = 0;
    uint64_t n_reads = 0;
    uint64_t n_sessions = 0;
    uint32_t n = 0;
    float *zeros = calloc((size_t)options->bulk + 1, sizeof(*zeros));
    for (; n < options->clients && zeros != NULL; n++) {
        struct ledger_client *c = &clients[n];
        c->options = options;
        c->history = history;
        c->index = options->first + n;
        c->rng = ps_rng_from(c->index);
        c->zeros = zeros;
        if (pthread_create(&c->thread, NULL, work, c) != 0) {
            break;
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        (void)pthread_join(clients[i].thread, NULL);
        n_ok += clients[i].n_ok;
        n_info += clients[i].n_info;
        n_reads += clients[i].n_reads;
        n_sessions += clients[i].n_sessions;
    }
    (void)printf("%" PRIu64 " pushes acknowledged, %" PRIu64 " unknown, %" PRIu64 " reads, %" PRIu64
                 " sessions\n",
                 n_ok, n_info, n_reads, n_sessions);
    free(zeros);
    return n == options->clients && n_ok + n_reads > 0 ? 0 : 1;
}

static int read_all(const struct ledger_options *options, struct ledger_history *history)
{
    struct ps_error err = {0};
    static struct ledger_client client;
    client =
        (struct ledger_client){.options = options, .history = history, .index = options->first};
    enum ps_status status = ledger_open(&client, PS_CLIENT_READER, &err);
    if (status == PS_OK) {
        status = ledger_read_all(&client, &err);
    }
    ps_client_close(client.client);
    if (status != PS_OK) {
        (void)fprintf(stderr, "ps-ledger: %s: %s\n", ps_status_text(status), err.text);
    }
    return status == PS_OK ? 0 : 1;
}

int main(int argc, char **argv)
{
    ps_os_open_standard_fds();
    ps_os_die_with_parent();
    struct ps_conf conf;
    static struct ledger_options options;
    struct ledger_history history;
    struct ps_error err;
    switch (ps_conf_parse(&conf, &program, argc, argv, &options, &err)) {
    case PS_CONF_DONE: return 0;
    case PS_CONF_BAD: (void)fprintf(stderr, "ps-ledger: %s\n", err.text); return 2;
    case PS_CONF_RUN: break;
    }
    struct sigaction action = {.sa_handler = on_term};
    (void)sigaction(SIGTERM, &action, NULL);
    if (!ledger_history_open(&history, options.history)) {
        (void)fprintf(stderr, "ps-ledger: %s cannot be written\n", options.history);
        return 74;
    }
    int result =
        options.mode == MODE_READ ? read_all(&options, &history) : work_all(&options, &history);
    ledger_history_close(&history);
    return result;
}
