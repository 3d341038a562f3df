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

int test_run(Suite *(*const suites[])(void), int n)
{
    SRunner *runner = srunner_create(suites[0]());
    for (int i = 1; i < n; i++) {
        srunner_add_suite(runner, suites[i]());
    }
    srunner_run_all(runner, CK_NORMAL);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
