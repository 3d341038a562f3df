#ifndef PS_TESTS_UNIT_OS_SUITES_H
#define PS_TESTS_UNIT_OS_SUITES_H
/*
 * unit/os/suites.h — the suites of this executable, one per file.
 */
#include <check.h>

Suite *suite_mailbox(void);
Suite *suite_exec(void);
Suite *suite_files(void);
Suite *suite_posix_file(void);

#endif
