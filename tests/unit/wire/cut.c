/* cut.c — see cut.h. */
#include "cut.h"

struct ps_cursor cut_by_chance(struct cut *cut, const uint8_t *bytes, size_t n_bytes,
                               struct ps_rng *rng)
{
    static const uint64_t lengths[] = {1, 2, 8, 64, 4096};
    uint64_t longest = lengths[ps_rng_below(rng, 5)];
    cut->n_slices = 0;
    for (size_t at = 0; at < n_bytes && cut->n_slices < CUT_SLICES_MAX - 1;) {
        size_t n = (size_t)ps_rng_below(rng, longest + 1);
        n = n < n_bytes - at ? n : n_bytes - at;
        cut->slices[cut->n_slices++] = (struct ps_slice){.data = bytes + at, .n_bytes = n};
        at += n;
    }
    size_t n_cut = ps_cursor_over(cut->slices, cut->n_slices).n_left;
    cut->slices[cut->n_slices++] =
        (struct ps_slice){.data = bytes + n_cut, .n_bytes = n_bytes - n_cut};
    return ps_cursor_over(cut->slices, cut->n_slices);
}
