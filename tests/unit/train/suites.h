#ifndef PS_TESTS_UNIT_TRAIN_SUITES_H
#define PS_TESTS_UNIT_TRAIN_SUITES_H
/*
 * unit/train/suites.h — the suites of the pure parts of worker/train, one per test file.
 */
#include <check.h>

Suite *suite_schedule(void);
Suite *suite_report(void);
Suite *suite_progress(void);
Suite *suite_evaluate(void);
Suite *suite_setup(void);
Suite *suite_model_file(void);
Suite *suite_sparse_score(void);

#endif
