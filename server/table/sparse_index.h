#ifndef PS_SERVER_TABLE_SPARSE_INDEX_H
#define PS_SERVER_TABLE_SPARSE_INDEX_H
/*
 * table/sparse_index.h — from a key's hash to the row that may be its own. Private to this folder.
 *
 * Open addressing with linear probing over 8-byte entries (32 bits of hash, row number + 1; 0 is
 * empty). The key itself stands in the row, which the caller reads anyway: a probe yields
 * candidates, the caller compares. Entries stand in the order of their hashes, in chunks, so that
 * growth to the double size is a walk in a straight line that can stop anywhere:
 *
 *     cur   |  passed (empty)   ^  still here        |      home before ^: look in `next`
 *     next  |  filled           ^  empty             |      else: look in `cur`
 *
 * Only ps_index_reserve allocates, and it alone makes and fills chunks, a few for every key that it
 * is asked to make room for. What a table holds never depends on the seed nor on how far a growth
 * has come. One lane owns the struct.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/mem.h"
#include "base/rng.h"
#include "table/page.h"

#define PS_INDEX_NONE UINT32_MAX /* No row. */

struct ps_index_table {
    uint64_t **chunks;   /* [1 << (bits - chunk_bits)] of 1 << chunk_bits entries. */
    uint32_t bits;       /* Of the number of entries. */
    uint32_t chunk_bits; /* Of those per chunk. */
};

struct ps_index {
    struct ps_mem *mem;
    enum ps_page_budget budget; /* Of the reserve under way. */
    uint64_t seed[2];
    struct ps_index_table cur;
    struct ps_index_table next; /* Twice as large; `chunks` NULL unless it is being made. */
    uint32_t n_ready;           /* Chunks that `next` has. */
    bool moving;                /* All chunks are there: entries are on their way. */
    uint32_t start;             /* Where the walk began: the place before it was empty. */
    uint32_t n_passed;          /* Places walked over since. */
    uint64_t n;                 /* Entries in both tables. */
    uint64_t n_promised;        /* Further entries that are sure to find a place. */
};

/** An empty index. `seed` is known to nobody outside: else keys could be chosen that collide. */
PS_MUST_CHECK bool ps_index_init(struct ps_index *index, uint64_t seed, struct ps_mem *mem);

void ps_index_deinit(struct ps_index *index);

/**
 * Promise a place to `n` further entries. Work: a constant and some entries for each of the n; more
 * only when n is large compared with what is there.
 *
 * @return false without memory; nothing is promised then
 */
PS_MUST_CHECK bool ps_index_reserve(struct ps_index *index, uint64_t n, enum ps_page_budget budget);

/** Take `n` promises back, kept ones included. */
void ps_index_release(struct ps_index *index, uint64_t n);

/** Add an entry that was promised. The same pair must not be there already. */
void ps_index_insert(struct ps_index *index, uint32_t hash, uint32_t row);

/** Remove an entry that is there. */
void ps_index_remove(struct ps_index *index, uint32_t hash, uint32_t row);

/** Bytes of the heap in use. */
uint64_t ps_index_bytes(const struct ps_index *index);

/* As ps_mix64, in line. */
static inline uint64_t ps_index_mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static inline uint32_t ps_index_hash(const struct ps_index *index, uint64_t key)
{
    return (uint32_t)(ps_index_mix(ps_index_mix(key ^ index->seed[0]) ^ index->seed[1]) >> 32);
}

/* A search under way. */
struct ps_index_probe {
    const struct ps_index_table *table;
    uint32_t at; /* Next place to look at. */
    uint32_t hash;
};

static inline uint64_t *ps_index_at(const struct ps_index_table *table, uint32_t at)
{
    uint32_t within = at & ((UINT32_C(1) << table->chunk_bits) - 1);
    return &table->chunks[at >> table->chunk_bits][within];
}

static inline uint32_t ps_index_home(const struct ps_index_table *table, uint32_t hash)
{
    return hash >> (32 - table->bits);
}

/** Start a search for the rows of a hash, and fetch the memory that it will read first. */
static inline struct ps_index_probe ps_index_begin(const struct ps_index *index, uint32_t hash)
{
    const struct ps_index_table *table = &index->cur;
    uint32_t home = ps_index_home(table, hash);
    if (index->moving) {
        uint32_t mask = (UINT32_C(1) << table->bits) - 1;
        if (((home - index->start) & mask) < index->n_passed) {
            table = &index->next;
            home = ps_index_home(table, hash);
        }
    }
    __builtin_prefetch(ps_index_at(table, home));
    return (struct ps_index_probe){.table = table, .at = home, .hash = hash};
}

/** The next row with this hash, or PS_INDEX_NONE. Valid until the index changes. */
static inline uint32_t ps_index_candidate(struct ps_index_probe *probe)
{
    uint32_t mask = (UINT32_C(1) << probe->table->bits) - 1;
    for (;;) {
        uint64_t entry = *ps_index_at(probe->table, probe->at);
        if (entry == 0) {
            return PS_INDEX_NONE;
        }
        probe->at = (probe->at + 1) & mask;
        if ((uint32_t)(entry >> 32) == probe->hash) {
            return (uint32_t)entry - 1;
        }
    }
}

#endif
