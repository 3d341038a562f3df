/* main.c — see suites.h. */
#include "lib/test_main.h"
#include "suites.h"

PS_TEST_MAIN(suite_calls, suite_gate, suite_session, suite_returns, suite_rows, suite_scan)
