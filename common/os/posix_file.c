/* posix_file.c — see posix_file.h. */
#include "os/posix_file.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <dirent.h>

#include "base/assert.h"
#include "base/attr.h"
#include "base/mem.h"

#define SLICES_AT_ONCE 256u /* Of a gathered write; the system takes 1,024. */

struct posix_file {
    struct ps_disk_file base;
    int fd;
    bool pass_by; /* Writes go past the page cache where they can. */
    char path[];  /* For messages. */
};

static struct posix_file *posix_of(struct ps_disk_file *file)
{
    return PS_CONTAINER_OF(file, struct posix_file, base);
}

enum ps_status ps_posix_failed(struct ps_error *err, int error, const char *path, const char *what)
{
    enum ps_status status = PS_ERR_IO;
    if (error == ENOSPC || error == EDQUOT) {
        status = PS_ERR_NO_SPACE;
    } else if (error == ENOENT) {
        status = PS_ERR_NOT_FOUND;
    } else if (error == EEXIST) {
        status = PS_ERR_EXISTS;
    }
    return ps_fail(err, status, "%s: %s: %s", path, what, strerrordesc_np(error));
}

/* ---- Open files ------------------------------------------------------------------------------ */

/* As many slices as one call takes, less the `n_done` bytes of the first; @return how many. */
static int vector_of(const struct ps_slice *slices, size_t n_slices, size_t n_done,
                     struct iovec *vector)
{
    int n = 0;
    for (size_t i = 0; i < n_slices && n < (int)SLICES_AT_ONCE; i++) {
        size_t n_skip = i == 0 ? n_done : 0;
        union {
            const uint8_t *from;
            void *to;
        } data = {.from = slices[i].data}; /* iovec serves reads, too, so it has no const. */
        vector[n].iov_base = data.from == NULL ? NULL : (uint8_t *)data.to + n_skip;
        vector[n].iov_len = slices[i].n_bytes - n_skip;
        n++;
    }
    return n;
}

static bool set_direct(const struct posix_file *file, bool on)
{
    int flags = fcntl(file->fd, F_GETFL);
    return flags >= 0 && fcntl(file->fd, F_SETFL, on ? flags | O_DIRECT : flags & ~O_DIRECT) == 0;
}

/*
 * Write the whole pages that the slice begins with past the page cache. `*ret_n` of its bytes are
 * written then; those behind, or all where it cannot be done, are for a plain write.
 */
static enum ps_status write_directly(struct posix_file *file, uint64_t at,
                                     const struct ps_slice *slice, size_t *ret_n,
                                     struct ps_error *err)
{
    size_t n_bytes = slice->n_bytes - slice->n_bytes % PS_DISK_ALIGN;
    bool aligned = at % PS_DISK_ALIGN == 0 && (uintptr_t)slice->data % PS_DISK_ALIGN == 0;
    int why = 0;
    *ret_n = 0;
    if (!aligned || n_bytes == 0) {
        return PS_OK;
    }
    if (!set_direct(file, true)) {
        file->pass_by = false; /* A file system without it. */
        return PS_OK;
    }
    while (why == 0 && *ret_n < n_bytes && *ret_n % PS_DISK_ALIGN == 0) {
        struct iovec vector;
        (void)vector_of(slice, 1, *ret_n, &vector);
        vector.iov_len = n_bytes - *ret_n;
        ssize_t n = pwritev(file->fd, &vector, 1, (off_t)(at + *ret_n));
        *ret_n += n < 0 ? 0 : (size_t)n;
        why = n < 0 && errno != EINTR ? errno : 0;
        if (n == 0) {
            break; /* The plain write says why. */
        }
    }
    if (!set_direct(file, false)) {
        return ps_posix_failed(err, errno, file->path, "write through memory");
    }
    if (why == EINVAL) {
        file->pass_by = false; /* A disk of larger pages. */
        why = 0;
    }
    return why == 0 ? PS_OK : ps_posix_failed(err, why, file->path, "write");
}

static enum ps_status file_write(struct ps_disk_file *base, uint64_t at,
                                 const struct ps_slice *slices, size_t n_slices,
                                 struct ps_error *err)
{
    struct posix_file *file = posix_of(base);
    size_t n_done = 0; /* Of the first slice. */
    if (file->pass_by && n_slices == 1) {
        enum ps_status status = write_directly(file, at, slices, &n_done, err);
        if (status != PS_OK) {
            return status;
        }
        at += n_done;
    }
    while (n_slices > 0) {
        if (slices->n_bytes == n_done) {
            slices++;
            n_slices--;
            n_done = 0;
            continue;
        }
        struct iovec vector[SLICES_AT_ONCE];
        int n_vector = vector_of(slices, n_slices, n_done, vector);
        ssize_t n = pwritev(file->fd, vector, n_vector, (off_t)at);
        if (n < 0 && errno != EINTR) {
            return ps_posix_failed(err, errno, file->path, "write");
        }
        if (n == 0) {
            return ps_fail(err, PS_ERR_IO, "%s: write: nothing was taken", file->path);
        }
        at += n < 0 ? 0 : (uint64_t)n;
        n_done += n < 0 ? 0 : (size_t)n;
        while (n_slices > 0 && n_done >= slices->n_bytes) {
            n_done -= slices->n_bytes;
            slices++;
            n_slices--;
        }
    }
    return PS_OK;
}

static enum ps_status file_read(struct ps_disk_file *base, uint64_t at, void *to, size_t n_bytes,
                                size_t *ret_n_bytes, struct ps_error *err)
{
    struct posix_file *file = posix_of(base);
    size_t n_read = 0;
    while (n_read < n_bytes) {
        ssize_t n = pread(file->fd, (uint8_t *)to + n_read, n_bytes - n_read, (off_t)(at + n_read));
        if (n < 0 && errno != EINTR) {
            return ps_posix_failed(err, errno, file->path, "read");
        }
        if (n == 0) {
            break;
        }
        n_read += n < 0 ? 0 : (size_t)n;
    }
    *ret_n_bytes = n_read;
    return PS_OK;
}

static enum ps_status file_sync(struct ps_disk_file *base, struct ps_error *err)
{
    struct posix_file *file = posix_of(base);
    /* Not again after EINTR: after any failure nobody knows what the disk has. */
    return fdatasync(file->fd) < 0 ? ps_posix_failed(err, errno, file->path, "sync") : PS_OK;
}

static enum ps_status file_truncate(struct ps_disk_file *base, uint64_t n_bytes,
                                    struct ps_error *err)
{
    struct posix_file *file = posix_of(base);
    while (ftruncate(file->fd, (off_t)n_bytes) < 0) {
        if (errno != EINTR) {
            return ps_posix_failed(err, errno, file->path, "truncate");
        }
    }
    return PS_OK;
}

static enum ps_status file_size(struct ps_disk_file *base, uint64_t *ret, struct ps_error *err)
{
    struct posix_file *file = posix_of(base);
    struct stat info;
    if (fstat(file->fd, &info) < 0) {
        return ps_posix_failed(err, errno, file->path, "ask for its size");
    }
    *ret = (uint64_t)info.st_size;
    return PS_OK;
}

static enum ps_status file_allocate(struct ps_disk_file *base, uint64_t n_bytes,
                                    struct ps_error *err)
{
    struct posix_file *file = posix_of(base);
    uint64_t n_before = 0;
    enum ps_status status = file_size(base, &n_before, err);
    if (status != PS_OK || n_bytes <= n_before) {
        return status;
    }
    int why = 0;
    do {
        why = fallocate(file->fd, 0, (off_t)n_before, (off_t)(n_bytes - n_before)) < 0 ? errno : 0;
    } while (why == EINTR);
    if (why == EOPNOTSUPP || why == ENOSYS) {
        return file_truncate(base, n_bytes, err);
    }
    if (why != 0) {
        (void)file_truncate(base, n_before, NULL); /* Some file systems leave what they found. */
        return ps_posix_failed(err, why, file->path, "reserve room");
    }
    return PS_OK;
}

static void file_forget(struct ps_disk_file *base)
{
    (void)posix_fadvise(posix_of(base)->fd, 0, 0, POSIX_FADV_DONTNEED);
}

static void file_pass_by(struct ps_disk_file *base)
{
    posix_of(base)->pass_by = true;
}

static void file_close(struct ps_disk_file *base)
{
    struct posix_file *file = posix_of(base);
    (void)close(file->fd); /* What had to be safe was synced. */
    ps_mem_free(file);
}

static const struct ps_disk_file_ops file_ops = {
    .write = file_write,
    .read = file_read,
    .sync = file_sync,
    .allocate = file_allocate,
    .truncate = file_truncate,
    .size = file_size,
    .forget = file_forget,
    .pass_by = file_pass_by,
    .close = file_close,
};

/* Takes `fd` in any case. */
static enum ps_status wrap_fd(int fd, const char *path, struct ps_disk_file **ret,
                              struct ps_error *err)
{
    size_t n_path = strlen(path) + 1;
    struct posix_file *file = ps_mem_alloc(NULL, PS_MEM_OTHER, sizeof(*file) + n_path);
    if (file == NULL) {
        (void)close(fd);
        return ps_fail(err, PS_ERR_NOMEM, "%s: no memory for an open file", path);
    }
    file->base.ops = &file_ops;
    file->fd = fd;
    memcpy(file->path, path, n_path);
    *ret = &file->base;
    return PS_OK;
}

enum ps_status ps_posix_file_open(struct ps_disk *disk PS_UNUSED, const char *path,
                                  enum ps_disk_open how, struct ps_disk_file **ret,
                                  struct ps_error *err)
{
    static const int flags[] = {
        [PS_DISK_READ] = O_RDONLY,
        [PS_DISK_WRITE] = O_RDWR,
        [PS_DISK_CREATE] = O_RDWR | O_CREAT | O_EXCL,
        [PS_DISK_ANEW] = O_RDWR | O_CREAT | O_TRUNC,
    };
    int fd = open(path, flags[how] | O_CLOEXEC, 0640);
    if (fd < 0) {
        return ps_posix_failed(err, errno, path, "open");
    }
    return wrap_fd(fd, path, ret, err);
}

/* ---- Locks ----------------------------------------------------------------------------------- */

#define OWNER_BYTES 24u /* Of a process number in text. */

static enum ps_status held_by_another(int fd, const char *path, struct ps_error *err)
{
    char owner[OWNER_BYTES] = {0};
    ssize_t n = pread(fd, owner, sizeof(owner) - 1, 0);
    size_t n_digits = n <= 0 ? 0 : strspn(owner, "0123456789");
    owner[n_digits] = '\0';
    return ps_fail(err, PS_ERR_EXISTS, "%s: is in use by process %s", path,
                   n_digits == 0 ? "(unknown)" : owner);
}

enum ps_status ps_posix_file_lock(struct ps_disk *disk PS_UNUSED, const char *path,
                                  struct ps_disk_file **ret, struct ps_error *err)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0640);
    if (fd < 0) {
        return ps_posix_failed(err, errno, path, "open");
    }
    int why = flock(fd, LOCK_EX | LOCK_NB) < 0 ? errno : 0;
    if (why != 0) {
        enum ps_status status = why == EWOULDBLOCK ? held_by_another(fd, path, err)
                                                   : ps_posix_failed(err, why, path, "lock");
        (void)close(fd);
        return status;
    }
    char owner[OWNER_BYTES];
    int n = snprintf(owner, sizeof(owner), "%d\n", getpid());
    /* For people, so a full disk is no reason not to start. */
    if (ftruncate(fd, 0) == 0) {
        ssize_t n_written = pwrite(fd, owner, (size_t)n, 0);
        (void)n_written;
    }
    return wrap_fd(fd, path, ret, err);
}

/* ---- Directories ----------------------------------------------------------------------------- */

enum ps_status ps_posix_dir_sync(struct ps_disk *disk PS_UNUSED, const char *path,
                                 struct ps_error *err)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (fd < 0) {
        return ps_posix_failed(err, errno, path, "open folder");
    }
    enum ps_status status =
        fsync(fd) < 0 ? ps_posix_failed(err, errno, path, "sync folder") : PS_OK;
    (void)close(fd);
    return status;
}

static bool is_dir(DIR *dir, const struct dirent *entry)
{
    struct stat info;
    return entry->d_type == DT_DIR ||
           (entry->d_type == DT_UNKNOWN &&
            fstatat(dirfd(dir), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISDIR(info.st_mode));
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct ps_disk_entry *)a)->name, ((const struct ps_disk_entry *)b)->name);
}

/* All entries of `dir` into `*entries`, which grows. */
static enum ps_status read_entries(DIR *dir, const char *path, struct ps_disk_entry **entries,
                                   size_t *n, struct ps_error *err)
{
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(dir); // NOLINT(concurrency-mt-unsafe): dir is ours
        if (entry == NULL) {
            return errno == 0 ? PS_OK : ps_posix_failed(err, errno, path, "list folder");
        }
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        if ((*n & (*n - 1)) == 0) { /* Doubled at each power of two. */
            size_t n_room = *n == 0 ? 1 : *n * 2;
            struct ps_disk_entry *grown =
                ps_mem_grow(NULL, PS_MEM_OTHER, *entries, n_room * sizeof(**entries));
            if (grown == NULL) {
                return ps_fail(err, PS_ERR_NOMEM, "%s: no memory for its names", path);
            }
            *entries = grown;
        }
        struct ps_disk_entry *to = &(*entries)[(*n)++];
        (void)snprintf(to->name, sizeof(to->name), "%s", entry->d_name);
        to->is_dir = is_dir(dir, entry);
    }
}

enum ps_status ps_posix_dir_list(struct ps_disk *disk PS_UNUSED, const char *path,
                                 struct ps_disk_entry **ret, size_t *ret_n, struct ps_error *err)
{
    DIR *dir = opendir(path);
    if (dir == NULL) {
        return ps_posix_failed(err, errno, path, "open folder");
    }
    struct ps_disk_entry *entries = NULL;
    size_t n = 0;
    enum ps_status status = read_entries(dir, path, &entries, &n, err);
    (void)closedir(dir);
    if (status != PS_OK) {
        ps_mem_free(entries);
        return status;
    }
    if (n > 0) {
        qsort(entries, n, sizeof(*entries), by_name);
    }
    *ret = entries;
    *ret_n = n;
    return PS_OK;
}

enum ps_status ps_posix_remove(struct ps_disk *disk PS_UNUSED, const char *path,
                               struct ps_error *err)
{
    return remove(path) < 0 ? ps_posix_failed(err, errno, path, "remove") : PS_OK;
}

enum ps_status ps_posix_rename(struct ps_disk *disk PS_UNUSED, const char *from, const char *to,
                               struct ps_error *err)
{
    return rename(from, to) < 0 ? ps_posix_failed(err, errno, from, "rename") : PS_OK;
}
