/* worker_options.c — see worker_options.h. */
#include "worker_options.h"

#include <stddef.h>

#include "base/limits.h"
#include "conf/job.h"
#include "obs/log.h"
#include "train/optimizer_list.h"

#define AT(field) offsetof(struct ps_train_options, field)

static const char *const optimizer_words[] = {
#define X(word, lr, decay, at_home) (word),
    PS_TRAIN_OPTIMIZER_LIST(X)
#undef X
        NULL};

static const struct ps_option train_rows[] = {
    {
        .name = "data",
        .unit = "PATH|NAME",
        .help =
            "Training data: a folder of IDX files (plain or gzip), or fashion-mnist, the set of "
            "Debian's package dataset-fashion-mnist.",
        .group = "Data",
        .type = PS_OPTION_STRING,
        .required = true,
        .offset = AT(data),
    },
    {
        .name = "test",
        .unit = "PATH",
        .help = "Folder of the test files, if it is not that of --data.",
        .type = PS_OPTION_STRING,
        .offset = AT(test),
    },
    {
        .name = "format",
        .unit = "NAME",
        .help = "Format of the data: auto or idx.",
        .preset = "auto",
        .type = PS_OPTION_STRING,
        .offset = AT(format),
    },
    {
        .name = "shuffle",
        .help = "Visit the rows in the order of the file, every epoch; otherwise each epoch has an "
                "order of its own, drawn from --seed.",
        .preset = "true",
        .type = PS_OPTION_BOOL,
        .offset = AT(shuffle),
    },
    {
        .name = "center",
        .help =
            "Train on pixels as they are; otherwise on pixels minus their mean over the training "
            "data, with which many workers and old weights do little harm. The written model "
            "takes pixels as they are either way.",
        .preset = "true",
        .type = PS_OPTION_BOOL,
        .offset = AT(center),
    },
    {
        .name = "model",
        .unit = "NAME",
        .help = "softmax (linear), or mlp (hidden layers with ReLU).",
        .group = "Model",
        .preset = "softmax",
        .type = PS_OPTION_STRING,
        .offset = AT(model),
    },
    {
        .name = "hidden",
        .unit = "N,N,...",
        .help = "Units of the hidden layers of mlp, from the input on; 128 when it is not given.",
        .type = PS_OPTION_STRING,
        .list = true,
        .offset = AT(hidden),
    },
    {
        .name = "batch",
        .unit = "rows",
        .help = "Rows per step and worker; with --aggregate rows per step of all workers together.",
        .group = "Training",
        .preset = "100",
        .type = PS_OPTION_U32,
        .min = 1,
        .max = 1u << 20,
        .offset = AT(batch),
    },
    {
        .name = "epochs",
        .help = "How often every row is trained.",
        .preset = "5",
        .type = PS_OPTION_U32,
        .min = 1,
        .max = 100000,
        .offset = AT(epochs),
    },
    {
        .name = "optimizer",
        .help = "Update rule of the servers.",
        .preset = "sgd",
        .words = optimizer_words,
        .type = PS_OPTION_ENUM,
        .offset = AT(optimizer),
    },
    {
        .name = "lr",
        .help = "Learning rate. When it is not given: sgd 0.1, momentum and adagrad 0.01, adam and "
                "adamw 0.001.",
        .type = PS_OPTION_F32,
        .f_min = 1e-12,
        .f_max = 1e6,
        .offset = AT(lr),
    },
    {
        .name = "schedule",
        .unit = "RULE",
        .help = "How the rate changes with the step: constant, step:EVERY:FACTOR or cosine, each "
                "with or without ,warmup:STEPS behind it.",
        .preset = "constant",
        .type = PS_OPTION_STRING,
        .offset = AT(schedule),
    },
    {
        .name = "momentum",
        .help = "Share of the last change kept by --optimizer momentum.",
        .preset = "0.9",
        .type = PS_OPTION_F32,
        .f_min = 0.0,
        .f_max = 0.999999,
        .offset = AT(momentum),
    },
    {
        .name = "beta1",
        .help = "Decay of the mean gradient, for adam and adamw.",
        .preset = "0.9",
        .type = PS_OPTION_F32,
        .f_min = 0.0,
        .f_max = 0.999999,
        .offset = AT(beta1),
    },
    {
        .name = "beta2",
        .help = "Decay of the mean squared gradient, for adam and adamw.",
        .preset = "0.999",
        .type = PS_OPTION_F32,
        .f_min = 0.0,
        .f_max = 0.999999,
        .offset = AT(beta2),
    },
    {
        .name = "epsilon",
        .help = "Added to divisors, for adagrad, adam and adamw.",
        .preset = "1e-8",
        .type = PS_OPTION_F32,
        .f_min = 1e-30,
        .f_max = 1.0,
        .offset = AT(epsilon),
    },
    {
        .name = "weight-decay",
        .help = "Decay of weights apart from the gradient, for adamw; 0.01 when it is not given.",
        .type = PS_OPTION_F32,
        .f_min = 0.0,
        .f_max = 1.0,
        .offset = AT(weight_decay),
    },
    {
        .name = "l2",
        .help = "Penalty: l2 times the weight is added to the gradient.",
        .preset = "0",
        .type = PS_OPTION_F32,
        .f_min = 0.0,
        .f_max = 1e6,
        .offset = AT(l2),
    },
    {
        .name = "seed",
        .help = "First weights and order of rows follow from it. When it is not given, they differ "
                "from run to run.",
        .type = PS_OPTION_U64,
        .offset = AT(seed),
    },
    {
        .name = "consistency",
        .unit = "RULE",
        .help = "How far workers may be apart: bsp (not at all), ssp:S (S steps), asp (no bound). "
                "When neither it nor --staleness is given: ssp:4, with --aggregate bsp.",
        .group = "Staleness",
        .type = PS_OPTION_STRING,
        .offset = AT(consistency),
    },
    {
        .name = "staleness",
        .unit = "steps",
        .help = "Short for --consistency ssp:S; 0 is bsp.",
        .preset = "4",
        .type = PS_OPTION_U32,
        .max = 1000000,
        .offset = AT(staleness),
    },
    {
        .name = "aggregate",
        .help = "bsp with one averaged update per step: the weights are those of one process with "
                "the same --batch, for any number of workers.",
        .type = PS_OPTION_BOOL,
        .offset = AT(aggregate),
    },
    {
        .name = "backup-workers",
        .unit = "workers",
        .help = "With --aggregate: a step is closed without so many of the slowest workers.",
        .preset = "0",
        .type = PS_OPTION_U32,
        .max = PS_SESSIONS_MAX,
        .offset = AT(backup_workers),
    },
    {
        .name = "prefetch",
        .unit = "steps",
        .help = "1: weights for the next step are pulled while this one computes, which hides the "
                "network and makes them one step older. Without effect for bsp.",
        .preset = "0",
        .type = PS_OPTION_U32,
        .max = 1,
        .offset = AT(prefetch),
    },
    {
        .name = "workers",
        .help = "Workers of the job: training starts when so many have joined. When it is not "
                "given: 4 with ps-run, 1 with ps-worker.",
        .group = "Cluster",
        .type = PS_OPTION_U32,
        .min = 1,
        .max = PS_SESSIONS_MAX / 2, /* Room for rejoined ones and readers. */
        .offset = AT(workers),
    },
    {
        .name = "start-timeout",
        .help = "Start with fewer workers when so much time has passed since the first; 0: never.",
        .preset = "60s",
        .type = PS_OPTION_DURATION_MS,
        .max = 3600000,
        .offset = AT(start_timeout_ms),
    },
    {
        .name = "units-per-lease",
        .unit = "steps",
        .help = "Steps whose rows are lent to a worker at once; 0: as the coordinator thinks best.",
        .preset = "0",
        .type = PS_OPTION_U32,
        .max = 100000,
        .offset = AT(units_per_lease),
    },
};

const struct ps_option_table ps_train_option_table = {train_rows, PS_ARRAY_LEN(train_rows)};

#undef AT
#define AT(field) offsetof(struct ps_worker_options, field)

static const struct ps_option worker_rows[] = {
    {
        .name = "coordinator",
        .unit = "HOST:PORT",
        .help = "The server that coordinates.",
        .group = "This worker",
        .preset = "127.0.0.1:7070",
        .type = PS_OPTION_STRING,
        .min = 1,
        .max = PS_ADDRESS_BYTES_MAX,
        .offset = AT(coordinator),
    },
    {
        .name = "cluster-id",
        .unit = "HEX",
        .help = "Cluster to join, as psctl status shows it; another one is refused.",
        .type = PS_OPTION_ID,
        .offset = AT(cluster_id),
    },
    {
        .name = "name",
        .unit = "NAME",
        .help = "Name in logs and in psctl.",
        .preset = "worker",
        .word = true,
        .type = PS_OPTION_STRING,
        .min = 1,
        .max = PS_NAME_BYTES_MAX,
        .offset = AT(name),
    },
    {
        .name = "give-up",
        .help = "A server or coordinator that is silent for so long is lost; three times as long "
                "before this worker has joined.",
        .preset = "8s",
        .type = PS_OPTION_DURATION_MS,
        .min = 500,
        .max = 3600000,
        .offset = AT(give_up_ms),
    },
    {
        .name = "out",
        .unit = "DIR",
        .help = "Folder for model.safetensors, written when the job is done.",
        .type = PS_OPTION_STRING,
        .offset = AT(out),
    },
    {
        .name = "report",
        .unit = "FILE",
        .help = "File for a report of one JSON object, written when the job is done.",
        .type = PS_OPTION_STRING,
        .offset = AT(report),
    },
    {
        .name = "log-level",
        .help = "What is logged to standard error.",
        .preset = "info",
        .words = ps_log_level_words,
        .type = PS_OPTION_ENUM,
        .offset = AT(log_level),
    },
    {
        .name = "die-with-parent",
        .help = "End when the process that started this one ends.",
        .preset = "false",
        .type = PS_OPTION_BOOL,
        .offset = AT(die_with_parent),
    },
};

static const struct ps_option_table worker_table = {worker_rows, PS_ARRAY_LEN(worker_rows)};

static const struct ps_option_use worker_uses[] = {
    {&ps_train_option_table, offsetof(struct ps_worker_options, train)},
    {&worker_table, 0},
};

static const struct ps_exit exits[] = {
    {0, "the job is done (or SIGTERM: left in order)"},
    {2, "bad flags or data"},
    {3, "training diverged"},
    {4, "the cluster or its data are lost"},
    {74, "the model, the report or standard output cannot be written"},
    {0, NULL},
};

const struct ps_program ps_worker_program = {
    .name = "ps-worker",
    .brief = "worker of a parameter server cluster",
    .summary = "Pulls weights, computes gradients on its share of the data, pushes them.",
    .usage = "--data PATH [flags]",
    .exits = exits,
    .env_prefix = "PS_WORKER",
    .uses = worker_uses,
    .job = ps_job_programs,
    .n_uses = PS_ARRAY_LEN(worker_uses),
};

void ps_train_options_given(const struct ps_conf *conf, struct ps_train_options *train)
{
    train->conf = conf;
    train->staleness_given = ps_conf_given(conf, "staleness");
    train->weight_decay_given = ps_conf_given(conf, "weight-decay");
    train->seed_given = ps_conf_given(conf, "seed");
}
