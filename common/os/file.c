/* file.c — see file.h. */
#include "os/file.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define READ_BYTES_MIN 4096u

static enum ps_status open_file(const char *path, int *ret_fd, struct ps_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        enum ps_status status = errno == ENOENT ? PS_ERR_NOT_FOUND : PS_ERR_IO;
        return ps_fail(err, status, "cannot open '%s': %s", path, strerrordesc_np(errno));
    }
    *ret_fd = fd;
    return PS_OK;
}

static enum ps_status map_open(int fd, const char *path, struct ps_file_view *ret,
                               struct ps_error *err)
{
    struct stat info;
    if (fstat(fd, &info) < 0) {
        return ps_fail(err, PS_ERR_IO, "cannot examine '%s': %s", path, strerrordesc_np(errno));
    }
    if (!S_ISREG(info.st_mode)) {
        return ps_fail(err, PS_ERR_INVALID, "'%s' is not a regular file", path);
    }
    *ret = (struct ps_file_view){0};
    if (info.st_size == 0) {
        return PS_OK; /* mmap refuses length 0. */
    }
    void *data = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) {
        return ps_fail(err, PS_ERR_IO, "cannot map '%s': %s", path, strerrordesc_np(errno));
    }
    *ret = (struct ps_file_view){.data = data, .n_bytes = (size_t)info.st_size};
    return PS_OK;
}

enum ps_status ps_file_map(const char *path, struct ps_file_view *ret, struct ps_error *err)
{
    int fd = -1;
    enum ps_status status = open_file(path, &fd, err);
    if (status != PS_OK) {
        return status;
    }
    status = map_open(fd, path, ret, err);
    (void)close(fd); /* Read only: nothing to lose. The mapping stays. */
    return status;
}

void ps_file_unmap(struct ps_file_view *view)
{
    if (view->n_bytes > 0) {
        union {
            const uint8_t *borrowed;
            void *wanted; /* munmap takes the address only. */
        } address = {.borrowed = view->data};
        (void)munmap(address.wanted, view->n_bytes);
    }
    *view = (struct ps_file_view){0};
}

/* Bytes read so far, in memory that grows by doubling. */
struct content {
    struct ps_mem *mem;
    uint8_t *data;
    size_t n_bytes;
    size_t n_room; /* Bytes of `data`; one of them stays free for the final 0. */
};

static bool make_room(struct content *content, size_t n_room)
{
    uint8_t *data = ps_mem_grow(content->mem, PS_MEM_DATA, content->data, n_room);
    if (data == NULL) {
        return false;
    }
    content->data = data;
    content->n_room = n_room;
    return true;
}

static size_t first_room(int fd, size_t n_bytes_max)
{
    struct stat info;
    if (fstat(fd, &info) < 0 || info.st_size <= 0 || (uint64_t)info.st_size > n_bytes_max) {
        return READ_BYTES_MIN; /* Of unknown size, or refused soon. */
    }
    return (size_t)info.st_size + 2; /* The final 0, and one more to see the end. */
}

static enum ps_status read_open(int fd, size_t n_bytes_max, struct content *content,
                                struct ps_error *err)
{
    if (!make_room(content, first_room(fd, n_bytes_max))) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory");
    }
    for (;;) {
        if (content->n_bytes + 1 == content->n_room && !make_room(content, content->n_room * 2)) {
            return ps_fail(err, PS_ERR_NOMEM, "no memory for more than %zu bytes",
                           content->n_bytes);
        }
        ssize_t n_read =
            read(fd, content->data + content->n_bytes, content->n_room - content->n_bytes - 1);
        if (n_read < 0) {
            if (errno == EINTR) {
                continue;
            }
            return ps_fail(err, PS_ERR_IO, "%s", strerrordesc_np(errno));
        }
        if (n_read == 0) {
            content->data[content->n_bytes] = 0;
            return PS_OK;
        }
        content->n_bytes += (size_t)n_read;
        if (content->n_bytes > n_bytes_max) {
            return ps_fail(err, PS_ERR_INVALID, "longer than %zu bytes", n_bytes_max);
        }
    }
}

enum ps_status ps_file_read(struct ps_mem *mem, const char *path, size_t n_bytes_max, uint8_t **ret,
                            size_t *ret_n_bytes, struct ps_error *err)
{
    int fd = -1;
    enum ps_status status = open_file(path, &fd, err);
    if (status != PS_OK) {
        return status;
    }
    struct content content = {.mem = mem};
    status = read_open(fd, n_bytes_max, &content, err);
    (void)close(fd);
    if (status != PS_OK) {
        ps_mem_free(content.data);
        return ps_wrap(err, status, "cannot read '%s'", path);
    }
    *ret = content.data;
    *ret_n_bytes = content.n_bytes;
    return PS_OK;
}
