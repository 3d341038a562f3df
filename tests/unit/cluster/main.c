/* main.c — the suites of suites.h, in the order of their layers. */
#include "lib/test_main.h"
#include "suites.h"

PS_TEST_MAIN(suite_layout, suite_backoff, suite_keys)
