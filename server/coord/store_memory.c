/* store_memory.c — a store that ends with its process, see store.h. */
#include <string.h>

#include "base/attr.h"
#include "coord/store_impl.h"

struct memory_store {
    struct ps_store base;
    struct ps_mem *mem;
    struct ps_store_stamp stamp;
    uint8_t *data;
    size_t n_bytes;
};

static struct memory_store *memory_of(struct ps_store *store)
{
    return PS_CONTAINER_OF(store, struct memory_store, base);
}

static enum ps_status load(struct ps_store *base, uint8_t **ret, size_t *ret_n_bytes,
                           struct ps_store_stamp *ret_stamp, struct ps_error *err)
{
    struct memory_store *store = memory_of(base);
    uint8_t *copy = NULL;
    if (store->data != NULL) {
        copy = ps_mem_alloc(store->mem, PS_MEM_OTHER, store->n_bytes);
        if (copy == NULL) {
            return ps_fail(err, PS_ERR_NOMEM, "no memory for the stored state");
        }
        memcpy(copy, store->data, store->n_bytes);
    }
    *ret = copy;
    *ret_n_bytes = store->n_bytes;
    *ret_stamp = store->stamp;
    return PS_OK;
}

static enum ps_status compare_and_swap(struct ps_store *base, const struct ps_store_stamp *expected,
                                       uint64_t term, const uint8_t *data, size_t n_bytes,
                                       struct ps_error *err)
{
    struct memory_store *store = memory_of(base);
    enum ps_status status = ps_store_may_replace(&store->stamp, expected, term, err);
    if (status != PS_OK) {
        return status;
    }
    uint8_t *grown = ps_mem_grow(store->mem, PS_MEM_OTHER, store->data, n_bytes);
    if (grown == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for the stored state");
    }
    memcpy(grown, data, n_bytes);
    store->data = grown;
    store->n_bytes = n_bytes;
    store->stamp = (struct ps_store_stamp){.term = term, .version = expected->version + 1};
    return PS_OK;
}

static enum ps_status stamp_of(struct ps_store *base, struct ps_store_stamp *ret,
                               struct ps_error *err PS_UNUSED)
{
    *ret = memory_of(base)->stamp;
    return PS_OK;
}

static void destroy(struct ps_store *base)
{
    struct memory_store *store = memory_of(base);
    ps_mem_free(store->data);
    ps_mem_free(store);
}

static const struct ps_store_ops ops = {
    .load = load,
    .compare_and_swap = compare_and_swap,
    .stamp = stamp_of,
    .destroy = destroy,
};

struct ps_store *ps_store_memory_create(struct ps_mem *mem)
{
    struct memory_store *store = ps_mem_alloc(mem, PS_MEM_OTHER, sizeof(*store));
    if (store == NULL) {
        return NULL;
    }
    store->base.ops = &ops;
    store->mem = mem;
    return &store->base;
}
