/* gather.c — see gather.h. */
#include "snap/gather.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "snap/keep.h"
#include "snap/layout.h"
#include "snap/snap_file.h"

struct gathering {
    struct ps_gather *gather;
    struct ps_manifest manifest;
    char folder[PS_SNAP_PATH_BYTES]; /* Of the cut. */
    uint8_t piece[PS_SNAP_CHUNK_BYTES];
    struct ps_error *err;
};

static struct ps_gather_piece piece_of(const struct gathering *g, enum ps_gather_file file,
                                       uint32_t server)
{
    return (struct ps_gather_piece){
        .generation = g->gather->generation,
        .cut = g->gather->cut,
        .file = file,
        .server = server,
        .address = file == PS_GATHER_PART || file == PS_GATHER_DATA
                       ? g->manifest.parts[server].address
                       : "",
    };
}

/* A file of at most PS_SNAP_TEXT_BYTES as a whole; `*ret` is freed with ps_mem_free. */
static enum ps_status fetch_whole(struct gathering *g, struct ps_gather_piece piece, uint8_t **ret,
                                  size_t *ret_n_bytes)
{
    uint8_t *all = NULL;
    size_t n_all = 0;
    size_t n = 0;
    enum ps_status status = PS_OK;
    do {
        piece.offset = n_all;
        status = g->gather->fetch(g->gather->arg, &piece, g->piece, &n, g->err);
        if (status == PS_OK && (n > sizeof(g->piece) || n > PS_SNAP_TEXT_BYTES - n_all)) {
            status = ps_fail(g->err, PS_ERR_CORRUPT, "more bytes than a snapshot's list can have");
        }
        uint8_t *more =
            status == PS_OK ? ps_mem_grow(g->gather->mem, PS_MEM_OTHER, all, n_all + n + 1) : NULL;
        if (status == PS_OK && more == NULL) {
            status = ps_fail(g->err, PS_ERR_NOMEM, "no memory for a snapshot's list of files");
        }
        if (more != NULL) {
            all = more;
            memcpy(all + n_all, g->piece, n);
            n_all += n;
        }
    } while (status == PS_OK && n > 0);
    if (status != PS_OK) {
        ps_mem_free(all);
        return status;
    }
    g->gather->n_bytes += n_all;
    *ret = all;
    *ret_n_bytes = n_all;
    return PS_OK;
}

static enum ps_status other(struct gathering *g, uint32_t server, const char *name)
{
    return ps_fail(g->err, PS_ERR_CORRUPT,
                   "server %" PRIu32 " (%.80s): its file %.64s is not what it wrote", server,
                   g->manifest.parts[server].address, name);
}

/* One file of data, into the folder `temp`. */
static enum ps_status fetch_file(struct gathering *g, uint32_t server, uint32_t number,
                                 const struct ps_snap_file *about, const char *temp)
{
    struct ps_snap_out out = {0};
    struct ps_snap_file written = {0};
    struct ps_gather_piece piece = piece_of(g, PS_GATHER_DATA, server);
    size_t n = 1;
    enum ps_status status =
        ps_snap_out_open(&out, g->gather->disk, g->gather->mem, temp, about->name, g->err);
    out.about.table = about->table;
    piece.number = number;
    while (status == PS_OK && piece.offset < about->n_bytes && n > 0) {
        status = g->gather->fetch(g->gather->arg, &piece, g->piece, &n, g->err);
        if (status == PS_OK && n > sizeof(g->piece)) {
            status = other(g, server, about->name);
        }
        if (status == PS_OK) {
            status = ps_snap_out_put(&out, g->piece, n, g->err);
            piece.offset += n;
        }
    }
    if (status == PS_OK) {
        status = ps_snap_out_finish(&out, true, &written, g->err);
    }
    ps_snap_out_cancel(&out);
    if (status == PS_OK &&
        (written.n_bytes != about->n_bytes || written.n_chunks != about->n_chunks ||
         (about->n_chunks > 0 && memcmp(written.chunks, about->chunks,
                                        about->n_chunks * sizeof(about->chunks[0])) != 0))) {
        status = other(g, server, about->name);
    }
    g->gather->n_bytes += written.n_bytes;
    ps_mem_free(written.chunks);
    return status;
}

static enum ps_status write_whole(struct gathering *g, const char *folder, const char *name,
                                  const uint8_t *data, size_t n_bytes)
{
    char path[PS_SNAP_PATH_BYTES];
    enum ps_status status = ps_snap_path(folder, name, path, g->err);
    return status == PS_OK ? ps_disk_replace(g->gather->disk, path, data, n_bytes, g->err) : status;
}

/* All files of a part whose list is `text`. */
static enum ps_status fetch_files(struct gathering *g, uint32_t server, const char *temp,
                                  const uint8_t *text, size_t n_text)
{
    struct ps_snap_part part;
    enum ps_status status = ps_snap_part_read(g->gather->mem, text, n_text, &part, g->err);
    if (status != PS_OK) {
        return status;
    }
    for (uint32_t i = 0; status == PS_OK && i < part.n_files; i++) {
        status = fetch_file(g, server, i, &part.files[i], temp);
    }
    ps_snap_part_deinit(&part);
    return status == PS_OK ? write_whole(g, temp, PS_SNAP_PART, text, n_text) : status;
}

static enum ps_status fetch_part(struct gathering *g, uint32_t server)
{
    struct ps_disk *disk = g->gather->disk;
    char name[64];
    char place[PS_SNAP_PATH_BYTES];
    char temp[PS_SNAP_PATH_BYTES];
    uint8_t *text = NULL;
    size_t n_text = 0;
    (void)snprintf(name, sizeof(name), PS_SNAP_SERVER "%" PRIu32, server);
    enum ps_status status = ps_snap_path(g->folder, name, place, g->err);
    if (status == PS_OK) {
        (void)snprintf(name, sizeof(name), PS_SNAP_SERVER "%" PRIu32 PS_SNAP_TEMP, server);
        status = ps_snap_path(g->folder, name, temp, g->err);
    }
    if (status == PS_OK) {
        status = fetch_whole(g, piece_of(g, PS_GATHER_PART, server), &text, &n_text);
    }
    if (status == PS_OK &&
        !ps_checksum128_equal(ps_checksum128(text, n_text), g->manifest.parts[server].sum)) {
        status = other(g, server, PS_SNAP_PART);
    }
    status = status == PS_OK ? ps_snap_remove_folder(disk, temp, g->err) : status;
    status = status == PS_OK ? ps_disk_make_dir(disk, temp, g->err) : status;
    status = status == PS_OK ? fetch_files(g, server, temp, text, n_text) : status;
    status = status == PS_OK ? ps_disk_sync_dir(disk, temp, g->err) : status;
    status = status == PS_OK ? ps_disk_rename(disk, temp, place, g->err) : status;
    ps_mem_free(text);
    return status;
}

/* MANIFEST is here: job, parts, and MANIFEST itself as the last. */
static enum ps_status fetch_all(struct gathering *g, const uint8_t *text, size_t n_text)
{
    uint8_t *job = NULL;
    size_t n_job = 0;
    enum ps_status status = ps_manifest_read(text, n_text, &g->manifest, g->err);
    if (status == PS_OK &&
        (g->manifest.generation != g->gather->generation || g->manifest.cut != g->gather->cut)) {
        status =
            ps_fail(g->err, PS_ERR_CORRUPT, "the coordinator gave the list of another snapshot");
    }
    status = status == PS_OK ? fetch_whole(g, piece_of(g, PS_GATHER_JOB, 0), &job, &n_job) : status;
    if (status == PS_OK &&
        (n_job != g->manifest.n_job_bytes ||
         !ps_checksum128_equal(ps_checksum128(job, n_job), g->manifest.job_sum))) {
        status = ps_fail(g->err, PS_ERR_CORRUPT, "the coordinator's " PS_SNAP_JOB " is damaged");
    }
    status = status == PS_OK ? ps_disk_make_dir(g->gather->disk, g->folder, g->err) : status;
    for (uint32_t i = 0; status == PS_OK && i < g->manifest.n_parts; i++) {
        status = fetch_part(g, i);
    }
    status = status == PS_OK ? write_whole(g, g->folder, PS_SNAP_JOB, job, n_job) : status;
    status = status == PS_OK ? ps_disk_sync_dir(g->gather->disk, g->gather->dir, g->err) : status;
    status = status == PS_OK ? write_whole(g, g->folder, PS_SNAP_MANIFEST, text, n_text) : status;
    ps_mem_free(job);
    return status;
}

enum ps_status ps_snap_gather(struct ps_gather *gather, struct ps_error *err)
{
    char name[PS_SNAP_DIR_BYTES];
    uint8_t *text = NULL;
    size_t n_text = 0;
    struct gathering *g = ps_mem_alloc(gather->mem, PS_MEM_OTHER, sizeof(*g));
    if (g == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory to gather a snapshot");
    }
    g->gather = gather;
    g->err = err;
    gather->n_bytes = 0;
    ps_snap_dir_name(gather->generation, gather->cut, name);
    enum ps_status status = ps_snap_path(gather->dir, name, g->folder, err);
    if (status == PS_OK) {
        status = fetch_whole(g, piece_of(g, PS_GATHER_MANIFEST, 0), &text, &n_text);
    }
    if (status == PS_OK) {
        status = fetch_all(g, text, n_text);
        ps_mem_free(text);
    }
    ps_mem_free(g);
    return status;
}
