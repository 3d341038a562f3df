#ifndef PS_WORKER_TRAIN_MODEL_FILE_H
#define PS_WORKER_TRAIN_MODEL_FILE_H
/*
 * train/model_file.h — a model of sparse_save.h, read: mapped, checked, and searched by key.
 *
 * The file is anybody's. Opening checks all that reading relies on, keys of the rows included, in
 * one pass over the keys. It must not be shortened by others while it is open.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/error.h"
#include "format/safetensors.h"
#include "os/file.h"
#include "train/row_source.h"
#include "train/setup.h"

struct ps_mem;

#define PS_MODEL_PATH_BYTES 4096u

/** Rows of one sparse table, as they lie in the file; perhaps not aligned. */
struct ps_model_rows {
    const uint8_t *keys; /* [n] u64, ascending. */
    const uint8_t *rows; /* [n][width] f32 */
    uint64_t n;
    uint32_t number;
    struct ps_init init; /* First weights of a key without a row. */
};

struct ps_model_file;

/**
 * Check a whole file in memory, which is borrowed until ps_model_file_close.
 * @return PS_ERR_CORRUPT, PS_ERR_UNSUPPORTED (not a sparse model, or of a later kind), PS_ERR_NOMEM
 */
PS_MUST_CHECK enum ps_status ps_model_file_read(struct ps_mem *mem, const uint8_t *data,
                                                size_t n_bytes, struct ps_model_file **ret,
                                                struct ps_error *err);

/**
 * Map `what`, which is a file or a folder with model.safetensors in it; `path` gets the file's.
 * @return as ps_file_map
 */
PS_MUST_CHECK enum ps_status ps_model_file_map(const char *what, char path[PS_MODEL_PATH_BYTES],
                                               struct ps_file_view *ret, struct ps_error *err);

/** Map and check. @return as map and as read; the message names the file */
PS_MUST_CHECK enum ps_status ps_model_file_open(struct ps_mem *mem, const char *what,
                                                struct ps_model_file **ret, struct ps_error *err);

/** NULL does nothing. */
void ps_model_file_close(struct ps_model_file *file);

struct ps_setup *ps_model_file_setup(struct ps_model_file *file);

/** Its weights; goes with the file. */
struct ps_row_source *ps_model_file_rows(struct ps_model_file *file);

/** Sparse table `table` of the model. */
const struct ps_model_rows *ps_model_file_table(const struct ps_model_file *file, uint32_t table);

/** All tensors, in the order of the file. */
const struct ps_tensor_view *ps_model_file_tensors(const struct ps_model_file *file, size_t *ret_n);

#endif
