/*
 * datagen_clicks.c — clicks in Criteo's shape: 13 columns of counts and 26 of ids, many missing.
 *
 *   z = bias + sum of a_c log(1 + count) + sum of w(column, id)      click with 1 / (1 + exp(-z))
 *
 * Ids follow Zipf's law; the weight of an id is a function of seed, column and id, so that no
 * number of ids takes memory. What is missing adds nothing.
 */
#include <math.h>

#include "datagen.h"

#define COUNTS       13u
#define IDS          26u
#define KEYS_PRESET  1000000u
#define IDS_MIN      3u    /* A column of fewer says nothing. */
#define WEIGHT_SCALE 0.25f /* 26 of them: z has a deviation of 1.3, its AUC is about 0.8. */
#define COUNT_SCALE  0.15f
#define OCTAVE_MAX   15u /* No count is above 65,534. */

/* Ids per column after the public Criteo sets, in thousandths of a per cent of all. */
static const uint32_t shares[IDS] = {
    4, 2,  30000, 6520, 1, 1, 37,    2, 1, 276, 17, 24730, 9,
    1, 44, 16170, 1,    6, 1, 20870, 1, 1, 848, 1,  422,   28,
};

/* Per cent of rows in which a column is missing. */
static const uint8_t counts_missing[COUNTS] = {45, 10, 22, 22, 12, 23, 14, 10, 14, 45, 14, 40, 22};
static const uint8_t ids_missing[IDS] = {0, 0, 4, 4, 0, 12, 0,  0, 0,  0, 0, 4,  0,
                                         0, 0, 4, 0, 0, 44, 44, 4, 44, 0, 4, 44, 44};

static enum ps_status clicks_open(struct datagen *gen, struct ps_error *err)
{
    (void)err;
    uint64_t sum = 0;
    uint32_t keys = gen->options.keys != 0 ? gen->options.keys : KEYS_PRESET;
    gen->options.keys = keys;
    gen->n_columns = COUNTS + IDS;
    gen->bias = -1.0;
    for (uint32_t c = 0; c < IDS; c++) {
        sum += shares[c];
    }
    uint32_t offset = COUNTS; /* Indices 1 to 13 are the counts. */
    for (uint32_t c = 0; c < IDS; c++) {
        uint32_t n = (uint32_t)((uint64_t)keys * shares[c] / sum);
        n = n < IDS_MIN ? IDS_MIN : n;
        gen->sizes[COUNTS + c] = n;
        gen->offsets[COUNTS + c] = offset;
        offset += n;
    }
    return PS_OK;
}

/* Half of all counts are 0, a quarter 1 or 2, an eighth 3 to 6, ...: long tails, as counts have. */
static uint32_t draw_count(struct ps_rng *rng)
{
    uint64_t bits = ps_rng_next(rng);
    uint32_t octave = (uint32_t)__builtin_clz((uint32_t)(bits >> 32) | 1u << (31 - OCTAVE_MAX));
    uint32_t low = 1u << octave;
    return low - 1 + ((uint32_t)bits & (low - 1));
}

static float count_weight(const struct datagen *gen, uint32_t column)
{
    return COUNT_SCALE * ps_rng_normal(ps_rng_at(gen->options.seed, DATAGEN_WEIGHTS, column));
}

static float id_weight(const struct datagen *gen, uint32_t column, uint32_t id)
{
    return WEIGHT_SCALE *
           ps_rng_normal(ps_rng_at(gen->options.seed, (uint64_t)DATAGEN_IDS + column, id));
}

static void clicks_make(struct datagen *gen, uint64_t number, struct datagen_row *row)
{
    struct ps_rng rng = datagen_rng(gen, number);
    double z = gen->bias;
    row->n = 0;
    for (uint32_t c = 0; c < COUNTS; c++) {
        uint32_t count = draw_count(&rng);
        if (datagen_below(&rng, 100) >= counts_missing[c]) {
            row->features[row->n++] =
                (struct datagen_feature){.column = c, .value = (int64_t)count * DATAGEN_ONE};
            z += (double)count_weight(gen, c) * log1p((double)count);
        }
    }
    for (uint32_t c = 0; c < IDS; c++) {
        uint32_t id = datagen_zipf(&rng, gen->sizes[COUNTS + c]);
        if (datagen_below(&rng, 100) >= ids_missing[c]) {
            row->features[row->n++] = (struct datagen_feature){.column = COUNTS + c, .id = id};
            z += (double)id_weight(gen, c, id);
        }
    }
    row->label = datagen_draw(gen, &rng, z);
}

static void clicks_describe(const struct datagen *gen, FILE *to)
{
    (void)fprintf(to, "  \"keys\": %u,\n  \"bias\": %.9g,\n  \"count_weights\": [",
                  gen->options.keys, gen->bias);
    for (uint32_t c = 0; c < COUNTS; c++) {
        (void)fprintf(to, c == 0 ? "%.9g" : ", %.9g", (double)count_weight(gen, c));
    }
    (void)fprintf(to, "],\n  \"id_weight_deviation\": %.9g,\n  \"ids\": [", (double)WEIGHT_SCALE);
    for (uint32_t c = 0; c < IDS; c++) {
        (void)fprintf(to, c == 0 ? "%u" : ", %u", gen->sizes[COUNTS + c]);
    }
    (void)fprintf(to, "],\n");
}

static const char *const clicks_shape[] = {"keys", NULL};

const struct datagen_kind datagen_clicks = {
    .name = "clicks",
    .shape = clicks_shape,
    .formats = {[DATAGEN_LIBSVM] = true, [DATAGEN_CSV] = true, [DATAGEN_CRITEO] = true},
    .preset = DATAGEN_CRITEO,
    .ids = true,
    .labels = true,
    .open = clicks_open,
    .make = clicks_make,
    .describe = clicks_describe,
};
