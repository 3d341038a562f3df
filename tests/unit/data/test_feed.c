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

#define ORDER " 12 7 15 14 3 6 2 0 19 9" /* Of the first unit, seed 0. */

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
    enum ps_status status = ps_source_open_within(mem, folder.path, 0, &data->source, err);
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

#define N_LONG 40000u

/* One row of 200,000 bytes and more among short ones. */
static size_t put_long_row(const char *name)
{
    size_t used = (size_t)snprintf(text, sizeof(text), "1 1:1\n2 2:1\n3");
    for (uint32_t i = 0; i < N_LONG; i++) {
        used += (size_t)snprintf(text + used, sizeof(text) - used, " %" PRIu32 ":1", 1 + i);
    }
    used += (size_t)snprintf(text + used, sizeof(text) - used, "\n4 4:1\n5 5:1\n");
    temp_folder_put(&folder, name, (const uint8_t *)text, used);
    return used;
}

START_TEST(a_row_of_many_thousand_bytes_is_one_row_wherever_parts_end)
{
    ck_assert_uint_gt(put_long_row("a"), 200000);
    struct data data;
    ck_assert_int_eq(data_open(NULL, &data, NULL), PS_OK);
    struct ps_feed_options options = {
        .part_bytes = 1 + (uint64_t)_i * 9973, .unit_rows = 2, .shuffle = true};
    struct ps_feed *feed = NULL;
    ck_assert_int_eq(ps_feed_open(data.source, data.description, &options, &feed, NULL), PS_OK);
    uint32_t n_of[6] = {0};
    for (uint32_t part = 0; part < ps_feed_parts(feed); part++) {
        struct ps_feed_unit unit = {0};
        for (uint32_t index = 0; !unit.last; index++) {
            ck_assert_int_eq(ps_feed_unit(feed, part, 0, index, &unit, NULL), PS_OK);
            for (size_t row = 0; row < unit.n_rows; row++) {
                uint32_t label = (uint32_t)unit.labels[row];
                ck_assert_uint_eq(unit.begin[row + 1] - unit.begin[row], label == 3 ? N_LONG : 1);
                n_of[label]++;
            }
        }
    }
    for (uint32_t label = 1; label <= 5; label++) {
        ck_assert_uint_eq(n_of[label], 1);
    }
    ps_feed_close(feed);
    data_close(&data);
}
END_TEST

enum {
    LARGE_ROWS = 200000,
    LARGE_FEATURES = 20,
    LARGE_UNIT = 1000,
    LARGE_WINDOW = 40, /* Units: the first number of them that has more than PS_FEED_FEATURES. */
};

static void put_large(const char *name)
{
    static uint8_t packed[8 << 20];
    size_t n_room = (size_t)LARGE_ROWS * (8 + 5 * LARGE_FEATURES);
    size_t used = 0;
    static const char sample[] = {' ', '1', '0', ':', '1'};
    char *large = malloc(n_room);
    ck_assert_ptr_nonnull(large);
    for (uint32_t row = 0; row < LARGE_ROWS; row++) {
        used += (size_t)snprintf(large + used, n_room - used, "%" PRIu32, row);
        for (uint32_t i = 1; i <= LARGE_FEATURES; i++) {
            memcpy(large + used, sample, sizeof(sample));
            large[used + 1] = (char)('1' + i / 10);
            large[used + 2] = (char)('0' + i % 10);
            used += sizeof(sample);
        }
        large[used++] = '\n';
    }
    size_t n_packed = pack_gzip((const uint8_t *)large, used, packed, sizeof(packed));
    temp_folder_put(&folder, name, packed, n_packed);
    free(large);
}

/* All units of part 0. */
static void walk_large(struct ps_feed *feed, uint32_t epoch)
{
    struct ps_feed_unit unit = {0};
    uint32_t index = 0;
    double sum = 0.0;
    for (; !unit.last; index++) {
        struct ps_error err = {0};
        enum ps_status status = ps_feed_unit(feed, 0, epoch, index, &unit, &err);
        ck_assert_msg(status == PS_OK, "%s", err.text);
        ck_assert_uint_eq(unit.n_rows, LARGE_UNIT);
        for (size_t row = 0; row < unit.n_rows; row++) {
            uint32_t place = (uint32_t)unit.labels[row];
            ck_assert_uint_eq(place / (LARGE_UNIT * LARGE_WINDOW), index / LARGE_WINDOW);
            sum += (double)place;
        }
    }
    ck_assert_uint_eq(index, LARGE_ROWS / LARGE_UNIT);
    ck_assert_double_eq(sum, (double)LARGE_ROWS * (LARGE_ROWS - 1) / 2.0);
}

/* A window that grew to PS_FEED_ROWS would have 18 MB of features, in room for 29. */
START_TEST(memory_is_that_of_a_window_however_long_the_part_is)
{
    put_large("z");
    struct data data;
    struct ps_mem mem;
    ck_assert_int_eq(data_open(NULL, &data, NULL), PS_OK);
    ps_mem_init(&mem);
    mem.limit[PS_MEM_DATA] = _i == 0 ? 19u << 20 : 36u << 20;
    struct ps_feed_options options = {.mem = &mem,
                                      .part_bytes = 1,
                                      .unit_rows = LARGE_UNIT,
                                      .shuffle = true,
                                      .read_ahead = _i != 0};
    struct ps_feed *feed = NULL;
    ck_assert_int_eq(ps_feed_open(data.source, data.description, &options, &feed, NULL), PS_OK);
    ck_assert_uint_eq(ps_feed_parts(feed), 1);
    walk_large(feed, 0);
    uint64_t n_calls = mem.n_calls;
    walk_large(feed, 1);
    ck_assert_uint_eq(mem.n_calls, n_calls);
    ps_feed_close(feed);
    ck_assert_uint_eq(mem.used[PS_MEM_DATA], 0);
    data_close(&data);
}
END_TEST

/* The labels of unit `index` as a text. */
static const char *labels_of(struct ps_feed *feed, uint32_t part, uint32_t epoch, uint32_t index,
                             char said[256])
{
    struct ps_feed_unit unit;
    size_t used = 0;
    said[0] = '\0';
    ck_assert_int_eq(ps_feed_unit(feed, part, epoch, index, &unit, NULL), PS_OK);
    for (size_t row = 0; row < unit.n_rows; row++) {
        used += (size_t)snprintf(said + used, 256 - used, " %g", (double)unit.labels[row]);
    }
    return said;
}

START_TEST(the_order_is_that_of_the_file_or_of_seed_epoch_part_and_window)
{
    size_t used = 0;
    for (int row = 0; row < 80; row++) {
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%d 1:1\n", row % 20);
    }
    temp_folder_put(&folder, "a", (const uint8_t *)text, used);
    temp_folder_put(&folder, "b", (const uint8_t *)text, used);
    struct data data;
    ck_assert_int_eq(data_open(NULL, &data, NULL), PS_OK);
    struct ps_feed_options options = {.part_bytes = UINT64_MAX, .unit_rows = 10, .window_rows = 20};
    struct ps_feed *feed = NULL;
    char one[256];
    char said[256];
    ck_assert_int_eq(ps_feed_open(data.source, data.description, &options, &feed, NULL), PS_OK);
    ck_assert_str_eq(labels_of(feed, 1, 5, 3, said), " 10 11 12 13 14 15 16 17 18 19");
    ps_feed_close(feed);
    options.shuffle = true;
    ck_assert_int_eq(ps_feed_open(data.source, data.description, &options, &feed, NULL), PS_OK);
    /* Whoever trains again with the same seed wants the same model. */
    ck_assert_str_eq(labels_of(feed, 0, 0, 0, one), ORDER);
    ck_assert_str_ne(labels_of(feed, 0, 1, 0, said), one); /* Another epoch, */
    ck_assert_str_ne(labels_of(feed, 0, 0, 2, said), one); /* window, */
    ck_assert_str_ne(labels_of(feed, 1, 0, 0, said), one); /* part. */
    ps_feed_close(feed);
    options.seed = 1;
    ck_assert_int_eq(ps_feed_open(data.source, data.description, &options, &feed, NULL), PS_OK);
    ck_assert_str_ne(labels_of(feed, 0, 0, 0, said), one);
    ps_feed_close(feed);
    data_close(&data);
}
END_TEST

START_TEST(rows_without_features_are_rows)
{
    temp_folder_put(&folder, "a", (const uint8_t *)"1\n2\n", 4);
    struct data data;
    ck_assert_int_eq(data_open(NULL, &data, NULL), PS_OK);
    struct ps_feed_options options = {.part_bytes = UINT64_MAX, .unit_rows = 2};
    for (int i = 0; i < 2; i++) {
        struct ps_feed *feed = NULL;
        struct ps_feed_unit unit;
        options.shuffle = i == 1;
        ck_assert_int_eq(ps_feed_open(data.source, data.description, &options, &feed, NULL), PS_OK);
        ck_assert_int_eq(ps_feed_unit(feed, 0, 0, 0, &unit, NULL), PS_OK);
        ck_assert_uint_eq(unit.n_rows, 2);
        ck_assert_uint_eq(unit.begin[2] - unit.begin[0], 0);
        ck_assert(unit.last);
        ps_feed_close(feed);
    }
    data_close(&data);
}
END_TEST

/* Bad lines are 2, 5 and 6 of the file. */
static void put_bad(void)
{
    const char *bad = "1 1:1\nx\n2 1:1 qid:7\n3 1:1\n2 2\n1 :\n4 1:1\n5 1:1\n";
    temp_folder_put(&folder, "file", (const uint8_t *)bad, strlen(bad));
}

START_TEST(lines_that_are_read_again_count_once)
{
    put_bad();
    struct data data;
    ck_assert_int_eq(data_open(NULL, &data, NULL), PS_OK);
    struct ps_feed_options options = {
        .part_bytes = 20, .unit_rows = 1, .max_bad_rows = 3, .read_ahead = _i != 0};
    struct ps_feed *feed = NULL;
    ck_assert_int_eq(ps_feed_open(data.source, data.description, &options, &feed, NULL), PS_OK);
    ck_assert_ptr_null(ps_feed_bad(feed, 0));
    for (uint32_t epoch = 0; epoch < 3; epoch++) {
        for (uint32_t part = 0; part < ps_feed_parts(feed); part++) {
            struct ps_feed_unit unit = {0};
            for (uint32_t index = 0; !unit.last; index++) {
                ck_assert_int_eq(ps_feed_unit(feed, part, epoch, index, &unit, NULL), PS_OK);
            }
        }
    }
    struct ps_reading_counts counts = ps_feed_counts(feed);
    ck_assert_uint_eq(counts.n_rows, 5);
    ck_assert_uint_eq(counts.n_bad, 3);
    ck_assert_uint_eq(counts.n_qids, 1);
    ck_assert_ptr_nonnull(strstr(ps_feed_bad(feed, 0), "file:2: "));
    ck_assert_ptr_nonnull(strstr(ps_feed_bad(feed, 2), "file:6: "));
    ck_assert_ptr_null(ps_feed_bad(feed, 3));
    ps_feed_close(feed);
    data_close(&data);
}
END_TEST

START_TEST(a_bad_line_too_many_is_told_however_often_it_is_asked_for)
{
    put_bad();
    struct data data;
    ck_assert_int_eq(data_open(NULL, &data, NULL), PS_OK);
    struct ps_feed_options options = {.part_bytes = 1000,
                                      .unit_rows = 1,
                                      .max_bad_rows = 2,
                                      .window_rows = 1,
                                      .read_ahead = _i != 0};
    struct ps_feed *feed = NULL;
    ck_assert_int_eq(ps_feed_open(data.source, data.description, &options, &feed, NULL), PS_OK);
    for (int i = 0; i < 3; i++) {
        struct ps_feed_unit unit;
        struct ps_error err = {0};
        ck_assert_int_eq(ps_feed_unit(feed, 0, 0, 1, &unit, NULL), PS_OK);
        ck_assert(unit.labels[0] == 2.0f);
        ck_assert_int_eq(ps_feed_unit(feed, 0, 0, 2, &unit, &err), PS_ERR_INVALID);
        ck_assert_msg(strstr(err.text, "file:6: ") != NULL, "'%s'", err.text);
    }
    ps_feed_close(feed);
    data_close(&data);
}
END_TEST

/* As much as can go wrong for want of memory. */
static enum ps_status walk_some(struct ps_mem *mem, const struct data *data, bool read_ahead)
{
    struct ps_feed_options options = {.mem = mem,
                                      .part_bytes = 60000,
                                      .unit_rows = 70,
                                      .shuffle = true,
                                      .window_rows = 140,
                                      .read_ahead = read_ahead};
    struct ps_feed *feed = NULL;
    enum ps_status status = ps_feed_open(data->source, data->description, &options, &feed, NULL);
    for (uint32_t part = 0; status == PS_OK && part < ps_feed_parts(feed); part++) {
        struct ps_feed_unit unit = {0};
        for (uint32_t index = 0; status == PS_OK && !unit.last; index++) {
            status = ps_feed_unit(feed, part, 0, index, &unit, NULL);
        }
    }
    ps_feed_close(feed);
    return status;
}

START_TEST(every_refused_allocation_is_reported_and_leaves_nothing)
{
    struct ps_rng rng = ps_rng_from(1);
    struct data data;
    (void)put_rows("a", 0, 1000, &rng);
    put_long_row("b");
    ck_assert_int_eq(data_open(NULL, &data, NULL), PS_OK);
    enum ps_status status = PS_ERR_NOMEM;
    int64_t k = 0;
    for (; status != PS_OK && k < 300; k++) {
        struct ps_mem mem;
        ps_mem_init(&mem);
        mem.fail_after = k;
        status = walk_some(&mem, &data, _i != 0);
        ck_assert_msg(status == PS_OK || status == PS_ERR_NOMEM, "k %d: %d", (int)k, (int)status);
        ck_assert_uint_eq(mem.used[PS_MEM_DATA], 0);
    }
    ck_assert_int_eq(status, PS_OK);
    ck_assert_int_gt(k, 20);
    data_close(&data);
}
END_TEST

START_TEST(more_parts_than_leases_are_refused)
{
    temp_folder_put(&folder, "a", (const uint8_t *)"1 1:1\n", 6);
    struct data data;
    struct ps_error err = {0};
    struct ps_feed *feed = NULL;
    ck_assert_int_eq(data_open(NULL, &data, NULL), PS_OK);
    data.source->files[0].n_bytes = PS_LEASES_MAX + 1ull;
    struct ps_feed_options options = {.part_bytes = 1, .unit_rows = 1};
    ck_assert_int_eq(ps_feed_open(data.source, data.description, &options, &feed, &err),
                     PS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "1048577 parts of data, at most 1048576"));
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
    tcase_add_loop_test(tcase, a_row_of_many_thousand_bytes_is_one_row_wherever_parts_end, 1, 21);
    tcase_add_loop_test(tcase, memory_is_that_of_a_window_however_long_the_part_is, 0, 2);
    tcase_add_test(tcase, the_order_is_that_of_the_file_or_of_seed_epoch_part_and_window);
    tcase_add_test(tcase, rows_without_features_are_rows);
    tcase_add_loop_test(tcase, lines_that_are_read_again_count_once, 0, 2);
    tcase_add_loop_test(tcase, a_bad_line_too_many_is_told_however_often_it_is_asked_for, 0, 2);
    tcase_add_loop_test(tcase, every_refused_allocation_is_reported_and_leaves_nothing, 0, 2);
    tcase_add_test(tcase, more_parts_than_leases_are_refused);
    suite_add_tcase(suite, tcase);
    return suite;
}
