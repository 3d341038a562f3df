#ifndef PS_TESTS_UNIT_RPC_TEST_REFUSAL_H
#define PS_TESTS_UNIT_RPC_TEST_REFUSAL_H
/* unit/rpc/test_refusal.h — refusals as programs of others read them. */
#include <check.h>

Suite *suite_refusal(void);

#endif
