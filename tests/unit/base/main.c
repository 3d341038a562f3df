/* main.c — the suites of suites.h, in the order of their layers. */
#include "lib/test_main.h"
#include "suites.h"

PS_TEST_MAIN(suite_mem, suite_slice, suite_rng, suite_order, suite_shape, suite_words)
