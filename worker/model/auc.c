/* auc.c — see auc.h. */
#include "model/auc.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"

#define CAPACITY_MIN 1024u
#define BUCKET_SHIFT (32u - 18u)

PS_STATIC_ASSERT(PS_AUC_BUCKETS == 1u << (32u - BUCKET_SHIFT), "a bucket is the high bits");

void ps_auc_init(struct ps_auc *auc, struct ps_mem *mem)
{
    *auc = (struct ps_auc){.mem = mem};
}

void ps_auc_deinit(struct ps_auc *auc)
{
    ps_mem_free(auc->scored);
    ps_mem_free(auc->buckets);
    *auc = (struct ps_auc){0};
}

/* The bits of a float as a number that rises with it; -0 becomes 0, since they are equal. */
static uint32_t rank_of(float score)
{
    uint32_t bits = 0;
    score += 0.0f;
    memcpy(&bits, &score, sizeof(bits));
    return (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
}

static void count(struct ps_auc *auc, float score, uint32_t positive)
{
    auc->buckets[2 * (size_t)(rank_of(score) >> BUCKET_SHIFT) + positive]++;
}

/* From scores that are kept to scores that are counted. */
static enum ps_status use_buckets(struct ps_auc *auc)
{
    if (auc->buckets != NULL) {
        return PS_OK;
    }
    auc->buckets =
        ps_mem_array(auc->mem, PS_MEM_OTHER, 2 * (size_t)PS_AUC_BUCKETS, sizeof(*auc->buckets));
    if (auc->buckets == NULL) {
        return PS_ERR_NOMEM;
    }
    for (size_t i = 0; i < auc->n_scored; i++) {
        count(auc, auc->scored[i].score, auc->scored[i].positive);
    }
    ps_mem_free(auc->scored);
    auc->scored = NULL;
    auc->n_scored = 0;
    auc->capacity = 0;
    return PS_OK;
}

static enum ps_status keep(struct ps_auc *auc, float score, uint32_t positive)
{
    if (auc->n_scored == auc->capacity) {
        size_t capacity = auc->capacity == 0 ? CAPACITY_MIN : 2 * auc->capacity;
        struct ps_auc_scored *scored =
            ps_mem_grow(auc->mem, PS_MEM_OTHER, auc->scored, capacity * sizeof(*scored));
        if (scored == NULL) {
            return PS_ERR_NOMEM;
        }
        auc->scored = scored;
        auc->capacity = capacity;
    }
    auc->scored[auc->n_scored++] = (struct ps_auc_scored){.score = score, .positive = positive};
    return PS_OK;
}

enum ps_status ps_auc_add(struct ps_auc *auc, float score, bool positive)
{
    enum ps_status status = PS_OK;
    if (isnan(score)) {
        auc->spoiled = true;
        return PS_OK;
    }
    if (auc->n_scored == PS_AUC_EXACT_MAX) {
        status = use_buckets(auc);
    }
    if (status == PS_OK && auc->buckets != NULL) {
        count(auc, score, positive);
    } else if (status == PS_OK) {
        status = keep(auc, score, positive);
    }
    auc->n[positive] += status == PS_OK;
    return status;
}

enum ps_status ps_auc_merge(struct ps_auc *auc, const struct ps_auc *part)
{
    enum ps_status status = part->buckets != NULL ? use_buckets(auc) : PS_OK;
    auc->spoiled = auc->spoiled || part->spoiled;
    for (size_t i = 0; status == PS_OK && i < part->n_scored; i++) {
        status = ps_auc_add(auc, part->scored[i].score, part->scored[i].positive != 0);
    }
    if (status == PS_OK && part->buckets != NULL) {
        for (size_t i = 0; i < 2 * (size_t)PS_AUC_BUCKETS; i++) {
            auc->buckets[i] += part->buckets[i];
        }
        auc->n[0] += part->n[0];
        auc->n[1] += part->n[1];
    }
    return status;
}

/* Heap sort: no memory, no recursion, n log n whatever the scores. */
static void sift(struct ps_auc_scored *at, size_t root, size_t n)
{
    struct ps_auc_scored moving = at[root];
    for (size_t child = 2 * root + 1; child < n; child = 2 * root + 1) {
        child += child + 1 < n && at[child + 1].score > at[child].score;
        if (at[child].score <= moving.score) {
            break;
        }
        at[root] = at[child];
        root = child;
    }
    at[root] = moving;
}

static void sort(struct ps_auc_scored *at, size_t n)
{
    for (size_t root = n / 2; root-- > 0;) {
        sift(at, root, n);
    }
    for (size_t last = n; last-- > 1;) {
        struct ps_auc_scored top = at[0];
        at[0] = at[last];
        at[last] = top;
        sift(at, 0, last);
    }
}

/* Pairs won and pairs equal, as scores rise: in doubles, since products of counts pass 2^64. */
struct tally {
    double n_zeros; /* Below the present score. */
    double won;
    double equal;
};

static void take(struct tally *tally, uint64_t zeros, uint64_t ones)
{
    tally->won += tally->n_zeros * (double)ones;
    tally->equal += (double)zeros * (double)ones;
    tally->n_zeros += (double)zeros;
}

static void take_scores(struct tally *tally, const struct ps_auc_scored *at, size_t n)
{
    for (size_t first = 0; first < n;) {
        uint64_t counts[2] = {0};
        size_t i = first;
        for (; i < n && at[i].score == at[first].score; i++) {
            counts[at[i].positive]++;
        }
        take(tally, counts[0], counts[1]);
        first = i;
    }
}

struct ps_auc_area ps_auc_area(struct ps_auc *auc)
{
    struct tally tally = {0};
    double n_pairs = (double)auc->n[0] * (double)auc->n[1];
    if (auc->buckets != NULL) {
        for (size_t b = 0; b < PS_AUC_BUCKETS; b++) {
            take(&tally, auc->buckets[2 * b], auc->buckets[2 * b + 1]);
        }
    } else {
        sort(auc->scored, auc->n_scored);
        take_scores(&tally, auc->scored, auc->n_scored);
    }
    if (auc->spoiled || n_pairs == 0.0) {
        return (struct ps_auc_area){.area = (double)NAN};
    }
    return (struct ps_auc_area){
        .area = (tally.won + 0.5 * tally.equal) / n_pairs,
        .error_max = auc->buckets != NULL ? 0.5 * tally.equal / n_pairs : 0.0,
    };
}
