/* order.c — see order.h. */
#include "base/order.h"

#include "base/assert.h"
#include "base/rng.h"

#define ORDER_STREAM 0x6f72646572ull /* Keeps these keys apart from other uses of the seed. */

void ps_order_init(struct ps_order *order, uint32_t n_rows, uint64_t seed, uint64_t epoch,
                   bool shuffle)
{
    PS_ASSERT(n_rows >= 1);
    uint32_t n_bits = 1;
    while ((1ull << n_bits) < n_rows) {
        n_bits++;
    }
    *order = (struct ps_order){
        .n_rows = n_rows,
        .low_bits = n_bits - n_bits / 2,
        .high_bits = n_bits / 2,
        .shuffle = shuffle,
    };
    for (uint32_t i = 0; i < PS_ORDER_ROUNDS; i++) {
        order->keys[i] = ps_rng_at(seed, ORDER_STREAM ^ ps_mix64(epoch), i);
    }
}

/*
 * Each round changes one part by a function of the other, so it can be undone, whatever the
 * function; a chain of such rounds is a bijection of the whole power of two.
 */
static uint64_t scramble(const struct ps_order *order, uint64_t position)
{
    uint64_t low_mask = (1ull << order->low_bits) - 1;
    uint64_t high_mask = (1ull << order->high_bits) - 1;
    uint64_t low = position & low_mask;
    uint64_t high = position >> order->low_bits;
    for (uint32_t i = 0; i < PS_ORDER_ROUNDS; i += 2) {
        low ^= ps_mix64(high ^ order->keys[i]) & low_mask;
        high ^= ps_mix64(low ^ order->keys[i + 1]) & high_mask;
    }
    return (high << order->low_bits) | low;
}

uint32_t ps_order_at(const struct ps_order *order, uint32_t position)
{
    PS_ASSERT(position < order->n_rows);
    if (!order->shuffle) {
        return position;
    }
    uint64_t at = position;
    do { /* Ends: the cycle that leaves [0, n_rows) at `position` comes back to it. */
        at = scramble(order, at);
    } while (at >= order->n_rows);
    return (uint32_t)at;
}

void ps_order_rows(const struct ps_order *order, uint32_t first, uint32_t n, uint32_t *row_ids)
{
    PS_ASSERT(first <= order->n_rows);
    PS_ASSERT(n <= order->n_rows - first);
    for (uint32_t i = 0; i < n; i++) {
        row_ids[i] = ps_order_at(order, first + i);
    }
}
