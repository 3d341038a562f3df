/* keep.c — see keep.h. */
#include "snap/keep.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "snap/layout.h"
#include "snap/snap_file.h"

static enum ps_status gone_is_fine(enum ps_status status)
{
    return status == PS_ERR_NOT_FOUND ? PS_OK : status;
}

enum ps_status ps_snap_remove_folder(struct ps_disk *disk, const char *dir, struct ps_error *err)
{
    struct ps_disk_entry *entries = NULL;
    char path[PS_SNAP_PATH_BYTES];
    size_t n = 0;
    enum ps_status status = ps_disk_list(disk, dir, &entries, &n, err);
    if (status != PS_OK) {
        return gone_is_fine(status);
    }
    for (size_t i = 0; status == PS_OK && i < n; i++) {
        status = ps_snap_path(dir, entries[i].name, path, err);
        if (status == PS_OK) {
            status = gone_is_fine(ps_disk_remove(disk, path, err));
        }
    }
    ps_mem_free(entries);
    return status == PS_OK ? gone_is_fine(ps_disk_remove(disk, dir, err)) : status;
}

enum ps_status ps_snap_unfinish(struct ps_disk *disk, const char *folder, struct ps_error *err)
{
    char path[PS_SNAP_PATH_BYTES];
    enum ps_status status = ps_snap_path(folder, PS_SNAP_MANIFEST, path, err);
    if (status == PS_OK) {
        status = ps_disk_remove(disk, path, err);
    }
    if (status == PS_OK) {
        status = ps_disk_sync_dir(disk, folder, err);
    }
    return gone_is_fine(status);
}

/* The folder of a cut, with the parts in it. */
static enum ps_status remove_cut(struct ps_disk *disk, const char *folder, struct ps_error *err)
{
    struct ps_disk_entry *entries = NULL;
    char path[PS_SNAP_PATH_BYTES];
    size_t n = 0;
    enum ps_status status = ps_snap_unfinish(disk, folder, err);
    if (status == PS_OK) {
        status = ps_disk_list(disk, folder, &entries, &n, err);
    }
    if (status != PS_OK) {
        return gone_is_fine(status);
    }
    for (size_t i = 0; status == PS_OK && i < n; i++) {
        status = ps_snap_path(folder, entries[i].name, path, err);
        if (status == PS_OK && entries[i].is_dir) {
            status = ps_snap_remove_folder(disk, path, err);
        }
    }
    ps_mem_free(entries);
    return status == PS_OK ? ps_snap_remove_folder(disk, folder, err) : status;
}

/* In every directory. */
static enum ps_status remove_everywhere(const struct ps_snap_place *place,
                                        const struct ps_snap_entry *entry, struct ps_error *err)
{
    char name[PS_SNAP_DIR_BYTES];
    char folder[PS_SNAP_PATH_BYTES];
    enum ps_status result = PS_OK;
    ps_snap_dir_name(entry->generation, entry->cut, name);
    for (uint32_t i = 0; i < place->n_dirs; i++) {
        struct ps_error why;
        enum ps_status status = ps_snap_path(place->dirs[i], name, folder, &why);
        status = status == PS_OK ? remove_cut(place->disk, folder, &why) : status;
        if (status != PS_OK && result == PS_OK) {
            result = ps_fail(err, status, "%s", why.text);
        }
    }
    return result;
}

/* Can nothing be had of it, ever? What is damaged and the newest may be mended by somebody. */
static bool rubbish(const struct ps_snap_entry *entry, bool newer_there)
{
    return entry->why.status == PS_ERR_NOT_FOUND ||
           (entry->why.status == PS_ERR_CORRUPT && newer_there);
}

enum ps_status ps_snap_keep(const struct ps_snap_place *place, struct ps_cut_kept *kept,
                            struct ps_error *err)
{
    struct ps_snap_entry *entries = NULL;
    size_t n = 0;
    uint32_t n_seen = 0;
    enum ps_status result = ps_snap_list(place, &entries, &n, err);
    kept->oldest_generation = 0;
    kept->oldest_cut = 0;
    if (result != PS_OK) {
        return result;
    }
    for (size_t i = 0; i < n; i++) {
        const struct ps_snap_entry *entry = &entries[i];
        bool stands = entry->generation == kept->generation && entry->cut == kept->cut;
        n_seen += entry->complete ? 1 : 0;
        bool stays =
            entry->complete ? n_seen == 1 || n_seen <= kept->n : !rubbish(entry, n_seen > 0);
        if (stays || stands) {
            if (entry->complete) {
                kept->oldest_generation = entry->generation;
                kept->oldest_cut = entry->cut;
            }
            continue;
        }
        struct ps_error why;
        enum ps_status status = remove_everywhere(place, entry, &why);
        if (status != PS_OK && result == PS_OK) {
            result = ps_fail(err, status, "%s", why.text);
        }
    }
    ps_mem_free(entries);
    return result;
}

/* ---- A server's own ------------------------------------------------------------------------- */

/* The part of `server` in one cut's folder, unless the coordinator tidies that. */
static enum ps_status drop_part(struct ps_disk *disk, const char *folder, uint32_t server,
                                struct ps_error *err)
{
    static const char *const ends[] = {"", PS_SNAP_TEMP};
    struct ps_disk_entry *entries = NULL;
    char path[PS_SNAP_PATH_BYTES];
    char name[64];
    size_t n = 0;
    bool whole = false;
    enum ps_status status = ps_disk_list(disk, folder, &entries, &n, err);
    for (size_t i = 0; status == PS_OK && i < n; i++) {
        whole = whole || strcmp(entries[i].name, PS_SNAP_MANIFEST) == 0;
    }
    ps_mem_free(entries);
    if (status != PS_OK || whole) {
        return gone_is_fine(status);
    }
    for (size_t i = 0; status == PS_OK && i < 2; i++) {
        (void)snprintf(name, sizeof(name), PS_SNAP_SERVER "%" PRIu32 "%s", server, ends[i]);
        status = ps_snap_path(folder, name, path, err);
        status = status == PS_OK ? ps_snap_remove_folder(disk, path, err) : status;
    }
    if (status == PS_OK) {
        enum ps_status ignored = ps_disk_remove(disk, folder, NULL); /* If it is empty now. */
        (void)ignored;
    }
    return status;
}

enum ps_status ps_snap_drop_older(const struct ps_snap_place *place, uint32_t server,
                                  uint64_t generation, uint64_t cut, struct ps_error *err)
{
    enum ps_status result = PS_OK;
    for (uint32_t d = 0; d < place->n_dirs; d++) {
        struct ps_disk_entry *entries = NULL;
        size_t n = 0;
        enum ps_status status = ps_disk_list(place->disk, place->dirs[d], &entries, &n, err);
        for (size_t i = 0; status == PS_OK && i < n; i++) {
            char folder[PS_SNAP_PATH_BYTES];
            uint64_t g = 0;
            uint64_t c = 0;
            if (!entries[i].is_dir || !ps_snap_dir_parse(entries[i].name, &g, &c) ||
                g > generation || (g == generation && c >= cut)) {
                continue;
            }
            status = ps_snap_path(place->dirs[d], entries[i].name, folder, err);
            status = status == PS_OK ? drop_part(place->disk, folder, server, err) : status;
        }
        ps_mem_free(entries);
        result = result == PS_OK ? gone_is_fine(status) : result;
    }
    return result;
}

enum ps_status ps_snap_drop(const struct ps_snap_place *place, uint32_t server, uint64_t generation,
                            uint64_t cut, struct ps_error *err)
{
    char name[PS_SNAP_DIR_BYTES];
    char folder[PS_SNAP_PATH_BYTES];
    enum ps_status result = PS_OK;
    ps_snap_dir_name(generation, cut, name);
    for (uint32_t d = 0; result == PS_OK && d < place->n_dirs; d++) {
        result = ps_snap_path(place->dirs[d], name, folder, err);
        result = result == PS_OK ? drop_part(place->disk, folder, server, err) : result;
    }
    return result;
}
