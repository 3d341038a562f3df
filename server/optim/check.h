#ifndef PS_SERVER_OPTIM_CHECK_H
#define PS_SERVER_OPTIM_CHECK_H
/*
 * optim/check.h — what several rules refuse in the same words. Private to this folder.
 *
 * Every comparison is written so that NaN fails, and every message names the rule.
 */
#include "optim/optim.h"

/** Refuse a rate that is not > 0, a negative l2, and either of them infinite. */
PS_MUST_CHECK enum ps_status
ps_optim_check_rate(const char *rule, const struct ps_optim_params *params, struct ps_error *err);

/** As above, for rules that are not proximal: l1 and beta, which they would not read, as well. */
PS_MUST_CHECK enum ps_status
ps_optim_check_common(const char *rule, const struct ps_optim_params *params, struct ps_error *err);

/** Refuse a decay factor outside [0, 1). */
PS_MUST_CHECK enum ps_status ps_optim_check_decay(const char *rule, const char *name, float value,
                                                  struct ps_error *err);

/** Refuse an epsilon that is not > 0 and finite. */
PS_MUST_CHECK enum ps_status ps_optim_check_epsilon(const char *rule, float value,
                                                    struct ps_error *err);

/** Refuse a weight decay that the rule would not read: ignoring a setting is worse. */
PS_MUST_CHECK enum ps_status ps_optim_check_undecayed(const char *rule, float value,
                                                      struct ps_error *err);

#endif
