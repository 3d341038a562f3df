#ifndef PS_WORKER_MODEL_PLACES_H
#define PS_WORKER_MODEL_PLACES_H
/*
 * model/places.h — small numbers to a list without repeats, in the order in which they are met, and
 * the place of each in it.
 *
 *   keys    9 4 9 7     ->     distinct  9 4 7      index  0 1 0 2
 *
 * For keys that are places in a list themselves: a table of marks, one for each place there is, is
 * far cheaper than sorting (unique.h). The marks are never cleared: each call has a number.
 */
#include "model/unique.h"

/** Scratch of one thread. */
struct ps_places {
    struct ps_mem *mem;
    uint64_t
        *marks; /* [capacity] Of each place: the call that met it last, and its number there. */
    size_t capacity;
    uint32_t call;
};

void ps_places_init(struct ps_places *places, struct ps_mem *mem);

void ps_places_deinit(struct ps_places *places);

/** Make room for keys below `n`. @return PS_ERR_NOMEM */
PS_MUST_CHECK enum ps_status ps_places_reserve(struct ps_places *places, size_t n);

/** As ps_unique_find, but in the order of the keys; all of them are below what was reserved. */
uint32_t ps_places_find(struct ps_places *places, const struct ps_unique_keys *keys, uint64_t *to,
                        uint32_t *index);

#endif
