#ifndef PS_TESTS_UNIT_CONF_SUITES_H
#define PS_TESTS_UNIT_CONF_SUITES_H
/*
 * conf/suites.h — the suites of the one executable of this folder, a file each.
 */
#include <check.h>

Suite *suite_rows(void);
Suite *suite_file(void);

#endif
