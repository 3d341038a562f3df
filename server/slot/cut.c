/* cut.c — see cut.h. */
#include "slot/cut.h"

struct ps_cut *ps_cut_create(struct ps_mem *mem)
{
    struct ps_cut *cut = ps_mem_alloc(mem, PS_MEM_OTHER, sizeof(*cut));
    if (cut != NULL) {
        cut->mem = mem;
    }
    return cut;
}

static void free_slot(struct ps_slot_cut *slot)
{
    for (uint32_t i = 0; i < slot->n_blocks; i++) {
        if (slot->blocks[i].page != NULL) { /* Whoever wrote it gave it back already. */
            ps_page_unref(slot->blocks[i].page, PS_PAGE_SNAPSHOT);
        }
    }
    for (uint32_t i = 0; i < slot->n_rows; i++) {
        ps_sparse_view_drop(slot->rows[i].view);
        ps_mem_free(slot->rows[i].counts);
    }
    for (uint32_t i = 0; i < slot->n_staged; i++) {
        ps_msg_unref(slot->staged[i].push.msg);
    }
    ps_mem_free(slot->blocks);
    ps_mem_free(slot->rows);
    ps_mem_free(slot->staged);
    ps_mem_free(slot->state);
}

void ps_cut_free(struct ps_cut *cut)
{
    if (cut == NULL) {
        return;
    }
    for (uint32_t slot = 0; slot < PS_SLOTS; slot++) {
        free_slot(&cut->slots[slot]);
    }
    ps_mem_free(cut);
}
