/* main_state.c — the suite of a slot's state as bytes. */
#include "lib/test_main.h"
#include "suites.h"

PS_TEST_MAIN(suite_slot_state)
