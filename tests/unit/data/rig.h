#ifndef PS_TESTS_UNIT_DATA_RIG_H
#define PS_TESTS_UNIT_DATA_RIG_H
/*
 * unit/data/rig.h — a text as a file, learnt from and read, as a text again.
 */
#include <stdint.h>

#include "base/error.h"
#include "data/learning.h"
#include "data/reading.h"
#include "data/rows.h"

#define RIG_TEXT_BYTES 8192u

struct rig {
    struct ps_mem *mem;                /* NULL: no budget. */
    struct ps_learn_options learn;     /* .mem is set by the rig. */
    struct ps_reading_options reading; /* As well. */
    uint64_t part_bytes;               /* 0: whole files. */
    size_t n_max;                      /* Rows a call; 0: 1000. */
    const char *learn_from;            /* Another path to learn from; NULL: the same. */
};

/** What became of it. Give to rig_forget. */
struct rig_result {
    struct ps_rows rows;
    struct ps_reading_counts counts;
    char said[640];
    char bad[PS_ERROR_TEXT_BYTES]; /* The first line skipped. */
};

/** Learn and read all parts of `path`. After a failure there is nothing to forget. */
enum ps_status rig_read(const struct rig *rig, const char *path, struct rig_result *ret,
                        struct ps_error *err);

void rig_forget(struct rig_result *result);

/** "label key:value key:value" per row, one line each; with `fields`: "label field:value ...". */
const char *rig_text(const struct ps_rows *rows, bool fields, char text[RIG_TEXT_BYTES]);

/** True when labels, keys, values and fields are the same. */
bool rig_same(const struct ps_rows *one, const struct ps_rows *other);

#endif
