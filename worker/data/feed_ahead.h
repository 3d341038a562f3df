#ifndef PS_WORKER_DATA_FEED_AHEAD_H
#define PS_WORKER_DATA_FEED_AHEAD_H
/*
 * data/feed_ahead.h — a thread that reads the next window while its owner uses the one before.
 *
 * Between `begin` and `end` windows and target belong to the thread, else to the owner. One owner.
 */
#include "base/attr.h"
#include "base/error.h"
#include "data/feed_window.h"

struct ps_feed_ahead;

/** Start the thread, which has nothing to do. @return PS_ERR_NOMEM */
PS_MUST_CHECK enum ps_status ps_feed_ahead_create(struct ps_mem *mem,
                                                  struct ps_feed_windows *windows,
                                                  struct ps_feed_ahead **ret, struct ps_error *err);

/** Waits for what is under way. NULL does nothing. */
void ps_feed_ahead_destroy(struct ps_feed_ahead *ahead);

/** Read the next window into `target`; nothing is under way. */
void ps_feed_ahead_begin(struct ps_feed_ahead *ahead, struct ps_feed_window *target);

/** Wait for what was begun. @return as ps_feed_windows_next */
PS_MUST_CHECK enum ps_status ps_feed_ahead_end(struct ps_feed_ahead *ahead, struct ps_error *err);

#endif
