#ifndef PS_TESTS_UNIT_RPC_TEST_GUARD_H
#define PS_TESTS_UNIT_RPC_TEST_GUARD_H
/* unit/rpc/test_guard.h — peers that hold what they were given. */
#include <check.h>

Suite *suite_guard(void);

#endif
