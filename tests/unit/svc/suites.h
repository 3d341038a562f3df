#ifndef PS_TESTS_UNIT_SVC_SUITES_H
#define PS_TESTS_UNIT_SVC_SUITES_H
/*
 * svc/suites.h — the suites of the one executable of this folder, a file each.
 */
#include <check.h>

Suite *suite_attend(void);
Suite *suite_lasting(void);
Suite *suite_data_bounds(void);
Suite *suite_data_check(void);
Suite *suite_data_push(void);
Suite *suite_data_pull(void);
Suite *suite_aggregate(void);
Suite *suite_health(void);
Suite *suite_late(void);
Suite *suite_reflection(void);
Suite *suite_restore(void);
Suite *suite_rows(void);
Suite *suite_scan(void);
Suite *suite_table_def(void);

#endif
