#ifndef PS_TESTS_UNIT_SNAP_SUITES_H
#define PS_TESTS_UNIT_SNAP_SUITES_H
/*
 * unit/snap/suites.h — the suites of this executable, one per file.
 */
#include <check.h>

Suite *suite_snap(void);
Suite *suite_damage(void);
Suite *suite_manifest(void);
Suite *suite_part(void);

#endif
