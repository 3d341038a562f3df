/*
 * store_file.c — a store that is one file, replaced as a whole, see store.h.
 *
 *   bytes 0-7    "PSCOORD1"         24-31  bytes of the value
 *         8-15   term               32-39  checksum of everything but itself
 *         16-23  version            40-    the value
 *
 * The file is read again before every write, so a second coordinator on the same file is noticed
 * at its first write. That is a guard against mistakes, not a lock: between reading and replacing
 * another may write. Where two coordinators can really run, the store must be etcd.
 */
#include <inttypes.h>
#include <string.h>

#include "base/attr.h"
#include "base/bytes.h"
#include "base/rng.h"
#include "coord/store_impl.h"

#define HEAD_BYTES 40u

static const char magic[8] = {'P', 'S', 'C', 'O', 'O', 'R', 'D', '1'};

struct file_store {
    struct ps_store base;
    struct ps_mem *mem;
    struct ps_disk *disk;
    char *path;
};

static struct file_store *file_of(struct ps_store *store)
{
    return PS_CONTAINER_OF(store, struct file_store, base);
}

/* Against torn and rotten files, not against attackers. The length is part of it. */
static uint64_t mix_bytes(uint64_t sum, const uint8_t *data, size_t n_bytes)
{
    uint64_t word = 0;
    for (size_t i = 0; i < n_bytes; i += sizeof(word)) {
        size_t n = n_bytes - i < sizeof(word) ? n_bytes - i : sizeof(word);
        word = 0;
        memcpy(&word, data + i, n);
        sum = ps_mix64(sum ^ word) + n;
    }
    return sum;
}

static uint64_t checksum(const uint8_t *file, size_t n_bytes)
{
    return mix_bytes(mix_bytes(n_bytes, file, HEAD_BYTES - 8), file + HEAD_BYTES,
                     n_bytes - HEAD_BYTES);
}

/* Read and check the file; no file is a stamp of zeros. `*ret_file` is freed with ps_mem_free. */
static enum ps_status read_file(struct file_store *store, uint8_t **ret_file, size_t *ret_n_bytes,
                                struct ps_store_stamp *ret_stamp, struct ps_error *err)
{
    uint8_t *file = NULL;
    size_t n_bytes = 0;
    enum ps_status status = ps_disk_read(store->disk, store->path, HEAD_BYTES + PS_STORE_BYTES_MAX,
                                         &file, &n_bytes, err);
    if (status == PS_ERR_NOT_FOUND) {
        *ret_file = NULL;
        *ret_n_bytes = 0;
        *ret_stamp = (struct ps_store_stamp){0};
        return PS_OK;
    }
    if (status != PS_OK) {
        return ps_wrap(err, status, "reading the coordinator's store %s", store->path);
    }
    if (n_bytes < HEAD_BYTES || memcmp(file, magic, sizeof(magic)) != 0 ||
        ps_load_u64(file + 24) != n_bytes - HEAD_BYTES ||
        ps_load_u64(file + 32) != checksum(file, n_bytes)) {
        ps_mem_free(file);
        return ps_fail(err, PS_ERR_CORRUPT,
                       "the coordinator's store %s is damaged; move it away to start afresh",
                       store->path);
    }
    *ret_stamp =
        (struct ps_store_stamp){.term = ps_load_u64(file + 8), .version = ps_load_u64(file + 16)};
    *ret_file = file;
    *ret_n_bytes = n_bytes;
    return PS_OK;
}

static enum ps_status load(struct ps_store *base, uint8_t **ret, size_t *ret_n_bytes,
                           struct ps_store_stamp *ret_stamp, struct ps_error *err)
{
    struct file_store *store = file_of(base);
    uint8_t *file = NULL;
    size_t n_bytes = 0;
    enum ps_status status = read_file(store, &file, &n_bytes, ret_stamp, err);
    if (status != PS_OK) {
        return status;
    }
    if (file != NULL) { /* What is given away is the value alone. */
        n_bytes -= HEAD_BYTES;
        memmove(file, file + HEAD_BYTES, n_bytes);
    }
    *ret = file;
    *ret_n_bytes = n_bytes;
    return PS_OK;
}

static enum ps_status compare_and_swap(struct ps_store *base, const struct ps_store_stamp *expected,
                                       uint64_t term, const uint8_t *data, size_t n_bytes,
                                       struct ps_error *err)
{
    struct file_store *store = file_of(base);
    uint8_t *file = NULL;
    size_t n_old_bytes = 0;
    struct ps_store_stamp stamp = {0};
    enum ps_status status = read_file(store, &file, &n_old_bytes, &stamp, err);
    if (status != PS_OK) {
        return status;
    }
    ps_mem_free(file);
    status = ps_store_may_replace(&stamp, expected, term, err);
    if (status != PS_OK) {
        return status;
    }
    file = ps_mem_alloc(store->mem, PS_MEM_OTHER, HEAD_BYTES + n_bytes);
    if (file == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory to write %s", store->path);
    }
    memcpy(file, magic, sizeof(magic));
    ps_store_u64(file + 8, term);
    ps_store_u64(file + 16, expected->version + 1);
    ps_store_u64(file + 24, n_bytes);
    if (n_bytes > 0) {
        memcpy(file + HEAD_BYTES, data, n_bytes);
    }
    ps_store_u64(file + 32, checksum(file, HEAD_BYTES + n_bytes));
    status = ps_disk_replace(store->disk, store->path, file, HEAD_BYTES + n_bytes, err);
    ps_mem_free(file);
    return status == PS_OK
               ? PS_OK
               : ps_wrap(err, status, "writing the coordinator's store %s", store->path);
}

static enum ps_status stamp_of(struct ps_store *base, struct ps_store_stamp *ret,
                               struct ps_error *err)
{
    uint8_t *file = NULL;
    size_t n_bytes = 0;
    enum ps_status status = read_file(file_of(base), &file, &n_bytes, ret, err);
    ps_mem_free(status == PS_OK ? file : NULL);
    return status;
}

static void destroy(struct ps_store *base)
{
    struct file_store *store = file_of(base);
    ps_mem_free(store->path);
    ps_mem_free(store);
}

static const struct ps_store_ops ops = {
    .load = load,
    .compare_and_swap = compare_and_swap,
    .stamp = stamp_of,
    .destroy = destroy,
};

struct ps_store *ps_store_file_create(struct ps_mem *mem, struct ps_disk *disk, const char *path)
{
    struct file_store *store = ps_mem_alloc(mem, PS_MEM_OTHER, sizeof(*store));
    if (store == NULL) {
        return NULL;
    }
    store->base.ops = &ops;
    store->mem = mem;
    store->disk = disk;
    store->path = ps_mem_strdup(mem, PS_MEM_OTHER, path);
    if (store->path == NULL) {
        ps_mem_free(store);
        return NULL;
    }
    return &store->base;
}
