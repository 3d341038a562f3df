/* keeper.c — see keeper.h. */
#include "snap/keeper.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/assert.h"
#include "base/attr.h"
#include "base/failpoint.h"
#include "obs/log.h"
#include "snap/keep.h"
#include "snap/layout.h"
#include "snap/manifest.h"
#include "snap/snap_file.h"
#include "snap/snap_read.h"

#define DIRS_MAX 2u

struct keeper {
    struct ps_cut_keeper base;
    struct ps_snap_keeper_options options;
    char dirs[DIRS_MAX][PS_SNAP_PATH_BYTES];
    const char *names[DIRS_MAX];
    uint32_t n_dirs;
};

static struct keeper *keeper_of(struct ps_cut_keeper *base)
{
    return PS_CONTAINER_OF(base, struct keeper, base);
}

static struct ps_snap_place place_of(const struct keeper *keeper, uint32_t n_dirs)
{
    return (struct ps_snap_place){.disk = keeper->options.disk,
                                  .mem = keeper->options.mem,
                                  .dirs = keeper->names,
                                  .n_dirs = n_dirs};
}

/* ---- Finish --------------------------------------------------------------------------------- */

static void tell_time(uint64_t wall_ms, char text[32])
{
    time_t seconds = (time_t)(wall_ms / 1000);
    struct tm parts;
    (void)gmtime_r(&seconds, &parts);
    if (strftime(text, 32, "%Y-%m-%dT%H:%M:%SZ", &parts) == 0) {
        text[0] = '\0';
    }
}

/* Is the part in this directory, too? One of the same name that is another is a failure. */
static enum ps_status look_for_part(const struct keeper *keeper, const char *folder,
                                    struct ps_manifest_part *part, struct ps_error *err)
{
    char below[64];
    char path[PS_SNAP_PATH_BYTES];
    uint8_t *text = NULL;
    size_t n_bytes = 0;
    (void)snprintf(below, sizeof(below), PS_SNAP_SERVER "%" PRIu32 "/" PS_SNAP_PART, part->server);
    enum ps_status status = ps_snap_path(folder, below, path, err);
    if (status == PS_OK) {
        status = ps_disk_read(keeper->options.disk, path, PS_SNAP_TEXT_BYTES, &text, &n_bytes, err);
    }
    if (status != PS_OK) {
        return status == PS_ERR_NOT_FOUND ? PS_OK : status;
    }
    part->here = ps_checksum128_equal(ps_checksum128(text, n_bytes), part->sum);
    ps_mem_free(text);
    return part->here ? PS_OK
                      : ps_fail(err, PS_ERR_CORRUPT, "%s: it is not what its server wrote", path);
}

static enum ps_status fill_manifest(const struct keeper *keeper, const struct ps_cut_whole *whole,
                                    const char *folder, struct ps_manifest *manifest,
                                    struct ps_error *err)
{
    *manifest = (struct ps_manifest){.generation = whole->generation,
                                     .cut = whole->cut,
                                     .cluster = whole->cluster,
                                     .n_job_bytes = whole->n_job_bytes,
                                     .job_sum = ps_checksum128(whole->job, whole->n_job_bytes),
                                     .n_parts = whole->n_parts};
    tell_time(keeper->options.wall_ms(), manifest->taken);
    enum ps_status status = PS_OK;
    for (uint32_t i = 0; status == PS_OK && i < whole->n_parts; i++) {
        const struct ps_cut_part *from = &whole->parts[i];
        struct ps_manifest_part *to = &manifest->parts[i];
        PS_ASSERT(from->server == i);
        to->server = i;
        to->n_bytes = from->n_bytes;
        to->sum = ps_snap_sum_from(from->checksum);
        (void)snprintf(to->address, sizeof(to->address), "%s", from->address);
        status = look_for_part(keeper, folder, to, err);
    }
    return status;
}

static void tell_found(const struct ps_manifest *manifest, const char *dir,
                       struct ps_cut_found *ret)
{
    *ret = (struct ps_cut_found){.generation = manifest->generation, .cut = manifest->cut};
    ps_snap_dir_name(manifest->generation, manifest->cut, ret->name);
    (void)snprintf(ret->dir, sizeof(ret->dir), "%s", dir);
    (void)snprintf(ret->taken, sizeof(ret->taken), "%s", manifest->taken);
    for (uint32_t i = 0; i < manifest->n_parts; i++) {
        ret->n_bytes += manifest->parts[i].n_bytes;
    }
}

static enum ps_status replace(struct ps_disk *disk, const char *folder, const char *name,
                              const struct ps_slice *content, struct ps_error *err)
{
    char path[PS_SNAP_PATH_BYTES];
    enum ps_status status = ps_snap_path(folder, name, path, err);
    return status == PS_OK ? ps_disk_replace(disk, path, content->data, content->n_bytes, err)
                           : status;
}

/* job.pb, and MANIFEST as the very last. */
static enum ps_status write_both(const struct keeper *keeper, const struct ps_cut_whole *whole,
                                 const char *folder, const struct ps_manifest *manifest,
                                 struct ps_error *err)
{
    struct ps_disk *disk = keeper->options.disk;
    struct ps_slice job = {.data = whole->job, .n_bytes = whole->n_job_bytes};
    uint8_t *text = NULL;
    size_t n_bytes = 0;
    enum ps_status status = ps_manifest_write(keeper->options.mem, manifest, &text, &n_bytes, err);
    status = status == PS_OK ? replace(disk, folder, PS_SNAP_JOB, &job, err) : status;
    status = status == PS_OK ? ps_disk_sync_dir(disk, keeper->names[0], err) : status;
    ps_failpoint("job.before_manifest");
    if (status == PS_OK) {
        struct ps_slice list = {.data = text, .n_bytes = n_bytes};
        status = replace(disk, folder, PS_SNAP_MANIFEST, &list, err);
    }
    if (status != PS_OK) { /* It may have got its name, and is given up: it must not count. */
        struct ps_error ignored;
        enum ps_status removed = ps_snap_unfinish(disk, folder, &ignored);
        (void)removed;
    }
    ps_failpoint("job.after_manifest");
    ps_mem_free(text);
    return status;
}

static enum ps_status finish(struct ps_cut_keeper *base, const struct ps_cut_whole *whole,
                             struct ps_cut_found *ret, struct ps_error *err)
{
    struct keeper *keeper = keeper_of(base);
    char name[PS_SNAP_DIR_BYTES];
    char folder[PS_SNAP_PATH_BYTES];
    struct ps_manifest *manifest =
        ps_mem_alloc(keeper->options.mem, PS_MEM_OTHER, sizeof(*manifest));
    if (manifest == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory to finish a snapshot");
    }
    ps_snap_dir_name(whole->generation, whole->cut, name);
    enum ps_status status = ps_snap_path(keeper->names[0], name, folder, err);
    status = status == PS_OK ? ps_disk_make_dir(keeper->options.disk, folder, err) : status;
    status = status == PS_OK ? fill_manifest(keeper, whole, folder, manifest, err) : status;
    status = status == PS_OK ? write_both(keeper, whole, folder, manifest, err) : status;
    if (status == PS_OK) {
        tell_found(manifest, keeper->names[0], ret);
    }
    ps_mem_free(manifest);
    return status;
}

/* ---- Find ----------------------------------------------------------------------------------- */

static void tell_passed_over(void *arg PS_UNUSED, const struct ps_snap_entry *entry)
{
    char name[PS_SNAP_DIR_BYTES];
    ps_snap_dir_name(entry->generation, entry->cut, name);
    ps_log(PS_LOG_WARN, "snapshot.passed_over", "snapshot=%s why=\"%s\"", name, entry->why.text);
}

/* Tell of an open snapshot, and close it. */
static enum ps_status tell(const struct ps_snap_place *place, struct ps_snap *snap,
                           struct ps_cut_found *ret, struct ps_error *err)
{
    uint8_t *job = NULL;
    size_t n_job_bytes = 0;
    enum ps_status status = ps_snap_job(snap, &job, &n_job_bytes, err);
    if (status == PS_OK) {
        const char *folder = ps_snap_folder(snap);
        const char *dir = place->dirs[0];
        for (uint32_t i = 0; i < place->n_dirs; i++) {
            size_t n = strlen(place->dirs[i]);
            dir =
                strncmp(folder, place->dirs[i], n) == 0 && folder[n] == '/' ? place->dirs[i] : dir;
        }
        tell_found(ps_snap_manifest(snap), dir, ret);
        ret->job = job;
        ret->n_job_bytes = n_job_bytes;
    }
    ps_snap_close(snap);
    return status;
}

static enum ps_status find(struct ps_cut_keeper *base, uint64_t generation, uint64_t cut,
                           struct ps_cut_found *ret, struct ps_error *err)
{
    struct keeper *keeper = keeper_of(base);
    struct ps_snap_place place = place_of(keeper, keeper->n_dirs);
    struct ps_snap *snap = NULL;
    enum ps_status status = ps_snap_open(&place, generation, cut, &snap, err);
    return status == PS_OK ? tell(&place, snap, ret, err) : status;
}

static enum ps_status newest(struct ps_cut_keeper *base, const char *dir, struct ps_cut_found *ret,
                             struct ps_error *err)
{
    struct keeper *keeper = keeper_of(base);
    struct ps_snap_place place = place_of(keeper, keeper->n_dirs);
    struct ps_snap *snap = NULL;
    if (dir != NULL) {
        place.dirs = &dir;
        place.n_dirs = 1;
    }
    enum ps_status status = ps_snap_open_newest(&place, tell_passed_over, NULL, &snap, err);
    return status == PS_OK ? tell(&place, snap, ret, err) : status;
}

static enum ps_status keep(struct ps_cut_keeper *base, struct ps_cut_kept *kept,
                           struct ps_error *err)
{
    struct keeper *keeper = keeper_of(base);
    struct ps_snap_place place = place_of(keeper, 1); /* What --restore names is not ours. */
    kept->n = kept->n == 0 ? keeper->options.n_keep : kept->n;
    return ps_snap_keep(&place, kept, err);
}

/* ---- Its life ------------------------------------------------------------------------------- */

static const struct ps_cut_keeper_ops ops = {
    .finish = finish,
    .find = find,
    .newest = newest,
    .keep = keep,
};

static enum ps_status add_dir(struct keeper *keeper, const char *dir, struct ps_error *err)
{
    size_t n = strlen(dir);
    if (n == 0 || n >= PS_SNAP_PATH_BYTES) {
        return ps_fail(err, PS_ERR_INVALID, "a snapshot directory of %zu bytes", n);
    }
    memcpy(keeper->dirs[keeper->n_dirs], dir, n + 1);
    keeper->names[keeper->n_dirs] = keeper->dirs[keeper->n_dirs];
    keeper->n_dirs++;
    return PS_OK;
}

enum ps_status ps_snap_keeper_create(const struct ps_snap_keeper_options *options,
                                     struct ps_cut_keeper **ret, struct ps_error *err)
{
    struct keeper *keeper = ps_mem_alloc(options->mem, PS_MEM_OTHER, sizeof(*keeper));
    if (keeper == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for a keeper of snapshots");
    }
    keeper->base.ops = &ops;
    keeper->options = *options;
    keeper->options.n_keep = options->n_keep == 0 ? PS_SNAP_KEEP : options->n_keep;
    enum ps_status status = add_dir(keeper, options->dir, err);
    if (status == PS_OK && options->also != NULL) {
        status = add_dir(keeper, options->also, err);
    }
    if (status != PS_OK) {
        ps_mem_free(keeper);
        return status;
    }
    *ret = &keeper->base;
    return PS_OK;
}

void ps_snap_keeper_destroy(struct ps_cut_keeper *keeper)
{
    if (keeper != NULL) {
        ps_mem_free(keeper_of(keeper));
    }
}
