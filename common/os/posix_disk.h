#ifndef PS_COMMON_OS_POSIX_DISK_H
#define PS_COMMON_OS_POSIX_DISK_H
/*
 * os/posix_disk.h — the disk of this machine behind port/disk.h. Without state; any thread.
 *
 * Replacing writes `path`.<random>.tmp and renames it: of several that do so at once each file is
 * whole, and the last one stays. A process that is killed meanwhile leaves its own, unless it was
 * written in pieces and the file system has files without a name. The system
 * calls that write stand in a table, so that a test can refuse each of them once.
 */
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sys/types.h>

#include "port/disk.h"

/** The calls that replace a file, with the meaning and errno of their namesakes. */
struct ps_file_calls {
    int (*open)(const char *path, int flags, mode_t mode);
    ssize_t (*write)(int fd, const void *data, size_t n_bytes);
    int (*fsync)(int fd);
    int (*close)(int fd);
    int (*rename)(const char *from, const char *to);
    int (*unlink)(const char *path);
};

struct ps_posix_disk {
    struct ps_disk base;
    const struct ps_file_calls *calls;
};

/** The one that everybody uses. */
struct ps_disk *ps_posix_disk(void);

/** The calls of this system. */
const struct ps_file_calls *ps_posix_file_calls(void);

/**
 * Could a file be put at `path`? Puts an empty one beside it and takes it away again: before work
 * whose result would have no place.
 * @return as replacing
 */
PS_MUST_CHECK enum ps_status ps_posix_disk_try(const char *path, struct ps_error *err);

/** A file that is written piece by piece, in any order, and then put at `path` as a whole. */
struct ps_replacing {
    const char *path; /* Borrowed. */
    int fd;
    bool named; /* As `temp`; else it gets that name at the end, for a moment. */
    char temp[PATH_MAX];
};

/** Begin. On failure there is nothing to cancel. @return as replacing */
PS_MUST_CHECK enum ps_status ps_replacing_begin(struct ps_replacing *replacing, const char *path,
                                                struct ps_error *err);

/** Write `n_bytes` at the place `at`. */
PS_MUST_CHECK enum ps_status ps_replacing_write(struct ps_replacing *replacing, uint64_t at,
                                                const void *data, size_t n_bytes,
                                                struct ps_error *err);

/** Sync and rename. Success or not, it is over; on failure `path` is as before. */
PS_MUST_CHECK enum ps_status ps_replacing_finish(struct ps_replacing *replacing,
                                                 struct ps_error *err);

/** Take the temporary file away. */
void ps_replacing_cancel(struct ps_replacing *replacing);

/** One with other calls, for tests. */
void ps_posix_disk_init(struct ps_posix_disk *disk, const struct ps_file_calls *calls);

#endif
