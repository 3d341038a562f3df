#ifndef PS_COMMON_NUM_INIT_H
#define PS_COMMON_NUM_INIT_H
/*
 * num/init.h — first values of a table.
 *
 * Element i of a table is a function of (seed, table, i) alone: servers fill their own blocks in
 * any order and any cut, and a table on one server has the same bits as on sixty-four.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ps/types.h> /* enum ps_init_kind */

struct ps_init {
    enum ps_init_kind kind;
    float scale; /* Finite and >= 0; not read for zeros. */
    uint64_t seed;
};

/** True for an initialiser that can be filled: its kind is known and its scale is usable. */
bool ps_init_valid(const struct ps_init *init);

/** Write elements first_index .. first_index + n - 1 of table `table` to `out` [n]. */
void ps_init_fill(const struct ps_init *init, uint64_t table, uint64_t first_index, float *out,
                  size_t n);

/**
 * First weights of the row of `key` in sparse table `table`, into `out` [width]: a function of
 * (seed, table, key), wherever the row is.
 */
void ps_init_row(const struct ps_init *init, uint64_t table, uint64_t key, float *out,
                 size_t width);

#endif
