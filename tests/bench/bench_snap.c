/*
 * bench_snap.c — the rate at which a part of a snapshot is written, against that of plain writes of
 * the same bytes to the same disk, in turns: bench_snap FOLDER [MB]. Ratios of one run; no gate.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/test_main.h"
#include "os/clock.h"
#include "os/posix_disk.h"
#include "unit/snap/rig.h"

#define TURNS 3

static double seconds_since(uint64_t ns)
{
    return (double)(ps_clock_ns() - ns) / 1e9;
}

/* As dd conv=fdatasync does it. */
static double write_plainly(const char *folder, uint64_t n_bytes)
{
    char path[512];
    struct ps_disk *disk = ps_posix_disk();
    struct ps_disk_file *file = NULL;
    uint8_t *chunk = malloc(PS_SNAP_CHUNK_BYTES);
    struct ps_slice slice = {.data = chunk, .n_bytes = PS_SNAP_CHUNK_BYTES};
    ck_assert_ptr_nonnull(chunk);
    memset(chunk, 0x5a, PS_SNAP_CHUNK_BYTES);
    (void)snprintf(path, sizeof(path), "%s/plain", folder);
    uint64_t began = ps_clock_ns();
    ck_assert_int_eq(ps_disk_open(disk, path, PS_DISK_ANEW, &file, NULL), PS_OK);
    for (uint64_t at = 0; at < n_bytes; at += PS_SNAP_CHUNK_BYTES) {
        ck_assert_int_eq(ps_disk_file_write(file, at, &slice, 1, NULL), PS_OK);
    }
    ck_assert_int_eq(ps_disk_file_sync(file, NULL), PS_OK);
    ps_disk_file_close(file);
    double took = seconds_since(began);
    ck_assert_int_eq(ps_disk_remove(disk, path, NULL), PS_OK);
    free(chunk);
    return took;
}

static void measure(const char *what, const char *folder, const struct rig_size *size)
{
    static struct rig rig;
    double plain = 0.0;
    double ours = 0.0;
    uint64_t n_bytes = 0;
    struct ps_error err;
    rig_init(&rig, ps_posix_disk(), size, 1);
    (void)snprintf(rig.dir, sizeof(rig.dir), "%s/snapshots", folder);
    enum ps_status status = rig_open(&rig, PS_SNAP_PLANT_NONE, &err);
    ck_assert_msg(status == PS_OK, "%s", err.text);
    for (uint64_t turn = 1; turn <= TURNS; turn++) {
        struct ps_snap_write write = {0};
        uint64_t began = ps_clock_ns();
        rig_write_part(&rig, turn, 0, 1, &write);
        ours += seconds_since(began);
        ck_assert_msg(write.err.status == PS_OK, "%s", write.err.text);
        n_bytes = write.n_bytes;
        plain += write_plainly(folder, n_bytes);
        struct ps_cut_kept kept = {.n = 1};
        ck_assert_int_eq(ps_cut_keep(rig.keeper, &kept, &err), PS_OK);
    }
    double mb = (double)n_bytes * TURNS / 1e6;
    (void)printf("%-20s %6.0f MB a turn: snapshot %6.0f MB/s, plain writes %6.0f MB/s: %.2f\n",
                 what, mb / TURNS, mb / ours, mb / plain, plain / ours);
    rig_deinit(&rig);
}

static const char *place;
static uint64_t n_mb = 300;

/* The rig asserts as tests do, so it runs as one. */
START_TEST(figures)
{
    /* adagrad: a weight and its state; a row has 16 bytes more. Three of four keys have
     * rows. */
    struct rig_size dense = {
        .n_floats = n_mb * 1000000 / 8, .n_keys = 1, .width = 1, .one_rule = true};
    struct rig_size wide = {.n_floats = 1,
                            .n_keys = (uint32_t)(n_mb * 1000000 / (32 * 8 + 16) / 48),
                            .width = 32,
                            .one_rule = true,
                            .admit_all = true};
    struct rig_size narrow = wide;
    narrow.width = 1;
    narrow.n_keys = (uint32_t)(n_mb * 1000000 / 24 / 48);
    measure("dense", place, &dense);
    measure("rows of 32", place, &wide);
    measure("rows of 1", place, &narrow);
}
END_TEST

static Suite *suite_bench(void)
{
    Suite *suite = suite_create("bench");
    TCase *tcase = tcase_create("core");
    tcase_set_timeout(tcase, 3600);
    tcase_add_test(tcase, figures);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(int argc, char **argv)
{
    Suite *(*const suites[])(void) = {suite_bench};
    if (argc < 2) {
        (void)fprintf(stderr, "bench_snap FOLDER [MB]\n");
        return 2;
    }
    place = argv[1];
    n_mb = argc > 2 ? strtoull(argv[2], NULL, 10) : n_mb;
    return test_run(suites, 1);
}
