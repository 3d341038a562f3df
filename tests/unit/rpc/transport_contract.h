#ifndef PS_TESTS_UNIT_RPC_TRANSPORT_CONTRACT_H
#define PS_TESTS_UNIT_RPC_TRANSPORT_CONTRACT_H
/*
 * unit/rpc/transport_contract.h — the suite that every kind of transport passes.
 */
#include <check.h>

Suite *suite_transport_contract(void);

#endif
