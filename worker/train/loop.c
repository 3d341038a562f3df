/* loop.c — see loop.h. From definitions to the end of the job; a step itself is in step.c. */
#include "train/loop.h"

#include <stdio.h>

#include "base/bytes.h"
#include "base/mem.h"
#include "data/dataset.h"
#include "train/trainer.h"

static enum ps_status step(void *arg)
{
    struct ps_trainer *t = arg;
    t->units.ever_lent = true;
    return ps_trainer_step(t);
}

/* ---- Begin and end ------------------------------------------------------------------------- */

static struct ps_table_def table_def(const struct ps_train_plan *plan, uint32_t i)
{
    const struct ps_model_table *table = &plan->model->tables[i];
    const struct ps_train_options *options = &plan->options;
    struct ps_table_def def = {
        .name = table->name,
        .n_dims = table->n_dims,
        .init_kind = table->init.kind,
        .init_scale = table->init.scale,
        .seed = table->init.seed,
        .optimizer = plan->optimizer->name,
        .momentum = options->momentum,
        .beta1 = options->beta1,
        .beta2 = options->beta2,
        .epsilon = options->epsilon,
        .l2 = options->l2,
    };
    for (uint32_t d = 0; d < table->n_dims; d++) {
        def.shape[d] = table->dims[d];
    }
    if (plan->optimizer->weight_decay >= 0.0f) {
        def.weight_decay =
            options->weight_decay_given ? options->weight_decay : plan->optimizer->weight_decay;
    }
    return def;
}

static enum ps_status define_tables(struct ps_trainer *t, uint32_t *tables)
{
    for (uint32_t i = 0; i < t->plan->model->n_tables; i++) {
        struct ps_table_def def = table_def(t->plan, i);
        struct ps_table table;
        enum ps_status status = ps_client_define_table(t->client, &def, &table, t->err);
        if (status != PS_OK) {
            return ps_wrap(t->err, status, "defining table %s", def.name);
        }
        tables[i] = table.number;
    }
    return PS_OK;
}

static enum ps_status define_job(struct ps_trainer *t)
{
    const struct ps_train_plan *plan = t->plan;
    /* All that makes workers one job: a different rate or raw features would spoil it silently. */
    char model[PS_TRAIN_TEXT_BYTES + 256];
    (void)snprintf(model, sizeof(model), "%s lr=%.9g schedule=%.120s features=%s", plan->model_text,
                   (double)plan->schedule.rate, plan->options.schedule,
                   plan->mean != NULL ? "centred" : "raw");
    t->job = (struct ps_job_def){
        .model = model,
        .data = plan->data_text,
        .rows = plan->train->n_rows,
        .batch = plan->options.batch,
        .epochs = plan->options.epochs,
        .shuffle = plan->options.shuffle,
        .seed = plan->options.seed,
        .workers = plan->options.workers,
        .start_timeout_ms = (uint32_t)plan->options.start_timeout_ms,
        .consistency = plan->consistency,
        .units_per_lease = plan->options.units_per_lease,
    };
    enum ps_status status = ps_client_define_job(t->client, &t->job, t->err);
    t->job.model = NULL; /* From now on it says which rows a unit has. */
    t->job.data = NULL;
    return status == PS_OK ? PS_OK : ps_wrap(t->err, status, "defining the job");
}

static enum ps_status make_buffers(struct ps_trainer *t, const uint32_t *tables)
{
    struct ps_train_plan *plan = t->plan;
    size_t batch =
        plan->options.batch < plan->train->n_rows ? plan->options.batch : plan->train->n_rows;
    size_t n_x = 0;
    if (ps_mul_size(batch, plan->train->n_features, &n_x)) {
        t->x = ps_mem_array(plan->mem, PS_MEM_DATA, n_x, sizeof(*t->x));
    }
    t->y = ps_mem_array(plan->mem, PS_MEM_DATA, batch, sizeof(*t->y));
    t->row_ids = ps_mem_array(plan->mem, PS_MEM_DATA, batch, sizeof(*t->row_ids));
    if (t->x == NULL || t->y == NULL || t->row_ids == NULL) {
        return ps_fail(t->err, PS_ERR_NOMEM, "no memory for a batch of %zu rows", batch);
    }
    struct ps_weights *all[] = {&t->sides[0].weights, &t->sides[1].weights, &t->grads};
    for (size_t i = 0; i < PS_ARRAY_LEN(all); i++) {
        enum ps_status status = ps_weights_init(all[i], plan->mem, plan->model, tables, t->err);
        if (status != PS_OK) {
            return status;
        }
    }
    return PS_OK;
}

static void free_buffers(struct ps_trainer *t)
{
    ps_mem_free(t->x);
    ps_mem_free(t->y);
    ps_mem_free(t->row_ids);
    ps_weights_deinit(&t->sides[0].weights);
    ps_weights_deinit(&t->sides[1].weights);
    ps_weights_deinit(&t->grads);
}

/* All workers of a cluster draw the same seed, and the next cluster another one. */
static enum ps_status seed_from_cluster(struct ps_trainer *t)
{
    if (t->plan->options.seed_given) {
        return PS_OK;
    }
    return ps_train_plan_seed(t->plan, ps_units_seed(t->client), t->err);
}

static enum ps_status begin(struct ps_trainer *t)
{
    enum ps_status status = seed_from_cluster(t);
    uint32_t tables[PS_MODEL_TABLES_MAX];
    if (status == PS_OK) {
        status = define_tables(t, tables);
    }
    if (status == PS_OK) {
        status = define_job(t);
    }
    return status == PS_OK ? make_buffers(t, tables) : status;
}

enum ps_status ps_train_run(struct ps_train_plan *plan, struct ps_client *client,
                            const _Atomic bool *stop, struct ps_train_result *ret,
                            struct ps_error *err)
{
    struct ps_trainer *t = ps_mem_alloc(plan->mem, PS_MEM_OTHER, sizeof(*t));
    if (t == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory to train");
    }
    t->plan = plan;
    t->client = client;
    t->err = err;
    t->units = (struct ps_units){.client = client,
                                 .stop = stop,
                                 .err = err,
                                 .unit = &t->unit,
                                 .idle = "every row is lent to others",
                                 .late = ps_units_over(client)};
    enum ps_status status = begin(t);
    if (status == PS_OK) {
        status = ps_units_run(&t->units, step, t);
    }
    *ret = ps_units_end(&t->units, status);
    free_buffers(t);
    ps_mem_free(t);
    return status;
}

int ps_train_exit_status(enum ps_status status)
{
    switch (status) {
    case PS_OK: return 0;
    case PS_ERR_INVALID:
    case PS_ERR_NOT_FOUND:
    case PS_ERR_EXISTS:
    case PS_ERR_UNSUPPORTED: return 2;
    case PS_ERR_DIVERGED: return 3;
    case PS_ERR_NOT_PRIMARY:
    case PS_ERR_TIMEOUT:
    case PS_ERR_UNAVAIL:
    case PS_ERR_CANCELED:
    case PS_ERR_FENCED:
    case PS_ERR_NOT_YET:
    case PS_ERR_LATE:
    case PS_ERR_BUSY:
    case PS_ERR_LOST: return 4;
    case PS_ERR_CORRUPT: return 65;
    case PS_ERR_NOMEM:
    case PS_ERR_INTERNAL: return 70;
    case PS_ERR_NO_SPACE:
    case PS_ERR_IO: return 74;
    case PS_ERR_DENIED: return 77;
    }
    return 70;
}
