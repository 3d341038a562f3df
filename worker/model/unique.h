#ifndef PS_WORKER_MODEL_UNIQUE_H
#define PS_WORKER_MODEL_UNIQUE_H
/*
 * model/unique.h — many u64 keys to a sorted list without repeats, and the place of each in it.
 *
 *   keys    9 4 9 7     ->     unique  4 7 9      index  2 0 2 1
 *
 * Radix sort, so that no choice of keys makes it slow: by as many of the highest differing bits as
 * set most keys apart, then a pass of insertions; keys that share those bits too often are sorted
 * by all bits that differ. The result is a function of the keys alone.
 */
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/error.h"

struct ps_mem;

#define PS_UNIQUE_KEYS_MAX (1u << 31) /* Per call: places have 32 bits. */

struct ps_placed_key {
    uint64_t key;
    uint32_t at; /* Where it stood. */
};

/** Scratch of one thread. */
struct ps_unique {
    struct ps_mem *mem;
    struct ps_placed_key *turns[2]; /* [capacity] each, taking turns; NULL before use. */
    size_t capacity;
};

void ps_unique_init(struct ps_unique *unique, struct ps_mem *mem);

void ps_unique_deinit(struct ps_unique *unique);

/** Make room for `n` keys. @return PS_ERR_NOMEM, also above PS_UNIQUE_KEYS_MAX */
PS_MUST_CHECK enum ps_status ps_unique_reserve(struct ps_unique *unique, size_t n);

/** What to sort: those of `keys` [n] whose list is `list`; `lists` NULL: all. */
struct ps_unique_keys {
    const uint64_t *keys;
    const uint8_t *lists;
    size_t n;
    uint8_t list;
};

/**
 * Write the distinct keys in ascending order to `to`, and to `index` [n] the place of each; those
 * of other lists are left alone. `n` was reserved.
 * @return how many are distinct
 */
uint32_t ps_unique_find(struct ps_unique *unique, const struct ps_unique_keys *keys, uint64_t *to,
                        uint32_t *index);

#endif
