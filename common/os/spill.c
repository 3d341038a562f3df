/* spill.c — see spill.h. */
#include "os/spill.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

static enum ps_status failed(struct ps_error *err, const char *what)
{
    return ps_fail(err, PS_ERR_IO, "%s: %s", what, strerrordesc_np(errno));
}

/* Where the file system has no files without a name: one that loses it at once. */
static int open_unlinked(const char *folder)
{
    char path[PATH_MAX];
    int n = snprintf(path, sizeof(path), "%s/.spill.XXXXXX", folder);
    if (n < 0 || (size_t)n >= sizeof(path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0) {
        (void)unlink(path);
    }
    return fd;
}

enum ps_status ps_spill_open(struct ps_spill *spill, const char *folder, struct ps_error *err)
{
    *spill = (struct ps_spill){.fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600)};
    if (spill->fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
        spill->fd = open_unlinked(folder);
    }
    if (spill->fd < 0) {
        return ps_fail(err, PS_ERR_IO, "cannot make a temporary file in '%s': %s", folder,
                       strerrordesc_np(errno));
    }
    return PS_OK;
}

enum ps_status ps_spill_add(struct ps_spill *spill, const void *data, size_t n_bytes,
                            struct ps_error *err)
{
    const uint8_t *from = data;
    while (n_bytes > 0) {
        ssize_t n = pwrite(spill->fd, from, n_bytes, (off_t)spill->n_bytes);
        if (n < 0 && errno != EINTR) {
            return failed(err, "writing a temporary file");
        }
        if (n > 0) {
            from += n;
            spill->n_bytes += (uint64_t)n;
            n_bytes -= (size_t)n;
        }
    }
    return PS_OK;
}

enum ps_status ps_spill_map(const struct ps_spill *spill, struct ps_file_view *ret,
                            struct ps_error *err)
{
    *ret = (struct ps_file_view){0};
    if (spill->n_bytes == 0) {
        return PS_OK;
    }
    void *data = mmap(NULL, (size_t)spill->n_bytes, PROT_READ, MAP_PRIVATE, spill->fd, 0);
    if (data == MAP_FAILED) {
        return failed(err, "mapping a temporary file");
    }
    *ret = (struct ps_file_view){.data = data, .n_bytes = (size_t)spill->n_bytes};
    return PS_OK;
}

void ps_spill_close(struct ps_spill *spill)
{
    (void)close(spill->fd);
    spill->fd = -1;
}
