#ifndef PS_SERVER_SNAP_SNAP_IMPL_H
#define PS_SERVER_SNAP_SNAP_IMPL_H
/*
 * snap/snap_impl.h — one part being written: what snap_write.c and snap_tables.c share. Private.
 */
#include <stdbool.h>
#include <stdint.h>

#include "format/safetensors.h"
#include "slot/cut.h"
#include "snap/snap_file.h"
#include "snap/snap_write.h"

/** A part under way. */
struct ps_snap_work {
    const struct ps_snap_writer_options *options;
    struct ps_snap_write *write;
    const struct ps_snap_job *job;
    struct ps_cut *cut;
    struct ps_tensor_view *tensors; /* [PS_SAFETENSORS_TENSORS_MAX] Of the file in hand. */
    uint32_t n_tensors;
    uint32_t next_block[PS_SLOTS]; /* Blocks and rows of tables before the one in hand. */
    uint32_t next_rows[PS_SLOTS];
    struct ps_snap_out out;
    bool sync;
    char folder[PS_SNAP_PATH_BYTES]; /* Of the cut. */
    char temp[PS_SNAP_PATH_BYTES];   /* Of the part, while it is written, */
    char place[PS_SNAP_PATH_BYTES];  /*   and afterwards. */
    struct ps_snap_part part;
    struct ps_error *err;
};

/** A tensor of the file in hand, named "slot.<slot>.<what>". Set its shape by the two below. */
struct ps_tensor_view *ps_snap_add_tensor(struct ps_snap_work *w, uint32_t slot, const char *what,
                                          enum ps_tensor_type type);
void ps_snap_shape(struct ps_tensor_view *tensor, uint32_t n_dims, uint64_t a, uint64_t b,
                   uint64_t c);

/** Begin the file `name` with the header of the tensors that were added. */
PS_MUST_CHECK enum ps_status ps_snap_begin_file(struct ps_snap_work *w, const char *name,
                                                uint32_t table);
/** Its end; it becomes one of the part's files. */
PS_MUST_CHECK enum ps_status ps_snap_end_file(struct ps_snap_work *w);

/** PS_ERR_CANCELED when the write was called off. */
PS_MUST_CHECK enum ps_status ps_snap_go_on(const struct ps_snap_work *w);

/** STAGED, if anything is staged. */
PS_MUST_CHECK enum ps_status ps_snap_write_staged(struct ps_snap_work *w);

/** The file of one table; its pages are given back. */
PS_MUST_CHECK enum ps_status ps_snap_write_table(struct ps_snap_work *w, uint32_t table);

#endif
