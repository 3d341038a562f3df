/*
 * wal_segments.c — the files of a log: one segment after the other, see wal_impl.h.
 *
 * A segment gets its name when its head is on the disk, and its first record when its name is; then
 * the one before is sealed. So the end of a log is never in doubt: a segment that has a successor
 * is whole, one that is sealed has a successor.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/failpoint.h"
#include "base/limits.h"
#include "base/rng.h"
#include "log/wal_impl.h"
#include "num/checksum.h"

/* Below this, halves of a segment are not tried: any record must fit. */
#define LEAST_BYTES (8ull << 20)

PS_STATIC_ASSERT(LEAST_BYTES > PS_WAL_BODY_BYTES_MAX + 4096u, "any record fits a small segment");

static enum ps_status path_of(const struct ps_wal *wal, const char *name,
                              char path[PS_WAL_PATH_BYTES], struct ps_error *err)
{
    int n = snprintf(path, PS_WAL_PATH_BYTES, "%s/%s", wal->dir, name);
    return n > 0 && n < (int)PS_WAL_PATH_BYTES
               ? PS_OK
               : ps_fail(err, PS_ERR_INVALID, "the path of the log is too long");
}

static enum ps_status path_of_lsn(const struct ps_wal *wal, uint64_t first_lsn,
                                  char path[PS_WAL_PATH_BYTES], struct ps_error *err)
{
    char name[PS_WAL_NAME_BYTES];
    ps_wal_name(first_lsn, name);
    return path_of(wal, name, path, err);
}

uint64_t ps_wal_left(const struct ps_wal *wal)
{
    const struct ps_wal_files *files = &wal->files;
    uint64_t n_end = files->at + PS_WAL_HEAD_BYTES; /* The seal. */
    return files->open == NULL || files->n_room < n_end ? 0 : files->n_room - n_end;
}

/* ---- Known segments -------------------------------------------------------------------------- */

static void count_bytes(struct ps_wal *wal)
{
    const struct ps_wal_files *files = &wal->files;
    uint64_t n_bytes = 0;
    for (size_t i = 0; i < files->n_known; i++) {
        n_bytes += files->known[i].n_bytes;
    }
    atomic_store_explicit(&wal->n_bytes, n_bytes, memory_order_relaxed);
}

void ps_wal_files_grown(struct ps_wal *wal)
{
    struct ps_wal_files *files = &wal->files;
    struct ps_wal_known *last = &files->known[files->n_known - 1];
    (void)atomic_fetch_add_explicit(&wal->n_bytes, files->at - last->n_bytes, memory_order_relaxed);
    last->n_bytes = files->at;
}

static enum ps_status know(struct ps_wal *wal, uint64_t first_lsn, struct ps_error *err)
{
    struct ps_wal_files *files = &wal->files;
    if (files->n_known > 0 && files->known[files->n_known - 1].first_lsn == first_lsn) {
        return PS_OK; /* Replaced: it had no record. */
    }
    if (files->n_known == files->n_known_room) {
        size_t n_room = files->n_known_room == 0 ? 16 : files->n_known_room * 2;
        struct ps_wal_known *known =
            ps_mem_grow(NULL, PS_MEM_OTHER, files->known, n_room * sizeof(*known));
        if (known == NULL) {
            return ps_fail(err, PS_ERR_NOMEM, "no memory for the names of segments");
        }
        files->known = known;
        files->n_known_room = n_room;
    }
    files->known[files->n_known++] = (struct ps_wal_known){.first_lsn = first_lsn};
    return PS_OK;
}

static enum ps_status know_size(struct ps_wal *wal, uint64_t first_lsn, struct ps_error *err)
{
    char path[PS_WAL_PATH_BYTES];
    struct ps_disk_file *file = NULL;
    uint64_t n_bytes = 0;
    enum ps_status status = path_of_lsn(wal, first_lsn, path, err);
    if (status == PS_OK) {
        status = ps_disk_open(wal->options.disk, path, PS_DISK_READ, &file, err);
    }
    if (status == PS_OK) {
        status = ps_disk_file_size(file, &n_bytes, err);
        ps_disk_file_close(file);
    }
    if (status == PS_OK) {
        status = know(wal, first_lsn, err);
    }
    if (status == PS_OK) {
        wal->files.known[wal->files.n_known - 1].n_bytes = n_bytes;
    }
    return status;
}

static enum ps_status know_all(struct ps_wal *wal, struct ps_error *err)
{
    struct ps_disk_entry *entries = NULL;
    size_t n = 0;
    enum ps_status status = ps_disk_list(wal->options.disk, wal->dir, &entries, &n, err);
    for (size_t i = 0; i < n && status == PS_OK; i++) {
        uint64_t first_lsn = 0;
        if (ps_wal_name_parse(entries[i].name, &first_lsn)) {
            status = know_size(wal, first_lsn, err);
        }
    }
    ps_mem_free(entries);
    return status;
}

/* ---- The next segment ------------------------------------------------------------------------ */

/* A file with room for `n_bytes`: the usual size, or a half, a quarter ... on a small disk. */
static enum ps_status make_next(struct ps_wal *wal, uint64_t n_bytes, struct ps_error *err)
{
    struct ps_wal_files *files = &wal->files;
    uint64_t n_room = wal->options.segment_bytes > n_bytes ? wal->options.segment_bytes : n_bytes;
    uint64_t n_least = n_room < LEAST_BYTES ? n_room : LEAST_BYTES;
    n_least = n_least > n_bytes ? n_least : n_bytes;
    char path[PS_WAL_PATH_BYTES];
    struct ps_disk_file *file = NULL;
    enum ps_status status = path_of(wal, PS_WAL_NEXT_NAME, path, err);
    if (status == PS_OK) { /* One that was left: a loss of power could bring its bytes back. */
        enum ps_status removed = ps_disk_remove(wal->options.disk, path, NULL);
        (void)removed;
        status = ps_disk_open(wal->options.disk, path, PS_DISK_ANEW, &file, err);
    }
    if (status != PS_OK) {
        return status;
    }
    status = ps_disk_file_allocate(file, n_room, err);
    while (status == PS_ERR_NO_SPACE && n_room / 2 >= n_least) {
        n_room /= 2;
        status = ps_disk_file_allocate(file, n_room, err);
    }
    if (status != PS_OK) {
        ps_disk_file_close(file);
        enum ps_status removed = ps_disk_remove(wal->options.disk, path, NULL);
        (void)removed; /* It is made anew anyway. */
        return status;
    }
    files->next = file;
    files->n_next_room = n_room;
    return PS_OK;
}

static void drop_next(struct ps_wal *wal)
{
    ps_disk_file_close(wal->files.next);
    wal->files.next = NULL;
}

/* Its head, then its name. */
static enum ps_status name_next(struct ps_wal *wal, const struct ps_wal_segment *segment,
                                struct ps_error *err)
{
    struct ps_disk *disk = wal->options.disk;
    uint8_t head[PS_WAL_SEGMENT_HEAD_BYTES];
    struct ps_slice slice = {.data = head, .n_bytes = sizeof(head)};
    char from[PS_WAL_PATH_BYTES];
    char to[PS_WAL_PATH_BYTES];
    enum ps_status status = path_of(wal, PS_WAL_NEXT_NAME, from, err);
    if (status == PS_OK) {
        status = path_of_lsn(wal, segment->first_lsn, to, err);
    }
    ps_wal_segment_write(segment, head);
    if (status == PS_OK) {
        status = ps_disk_file_write(wal->files.next, 0, &slice, 1, err);
    }
    if (status == PS_OK && wal->options.sync) {
        status = ps_disk_file_sync(wal->files.next, err);
        /* Not to be tried again, whatever the reason. */
        status = status == PS_ERR_NO_SPACE ? PS_ERR_IO : status;
    }
    if (status == PS_OK) {
        status = ps_disk_rename(disk, from, to, err);
    }
    if (status == PS_OK && wal->options.sync && !wal->options.plant.dir_not_synced) {
        status = ps_disk_sync_dir(disk, wal->dir, err);
        status = status == PS_ERR_NO_SPACE ? PS_ERR_IO : status;
    }
    return status;
}

/*
 * The end of the segment that was open. Its successor has its name, so nothing can be tried again
 * any more; a seal for which there is no space is one witness less and nothing else.
 */
static enum ps_status seal(struct ps_wal *wal, struct ps_error *err)
{
    struct ps_wal_files *files = &wal->files;
    struct ps_wal_head head = {
        .kind = PS_WAL_SEAL,
        .lsn = wal->next_lsn,
        .durable_upto = wal->next_lsn - 1,
        .body_sum = ps_checksum64(NULL, 0, files->salt),
    };
    uint8_t bytes[PS_WAL_HEAD_BYTES];
    struct ps_slice slice = {.data = bytes, .n_bytes = sizeof(bytes)};
    ps_wal_head_write(&head, files->salt, bytes);
    enum ps_status status = ps_disk_file_write(files->open, files->at, &slice, 1, err);
    if (status == PS_ERR_NO_SPACE) {
        return PS_OK;
    }
    files->at += sizeof(bytes);
    ps_wal_files_grown(wal);
    if (status == PS_OK && wal->options.sync) {
        status = ps_disk_file_sync(files->open, err);
        status = status == PS_ERR_NO_SPACE ? PS_ERR_IO : status;
    }
    /* What is left of its room goes back to the disk, if that can be. */
    enum ps_status cut = ps_disk_file_truncate(files->open, files->at, NULL);
    (void)cut;
    return status;
}

static uint64_t next_salt(struct ps_wal *wal)
{
    uint64_t salt = ps_mix64(wal->options.salt ^ ps_mix64(++wal->files.n_made));
    return salt == 0 ? 1 : salt;
}

static void open_next(struct ps_wal *wal, const struct ps_wal_segment *segment)
{
    struct ps_wal_files *files = &wal->files;
    ps_disk_file_close(files->open);
    files->open = files->next;
    files->n_room = files->n_next_room;
    files->at = PS_WAL_SEGMENT_HEAD_BYTES;
    files->salt = segment->salt;
    files->prev_salt = segment->prev_salt;
    files->next = NULL;
    files->ahead = files->n_room / 2 < PS_WAL_AHEAD_BYTES ? files->n_room / 2 : PS_WAL_AHEAD_BYTES;
    ps_wal_files_grown(wal);
    wal->noted = wal->next_lsn - 1; /* That it is there says so. */
}

/* A segment without any is replaced by its successor, which has the same name. */
static bool has_records(const struct ps_wal_files *files)
{
    return files->open != NULL && files->at > PS_WAL_SEGMENT_HEAD_BYTES;
}

enum ps_status ps_wal_rotate(struct ps_wal *wal, uint64_t n_bytes, struct ps_error *err)
{
    struct ps_wal_files *files = &wal->files;
    uint64_t n_least = PS_WAL_SEGMENT_HEAD_BYTES + n_bytes + PS_WAL_HEAD_BYTES;
    if (files->next != NULL && files->n_next_room < n_least) {
        drop_next(wal);
    }
    enum ps_status status = files->next == NULL ? make_next(wal, n_least, err) : PS_OK;
    if (status != PS_OK) {
        return status;
    }
    struct ps_wal_segment segment = {
        .server = wal->options.server,
        .sync = wal->options.sync,
        .salt = next_salt(wal),
        .prev_salt = has_records(files) ? files->salt : files->prev_salt,
        .first_lsn = wal->next_lsn,
        .n_bytes = files->n_next_room,
    };
    PS_ASSERT(wal->durable + 1 == wal->next_lsn); /* What its successor says of a segment. */
    status = name_next(wal, &segment, err);
    if (status != PS_OK) {
        return status;
    }
    ps_failpoint("log.rotate");
    if (has_records(files)) {
        status = seal(wal, err);
    }
    if (status == PS_OK) {
        status = know(wal, segment.first_lsn, err);
    }
    if (status == PS_OK) {
        open_next(wal, &segment);
    }
    return status;
}

enum ps_status ps_wal_look_ahead(struct ps_wal *wal, struct ps_error *err)
{
    struct ps_wal_files *files = &wal->files;
    if (files->next != NULL || ps_wal_left(wal) >= files->ahead) {
        return PS_OK;
    }
    return make_next(wal, 0, err);
}

/* ---- Opening, trimming, closing -------------------------------------------------------------- */

/* Behind the last segment that has records; one that has none is replaced by the new one. */
static enum ps_status continue_last(struct ps_wal *wal, const struct ps_wal_end *end,
                                    struct ps_error *err)
{
    struct ps_wal_files *files = &wal->files;
    char path[PS_WAL_PATH_BYTES];
    files->prev_salt = end->prev_salt;
    if (end->n_bytes <= PS_WAL_SEGMENT_HEAD_BYTES) {
        PS_ASSERT(end->first_lsn == end->next_lsn);
        return PS_OK;
    }
    files->salt = end->salt;
    files->at = end->n_bytes;
    files->n_room = end->n_bytes;
    enum ps_status status = path_of_lsn(wal, end->first_lsn, path, err);
    if (status == PS_OK) {
        status = ps_disk_open(wal->options.disk, path, PS_DISK_WRITE, &files->open, err);
    }
    return status;
}

enum ps_status ps_wal_files_open(struct ps_wal *wal, const struct ps_wal_end *end,
                                 struct ps_error *err)
{
    enum ps_status status = know_all(wal, err);
    if (status == PS_OK && end->has_segment) {
        status = continue_last(wal, end, err);
    }
    count_bytes(wal);
    return status == PS_OK ? ps_wal_rotate(wal, 0, err) : status;
}

enum ps_status ps_wal_files_trim(struct ps_wal *wal, uint64_t lsn, struct ps_error *err)
{
    struct ps_wal_files *files = &wal->files;
    enum ps_status status = PS_OK;
    while (status == PS_OK && files->n_known >= 2 && files->known[1].first_lsn <= lsn) {
        char path[PS_WAL_PATH_BYTES];
        ps_failpoint("log.before_trim");
        status = path_of_lsn(wal, files->known[0].first_lsn, path, err);
        if (status == PS_OK) {
            status = ps_disk_remove(wal->options.disk, path, err);
            status = status == PS_ERR_NOT_FOUND ? PS_OK : status;
        }
        /* One by one, or a power cut might leave an older one and take a younger. */
        if (status == PS_OK) {
            status = ps_disk_sync_dir(wal->options.disk, wal->dir, err);
        }
        if (status == PS_OK) {
            files->n_known--;
            memmove(files->known, files->known + 1, files->n_known * sizeof(files->known[0]));
            count_bytes(wal);
        }
    }
    return status;
}

void ps_wal_files_close(struct ps_wal *wal)
{
    ps_disk_file_close(wal->files.open);
    drop_next(wal);
    ps_mem_free(wal->files.known);
}
