/* fuzz_text.c — see fuzz_text.h. */
#include "fuzz_text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"
#include "data/description.h"
#include "data/feed.h"
#include "data/learning.h"
#include "data/reading.h"
#include "data/rows.h"
#include "data/source.h"
#include "fuzz.h"

/* A file in memory, made once, written anew for each input. */
static void write_file(char path[64], const uint8_t *data, size_t n_bytes)
{
    static int fd = -1;
    if (fd < 0) {
        fd = memfd_create("fuzz", MFD_CLOEXEC);
        PS_ASSERT(fd >= 0);
    }
    PS_ASSERT(ftruncate(fd, 0) == 0);
    PS_ASSERT(pwrite(fd, data, n_bytes, 0) == (ssize_t)n_bytes);
    (void)snprintf(path, 64, "/proc/self/fd/%d", fd);
}

static void check_rows(const struct ps_description *description, const struct ps_rows *rows)
{
    uint64_t at = 0;
    for (size_t row = 0; row < rows->n_rows; row++) {
        PS_ASSERT(rows->begin[row] == at);
        PS_ASSERT(rows->begin[row + 1] >= at);
        float label = rows->labels[row];
        PS_ASSERT(!isinf(label));
        PS_ASSERT(isnan(label) || description->task == PS_TASK_VALUE ||
                  (label >= 0.0f && label < (float)description->labels.n));
        for (; at < rows->begin[row + 1]; at++) {
            PS_ASSERT(isfinite(rows->values[at]));
            PS_ASSERT(at == rows->begin[row] || rows->keys[at] != rows->keys[at - 1]);
        }
    }
}

static bool same(const struct ps_rows *one, const struct ps_rows *other)
{
    size_t n = ps_rows_features(one);
    return one->n_rows == other->n_rows && n == ps_rows_features(other) &&
           (one->n_rows == 0 ||
            memcmp(one->labels, other->labels, one->n_rows * sizeof(*one->labels)) == 0) &&
           (n == 0 || (memcmp(one->keys, other->keys, n * sizeof(*one->keys)) == 0 &&
                       memcmp(one->values, other->values, n * sizeof(*one->values)) == 0 &&
                       memcmp(one->fields, other->fields, n * sizeof(*one->fields)) == 0));
}

struct input {
    const struct ps_source *source;
    const struct ps_description *description;
    uint64_t part_bytes;
    bool label_optional;
};

static enum ps_status read_all(const struct input *input, struct ps_rows *rows)
{
    struct ps_reading_options options = {.max_bad_rows = UINT64_MAX,
                                         .label_optional = input->label_optional};
    struct ps_reading *reading = NULL;
    enum ps_status status =
        ps_reading_open(input->source, input->description, &options, &reading, NULL);
    uint64_t n_parts = ps_source_parts(input->source, input->part_bytes);
    for (uint64_t i = 0; status == PS_OK && i < n_parts; i++) {
        size_t n = 3;
        status =
            ps_reading_start(reading, ps_source_part(input->source, input->part_bytes, i), NULL);
        while (status == PS_OK && n == 3) {
            status = ps_reading_next(reading, 3, rows, &n, NULL);
        }
    }
    ps_reading_close(reading);
    return status;
}

/* The units of all parts, in order: the same rows. */
static void feed_all(const struct input *input, uint32_t unit_rows, const struct ps_rows *rows)
{
    struct ps_feed_options options = {.part_bytes = input->part_bytes,
                                      .unit_rows = unit_rows,
                                      .max_bad_rows = UINT64_MAX,
                                      .window_rows = 2 * unit_rows};
    struct ps_feed *feed = NULL;
    PS_ASSERT(ps_feed_open(input->source, input->description, &options, &feed, NULL) == PS_OK);
    size_t at = 0;
    for (uint32_t part = 0; part < ps_feed_parts(feed); part++) {
        struct ps_feed_unit unit = {0};
        for (uint32_t index = 0; !unit.last; index++) {
            PS_ASSERT(ps_feed_unit(feed, part, 0, index, &unit, NULL) == PS_OK);
            PS_ASSERT(unit.n_rows <= rows->n_rows - at);
            PS_ASSERT(unit.end == (unit.n_rows == 0));
            for (size_t row = 0; row < unit.n_rows; row++, at++) {
                PS_ASSERT(unit.labels[row] == rows->labels[at]);
                PS_ASSERT(unit.begin[row + 1] - unit.begin[row] ==
                          rows->begin[at + 1] - rows->begin[at]);
            }
        }
    }
    PS_ASSERT(at == rows->n_rows);
    PS_ASSERT(at == ps_feed_counts(feed).n_rows);
    ps_feed_close(feed);
}

static void read_thrice(struct input input, uint64_t part_bytes)
{
    struct ps_rows rows[3];
    struct ps_description *stored = NULL;
    char *text = NULL;
    for (size_t i = 0; i < 3; i++) {
        ps_rows_init(&rows[i], NULL);
    }
    enum ps_status status = read_all(&input, &rows[0]);
    check_rows(input.description, &rows[0]);
    input.part_bytes = part_bytes;
    PS_ASSERT(read_all(&input, &rows[1]) == status);
    PS_ASSERT(status != PS_OK || same(&rows[0], &rows[1]));
    if (status == PS_OK && !input.label_optional) {
        feed_all(&input, 1 + (uint32_t)(part_bytes % 4), &rows[0]);
    }
    PS_ASSERT(ps_description_write(input.description, &text, NULL) == PS_OK);
    /* Names and labels that are no UTF-8 pass through; what is stored can be read. */
    PS_ASSERT(ps_description_read(NULL, text, strlen(text), &stored, NULL) == PS_OK);
    input.description = stored;
    PS_ASSERT(read_all(&input, &rows[2]) == status);
    PS_ASSERT(status != PS_OK || same(&rows[0], &rows[2]));
    for (size_t i = 0; i < 3; i++) {
        ps_rows_deinit(&rows[i]);
    }
    ps_description_destroy(stored);
    ps_mem_free(text);
}

/* Read as a stream, a packed file has the same rows as unpacked in memory. */
static void read_streamed(struct input input, const char *path)
{
    struct ps_rows rows[2];
    struct ps_source *streamed = NULL;
    for (size_t i = 0; i < 2; i++) {
        ps_rows_init(&rows[i], NULL);
    }
    enum ps_status status = read_all(&input, &rows[0]);
    PS_ASSERT(ps_source_open_within(NULL, path, 0, &streamed, NULL) == PS_OK);
    input.source = streamed;
    PS_ASSERT(read_all(&input, &rows[1]) == status);
    PS_ASSERT(status != PS_OK || same(&rows[0], &rows[1]));
    for (size_t i = 0; i < 2; i++) {
        ps_rows_deinit(&rows[i]);
    }
    ps_source_close(streamed);
}

void fuzz_text(const char *format, const uint8_t *data, size_t n_bytes)
{
    if (n_bytes < 2) {
        return;
    }
    static const enum ps_task tasks[] = {PS_TASK_BINARY, PS_TASK_CLASSES, PS_TASK_VALUE,
                                         PS_TASK_CLASSES};
    bool table = strcmp(format, "csv") == 0 || strcmp(format, "tsv") == 0;
    bool standardize = (data[0] & 8) != 0 && strcmp(format, "criteo") != 0;
    enum ps_choice header = (data[0] & 16) != 0 ? PS_CHOICE_YES : PS_CHOICE_NO;
    struct ps_learn_options options = {
        .task = tasks[data[0] & 3],
        .format = format,
        .labels = (data[0] & 4) != 0 ? "0,1" : NULL,
        .standardize = standardize ? PS_CHOICE_YES : PS_CHOICE_AUTO,
        .header = table ? header : PS_CHOICE_AUTO,
        .learn_bytes = (data[0] & 64) != 0 ? 40 : 0,
        .max_bad_rows = UINT64_MAX,
    };
    char path[64];
    struct ps_source *source = NULL;
    struct ps_description *description = NULL;
    struct ps_error err = {0};
    write_file(path, data + 1, n_bytes - 1);
    enum ps_status status = ps_source_open(NULL, path, &source, &err);
    if (status == PS_OK) {
        status = ps_learn(source, &options, &description, &err);
    }
    if (status == PS_OK) {
        PS_ASSERT(strchr(description->said, '\n') == NULL);
        (void)!ps_learn_check(NULL, source, description, NULL);
        struct input input = {.source = source,
                              .description = description,
                              .part_bytes = UINT64_MAX,
                              .label_optional = (data[0] & 32) != 0};
        read_thrice(input, 1 + data[0] % 23);
        if (source->texts != NULL) {
            read_streamed(input, path);
        }
    } else {
        PS_ASSERT(err.text[0] != '\0' && strchr(err.text, '\n') == NULL);
    }
    ps_description_destroy(description);
    ps_source_close(source);
}
