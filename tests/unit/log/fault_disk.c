/* fault_disk.c — see fault_disk.h. */
#include "unit/log/fault_disk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/attr.h"
#include "base/mem.h"

#define SECTOR_BYTES 512u

struct open_file {
    struct ps_disk_file base;
    struct fault_disk *disk;
    int file;
};

static struct fault_disk *fault_of(struct ps_disk *disk)
{
    return PS_CONTAINER_OF(disk, struct fault_disk, base);
}

static struct open_file *open_of(struct ps_disk_file *file)
{
    return PS_CONTAINER_OF(file, struct open_file, base);
}

/* PS_OK: the operation is done. */
static enum ps_status step(struct fault_disk *disk, struct ps_error *err)
{
    uint64_t op = disk->n_ops++;
    if (op >= disk->last_op) {
        return ps_fail(err, PS_ERR_IO, "the process is dead");
    }
    if (op >= disk->fail_from && op < disk->fail_to) {
        return ps_fail(err, disk->fail_with, "operation %u fails", (unsigned)op);
    }
    return PS_OK;
}

static void resize(struct fault_content *content, uint64_t n_bytes)
{
    uint8_t *data = realloc(content->data, n_bytes == 0 ? 1 : n_bytes);
    PS_ASSERT(data != NULL);
    if (n_bytes > content->n_bytes) {
        memset(data + content->n_bytes, 0, n_bytes - content->n_bytes);
    }
    content->data = data;
    content->n_bytes = n_bytes;
}

static void copy(struct fault_content *to, const struct fault_content *from)
{
    resize(to, from->n_bytes);
    if (from->n_bytes > 0) {
        memcpy(to->data, from->data, from->n_bytes);
    }
}

static int find(const struct fault_disk *disk, const char *path, uint32_t n_names)
{
    for (uint32_t i = n_names; i > 0; i--) {
        if (strcmp(disk->names[i - 1].path, path) == 0) {
            return disk->names[i - 1].file;
        }
    }
    return -1;
}

static void name(struct fault_disk *disk, const char *path, int file)
{
    PS_ASSERT(disk->n_names < FAULT_NAMES_MAX);
    struct fault_name *to = &disk->names[disk->n_names++];
    (void)snprintf(to->path, sizeof(to->path), "%s", path);
    to->file = file;
}

static int new_file(struct fault_disk *disk)
{
    PS_ASSERT(disk->n_files < FAULT_FILES_MAX);
    resize(&disk->files[disk->n_files].now, 0);
    resize(&disk->files[disk->n_files].synced, 0);
    return (int)disk->n_files++;
}

static bool named(const struct fault_disk *disk, int file)
{
    for (uint32_t i = 0; i < disk->n_names; i++) {
        if (disk->names[i].file == file && find(disk, disk->names[i].path, disk->n_names) == file) {
            return true;
        }
    }
    return false;
}

/* Could the files grow by so much? */
static bool has_room(const struct fault_disk *disk, uint64_t n_more)
{
    uint64_t n_bytes = n_more;
    for (uint32_t i = 0; i < disk->n_files; i++) {
        n_bytes += named(disk, (int)i) ? disk->files[i].now.n_bytes : 0;
    }
    return disk->n_room == 0 || n_more == 0 || n_bytes <= disk->n_room;
}

/* ---- Open files ------------------------------------------------------------------------------ */

static enum ps_status file_write(struct ps_disk_file *base, uint64_t at,
                                 const struct ps_slice *slices, size_t n_slices,
                                 struct ps_error *err)
{
    struct open_file *file = open_of(base);
    struct fault_content *now = &file->disk->files[file->file].now;
    bool dead = file->disk->n_ops >= file->disk->last_op;
    enum ps_status status = step(file->disk, err);
    file->disk->n_writes++;
    if (dead) {
        return status;
    }
    uint64_t n_bytes = 0;
    for (size_t i = 0; i < n_slices; i++) {
        n_bytes += slices[i].n_bytes;
    }
    if (at + n_bytes > now->n_bytes && !has_room(file->disk, at + n_bytes - now->n_bytes)) {
        return ps_fail(err, PS_ERR_NO_SPACE, "no space");
    }
    /* One that fails has written the first half. */
    uint64_t n_todo = status == PS_OK ? n_bytes : n_bytes / 2;
    resize(now, now->n_bytes > at + n_todo ? now->n_bytes : at + n_todo);
    for (size_t i = 0; i < n_slices && n_todo > 0; i++) {
        uint64_t n = slices[i].n_bytes < n_todo ? slices[i].n_bytes : n_todo;
        memcpy(now->data + at, slices[i].data, n);
        at += n;
        n_todo -= n;
    }
    return status;
}

static enum ps_status file_read(struct ps_disk_file *base, uint64_t at, void *to, size_t n_bytes,
                                size_t *ret_n_bytes, struct ps_error *err)
{
    struct open_file *file = open_of(base);
    const struct fault_content *now = &file->disk->files[file->file].now;
    (void)err;
    uint64_t n_left = at < now->n_bytes ? now->n_bytes - at : 0;
    *ret_n_bytes = n_left < n_bytes ? (size_t)n_left : n_bytes;
    if (*ret_n_bytes > 0) {
        memcpy(to, now->data + at, *ret_n_bytes);
    }
    return PS_OK;
}

static enum ps_status file_sync(struct ps_disk_file *base, struct ps_error *err)
{
    struct open_file *file = open_of(base);
    enum ps_status status = step(file->disk, err);
    file->disk->n_syncs++;
    if (status == PS_OK) {
        copy(&file->disk->files[file->file].synced, &file->disk->files[file->file].now);
    }
    return status;
}

static enum ps_status file_truncate(struct ps_disk_file *base, uint64_t n_bytes,
                                    struct ps_error *err)
{
    struct open_file *file = open_of(base);
    enum ps_status status = step(file->disk, err);
    if (status == PS_OK) {
        resize(&file->disk->files[file->file].now, n_bytes);
    }
    return status;
}

static enum ps_status file_size(struct ps_disk_file *base, uint64_t *ret, struct ps_error *err)
{
    (void)err;
    *ret = open_of(base)->disk->files[open_of(base)->file].now.n_bytes;
    return PS_OK;
}

static enum ps_status file_allocate(struct ps_disk_file *base, uint64_t n_bytes,
                                    struct ps_error *err)
{
    struct open_file *file = open_of(base);
    struct fault_content *now = &file->disk->files[file->file].now;
    enum ps_status status = step(file->disk, err);
    if (status != PS_OK || n_bytes <= now->n_bytes) {
        return status;
    }
    if (!has_room(file->disk, n_bytes - now->n_bytes)) {
        return ps_fail(err, PS_ERR_NO_SPACE, "no space");
    }
    resize(now, n_bytes);
    return PS_OK;
}

static void file_forget(struct ps_disk_file *base)
{
    (void)base;
}

static void file_pass_by(struct ps_disk_file *base)
{
    (void)base;
}

static void file_close(struct ps_disk_file *base)
{
    open_of(base)->disk->n_open--;
    free(open_of(base));
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

/* ---- Names ----------------------------------------------------------------------------------- */

static enum ps_status open_file(struct ps_disk *base, const char *path, enum ps_disk_open how,
                                struct ps_disk_file **ret, struct ps_error *err)
{
    struct fault_disk *disk = fault_of(base);
    int at = find(disk, path, disk->n_names);
    if (how == PS_DISK_READ || how == PS_DISK_WRITE) {
        if (at < 0) {
            return ps_fail(err, PS_ERR_NOT_FOUND, "%s: no such file", path);
        }
    } else {
        if (how == PS_DISK_CREATE && at >= 0) {
            return ps_fail(err, PS_ERR_EXISTS, "%s: is there", path);
        }
        enum ps_status status = step(disk, err);
        if (status != PS_OK) {
            return status;
        }
        if (at < 0) {
            at = new_file(disk);
            name(disk, path, at);
        }
        resize(&disk->files[at].now, 0);
    }
    struct open_file *file = malloc(sizeof(*file));
    PS_ASSERT(file != NULL);
    *file = (struct open_file){.base.ops = &file_ops, .disk = disk, .file = at};
    disk->n_open++;
    *ret = &file->base;
    return PS_OK;
}

static enum ps_status rename_file(struct ps_disk *base, const char *from, const char *to,
                                  struct ps_error *err)
{
    struct fault_disk *disk = fault_of(base);
    enum ps_status status = step(disk, err);
    int at = find(disk, from, disk->n_names);
    PS_ASSERT(at >= 0);
    if (status == PS_OK) {
        name(disk, to, at);
        name(disk, from, -1);
    }
    return status;
}

static enum ps_status remove_file(struct ps_disk *base, const char *path, struct ps_error *err)
{
    struct fault_disk *disk = fault_of(base);
    if (find(disk, path, disk->n_names) < 0) {
        return ps_fail(err, PS_ERR_NOT_FOUND, "%s: no such file", path);
    }
    enum ps_status status = step(disk, err);
    if (status == PS_OK) {
        name(disk, path, -1);
    }
    return status;
}

static enum ps_status sync_dir(struct ps_disk *base, const char *path, struct ps_error *err)
{
    struct fault_disk *disk = fault_of(base);
    (void)path; /* There is one. */
    enum ps_status status = step(disk, err);
    disk->n_syncs++;
    if (status == PS_OK) {
        disk->n_names_synced = disk->n_names;
    }
    return status;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct ps_disk_entry *)a)->name, ((const struct ps_disk_entry *)b)->name);
}

static enum ps_status list(struct ps_disk *base, const char *path, struct ps_disk_entry **ret,
                           size_t *ret_n, struct ps_error *err)
{
    struct fault_disk *disk = fault_of(base);
    (void)err;
    struct ps_disk_entry *entries =
        ps_mem_array(NULL, PS_MEM_OTHER, disk->n_names + 1, sizeof(*entries));
    PS_ASSERT(entries != NULL);
    size_t n = 0;
    for (uint32_t i = 0; i < disk->n_names; i++) {
        const struct fault_name *at = &disk->names[i];
        bool last = true;
        for (uint32_t k = i + 1; k < disk->n_names; k++) {
            last = last && strcmp(disk->names[k].path, at->path) != 0;
        }
        if (last && at->file >= 0) {
            (void)snprintf(entries[n++].name, sizeof(entries[0].name), "%s",
                           at->path + strlen(path) + 1);
        }
    }
    qsort(entries, n, sizeof(*entries), by_name);
    *ret = entries;
    *ret_n = n;
    return PS_OK;
}

static const struct ps_disk_ops ops = {
    .sync_dir = sync_dir,
    .list = list,
    .remove = remove_file,
    .rename = rename_file,
    .open = open_file,
};

/* ---- The test's side ------------------------------------------------------------------------- */

void fault_disk_init(struct fault_disk *disk)
{
    memset(disk, 0, sizeof(*disk));
    disk->base.ops = &ops;
    fault_disk_heal(disk);
}

void fault_disk_deinit(struct fault_disk *disk)
{
    for (uint32_t i = 0; i < disk->n_files; i++) {
        free(disk->files[i].now.data);
        free(disk->files[i].synced.data);
    }
}

void fault_disk_heal(struct fault_disk *disk)
{
    disk->fail_from = UINT64_MAX;
    disk->fail_to = UINT64_MAX;
    disk->fail_with = PS_ERR_IO;
    disk->last_op = UINT64_MAX;
}

static void cut_file(struct fault_file *file, struct ps_rng *rng)
{
    uint64_t n_bytes = ps_rng_below(rng, 2) == 0 ? file->now.n_bytes : file->synced.n_bytes;
    struct fault_content left = {0};
    resize(&left, n_bytes);
    for (uint64_t at = 0; at < n_bytes; at += SECTOR_BYTES) {
        const struct fault_content *from = ps_rng_below(rng, 2) == 0 ? &file->now : &file->synced;
        uint64_t n_end = at + SECTOR_BYTES < n_bytes ? at + SECTOR_BYTES : n_bytes;
        n_end = n_end < from->n_bytes ? n_end : from->n_bytes;
        if (at < n_end) {
            memcpy(left.data + at, from->data + at, n_end - at);
        }
    }
    copy(&file->now, &left);
    copy(&file->synced, &left);
    free(left.data);
}

void fault_disk_cut(struct fault_disk *disk, struct ps_rng *rng)
{
    uint32_t n_new = disk->n_names - disk->n_names_synced;
    /* The two halves of a rename are one change. */
    disk->n_names = disk->n_names_synced + (uint32_t)ps_rng_below(rng, n_new + 1u);
    if (disk->n_names > disk->n_names_synced && disk->names[disk->n_names - 1].file >= 0 &&
        n_new > disk->n_names - disk->n_names_synced && disk->names[disk->n_names].file < 0 &&
        find(disk, disk->names[disk->n_names].path, disk->n_names) ==
            disk->names[disk->n_names - 1].file) {
        disk->n_names++;
    }
    disk->n_names_synced = disk->n_names;
    for (uint32_t i = 0; i < disk->n_files; i++) {
        cut_file(&disk->files[i], rng);
    }
}

struct fault_content *fault_disk_content(struct fault_disk *disk, const char *path)
{
    int at = find(disk, path, disk->n_names);
    return at < 0 ? NULL : &disk->files[at].now;
}

void fault_disk_put(struct fault_disk *disk, const char *path, const uint8_t *data,
                    uint64_t n_bytes)
{
    int at = find(disk, path, disk->n_names);
    if (at < 0) {
        at = new_file(disk);
        name(disk, path, at);
        disk->n_names_synced = disk->n_names;
    }
    const struct fault_content content = {.data = malloc(n_bytes + 1), .n_bytes = n_bytes};
    PS_ASSERT(content.data != NULL);
    memcpy(content.data, data, n_bytes);
    copy(&disk->files[at].now, &content);
    copy(&disk->files[at].synced, &content);
    free(content.data);
}
