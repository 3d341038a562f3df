#ifndef PS_TESTS_UNIT_CLIENT_SUITES_H
#define PS_TESTS_UNIT_CLIENT_SUITES_H
/*
 * client/suites.h — the suites of test_client, one per file. All run one client over a fake network
 * in virtual time; every operation must end exactly once.
 */
#include <check.h>

Suite *suite_calls(void);
Suite *suite_returns(void);
Suite *suite_gate(void);
Suite *suite_scan(void);
Suite *suite_session(void);
Suite *suite_rows(void);

/* Of test_library: real time, but nothing waits for it. */
Suite *suite_library(void);
Suite *suite_units(void);
Suite *suite_unit_parts(void);

#endif
