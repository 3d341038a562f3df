#ifndef PS_TESTS_UNIT_BASE_SUITES_H
#define PS_TESTS_UNIT_BASE_SUITES_H
/*
 * base/suites.h — the suites of the one executable of this folder, a file each.
 */
#include <check.h>

Suite *suite_mem(void);
Suite *suite_slice(void);
Suite *suite_rng(void);
Suite *suite_order(void);
Suite *suite_shape(void);
Suite *suite_words(void);

#endif
