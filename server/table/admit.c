/* admit.c — see admit.h. */
#include "table/admit.h"

#include "base/assert.h"
#include "base/bytes.h"

#define LINE_BYTES 64u
#define N_COUNTERS 4u /* Per key, each in a quarter of its own of the line. */

bool ps_admit_init(struct ps_admit *admit, uint32_t n_bytes, struct ps_mem *mem)
{
    PS_ASSERT(n_bytes >= LINE_BYTES && (n_bytes & (n_bytes - 1)) == 0);
    *admit =
        (struct ps_admit){.n_bytes = n_bytes, .counts = ps_mem_alloc(mem, PS_MEM_PAGES, n_bytes)};
    return admit->counts != NULL;
}

void ps_admit_deinit(struct ps_admit *admit)
{
    ps_mem_free(admit->counts);
    *admit = (struct ps_admit){0};
}

static void age(struct ps_admit *admit)
{
    uint8_t *word = admit->counts + (size_t)admit->aged * sizeof(uint64_t);
    ps_store_u64(word, ps_load_u64(word) >> 1 & UINT64_C(0x7f7f7f7f7f7f7f7f));
    admit->aged = (admit->aged + 1) & (admit->n_bytes / (uint32_t)sizeof(uint64_t) - 1);
}

uint32_t ps_admit_count(struct ps_admit *admit, uint64_t hash)
{
    PS_ASSERT(admit->n_bytes > 0);
    uint32_t n_lines = admit->n_bytes / LINE_BYTES;
    uint8_t *line = admit->counts + (size_t)((hash >> 32) & (n_lines - 1)) * LINE_BYTES;
    uint8_t *counter[N_COUNTERS];
    uint8_t least = UINT8_MAX;
    age(admit);
    for (uint32_t i = 0; i < N_COUNTERS; i++) {
        counter[i] = line + (size_t)i * (LINE_BYTES / N_COUNTERS) + ((hash >> (4 * i)) & 15u);
        least = *counter[i] < least ? *counter[i] : least;
    }
    if (least == UINT8_MAX) {
        return least;
    }
    for (uint32_t i = 0; i < N_COUNTERS; i++) {
        *counter[i] = (uint8_t)(*counter[i] + (*counter[i] == least ? 1 : 0));
    }
    return least + 1u;
}
