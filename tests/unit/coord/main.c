/* main.c — every suite of the coordinator's cores. */
#include "test_coord.h"

PS_TEST_MAIN(suite_lease_core, suite_lease_parts, suite_member_core, suite_coord_core,
             suite_coord_random, suite_server_core, suite_life_random)
