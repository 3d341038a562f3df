/* layout.c — see layout.h. */
#include "cluster/layout.h"

#include <inttypes.h>

#include "base/assert.h"
#include "base/limits.h"
#include "base/shape.h"

#define FLOATS_MAX ((uint64_t)PS_BLOCKS_MAX * PS_BLOCK_FLOATS_MAX)

PS_STATIC_ASSERT(PS_BLOCK_FLOATS_MIN % PS_BLOCK_FLOATS_STEP == 0 &&
                     PS_BLOCK_FLOATS_MAX % PS_BLOCK_FLOATS_STEP == 0,
                 "rounding up must not leave the bounds");
/*
 * A fragment holds the last, short block of every table at worst, and full blocks until it is
 * closed.
 */
PS_STATIC_ASSERT(PS_TABLES_MAX + PS_CALL_PAYLOAD_BYTES / (4u * PS_BLOCK_FLOATS_MIN) <=
                     PS_CALL_PARTS_MAX,
                 "every fragment fits the parts of one call");

enum ps_status ps_layout_elements(const uint64_t *dims, uint32_t n_dims, uint64_t *ret,
                                  struct ps_error *err)
{
    if (n_dims == 0 || n_dims > PS_DIMS_MAX) {
        return ps_fail(err, PS_ERR_INVALID, "shape has %" PRIu32 " dimensions, not 1 to %u", n_dims,
                       PS_DIMS_MAX);
    }
    for (uint32_t d = 0; d < n_dims; d++) {
        if (dims[d] == 0) {
            return ps_fail(err, PS_ERR_INVALID, "dimension %" PRIu32 " of the shape is 0", d);
        }
    }
    if (!ps_shape_elements(dims, n_dims, FLOATS_MAX, ret)) {
        return ps_fail(err, PS_ERR_INVALID, "shape has more than %" PRIu64 " elements", FLOATS_MAX);
    }
    return PS_OK;
}

uint32_t ps_layout_block_floats(uint64_t n_elements)
{
    uint64_t share = n_elements / PS_SLOTS;
    if (share <= PS_BLOCK_FLOATS_MIN) {
        return PS_BLOCK_FLOATS_MIN;
    }
    if (share >= PS_BLOCK_FLOATS_MAX) {
        return PS_BLOCK_FLOATS_MAX;
    }
    uint64_t n_steps = (share + PS_BLOCK_FLOATS_STEP - 1) / PS_BLOCK_FLOATS_STEP;
    return (uint32_t)n_steps * PS_BLOCK_FLOATS_STEP;
}

enum ps_status ps_layout_table(const uint64_t *dims, uint32_t n_dims, uint32_t first_slot,
                               struct ps_layout *ret, struct ps_error *err)
{
    PS_ASSERT(first_slot < PS_SLOTS);
    uint64_t n_elements = 0;
    enum ps_status status = ps_layout_elements(dims, n_dims, &n_elements, err);
    if (status != PS_OK) {
        return status;
    }
    uint32_t block_floats = ps_layout_block_floats(n_elements);
    uint64_t n_blocks = (n_elements + block_floats - 1) / block_floats;
    PS_ASSERT(n_blocks >= 1 && n_blocks <= PS_BLOCKS_MAX);
    *ret = (struct ps_layout){.n_elements = n_elements,
                              .block_floats = block_floats,
                              .n_blocks = (uint32_t)n_blocks,
                              .first_slot = first_slot};
    return PS_OK;
}

uint32_t ps_layout_next_slot(const struct ps_layout *layout)
{
    return (layout->first_slot + layout->n_blocks) % PS_SLOTS;
}

uint32_t ps_layout_slot(const struct ps_layout *layout, uint32_t block)
{
    PS_ASSERT(block < layout->n_blocks);
    return (layout->first_slot + block) % PS_SLOTS;
}

uint32_t ps_layout_floats(const struct ps_layout *layout, uint32_t block)
{
    PS_ASSERT(block < layout->n_blocks);
    uint64_t n_left = layout->n_elements - ps_layout_first_element(layout, block);
    return n_left < layout->block_floats ? (uint32_t)n_left : layout->block_floats;
}

uint64_t ps_layout_first_element(const struct ps_layout *layout, uint32_t block)
{
    PS_ASSERT(block < layout->n_blocks);
    return (uint64_t)block * layout->block_floats;
}

/* The lowest block number that may lie in `slot`: the others follow at distances of PS_SLOTS. */
static uint32_t lowest_block(const struct ps_layout *layout, uint32_t slot)
{
    PS_ASSERT(slot < PS_SLOTS && layout->first_slot < PS_SLOTS);
    return (slot + PS_SLOTS - layout->first_slot) % PS_SLOTS;
}

uint32_t ps_layout_blocks_in_slot(const struct ps_layout *layout, uint32_t slot)
{
    uint32_t lowest = lowest_block(layout, slot);
    return lowest < layout->n_blocks ? (layout->n_blocks - 1 - lowest) / PS_SLOTS + 1 : 0;
}

uint32_t ps_layout_block_in_slot(const struct ps_layout *layout, uint32_t slot, uint32_t nth)
{
    PS_ASSERT(nth < ps_layout_blocks_in_slot(layout, slot));
    return lowest_block(layout, slot) + nth * PS_SLOTS;
}

struct ps_layout_walk ps_layout_walk_slot(struct ps_layout_view view, uint32_t slot)
{
    PS_ASSERT(slot < PS_SLOTS);
    return (struct ps_layout_walk){.view = view, .slot = slot};
}

struct ps_layout_walk ps_layout_walk_fragment(struct ps_layout_view view, uint32_t slot,
                                              uint32_t fragment)
{
    struct ps_layout_walk walk = ps_layout_walk_slot(view, slot);
    struct ps_layout_walk ahead = walk;
    struct ps_layout_part part;
    while (ps_layout_walk_next(&ahead, &part) && part.fragment < fragment) {
        walk = ahead;
    }
    return walk;
}

bool ps_layout_walk_next(struct ps_layout_walk *walk, struct ps_layout_part *ret)
{
    while (walk->table < walk->view.n_tables) {
        const struct ps_layout *layout = &walk->view.tables[walk->table];
        if (walk->nth < ps_layout_blocks_in_slot(layout, walk->slot)) {
            uint32_t block = ps_layout_block_in_slot(layout, walk->slot, walk->nth);
            *ret = (struct ps_layout_part){.table = walk->table,
                                           .block = block,
                                           .n_floats = ps_layout_floats(layout, block),
                                           .fragment = walk->fragment};
            walk->nth++;
            walk->n_bytes += (uint64_t)ret->n_floats * sizeof(float);
            if (walk->n_bytes >= PS_CALL_PAYLOAD_BYTES) {
                walk->fragment++;
                walk->n_bytes = 0;
            }
            return true;
        }
        walk->table++;
        walk->nth = 0;
    }
    return false;
}

uint32_t ps_layout_slot_fragments(struct ps_layout_view view, uint32_t slot)
{
    struct ps_layout_walk walk = ps_layout_walk_slot(view, slot);
    struct ps_layout_part part;
    uint32_t n_fragments = 0;
    while (ps_layout_walk_next(&walk, &part)) {
        n_fragments = part.fragment + 1;
    }
    return n_fragments;
}

uint32_t ps_layout_fragment_parts(struct ps_layout_view view, uint32_t slot, uint32_t fragment,
                                  struct ps_layout_part *parts, uint32_t n_max)
{
    struct ps_layout_walk walk = ps_layout_walk_fragment(view, slot, fragment);
    struct ps_layout_part part;
    uint32_t n_parts = 0;
    while (ps_layout_walk_next(&walk, &part) && part.fragment == fragment) {
        PS_ASSERT(n_parts < n_max);
        parts[n_parts++] = part;
    }
    return n_parts;
}
