#ifndef PS_TOOLS_DATAGEN_OPTIONS_H
#define PS_TOOLS_DATAGEN_OPTIONS_H
/*
 * datagen_options.h — the settings of ps-datagen as rows, and its kinds of data as commands.
 *
 * Not of ps_job_programs: a line at the top of a job file is for every program that has the
 * setting, and --seed, --out and --format of rows to be made are not those of a training. Given
 * --config, it reads a file of its own.
 */
#include <stdint.h>

#include "conf/conf.h"

#define DATAGEN_FEATURES_MAX  100000u /* Columns of linear, fm and blobs. */
#define DATAGEN_CLASSES_MAX   1000u
#define DATAGEN_RANK_MAX      64u
#define DATAGEN_KEYS_MAX      (1u << 30) /* Of clicks, users, items: ids have 32 bits. */
#define DATAGEN_ANSWER_SUFFIX ".answer.json"

enum datagen_format {
    DATAGEN_LIBSVM,
    DATAGEN_CSV,
    DATAGEN_CRITEO,
    DATAGEN_FORMAT_COUNT /* As an option: that of the kind. */
};

struct datagen_options {
    uint64_t rows;
    uint64_t first_row;
    uint64_t seed;
    enum datagen_format format;
    const char *out;
    const char *answer;
    uint32_t features; /* 0: the preset of the kind; so below. */
    double density;
    uint32_t rank;
    uint32_t classes;
    double noise; /* < 0: the preset of the kind. */
    uint32_t users;
    uint32_t items;
    uint32_t keys;
};

extern const struct ps_program datagen_program;

#endif
