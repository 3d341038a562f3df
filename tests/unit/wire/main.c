/* main.c — the suites of suites.h. */
#include "lib/test_main.h"
#include "suites.h"

PS_TEST_MAIN(suite_pb, suite_data_msg, suite_damage, suite_pack, suite_keys, suite_scan_msg)
