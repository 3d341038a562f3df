/* test_main.c — see test_main.h. */
#include "lib/test_main.h"

#include <stdlib.h>

uint64_t test_count(const char *name, uint64_t preset)
{
    const char *text = getenv(name);
    return text != NULL && text[0] != '\0' ? strtoull(text, NULL, 10) : preset;
}

uint64_t test_seed(void)
{
    return test_count("PS_TEST_SEED", 1);
}

/*
 * Check ends a test after 4 s unless it says otherwise: on a busy machine that is a gate on time. A
 * limit is there to end what hangs, so it may be long.
 */
static void be_patient(void)
{
    (void)setenv("CK_DEFAULT_TIMEOUT", "60", 0);
    (void)setenv("CK_TIMEOUT_MULTIPLIER", "4", 0);
}

int test_run(Suite *(*const suites[])(void), int n)
{
    be_patient();
    SRunner *runner = srunner_create(suites[0]());
    for (int i = 1; i < n; i++) {
        srunner_add_suite(runner, suites[i]());
    }
    srunner_run_all(runner, CK_NORMAL);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
