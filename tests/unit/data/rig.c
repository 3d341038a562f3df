/* rig.c — see rig.h. */
#include "unit/data/rig.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "data/source.h"

#define ROWS_A_CALL 1000u

static enum ps_status read_part(struct ps_reading *reading, struct ps_part part, size_t n_max,
                                struct ps_rows *rows, struct ps_error *err)
{
    enum ps_status status = ps_reading_start(reading, part, err);
    size_t n = n_max;
    while (status == PS_OK && n == n_max) {
        status = ps_reading_next(reading, n_max, rows, &n, err);
    }
    return status;
}

static enum ps_status read_parts(const struct rig *rig, const struct ps_source *source,
                                 struct ps_reading *reading, struct ps_rows *rows,
                                 struct ps_error *err)
{
    uint64_t part_bytes = rig->part_bytes != 0 ? rig->part_bytes : UINT64_MAX;
    size_t n_max = rig->n_max != 0 ? rig->n_max : ROWS_A_CALL;
    uint64_t n_parts = ps_source_parts(source, part_bytes);
    enum ps_status status = PS_OK;
    for (uint64_t i = 0; status == PS_OK && i < n_parts; i++) {
        status = read_part(reading, ps_source_part(source, part_bytes, i), n_max, rows, err);
    }
    return status;
}

static enum ps_status learn_from(const struct rig *rig, const char *path,
                                 struct ps_description **ret, struct ps_error *err)
{
    struct ps_learn_options options = rig->learn;
    options.mem = rig->mem;
    struct ps_source *source = NULL;
    enum ps_status status = ps_source_open(rig->mem, path, &source, err);
    if (status == PS_OK) {
        status = ps_learn(source, &options, ret, err);
    }
    ps_source_close(source);
    return status;
}

enum ps_status rig_read(const struct rig *rig, const char *path, struct rig_result *ret,
                        struct ps_error *err)
{
    struct rig_result result = {0};
    struct ps_reading_options options = rig->reading;
    options.mem = rig->mem;
    struct ps_source *source = NULL;
    struct ps_description *description = NULL;
    struct ps_reading *reading = NULL;
    ps_rows_init(&result.rows, rig->mem);
    enum ps_status status =
        learn_from(rig, rig->learn_from != NULL ? rig->learn_from : path, &description, err);
    if (status == PS_OK) {
        status = ps_source_open(rig->mem, path, &source, err);
    }
    if (status == PS_OK) {
        (void)snprintf(result.said, sizeof(result.said), "%s", description->said);
        status = ps_learn_check(rig->mem, source, description, err);
    }
    if (status == PS_OK) {
        status = ps_reading_open(source, description, &options, &reading, err);
    }
    if (status == PS_OK) {
        status = read_parts(rig, source, reading, &result.rows, err);
        result.counts = ps_reading_counts(reading);
        const char *bad = ps_reading_bad(reading, 0);
        (void)snprintf(result.bad, sizeof(result.bad), "%s", bad != NULL ? bad : "");
    }
    ps_reading_close(reading);
    ps_description_destroy(description);
    ps_source_close(source);
    if (status != PS_OK) {
        ps_rows_deinit(&result.rows);
        return status;
    }
    *ret = result;
    return PS_OK;
}

void rig_forget(struct rig_result *result)
{
    ps_rows_deinit(&result->rows);
}

const char *rig_text(const struct ps_rows *rows, bool fields, char text[RIG_TEXT_BYTES])
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t row = 0; row < rows->n_rows; row++) {
        used +=
            (size_t)snprintf(text + used, RIG_TEXT_BYTES - used, "%g", (double)rows->labels[row]);
        for (uint64_t i = rows->begin[row]; i < rows->begin[row + 1]; i++) {
            uint64_t name = fields ? rows->fields[i] : rows->keys[i];
            used += (size_t)snprintf(text + used, RIG_TEXT_BYTES - used, " %" PRIu64 ":%g", name,
                                     (double)rows->values[i]);
        }
        used += (size_t)snprintf(text + used, RIG_TEXT_BYTES - used, "\n");
    }
    return text;
}

bool rig_same(const struct ps_rows *one, const struct ps_rows *other)
{
    size_t n = ps_rows_features(one);
    if (one->n_rows != other->n_rows || n != ps_rows_features(other)) {
        return false;
    }
    if (one->n_rows == 0) {
        return true;
    }
    return memcmp(one->labels, other->labels, one->n_rows * sizeof(*one->labels)) == 0 &&
           memcmp(one->begin, other->begin, (one->n_rows + 1) * sizeof(*one->begin)) == 0 &&
           (n == 0 || (memcmp(one->keys, other->keys, n * sizeof(*one->keys)) == 0 &&
                       memcmp(one->values, other->values, n * sizeof(*one->values)) == 0 &&
                       memcmp(one->fields, other->fields, n * sizeof(*one->fields)) == 0));
}
