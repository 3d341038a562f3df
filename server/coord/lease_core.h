#ifndef PS_SERVER_COORD_LEASE_CORE_H
#define PS_SERVER_COORD_LEASE_CORE_H
/*
 * coord/lease_core.h — the training data of a job, cut into leases, and which of them are lent.
 *
 * The cut is a function of the job definition alone, so a lease id names the same rows for ever:
 *
 *     id = 1 + epoch * n_parts + part          part = (run of steps) * n_ways + way
 *
 * Plain jobs have one way: a unit is a batch. Aggregated jobs have a way per worker: every batch is
 * cut into n_ways units, and lease (p, w) holds the w-th unit of each step of run p.
 *
 * A job over parts has a lease for each part in each epoch. Which one it is depends on (seed,
 * epoch); how many units it has is known when its holder says that it is over.
 *
 * Pure. The pool's arrays lie in memory that the caller gives.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/limits.h"

#define PS_UNITS_PER_LEASE_MAX  65536u /* More would make a lost lease cost hours. */
#define PS_UNITS_PER_LEASE_AUTO 64u    /* Upper bound of the coordinator's own choice. */
#define PS_LEASES_PER_WORKER    8u     /* Aimed at per epoch: evens out workers of unequal speed. */
/* Row numbers and their products with small factors stay far from the end of 64 bits. */
#define PS_LEASE_ROWS_MAX ((uint64_t)1 << 48)
/*
 * Leases are lent lowest id first, so holes in the finished ids are those that are lent, and over
 * parts the leases of the same parts in the next epoch.
 */
#define PS_LEASE_RANGES_MAX (2u * PS_SESSIONS_MAX + 1u)

/* What the cut depends on. */
struct ps_lease_job {
    uint64_t rows;
    uint32_t batch;
    uint32_t epochs;
    uint32_t workers;
    uint32_t units_per_lease; /* 0: chosen. */
    bool aggregate;
    uint32_t parts; /* Not 0: of rows that nobody has counted; rows and units_per_lease are 0. */
    bool shuffle;   /* The parts come in another order in each epoch, */
    uint64_t seed;  /*   a function of this. */
};

struct ps_lease_plan {
    uint64_t rows;
    uint64_t n_steps; /* Batches per epoch. */
    uint32_t batch;
    uint32_t epochs;
    uint32_t n_ways;          /* Units of one batch. */
    uint32_t unit_rows;       /* Rows of a unit, at most. */
    uint32_t units_per_lease; /* All but the last run of an epoch. */
    uint32_t n_parts;         /* Leases per epoch. */
    uint32_t n_leases;
    bool uncounted; /* Over parts: no rows, steps and units per lease are known. */
    bool shuffle;   /* As of the job: only what is uncounted is lent in another order. */
    uint64_t seed;
};

struct ps_lease_view {
    uint64_t id;
    uint64_t first_row;
    uint64_t stride;
    uint32_t epoch;
    uint32_t unit_rows; /* 0: the batch has fewer rows than ways; no unit of the lease has rows. */
    uint32_t n_units;   /* Uncounted: 0, not known. */
    uint32_t part;      /* Uncounted: which one; else 0. */
};

/* What a holder says of its lease. */
struct ps_lease_news {
    uint32_t units_done;
    bool over;     /* Uncounted: there are no more. */
    uint64_t rows; /* Uncounted: of these units. */
};

struct ps_lease_range { /* Ids first to last, both included. */
    uint64_t first;
    uint64_t last;
};

enum ps_lease_state {
    PS_LEASE_FREE,
    PS_LEASE_LENT,
    PS_LEASE_FINISHED
};

struct ps_lease_pool {
    struct ps_lease_plan plan;
    uint32_t *units_done;       /* [n_leases] */
    uint8_t *state;             /* [n_leases] of enum ps_lease_state. */
    uint32_t *n_trained;        /* [n_parts] How often the rows of a part were finished. */
    uint64_t *epoch_units_done; /* [epochs] */
    uint32_t *epoch_finished;   /* [epochs] Leases. */
    uint64_t *part_rows;        /* [n_parts] Uncounted: as first finished. */
    uint64_t rows;              /* Of the data; uncounted: of the parts ever finished. */
    uint64_t units_done_total;
    uint64_t free_from;     /* No id below is free. */
    uint64_t finished_from; /* Every id below is finished. */
    uint64_t lent_below;    /* No id from here on was ever lent. */
    uint32_t n_finished;
};

/** Cut a job. @return PS_ERR_INVALID with the reason when the numbers make no job. */
PS_MUST_CHECK enum ps_status ps_lease_plan_make(const struct ps_lease_job *job,
                                                struct ps_lease_plan *ret, struct ps_error *err);

/** The lease called `id`, 1 to n_leases. */
struct ps_lease_view ps_lease_at(const struct ps_lease_plan *plan, uint64_t id);

/** May the lease have so many units? */
bool ps_lease_may_have(const struct ps_lease_plan *plan, uint64_t id, uint32_t n_units);

/** Rows of a counted lease's unit; `*ret_first` is the position of the first in the epoch's order.
 */
uint32_t ps_lease_rows(const struct ps_lease_plan *plan, uint64_t id, uint32_t unit,
                       uint64_t *ret_first);

/** Bytes that the arrays of a pool need. */
size_t ps_lease_pool_bytes(const struct ps_lease_plan *plan);

/** Start with every lease free. `memory` is zeroed, 8-byte aligned and outlives the pool. */
void ps_lease_pool_init(struct ps_lease_pool *pool, const struct ps_lease_plan *plan, void *memory);

/* How far a job has come, as it was written down. Numbers are foreign until they are taken in. */
struct ps_lease_begun {
    uint64_t id;
    uint32_t units_done;
};

struct ps_lease_progress {
    const struct ps_lease_range *finished; /* [n_finished] Ascending. */
    size_t n_finished;
    const struct ps_lease_begun *begun; /* [n_begun] Unfinished ones. */
    size_t n_begun;
    const uint64_t *part_rows; /* [n_part_rows] Uncounted: 1 + rows of each; 0: not counted yet. */
    size_t n_part_rows;
};

/** Take in how far a job has come; right after ps_lease_pool_init. @return PS_ERR_CORRUPT */
PS_MUST_CHECK enum ps_status ps_lease_pool_resume(struct ps_lease_pool *pool,
                                                  const struct ps_lease_progress *progress,
                                                  struct ps_error *err);

/** Lend a certain lease again; false when it is not free. Any number. */
PS_MUST_CHECK bool ps_lease_pool_take(struct ps_lease_pool *pool, uint64_t id);

/** Unfinished leases of which something is done, lowest first. @return how many, at most `most` */
size_t ps_lease_pool_begun(const struct ps_lease_pool *pool, struct ps_lease_begun *begun,
                           size_t most);

/**
 * Lend the free lease with the lowest id; 0 when none is free. Over parts those are passed over
 * whose part is still lent, or waits, in the epoch before.
 */
uint64_t ps_lease_pool_lend(struct ps_lease_pool *pool);

/** A lent lease comes back unfinished; its units_done stay. */
void ps_lease_pool_return(struct ps_lease_pool *pool, uint64_t id);

/**
 * Note that units below `units_done` of a lent lease are applied; a lower number changes nothing.
 * Rows that so many units cannot have count as the nearest number that they can.
 * @return true when that finished the lease
 */
bool ps_lease_pool_advance(struct ps_lease_pool *pool, uint64_t id,
                           const struct ps_lease_news *news);

bool ps_lease_pool_done(const struct ps_lease_pool *pool);

uint32_t ps_lease_units_done(const struct ps_lease_pool *pool, uint64_t id);

/** The finished ids as ascending ranges. @return how many, at most PS_LEASE_RANGES_MAX */
uint32_t ps_lease_pool_finished(const struct ps_lease_pool *pool,
                                struct ps_lease_range ranges[PS_LEASE_RANGES_MAX]);

/** Fewest and most times that a row was finished, over all rows of the data. A part that was never
 * finished counts as one with rows. */
void ps_lease_pool_trained(const struct ps_lease_pool *pool, uint32_t *ret_min, uint32_t *ret_max);

#endif
