#ifndef PS_SERVER_OPTIM_ADAM_KERNEL_H
#define PS_SERVER_OPTIM_ADAM_KERNEL_H
/*
 * optim/adam_kernel.h — the arithmetic that adam and adamw share. Private to this folder.
 *
 *   m <- beta1 m + (1 - beta1) g        v <- beta2 v + (1 - beta2) g^2
 *   w <- w - rate * (m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + epsilon) + decay * w)
 *
 * Sources: Kingma, Ba, "Adam", ICLR (2015); Loshchilov, Hutter, "Decoupled Weight Decay
 * Regularization", ICLR (2019).
 */
#include "optim/optim.h"

/** Both rules refuse the same, but for weight decay. */
PS_MUST_CHECK enum ps_status
ps_optim_adam_check(const char *rule, const struct ps_optim_params *params, struct ps_error *err);

/** As apply of struct ps_optim; state is m, then v. Reads weight_decay: 0 makes it adam. */
void ps_optim_adam_apply(const struct ps_optim_step *step, float *out, const float *in,
                         float *state, const uint8_t *grad, size_t n);

#endif
