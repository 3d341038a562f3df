#ifndef PS_TESTS_UNIT_DATA_SUITES_H
#define PS_TESTS_UNIT_DATA_SUITES_H
/*
 * unit/data/suites.h — the suites of worker/data, one per test file.
 */
#include <check.h>

Suite *suite_idx(void);
Suite *suite_load(void);
Suite *suite_dataset(void);
Suite *suite_data(void);
Suite *suite_decimal(void);
Suite *suite_source(void);
Suite *suite_unpack(void);
Suite *suite_lines(void);
Suite *suite_libsvm(void);
Suite *suite_csv(void);
Suite *suite_description(void);
Suite *suite_sets(void);
Suite *suite_feed(void);
Suite *suite_feed_plan(void);

#endif
