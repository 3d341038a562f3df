/* loss.c — see loss.h. */
#include "model/loss.h"

#include <math.h>

#include "base/assert.h"

double ps_sigmoid(double z)
{
    double small = exp(-fabs(z));
    return z < 0.0 ? small / (1.0 + small) : 1.0 / (1.0 + small);
}

double ps_loss(enum ps_task task, double z, double y)
{
    switch (task) {
    case PS_TASK_BINARY: return (z > 0.0 ? z : 0.0) + log1p(exp(-fabs(z))) - y * z;
    case PS_TASK_VALUE: return 0.5 * (z - y) * (z - y);
    case PS_TASK_CLASSES: break;
    }
    PS_UNREACHABLE("classes have a score each: see xent.h");
}

double ps_loss_slope(enum ps_task task, double z, double y)
{
    switch (task) {
    case PS_TASK_BINARY: return ps_sigmoid(z) - y;
    case PS_TASK_VALUE: return z - y;
    case PS_TASK_CLASSES: break;
    }
    PS_UNREACHABLE("classes have a score each: see xent.h");
}
