/* main.c — runs the suites of suites.h. */
#include "lib/test_main.h"
#include "unit/train/suites.h"

PS_TEST_MAIN(suite_schedule, suite_report, suite_progress, suite_evaluate, suite_setup,
             suite_model_file, suite_sparse_score)
