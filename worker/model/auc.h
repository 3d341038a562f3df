#ifndef PS_WORKER_MODEL_AUC_H
#define PS_WORKER_MODEL_AUC_H
/*
 * model/auc.h — area under the ROC curve of scores that come one by one.
 *
 *   AUC = P(score of a 1 > score of a 0) + P(equal) / 2        over all pairs
 *
 * Exact up to PS_AUC_EXACT_MAX scores, which are kept and sorted. Beyond that, scores are counted
 * in buckets of neighbouring floats (1 / 512 wide, relative to the score) in 4 MiB, and a pair
 * within a bucket counts as equal. How far that may be off is not guessed: each such pair is off by
 * at most 1/2, so the error is at most the sum of half of them, and it comes with the answer.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/error.h"

struct ps_mem;

#define PS_AUC_EXACT_MAX (1u << 20) /* 8 MiB of scores. */
#define PS_AUC_BUCKETS   (1u << 18) /* By the highest bits of a float: sign, exponent, 9 more. */

struct ps_auc_scored {
    float score;
    uint32_t positive; /* 0 or 1 */
};

/** One thread. A NaN score makes the area NaN. */
struct ps_auc {
    struct ps_mem *mem;
    struct ps_auc_scored *scored; /* [capacity], while exact. */
    size_t n_scored;
    size_t capacity;
    uint64_t *buckets; /* [PS_AUC_BUCKETS][2]: zeros, ones; NULL while exact. */
    uint64_t n[2];     /* Zeros and ones seen. */
    bool spoiled;      /* A score was NaN. */
};

struct ps_auc_area {
    double area;      /* NaN without a pair: nothing to rank. */
    double error_max; /* 0: exact. The true area is within this distance. */
};

void ps_auc_init(struct ps_auc *auc, struct ps_mem *mem);

/** A zeroed one does nothing. */
void ps_auc_deinit(struct ps_auc *auc);

/** @return PS_ERR_NOMEM; the score is then not counted */
PS_MUST_CHECK enum ps_status ps_auc_add(struct ps_auc *auc, float score, bool positive);

/** Count in `auc` what `part` has counted. @return PS_ERR_NOMEM; `auc` is then of no more use */
PS_MUST_CHECK enum ps_status ps_auc_merge(struct ps_auc *auc, const struct ps_auc *part);

/** The area so far. Sorts what is kept; more may be added afterwards. */
struct ps_auc_area ps_auc_area(struct ps_auc *auc);

#endif
