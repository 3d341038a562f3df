/* main.c — see suites.h. */
#include "lib/test_main.h"
#include "suites.h"

PS_TEST_MAIN(suite_learn, suite_metrics, suite_mlp, suite_unique, suite_sparse_models)
