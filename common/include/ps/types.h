#ifndef PS_TYPES_H
#define PS_TYPES_H
/*
 * ps/types.h — the plain values of <ps/client.h>: names, errors, tables, jobs, leases, figures.
 *
 * Structs are plain data. A zeroed one is valid wherever its comment says what zero means, so
 * `= {0}` (C) or `{}` (C++) and then the fields that matter is the way to fill one in; that also
 * keeps a program right when a later version adds fields at the end. C99, C++11.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ps/status.h>

/** The compiler warns when the result is thrown away. */
#define PS_MUST_CHECK __attribute__((warn_unused_result))

#define PS_ERROR_TEXT_BYTES 256
#define PS_ID_TEXT_BYTES    33 /* 32 hexadecimal digits and the final 0. */
#define PS_DIMS_MAX         8u /* Rank of a dense table's shape. */
#define PS_NAME_BYTES_MAX   63u

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
    PS_JOB_NONE,    /* Nobody has defined one. 0, and so on. */
    PS_JOB_WAITING, /* For servers, workers, or the definition. */
    PS_JOB_RUNNING,
    PS_JOB_DONE,         /* Every lease is finished. */
    PS_JOB_CLUSTER_LOST, /* A server is gone and with it data. */
    PS_JOB_STOPPED       /* Somebody asked for the end. */
};

enum ps_consistency_mode {
    PS_CONSISTENCY_NONE, /* Not stated. */
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

/** A dense table of float32, and the rule by which pushes change it. */
struct ps_table_def {
    const char *name; /* 1 to 63 bytes of [a-z0-9_.] */
    uint32_t n_dims;  /* 1 to PS_DIMS_MAX. */
    uint64_t shape[PS_DIMS_MAX];
    enum ps_init_kind init_kind;
    float init_scale;
    uint64_t seed;         /* Element i starts as a function of (seed, name, i). */
    const char *optimizer; /* sgd, momentum, adagrad, adam, adamw */
    float momentum;
    float beta1;
    float beta2;
    float epsilon;
    float weight_decay;
    float l2;
};

/** A table that exists. */
struct ps_table {
    uint32_t number; /* What pulls and pushes name it by. */
    uint32_t n_dims;
    uint64_t shape[PS_DIMS_MAX];
    uint64_t n_elements;
    char name[PS_NAME_BYTES_MAX + 1];
    char optimizer[PS_NAME_BYTES_MAX + 1];
};

/** A training run over `rows` rows that are lent to workers in leases. */
struct ps_job_def {
    const char *model; /* Free text; workers that say otherwise are refused (PS_ERR_EXISTS). */
    const char *data;  /* Identity of the data, likewise. */
    uint64_t rows;
    uint32_t batch; /* Rows a step; with aggregate the global batch. */
    uint32_t epochs;
    bool shuffle;
    uint64_t seed;
    uint32_t workers;          /* Training starts when so many have joined, */
    uint32_t start_timeout_ms; /*   or when this has passed since the first; 0: wait for ever. */
    struct ps_consistency consistency;
    uint32_t units_per_lease; /* 0: the coordinator chooses. */
};

/**
 * A lent part of the data. Unit k (0 <= k < n_units), the rows of one step, covers the positions
 * [a, b) of the epoch's order with a = first_row + k * stride and
 * b = min(a + unit_rows, end of its batch, rows of the data), where its batch is the multiple of
 * `batch` rows that contains a; b <= a: no rows.
 */
struct ps_lease {
    uint64_t id; /* 0: none. Also the stream of the pushes made under it. */
    uint32_t epoch;
    uint64_t first_row;
    uint32_t unit_rows;
    uint64_t stride;
    uint32_t n_units;
    uint32_t units_done; /* Start here. */
    uint64_t clock;      /* The holder's clock when it was lent. */
};

/** One table's weights or gradient: the whole tensor, row-major. */
struct ps_tensor {
    uint32_t table; /* Number. */
    float *values;  /* [n_elements of the table]; a push only reads them. */
};

/** Figures of a worker since its session began. */
struct ps_worker_stats {
    uint64_t units;
    uint64_t rows;
    uint64_t busy_us;            /* Since the first lease. */
    uint64_t blocked_bound_us;   /* Waiting for the staleness bound. */
    uint64_t blocked_network_us; /* Waiting for replies otherwise. */
    uint64_t blocked_lease_us;   /* Holding no lease. */
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
    uint32_t loss_epoch;
    double loss_sum;
    uint64_t loss_rows;
    struct ps_worker_stats stats;
};

#endif
