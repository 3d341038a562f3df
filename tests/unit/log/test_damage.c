/*
 * test_damage.c — what happens to files behind a log's back: every bit, every length, segments and
 * blocks in the wrong place. Damage is found, named by file and offset, or does not matter.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "log/wal_format.h"
#include "unit/log/rig.h"
#include "unit/log/suites.h"

#define RECORDS 16u
#define COPIES  16u

static struct ps_error err;
static struct rig *rig;

struct copy {
    char path[64];
    uint8_t *data;
    uint64_t n_bytes;
};
static struct copy copies[COPIES];
static uint32_t n_copies;

/* The files as they are now. */
static void keep(void)
{
    for (n_copies = 0; rig_segment(rig, n_copies, copies[n_copies].path); n_copies++) {
        struct copy *copy = &copies[n_copies];
        const struct fault_content *content = fault_disk_content(&rig->disk, copy->path);
        ck_assert_uint_lt(n_copies, COPIES - 1);
        copy->n_bytes = content->n_bytes;
        copy->data = malloc(content->n_bytes);
        PS_ASSERT(copy->data != NULL);
        memcpy(copy->data, content->data, content->n_bytes);
    }
}

static void put_back(uint32_t k)
{
    fault_disk_put(&rig->disk, copies[k].path, copies[k].data, copies[k].n_bytes);
}

static void forget_copies(void)
{
    for (uint32_t k = 0; k < n_copies; k++) {
        free(copies[k].data);
    }
}

/* Some segments, all acknowledged; the log has been idle, or its process was killed at once. */
static void make_log(bool idle)
{
    rig = rig_create(1500, true);
    ck_assert_int_eq(rig_start(rig, &err), PS_OK);
    for (uint32_t n = 1; rig->n_appended < RECORDS; n = n % 3 + 1) {
        rig_append(rig, n);
        rig_pump(rig);
    }
    if (idle) {
        rig_wait(rig, 200);
    }
    uint64_t n_acked = rig->n_acked;
    ck_assert_uint_eq(n_acked, rig->n_appended);
    rig_kill(rig);
    keep();
    ck_assert_uint_ge(n_copies, 3);
}

static void drop_log(void)
{
    forget_copies();
    rig_destroy(rig);
}

/* Nothing else is right: a refusal that names the place, or every record that was acknowledged. */
static bool found(const char *what, uint64_t at)
{
    uint64_t n = 0;
    enum ps_status status = rig_read(rig, &n, &err);
    if (status == PS_OK) {
        ck_assert_msg(n == rig->n_acked, "%s %" PRIu64 ": %" PRIu64 " records", what, at, n);
        return false;
    }
    ck_assert_msg(status == PS_ERR_CORRUPT, "%s %" PRIu64 ": %s", what, at, err.text);
    ck_assert_msg(strstr(err.text, "log") != NULL && strstr(err.text, "copy") != NULL, "%s",
                  err.text);
    return true;
}

/* Bytes of a segment that are records. */
static uint64_t used_bytes(uint32_t k)
{
    uint64_t n = copies[k].n_bytes;
    while (n > 0 && copies[k].data[n - 1] == 0) {
        n--;
    }
    return n;
}

START_TEST(every_bit_that_flips_is_found_or_does_not_matter)
{
    make_log(true);
    uint64_t n_found = 0;
    uint8_t head_bytes[PS_WAL_HEAD_BYTES];
    for (uint32_t k = 0; k < n_copies; k++) {
        struct fault_content *content = fault_disk_content(&rig->disk, copies[k].path);
        bool last = k + 1 == n_copies;
        uint64_t n_end = used_bytes(k);
        /* Behind the acknowledged records: the seal, or the note, and room. */
        uint64_t n_acked = last ? rig->recovered.end.n_bytes : n_end - n_end % 8;
        for (uint64_t bit = 0; bit < content->n_bytes * 8; bit++) {
            content->data[bit / 8] ^= (uint8_t)(1u << (bit % 8));
            bool was_found = found(copies[k].path, bit);
            n_found += was_found ? 1 : 0;
            if (bit / 8 + 2 * sizeof(head_bytes) < n_acked && !last) {
                ck_assert_msg(was_found, "%s bit %" PRIu64, copies[k].path, bit);
            }
            content->data[bit / 8] ^= (uint8_t)(1u << (bit % 8));
        }
    }
    ck_assert_uint_gt(n_found, 10000);
    drop_log();
}
END_TEST

START_TEST(a_flip_in_the_last_batch_is_found_when_the_log_was_idle)
{
    make_log(true);
    uint32_t k = n_copies - 1;
    struct fault_content *content = fault_disk_content(&rig->disk, copies[k].path);
    uint64_t n_records = used_bytes(k);
    n_records = (n_records + 7) / 8 * 8;
    ck_assert_uint_gt(n_records, PS_WAL_SEGMENT_HEAD_BYTES + 2 * PS_WAL_HEAD_BYTES);
    for (uint64_t at = PS_WAL_SEGMENT_HEAD_BYTES; at < n_records - PS_WAL_HEAD_BYTES; at++) {
        content->data[at] ^= 0x10;
        ck_assert_msg(found(copies[k].path, at), "byte %" PRIu64, at);
        content->data[at] ^= 0x10;
    }
    for (uint64_t at = n_records - PS_WAL_HEAD_BYTES; at < n_records; at++) {
        content->data[at] ^= 0x10; /* The note: nobody waits for it. */
        ck_assert(!found(copies[k].path, at));
        content->data[at] ^= 0x10;
    }
    drop_log();
}
END_TEST

START_TEST(every_other_length_of_a_file_is_found)
{
    make_log(true);
    for (uint32_t k = 0; k < n_copies; k++) {
        for (uint64_t n_bytes = 0; n_bytes < copies[k].n_bytes; n_bytes++) {
            fault_disk_put(&rig->disk, copies[k].path, copies[k].data, n_bytes);
            bool was_found = found(copies[k].path, n_bytes);
            /* Of a segment that has a successor the seal may go. */
            ck_assert_msg(
                was_found || (k + 1 < n_copies && n_bytes >= copies[k].n_bytes - PS_WAL_HEAD_BYTES),
                "%s %" PRIu64, copies[k].path, n_bytes);
        }
        put_back(k);
    }
    drop_log();
}
END_TEST

static void remove_segment(uint32_t k)
{
    ck_assert_int_eq(ps_disk_remove(&rig->disk.base, copies[k].path, &err), PS_OK);
}

START_TEST(segments_that_are_missing_are_found)
{
    for (uint32_t k = 0; k < 3; k++) {
        make_log(false);
        uint32_t gone = k == 2 ? n_copies - 1 : k; /* The first one, one between, the last one. */
        remove_segment(gone);
        if (gone > 0) {
            ck_assert(found("missing", gone));
        }
        struct ps_wal_visitor visitor = {0};
        struct ps_wal_recovered recovered;
        struct ps_wal_recovery recovery = {.disk = &rig->disk.base, .dir = RIG_DIR, .from_lsn = 1};
        ck_assert_int_eq(ps_wal_recover(&recovery, &visitor, &recovered, &err), PS_ERR_CORRUPT);
        drop_log();
    }
}
END_TEST

START_TEST(segments_in_each_others_place_are_found)
{
    make_log(false);
    for (uint32_t a = 0; a < n_copies; a++) {
        for (uint32_t b = 0; b < n_copies; b++) {
            if (a == b) {
                continue;
            }
            fault_disk_put(&rig->disk, copies[a].path, copies[b].data, copies[b].n_bytes);
            ck_assert(found("copied", a));
            fault_disk_put(&rig->disk, copies[b].path, copies[a].data, copies[a].n_bytes);
            ck_assert(found("swapped", a));
            put_back(a);
            put_back(b);
        }
        static const uint8_t zeros[4096];
        fault_disk_put(&rig->disk, copies[a].path, zeros, copies[a].n_bytes);
        ck_assert(found("zeroed", a));
        put_back(a);
    }
    ck_assert(!found("nothing", 0));
    /* One more under a name that it does not have. */
    fault_disk_put(&rig->disk, RIG_DIR "/0000000000000003.log", copies[0].data, copies[0].n_bytes);
    ck_assert(found("doubled", 0));
    drop_log();
}
END_TEST

START_TEST(an_older_copy_of_a_segment_is_found_when_there_is_a_younger_one)
{
    make_log(false);
    for (uint32_t k = 0; k + 1 < n_copies; k++) {
        static uint8_t older[4096];
        struct ps_wal_head head;
        uint64_t salt = ps_load_u64(copies[k].data + 32);
        memset(older, 0, sizeof(older));
        memcpy(older, copies[k].data, PS_WAL_SEGMENT_HEAD_BYTES);
        uint64_t at = PS_WAL_SEGMENT_HEAD_BYTES;
        while (ps_wal_head_read(copies[k].data + at, salt, &head) && head.kind == PS_WAL_RECORD) {
            fault_disk_put(&rig->disk, copies[k].path, older, 1500);
            ck_assert(found("older", at));
            memcpy(older + at, copies[k].data + at, ps_wal_record_bytes(head.n_body));
            at += ps_wal_record_bytes(head.n_body);
        }
        put_back(k);
    }
    drop_log();
}
END_TEST

START_TEST(a_segment_of_another_server_or_an_earlier_life_is_found)
{
    make_log(false);
    struct copy mine[COPIES];
    uint32_t n_mine = n_copies;
    memcpy(mine, copies, sizeof(copies));
    rig_destroy(rig);

    rig = rig_create(1500, true); /* The same records, another log. */
    rig->salt = 99;
    rig->options.server.bytes[0] = (uint8_t)(_i == 0 ? 9 : 1);
    ck_assert_int_eq(rig_start(rig, &err), PS_OK);
    for (uint32_t n = 1; rig->n_appended < RECORDS; n = n % 3 + 1) {
        rig_append(rig, n);
        rig_pump(rig);
    }
    rig_kill(rig);
    for (uint32_t k = 1; k < n_mine; k++) {
        ck_assert_ptr_nonnull(fault_disk_content(&rig->disk, mine[k].path));
        struct copy back = mine[k];
        const struct fault_content *now = fault_disk_content(&rig->disk, back.path);
        back.n_bytes = now->n_bytes;
        back.data = malloc(now->n_bytes);
        PS_ASSERT(back.data != NULL);
        memcpy(back.data, now->data, now->n_bytes);
        fault_disk_put(&rig->disk, mine[k].path, mine[k].data, mine[k].n_bytes);
        ck_assert(found("foreign", k));
        fault_disk_put(&rig->disk, back.path, back.data, back.n_bytes);
        free(back.data);
    }
    for (uint32_t k = 0; k < n_mine; k++) {
        free(mine[k].data);
    }
    rig_destroy(rig);
}
END_TEST

/* Blocks of `n` bytes of one file over each place of another. @return how many were tried */
static uint64_t misdirect(uint32_t from, uint32_t to, uint64_t n)
{
    struct fault_content *content = fault_disk_content(&rig->disk, copies[to].path);
    uint64_t n_tried = 0;
    for (uint64_t at = 0; at + n <= used_bytes(to); at += n) {
        for (uint64_t of = 0; of + n <= used_bytes(from); of += n) {
            memcpy(content->data + at, copies[from].data + of, n);
            bool same = memcmp(content->data, copies[to].data, content->n_bytes) == 0;
            /* Near its end there are the seal and the note. */
            ck_assert_msg(found("astray", at) || same || at + n + 128 > used_bytes(to),
                          "%" PRIu64 " of %u to %" PRIu64 " of %u", of, from, at, to);
            memcpy(content->data, copies[to].data, content->n_bytes);
            n_tried++;
        }
    }
    return n_tried;
}

START_TEST(a_block_that_went_astray_is_found)
{
    make_log(true);
    static const uint64_t blocks[] = {64, 128, 512};
    uint64_t n_tried = 0;
    for (uint32_t from = 0; from < n_copies; from++) {
        for (uint32_t to = 0; to < n_copies; to++) {
            for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++) {
                n_tried += misdirect(from, to, blocks[i]);
            }
        }
    }
    ck_assert_uint_gt(n_tried, 1000);
    drop_log();
}
END_TEST

/* ---- Torn ends ------------------------------------------------------------------------------- */

START_TEST(a_torn_end_that_nobody_was_told_of_is_dropped_for_good)
{
    rig = rig_create(4096, true);
    ck_assert_int_eq(rig_start(rig, &err), PS_OK);
    rig_append_each(rig, 5);
    uint64_t n_ops = rig->disk.n_ops;
    rig_append(rig, 6);
    rig->disk.last_op = n_ops + 1; /* Written, not synced. */
    rig_pump(rig);
    ck_assert_uint_eq(rig->n_acked, 5);
    rig_kill(rig);
    keep();
    uint64_t n_end = used_bytes(0);
    uint64_t n = 0;
    ck_assert_int_eq(rig_read(rig, &n, &err), PS_OK);
    ck_assert_uint_eq(n, 11); /* Whole, so it counts. */
    for (uint64_t n_cut = 0; n_cut < 400; n_cut++) {
        put_back(0);
        struct fault_content *content = fault_disk_content(&rig->disk, copies[0].path);
        memset(content->data + n_end - n_cut, 0, n_cut); /* These sectors did not arrive. */
        ck_assert_msg(rig_read(rig, &n, &err) == PS_OK, "%s", err.text);
        ck_assert_uint_ge(n, 5);
        ck_assert_uint_le(n, 11);
    }
    ck_assert_uint_lt(n, 11);
    ck_assert_uint_gt(rig->recovered.n_bytes_torn, 0);
    ck_assert_uint_eq(rig->recovered.torn_at, rig->recovered.end.n_bytes);
    uint64_t n_before = n;
    ck_assert_int_eq(rig_start(rig, &err), PS_OK);
    ck_assert_uint_eq(rig->n_appended, n_before);
    rig_append_each(rig, 10);
    ck_assert_int_eq(rig_read(rig, &n, &err), PS_OK);
    ck_assert_uint_eq(n, n_before + 10);
    forget_copies();
    rig_destroy(rig);
}
END_TEST

START_TEST(a_log_that_ends_before_its_snapshot_is_told)
{
    make_log(true);
    struct ps_wal_visitor visitor = {0};
    struct ps_wal_recovered recovered;
    struct ps_wal_recovery recovery = {.disk = &rig->disk.base, .dir = RIG_DIR, .from_lsn = 1000};
    ck_assert_int_eq(ps_wal_recover(&recovery, &visitor, &recovered, &err), PS_ERR_CORRUPT);
    ck_assert_ptr_nonnull(strstr(err.text, "the log ends before what a snapshot has"));
    drop_log();
    rig = rig_create(4096, true); /* Where there is none, it begins there. */
    recovery.disk = &rig->disk.base;
    ck_assert_int_eq(ps_wal_recover(&recovery, &visitor, &recovered, &err), PS_OK);
    ck_assert_uint_eq(recovered.end.next_lsn, 1000);
    rig_destroy(rig);
}
END_TEST

START_TEST(a_log_of_level_log_says_what_a_power_cut_may_do)
{
    rig = rig_create(4096, false);
    ck_assert_int_eq(rig_start(rig, &err), PS_OK);
    rig_append_each(rig, 20);
    rig_wait(rig, 200);
    char path[64];
    ck_assert(rig_segment(rig, 0, path));
    fault_disk_content(&rig->disk, path)->data[200] ^= 1;
    uint64_t n = 0;
    ck_assert_int_eq(rig_read(rig, &n, &err), PS_ERR_CORRUPT);
    ck_assert_ptr_nonnull(strstr(err.text, "which a power cut may damage"));
    ck_assert_ptr_nonnull(strstr(err.text, "log/0000000000000001.log:"));
    rig_destroy(rig);
}
END_TEST

Suite *suite_damage(void)
{
    Suite *suite = suite_create("damage");
    TCase *tcase = tcase_create("all");
    tcase_set_timeout(tcase, 600);
    tcase_add_test(tcase, every_bit_that_flips_is_found_or_does_not_matter);
    tcase_add_test(tcase, a_flip_in_the_last_batch_is_found_when_the_log_was_idle);
    tcase_add_test(tcase, every_other_length_of_a_file_is_found);
    tcase_add_test(tcase, segments_that_are_missing_are_found);
    tcase_add_test(tcase, segments_in_each_others_place_are_found);
    tcase_add_test(tcase, an_older_copy_of_a_segment_is_found_when_there_is_a_younger_one);
    tcase_add_loop_test(tcase, a_segment_of_another_server_or_an_earlier_life_is_found, 0, 2);
    tcase_add_test(tcase, a_block_that_went_astray_is_found);
    tcase_add_test(tcase, a_torn_end_that_nobody_was_told_of_is_dropped_for_good);
    tcase_add_test(tcase, a_log_that_ends_before_its_snapshot_is_told);
    tcase_add_test(tcase, a_log_of_level_log_says_what_a_power_cut_may_do);
    suite_add_tcase(suite, tcase);
    return suite;
}
