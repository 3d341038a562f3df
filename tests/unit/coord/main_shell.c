/* main_shell.c — every suite of the coordinator's shell. */
#include "coord_rig.h"

PS_TEST_MAIN(suite_store, suite_define, suite_coord, suite_foreign, suite_hostile, suite_rows,
             suite_parts, suite_life)
