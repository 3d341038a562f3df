#ifndef PS_COMMON_FORMAT_SAFETENSORS_H
#define PS_COMMON_FORMAT_SAFETENSORS_H
/*
 * format/safetensors.h — tensors as a file that every framework can read: models, snapshots.
 *
 *   u64 little-endian length of the header | JSON header, padded with blanks to 8 | raw floats
 *
 * The header maps each name to {"dtype","shape","data_offsets"}; "__metadata__" holds texts. The
 * same tensors and notes give the same bytes. The reader believes nothing: sizes, sums, order and
 * the exact length are checked, and no input reaches an assertion.
 * Format: https://github.com/huggingface/safetensors, README, "Format".
 */
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/error.h"
#include "base/limits.h"

struct ps_disk;
struct ps_mem;

/* 256 tables need some 50 KB; a setup, whose quotes are escaped once more, up to 2 MiB. */
#define PS_SAFETENSORS_HEAD_BYTES_MAX (4u << 20)
#define PS_SAFETENSORS_TENSORS_MAX    ((size_t)8 * PS_SLOTS) /* A snapshot has up to 7 a slot. */

enum ps_tensor_type {
    PS_TENSOR_F32, /* Weights. */
    PS_TENSOR_U64, /* Keys. */
    PS_TENSOR_F64,
    PS_TENSOR_U32,
    PS_TENSOR_U8
};

/** One tensor. Name and data are borrowed. */
struct ps_tensor_view {
    char name[PS_NAME_BYTES_MAX + 1];
    enum ps_tensor_type type;
    uint32_t n_dims; /* 0 is a single number. */
    uint64_t dims[PS_DIMS_MAX];
    const uint8_t *data; /* Raw little-endian numbers, perhaps not aligned when parsed. */
    uint64_t n_values;
    uint64_t first; /* Byte of the data, from the end of the header; when parsed. */
};

/** One entry of "__metadata__". */
struct ps_tensor_note {
    const char *key;
    const char *text;
};

struct ps_tensor_file {
    const struct ps_tensor_view *tensors; /* Names distinct. */
    size_t n_tensors;
    const struct ps_tensor_note *notes; /* Keys distinct. */
    size_t n_notes;
};

/** Bytes of one number. */
size_t ps_tensor_value_bytes(enum ps_tensor_type type);

/** F32 over `data` with the shape `dims` [n_dims]. `name` is at most PS_NAME_BYTES_MAX. */
struct ps_tensor_view ps_tensor_over(const char *name, const float *data, const uint64_t *dims,
                                     uint32_t n_dims);

/**
 * The bytes before the data, for whoever writes these himself: the tensors one behind the other,
 * of which only name, type and shape are looked at. `*ret` [*ret_n_bytes] is freed with
 * ps_mem_free.
 * @return PS_ERR_UNSUPPORTED  more than PS_SAFETENSORS_HEAD_BYTES_MAX; PS_ERR_NOMEM
 */
PS_MUST_CHECK enum ps_status ps_safetensors_head(struct ps_mem *mem,
                                                 const struct ps_tensor_file *file, uint8_t **ret,
                                                 size_t *ret_n_bytes, struct ps_error *err);

/**
 * Lay out a whole file in memory. `*ret` [*ret_n_bytes] is freed with ps_mem_free.
 *
 * Names that are not distinct are the caller's mistake. @return PS_ERR_NOMEM
 */
PS_MUST_CHECK enum ps_status ps_safetensors_build(struct ps_mem *mem,
                                                  const struct ps_tensor_file *file, uint8_t **ret,
                                                  size_t *ret_n_bytes, struct ps_error *err);

/**
 * Build a file and replace `path` with it as a whole. Blocks on the disk.
 * @return PS_ERR_NOMEM, or as ps_disk_replace; on failure `path` is as before
 */
PS_MUST_CHECK enum ps_status ps_safetensors_write(struct ps_disk *disk, const char *path,
                                                  const struct ps_tensor_file *file,
                                                  struct ps_error *err);

/**
 * Check a whole file in memory and describe its tensors, in the order of their data.
 *
 * @param tensors  filled with *ret_n entries; they borrow from `data` [PS_SAFETENSORS_TENSORS_MAX]
 * @return PS_ERR_CORRUPT      the bytes contradict themselves
 *         PS_ERR_UNSUPPORTED  a dtype of no enum ps_tensor_type, or more or larger names than we
 *                             keep
 *         PS_ERR_NOMEM
 */
PS_MUST_CHECK enum ps_status ps_safetensors_parse(const uint8_t *data, size_t n_bytes,
                                                  struct ps_tensor_view *tensors, size_t *ret_n,
                                                  struct ps_error *err);

/**
 * The same of a header alone, for whoever reads the data himself: `head` [n_head] is what follows
 * the length, `n_data` the bytes behind it. `data` of the tensors stays NULL.
 */
PS_MUST_CHECK enum ps_status ps_safetensors_parse_head(const uint8_t *head, size_t n_head,
                                                       uint64_t n_data,
                                                       struct ps_tensor_view *tensors,
                                                       size_t *ret_n, struct ps_error *err);

/**
 * The text under `key` of "__metadata__", to be freed with ps_mem_free; NULL: there is none.
 * @return PS_ERR_CORRUPT as parse, PS_ERR_NOMEM
 */
PS_MUST_CHECK enum ps_status ps_safetensors_note(struct ps_mem *mem, const uint8_t *data,
                                                 size_t n_bytes, const char *key, char **ret,
                                                 struct ps_error *err);

#endif
