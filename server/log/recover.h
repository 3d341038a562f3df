#ifndef PS_SERVER_LOG_RECOVER_H
#define PS_SERVER_LOG_RECOVER_H
/*
 * log/recover.h — read a log from one record on to its end, and be sure of the end.
 *
 * A bad record is the torn end of the log, which nobody was told of, or it is damage. It is the end
 * only if no later record, wherever it stands, says that this one was durable (`durable_upto`).
 * Everything else is PS_ERR_CORRUPT with file and offset. Blocks; one thread.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/id.h"
#include "base/mem.h"
#include "log/wal.h"
#include "port/disk.h"
#include "slot/record.h"

/** Who gets the records, in the order of the log. A failure ends the reading with it. */
struct ps_wal_visitor {
    /**
     * What `record` points to is valid during the call, but for PUSH and STAGE what `record->msg`
     * keeps: payload and parts stay as long as somebody holds a reference.
     */
    enum ps_status (*record)(void *arg, uint64_t lsn, const struct ps_record *record,
                             struct ps_error *err);
    enum ps_status (*table)(void *arg, uint64_t lsn, uint32_t number, const uint8_t *bytes,
                            size_t n_bytes, struct ps_error *err);
    enum ps_status (*generation)(void *arg, uint64_t lsn, uint64_t generation, const char *dir,
                                 const char *cut, struct ps_error *err);
    void *arg;
};

struct ps_wal_recovery {
    struct ps_disk *disk;
    const char *dir; /* One that does not exist is an empty log. */
    struct ps_mem *mem;
    struct ps_id server; /* Whose log it must be; none: anybody's. */
    uint64_t from_lsn;   /* First record to be visited; 0: the first that is there. */
    /**
     * This server will go on with the log: what is read is made durable, a torn end is taken away.
     * Else nothing on the disk is changed.
     */
    bool repair;
    bool plant_middle_truncated; /* Planted bugs, test builds only. */
    bool plant_reorder_equal_lsn;
};

struct ps_wal_recovered {
    struct ps_wal_end end;
    uint64_t first_lsn; /* Of the oldest record that is there. */
    uint64_t n_records; /* Visited, of all kinds. */
    uint64_t n_bytes_read;
    uint64_t n_bytes_torn; /* Of an end that nobody was told of. */
    uint64_t torn_at;      /* Its offset in the last segment. */
};

/**
 * Functions of the visitor may be NULL: such records are checked and passed over. Crashing in the
 * middle and doing it again gives the same.
 *
 * @return PS_ERR_CORRUPT "file:offset: what; what to do", PS_ERR_IO, PS_ERR_NOMEM, PS_ERR_NO_SPACE,
 *         what the visitor returned
 */
PS_MUST_CHECK enum ps_status ps_wal_recover(const struct ps_wal_recovery *recovery,
                                            const struct ps_wal_visitor *visitor,
                                            struct ps_wal_recovered *ret, struct ps_error *err);

/**
 * A record from its body (wal_format.h), in a message of its own: `*ret` and what it points to are
 * valid while somebody holds `*ret_msg`, of which the caller gets a reference.
 * @return PS_ERR_CORRUPT with words, PS_ERR_NOMEM
 */
PS_MUST_CHECK enum ps_status ps_wal_hold(struct ps_mem *mem, const uint8_t *body, size_t n_body,
                                         struct ps_record *ret, struct ps_msg **ret_msg,
                                         struct ps_error *err);

#endif
