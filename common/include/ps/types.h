#ifndef PS_TYPES_H
#define PS_TYPES_H
/*
 * ps/types.h — the plain values of <ps/client.h>: names, errors, tables, jobs, leases, figures.
 *
 * Structs are plain data: `struct ps_push push = PS_ZERO;`, then the fields that matter. What no
 * comment calls required may stay zero, so a program stays right when a later version adds fields.
 * C99, C++11.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ps/status.h>

/** The compiler warns when the result is thrown away. */
#define PS_MUST_CHECK __attribute__((warn_unused_result))

/** Zeroes a struct or an array where it is declared, in C and in C++. */
#ifdef __cplusplus
#    define PS_ZERO \
        {           \
        }
#else
#    define PS_ZERO \
        {           \
            0       \
        }
#endif

#define PS_ERROR_TEXT_BYTES 256
#define PS_ID_TEXT_BYTES    33 /* 32 hexadecimal digits and the final 0. */
#define PS_DIMS_MAX         8u /* Rank of a dense table's shape. */
#define PS_NAME_BYTES_MAX   63u
#define PS_SETUP_BYTES_MAX  (1u << 20) /* Of a job: model and data as text. */

/** The words that go with a status. Caller's memory; nothing in it is to be freed. */
struct ps_error {
    enum ps_status status;
    char text[PS_ERROR_TEXT_BYTES]; /* One line, no trailing newline or full stop. */
};

/** A 128-bit name of a session or cluster. All zero: none. */
struct ps_id {
    uint8_t bytes[16];
};

/** What a session is. Numbers of this and the following lists are on the wire: they stay. */
enum ps_client_kind {
    PS_CLIENT_WORKER = 1, /* Has a clock, takes leases, pushes. */
    PS_CLIENT_READER = 2  /* Pulls without a clock: evaluation, prediction, monitors. */
};

enum ps_job_state {
    PS_JOB_NONE,         /* Not heard of yet. 0, and so on. */
    PS_JOB_WAITING,      /* For the definition, for servers, or for workers. */
    PS_JOB_RUNNING,      /* Rows are lent. */
    PS_JOB_DONE,         /* Every lease is finished. */
    PS_JOB_CLUSTER_LOST, /* A server is gone and with it data. Clients: view.lost has the words. */
    PS_JOB_STOPPED,      /* Somebody asked for the end: ps_client_shutdown. */
    PS_JOB_RESTORING     /* The cluster goes back to a snapshot, and then on from there. */
};

enum ps_consistency_mode {
    PS_CONSISTENCY_NONE, /* Not stated; in definitions BSP. */
    PS_CONSISTENCY_BSP,  /* All workers do the same step: bound 0. */
    PS_CONSISTENCY_SSP,  /* At most `bound` clocks apart. */
    PS_CONSISTENCY_ASP   /* No bound. */
};

/** How far workers may run apart. */
struct ps_consistency {
    uint64_t version; /* Of the setting; in definitions 0. */
    enum ps_consistency_mode mode;
    uint32_t bound;     /* Clocks; SSP only. */
    bool aggregate;     /* BSP only: one averaged update a step. */
    uint32_t n_backups; /* Aggregate: a step closes without the slowest so many. */
};

enum ps_init_kind {
    PS_INIT_ZEROS,
    PS_INIT_UNIFORM, /* In [-scale, scale). */
    PS_INIT_NORMAL   /* Mean 0, standard deviation scale; no value beyond 6 of them. */
};

/**
 * A table of float32, and the rule by which pushes change it. With a width it is sparse: rows of so
 * many numbers under 64-bit keys, which come to be when they are first pushed.
 */
struct ps_table_def {
    const char *name;            /* Required: 1 to 63 bytes of [a-z0-9_.] */
    uint32_t n_dims;             /* Required, if it is dense: 1 to PS_DIMS_MAX. */
    uint64_t shape[PS_DIMS_MAX]; /* Likewise: [n_dims], each 1 or more. */
    enum ps_init_kind init_kind;
    float init_scale;
    uint64_t seed;         /* Element i starts as a function of (seed, name, i). */
    const char *optimizer; /* sgd, momentum, adagrad, adam, adamw, ftrl; NULL: sgd. */
    float momentum;        /* As it stands, also 0; as the next two. */
    float beta1;
    float beta2;
    float epsilon; /* 0, which no rule takes: the usual 1e-8, and of adam and adamw, if they are 0
                    * too, the usual beta1 0.9 and beta2 0.999. */
    float weight_decay;
    float l2;
    float l1;   /* ftrl: weights that are pulled less than this are exactly 0. */
    float beta; /* ftrl: keeps first steps small; 0: 1. */
    /* Sparse tables. */
    uint32_t width;        /* Numbers of a row, 1 to 4096; n_dims is 0 then. 0: a dense table. */
    uint32_t admit_after;  /* A key gets its row with this push, up to 255; 0 and 1: the first. */
    uint32_t expire_after; /* A row untouched for more clocks is gone; 0: never. */
};

/** A table that exists. */
struct ps_table {
    uint32_t number; /* What pulls and pushes name it by. */
    uint32_t n_dims;
    uint64_t shape[PS_DIMS_MAX];
    uint64_t n_elements;
    uint32_t width; /* Of a row; 0: a dense table. Sparse ones have no shape and no elements. */
    char name[PS_NAME_BYTES_MAX + 1];
    char optimizer[PS_NAME_BYTES_MAX + 1];
};

/** A training run over rows that are lent to workers in leases. */
struct ps_job_def {
    const char *model; /* Free text; workers that say otherwise are refused (PS_ERR_EXISTS). */
    const char *data;  /* Identity of the data, likewise. NULL, in both: "". */
    uint64_t rows;     /* Required: 1 to 2^32 - 1; 0 with `parts`. */
    uint32_t batch;    /* Required: rows a step; with aggregate the global batch. */
    uint32_t epochs;   /* Required. */
    bool shuffle;      /* Another order of the rows in each epoch: ps_row_at; of parts likewise. */
    uint64_t seed;     /* Of that order. */
    uint32_t workers;  /* Training starts when so many have joined (0: at the first), */
    uint32_t start_timeout_ms; /*   or when this has passed since the first; 0: wait for ever. */
    struct ps_consistency consistency; /* Mode 0: bsp, where all workers do the same step. */
    uint32_t units_per_lease;          /* 0: the coordinator chooses. */
    uint32_t parts;    /* The data are so many parts whose rows nobody has counted; `rows` is 0
                        * then, as is units_per_lease, and nothing is aggregated. 0: see rows. */
    const char *setup; /* What reads model and data again, opaque to the cluster: up to
                        * PS_SETUP_BYTES_MAX; workers that say otherwise are refused. NULL: "". */
};

/**
 * A lent part of the data: n_units units, each the rows of one step; ps_unit_rows says which. (Unit
 * k covers the positions [a, b) of the epoch's order with a = first_row + k * stride and
 * b = min(a + unit_rows, end of its batch, rows of the data), where its batch is the multiple of
 * `batch` rows that contains a; b <= a: no rows.)
 *
 * Of a job over parts it is one part in one epoch: unit k holds the rows k * batch and following of
 * the order that the holder makes of the part from (seed, epoch, part), `batch` of them, fewer only
 * in the last unit. How many there are, if any, the holder finds out.
 */
struct ps_lease {
    uint64_t id; /* 0: none. Also the stream of the pushes made under it. */
    uint32_t epoch;
    uint64_t first_row;
    uint32_t unit_rows;
    uint64_t stride;
    uint32_t n_units;    /* Over parts 0: not known. */
    uint32_t units_done; /* Start here. */
    uint64_t clock;      /* The holder's clock when it was lent. */
    uint32_t part;       /* Over parts: which one, from 0. */
    bool over;           /* All its units are done: another one comes, or none. */
};

/** One table's weights or gradient: the whole tensor, row-major. */
struct ps_tensor {
    uint32_t table; /* Number. */
    float *values;  /* [n_elements of the table] A pull writes them; a push only reads them, and
                     * a const gradient may be cast. */
};

/**
 * Rows of one sparse table: their weights, or their gradient. A key without a row is answered with
 * its first weights, which are a function of (seed, table, key).
 */
struct ps_keyed {
    uint32_t table;       /* Number. */
    uint32_t n;           /* Keys; may be 0. */
    const uint64_t *keys; /* [n] Ascending, none twice; any 64 bits. */
    float *values;        /* [n][width] In the order of the keys; a push only reads them. */
};

/**
 * One step's work: rows of a lease, and what the step's pull and push say.
 *
 * Of a job over parts the program finds out where the part ends, and says so before the unit's push
 * and before ps_client_unit_done: n_rows = the rows that there are, 1 to batch, and last = true if
 * there are none behind them. A unit without rows (n_rows 0, last) is not pushed.
 */
struct ps_unit {
    uint64_t lease;  /* The push's stream, */
    uint32_t index;  /*   and its sequence: number of the unit in its lease. */
    uint64_t step;   /* The worker's clock: step of the pull and of the push. */
    uint32_t epoch;  /* From 0. */
    uint64_t first;  /* Its rows are ps_row_at(job, epoch, first + i), */
    uint32_t n_rows; /*   i = 0 ... n_rows - 1. None: there is no unit, the job is over. */
    bool last;       /* Of its lease: the unit behind it may be of a later step than the next. */
    uint32_t part;   /* Over parts: first is a place in this one, n_rows the most there may be. */
};

/** Figures of a worker since its session began. The library keeps them, for pushes of leases. */
struct ps_worker_stats {
    uint64_t units; /* Whose push was acknowledged. */
    uint64_t rows;
    uint64_t busy_us;            /* Since the first lease. */
    uint64_t blocked_bound_us;   /* Waiting for the staleness bound. */
    uint64_t blocked_network_us; /* Waiting for replies otherwise. */
    uint64_t blocked_lease_us;   /* Without a unit to do, while others trained. */
    uint64_t staleness_sum;      /* Clocks, over pushes. */
    uint64_t staleness_max;
};

/** Progress of a worker: absolute, so losing or repeating one is harmless. */
struct ps_worker_report {
    uint64_t clock;       /* The step that it may do next: all pushes below are acknowledged. */
    uint64_t lease;       /* 0: none. */
    uint32_t units_done;  /* Of that lease. */
    uint64_t staged_step; /* Aggregate: 1 + step of the staged unit; 0: none. */
    uint32_t staged_unit;
    uint32_t staged_rows;
    uint32_t loss_epoch; /* Training loss of this session in this epoch so far: */
    double loss_sum;     /*   summed over rows, */
    uint64_t loss_rows;  /*   so many. */
    bool lease_over;     /* Over parts: units_done is all that the lease has, */
    uint64_t lease_rows; /*   and the rows of these. */
    uint64_t held;       /* view.hold, while no unit is under way because of it; else 0. */
};

#ifdef __cplusplus
extern "C" {
#endif

/** Write 32 lower-case hexadecimal digits and a final 0 into `text`. */
PS_API void ps_id_text(const struct ps_id *id, char text[PS_ID_TEXT_BYTES]);

/** The id that `text` writes: 32 hexadecimal digits, nothing else. False: it is not one. */
PS_API bool ps_id_parse(const char *text, struct ps_id *ret);

/** "none", "waiting", "running", "done", "cluster lost", "stopped"; else "unknown". Static. */
PS_API const char *ps_job_state_text(enum ps_job_state state);

/**
 * The positions of one unit of a lease in its epoch's order: *ret_first and following.
 * @return how many; 0: none (a unit of an aggregated step may have none), or no such unit. Over
 * parts: places in the lease's part, and the most that there may be
 */
PS_API uint32_t ps_unit_rows(const struct ps_job_def *job, const struct ps_lease *lease,
                             uint32_t unit, uint64_t *ret_first);

/**
 * The row at a position of an epoch, from 0: with job->shuffle a permutation of all rows that is a
 * function of seed and epoch, the same for every worker; else the position itself.
 * @return UINT64_MAX when the job has no such position
 */
PS_API uint64_t ps_row_at(const struct ps_job_def *job, uint32_t epoch, uint64_t position);

#ifdef __cplusplus
}
#endif

#endif
