#ifndef PS_COMMON_PORT_DISK_H
#define PS_COMMON_PORT_DISK_H
/*
 * port/disk.h — files as the coordinator's store, the log and snapshots see them. Kinds: POSIX
 * (os/posix_disk) and the simulator's, which can lose what was not synced.
 *
 * Blocking. One file is used by one thread at a time; apart from that, any thread. What is written
 * is safe from a power cut when the file is synced; that the file is there under its name, when its
 * directory is. Failures: PS_ERR_NO_SPACE (a later try may succeed), PS_ERR_NOT_FOUND,
 * PS_ERR_EXISTS, PS_ERR_INVALID (no path), else PS_ERR_IO; the words begin with the path.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/slice.h"

#define PS_DISK_NAME_BYTES_MAX 255u           /* Of one name in a directory: what Linux takes. */
#define PS_DISK_ALIGN          ((size_t)4096) /* A disk takes such pieces without a copy. */

struct ps_disk;
struct ps_disk_file;

enum ps_disk_open {
    PS_DISK_READ,   /* It exists. */
    PS_DISK_WRITE,  /* It exists; to read and write. */
    PS_DISK_CREATE, /* It must not exist; to read and write. */
    PS_DISK_ANEW    /* It is made, or emptied; to read and write. */
};

/** What a directory holds under one name. */
struct ps_disk_entry {
    char name[PS_DISK_NAME_BYTES_MAX + 1];
    bool is_dir;
};

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
    /** Make a directory and its parents, safe from a power cut; one that exists is fine. */
    enum ps_status (*make_dir)(struct ps_disk *disk, const char *path, struct ps_error *err);
    /** Names made, renamed or removed in a directory so far survive a power cut. */
    enum ps_status (*sync_dir)(struct ps_disk *disk, const char *path, struct ps_error *err);
    /** What is in a directory, by name. `*ret` is freed with ps_mem_free. */
    enum ps_status (*list)(struct ps_disk *disk, const char *path, struct ps_disk_entry **ret,
                           size_t *ret_n, struct ps_error *err);
    /** Take a file or an empty directory away. */
    enum ps_status (*remove)(struct ps_disk *disk, const char *path, struct ps_error *err);
    /** Atomic; a file that is at `to` is replaced. Within one file system. */
    enum ps_status (*rename)(struct ps_disk *disk, const char *from, const char *to,
                             struct ps_error *err);
    enum ps_status (*open)(struct ps_disk *disk, const char *path, enum ps_disk_open how,
                           struct ps_disk_file **ret, struct ps_error *err);
    /**
     * Make and hold a lock file until it is closed or the process ends; it says who holds it.
     * @return PS_ERR_EXISTS "is in use by process N" when somebody else holds it
     */
    enum ps_status (*lock)(struct ps_disk *disk, const char *path, struct ps_disk_file **ret,
                           struct ps_error *err);
};

struct ps_disk_file_ops {
    /** Write all slices behind each other from `at` on. After a failure any part may be written. */
    enum ps_status (*write)(struct ps_disk_file *file, uint64_t at, const struct ps_slice *slices,
                            size_t n_slices, struct ps_error *err);
    /** Up to `n_bytes` from `at` on; fewer only at the end of the file. */
    enum ps_status (*read)(struct ps_disk_file *file, uint64_t at, void *to, size_t n_bytes,
                           size_t *ret_n_bytes, struct ps_error *err);
    /**
     * Content and size survive a power cut. After a failure nobody knows what does, and a second
     * sync that succeeds proves nothing.
     */
    enum ps_status (*sync)(struct ps_disk_file *file, struct ps_error *err);
    /**
     * Make the file at least `n_bytes` long, zeros behind its end, with room on the disk, so that
     * writing them finds space. PS_ERR_NO_SPACE: the file is as before. Where the file system
     * cannot do it, the file grows and the room is not promised.
     */
    enum ps_status (*allocate)(struct ps_disk_file *file, uint64_t n_bytes, struct ps_error *err);
    enum ps_status (*truncate)(struct ps_disk_file *file, uint64_t n_bytes, struct ps_error *err);
    enum ps_status (*size)(struct ps_disk_file *file, uint64_t *ret, struct ps_error *err);
    /** Synced content is read from the disk next time, not from memory: after a failed sync of a
     * process before, memory may hold what the disk does not. Best effort. */
    void (*forget)(struct ps_disk_file *file);
    /** What is written from now on is not read soon, so it need not stay in memory. Whole multiples
     * of PS_DISK_ALIGN, at such places in file and memory, then cost the least. Best effort. */
    void (*pass_by)(struct ps_disk_file *file);
    void (*close)(struct ps_disk_file *file);
};

struct ps_disk {
    const struct ps_disk_ops *ops;
};

struct ps_disk_file {
    const struct ps_disk_file_ops *ops;
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

PS_MUST_CHECK static inline enum ps_status ps_disk_sync_dir(struct ps_disk *disk, const char *path,
                                                            struct ps_error *err)
{
    return disk->ops->sync_dir(disk, path, err);
}

PS_MUST_CHECK static inline enum ps_status ps_disk_list(struct ps_disk *disk, const char *path,
                                                        struct ps_disk_entry **ret, size_t *ret_n,
                                                        struct ps_error *err)
{
    return disk->ops->list(disk, path, ret, ret_n, err);
}

PS_MUST_CHECK static inline enum ps_status ps_disk_remove(struct ps_disk *disk, const char *path,
                                                          struct ps_error *err)
{
    return disk->ops->remove(disk, path, err);
}

PS_MUST_CHECK static inline enum ps_status ps_disk_rename(struct ps_disk *disk, const char *from,
                                                          const char *to, struct ps_error *err)
{
    return disk->ops->rename(disk, from, to, err);
}

PS_MUST_CHECK static inline enum ps_status ps_disk_open(struct ps_disk *disk, const char *path,
                                                        enum ps_disk_open how,
                                                        struct ps_disk_file **ret,
                                                        struct ps_error *err)
{
    return disk->ops->open(disk, path, how, ret, err);
}

PS_MUST_CHECK static inline enum ps_status ps_disk_lock(struct ps_disk *disk, const char *path,
                                                        struct ps_disk_file **ret,
                                                        struct ps_error *err)
{
    return disk->ops->lock(disk, path, ret, err);
}

PS_MUST_CHECK static inline enum ps_status ps_disk_file_write(struct ps_disk_file *file,
                                                              uint64_t at,
                                                              const struct ps_slice *slices,
                                                              size_t n_slices, struct ps_error *err)
{
    return file->ops->write(file, at, slices, n_slices, err);
}

PS_MUST_CHECK static inline enum ps_status ps_disk_file_read(struct ps_disk_file *file, uint64_t at,
                                                             void *to, size_t n_bytes,
                                                             size_t *ret_n_bytes,
                                                             struct ps_error *err)
{
    return file->ops->read(file, at, to, n_bytes, ret_n_bytes, err);
}

PS_MUST_CHECK static inline enum ps_status ps_disk_file_sync(struct ps_disk_file *file,
                                                             struct ps_error *err)
{
    return file->ops->sync(file, err);
}

PS_MUST_CHECK static inline enum ps_status
ps_disk_file_allocate(struct ps_disk_file *file, uint64_t n_bytes, struct ps_error *err)
{
    return file->ops->allocate(file, n_bytes, err);
}

PS_MUST_CHECK static inline enum ps_status
ps_disk_file_truncate(struct ps_disk_file *file, uint64_t n_bytes, struct ps_error *err)
{
    return file->ops->truncate(file, n_bytes, err);
}

PS_MUST_CHECK static inline enum ps_status ps_disk_file_size(struct ps_disk_file *file,
                                                             uint64_t *ret, struct ps_error *err)
{
    return file->ops->size(file, ret, err);
}

static inline void ps_disk_file_forget(struct ps_disk_file *file)
{
    file->ops->forget(file);
}

static inline void ps_disk_file_pass_by(struct ps_disk_file *file)
{
    file->ops->pass_by(file);
}

/** NULL does nothing. What is not synced may be lost or not. */
static inline void ps_disk_file_close(struct ps_disk_file *file)
{
    if (file != NULL) {
        file->ops->close(file);
    }
}

#endif
