#ifndef PS_WORKER_MODEL_MODEL_LIST_H
#define PS_WORKER_MODEL_MODEL_LIST_H
/*
 * model/model_list.h — every kind of model there is, for the registry and the kinds themselves.
 */
#include "model/model.h"

extern const struct ps_model_kind ps_model_softmax;
extern const struct ps_model_kind ps_model_mlp;

#endif
