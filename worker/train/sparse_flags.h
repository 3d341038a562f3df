#ifndef PS_WORKER_TRAIN_SPARSE_FLAGS_H
#define PS_WORKER_TRAIN_SPARSE_FLAGS_H
/*
 * train/sparse_flags.h — flags of training against each other, where the data are lines: what says
 * nothing is refused, with the flag's name. Pure.
 */
#include <stdbool.h>

#include "base/attr.h"
#include "base/error.h"
#include "model/sparse_model.h"
#include "train/options.h"

/** What flags alone say. @param ret  the model's kind */
PS_MUST_CHECK enum ps_status ps_sparse_flags_check(const struct ps_train_options *options,
                                                   const struct ps_sparse_model_kind **ret,
                                                   struct ps_error *err);

/** Refuse, where the data are images, what is for lines only. */
PS_MUST_CHECK enum ps_status ps_sparse_flags_of_images(const struct ps_train_options *options,
                                                       struct ps_error *err);

/** The params that flags name: rank, hidden, pool, regress. */
PS_MUST_CHECK enum ps_status ps_sparse_flags_params(const struct ps_train_options *options,
                                                    struct ps_sparse_model_params *ret,
                                                    struct ps_error *err);

/** The flags of labels, once it is known what the model makes of them. */
PS_MUST_CHECK enum ps_status ps_sparse_flags_task(const struct ps_train_options *options,
                                                  enum ps_task task, struct ps_error *err);

/** The flags of update rules, once it is known which one it is. */
PS_MUST_CHECK enum ps_status ps_sparse_flags_rule(const struct ps_train_options *options,
                                                  const struct ps_train_optimizer *optimizer,
                                                  struct ps_error *err);

/** Does the rule take gradients of sums, not of means? ftrl: its l1 and beta are per row. */
bool ps_sparse_flags_sums(const struct ps_train_optimizer *optimizer);

#endif
