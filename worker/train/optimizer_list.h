#ifndef PS_WORKER_TRAIN_OPTIMIZER_LIST_H
#define PS_WORKER_TRAIN_OPTIMIZER_LIST_H
/*
 * train/optimizer_list.h — the update rules that --optimizer names, in the order of its words.
 */

/*    name        --lr    --weight-decay   w -= rate * g
 *                        -1: has none     by the worker itself */
#define PS_TRAIN_OPTIMIZER_LIST(X)     \
    X("sgd", 0.1f, -1.0f, true)        \
    X("momentum", 0.01f, -1.0f, false) \
    X("adagrad", 0.01f, -1.0f, false)  \
    X("adam", 0.001f, -1.0f, false)    \
    X("adamw", 0.001f, 0.01f, false)   \
    X("ftrl", 0.1f, -1.0f, false)

#endif
