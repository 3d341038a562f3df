/* coord_define.c — see coord_define.h. */
#include "coord/coord_define.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/limits.h"

#define WORDS_BYTES_MAX 1023u /* Descriptions of model and data. */

static bool well_named(const char *name, const char *also)
{
    size_t n_bytes = strlen(name);
    for (size_t i = 0; i < n_bytes; i++) {
        bool letter = name[i] >= 'a' && name[i] <= 'z';
        bool digit = name[i] >= '0' && name[i] <= '9';
        if (!letter && !digit && strchr(also, name[i]) == NULL) {
            return false;
        }
    }
    return n_bytes >= 1 && n_bytes <= PS_NAME_BYTES_MAX;
}

static enum ps_status check_optimizer(const char *table, const Ps__V1__Optimizer *optimizer,
                                      struct ps_error *err)
{
    if (optimizer == NULL) {
        return ps_fail(err, PS_ERR_INVALID, "table %s: no optimizer is given", table);
    }
    if (!well_named(optimizer->name, "_")) {
        return ps_fail(err, PS_ERR_INVALID,
                       "table %s: an optimizer is named by 1 to %u bytes of [a-z0-9_], not '%.80s'",
                       table, PS_NAME_BYTES_MAX, optimizer->name);
    }
    const float numbers[] = {optimizer->momentum, optimizer->beta1, optimizer->beta2,
                             optimizer->epsilon,  optimizer->l2,    optimizer->weight_decay,
                             optimizer->l1,       optimizer->beta};
    for (size_t i = 0; i < PS_ARRAY_LEN(numbers); i++) {
        if (!isfinite(numbers[i])) {
            return ps_fail(err, PS_ERR_INVALID, "table %s: a number of the optimizer is not finite",
                           table);
        }
    }
    return PS_OK;
}

/* What only one kind has must not be said of the other. */
static enum ps_status check_kind(const Ps__V1__TableDefinition *table, struct ps_error *err)
{
    bool sparse = table->kind == PS__V1__TABLE_KIND__SPARSE;
    if (!sparse && table->kind != PS__V1__TABLE_KIND__DENSE) {
        return ps_fail(err, PS_ERR_INVALID, "table %s: kind %u is not known; DENSE and SPARSE are",
                       table->name, (unsigned)table->kind);
    }
    if (!sparse && (table->width | table->admit_after | table->expire_after) != 0) {
        return ps_fail(err, PS_ERR_INVALID,
                       "table %s: width, admit_after and expire_after are for sparse tables",
                       table->name);
    }
    if (sparse && table->n_shape != 0) {
        return ps_fail(err, PS_ERR_INVALID,
                       "table %s: a sparse table has a width, and no shape of %zu dimensions",
                       table->name, table->n_shape);
    }
    if (sparse && (table->width < 1 || table->width > PS_ROW_FLOATS_MAX)) {
        return ps_fail(err, PS_ERR_INVALID, "table %s: a row has 1 to %u floats, not %" PRIu32,
                       table->name, PS_ROW_FLOATS_MAX, table->width);
    }
    if (table->admit_after > PS_ADMIT_AFTER_MAX) {
        return ps_fail(err, PS_ERR_INVALID, "table %s: admit_after is at most %u, not %" PRIu32,
                       table->name, PS_ADMIT_AFTER_MAX, table->admit_after);
    }
    return PS_OK;
}

enum ps_status coord_check_table(const Ps__V1__TableDefinition *table, struct ps_error *err)
{
    if (!well_named(table->name, "_.")) {
        return ps_fail(err, PS_ERR_INVALID,
                       "a table is named by 1 to %u bytes of [a-z0-9_.], not '%.80s'",
                       PS_NAME_BYTES_MAX, table->name);
    }
    if (table->dtype != PS__V1__TABLE_DTYPE__FLOAT32 &&
        table->dtype != PS__V1__TABLE_DTYPE__DTYPE_UNSET) {
        return ps_fail(err, PS_ERR_INVALID, "table %s: dtype %u is not known; FLOAT32 is",
                       table->name, (unsigned)table->dtype);
    }
    enum ps_status status = check_kind(table, err);
    if (status != PS_OK) {
        return status;
    }
    if (table->init != PS__V1__INIT_KIND__ZEROS && table->init != PS__V1__INIT_KIND__UNIFORM &&
        table->init != PS__V1__INIT_KIND__NORMAL) {
        return ps_fail(err, PS_ERR_INVALID, "table %s: init %u is not known", table->name,
                       (unsigned)table->init);
    }
    if (!isfinite(table->init_scale) || !(table->init_scale >= 0.0f)) {
        return ps_fail(err, PS_ERR_INVALID, "table %s: init_scale must be finite and >= 0, got %g",
                       table->name, (double)table->init_scale);
    }
    return check_optimizer(table->name, table->optimizer, err);
}

static const char *optimizer_difference(const Ps__V1__Optimizer *a, const Ps__V1__Optimizer *b)
{
    const struct {
        bool equal;
        const char *field;
    } fields[] = {
        {strcmp(a->name, b->name) == 0, "optimizer name"},
        {a->momentum == b->momentum, "momentum"},
        {a->beta1 == b->beta1, "beta1"},
        {a->beta2 == b->beta2, "beta2"},
        {a->epsilon == b->epsilon, "epsilon"},
        {a->weight_decay == b->weight_decay, "weight_decay"},
        {a->l2 == b->l2, "l2"},
        {a->l1 == b->l1, "l1"},
        {a->beta == b->beta, "beta"},
    };
    for (size_t i = 0; i < PS_ARRAY_LEN(fields); i++) {
        if (!fields[i].equal) {
            return fields[i].field;
        }
    }
    return NULL;
}

static bool same_shape(const Ps__V1__TableDefinition *a, const Ps__V1__TableDefinition *b)
{
    bool same = a->n_shape == b->n_shape;
    for (size_t i = 0; i < a->n_shape && same; i++) {
        same = a->shape[i] == b->shape[i];
    }
    return same;
}

const char *coord_table_difference(const Ps__V1__TableDefinition *a,
                                   const Ps__V1__TableDefinition *b)
{
    if (a->kind != b->kind) {
        return "kind";
    }
    if (a->width != b->width) {
        return "width";
    }
    if (a->admit_after != b->admit_after) {
        return "admit_after";
    }
    if (a->expire_after != b->expire_after) {
        return "expire_after";
    }
    if (!same_shape(a, b)) {
        return "shape";
    }
    if (a->dtype != b->dtype) {
        return "dtype";
    }
    if (a->init != b->init) {
        return "init";
    }
    if (a->init_scale != b->init_scale) {
        return "init_scale";
    }
    if (a->seed != b->seed) {
        return "seed";
    }
    return optimizer_difference(a->optimizer, b->optimizer);
}

static enum ps_status check_consistency(const Ps__V1__JobDefinition *job, struct ps_error *err)
{
    const Ps__V1__Consistency *consistency = job->consistency;
    if (consistency == NULL || (consistency->mode != PS__V1__CONSISTENCY_MODE__BSP &&
                                consistency->mode != PS__V1__CONSISTENCY_MODE__SSP &&
                                consistency->mode != PS__V1__CONSISTENCY_MODE__ASP)) {
        return ps_fail(err, PS_ERR_INVALID, "consistency must be BSP, SSP or ASP");
    }
    if (consistency->mode != PS__V1__CONSISTENCY_MODE__SSP && consistency->bound != 0) {
        return ps_fail(err, PS_ERR_INVALID, "a bound goes with SSP only, got %" PRIu32,
                       consistency->bound);
    }
    if (consistency->aggregate && consistency->mode != PS__V1__CONSISTENCY_MODE__BSP) {
        return ps_fail(err, PS_ERR_INVALID, "aggregate goes with BSP only");
    }
    if (!consistency->aggregate && consistency->backups != 0) {
        return ps_fail(err, PS_ERR_INVALID, "backups go with aggregate only, got %" PRIu32,
                       consistency->backups);
    }
    if (consistency->backups != 0 && consistency->backups >= job->workers) {
        return ps_fail(err, PS_ERR_INVALID,
                       "backups must be fewer than workers, got %" PRIu32 " of %" PRIu32,
                       consistency->backups, job->workers);
    }
    return PS_OK;
}

enum ps_status coord_check_job(const Ps__V1__JobDefinition *job, struct ps_lease_plan *ret,
                               struct ps_error *err)
{
    if (strlen(job->model) > WORDS_BYTES_MAX || strlen(job->data) > WORDS_BYTES_MAX) {
        return ps_fail(err, PS_ERR_INVALID, "model and data are words of at most %u bytes",
                       WORDS_BYTES_MAX);
    }
    if (strlen(job->setup) > PS_SETUP_BYTES_MAX) {
        return ps_fail(err, PS_ERR_INVALID, "setup has at most %u bytes, not %zu",
                       PS_SETUP_BYTES_MAX, strlen(job->setup));
    }
    enum ps_status status = check_consistency(job, err);
    if (status != PS_OK) {
        return status;
    }
    struct ps_lease_job cut = {
        .rows = job->rows,
        .batch = job->batch,
        .epochs = job->epochs,
        .workers = job->workers,
        .units_per_lease = job->units_per_lease,
        .aggregate = job->consistency->aggregate,
        .parts = job->parts,
        .shuffle = job->shuffle,
        .seed = job->seed,
    };
    return ps_lease_plan_make(&cut, ret, err);
}

const char *coord_job_difference(const Ps__V1__JobDefinition *a, const Ps__V1__JobDefinition *b)
{
    const struct {
        bool equal;
        const char *field;
    } fields[] = {
        {strcmp(a->model, b->model) == 0, "model"},
        {strcmp(a->data, b->data) == 0, "data"},
        {a->rows == b->rows, "rows"},
        {a->parts == b->parts, "parts"},
        {strcmp(a->setup, b->setup) == 0, "setup"},
        {a->batch == b->batch, "batch"},
        {a->epochs == b->epochs, "epochs"},
        {a->shuffle == b->shuffle, "shuffle"},
        {a->seed == b->seed, "seed"},
        {a->workers == b->workers, "workers"},
        {a->start_timeout_ms == b->start_timeout_ms, "start_timeout_ms"},
        {a->consistency->mode == b->consistency->mode, "consistency"},
        {a->consistency->bound == b->consistency->bound, "staleness bound"},
        {a->consistency->aggregate == b->consistency->aggregate, "aggregate"},
        {a->consistency->backups == b->consistency->backups, "backups"},
    };
    for (size_t i = 0; i < PS_ARRAY_LEN(fields); i++) {
        if (!fields[i].equal) {
            return fields[i].field;
        }
    }
    return NULL;
}

bool coord_job_number(const Ps__V1__JobDefinition *job, const char *field, uint64_t *ret)
{
    const struct {
        const char *field;
        uint64_t value;
    } numbers[] = {
        {"rows", job->rows},
        {"parts", job->parts},
        {"batch", job->batch},
        {"epochs", job->epochs},
        {"seed", job->seed},
        {"workers", job->workers},
        {"start_timeout_ms", job->start_timeout_ms},
        {"staleness bound", job->consistency->bound},
        {"backups", job->consistency->backups},
        {"units_per_lease", job->units_per_lease},
    };
    for (size_t i = 0; i < PS_ARRAY_LEN(numbers); i++) {
        if (strcmp(numbers[i].field, field) == 0) {
            *ret = numbers[i].value;
            return true;
        }
    }
    return false;
}
