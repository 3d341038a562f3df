#ifndef PS_SERVER_LOG_WAL_FORMAT_H
#define PS_SERVER_LOG_WAL_FORMAT_H
/*
 * log/wal_format.h — the bytes of a log: segments, heads of records, bodies. README.md has them as
 * tables. Pure; nothing allocates. What is read are foreign bytes: whatever they are, reading
 * says no or gives a record within the bounds of base/limits.h.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/id.h"
#include "slot/record.h"

#define PS_WAL_SEGMENT_HEAD_BYTES 72u
#define PS_WAL_HEAD_BYTES         40u            /* Of a record. */
#define PS_WAL_ALIGN              8u             /* Where records begin. */
#define PS_WAL_NAME_BYTES         21u            /* "0123456789abcdef.log" and the end. */
#define PS_WAL_NEXT_NAME          "next.segment" /* A segment that has no name yet. */
/* Of a body without the payload of a push and without bytes of others. */
#define PS_WAL_FIXED_BYTES_MAX (64u << 10)

enum ps_wal_kind {
    PS_WAL_NOTHING,    /* Zeros: the room behind the last record. */
    PS_WAL_RECORD,     /* A record of a slot. */
    PS_WAL_TABLE,      /* A table is defined. */
    PS_WAL_GENERATION, /* All before is void. */
    /* From here on there is no body. */
    PS_WAL_NOTE, /* Carries durable_upto, nothing else. */
    /* These two have no lsn of their own, but that of the next record. */
    PS_WAL_END, /* Recovery has found that the log ends here. */
    PS_WAL_SEAL /* The end of a segment: the next one is there. */
};

/** The head of a segment. */
struct ps_wal_segment {
    struct ps_id server;
    bool sync;          /* Its writer synced before it acknowledged. */
    uint64_t salt;      /* Seed of all checksums in it, by chance: old bytes never match. */
    uint64_t prev_salt; /* Of the segment before; 0: there was none. */
    uint64_t first_lsn;
    uint64_t n_bytes; /* As long as it has neither END nor SEAL, the file is so long. */
};

/** The head of a record. */
struct ps_wal_head {
    enum ps_wal_kind kind;
    uint64_t lsn;
    uint64_t durable_upto; /* All records up to it were durable when this one was written. */
    uint32_t n_body;
    uint64_t body_sum;
};

/** "<first lsn, 16 hex>.log" */
void ps_wal_name(uint64_t first_lsn, char name[PS_WAL_NAME_BYTES]);
/** False: no such name. */
PS_MUST_CHECK bool ps_wal_name_parse(const char *name, uint64_t *ret_first_lsn);

void ps_wal_segment_write(const struct ps_wal_segment *segment,
                          uint8_t to[PS_WAL_SEGMENT_HEAD_BYTES]);
/** @return PS_ERR_CORRUPT, PS_ERR_UNSUPPORTED (of a later version), in words */
PS_MUST_CHECK enum ps_status ps_wal_segment_read(const uint8_t from[PS_WAL_SEGMENT_HEAD_BYTES],
                                                 struct ps_wal_segment *ret, struct ps_error *err);

void ps_wal_head_write(const struct ps_wal_head *head, uint64_t salt,
                       uint8_t to[PS_WAL_HEAD_BYTES]);
/** False: these bytes are no head of a record of a segment with this salt. */
PS_MUST_CHECK bool ps_wal_head_read(const uint8_t from[PS_WAL_HEAD_BYTES], uint64_t salt,
                                    struct ps_wal_head *ret);

/** A record with a body of `n_body` bytes takes so many, up to the next one. */
static inline uint64_t ps_wal_record_bytes(uint64_t n_body)
{
    return PS_WAL_HEAD_BYTES + (n_body + PS_WAL_ALIGN - 1) / PS_WAL_ALIGN * PS_WAL_ALIGN;
}

/**
 * Among `n_bytes` bytes of a segment (the first of them at a multiple of PS_WAL_ALIGN): the first
 * head that says that `lsn` was durable. @return its offset, or `n_bytes`: there is none
 */
size_t ps_wal_find_witness(const uint8_t *bytes, size_t n_bytes, uint64_t salt, uint64_t lsn);

/* ---- Bodies ---------------------------------------------------------------------------------- */

/** Bytes of a record's body without its payload; at most PS_WAL_FIXED_BYTES_MAX. */
size_t ps_wal_fixed_bytes(const struct ps_record *record);
/** Bytes of its payload, which follows in the body: that of a push, else 0. */
size_t ps_wal_payload_bytes(const struct ps_record *record);
/** Write all but the payload. @return ps_wal_fixed_bytes */
size_t ps_wal_fixed_write(const struct ps_record *record, uint8_t *to);

/** Room that ps_wal_record_read needs for lists of the record, whatever the body is. */
size_t ps_wal_record_room(const uint8_t *body, size_t n_body);
/**
 * Read a body. Lists of `*ret` lie in `room` (aligned to 8), `*ret_payload` in `body`; the payload
 * and message of a push are the caller's to set. @return PS_ERR_CORRUPT with words
 */
PS_MUST_CHECK enum ps_status ps_wal_record_read(const uint8_t *body, size_t n_body, void *room,
                                                struct ps_record *ret, struct ps_slice *ret_payload,
                                                struct ps_error *err);

/** The body of a TABLE: number, then the bytes; of a GENERATION: below. Before their bytes: */
#define PS_WAL_TABLE_FIXED_BYTES      8u
#define PS_WAL_GENERATION_FIXED_BYTES 16u
#define PS_WAL_PLACE_BYTES_MAX        4096u /* Of a directory or the name of a cut. */

void ps_wal_table_write(uint32_t number, uint8_t to[PS_WAL_TABLE_FIXED_BYTES]);
PS_MUST_CHECK enum ps_status ps_wal_table_read(const uint8_t *body, size_t n_body,
                                               uint32_t *ret_number, struct ps_slice *ret_bytes,
                                               struct ps_error *err);

/** Directory and cut follow, each with a 0 behind it. */
void ps_wal_generation_write(uint64_t generation, const char *dir, const char *cut,
                             uint8_t to[PS_WAL_GENERATION_FIXED_BYTES]);
PS_MUST_CHECK enum ps_status ps_wal_generation_read(const uint8_t *body, size_t n_body,
                                                    uint64_t *ret_generation, const char **ret_dir,
                                                    const char **ret_cut, struct ps_error *err);

#endif
