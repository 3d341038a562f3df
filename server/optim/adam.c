/*
 * adam.c — step sizes from decaying means of the gradient and of its square.
 *
 * The count of updates t is that of the page, not of the job: a page that is pushed rarely gets
 * the bias correction that it needs. Formula and source: adam_kernel.h.
 */
#include "optim/adam_kernel.h"
#include "optim/check.h"
#include "optim/optim_list.h"

static enum ps_status adam_check(const struct ps_optim_params *params, struct ps_error *err)
{
    enum ps_status status = ps_optim_adam_check("adam", params, err);
    if (status != PS_OK) {
        return status;
    }
    return ps_optim_check_undecayed("adam", params->weight_decay, err);
}

const struct ps_optim ps_optim_adam = {
    .name = "adam",
    .help = "step size per weight from decaying means of gradient and square",
    .version = 1,
    .state_per_elem = 2,
    .defaults = {.lr = 0.001f, .beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-8f},
    .check = adam_check,
    .apply = ps_optim_adam_apply,
};
