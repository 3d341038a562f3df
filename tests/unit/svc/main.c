/* main.c — the suites of suites.h. */
#include "lib/test_main.h"
#include "suites.h"

PS_TEST_MAIN(suite_table_def, suite_data_check, suite_data_push, suite_data_pull, suite_data_bounds,
             suite_aggregate, suite_attend, suite_health, suite_reflection, suite_rows, suite_scan)
