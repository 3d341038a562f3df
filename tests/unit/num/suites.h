#ifndef PS_TESTS_UNIT_NUM_SUITES_H
#define PS_TESTS_UNIT_NUM_SUITES_H
/*
 * num/suites.h — the suites of the one executable of this folder, a file each.
 */
#include <check.h>

Suite *suite_kernel(void);
Suite *suite_blas(void);
Suite *suite_init(void);
Suite *suite_checksum(void);

#endif
