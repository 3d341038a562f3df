/* sim_disk.c — see sim_disk.h. */
#include "sim/sim_disk.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"

struct port {
    struct ps_disk base;
    struct ps_list entry;
    struct sim_disk *disk;
    struct sim_node *node;
};

struct file {
    struct ps_disk_file base;
    struct port *port;
    struct sim_inode *inode;
    bool lock;
    char path[160]; /* For words. */
};

static struct port *port_of(struct ps_disk *base)
{
    return PS_CONTAINER_OF(base, struct port, base);
}

static struct file *file_of(struct ps_disk_file *base)
{
    return PS_CONTAINER_OF(base, struct file, base);
}

static bool dead(const struct port *port)
{
    return port->node != NULL && port->node->crashed;
}

static struct sim_medium *medium_of(struct port *port)
{
    return &port->disk->medium;
}

static enum ps_status no_such(struct ps_error *err, const char *path)
{
    return ps_fail(err, PS_ERR_NOT_FOUND, "%s: no such file or directory", path);
}

static enum ps_status fails(struct port *port, struct ps_error *err, const char *path,
                            enum ps_status status)
{
    port->disk->n_failed++;
    sim_trace(port->disk->world, port->node, "disk fails", ps_status_text(status), 0, 0);
    return ps_fail(err, status, "%s: %s", path,
                   status == PS_ERR_NO_SPACE ? "no space left on device" : "input/output error");
}

/* True when the process dies in this operation, of which the medium has seen a part or nothing. */
static bool dies_here(struct port *port)
{
    struct sim_disk *disk = port->disk;
    if (disk->faults.crash_in == 0 || dead(port) || port->node == NULL) {
        return false;
    }
    disk->faults.crash_in--;
    return disk->faults.crash_in == 0;
}

static void die(struct port *port)
{
    if (port->disk->crash != NULL) {
        port->disk->crash(port->disk->arg, port->node);
    }
}

uint64_t sim_disk_used(const struct sim_disk *disk)
{
    uint64_t n_bytes = 0;
    ps_list_for_each (at, &disk->medium.inodes) {
        n_bytes += sim_inode_room(PS_CONTAINER_OF(at, struct sim_inode, entry));
    }
    return n_bytes;
}

/* Is there no room for a file that grows to `n_bytes`? */
static bool full(const struct sim_disk *disk, const struct sim_inode *inode, uint64_t n_bytes)
{
    uint64_t has = inode != NULL ? sim_inode_room(inode) : 0;
    n_bytes = (n_bytes + SIM_SECTOR - 1) / SIM_SECTOR * SIM_SECTOR;
    return disk->faults.n_bytes_room > 0 && n_bytes > has &&
           sim_disk_used(disk) + n_bytes - has > disk->faults.n_bytes_room;
}

/* ---- Files --------------------------------------------------------------------------------- */

static uint8_t *gather(const struct ps_slice *slices, size_t n_slices, size_t *ret_n_bytes)
{
    size_t n_bytes = 0;
    for (size_t i = 0; i < n_slices; i++) {
        n_bytes += slices[i].n_bytes;
    }
    uint8_t *bytes = ps_mem_alloc(NULL, PS_MEM_OTHER, n_bytes);
    PS_ASSERT(bytes != NULL);
    uint8_t *to = bytes;
    for (size_t i = 0; i < n_slices; i++) {
        if (slices[i].n_bytes > 0) {
            memcpy(to, slices[i].data, slices[i].n_bytes);
        }
        to += slices[i].n_bytes;
    }
    *ret_n_bytes = n_bytes;
    return bytes;
}

/*
 * One sector of what was written lies elsewhere on the platter, over what was there, and is missing
 * where it should be. Memory knows nothing of it until the machine starts again.
 */
static void lead_astray(struct file *file, uint64_t at, size_t n_bytes)
{
    struct sim_world *world = file->port->disk->world;
    struct sim_inode *inode = file->inode;
    uint64_t n_sectors = inode->n_stored / SIM_SECTOR;
    uint64_t from = at / SIM_SECTOR + sim_below(world, n_bytes / SIM_SECTOR + 1);
    uint64_t to = sim_below(world, n_sectors);
    if (from >= n_sectors || from == to) {
        return;
    }
    memcpy(inode->platter + to * SIM_SECTOR, inode->memory + from * SIM_SECTOR, SIM_SECTOR);
    inode->sectors[from] = SIM_SECTOR_LOST;
    inode->sectors[to] = SIM_SECTOR_LOST;
    file->port->disk->n_astray++;
    sim_trace(world, file->port->node, "sector astray", NULL, from, to);
}

static enum ps_status write_some(struct file *file, uint64_t at, const uint8_t *bytes,
                                 size_t n_bytes, struct ps_error *err)
{
    struct port *port = file->port;
    struct sim_disk *disk = port->disk;
    if (dies_here(port)) {
        sim_inode_write(file->inode, at, bytes, sim_below(disk->world, n_bytes + 1), port->node);
        die(port);
        return PS_OK;
    }
    if (full(disk, file->inode, at + n_bytes)) {
        size_t n_part = sim_below(disk->world, n_bytes + 1);
        if (!full(disk, file->inode, at + n_part)) {
            sim_inode_write(file->inode, at, bytes, n_part, port->node);
        }
        return fails(port, err, file->path, PS_ERR_NO_SPACE);
    }
    if (sim_chance(disk->world, disk->faults.write_fails_pm)) {
        sim_inode_write(file->inode, at, bytes, sim_below(disk->world, n_bytes + 1), port->node);
        return fails(port, err, file->path, PS_ERR_IO);
    }
    sim_inode_write(file->inode, at, bytes, n_bytes, port->node);
    disk->n_written++;
    sim_trace(disk->world, port->node, "write", NULL, at, n_bytes);
    if (n_bytes > 0 && sim_chance(disk->world, disk->faults.astray_pm)) {
        lead_astray(file, at, n_bytes);
    }
    return PS_OK;
}

static enum ps_status file_write(struct ps_disk_file *base, uint64_t at,
                                 const struct ps_slice *slices, size_t n_slices,
                                 struct ps_error *err)
{
    struct file *file = file_of(base);
    if (dead(file->port)) {
        return PS_OK;
    }
    size_t n_bytes = 0;
    uint8_t *bytes = gather(slices, n_slices, &n_bytes);
    enum ps_status status = write_some(file, at, bytes, n_bytes, err);
    ps_mem_free(bytes);
    return status;
}

static enum ps_status file_read(struct ps_disk_file *base, uint64_t at, void *to, size_t n_bytes,
                                size_t *ret_n_bytes, struct ps_error *err PS_UNUSED)
{
    const struct sim_inode *inode = file_of(base)->inode;
    uint64_t n_there = at < inode->n_bytes ? inode->n_bytes - at : 0;
    *ret_n_bytes = n_there < n_bytes ? (size_t)n_there : n_bytes;
    sim_inode_read(inode, at, to, *ret_n_bytes);
    return PS_OK;
}

static enum ps_status file_sync(struct ps_disk_file *base, struct ps_error *err)
{
    struct file *file = file_of(base);
    struct sim_disk *disk = file->port->disk;
    if (dead(file->port)) {
        return PS_OK;
    }
    if (dies_here(file->port)) {
        die(file->port);
        return PS_OK;
    }
    if (sim_chance(disk->world, disk->faults.sync_fails_pm)) {
        sim_inode_sync_fails(file->inode, disk->world);
        return fails(file->port, err, file->path, PS_ERR_IO);
    }
    sim_inode_sync(file->inode);
    disk->n_synced++;
    sim_trace(disk->world, file->port->node, "sync", NULL, file->inode->n_bytes, 0);
    return PS_OK;
}

static enum ps_status file_allocate(struct ps_disk_file *base, uint64_t n_bytes,
                                    struct ps_error *err)
{
    struct file *file = file_of(base);
    struct sim_inode *inode = file->inode;
    if (dead(file->port) || n_bytes <= inode->n_bytes) {
        return PS_OK;
    }
    if (full(file->port->disk, inode, n_bytes)) {
        return fails(file->port, err, file->path, PS_ERR_NO_SPACE);
    }
    sim_inode_resize(inode, n_bytes, file->port->node);
    inode->n_allocated = n_bytes;
    return PS_OK;
}

static enum ps_status file_truncate(struct ps_disk_file *base, uint64_t n_bytes,
                                    struct ps_error *err PS_UNUSED)
{
    struct file *file = file_of(base);
    if (!dead(file->port)) {
        sim_inode_resize(file->inode, n_bytes, file->port->node);
    }
    return PS_OK;
}

static enum ps_status file_size(struct ps_disk_file *base, uint64_t *ret,
                                struct ps_error *err PS_UNUSED)
{
    *ret = file_of(base)->inode->n_bytes;
    return PS_OK;
}

static void file_forget(struct ps_disk_file *base)
{
    if (!dead(file_of(base)->port)) {
        sim_inode_forget(file_of(base)->inode);
    }
}

static void file_pass_by(struct ps_disk_file *base PS_UNUSED)
{
    /* Where bytes are until they are synced is the medium's choice anyway. */
}

static void file_close(struct ps_disk_file *base)
{
    struct file *file = file_of(base);
    if (file->lock && file->inode->locker == file->port->node) {
        file->inode->locker = NULL;
    }
    sim_inode_unref(file->inode);
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

static struct file *make_file(struct port *port, const char *path, struct sim_inode *inode)
{
    struct file *file = ps_mem_alloc(NULL, PS_MEM_OTHER, sizeof(*file));
    PS_ASSERT(file != NULL);
    file->base.ops = &file_ops;
    file->port = port;
    file->inode = inode;
    sim_inode_ref(inode);
    (void)snprintf(file->path, sizeof(file->path), "%s", path);
    return file;
}

/* ---- By name ------------------------------------------------------------------------------- */

static enum ps_status disk_open(struct ps_disk *base, const char *path, enum ps_disk_open how,
                                struct ps_disk_file **ret, struct ps_error *err)
{
    struct port *port = port_of(base);
    char name[SIM_NAME_BYTES];
    struct sim_inode *parent = sim_medium_parent(medium_of(port), path, name);
    struct sim_inode *inode = parent != NULL ? sim_folder_find(parent, name) : NULL;
    bool make = how == PS_DISK_CREATE || how == PS_DISK_ANEW;
    if (parent == NULL || (inode == NULL && !make)) {
        return no_such(err, path);
    }
    if (inode != NULL && (how == PS_DISK_CREATE || inode->folder)) {
        return ps_fail(err, PS_ERR_EXISTS, "%s: exists", path);
    }
    if (inode != NULL && how == PS_DISK_ANEW && !dead(port)) {
        sim_inode_resize(inode, 0, port->node);
    }
    if (inode == NULL) { /* Of the dead: under no name. */
        inode = sim_medium_create(medium_of(port), dead(port) ? medium_of(port)->limbo : parent,
                                  name, false, port->node);
    }
    *ret = &make_file(port, path, inode)->base;
    return PS_OK;
}

static enum ps_status disk_lock(struct ps_disk *base, const char *path, struct ps_disk_file **ret,
                                struct ps_error *err)
{
    struct port *port = port_of(base);
    const struct sim_inode *inode = sim_medium_find(medium_of(port), path);
    bool held = inode != NULL && inode->locker != NULL && !inode->locker->crashed;
    if (held && inode->locker != port->node) {
        return ps_fail(err, PS_ERR_EXISTS, "%s: is in use by process %" PRIu32, path,
                       inode->locker->number);
    }
    enum ps_status status = disk_open(base, path, PS_DISK_ANEW, ret, err);
    if (status == PS_OK) {
        struct file *file = file_of(*ret);
        file->lock = true;
        file->inode->locker = dead(port) ? file->inode->locker : port->node;
    }
    return status;
}

static enum ps_status disk_read(struct ps_disk *base, const char *path, size_t n_bytes_max,
                                uint8_t **ret, size_t *ret_n_bytes, struct ps_error *err)
{
    const struct sim_inode *inode = sim_medium_find(medium_of(port_of(base)), path);
    if (inode == NULL || inode->folder) {
        return no_such(err, path);
    }
    if (inode->n_bytes > n_bytes_max) {
        return ps_fail(err, PS_ERR_INVALID, "%s: longer than %zu bytes", path, n_bytes_max);
    }
    uint8_t *data = ps_mem_alloc(NULL, PS_MEM_OTHER, (size_t)inode->n_bytes);
    PS_ASSERT(data != NULL);
    sim_inode_read(inode, 0, data, (size_t)inode->n_bytes);
    *ret = data;
    *ret_n_bytes = (size_t)inode->n_bytes;
    return PS_OK;
}

/* As a new file that takes the place of the old one, all synced. */
static void replace_now(struct port *port, struct sim_inode *parent, const char *name,
                        const uint8_t *data, size_t n_bytes)
{
    struct sim_inode *inode = sim_medium_create(medium_of(port), parent, name, false, port->node);
    sim_inode_write(inode, 0, data, n_bytes, port->node);
    sim_inode_sync(inode);
    sim_folder_sync(parent);
    port->disk->n_written++;
    sim_trace(port->disk->world, port->node, "replace", NULL, n_bytes, 0);
}

static enum ps_status disk_replace(struct ps_disk *base, const char *path, const uint8_t *data,
                                   size_t n_bytes, struct ps_error *err)
{
    struct port *port = port_of(base);
    struct sim_disk *disk = port->disk;
    char name[SIM_NAME_BYTES];
    struct sim_inode *parent = sim_medium_parent(medium_of(port), path, name);
    if (dead(port)) {
        return PS_OK;
    }
    if (parent == NULL) {
        return no_such(err, path);
    }
    if (full(disk, NULL, n_bytes)) {
        return fails(port, err, path, PS_ERR_NO_SPACE);
    }
    bool dies = dies_here(port);
    bool fault = !dies && sim_chance(disk->world, disk->faults.write_fails_pm);
    if (!(fault || dies) || sim_below(disk->world, 2) == 0) {
        replace_now(port, parent, name, data, n_bytes);
    }
    if (dies) {
        die(port);
    }
    return fault ? fails(port, err, path, PS_ERR_IO) : PS_OK;
}

static enum ps_status disk_make_dir(struct ps_disk *base, const char *path, struct ps_error *err)
{
    struct port *port = port_of(base);
    char part[256];
    char name[SIM_NAME_BYTES];
    if (dead(port)) {
        return PS_OK;
    }
    for (size_t n = 1; n <= strlen(path); n++) {
        if (path[n] != '/' && path[n] != '\0') {
            continue;
        }
        (void)snprintf(part, sizeof(part), "%.*s", (int)n, path);
        struct sim_inode *inode = sim_medium_find(medium_of(port), part);
        struct sim_inode *parent = sim_medium_parent(medium_of(port), part, name);
        if (inode == NULL && parent != NULL) {
            inode = sim_medium_create(medium_of(port), parent, name, true, port->node);
        }
        if (inode == NULL || !inode->folder) {
            return ps_fail(err, PS_ERR_IO, "%s: not a directory", part);
        }
        sim_folder_sync(parent);
    }
    return PS_OK;
}

static enum ps_status disk_sync_dir(struct ps_disk *base, const char *path, struct ps_error *err)
{
    struct port *port = port_of(base);
    struct sim_inode *inode = sim_medium_find(medium_of(port), path);
    if (dead(port)) {
        return PS_OK;
    }
    if (inode == NULL || !inode->folder) {
        return no_such(err, path);
    }
    if (dies_here(port)) {
        die(port);
        return PS_OK;
    }
    if (sim_chance(port->disk->world, port->disk->faults.sync_fails_pm)) {
        return fails(port, err, path, PS_ERR_IO);
    }
    sim_folder_sync(inode);
    return PS_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct ps_disk_entry *)a)->name, ((const struct ps_disk_entry *)b)->name);
}

static enum ps_status disk_list(struct ps_disk *base, const char *path, struct ps_disk_entry **ret,
                                size_t *ret_n, struct ps_error *err)
{
    const struct sim_inode *inode = sim_medium_find(medium_of(port_of(base)), path);
    if (inode == NULL || !inode->folder) {
        return no_such(err, path);
    }
    struct ps_disk_entry *entries =
        ps_mem_array(NULL, PS_MEM_OTHER, inode->now.n + 1, sizeof(*entries));
    PS_ASSERT(entries != NULL);
    for (uint32_t i = 0; i < inode->now.n; i++) {
        (void)snprintf(entries[i].name, sizeof(entries[i].name), "%s", inode->now.at[i].name);
        entries[i].is_dir = inode->now.at[i].inode->folder;
    }
    qsort(entries, inode->now.n, sizeof(*entries), by_name);
    *ret = entries;
    *ret_n = inode->now.n;
    return PS_OK;
}

static enum ps_status disk_remove(struct ps_disk *base, const char *path, struct ps_error *err)
{
    struct port *port = port_of(base);
    char name[SIM_NAME_BYTES];
    struct sim_inode *parent = sim_medium_parent(medium_of(port), path, name);
    const struct sim_inode *inode = parent != NULL ? sim_folder_find(parent, name) : NULL;
    if (dead(port)) {
        return PS_OK;
    }
    if (inode == NULL) {
        return no_such(err, path);
    }
    if (inode->folder && inode->now.n > 0) {
        return ps_fail(err, PS_ERR_IO, "%s: directory not empty", path);
    }
    if (dies_here(port)) {
        die(port);
        return PS_OK;
    }
    sim_folder_remove(parent, name, port->node);
    return PS_OK;
}

static enum ps_status disk_rename(struct ps_disk *base, const char *from, const char *to,
                                  struct ps_error *err)
{
    struct port *port = port_of(base);
    char name[SIM_NAME_BYTES];
    char to_name[SIM_NAME_BYTES];
    struct sim_inode *parent = sim_medium_parent(medium_of(port), from, name);
    struct sim_inode *to_parent = sim_medium_parent(medium_of(port), to, to_name);
    const struct sim_inode *inode = parent != NULL ? sim_folder_find(parent, name) : NULL;
    const struct sim_inode *there = to_parent != NULL ? sim_folder_find(to_parent, to_name) : NULL;
    if (dead(port)) {
        return PS_OK;
    }
    if (inode == NULL || to_parent == NULL) {
        return no_such(err, inode == NULL ? from : to);
    }
    PS_ASSERT(parent == to_parent); /* Else the medium would have to change two folders in one. */
    if (there != NULL && there->folder && there->now.n > 0) {
        return ps_fail(err, PS_ERR_EXISTS, "%s: directory not empty", to);
    }
    if (dies_here(port)) {
        die(port);
        return PS_OK;
    }
    sim_folder_rename(parent, name, to_name, port->node);
    return PS_OK;
}

static const struct ps_disk_ops disk_ops = {
    .read = disk_read,
    .replace = disk_replace,
    .make_dir = disk_make_dir,
    .sync_dir = disk_sync_dir,
    .list = disk_list,
    .remove = disk_remove,
    .rename = disk_rename,
    .open = disk_open,
    .lock = disk_lock,
};

/* ---- The whole ----------------------------------------------------------------------------- */

void sim_disk_init(struct sim_disk *disk, struct sim_world *world)
{
    *disk = (struct sim_disk){.world = world};
    ps_list_init(&disk->ports);
    sim_medium_init(&disk->medium, world);
}

void sim_disk_deinit(struct sim_disk *disk)
{
    sim_medium_deinit(&disk->medium);
    ps_list_for_each_safe (at, next, &disk->ports) {
        ps_mem_free(PS_CONTAINER_OF(at, struct port, entry));
    }
    ps_list_init(&disk->ports);
}

struct ps_disk *sim_disk_attach(struct sim_disk *disk, struct sim_node *node)
{
    struct port *port = ps_mem_alloc(NULL, PS_MEM_OTHER, sizeof(*port));
    PS_ASSERT(port != NULL);
    port->base.ops = &disk_ops;
    port->disk = disk;
    port->node = node;
    ps_list_init(&port->entry);
    ps_list_append(&disk->ports, &port->entry);
    return &port->base;
}

bool sim_disk_rot(struct sim_disk *disk, const char *prefix)
{
    struct sim_inode *inode = NULL;
    uint32_t n_files = sim_medium_files(&disk->medium, prefix, UINT32_MAX, NULL);
    if (n_files == 0) {
        return false;
    }
    (void)sim_medium_files(&disk->medium, prefix, (uint32_t)sim_below(disk->world, n_files),
                           &inode);
    if (inode == NULL || inode->n_stored == 0) {
        return false;
    }
    uint64_t bit = sim_below(disk->world, 8 * (uint64_t)inode->n_stored);
    uint8_t mask = (uint8_t)(1u << bit % 8);
    inode->memory[bit / 8] ^= mask;
    inode->platter[bit / 8] ^= mask;
    sim_trace(disk->world, NULL, "bit rots", NULL, bit, inode->n_bytes);
    return true;
}
