#ifndef PS_COMMON_PORT_DISK_H
#define PS_COMMON_PORT_DISK_H
/*
 * port/disk.h — files as the coordinator's store sees them. Kinds: POSIX (os/posix_disk) and the
 * simulator's, which can lose what was not synced.
 *
 * Blocking; called from the owner of the store only.
 */
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct ps_disk;

struct ps_disk_ops {
    /**
     * Read a whole file. `*ret` is freed with ps_mem_free.
     * @return PS_ERR_NOT_FOUND when there is no such file, PS_ERR_INVALID above `n_bytes_max`
     */
    enum ps_status (*read)(struct ps_disk *disk, const char *path, size_t n_bytes_max,
                           uint8_t **ret, size_t *ret_n_bytes, struct ps_error *err);
    /**
     * Replace a file as a whole: temporary file, fsync, rename, fsync of the directory. After a
     * failure or power cut the old or the new content is there, never a mixture.
     */
    enum ps_status (*replace)(struct ps_disk *disk, const char *path, const uint8_t *data,
                              size_t n_bytes, struct ps_error *err);
    /** Make a directory and its parents; one that exists is fine. */
    enum ps_status (*make_dir)(struct ps_disk *disk, const char *path, struct ps_error *err);
};

struct ps_disk {
    const struct ps_disk_ops *ops;
};

PS_MUST_CHECK static inline enum ps_status ps_disk_read(struct ps_disk *disk, const char *path,
                                                        size_t n_bytes_max, uint8_t **ret,
                                                        size_t *ret_n_bytes, struct ps_error *err)
{
    return disk->ops->read(disk, path, n_bytes_max, ret, ret_n_bytes, err);
}

PS_MUST_CHECK static inline enum ps_status ps_disk_replace(struct ps_disk *disk, const char *path,
                                                           const uint8_t *data, size_t n_bytes,
                                                           struct ps_error *err)
{
    return disk->ops->replace(disk, path, data, n_bytes, err);
}

PS_MUST_CHECK static inline enum ps_status ps_disk_make_dir(struct ps_disk *disk, const char *path,
                                                            struct ps_error *err)
{
    return disk->ops->make_dir(disk, path, err);
}

#endif
