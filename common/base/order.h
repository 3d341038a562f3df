#ifndef PS_COMMON_BASE_ORDER_H
#define PS_COMMON_BASE_ORDER_H
/*
 * base/order.h — in which order an epoch visits the rows: a function of (seed, epoch) alone.
 *
 * Every worker computes the same order of all rows and takes the positions that its lease names,
 * so shares never overlap, whoever holds them: the order is made before the split, never after.
 * The permutation is a Feistel network over the smallest power of two that holds n_rows, walked
 * until it lands below n_rows (fewer than 2 steps on average); it needs no table, and any position
 * can be asked for at once. Pure.
 * Source: Black, Rogaway, "Ciphers with Arbitrary Finite Domains", CT-RSA 2002 (cycle walking).
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PS_ORDER_ROUNDS 12u /* Small domains mix slowly; 60,000 rows still take a few ms. */

struct ps_order {
    uint64_t keys[PS_ORDER_ROUNDS];
    uint32_t n_rows;
    uint32_t low_bits; /* A position is split into high and low bits. */
    uint32_t high_bits;
    bool shuffle; /* False: position p is row p. */
};

/** The order of one epoch. `n_rows` >= 1. Without `shuffle`, seed and epoch do not matter. */
void ps_order_init(struct ps_order *order, uint32_t n_rows, uint64_t seed, uint64_t epoch,
                   bool shuffle);

/** The row at `position`, which is below n_rows. A bijection of [0, n_rows). */
uint32_t ps_order_at(const struct ps_order *order, uint32_t position);

/** The rows at positions [first, first + n), which lie within [0, n_rows). `row_ids` is [n]. */
void ps_order_rows(const struct ps_order *order, uint32_t first, uint32_t n, uint32_t *row_ids);

#endif
