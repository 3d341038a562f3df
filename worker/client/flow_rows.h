#ifndef PS_WORKER_CLIENT_FLOW_ROWS_H
#define PS_WORKER_CLIENT_FLOW_ROWS_H
/*
 * client/flow_rows.h — rows of sparse tables in one push or pull: keys by slot, slots into runs.
 *
 *     caller:  keys ascending per table        k0 k1 k2 k3 k4 k5 ...
 *     place:   by table, slot, key             | slot 0: k1 k4 | slot 1: k0 | slot 2: k2 k3 k5 ...
 *     cut:     runs of one slot and table      [k1 k4]           [k0]         [k2 k3] [k5]
 *
 * A run is what one call carries of a table in a slot. The cut depends on the keys and on how full
 * the slot's last fragment of blocks is, and on nothing else: a push that is sent again, by whoever
 * holds its lease then, is cut alike. The rule, for a slot:
 *
 *     rows begin in the slot's last fragment of blocks (fragment 0 if it has no blocks), tables in
 *     ascending order; a fragment is full at PS_CALL_PAYLOAD_BYTES, where a row counts its values
 *     and PS_FLOW_KEY_BYTES and a block that is sent its values.
 *
 * Pure: the memory is the caller's.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/assert.h"
#include "base/limits.h"

#define PS_FLOW_KEY_BYTES 8u /* What a key counts, however few bytes it takes. */

PS_STATIC_ASSERT(PS_TABLES_MAX + PS_CALL_PAYLOAD_BYTES / (PS_BLOCK_FLOATS_MIN * 4u) + 1 <=
                     PS_CALL_PARTS_MAX,
                 "a fragment has room for a run or a last block of each table");

/** What the caller names of one table. */
struct ps_flow_table {
    uint32_t table;
    uint32_t width;
    uint32_t n;
    const uint64_t *keys; /* [n] Ascending, none twice. */
};

struct ps_flow_run {
    uint32_t nth;   /* Of the tables. */
    uint32_t first; /* In the table's order. */
    uint32_t n;
    uint32_t n_key_bytes; /* On the wire. Set by whoever writes them, as `at`. */
    uint64_t at;          /* Where its bytes begin. */
};

struct ps_flow_rows {
    const struct ps_flow_table *tables; /* [n_tables] By table number. */
    uint32_t n_tables;
    uint64_t *keys;           /* [of all tables] In order. */
    uint32_t *order;          /* [of all tables] Where each stood in its table's `keys`. */
    uint64_t *firsts;         /* [n_tables] Where the order of each table begins. */
    uint32_t *slots;          /* [n_tables][PS_SLOTS + 1] Where each slot begins in it. */
    struct ps_flow_run *runs; /* [n_runs] By slot, fragment, table. */
    uint32_t n_runs;
};

/** Put all keys into order. False: those of table `*ret_nth` do not ascend at index `*ret_at`. */
bool ps_flow_rows_place(struct ps_flow_rows *rows, uint64_t key_seed, uint32_t *ret_nth,
                        uint32_t *ret_at);

/** The keys of a run, and where each stood in the caller's arrays. */
static inline const uint64_t *ps_flow_run_keys(const struct ps_flow_rows *rows,
                                               const struct ps_flow_run *run)
{
    return rows->keys + rows->firsts[run->nth] + run->first;
}

static inline const uint32_t *ps_flow_run_order(const struct ps_flow_rows *rows,
                                                const struct ps_flow_run *run)
{
    return rows->order + rows->firsts[run->nth] + run->first;
}

/** Bytes of the run's values. */
static inline uint32_t ps_flow_run_bytes(const struct ps_flow_rows *rows,
                                         const struct ps_flow_run *run)
{
    return run->n * rows->tables[run->nth].width * (uint32_t)sizeof(float);
}

/** A walk over the runs of a slot. Set what the fragment that it begins in holds already. */
struct ps_flow_cut {
    const struct ps_flow_rows *rows;
    uint32_t slot;
    uint32_t fragment; /* Of the run that was returned last. */
    uint64_t n_bytes;  /* In that fragment. */
    uint32_t nth;
    uint32_t at; /* In the slot's share of that table. */
};

/** The next run, `n_key_bytes` and `at` not set; false at the end. */
bool ps_flow_cut_next(struct ps_flow_cut *cut, struct ps_flow_run *ret);

#endif
