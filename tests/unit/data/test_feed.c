/*
 * test_feed.c — over all parts of an epoch every row comes once, in units that do not depend on who
 * asks for them or how; and the sizes of parts that are chosen for a job.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/rng.h"
#include "data/feed.h"
#include "data/hash.h"
#include "data/learning.h"
#include "lib/test_main.h"
#include "unit/data/suites.h"
#include "unit/data/temp_folder.h"

enum {
    TEXT_BYTES = 1 << 20,
    ROWS_MAX = 5000
};

static struct temp_folder folder;
static char text[TEXT_BYTES];

static void setup(void)
{
    temp_folder_make(&folder);
}

static void teardown(void)
{
    temp_folder_remove(&folder);
}

/* Data that are open and described. */
struct data {
    struct ps_source *source;
    struct ps_description *description;
};

static enum ps_status data_open(struct ps_mem *mem, struct data *data, struct ps_error *err)
{
    struct ps_learn_options options = {
        .mem = mem, .task = PS_TASK_VALUE, .format = "libsvm", .max_bad_rows = UINT64_MAX};
    *data = (struct data){0};
    enum ps_status status = ps_source_open(mem, folder.path, &data->source, err);
    return status == PS_OK ? ps_learn(data->source, &options, &data->description, err) : status;
}

static void data_close(struct data *data)
{
    ps_description_destroy(data->description);
    ps_source_close(data->source);
}

/* Rows whose label is their number and whose key is 7 times that, of any length. */
static size_t put_rows(const char *name, uint32_t first, uint32_t n, struct ps_rng *rng)
{
    size_t used = 0;
    for (uint32_t row = first; row < first + n; row++) {
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%" PRIu32 " %" PRIu32 ":1", row,
                                 7 * row + 1);
        for (uint64_t i = ps_rng_below(rng, 9); i > 0; i--) {
            used += (size_t)snprintf(text + used, sizeof(text) - used, " %" PRIu64 ":2.5",
                                     7 * (uint64_t)row + 1 + i);
        }
        text[used++] = '\n';
        if (ps_rng_below(rng, 11) == 0) {
            used += (size_t)snprintf(text + used, sizeof(text) - used, "# a remark\n\n");
        }
        ck_assert_uint_lt(used, sizeof(text) - 200);
    }
    if (name[0] == 'z') {
        static uint8_t packed[TEXT_BYTES];
        size_t n_packed = pack_gzip((const uint8_t *)text, used, packed, sizeof(packed));
        temp_folder_put(&folder, name, packed, n_packed);
    } else {
        temp_folder_put(&folder, name, (const uint8_t *)text, used);
    }
    return used;
}

static uint64_t hash_unit(const struct ps_feed_unit *unit)
{
    uint64_t hash = 1 + unit->last;
    size_t n = (size_t)(unit->begin[unit->n_rows] - unit->begin[0]);
    hash = ps_hash_bytes(hash, unit->labels, unit->n_rows * sizeof(*unit->labels));
    hash = ps_hash_bytes(hash, unit->lines, unit->n_rows * sizeof(*unit->lines));
    hash = ps_hash_bytes(hash, unit->keys, n * sizeof(*unit->keys));
    hash = ps_hash_bytes(hash, unit->values, n * sizeof(*unit->values));
    hash = ps_hash_bytes(hash, unit->fields, n * sizeof(*unit->fields));
    for (size_t row = 0; row < unit->n_rows; row++) {
        uint64_t n_features = unit->begin[row + 1] - unit->begin[row];
        hash = ps_hash_bytes(hash, &n_features, sizeof(n_features));
    }
    return hash;
}

/* The features of a row are its own. */
static void check_row(const struct ps_feed_unit *unit, size_t row)
{
    uint64_t at = unit->begin[row] - unit->begin[0];
    uint64_t n = unit->begin[row + 1] - unit->begin[row];
    uint64_t first = 7 * (uint64_t)unit->labels[row];
    ck_assert_uint_ge(n, 1);
    ck_assert_uint_eq(unit->keys[at], first);
    ck_assert(unit->values[at] == 1.0f);
    for (uint64_t i = 1; i < n; i++) {
        ck_assert_uint_eq(unit->keys[at + i], first + i);
    }
}

struct walk {
    uint32_t part;
    uint32_t n_units;
    uint64_t hashes[ROWS_MAX];
};

/* All units of a part from the first on. */
static void walk_part(struct ps_feed *feed, const struct ps_feed_options *options, uint32_t epoch,
                      struct walk *walk, uint8_t *seen)
{
    struct ps_feed_unit unit = {0};
    walk->n_units = 0;
    while (!unit.last) {
        ck_assert_int_eq(ps_feed_unit(feed, walk->part, epoch, walk->n_units, &unit, NULL), PS_OK);
        if (unit.end) {
            ck_assert_uint_eq(walk->n_units, 0);
            return;
        }
        ck_assert_uint_gt(unit.n_rows, 0);
        ck_assert(unit.n_rows == options->unit_rows ||
                  (unit.last && unit.n_rows < options->unit_rows));
        for (size_t row = 0; row < unit.n_rows; row++) {
            seen[(size_t)unit.labels[row]]++;
            check_row(&unit, row);
        }
        walk->hashes[walk->n_units++] = hash_unit(&unit);
    }
    ck_assert_int_eq(ps_feed_unit(feed, walk->part, epoch, walk->n_units, &unit, NULL), PS_OK);
    ck_assert(unit.end && unit.n_rows == 0);
}

/* Units asked for in any order, of two feeds. */
static void ask_at_random(struct ps_feed *feeds[2], const struct walk *walk, uint32_t epoch,
                          struct ps_rng *rng)
{
    for (int i = 0; i < 6 && walk->n_units > 0; i++) {
        uint32_t index = (uint32_t)ps_rng_below(rng, walk->n_units);
        for (; index < walk->n_units && ps_rng_below(rng, 4) != 0; index++) {
            struct ps_feed *feed = feeds[ps_rng_below(rng, 2)];
            struct ps_feed_unit unit;
            ck_assert_int_eq(ps_feed_unit(feed, walk->part, epoch, index, &unit, NULL), PS_OK);
            ck_assert(!unit.end);
            ck_assert_uint_eq(hash_unit(&unit), walk->hashes[index]);
        }
    }
}

START_TEST(every_row_comes_once_an_epoch_in_units_that_do_not_depend_on_who_asks)
{
    static struct walk walk;
    static uint8_t seen[ROWS_MAX];
    struct ps_rng rng = ps_rng_from((uint64_t)_i);
    uint32_t n_rows = 1 + (uint32_t)ps_rng_below(&rng, _i % 2 == 0 ? 40 : 1500);
    uint32_t n_first = (uint32_t)ps_rng_below(&rng, n_rows);
    size_t n_bytes = put_rows("a", 0, n_first, &rng);
    n_bytes += put_rows(_i % 3 == 0 ? "z" : "b", n_first, n_rows - n_first, &rng);
    struct data data;
    ck_assert_int_eq(data_open(NULL, &data, NULL), PS_OK);
    struct ps_feed_options options = {
        .part_bytes = 1 + ps_rng_below(&rng, n_bytes / (1 + ps_rng_below(&rng, 12)) + 1),
        .unit_rows = 1 + (uint32_t)ps_rng_below(&rng, _i % 5 == 0 ? 300 : 12),
        .shuffle = _i % 4 != 0,
        .seed = (uint64_t)_i,
        .window_rows = (uint32_t)ps_rng_below(&rng, 200),
    };
    struct ps_feed *feeds[3];
    for (size_t i = 0; i < PS_ARRAY_LEN(feeds); i++) {
        options.read_ahead = i == 1;
        ck_assert_int_eq(ps_feed_open(data.source, data.description, &options, &feeds[i], NULL),
                         PS_OK);
    }
    for (uint32_t epoch = 0; epoch < 2; epoch++) {
        memset(seen, 0, sizeof(seen));
        for (walk.part = 0; walk.part < ps_feed_parts(feeds[2]); walk.part++) {
            walk_part(feeds[2], &options, epoch, &walk, seen);
            ask_at_random(feeds, &walk, epoch, &rng);
        }
        for (uint32_t row = 0; row < n_rows; row++) {
            ck_assert_uint_eq(seen[row], 1);
        }
        ck_assert_uint_eq(ps_feed_counts(feeds[2]).n_rows, n_rows);
    }
    for (size_t i = 0; i < PS_ARRAY_LEN(feeds); i++) {
        ps_feed_close(feeds[i]);
    }
    data_close(&data);
}
END_TEST

Suite *suite_feed(void)
{
    Suite *suite = suite_create("feed");
    TCase *tcase = tcase_create("core");
    tcase_set_timeout(tcase, 300);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_loop_test(
        tcase, every_row_comes_once_an_epoch_in_units_that_do_not_depend_on_who_asks, 0, 60);
    suite_add_tcase(suite, tcase);
    return suite;
}
