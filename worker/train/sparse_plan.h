#ifndef PS_WORKER_TRAIN_SPARSE_PLAN_H
#define PS_WORKER_TRAIN_SPARSE_PLAN_H
/*
 * train/sparse_plan.h — a training run on rows of lines, checked and ready: files found and looked
 * at, model made, cut into parts.
 *
 *   options --flags--> files --learn--> description --setup.h--> model --> rule, parts, texts
 *
 * As plan.h: what can be wrong is found here, and all workers of a cluster make equal plans from
 * equal flags and files. Rows stay in the files.
 */
#include <stdbool.h>
#include <stdint.h>

#include <ps/types.h>

#include "base/attr.h"
#include "base/error.h"
#include "data/feed.h"
#include "data/source.h"
#include "train/options.h"
#include "train/setup.h"

struct ps_mem;

struct ps_sparse_plan {
    struct ps_train_options options;
    struct ps_mem *mem;
    struct ps_source *train;
    struct ps_source *test;                     /* NULL: there is none. */
    struct ps_setup *setup;                     /* Model and description. */
    char *setup_text;                           /* The same, as the cluster keeps it. */
    const struct ps_train_optimizer *optimizer; /* Of all tables. */
    bool as_preset;                             /* It is the model's own. */
    struct ps_schedule schedule;
    struct ps_consistency consistency;
    struct ps_feed_plan parts;
    uint64_t units; /* Of an epoch, about: the place of a step in the schedule follows from it. */
    char few_parts[PS_TRAIN_WARNING_BYTES]; /* Packed files leave workers without a part; or "". */
    char data_text[PS_TRAIN_TEXT_BYTES];
    char model_text[PS_TRAIN_TEXT_BYTES];
    char consistency_text[PS_TRAIN_CONSISTENCY_BYTES];
};

/**
 * Check, look at the data, make the model. `*plan` is to be closed, success or not.
 * @return PS_ERR_INVALID with one line that names the flag or file:line; as ps_source_open,
 *         ps_learn; PS_ERR_NOMEM
 */
PS_MUST_CHECK enum ps_status ps_sparse_plan_open(const struct ps_train_options *options,
                                                 struct ps_mem *mem, struct ps_sparse_plan *plan,
                                                 struct ps_error *err);

/** A zeroed plan does nothing. */
void ps_sparse_plan_close(struct ps_sparse_plan *plan);

/** Use this seed instead: first weights and order of rows. */
PS_MUST_CHECK enum ps_status ps_sparse_plan_seed(struct ps_sparse_plan *plan, uint64_t seed,
                                                 struct ps_error *err);

/** Definition of sparse table `t` of the model; texts are borrowed from the plan. */
struct ps_table_def ps_sparse_plan_rows(const struct ps_sparse_plan *plan, uint32_t t);

/** Definition of dense table `t`: biases and layers, which no penalty pulls. */
struct ps_table_def ps_sparse_plan_dense(const struct ps_sparse_plan *plan, uint32_t t);

/** The place of a unit among all of the job, about: for the schedule. Below the total. */
uint64_t ps_sparse_plan_place(const struct ps_sparse_plan *plan, const struct ps_unit *unit);

#endif
