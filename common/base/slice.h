#ifndef PS_COMMON_BASE_SLICE_H
#define PS_COMMON_BASE_SLICE_H
/*
 * base/slice.h — a message as it arrives: a list of byte runs, and a cursor over them.
 *
 * A cursor that has run out stays failed: read a whole header, then test once. Nothing here
 * allocates; slices borrow their bytes from the message they belong to.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ps_slice {
    const uint8_t *data;
    size_t n_bytes;
};

/** A place in a list of slices. Plain data: copying it remembers a place. */
struct ps_cursor {
    const struct ps_slice *slices;
    size_t n_slices; /* Slices from `slices` on, the present one included. */
    size_t offset;   /* Within the present slice, in bytes. */
    size_t n_left;   /* Bytes that may still be read, over all slices. */
    bool failed;     /* Somebody asked for more than there was. */
};

struct ps_cursor ps_cursor_over(const struct ps_slice *slices, size_t n_slices);

/** A cursor over the next `n_bytes`, starting at `c`, which moves behind them. */
struct ps_cursor ps_cursor_split(struct ps_cursor *c, size_t n_bytes);

/** The next contiguous run of at most `n_max` bytes. 0 at the end; `*ret` is then unchanged. */
size_t ps_cursor_run(struct ps_cursor *c, size_t n_max, const uint8_t **ret);

/** Copy the next `n_bytes` to `to`; zeros once failed. */
void ps_cursor_copy(struct ps_cursor *c, void *to, size_t n_bytes);

void ps_cursor_skip(struct ps_cursor *c, size_t n_bytes);

/** One protobuf base-128 varint (at most 10 bytes); 0 once failed. */
uint64_t ps_cursor_varint(struct ps_cursor *c);

#endif
