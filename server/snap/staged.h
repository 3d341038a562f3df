#ifndef PS_SERVER_SNAP_STAGED_H
#define PS_SERVER_SNAP_STAGED_H
/*
 * snap/staged.h — the file STAGED: gradients of aggregated steps that were not closed. Each is its
 * length (u64) and the body of its STAGE record as the log writes it (log/wal_format.h). Private.
 */
#include "log/wal_format.h"
#include "snap/read_impl.h"

#define PS_SNAP_STAGED_BYTES_MAX (PS_MESSAGE_BYTES_MAX + PS_WAL_FIXED_BYTES_MAX)

/** Show the records of the part's slots in `slots`. */
PS_MUST_CHECK enum ps_status ps_snap_load_staged(const struct ps_snap *snap,
                                                 const struct ps_snap_found *found, uint64_t slots,
                                                 const struct ps_snap_visitor *visitor,
                                                 struct ps_error *err);

#endif
