/* memory_disk.c — see memory_disk.h. */
#include "unit/train/memory_disk.h"

#include <stdio.h>
#include <string.h>

#include <check.h>

#include "base/attr.h"

static enum ps_status replace(struct ps_disk *disk, const char *path, const uint8_t *data,
                              size_t n_bytes, struct ps_error *err)
{
    struct memory_disk *memory = PS_CONTAINER_OF(disk, struct memory_disk, disk);
    if (memory->full) {
        return ps_fail(err, PS_ERR_IO, "the disk is full");
    }
    ck_assert_uint_le(n_bytes, sizeof(memory->data));
    (void)snprintf(memory->path, sizeof(memory->path), "%s", path);
    memcpy(memory->data, data, n_bytes);
    memory->n_bytes = n_bytes;
    return PS_OK;
}

void memory_disk_init(struct memory_disk *memory)
{
    static const struct ps_disk_ops ops = {.replace = replace};
    memset(memory, 0, sizeof(*memory));
    memory->disk.ops = &ops;
}
