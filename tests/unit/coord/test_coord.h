#ifndef PS_TESTS_UNIT_COORD_TEST_COORD_H
#define PS_TESTS_UNIT_COORD_TEST_COORD_H
/*
 * unit/coord/test_coord.h — the suites of this executable, and a coordinator core to play with.
 *
 * The bench holds a core with two servers that acknowledge whatever they are told, unless a test
 * holds them back, and moves its time.
 */
#include <signal.h>
#include <stdbool.h>

#include "coord/coord_core.h"
#include "lib/test_main.h"

#define BENCH_SERVERS 2u

struct bench {
    struct ps_coord_core core;
    uint64_t now_ms;
    uint32_t server[BENCH_SERVERS];
    void *pool_memory;
};

Suite *suite_lease_core(void);
Suite *suite_lease_parts(void);
Suite *suite_member_core(void);
Suite *suite_coord_core(void);
Suite *suite_coord_random(void);
Suite *suite_life_random(void);
Suite *suite_server_core(void);

/** Two servers have joined, or none yet. */
void bench_init(struct bench *bench, bool placed);
void bench_deinit(struct bench *bench);
uint32_t bench_join(struct bench *bench, enum ps_coord_kind kind, uint32_t number,
                    enum ps_status *ret_status);
/** Let server `i` acknowledge everything that is true now. */
void bench_ack(struct bench *bench, uint32_t i);
void bench_ack_all(struct bench *bench);
/** Join a worker and have the servers take it in. */
uint32_t bench_worker(struct bench *bench, uint32_t number);
void bench_define(struct bench *bench, const struct ps_lease_job *job,
                  const struct ps_coord_consistency *consistency);
/** Let time pass in steps of a tick, with signs of life of everybody but `silent`. */
void bench_pass(struct bench *bench, uint32_t ms, uint32_t silent);
/** One report of plain progress. */
void bench_report(struct bench *bench, uint32_t member, uint64_t clock, uint64_t lease,
                  uint32_t units_done);
/** One report that the next unit of its lease is staged. */
void bench_stage(struct bench *bench, uint32_t member, uint32_t rows);

#endif
