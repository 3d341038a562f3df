/* datagen_options.c — see datagen_options.h. */
#include "datagen_options.h"

#include <stddef.h>

#include "base/limits.h"

#define AT(field) offsetof(struct datagen_options, field)

/* In the order of enum datagen_format. */
static const char *const formats[] = {"libsvm", "csv", "criteo", "auto", NULL};

static const struct ps_option rows[] = {
    {
        .name = "rows",
        .unit = "rows",
        .help = "How many.",
        .group = "Rows",
        .preset = "10000",
        .type = PS_OPTION_U64,
        .min = 1,
        .max = 1ull << 40,
        .offset = AT(rows),
    },
    {
        .name = "first-row",
        .unit = "rows",
        .help = "Number of the first row. Ranges of one seed fit together: rows 0 to 999 to train "
                "on and 1000 to 1199 to test on have the same hidden model.",
        .preset = "0",
        .type = PS_OPTION_U64,
        .max = 1ull << 40,
        .offset = AT(first_row),
    },
    {
        .name = "seed",
        .help = "Decides the hidden model and every row. Equal seeds give equal bytes.",
        .preset = "1",
        .type = PS_OPTION_U64,
        .offset = AT(seed),
    },
    {
        .name = "format",
        .help = "libsvm (indices from 1), csv (with a header before row 0) or criteo (clicks "
                "only). auto: criteo for clicks, csv for ratings, else libsvm.",
        .preset = "auto",
        .words = formats,
        .type = PS_OPTION_ENUM,
        .offset = AT(format),
    },
    {
        .name = "out",
        .unit = "FILE",
        .help = "Where the rows go; - is standard output.",
        .preset = "-",
        .type = PS_OPTION_STRING,
        .offset = AT(out),
    },
    {
        .name = "answer",
        .unit = "FILE",
        .help = "Where the answer goes: the hidden model and what it reaches on these rows, as "
                "JSON. Beside --out, as FILE" DATAGEN_ANSWER_SUFFIX ", unless given.",
        .type = PS_OPTION_STRING,
        .offset = AT(answer),
    },
    {
        .name = "features",
        .unit = "columns",
        .help = "linear, fm (100 unless given), blobs (10).",
        .group = "Shape; 0 is the preset of the kind",
        .preset = "0",
        .type = PS_OPTION_U32,
        .max = DATAGEN_FEATURES_MAX,
        .offset = AT(features),
    },
    {
        .name = "density",
        .help = "linear, fm: the share of the columns that a row has.",
        .preset = "0.1",
        .type = PS_OPTION_F64,
        .f_min = 1e-9,
        .f_max = 1,
        .offset = AT(density),
    },
    {
        .name = "rank",
        .help = "fm, ratings: factors of the hidden model (4 unless given).",
        .preset = "0",
        .type = PS_OPTION_U32,
        .max = DATAGEN_RANK_MAX,
        .offset = AT(rank),
    },
    {
        .name = "classes",
        .help = "blobs (3 unless given).",
        .preset = "0",
        .type = PS_OPTION_U32,
        .max = DATAGEN_CLASSES_MAX,
        .offset = AT(classes),
    },
    {
        .name = "noise",
        .help = "linear (0.1 unless given), blobs (2), ratings (0.3): its standard deviation.",
        .preset = "-1",
        .type = PS_OPTION_F64,
        .f_min = -1,
        .f_max = 1000,
        .offset = AT(noise),
    },
    {
        .name = "users",
        .help = "ratings (1000 unless given).",
        .preset = "0",
        .type = PS_OPTION_U32,
        .max = DATAGEN_KEYS_MAX,
        .offset = AT(users),
    },
    {
        .name = "items",
        .help = "ratings (500 unless given).",
        .preset = "0",
        .type = PS_OPTION_U32,
        .max = DATAGEN_KEYS_MAX,
        .offset = AT(items),
    },
    {
        .name = "keys",
        .help = "clicks: ids in all columns together (1000000 unless given). Rows see few of many.",
        .preset = "0",
        .type = PS_OPTION_U32,
        .max = DATAGEN_KEYS_MAX,
        .offset = AT(keys),
    },
};

static const struct ps_option_table table = {rows, PS_ARRAY_LEN(rows)};
static const struct ps_option_use uses[] = {{&table, 0}};

static const struct ps_command kinds[] = {
    {"clicks", "Clicks in Criteo's shape: 13 counts, 26 ids by Zipf's law, many missing."},
    {"linear", "Numbers, and a label that is their weighted sum."},
    {"fm", "Features that are there or not, and a click that depends on pairs of them."},
    {"blobs", "Classes, each a cloud of points around its center."},
    {"ratings", "Ratings that users gave to items, popular items more often."},
};

static const struct ps_exit exits[] = {
    {0, "made"},
    {2, "bad usage"},
    {74, "the rows or the answer cannot be written"},
    {0, NULL},
};

const struct ps_program datagen_program = {
    .name = "ps-datagen",
    .brief = "make training data whose answer is known",
    .summary = "Makes training data with a known answer, the same for the same seed.",
    .notes = "Rows go to --out, a line of what the true model reaches to standard error.",
    .exits = exits,
    .env_prefix = "PS_DATAGEN",
    .uses = uses,
    .n_uses = PS_ARRAY_LEN(uses),
    .n_positional_max = 1,
    .commands = kinds,
    .n_commands = PS_ARRAY_LEN(kinds),
};
