/* rig.c — see rig.h. */
#include "unit/log/rig.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "base/assert.h"
#include "base/attr.h"
#include "log/wal_format.h"

/* ---- Records --------------------------------------------------------------------------------- */

static void make_push(struct rig_entry *entry, uint64_t i)
{
    struct ps_record_push *push = &entry->entry.record.push;
    uint32_t n_payload = 0;
    push->n_parts = (uint32_t)(i % (RIG_PARTS + 1));
    for (uint32_t k = 0; k < push->n_parts; k++) {
        uint32_t n_bytes = (uint32_t)ps_rng_at(i, 1, k) % (RIG_PAYLOAD_MAX / RIG_PARTS);
        entry->parts[k] = (struct ps_part){.table = k,
                                           .block = (uint32_t)i,
                                           .dtype = 1,
                                           .n_bytes = n_bytes,
                                           .n_keys = n_bytes / 16,
                                           .n_key_bytes = n_bytes / 2};
        n_payload += n_bytes;
    }
    for (uint32_t k = 0; k < n_payload; k++) {
        entry->payload[k] = (uint8_t)ps_rng_at(i, 2, k);
    }
    uint32_t n_first = n_payload / 3;
    uint32_t n_second = n_payload / 5;
    entry->runs[0] = (struct ps_slice){.data = entry->payload, .n_bytes = n_first};
    entry->runs[1] = (struct ps_slice){.data = entry->payload + n_first, .n_bytes = n_second};
    entry->runs[2] = (struct ps_slice){.data = entry->payload + n_first + n_second,
                                       .n_bytes = n_payload - n_first - n_second};
    push->session = i + 1;
    push->step = i * 3;
    push->clock = i / 2;
    push->item = (struct ps_seen_item){.stream = i + 7,
                                       .sequence = i,
                                       .fragment = 1,
                                       .n_fragments = 3,
                                       .owner = i + 1,
                                       .acked_below = i / 3};
    push->rows = (uint32_t)i + 5;
    push->rate = 0.5f / (float)(i + 1);
    push->scale = 1.0f;
    push->parts = entry->parts;
    push->payload = ps_cursor_over(entry->runs, RIG_RUNS);
}

static void make_close(struct rig_entry *entry, uint64_t i)
{
    for (uint32_t k = 0; k < 2; k++) {
        entry->closed[k] = (struct ps_close_entry){
            .session = i + k, .lease = i * 2 + k, .unit = (uint32_t)i, .rows = k};
    }
    entry->entry.record.close = (struct ps_record_close){
        .step = i, .entries = entry->closed, .n_entries = (uint32_t)(i % 3)};
}

static void make_sessions(struct rig_entry *entry, uint64_t i)
{
    for (uint32_t k = 0; k < 2; k++) {
        entry->sessions[k].number = i + k;
        memset(entry->sessions[k].id.bytes, (int)(i + k), 16);
    }
    for (uint32_t k = 0; k < 3; k++) {
        entry->staged[k] = i * 5 + k;
    }
    entry->entry.record.sessions = (struct ps_record_sessions){.version = i,
                                                               .sessions = entry->sessions,
                                                               .n_sessions = (uint32_t)(i % 3),
                                                               .knows_staged = i % 2 == 0,
                                                               .staged = entry->staged,
                                                               .n_staged = (uint32_t)(i % 4)};
}

void rig_make_record(struct rig_entry *entry, uint64_t i)
{
    static const enum ps_record_kind kinds[] = {
        PS_RECORD_EPOCH,    PS_RECORD_PUSH,  PS_RECORD_PUSH,   PS_RECORD_STAGE,
        PS_RECORD_SESSIONS, PS_RECORD_CLOSE, PS_RECORD_FINISH, PS_RECORD_PUSH,
    };
    struct ps_record *record = &entry->entry.record;
    *record = (struct ps_record){.kind = kinds[i % PS_ARRAY_LEN(kinds)],
                                 .slot = (uint32_t)(i % PS_SLOTS),
                                 .epoch = i / 7 + 1,
                                 .position = i / 5 + 1};
    switch (record->kind) {
    case PS_RECORD_PUSH:
    case PS_RECORD_STAGE: make_push(entry, i); break;
    case PS_RECORD_CLOSE: make_close(entry, i); break;
    case PS_RECORD_SESSIONS: make_sessions(entry, i); break;
    case PS_RECORD_FINISH:
        for (uint32_t k = 0; k < 2; k++) {
            entry->ranges[k] = (struct ps_seen_range){.first = i * 9 + k, .last = i * 10 + k};
        }
        record->finish = (struct ps_record_finish){
            .version = i, .ranges = entry->ranges, .n_ranges = (uint32_t)(i % 3)};
        break;
    case PS_RECORD_EPOCH: record->begun.term = i + 100; break;
    }
}

/* Both as bytes: what the format keeps is compared, whatever it is. */
static size_t bytes_of(const struct ps_record *record, uint8_t *to)
{
    size_t n = ps_wal_fixed_write(record, to);
    size_t n_payload = ps_wal_payload_bytes(record);
    struct ps_cursor payload = record->push.payload;
    if (n_payload > 0) {
        ps_cursor_copy(&payload, to + n, n_payload);
    }
    return n + n_payload;
}

bool rig_same_record(const struct ps_record *a, const struct ps_record *b)
{
    static uint8_t bytes_a[4096];
    static uint8_t bytes_b[4096];
    if (ps_wal_fixed_bytes(a) + ps_wal_payload_bytes(a) > sizeof(bytes_a)) {
        return false;
    }
    size_t n_a = bytes_of(a, bytes_a);
    size_t n_b = bytes_of(b, bytes_b);
    return n_a == n_b && memcmp(bytes_a, bytes_b, n_a) == 0;
}

/* ---- Lanes ----------------------------------------------------------------------------------- */

static void hear(struct ps_mail *mail)
{
    struct rig_lane *lane = PS_CONTAINER_OF(mail, struct rig_lane, sink.mail);
    struct rig *rig = lane->rig;
    uint64_t committed = ps_commit_listen(&lane->sink);
    PS_ASSERT(committed >= lane->heard && committed <= lane->n_tickets);
    lane->heard = committed;
    lane->n_mails++;
    for (uint64_t i = 0; i < rig->n_entries; i++) {
        struct rig_entry *entry = &rig->entries[i];
        uint64_t nth = rig->n_appended - rig->n_entries + i;
        if (entry->entry.sink == &lane->sink && entry->entry.ticket <= committed) {
            PS_ASSERT(entry->entry.lsn > 0);
            rig->n_acked = nth + 1 > rig->n_acked ? nth + 1 : rig->n_acked;
            memset(entry->payload, 0xee, sizeof(entry->payload)); /* The lane's again. */
        }
    }
}

void rig_append(struct rig *rig, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        PS_ASSERT(rig->n_entries < RIG_ENTRIES_MAX);
        struct rig_entry *entry = &rig->entries[rig->n_entries++];
        struct rig_lane *lane = &rig->lanes[ps_rng_at(3, 4, rig->n_appended) % RIG_LANES];
        memset(entry, 0, sizeof(*entry));
        rig_make_record(entry, rig->n_appended++);
        entry->entry.ticket = ++lane->n_tickets;
        entry->entry.sink = &lane->sink;
        bool at_once = ps_commit_append(ps_wal_committer(rig->wal), &entry->entry);
        PS_ASSERT(!at_once);
    }
}

void rig_pump(struct rig *rig)
{
    for (uint32_t i = 0; i < 4; i++) {
        ps_inline_exec_pump(&rig->exec);
        ps_inline_exec_pump(&rig->home);
    }
}

void rig_wait(struct rig *rig, uint64_t ms)
{
    rig->now_ns += ms * 1000000;
    rig_pump(rig);
}

void rig_append_each(struct rig *rig, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        rig_append(rig, 1);
        rig_pump(rig);
    }
}

/* ---- Reading --------------------------------------------------------------------------------- */

struct check {
    uint64_t n;
    uint64_t lsn;
};

static enum ps_status check_record(void *arg, uint64_t lsn, const struct ps_record *record,
                                   struct ps_error *err)
{
    static struct rig_entry expected;
    struct check *check = arg;
    rig_make_record(&expected, check->n);
    if (lsn <= check->lsn || !rig_same_record(record, &expected.entry.record)) {
        return ps_fail(err, PS_ERR_INTERNAL, "lsn %" PRIu64 " is not record %" PRIu64, lsn,
                       check->n);
    }
    check->n++;
    check->lsn = lsn;
    return PS_OK;
}

static enum ps_status recover(struct rig *rig, bool repair, uint64_t *ret_n, struct ps_error *err)
{
    struct check check = {0};
    struct ps_wal_visitor visitor = {.record = check_record, .arg = &check};
    struct ps_wal_recovery recovery = {
        .disk = &rig->disk.base,
        .dir = RIG_DIR,
        .mem = &rig->mem,
        .server = rig->options.server,
        .repair = repair,
        .plant_middle_truncated = rig->plant_middle_truncated,
        .plant_reorder_equal_lsn = rig->options.plant.reorder_equal_lsn,
    };
    enum ps_status status = ps_wal_recover(&recovery, &visitor, &rig->recovered, err);
    rig->n_torn += repair && rig->recovered.n_bytes_torn > 0 ? 1 : 0;
    *ret_n = check.n;
    return status;
}

enum ps_status rig_read(struct rig *rig, uint64_t *ret_n, struct ps_error *err)
{
    return recover(rig, false, ret_n, err);
}

/* ---- Life ------------------------------------------------------------------------------------ */

static uint64_t clock_ns(void *arg)
{
    return ((struct rig *)arg)->now_ns;
}

static void failed(void *arg, const struct ps_error *err)
{
    struct rig *rig = arg;
    rig->n_failed++;
    rig->failure = *err;
}

struct rig *rig_create(uint64_t segment_bytes, bool sync)
{
    struct rig *rig = calloc(1, sizeof(*rig));
    PS_ASSERT(rig != NULL);
    fault_disk_init(&rig->disk);
    ps_mem_init(&rig->mem);
    rig->salt = 11;
    rig->options = (struct ps_wal_options){
        .disk = &rig->disk.base,
        .dir = RIG_DIR,
        .exec = &rig->exec.base,
        .mem = &rig->mem,
        .metrics = &rig->metrics,
        .server = {.bytes = {1, 2, 3}},
        .sync = sync,
        .segment_bytes = segment_bytes,
        .failed = failed,
        .arg = rig,
    };
    return rig;
}

void rig_destroy(struct rig *rig)
{
    rig_kill(rig);
    ck_assert_uint_eq(rig->disk.n_open, 0);
    for (uint32_t i = 0; i < PS_MEM_CLASS_COUNT; i++) {
        ck_assert_uint_eq(atomic_load(&rig->mem.used[i]), 0);
    }
    fault_disk_deinit(&rig->disk);
    free(rig);
}

enum ps_status rig_start(struct rig *rig, struct ps_error *err)
{
    uint64_t n = 0;
    ps_inline_exec_init(&rig->exec, clock_ns, rig);
    ps_inline_exec_init(&rig->home, clock_ns, rig);
    memset(rig->lanes, 0, sizeof(rig->lanes));
    for (uint32_t i = 0; i < RIG_LANES; i++) {
        rig->lanes[i].sink.exec = &rig->home.base;
        rig->lanes[i].sink.mail.run = hear;
        rig->lanes[i].rig = rig;
    }
    enum ps_status status = recover(rig, true, &n, err);
    if (status != PS_OK) {
        return status;
    }
    if (n < rig->n_acked) {
        return ps_fail(err, PS_ERR_LOST, "%" PRIu64 " of %" PRIu64 " acknowledged records", n,
                       rig->n_acked);
    }
    rig->n_acked = n; /* What is applied again may be answered "already". */
    rig->n_appended = n;
    rig->n_entries = 0;
    rig->options.salt = ++rig->salt;
    return ps_wal_open(&rig->options, &rig->recovered.end, &rig->wal, err);
}

void rig_kill(struct rig *rig)
{
    rig->disk.last_op = 0;
    ps_wal_destroy(rig->wal);
    rig->wal = NULL;
    fault_disk_heal(&rig->disk);
}

bool rig_segment(struct rig *rig, uint32_t k, char path[64])
{
    struct ps_disk_entry *entries = NULL;
    size_t n = 0;
    uint32_t n_segments = 0;
    enum ps_status status = ps_disk_list(&rig->disk.base, RIG_DIR, &entries, &n, NULL);
    PS_ASSERT(status == PS_OK);
    bool found = false;
    for (size_t i = 0; i < n && !found; i++) {
        uint64_t lsn = 0;
        if (ps_wal_name_parse(entries[i].name, &lsn) && n_segments++ == k) {
            (void)snprintf(path, 64, "%s/%.40s", RIG_DIR, entries[i].name);
            found = true;
        }
    }
    ps_mem_free(entries);
    return found;
}
