/* main.c — runs the suites of worker/data. */
#include "lib/test_main.h"
#include "unit/data/suites.h"

PS_TEST_MAIN(suite_idx, suite_load, suite_dataset, suite_data, suite_decimal, suite_source,
             suite_unpack, suite_lines, suite_libsvm, suite_csv, suite_description, suite_sets,
             suite_feed, suite_feed_plan)
