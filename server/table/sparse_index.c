/* sparse_index.c — see sparse_index.h. */
#include "table/sparse_index.h"

#include "base/assert.h"

#define BITS_MIN       6u  /* 512 bytes: a slot of a small table costs no more. */
#define BITS_MAX       31u /* Below 32, so that hashes have a bit to spare. */
#define CHUNK_BITS_MAX 13u /* 64 KiB: what one call may have to clear. */
#define WORK_BASE      64u /* Entries made or moved by a call, whatever it promises. */
#define WORK_PER_ENTRY 32u /* And for each promise; see the note at `grow`. */

static uint64_t places(const struct ps_index_table *table)
{
    PS_ASSERT(table->bits <= BITS_MAX);
    return UINT64_C(1) << table->bits;
}

static uint32_t n_chunks(const struct ps_index_table *table)
{
    return UINT32_C(1) << (table->bits - table->chunk_bits);
}

static void *take(struct ps_index *index, size_t n_bytes)
{
    return index->budget == PS_PAGE_BEYOND ? ps_mem_alloc_beyond(index->mem, PS_MEM_PAGES, n_bytes)
                                           : ps_mem_alloc(index->mem, PS_MEM_PAGES, n_bytes);
}

/* A table without chunks. */
static bool begin_table(struct ps_index *index, struct ps_index_table *table, uint32_t bits)
{
    table->bits = bits;
    table->chunk_bits = bits < CHUNK_BITS_MAX ? bits : CHUNK_BITS_MAX;
    table->chunks = take(index, n_chunks(table) * sizeof(table->chunks[0]));
    return table->chunks != NULL;
}

static bool add_chunk(struct ps_index *index, struct ps_index_table *table, uint32_t nth)
{
    table->chunks[nth] = take(index, sizeof(uint64_t) << table->chunk_bits);
    return table->chunks[nth] != NULL;
}

static void free_table(struct ps_index_table *table)
{
    if (table->chunks != NULL) {
        for (uint32_t i = 0; i < n_chunks(table); i++) {
            ps_mem_free(table->chunks[i]);
        }
        ps_mem_free(table->chunks);
    }
    *table = (struct ps_index_table){0};
}

bool ps_index_init(struct ps_index *index, uint64_t seed, struct ps_mem *mem)
{
    *index = (struct ps_index){.mem = mem, .seed = {ps_mix64(seed), ps_mix64(~seed)}};
    if (!begin_table(index, &index->cur, BITS_MIN) || !add_chunk(index, &index->cur, 0)) {
        ps_index_deinit(index);
        return false;
    }
    return true;
}

void ps_index_deinit(struct ps_index *index)
{
    free_table(&index->cur);
    free_table(&index->next);
}

/* Put an entry at the first free place from its home on. */
static void place(struct ps_index_table *table, uint64_t entry)
{
    uint32_t mask = (uint32_t)(places(table) - 1);
    uint32_t at = ps_index_home(table, (uint32_t)(entry >> 32));
    while (*ps_index_at(table, at) != 0) {
        at = (at + 1) & mask;
    }
    *ps_index_at(table, at) = entry;
}

/* Make chunks of `next` until `*work` is used up. False without memory. */
static bool prepare(struct ps_index *index, uint64_t *work)
{
    if (index->next.chunks == NULL) {
        if (!begin_table(index, &index->next, index->cur.bits + 1)) {
            return false;
        }
        index->n_ready = 0;
    }
    while (index->n_ready < n_chunks(&index->next) && *work > 0) {
        if (!add_chunk(index, &index->next, index->n_ready)) {
            return false;
        }
        index->n_ready++;
        uint64_t n_entries = UINT64_C(1) << index->next.chunk_bits;
        *work -= *work < n_entries ? *work : n_entries;
    }
    if (index->n_ready < n_chunks(&index->next)) {
        return true;
    }
    uint32_t start = 0;
    while (*ps_index_at(&index->cur, start) != 0) {
        start++; /* There is a gap: a table is never full. */
    }
    index->start = (start + 1) & (uint32_t)(places(&index->cur) - 1);
    index->n_passed = 0;
    index->moving = true;
    return true;
}

/*
 * Pass a place: its entry moves to `next`. But one that is at home before the walk's beginning, and
 * was put beyond it since, is still looked for in `cur`: it comes to stand at the first place there
 * that is free now. Returns false when there is no entry.
 */
static bool pass(struct ps_index *index, uint32_t at)
{
    struct ps_index_table *cur = &index->cur;
    uint32_t mask = (uint32_t)(places(cur) - 1);
    uint64_t entry = *ps_index_at(cur, at);
    if (entry == 0) {
        return false;
    }
    uint32_t home = ps_index_home(cur, (uint32_t)(entry >> 32));
    bool ahead = ((home - index->start) & mask) > ((at - index->start) & mask);
    *ps_index_at(cur, at) = 0;
    place(ahead ? cur : &index->next, entry);
    return true;
}

/*
 * Walk on, and stop behind an empty place only: then no entry behind the walk has its home before
 * it. Entries at home at the end of the walk that found no place there stand where it began.
 */
static void move(struct ps_index *index, uint64_t *work)
{
    uint64_t n_places = places(&index->cur);
    uint32_t mask = (uint32_t)(n_places - 1);
    bool gap = true;
    while (index->n_passed < n_places && (*work > 0 || !gap)) {
        gap = !pass(index, (index->start + index->n_passed) & mask);
        index->n_passed++;
        *work -= *work > 0 ? 1 : 0;
    }
    if (index->n_passed < n_places) {
        return;
    }
    for (uint32_t at = index->start; *ps_index_at(&index->cur, at) != 0; at = (at + 1) & mask) {
        place(&index->next, *ps_index_at(&index->cur, at));
    }
    free_table(&index->cur);
    index->cur = index->next;
    index->next = (struct ps_index_table){0};
    index->moving = false;
}

/* Entries, promises included, that a table takes without long searches. */
static uint64_t limit(const struct ps_index_table *table)
{
    return places(table) / 8 * 7;
}

/*
 * Growth begins at 6/8 and has to be over at 7/8. In between are C/8 promises, which pay for making
 * 2 C entries and passing C places at WORK_PER_ENTRY each: 3/32 C promises.
 */
static bool grow(struct ps_index *index, uint64_t n_wanted, uint64_t work)
{
    bool fits = n_wanted <= limit(&index->cur);
    if (n_wanted <= places(&index->cur) / 8 * 6 && !index->moving) {
        return true;
    }
    if (index->cur.bits == BITS_MAX) {
        return fits;
    }
    if (!fits) {
        work = UINT64_MAX;
    }
    if (!index->moving && !prepare(index, &work)) {
        return fits; /* Not yet needed: the next call tries again. */
    }
    if (index->moving) {
        move(index, &work);
    }
    return true;
}

bool ps_index_reserve(struct ps_index *index, uint64_t n, enum ps_page_budget budget)
{
    index->budget = budget;
    uint64_t n_wanted = index->n + index->n_promised + n;
    uint64_t work = WORK_BASE + WORK_PER_ENTRY * n;
    do {
        if (!grow(index, n_wanted, work)) {
            return false;
        }
    } while (n_wanted > limit(&index->cur));
    index->n_promised += n;
    return true;
}

void ps_index_release(struct ps_index *index, uint64_t n)
{
    PS_ASSERT(n <= index->n_promised);
    index->n_promised -= n;
}

void ps_index_insert(struct ps_index *index, uint32_t hash, uint32_t row)
{
    PS_ASSERT(index->n < limit(&index->cur));
    struct ps_index_probe probe = ps_index_begin(index, hash);
    place(probe.table == &index->cur ? &index->cur : &index->next,
          (uint64_t)hash << 32 | (row + 1));
    index->n++;
}

/* Close the gap at `hole`: pull entries back that were pushed beyond it. */
static void close_gap(const struct ps_index_table *table, uint32_t hole)
{
    uint32_t mask = (uint32_t)(places(table) - 1);
    for (uint32_t at = (hole + 1) & mask;; at = (at + 1) & mask) {
        uint64_t entry = *ps_index_at(table, at);
        if (entry == 0) {
            break;
        }
        uint32_t home = ps_index_home(table, (uint32_t)(entry >> 32));
        if (((at - home) & mask) >= ((at - hole) & mask)) {
            *ps_index_at(table, hole) = entry;
            hole = at;
        }
    }
    *ps_index_at(table, hole) = 0;
}

void ps_index_remove(struct ps_index *index, uint32_t hash, uint32_t row)
{
    struct ps_index_probe probe = ps_index_begin(index, hash);
    uint32_t mask = (uint32_t)(places(probe.table) - 1);
    uint64_t wanted = (uint64_t)hash << 32 | (row + 1);
    uint32_t at = probe.at;
    while (*ps_index_at(probe.table, at) != wanted) {
        PS_ASSERT(*ps_index_at(probe.table, at) != 0);
        at = (at + 1) & mask;
    }
    close_gap(probe.table, at);
    index->n--;
}

static uint64_t table_bytes(const struct ps_index_table *table, uint32_t n_made)
{
    return table->chunks == NULL ? 0
                                 : n_chunks(table) * sizeof(table->chunks[0]) +
                                       ((uint64_t)n_made << table->chunk_bits) * sizeof(uint64_t);
}

uint64_t ps_index_bytes(const struct ps_index *index)
{
    return table_bytes(&index->cur, n_chunks(&index->cur)) +
           table_bytes(&index->next, index->moving ? n_chunks(&index->next) : index->n_ready);
}
