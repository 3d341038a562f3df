#ifndef PS_COMMON_BASE_TASK_H
#define PS_COMMON_BASE_TASK_H
/* base/task.h — what a model makes of a label: readers and models agree on it. */

enum ps_task {
    PS_TASK_BINARY,  /* Two labels, 0 and 1. Log loss; predicts the probability of 1. */
    PS_TASK_CLASSES, /* Labels 0 .. n_classes - 1. Log loss; a probability per class. */
    PS_TASK_VALUE    /* Any finite number y. Loss (p - y)^2 / 2; predicts the value p. */
};

#endif
