#ifndef PS_TESTS_UNIT_WIRE_SUITES_H
#define PS_TESTS_UNIT_WIRE_SUITES_H
/*
 * wire/suites.h — the suites of the one executable of this folder, a file each.
 */
#include <check.h>

Suite *suite_data_msg(void);
Suite *suite_damage(void);
Suite *suite_keys(void);
Suite *suite_pack(void);
Suite *suite_pb(void);
Suite *suite_scan_msg(void);

#endif
