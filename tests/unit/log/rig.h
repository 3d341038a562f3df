#ifndef PS_TESTS_UNIT_LOG_RIG_H
#define PS_TESTS_UNIT_LOG_RIG_H
/*
 * log/rig.h — a log over a disk in memory, two lanes that append to it, and who reads it again.
 *
 * The i-th record that is appended is a function of i, so whoever reads can tell the record, and
 * whether one is missing, twice or out of order.
 */
#include <stdbool.h>
#include <stdint.h>

#include "log/recover.h"
#include "log/wal.h"
#include "port/inline_exec.h"
#include "unit/log/fault_disk.h"

#define RIG_ENTRIES_MAX 1024u
#define RIG_LANES       2u
#define RIG_PARTS       3u
#define RIG_RUNS        3u
#define RIG_PAYLOAD_MAX 1024u
#define RIG_DIR         "log"

struct rig_entry {
    struct ps_commit_entry entry;
    struct ps_part parts[RIG_PARTS];
    struct ps_slice runs[RIG_RUNS];
    struct ps_close_entry closed[2];
    struct ps_open_session sessions[2];
    uint64_t staged[3];
    struct ps_seen_range ranges[2];
    uint8_t payload[RIG_PAYLOAD_MAX];
};

struct rig_lane {
    struct ps_commit_sink sink;
    struct rig *rig;
    uint64_t n_tickets;
    uint64_t heard;
    uint32_t n_mails;
};

struct rig {
    struct fault_disk disk;
    struct ps_inline_exec exec; /* The log's. */
    struct ps_inline_exec home; /* The lanes'. */
    uint64_t now_ns;
    struct ps_mem mem;
    struct ps_metrics metrics;
    struct ps_wal_options options;
    struct ps_wal *wal;
    struct ps_wal_recovered recovered;
    struct rig_lane lanes[RIG_LANES];
    struct rig_entry entries[RIG_ENTRIES_MAX]; /* Of this process. */
    uint64_t n_entries;
    uint64_t n_appended; /* Records ever; the next one is this. */
    uint64_t n_acked;    /* Records below were acknowledged to somebody, in whatever process. */
    uint32_t n_failed;
    uint32_t n_torn; /* Starts that found a torn end. */
    struct ps_error failure;
    uint64_t salt;
    bool plant_middle_truncated;
};

/** Zeroed memory, since it is large: rig_create, rig_destroy. */
struct rig *rig_create(uint64_t segment_bytes, bool sync);
void rig_destroy(struct rig *rig);

/** Read the log and go on with it. @return what recovery or open returned */
enum ps_status rig_start(struct rig *rig, struct ps_error *err);
/** The process dies: whatever it had not done will not be done. */
void rig_kill(struct rig *rig);

/** Append the next record, or `n` of them in one batch. */
void rig_append(struct rig *rig, uint32_t n);
/** Let log and lanes do what there is to do now. */
void rig_pump(struct rig *rig);
/** Likewise, after time has passed. */
void rig_wait(struct rig *rig, uint64_t ms);
/** Append and pump, one by one. */
void rig_append_each(struct rig *rig, uint32_t n);

/**
 * Read it as others do, changing nothing, and compare each record with what was appended.
 * `*ret_n`: records that are there, from the first one on. PS_ERR_INTERNAL: one is wrong.
 */
enum ps_status rig_read(struct rig *rig, uint64_t *ret_n, struct ps_error *err);

/** The i-th record. */
void rig_make_record(struct rig_entry *entry, uint64_t i);
/** As far as a reader can tell. */
bool rig_same_record(const struct ps_record *a, const struct ps_record *b);

/** The path of the k-th segment, oldest first; false: there are not so many. */
bool rig_segment(struct rig *rig, uint32_t k, char path[64]);

#endif
