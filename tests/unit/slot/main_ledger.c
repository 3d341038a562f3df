/* main_ledger.c — the suite of accounts and loans. */
#include "lib/test_main.h"
#include "suites.h"

PS_TEST_MAIN(suite_ledger)
