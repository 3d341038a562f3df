/* replay_records.c — see replay.h: records into tables, in the order of the log. */
#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "replay.h"

/* A record's payload in one piece. Freed with ps_mem_free; NULL without memory. */
static uint8_t *payload_of(const struct ps_record_push *push, size_t n_more, size_t *ret_n_bytes)
{
    size_t n_bytes = 0;
    for (uint32_t i = 0; i < push->n_parts; i++) {
        n_bytes += push->parts[i].n_bytes;
    }
    struct ps_cursor from = push->payload;
    uint8_t *to = ps_mem_alloc(NULL, PS_MEM_OTHER, n_more + n_bytes);
    if (to != NULL) {
        ps_cursor_copy(&from, to + n_more, n_bytes);
    }
    if (to != NULL && from.failed) {
        ps_mem_free(to);
        to = NULL;
    }
    *ret_n_bytes = n_bytes;
    return to;
}

static enum ps_status push(struct replay *replay, const struct ps_record *record,
                           struct ps_error *err)
{
    const struct ps_record_push *p = &record->push;
    size_t n_bytes = 0;
    uint8_t *payload = payload_of(p, 0, &n_bytes);
    if (payload == NULL) {
        return ps_fail(err, PS_ERR_CORRUPT, "slot %u position %" PRIu64 ": no such payload",
                       record->slot, record->position);
    }
    enum ps_status status = PS_OK;
    const uint8_t *at = payload;
    for (uint32_t i = 0; i < p->n_parts && status == PS_OK; i++) {
        const struct ps_part *part = &p->parts[i];
        status = part->n_keys > 0 ? replay_push_rows(replay, record->slot, p, part, at, err)
                                  : replay_push_block(replay, part, p->rate, p->scale, at, err);
        at += part->n_bytes;
    }
    ps_mem_free(payload);
    return status == PS_OK
               ? PS_OK
               : ps_wrap(err, status, "slot %u position %" PRIu64, record->slot, record->position);
}

/* ---- Aggregated bsp ------------------------------------------------------------------------- */

enum ps_status replay_stage(struct replay *replay, const struct ps_record *record,
                            struct ps_error *err)
{
    const struct ps_record_push *p = &record->push;
    size_t n_parts_bytes = p->n_parts * sizeof(p->parts[0]);
    size_t n_bytes = 0;
    uint8_t *memory = payload_of(p, sizeof(struct replay_staged) + n_parts_bytes, &n_bytes);
    if (memory == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for a staged gradient");
    }
    struct replay_staged *staged = (struct replay_staged *)(void *)memory;
    *staged = (struct replay_staged){.slot = record->slot,
                                     .session = p->session,
                                     .step = p->step,
                                     .lease = p->item.stream,
                                     .unit = p->item.sequence,
                                     .rows = p->rows,
                                     .rate = p->rate,
                                     .n_parts = p->n_parts,
                                     .parts = (struct ps_part *)(void *)(staged + 1),
                                     .payload = memory + sizeof(*staged) + n_parts_bytes};
    memcpy(staged->parts, p->parts, n_parts_bytes);
    struct replay_staged **end = &replay->staged;
    while (*end != NULL) {
        end = &(*end)->next;
    }
    *end = staged;
    return PS_OK;
}

/* The gradient of one block that an entry of the list stands for, or NULL. */
static const uint8_t *find_staged(const struct replay *replay, const struct ps_record *record,
                                  const struct ps_close_entry *entry, const struct ps_part *want,
                                  float *ret_rate)
{
    for (const struct replay_staged *s = replay->staged; s != NULL; s = s->next) {
        if (s->slot != record->slot || s->step != record->close.step ||
            s->session != entry->session || s->lease != entry->lease || s->unit != entry->unit) {
            continue;
        }
        const uint8_t *at = s->payload;
        for (uint32_t i = 0; i < s->n_parts; at += s->parts[i].n_bytes, i++) {
            if (s->parts[i].table == want->table && s->parts[i].block == want->block &&
                s->parts[i].n_bytes == want->n_bytes) {
                *ret_rate = s->rate;
                return at;
            }
        }
    }
    return NULL;
}

/* The mean of a block over the list: sum(rows * g) / sum(rows), in the order of the list. */
static enum ps_status close_block(struct replay *replay, const struct ps_record *record,
                                  const struct ps_part *part, struct ps_error *err)
{
    size_t n = part->n_bytes / sizeof(float);
    float *sum = ps_mem_array(NULL, PS_MEM_OTHER, n + 1, sizeof(float));
    uint64_t n_rows = 0;
    float rate = 0.0f;
    for (uint32_t e = 0; e < record->close.n_entries && sum != NULL; e++) {
        const struct ps_close_entry *entry = &record->close.entries[e];
        const uint8_t *grad =
            entry->rows > 0 ? find_staged(replay, record, entry, part, &rate) : NULL;
        for (size_t i = 0; grad != NULL && i < n; i++) {
            float g;
            memcpy(&g, grad + i * sizeof(g), sizeof(g));
            sum[i] = sum[i] + (float)entry->rows * g;
        }
        n_rows += grad != NULL ? entry->rows : 0;
    }
    enum ps_status status = sum != NULL ? PS_OK : ps_fail(err, PS_ERR_NOMEM, "no memory");
    if (n_rows > 0) {
        status =
            replay_push_block(replay, part, rate, 1.0f / (float)n_rows, (const uint8_t *)sum, err);
    }
    ps_mem_free(sum);
    return status;
}

/* Is this the first one that brings the block? Each block is closed once. */
static bool first_with(const struct replay *replay, const struct replay_staged *staged,
                       const struct ps_part *part)
{
    for (const struct replay_staged *s = replay->staged; s != staged; s = s->next) {
        for (uint32_t i = 0; i < s->n_parts; i++) {
            if (s->slot == staged->slot && s->step == staged->step &&
                s->parts[i].table == part->table && s->parts[i].block == part->block) {
                return false;
            }
        }
    }
    return true;
}

static void drop(struct replay *replay,
                 bool (*over)(const struct replay_staged *, const struct ps_record *),
                 const struct ps_record *record)
{
    for (struct replay_staged **at = &replay->staged; *at != NULL;) {
        struct replay_staged *staged = *at;
        if (staged->slot == record->slot && over(staged, record)) {
            *at = staged->next;
            ps_mem_free(staged);
        } else {
            at = &staged->next;
        }
    }
}

static bool is_closed(const struct replay_staged *staged, const struct ps_record *record)
{
    return staged->step <= record->close.step;
}

static enum ps_status close_step(struct replay *replay, const struct ps_record *record,
                                 struct ps_error *err)
{
    enum ps_status status = PS_OK;
    for (const struct replay_staged *s = replay->staged; s != NULL; s = s->next) {
        for (uint32_t i = 0; i < s->n_parts && status == PS_OK; i++) {
            if (s->slot == record->slot && s->step == record->close.step &&
                first_with(replay, s, &s->parts[i])) {
                status = close_block(replay, record, &s->parts[i], err);
            }
        }
    }
    drop(replay, is_closed, record);
    return status;
}

/* Its session is over, and no list will name it. */
static bool is_orphan(const struct replay_staged *staged, const struct ps_record *record)
{
    for (uint32_t i = 0; i < record->sessions.n_sessions; i++) {
        if (record->sessions.sessions[i].number == staged->session) {
            return false;
        }
    }
    for (uint32_t i = 0; i < record->sessions.n_staged; i++) {
        if (record->sessions.staged[i] == staged->session) {
            return false;
        }
    }
    return true;
}

/* ---- One record ----------------------------------------------------------------------------- */

static enum ps_status apply(struct replay *replay, const struct ps_record *record,
                            struct ps_error *err)
{
    switch (record->kind) {
    case PS_RECORD_PUSH: return push(replay, record, err);
    case PS_RECORD_STAGE: return replay_stage(replay, record, err);
    case PS_RECORD_CLOSE: return close_step(replay, record, err);
    case PS_RECORD_SESSIONS:
        if (record->sessions.knows_staged) {
            drop(replay, is_orphan, record);
        }
        return PS_OK;
    case PS_RECORD_FINISH: /* Neither is of a table. */
    case PS_RECORD_EPOCH: return PS_OK;
    }
    return ps_fail(err, PS_ERR_UNSUPPORTED,
                   "slot %u position %" PRIu64 ": a record of kind %d is not known to this program",
                   record->slot, record->position, (int)record->kind);
}

enum ps_status replay_record(struct replay *replay, const struct ps_record *record,
                             struct ps_error *err)
{
    struct replay_slot *slot = record->slot < PS_SLOTS ? &replay->slots[record->slot] : NULL;
    if (slot == NULL || !slot->wanted || record->position <= slot->position ||
        record->position > slot->target) {
        return PS_OK;
    }
    if (record->position != slot->position + 1) {
        return ps_fail(err, PS_ERR_CORRUPT,
                       "slot %u: the record behind position %" PRIu64 " has position %" PRIu64
                       ": what is between is missing",
                       record->slot, slot->position, record->position);
    }
    slot->position = record->position;
    slot->n_replayed++;
    replay->n_records++;
    return apply(replay, record, err);
}

bool replay_done(const struct replay *replay)
{
    for (uint32_t i = 0; i < PS_SLOTS; i++) {
        if (replay->slots[i].wanted && replay->slots[i].position < replay->slots[i].target) {
            return false;
        }
    }
    return true;
}
