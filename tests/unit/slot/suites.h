#ifndef PS_TESTS_UNIT_SLOT_SUITES_H
#define PS_TESTS_UNIT_SLOT_SUITES_H
/*
 * slot/suites.h — the suites of this folder, a file each. The cores have an executable of their
 * own, which links nothing but them.
 */
#include <check.h>

Suite *suite_ledger(void);
Suite *suite_seen_core(void);
Suite *suite_slot_core(void);
Suite *suite_slot_state(void);

#endif
