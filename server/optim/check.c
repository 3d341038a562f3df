/* check.c — see check.h. */
#include "optim/check.h"

#include <math.h>

enum ps_status ps_optim_check_rate(const char *rule, const struct ps_optim_params *params,
                                   struct ps_error *err)
{
    if (!(params->lr > 0.0f) || !isfinite(params->lr)) {
        return ps_fail(err, PS_ERR_INVALID, "%s: learning rate must be > 0, got %g", rule,
                       (double)params->lr);
    }
    if (!(params->l2 >= 0.0f) || !isfinite(params->l2)) {
        return ps_fail(err, PS_ERR_INVALID, "%s: l2 must be >= 0, got %g", rule,
                       (double)params->l2);
    }
    return PS_OK;
}

enum ps_status ps_optim_check_common(const char *rule, const struct ps_optim_params *params,
                                     struct ps_error *err)
{
    if (!(params->l1 == 0.0f)) {
        return ps_fail(err, PS_ERR_INVALID, "%s: knows no l1, got %g; use l2, or the rule ftrl",
                       rule, (double)params->l1);
    }
    if (!(params->beta == 0.0f)) {
        return ps_fail(err, PS_ERR_INVALID,
                       "%s: knows no beta, got %g; it belongs to the rule ftrl", rule,
                       (double)params->beta);
    }
    return ps_optim_check_rate(rule, params, err);
}

enum ps_status ps_optim_check_decay(const char *rule, const char *name, float value,
                                    struct ps_error *err)
{
    if (!(value >= 0.0f) || !(value < 1.0f)) {
        return ps_fail(err, PS_ERR_INVALID, "%s: %s must be in [0, 1), got %g", rule, name,
                       (double)value);
    }
    return PS_OK;
}

enum ps_status ps_optim_check_epsilon(const char *rule, float value, struct ps_error *err)
{
    if (!(value > 0.0f) || !isfinite(value)) {
        return ps_fail(err, PS_ERR_INVALID, "%s: epsilon must be > 0, got %g", rule, (double)value);
    }
    return PS_OK;
}

enum ps_status ps_optim_check_undecayed(const char *rule, float value, struct ps_error *err)
{
    if (!(value == 0.0f)) {
        return ps_fail(err, PS_ERR_INVALID,
                       "%s: knows no weight decay, got %g; use l2, or the rule adamw", rule,
                       (double)value);
    }
    return PS_OK;
}
