/* main.c — the suites of suites.h, in the order of their layers. */
#include "lib/test_main.h"
#include "suites.h"

PS_TEST_MAIN(suite_kernel, suite_blas, suite_init, suite_checksum)
