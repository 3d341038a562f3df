#ifndef PS_COMMON_CLUSTER_LAYOUT_H
#define PS_COMMON_CLUSTER_LAYOUT_H
/*
 * cluster/layout.h — where the elements of dense tables live: element -> block -> slot -> fragment.
 *
 *     table 0            |  table 1               tables laid end to end over the slots
 *     b0 b1 b2 b3 ... b9 |  b0 b1 ...
 *     s0 s1 s2 s3 ... s9    s10 s11 ...           slot of block i = (first_slot + i) mod PS_SLOTS
 *
 * A slot's blocks, over all tables in catalogue order, are cut into fragments: what one call
 * carries of the slot. Client and server compute the same cut from the same catalogue, so no call
 * has to describe it. Everything here is a pure function of its arguments; nothing allocates.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/error.h"

/* One dense table. A table without blocks (a sparse one) has zeros and takes no place. */
struct ps_layout {
    uint64_t n_elements;
    uint32_t block_floats; /* Elements per block; the last block may hold fewer. */
    uint32_t n_blocks;     /* 0 to PS_BLOCKS_MAX. */
    uint32_t first_slot;   /* Slot of block 0. */
};

/* All tables of a job in catalogue order. */
struct ps_layout_view {
    const struct ps_layout *tables; /* [n_tables] */
    uint32_t n_tables;
};

/* One block, as a part of a call. */
struct ps_layout_part {
    uint32_t table; /* Index in catalogue order. */
    uint32_t block;
    uint32_t n_floats;
    uint32_t fragment; /* Of the slot, from 0. */
};

/* A walk over the blocks of one slot. Plain data: copying it remembers a place. */
struct ps_layout_walk {
    struct ps_layout_view view;
    uint32_t slot;
    uint32_t table;    /* Of the next part. */
    uint32_t nth;      /* Next part is the nth block that `table` has in the slot. */
    uint32_t fragment; /* Of the next part. */
    uint64_t n_bytes;  /* Already in that fragment. */
};

/** Elements of a shape. @return PS_ERR_INVALID for no or too many dimensions, a 0, an overflow */
PS_MUST_CHECK enum ps_status ps_layout_elements(const uint64_t *dims, uint32_t n_dims,
                                                uint64_t *ret, struct ps_error *err);

/** Floats per block of a table: an even share of the slots, within the bounds of a good call. */
uint32_t ps_layout_block_floats(uint64_t n_elements);

/**
 * Lay out a table of shape `dims` [n_dims] whose block 0 goes to `first_slot`.
 *
 * @return PS_ERR_INVALID as ps_layout_elements, and for a table of more than PS_BLOCKS_MAX blocks
 */
PS_MUST_CHECK enum ps_status ps_layout_table(const uint64_t *dims, uint32_t n_dims,
                                             uint32_t first_slot, struct ps_layout *ret,
                                             struct ps_error *err);

/** The slot where the next table of the catalogue starts. */
uint32_t ps_layout_next_slot(const struct ps_layout *layout);

/** The slot of a block. */
uint32_t ps_layout_slot(const struct ps_layout *layout, uint32_t block);

/** Elements in a block. */
uint32_t ps_layout_floats(const struct ps_layout *layout, uint32_t block);

/** Index of a block's first element in its table. */
uint64_t ps_layout_first_element(const struct ps_layout *layout, uint32_t block);

/** How many blocks a table has in a slot. */
uint32_t ps_layout_blocks_in_slot(const struct ps_layout *layout, uint32_t slot);

/** The table's nth block in the slot, in ascending order; nth < ps_layout_blocks_in_slot. */
uint32_t ps_layout_block_in_slot(const struct ps_layout *layout, uint32_t slot, uint32_t nth);

/** A walk over the parts of a slot, in the order in which calls carry them. */
struct ps_layout_walk ps_layout_walk_slot(struct ps_layout_view view, uint32_t slot);

/** A walk over the parts of a slot from the first part of `fragment` on. */
struct ps_layout_walk ps_layout_walk_fragment(struct ps_layout_view view, uint32_t slot,
                                              uint32_t fragment);

/**
 * Take the next part. A fragment is closed as soon as it carries PS_CALL_PAYLOAD_BYTES.
 *
 * @return false at the end of the slot; `*ret` is then unchanged
 */
bool ps_layout_walk_next(struct ps_layout_walk *walk, struct ps_layout_part *ret);

/** How many fragments a slot has; 0 when no table has a block in it. */
uint32_t ps_layout_slot_fragments(struct ps_layout_view view, uint32_t slot);

/**
 * Write the parts of one fragment to `parts`; at most `n_max`.
 *
 * @return how many there are; 0 when the slot has no such fragment. More than `n_max` never:
 *         with n_max = PS_CALL_PARTS_MAX every fragment fits
 */
uint32_t ps_layout_fragment_parts(struct ps_layout_view view, uint32_t slot, uint32_t fragment,
                                  struct ps_layout_part *parts, uint32_t n_max);

#endif
