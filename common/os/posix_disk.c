/* posix_disk.c — see posix_disk.h. */
#include "os/posix_disk.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/id.h"
#include "os/file.h"
#include "os/posix_file.h"
#include "os/random.h"

static int call_open(const char *path, int flags, mode_t mode)
{
    return open(path, flags, mode);
}

static const struct ps_file_calls posix_calls = {
    .open = call_open,
    .write = write,
    .fsync = fsync,
    .close = close,
    .rename = rename,
    .unlink = unlink,
};

static enum ps_status failed(struct ps_error *err, const char *what)
{
    enum ps_status status = errno == ENOSPC || errno == EDQUOT ? PS_ERR_NO_SPACE : PS_ERR_IO;
    return ps_fail(err, status, "%s: %s", what, strerrordesc_np(errno));
}

static enum ps_status write_all(const struct ps_file_calls *calls, int fd, const uint8_t *data,
                                size_t n_bytes, struct ps_error *err)
{
    while (n_bytes > 0) {
        ssize_t n_written = calls->write(fd, data, n_bytes);
        if (n_written < 0) {
            if (errno == EINTR) {
                continue;
            }
            return failed(err, "write");
        }
        data += n_written;
        n_bytes -= (size_t)n_written;
    }
    return PS_OK;
}

static enum ps_status write_temp(const struct ps_file_calls *calls, const char *temp,
                                 const uint8_t *data, size_t n_bytes, struct ps_error *err)
{
    int fd = calls->open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0640);
    if (fd < 0) {
        return failed(err, "open temporary file");
    }
    enum ps_status status = write_all(calls, fd, data, n_bytes, err);
    if (status == PS_OK && calls->fsync(fd) < 0) {
        status = failed(err, "fsync");
    }
    (void)calls->close(fd); /* The data are synced or abandoned; close has nothing to add. */
    return status;
}

/* The folder of the file at `path`. */
static void folder_of(const char *path, char folder[PATH_MAX])
{
    const char *slash = strrchr(path, '/');
    int n_folder = slash == NULL ? 1 : slash == path ? 1 : (int)(slash - path);
    (void)snprintf(folder, PATH_MAX, "%.*s", n_folder, slash == NULL ? "." : path);
}

/* Without it the rename itself may be lost with the power. */
static enum ps_status sync_folder_of(const struct ps_file_calls *calls, const char *path,
                                     struct ps_error *err)
{
    char folder[PATH_MAX];
    folder_of(path, folder);
    int fd = calls->open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (fd < 0) {
        return failed(err, "open folder");
    }
    enum ps_status status = calls->fsync(fd) < 0 ? failed(err, "fsync folder") : PS_OK;
    (void)calls->close(fd);
    return status;
}

/* The name of the temporary file that will be `path`, if one can be put there. */
static enum ps_status temp_beside(const char *path, char temp[PATH_MAX], struct ps_error *err)
{
    /* A name of its own: workers of one job may have been told to write one file. */
    struct ps_id id;
    char id_text[PS_ID_TEXT_BYTES];
    ps_random_id(&id);
    ps_id_text(&id, id_text);
    int n_temp = snprintf(temp, PATH_MAX, "%s.%.16s.tmp", path, id_text);
    if (path[0] == '\0' || n_temp < 0 || n_temp >= PATH_MAX) {
        return ps_fail(err, PS_ERR_INVALID, "no file can have a path of %zu bytes", strlen(path));
    }
    /* A rename would put a file where a device or pipe was: /dev/null for every other process. */
    struct stat info;
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode)) {
        return ps_fail(err, PS_ERR_INVALID, "'%s' exists and is no regular file", path);
    }
    return PS_OK;
}

enum ps_status ps_posix_disk_try(const char *path, struct ps_error *err)
{
    char temp[PATH_MAX];
    enum ps_status status = temp_beside(path, temp, err);
    if (status == PS_OK) {
        status = write_temp(&posix_calls, temp, NULL, 0, err);
        (void)unlink(temp);
    }
    return status == PS_OK ? PS_OK : ps_wrap(err, status, "write '%s'", path);
}

static enum ps_status disk_replace(struct ps_disk *base, const char *path, const uint8_t *data,
                                   size_t n_bytes, struct ps_error *err)
{
    const struct ps_file_calls *calls = PS_CONTAINER_OF(base, struct ps_posix_disk, base)->calls;
    char temp[PATH_MAX];
    enum ps_status status = temp_beside(path, temp, err);
    if (status != PS_OK) {
        return status;
    }
    status = write_temp(calls, temp, data, n_bytes, err);
    if (status == PS_OK && calls->rename(temp, path) < 0) {
        status = failed(err, "rename");
    }
    if (status != PS_OK) {
        (void)calls->unlink(temp); /* Best effort. */
        return ps_wrap(err, status, "replace '%s'", path);
    }
    status = sync_folder_of(calls, path, err);
    return status == PS_OK ? PS_OK : ps_wrap(err, status, "replace '%s'", path);
}

#define FD_PATH       "/proc/self/fd/%d"
#define FD_PATH_BYTES 32u

/*
 * A file without a name goes with its process, however that ends. It is given one by way of /proc,
 * so that has to be there. -1: not here.
 */
static int open_nameless(const char *path)
{
    char folder[PATH_MAX];
    char fd_path[FD_PATH_BYTES];
    folder_of(path, folder);
    int fd = open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0640);
    if (fd >= 0) {
        (void)snprintf(fd_path, sizeof(fd_path), FD_PATH, fd);
        if (access(fd_path, F_OK) < 0) {
            (void)close(fd);
            fd = -1;
        }
    }
    return fd;
}

static enum ps_status give_name(struct ps_replacing *replacing, struct ps_error *err)
{
    char fd_path[FD_PATH_BYTES];
    if (replacing->named) {
        return PS_OK;
    }
    (void)snprintf(fd_path, sizeof(fd_path), FD_PATH, replacing->fd);
    if (linkat(AT_FDCWD, fd_path, AT_FDCWD, replacing->temp, AT_SYMLINK_FOLLOW) < 0) {
        return failed(err, "name the file");
    }
    replacing->named = true;
    return PS_OK;
}

enum ps_status ps_replacing_begin(struct ps_replacing *replacing, const char *path,
                                  struct ps_error *err)
{
    *replacing = (struct ps_replacing){.path = path, .fd = -1};
    enum ps_status status = temp_beside(path, replacing->temp, err);
    if (status == PS_OK) {
        replacing->fd = open_nameless(path);
        replacing->named = replacing->fd < 0;
    }
    if (status == PS_OK && replacing->named) {
        replacing->fd = open(replacing->temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0640);
        status = replacing->fd < 0 ? failed(err, "open temporary file") : PS_OK;
    }
    return status == PS_OK ? PS_OK : ps_wrap(err, status, "replace '%s'", path);
}

enum ps_status ps_replacing_write(struct ps_replacing *replacing, uint64_t at, const void *data,
                                  size_t n_bytes, struct ps_error *err)
{
    const uint8_t *from = data;
    while (n_bytes > 0) {
        ssize_t n = pwrite(replacing->fd, from, n_bytes, (off_t)at);
        if (n < 0 && errno != EINTR) {
            enum ps_status status = failed(err, "write");
            return ps_wrap(err, status, "replace '%s'", replacing->path);
        }
        if (n > 0) {
            from += n;
            at += (uint64_t)n;
            n_bytes -= (size_t)n;
        }
    }
    return PS_OK;
}

enum ps_status ps_replacing_finish(struct ps_replacing *replacing, struct ps_error *err)
{
    const char *path = replacing->path;
    enum ps_status status = fsync(replacing->fd) < 0 ? failed(err, "fsync") : PS_OK;
    if (status == PS_OK) {
        status = give_name(replacing, err);
    }
    if (status == PS_OK && rename(replacing->temp, path) < 0) {
        status = failed(err, "rename");
    }
    if (status != PS_OK) {
        ps_replacing_cancel(replacing);
        return ps_wrap(err, status, "replace '%s'", path);
    }
    (void)close(replacing->fd); /* Synced. */
    status = sync_folder_of(&posix_calls, path, err);
    return status == PS_OK ? PS_OK : ps_wrap(err, status, "replace '%s'", path);
}

void ps_replacing_cancel(struct ps_replacing *replacing)
{
    (void)close(replacing->fd);
    if (replacing->named) {
        (void)unlink(replacing->temp); /* Best effort. */
    }
}

static enum ps_status disk_read(struct ps_disk *base PS_UNUSED, const char *path,
                                size_t n_bytes_max, uint8_t **ret, size_t *ret_n_bytes,
                                struct ps_error *err)
{
    return ps_file_read(NULL, path, n_bytes_max, ret, ret_n_bytes, err);
}

static bool make_one(const char *path, bool *made)
{
    struct stat info;
    if (mkdir(path, 0750) == 0) {
        *made = true;
        return true;
    }
    int why = errno;
    bool is_folder = why == EEXIST && stat(path, &info) == 0 && S_ISDIR(info.st_mode);
    errno = why;
    return is_folder;
}

/*
 * The last folder even if it was there: whoever made it may have been killed before this. Who may
 * not read the folder above cannot sync it, and has not made anything in it.
 */
static enum ps_status sync_above(const char *path, struct ps_error *err)
{
    enum ps_status status = sync_folder_of(&posix_calls, path, err);
    return status != PS_OK && (errno == EACCES || errno == EPERM) ? PS_OK : status;
}

static enum ps_status disk_make_dir(struct ps_disk *base PS_UNUSED, const char *path,
                                    struct ps_error *err)
{
    char part[PATH_MAX];
    size_t n_bytes = strlen(path);
    if (n_bytes == 0 || n_bytes >= sizeof(part)) {
        return ps_fail(err, PS_ERR_INVALID, "path of %zu bytes", n_bytes);
    }
    for (size_t i = 1; i <= n_bytes; i++) {
        if (path[i] != '/' && path[i] != '\0') {
            continue;
        }
        memcpy(part, path, i);
        part[i] = '\0';
        bool made = false;
        if (!make_one(part, &made)) {
            enum ps_status status = failed(err, "make it");
            return ps_wrap(err, status, "folder '%s'", part);
        }
        if (made || i == n_bytes) {
            enum ps_status status = sync_above(part, err);
            if (status != PS_OK) {
                return ps_wrap(err, status, "folder '%s'", part);
            }
        }
    }
    return PS_OK;
}

static const struct ps_disk_ops ops = {
    .read = disk_read,
    .replace = disk_replace,
    .make_dir = disk_make_dir,
    .sync_dir = ps_posix_dir_sync,
    .list = ps_posix_dir_list,
    .remove = ps_posix_remove,
    .rename = ps_posix_rename,
    .open = ps_posix_file_open,
    .lock = ps_posix_file_lock,
};

void ps_posix_disk_init(struct ps_posix_disk *disk, const struct ps_file_calls *calls)
{
    disk->base.ops = &ops;
    disk->calls = calls;
}

struct ps_disk *ps_posix_disk(void)
{
    static struct ps_posix_disk disk = {.base = {.ops = &ops}, .calls = &posix_calls};
    return &disk.base;
}

const struct ps_file_calls *ps_posix_file_calls(void)
{
    return &posix_calls;
}
