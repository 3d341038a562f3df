#ifndef PS_TESTS_UNIT_WIRE_CUT_H
#define PS_TESTS_UNIT_WIRE_CUT_H
/*
 * wire/cut.h — bytes as a transport might deliver them: in slices by chance, empty ones included.
 */
#include "base/rng.h"
#include "base/slice.h"

#define CUT_SLICES_MAX 64u

struct cut {
    struct ps_slice slices[CUT_SLICES_MAX];
    size_t n_slices;
};

/** A cursor over `bytes`, cut by chance. `cut` is the memory of the slices. */
struct ps_cursor cut_by_chance(struct cut *cut, const uint8_t *bytes, size_t n_bytes,
                               struct ps_rng *rng);

#endif
