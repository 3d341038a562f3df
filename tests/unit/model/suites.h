#ifndef PS_TESTS_UNIT_MODEL_SUITES_H
#define PS_TESTS_UNIT_MODEL_SUITES_H
/*
 * suites.h — the suites of this folder, one per file.
 */
#include <check.h>

Suite *suite_learn(void);
Suite *suite_metrics(void);
Suite *suite_mlp(void);
Suite *suite_unique(void);
Suite *suite_sparse_models(void);

#endif
