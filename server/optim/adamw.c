/*
 * adamw.c — adam, and weights that decay by themselves.
 *
 * The decay is not part of the gradient, so large squares do not dampen it. A weight whose
 * gradient is 0 still decays by rate * weight_decay. Formula and source: adam_kernel.h.
 */
#include <math.h>

#include "optim/adam_kernel.h"
#include "optim/optim_list.h"

static enum ps_status adamw_check(const struct ps_optim_params *params, struct ps_error *err)
{
    enum ps_status status = ps_optim_adam_check("adamw", params, err);
    if (status != PS_OK) {
        return status;
    }
    if (!(params->weight_decay >= 0.0f) || !isfinite(params->weight_decay)) {
        return ps_fail(err, PS_ERR_INVALID, "adamw: weight decay must be >= 0, got %g",
                       (double)params->weight_decay);
    }
    return PS_OK;
}

const struct ps_optim ps_optim_adamw = {
    .name = "adamw",
    .help = "adam with weight decay beside the gradient",
    .version = 1,
    .state_per_elem = 2,
    .defaults =
        {.lr = 0.001f, .beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-8f, .weight_decay = 0.01f},
    .check = adamw_check,
    .apply = ps_optim_adam_apply,
};
