/* store.c — what all kinds of stores share, see store.h. */
#include "coord/store.h"

#include <inttypes.h>

#include "base/assert.h"
#include "coord/store_impl.h"

enum ps_status ps_store_write(struct ps_store *store, struct ps_store_stamp *stamp, uint64_t term,
                              const uint8_t *data, size_t n_bytes, struct ps_error *err)
{
    PS_ASSERT(term >= stamp->term);
    if (n_bytes > PS_STORE_BYTES_MAX) {
        return ps_fail(err, PS_ERR_INVALID, "the coordinator's state has %zu bytes, more than %u",
                       n_bytes, PS_STORE_BYTES_MAX);
    }
    enum ps_status status = store->ops->compare_and_swap(store, stamp, term, data, n_bytes, err);
    if (status == PS_OK) {
        *stamp = (struct ps_store_stamp){.term = term, .version = stamp->version + 1};
    }
    return status;
}

void ps_store_destroy(struct ps_store *store)
{
    if (store != NULL) {
        store->ops->destroy(store);
    }
}

enum ps_status ps_store_is(const struct ps_store_stamp *stored,
                           const struct ps_store_stamp *expected, struct ps_error *err)
{
    return ps_store_may_replace(stored, expected, expected->term, err);
}

enum ps_status ps_store_may_replace(const struct ps_store_stamp *stored,
                                    const struct ps_store_stamp *expected, uint64_t term,
                                    struct ps_error *err)
{
    if (stored->term == expected->term && stored->version == expected->version &&
        term >= stored->term) {
        return PS_OK;
    }
    return ps_fail(err, PS_ERR_NOT_PRIMARY,
                   "another coordinator has written the store: term %" PRIu64 " version %" PRIu64
                   " stands there, not term %" PRIu64 " version %" PRIu64,
                   stored->term, stored->version, expected->term, expected->version);
}
