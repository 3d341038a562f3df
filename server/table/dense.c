/* dense.c — see dense.h. */
#include "table/dense.h"

#include <inttypes.h>
#include <string.h>

#include "base/assert.h"

/* A page as large as a block, but not larger than the whole table. */
static uint32_t page_floats(const struct ps_dense_spec *spec)
{
    return spec->n_elements < spec->block_floats ? (uint32_t)spec->n_elements : spec->block_floats;
}

static enum ps_status check_spec(const struct ps_dense_spec *spec, struct ps_error *err)
{
    if (!ps_dtype_known((uint32_t)spec->dtype)) {
        return ps_fail(err, PS_ERR_INVALID, "dtype %d is not known", (int)spec->dtype);
    }
    if (!ps_init_valid(&spec->init)) {
        return ps_fail(err, PS_ERR_INVALID, "initialiser %d with scale %g cannot be used",
                       (int)spec->init.kind, (double)spec->init.scale);
    }
    if (spec->n_elements == 0 || spec->block_floats == 0) {
        return ps_fail(err, PS_ERR_INVALID, "%" PRIu64 " elements in blocks of %" PRIu32,
                       spec->n_elements, spec->block_floats);
    }
    if ((spec->n_elements - 1) / spec->block_floats >= PS_BLOCKS_MAX) {
        return ps_fail(err, PS_ERR_INVALID, "%" PRIu64 " elements are more than %u blocks",
                       spec->n_elements, PS_BLOCKS_MAX);
    }
    return PS_OK;
}

enum ps_status ps_dense_create(const struct ps_dense_spec *spec, struct ps_mem *mem,
                               struct ps_dense **ret, struct ps_error *err)
{
    enum ps_status status = check_spec(spec, err);
    if (status != PS_OK) {
        return ps_wrap(err, status, "table '%s'", spec->name);
    }
    struct ps_dense *dense = ps_mem_alloc(mem, PS_MEM_PAGES, sizeof(*dense));
    if (dense == NULL) {
        goto no_memory;
    }
    dense->spec = *spec;
    dense->mem = mem;
    dense->n_blocks = (uint32_t)((spec->n_elements - 1) / spec->block_floats) + 1;
    dense->pages = ps_mem_array(mem, PS_MEM_PAGES, dense->n_blocks, sizeof(struct ps_page *));
    dense->pool = ps_page_pool_create(mem, page_floats(spec), spec->state_per_elem);
    if (dense->pages == NULL || dense->pool == NULL) {
        goto no_memory;
    }
    *ret = dense;
    return PS_OK;

no_memory:
    ps_dense_destroy(dense);
    return ps_fail(err, PS_ERR_NOMEM, "table '%s': no memory for its index", spec->name);
}

/* Let twins go until `n` are left. */
static void drop_reserved(struct ps_dense *dense, uint32_t n)
{
    while (dense->n_reserved > n) {
        struct ps_page *page = dense->reserved;
        dense->reserved = page->next;
        dense->n_reserved--;
        ps_page_disown(page);
    }
}

void ps_dense_destroy(struct ps_dense *dense)
{
    if (dense == NULL) {
        return;
    }
    for (uint32_t block = 0; dense->pages != NULL && block < dense->n_blocks; block++) {
        if (dense->pages[block] != NULL) {
            ps_page_disown(dense->pages[block]);
        }
    }
    drop_reserved(dense, 0);
    ps_page_pool_release(dense->pool);
    ps_mem_free(dense->pages);
    ps_mem_free(dense);
}

uint32_t ps_dense_floats(const struct ps_dense *dense, uint32_t block)
{
    PS_ASSERT(block < dense->n_blocks);
    uint64_t n_left = dense->spec.n_elements - (uint64_t)block * dense->spec.block_floats;
    return n_left < dense->spec.block_floats ? (uint32_t)n_left : dense->spec.block_floats;
}

enum ps_status ps_dense_add_block(struct ps_dense *dense, uint32_t block, struct ps_error *err)
{
    PS_ASSERT(block < dense->n_blocks && dense->pages[block] == NULL);
    bool heap = false;
    struct ps_page *page =
        ps_page_make(dense->pool, ps_dense_floats(dense, block), PS_PAGE_WITHIN, &heap);
    if (page == NULL || !ps_page_add_state(page, PS_PAGE_WITHIN)) {
        if (page != NULL) {
            ps_page_disown(page);
        }
        return ps_fail(err, PS_ERR_NOMEM, "table '%s': no memory for block %" PRIu32 " of %" PRIu32,
                       dense->spec.name, block, dense->n_blocks);
    }
    ps_init_fill(&dense->spec.init, dense->spec.id, (uint64_t)block * dense->spec.block_floats,
                 page->weights, page->n);
    dense->pages[block] = page;
    dense->n_held++;
    return PS_OK;
}

void ps_dense_drop_block(struct ps_dense *dense, uint32_t block)
{
    PS_ASSERT(block < dense->n_blocks);
    if (dense->pages[block] != NULL) {
        ps_page_disown(dense->pages[block]);
        dense->pages[block] = NULL;
        dense->n_held--;
    }
}

const struct ps_page *ps_dense_page(const struct ps_dense *dense, uint32_t block)
{
    PS_ASSERT(block < dense->n_blocks);
    return dense->pages[block];
}

struct ps_page *ps_dense_borrow(struct ps_dense *dense, uint32_t block, enum ps_page_reason reason)
{
    PS_ASSERT(block < dense->n_blocks);
    struct ps_page *page = dense->pages[block];
    if (page != NULL) {
        ps_page_ref(page, reason);
    }
    return page;
}

/* Must the state stay with the old page, because somebody reads it there? */
static bool state_read(const struct ps_page *page)
{
    return ps_page_refs(page, PS_PAGE_SNAPSHOT) > 0 || ps_page_refs(page, PS_PAGE_REPLICA) > 0;
}

/* A page that can follow `in`, with state of its own if it needs that; NULL without memory. */
static struct ps_page *make_twin(struct ps_dense *dense, const struct ps_page *in,
                                 enum ps_page_budget budget)
{
    bool heap = false;
    struct ps_page *twin = ps_page_make(dense->pool, in->n, budget, &heap);
    if (twin == NULL) {
        return NULL;
    }
    if (state_read(in) && !ps_page_add_state(twin, budget)) {
        ps_page_disown(twin);
        return NULL;
    }
    dense->stats.n_heap += heap ? 1u : 0u;
    return twin;
}

/*
 * Take a reserved twin that fits; NULL when there is none. One whose state (or lack of it) is right
 * is preferred, so that the others stay for those who need them.
 */
static struct ps_page *take_reserved(struct ps_dense *dense, const struct ps_page *in)
{
    bool with_state = state_read(in) && dense->spec.state_per_elem > 0;
    struct ps_page **best = NULL;
    for (struct ps_page **at = &dense->reserved; *at != NULL; at = &(*at)->next) {
        bool has_state = (*at)->state != NULL;
        if ((*at)->n == in->n && (has_state || !with_state)) {
            best = at;
            if (has_state == with_state) {
                break;
            }
        }
    }
    if (best == NULL) {
        return NULL;
    }
    struct ps_page *twin = *best;
    *best = twin->next;
    twin->next = NULL;
    dense->n_reserved--;
    return twin;
}

/* Give the twin the state of the page that it follows: by copy if somebody reads it there. */
static void hand_over_state(struct ps_dense *dense, struct ps_page *in, struct ps_page *out)
{
    if (!state_read(in)) {
        ps_mem_free(out->state);
        out->state = in->state;
        in->state = NULL;
    } else if (out->state != NULL) {
        size_t n_bytes = (size_t)dense->spec.state_per_elem * in->n * sizeof(float);
        memcpy(out->state, in->state, n_bytes);
        dense->stats.n_bytes_copied += n_bytes;
    }
}

enum ps_status ps_dense_reserve(struct ps_dense *dense, uint32_t block, enum ps_page_budget budget,
                                bool *ret_claimed)
{
    PS_ASSERT(block < dense->n_blocks && dense->pages[block] != NULL);
    const struct ps_page *in = dense->pages[block];
    if (!ps_page_shared(in)) {
        *ret_claimed = false;
        return PS_OK; /* Somebody may borrow it before the update: then the twin is made there. */
    }
    if (dense->n_reserved <= dense->n_promised) {
        struct ps_page *twin = make_twin(dense, in, budget);
        if (twin == NULL) {
            return PS_ERR_NOMEM;
        }
        twin->next = dense->reserved;
        dense->reserved = twin;
        dense->n_reserved++;
    }
    dense->n_promised++;
    *ret_claimed = true;
    return PS_OK;
}

void ps_dense_release(struct ps_dense *dense)
{
    PS_ASSERT(dense->n_promised > 0);
    dense->n_promised--;
    drop_reserved(dense, dense->n_promised);
}

enum ps_status ps_dense_begin_write(struct ps_dense *dense, uint32_t block,
                                    enum ps_page_budget budget, struct ps_page **ret_out,
                                    const struct ps_page **ret_in)
{
    PS_ASSERT(block < dense->n_blocks && dense->pages[block] != NULL);
    struct ps_page *in = dense->pages[block];
    if (!ps_page_shared(in)) {
        *ret_out = in;
        *ret_in = in;
        return PS_OK;
    }
    struct ps_page *out = take_reserved(dense, in);
    if (out == NULL) {
        out = make_twin(dense, in, budget);
    }
    if (out == NULL) {
        return PS_ERR_NOMEM;
    }
    hand_over_state(dense, in, out);
    out->version = in->version;
    out->t = in->t;
    memcpy(out->power, in->power, sizeof(out->power));
    dense->stats.n_fresh++;
    *ret_out = out;
    *ret_in = in;
    return PS_OK;
}

void ps_dense_end_write(struct ps_dense *dense, uint32_t block, struct ps_page *out)
{
    PS_ASSERT(block < dense->n_blocks && dense->pages[block] != NULL);
    struct ps_page *in = dense->pages[block];
    if (out != in) {
        PS_ASSERT(out->version == in->version); /* It is the twin that begin_write made. */
        dense->pages[block] = out;
        ps_page_disown(in);
    }
    out->version++;
    dense->stats.n_writes++;
}

enum ps_status ps_dense_put(struct ps_dense *dense, uint32_t block,
                            const struct ps_dense_saved *saved)
{
    struct ps_page *out = NULL;
    const struct ps_page *in = NULL;
    PS_ASSERT(saved->n == ps_dense_floats(dense, block));
    enum ps_status status = ps_dense_begin_write(dense, block, PS_PAGE_WITHIN, &out, &in);
    if (status != PS_OK) {
        return status;
    }
    memcpy(out->weights, saved->weights, (size_t)saved->n * sizeof(float));
    if (dense->spec.state_per_elem > 0) {
        size_t n_state = (size_t)dense->spec.state_per_elem * saved->n;
        memcpy(out->state, saved->state, n_state * sizeof(float));
    }
    out->t = saved->t;
    memcpy(out->power, saved->power, sizeof(out->power));
    ps_dense_end_write(dense, block, out);
    out->version = saved->version;
    return PS_OK;
}
