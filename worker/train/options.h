#ifndef PS_WORKER_TRAIN_OPTIONS_H
#define PS_WORKER_TRAIN_OPTIONS_H
/*
 * train/options.h — what the user asked of a training run, and what the flags say by themselves.
 *
 * Rows of flags are in worker_options.c. Plans (plan.h of images, sparse_plan.h of lines) check
 * them against model and data. Pure.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ps/types.h>

#include "base/attr.h"
#include "base/error.h"
#include "conf/conf.h"
#include "train/schedule.h"

#define PS_TRAIN_WARNING_BYTES     512u /* A line for people. */
#define PS_TRAIN_TEXT_BYTES        128u /* Identity of data or model: the coordinator compares. */
#define PS_TRAIN_CONSISTENCY_BYTES 24u

/** As users type them; the rows are in worker_options.c. Texts are borrowed. */
struct ps_train_options {
    const char *data;
    const char *test;   /* NULL: where `data` is. */
    const char *format; /* NULL: auto */
    const char *model;
    const char *hidden;      /* "128,64" */
    const char *schedule;    /* As train/schedule.h. */
    const char *consistency; /* "bsp", "ssp:S", "asp"; NULL: by staleness_given. */
    uint32_t optimizer;      /* Index into ps_train_optimizers. */
    uint32_t batch;
    uint32_t epochs;
    uint32_t units_per_lease; /* 0: the coordinator chooses. */
    uint32_t staleness;
    uint32_t backup_workers;
    uint32_t prefetch;         /* Steps pulled ahead, 0 or 1. */
    uint32_t workers;          /* Training starts when so many have joined. */
    uint64_t start_timeout_ms; /* Or after so long; 0: never. */
    uint64_t seed;
    float lr; /* 0: the optimizer's. */
    float momentum;
    float beta1;
    float beta2;
    float epsilon;
    float weight_decay;
    float l2;
    /* What says nothing of images, but of rows of lines: */
    const char *labels;
    const char *label;
    const char *categorical;
    const char *numeric;
    const char *ignore;
    uint32_t index_base; /* enum ps_choice, as the next two: YES is 0, NO is 1. */
    uint32_t header;
    uint32_t standardize;
    uint32_t rank;        /* 0: the model's. */
    uint32_t local_steps; /* >= 1 */
    uint32_t window_rows; /* 0: the feed's. */
    uint32_t admit_after;
    uint32_t expire_after;
    uint64_t max_bad_rows;
    float l1;
    float beta; /* 0: that of the rule. */
    bool bias;
    bool pool;
    bool regress;
    bool optimizer_given;
    bool l2_given;
    bool staleness_given;
    bool weight_decay_given;
    bool seed_given;
    bool aggregate;
    bool shuffle;
    bool read_ahead; /* Of lines: a thread of its own reads. No flag: the program's choice. */
    bool center;     /* Train on features with mean 0; see train/center.h. */
    const struct ps_conf *conf; /* Where they came from, for messages; NULL: nobody knows. */
};

/** What this side has to know of an update rule; the arithmetic is the servers'. */
struct ps_train_optimizer {
    const char *name;
    float rate;         /* --lr when it is not given. */
    float weight_decay; /* --weight-decay when it is not given; < 0: not a parameter of it. */
    bool local;         /* w -= rate * g, so a worker can add its own update itself. */
};

/** The rules of train/optimizer_list.h, ended by one without a name. */
extern const struct ps_train_optimizer ps_train_optimizers[];

/**
 * How far workers may be apart; --aggregate and --backup-workers are checked with it.
 * @return PS_ERR_INVALID with one line that names the flag
 */
PS_MUST_CHECK enum ps_status ps_train_consistency(const struct ps_train_options *options,
                                                  struct ps_consistency *ret, struct ps_error *err);

/** "bsp", "ssp:4", "asp": for reports. */
void ps_train_consistency_text(const struct ps_consistency *consistency,
                               char text[PS_TRAIN_CONSISTENCY_BYTES]);

/** The schedule over `rate`. @return PS_ERR_INVALID, as above */
PS_MUST_CHECK enum ps_status ps_train_schedule(const struct ps_train_options *options, float rate,
                                               struct ps_schedule *ret, struct ps_error *err);

/** Are --weight-decay, --momentum, ... for this rule? @return PS_ERR_INVALID, as above */
PS_MUST_CHECK enum ps_status ps_train_check_rule(const struct ps_train_options *options,
                                                 const struct ps_train_optimizer *optimizer,
                                                 struct ps_error *err);

/** Put the setting, its value and its source before the message of whoever refused it. */
enum ps_status ps_train_blame(const struct ps_train_options *options, const char *name,
                              enum ps_status status, struct ps_error *err);

/** Whether the user gave the setting, wherever. */
bool ps_train_given(const struct ps_train_options *options, const char *name);

#endif
