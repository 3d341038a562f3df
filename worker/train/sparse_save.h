#ifndef PS_WORKER_TRAIN_SPARSE_SAVE_H
#define PS_WORKER_TRAIN_SPARSE_SAVE_H
/*
 * train/sparse_save.h — a sparse model into one safetensors file, however large it is.
 *
 *   walk -> sort 16 MiB at a time -> spill file beside it -> merge -> <folder>/model.safetensors
 *
 *   "<table>.keys"  U64 [n], ascending      "<table>.rows"  F32 [n][width]      dense tables: F32
 *   notes: "setup" (JSON of train/setup.h), "seed", and "rows": how each sparse table begins, from
 *   which follow the first weights of keys that have no row
 *
 * Rows of zeros are left out of tables that begin at zero. The spill has no name and goes with the
 * process. A model with numbers that are not finite replaces nothing. Blocks.
 */
#include <stdint.h>

#include "base/attr.h"
#include "base/error.h"
#include "train/row_source.h"
#include "train/setup.h"

#define PS_SAVE_PATH_BYTES 4096u

/**
 * Write all rows of `source` as `<folder>/model.safetensors`, whose name `path` gets; makes the
 * folder. The seed is the setup's.
 *
 * @return PS_ERR_DIVERGED  a number is not finite
 *         PS_ERR_IO        the disk is full, or as os/posix_disk.h
 *         as the source, PS_ERR_NOMEM; the file is then as before
 */
PS_MUST_CHECK enum ps_status ps_sparse_save(const struct ps_setup *setup,
                                            struct ps_row_source *source, const char *folder,
                                            char path[PS_SAVE_PATH_BYTES], struct ps_error *err);

#endif
