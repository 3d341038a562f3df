/* sim_medium.c — see sim_medium.h. */
#include "sim/sim_medium.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"

/* ---- Inodes -------------------------------------------------------------------------------- */

static struct sim_inode *make_inode(struct sim_medium *medium, bool folder)
{
    struct sim_inode *inode = ps_mem_alloc(NULL, PS_MEM_OTHER, sizeof(*inode));
    PS_ASSERT(inode != NULL);
    inode->folder = folder;
    inode->n_refs = 1;
    ps_list_init(&inode->entry);
    ps_list_append(&medium->inodes, &inode->entry);
    return inode;
}

void sim_inode_ref(struct sim_inode *inode)
{
    inode->n_refs++;
}

static void clear_entries(struct sim_entries *entries)
{
    for (uint32_t i = 0; i < entries->n; i++) {
        sim_inode_unref(entries->at[i].inode);
    }
    entries->n = 0;
}

static void clear_changes(struct sim_inode *folder)
{
    for (uint32_t i = 0; i < folder->n_changes; i++) {
        if (folder->changes[i].inode != NULL) {
            sim_inode_unref(folder->changes[i].inode);
        }
    }
    folder->n_changes = 0;
}

/* Folders are trees, a few levels deep. NOLINTNEXTLINE(misc-no-recursion) */
void sim_inode_unref(struct sim_inode *inode)
{
    PS_ASSERT(inode->n_refs > 0);
    inode->n_refs--;
    if (inode->n_refs > 0) {
        return;
    }
    clear_entries(&inode->now);
    clear_entries(&inode->synced);
    clear_changes(inode);
    ps_list_remove(&inode->entry);
    ps_mem_free(inode->now.at);
    ps_mem_free(inode->synced.at);
    ps_mem_free(inode->changes);
    ps_mem_free(inode->memory);
    ps_mem_free(inode->platter);
    ps_mem_free(inode->sectors);
    ps_mem_free(inode);
}

void sim_medium_init(struct sim_medium *medium, struct sim_world *world)
{
    *medium = (struct sim_medium){.world = world};
    ps_list_init(&medium->inodes);
    medium->root = make_inode(medium, true);
    medium->limbo = make_inode(medium, true);
}

void sim_medium_deinit(struct sim_medium *medium)
{
    if (medium->root == NULL) {
        return;
    }
    sim_inode_unref(medium->root);
    sim_inode_unref(medium->limbo);
    PS_ASSERT(ps_list_empty(&medium->inodes)); /* A handle was left open. */
    medium->root = NULL;
}

/* ---- Entries of a folder ------------------------------------------------------------------- */

static struct sim_entry *entry_of(const struct sim_entries *entries, const char *name)
{
    for (uint32_t i = 0; i < entries->n; i++) {
        if (strcmp(entries->at[i].name, name) == 0) {
            return &entries->at[i];
        }
    }
    return NULL;
}

static void take_away(struct sim_entries *entries, const char *name)
{
    struct sim_entry *entry = entry_of(entries, name);
    if (entry == NULL) {
        return;
    }
    struct sim_inode *inode = entry->inode;
    entries->n--;
    *entry = entries->at[entries->n];
    sim_inode_unref(inode);
}

static void *grown(void *array, uint32_t n, uint32_t *n_room, size_t size)
{
    if (n < *n_room) {
        return array;
    }
    *n_room = *n_room == 0 ? 8 : 2 * *n_room;
    void *larger = ps_mem_grow(NULL, PS_MEM_OTHER, array, *n_room * size);
    PS_ASSERT(larger != NULL);
    return larger;
}

static void put(struct sim_entries *entries, const char *name, struct sim_inode *inode)
{
    sim_inode_ref(inode);
    take_away(entries, name);
    entries->at = grown(entries->at, entries->n, &entries->n_room, sizeof(entries->at[0]));
    struct sim_entry *entry = &entries->at[entries->n++];
    *entry = (struct sim_entry){.inode = inode};
    (void)snprintf(entry->name, sizeof(entry->name), "%s", name);
}

static void apply(struct sim_entries *entries, const struct sim_change *change)
{
    if (change->to[0] != '\0') {
        struct sim_entry *entry = entry_of(entries, change->name);
        if (entry != NULL) {
            put(entries, change->to, entry->inode);
            take_away(entries, change->name);
        }
    } else if (change->inode != NULL) {
        put(entries, change->name, change->inode);
    } else {
        take_away(entries, change->name);
    }
}

static void change(struct sim_inode *folder, const char *name, const char *to,
                   struct sim_inode *inode, const struct sim_node *by)
{
    PS_ASSERT(folder->folder);
    folder->changes = grown(folder->changes, folder->n_changes, &folder->n_changes_room,
                            sizeof(struct sim_change));
    struct sim_change *at = &folder->changes[folder->n_changes++];
    *at = (struct sim_change){.inode = inode, .by = by};
    (void)snprintf(at->name, sizeof(at->name), "%s", name);
    (void)snprintf(at->to, sizeof(at->to), "%s", to);
    if (inode != NULL) {
        sim_inode_ref(inode);
    }
    apply(&folder->now, at);
}

void sim_folder_remove(struct sim_inode *folder, const char *name, const struct sim_node *by)
{
    change(folder, name, "", NULL, by);
}

void sim_folder_rename(struct sim_inode *folder, const char *name, const char *to,
                       const struct sim_node *by)
{
    change(folder, name, to, NULL, by);
}

struct sim_inode *sim_folder_find(const struct sim_inode *folder, const char *name)
{
    struct sim_entry *entry = entry_of(&folder->now, name);
    return entry != NULL ? entry->inode : NULL;
}

static void copy_entries(struct sim_entries *to, const struct sim_entries *from)
{
    clear_entries(to);
    for (uint32_t i = 0; i < from->n; i++) {
        put(to, from->at[i].name, from->at[i].inode);
    }
}

void sim_folder_sync(struct sim_inode *folder)
{
    copy_entries(&folder->synced, &folder->now);
    clear_changes(folder);
}

/* ---- Paths --------------------------------------------------------------------------------- */

/* The next word of a path into `name`; NULL: there is none. */
static const char *next_word(const char *path, char name[SIM_NAME_BYTES])
{
    while (*path == '/' || (path[0] == '.' && path[1] == '/')) {
        path++;
    }
    size_t n = strcspn(path, "/");
    if (n == 0 || (n == 1 && path[0] == '.')) {
        return NULL;
    }
    PS_ASSERT(n < SIM_NAME_BYTES);
    memcpy(name, path, n);
    name[n] = '\0';
    return path + n;
}

struct sim_inode *sim_medium_find(const struct sim_medium *medium, const char *path)
{
    char name[SIM_NAME_BYTES];
    struct sim_inode *at = medium->root;
    path = next_word(path, name);
    while (path != NULL && at != NULL) {
        at = at->folder ? sim_folder_find(at, name) : NULL;
        path = next_word(path, name);
    }
    return at;
}

struct sim_inode *sim_medium_parent(const struct sim_medium *medium, const char *path,
                                    char ret_name[SIM_NAME_BYTES])
{
    char next[SIM_NAME_BYTES];
    struct sim_inode *at = medium->root;
    path = next_word(path, ret_name);
    while (path != NULL && at != NULL) {
        path = next_word(path, next);
        if (path == NULL) {
            return at;
        }
        struct sim_inode *child = sim_folder_find(at, ret_name);
        at = child != NULL && child->folder ? child : NULL;
        memcpy(ret_name, next, sizeof(next));
    }
    return NULL;
}

struct sim_inode *sim_medium_create(struct sim_medium *medium, struct sim_inode *parent,
                                    const char *name, bool folder, const struct sim_node *by)
{
    struct sim_inode *inode = make_inode(medium, folder);
    change(parent, name, "", inode, by);
    sim_inode_unref(inode); /* The entry has it. */
    return inode;
}

/* ---- Files --------------------------------------------------------------------------------- */

static size_t up_to_sector(uint64_t n_bytes)
{
    return (size_t)((n_bytes + SIM_SECTOR - 1) / SIM_SECTOR * SIM_SECTOR);
}

static void *grown_zeros(void *bytes, size_t n_old, size_t n_new)
{
    uint8_t *larger = ps_mem_grow(NULL, PS_MEM_OTHER, bytes, n_new);
    PS_ASSERT(larger != NULL);
    memset(larger + n_old, 0, n_new - n_old);
    return larger;
}

static void store_up_to(struct sim_inode *inode, uint64_t n_bytes)
{
    size_t n = up_to_sector(n_bytes);
    if (n <= inode->n_stored) {
        return;
    }
    n = n < 2 * inode->n_stored ? 2 * inode->n_stored : n;
    inode->memory = grown_zeros(inode->memory, inode->n_stored, n);
    inode->platter = grown_zeros(inode->platter, inode->n_stored, n);
    inode->sectors = grown_zeros(inode->sectors, inode->n_stored / SIM_SECTOR, n / SIM_SECTOR);
    inode->n_stored = n;
}

static void mark(struct sim_inode *inode, uint64_t offset, uint64_t n_bytes)
{
    for (uint64_t s = offset / SIM_SECTOR; s * SIM_SECTOR < offset + n_bytes; s++) {
        inode->sectors[s] = SIM_SECTOR_CHANGED;
    }
}

void sim_inode_write(struct sim_inode *inode, uint64_t offset, const uint8_t *data, size_t n_bytes,
                     const struct sim_node *by)
{
    PS_ASSERT(!inode->folder);
    if (n_bytes == 0) {
        return;
    }
    store_up_to(inode, offset + n_bytes);
    memcpy(inode->memory + offset, data, n_bytes);
    mark(inode, offset, n_bytes);
    inode->writer = by;
    inode->n_bytes = offset + n_bytes > inode->n_bytes ? offset + n_bytes : inode->n_bytes;
}

void sim_inode_read(const struct sim_inode *inode, uint64_t offset, uint8_t *data, size_t n_bytes)
{
    size_t n = offset < inode->n_stored ? (size_t)(inode->n_stored - offset) : 0;
    n = n < n_bytes ? n : n_bytes;
    if (n > 0) {
        memcpy(data, inode->memory + offset, n);
    }
    memset(data + n, 0, n_bytes - n);
}

void sim_inode_resize(struct sim_inode *inode, uint64_t n_bytes, const struct sim_node *by)
{
    if (n_bytes < inode->n_bytes && n_bytes < inode->n_stored) { /* What is cut off is zeros. */
        memset(inode->memory + n_bytes, 0, inode->n_stored - n_bytes);
        mark(inode, n_bytes, inode->n_stored - n_bytes);
    }
    inode->n_bytes = n_bytes;
    inode->n_allocated = n_bytes < inode->n_allocated ? n_bytes : inode->n_allocated;
    inode->writer = by;
}

static void carry_over(struct sim_inode *inode, size_t sector)
{
    memcpy(inode->platter + sector * SIM_SECTOR, inode->memory + sector * SIM_SECTOR, SIM_SECTOR);
    inode->sectors[sector] = SIM_SECTOR_SAME;
}

void sim_inode_sync(struct sim_inode *inode)
{
    for (size_t s = 0; s < inode->n_stored / SIM_SECTOR; s++) {
        if (inode->sectors[s] == SIM_SECTOR_CHANGED) {
            carry_over(inode, s);
        }
    }
    inode->n_bytes_platter = inode->n_bytes;
}

void sim_inode_sync_fails(struct sim_inode *inode, struct sim_world *world)
{
    for (size_t s = 0; s < inode->n_stored / SIM_SECTOR; s++) {
        if (inode->sectors[s] == SIM_SECTOR_CHANGED && sim_below(world, 2) == 0) {
            carry_over(inode, s);
        } else if (inode->sectors[s] == SIM_SECTOR_CHANGED) {
            inode->sectors[s] = SIM_SECTOR_LOST;
        }
    }
}

void sim_inode_forget(struct sim_inode *inode)
{
    for (size_t s = 0; s < inode->n_stored / SIM_SECTOR; s++) {
        if (inode->sectors[s] == SIM_SECTOR_LOST) {
            memcpy(inode->memory + s * SIM_SECTOR, inode->platter + s * SIM_SECTOR, SIM_SECTOR);
            inode->sectors[s] = SIM_SECTOR_SAME;
        }
    }
}

uint64_t sim_inode_room(const struct sim_inode *inode)
{
    uint64_t n = up_to_sector(inode->n_bytes < inode->n_stored ? inode->n_bytes : inode->n_stored);
    return n > inode->n_allocated ? n : inode->n_allocated;
}

/* ---- The power cut ------------------------------------------------------------------------- */

static void cut_file(struct sim_inode *inode, struct sim_world *world)
{
    /* Now and then nothing at all was carried over, or everything. */
    uint64_t mood = sim_below(world, 4);
    for (size_t s = 0; s < inode->n_stored / SIM_SECTOR; s++) {
        if (inode->sectors[s] == SIM_SECTOR_SAME) {
            continue;
        }
        bool over = inode->sectors[s] == SIM_SECTOR_CHANGED &&
                    (mood == 0 || (mood > 1 && sim_below(world, 2) == 0));
        if (!over) {
            memcpy(inode->memory + s * SIM_SECTOR, inode->platter + s * SIM_SECTOR, SIM_SECTOR);
        }
        carry_over(inode, s);
    }
    if (inode->n_bytes != inode->n_bytes_platter && (mood == 1 || sim_below(world, 2) == 0)) {
        sim_inode_resize(inode, inode->n_bytes_platter, inode->writer);
    }
    sim_inode_sync(inode);
}

static void cut_folder(struct sim_inode *folder, const struct sim_node *who,
                       struct sim_world *world)
{
    uint32_t n_own = 0;
    for (uint32_t i = 0; i < folder->n_changes; i++) {
        n_own += folder->changes[i].by == who;
    }
    if (n_own == 0) {
        return;
    }
    uint64_t n_kept = sim_below(world, n_own + 1);
    for (uint32_t i = 0; i < folder->n_changes; i++) {
        bool own = folder->changes[i].by == who;
        if (!own || n_kept > 0) {
            apply(&folder->synced, &folder->changes[i]);
        }
        n_kept -= own && n_kept > 0;
    }
    copy_entries(&folder->now, &folder->synced);
    clear_changes(folder);
}

void sim_medium_crash(struct sim_medium *medium, const struct sim_node *who, bool power)
{
    /* Cutting a folder may free inodes, any of them: so one walk for files, then folders one by one
     * from the start, until none has a change left. */
    ps_list_for_each (at, &medium->inodes) {
        struct sim_inode *inode = PS_CONTAINER_OF(at, struct sim_inode, entry);
        inode->locker = inode->locker == who ? NULL : inode->locker;
        if (power && !inode->folder && inode->writer == who) {
            cut_file(inode, medium->world);
        }
    }
    bool again = power;
    while (again) {
        again = false;
        ps_list_for_each (at, &medium->inodes) {
            struct sim_inode *inode = PS_CONTAINER_OF(at, struct sim_inode, entry);
            uint32_t n = inode->n_changes;
            if (n == 0) {
                continue;
            }
            sim_inode_ref(inode);
            cut_folder(inode, who, medium->world);
            again = inode->n_changes != n;
            sim_inode_unref(inode);
            if (again) {
                break;
            }
        }
    }
}

/* ---- All files ----------------------------------------------------------------------------- */

/* NOLINTNEXTLINE(misc-no-recursion) */
static void walk(struct sim_inode *folder, const char *path, const char *prefix, uint32_t index,
                 uint32_t *n, struct sim_inode **ret)
{
    for (uint32_t i = 0; i < folder->now.n; i++) {
        char name[4 * SIM_NAME_BYTES];
        struct sim_inode *inode = folder->now.at[i].inode;
        (void)snprintf(name, sizeof(name), "%s%s", path, folder->now.at[i].name);
        if (inode->folder) {
            (void)strncat(name, "/", sizeof(name) - strlen(name) - 1);
            walk(inode, name, prefix, index, n, ret);
        } else if (strncmp(name, prefix, strlen(prefix)) == 0) {
            if (*n == index && ret != NULL) {
                *ret = inode;
            }
            (*n)++;
        }
    }
}

uint32_t sim_medium_files(const struct sim_medium *medium, const char *prefix, uint32_t index,
                          struct sim_inode **ret)
{
    uint32_t n = 0;
    walk(medium->root, "", prefix, index, &n, ret);
    return n;
}
