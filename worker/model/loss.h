#ifndef PS_WORKER_MODEL_LOSS_H
#define PS_WORKER_MODEL_LOSS_H
/*
 * model/loss.h — losses of one number z per row.
 *
 *   binary    p = 1 / (1 + exp(-z))    loss = log(1 + exp(z)) - y z    d loss / dz = p - y
 *   value     p = z                    loss = (z - y)^2 / 2            d loss / dz = z - y
 *
 * The exponential is always that of a number at or below 0, so that a score of any finite size has
 * a finite loss, and a wrong row at 800 costs 800. NaN gives NaN. Pure.
 */
#include "model/sparse_model.h"

/** 1 / (1 + exp(-z)) */
double ps_sigmoid(double z);

/** Loss of score `z` under label `y`; task BINARY or VALUE. */
double ps_loss(enum ps_task task, double z, double y);

/** d loss / dz */
double ps_loss_slope(enum ps_task task, double z, double y);

#endif
