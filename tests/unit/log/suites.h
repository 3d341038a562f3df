#ifndef PS_TESTS_UNIT_LOG_SUITES_H
#define PS_TESTS_UNIT_LOG_SUITES_H
/*
 * log/suites.h — the suites of the one executable of this folder, a file each.
 */
#include <check.h>

Suite *suite_format(void);
Suite *suite_wal(void);
Suite *suite_damage(void);
Suite *suite_crash(void);
Suite *suite_log_posix(void);

#endif
