/* sparse_sort.c — rows in the order of their keys, for whoever hands them out. */
#include "table/sparse_impl.h"

#define RADIX 256u

/* One pass of a radix sort, by byte `nth` of the keys. False when all have the same. */
static bool sort_pass(const struct ps_sparse_item *from, struct ps_sparse_item *to, uint64_t n,
                      uint32_t nth)
{
    uint64_t places[RADIX] = {0};
    uint32_t shift = 8 * nth;
    for (uint64_t i = 0; i < n; i++) {
        places[from[i].key >> shift & (RADIX - 1)]++;
    }
    if (n == 0 || places[from[0].key >> shift & (RADIX - 1)] == n) {
        return false;
    }
    uint64_t n_before = 0;
    for (uint32_t digit = 0; digit < RADIX; digit++) {
        uint64_t n_here = places[digit];
        places[digit] = n_before;
        n_before += n_here;
    }
    for (uint64_t i = 0; i < n; i++) {
        to[places[from[i].key >> shift & (RADIX - 1)]++] = from[i];
    }
    return true;
}

struct ps_sparse_item *ps_sparse_sort(struct ps_sparse_item *items, struct ps_sparse_item *spare,
                                      uint64_t n)
{
    for (uint32_t nth = 0; nth < sizeof(uint64_t); nth++) {
        if (sort_pass(items, spare, n, nth)) {
            struct ps_sparse_item *sorted = spare;
            spare = items;
            items = sorted;
        }
    }
    return items;
}
