/* snap_read.c — see snap_read.h. Which snapshots there are; what is in them: snap_load.c. */
#include "snap/snap_read.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "snap/layout.h"
#include "snap/read_impl.h"

/* ---- One part ------------------------------------------------------------------------------- */

const struct ps_snap_file *ps_snap_file_named(const struct ps_snap_part *part, const char *name)
{
    for (uint32_t i = 0; i < part->n_files; i++) {
        if (strcmp(part->files[i].name, name) == 0) {
            return &part->files[i];
        }
    }
    return NULL;
}

/* Is the file there, as long as it was written? */
static enum ps_status check_file(const struct ps_snap_place *place, const char *folder,
                                 const struct ps_snap_file *about, struct ps_error *err)
{
    char path[PS_SNAP_PATH_BYTES];
    struct ps_disk_file *file = NULL;
    uint64_t n_bytes = 0;
    enum ps_status status = ps_snap_path(folder, about->name, path, err);
    if (status == PS_OK) {
        status = ps_disk_open(place->disk, path, PS_DISK_READ, &file, err);
    }
    if (status == PS_OK) {
        status = ps_disk_file_size(file, &n_bytes, err);
    }
    ps_disk_file_close(file);
    if (status == PS_OK && n_bytes != about->n_bytes) {
        return ps_fail(err, PS_ERR_CORRUPT, "%s: it has %" PRIu64 " bytes, written were %" PRIu64,
                       path, n_bytes, about->n_bytes);
    }
    return status == PS_ERR_NOT_FOUND ? ps_fail(err, PS_ERR_CORRUPT, "%s: it is missing", path)
                                      : status;
}

/* PART of `folder`, whose sum is `sum` if that is not NULL, with all its files. */
static enum ps_status read_part(const struct ps_snap_place *place, const char *folder,
                                const struct ps_checksum128 *sum, struct ps_snap_part *ret,
                                struct ps_error *err)
{
    char path[PS_SNAP_PATH_BYTES];
    uint8_t *text = NULL;
    size_t n_bytes = 0;
    enum ps_status status = ps_snap_path(folder, PS_SNAP_PART, path, err);
    if (status == PS_OK) {
        status = ps_disk_read(place->disk, path, PS_SNAP_TEXT_BYTES, &text, &n_bytes, err);
    }
    if (status != PS_OK) {
        return status;
    }
    if (sum != NULL && !ps_checksum128_equal(ps_checksum128(text, n_bytes), *sum)) {
        status = ps_fail(err, PS_ERR_CORRUPT, "%s: it is not the one that MANIFEST names", path);
    } else {
        status = ps_snap_part_read(place->mem, text, n_bytes, ret, err);
        status = status == PS_OK ? PS_OK : ps_wrap(err, status, "%s", path);
    }
    ps_mem_free(text);
    if (status != PS_OK) {
        return status;
    }
    for (uint32_t i = 0; status == PS_OK && i < ret->n_files; i++) {
        status = check_file(place, folder, &ret->files[i], err);
    }
    if (status == PS_OK && ps_snap_file_named(ret, PS_SNAP_SLOTS) == NULL) {
        status = ps_fail(err, PS_ERR_CORRUPT, "%s: it names no file " PS_SNAP_SLOTS, path);
    }
    if (status != PS_OK) {
        ps_snap_part_deinit(ret);
    }
    return status;
}

static enum ps_status part_folder(const char *dir, const char *name, uint32_t server,
                                  char ret[PS_SNAP_PATH_BYTES], struct ps_error *err)
{
    char below[PS_SNAP_DIR_BYTES + 32];
    (void)snprintf(below, sizeof(below), "%s/" PS_SNAP_SERVER "%" PRIu32, name, server);
    return ps_snap_path(dir, below, ret, err);
}

/* Note whose slots are in the part that was added last. */
static enum ps_status note_slots(struct ps_snap *snap, struct ps_error *err)
{
    const struct ps_snap_part *part = &snap->parts[snap->n_parts - 1].part;
    for (uint32_t i = 0; i < part->n_slots; i++) {
        uint32_t slot = part->slots[i].slot;
        if (snap->holder[slot] != 0) {
            return ps_fail(err, PS_ERR_CORRUPT, "%s: slot %" PRIu32 " is in two parts",
                           snap->parts[snap->n_parts - 1].folder, slot);
        }
        snap->holder[slot] = snap->n_parts;
    }
    return PS_OK;
}

/* ---- The whole ------------------------------------------------------------------------------ */

static struct ps_snap *make(const struct ps_snap_place *place)
{
    struct ps_snap *snap = ps_mem_alloc(place->mem, PS_MEM_OTHER, sizeof(*snap));
    if (snap == NULL) {
        return NULL;
    }
    snap->disk = place->disk;
    snap->mem = place->mem;
    snap->parts = ps_mem_array(place->mem, PS_MEM_OTHER, PS_SERVERS_MAX, sizeof(snap->parts[0]));
    if (snap->parts == NULL) {
        ps_mem_free(snap);
        return NULL;
    }
    return snap;
}

void ps_snap_close(struct ps_snap *snap)
{
    if (snap == NULL) {
        return;
    }
    for (uint32_t i = 0; i < snap->n_parts; i++) {
        ps_snap_part_deinit(&snap->parts[i].part);
    }
    ps_mem_free(snap->parts);
    ps_mem_free(snap);
}

/* MANIFEST of the snapshot `name`, from the first directory that has a good one. */
static enum ps_status find_manifest(const struct ps_snap_place *place, const char *name,
                                    struct ps_snap *snap, struct ps_error *err)
{
    enum ps_status found = ps_fail(err, PS_ERR_NOT_FOUND, "%s: no " PS_SNAP_MANIFEST, name);
    for (uint32_t i = 0; i < place->n_dirs; i++) {
        char path[PS_SNAP_PATH_BYTES];
        uint8_t *text = NULL;
        size_t n_bytes = 0;
        struct ps_error why;
        enum ps_status status = ps_snap_path(place->dirs[i], name, snap->folder, &why);
        if (status == PS_OK) {
            status = ps_snap_path(snap->folder, PS_SNAP_MANIFEST, path, &why);
        }
        if (status == PS_OK) {
            status = ps_disk_read(place->disk, path, PS_SNAP_TEXT_BYTES, &text, &n_bytes, &why);
        }
        if (status == PS_OK) {
            status = ps_manifest_read(text, n_bytes, &snap->manifest, &why);
            status = status == PS_OK ? PS_OK : ps_wrap(&why, status, "%s", path);
            ps_mem_free(text);
        }
        if (status == PS_OK) {
            return PS_OK;
        }
        if (status != PS_ERR_NOT_FOUND && found == PS_ERR_NOT_FOUND) {
            found = ps_fail(err, status, "%s", why.text);
        }
    }
    return found;
}

/* Does a part say of itself what MANIFEST says? */
static enum ps_status check_part(const struct ps_snap *snap, const struct ps_snap_found *found,
                                 uint32_t server, struct ps_error *err)
{
    const struct ps_manifest *manifest = &snap->manifest;
    const struct ps_snap_part *part = &found->part;
    if (part->generation != manifest->generation || part->cut != manifest->cut ||
        part->server != server || part->n_servers != manifest->n_parts ||
        !ps_id_equal(&part->cluster, &manifest->cluster)) {
        return ps_fail(err, PS_ERR_CORRUPT, "%s: it is the part of another snapshot",
                       found->folder);
    }
    if (part->key_seed != snap->parts[0].part.key_seed) {
        return ps_fail(err, PS_ERR_CORRUPT, "%s: its keys lie in other slots than those of %s",
                       found->folder, snap->parts[0].folder);
    }
    return PS_OK;
}

/* The part of one server, from the first directory that has a good one. */
static enum ps_status find_part(const struct ps_snap_place *place, const char *name,
                                const struct ps_manifest_part *about, struct ps_snap *snap,
                                struct ps_error *err)
{
    struct ps_snap_found *found = &snap->parts[snap->n_parts];
    enum ps_status result = PS_ERR_NOT_FOUND;
    for (uint32_t i = 0; i < place->n_dirs; i++) {
        struct ps_error why;
        enum ps_status status =
            part_folder(place->dirs[i], name, about->server, found->folder, &why);
        if (status == PS_OK) {
            status = read_part(place, found->folder, &about->sum, &found->part, &why);
        }
        if (status == PS_OK) {
            snap->n_parts++;
            status = check_part(snap, found, about->server, err);
            return status == PS_OK ? note_slots(snap, err) : status;
        }
        if (status != PS_ERR_NOT_FOUND && result == PS_ERR_NOT_FOUND) {
            result = ps_fail(err, status, "%s", why.text);
        }
    }
    if (result != PS_ERR_NOT_FOUND) {
        return result;
    }
    if (about->here) {
        return ps_fail(err, PS_ERR_CORRUPT, "%s/" PS_SNAP_SERVER "%" PRIu32 ": it is missing",
                       snap->folder, about->server);
    }
    return PS_OK; /* Its server has it. */
}

static enum ps_status check_job(const struct ps_snap *snap, struct ps_error *err)
{
    uint8_t *job = NULL;
    size_t n_bytes = 0;
    enum ps_status status = ps_snap_job(snap, &job, &n_bytes, err);
    ps_mem_free(job);
    return status;
}

static enum ps_status fill(const struct ps_snap_place *place, uint64_t generation, uint64_t cut,
                           struct ps_snap *snap, struct ps_error *err)
{
    char name[PS_SNAP_DIR_BYTES];
    ps_snap_dir_name(generation, cut, name);
    enum ps_status status = find_manifest(place, name, snap, err);
    if (status != PS_OK) {
        return status;
    }
    const struct ps_manifest *manifest = &snap->manifest;
    snap->whole = true;
    if (manifest->generation != generation || manifest->cut != cut) {
        return ps_fail(err, PS_ERR_CORRUPT, "%s: its " PS_SNAP_MANIFEST " is that of another one",
                       snap->folder);
    }
    status = check_job(snap, err);
    for (uint32_t i = 0; status == PS_OK && i < manifest->n_parts; i++) {
        status = find_part(place, name, &manifest->parts[i], snap, err);
    }
    for (uint32_t s = 0; status == PS_OK && s < PS_SLOTS; s++) {
        if (snap->n_parts == manifest->n_parts && snap->holder[s] == 0) {
            status =
                ps_fail(err, PS_ERR_CORRUPT, "%s: slot %" PRIu32 " is in no part", snap->folder, s);
        }
    }
    return status;
}

enum ps_status ps_snap_open(const struct ps_snap_place *place, uint64_t generation, uint64_t cut,
                            struct ps_snap **ret, struct ps_error *err)
{
    struct ps_snap *snap = make(place);
    if (snap == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory to open a snapshot");
    }
    enum ps_status status = fill(place, generation, cut, snap, err);
    if (status != PS_OK) {
        ps_snap_close(snap);
        return status;
    }
    *ret = snap;
    return PS_OK;
}

/* ---- All that there are --------------------------------------------------------------------- */

/* (generation, cut) of a before that of b? */
static bool newer(const struct ps_snap_entry *a, const struct ps_snap_entry *b)
{
    return a->generation != b->generation ? a->generation > b->generation : a->cut > b->cut;
}

/* Insert in order, once. `entries` has room. */
static void insert(struct ps_snap_entry *entries, size_t *n, const struct ps_snap_entry *added)
{
    size_t at = *n;
    while (at > 0 && newer(added, &entries[at - 1])) {
        at--;
    }
    if (at > 0 && !newer(&entries[at - 1], added)) {
        return; /* In two directories. */
    }
    memmove(&entries[at + 1], &entries[at], (*n - at) * sizeof(entries[0]));
    entries[at] = *added;
    (*n)++;
}

/* The names in one directory, among those of others. */
static enum ps_status list_dir(const struct ps_snap_place *place, const char *dir,
                               struct ps_snap_entry **entries, size_t *n, struct ps_error *err)
{
    struct ps_disk_entry *names = NULL;
    size_t n_names = 0;
    enum ps_status status = ps_disk_list(place->disk, dir, &names, &n_names, err);
    if (status == PS_ERR_NOT_FOUND) {
        return PS_OK;
    }
    if (status != PS_OK) {
        return status;
    }
    struct ps_snap_entry *more =
        ps_mem_grow(place->mem, PS_MEM_OTHER, *entries, (*n + n_names) * sizeof(*more));
    if (more == NULL) {
        ps_mem_free(names);
        return ps_fail(err, PS_ERR_NOMEM, "no memory for a list of %zu snapshots", *n + n_names);
    }
    *entries = more;
    for (size_t i = 0; i < n_names; i++) {
        struct ps_snap_entry entry = {0};
        if (names[i].is_dir && ps_snap_dir_parse(names[i].name, &entry.generation, &entry.cut)) {
            insert(more, n, &entry);
        }
    }
    ps_mem_free(names);
    return PS_OK;
}

static enum ps_status list_names(const struct ps_snap_place *place, struct ps_snap_entry **ret,
                                 size_t *ret_n, struct ps_error *err)
{
    struct ps_snap_entry *entries = ps_mem_alloc(place->mem, PS_MEM_OTHER, 1);
    size_t n = 0;
    enum ps_status status =
        entries != NULL ? PS_OK : ps_fail(err, PS_ERR_NOMEM, "no memory for a list of snapshots");
    for (uint32_t i = 0; status == PS_OK && i < place->n_dirs; i++) {
        status = list_dir(place, place->dirs[i], &entries, &n, err);
    }
    if (status != PS_OK) {
        ps_mem_free(entries);
        return status;
    }
    *ret = entries;
    *ret_n = n;
    return PS_OK;
}

/* What can be said of a snapshot by opening it; it is left open if `ret` is not NULL. */
static void look(const struct ps_snap_place *place, struct ps_snap_entry *entry,
                 struct ps_snap **ret)
{
    struct ps_snap *snap = make(place);
    if (snap == NULL) {
        (void)ps_fail(&entry->why, PS_ERR_NOMEM, "no memory to open a snapshot");
        return;
    }
    enum ps_status status = fill(place, entry->generation, entry->cut, snap, &entry->why);
    entry->complete = status == PS_OK;
    if (snap->whole) {
        entry->n_parts = snap->manifest.n_parts;
        entry->n_found = snap->n_parts;
        entry->cluster = snap->manifest.cluster;
        memcpy(entry->taken, snap->manifest.taken, sizeof(entry->taken));
        for (uint32_t i = 0; i < snap->manifest.n_parts; i++) {
            entry->n_bytes += snap->manifest.parts[i].n_bytes;
        }
    }
    if (entry->complete && ret != NULL) {
        *ret = snap;
    } else {
        ps_snap_close(snap);
    }
}

enum ps_status ps_snap_list(const struct ps_snap_place *place, struct ps_snap_entry **ret,
                            size_t *ret_n, struct ps_error *err)
{
    enum ps_status status = list_names(place, ret, ret_n, err);
    for (size_t i = 0; status == PS_OK && i < *ret_n; i++) {
        look(place, &(*ret)[i], NULL);
    }
    return status;
}

enum ps_status ps_snap_open_newest(const struct ps_snap_place *place,
                                   void (*passed_over)(void *arg, const struct ps_snap_entry *),
                                   void *arg, struct ps_snap **ret, struct ps_error *err)
{
    struct ps_snap_entry *entries = NULL;
    struct ps_snap *snap = NULL;
    size_t n = 0;
    enum ps_status status = list_names(place, &entries, &n, err);
    if (status != PS_OK) {
        return status;
    }
    for (size_t i = 0; snap == NULL && i < n; i++) {
        look(place, &entries[i], &snap);
        if (snap == NULL && passed_over != NULL) {
            passed_over(arg, &entries[i]);
        }
    }
    ps_mem_free(entries);
    if (snap == NULL) {
        return ps_fail(err, PS_ERR_NOT_FOUND, "no complete snapshot in '%s'%s",
                       place->n_dirs > 0 ? place->dirs[0] : "",
                       place->n_dirs > 1 ? " and others" : "");
    }
    *ret = snap;
    return PS_OK;
}

/* ---- A server's own ------------------------------------------------------------------------- */

/* The part of `own` in the cut of `entry`, if there is a good one. */
static enum ps_status look_own(const struct ps_snap_place *place, const struct ps_snap_own *own,
                               const struct ps_snap_entry *entry, struct ps_snap *snap,
                               struct ps_error *err)
{
    struct ps_snap_found *found = &snap->parts[0];
    char name[PS_SNAP_DIR_BYTES];
    enum ps_status result = PS_ERR_NOT_FOUND;
    ps_snap_dir_name(entry->generation, entry->cut, name);
    for (uint32_t i = 0; i < place->n_dirs && result != PS_OK; i++) {
        struct ps_error why;
        enum ps_status status = part_folder(place->dirs[i], name, own->server, found->folder, &why);
        if (status == PS_OK) {
            status = read_part(place, found->folder, NULL, &found->part, &why);
        }
        if (status == PS_OK &&
            (found->part.generation != entry->generation || found->part.cut != entry->cut ||
             found->part.server != own->server)) {
            status = ps_fail(&why, PS_ERR_CORRUPT, "%s: it is another part", found->folder);
        } else if (status == PS_OK && !ps_id_none(&own->cluster) &&
                   !ps_id_equal(&found->part.cluster, &own->cluster)) {
            status = ps_fail(&why, PS_ERR_EXISTS, "%s: it is of another cluster", found->folder);
        }
        if (status == PS_OK) {
            result = PS_OK;
        } else {
            ps_snap_part_deinit(&found->part);
            if (result == PS_ERR_NOT_FOUND && status != PS_ERR_NOT_FOUND) {
                result = ps_fail(err, status, "%s", why.text);
            }
        }
    }
    return result;
}

static bool wanted(const struct ps_snap_own *own, const struct ps_snap_entry *entry)
{
    return entry->generation == own->generation && (own->below == 0 || entry->cut < own->below);
}

enum ps_status ps_snap_open_part(const struct ps_snap_place *place, const struct ps_snap_own *own,
                                 void (*passed_over)(void *arg, const struct ps_snap_entry *),
                                 void *arg, struct ps_snap **ret, struct ps_error *err)
{
    struct ps_snap_entry *entries = NULL;
    struct ps_snap *snap = make(place);
    size_t n = 0;
    if (snap == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory to open a snapshot");
    }
    enum ps_status status = list_names(place, &entries, &n, err);
    enum ps_status found = PS_ERR_NOT_FOUND;
    for (size_t i = 0; status == PS_OK && found != PS_OK && i < n; i++) {
        if (!wanted(own, &entries[i])) {
            continue;
        }
        found = look_own(place, own, &entries[i], snap, &entries[i].why);
        if (found != PS_OK && found != PS_ERR_NOT_FOUND && passed_over != NULL) {
            passed_over(arg, &entries[i]);
        }
    }
    ps_mem_free(entries);
    if (status == PS_OK && found == PS_OK) {
        snap->n_parts = 1;
        status = note_slots(snap, err);
    } else if (status == PS_OK) {
        status =
            ps_fail(err, PS_ERR_NOT_FOUND, "no part of server %" PRIu32 " in generation %" PRIu64,
                    own->server, own->generation);
    }
    if (status != PS_OK) {
        ps_snap_close(snap);
        return status;
    }
    *ret = snap;
    return PS_OK;
}

/* ---- Looking at it -------------------------------------------------------------------------- */

const struct ps_manifest *ps_snap_manifest(const struct ps_snap *snap)
{
    return snap->whole ? &snap->manifest : NULL;
}

const char *ps_snap_folder(const struct ps_snap *snap)
{
    return snap->folder;
}

uint32_t ps_snap_n_parts(const struct ps_snap *snap)
{
    return snap->n_parts;
}

const struct ps_snap_part *ps_snap_part(const struct ps_snap *snap, uint32_t nth)
{
    PS_ASSERT(nth < snap->n_parts);
    return &snap->parts[nth].part;
}

const char *ps_snap_part_folder(const struct ps_snap *snap, uint32_t nth)
{
    PS_ASSERT(nth < snap->n_parts);
    return snap->parts[nth].folder;
}

uint64_t ps_snap_slots(const struct ps_snap *snap)
{
    uint64_t slots = 0;
    for (uint32_t s = 0; s < PS_SLOTS; s++) {
        slots |= snap->holder[s] != 0 ? UINT64_C(1) << s : 0;
    }
    return slots;
}

enum ps_status ps_snap_job(const struct ps_snap *snap, uint8_t **ret, size_t *ret_n_bytes,
                           struct ps_error *err)
{
    char path[PS_SNAP_PATH_BYTES];
    uint8_t *job = NULL;
    size_t n_bytes = 0;
    if (!snap->whole) {
        return ps_fail(err, PS_ERR_NOT_FOUND, "a part alone has no " PS_SNAP_JOB);
    }
    enum ps_status status = ps_snap_path(snap->folder, PS_SNAP_JOB, path, err);
    if (status == PS_OK) {
        status = ps_disk_read(snap->disk, path, PS_SNAP_TEXT_BYTES, &job, &n_bytes, err);
        status = status == PS_ERR_NOT_FOUND
                     ? ps_fail(err, PS_ERR_CORRUPT, "%s: it is missing", path)
                     : status;
    }
    if (status != PS_OK) {
        return status;
    }
    if (n_bytes != snap->manifest.n_job_bytes ||
        !ps_checksum128_equal(ps_checksum128(job, n_bytes), snap->manifest.job_sum)) {
        ps_mem_free(job);
        return ps_fail(err, PS_ERR_CORRUPT, "%s: it is not the one that MANIFEST names", path);
    }
    *ret = job;
    *ret_n_bytes = n_bytes;
    return PS_OK;
}

enum ps_status ps_snap_verify(const struct ps_snap *snap, struct ps_error *err)
{
    enum ps_status status = snap->whole ? check_job(snap, err) : PS_OK;
    for (uint32_t p = 0; p < snap->n_parts; p++) {
        const struct ps_snap_found *found = &snap->parts[p];
        for (uint32_t f = 0; status == PS_OK && f < found->part.n_files; f++) {
            struct ps_snap_in in;
            status = ps_snap_in_open(&in, snap->disk, snap->mem, found->folder,
                                     &found->part.files[f], err);
            if (status == PS_OK) {
                status = ps_snap_in_verify(&in, err);
                ps_snap_in_close(&in);
            }
        }
    }
    return status;
}
