#ifndef PS_TESTS_UNIT_COORD_LIFE_H
#define PS_TESTS_UNIT_COORD_LIFE_H
/*
 * unit/coord/life.h — a cluster as one table of facts, for schedules in which everybody dies and
 * comes back: test_life_random.c plays it, life_store.c is its store, its cuts and its takeovers.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"
#include "coord/back_core.h"
#include "test_coord.h"

#define WORKERS      4u
#define SERVERS      BENCH_SERVERS
#define STEPS_FAULTY 2500u
#define STEPS_QUIET  12000u
#define LEASES_MOST  32u
#define UNITS_MOST   4u
#define CUTS_MOST    8u
#define JOINS_MOST   2048u

/* A worker process. */
struct player {
    bool up;
    uint32_t number; /* Of its session, as it was made up. */
    uint64_t term;   /* Heard. */
    uint64_t clock;
    uint64_t lease;
    uint32_t n_units, units_done;
    uint32_t pushed; /* Servers that have the unit in hand. */
    uint64_t staged_step;
    uint64_t held;
};

/* What a server has applied. */
struct line {
    uint8_t applied[LEASES_MOST + 1][UNITS_MOST];
    uint64_t closed_steps;
};

struct server {
    bool up;
    bool lost; /* Its data, too. */
    uint64_t down_ms;
    uint32_t incarnation;
    uint32_t member;
    uint64_t term;
    struct line line;
    uint64_t position; /* Of every slot. */
    uint64_t generation, view, placement, sessions, finished;
    bool open[JOINS_MOST]; /* By a session's number. */
    uint64_t taken, written;
    uint64_t epoch; /* Of its slots, and which process heard it first. */
    uint32_t epoch_incarnation;
};

struct taken {
    uint64_t generation, number, min_clock;
    bool complete;
    struct ps_lease_range finished[PS_LEASE_RANGES_MAX];
    size_t n_finished;
    struct ps_lease_begun begun[LEASES_MOST];
    size_t n_begun;
    struct line parts[SERVERS];
};

struct world {
    struct bench bench;
    struct ps_rng rng;
    uint64_t seed;
    const char *broke;
    enum ps_coord_plant plant;
    bool averaging;
    bool faulty;
    uint32_t n_joined;
    uint64_t term;
    struct player players[WORKERS];
    struct server servers[SERVERS];
    struct taken cuts[CUTS_MOST];
    uint32_t n_cuts;
    struct ps_coord_core store; /* As it was written last. */
    uint8_t store_pool[4096];
    void *memory;
    size_t memory_bytes;
    uint64_t told, told_generation; /* The highest min clock that anybody was told. */
    uint32_t n_takeovers, n_returns, n_backs, n_complete;
};

extern struct world world;
extern const struct ps_lease_job life_jobs[2]; /* Plain, averaged. */

#define CORE (&world.bench.core)

/** The first promise that is broken ends the run. */
void note_promise(bool kept, const char *promise);
#define CHECK(expr) note_promise((expr), #expr)

struct ps_id session_of(uint32_t kind, uint32_t number);
struct ps_coord_core_options core_options(void);
/** The cut of that name; NULL: it was forgotten. */
struct taken *cut_at(uint64_t generation, uint64_t number);
/** What follows an event: write, then everybody may hear. */
void flush(void);
/** The shell's part of every flush, and the flush. */
void work_and_flush(void);
/** The coordinator dies; the next one knows what the store has. */
void take_over(void);

#endif
