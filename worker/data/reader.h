#ifndef PS_WORKER_DATA_READER_H
#define PS_WORKER_DATA_READER_H
/*
 * data/reader.h — the extension point for file formats.
 *
 * One const struct per format, one file per format, one line in reader.c. A reader finds its files
 * in a folder, checks them and makes datasets; it decides nothing about order or sharing.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/error.h"

struct ps_dataset;
struct ps_mem;

#define PS_READER_FEATURES_MAX (1u << 20) /* Numbers of a row; the widest layer has as many. */

enum ps_data_part {
    PS_DATA_TRAIN,
    PS_DATA_TEST
};

struct ps_read_request {
    struct ps_mem *mem;
    const char *folder;
    enum ps_data_part part;
    uint32_t n_classes; /* 0: take it from the labels. */
};

struct ps_reader {
    const char *name; /* For --format: [a-z0-9]+, never renamed. */
    const char *help; /* One line for --help: the files it looks for. */

    /** Does the folder hold files of this format for this part? Looks at names only. */
    bool (*present)(const char *folder, enum ps_data_part part);

    /** Read the part. Called also when nothing is present: the error then says what is missing. */
    enum ps_status (*read)(const struct ps_read_request *request, struct ps_dataset **ret,
                           struct ps_error *err);
};

extern const struct ps_reader ps_reader_idx;

/** The reader called `name`, or NULL. */
const struct ps_reader *ps_reader_find(const char *name);

/** All readers, in the order in which "auto" tries them. */
const struct ps_reader *const *ps_reader_all(size_t *ret_n);

#endif
