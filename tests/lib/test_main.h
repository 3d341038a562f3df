#ifndef PS_TESTS_LIB_TEST_MAIN_H
#define PS_TESTS_LIB_TEST_MAIN_H
/*
 * lib/test_main.h — what every Check executable shares: one main, the seed, and chance.
 *
 * A test file defines its suites and says PS_TEST_MAIN(suite_a, suite_b). The default seed is
 * fixed; PS_TEST_SEED in the environment overrides it; print it in every failure.
 */
#include <stdint.h>

#include <check.h>

/** PS_TEST_SEED, or 1. */
uint64_t test_seed(void);

/** An unsigned number from the environment, or `preset`: counts of slow rigs. */
uint64_t test_count(const char *name, uint64_t preset);

/** Run the suites, print Check's lines, return the exit status. CK_FORK=no works. */
int test_run(Suite *(*const suites[])(void), int n);

#define PS_TEST_MAIN(...)                                                   \
    int main(void)                                                          \
    {                                                                       \
        Suite *(*const suites[])(void) = {__VA_ARGS__};                     \
        return test_run(suites, (int)(sizeof(suites) / sizeof(suites[0]))); \
    }

#endif
