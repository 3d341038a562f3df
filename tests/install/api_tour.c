/*
 * api_tour.c HOST:PORT — what the other programs do not need: the rest of the library's functions,
 * and what they say when something is wrong. A test; prints one line a stage.
 *
 * Exit status: 0 all as the headers promise, 1 not so (the first line that is not), 2 bad usage.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ps/client.h>

#define CHECK(condition)                                                                          \
    do {                                                                                          \
        if (!(condition)) {                                                                       \
            fprintf(stderr, "api_tour.c:%d: not so: %s (last words: %s)\n", __LINE__, #condition, \
                    words.text);                                                                  \
            exit(1);                                                                              \
        }                                                                                         \
    } while (0)

enum {
    N = 6,
    UNITS = 4,
    PATIENCE_MS = 1000,
    ROUNDS_MAX = 600 /* Of patience. */
};

static struct ps_error words;
static const char *coordinator;

static void log_line(void *arg, const char *line)
{
    (void)line;
    (void)arg;
}

static struct ps_client_options make_options(enum ps_client_kind kind, struct ps_runtime *runtime)
{
    struct ps_client_options options = PS_ZERO;
    options.coordinator = coordinator;
    options.kind = kind;
    options.name = "tour";
    options.runtime = runtime;
    return options;
}

static struct ps_client *open_client(enum ps_client_kind kind, struct ps_runtime *runtime)
{
    struct ps_client_options options = make_options(kind, runtime);
    struct ps_client *client = NULL;
    CHECK(ps_client_open(&options, &client, &words) == PS_OK);
    CHECK(client != NULL);
    return client;
}

static struct ps_table_def make_def(void)
{
    struct ps_table_def def = PS_ZERO;
    def.name = "tour.table";
    def.n_dims = 2;
    def.shape[0] = 2;
    def.shape[1] = N / 2;
    def.optimizer = "sgd";
    return def;
}

static struct ps_push make_push(const struct ps_tensor *tensor, uint64_t sequence)
{
    struct ps_push push = PS_ZERO;
    push.tensors = tensor;
    push.n_tensors = 1;
    push.sequence = sequence;
    push.rows = 1;
    push.rate = 1.0f;
    return push;
}

static struct ps_pull make_pull(const struct ps_tensor *tensor)
{
    struct ps_pull pull = PS_ZERO;
    pull.tensors = tensor;
    pull.n_tensors = 1;
    pull.no_clock = true;
    return pull;
}

/* A client knows the tables that it defined or looked up, and no other. */
static uint32_t look_up(struct ps_client *client)
{
    struct ps_table table;
    CHECK(ps_client_table(client, "tour.table", &table, &words) == PS_OK);
    CHECK(table.n_elements == N);
    return table.number;
}

/* All N weights are `value`. */
static void expect_weights(struct ps_client *client, uint32_t table, float value)
{
    float values[N] = {0};
    struct ps_tensor tensor = {table, values};
    struct ps_pull pull = make_pull(&tensor);
    CHECK(ps_client_pull(client, &pull, &words) == PS_OK);
    for (int i = 0; i < N; i++) {
        CHECK(!(values[i] < value) && !(values[i] > value));
    }
}

/* ---- Stages -------------------------------------------------------------------------------- */

static void words_of_statuses(void)
{
    struct ps_id id = {{1, 2, 255}};
    struct ps_id same;
    char text[PS_ID_TEXT_BYTES];
    ps_id_text(&id, text);
    CHECK(strcmp(text, "0102ff00000000000000000000000000") == 0);
    CHECK(ps_id_parse(text, &same) && memcmp(&id, &same, sizeof(id)) == 0);
    CHECK(!ps_id_parse("0102", &same));
    CHECK(strcmp(ps_job_state_text(PS_JOB_RUNNING), "running") == 0);
    CHECK(strcmp(ps_status_text(PS_OK), "success") == 0);
    CHECK(ps_status_retryable(PS_ERR_BUSY) && !ps_status_retryable(PS_ERR_INVALID));
    CHECK(ps_status_grpc(PS_ERR_NOT_FOUND) == 5);
    CHECK(ps_status_from_wire(2) == PS_ERR_NOT_FOUND);
    CHECK(ps_status_from_wire(9999) == PS_ERR_INTERNAL);
    printf("statuses: ok\n");
}

static void refuse_options(void)
{
    struct ps_client *client = NULL;
    CHECK(ps_client_check_address("127.0.0.1:7070", &words) == PS_OK);
    CHECK(ps_client_check_address("127.0.0.1", &words) == PS_ERR_INVALID);
    CHECK(ps_client_open(NULL, &client, &words) == PS_ERR_INVALID);
    struct ps_client_options options = make_options(PS_CLIENT_WORKER, NULL);
    options.coordinator = NULL;
    CHECK(ps_client_open(&options, &client, &words) == PS_ERR_INVALID && client == NULL);
    options.coordinator = "no address";
    CHECK(ps_client_open(&options, &client, &words) == PS_ERR_INVALID && client == NULL);
    CHECK(ps_client_open(&options, &client, NULL) == PS_ERR_INVALID); /* Words may be declined. */
    options = make_options((enum ps_client_kind)3, NULL);
    CHECK(ps_client_open(&options, &client, &words) == PS_ERR_INVALID && client == NULL);
    options = make_options(PS_CLIENT_WORKER, NULL);
    options.cluster_id.bytes[0] = 1; /* Some other cluster. */
    CHECK(ps_client_open(&options, &client, &words) == PS_ERR_NOT_FOUND && client == NULL);
    CHECK(words.status == PS_ERR_NOT_FOUND && strlen(words.text) > 0);
    printf("options: ok\n");
}

static uint32_t define_and_look_up(struct ps_client *client, struct ps_client *other)
{
    struct ps_table_def def = make_def();
    struct ps_table table;
    CHECK(ps_client_table(client, "tour.nothing", &table, &words) == PS_ERR_NOT_FOUND);
    CHECK(ps_client_define_table(client, &def, &table, &words) == PS_OK);
    CHECK(table.n_elements == N && table.n_dims == 2 && table.shape[1] == N / 2);
    CHECK(strcmp(table.name, def.name) == 0 && strcmp(table.optimizer, "sgd") == 0);
    CHECK(ps_client_define_table(other, &def, NULL, &words) == PS_OK);
    CHECK(look_up(other) == table.number);
    def.shape[0] = 3;
    CHECK(ps_client_define_table(other, &def, NULL, &words) == PS_ERR_EXISTS);
    CHECK(strstr(words.text, def.name) != NULL);
    printf("tables: ok (%s)\n", words.text);
    def = make_def();
    def.name = "Not A Name";
    CHECK(ps_client_define_table(client, &def, NULL, &words) == PS_ERR_INVALID);
    def = make_def();
    def.optimizer = "magic";
    CHECK(ps_client_define_table(client, &def, NULL, &words) != PS_OK);
    return table.number;
}

/* A push is applied once, however often it is sent; a broken one not at all. */
static void push_once(struct ps_client *client, uint32_t number)
{
    float values[N] = {-1.0f, -1.0f, -1.0f, -1.0f, -1.0f, -1.0f};
    struct ps_tensor tensor = {number, values};
    struct ps_push push = make_push(&tensor, 0);
    CHECK(ps_client_push(client, &push, &words) == PS_OK);
    expect_weights(client, number, 1.0f);
    CHECK(ps_client_push(client, &push, &words) == PS_OK);
    expect_weights(client, number, 1.0f);

    push = make_push(&tensor, 1);
    values[N - 1] = NAN;
    CHECK(ps_client_push(client, &push, &words) == PS_ERR_INVALID);
    values[N - 1] = INFINITY;
    CHECK(ps_client_push(client, &push, &words) == PS_ERR_INVALID);
    expect_weights(client, number, 1.0f);
    values[N - 1] = -1.0f; /* Nothing was sent, so the number is still free. */
    CHECK(ps_client_push(client, &push, &words) == PS_OK);
    expect_weights(client, number, 2.0f);

    tensor.table = number + 1000;
    push = make_push(&tensor, 2);
    CHECK(ps_client_push(client, &push, &words) == PS_ERR_NOT_FOUND);
    struct ps_pull pull = make_pull(&tensor);
    CHECK(ps_client_pull(client, &pull, &words) == PS_ERR_NOT_FOUND);
    printf("once: ok\n");
}

static void in_halves(struct ps_client *client, uint32_t number)
{
    float ones[N] = {-1.0f, -1.0f, -1.0f, -1.0f, -1.0f, -1.0f};
    float values[N] = {0};
    struct ps_tensor out = {number, ones};
    struct ps_tensor in = {number, values};
    struct ps_push push = make_push(&out, 2);
    CHECK(ps_client_push_start(client, &push, &words) == PS_OK);
    CHECK(push.under_way != NULL);
    CHECK(ps_client_push_wait(client, &push, &words) == PS_OK);
    CHECK(push.under_way == NULL);
    struct ps_pull pull = make_pull(&in);
    CHECK(ps_client_pull_start(client, &pull, &words) == PS_OK);
    CHECK(ps_client_pull_wait(client, &pull, &words) == PS_OK);
    CHECK(values[0] > 2.5f && values[N - 1] < 3.5f);

    push = make_push(&out, 3);
    push.acked_below = 3;
    pull = make_pull(&in);
    CHECK(ps_client_push_pull_start(client, &push, &pull, &words) == PS_OK);
    CHECK(ps_client_push_wait(client, &push, &words) == PS_OK);
    CHECK(ps_client_pull_wait(client, &pull, &words) == PS_OK);
    expect_weights(client, number, 4.0f);
    printf("halves: ok\n");
}

/* Rows under keys, and all of them again: two at a time, each once. */
static void rows_and_scan(struct ps_client *client, struct ps_client *reader, uint32_t dense)
{
    enum {
        KEYS = 5,
        WIDTH = 2,
        ROOM = 2
    };
    struct ps_table_def def = PS_ZERO;
    struct ps_table table;
    def.name = "tour.rows";
    def.width = WIDTH;
    CHECK(ps_client_define_table(client, &def, &table, &words) == PS_OK);
    CHECK(ps_client_table(reader, def.name, &table, &words) == PS_OK && table.width == WIDTH);
    const uint64_t keys[KEYS] = {0, 7, 1000, 1ull << 40, UINT64_MAX};
    float values[KEYS * WIDTH];
    for (int i = 0; i < KEYS * WIDTH; i++) {
        values[i] = i < WIDTH ? 0.0f : -(float)i; /* The row of key 0 stays 0. */
    }
    struct ps_keyed keyed = {table.number, KEYS, keys, values};
    struct ps_push push = make_push(NULL, 4);
    push.n_tensors = 0;
    push.keyed = &keyed;
    push.n_keyed = 1;
    CHECK(ps_client_push(client, &push, &words) == PS_OK);

    uint64_t got_keys[ROOM];
    float got[ROOM * WIDTH];
    struct ps_scan scan = PS_ZERO;
    scan.table = table.number;
    scan.skip_zeros = true;
    scan.keys = got_keys;
    scan.values = got;
    scan.n_room = ROOM;
    int n_met[KEYS] = {0};
    while (!scan.done) {
        CHECK(ps_client_scan(reader, &scan, &words) == PS_OK);
        for (uint32_t i = 0; i < scan.n; i++) {
            for (int k = 0; k < KEYS; k++) {
                if (got_keys[i] == keys[k]) {
                    n_met[k]++;
                    CHECK(got[i * WIDTH + 1] + values[k * WIDTH + 1] > -0.1f);
                    CHECK(got[i * WIDTH + 1] + values[k * WIDTH + 1] < 0.1f);
                }
            }
        }
    }
    CHECK(n_met[0] == 0 && n_met[1] == 1 && n_met[2] == 1 && n_met[3] == 1 && n_met[4] == 1);
    memset(&scan.at, 0, sizeof(scan.at)); /* Anew, of a table that has no rows. */
    scan.table = dense;
    CHECK(ps_client_scan(reader, &scan, &words) == PS_ERR_INVALID);
    printf("rows: ok (%s)\n", words.text);
}

/* Mistakes of the caller are refused; none is sent. */
static void misuse(struct ps_client *client, uint32_t number)
{
    float values[N] = {0};
    struct ps_tensor twice[2] = {{number, values}, {number, values}};
    struct ps_pull pull = make_pull(twice);
    CHECK(ps_client_pull_wait(client, &pull, &words) == PS_ERR_INVALID); /* Of nothing. */
    pull.n_tensors = 2;
    CHECK(ps_client_pull(client, &pull, &words) == PS_ERR_INVALID);
    twice[0].values = NULL;
    pull.n_tensors = 1;
    CHECK(ps_client_pull(client, &pull, &words) == PS_ERR_INVALID);
    twice[0].values = values;
    CHECK(ps_client_pull_start(client, &pull, &words) == PS_OK);
    CHECK(ps_client_pull_start(client, &pull, &words) == PS_ERR_INVALID);
    CHECK(ps_client_pull_wait(client, &pull, &words) == PS_OK);
    CHECK(ps_client_pull_wait(client, &pull, &words) == PS_ERR_INVALID);
    struct ps_push push = make_push(&twice[1], 4);
    CHECK(ps_client_push_wait(client, &push, &words) == PS_ERR_INVALID);
    push.rate = INFINITY;
    CHECK(ps_client_push(client, &push, &words) == PS_ERR_INVALID);
    printf("misuse: ok (%s)\n", words.text);
}

/* A reader sees what is there, whatever step it says that the weights are for. */
static void readers_do_not_wait(void)
{
    struct ps_client *reader = open_client(PS_CLIENT_READER, NULL);
    float values[N] = {0};
    struct ps_tensor tensor = {look_up(reader), values};
    struct ps_pull pull = make_pull(&tensor);
    pull.no_clock = false;
    pull.step = 1000;
    CHECK(ps_client_pull(reader, &pull, &words) == PS_OK);
    CHECK(values[0] > 3.5f && values[N - 1] < 4.5f);
    struct ps_push push = make_push(&tensor, 5);
    CHECK(ps_client_push(reader, &push, &words) == PS_ERR_DENIED);
    ps_client_close(reader);
    printf("reader: ok\n");
}

/* As long as it may be: the cluster keeps it and does not look at it. */
static const char *long_setup(void)
{
    static char setup[PS_SETUP_BYTES_MAX + 1];
    memset(setup, 's', PS_SETUP_BYTES_MAX);
    return setup;
}

/* A whole job of UNITS rows, without weights, by hand: leases, reports, the end. */
static void lease_and_report(struct ps_client *client)
{
    struct ps_job_def job = PS_ZERO;
    job.model = "tour";
    job.data = "none";
    job.rows = UNITS;
    job.batch = 1;
    job.epochs = 1;
    job.workers = 1;
    job.consistency.mode = PS_CONSISTENCY_ASP;
    job.setup = long_setup();
    CHECK(ps_client_define_job(client, &job, &words) == PS_OK);
    CHECK(ps_client_define_job(client, &job, &words) == PS_OK);
    job.rows = UNITS + 1;
    CHECK(ps_client_define_job(client, &job, &words) == PS_ERR_EXISTS);
    printf("job: ok (%s)\n", words.text);
    job.rows = UNITS;

    struct ps_view view = PS_ZERO; /* Older than anything that the client knows. */
    struct ps_worker_report report = PS_ZERO;
    int rounds = 0;
    CHECK(ps_client_wait_change(client, &view, 0));
    while (view.job != PS_JOB_DONE) {
        CHECK(view.lost.status == PS_OK && !view.fenced && rounds < ROUNDS_MAX);
        if (view.lease.id != 0 && view.lease.id != report.lease) {
            uint64_t first;
            CHECK(ps_unit_rows(&job, &view.lease, 0, &first) == 1);
            CHECK(ps_row_at(&job, view.lease.epoch, first) == first);
            report.lease = view.lease.id;
            report.units_done = view.lease.n_units;
            report.clock = view.lease.clock + view.lease.n_units;
            ps_client_report(client, &report);
        }
        rounds += ps_client_wait_change(client, &view, PATIENCE_MS) ? 0 : 1;
    }
    printf("leases: ok\n");
}

/* The same as units: there is none any more; and a pull for a step that nobody will reach ends. */
static void after_the_end(struct ps_client *client, uint32_t number)
{
    struct ps_unit unit;
    CHECK(ps_client_next_unit(client, &unit, PATIENCE_MS, &words) == PS_OK && unit.n_rows == 0);
    CHECK(ps_client_unit_done(client, &unit, 0.0, &words) == PS_ERR_INVALID);
    float values[N] = {0};
    struct ps_tensor tensor = {number, values};
    struct ps_push push = make_push(&tensor, 0);
    push.stream = 1; /* A lease that is not held any more. */
    CHECK(ps_client_push(client, &push, &words) == PS_ERR_CANCELED);
    printf("after the end: ok (%s)\n", words.text);
}

static void describe(struct ps_client *client)
{
    struct ps_view view;
    struct ps_cluster *cluster = NULL;
    ps_client_view(client, &view);
    CHECK(view.session_number != 0 && view.n_bytes_pushed > 0 && view.n_bytes_pulled > 0);
    CHECK(ps_client_describe(client, &cluster, &words) == PS_OK);
    CHECK(memcmp(&cluster->cluster_id, &view.cluster_id, sizeof(view.cluster_id)) == 0);
    CHECK(cluster->job == PS_JOB_DONE && cluster->has_definition);
    CHECK(cluster->definition.rows == UNITS && strcmp(cluster->definition.model, "tour") == 0);
    CHECK(cluster->rows == UNITS && strcmp(cluster->definition.setup, long_setup()) == 0);
    CHECK(cluster->rows_trained_min == 1 && cluster->rows_trained_max == 1);
    CHECK(cluster->n_epochs == 1 && cluster->epochs[0].units_done == UNITS);
    bool found_table = false;
    for (size_t i = 0; i < cluster->n_tables; i++) {
        found_table |= strcmp(cluster->tables[i].name, "tour.table") == 0;
    }
    bool found_self = false;
    for (size_t i = 0; i < cluster->n_members; i++) {
        const struct ps_member *member = &cluster->members[i];
        found_self |= member->session_number == view.session_number &&
                      strcmp(member->kind, "worker") == 0 && strcmp(member->name, "tour") == 0;
    }
    CHECK(found_table && found_self);
    ps_cluster_free(cluster);
    printf("describe: ok\n");
}

/* A client may be closed with something under way: it ends, and nothing is left. */
static void close_under_way(void)
{
    struct ps_client *client = open_client(PS_CLIENT_WORKER, NULL);
    uint32_t number = look_up(client);
    float values[N] = {-1.0f, -1.0f, -1.0f, -1.0f, -1.0f, -1.0f};
    float weights[N] = {0};
    struct ps_tensor out = {number, values};
    struct ps_tensor in = {number, weights};
    struct ps_push push = make_push(&out, 0);
    struct ps_pull pull = make_pull(&in);
    CHECK(ps_client_push_start(client, &push, &words) == PS_OK);
    CHECK(ps_client_pull_start(client, &pull, &words) == PS_OK);
    ps_client_close(client);
    CHECK(push.under_way == NULL && pull.under_way == NULL);
    printf("close: ok\n");
}

/* Asked to end: nothing waits any more, whatever it is. */
static void cancel(void)
{
    struct ps_client *client = open_client(PS_CLIENT_WORKER, NULL);
    float values[N] = {0};
    struct ps_tensor tensor = {look_up(client), values};
    struct ps_pull pull = make_pull(&tensor);
    ps_client_cancel(client);
    CHECK(ps_client_pull(client, &pull, &words) == PS_ERR_CANCELED);
    ps_client_close(client);
    printf("cancel: ok\n");
}

/* The last word: everybody is told to stop. */
static void shut_down(void)
{
    struct ps_client_options options = make_options(PS_CLIENT_WORKER, NULL);
    options.unleased = true;
    struct ps_client *client = NULL;
    CHECK(ps_client_open(&options, &client, &words) == PS_OK);
    struct ps_unit unit;
    CHECK(ps_client_next_unit(client, &unit, 0, &words) == PS_ERR_DENIED);
    CHECK(ps_client_shutdown(client, "the tour is over", &words) == PS_OK);
    ps_client_close(client);
    printf("shutdown: ok\n");
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: api_tour HOST:PORT\n");
        return 2;
    }
    coordinator = argv[1];
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("version: %s\n", ps_client_version());
    ps_client_log_to(log_line, NULL);
    words_of_statuses();
    refuse_options();

    struct ps_runtime *runtime = NULL;
    CHECK(ps_runtime_create(&runtime, &words) == PS_OK && runtime != NULL);
    struct ps_client *client = open_client(PS_CLIENT_WORKER, runtime);
    struct ps_client *other = open_client(PS_CLIENT_READER, runtime);
    uint32_t number = define_and_look_up(client, other);
    push_once(client, number);
    in_halves(client, number);
    rows_and_scan(client, other, number);
    misuse(client, number);
    readers_do_not_wait();
    lease_and_report(client);
    after_the_end(client, number);
    describe(client);
    ps_client_close(other);
    ps_client_close(client);
    ps_runtime_destroy(runtime);
    close_under_way();
    cancel();
    shut_down();

    ps_client_close(NULL);
    ps_cluster_free(NULL);
    ps_runtime_destroy(NULL);
    printf("all: ok\n");
    return 0;
}
