#ifndef PS_SERVER_OPTIM_OPTIM_H
#define PS_SERVER_OPTIM_OPTIM_H
/*
 * optim/optim.h — the extension point for update rules.
 *
 * One const struct per rule, one file per rule, one line in optim_list.h. A rule is pure
 * arithmetic on a run of elements: it knows nothing of blocks, tables, threads or the wire.
 * Every element's result depends on that element alone, and no libm function but sqrtf is used, so
 * the bits are the same on every machine, with any compiler, however a page is cut into runs.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/error.h"

/* Parameters of a table's rule. A rule reads those that its file names. */
struct ps_optim_params {
    float lr;           /* > 0. Default rate; the effective one comes with each step. */
    float momentum;     /* [0, 1) */
    float beta1;        /* [0, 1). Decay of the mean gradient. */
    float beta2;        /* [0, 1). Decay of the mean squared gradient. */
    float epsilon;      /* > 0. Added to divisors. */
    float weight_decay; /* >= 0. Decoupled from the gradient; adamw only. */
    float l2;           /* >= 0. l2 * w is added to the gradient, but by proximal rules. */
    float l1;           /* >= 0. Weights below its pull are exactly 0; ftrl only. */
    float beta;         /* > 0. Keeps first steps small; ftrl only. */
};

/* Counters of one page that belong to its optimizer state. All zero is the start. */
struct ps_optim_page {
    uint64_t t;         /* Updates of this page so far. */
    double beta1_power; /* beta1^t, by multiplication: pow() differs between machines. */
    double beta2_power; /* beta2^t */
};

/* What is the same for all elements of one update of one page (or row: optim/rows.h). */
struct ps_optim_step {
    const struct ps_optim_params *params;
    float rate;         /* Effective learning rate of this step. */
    float scale;        /* Multiplies the gradient before anything else. */
    uint64_t t;         /* Updates of this page, this one included; >= 1. */
    double beta1_power; /* beta1^t */
    double beta2_power; /* beta2^t */
    size_t stride;      /* Elements of the page: between two values of one element's state. */
};

struct ps_optim {
    const char *name;        /* In configuration and snapshots: [a-z0-9_]+, never renamed. */
    const char *help;        /* One line for --help and the dashboard. */
    uint32_t version;        /* Raise when the layout of `state` changes. */
    uint32_t state_per_elem; /* Floats of optimizer state kept per weight. */
    bool proximal;           /* l1 and l2 act on the weight in closed form: it can be exactly 0. */
    struct ps_optim_params defaults; /* What the rule uses when a table says nothing. */

    /** Refuse parameters that cannot work. Called once, at table creation. */
    PS_MUST_CHECK enum ps_status (*check)(const struct ps_optim_params *params,
                                          struct ps_error *err);

    /**
     * Apply one gradient to a run of `n` elements of a page.
     *
     * @param out     new weights [n]; may equal `in`, else does not overlap it
     * @param in      old weights [n]
     * @param state   value k of element i is state[k * step->stride + i]; zero before the first
     *                update, updated in place. Not read when state_per_elem is 0
     * @param grad    n little-endian f32 at any address; never NaN or infinite (svc has checked)
     *
     * The pointers are those of the run's first element. Must not allocate, lock, read the time or
     * keep a pointer. `state` and `grad` overlap nothing.
     */
    void (*apply)(const struct ps_optim_step *step, float *out, const float *in, float *state,
                  const uint8_t *grad, size_t n);

    /**
     * The weights that follow from the state after at least one update: to the bit what `apply`
     * has left, if the rate is the same. NULL: they do not follow.
     *
     * @param out    weights [n], of the elements of a run
     * @param state  as above; read only
     */
    void (*derive)(const struct ps_optim_params *params, float rate, float *out, const float *state,
                   size_t stride, size_t n);
};

/** The rule called `name`, or NULL. */
const struct ps_optim *ps_optim_find(const char *name);

/** All rules, in a stable order, for --help, the dashboard and the contract tests. */
const struct ps_optim *const *ps_optim_all(size_t *ret_n);

/** Count one more update. Called once per page and push, before the runs are applied. */
void ps_optim_page_next(struct ps_optim_page *page, const struct ps_optim_params *params);

/**
 * The step that follows from a page whose counters have just been advanced. `stride` is left for
 * the caller to set: the counters do not know how large their page is.
 */
struct ps_optim_step ps_optim_step_of(const struct ps_optim_params *params,
                                      const struct ps_optim_page *page, float rate, float scale);

#endif
