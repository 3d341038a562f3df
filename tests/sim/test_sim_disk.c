/*
 * test_sim_disk.c — the simulated disk keeps what port/disk.h promises, and nothing more: what a
 * power cut may take it takes now and then. Method: small machines that die, over many seeds.
 */
#include <string.h>

#include "base/mem.h"
#include "lib/test_main.h"
#include "sim/sim_disk.h"

static struct ps_slice text(const char *words)
{
    return (struct ps_slice){.data = (const uint8_t *)words, .n_bytes = strlen(words)};
}

static enum ps_status write_text(struct ps_disk_file *file, uint64_t at, const char *words)
{
    struct ps_slice slice = text(words);
    return ps_disk_file_write(file, at, &slice, 1, NULL);
}

struct machine {
    struct sim_world *world;
    struct sim_disk disk;
    struct sim_node *node;
    struct ps_disk *port;
    uint32_t n_deaths;
};

static void machine_dies(void *arg, struct sim_node *node)
{
    struct machine *machine = arg;
    machine->n_deaths++;
    node->paused = node->crashed = true;
}

static void machine_init(struct machine *machine, uint64_t seed)
{
    *machine = (struct machine){.world = sim_world_create(seed)};
    sim_disk_init(&machine->disk, machine->world);
    machine->disk.crash = machine_dies;
    machine->disk.arg = machine;
    machine->node = sim_node_create(machine->world, "machine");
    machine->port = sim_disk_attach(&machine->disk, machine->node);
}

/* It loses its power, or only the process dies, and starts again. */
static void machine_restart(struct machine *machine, bool power)
{
    machine->node->crashed = machine->node->paused = true;
    sim_medium_crash(&machine->disk.medium, machine->node, power);
    machine->node = sim_node_create(machine->world, "machine");
    machine->port = sim_disk_attach(&machine->disk, machine->node);
}

static void machine_deinit(struct machine *machine)
{
    sim_disk_deinit(&machine->disk);
    sim_world_destroy(machine->world);
}

static bool holds(const struct machine *machine, const char *path, const char *words)
{
    uint8_t *data = NULL;
    size_t n_bytes = 0;
    if (ps_disk_read(machine->port, path, 4096, &data, &n_bytes, NULL) != PS_OK) {
        return words == NULL;
    }
    bool same = words != NULL && n_bytes == strlen(words) && memcmp(data, words, n_bytes) == 0;
    ps_mem_free(data);
    return same;
}

START_TEST(a_failed_replace_leaves_the_old_content_or_the_new)
{
    struct machine machine;
    machine_init(&machine, test_seed() + (uint64_t)_i);
    struct ps_disk *port = machine.port;
    uint8_t *data = NULL;
    size_t n_bytes = 0;
    ck_assert_int_eq(ps_disk_read(port, "a", 9, &data, &n_bytes, NULL), PS_ERR_NOT_FOUND);
    ck_assert_int_eq(ps_disk_replace(port, "a", (const uint8_t *)"old", 3, NULL), PS_OK);
    machine.disk.faults.write_fails_pm = 1000;
    ck_assert_int_eq(ps_disk_replace(port, "a", (const uint8_t *)"newer", 5, NULL), PS_ERR_IO);
    machine.disk.faults.write_fails_pm = 0;
    machine.disk.faults.crash_in = 1;
    ck_assert_int_eq(ps_disk_replace(port, "b", (const uint8_t *)"later", 5, NULL), PS_OK);
    ck_assert_uint_eq(machine.n_deaths, 1);
    machine_restart(&machine, true);
    ck_assert(holds(&machine, "a", "old") || holds(&machine, "a", "newer"));
    ck_assert(holds(&machine, "b", NULL) || holds(&machine, "b", "later"));
    machine_deinit(&machine);
}
END_TEST

/* 512 bytes of a letter: one sector. */
static const char *sector(char letter)
{
    static char words[SIM_SECTOR + 1];
    memset(words, letter, SIM_SECTOR);
    return words;
}

/* Sectors of eight unsynced ones that are there afterwards. */
static uint32_t cut_power(uint64_t seed, bool power)
{
    struct machine machine;
    machine_init(&machine, seed);
    struct ps_disk_file *file = NULL;
    ck_assert_int_eq(ps_disk_make_dir(machine.port, "a/b", NULL), PS_OK);
    ck_assert_int_eq(ps_disk_open(machine.port, "a/b/log", PS_DISK_CREATE, &file, NULL), PS_OK);
    ck_assert_int_eq(ps_disk_sync_dir(machine.port, "a/b", NULL), PS_OK);
    for (uint32_t s = 0; s < 8; s++) {
        ck_assert_int_eq(write_text(file, s * SIM_SECTOR, sector('s')), PS_OK);
    }
    ck_assert_int_eq(ps_disk_file_sync(file, NULL), PS_OK);
    for (uint32_t s = 4; s < 12; s++) {
        ck_assert_int_eq(write_text(file, s * SIM_SECTOR, sector('u')), PS_OK);
    }
    ps_disk_file_close(file);
    machine_restart(&machine, power);
    uint8_t *data = NULL;
    size_t n_bytes = 0;
    ck_assert_int_eq(ps_disk_read(machine.port, "a/b/log", 9999, &data, &n_bytes, NULL), PS_OK);
    ck_assert(n_bytes == 8 * SIM_SECTOR || n_bytes == 12 * SIM_SECTOR);
    uint32_t n_new = 0;
    for (size_t i = 0; i < n_bytes; i++) {
        size_t s = i / SIM_SECTOR;
        char letter = (char)data[i];
        ck_assert(letter == (char)data[s * SIM_SECTOR]); /* Sectors are whole. */
        ck_assert(s >= 4 || letter == 's');
        ck_assert(letter == 'u' || (s < 8 && letter == 's') || (s >= 8 && letter == 0));
        n_new += i % SIM_SECTOR == 0 && letter == 'u';
    }
    ps_mem_free(data);
    machine_deinit(&machine);
    return n_new;
}

START_TEST(a_power_cut_takes_what_was_not_synced_and_a_kill_takes_nothing)
{
    uint32_t n_seen[9] = {0};
    for (uint64_t i = 0; i < 60; i++) {
        ck_assert_uint_eq(cut_power(test_seed() + i, false), 8);
        n_seen[cut_power(test_seed() + i, true)]++;
    }
    ck_assert(n_seen[0] > 0 && n_seen[4] > 0 && n_seen[8] > 0);
}
END_TEST

START_TEST(a_name_is_lost_with_the_power_when_its_directory_was_not_synced)
{
    uint32_t n_found[3] = {0};
    for (uint64_t i = 0; i < 60; i++) {
        struct machine machine;
        machine_init(&machine, test_seed() + i);
        struct ps_disk_file *file = NULL;
        ck_assert_int_eq(ps_disk_open(machine.port, "new", PS_DISK_CREATE, &file, NULL), PS_OK);
        ck_assert_int_eq(write_text(file, 0, "words"), PS_OK);
        ck_assert_int_eq(ps_disk_file_sync(file, NULL), PS_OK);
        ps_disk_file_close(file);
        bool synced = i % 2 == 0;
        if (synced) {
            ck_assert_int_eq(ps_disk_sync_dir(machine.port, ".", NULL), PS_OK);
        }
        ck_assert_int_eq(ps_disk_rename(machine.port, "new", "newer", NULL), PS_OK);
        ck_assert(holds(&machine, "newer", "words") && holds(&machine, "new", NULL));
        machine_restart(&machine, true);
        bool old = holds(&machine, "new", "words");
        bool newer = holds(&machine, "newer", "words");
        ck_assert(!(old && newer)); /* A rename is atomic. */
        ck_assert(old || newer || !synced);
        n_found[old ? 0 : newer ? 1 : 2]++;
        machine_deinit(&machine);
    }
    ck_assert(n_found[0] > 0 && n_found[1] > 0 && n_found[2] > 0);
}
END_TEST

START_TEST(a_failed_sync_loses_what_no_later_sync_brings_back)
{
    uint32_t n_lost = 0;
    for (uint64_t i = 0; i < 20; i++) {
        struct machine machine;
        machine_init(&machine, test_seed() + i);
        struct ps_disk_file *file = NULL;
        ck_assert_int_eq(ps_disk_open(machine.port, "log", PS_DISK_ANEW, &file, NULL), PS_OK);
        ck_assert_int_eq(ps_disk_sync_dir(machine.port, "", NULL), PS_OK);
        ck_assert_int_eq(write_text(file, 0, sector('x')), PS_OK);
        machine.disk.faults.sync_fails_pm = 1000;
        ck_assert_int_eq(ps_disk_file_sync(file, NULL), PS_ERR_IO);
        machine.disk.faults.sync_fails_pm = 0;
        ck_assert_int_eq(ps_disk_file_sync(file, NULL), PS_OK);
        ck_assert(holds(&machine, "log", sector('x'))); /* Memory has it. */
        ps_disk_file_forget(file);
        bool there = holds(&machine, "log", sector('x'));
        ps_disk_file_close(file);
        machine_restart(&machine, true);
        ck_assert(holds(&machine, "log", sector('x')) == there);
        n_lost += !there;
        machine_deinit(&machine);
    }
    ck_assert(n_lost > 0 && n_lost < 20);
}
END_TEST

START_TEST(a_full_disk_says_so_and_takes_bytes_again_when_there_is_room)
{
    struct machine machine;
    machine_init(&machine, test_seed() + (uint64_t)_i);
    struct ps_disk_file *file = NULL;
    struct ps_disk_file *other = NULL;
    machine.disk.faults.n_bytes_room = 4 * SIM_SECTOR;
    ck_assert_int_eq(ps_disk_open(machine.port, "a", PS_DISK_ANEW, &file, NULL), PS_OK);
    ck_assert_int_eq(ps_disk_open(machine.port, "b", PS_DISK_ANEW, &other, NULL), PS_OK);
    ck_assert_int_eq(ps_disk_file_allocate(file, 3 * SIM_SECTOR, NULL), PS_OK);
    ck_assert_int_eq(ps_disk_file_allocate(other, 2 * SIM_SECTOR, NULL), PS_ERR_NO_SPACE);
    ck_assert_int_eq(write_text(other, 0, sector('b')), PS_OK);
    ck_assert_int_eq(write_text(other, SIM_SECTOR, sector('b')), PS_ERR_NO_SPACE);
    ck_assert_int_eq(write_text(file, 2 * SIM_SECTOR, sector('a')), PS_OK); /* Was promised. */
    ck_assert_int_eq(ps_disk_replace(machine.port, "c", (const uint8_t *)"c", 1, NULL),
                     PS_ERR_NO_SPACE);
    ps_disk_file_close(file);
    ck_assert_int_eq(ps_disk_remove(machine.port, "a", NULL), PS_OK);
    ck_assert_int_eq(ps_disk_sync_dir(machine.port, "", NULL), PS_OK);
    ck_assert_int_eq(write_text(other, SIM_SECTOR, sector('b')), PS_OK);
    ps_disk_file_close(other);
    machine_deinit(&machine);
}
END_TEST

START_TEST(a_process_that_died_in_a_write_leaves_its_beginning_and_does_nothing_more)
{
    uint32_t n_part = 0;
    for (uint64_t i = 0; i < 20; i++) {
        struct machine machine;
        machine_init(&machine, test_seed() + i);
        struct ps_disk_file *file = NULL;
        struct ps_disk_file *lock = NULL;
        struct ps_disk_file *more = NULL;
        ck_assert_int_eq(ps_disk_open(machine.port, "log", PS_DISK_ANEW, &file, NULL), PS_OK);
        ck_assert_int_eq(ps_disk_lock(machine.port, "lock", &lock, NULL), PS_OK);
        machine.disk.faults.crash_in = 2;
        ck_assert_int_eq(write_text(file, 0, "first"), PS_OK);
        ck_assert_int_eq(write_text(file, 5, "second"), PS_OK);
        ck_assert_uint_eq(machine.n_deaths, 1);
        ck_assert_int_eq(write_text(file, 0, "after"), PS_OK); /* It is told nothing else. */
        ck_assert_int_eq(ps_disk_file_sync(file, NULL), PS_OK);
        ck_assert_int_eq(ps_disk_remove(machine.port, "log", NULL), PS_OK);
        ck_assert_int_eq(ps_disk_open(machine.port, "more", PS_DISK_CREATE, &more, NULL), PS_OK);
        machine_restart(&machine, false);
        uint8_t *data = NULL;
        size_t n_bytes = 0;
        ck_assert_int_eq(ps_disk_read(machine.port, "log", 99, &data, &n_bytes, NULL), PS_OK);
        ck_assert(n_bytes >= 5 && memcmp(data, "firstsecond", n_bytes) == 0);
        ck_assert(holds(&machine, "more", NULL));
        n_part += n_bytes > 5 && n_bytes < 11;
        ps_mem_free(data);
        struct ps_disk_file *mine = NULL;
        ck_assert_int_eq(ps_disk_lock(machine.port, "lock", &mine, NULL), PS_OK);
        ps_disk_file_close(lock); /* The dead one's: takes nothing away from the new. */
        struct ps_disk_file *second = NULL;
        struct ps_disk *third =
            sim_disk_attach(&machine.disk, sim_node_create(machine.world, "third"));
        struct ps_error err;
        ck_assert_int_eq(ps_disk_lock(third, "lock", &second, &err), PS_ERR_EXISTS);
        ck_assert_ptr_nonnull(strstr(err.text, "is in use by process"));
        ps_disk_file_close(mine);
        ps_disk_file_close(file);
        ps_disk_file_close(more);
        machine_deinit(&machine);
    }
    ck_assert_uint_gt(n_part, 0);
}
END_TEST

START_TEST(sectors_that_go_astray_and_bits_that_rot_change_the_file)
{
    uint32_t n_astray = 0;
    for (uint64_t i = 0; i < 20; i++) {
        struct machine machine;
        machine_init(&machine, test_seed() + i);
        struct ps_disk_file *file = NULL;
        ck_assert_int_eq(ps_disk_open(machine.port, "log", PS_DISK_ANEW, &file, NULL), PS_OK);
        ck_assert_int_eq(ps_disk_sync_dir(machine.port, "", NULL), PS_OK);
        ck_assert_int_eq(write_text(file, 0, sector('a')), PS_OK);
        ck_assert_int_eq(write_text(file, SIM_SECTOR, sector('b')), PS_OK);
        ck_assert_int_eq(ps_disk_file_sync(file, NULL), PS_OK);
        machine.disk.faults.astray_pm = 1000;
        ck_assert_int_eq(write_text(file, SIM_SECTOR, sector('c')), PS_OK);
        ck_assert_int_eq(ps_disk_file_sync(file, NULL), PS_OK);
        ps_disk_file_close(file);
        machine_restart(&machine, true);
        char both[2 * SIM_SECTOR + 1] = {0};
        memcpy(both, sector('a'), SIM_SECTOR);
        memcpy(both + SIM_SECTOR, sector('c'), SIM_SECTOR);
        bool right = holds(&machine, "log", both);
        ck_assert(right == (machine.disk.n_astray == 0));
        n_astray += !right;
        ck_assert(sim_disk_rot(&machine.disk, "lo"));
        ck_assert(!right || !holds(&machine, "log", both));
        ck_assert(!sim_disk_rot(&machine.disk, "elsewhere"));
        machine_deinit(&machine);
    }
    ck_assert_uint_gt(n_astray, 0);
}
END_TEST

static Suite *suite_sim_disk(void)
{
    Suite *suite = suite_create("sim_disk");
    TCase *tcase = tcase_create("disk");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, a_failed_replace_leaves_the_old_content_or_the_new, 0, 8);
    tcase_add_test(tcase, a_power_cut_takes_what_was_not_synced_and_a_kill_takes_nothing);
    tcase_add_test(tcase, a_name_is_lost_with_the_power_when_its_directory_was_not_synced);
    tcase_add_test(tcase, a_failed_sync_loses_what_no_later_sync_brings_back);
    tcase_add_loop_test(tcase, a_full_disk_says_so_and_takes_bytes_again_when_there_is_room, 0, 8);
    tcase_add_test(tcase,
                   a_process_that_died_in_a_write_leaves_its_beginning_and_does_nothing_more);
    tcase_add_test(tcase, sectors_that_go_astray_and_bits_that_rot_change_the_file);
    suite_add_tcase(suite, tcase);
    return suite;
}

PS_TEST_MAIN(suite_sim_disk)
