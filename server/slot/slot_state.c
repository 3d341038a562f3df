/* slot_state.c — see slot_state.h. */
#include "slot/slot_state.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "wire/pb.h"

#define WINDOW       PS_SEQUENCES_OPEN_MAX
#define WINDOW_BYTES (WINDOW / 8)
#define PART_BYTES   640u /* Of one message in the state: a stream has the longest. */

/* Of state.proto. */
enum {
    F_SLOT = 1,
    F_EPOCH = 2,
    F_POSITION = 3,
    F_EPOCHS = 4,
    F_SESSIONS_VERSION = 5,
    F_SESSIONS = 6,
    F_FINISHED_VERSION = 7,
    F_FINISHED = 8,
    F_CLOSED_STEPS = 9,
    F_STREAMS = 10,
    F_PAIR_FIRST = 1, /* Of epochs, sessions, leases. */
    F_PAIR_SECOND = 2,
    F_KEY = 1,
    F_OWNER = 2,
    F_LOW = 3,
    F_WINDOW = 4,
    F_PARTIALS = 5,
    F_SEQUENCE = 1,
    F_FRAGMENTS = 2,
    F_N_FRAGMENTS = 3
};

/* ---- Write ---------------------------------------------------------------------------------- */

/* A message within the state, or within a stream. */
struct part {
    struct ps_pb_writer w;
    uint8_t bytes[PART_BYTES];
};

static void begin(struct part *part)
{
    part->w = (struct ps_pb_writer){.to = part->bytes, .n_room = sizeof(part->bytes)};
}

/* Also an empty one stands there. */
static void put_part(struct ps_pb_writer *w, uint32_t field, const struct part *part)
{
    PS_ASSERT(!part->w.full);
    ps_pb_put_header(w, field, part->w.n_used);
    PS_ASSERT(part->w.n_used <= w->n_room - w->n_used);
    memcpy(w->to + w->n_used, part->bytes, part->w.n_used);
    w->n_used += part->w.n_used;
}

static void put_pair(struct ps_pb_writer *w, uint32_t field, uint64_t first, uint64_t second)
{
    struct part part;
    begin(&part);
    ps_pb_put_uint(&part.w, F_PAIR_FIRST, first);
    ps_pb_put_uint(&part.w, F_PAIR_SECOND, second);
    put_part(w, field, &part);
}

static bool taken(const struct ps_seen_stream *stream, uint64_t sequence)
{
    uint64_t at = sequence % WINDOW;
    return (stream->window[at / 64] >> (at % 64) & 1) != 0;
}

/* Bit i of `bytes`: sequence low + i. False: none is set. */
static bool window_bytes(const struct ps_seen_stream *stream, uint8_t bytes[WINDOW_BYTES])
{
    bool any = false;
    memset(bytes, 0, WINDOW_BYTES);
    for (uint32_t i = 0; i < WINDOW / 64; i++) {
        any = any || stream->window[i] != 0;
    }
    for (uint32_t i = 0; any && i < WINDOW; i++) {
        bytes[i / 8] |= (uint8_t)((unsigned)taken(stream, stream->low + i) << (i % 8));
    }
    return any;
}

static void put_stream(struct ps_pb_writer *w, const struct ps_seen_stream *stream)
{
    struct part part;
    uint8_t bytes[WINDOW_BYTES];
    begin(&part);
    ps_pb_put_uint(&part.w, F_KEY, stream->key);
    ps_pb_put_uint(&part.w, F_OWNER, stream->owner);
    ps_pb_put_uint(&part.w, F_LOW, stream->low);
    if (window_bytes(stream, bytes)) {
        ps_pb_put_bytes(&part.w, F_WINDOW, bytes, sizeof(bytes));
    }
    /* By sequence: in which place one stands is no part of the state. */
    uint64_t from = 0;
    for (uint32_t n = 0; n < PS_SEEN_PARTIALS_MAX; n++) {
        const struct ps_seen_partial *next = NULL;
        for (uint32_t i = 0; i < PS_SEEN_PARTIALS_MAX; i++) {
            const struct ps_seen_partial *p = &stream->partials[i];
            if (p->fragments != 0 && p->sequence >= from &&
                (next == NULL || p->sequence < next->sequence)) {
                next = p;
            }
        }
        if (next != NULL) {
            struct part partial;
            begin(&partial);
            ps_pb_put_uint(&partial.w, F_SEQUENCE, next->sequence);
            ps_pb_put_uint(&partial.w, F_FRAGMENTS, next->fragments);
            ps_pb_put_uint(&partial.w, F_N_FRAGMENTS, next->n_fragments);
            put_part(&part.w, F_PARTIALS, &partial);
            from = next->sequence + 1;
        }
    }
    put_part(w, F_STREAMS, &part);
}

static int by_key(const void *a, const void *b)
{
    const struct ps_seen_stream *const *x = a;
    const struct ps_seen_stream *const *y = b;
    return ((*x)->key > (*y)->key) - ((*x)->key < (*y)->key);
}

static void put_streams(struct ps_pb_writer *w, const struct ps_seen *seen)
{
    const struct ps_seen_stream *streams[PS_SEEN_STREAMS_MAX];
    uint32_t n = 0;
    PS_ASSERT(seen->n_streams_max <= PS_SEEN_STREAMS_MAX);
    for (uint32_t i = 0; i < seen->n_streams_max; i++) {
        if (seen->streams[i].key != 0) {
            streams[n++] = &seen->streams[i];
        }
    }
    qsort(streams, n, sizeof(const struct ps_seen_stream *), by_key);
    for (uint32_t i = 0; i < n; i++) {
        put_stream(w, streams[i]);
    }
}

static void put_head(struct ps_pb_writer *w, const struct ps_slot *slot)
{
    ps_pb_put_uint(w, F_SLOT, slot->number);
    ps_pb_put_uint(w, F_EPOCH, ps_slot_line_epoch(slot));
    ps_pb_put_uint(w, F_POSITION, slot->appended);
    for (uint32_t i = 0; i < slot->n_epochs; i++) {
        put_pair(w, F_EPOCHS, slot->epochs[i].epoch, slot->epochs[i].first);
    }
}

size_t ps_slot_state_write_bare(const struct ps_slot *slot, uint8_t *to)
{
    struct ps_pb_writer w = {.to = to, .n_room = PS_SLOT_STATE_BYTES_MAX};
    put_head(&w, slot);
    PS_ASSERT(!w.full);
    return w.n_used;
}

size_t ps_slot_state_write(const struct ps_slot *slot, uint8_t *to)
{
    struct ps_pb_writer w = {.to = to, .n_room = PS_SLOT_STATE_BYTES_MAX};
    put_head(&w, slot);
    ps_pb_put_uint(&w, F_SESSIONS_VERSION, slot->sessions_version);
    for (uint32_t i = 0; i < slot->n_sessions; i++) {
        const struct ps_open_session *session = &slot->sessions[i];
        struct part part;
        begin(&part);
        ps_pb_put_uint(&part.w, F_PAIR_FIRST, session->number);
        ps_pb_put_bytes(&part.w, F_PAIR_SECOND, session->id.bytes, sizeof(session->id.bytes));
        put_part(&w, F_SESSIONS, &part);
    }
    ps_pb_put_uint(&w, F_FINISHED_VERSION, slot->finished_version);
    for (uint32_t i = 0; i < slot->seen.n_finished; i++) {
        put_pair(&w, F_FINISHED, slot->seen.finished[i].first, slot->seen.finished[i].last);
    }
    ps_pb_put_uint(&w, F_CLOSED_STEPS, slot->closed_steps);
    put_streams(&w, &slot->seen);
    PS_ASSERT(!w.full);
    return w.n_used;
}

/* ---- Read ----------------------------------------------------------------------------------- */

/* What a part says, its fields by number; a field that it does not have is 0. */
struct fields {
    uint64_t value[F_PARTIALS + 1];
    struct ps_cursor bytes[F_PARTIALS + 1];
};

/* The last one of a field counts, as everywhere in protobuf. */
static bool read_fields(struct ps_cursor c, struct fields *ret)
{
    struct ps_pb_field field;
    memset(ret, 0, sizeof(*ret));
    while (ps_pb_next(&c, &field)) {
        if (field.number > F_PARTIALS) {
            continue;
        }
        if (field.wire == PS_PB_BYTES) {
            ret->bytes[field.number] = field.bytes;
        } else {
            ret->value[field.number] = field.value;
        }
    }
    return !c.failed;
}

static bool add_epoch(struct ps_slot *slot, const struct fields *f)
{
    const struct ps_slot_epoch epoch = {.epoch = f->value[F_PAIR_FIRST],
                                        .first = f->value[F_PAIR_SECOND]};
    const struct ps_slot_epoch none = {0};
    const struct ps_slot_epoch *last =
        slot->n_epochs > 0 ? &slot->epochs[slot->n_epochs - 1] : &none;
    if (slot->n_epochs == PS_SLOT_EPOCHS_MAX || epoch.epoch <= last->epoch ||
        epoch.first <= last->first) {
        return false;
    }
    slot->epochs[slot->n_epochs++] = epoch;
    return true;
}

static bool add_session(struct ps_slot *slot, const struct fields *f)
{
    struct ps_open_session session = {.number = f->value[F_PAIR_FIRST]};
    struct ps_cursor bytes = f->bytes[F_PAIR_SECOND];
    uint64_t last = slot->n_sessions > 0 ? slot->sessions[slot->n_sessions - 1].number : 0;
    if (slot->n_sessions == PS_SESSIONS_MAX || session.number <= last ||
        bytes.n_left != sizeof(session.id.bytes)) {
        return false;
    }
    ps_cursor_copy(&bytes, session.id.bytes, sizeof(session.id.bytes));
    slot->sessions[slot->n_sessions++] = session;
    return true;
}

static bool add_finished(struct ps_slot *slot, const struct fields *f)
{
    struct ps_seen *seen = &slot->seen;
    struct ps_seen_range range = {.first = f->value[F_PAIR_FIRST], .last = f->value[F_PAIR_SECOND]};
    uint64_t before = seen->n_finished > 0 ? seen->finished[seen->n_finished - 1].last : 0;
    if (seen->n_finished == PS_SEEN_FINISHED_MAX || range.first <= before ||
        range.last < range.first) {
        return false;
    }
    seen->finished[seen->n_finished++] = range;
    return true;
}

static bool read_window(struct ps_cursor c, struct ps_seen_stream *stream)
{
    uint8_t bytes[WINDOW_BYTES];
    if (c.n_left == 0) {
        return true;
    }
    if (c.n_left != sizeof(bytes)) {
        return false;
    }
    ps_cursor_copy(&c, bytes, sizeof(bytes));
    for (uint32_t i = 0; i < WINDOW; i++) {
        if ((bytes[i / 8] >> (i % 8) & 1) != 0) {
            uint64_t at = (stream->low + i) % WINDOW;
            stream->window[at / 64] |= 1ull << (at % 64);
        }
    }
    return (bytes[0] & 1) == 0;
}

/* Some fragments of a sequence that is not taken, neither none of them nor all. */
static bool partial_valid(const struct ps_seen_stream *stream, const struct ps_seen_partial *p)
{
    if (p->n_fragments < 2 || p->n_fragments > PS_FRAGMENTS_MAX || p->fragments == 0) {
        return false;
    }
    uint64_t all = p->n_fragments == 64 ? UINT64_MAX : (1ull << p->n_fragments) - 1;
    return (p->fragments & ~all) == 0 && p->fragments != all && p->sequence >= stream->low &&
           p->sequence - stream->low < WINDOW && !taken(stream, p->sequence);
}

/* The partials of a stream are its only repeated field. */
static bool read_partials(struct ps_cursor c, struct ps_seen_stream *stream)
{
    struct ps_pb_field field;
    uint32_t n = 0;
    while (ps_pb_next(&c, &field)) {
        if (field.number != F_PARTIALS || field.wire != PS_PB_BYTES) {
            continue;
        }
        struct fields f;
        if (n == PS_SEEN_PARTIALS_MAX || !read_fields(field.bytes, &f)) {
            return false;
        }
        struct ps_seen_partial partial = {.sequence = f.value[F_SEQUENCE],
                                          .fragments = f.value[F_FRAGMENTS],
                                          .n_fragments = (uint32_t)f.value[F_N_FRAGMENTS]};
        if (f.value[F_N_FRAGMENTS] > PS_FRAGMENTS_MAX || !partial_valid(stream, &partial) ||
            (n > 0 && partial.sequence <= stream->partials[n - 1].sequence)) {
            return false;
        }
        stream->partials[n++] = partial;
    }
    return !c.failed;
}

static bool add_stream(struct ps_slot *slot, const struct fields *f, struct ps_cursor whole)
{
    struct ps_seen_stream stream = {
        .key = f->value[F_KEY], .owner = f->value[F_OWNER], .low = f->value[F_LOW]};
    return stream.low <= PS_SEEN_SEQUENCES_MAX && read_window(f->bytes[F_WINDOW], &stream) &&
           read_partials(whole, &stream) && ps_seen_put(&slot->seen, &stream);
}

/* One field of the state; false when it cannot be. */
static bool take_field(struct ps_slot *slot, const struct ps_pb_field *field, uint64_t *ret_slot,
                       uint64_t *ret_epoch)
{
    struct fields f;
    bool part = field->wire == PS_PB_BYTES;
    if (part && !read_fields(field->bytes, &f)) {
        return false;
    }
    switch (field->number) {
    case F_SLOT: *ret_slot = field->value; return !part;
    case F_EPOCH: *ret_epoch = field->value; return !part;
    case F_POSITION: slot->appended = field->value; return !part;
    case F_EPOCHS: return part && add_epoch(slot, &f);
    case F_SESSIONS_VERSION: slot->sessions_version = field->value; return !part;
    case F_SESSIONS: return part && add_session(slot, &f);
    case F_FINISHED_VERSION: slot->finished_version = field->value; return !part;
    case F_FINISHED: return part && add_finished(slot, &f);
    case F_CLOSED_STEPS: slot->closed_steps = field->value; return !part;
    case F_STREAMS: return part && add_stream(slot, &f, field->bytes);
    default: return true; /* Of a newer build. */
    }
}

enum ps_status ps_slot_state_read(struct ps_slot *slot, struct ps_cursor bytes,
                                  struct ps_error *err)
{
    struct ps_pb_field field;
    uint64_t number = 0;
    uint64_t epoch = 0;
    PS_ASSERT(slot->appended == 0 && slot->n_epochs == 0);
    while (ps_pb_next(&bytes, &field)) {
        if (!take_field(slot, &field, &number, &epoch)) {
            return ps_fail(err, PS_ERR_CORRUPT, "state of slot %u: field %u cannot be",
                           slot->number, field.number);
        }
    }
    if (bytes.failed || number != slot->number) {
        return ps_fail(err, PS_ERR_CORRUPT, "state of slot %u: it is damaged, or of slot %" PRIu64,
                       slot->number, number);
    }
    uint64_t first = slot->n_epochs > 0 ? slot->epochs[slot->n_epochs - 1].first : 0;
    if (epoch != ps_slot_line_epoch(slot) || first > slot->appended ||
        (slot->n_epochs == 0 && slot->appended > 0)) {
        return ps_fail(err, PS_ERR_CORRUPT,
                       "state of slot %u: position %" PRIu64 " of epoch %" PRIu64
                       " is not in its epochs",
                       slot->number, slot->appended, epoch);
    }
    slot->epoch = epoch;
    slot->committed = slot->appended;
    slot->applied = slot->appended;
    slot->primary = false;
    return PS_OK;
}

void ps_slot_state_forget(struct ps_slot *slot)
{
    struct ps_seen *seen = &slot->seen;
    for (uint32_t i = 0; i < seen->n_streams_max;) {
        struct ps_seen_stream *stream = &seen->streams[i];
        if (stream->key >= PS_SEEN_LEASES_END) {
            ps_seen_drop(seen, stream->key); /* Another one may have moved to i: look again. */
        } else {
            stream->owner = 0;
            i++;
        }
    }
    slot->n_sessions = 0;
    slot->sessions_version = 0;
    slot->finished_version = 0;
}
