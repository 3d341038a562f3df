/* main.c — runs the suites of suites.h. */
#include "lib/test_main.h"
#include "unit/snap/suites.h"

PS_TEST_MAIN(suite_snap, suite_damage, suite_manifest, suite_part)
