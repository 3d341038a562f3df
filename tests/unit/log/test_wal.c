/*
 * test_wal.c — a log as its lanes see it: batches, order, notes, segments, a full disk, a broken
 * one.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <check.h>

#include "base/attr.h"
#include "log/wal_format.h"
#include "unit/log/rig.h"
#include "unit/log/suites.h"

static struct ps_error err;

static struct rig *started(uint64_t segment_bytes, bool sync)
{
    struct rig *rig = rig_create(segment_bytes, sync);
    ck_assert_msg(rig_start(rig, &err) == PS_OK, "%s", err.text);
    return rig;
}

static uint64_t count(struct rig *rig)
{
    uint64_t n = 0;
    enum ps_status status = rig_read(rig, &n, &err);
    ck_assert_msg(status == PS_OK, "%s", err.text);
    return n;
}

START_TEST(what_was_appended_comes_back_in_order)
{
    struct rig *rig = started(4096, _i == 1);
    for (uint32_t n = 1; rig->n_appended < 200; n = n % 9 + 1) {
        rig_append(rig, n);
        rig_pump(rig);
        ck_assert_uint_eq(rig->n_acked, rig->n_appended);
    }
    char path[64];
    ck_assert(rig_segment(rig, 5, path)); /* Over several segments. */
    ck_assert_uint_eq(count(rig), rig->n_appended);
    uint64_t n = rig->n_appended;
    rig_kill(rig);
    ck_assert_int_eq(rig_start(rig, &err), PS_OK);
    ck_assert_uint_eq(rig->n_appended, n);
    rig_append_each(rig, 20);
    ck_assert_uint_eq(count(rig), n + 20);
    rig_destroy(rig);
}
END_TEST

START_TEST(what_arrives_together_is_one_write_and_one_sync)
{
    struct rig *rig = started(1 << 20, true);
    uint64_t n_writes = rig->disk.n_writes;
    uint64_t n_syncs = rig->disk.n_syncs;
    rig_append(rig, 100);
    ck_assert_uint_eq(rig->disk.n_writes, n_writes); /* Nothing happens inside append. */
    rig_pump(rig);
    ck_assert_uint_eq(rig->disk.n_writes, n_writes + 1);
    ck_assert_uint_eq(rig->disk.n_syncs, n_syncs + 1);
    ck_assert_uint_eq(rig->n_acked, 100);
    for (uint32_t i = 0; i < RIG_LANES; i++) { /* And one mail per lane. */
        ck_assert_uint_eq(rig->lanes[i].n_mails, 1);
    }
    ck_assert_uint_eq(ps_wal_reported(rig->wal), 100);
    rig_destroy(rig);
}
END_TEST

START_TEST(without_sync_nothing_is_synced)
{
    struct rig *rig = started(4096, false);
    uint64_t n_syncs = rig->disk.n_syncs;
    rig_append_each(rig, 100);
    ck_assert_uint_eq(rig->n_acked, 100);
    ck_assert_uint_eq(rig->disk.n_syncs, n_syncs);
    rig_destroy(rig);
}
END_TEST

START_TEST(an_idle_log_notes_once_that_all_is_durable)
{
    struct rig *rig = started(1 << 20, true);
    rig_append(rig, 3);
    rig_pump(rig);
    uint64_t n_writes = rig->disk.n_writes;
    uint64_t n_syncs = rig->disk.n_syncs;
    rig_wait(rig, 99);
    ck_assert_uint_eq(rig->disk.n_writes, n_writes);
    rig_wait(rig, 1);
    ck_assert_uint_eq(rig->disk.n_writes, n_writes + 1);
    ck_assert_uint_eq(rig->disk.n_syncs, n_syncs + 1);
    for (int i = 0; i < 5; i++) {
        rig_wait(rig, 1000);
    }
    ck_assert_uint_eq(rig->disk.n_writes, n_writes + 1);
    ck_assert_uint_eq(ps_wal_reported(rig->wal), 4); /* The note has a number, too. */
    rig_append_each(rig, 1);
    ck_assert_uint_eq(count(rig), 4);
    rig_destroy(rig);
}
END_TEST

/* ---- Tables and generations ------------------------------------------------------------------ */

struct others {
    struct ps_wal_done done[3];
    uint32_t n_done;
    uint32_t n_tables;
    uint32_t n_generations;
    uint64_t last_lsn;
};

static struct others others;

static void done(struct ps_mail *mail)
{
    (void)mail;
    others.n_done++;
}

static enum ps_status see_table(void *arg, uint64_t lsn, uint32_t number, const uint8_t *bytes,
                                size_t n_bytes, struct ps_error *error)
{
    (void)arg;
    (void)error;
    ck_assert_uint_eq(number, 7);
    ck_assert_uint_eq(n_bytes, 5);
    ck_assert_mem_eq(bytes, "table", 5);
    others.n_tables++;
    others.last_lsn = lsn;
    return PS_OK;
}

static enum ps_status see_generation(void *arg, uint64_t lsn, uint64_t generation, const char *dir,
                                     const char *cut, struct ps_error *error)
{
    (void)arg;
    (void)error;
    ck_assert_uint_eq(generation, 3);
    ck_assert_str_eq(dir, "/snapshots");
    ck_assert_str_eq(cut, "000002-0000000009");
    others.n_generations++;
    others.last_lsn = lsn;
    return PS_OK;
}

static void prepare_done(struct rig *rig)
{
    memset(&others, 0, sizeof(others));
    for (size_t i = 0; i < PS_ARRAY_LEN(others.done); i++) {
        others.done[i] = (struct ps_wal_done){
            .mail.run = done, .exec = &rig->home.base, .status = PS_ERR_INTERNAL};
    }
}

START_TEST(tables_and_generations_stand_among_the_records)
{
    struct rig *rig = started(4096, true);
    prepare_done(rig);
    rig_append(rig, 2);
    ps_wal_table(rig->wal, 7, (const uint8_t *)"table", 5, &others.done[0]);
    rig_append(rig, 2);
    ps_wal_generation(rig->wal, 3, "/snapshots", "000002-0000000009", &others.done[1]);
    rig_append(rig, 1);
    ck_assert_uint_eq(others.n_done, 0);
    rig_pump(rig);
    ck_assert_uint_eq(others.n_done, 2);
    ck_assert_int_eq(others.done[0].status, PS_OK);
    ck_assert_int_eq(others.done[1].status, PS_OK);
    ck_assert_uint_eq(count(rig), 5);
    struct ps_wal_visitor visitor = {.table = see_table, .generation = see_generation};
    struct ps_wal_recovery recovery = {.disk = &rig->disk.base, .dir = RIG_DIR};
    struct ps_wal_recovered recovered;
    ck_assert_int_eq(ps_wal_recover(&recovery, &visitor, &recovered, &err), PS_OK);
    ck_assert_uint_eq(others.n_tables, 1);
    ck_assert_uint_eq(others.n_generations, 1);
    ck_assert_uint_eq(others.last_lsn, 6);
    ck_assert_uint_eq(recovered.n_records, 2);
    recovery.from_lsn = 6;
    ck_assert_int_eq(ps_wal_recover(&recovery, &visitor, &recovered, &err), PS_OK);
    ck_assert_uint_eq(others.n_tables, 1);
    ck_assert_uint_eq(others.n_generations, 2);
    rig_destroy(rig);
}
END_TEST

START_TEST(a_log_that_stops_has_written_and_noted_everything)
{
    struct rig *rig = started(4096, _i == 1);
    prepare_done(rig);
    rig_append(rig, 30);
    ps_wal_stop(rig->wal, &others.done[0]);
    rig_pump(rig);
    ck_assert_uint_eq(others.n_done, 1);
    ck_assert_int_eq(others.done[0].status, PS_OK);
    ck_assert_uint_eq(rig->n_acked, 30);
    struct ps_rng rng = ps_rng_from(5);
    rig_kill(rig);
    fault_disk_cut(&rig->disk, &rng); /* Synced, whatever the level. */
    if (_i == 1) {
        ck_assert_uint_eq(count(rig), 30);
    }
    rig_destroy(rig);
}
END_TEST

/* ---- Segments -------------------------------------------------------------------------------- */

START_TEST(a_record_that_is_longer_than_a_segment_gets_one)
{
    struct rig *rig = started(200, true);
    rig_append_each(rig, 60);
    rig_append(rig, 60);
    rig_pump(rig);
    ck_assert_uint_eq(rig->n_acked, 120);
    ck_assert_uint_eq(count(rig), 120);
    rig_destroy(rig);
}
END_TEST

static uint64_t file_bytes(struct rig *rig)
{
    char path[64];
    uint64_t n_bytes = 0;
    for (uint32_t k = 0; rig_segment(rig, k, path); k++) {
        n_bytes += fault_disk_content(&rig->disk, path)->n_bytes;
    }
    return n_bytes;
}

START_TEST(trimming_takes_whole_segments_and_never_the_last)
{
    struct rig *rig = started(4096, true);
    rig_append_each(rig, 200);
    char first[64];
    char path[64];
    ck_assert(rig_segment(rig, 0, first));
    ck_assert(rig_segment(rig, 3, path));
    uint64_t lsn = 0;
    ck_assert(ps_wal_name_parse(path + strlen(RIG_DIR) + 1, &lsn));
    uint64_t n_bytes = ps_wal_bytes(rig->wal);
    ck_assert_uint_le(n_bytes, file_bytes(rig)); /* The open one has more than it uses. */
    ck_assert_uint_gt(n_bytes + 4096, file_bytes(rig));

    ps_wal_trim(rig->wal, lsn - 1);
    rig_pump(rig);
    ck_assert_ptr_null(fault_disk_content(&rig->disk, first));
    ck_assert_ptr_nonnull(fault_disk_content(&rig->disk, path));
    ck_assert(rig_segment(rig, 0, first));
    ck_assert_str_lt(first, path); /* Record lsn - 1 is in the one before. */
    ps_wal_trim(rig->wal, lsn);
    rig_pump(rig);
    ck_assert(rig_segment(rig, 0, first));
    ck_assert_str_eq(first, path);
    ck_assert_uint_lt(ps_wal_bytes(rig->wal), n_bytes);

    struct ps_wal_visitor visitor = {0};
    struct ps_wal_recovered recovered;
    struct ps_wal_recovery recovery = {
        .disk = &rig->disk.base, .dir = RIG_DIR, .from_lsn = lsn - 1};
    ck_assert_int_eq(ps_wal_recover(&recovery, &visitor, &recovered, &err), PS_ERR_CORRUPT);
    ck_assert_ptr_nonnull(strstr(err.text, "is needed"));
    recovery.from_lsn = lsn;
    ck_assert_int_eq(ps_wal_recover(&recovery, &visitor, &recovered, &err), PS_OK);
    ck_assert_uint_eq(recovered.first_lsn, lsn);
    ck_assert_uint_eq(recovered.end.next_lsn, 201);

    ps_wal_trim(rig->wal, 100000);
    rig_pump(rig);
    ck_assert(rig_segment(rig, 0, first));
    ck_assert(!rig_segment(rig, 1, path));
    rig_append_each(rig, 50);
    ck_assert_uint_eq(rig->n_acked, 250);
    rig_destroy(rig);
}
END_TEST

START_TEST(starting_again_and_again_leaves_no_empty_segments)
{
    struct rig *rig = started(4096, true);
    char path[64];
    for (int i = 0; i < 20; i++) {
        rig_kill(rig);
        ck_assert_msg(rig_start(rig, &err) == PS_OK, "%s", err.text);
    }
    ck_assert(!rig_segment(rig, 1, path));
    rig_append_each(rig, 3);
    for (int i = 0; i < 20; i++) {
        rig_kill(rig);
        ck_assert_msg(rig_start(rig, &err) == PS_OK, "%s", err.text);
    }
    ck_assert(rig_segment(rig, 1, path));
    ck_assert(!rig_segment(rig, 2, path));
    ck_assert_uint_eq(count(rig), 3);
    rig_destroy(rig);
}
END_TEST

/* ---- Disks that fail ------------------------------------------------------------------------- */

START_TEST(a_disk_that_breaks_is_told_once_and_nothing_is_committed_after)
{
    uint64_t n_ops = 0;
    for (uint64_t at = 0; at <= n_ops; at++) {
        struct rig *rig = started(2048, true);
        uint64_t n_before = rig->disk.n_ops;
        rig->disk.fail_from = n_before + at;
        rig->disk.fail_to = _i == 1 ? UINT64_MAX : n_before + at + 1; /* Once, or for good. */
        uint64_t n_acked = 0;
        for (int i = 0; i < 40; i++) {
            rig_append(rig, 2);
            rig_pump(rig);
            if (rig->n_failed > 0 && n_acked == 0) {
                n_acked = rig->n_acked + 1;
                ck_assert(!ps_commit_room(ps_wal_committer(rig->wal), 1));
            }
        }
        if (rig->n_failed == 0) {
            rig_wait(rig, 1000); /* The note may meet it. */
            n_acked = rig->n_failed > 0 ? rig->n_acked + 1 : 0;
        }
        n_ops = rig->disk.n_ops - n_before > n_ops ? rig->disk.n_ops - n_before : n_ops;
        ck_assert_uint_eq(rig->n_failed, n_acked > 0 ? 1 : 0);
        if (n_acked > 0) {
            ck_assert_uint_eq(rig->n_acked + 1, n_acked);
            prepare_done(rig);
            ps_wal_table(rig->wal, 1, NULL, 0, &others.done[0]);
            ps_wal_stop(rig->wal, &others.done[1]);
            rig_pump(rig);
            ck_assert_uint_eq(others.n_done, 2);
            ck_assert_int_eq(others.done[0].status, PS_ERR_IO);
            ck_assert_int_eq(others.done[1].status, PS_ERR_IO);
        }
        rig_kill(rig);
        ck_assert_msg(rig_start(rig, &err) == PS_OK, "operation %" PRIu64 ": %s", at, err.text);
        rig_destroy(rig);
    }
    ck_assert_uint_gt(n_ops, 80);
}
END_TEST

START_TEST(a_full_disk_is_waited_for_whatever_operation_meets_it)
{
    uint64_t n_ops = 0;
    uint32_t n_full = 0;
    for (uint64_t at = 0; at <= n_ops; at++) {
        struct rig *rig = started(2048, _i == 1);
        uint64_t n_before = rig->disk.n_ops;
        rig->disk.fail_from = n_before + at;
        rig->disk.fail_to = n_before + at + 5;
        rig->disk.fail_with = PS_ERR_NO_SPACE;
        for (int i = 0; i < 40; i++) {
            rig_append(rig, 2);
            rig_pump(rig);
        }
        n_ops = rig->disk.n_ops - n_before > n_ops ? rig->disk.n_ops - n_before : n_ops;
        n_full += ps_commit_room(ps_wal_committer(rig->wal), 1) ? 0 : 1;
        for (int i = 0; i < 20 && rig->n_failed == 0; i++) {
            rig_wait(rig, 100);
        }
        if (rig->n_failed == 0) {
            ck_assert_uint_eq(rig->n_acked, 80);
            ck_assert(ps_commit_room(ps_wal_committer(rig->wal), 1));
            ck_assert_uint_eq(count(rig), 80);
        } else { /* Only a sync has no way back. */
            ck_assert_int_eq(_i, 1);
        }
        rig_kill(rig);
        ck_assert_msg(rig_start(rig, &err) == PS_OK, "operation %" PRIu64 ": %s", at, err.text);
        rig_destroy(rig);
    }
    ck_assert_uint_gt(n_full, 10);
}
END_TEST

START_TEST(a_small_disk_gets_small_segments_and_takes_pushes_again_when_there_is_room)
{
    struct rig *rig = rig_create(64u << 20, true);
    rig->disk.n_room = 25u << 20;
    ck_assert_msg(rig_start(rig, &err) == PS_OK, "%s", err.text);
    char path[64];
    ck_assert(rig_segment(rig, 0, path));
    ck_assert_uint_eq(fault_disk_content(&rig->disk, path)->n_bytes, 16 << 20);
    rig_append_each(rig, 10);
    ck_assert(ps_commit_room(ps_wal_committer(rig->wal), 1));
    rig_destroy(rig);

    rig = rig_create(4096, true);
    rig->disk.n_room = 20480;
    ck_assert_int_eq(rig_start(rig, &err), PS_OK);
    while (ps_commit_room(ps_wal_committer(rig->wal), 1)) {
        ck_assert_uint_lt(rig->n_appended, 1000);
        rig_append_each(rig, 1);
    }
    uint64_t n_acked = rig->n_acked;
    ck_assert_uint_eq(n_acked, rig->n_appended); /* It said so in time. */
    ck_assert_uint_gt(n_acked, 30);
    rig_append(rig, 40); /* What comes all the same waits. */
    rig_wait(rig, 5000);
    ck_assert_uint_lt(rig->n_acked, rig->n_appended);
    prepare_done(rig);
    rig->disk.n_room = 0;
    rig_wait(rig, 99);
    ck_assert_uint_lt(rig->n_acked, rig->n_appended);
    rig_wait(rig, 1);
    ck_assert_uint_eq(rig->n_acked, rig->n_appended);
    ck_assert(ps_commit_room(ps_wal_committer(rig->wal), 1));
    ck_assert_uint_eq(count(rig), rig->n_appended);
    ck_assert_uint_eq(rig->n_failed, 0);
    rig_destroy(rig);
}
END_TEST

START_TEST(a_log_that_stops_on_a_full_disk_says_so)
{
    struct rig *rig = rig_create(2048, true);
    rig->disk.n_room = 6144;
    ck_assert_int_eq(rig_start(rig, &err), PS_OK);
    prepare_done(rig);
    rig_append(rig, 60);
    ps_wal_table(rig->wal, 1, NULL, 0, &others.done[0]);
    ps_wal_stop(rig->wal, &others.done[1]);
    rig_pump(rig);
    ck_assert_uint_eq(others.n_done, 2);
    ck_assert_int_eq(others.done[0].status, PS_ERR_NO_SPACE);
    ck_assert_int_eq(others.done[1].status, PS_ERR_NO_SPACE);
    ck_assert_uint_lt(rig->n_acked, 60);
    ck_assert_uint_eq(rig->n_failed, 0);
    uint64_t n_acked = rig->n_acked;
    rig->disk.n_room = 0;
    rig_kill(rig);
    ck_assert_int_eq(rig_start(rig, &err), PS_OK);
    ck_assert_uint_ge(rig->n_appended, n_acked);
    rig_destroy(rig);
}
END_TEST

START_TEST(without_memory_nothing_starts_and_nothing_leaks)
{
    struct rig *rig = started(4096, true);
    rig_append_each(rig, 40);
    rig_kill(rig);
    enum ps_status status = PS_ERR_NOMEM;
    int64_t at = 0;
    for (; status != PS_OK; at++) {
        ck_assert_int_lt(at, 1000);
        atomic_store(&rig->mem.fail_after, at);
        status = rig_start(rig, &err);
        atomic_store(&rig->mem.fail_after, -1);
        if (status != PS_OK) {
            ck_assert_msg(status == PS_ERR_NOMEM, "%s", err.text);
            ck_assert_uint_eq(rig->disk.n_open, 0);
        }
    }
    ck_assert_int_gt(at, 4);
    ck_assert_uint_eq(count(rig), 40);
    rig_destroy(rig);
}
END_TEST

Suite *suite_wal(void)
{
    Suite *suite = suite_create("wal");
    TCase *tcase = tcase_create("all");
    tcase_set_timeout(tcase, 300);
    tcase_add_loop_test(tcase, what_was_appended_comes_back_in_order, 0, 2);
    tcase_add_test(tcase, what_arrives_together_is_one_write_and_one_sync);
    tcase_add_test(tcase, without_sync_nothing_is_synced);
    tcase_add_test(tcase, an_idle_log_notes_once_that_all_is_durable);
    tcase_add_test(tcase, tables_and_generations_stand_among_the_records);
    tcase_add_loop_test(tcase, a_log_that_stops_has_written_and_noted_everything, 0, 2);
    tcase_add_test(tcase, a_record_that_is_longer_than_a_segment_gets_one);
    tcase_add_test(tcase, trimming_takes_whole_segments_and_never_the_last);
    tcase_add_test(tcase, starting_again_and_again_leaves_no_empty_segments);
    tcase_add_loop_test(tcase, a_disk_that_breaks_is_told_once_and_nothing_is_committed_after, 0,
                        2);
    tcase_add_loop_test(tcase, a_full_disk_is_waited_for_whatever_operation_meets_it, 0, 2);
    tcase_add_test(tcase,
                   a_small_disk_gets_small_segments_and_takes_pushes_again_when_there_is_room);
    tcase_add_test(tcase, a_log_that_stops_on_a_full_disk_says_so);
    tcase_add_test(tcase, without_memory_nothing_starts_and_nothing_leaks);
    suite_add_tcase(suite, tcase);
    return suite;
}
