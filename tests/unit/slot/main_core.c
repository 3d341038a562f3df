/* main_core.c — the suites of the pure half. */
#include "lib/test_main.h"
#include "suites.h"

PS_TEST_MAIN(suite_seen_core, suite_slot_core)
