/* datagen_answer.c — what the true model reaches on the rows made, and the answer file. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "datagen.h"

/* Scores in steps of 1/2048 from -16 to 16: the AUC is right to about 1e-4, in 2 MiB. */
#define RANKS      65536u
#define RANK_SCALE 2048.0

enum {
    EXPECTED,  /* Counts of 0s and 1s as probable. */
    DRAWN = 2, /* Counts as they came out. */
    RANK_WIDTH = 4
};

enum ps_status datagen_truth_open(struct datagen_truth *truth, struct ps_error *err)
{
    truth->ranks =
        ps_mem_array(NULL, PS_MEM_OTHER, (size_t)RANKS * RANK_WIDTH, sizeof(*truth->ranks));
    return truth->ranks != NULL ? PS_OK : ps_fail(err, PS_ERR_NOMEM, "no memory for the answer");
}

void datagen_truth_close(struct datagen_truth *truth)
{
    ps_mem_free(truth->ranks);
}

void datagen_truth_add(struct datagen_truth *truth, double z, bool one)
{
    double p = 1.0 / (1.0 + exp(-z));
    double loss_of_one = z > 0.0 ? log1p(exp(-z)) : log1p(exp(z)) - z; /* -log p */
    double loss_of_zero = loss_of_one + z;
    double place = floor(z * RANK_SCALE) + 0.5 * RANKS;
    double *rank = truth->ranks + RANK_WIDTH * (size_t)fmin(fmax(place, 0.0), RANKS - 1.0);
    rank[EXPECTED] += 1.0 - p;
    rank[EXPECTED + 1] += p;
    rank[DRAWN + one] += 1.0;
    truth->n_rows++;
    truth->n_ones += one;
    truth->n_hits += (z > 0.0) == one;
    truth->entropy_sum += p * loss_of_one + (1.0 - p) * loss_of_zero;
    truth->loss_sum += one ? loss_of_one : loss_of_zero;
}

/* The share of pairs of a 0 and a 1 in which the 1 has the higher score. */
static double area(const struct datagen_truth *truth, size_t which)
{
    double zeros = 0.0;
    double ones = 0.0;
    double won = 0.0;
    for (size_t i = 0; i < RANKS; i++) {
        const double *rank = truth->ranks + RANK_WIDTH * i + which;
        won += rank[1] * (zeros + 0.5 * rank[0]);
        zeros += rank[0];
        ones += rank[1];
    }
    return won / (zeros * ones);
}

/* How figures are written: as members of an object, or for people. */
struct style {
    const char *before;
    const char *behind;
    const char *between;
};

static void put(const struct style *style, const char *name, double value, FILE *to)
{
    (void)fprintf(to, "%s%s%s %.9g", style->before, name, style->behind, value);
}

static void put_next(const struct style *style, const char *name, double value, FILE *to)
{
    (void)fputs(style->between, to);
    put(style, name, value, to);
}

static void put_figures(const struct datagen *gen, const struct style *style, FILE *to)
{
    const struct datagen_truth *truth = &gen->truth;
    double n = (double)truth->n_rows;
    double hits = (double)truth->n_hits / n;
    if (gen->kind->labels) {
        double drawn = area(truth, DRAWN);
        put(style, "true_model_accuracy", hits, to);
        put_next(style, "true_model_log_loss", truth->loss_sum / n, to);
        if (isfinite(drawn)) { /* A few rows may have one label only. */
            put_next(style, "true_model_auc", drawn, to);
        }
        put_next(style, "expected_log_loss", truth->entropy_sum / n, to);
        put_next(style, "expected_auc", area(truth, EXPECTED), to);
        put_next(style, "positive_share", (double)truth->n_ones / n, to);
    } else if (gen->kind == &datagen_blobs) {
        put(style, "true_model_accuracy", hits, to);
    } else {
        put(style, "true_model_rmse", sqrt(truth->square_sum / n), to);
    }
}

void datagen_answer_tell(const struct datagen *gen, FILE *to)
{
    static const struct style style = {"", "", ", "};
    (void)fprintf(to, "ps-datagen: %" PRIu64 " rows of %s; ", gen->truth.n_rows, gen->kind->name);
    put_figures(gen, &style, to);
    (void)fputs("\n", to);
}

/* Its path is that of --out, made longer, unless it was given. */
static enum ps_status cannot_write(const struct datagen *gen, const char *path,
                                   struct ps_error *err)
{
    int error = errno;
    struct ps_conf_words words;
    if (ps_conf_given(gen->conf, "answer")) {
        return ps_fail(err, PS_ERR_IO, "%s cannot be written: %s",
                       ps_conf_say(gen->conf, "answer", &words), strerrordesc_np(error));
    }
    return ps_fail(err, PS_ERR_IO, "the answer, %s, cannot be written: %s", path,
                   strerrordesc_np(error));
}

enum ps_status datagen_answer_open(const struct datagen *gen, const char *path, FILE **ret,
                                   struct ps_error *err)
{
    FILE *to = fopen(path, "wb");
    if (to == NULL) {
        return cannot_write(gen, path, err);
    }
    *ret = to;
    return PS_OK;
}

enum ps_status datagen_answer_close(const struct datagen *gen, const char *path, FILE *to,
                                    struct ps_error *err)
{
    (void)fprintf(to, "{\n  \"kind\": \"%s\",\n  \"seed\": %" PRIu64 ",\n", gen->kind->name,
                  gen->options.seed);
    (void)fprintf(to, "  \"first_row\": %" PRIu64 ",\n  \"rows\": %" PRIu64 ",\n",
                  gen->options.first_row, gen->truth.n_rows);
    (void)fprintf(to, "  \"columns\": %" PRIu32 ",\n", gen->n_columns);
    gen->kind->describe(gen, to);
    static const struct style style = {"  \"", "\":", ",\n"};
    put_figures(gen, &style, to);
    (void)fprintf(to, "\n}\n");
    bool failed = ferror(to) != 0;
    failed = fclose(to) != 0 || failed;
    return failed ? cannot_write(gen, path, err) : PS_OK;
}
