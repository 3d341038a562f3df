/*
 * test_snap.c — a snapshot holds what was cut, whoever reads it: models of all rules written and
 * read, on the simulated disk. How damage is found: test_damage.c.
 */
#include <string.h>

#include "base/attr.h"
#include "lib/test_main.h"
#include "sim/sim_disk.h"
#include "unit/snap/rig.h"
#include "unit/snap/suites.h"

static struct sim_world *world;
static struct sim_disk disk;
static struct rig rig;
static struct ps_error err;

static void begin(const struct rig_size *size)
{
    world = sim_world_create(test_seed());
    sim_disk_init(&disk, world);
    rig_init(&rig, sim_disk_attach(&disk, sim_node_create(world, "server")), size, test_seed());
    enum ps_status status = rig_open(&rig, PS_SNAP_PLANT_NONE, &err);
    ck_assert_msg(status == PS_OK, "%s", err.text);
}

static void end(void)
{
    rig_deinit(&rig);
    sim_disk_deinit(&disk);
    sim_world_destroy(world);
}

static void snapshot(uint64_t cut, uint32_t n_servers)
{
    enum ps_status status = rig_snapshot(&rig, cut, n_servers, &err);
    ck_assert_msg(status == PS_OK, "%s", err.text);
}

static struct ps_snap *open_newest(uint64_t cut)
{
    struct ps_snap_place place = rig_place(&rig);
    struct ps_snap *snap = NULL;
    enum ps_status status = ps_snap_open_newest(&place, NULL, NULL, &snap, &err);
    ck_assert_msg(status == PS_OK, "%s", err.text);
    ck_assert_uint_eq(ps_snap_manifest(snap)->cut, cut);
    return snap;
}

static const uint32_t readers[] = {1, 2, 3, 5};

START_TEST(what_two_servers_wrote_any_number_reads_bit_for_bit)
{
    struct rig_model read;
    begin(&RIG_SMALL);
    snapshot(1, 2);
    struct ps_snap *snap = open_newest(1);
    ck_assert_uint_eq(ps_snap_slots(snap), UINT64_MAX);
    enum ps_status status = rig_load(&rig, snap, readers[_i], &read, &err);
    ck_assert_msg(status == PS_OK, "%s", err.text);
    ck_assert_uint_gt(read.n_rows_read, 0);
    ck_assert_uint_gt(read.n_blocks_read, 0);
    rig_same(&rig, &rig.model, &read);
    rig_model_deinit(&read);
    ps_snap_close(snap);
    end();
}
END_TEST

START_TEST(what_changes_after_the_cut_is_not_in_it)
{
    struct rig_model read;
    struct rig_model again;
    begin(&RIG_SMALL);
    snapshot(1, 1);
    struct ps_snap *first = open_newest(1);
    ck_assert_int_eq(rig_load(&rig, first, 1, &read, &err), PS_OK);
    struct ps_snap_write write = {0};
    struct ps_cut *cut = rig_cut(&rig, 0, 1);
    rig_train(&rig, 99);
    ps_cut_free(cut);
    rig_write_part(&rig, 2, 0, 1, &write);
    ck_assert_int_eq(rig_load(&rig, first, 1, &again, &err), PS_OK);
    rig_same(&rig, &read, &again);
    rig_model_deinit(&read);
    rig_model_deinit(&again);
    ps_snap_close(first);
    end();
}
END_TEST

START_TEST(a_model_of_many_chunks_comes_back)
{
    struct rig_model read;
    begin(&(struct rig_size){.n_floats = 1500000, .n_keys = 300, .width = 17});
    snapshot(1, 1);
    struct ps_snap *snap = open_newest(1);
    ck_assert_int_eq(ps_snap_verify(snap, &err), PS_OK);
    ck_assert_int_eq(rig_load(&rig, snap, 2, &read, &err), PS_OK);
    rig_same(&rig, &rig.model, &read);
    rig_model_deinit(&read);
    ps_snap_close(snap);
    end();
}
END_TEST

START_TEST(a_job_without_tables_has_lines_only)
{
    struct rig_model read;
    begin(&RIG_SMALL);
    rig.n_tables = 0;
    snapshot(1, 2);
    struct ps_snap *snap = open_newest(1);
    ck_assert_int_eq(rig_load(&rig, snap, 1, &read, &err), PS_OK);
    for (uint32_t s = 0; s < PS_SLOTS; s++) {
        ck_assert_str_eq(read.lines[s], rig.model.lines[s]);
    }
    rig_model_deinit(&read);
    ps_snap_close(snap);
    end();
}
END_TEST

START_TEST(what_is_staged_comes_back_to_who_reads_its_slot)
{
    struct rig_model read;
    begin(&(struct rig_size){
        .n_floats = 20, .n_keys = 3, .width = 1, .n_staged = 11, .one_rule = true});
    snapshot(1, 2);
    struct ps_snap *snap = open_newest(1);
    ck_assert_int_eq(ps_snap_verify(snap, &err), PS_OK);
    for (uint32_t n = 1; n <= 3; n++) {
        enum ps_status status = rig_load(&rig, snap, n, &read, &err);
        ck_assert_msg(status == PS_OK, "%s", err.text);
        ck_assert_uint_eq(read.n_staged, 11);
        rig_model_deinit(&read);
    }
    ps_snap_close(snap);
    end();
}
END_TEST

START_TEST(the_job_and_the_definitions_come_back)
{
    uint8_t *bytes = NULL;
    size_t n_bytes = 0;
    begin(&RIG_SMALL);
    snapshot(1, 2);
    struct ps_snap *snap = open_newest(1);
    ck_assert_int_eq(ps_snap_job(snap, &bytes, &n_bytes, &err), PS_OK);
    ck_assert_uint_eq(n_bytes, sizeof("the job"));
    ck_assert_str_eq((const char *)bytes, "the job");
    ps_mem_free(bytes);
    ck_assert_int_eq(ps_snap_table(snap, 3, &bytes, &n_bytes, &err), PS_OK);
    ck_assert_uint_eq(n_bytes, strlen("table 3"));
    ck_assert_mem_eq(bytes, "table 3", n_bytes);
    ps_mem_free(bytes);
    ck_assert_int_eq(ps_snap_table(snap, 200, &bytes, &n_bytes, &err), PS_ERR_NOT_FOUND);
    ps_snap_close(snap);
    end();
}
END_TEST

START_TEST(a_write_that_was_called_off_leaves_nothing)
{
    struct ps_disk_entry *entries = NULL;
    size_t n = 1;
    begin(&RIG_SMALL);
    struct ps_snap_write write = {.called_off = true};
    rig_write_part(&rig, 1, 0, 1, &write);
    ck_assert_int_eq(write.err.status, PS_ERR_CANCELED);
    ck_assert_int_eq(ps_disk_list(rig.disk, RIG_DIR, &entries, &n, &err), PS_OK);
    ck_assert_uint_eq(n, 0);
    ps_mem_free(entries);
    end();
}
END_TEST

START_TEST(a_part_of_an_earlier_process_is_written_over_only_while_it_has_no_name)
{
    struct ps_disk_file *file = NULL;
    begin(&RIG_SMALL);
    ck_assert_int_eq(ps_disk_make_dir(rig.disk, RIG_DIR "/000003-0000000001/server-0.tmp", &err),
                     PS_OK);
    ck_assert_int_eq(ps_disk_open(rig.disk, RIG_DIR "/000003-0000000001/server-0.tmp/SLOTS",
                                  PS_DISK_CREATE, &file, &err),
                     PS_OK);
    ps_disk_file_close(file);
    snapshot(1, 1);
    struct ps_snap_write write = {0};
    rig_write_part(&rig, 1, 0, 1, &write);
    ck_assert_int_ne(write.err.status, PS_OK);
    ps_snap_close(open_newest(1));
    end();
}
END_TEST

START_TEST(without_memory_a_write_fails_in_words_and_leaks_nothing)
{
    begin(&RIG_SMALL);
    bool done = false;
    for (int64_t after = 0; !done; after += after < 40 ? 1 : 7) {
        struct ps_snap_write write = {0};
        rig.fail_after = after;
        rig_write_part(&rig, 1, 0, 1, &write);
        done = write.err.status == PS_OK;
        ck_assert_msg(done || (write.err.status == PS_ERR_NOMEM && write.err.text[0] != '\0'),
                      "%d %s", (int)write.err.status, write.err.text);
    }
    end();
}
END_TEST

/* ---- Which there are ------------------------------------------------------------------------ */

START_TEST(the_newest_n_are_kept_and_rubbish_goes)
{
    struct ps_snap_place place;
    struct ps_snap_entry *entries = NULL;
    size_t n = 0;
    struct ps_cut_kept kept = {.n = 2, .generation = 3, .cut = 1};
    begin(&RIG_SMALL);
    place = rig_place(&rig);
    for (uint64_t i = 1; i <= 5; i++) {
        struct ps_snap_write write = {0};
        if (i == 3) {
            rig_write_part(&rig, i, 0, 2, &write); /* Never finished. */
        } else {
            snapshot(i, 2);
        }
    }
    struct ps_snap_write write = {0};
    rig_write_part(&rig, 6, 0, 2, &write); /* Given up. */
    ck_assert_int_eq(ps_snap_list(&place, &entries, &n, &err), PS_OK);
    ck_assert_uint_eq(n, 6);
    ck_assert(!entries[0].complete && entries[1].complete && !entries[3].complete);
    ck_assert_uint_eq(entries[0].why.status, PS_ERR_NOT_FOUND);
    ck_assert_str_eq(entries[1].taken, "2023-11-14T22:13:20Z");
    ck_assert_uint_eq(entries[1].n_found, 2);
    ps_mem_free(entries);
    ck_assert_int_eq(ps_cut_keep(rig.keeper, &kept, &err), PS_OK);
    ck_assert_uint_eq(kept.oldest_generation, 3);
    ck_assert_uint_eq(kept.oldest_cut, 1); /* The job stands on it. */
    ck_assert_int_eq(ps_snap_list(&place, &entries, &n, &err), PS_OK);
    ck_assert_uint_eq(n, 3);
    ck_assert_uint_eq(entries[0].cut, 5);
    ck_assert_uint_eq(entries[1].cut, 4);
    ck_assert_uint_eq(entries[2].cut, 1);
    ps_mem_free(entries);
    kept = (struct ps_cut_kept){.n = 1};
    ck_assert_int_eq(ps_cut_keep(rig.keeper, &kept, &err), PS_OK);
    ck_assert_uint_eq(kept.oldest_cut, 5);
    ps_snap_close(open_newest(5));
    end();
}
END_TEST

START_TEST(a_server_finds_its_own_newest_part_and_goes_back_further)
{
    struct ps_snap *snap = NULL;
    begin(&RIG_SMALL);
    struct ps_snap_place place = rig_place(&rig);
    struct ps_snap_own own = {.generation = 3, .server = 1};
    struct ps_snap_write write = {0};
    ck_assert_int_eq(ps_snap_open_part(&place, &own, NULL, NULL, &snap, &err), PS_ERR_NOT_FOUND);
    snapshot(1, 2);
    rig_write_part(&rig, 2, 1, 2, &write);
    rig_write_part(&rig, 3, 0, 2, &write);
    ck_assert_int_eq(ps_snap_open_part(&place, &own, NULL, NULL, &snap, &err), PS_OK);
    ck_assert_uint_eq(ps_snap_part(snap, 0)->cut, 2);
    ck_assert_uint_eq(ps_snap_part(snap, 0)->base_lsn, 77);
    ck_assert_uint_eq(ps_snap_slots(snap), UINT64_C(0xaaaaaaaaaaaaaaaa));
    ck_assert_int_eq(ps_snap_load(snap, 1, &(struct ps_snap_visitor){0}, &err), PS_ERR_LOST);
    ps_snap_close(snap);
    own.below = 2;
    ck_assert_int_eq(ps_snap_open_part(&place, &own, NULL, NULL, &snap, &err), PS_OK);
    ck_assert_uint_eq(ps_snap_part(snap, 0)->cut, 1);
    ps_snap_close(snap);
    own.cluster.bytes[0] = 1;
    ck_assert_int_eq(ps_snap_open_part(&place, &own, NULL, NULL, &snap, &err), PS_ERR_NOT_FOUND);
    own = (struct ps_snap_own){.generation = 2, .server = 1};
    ck_assert_int_eq(ps_snap_open_part(&place, &own, NULL, NULL, &snap, &err), PS_ERR_NOT_FOUND);
    end();
}
END_TEST

START_TEST(the_keeper_finds_cuts_again_with_their_job)
{
    struct ps_cut_found found;
    begin(&RIG_SMALL);
    ck_assert_int_eq(ps_cut_newest(rig.keeper, NULL, &found, &err), PS_ERR_NOT_FOUND);
    snapshot(7, 2);
    snapshot(8, 2);
    ck_assert_int_eq(ps_cut_newest(rig.keeper, NULL, &found, &err), PS_OK);
    ck_assert_str_eq(found.name, "000003-0000000008");
    ck_assert_str_eq(found.dir, RIG_DIR);
    ck_assert_str_eq((const char *)found.job, "the job");
    ps_mem_free(found.job);
    ck_assert_int_eq(ps_cut_find(rig.keeper, 3, 7, &found, &err), PS_OK);
    ck_assert_uint_eq(found.cut, 7);
    ps_mem_free(found.job);
    ck_assert_int_eq(ps_cut_find(rig.keeper, 3, 9, &found, &err), PS_ERR_NOT_FOUND);
    ck_assert_int_eq(ps_cut_newest(rig.keeper, "/elsewhere", &found, &err), PS_ERR_NOT_FOUND);
    end();
}
END_TEST

Suite *suite_snap(void)
{
    Suite *suite = suite_create("snap");
    TCase *tcase = tcase_create("core");
    tcase_set_timeout(tcase, 300);
    tcase_add_loop_test(tcase, what_two_servers_wrote_any_number_reads_bit_for_bit, 0,
                        (int)PS_ARRAY_LEN(readers));
    tcase_add_test(tcase, what_changes_after_the_cut_is_not_in_it);
    tcase_add_test(tcase, a_model_of_many_chunks_comes_back);
    tcase_add_test(tcase, a_job_without_tables_has_lines_only);
    tcase_add_test(tcase, what_is_staged_comes_back_to_who_reads_its_slot);
    tcase_add_test(tcase, the_job_and_the_definitions_come_back);
    tcase_add_test(tcase, a_write_that_was_called_off_leaves_nothing);
    tcase_add_test(tcase, a_part_of_an_earlier_process_is_written_over_only_while_it_has_no_name);
    tcase_add_test(tcase, without_memory_a_write_fails_in_words_and_leaks_nothing);
    tcase_add_test(tcase, the_newest_n_are_kept_and_rubbish_goes);
    tcase_add_test(tcase, a_server_finds_its_own_newest_part_and_goes_back_further);
    tcase_add_test(tcase, the_keeper_finds_cuts_again_with_their_job);
    suite_add_tcase(suite, tcase);
    return suite;
}
