/*
 * test_damage.c — nothing of a damaged snapshot is used, and the older one stays of use: every bit
 * of a small snapshot turned, every length, files missing, swapped and old; the machine dies in
 * every operation of the disk; the disk is full or refuses.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "lib/test_main.h"
#include "unit/snap/machine.h"
#include "unit/snap/rig.h"
#include "unit/snap/suites.h"

#define SECOND RIG_DIR "/000003-0000000002/"

static const struct rig_size tiny = {
    .n_floats = 50, .n_keys = 12, .width = 2, .slots = 2, .n_staged = 3, .one_rule = true};

enum {
    JOB = 1, /* In this list: */
    STAGED = 4
};
static const char *const files[] = {
    SECOND "MANIFEST",
    SECOND "job.pb",
    SECOND "server-0/PART",
    SECOND "server-0/SLOTS",
    SECOND "server-0/STAGED",
    SECOND "server-0/dense.adagrad.safetensors",
    SECOND "server-0/sparse.adagrad.safetensors",
};

static struct machine machine;
static struct rig rig;
static struct ps_error err;

/* Two snapshots of a model that went on between them. */
static void begin(void)
{
    machine_init(&machine, test_seed());
    rig_init(&rig, machine.port, &tiny, test_seed());
    ck_assert_int_eq(rig_open(&rig, PS_SNAP_PLANT_NONE, &err), PS_OK);
    ck_assert_int_eq(rig_snapshot(&rig, 1, 1, &err), PS_OK);
    rig_train(&rig, 4);
    ck_assert_int_eq(rig_snapshot(&rig, 2, 1, &err), PS_OK);
}

static void end(void)
{
    rig_deinit(&rig);
    machine_deinit(&machine);
}

/* Reads all of the newest that can be used. @return its cut; 0: it was refused on the way */
static uint64_t read_newest(bool load)
{
    struct ps_snap_place place = rig_place(&rig);
    struct ps_snap *snap = NULL;
    ck_assert_int_eq(ps_snap_open_newest(&place, NULL, NULL, &snap, &err), PS_OK);
    uint64_t cut = ps_snap_manifest(snap)->cut;
    struct rig_model read = {0};
    enum ps_status status =
        load ? rig_load(&rig, snap, 1, &read, &err) : ps_snap_verify(snap, &err);
    if (status == PS_OK && load && cut == 2) {
        rig_same(&rig, &rig.model, &read); /* It did no harm. */
    } else if (status != PS_OK) {
        ck_assert_int_eq(status, PS_ERR_CORRUPT);
        ck_assert_msg(strstr(err.text, RIG_DIR) != NULL, "%s", err.text);
        cut = 0;
    }
    rig_model_deinit(&read);
    ps_snap_close(snap);
    return cut;
}

START_TEST(every_bit_that_turns_is_found)
{
    uint32_t n_passed_over = 0;
    uint32_t n_refused = 0;
    begin();
    ck_assert_uint_eq(read_newest(true), 2);
    /* Nothing else is in it; the medium's paths have no slash in front. */
    ck_assert_uint_eq(sim_medium_files(&machine.disk.medium, &SECOND[1], 0, NULL),
                      PS_ARRAY_LEN(files));
    for (size_t f = 0; f < PS_ARRAY_LEN(files); f++) {
        struct sim_inode *inode = machine_file(&machine, files[f]);
        for (uint64_t at = 0; at < inode->n_bytes; at++) {
            inode->memory[at] ^= (uint8_t)(1u << _i);
            uint64_t cut = read_newest((at & 15) == 0);
            inode->memory[at] ^= (uint8_t)(1u << _i);
            n_passed_over += cut == 1 ? 1 : 0;
            n_refused += cut == 0 ? 1 : 0;
            ck_assert_msg(cut != 2, "%s:%llu bit %d", files[f], (unsigned long long)at, _i);
        }
    }
    ck_assert_uint_eq(read_newest(true), 2);
    ck_assert_uint_gt(n_passed_over, 1000); /* MANIFEST, PART, job. */
    ck_assert_uint_gt(n_refused, 1000);     /* Data. */
    end();
}
END_TEST

/* Give the file another length; zeros behind its old end. */
static void resize(struct sim_inode *inode, uint64_t n_bytes)
{
    sim_inode_resize(inode, n_bytes, NULL);
}

START_TEST(every_length_but_its_own_is_found)
{
    begin();
    for (size_t f = 0; f < PS_ARRAY_LEN(files); f++) {
        struct sim_inode *inode = machine_file(&machine, files[f]);
        uint64_t n_bytes = inode->n_bytes;
        uint8_t *was = malloc((size_t)n_bytes);
        ck_assert_ptr_nonnull(was);
        sim_inode_read(inode, 0, was, (size_t)n_bytes);
        for (uint64_t n = 0; n <= n_bytes + 600; n++) {
            if (n != n_bytes) {
                resize(inode, n);
                ck_assert_msg(read_newest(false) == 1, "%s: %llu of %llu", files[f],
                              (unsigned long long)n, (unsigned long long)n_bytes);
                resize(inode, n_bytes);
                sim_inode_write(inode, 0, was, (size_t)n_bytes, NULL);
            }
        }
        free(was);
    }
    ck_assert_uint_eq(read_newest(true), 2);
    end();
}
END_TEST

START_TEST(a_file_that_is_missing_is_found)
{
    for (size_t f = 0; f < PS_ARRAY_LEN(files); f++) {
        begin();
        ck_assert_int_eq(ps_disk_remove(rig.disk, files[f], &err), PS_OK);
        ck_assert_uint_eq(read_newest(true), 1);
        end();
    }
}
END_TEST

/* Read it as a whole, and put it elsewhere. */
static void copy(const char *from, const char *to)
{
    uint8_t *data = NULL;
    size_t n_bytes = 0;
    ck_assert_int_eq(ps_disk_read(rig.disk, from, 1u << 20, &data, &n_bytes, &err), PS_OK);
    ck_assert_int_eq(ps_disk_replace(rig.disk, to, data, n_bytes, &err), PS_OK);
    ps_mem_free(data);
}

START_TEST(files_of_others_are_found)
{
    for (size_t f = 0; f < PS_ARRAY_LEN(files); f++) {
        for (size_t g = 0; g < PS_ARRAY_LEN(files); g++) {
            begin();
            char older[128];
            (void)snprintf(older, sizeof(older), RIG_DIR "/000003-0000000001/%s",
                           files[g] + strlen(SECOND));
            copy(older, files[f]); /* Its own older copy included. */
            uint64_t cut = read_newest(true);
            /* The job, and what is staged, are the same in both. */
            bool same = f == g && (f == JOB || f == STAGED);
            ck_assert_msg(cut == 1 || cut == 0 || same, "%s for %s", older, files[f]);
            if (f != g) {
                copy(files[g], files[f]);
                cut = read_newest(true);
                ck_assert_msg(cut == 1 || cut == 0, "%s for %s", files[g], files[f]);
            }
            end();
        }
    }
}
END_TEST

START_TEST(the_part_of_another_server_is_found)
{
    static const char *const names[] = {"PART", "SLOTS", "dense.adagrad.safetensors",
                                        "sparse.adagrad.safetensors"};
    begin();
    ck_assert_int_eq(rig_snapshot(&rig, 3, 2, &err), PS_OK);
    ck_assert_uint_eq(read_newest(false), 3);
    for (size_t i = 0; i < PS_ARRAY_LEN(names); i++) {
        char from[128];
        char to[128];
        (void)snprintf(from, sizeof(from), RIG_DIR "/000003-0000000003/server-0/%s", names[i]);
        (void)snprintf(to, sizeof(to), RIG_DIR "/000003-0000000003/server-1/%s", names[i]);
        copy(from, to);
    }
    ck_assert_uint_eq(read_newest(true), 2);
    end();
}
END_TEST

/* ---- The machine dies ----------------------------------------------------------------------- */

/* The rig's process starts again, perhaps with another bug. */
static void restart(enum ps_snap_plant plant)
{
    machine_cut_power(&machine);
    rig.disk = machine.port;
    ck_assert_int_eq(rig_open(&rig, plant, &err), PS_OK);
}

/* The cut that the newest good snapshot is of, whole and readable. */
static uint64_t survivor(void)
{
    struct ps_snap_place place = rig_place(&rig);
    struct ps_snap *snap = NULL;
    enum ps_status status = ps_snap_open_newest(&place, NULL, NULL, &snap, &err);
    if (status != PS_OK) {
        return 0;
    }
    uint64_t cut = ps_snap_manifest(snap)->cut;
    status = ps_snap_verify(snap, &err);
    ps_snap_close(snap);
    return status == PS_OK ? cut : 0;
}

START_TEST(wherever_the_machine_dies_a_snapshot_stays_of_use)
{
    uint32_t n_old = 0;
    for (uint64_t at = 1; at <= 400; at++) {
        machine_init(&machine, test_seed() + at);
        rig_init(&rig, machine.port, &tiny, test_seed());
        ck_assert_int_eq(rig_open(&rig, PS_SNAP_PLANT_NONE, &err), PS_OK);
        ck_assert_int_eq(rig_snapshot(&rig, 1, 2, &err), PS_OK);
        machine.disk.faults.crash_in = at;
        enum ps_status ignored = rig_snapshot(&rig, 2, 2, &err);
        (void)ignored;
        bool died = machine.node->crashed;
        restart(PS_SNAP_PLANT_NONE);
        uint64_t cut = survivor();
        ck_assert_msg(cut == 2 || (died && cut == 1), "dies in %llu: %s", (unsigned long long)at,
                      err.text);
        n_old += cut == 1 ? 1 : 0;
        ck_assert_int_eq(rig_snapshot(&rig, 3, 2, &err), PS_OK);
        ck_assert_uint_eq(survivor(), 3);
        end();
        if (!died) {
            ck_assert_uint_gt(n_old, 20);
            return;
        }
    }
    ck_abort_msg("it never came through");
}
END_TEST

START_TEST(wherever_the_machine_dies_while_it_tidies_the_newest_stays)
{
    for (uint64_t at = 1; at <= 400; at++) {
        struct ps_cut_kept kept = {.n = 1};
        machine_init(&machine, test_seed() + at);
        rig_init(&rig, machine.port, &tiny, test_seed());
        ck_assert_int_eq(rig_open(&rig, PS_SNAP_PLANT_NONE, &err), PS_OK);
        for (uint64_t i = 1; i <= 3; i++) {
            ck_assert_int_eq(rig_snapshot(&rig, i, 1, &err), PS_OK);
        }
        machine.disk.faults.crash_in = at;
        enum ps_status ignored = ps_cut_keep(rig.keeper, &kept, &err);
        (void)ignored;
        bool died = machine.node->crashed;
        restart(PS_SNAP_PLANT_NONE);
        ck_assert_uint_eq(survivor(), 3);
        ck_assert_int_eq(ps_cut_keep(rig.keeper, &kept, &err), PS_OK);
        ck_assert_uint_eq(kept.oldest_cut, 3);
        struct ps_snap_place place = rig_place(&rig);
        struct ps_snap_entry *entries = NULL;
        size_t n = 0;
        ck_assert_int_eq(ps_snap_list(&place, &entries, &n, &err), PS_OK);
        ck_assert_uint_eq(n, 1);
        ps_mem_free(entries);
        end();
        if (!died) {
            return;
        }
    }
    ck_abort_msg("it never came through");
}
END_TEST

/* Seeds until a snapshot that was reported is not there after a power cut; 0: none of 100. */
static uint32_t seeds_to_find(enum ps_snap_plant plant)
{
    uint32_t found = 0;
    for (uint32_t seed = 1; found == 0 && seed <= 100; seed++) {
        machine_init(&machine, test_seed() * 1000 + seed);
        rig_init(&rig, machine.port, &tiny, test_seed());
        ck_assert_int_eq(rig_open(&rig, plant, &err), PS_OK);
        ck_assert_int_eq(rig_snapshot(&rig, 1, 1, &err), PS_OK);
        restart(plant);
        found = survivor() == 1 ? 0 : seed;
        end();
    }
    return found;
}

START_TEST(planted_bugs_are_found)
{
    ck_assert_uint_eq(seeds_to_find(PS_SNAP_PLANT_NONE), 0);
#ifdef PS_PLANT
    uint32_t renamed = seeds_to_find(PS_SNAP_PLANT_RENAME_BEFORE_SYNC);
    uint32_t unsynced = seeds_to_find(PS_SNAP_PLANT_DIR_NOT_SYNCED);
    printf("rename-before-sync found after %u seeds, dir-not-synced after %u\n", renamed, unsynced);
    ck_assert(renamed >= 1 && renamed <= 20);
    ck_assert(unsynced >= 1 && unsynced <= 20);
#endif
}
END_TEST

/* ---- The disk says no ----------------------------------------------------------------------- */

START_TEST(a_full_disk_costs_the_new_snapshot_only)
{
    uint32_t n_full = 0;
    begin();
    uint64_t n_used = sim_disk_used(&machine.disk);
    bool fits = false;
    for (uint64_t more = 0; !fits; more += 512) {
        machine.disk.faults.n_bytes_room = n_used + more;
        enum ps_status status = rig_snapshot(&rig, 3 + more / 512, 2, &err);
        fits = status == PS_OK;
        ck_assert_msg(fits || status == PS_ERR_NO_SPACE, "%d %s", (int)status, err.text);
        ck_assert_uint_eq(survivor(), fits ? 3 + more / 512 : 2);
        struct ps_cut_kept kept = {.n = 9};
        ck_assert_int_eq(ps_cut_keep(rig.keeper, &kept, &err), PS_OK);
        struct ps_disk_entry *entries = NULL;
        size_t n = 0;
        ck_assert_int_eq(ps_disk_list(rig.disk, RIG_DIR, &entries, &n, &err), PS_OK);
        ck_assert_uint_eq(n, fits ? 3 : 2);
        ps_mem_free(entries);
        ck_assert_int_eq(ps_disk_sync_dir(rig.disk, RIG_DIR, &err), PS_OK);
        n_full += fits ? 0 : 1;
    }
    ck_assert_uint_gt(n_full, 10);
    end();
}
END_TEST

START_TEST(a_disk_that_fails_costs_the_new_snapshot_only)
{
    uint32_t n_failed = 0;
    begin();
    uint64_t good = 2;
    for (uint64_t i = 3; i < 103; i++) {
        machine.disk.faults.write_fails_pm = 30;
        machine.disk.faults.sync_fails_pm = 30;
        enum ps_status status = rig_snapshot(&rig, i, 1, &err);
        machine.disk.faults = (struct sim_disk_faults){0};
        ck_assert_msg(status == PS_OK || status == PS_ERR_IO, "%d %s", (int)status, err.text);
        good = status == PS_OK ? i : good;
        n_failed += status == PS_OK ? 0 : 1;
        /* Also what failed at the very end, when MANIFEST had its name already. */
        ck_assert_msg(survivor() == good, "%llu: %s", (unsigned long long)i, err.text);
    }
    ck_assert_uint_gt(n_failed, 20);
    end();
}
END_TEST

Suite *suite_damage(void)
{
    Suite *suite = suite_create("damage");
    TCase *tcase = tcase_create("core");
    tcase_set_timeout(tcase, 600);
    tcase_add_loop_test(tcase, every_bit_that_turns_is_found, 0, 8);
    tcase_add_test(tcase, every_length_but_its_own_is_found);
    tcase_add_test(tcase, a_file_that_is_missing_is_found);
    tcase_add_test(tcase, files_of_others_are_found);
    tcase_add_test(tcase, the_part_of_another_server_is_found);
    tcase_add_test(tcase, wherever_the_machine_dies_a_snapshot_stays_of_use);
    tcase_add_test(tcase, wherever_the_machine_dies_while_it_tidies_the_newest_stays);
    tcase_add_test(tcase, planted_bugs_are_found);
    tcase_add_test(tcase, a_full_disk_costs_the_new_snapshot_only);
    tcase_add_test(tcase, a_disk_that_fails_costs_the_new_snapshot_only);
    suite_add_tcase(suite, tcase);
    return suite;
}
