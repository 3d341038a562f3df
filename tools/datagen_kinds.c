/* datagen_kinds.c — the kinds with a model small enough to be written down, and their chances. */
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "datagen.h"

#define RATING_MEAN    3.5
#define RATING_STEPS   2.0 /* Per 1: halves, as on MovieLens. */
#define RATING_MIN     0.5
#define RATING_MAX     5.0
#define RATING_SPREAD  0.4 /* Of the biases of users and items; of their product, too. */
#define CENTER_SPREAD  2.0f
#define FEATURE_PRESET 100u
#define BLOBS_PRESET   10u

static const struct datagen_kind *const kinds[] = {
    &datagen_clicks, &datagen_linear, &datagen_fm, &datagen_blobs, &datagen_ratings,
};

const struct datagen_kind *datagen_find(const char *name)
{
    for (size_t i = 0; i < PS_ARRAY_LEN(kinds); i++) {
        if (strcmp(kinds[i]->name, name) == 0) {
            return kinds[i];
        }
    }
    PS_UNREACHABLE("a command of datagen_options.c that is no kind");
}

struct ps_rng datagen_rng(const struct datagen *gen, uint64_t number)
{
    return ps_rng_from(ps_rng_at(gen->options.seed, DATAGEN_ROWS, number));
}

uint32_t datagen_below(struct ps_rng *rng, uint32_t n)
{
    return (uint32_t)(((ps_rng_next(rng) >> 32) * n) >> 32);
}

/*
 * Octaves [2^l, 2^(l+1)) all have about the same weight under 1 / id: draw one, then a place in it,
 * and keep the place with probability 2^l / id. What is kept has exactly the law wanted.
 */
uint32_t datagen_zipf(struct ps_rng *rng, uint32_t n)
{
    uint32_t n_octaves = 32u - (uint32_t)__builtin_clz(n);
    for (;;) {
        uint64_t bits = ps_rng_next(rng);
        uint32_t octave = (uint32_t)(((bits >> 32) * n_octaves) >> 32);
        uint64_t low = 1ull << octave;
        uint64_t id = low + (ps_rng_next(rng) & (low - 1));
        if (id <= n && (bits & 0xffffffffu) * id < low << 32) {
            return (uint32_t)id;
        }
    }
}

double datagen_unit(struct ps_rng *rng)
{
    return (double)(ps_rng_next(rng) >> 11) * 0x1p-53;
}

int64_t datagen_fixed(double value)
{
    return (int64_t)floor(value * DATAGEN_ONE + 0.5);
}

double datagen_value(int64_t fixed)
{
    return (double)fixed / DATAGEN_ONE;
}

int64_t datagen_draw(struct datagen *gen, struct ps_rng *rng, double z)
{
    bool one = datagen_unit(rng) < 1.0 / (1.0 + exp(-z));
    datagen_truth_add(&gen->truth, z, one);
    return one ? DATAGEN_ONE : 0;
}

static double normal(struct ps_rng *rng)
{
    return (double)ps_rng_normal(ps_rng_next(rng));
}

/* `n` numbers of a stream: normal, of deviation `scale`. */
static float *numbers(const struct datagen *gen, enum datagen_stream stream, size_t n, float scale)
{
    float *to = ps_mem_array(NULL, PS_MEM_OTHER, n, sizeof(*to));
    for (size_t i = 0; to != NULL && i < n; i++) {
        to[i] = scale * ps_rng_normal(ps_rng_at(gen->options.seed, stream, i));
    }
    return to;
}

static void describe_numbers(const char *name, const float *at, size_t n, FILE *to)
{
    (void)fprintf(to, "  \"%s\": [", name);
    for (size_t i = 0; i < n; i++) {
        (void)fprintf(to, i == 0 ? "%.9g" : ", %.9g", (double)at[i]);
    }
    (void)fprintf(to, "],\n");
}

/* How many columns of a row have a value: the same for all rows. */
static uint32_t n_filled(const struct datagen *gen)
{
    uint32_t n = (uint32_t)(gen->options.density * gen->n_columns + 0.5);
    return n < 1 ? 1 : n;
}

/* One column out of each of n equal ranges, so that they are distinct and in order. */
static void draw_columns(const struct datagen *gen, struct ps_rng *rng, struct datagen_row *row)
{
    row->n = n_filled(gen);
    for (size_t i = 0; i < row->n; i++) {
        uint64_t first = i * (uint64_t)gen->n_columns / row->n;
        uint64_t end = (i + 1) * (uint64_t)gen->n_columns / row->n;
        uint32_t column = (uint32_t)first + datagen_below(rng, (uint32_t)(end - first));
        row->features[i] = (struct datagen_feature){.column = column, .value = DATAGEN_ONE};
    }
}

/* ---- linear: y = b + sum of w x + noise ---- */

static enum ps_status linear_open(struct datagen *gen, struct ps_error *err)
{
    struct datagen_options *options = &gen->options;
    gen->n_columns = options->features != 0 ? options->features : FEATURE_PRESET;
    options->noise = options->noise < 0.0 ? 0.1 : options->noise;
    gen->bias = 1.0;
    gen->weights = numbers(gen, DATAGEN_WEIGHTS, gen->n_columns, 1.0f);
    return gen->weights != NULL ? PS_OK : ps_fail(err, PS_ERR_NOMEM, "no memory for the weights");
}

static void linear_make(struct datagen *gen, uint64_t number, struct datagen_row *row)
{
    struct ps_rng rng = datagen_rng(gen, number);
    double y = gen->bias;
    draw_columns(gen, &rng, row);
    for (size_t i = 0; i < row->n; i++) {
        struct datagen_feature *feature = &row->features[i];
        feature->value = datagen_fixed(normal(&rng));
        y += (double)gen->weights[feature->column] * datagen_value(feature->value);
    }
    row->label = datagen_fixed(y + gen->options.noise * normal(&rng));
    double error = datagen_value(row->label) - y;
    gen->truth.n_rows++;
    gen->truth.square_sum += error * error;
}

static void linear_describe(const struct datagen *gen, FILE *to)
{
    (void)fprintf(to, "  \"noise\": %.9g,\n  \"bias\": %.9g,\n", gen->options.noise, gen->bias);
    describe_numbers("weights", gen->weights, gen->n_columns, to);
}

static const char *const linear_shape[] = {"features", "density", "noise", NULL};

const struct datagen_kind datagen_linear = {
    .name = "linear",
    .shape = linear_shape,
    .formats = {[DATAGEN_LIBSVM] = true, [DATAGEN_CSV] = true},
    .preset = DATAGEN_LIBSVM,
    .open = linear_open,
    .make = linear_make,
    .describe = linear_describe,
};

/* ---- fm: clicks that depend on pairs of features ---- */

static enum ps_status fm_open(struct datagen *gen, struct ps_error *err)
{
    struct datagen_options *options = &gen->options;
    gen->n_columns = options->features != 0 ? options->features : FEATURE_PRESET;
    options->rank = options->rank != 0 ? options->rank : 4;
    /* The part of pairs has the variance 1, however many there are. */
    double n = n_filled(gen);
    double n_pairs = n > 1 ? n * (n - 1) / 2 : 1;
    float scale = (float)sqrt(sqrt(1.0 / (n_pairs * options->rank)));
    gen->bias = -0.5;
    gen->weights = numbers(gen, DATAGEN_WEIGHTS, gen->n_columns, (float)sqrt(0.5 / n));
    gen->factors = numbers(gen, DATAGEN_FACTORS, (size_t)gen->n_columns * options->rank, scale);
    return gen->weights != NULL && gen->factors != NULL
               ? PS_OK
               : ps_fail(err, PS_ERR_NOMEM, "no memory for the factors");
}

static void fm_make(struct datagen *gen, uint64_t number, struct datagen_row *row)
{
    struct ps_rng rng = datagen_rng(gen, number);
    double z = gen->bias;
    draw_columns(gen, &rng, row);
    for (size_t i = 0; i < row->n; i++) {
        z += (double)gen->weights[row->features[i].column];
    }
    for (uint32_t f = 0; f < gen->options.rank; f++) {
        double sum = 0.0;
        double squares = 0.0;
        for (size_t i = 0; i < row->n; i++) {
            size_t at = (size_t)row->features[i].column * gen->options.rank + f;
            sum += (double)gen->factors[at];
            squares += (double)gen->factors[at] * (double)gen->factors[at];
        }
        z += 0.5 * (sum * sum - squares);
    }
    row->label = datagen_draw(gen, &rng, z);
}

static void fm_describe(const struct datagen *gen, FILE *to)
{
    (void)fprintf(to, "  \"rank\": %u,\n  \"bias\": %.9g,\n", gen->options.rank, gen->bias);
    describe_numbers("weights", gen->weights, gen->n_columns, to);
    describe_numbers("factors", gen->factors, (size_t)gen->n_columns * gen->options.rank, to);
}

static const char *const fm_shape[] = {"features", "density", "rank", NULL};

const struct datagen_kind datagen_fm = {
    .name = "fm",
    .shape = fm_shape,
    .formats = {[DATAGEN_LIBSVM] = true, [DATAGEN_CSV] = true},
    .preset = DATAGEN_LIBSVM,
    .labels = true,
    .open = fm_open,
    .make = fm_make,
    .describe = fm_describe,
};

/* ---- blobs: classes around centers ---- */

static enum ps_status blobs_open(struct datagen *gen, struct ps_error *err)
{
    struct datagen_options *options = &gen->options;
    gen->n_columns = options->features != 0 ? options->features : BLOBS_PRESET;
    options->classes = options->classes != 0 ? options->classes : 3;
    options->noise = options->noise < 0.0 ? 2.0 : options->noise;
    gen->weights =
        numbers(gen, DATAGEN_WEIGHTS, (size_t)options->classes * gen->n_columns, CENTER_SPREAD);
    return gen->weights != NULL ? PS_OK : ps_fail(err, PS_ERR_NOMEM, "no memory for the centers");
}

/* Classes are equally frequent and round: the nearest center is the best guess there is. */
static uint32_t nearest(const struct datagen *gen, const struct datagen_row *row)
{
    uint32_t best = 0;
    double best_distance = HUGE_VAL;
    for (uint32_t c = 0; c < gen->options.classes; c++) {
        const float *center = gen->weights + (size_t)c * gen->n_columns;
        double distance = 0.0;
        for (size_t i = 0; i < row->n; i++) {
            double d = datagen_value(row->features[i].value) - (double)center[i];
            distance += d * d;
        }
        if (distance < best_distance) {
            best_distance = distance;
            best = c;
        }
    }
    return best;
}

static void blobs_make(struct datagen *gen, uint64_t number, struct datagen_row *row)
{
    struct ps_rng rng = datagen_rng(gen, number);
    uint32_t class = datagen_below(&rng, gen->options.classes);
    const float *center = gen->weights + (size_t) class * gen->n_columns;
    row->n = gen->n_columns;
    for (uint32_t i = 0; i < gen->n_columns; i++) {
        double x = (double)center[i] + gen->options.noise * normal(&rng);
        row->features[i] = (struct datagen_feature){.column = i, .value = datagen_fixed(x)};
    }
    row->label = (int64_t) class * DATAGEN_ONE;
    gen->truth.n_rows++;
    gen->truth.n_hits += nearest(gen, row) == class;
}

static void blobs_describe(const struct datagen *gen, FILE *to)
{
    (void)fprintf(to, "  \"noise\": %.9g,\n  \"classes\": %u,\n", gen->options.noise,
                  gen->options.classes);
    describe_numbers("centers", gen->weights, (size_t)gen->options.classes * gen->n_columns, to);
}

static const char *const blobs_shape[] = {"features", "classes", "noise", NULL};

const struct datagen_kind datagen_blobs = {
    .name = "blobs",
    .shape = blobs_shape,
    .formats = {[DATAGEN_LIBSVM] = true, [DATAGEN_CSV] = true},
    .preset = DATAGEN_LIBSVM,
    .open = blobs_open,
    .make = blobs_make,
    .describe = blobs_describe,
};

/* ---- ratings: biases and a product of factors of user and item, in halves from 0.5 to 5 ---- */

static enum ps_status ratings_open(struct datagen *gen, struct ps_error *err)
{
    struct datagen_options *options = &gen->options;
    (void)err;
    gen->n_columns = 2;
    options->users = options->users != 0 ? options->users : 1000;
    options->items = options->items != 0 ? options->items : 500;
    options->rank = options->rank != 0 ? options->rank : 4;
    options->noise = options->noise < 0.0 ? 0.3 : options->noise;
    gen->sizes[0] = options->users;
    gen->sizes[1] = options->items;
    gen->offsets[0] = 0;
    gen->offsets[1] = options->users;
    return PS_OK;
}

/* Number `f` of a user or an item: its bias for 0, its factors from 1 on. Made, not kept. */
static double trait(const struct datagen *gen, enum datagen_stream stream, uint32_t id, uint32_t f)
{
    uint64_t at = (uint64_t)id * (DATAGEN_RANK_MAX + 1) + f;
    return (double)ps_rng_normal(ps_rng_at(gen->options.seed, stream, at));
}

static void ratings_make(struct datagen *gen, uint64_t number, struct datagen_row *row)
{
    struct ps_rng rng = datagen_rng(gen, number);
    const struct datagen_options *options = &gen->options;
    uint32_t user = 1 + datagen_below(&rng, options->users);
    uint32_t item = datagen_zipf(&rng, options->items);
    double product = 0.0;
    for (uint32_t f = 1; f <= options->rank; f++) {
        product += trait(gen, DATAGEN_USERS, user, f) * trait(gen, DATAGEN_ITEMS, item, f);
    }
    double y = RATING_MEAN + RATING_SPREAD * (trait(gen, DATAGEN_USERS, user, 0) +
                                              trait(gen, DATAGEN_ITEMS, item, 0) +
                                              product / sqrt((double)options->rank));
    double rating = floor((y + options->noise * normal(&rng)) * RATING_STEPS + 0.5) / RATING_STEPS;
    rating = fmin(fmax(rating, RATING_MIN), RATING_MAX);
    row->n = 2;
    row->features[0] = (struct datagen_feature){.column = 0, .id = user};
    row->features[1] = (struct datagen_feature){.column = 1, .id = item};
    row->label = datagen_fixed(rating);
    double error = rating - fmin(fmax(y, RATING_MIN), RATING_MAX);
    gen->truth.n_rows++;
    gen->truth.square_sum += error * error;
}

static void ratings_describe(const struct datagen *gen, FILE *to)
{
    (void)fprintf(to,
                  "  \"users\": %u,\n  \"items\": %u,\n  \"rank\": %u,\n  \"noise\": %.9g,\n"
                  "  \"mean\": %.9g,\n  \"spread\": %.9g,\n",
                  gen->options.users, gen->options.items, gen->options.rank, gen->options.noise,
                  RATING_MEAN, RATING_SPREAD);
}

static const char *const ratings_shape[] = {"rank", "noise", "users", "items", NULL};

const struct datagen_kind datagen_ratings = {
    .name = "ratings",
    .shape = ratings_shape,
    .formats = {[DATAGEN_LIBSVM] = true, [DATAGEN_CSV] = true},
    .preset = DATAGEN_CSV,
    .ids = true,
    .open = ratings_open,
    .make = ratings_make,
    .describe = ratings_describe,
};
