/*
 * test_crash.c — processes that die at every operation of the disk, with and without the power:
 * what was acknowledged is there, once and in order. The same plays find the planted bugs.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <check.h>

#include "lib/test_main.h"
#include "log/wal_format.h"
#include "unit/log/rig.h"
#include "unit/log/suites.h"

static struct ps_error err;

/* Appends in batches, with pauses now and then. */
static void script(struct rig *rig, uint32_t n_steps)
{
    for (uint32_t i = 0; i < n_steps && rig->n_failed == 0; i++) {
        rig_append(rig, i % 4 + 1);
        rig_pump(rig);
        if (i % 5 == 4) {
            rig_wait(rig, 150);
        }
    }
}

/* Start, dying at each operation of the start once, until it is done. */
static void start_with_crashes(struct rig *rig, struct ps_rng *rng, bool power)
{
    for (uint64_t at = 0;; at++) {
        ck_assert_uint_lt(at, 60);
        rig->disk.last_op = rig->disk.n_ops + at;
        enum ps_status status = rig_start(rig, &err);
        bool dead = rig->disk.n_ops >= rig->disk.last_op;
        ck_assert_msg(status == PS_OK || (dead && status == PS_ERR_IO), "%s", err.text);
        if (!dead) {
            fault_disk_heal(&rig->disk);
            return;
        }
        rig_kill(rig);
        if (power) {
            fault_disk_cut(&rig->disk, rng);
        }
    }
}

/* Level, and what ends the process. */
static const struct {
    bool sync;
    bool power;
} lives[] = {{true, true}, {true, false}, {false, false}};

START_TEST(a_process_that_dies_at_any_operation_has_lost_nothing)
{
    uint64_t n_torn = 0;
    uint64_t at = 0;
    bool died = true;
    for (; died; at++) {
        for (uint64_t seed = 0; seed < 4; seed++) {
            struct ps_rng rng = ps_rng_from(test_seed() * 1000 + at * 4 + seed);
            struct rig *rig = rig_create(1500, lives[_i].sync);
            ck_assert_int_eq(rig_start(rig, &err), PS_OK);
            rig->disk.last_op = rig->disk.n_ops + at;
            script(rig, 20);
            died = rig->disk.n_ops > rig->disk.last_op;
            rig_kill(rig);
            if (lives[_i].power) {
                fault_disk_cut(&rig->disk, &rng);
            }
            start_with_crashes(rig, &rng, lives[_i].power);
            n_torn += rig->n_torn > 0 ? 1 : 0;
            uint64_t n = rig->n_appended;
            rig->n_failed = 0;
            rig_append_each(rig, 5);
            ck_assert_uint_eq(rig->n_acked, n + 5);
            rig_kill(rig);
            if (lives[_i].power) {
                fault_disk_cut(&rig->disk, &rng);
            }
            ck_assert_msg(rig_start(rig, &err) == PS_OK, "operation %" PRIu64 ": %s", at, err.text);
            ck_assert_uint_ge(rig->n_appended, n + 5);
            rig_destroy(rig);
        }
    }
    ck_assert_uint_gt(at, 40);
    ck_assert(!lives[_i].power || n_torn > 20);
}
END_TEST

START_TEST(trimming_may_end_anywhere)
{
    uint64_t at = 0;
    bool died = true;
    for (; died; at++) {
        struct ps_rng rng = ps_rng_from(test_seed() + at);
        struct rig *rig = rig_create(1500, true);
        ck_assert_int_eq(rig_start(rig, &err), PS_OK);
        rig_append_each(rig, 40);
        rig_wait(rig, 150);
        char path[64];
        uint64_t lsn = 0;
        ck_assert(rig_segment(rig, 4, path));
        ck_assert(ps_wal_name_parse(path + strlen(RIG_DIR) + 1, &lsn));
        rig->disk.last_op = rig->disk.n_ops + at;
        ps_wal_trim(rig->wal, lsn);
        rig_pump(rig);
        died = rig->disk.n_ops > rig->disk.last_op;
        rig_kill(rig);
        fault_disk_cut(&rig->disk, &rng);
        struct ps_wal_visitor visitor = {0};
        struct ps_wal_recovered recovered;
        struct ps_wal_recovery recovery = {.disk = &rig->disk.base, .dir = RIG_DIR};
        for (int i = 0; i < 2; i++) { /* From what is there, and from what is needed. */
            enum ps_status status = ps_wal_recover(&recovery, &visitor, &recovered, &err);
            ck_assert_msg(status == PS_OK, "operation %" PRIu64 ": %s", at, err.text);
            ck_assert_uint_ge(recovered.end.next_lsn, 41);
            recovery.from_lsn = lsn;
        }
        rig_destroy(rig);
    }
    ck_assert_uint_gt(at, 7);
}
END_TEST

/* ---- Plays ----------------------------------------------------------------------------------- */

enum planted {
    CLEAN,
    ACK_BEFORE_SYNC,
    REORDER_EQUAL_LSN,
    DIR_NOT_SYNCED,
    MIDDLE_TRUNCATED
};

/* A bit of a record that the log itself says is durable; false: there is none. */
static bool rot(struct rig *rig, struct ps_rng *rng)
{
    char path[64];
    uint32_t n = 0;
    while (rig_segment(rig, n, path)) {
        n++;
    }
    if (n < 3 || !rig_segment(rig, (uint32_t)ps_rng_below(rng, n - 2), path)) {
        return false;
    }
    struct fault_content *content = fault_disk_content(&rig->disk, path);
    uint64_t n_records =
        content->n_bytes - PS_WAL_SEGMENT_HEAD_BYTES - PS_WAL_HEAD_BYTES - PS_WAL_HEAD_BYTES;
    content->data[PS_WAL_SEGMENT_HEAD_BYTES + ps_rng_below(rng, n_records)] ^=
        (uint8_t)(1u << ps_rng_below(rng, 8));
    return true;
}

/* Several lives by chance. @return PS_OK: no promise was broken; else how it was noticed */
static enum ps_status play(uint64_t seed, enum planted planted)
{
    struct ps_rng rng = ps_rng_from(seed);
    struct rig *rig = rig_create(600 + ps_rng_below(&rng, 2000), true);
    rig->options.plant.ack_before_sync = planted == ACK_BEFORE_SYNC;
    rig->options.plant.reorder_equal_lsn = planted == REORDER_EQUAL_LSN;
    rig->options.plant.dir_not_synced = planted == DIR_NOT_SYNCED;
    rig->plant_middle_truncated = planted == MIDDLE_TRUNCATED;
    enum ps_status status = rig_start(rig, &err);
    ck_assert_int_eq(status, PS_OK);
    for (int life = 0; life < 3 && status == PS_OK; life++) {
        rig->disk.last_op = rig->disk.n_ops + ps_rng_below(&rng, 120);
        for (int i = 0; i < 40 && rig->disk.n_ops < rig->disk.last_op; i++) {
            rig_append(rig, 1 + (uint32_t)ps_rng_below(&rng, 5));
            if (ps_rng_below(&rng, 3) > 0) {
                rig_wait(rig, ps_rng_below(&rng, 4) == 0 ? 120 : 0);
            }
        }
        rig_kill(rig);
        fault_disk_cut(&rig->disk, &rng);
        bool rotten = ps_rng_below(&rng, 4) == 0 && rot(rig, &rng);
        status = rig_start(rig, &err);
        if (rotten && status == PS_ERR_CORRUPT) { /* As it should be. */
            status = PS_OK;
            break;
        }
    }
    rig_destroy(rig);
    return status;
}

START_TEST(lives_by_chance_break_no_promise)
{
    uint64_t n = test_count("PS_TEST_LOG_SEEDS", 400);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t seed = test_seed() * 1000003 + i;
        enum ps_status status = play(seed, CLEAN);
        ck_assert_msg(status == PS_OK, "seed %" PRIu64 ": %s", seed, err.text);
    }
}
END_TEST

/* Each is found within so many plays. */
static const struct {
    const char *name;
    enum planted planted;
    uint64_t n_seeds;
} bugs[] = {
    {"ack-before-sync", ACK_BEFORE_SYNC, 40},
    {"reorder-equal-lsn", REORDER_EQUAL_LSN, 40},
    {"dir-not-synced", DIR_NOT_SYNCED, 40},
    {"middle-truncated", MIDDLE_TRUNCATED, 40},
};

START_TEST(planted_bugs_are_found)
{
    for (uint64_t base = 1; base <= 3; base++) {
        uint64_t i = 0;
        while (i < bugs[_i].n_seeds && play(base * 1000 + i, bugs[_i].planted) == PS_OK) {
            i++;
        }
        ck_assert_msg(i < bugs[_i].n_seeds, "%s is not found", bugs[_i].name);
        (void)printf("%s: base seed %" PRIu64 ": play %" PRIu64 ": %s\n", bugs[_i].name, base,
                     i + 1, err.text);
    }
}
END_TEST

Suite *suite_crash(void)
{
    Suite *suite = suite_create("crash");
    TCase *tcase = tcase_create("all");
    tcase_set_timeout(tcase, 600);
    tcase_add_loop_test(tcase, a_process_that_dies_at_any_operation_has_lost_nothing, 0,
                        sizeof(lives) / sizeof(lives[0]));
    tcase_add_test(tcase, trimming_may_end_anywhere);
    tcase_add_test(tcase, lives_by_chance_break_no_promise);
    tcase_add_loop_test(tcase, planted_bugs_are_found, 0, sizeof(bugs) / sizeof(bugs[0]));
    suite_add_tcase(suite, tcase);
    return suite;
}
