#ifndef PS_SERVER_COORD_STORE_H
#define PS_SERVER_COORD_STORE_H
/*
 * coord/store.h — where the coordinator keeps what must outlive it: one value, replaced as a whole.
 *
 * Every write is conditional on the stamp of the last one: a coordinator that another has followed
 * (a higher term stands in the store) is refused and stops. Kinds: memory (gone with the process)
 * and file (through struct ps_disk). Blocking; one owner.
 */
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/limits.h"
#include "base/mem.h"
#include "port/disk.h"

/* The longest value: catalogue, sessions, leases, parts, and the job with its setup. */
#define PS_STORE_BYTES_MAX ((3u << 20) + PS_SETUP_BYTES_MAX)

struct ps_store_stamp {
    uint64_t term;    /* Of the coordinator that wrote it; 0: nothing was ever written. */
    uint64_t version; /* Writes so far. */
};

struct ps_store;

struct ps_store_ops {
    /**
     * Read the value. `*ret` is freed with ps_mem_free; NULL, and a stamp of zeros, before the
     * first write.
     * @return PS_ERR_CORRUPT, PS_ERR_IO, PS_ERR_NOMEM
     */
    enum ps_status (*load)(struct ps_store *store, uint8_t **ret, size_t *ret_n_bytes,
                           struct ps_store_stamp *ret_stamp, struct ps_error *err);
    /**
     * Write the value under `term` if its stamp is still `expected`; it is durable on return.
     * @return PS_ERR_NOT_PRIMARY when somebody else has written, or `term` is lower than the
     *         stored one: stop. Others: unknown whether it was written.
     */
    enum ps_status (*compare_and_swap)(struct ps_store *store,
                                       const struct ps_store_stamp *expected, uint64_t term,
                                       const uint8_t *data, size_t n_bytes, struct ps_error *err);
    /** Whose value it is now; zeros before the first write. */
    enum ps_status (*stamp)(struct ps_store *store, struct ps_store_stamp *ret,
                            struct ps_error *err);
    void (*destroy)(struct ps_store *store);
};

struct ps_store {
    const struct ps_store_ops *ops;
};

PS_MUST_CHECK static inline enum ps_status ps_store_load(struct ps_store *store, uint8_t **ret,
                                                         size_t *ret_n_bytes,
                                                         struct ps_store_stamp *ret_stamp,
                                                         struct ps_error *err)
{
    return store->ops->load(store, ret, ret_n_bytes, ret_stamp, err);
}

PS_MUST_CHECK static inline enum ps_status
ps_store_stamp(struct ps_store *store, struct ps_store_stamp *ret, struct ps_error *err)
{
    return store->ops->stamp(store, ret, err);
}

/** @return PS_ERR_NOT_PRIMARY with words, unless `stored` is still `expected` */
PS_MUST_CHECK enum ps_status ps_store_is(const struct ps_store_stamp *stored,
                                         const struct ps_store_stamp *expected,
                                         struct ps_error *err);

/** On PS_OK `*stamp` becomes that of the new value. */
PS_MUST_CHECK enum ps_status ps_store_write(struct ps_store *store, struct ps_store_stamp *stamp,
                                            uint64_t term, const uint8_t *data, size_t n_bytes,
                                            struct ps_error *err);

/** NULL does nothing. */
void ps_store_destroy(struct ps_store *store);

/** A store that ends with the process. NULL without memory. */
struct ps_store *ps_store_memory_create(struct ps_mem *mem);

/** A file at `path` (copied); `disk` outlives the store. NULL without memory. */
struct ps_store *ps_store_file_create(struct ps_mem *mem, struct ps_disk *disk, const char *path);

#endif
