/* wal_format.c — see wal_format.h. */
#include "log/wal_format.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/limits.h"
#include "num/checksum.h"

#define VERSION      1u
#define FLAG_SYNC    1u
#define SUM_AT       64u
#define SEGMENT_SEED 0x5053574c4f47u /* "PSWLOG": of the sums of heads of segments. */

static const char magic[8] = {'P', 'S', 'W', 'A', 'L', 'O', 'G', '1'};

/* ---- Segments -------------------------------------------------------------------------------- */

void ps_wal_name(uint64_t first_lsn, char name[PS_WAL_NAME_BYTES])
{
    (void)snprintf(name, PS_WAL_NAME_BYTES, "%016" PRIx64 ".log", first_lsn);
}

bool ps_wal_name_parse(const char *name, uint64_t *ret_first_lsn)
{
    char again[PS_WAL_NAME_BYTES];
    uint64_t lsn = 0;
    for (size_t i = 0; i < 16; i++) {
        char c = name[i];
        if (c >= '0' && c <= '9') {
            lsn = lsn << 4 | (uint64_t)(c - '0');
        } else if (c >= 'a' && c <= 'f') {
            lsn = lsn << 4 | (uint64_t)(c - 'a' + 10);
        } else {
            return false; /* The end of a short name, too. */
        }
    }
    ps_wal_name(lsn, again);
    *ret_first_lsn = lsn;
    return strcmp(name, again) == 0;
}

void ps_wal_segment_write(const struct ps_wal_segment *segment,
                          uint8_t to[PS_WAL_SEGMENT_HEAD_BYTES])
{
    memcpy(to, magic, sizeof(magic));
    ps_store_u32(to + 8, VERSION);
    ps_store_u32(to + 12, segment->sync ? FLAG_SYNC : 0);
    memcpy(to + 16, segment->server.bytes, sizeof(segment->server.bytes));
    ps_store_u64(to + 32, segment->salt);
    ps_store_u64(to + 40, segment->first_lsn);
    ps_store_u64(to + 48, segment->prev_salt);
    ps_store_u64(to + 56, segment->n_bytes);
    ps_store_u64(to + SUM_AT, ps_checksum64(to, SUM_AT, SEGMENT_SEED));
}

enum ps_status ps_wal_segment_read(const uint8_t from[PS_WAL_SEGMENT_HEAD_BYTES],
                                   struct ps_wal_segment *ret, struct ps_error *err)
{
    if (ps_load_u64(from + SUM_AT) != ps_checksum64(from, SUM_AT, SEGMENT_SEED) ||
        memcmp(from, magic, sizeof(magic)) != 0) {
        return ps_fail(err, PS_ERR_CORRUPT, "the head of the segment is damaged");
    }
    uint32_t flags = ps_load_u32(from + 12);
    if (ps_load_u32(from + 8) != VERSION || (flags & ~FLAG_SYNC) != 0) {
        return ps_fail(err, PS_ERR_UNSUPPORTED,
                       "the log has format %" PRIu32 " with flags %" PRIx32
                       ", this program reads format %u",
                       ps_load_u32(from + 8), flags, VERSION);
    }
    *ret = (struct ps_wal_segment){
        .sync = (flags & FLAG_SYNC) != 0,
        .salt = ps_load_u64(from + 32),
        .first_lsn = ps_load_u64(from + 40),
        .prev_salt = ps_load_u64(from + 48),
        .n_bytes = ps_load_u64(from + 56),
    };
    memcpy(ret->server.bytes, from + 16, sizeof(ret->server.bytes));
    if (ret->first_lsn == 0) {
        return ps_fail(err, PS_ERR_CORRUPT, "the head of the segment names record 0");
    }
    return PS_OK;
}

/* ---- Heads of records ------------------------------------------------------------------------ */

void ps_wal_head_write(const struct ps_wal_head *head, uint64_t salt, uint8_t to[PS_WAL_HEAD_BYTES])
{
    ps_store_u64(to + 8, head->body_sum);
    ps_store_u64(to + 16, head->lsn);
    ps_store_u64(to + 24, head->durable_upto);
    ps_store_u32(to + 32, head->n_body);
    ps_store_u32(to + 36, (uint32_t)head->kind);
    ps_store_u64(to, ps_checksum64(to + 8, PS_WAL_HEAD_BYTES - 8, salt));
}

/* What needs no sum to be refused: nearly everything that a search for witnesses meets. */
static bool plausible(const uint8_t from[PS_WAL_HEAD_BYTES])
{
    uint32_t kind = ps_load_u32(from + 36);
    return kind > PS_WAL_NOTHING && kind <= PS_WAL_SEAL &&
           ps_load_u32(from + 32) <= (kind < PS_WAL_NOTE ? PS_WAL_BODY_BYTES_MAX : 0) &&
           ps_load_u64(from + 24) < ps_load_u64(from + 16);
}

bool ps_wal_head_read(const uint8_t from[PS_WAL_HEAD_BYTES], uint64_t salt, struct ps_wal_head *ret)
{
    if (!plausible(from) ||
        ps_load_u64(from) != ps_checksum64(from + 8, PS_WAL_HEAD_BYTES - 8, salt)) {
        return false;
    }
    *ret = (struct ps_wal_head){
        .kind = (enum ps_wal_kind)ps_load_u32(from + 36),
        .lsn = ps_load_u64(from + 16),
        .durable_upto = ps_load_u64(from + 24),
        .n_body = ps_load_u32(from + 32),
        .body_sum = ps_load_u64(from + 8),
    };
    return true;
}

size_t ps_wal_find_witness(const uint8_t *bytes, size_t n_bytes, uint64_t salt, uint64_t lsn)
{
    struct ps_wal_head head;
    for (size_t at = 0; n_bytes - at >= PS_WAL_HEAD_BYTES; at += PS_WAL_ALIGN) {
        if (ps_load_u64(bytes + at + 24) >= lsn && ps_wal_head_read(bytes + at, salt, &head)) {
            return at;
        }
    }
    return n_bytes;
}

/* ---- Bodies of records: a place that moves on ------------------------------------------------ */

static uint8_t *put_u32(uint8_t *to, uint32_t value)
{
    ps_store_u32(to, value);
    return to + 4;
}

static uint8_t *put_u64(uint8_t *to, uint64_t value)
{
    ps_store_u64(to, value);
    return to + 8;
}

static uint8_t *put_f32(uint8_t *to, float value)
{
    memcpy(to, &value, sizeof(value));
    return to + 4;
}

/* Zeros once it has run out. */
static uint32_t get_u32(struct ps_cursor *from)
{
    uint8_t bytes[4];
    ps_cursor_copy(from, bytes, sizeof(bytes));
    return ps_load_u32(bytes);
}

static uint64_t get_u64(struct ps_cursor *from)
{
    uint8_t bytes[8];
    ps_cursor_copy(from, bytes, sizeof(bytes));
    return ps_load_u64(bytes);
}

static float get_f32(struct ps_cursor *from)
{
    float value = 0.0f;
    uint8_t bytes[4];
    ps_cursor_copy(from, bytes, sizeof(bytes));
    memcpy(&value, bytes, sizeof(value));
    return value;
}

/* ---- Bodies of records: sizes ---------------------------------------------------------------- */

#define COMMON_BYTES   24u /* Kind, slot, epoch, position. */
#define PUSH_BYTES     80u
#define PART_BYTES     28u
#define CLOSE_BYTES    16u
#define ENTRY_BYTES    24u
#define SESSIONS_BYTES 24u
#define SESSION_BYTES  24u
#define FINISH_BYTES   16u
#define RANGE_BYTES    16u
#define EPOCH_BYTES    8u

/* Two lists of one room stand behind each other, and all are of 8-byte words or come first. */
PS_STATIC_ASSERT(sizeof(struct ps_part) == PART_BYTES, "room is counted as on the disk");
PS_STATIC_ASSERT(sizeof(struct ps_close_entry) == ENTRY_BYTES, "room is counted as on the disk");
PS_STATIC_ASSERT(sizeof(struct ps_open_session) == SESSION_BYTES, "room is counted as on disk");
PS_STATIC_ASSERT(sizeof(struct ps_seen_range) == RANGE_BYTES, "room is counted as on the disk");

size_t ps_wal_fixed_bytes(const struct ps_record *record)
{
    size_t n_bytes = COMMON_BYTES;
    switch (record->kind) {
    case PS_RECORD_PUSH:
    case PS_RECORD_STAGE: n_bytes += PUSH_BYTES + record->push.n_parts * PART_BYTES; break;
    case PS_RECORD_CLOSE: n_bytes += CLOSE_BYTES + record->close.n_entries * ENTRY_BYTES; break;
    case PS_RECORD_SESSIONS:
        n_bytes += SESSIONS_BYTES + record->sessions.n_sessions * SESSION_BYTES +
                   record->sessions.n_staged * sizeof(uint64_t);
        break;
    case PS_RECORD_FINISH: n_bytes += FINISH_BYTES + record->finish.n_ranges * RANGE_BYTES; break;
    case PS_RECORD_EPOCH: n_bytes += EPOCH_BYTES; break;
    }
    PS_ASSERT(n_bytes <= PS_WAL_FIXED_BYTES_MAX);
    return n_bytes;
}

static bool has_payload(enum ps_record_kind kind)
{
    return kind == PS_RECORD_PUSH || kind == PS_RECORD_STAGE;
}

size_t ps_wal_payload_bytes(const struct ps_record *record)
{
    return has_payload(record->kind) ? record->push.payload.n_left : 0;
}

/* ---- Bodies of records: writing -------------------------------------------------------------- */

static uint8_t *write_push(const struct ps_record_push *push, uint8_t *to)
{
    to = put_u64(to, push->session);
    to = put_u64(to, push->step);
    to = put_u64(to, push->clock);
    to = put_u64(to, push->item.stream);
    to = put_u64(to, push->item.sequence);
    to = put_u64(to, push->item.owner);
    to = put_u64(to, push->item.acked_below);
    to = put_u32(to, push->item.fragment);
    to = put_u32(to, push->item.n_fragments);
    to = put_u32(to, push->rows);
    to = put_f32(to, push->rate);
    to = put_f32(to, push->scale);
    to = put_u32(to, push->n_parts);
    for (uint32_t i = 0; i < push->n_parts; i++) {
        const struct ps_part *part = &push->parts[i];
        to = put_u32(to, part->table);
        to = put_u32(to, part->block);
        to = put_u32(to, part->dtype);
        to = put_u32(to, part->codec);
        to = put_u32(to, part->n_bytes);
        to = put_u32(to, part->n_keys);
        to = put_u32(to, part->n_key_bytes);
    }
    return to;
}

static uint8_t *write_close(const struct ps_record_close *close, uint8_t *to)
{
    to = put_u64(to, close->step);
    to = put_u64(to, close->n_entries);
    for (uint32_t i = 0; i < close->n_entries; i++) {
        const struct ps_close_entry *entry = &close->entries[i];
        to = put_u64(to, entry->session);
        to = put_u64(to, entry->lease);
        to = put_u32(to, entry->unit);
        to = put_u32(to, entry->rows);
    }
    return to;
}

static uint8_t *write_sessions(const struct ps_record_sessions *list, uint8_t *to)
{
    to = put_u64(to, list->version);
    to = put_u32(to, list->n_sessions);
    to = put_u32(to, list->n_staged);
    to = put_u64(to, list->knows_staged ? 1 : 0);
    for (uint32_t i = 0; i < list->n_sessions; i++) {
        to = put_u64(to, list->sessions[i].number);
        memcpy(to, list->sessions[i].id.bytes, sizeof(list->sessions[i].id.bytes));
        to += sizeof(list->sessions[i].id.bytes);
    }
    for (uint32_t i = 0; i < list->n_staged; i++) {
        to = put_u64(to, list->staged[i]);
    }
    return to;
}

static uint8_t *write_finish(const struct ps_record_finish *finish, uint8_t *to)
{
    to = put_u64(to, finish->version);
    to = put_u64(to, finish->n_ranges);
    for (uint32_t i = 0; i < finish->n_ranges; i++) {
        to = put_u64(to, finish->ranges[i].first);
        to = put_u64(to, finish->ranges[i].last);
    }
    return to;
}

size_t ps_wal_fixed_write(const struct ps_record *record, uint8_t *to)
{
    const uint8_t *start = to;
    to = put_u32(to, (uint32_t)record->kind);
    to = put_u32(to, record->slot);
    to = put_u64(to, record->epoch);
    to = put_u64(to, record->position);
    switch (record->kind) {
    case PS_RECORD_PUSH:
    case PS_RECORD_STAGE: to = write_push(&record->push, to); break;
    case PS_RECORD_CLOSE: to = write_close(&record->close, to); break;
    case PS_RECORD_SESSIONS: to = write_sessions(&record->sessions, to); break;
    case PS_RECORD_FINISH: to = write_finish(&record->finish, to); break;
    case PS_RECORD_EPOCH: to = put_u64(to, record->begun.term); break;
    }
    PS_ASSERT((size_t)(to - start) == ps_wal_fixed_bytes(record));
    return (size_t)(to - start);
}

/* ---- Bodies of records: reading -------------------------------------------------------------- */

size_t ps_wal_record_room(const uint8_t *body, size_t n_body)
{
    /* Lists take in memory what they take on the disk; a push has a payload, too, and says how many
     * parts stand before it. */
    if (n_body < COMMON_BYTES + PUSH_BYTES ||
        !has_payload((enum ps_record_kind)ps_load_u32(body))) {
        return n_body;
    }
    size_t n_parts = ps_load_u32(body + COMMON_BYTES + PUSH_BYTES - 4);
    return n_parts <= PS_CALL_PARTS_MAX ? n_parts * PART_BYTES : 0;
}

static bool read_part(struct ps_cursor *from, struct ps_part *part)
{
    part->table = get_u32(from);
    part->block = get_u32(from);
    part->dtype = get_u32(from);
    part->codec = get_u32(from);
    part->n_bytes = get_u32(from);
    part->n_keys = get_u32(from);
    part->n_key_bytes = get_u32(from);
    return part->table < PS_TABLES_MAX && part->n_key_bytes <= part->n_bytes;
}

static bool read_push(struct ps_cursor *from, struct ps_part *parts, struct ps_record_push *push,
                      struct ps_slice *ret_payload)
{
    push->session = get_u64(from);
    push->step = get_u64(from);
    push->clock = get_u64(from);
    push->item.stream = get_u64(from);
    push->item.sequence = get_u64(from);
    push->item.owner = get_u64(from);
    push->item.acked_below = get_u64(from);
    push->item.fragment = get_u32(from);
    push->item.n_fragments = get_u32(from);
    push->rows = get_u32(from);
    push->rate = get_f32(from);
    push->scale = get_f32(from);
    push->n_parts = get_u32(from);
    push->parts = parts;
    if (push->n_parts > PS_CALL_PARTS_MAX || (size_t)push->n_parts * PART_BYTES > from->n_left) {
        return false;
    }
    uint64_t n_payload = 0;
    for (uint32_t i = 0; i < push->n_parts; i++) {
        if (!read_part(from, &parts[i])) {
            return false;
        }
        n_payload += parts[i].n_bytes;
    }
    if (n_payload != from->n_left) {
        return false;
    }
    ret_payload->n_bytes = ps_cursor_run(from, from->n_left, &ret_payload->data);
    return true;
}

static bool read_close(struct ps_cursor *from, struct ps_close_entry *entries,
                       struct ps_record_close *close)
{
    close->step = get_u64(from);
    uint64_t n = get_u64(from);
    if (n * ENTRY_BYTES != from->n_left || n > from->n_left) {
        return false;
    }
    close->entries = entries;
    close->n_entries = (uint32_t)n;
    for (uint32_t i = 0; i < close->n_entries; i++) {
        entries[i].session = get_u64(from);
        entries[i].lease = get_u64(from);
        entries[i].unit = get_u32(from);
        entries[i].rows = get_u32(from);
    }
    return true;
}

static bool read_sessions(struct ps_cursor *from, void *room, struct ps_record_sessions *list)
{
    list->version = get_u64(from);
    list->n_sessions = get_u32(from);
    list->n_staged = get_u32(from);
    uint64_t knows_staged = get_u64(from);
    if (list->n_sessions > PS_SESSIONS_MAX || knows_staged > 1 ||
        (uint64_t)list->n_sessions * SESSION_BYTES + (uint64_t)list->n_staged * 8u !=
            from->n_left) {
        return false;
    }
    struct ps_open_session *sessions = room;
    uint64_t *staged = (uint64_t *)(void *)(sessions + list->n_sessions);
    list->knows_staged = knows_staged == 1;
    list->sessions = sessions;
    list->staged = staged;
    for (uint32_t i = 0; i < list->n_sessions; i++) {
        sessions[i].number = get_u64(from);
        ps_cursor_copy(from, sessions[i].id.bytes, sizeof(sessions[i].id.bytes));
    }
    for (uint32_t i = 0; i < list->n_staged; i++) {
        staged[i] = get_u64(from);
    }
    return true;
}

static bool read_finish(struct ps_cursor *from, struct ps_seen_range *ranges,
                        struct ps_record_finish *finish)
{
    finish->version = get_u64(from);
    uint64_t n = get_u64(from);
    if (n > PS_SEEN_FINISHED_MAX || n * RANGE_BYTES != from->n_left) {
        return false;
    }
    finish->ranges = ranges;
    finish->n_ranges = (uint32_t)n;
    for (uint32_t i = 0; i < finish->n_ranges; i++) {
        ranges[i].first = get_u64(from);
        ranges[i].last = get_u64(from);
    }
    return true;
}

static bool read_epoch(struct ps_cursor *from, struct ps_record_epoch *begun)
{
    begun->term = get_u64(from);
    return from->n_left == 0;
}

enum ps_status ps_wal_record_read(const uint8_t *body, size_t n_body, void *room,
                                  struct ps_record *ret, struct ps_slice *ret_payload,
                                  struct ps_error *err)
{
    struct ps_slice slice = {.data = body, .n_bytes = n_body};
    struct ps_cursor from = ps_cursor_over(&slice, 1);
    *ret = (struct ps_record){0};
    *ret_payload = (struct ps_slice){0};
    uint32_t kind = get_u32(&from);
    ret->slot = get_u32(&from);
    ret->epoch = get_u64(&from);
    ret->position = get_u64(&from);
    bool good = !from.failed && ret->slot < PS_SLOTS && kind <= PS_RECORD_EPOCH;
    if (good) {
        ret->kind = (enum ps_record_kind)kind;
        switch (ret->kind) {
        case PS_RECORD_PUSH:
        case PS_RECORD_STAGE: good = read_push(&from, room, &ret->push, ret_payload); break;
        case PS_RECORD_CLOSE: good = read_close(&from, room, &ret->close); break;
        case PS_RECORD_SESSIONS: good = read_sessions(&from, room, &ret->sessions); break;
        case PS_RECORD_FINISH: good = read_finish(&from, room, &ret->finish); break;
        case PS_RECORD_EPOCH: good = read_epoch(&from, &ret->begun); break;
        }
    }
    if (!good || from.failed) {
        return ps_fail(err, PS_ERR_CORRUPT, "a record of slot %" PRIu32 " makes no sense",
                       ret->slot);
    }
    return PS_OK;
}

/* ---- Other bodies ---------------------------------------------------------------------------- */

void ps_wal_table_write(uint32_t number, uint8_t to[PS_WAL_TABLE_FIXED_BYTES])
{
    ps_store_u32(to, number);
    ps_store_u32(to + 4, 0);
}

enum ps_status ps_wal_table_read(const uint8_t *body, size_t n_body, uint32_t *ret_number,
                                 struct ps_slice *ret_bytes, struct ps_error *err)
{
    if (n_body < PS_WAL_TABLE_FIXED_BYTES || ps_load_u32(body) >= PS_TABLES_MAX ||
        ps_load_u32(body + 4) != 0) {
        return ps_fail(err, PS_ERR_CORRUPT, "the definition of a table makes no sense");
    }
    *ret_number = ps_load_u32(body);
    *ret_bytes = (struct ps_slice){.data = body + PS_WAL_TABLE_FIXED_BYTES,
                                   .n_bytes = n_body - PS_WAL_TABLE_FIXED_BYTES};
    return PS_OK;
}

void ps_wal_generation_write(uint64_t generation, const char *dir, const char *cut,
                             uint8_t to[PS_WAL_GENERATION_FIXED_BYTES])
{
    ps_store_u64(to, generation);
    ps_store_u32(to + 8, (uint32_t)strlen(dir));
    ps_store_u32(to + 12, (uint32_t)strlen(cut));
}

enum ps_status ps_wal_generation_read(const uint8_t *body, size_t n_body, uint64_t *ret_generation,
                                      const char **ret_dir, const char **ret_cut,
                                      struct ps_error *err)
{
    uint64_t n_dir = n_body < PS_WAL_GENERATION_FIXED_BYTES ? 0 : ps_load_u32(body + 8);
    uint64_t n_cut = n_body < PS_WAL_GENERATION_FIXED_BYTES ? 0 : ps_load_u32(body + 12);
    if (n_body != PS_WAL_GENERATION_FIXED_BYTES + n_dir + n_cut + 2 ||
        n_dir > PS_WAL_PLACE_BYTES_MAX || n_cut > PS_WAL_PLACE_BYTES_MAX) {
        return ps_fail(err, PS_ERR_CORRUPT, "the beginning of a generation makes no sense");
    }
    const char *dir = (const char *)body + PS_WAL_GENERATION_FIXED_BYTES;
    const char *cut = dir + n_dir + 1;
    if (memchr(dir, '\0', n_dir + 1) != dir + n_dir ||
        memchr(cut, '\0', n_cut + 1) != cut + n_cut) {
        return ps_fail(err, PS_ERR_CORRUPT, "the beginning of a generation names no place");
    }
    *ret_generation = ps_load_u64(body);
    *ret_dir = dir;
    *ret_cut = cut;
    return PS_OK;
}
