/* flow_rows.c — see flow_rows.h. */
#include "client/flow_rows.h"

#include <string.h>

#include "cluster/keys.h"

/* Where the keys of each slot begin, when they are put behind one another. */
static bool count_slots(const struct ps_flow_table *table, uint64_t key_seed, uint32_t *slots,
                        uint32_t *ret_at)
{
    memset(slots, 0, (PS_SLOTS + 1) * sizeof(*slots));
    for (uint32_t i = 0; i < table->n; i++) {
        if (i > 0 && table->keys[i] <= table->keys[i - 1]) {
            *ret_at = i;
            return false;
        }
        slots[ps_keys_slot(table->keys[i], key_seed) + 1]++;
    }
    for (uint32_t slot = 0; slot < PS_SLOTS; slot++) {
        slots[slot + 1] += slots[slot];
    }
    return true;
}

bool ps_flow_rows_place(struct ps_flow_rows *rows, uint64_t key_seed, uint32_t *ret_nth,
                        uint32_t *ret_at)
{
    uint64_t first = 0;
    for (uint32_t nth = 0; nth < rows->n_tables; nth++) {
        const struct ps_flow_table *table = &rows->tables[nth];
        uint32_t *slots = rows->slots + (size_t)nth * (PS_SLOTS + 1);
        if (!count_slots(table, key_seed, slots, ret_at)) {
            *ret_nth = nth;
            return false;
        }
        uint32_t next[PS_SLOTS];
        memcpy(next, slots, sizeof(next));
        for (uint32_t i = 0; i < table->n; i++) {
            uint32_t at = next[ps_keys_slot(table->keys[i], key_seed)]++;
            rows->keys[first + at] = table->keys[i];
            rows->order[first + at] = i;
        }
        rows->firsts[nth] = first;
        first += table->n;
    }
    return true;
}

bool ps_flow_cut_next(struct ps_flow_cut *cut, struct ps_flow_run *ret)
{
    const struct ps_flow_rows *rows = cut->rows;
    for (; cut->nth < rows->n_tables; cut->nth++, cut->at = 0) {
        const uint32_t *slot = rows->slots + (size_t)cut->nth * (PS_SLOTS + 1) + cut->slot;
        uint32_t n_left = slot[1] - slot[0] - cut->at;
        if (n_left == 0) {
            continue;
        }
        if (cut->n_bytes >= PS_CALL_PAYLOAD_BYTES) {
            cut->fragment++;
            cut->n_bytes = 0;
        }
        uint32_t row_bytes =
            PS_FLOW_KEY_BYTES + rows->tables[cut->nth].width * (uint32_t)sizeof(float);
        uint32_t n_room =
            (uint32_t)(PS_CALL_PAYLOAD_BYTES - cut->n_bytes + row_bytes - 1) / row_bytes;
        uint32_t n = n_left < n_room ? n_left : n_room;
        *ret = (struct ps_flow_run){.nth = cut->nth, .first = slot[0] + cut->at, .n = n};
        cut->at += n;
        cut->n_bytes += (uint64_t)n * row_bytes;
        return true;
    }
    return false;
}
