/*
 * bench_snap.c — the rate at which a part of a snapshot is written, against that of plain and of
 * direct writes of the same bytes to the same disk, in turns: bench_snap FOLDER [MB]. Ratios of one
 * run, and CPU; no gate.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lib/test_main.h"
#include "os/clock.h"
#include "os/posix_disk.h"
#include "unit/snap/rig.h"

#define TURNS 5

/* Seconds by the clock, and of this process's CPUs. */
struct took {
    double wall;
    double cpu;
};

static struct took now(void)
{
    struct timespec cpu;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    return (struct took){.wall = (double)ps_clock_ns() / 1e9,
                         .cpu = (double)cpu.tv_sec + (double)cpu.tv_nsec / 1e9};
}

static struct took since(struct took began)
{
    struct took ended = now();
    return (struct took){.wall = ended.wall - began.wall, .cpu = ended.cpu - began.cpu};
}

/* As dd conv=fdatasync does it; directly: with oflag=direct. */
static struct took write_plainly(const char *folder, uint64_t n_bytes, bool directly)
{
    static _Alignas(PS_DISK_ALIGN) uint8_t chunk[PS_SNAP_CHUNK_BYTES];
    char path[512];
    struct ps_disk *disk = ps_posix_disk();
    struct ps_disk_file *file = NULL;
    struct ps_slice slice = {.data = chunk, .n_bytes = PS_SNAP_CHUNK_BYTES};
    memset(chunk, 0x5a, PS_SNAP_CHUNK_BYTES);
    (void)snprintf(path, sizeof(path), "%s/plain", folder);
    struct took began = now();
    ck_assert_int_eq(ps_disk_open(disk, path, PS_DISK_ANEW, &file, NULL), PS_OK);
    if (directly) {
        ps_disk_file_pass_by(file);
    }
    for (uint64_t at = 0; at < n_bytes; at += PS_SNAP_CHUNK_BYTES) {
        ck_assert_int_eq(ps_disk_file_write(file, at, &slice, 1, NULL), PS_OK);
    }
    ck_assert_int_eq(ps_disk_file_sync(file, NULL), PS_OK);
    ps_disk_file_close(file);
    struct took took = since(began);
    ck_assert_int_eq(ps_disk_remove(disk, path, NULL), PS_OK);
    return took;
}

static int by_wall(const void *a, const void *b)
{
    double one = ((const struct took *)a)->wall;
    double other = ((const struct took *)b)->wall;
    return one < other ? -1 : one > other;
}

/* The one in the middle, by the clock. */
static struct took middle(struct took took[TURNS])
{
    qsort(took, TURNS, sizeof(took[0]), by_wall);
    return took[TURNS / 2];
}

static void measure(const char *what, const char *folder, const struct rig_size *size)
{
    static struct rig rig;
    struct took plain[TURNS];
    struct took direct[TURNS];
    struct took ours[TURNS];
    uint64_t n_bytes = 0;
    struct ps_error err;
    rig_init(&rig, ps_posix_disk(), size, 1);
    (void)snprintf(rig.dir, sizeof(rig.dir), "%s/snapshots", folder);
    enum ps_status status = rig_open(&rig, PS_SNAP_PLANT_NONE, &err);
    ck_assert_msg(status == PS_OK, "%s", err.text);
    for (uint64_t turn = 0; turn < TURNS; turn++) {
        struct ps_snap_write write = {0};
        struct took began = now();
        rig_write_part(&rig, turn + 1, 0, 1, &write);
        ours[turn] = since(began);
        ck_assert_msg(write.err.status == PS_OK, "%s", write.err.text);
        n_bytes = write.n_bytes;
        plain[turn] = write_plainly(folder, n_bytes, false);
        direct[turn] = write_plainly(folder, n_bytes, true);
        struct ps_cut_kept kept = {.n = 1};
        ck_assert_int_eq(ps_cut_keep(rig.keeper, &kept, &err), PS_OK);
    }
    double mb = (double)n_bytes / 1e6;
    struct took a = middle(ours);
    struct took b = middle(plain);
    struct took c = middle(direct);
    (void)printf("%-12s %5.0f MB: snapshot %5.0f MB/s, %.2f CPU s a GB; plain writes %5.0f (%.2f), "
                 "CPU %.2f; direct ones %5.0f (%.2f), CPU %.2f\n",
                 what, mb, mb / a.wall, 1e3 * a.cpu / mb, mb / b.wall, b.wall / a.wall,
                 1e3 * b.cpu / mb, mb / c.wall, c.wall / a.wall, 1e3 * c.cpu / mb);
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
