/*
 * recover.c — see recover.h.
 *
 *   segment 1: head, records ... seal | segment 2: head, records ... seal | last: head, records ?
 *
 * Only the last segment can have a torn end: one that has a successor was durable before that got
 * its name. So everywhere else the first bad byte is damage, and here it is when something behind
 * it says that it was durable.
 */
#include "log/recover.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/attr.h"
#include "base/failpoint.h"
#include "base/limits.h"
#include "log/wal_format.h"
#include "num/checksum.h"
#include "port/transport.h"

#define PATH_BYTES   4096u
#define WINDOW_BYTES (1u << 20) /* Read at a time. */

/* What is known of the segment in hand. */
struct part {
    struct ps_disk_file *file;
    char path[PATH_BYTES];
    uint64_t n_bytes;
    uint64_t at; /* All before is good. */
    struct ps_wal_segment head;
    bool last;
    bool sealed;
    bool ended;        /* An earlier recovery has said so. */
    uint64_t next_lsn; /* The name of the segment behind it; UINT64_MAX: it is the last. */
};

/* A record that waits for others of its lsn: with the planted bug only. */
struct held {
    struct held *next;
    struct ps_wal_head head;
    struct ps_slice body;
    uint8_t bytes[];
};

struct reader {
    const struct ps_wal_recovery *recovery;
    const struct ps_wal_visitor *visitor;
    struct ps_wal_recovered *ret;
    struct ps_disk_entry *entries;
    size_t n_entries;
    struct part part;
    uint64_t lsn;       /* Expected next. */
    uint64_t prev_salt; /* Of the segment before; */
    bool has_prev;      /*   was there one? */
    uint8_t *window;
    size_t n_window_room; /* WINDOW_BYTES, or what the longest segment so far needs. */
    uint64_t window_at;
    size_t n_window;
    uint8_t *body; /* Of the record in hand, when it is longer than a window. */
    size_t n_body_room;
    struct held *held;
};

/* ---- Words ----------------------------------------------------------------------------------- */

static enum ps_status corrupt(const struct reader *reader, uint64_t at, const char *what,
                              struct ps_error *err)
{
    const struct part *part = &reader->part;
    const char *hint = part->head.sync || part->head.first_lsn == 0
                           ? ""
                           : ", written with --durability log, which a power cut may damage";
    return ps_fail(err, PS_ERR_CORRUPT,
                   "%s:%" PRIu64 ": %s (record %" PRIu64 ")%s; bring the file back from a copy, or "
                   "move the log's folder away to go on without it",
                   part->path, at, what, reader->lsn, hint);
}

/* ---- Bytes of the segment in hand ------------------------------------------------------------ */

/*
 * `n_bytes` bytes at `at`, which are there; valid until the next look. Longer than the window: read
 * into memory of their own.
 */
static enum ps_status look(struct reader *reader, uint64_t at, size_t n_bytes, const uint8_t **ret,
                           struct ps_error *err)
{
    size_t n_read = 0;
    PS_ASSERT(reader->window != NULL); /* Whoever looks has a segment with bytes. */
    if (at >= reader->window_at && at + n_bytes <= reader->window_at + reader->n_window) {
        *ret = reader->window + (at - reader->window_at);
        return PS_OK;
    }
    uint8_t *to = reader->window;
    size_t n_want = reader->n_window_room;
    if (n_bytes > reader->n_window_room) {
        if (n_bytes > reader->n_body_room) {
            ps_mem_free(reader->body);
            reader->body = ps_mem_alloc(reader->recovery->mem, PS_MEM_OTHER, n_bytes);
            reader->n_body_room = reader->body == NULL ? 0 : n_bytes;
        }
        if (reader->body == NULL) {
            return ps_fail(err, PS_ERR_NOMEM, "no memory for a record of %zu bytes", n_bytes);
        }
        to = reader->body;
        n_want = n_bytes;
    }
    enum ps_status status = ps_disk_file_read(reader->part.file, at, to, n_want, &n_read, err);
    if (status == PS_OK && n_read < n_bytes) {
        status = ps_fail(err, PS_ERR_IO, "%s:%" PRIu64 ": the file has become shorter",
                         reader->part.path, at + n_read);
    }
    if (to == reader->window) {
        reader->window_at = at;
        reader->n_window = status == PS_OK ? n_read : 0;
    }
    *ret = to;
    return status;
}

/* ---- Records to the visitor ------------------------------------------------------------------ */

/* A record read back: one piece of memory that lives as long as its message. */
struct record_msg {
    struct ps_msg msg;
    struct ps_slice slice;
    uint64_t bytes[]; /* Room for lists, then the body. */
};

static void destroy_msg(struct ps_msg *msg)
{
    ps_mem_free(PS_CONTAINER_OF(msg, struct record_msg, msg));
}

enum ps_status ps_wal_hold(struct ps_mem *mem, const uint8_t *body, size_t n_body,
                           struct ps_record *ret, struct ps_msg **ret_msg, struct ps_error *err)
{
    size_t n_room = (ps_wal_record_room(body, n_body) + 7) / 8 * 8;
    struct record_msg *held =
        ps_mem_alloc_beyond(mem, PS_MEM_CALLS, sizeof(*held) + n_room + n_body);
    if (held == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for a record of %zu bytes", n_body);
    }
    uint8_t *copy = (uint8_t *)held->bytes + n_room;
    memcpy(copy, body, n_body);
    enum ps_status status = ps_wal_record_read(copy, n_body, held->bytes, ret, &held->slice, err);
    if (status != PS_OK) {
        ps_mem_free(held);
        return status;
    }
    held->msg = (struct ps_msg){
        .slices = &held->slice,
        .n_slices = 1,
        .n_bytes = held->slice.n_bytes,
        .destroy = destroy_msg,
    };
    atomic_store_explicit(&held->msg.n_refs, 1, memory_order_relaxed);
    if (ret->kind == PS_RECORD_PUSH || ret->kind == PS_RECORD_STAGE) {
        ret->push.payload = ps_cursor_over(&held->slice, 1);
        ret->push.msg = &held->msg;
    }
    *ret_msg = &held->msg;
    return PS_OK;
}

static enum ps_status visit_record(struct reader *reader, uint64_t lsn, const uint8_t *body,
                                   size_t n_body, struct ps_error *err)
{
    struct ps_record record;
    struct ps_msg *msg = NULL;
    enum ps_status status = ps_wal_hold(reader->recovery->mem, body, n_body, &record, &msg, err);
    if (status == PS_OK) {
        ps_failpoint("recover.mid_replay");
        status = reader->visitor->record(reader->visitor->arg, lsn, &record, err);
        ps_msg_unref(msg);
    }
    return status;
}

static enum ps_status visit_table(struct reader *reader, uint64_t lsn, const uint8_t *body,
                                  size_t n_body, struct ps_error *err)
{
    uint32_t number = 0;
    struct ps_slice bytes = {0};
    enum ps_status status = ps_wal_table_read(body, n_body, &number, &bytes, err);
    return status != PS_OK ? status
                           : reader->visitor->table(reader->visitor->arg, lsn, number, bytes.data,
                                                    bytes.n_bytes, err);
}

static enum ps_status visit_generation(struct reader *reader, uint64_t lsn, const uint8_t *body,
                                       size_t n_body, struct ps_error *err)
{
    uint64_t generation = 0;
    const char *dir = NULL;
    const char *cut = NULL;
    enum ps_status status = ps_wal_generation_read(body, n_body, &generation, &dir, &cut, err);
    return status != PS_OK
               ? status
               : reader->visitor->generation(reader->visitor->arg, lsn, generation, dir, cut, err);
}

static enum ps_status visit(struct reader *reader, const struct ps_wal_head *head,
                            const uint8_t *body, struct ps_error *err)
{
    const struct ps_wal_visitor *visitor = reader->visitor;
    enum ps_status status = PS_OK;
    bool wanted = false;
    switch (head->kind) {
    case PS_WAL_RECORD:
        wanted = visitor->record != NULL;
        status = wanted ? visit_record(reader, head->lsn, body, head->n_body, err) : PS_OK;
        break;
    case PS_WAL_TABLE:
        wanted = visitor->table != NULL;
        status = wanted ? visit_table(reader, head->lsn, body, head->n_body, err) : PS_OK;
        break;
    case PS_WAL_GENERATION:
        wanted = visitor->generation != NULL;
        status = wanted ? visit_generation(reader, head->lsn, body, head->n_body, err) : PS_OK;
        break;
    case PS_WAL_NOTHING:
    case PS_WAL_NOTE:
    case PS_WAL_END:
    case PS_WAL_SEAL: break;
    }
    reader->ret->n_records += wanted && status == PS_OK ? 1 : 0;
    return status;
}

/* ---- Planted: records of one lsn in no particular order -------------------------------------- */

static enum ps_status visit_held(struct reader *reader, struct ps_error *err)
{
    enum ps_status status = PS_OK;
    while (reader->held != NULL) { /* The last one first. */
        struct held *held = reader->held;
        reader->held = held->next;
        if (status == PS_OK) {
            status = visit(reader, &held->head, held->bytes, err);
        }
        ps_mem_free(held);
    }
    return status;
}

static enum ps_status visit_out_of_order(struct reader *reader, const struct ps_wal_head *head,
                                         const uint8_t *body, struct ps_error *err)
{
    if (reader->held != NULL && reader->held->head.lsn != head->lsn) {
        enum ps_status status = visit_held(reader, err);
        if (status != PS_OK) {
            return status;
        }
    }
    struct held *held = ps_mem_alloc(NULL, PS_MEM_OTHER, sizeof(*held) + head->n_body);
    PS_ASSERT(held != NULL);
    held->head = *head;
    held->next = reader->held;
    memcpy(held->bytes, body, head->n_body);
    reader->held = held;
    return PS_OK;
}

/* ---- One segment ----------------------------------------------------------------------------- */

static bool fits(const struct reader *reader, const struct ps_wal_head *head)
{
    bool again = reader->recovery->plant_reorder_equal_lsn && head->lsn + 1 == reader->lsn;
    return (head->lsn == reader->lsn || again) &&
           reader->part.n_bytes - reader->part.at >= ps_wal_record_bytes(head->n_body);
}

static bool zeros(const uint8_t *bytes, size_t n_bytes)
{
    size_t n = 0;
    while (n < n_bytes && bytes[n] == 0) {
        n++;
    }
    return n == n_bytes;
}

enum next {
    GOOD, /* A record, or what says that there are no more. */
    BAD   /* Damage, or the end. */
};

/* The record at part.at; when it is good, it is visited and part.at is behind it. */
static enum ps_status next_record(struct reader *reader, enum next *ret, struct ps_error *err)
{
    struct part *part = &reader->part;
    struct ps_wal_head head;
    const uint8_t *bytes = NULL;
    *ret = BAD;
    if (part->n_bytes - part->at < PS_WAL_HEAD_BYTES) {
        return PS_OK;
    }
    enum ps_status status = look(reader, part->at, PS_WAL_HEAD_BYTES, &bytes, err);
    if (status != PS_OK || !ps_wal_head_read(bytes, part->head.salt, &head) ||
        !fits(reader, &head)) {
        return status;
    }
    size_t n_bytes = ps_wal_record_bytes(head.n_body);
    status = look(reader, part->at, n_bytes, &bytes, err);
    if (status != PS_OK) {
        return status;
    }
    PS_ASSERT(bytes != NULL);
    const uint8_t *body = bytes + PS_WAL_HEAD_BYTES;
    if (ps_checksum64(body, head.n_body, part->head.salt) != head.body_sum ||
        !zeros(body + head.n_body, n_bytes - PS_WAL_HEAD_BYTES - head.n_body)) {
        return PS_OK;
    }
    *ret = GOOD;
    if (head.kind == PS_WAL_SEAL || head.kind == PS_WAL_END) {
        part->sealed = head.kind == PS_WAL_SEAL;
        part->ended = head.kind == PS_WAL_END;
        return PS_OK; /* What there is to go on with ends before it. */
    }
    reader->lsn = head.lsn + 1;
    if (head.lsn >= reader->recovery->from_lsn) {
        status = reader->recovery->plant_reorder_equal_lsn
                     ? visit_out_of_order(reader, &head, body, err)
                     : visit(reader, &head, body, err);
    }
    if (status == PS_ERR_CORRUPT) {
        return ps_wrap(err, status, "%s:%" PRIu64, part->path, part->at);
    }
    part->at += n_bytes;
    return status;
}

static enum ps_status read_head(struct reader *reader, uint64_t first_lsn, struct ps_error *err)
{
    struct part *part = &reader->part;
    const uint8_t *bytes = NULL;
    reader->lsn = first_lsn;
    if (part->n_bytes < PS_WAL_SEGMENT_HEAD_BYTES) {
        return corrupt(reader, 0, "the head of the segment is missing", err);
    }
    enum ps_status status = look(reader, 0, PS_WAL_SEGMENT_HEAD_BYTES, &bytes, err);
    if (status != PS_OK) {
        return status;
    }
    struct ps_error why = {0};
    status = ps_wal_segment_read(bytes, &part->head, &why);
    if (status == PS_ERR_UNSUPPORTED) {
        return ps_fail(err, status, "%s: %s", part->path, why.text);
    }
    if (status != PS_OK) {
        return corrupt(reader, 0, why.text, err);
    }
    const struct ps_id *server = &reader->recovery->server;
    if (part->head.first_lsn != first_lsn) {
        return corrupt(reader, 40, "this is another segment under a wrong name", err);
    }
    if (!ps_id_none(server) && !ps_id_equal(server, &part->head.server)) {
        return corrupt(reader, 16, "this is a segment of another server's log", err);
    }
    if (reader->has_prev && part->head.prev_salt != reader->prev_salt) {
        return corrupt(reader, 48, "this segment does not follow the one before it", err);
    }
    part->at = PS_WAL_SEGMENT_HEAD_BYTES;
    return PS_OK;
}

/* A segment that has a successor is whole, up to the first record of that. */
static enum ps_status check_whole(const struct reader *reader, struct ps_error *err)
{
    const struct part *part = &reader->part;
    if (reader->lsn == part->next_lsn) {
        return PS_OK;
    }
    if (reader->lsn > part->next_lsn) {
        return corrupt(reader, part->at, "two segments have the same record", err);
    }
    return corrupt(reader, part->at,
                   part->sealed ? "the segment that follows is missing" : "the log is damaged",
                   err);
}

/*
 * Is there anything behind the bad place that says that its record was durable? Counts what is
 * torn.
 */
static enum ps_status search_witness(struct reader *reader, struct ps_error *err)
{
    const struct part *part = &reader->part;
    for (uint64_t at = part->at; at < part->n_bytes;) {
        uint64_t n_left = part->n_bytes - at;
        size_t n = n_left < reader->n_window_room ? (size_t)n_left : reader->n_window_room;
        const uint8_t *bytes = NULL;
        enum ps_status status = look(reader, at, n, &bytes, err);
        if (status != PS_OK) {
            return status;
        }
        if (ps_wal_find_witness(bytes, n, part->head.salt, reader->lsn) < n) {
            return corrupt(reader, part->at, "the log is damaged", err);
        }
        size_t n_used = n;
        while (n_used > 0 && bytes[n_used - 1] == 0) {
            n_used--;
        }
        if (n_used > 0) {
            reader->ret->n_bytes_torn = at + n_used - part->at;
        }
        /* The next window begins early enough for a head that this one cuts. */
        at += n_left > n ? n - PS_WAL_HEAD_BYTES : n;
    }
    return PS_OK;
}

/*
 * Write down that the log ends here, then take away what is behind: whoever finds a segment that is
 * shorter than it was made and does not say so knows that something is missing.
 */
static enum ps_status write_end(struct reader *reader, struct ps_error *err)
{
    struct part *part = &reader->part;
    struct ps_wal_head head = {
        .kind = PS_WAL_END,
        .lsn = reader->lsn,
        .durable_upto = reader->lsn - 1,
        .body_sum = ps_checksum64(NULL, 0, part->head.salt),
    };
    uint8_t bytes[PS_WAL_HEAD_BYTES];
    struct ps_slice slice = {.data = bytes, .n_bytes = sizeof(bytes)};
    ps_wal_head_write(&head, part->head.salt, bytes);
    enum ps_status status = PS_OK;
    if (!part->ended) {
        status = ps_disk_file_write(part->file, part->at, &slice, 1, err);
    }
    if (status == PS_OK) {
        status = ps_disk_file_sync(part->file, err);
    }
    if (status == PS_OK) {
        status = ps_disk_file_truncate(part->file, part->at + sizeof(bytes), err);
    }
    return status == PS_OK ? ps_disk_file_sync(part->file, err) : status;
}

/* The end of the log: behind it there must be nothing that was acknowledged. */
static enum ps_status end_last(struct reader *reader, struct ps_error *err)
{
    const struct part *part = &reader->part;
    enum ps_status status = PS_OK;
    if (part->sealed) {
        return corrupt(reader, part->at, "the segment that follows is missing", err);
    }
    if (!part->ended && !reader->recovery->plant_middle_truncated) {
        if (part->n_bytes < part->head.n_bytes) {
            return corrupt(reader, part->n_bytes, "the end of the segment is missing", err);
        }
        status = search_witness(reader, err);
    }
    if (status == PS_OK && reader->recovery->repair) {
        status = write_end(reader, err);
    }
    reader->ret->torn_at = part->at;
    reader->ret->end = (struct ps_wal_end){
        .next_lsn = reader->lsn,
        .has_segment = true,
        .first_lsn = part->head.first_lsn,
        .n_bytes = part->at,
        .salt = part->head.salt,
        .prev_salt = part->head.prev_salt,
    };
    return status;
}

/* What is read was perhaps only written: whoever is answered because of it may rely on it. */
static enum ps_status settle(struct reader *reader, struct ps_error *err)
{
    struct part *part = &reader->part;
    if (!reader->recovery->repair) {
        return PS_OK;
    }
    enum ps_status status = ps_disk_file_sync(part->file, err);
    if (status == PS_OK && part->last) {
        /* Its writer may have ended because a sync failed; memory may then have what the disk has
         * not. */
        ps_disk_file_forget(part->file);
    }
    return status;
}

static enum ps_status make_window(struct reader *reader, struct ps_error *err)
{
    uint64_t n_bytes = reader->part.n_bytes;
    /* A multiple of PS_WAL_ALIGN: windows follow each other, and heads begin at such places. */
    size_t n_want = n_bytes < WINDOW_BYTES ? ((size_t)n_bytes + 7) / 8 * 8 : WINDOW_BYTES;
    if (n_want <= reader->n_window_room) {
        return PS_OK;
    }
    ps_mem_free(reader->window);
    reader->window = ps_mem_alloc(reader->recovery->mem, PS_MEM_OTHER, n_want);
    reader->n_window_room = reader->window == NULL ? 0 : n_want;
    return reader->window != NULL ? PS_OK : ps_fail(err, PS_ERR_NOMEM, "no memory to read the log");
}

static enum ps_status read_segment(struct reader *reader, uint64_t first_lsn, struct ps_error *err)
{
    struct part *part = &reader->part;
    enum ps_status status = settle(reader, err);
    if (status == PS_OK) {
        status = ps_disk_file_size(part->file, &part->n_bytes, err);
    }
    if (status == PS_OK) {
        status = make_window(reader, err);
    }
    if (status == PS_OK) {
        status = read_head(reader, first_lsn, err);
    }
    enum next next = GOOD;
    while (status == PS_OK && next == GOOD && !part->sealed && !part->ended &&
           reader->lsn < part->next_lsn) {
        status = next_record(reader, &next, err);
    }
    if (status == PS_OK && !part->last && !part->sealed && !part->ended &&
        reader->lsn == part->next_lsn) {
        status = next_record(reader, &next, err); /* Its seal, if it was written. */
    }
    if (status != PS_OK) {
        return status;
    }
    reader->ret->n_bytes_read += part->at;
    if (reader->recovery->plant_middle_truncated && next == BAD && reader->lsn < part->next_lsn) {
        part->last = true; /* Planted: whatever is bad is the end. */
    }
    return part->last ? end_last(reader, err) : check_whole(reader, err);
}

/* ---- The directory --------------------------------------------------------------------------- */

static enum ps_status list_segments(struct reader *reader, struct ps_error *err)
{
    const struct ps_wal_recovery *recovery = reader->recovery;
    size_t n = 0;
    enum ps_status status = ps_disk_list(recovery->disk, recovery->dir, &reader->entries, &n, err);
    if (status == PS_ERR_NOT_FOUND) {
        return PS_OK;
    }
    for (size_t i = 0; i < n && status == PS_OK; i++) {
        uint64_t first_lsn = 0;
        if (ps_wal_name_parse(reader->entries[i].name, &first_lsn) && !reader->entries[i].is_dir) {
            reader->entries[reader->n_entries++] = reader->entries[i];
        }
    }
    return status;
}

static uint64_t lsn_of(const struct reader *reader, size_t i)
{
    uint64_t first_lsn = 0;
    bool good = ps_wal_name_parse(reader->entries[i].name, &first_lsn);
    PS_ASSERT(good);
    return first_lsn;
}

/* The segment that has the first record that is wanted. */
static enum ps_status find_start(const struct reader *reader, size_t *ret, struct ps_error *err)
{
    uint64_t from_lsn = reader->recovery->from_lsn;
    *ret = 0;
    if (from_lsn == 0 || reader->n_entries == 0) {
        return PS_OK;
    }
    if (lsn_of(reader, 0) > from_lsn) {
        return ps_fail(err, PS_ERR_CORRUPT,
                       "%s: the log begins with record %" PRIu64 ", but record %" PRIu64
                       " is needed: a segment is missing; bring it back from a copy, or move the "
                       "folder away to go on without it",
                       reader->recovery->dir, lsn_of(reader, 0), from_lsn);
    }
    while (*ret + 1 < reader->n_entries && lsn_of(reader, *ret + 1) <= from_lsn) {
        (*ret)++;
    }
    return PS_OK;
}

static enum ps_status open_segment(struct reader *reader, size_t i, struct ps_error *err)
{
    const struct ps_wal_recovery *recovery = reader->recovery;
    struct part *part = &reader->part;
    *part = (struct part){.next_lsn = UINT64_MAX, .last = i + 1 == reader->n_entries};
    if (!part->last) {
        part->next_lsn = lsn_of(reader, i + 1);
    }
    reader->n_window = 0;
    int n =
        snprintf(part->path, sizeof(part->path), "%s/%s", recovery->dir, reader->entries[i].name);
    if (n < 0 || n >= (int)sizeof(part->path)) {
        return ps_fail(err, PS_ERR_INVALID, "the path of the log is too long");
    }
    return ps_disk_open(recovery->disk, part->path, recovery->repair ? PS_DISK_WRITE : PS_DISK_READ,
                        &part->file, err);
}

/* Planted: segments behind the one in hand are no part of the log any more. */
static enum ps_status drop_behind(struct reader *reader, size_t i, struct ps_error *err)
{
    enum ps_status status = PS_OK;
    for (size_t k = reader->n_entries; k > i + 1 && status == PS_OK; k--) {
        char path[PATH_BYTES];
        (void)snprintf(path, sizeof(path), "%s/%s", reader->recovery->dir,
                       reader->entries[k - 1].name);
        status = ps_disk_remove(reader->recovery->disk, path, err);
    }
    reader->n_entries = i + 1;
    return status;
}

static enum ps_status read_all(struct reader *reader, struct ps_error *err)
{
    size_t start = 0;
    enum ps_status status = find_start(reader, &start, err);
    for (size_t i = start; i < reader->n_entries && status == PS_OK; i++) {
        status = open_segment(reader, i, err);
        if (status == PS_OK) {
            status = read_segment(reader, lsn_of(reader, i), err);
        }
        if (status == PS_OK && reader->part.last && i + 1 < reader->n_entries) { /* Planted. */
            status = drop_behind(reader, i, err);
        }
        ps_disk_file_close(reader->part.file);
        reader->part.file = NULL;
        reader->prev_salt = reader->part.head.salt;
        reader->has_prev = true;
    }
    return status;
}

static enum ps_status finish(struct reader *reader, struct ps_error *err)
{
    const struct ps_wal_recovery *recovery = reader->recovery;
    struct ps_wal_recovered *ret = reader->ret;
    if (reader->n_entries == 0) {
        ret->end.next_lsn = recovery->from_lsn > 0 ? recovery->from_lsn : 1;
        ret->first_lsn = ret->end.next_lsn;
        return PS_OK;
    }
    ret->first_lsn = lsn_of(reader, 0);
    if (ret->end.next_lsn < recovery->from_lsn) {
        return corrupt(reader, ret->end.n_bytes, "the log ends before what a snapshot has", err);
    }
    /* The name of a segment may have been given and not synced. */
    return recovery->repair ? ps_disk_sync_dir(recovery->disk, recovery->dir, err) : PS_OK;
}

enum ps_status ps_wal_recover(const struct ps_wal_recovery *recovery,
                              const struct ps_wal_visitor *visitor, struct ps_wal_recovered *ret,
                              struct ps_error *err)
{
    struct reader *reader = ps_mem_alloc(recovery->mem, PS_MEM_OTHER, sizeof(*reader));
    if (reader == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory to read the log");
    }
    *ret = (struct ps_wal_recovered){0};
    reader->recovery = recovery;
    reader->visitor = visitor;
    reader->ret = ret;
    enum ps_status status = list_segments(reader, err);
    if (status == PS_OK) {
        status = read_all(reader, err);
    }
    if (status == PS_OK) {
        status = visit_held(reader, err);
    }
    if (status == PS_OK) {
        status = finish(reader, err);
    }
    while (reader->held != NULL) {
        struct held *held = reader->held;
        reader->held = held->next;
        ps_mem_free(held);
    }
    ps_mem_free(reader->entries);
    ps_mem_free(reader->window);
    ps_mem_free(reader->body);
    ps_mem_free(reader);
    return status;
}
