#ifndef PS_TESTS_SIM_SIM_LEDGER_H
#define PS_TESTS_SIM_SIM_LEDGER_H
/*
 * sim/sim_ledger.h — the checker: its own record of what was asked, acknowledged and seen.
 *
 * Every unit of the job owns two elements in every block of every table; its push adds 1 to them
 * and to nothing else. Of a sparse table it owns SIM_ROWS_EACH rows of two elements, and pushes a
 * neighbour's beside each, with zeros; the rows are blocks here, whose elements lie in many slots.
 * So the content of a pull says which units it holds, block by block:
 *
 *   0 or 1, nothing else   no push is applied twice, none comes from nowhere
 *   both elements alike    no block is seen half changed
 *   never back to 0        what one look has shown, every later look shows
 *   acknowledged -> 1      in every look that begins after the acknowledgement
 *   the bound              a look for step p holds every unit that was ever acknowledged at a step
 *                          below p - s, whenever that acknowledgement comes: if it comes later, the
 *                          look was answered before its time
 *
 * With aggregation a push adds G = 60, and the average over the k units of a step turns that into
 * 60 n / N: what counts then is the value, which names N, and must be the same in all blocks.
 *
 * When acknowledged bytes were destroyed (`damaged`), pulls may lack them until somebody notices;
 * in the end the job has gone back to a cut, or is lost, or nothing is missing.
 *
 * It uses nothing of the code under test: only the workers' calls and the numbers in their buffers.
 */
#include <stdbool.h>
#include <stdint.h>

#include "sim/sim_plan.h"
#include "sim/sim_world.h"

#define SIM_BLOCKS_MAX   40u
#define SIM_LOOKS_MAX    2048u
#define SIM_ACKS_MAX     1024u
#define SIM_TRIES_MAX    16u   /* Per unit; more are not remembered. */
#define SIM_BLOCK_FLOATS 4096u /* Of tables with less than 64 * 4096 elements. */
#define SIM_ROWS_EACH    4u    /* Rows of a unit. */
#define SIM_ROWS_NOBODY  3u    /* In each run of rows: pulled, never pushed. */
#define SIM_ROWS_MAX     (SIM_ROWS_EACH * (SIM_UNITS_MAX + SIM_ROWS_NOBODY))
#define SIM_ROW_FLOATS   2u
#define SIM_GRADIENT     60.0f /* Aggregated: divisible by 1 to 6. */

struct sim_block {
    uint32_t table;
    uint32_t first; /* In the flat array of all tables. */
    uint32_t n_floats;
    bool rows; /* Of the sparse table: unit u's elements are 2 u and 2 u + 1. */
};

/** One pull, from its start to its judgement. */
struct sim_look {
    uint32_t who;  /* Node number. */
    uint64_t step; /* 0 for readers. */
    uint64_t need; /* Every unit of a step below is in. */
    uint64_t began_ns;
    uint64_t ended_ns;
    uint64_t holds[SIM_UNITS_MAX / 64]; /* Units that every block holds. */
};

struct sim_ack {
    uint32_t unit;
    uint32_t who;
    uint64_t step;
    uint64_t at_ns;
};

struct sim_unit {
    uint64_t first_row;
    uint32_t n_rows;
    uint32_t epoch;
    bool known;        /* Some worker held it: rows and epoch are set. */
    bool acked;        /* Applied, as far as a worker was told. */
    bool void_acked;   /* In an earlier generation; perhaps the cut has it. */
    uint64_t acked_ns; /* First time. */
    uint64_t acked_step;
    uint64_t tries[SIM_TRIES_MAX]; /* Steps at which pushes of it began. */
    uint32_t n_tries;
    bool tried;                       /* In this generation. */
    float value;                      /* As first seen; 0: not seen. */
    uint64_t seen_ns[SIM_BLOCKS_MAX]; /* First look that showed it, ended; 0: none. */
};

struct sim_ledger {
    struct sim_world *world;
    const struct sim_plan *plan;
    uint32_t n_units;
    uint32_t n_blocks;
    uint32_t n_floats; /* Over all tables. */
    uint32_t table_first[SIM_TABLES_MAX];
    struct sim_block blocks[SIM_BLOCKS_MAX];
    uint32_t rows_first; /* In the flat array: the rows, by key. */
    uint32_t n_rows;     /* 0: no sparse table. */
    uint64_t row_keys[SIM_ROWS_MAX];
    uint32_t n_acked; /* Units. */
    uint32_t n_back;  /* The job went back to a cut so often. */
    bool damaged;     /* Acknowledged bytes were destroyed; until the job goes back or ends. */
    bool early;       /* A pull came with a min clock below its bound: `early_look`. */
    struct sim_look early_look;
    uint32_t n_looks;
    uint32_t n_acks;
    struct sim_unit units[SIM_UNITS_MAX];
    struct sim_ack acks[SIM_ACKS_MAX];
    struct sim_look looks[SIM_LOOKS_MAX];
};

struct sim_ledger *sim_ledger_create(struct sim_world *world, const struct sim_plan *plan);
void sim_ledger_destroy(struct sim_ledger *ledger);

/** Put the gradient of a unit into (or, with 0, take it out of) a flat array of all tables. */
void sim_ledger_write(const struct sim_ledger *ledger, uint32_t unit, float gradient,
                      float *values);

/**
 * The rows that a push of the unit names, at most 2 * SIM_ROWS_EACH: keys ascending, gradients out
 * of the flat array. @return how many
 */
uint32_t sim_ledger_rows(const struct sim_ledger *ledger, uint32_t unit, const float *values,
                         uint64_t *keys, float *gradients);

/** A worker holds this unit. */
void sim_ledger_known(struct sim_ledger *ledger, uint32_t unit, uint32_t epoch, uint64_t first_row,
                      uint32_t n_rows);
/** A push of it begins. */
void sim_ledger_try(struct sim_ledger *ledger, uint32_t unit, uint64_t step);
/** It was acknowledged (aggregated: known to be in its step's list) at `step` of node `who`. */
void sim_ledger_ack(struct sim_ledger *ledger, uint32_t unit, uint32_t who, uint64_t step);

/** A worker was lent its lease from the next unit on: this one was done, by whoever. */
void sim_ledger_lent_done(struct sim_ledger *ledger, uint32_t unit, uint32_t who);

/**
 * The job went back to a cut of which the first server heard at `taken_ns`: what was acknowledged
 * before is in it, all else is void until somebody shows it again.
 */
void sim_ledger_back(struct sim_ledger *ledger, uint64_t taken_ns);

/** A pull begins. */
struct sim_look sim_ledger_begin(const struct sim_ledger *ledger, uint32_t who, uint64_t step);
/** It has ended: judge what it brought; `min_clock` is what came with it. */
void sim_ledger_judge(struct sim_ledger *ledger, struct sim_look *look, const float *values,
                      uint64_t min_clock);

/** Was every pull told a min clock that its bound allows? Asked last: content comes first. */
void sim_ledger_check_clocks(struct sim_ledger *ledger);

/**
 * Aggregated, at the end: every step divided by exactly the rows of its units. What the dead had
 * staged may be in without any worker having been told: then its value says in which of the steps
 * at which it was tried, and it counts as acknowledged from now on. In sim_average.c.
 */
void sim_average_close(struct sim_ledger *ledger);

/** After all is done and quiet: the whole job must be in `values`, each row once an epoch. */
void sim_ledger_close(struct sim_ledger *ledger, const float *values);

#endif
