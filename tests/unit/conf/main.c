/* main.c — the suites of suites.h. */
#include "lib/test_main.h"
#include "suites.h"

PS_TEST_MAIN(suite_rows, suite_file)
