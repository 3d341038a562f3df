#ifndef PS_WORKER_TRAIN_DENSE_FILE_H
#define PS_WORKER_TRAIN_DENSE_FILE_H
/*
 * train/dense_file.h — a model of images as train/finish.h writes it, read: its notes say what it
 * is, its tensors are its tables. The file is anybody's.
 */
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/error.h"
#include "model/model.h"

struct ps_mem;

struct ps_dense_file {
    struct ps_model *model;
    float *values;                            /* One block. */
    const float *arrays[PS_MODEL_TABLES_MAX]; /* Weights of each table of the model, in it. */
};

/**
 * Read a whole file in memory; nothing of it is borrowed. `*file` is to be given to
 * ps_dense_file_close, success or not.
 * @return PS_ERR_CORRUPT, PS_ERR_UNSUPPORTED (no model of images), PS_ERR_NOMEM
 */
PS_MUST_CHECK enum ps_status ps_dense_file_read(struct ps_mem *mem, const uint8_t *data,
                                                size_t n_bytes, struct ps_dense_file *file,
                                                struct ps_error *err);

/** A zeroed one does nothing. */
void ps_dense_file_close(struct ps_dense_file *file);

#endif
