/* sim_disk.c — see sim_disk.h. */
#include "sim/sim_disk.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"

static struct sim_disk *sim_of(struct ps_disk *disk)
{
    return PS_CONTAINER_OF(disk, struct sim_disk, base);
}

static struct sim_file *find(struct sim_disk *disk, const char *path)
{
    for (uint32_t i = 0; i < disk->n_files; i++) {
        if (strcmp(disk->files[i].path, path) == 0) {
            return &disk->files[i];
        }
    }
    return NULL;
}

static enum ps_status read_file(struct ps_disk *base, const char *path, size_t n_bytes_max,
                                uint8_t **ret, size_t *ret_n_bytes, struct ps_error *err)
{
    const struct sim_file *file = find(sim_of(base), path);
    if (file == NULL) {
        return ps_fail(err, PS_ERR_NOT_FOUND, "%s: no such file", path);
    }
    if (file->n_bytes > n_bytes_max) {
        return ps_fail(err, PS_ERR_INVALID, "%s: longer than %zu bytes", path, n_bytes_max);
    }
    uint8_t *data = ps_mem_alloc(NULL, PS_MEM_OTHER, file->n_bytes);
    PS_ASSERT(data != NULL);
    if (file->n_bytes > 0) {
        memcpy(data, file->data, file->n_bytes);
    }
    *ret = data;
    *ret_n_bytes = file->n_bytes;
    return PS_OK;
}

static void write_file(struct sim_disk *disk, const char *path, const uint8_t *data, size_t n_bytes)
{
    struct sim_file *file = find(disk, path);
    if (file == NULL) {
        PS_ASSERT(disk->n_files < SIM_FILES_MAX);
        PS_ASSERT(strlen(path) < sizeof(file->path));
        file = &disk->files[disk->n_files++];
        (void)snprintf(file->path, sizeof(file->path), "%s", path);
    }
    ps_mem_free(file->data);
    file->data = ps_mem_alloc(NULL, PS_MEM_OTHER, n_bytes);
    PS_ASSERT(file->data != NULL);
    if (n_bytes > 0) {
        memcpy(file->data, data, n_bytes);
    }
    file->n_bytes = n_bytes;
}

static enum ps_status replace(struct ps_disk *base, const char *path, const uint8_t *data,
                              size_t n_bytes, struct ps_error *err)
{
    struct sim_disk *disk = sim_of(base);
    bool fails = sim_chance(disk->world, disk->fail_per_mille);
    if (!fails || sim_below(disk->world, 2) == 0) {
        write_file(disk, path, data, n_bytes);
        disk->n_replaced++;
    }
    return fails ? ps_fail(err, PS_ERR_IO, "%s: input/output error", path) : PS_OK;
}

static enum ps_status make_dir(struct ps_disk *base PS_UNUSED, const char *path PS_UNUSED,
                               struct ps_error *err PS_UNUSED)
{
    return PS_OK; /* Folders exist when asked for; nobody lists them. */
}

static const struct ps_disk_ops ops = {
    .read = read_file,
    .replace = replace,
    .make_dir = make_dir,
};

void sim_disk_init(struct sim_disk *disk, struct sim_world *world)
{
    *disk = (struct sim_disk){.base.ops = &ops, .world = world};
}

void sim_disk_deinit(struct sim_disk *disk)
{
    for (uint32_t i = 0; i < disk->n_files; i++) {
        ps_mem_free(disk->files[i].data);
    }
    disk->n_files = 0;
}
