/*
 * fuzz_wal.c — a segment of a log: read to a record within its bounds, or refused.
 *
 * The first byte says how the rest becomes a file: as it is; or behind a good head, with all sums
 * made good, so that what has to be checked is what records say.
 */
#include <string.h>

#include "base/bytes.h"
#include "base/limits.h"
#include "fuzz.h"
#include "log/recover.h"
#include "log/wal_format.h"
#include "num/checksum.h"
#include "unit/log/fault_disk.h"

#define FILE_BYTES_MAX (64u << 10)
#define SALT           77u
#define PATH           "log/0000000000000001.log"

/* Touch everything that a record points to. */
static uint64_t touch(const struct ps_record *record)
{
    uint64_t sum = record->epoch + record->position;
    uint64_t n_bytes = 0;
    PS_ASSERT(record->slot < PS_SLOTS);
    switch (record->kind) {
    case PS_RECORD_PUSH:
    case PS_RECORD_STAGE:
        PS_ASSERT(record->push.n_parts <= PS_CALL_PARTS_MAX && record->push.msg != NULL);
        for (uint32_t i = 0; i < record->push.n_parts; i++) {
            n_bytes += record->push.parts[i].n_bytes;
        }
        PS_ASSERT(n_bytes == record->push.payload.n_left);
        for (struct ps_cursor c = record->push.payload; c.n_left > 0;) {
            uint8_t byte = 0;
            ps_cursor_copy(&c, &byte, 1);
            sum += byte;
        }
        break;
    case PS_RECORD_CLOSE:
        for (uint32_t i = 0; i < record->close.n_entries; i++) {
            sum += record->close.entries[i].lease + record->close.entries[i].rows;
        }
        break;
    case PS_RECORD_SESSIONS:
        PS_ASSERT(record->sessions.n_sessions <= PS_SESSIONS_MAX);
        for (uint32_t i = 0; i < record->sessions.n_sessions; i++) {
            sum += record->sessions.sessions[i].number + record->sessions.sessions[i].id.bytes[15];
        }
        for (uint32_t i = 0; i < record->sessions.n_staged; i++) {
            sum += record->sessions.staged[i];
        }
        break;
    case PS_RECORD_FINISH:
        PS_ASSERT(record->finish.n_ranges <= PS_SEEN_FINISHED_MAX);
        for (uint32_t i = 0; i < record->finish.n_ranges; i++) {
            sum += record->finish.ranges[i].last;
        }
        break;
    case PS_RECORD_EPOCH: sum += record->begun.term; break;
    }
    return sum;
}

static volatile uint64_t sink; /* What is touched is not optimised away. */

static enum ps_status see_record(void *arg, uint64_t lsn, const struct ps_record *record,
                                 struct ps_error *err)
{
    (void)arg;
    (void)lsn;
    (void)err;
    sink += touch(record);
    return PS_OK;
}

static enum ps_status see_table(void *arg, uint64_t lsn, uint32_t number, const uint8_t *bytes,
                                size_t n_bytes, struct ps_error *err)
{
    (void)arg;
    (void)lsn;
    (void)err;
    PS_ASSERT(number < PS_TABLES_MAX);
    sink += n_bytes > 0 ? bytes[n_bytes - 1] : 0u;
    return PS_OK;
}

static enum ps_status see_generation(void *arg, uint64_t lsn, uint64_t generation, const char *dir,
                                     const char *cut, struct ps_error *err)
{
    (void)arg;
    (void)lsn;
    (void)err;
    sink += generation + strlen(dir) + strlen(cut);
    return PS_OK;
}

/* Heads and sums that hold, around whatever bodies there are. */
static void make_good(uint8_t *file, size_t n_bytes)
{
    size_t at = PS_WAL_SEGMENT_HEAD_BYTES;
    for (uint64_t lsn = 1; n_bytes - at >= PS_WAL_HEAD_BYTES; lsn++) {
        size_t n_left = n_bytes - at - PS_WAL_HEAD_BYTES;
        uint32_t kind = ps_load_u32(file + at + 36) % (PS_WAL_SEAL + 1u);
        struct ps_wal_head head = {
            .kind = kind == PS_WAL_NOTHING ? PS_WAL_RECORD : (enum ps_wal_kind)kind,
            .lsn = lsn,
            .durable_upto = ps_load_u64(file + at + 24) % lsn,
            .n_body = (uint32_t)(ps_load_u32(file + at + 32) % (n_left / 8 * 8 + 1)),
        };
        const uint8_t *body = file + at + PS_WAL_HEAD_BYTES;
        memset(file + at + PS_WAL_HEAD_BYTES + head.n_body, 0,
               ps_wal_record_bytes(head.n_body) - PS_WAL_HEAD_BYTES - head.n_body);
        head.body_sum = ps_checksum64(body, head.n_body, SALT);
        ps_wal_head_write(&head, SALT, file + at);
        at += ps_wal_record_bytes(head.n_body);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    static uint8_t file[FILE_BYTES_MAX];
    if (n_bytes < 1 || n_bytes > FILE_BYTES_MAX - PS_WAL_SEGMENT_HEAD_BYTES) {
        return 0;
    }
    bool good = data[0] % 2 == 1;
    size_t n_head = good ? PS_WAL_SEGMENT_HEAD_BYTES : 0;
    size_t n_file = n_head + n_bytes - 1;
    memcpy(file + n_head, data + 1, n_bytes - 1);
    if (good) {
        struct ps_wal_segment segment = {.salt = SALT, .first_lsn = 1, .n_bytes = n_file};
        ps_wal_segment_write(&segment, file);
        make_good(file, n_file);
    }
    struct fault_disk disk;
    fault_disk_init(&disk);
    fault_disk_put(&disk, PATH, file, n_file);
    struct ps_wal_visitor visitor = {
        .record = see_record, .table = see_table, .generation = see_generation};
    struct ps_wal_recovery recovery = {
        .disk = &disk.base, .dir = "log", .repair = data[0] / 2 % 2 == 1};
    struct ps_wal_recovered recovered;
    struct ps_error err = {0};
    enum ps_status status = ps_wal_recover(&recovery, &visitor, &recovered, &err);
    PS_ASSERT(status == PS_OK || status == PS_ERR_CORRUPT || status == PS_ERR_UNSUPPORTED);
    PS_ASSERT(status != PS_OK || recovered.end.n_bytes <= n_file);
    if (status == PS_OK && recovery.repair) { /* What was mended is whole. */
        uint64_t next_lsn = recovered.end.next_lsn;
        status = ps_wal_recover(&recovery, &visitor, &recovered, &err);
        PS_ASSERT(status == PS_OK && recovered.end.next_lsn == next_lsn);
    }
    PS_ASSERT(disk.n_open == 0);
    fault_disk_deinit(&disk);
    return 0;
}
