/* main.c — the suites of suites.h. */
#include "lib/test_main.h"
#include "unit/log/suites.h"

PS_TEST_MAIN(suite_format, suite_wal, suite_damage, suite_crash, suite_log_posix)
