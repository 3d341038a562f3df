/* unique.c — see unique.h. */
#include "model/unique.h"

#include <stdbool.h>

#include "base/assert.h"
#include "base/mem.h"

#define DIGIT_BITS    11u /* A histogram of 2,048 counters stays in the first cache. */
#define DIGITS        (1u << DIGIT_BITS)
#define KEY_BITS      64u
#define SPARE_BITS    6u /* Sorted beyond log2 n: one key in 64 shares its bits with another. */
#define MOVES_PER_KEY 4u /* Insertions beyond it: sort by all bits instead. */

void ps_unique_init(struct ps_unique *unique, struct ps_mem *mem)
{
    *unique = (struct ps_unique){.mem = mem};
}

void ps_unique_deinit(struct ps_unique *unique)
{
    ps_mem_free(unique->turns[0]);
    ps_mem_free(unique->turns[1]);
    *unique = (struct ps_unique){0};
}

enum ps_status ps_unique_reserve(struct ps_unique *unique, size_t n)
{
    if (n <= unique->capacity) {
        return PS_OK;
    }
    if (n > PS_UNIQUE_KEYS_MAX) {
        return PS_ERR_NOMEM;
    }
    struct ps_placed_key *turns[2];
    for (int i = 0; i < 2; i++) {
        turns[i] = ps_mem_array(unique->mem, PS_MEM_OTHER, n, sizeof(*turns[i]));
    }
    if (turns[0] == NULL || turns[1] == NULL) {
        ps_mem_free(turns[0]);
        ps_mem_free(turns[1]);
        return PS_ERR_NOMEM;
    }
    for (int i = 0; i < 2; i++) {
        ps_mem_free(unique->turns[i]);
        unique->turns[i] = turns[i];
    }
    unique->capacity = n;
    return PS_OK;
}

/* One stable pass of counting sort by the bits [shift, shift + DIGIT_BITS). */
static void sort_by_digit(const struct ps_placed_key *from, struct ps_placed_key *to, size_t n,
                          uint32_t shift)
{
    uint32_t begin[DIGITS] = {0};
    for (size_t i = 0; i < n; i++) {
        begin[(from[i].key >> shift) & (DIGITS - 1)]++;
    }
    uint32_t sum = 0;
    for (uint32_t d = 0; d < DIGITS; d++) {
        uint32_t count = begin[d];
        begin[d] = sum;
        sum += count;
    }
    for (size_t i = 0; i < n; i++) {
        to[begin[(from[i].key >> shift) & (DIGITS - 1)]++] = from[i];
    }
}

/* Sort by the bits from `low` on that differ anywhere. Moves to the other turn as needed. */
static struct ps_placed_key *sort_from(struct ps_unique *unique, struct ps_placed_key *at, size_t n,
                                       uint32_t low, uint64_t differing)
{
    for (uint32_t shift = low; shift < KEY_BITS; shift += DIGIT_BITS) {
        if (((differing >> shift) & (DIGITS - 1)) != 0) {
            struct ps_placed_key *to = unique->turns[at == unique->turns[0]];
            sort_by_digit(at, to, n, shift);
            at = to;
        }
    }
    return at;
}

/* Insertion sort of what is nearly sorted. False when it would take too many moves. */
static bool finish_sorting(struct ps_placed_key *at, size_t n)
{
    uint64_t n_left = (uint64_t)n * MOVES_PER_KEY;
    for (size_t i = 1; i < n; i++) {
        struct ps_placed_key moving = at[i];
        size_t hole = i;
        while (hole > 0 && at[hole - 1].key > moving.key && n_left > 0) {
            at[hole] = at[hole - 1];
            hole--;
            n_left--;
        }
        at[hole] = moving;
        if (n_left == 0) {
            return false;
        }
    }
    return true;
}

static uint32_t bits_of(uint64_t x)
{
    return x == 0 ? 0 : KEY_BITS - (uint32_t)__builtin_clzll(x);
}

static struct ps_placed_key *sort(struct ps_unique *unique, size_t n, uint64_t differing)
{
    uint32_t high = bits_of(differing);
    uint32_t wanted = bits_of(n) + SPARE_BITS;
    uint32_t n_digits = (wanted + DIGIT_BITS - 1) / DIGIT_BITS;
    struct ps_placed_key *at = unique->turns[0];
    if (n_digits * DIGIT_BITS < high) {
        at = sort_from(unique, at, n, high - n_digits * DIGIT_BITS, differing);
        if (finish_sorting(at, n)) {
            return at;
        }
    }
    return sort_from(unique, at, n, 0, differing);
}

/* Copy the keys of the list to the first turn. Returns how many; `*differing`: bits that do. */
static size_t take(struct ps_unique *unique, const struct ps_unique_keys *keys, uint64_t *differing)
{
    struct ps_placed_key *to = unique->turns[0];
    size_t n = 0;
    uint64_t any = 0;
    uint64_t all = UINT64_MAX;
    for (size_t i = 0; i < keys->n; i++) {
        if (keys->lists == NULL || keys->lists[i] == keys->list) {
            any |= keys->keys[i];
            all &= keys->keys[i];
            to[n++] = (struct ps_placed_key){.key = keys->keys[i], .at = (uint32_t)i};
        }
    }
    *differing = any & ~all;
    return n;
}

uint32_t ps_unique_find(struct ps_unique *unique, const struct ps_unique_keys *keys, uint64_t *to,
                        uint32_t *index)
{
    PS_ASSERT(keys->n <= unique->capacity);
    uint64_t differing = 0;
    size_t n = take(unique, keys, &differing);
    if (n == 0) {
        return 0;
    }
    const struct ps_placed_key *at = sort(unique, n, differing);
    uint32_t n_distinct = 0;
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || at[i].key != at[i - 1].key) {
            to[n_distinct++] = at[i].key;
        }
        index[at[i].at] = n_distinct - 1;
    }
    return n_distinct;
}
