/*
 * part_sums.c HOST:PORT WORKERS FILE... — a job over files whose lines nobody has counted.
 *
 * Each line is a number. A file is a part, and workers are lent one at a time; whoever holds it
 * reads on until it ends, and says so with the last unit. What is "learnt" is the sum of all lines
 * and how many there are, so that a unit that is lost or applied twice can be seen. Start as many
 * copies as WORKERS says; one that dies is replaced by the others.
 *
 * Exit status: 0 as promised, 1 not so, 2 bad usage.
 */
#include <stdio.h>
#include <stdlib.h>

#include <ps/client.h>

enum {
    BATCH = 3, /* Lines of one step. */
    EPOCHS = 3,
    FILES_MAX = 1000,
    LINE_BYTES = 64
};

/* The only table: the sum of what was read, and the number of lines. */
enum {
    SUM,
    COUNT,
    NUMBERS
};

struct work {
    struct ps_client *client;
    struct ps_table table;
    char **files; /* Part k is files[k]. */
};

/* ---- Reading ------------------------------------------------------------------------------- */

/* The gradient of a unit: its lines, added up. What is found is written into the unit. */
static enum ps_status read_unit(char *const *files, struct ps_unit *unit, float sums[NUMBERS])
{
    char line[LINE_BYTES];
    FILE *file = fopen(files[unit->part], "r");
    if (file == NULL) {
        return PS_ERR_NOT_FOUND;
    }
    bool more = fgets(line, sizeof(line), file) != NULL;
    for (uint64_t i = 0; more && i < unit->first; i++) {
        more = fgets(line, sizeof(line), file) != NULL;
    }
    uint32_t n = 0;
    while (more && n < unit->n_rows) {
        sums[SUM] -= strtof(line, NULL); /* SGD takes away what is pushed. */
        sums[COUNT] -= 1.0f;
        n++;
        more = fgets(line, sizeof(line), file) != NULL; /* One ahead: is this the last unit? */
    }
    fclose(file);
    unit->n_rows = n;
    unit->last = !more;
    return PS_OK;
}

/* ---- A worker ------------------------------------------------------------------------------ */

static enum ps_status do_unit(const struct work *work, struct ps_unit *unit, struct ps_error *err)
{
    float sums[NUMBERS] = {0.0f, 0.0f};
    enum ps_status status = read_unit(work->files, unit, sums);
    if (status != PS_OK) {
        snprintf(err->text, sizeof(err->text), "%.200s cannot be read", work->files[unit->part]);
        return status;
    }
    if (unit->n_rows > 0) { /* An empty file is over without a push. */
        struct ps_tensor tensor = PS_ZERO;
        struct ps_push push = PS_ZERO;
        tensor.table = work->table.number;
        tensor.values = sums;
        push.tensors = &tensor;
        push.n_tensors = 1;
        push.unit = unit;
        push.rate = 1.0f;
        status = ps_client_push(work->client, &push, err);
    }
    return status == PS_OK ? ps_client_unit_done(work->client, unit, 0.0, err) : status;
}

static enum ps_status define(struct work *work, uint32_t n_workers, uint32_t n_files,
                             struct ps_error *err)
{
    struct ps_table_def def = PS_ZERO;
    def.name = "part.sums";
    def.n_dims = 1;
    def.shape[0] = NUMBERS;
    enum ps_status status = ps_client_define_table(work->client, &def, &work->table, err);
    struct ps_job_def job = PS_ZERO;
    job.model = "sums";
    job.data = "numbers in files";
    job.parts = n_files;
    job.batch = BATCH;
    job.epochs = EPOCHS;
    job.shuffle = true; /* The files come in another order in each epoch. */
    job.workers = n_workers;
    job.consistency.mode = PS_CONSISTENCY_SSP;
    job.consistency.bound = 8;
    job.setup = "{\"lines\": \"numbers\"}"; /* For whoever looks at it later. */
    return status == PS_OK ? ps_client_define_job(work->client, &job, err) : status;
}

static enum ps_status train(struct work *work, struct ps_error *err)
{
    struct ps_unit unit;
    enum ps_status status = ps_client_next_unit(work->client, &unit, PS_FOREVER_MS, err);
    while (status == PS_OK && unit.n_rows > 0) {
        status = do_unit(work, &unit, err);
        if (status == PS_OK) {
            printf("part %u unit %u\n", (unsigned)unit.part, (unsigned)unit.index);
            fflush(stdout);
            status = ps_client_next_unit(work->client, &unit, PS_FOREVER_MS, err);
        }
    }
    return status;
}

/* ---- The result ---------------------------------------------------------------------------- */

static enum ps_status judge(const struct work *work, bool *ret_good, struct ps_error *err)
{
    float sums[NUMBERS] = {0.0f, 0.0f};
    struct ps_tensor tensor = PS_ZERO;
    struct ps_pull pull = PS_ZERO;
    struct ps_cluster *cluster = NULL;
    tensor.table = work->table.number;
    tensor.values = sums;
    pull.tensors = &tensor;
    pull.n_tensors = 1;
    pull.no_clock = true;
    enum ps_status status = ps_client_pull(work->client, &pull, err);
    if (status == PS_OK) {
        status = ps_client_describe(work->client, &cluster, err);
    }
    if (status == PS_OK) {
        unsigned long n_rows = (unsigned long)cluster->rows;
        printf("sum %g of %lu lines, %s\n", (double)sums[SUM] / (double)EPOCHS, n_rows,
               cluster->definition.setup);
        *ret_good = cluster->rows * EPOCHS == (uint64_t)sums[COUNT];
    }
    ps_cluster_free(cluster);
    return status;
}

int main(int argc, char **argv)
{
    long n_workers = argc > 2 ? strtol(argv[2], NULL, 10) : 0;
    int n_files = argc - 3;
    if (n_workers < 1 || n_workers > 64 || n_files < 1 || n_files > FILES_MAX) {
        fprintf(stderr, "usage: part_sums HOST:PORT WORKERS FILE...   (1 to %d)\n", FILES_MAX);
        return 2;
    }
    struct ps_client_options options = PS_ZERO;
    struct ps_error err = PS_ZERO;
    struct work work = PS_ZERO;
    bool good = false;
    work.files = argv + 3;
    options.coordinator = argv[1];
    options.name = "sums";
    enum ps_status status = ps_client_open(&options, &work.client, &err);
    if (status == PS_OK) {
        status = define(&work, (uint32_t)n_workers, (uint32_t)n_files, &err);
    }
    if (status == PS_OK) {
        status = train(&work, &err);
    }
    if (status == PS_OK) {
        status = judge(&work, &good, &err);
    }
    ps_client_close(work.client);
    if (status != PS_OK) {
        fprintf(stderr, "part_sums: %s\n", err.text);
        return 1;
    }
    return good ? 0 : 1;
}
