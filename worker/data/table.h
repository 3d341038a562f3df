#ifndef PS_WORKER_DATA_TABLE_H
#define PS_WORKER_DATA_TABLE_H
/*
 * data/table.h — what csv and tsv have in common: how columns are learnt from a sample.
 */
#include "base/attr.h"
#include "base/error.h"
#include "data/learning.h"

/** ',' or '\t', as the format of the description says. */
char ps_table_delimiter(const struct ps_description *description);

/** Fill learning->description: header, columns, label, means and scales. As ps_format.learn. */
PS_MUST_CHECK enum ps_status ps_table_learn(struct ps_learning *learning, struct ps_error *err);

#endif
