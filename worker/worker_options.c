/* worker_options.c — see worker_options.h. */
#include "worker_options.h"

#include <stddef.h>

#include "base/limits.h"
#include "conf/job.h"
#include "model/sparse_model.h"
#include "obs/log.h"
#include "train/optimizer_list.h"

#define AT(field) offsetof(struct ps_train_options, field)

static const char *const optimizer_words[] = {
#define X(word, lr, decay, at_home) (word),
    PS_TRAIN_OPTIMIZER_LIST(X)
#undef X
        NULL};

/* As enum ps_choice, whose NO is a base of 1. */
static const char *const index_base_words[] = {"auto", "1", "0", NULL};

static const char *const choice_words[] = {"auto", "no", "yes", NULL};

static const struct ps_option train_rows[] = {
    {
        .name = "data",
        .unit = "PATH|NAME",
        .help =
            "Training data: files of lines (libsvm, csv, tsv or criteo; plain, gzip or zstd), as a "
            "path, a folder, a pattern such as part-*, or several of these joined by commas; or a "
            "folder of IDX files (plain or gzip), or fashion-mnist, the set of Debian's package "
            "dataset-fashion-mnist.",
        .group = "Data",
        .type = PS_OPTION_STRING,
        .required = true,
        .offset = AT(data),
    },
    {
        .name = "test",
        .unit = "PATH",
        .help = "Test data, likewise; of IDX files the folder, if it is not that of --data.",
        .type = PS_OPTION_STRING,
        .offset = AT(test),
    },
    {
        .name = "format",
        .unit = "NAME",
        .help = "Format of the data: auto (what was decided is said), libsvm, csv, tsv, criteo or "
                "idx.",
        .preset = "auto",
        .type = PS_OPTION_STRING,
        .offset = AT(format),
    },
    {
        .name = "shuffle",
        .help =
            "Visit the rows in the order of the file, every epoch; otherwise each epoch has an "
            "order of its own, drawn from --seed: of lines, an order of the parts of the files, "
            "and one within each window of a part.",
        .preset = "true",
        .type = PS_OPTION_BOOL,
        .offset = AT(shuffle),
    },
    {
        .name = "center",
        .help =
            "Of images: train on pixels as they are; otherwise on pixels minus their mean over the "
            "training data, with which many workers and old weights do little harm. The written "
            "model takes pixels as they are either way.",
        .preset = "true",
        .type = PS_OPTION_BOOL,
        .offset = AT(center),
    },
    {
        .name = "index-base",
        .help = "Of libsvm: the number of the first feature; auto: 0 if it occurs, else 1.",
        .group = "Lines of text",
        .preset = "auto",
        .words = index_base_words,
        .type = PS_OPTION_ENUM,
        .offset = AT(index_base),
    },
    {
        .name = "labels",
        .unit = "LABEL,...",
        .help = "Labels of the classes, class 0 first; otherwise those that occur, in order.",
        .type = PS_OPTION_STRING,
        .list = true,
        .offset = AT(labels),
    },
    {
        .name = "header",
        .help = "Of csv and tsv: whether each file begins with a line of names.",
        .preset = "auto",
        .words = choice_words,
        .type = PS_OPTION_ENUM,
        .offset = AT(header),
    },
    {
        .name = "standardize",
        .help = "Bring features to one scale, learnt from the training data and kept with the "
                "model. auto: numeric columns of csv and tsv, not libsvm.",
        .preset = "auto",
        .words = choice_words,
        .type = PS_OPTION_ENUM,
        .offset = AT(standardize),
    },
    {
        .name = "label",
        .unit = "COLUMN",
        .help = "Of csv and tsv: the column of the label, by name or number from 1; otherwise the "
                "one called label, target, class, y, click or clicked, else the first.",
        .type = PS_OPTION_STRING,
        .offset = AT(label),
    },
    {
        .name = "categorical",
        .unit = "COLUMN,...",
        .help = "Of csv and tsv: columns whose texts are features of their own; otherwise those "
                "with a cell that is no number, and all for --model mf.",
        .type = PS_OPTION_STRING,
        .list = true,
        .offset = AT(categorical),
    },
    {
        .name = "numeric",
        .unit = "COLUMN,...",
        .help = "Of csv and tsv: columns of numbers; another cell there is an error.",
        .type = PS_OPTION_STRING,
        .list = true,
        .offset = AT(numeric),
    },
    {
        .name = "ignore",
        .unit = "COLUMN,...",
        .help = "Of csv and tsv: columns that are not features.",
        .type = PS_OPTION_STRING,
        .list = true,
        .offset = AT(ignore),
    },
    {
        .name = "max-bad-rows",
        .unit = "rows",
        .help = "Lines that cannot be read are skipped and counted, up to so many for each process "
                "that reads; one more is an error.",
        .preset = "0",
        .type = PS_OPTION_U64,
        .offset = AT(max_bad_rows),
    },
    {
        .name = "window-rows",
        .unit = "rows",
        .help = "Rows that are shuffled together and held in memory; 0: as many as suit.",
        .preset = "0",
        .type = PS_OPTION_U32,
        .max = 1u << 24,
        .offset = AT(window_rows),
    },
    {
        .name = "model",
        .unit = "NAME",
        .help = "Of images: softmax (linear), or mlp (hidden layers with ReLU). Of lines: logreg, "
                "linear, softmax, fm (factorisation machine), mf (matrix factorisation of user, "
                "item and rating), wide-deep (embeddings and hidden layers).",
        .group = "Model",
        .preset = "softmax",
        .type = PS_OPTION_STRING,
        .offset = AT(model),
    },
    {
        .name = "hidden",
        .unit = "N,N,...",
        .help = "Units of the hidden layers of mlp (128 when it is not given) and wide-deep, from "
                "the input on.",
        .type = PS_OPTION_STRING,
        .list = true,
        .offset = AT(hidden),
    },
    {
        .name = "rank",
        .help = "Factors of a feature for fm, of a user and an item for mf, width of an embedding "
                "for wide-deep; 8, 16 and 8 when it is not given.",
        .type = PS_OPTION_U32,
        .min = 1,
        .max = PS_MODEL_RANK_MAX,
        .offset = AT(rank),
    },
    {
        .name = "regress",
        .help = "fm and wide-deep: labels are numbers to be met, not two classes.",
        .type = PS_OPTION_BOOL,
        .offset = AT(regress),
    },
    {
        .name = "pool",
        .help = "wide-deep: the embeddings of a row are added up, not put side by side.",
        .type = PS_OPTION_BOOL,
        .offset = AT(pool),
    },
    {
        .name = "bias",
        .help = "Of lines: train without a bias, and do not start from the mean of the labels.",
        .preset = "true",
        .type = PS_OPTION_BOOL,
        .offset = AT(bias),
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
        .name = "local-steps",
        .unit = "steps",
        .help = "Of lines: batches that a worker trains on its own copy, by plain gradient steps "
                "of the same rate, before it pushes the sum of their gradients. Not with "
                "adam, adamw and ftrl.",
        .preset = "1",
        .type = PS_OPTION_U32,
        .min = 1,
        .max = 4096,
        .offset = AT(local_steps),
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
        .help = "Update rule of the servers. Of lines, when it is not given: the one that suits "
                "the model, with its rate and penalties. ftrl is for lines only.",
        .preset = "sgd",
        .words = optimizer_words,
        .type = PS_OPTION_ENUM,
        .offset = AT(optimizer),
    },
    {
        .name = "lr",
        .help =
            "Learning rate. When it is not given: sgd and ftrl 0.1, momentum and adagrad 0.01, "
            "adam and adamw 0.001; of lines with the rule that suits the model, named or not, what "
            "suits it.",
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
        .help = "Penalty: l2 times the weight is added to the gradient; of lines not for biases "
                "and layers.",
        .preset = "0",
        .type = PS_OPTION_F32,
        .f_min = 0.0,
        .f_max = 1e6,
        .offset = AT(l2),
    },
    {
        .name = "l1",
        .help = "Penalty of ftrl: weights that are pulled less than this are exactly 0. In units "
                "of a row's gradient, as beta.",
        .preset = "0",
        .type = PS_OPTION_F32,
        .f_min = 0.0,
        .f_max = 1e6,
        .offset = AT(l1),
    },
    {
        .name = "beta",
        .help = "Of ftrl: keeps first steps small; 1 when it is not given.",
        .type = PS_OPTION_F32,
        .f_min = 1e-6,
        .f_max = 1e6,
        .offset = AT(beta),
    },
    {
        .name = "admit-after",
        .unit = "pushes",
        .help = "Of lines: a feature gets its row when it has come in so many pushes.",
        .preset = "1",
        .type = PS_OPTION_U32,
        .min = 1,
        .max = 255,
        .offset = AT(admit_after),
    },
    {
        .name = "expire-after",
        .unit = "steps",
        .help = "Of lines: a row that no push touches for more steps is forgotten; 0: never.",
        .preset = "0",
        .type = PS_OPTION_U32,
        .offset = AT(expire_after),
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

/* Places as enum ps_failpoint_place, once for each signal. */
static const char *const failpoint_words[] = {
    "none",          "kill-between-acks",   "kill-acked",          "kill-ticked",
    "kill-unticked", "kill-unticked-twice", "stop-between-acks",   "stop-acked",
    "stop-ticked",   "stop-unticked",       "stop-unticked-twice", NULL};

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
                "before this worker has joined. Preset: what the cluster says, 10s when a server "
                "that is lost has nothing to come back with, else its --wait-for-server and 60s.",
        .type = PS_OPTION_DURATION_MS,
        .min = 500,
        .max = 86400000,
        .offset = AT(give_up_ms),
    },
    {
        .name = "grace",
        .help = "After SIGTERM the step at hand is finished, unless it would take longer than "
                "this; then it is left to whoever gets its rows next.",
        .preset = "3s",
        .type = PS_OPTION_DURATION_MS,
        .min = 200,
        .max = 3600000,
        .offset = AT(grace_ms),
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
    {
        .name = "failpoint",
        .help = "Test builds only: kill or stop this process there.",
        .preset = "none",
        .words = failpoint_words,
        .type = PS_OPTION_ENUM,
        .offset = AT(failpoint),
    },
    {
        .name = "failpoint-at",
        .unit = "occasions",
        .help = "Test builds only: not before it has been there so often.",
        .preset = "1",
        .type = PS_OPTION_U32,
        .min = 1,
        .offset = AT(failpoint_at),
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
    train->optimizer_given = ps_conf_given(conf, "optimizer");
    train->l2_given = ps_conf_given(conf, "l2");
    train->weight_decay_given = ps_conf_given(conf, "weight-decay");
    train->seed_given = ps_conf_given(conf, "seed");
}
