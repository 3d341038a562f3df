#ifndef PS_TESTS_UNIT_CLUSTER_SUITES_H
#define PS_TESTS_UNIT_CLUSTER_SUITES_H
/*
 * cluster/suites.h — the suites of the one executable of this folder, a file each.
 */
#include <check.h>

Suite *suite_layout(void);
Suite *suite_backoff(void);
Suite *suite_keys(void);

#endif
