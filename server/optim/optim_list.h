#ifndef PS_SERVER_OPTIM_OPTIM_LIST_H
#define PS_SERVER_OPTIM_OPTIM_LIST_H
/*
 * optim/optim_list.h — the one list of update rules. A line here and a file in meson.build is all
 * that it takes to add one; --help, the registry and the contract tests follow.
 */
#include "optim/optim.h"

#define PS_OPTIM_LIST(X) \
    X(sgd)               \
    X(momentum)          \
    X(adagrad)           \
    X(adam)              \
    X(adamw)             \
    X(ftrl)

#define X(name) extern const struct ps_optim ps_optim_##name;
PS_OPTIM_LIST(X)
#undef X

#endif
